//! The side of the measuring process: it hears the signals that its supervisor passes on, and tells when its report is out.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use seeklab_lab::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::MEASURES;

/// The link of a measuring process to its supervisor.
#[derive(Debug, Clone)]
pub(crate) struct Measuring {
    signals: Arc<File>,
    report: Arc<File>,
}

impl Measuring {
    /// The link, if this process was started to measure.
    ///
    /// # Errors
    /// If the supervisor is gone, or its pipes are.
    pub(crate) fn of_this_process() -> Result<Option<Self>, Failure> {
        let argument = std::env::args_os().nth(1).and_then(|argument| argument.into_string().ok());
        let Some(link) = argument.as_deref().and_then(|argument| argument.strip_prefix(MEASURES)) else {
            return Ok(None);
        };
        let numbers: Vec<i32> = link.split(',').filter_map(|number| number.parse().ok()).collect();
        let [supervisor, signals, report] = numbers[..] else {
            return Err(Failure::new(format!("{MEASURES}{link}: is no argument of users")));
        };
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from)?;
        // It may have died before: then nobody waits for a report.
        if getppid() != Pid::from_raw(supervisor) {
            return Err(Failure::interrupted());
        }
        let descriptor = |number: i32| format!("/proc/self/fd/{number}");
        Ok(Some(Self {
            signals: Arc::new(File::open(descriptor(signals))?),
            report: Arc::new(OpenOptions::new().write(true).open(descriptor(report))?),
        }))
    }

    /// Calls `act` for each signal that the supervisor passes on, on a thread of its own. Signals to this process alone do
    /// nothing.
    ///
    /// # Errors
    /// If the operating system refuses a handler or a thread.
    pub(crate) fn on_signal(&self, mut act: impl FnMut() + Send + 'static) -> Result<(), Failure> {
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        let signals = Arc::clone(&self.signals);
        let hear = move || {
            let mut byte = [0];
            while (&*signals).read_exact(&mut byte).is_ok() {
                act();
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(hear)?;
        Ok(())
    }

    /// The report is out: lets go of the streams that others may read to their end, and tells the supervisor.
    pub(crate) fn report_is_out(&self, code: u8) {
        if let Ok(nowhere) = OpenOptions::new().read(true).write(true).open("/dev/null") {
            // A stream that cannot be replaced stays.
            let _ = dup2_stdin(&nowhere);
            let _ = dup2_stdout(&nowhere);
            let _ = dup2_stderr(&nowhere);
        }
        let _ = (&*self.report).write_all(&[code]);
    }
}
