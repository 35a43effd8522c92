//! Two processes for a measurement whose target the kernel serves: one measures, one waits for its report and ends on time.
//!
//! ```text
//! shell ─▶ supervisor (what the user started) ──signals──▶ measuring process (this program again, everything else)
//!              └───────────◀── exit code, the report is out ──┘
//! ```
//! A process cannot end while the kernel holds one of its threads in a system call, not even by SIGKILL. So the supervisor has
//! no target open, and leaves the measuring process behind if the kernel holds it.
//!
//! # Scope and limits
//! - Linux 5.4 with `/proc`. Without, one process does everything.
//! - Both are in one process group, so the terminal stops and continues both. The measuring process reacts to no signal that
//!   ends a run: one of the terminal goes to the whole group, and the supervisor passes it on once.
//! - The measuring process dies with the supervisor, `kill -9` included (parent-death signal).
//!
//! # References
//! `pidfd_open(2)`, `prctl(2)` PR_SET_PDEATHSIG, `proc_pid_wchan(5)`, `proc_pid_syscall(5)`.

mod measuring;
mod stuck;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::signals;
use crate::terminal::tell;
pub(crate) use measuring::Measuring;
use stuck::StuckThreads;

/// Argument of a measuring process, before those of the user: number of the supervisor, and the descriptors of its pipes.
const MEASURES: &str = "--measures-for=";

/// Time between two looks at a process that should end.
const LOOK: Duration = Duration::from_millis(250);
/// Looks behind the report after which a process that the kernel holds is left behind: a second.
const LOOKS_HELD: u32 = 4;
/// Looks behind the report after which any process is left behind: a minute.
const LOOKS_MAX: u32 = 240;
/// Looks behind the second signal after which a process whose first thread the kernel holds is left behind: five seconds.
const LOOKS_SIGNALLED: u32 = 20;

/// The arguments of the user, behind the name of the program.
pub(crate) fn arguments() -> impl Iterator<Item = OsString> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let is_ours = |argument: &OsString| argument.to_str().is_some_and(|text| text.starts_with(MEASURES));
    arguments.next_if(is_ours);
    arguments
}

/// Starts this program again as the measuring process, waits for it, and returns the exit code of the run.
///
/// `None` if it cannot be started: this process is to measure itself.
pub(crate) fn supervise() -> Option<ExitCode> {
    let (signals_read, signals_write) = pipe_with(PipeFlags::CLOEXEC).ok()?;
    let (report_read, report_write) = pipe_with(PipeFlags::CLOEXEC).ok()?;
    let (wake_read, wake_write) = pipe_with(PipeFlags::CLOEXEC).ok()?;
    // The others close when the program begins again.
    for end in [&signals_read, &report_write] {
        fcntl_setfd(end, FdFlags::empty()).ok()?;
    }
    let signalled = Arc::new(AtomicU32::new(0));
    let (count, mut pipe, mut wake) =
        (Arc::clone(&signalled), File::from(signals_write), File::from(wake_write));
    let pass_on = move || {
        count.fetch_add(1, Ordering::AcqRel);
        // A process that has ended hears nothing.
        let _ = pipe.write_all(&[0]);
        let _ = wake.write_all(&[0]);
    };
    let number = getpid().as_raw_nonzero();
    let argument = format!("{MEASURES}{number},{},{}", signals_read.as_raw_fd(), report_write.as_raw_fd());
    // Before there is a process that may reach its target; what is passed on waits in the pipe.
    if let Err(failure) = signals::on_signal(pass_on) {
        tell(&format!("warning: {failure}\n"));
    }
    let child = Command::new("/proc/self/exe").arg(argument).args(arguments()).spawn().ok()?;
    drop((signals_read, report_write));
    let (report, wake) = (File::from(report_read), File::from(wake_read));
    Some(Supervised { child, report, wake, code: None, signalled, looks: 0, held: 0 }.wait())
}

