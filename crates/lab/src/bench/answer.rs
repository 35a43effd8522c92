//! Work that needs an answer of a target, on a thread of its own, with a limit.
//!
//! # Scope and limits
//! A system call that hangs cannot be ended. Its thread stays behind, and drops the result if it comes after all.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use seeklab_core::Instant;
use seeklab_emulator::clock::Clock;

use crate::stop::Stop;

/// Time for a target to be examined and opened. A disk that has to spin up takes up to half of it.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
/// Time between two looks for a request to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Reason for which there is no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The limit is over.
    Late,
    /// The caller stopped the work.
    Stopped,
    /// There is no thread for the work.
    NoThread(io::Error),
}

/// Does `work` on a thread of its own and returns its result, at most for `limit`.
///
/// # Errors
/// If the limit is over, the caller stops the work, or there is no thread.
///
/// # Panics
/// If the work panics.
pub(super) fn within<T: Send + 'static>(
    limit: Duration,
    stop: &Stop,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unanswered> {
    let (sender, receiver) = channel();
    let work = move || {
        // Nobody waits any more if the limit is over.
        let _ = sender.send(work());
    };
    let thread =
        thread::Builder::new().name("target".to_owned()).spawn(work).map_err(Unanswered::NoThread)?;
    let clock = Clock::start();
    let end = Instant::from_ns(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    loop {
        match receiver.recv_timeout(LOOK.min(limit)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => {
                let panic = thread.join().expect_err("work that ends without a result has panicked");
                std::panic::resume_unwind(panic)
            }
            Err(RecvTimeoutError::Timeout) if stop.is_stopped() => return Err(Unanswered::Stopped),
            Err(RecvTimeoutError::Timeout) if clock.now() >= end => return Err(Unanswered::Late),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_without_an_answer_ends_with_its_limit_or_a_stop() {
        let hangs = |kept: std::sync::Arc<std::sync::Barrier>| move || kept.wait().is_leader();
        let stop = Stop::new();
        assert_eq!(within(LIMIT, &stop, || 5).unwrap(), 5);
        let barrier = std::sync::Arc::new(std::sync::Barrier::new(2));
        let late = within(Duration::from_millis(1), &stop, hangs(barrier.clone()));
        assert!(matches!(late, Err(Unanswered::Late)), "{late:?}");
        barrier.wait();
        stop.stop();
        let stopped = within(LIMIT, &stop, hangs(barrier.clone()));
        assert!(matches!(stopped, Err(Unanswered::Stopped)), "{stopped:?}");
        barrier.wait();
    }
}
