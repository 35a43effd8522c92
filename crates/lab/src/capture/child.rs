//! The command whose requests are captured.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use seeklab_stage::resolve;
use seeklab_traces::capture::monotonic_ns;

use super::LOOK;
use crate::failure::Failure;
use crate::stop::StopWatch;

/// Time that a command has to end by itself after the terminal's signal, which the command receives too.
const PATIENCE_NS: u64 = 1_000_000_000;

/// A command, found and not yet started.
#[derive(Debug)]
pub(crate) struct Child(Command);

/// Exit of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Exit code of the command; 128 plus the signal number if a signal ended it, as in shells.
    pub(crate) exit_code: i32,
}

impl Child {
    /// Finds the program. It gets this process's environment, folder and standard streams; its output goes to
    /// the standard error if `output_to_stderr`.
    ///
    /// # Errors
    /// If there is no such program.
    pub(crate) fn new(words: &[OsString], output_to_stderr: bool) -> Result<Self, Failure> {
        let words = resolve(words).map_err(|missing| Failure::new(missing.what).hint(missing.remedy))?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        if output_to_stderr {
            command.stdout(Stdio::from(std::io::stderr()));
        }
        Ok(Self(command))
    }

    pub(crate) fn start(mut self) -> Result<Running, Failure> {
        let program = self.0.get_program().to_owned();
        let failed =
            |error| Failure::from(error).context(format!("{}: cannot be started", program.display()));
        let child = self.0.spawn().map_err(failed)?;
        Ok(Running { child, interrupted_ns: None, sent: 0 })
    }
}

/// A command that runs.
pub(crate) struct Running {
    child: std::process::Child,
    interrupted_ns: Option<u64>,
    /// Highest signal sent to the command: 0 for none, 1 for terminate, 2 for kill.
    sent: u8,
}

impl Running {
    /// Number of the process.
    pub(crate) fn number(&self) -> u32 {
        self.child.id()
    }

    /// Handles a signal. The terminal has sent the first signal to the command too. A command that does not end
    /// soon afterwards is terminated, and a second signal kills it.
    pub(crate) fn interrupt(&mut self) {
        match self.interrupted_ns {
            None => self.interrupted_ns = Some(monotonic_ns()),
            Some(_) => self.send(2),
        }
    }

    fn send(&mut self, what: u8) {
        let signal = if what == 2 { Signal::KILL } else { Signal::TERM };
        if what > self.sent {
            self.sent = what;
            // It has not been waited for, so the number is still its own.
            if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Returns the exit of the command if it has ended.
    pub(crate) fn look(&mut self) -> Result<Option<Ended>, Failure> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Some(ended(status)));
        }
        if self.interrupted_ns.is_some_and(|since| monotonic_ns() - since > PATIENCE_NS) {
            self.send(1);
        }
        Ok(None)
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self, watch: &mut StopWatch) -> Result<Ended, Failure> {
        loop {
            if let Some(ended) = self.look()? {
                return Ok(ended);
            }
            if watch.next(LOOK) {
                self.interrupt();
            }
        }
    }
}

fn ended(status: ExitStatus) -> Ended {
    Ended { exit_code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) }
}
