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

/// Time between two looks for a request to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Time that work may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// In all.
    pub(super) limit: Duration,
    /// Behind a request to stop, for work that heeds it.
    pub(super) after_stop: Duration,
}

impl Patience {
    /// For a target to be examined and opened. A disk that has to spin up takes up to half of it.
    pub(super) const OPENING: Self = Self { limit: Duration::from_secs(30), after_stop: Duration::ZERO };
    /// For work that takes its time and heeds a request to stop.
    pub(super) const UNTIL_STOPPED: Self =
        Self { limit: Duration::MAX, after_stop: Duration::from_millis(1500) };
}

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

/// Does `work` on a thread of its own and returns its result, at most for so long.
///
/// # Errors
/// If the limit is over, the caller stops the work, or there is no thread.
///
/// # Panics
/// If the work panics.
pub(super) fn within<T: Send + 'static>(
    patience: Patience,
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
    let after = |from: Instant, time: Duration| {
        Instant::from_ns(from.as_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    };
    let end = after(Instant::ZERO, patience.limit);
    let mut end_of_stop = None;
    loop {
        match receiver.recv_timeout(LOOK.min(patience.limit)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => {
                let panic = thread.join().expect_err("work that ends without a result has panicked");
                std::panic::resume_unwind(panic)
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = clock.now();
        if stop.is_stopped() && now >= *end_of_stop.get_or_insert(after(now, patience.after_stop)) {
            return Err(Unanswered::Stopped);
        }
        if now >= end {
            return Err(Unanswered::Late);
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
        assert_eq!(within(Patience::OPENING, &stop, || 5).unwrap(), 5);
        let barrier = std::sync::Arc::new(std::sync::Barrier::new(2));
        let late = within(
            Patience { limit: Duration::from_millis(1), after_stop: Duration::ZERO },
            &stop,
            hangs(barrier.clone()),
        );
        assert!(matches!(late, Err(Unanswered::Late)), "{late:?}");
        barrier.wait();
        stop.stop();
        let stopped = within(Patience::OPENING, &stop, hangs(barrier.clone()));
        assert!(matches!(stopped, Err(Unanswered::Stopped)), "{stopped:?}");
        barrier.wait();
        let heeding = stop.clone();
        let work = move || {
            thread::yield_now();
            heeding.requests()
        };
        assert_eq!(
            within(Patience::UNTIL_STOPPED, &stop, work).unwrap(),
            1,
            "work that heeds a stop has time to end"
        );
    }
}
