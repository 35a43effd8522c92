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
    /// What it is called in results.
    pub name: String,
    /// What it runs.
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

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with that code; 0 is success.
    Code(i32),
    /// By that signal.
    Signal(i32),
}

impl Exit {
    /// Whether it succeeded.
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Code(0))
    }

    /// The code as shells say it: 128 more than the signal where it was one.
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

/// What came of a phase.
///
/// ```text
///  mount      start    exec           end        flush_start        flush_end
///    │── mount ──│─fork─│── elapsed ───│── sweep ────│───── flush ──────│
/// ```
/// All stamps are nanoseconds of CLOCK_MONOTONIC and never decrease in that order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseOutcome {
    /// What the phase is called.
    pub name: String,
    /// How the command ended.
    pub exit: Exit,
    /// Whether it was asked to stop; everything below is then of the part that ran.
    pub stopped: bool,
    /// When the mount was asked for, caches having been dropped before.
    pub mount_start_ns: u64,
    /// When the device was mounted and the command's process was asked for.
    pub start_ns: u64,
    /// When the command's process executed its program, or was found to have ended before.
    pub exec_ns: u64,
    /// When its exit was seen.
    pub end_ns: u64,
    /// When nothing of it was left and its data were asked to go to the device.
    pub flush_start_ns: u64,
    /// When they were there and the device was unmounted.
    pub flush_end_ns: u64,
    /// Processor time in user mode, of the command and every process it left behind or waited for.
    pub user: Duration,
    /// Processor time in the kernel, of the same.
    pub system: Duration,
    /// The largest resident set of one of them, in bytes.
    pub max_rss_bytes: u64,
    /// The names of processes that were still running at the end and were killed; at most 16.
    pub left_running: Vec<String>,
    /// What writing to the device said at the end, if it failed: the data are not all there.
    pub flush_error: Option<String>,
}

impl PhaseOutcome {
    /// From the command's exec to its exit.
    pub const fn elapsed(&self) -> Duration {
        Duration::from_ns(self.end_ns.saturating_sub(self.exec_ns))
    }

    /// What syncing and unmounting took.
    pub const fn flush(&self) -> Duration {
        Duration::from_ns(self.flush_end_ns.saturating_sub(self.flush_start_ns))
    }

    /// What mounting took.
    pub const fn mount(&self) -> Duration {
        Duration::from_ns(self.start_ns.saturating_sub(self.mount_start_ns))
    }

    /// Whether the command succeeded and its data are on the device.
    pub fn is_success(&self) -> bool {
        self.exit.is_success() && !self.stopped && self.flush_error.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_codes_and_signals_told_as_shells_do() {
        let code = Exit::from(ExitStatus::from_raw(3 << 8));
        assert_eq!((code, code.code(), code.to_string().as_str()), (Exit::Code(3), 3, "exit code 3"));
        let killed = Exit::from(ExitStatus::from_raw(9));
        assert_eq!((killed, killed.code()), (Exit::Signal(9), 137));
        assert_eq!(killed.to_string(), "killed by SIGKILL");
        assert!(Exit::Code(0).is_success() && !killed.is_success());
    }
}
