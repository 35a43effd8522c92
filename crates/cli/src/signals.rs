//! The signals that end a run in order: SIGINT, SIGTERM and SIGHUP. And the one that ends none: SIGXFSZ.
//!
//! A signal that is ignored when the program starts stays ignored: `nohup` ignores SIGHUP, and a shell without
//! job control ignores SIGINT for its background jobs. The others still end the run.
//!
//! # Scope and limits
//! The kernel tells which signals are ignored in `/proc/self/status`. Without `/proc` all three are caught. Equal
//! signals within 10 ms count as one: `timeout(1)` sends its signal to the command, and at once again to the process group of
//! the command.
//!
//! # References
//! `nohup(1)`, `timeout(1)`, `signal(7)`, `proc_pid_status(5)`.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use seeklab_lab::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

/// Time within which equal signals count as one. No user presses Ctrl-C twice in less, and no program that reads the answer to the
/// first signal should lose its second.
const COPY_MAX: Duration = Duration::from_millis(10);

/// Calls `act` for each signal from now on, on a thread of its own.
///
/// # Errors
/// If the operating system refuses a handler or a thread.
pub(crate) fn on_signal(mut act: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    let refused = |error| Failure::from(error).context("signals cannot be handled");
    let ignored = ignored_signals(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    let caught = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !ignored.contains(*signal));
    let mut signals = Signals::new(caught).map_err(refused)?;
    let react = move || {
        let mut last = None;
        for signal in signals.forever() {
            let now = now();
            if !is_copy(last, (signal, now)) {
                last = Some((signal, now));
                act();
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(react).map_err(refused)?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "signals come in the time of the user")]
fn now() -> Instant {
    Instant::now()
}

/// True of a signal that was sent twice by one sender.
fn is_copy(last: Option<(i32, Instant)>, (signal, now): (i32, Instant)) -> bool {
    last.is_some_and(|(number, at)| number == signal && now.duration_since(at) < COPY_MAX)
}

/// Makes a write beyond the size that files may have (`ulimit -f`) fail as any other write. Without a handler, the kernel ends the
/// process. Programs that this one starts have the default again.
///
/// # Errors
/// If the operating system refuses a handler.
pub(crate) fn survive_file_size_limit() -> Result<(), Failure> {
    let registered = signal_hook::flag::register(SIGXFSZ, Arc::default());
    registered.map(drop).map_err(|error| Failure::from(error).context("SIGXFSZ cannot be handled"))
}

/// A set of signals, as the kernel prints it: bit 0 is signal 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SignalSet(u64);

impl SignalSet {
    fn contains(self, signal: i32) -> bool {
        self.0 >> (signal - 1) & 1 == 1
    }
}

/// Returns the ignored signals of a process with this `/proc/PID/status`.
fn ignored_signals(status: &str) -> SignalSet {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    SignalSet(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_kernels_mask() {
        let status = "SigBlk:\t0000000000004001\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n";
        let ignored = ignored_signals(status);
        assert_eq!([SIGHUP, SIGINT, SIGTERM].map(|signal| ignored.contains(signal)), [true, false, false]);
        assert_eq!(ignored_signals(""), SignalSet(0));
    }

    #[test]
    fn signal_that_follows_an_equal_one_at_once_is_a_copy_of_it() {
        let begin = now();
        let at = |ms| begin + Duration::from_millis(ms);
        let is_second = |signal, ms| !is_copy(Some((SIGINT, begin)), (signal, at(ms)));
        assert!(!is_copy(None, (SIGINT, begin)));
        assert_eq!([0, 9, 10].map(|ms| is_second(SIGINT, ms)), [false, false, true]);
        assert!(is_second(SIGTERM, 0));
    }
}
