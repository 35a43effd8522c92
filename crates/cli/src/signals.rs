//! The signals that end a run in order: SIGINT, SIGTERM and SIGHUP. And the one that ends none: SIGXFSZ.
//!
//! A signal that is ignored when the program starts stays ignored: `nohup` ignores SIGHUP, and a shell without
//! job control ignores SIGINT for its background jobs. The others still end the run.
//!
//! # Scope and limits
//! The kernel tells which signals are ignored in `/proc/self/status`. Without `/proc` all three are caught. Equal
//! signals that arrive within the time of one reaction count as one.
//!
//! # References
//! `nohup(1)`, `signal(7)`, `proc_pid_status(5)`.

use std::fs;
use std::sync::Arc;
use std::thread;

use seeklab_lab::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

/// Calls `act` for each signal from now on, on a thread of its own.
///
/// # Errors
/// If the operating system refuses a handler or a thread.
pub(crate) fn on_signal(mut act: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    let refused = |error| Failure::from(error).context("signals cannot be handled");
    let ignored = ignored_signals(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    let caught = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !ignored.contains(*signal));
    let mut signals = Signals::new(caught).map_err(refused)?;
    let react = move || signals.forever().for_each(|_| act());
    thread::Builder::new().name("signals".to_owned()).spawn(react).map_err(refused)?;
    Ok(())
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
}