/// A measuring process.
struct Supervised {
    child: Child,
    /// The exit code comes here when the report is out.
    report: File,
    /// Something comes here at each signal.
    wake: File,
    code: Option<u8>,
    /// Signals that were passed on.
    signalled: Arc<AtomicU32>,
    /// Looks behind the report.
    looks: u32,
    /// Looks behind the second signal that found the same thread held.
    held: u32,
}

impl Supervised {
    fn wait(mut self) -> ExitCode {
        let end = match pid(&self.child).map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Some(Ok(end)) => end,
            // Linux before 5.3: there is no way to wait for two things at a time, so it is not left behind.
            _ => return self.ended(),
        };
        let mut stuck = StuckThreads::default();
        loop {
            match self.look(&end) {
                Ok(true) => return self.ended(),
                Ok(false) => {}
                Err(error) => {
                    tell(&format!("warning: the measuring process cannot be watched: {error}\n"));
                    return self.ended();
                }
            }
            if !self.is_ending() {
                continue;
            }
            stuck = StuckThreads::of(self.child.id(), &stuck);
            if self.is_over(&stuck) {
                return self.leave(&stuck);
            }
        }
    }

    /// True if the process should end soon.
    fn is_ending(&self) -> bool {
        self.code.is_some() || self.signalled.load(Ordering::Acquire) >= 2
    }

    /// Waits for the end of the process, its report, a signal, or the next look. Returns true if the process has ended.
    fn look(&mut self, end: &OwnedFd) -> io::Result<bool> {
        let limit = self.is_ending().then(|| Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() });
        let (has_ended, has_report, is_signalled) = {
            let mut events =
                [PollFd::new(end, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)].to_vec();
            if self.code.is_none() {
                events.push(PollFd::new(&self.report, PollFlags::IN));
            }
            match poll(&mut events, limit.as_ref()) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            let has = |index: usize| events.get(index).is_some_and(|event| !event.revents().is_empty());
            (has(0), has(2), has(1))
        };
        let mut byte = [0];
        if is_signalled {
            self.wake.read_exact(&mut byte)?;
        }
        if has_report {
            // Without a code, it ends without a report.
            self.code = Some(if self.report.read(&mut byte)? == 0 { 2 } else { byte[0] });
        }
        self.looks += u32::from(self.code.is_some());
        Ok(has_ended)
    }

    /// Returns true if the process is not to be waited for any longer.
    fn is_over(&mut self, stuck: &StuckThreads) -> bool {
        if self.code.is_some() {
            return self.looks >= LOOKS_MAX || (self.looks >= LOOKS_HELD && !stuck.is_empty());
        }
        self.held = if stuck.have_first_thread() { self.held + 1 } else { 0 };
        self.held >= LOOKS_SIGNALLED
    }

    /// Ends without the process, and names it.
    fn leave(self, stuck: &StuckThreads) -> ExitCode {
        let number = self.child.id();
        let place = if stuck.is_empty() { String::new() } else { format!(": {stuck}") };
        tell(&format!("warning: process {number} stays until the target answers or goes{place}\n"));
        // A target that holds requests is a failed check.
        ExitCode::from(self.code.unwrap_or(1).max(1))
    }

    /// The exit code of the process, which ends.
    fn ended(mut self) -> ExitCode {
        match self.child.wait() {
            Ok(status) => ExitCode::from(self.code_of(status)),
            Err(error) => {
                tell(&format!("error: the measuring process is not there: {error}\n"));
                ExitCode::from(2)
            }
        }
    }

    fn code_of(&self, status: ExitStatus) -> u8 {
        match (status.code(), status.signal()) {
            (Some(code), _) => u8::try_from(code).unwrap_or(2),
            (None, Some(SIGINT | SIGTERM | SIGHUP)) => {
                tell("error: interrupted\n");
                1
            }
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                tell(&format!("error: signal {signal} ended the measuring process\n"));
                // As shells have it.
                u8::try_from(128 + signal).unwrap_or(2)
            }
        }
    }
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}
