//! A command on a freshly mounted device, and what came of it.

use std::ffi::OsString;
use std::fmt;
use std::process::ExitStatus;

use std::os::unix::process::ExitStatusExt;

use seeklab_core::Duration;
use serde::{Deserialize, Serialize};

use crate::command::CommandLine;

/// A command that is timed on its own, the device mounted before and unmounted after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Name in results.
    pub name: String,
    /// Command that the phase runs.
    pub command: CommandLine,
    /// Variables of its environment besides the caller's, `SEEKLAB_DEVICE`, `SEEKLAB_MOUNT` and
    /// `SEEKLAB_NBD`.
    pub environment: Vec<(OsString, OsString)>,
}

impl Phase {
    /// A phase with no variables of its own.
    pub fn new(name: impl Into<String>, command: CommandLine) -> Self {
        Self { name: name.into(), command, environment: Vec::new() }
    }
}

/// End of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with that code; 0 is success.
    Code(i32),
    /// By that signal.
    Signal(i32),
}

impl Exit {
    /// Returns true if the command succeeded.
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Code(0))
    }

    /// Returns the exit code as shells report it: 128 plus the signal if a signal ended the command.
    pub const fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Code(code),
            None => Self::Signal(status.signal().unwrap_or(0)),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(name) => write!(f, "killed by {name}"),
                Err(_) => write!(f, "killed by signal {signal}"),
            },
        }
    }
}

/// Result of a phase.
///
/// ```text
///  mount      start    exec           end        flush_start        flush_end
///    │── mount ──│─fork─│── elapsed ───│── sweep ────│───── flush ──────│
/// ```
/// All stamps are nanoseconds of CLOCK_MONOTONIC and never decrease in that order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// Name of the phase.
    pub name: String,
    /// End of the command.
    pub exit: Exit,
    /// True if the phase was stopped on request. All fields below then describe the part that ran.
    pub stopped: bool,
    /// Start of the mount. Caches were dropped before, if requested.
    pub mount_start_ns: u64,
    /// End of the mount, and start of the command's process.
    pub start_ns: u64,
    /// Time at which the process of the command executed its program, or was found to have ended before.
    pub exec_ns: u64,
    /// Time at which the command's exit was detected.
    pub end_ns: u64,
    /// Start of the flush, after all processes of the command had ended.
    pub flush_start_ns: u64,
    /// Time within the flush at which the data were on the device. The device was unmounted after that.
    pub synced_ns: u64,
    /// End of the flush: the data are on the device, and the device is unmounted.
    pub flush_end_ns: u64,
    /// Processor time in user mode, of the command and every process it left behind or waited for.
    pub user: Duration,
    /// Processor time in the kernel, of the same.
    pub system: Duration,
    /// The largest resident set of one of them, in bytes.
    pub max_rss_bytes: u64,
    /// The names of processes that were still running at the end and were killed; at most 16.
    pub left_running: Vec<String>,
    /// Error of the final write to the device. If present, the data on the device are incomplete.
    pub flush_error: Option<String>,
}

impl PhaseResult {
    /// From the command's exec to its exit.
    pub const fn elapsed(&self) -> Duration {
        Duration::from_ns(self.end_ns.saturating_sub(self.exec_ns))
    }

    /// Returns the time of syncing and unmounting.
    pub const fn flush(&self) -> Duration {
        Duration::from_ns(self.flush_end_ns.saturating_sub(self.flush_start_ns))
    }

    /// Returns the time of mounting.
    pub const fn mount(&self) -> Duration {
        Duration::from_ns(self.start_ns.saturating_sub(self.mount_start_ns))
    }

    /// Returns true if the command succeeded and its data are on the device.
    pub fn is_success(&self) -> bool {
        self.exit.is_success() && !self.stopped && self.flush_error.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_and_signals_are_reported_as_by_shells() {
        let code = Exit::from(ExitStatus::from_raw(3 << 8));
        assert_eq!((code, code.code(), code.to_string().as_str()), (Exit::Code(3), 3, "exit code 3"));
        let killed = Exit::from(ExitStatus::from_raw(9));
        assert_eq!((killed, killed.code()), (Exit::Signal(9), 137));
        assert_eq!(killed.to_string(), "killed by SIGKILL");
        assert!(Exit::Code(0).is_success() && !killed.is_success());
    }
}
