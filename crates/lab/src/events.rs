//! Events of simulated and emulated devices, in a file.
//!
//! One line for each event, in order of time: CSV with the columns `time_ns`, `path` (the device, and the fault if it is
//! one), `kind`, `request`, `lbn`, `blocks`, `detail`. The detail of `durable` is the time at which the first of the blocks
//! began to be written.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use seeklab_core::{
    Arrival, ClassHistory, Completion, Device, Duration, Event, EventKind, Instant, Limits, Simulation,
    SimulationError, Workload,
};
use seeklab_emulator::emulation::TakeEvents;
use seeklab_files::OutputFile;

use crate::failure::Failure;
use crate::session::Session;

/// First line of the file. It names the version of the schema.
const HEADER: &str = "# seeklab.events schema=2\ntime_ns,path,kind,request,lbn,blocks,detail\n";

/// End of the events of a simulation: devices go on by themselves behind the last completion, as with destages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// The last completion.
    #[default]
    LastCompletion,
    /// The end of the work that waits in the devices.
    Idle,
    /// This long after the start, or the last completion if that is later.
    Time(Duration),
}

impl FromStr for Until {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "idle" => Ok(Self::Idle),
            time => time.parse().map(Self::Time).map_err(|error| format!("{error}; `idle` is allowed, too")),
        }
    }
}

/// Requests after which events are written.
const PORTION: u64 = 4096;

/// A file of events.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: io::BufWriter<OutputFile>,
    failed: Option<io::Error>,
    events: Vec<Event>,
    until: Until,
}

impl EventFile {
    /// Begins the file at `path`, once a FIFO has its reader.
    ///
    /// # Errors
    /// If it cannot be created, or the caller stops the wait.
    pub fn create(session: &Session, path: &Path) -> Result<Self, Failure> {
        let _awaited = session.await_reader(path)?;
        let mut file = io::BufWriter::new(OutputFile::create(path)?);
        file.write_all(HEADER.as_bytes())?;
        Ok(Self { path: path.to_owned(), file, failed: None, events: Vec::new(), until: Until::default() })
    }

    /// This file with the events of a simulation up to that end.
    #[must_use]
    pub fn until(self, until: Until) -> Self {
        Self { until, ..self }
    }

    /// Simulates as [`seeklab_core::simulate`] does, with the device watched.
    ///
    /// # Errors
    /// As there. A file that cannot be written is reported at the end.
    pub(crate) fn simulate<W: Workload, D: Device>(
        &mut self,
        workload: &mut W,
        device: &mut D,
        limits: Limits,
        mut observe: impl FnMut(&Completion, ClassHistory),
    ) -> Result<(), SimulationError> {
        device.watch();
        let mut simulation = Simulation::new(limits);
        let mut portion = Portion { workload, left: PORTION, is_over: false };
        while !portion.is_over {
            portion.left = PORTION;
            simulation.run_until_finished_with_classes(&mut portion, device, &mut observe)?;
            self.write(device, simulation.now());
        }
        let summary = simulation.run_with_classes(&mut portion, device, &mut observe)?;
        self.write(device, summary.end);
        match self.until {
            Until::LastCompletion => {}
            Until::Idle => {
                let mut reached = summary.end;
                // A loss of power on the way leaves less to do.
                while let Some(end) = device.work_ends().filter(|end| *end > reached) {
                    reached = end;
                    self.write(device, end);
                }
            }
            Until::Time(time) => self.write(device, summary.end.max(Instant::ZERO + time)),
        }
        Ok(())
    }

    fn write<D: Device>(&mut self, device: &mut D, now: Instant) {
        device.events(now, &mut self.events);
        for event in self.events.drain(..) {
            if self.failed.is_none() {
                self.failed = write_event(&mut self.file, &event).err();
            }
        }
    }

    /// Writes on a thread of its own what an emulation tells.
    pub(crate) fn beside(mut self) -> EventWriter {
        let (sender, events) = channel::<Event>();
        let thread = std::thread::spawn(move || {
            for event in events {
                if self.failed.is_none() {
                    self.failed = write_event(&mut self.file, &event).err();
                }
            }
            self.finish()
        });
        EventWriter { sender, thread }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn finish(self) -> Result<(), Failure> {
        let written = match self.failed {
            Some(error) => Err(error),
            None => self.file.into_inner().map_err(io::IntoInnerError::into_error),
        };
        let file = written.map_err(|error| Failure::from(error).context(self.path.display()))?;
        Ok(file.finish()?)
    }
}

/// Thread that writes the events of an emulation.
pub(crate) struct EventWriter {
    sender: Sender<Event>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl EventWriter {
    /// Function that takes the events of an emulation.
    pub(crate) fn take(&self) -> TakeEvents {
        let sender = self.sender.clone();
        // The thread ends early only if it panics.
        Box::new(move |event| drop(sender.send(event.clone())))
    }

    /// Ends the file, once the emulation has ended.
    ///
    /// # Errors
    /// If it could not be written.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        drop(self.sender);
        self.thread.join().expect("writing does not panic")
    }
}

fn write_event(file: &mut impl Write, event: &Event) -> io::Result<()> {
    let Event { time, device, request, lbn, blocks, kind } = event;
    write!(file, "{},", time.as_ns())?;
    match kind {
        // A fault has the name of its device before its own.
        EventKind::Fault(name) => write!(file, "{}", name.replace(',', "_"))?,
        _ => write!(file, "disk{device}")?,
    }
    write!(file, ",{},", kind.name())?;
    if let Some(request) = request {
        write!(file, "{}", request.0)?;
    }
    write!(file, ",{lbn},{blocks},")?;
    if let EventKind::Durable { begun } = kind {
        write!(file, "{}", begun.as_ns())?;
    }
    writeln!(file)
}

/// A workload that pauses after so many requests.
struct Portion<'a, W> {
    workload: &'a mut W,
    left: u64,
    /// The workload itself has finished.
    is_over: bool,
}

impl<W: Workload> Workload for Portion<'_, W> {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        if self.left == 0 && !self.is_over {
            return Arrival::Finished;
        }
        let arrival = self.workload.next_arrival(now);
        match arrival {
            Arrival::Request(_) => self.left = self.left.saturating_sub(1),
            Arrival::Finished => self.is_over = true,
            _ => {}
        }
        arrival
    }

    fn completed(&mut self, completion: &Completion) {
        self.workload.completed(completion);
    }

    fn heeds_completions(&self) -> bool {
        self.workload.heeds_completions()
    }
}
