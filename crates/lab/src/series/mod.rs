//! An application on each of several devices, repeatedly: `seeklab run`.
//!
//! ```text
//! devices × repetitions ─▶ for each: a copy of what was prepared ─▶ emulation, model time zero
//!                                     phases on the host, or a built-in application over NBD
//!                                     stamps in host and model ─▶ figures ─▶ journal ─▶ report
//! ```
//! Devices take turns within each repetition, and each repetition begins with the next device, so that changes
//! of the machine meet all of them alike. Before the first of several devices the application runs once on a
//! device that takes no time, uncounted: it fills the caches of the host (programs, libraries, the input of the
//! command), for which the first device would pay otherwise. What was prepared (the file system, an image, the setup) is prepared once for each block size, on
//! a device that takes no time. Each repetition begins with the device as it was described and the seed.

mod builtin;
mod exactness;
mod figures;
mod host;
mod jobs;
mod join;
mod limits;
mod prepare;
mod repetition;
mod report;
mod result;
mod system;
mod trust;
mod uncounted;

use std::ffi::OsString;
use std::path::PathBuf;

use seeklab_core::{ByteSize, Seed};
use seeklab_emulator::calibration::FrontendKind;
use seeklab_emulator::frontend::loop_device::QueueOptions;
use seeklab_stage::{FileSystem, MountOptions};
use seeklab_traces::capture::criticality::ClassRule;
use seeklab_workloads::application::Builtin;

use crate::devices::Resolved;
use crate::emulate::{Pace, exported_size};
use crate::failure::Failure;
use crate::journal::{Entry, Journal, Key};
use crate::output::VERSION;
use crate::session::Session;
use repetition::Repetition;

pub(crate) use host::{Interruption, failure as failure_of, how, options as stage_options};
pub(crate) use prepare::Prepared;

pub use builtin::{Persistence, RECONNECT_WITHIN};
pub use exactness::Exactness;
pub use figures::{Figures, PhaseFigures};
pub use jobs::{Jobs, JobsRunFigures, JobsScheduling};
pub use limits::{CommandLimits, HostLimits};
pub use result::{ApplicationResult, DeviceResult, SeriesResult, Statistics};

/// A series: devices, application and repetitions.
#[derive(Debug, Clone)]
pub struct Series {
    /// The devices, the first of which the others are compared with.
    pub devices: Vec<Resolved>,
    /// Bytes of each.
    pub size: ByteSize,
    /// Application that runs on the devices.
    pub application: Application,
    /// Number of repetitions on each device.
    pub repetitions: u64,
    /// Root of all random draws; the same for every repetition.
    pub seed: Seed,
    /// Accuracy of the emulation.
    pub pace: Pace,
    /// A folder for a trace of each repetition.
    pub record: Option<PathBuf>,
    /// Folder for the events inside each device in each repetition.
    pub events: Option<PathBuf>,
    /// Folder for a system-level trace of each command in each repetition.
    pub system: Option<PathBuf>,
    /// Journal of the results. Without a journal, an interrupted series starts again from the beginning.
    pub journal: Option<PathBuf>,
    /// Forget what the journal holds.
    pub fresh: bool,
    /// Write the output of commands to stderr.
    pub output_to_stderr: bool,
}

impl Series {
    /// Returns the size that each of `devices` is emulated in: `wanted`, or the capacity of the smallest. It is a
    /// multiple of 4096B, which every block size of the catalog divides.
    ///
    /// # Errors
    /// If a device cannot have the size, a fault selects blocks beyond it, or there is no device.
    pub fn common_size(devices: &[Resolved], wanted: Option<ByteSize>) -> Result<ByteSize, Failure> {
        let sizes = devices.iter().map(|device| exported_size(device, wanted));
        let sizes = sizes.collect::<Result<Vec<ByteSize>, Failure>>()?;
        let least = sizes.into_iter().min().ok_or_else(|| Failure::new("there is no device"))?;
        for device in devices {
            device.check_served(least)?;
        }
        Ok(ByteSize::from_bytes(least.as_bytes() / 4096 * 4096))
    }

    /// Returns true where several devices are compared, which an uncounted pass precedes.
    ///
    /// A stream of jobs has nothing in caches of the host.
    const fn has_uncounted_pass(&self) -> bool {
        self.devices.len() > 1 && !matches!(self.application, Application::Jobs(_))
    }
}

/// Application that runs on a device.
#[derive(Debug, Clone)]
pub enum Application {
    /// Commands of the host.
    Commands(Commands),
    /// One of ours, over NBD.
    Builtin {
        /// Built-in application.
        builtin: Box<Builtin>,
        /// Application as requested by the user.
        line: String,
        /// Treatment of requests that fail.
        persistence: Persistence,
    },
    /// A stream of jobs.
    Jobs(Jobs),
}

impl Application {
    /// Returns the frontend that the application uses.
    pub const fn frontend(&self) -> FrontendKind {
        match self {
            Self::Commands(_) => FrontendKind::Block,
            Self::Jobs(jobs) if jobs.block.is_some() => FrontendKind::Block,
            Self::Builtin { .. } | Self::Jobs(_) => FrontendKind::NbdUnix,
        }
    }

    /// Returns the number of drives that are emulated, each like the device.
    pub(crate) fn drives(&self) -> u16 {
        match self {
            Self::Jobs(jobs) => jobs.spec.drives,
            _ => 1,
        }
    }
}

/// Commands on a mounted device.
#[derive(Debug, Clone)]
pub struct Commands {
    /// File system to create on the device.
    pub file_system: FileSystem,
    /// Mount options.
    pub mount_options: MountOptions,
    /// Options of the host's queue that override the values for the device.
    pub queue: QueueOptions,
    /// Rule by which requests have classes. Without it, all are time-critical.
    pub criticality: Option<ClassRule>,
    /// Image with the initial contents of the device, instead of a new file system.
    pub image: Option<PathBuf>,
    /// Run once, in no model time, after the file system was made.
    pub setup: Option<String>,
    /// Commands by name, each on a cold mount.
    pub phases: Vec<(String, String)>,
    /// The command that is timed; a phase too.
    pub command: Vec<OsString>,
    /// Drop the host's caches before each phase.
    pub drop_caches: bool,
    /// User who runs the commands.
    pub user: Option<String>,
    /// Limits on the commands.
    pub limits: CommandLimits,
}

/// Tests the requirements of the series, before anything is made.
///
/// # Errors
/// All missing requirements, each with its remedy.
pub(crate) fn check(series: &Series) -> Result<(), Failure> {
    match &series.application {
        Application::Commands(commands) => {
            host::check(commands)?;
            system::check(series, commands)
        }
        Application::Builtin { .. } => Ok(()),
        Application::Jobs(jobs) => jobs::check(series, jobs),
    }
}

/// Runs what the journal does not hold yet, until the caller stops it.
///
/// # Errors
/// Missing requirements; errors that keep a repetition from running. A command that fails is a result.
pub fn run(session: &Session, series: &Series) -> Result<SeriesResult, Failure> {
    check(series)?;
    if let Application::Commands(commands) = &series.application
        && let Some(note) = limits::dirty_limit_note(commands)
    {
        session.warn(note);
    }
    let _held = session.hold();
    let _kept_off = limits::keep_off(series);
    let interruption = &Interruption::by(session.stop());
    let mut journal = series.journal.as_deref().map(|path| Journal::open(path, series.fresh)).transpose()?;
    let mut results: Vec<Vec<Figures>> = vec![Vec::new(); series.devices.len()];
    let total = series.repetitions * series.devices.len() as u64;
    let mut steps = session.steps("repetitions", total);
    let mut prepared = Prepared::default();
    let mut is_warm = !series.has_uncounted_pass();
    for repetition in 0..series.repetitions {
        for index in turn(repetition, series.devices.len()) {
            let (device, results) = (&series.devices[index], &mut results[index]);
            let label = device.label();
            let key = Key::of(format!("{} repetition {repetition}", identity(series, device)).as_bytes());
            if let Some(figures) = journal.as_ref().and_then(|journal| journal.get(key)) {
                results.push(Figures::clone(figures));
                steps.big_step()?;
                continue;
            }
            if !is_warm {
                steps.begin("uncounted pass on a device that takes no time");
                uncounted::pass(session, series, interruption, &mut prepared)?;
                is_warm = true;
            }
            steps.begin(&format!("{label}, repetition {} of {}", repetition + 1, series.repetitions));
            let what = Repetition { session, series, device, number: repetition, interruption };
            let figures = what.run(&mut prepared)?;
            if let Some(journal) = &mut journal {
                let entry = Entry { key, cell: &label, repetition, seed: series.seed.0 };
                journal.append(&entry, &figures)?;
            }
            results.push(figures);
            steps.big_step()?;
        }
    }
    drop(steps);
    Ok(SeriesResult::new(session, series, results))
}

/// The indices of the devices in the order of one repetition: each begins with the next device.
fn turn(repetition: u64, devices: usize) -> impl Iterator<Item = usize> {
    let first = (repetition % devices as u64) as usize;
    (0..devices).map(move |place| (first + place) % devices)
}

/// Everything that determines what a repetition does.
fn identity(series: &Series, device: &Resolved) -> String {
    // A time with cold caches is none to compare with.
    let pass = if series.has_uncounted_pass() { "\nafter an uncounted pass" } else { "" };
    // A recorder takes processor time, and its trace is wanted.
    let recorded = if series.system.is_some() { "\nwith a system-level trace" } else { "" };
    format!(
        "{VERSION}\n{}\n{:?}\n{}\n{:?}\n{:?} {:?} {:?} {:?} {:?}{pass}{recorded}",
        device.description.to_toml(),
        device.label(),
        series.size,
        series.application,
        series.pace.pacing,
        series.pace.mode,
        series.pace.lookahead,
        series.pace.deadline_limit,
        series.seed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repetition_begins_with_the_next_device() {
        let turns: Vec<Vec<usize>> = (0..4).map(|repetition| turn(repetition, 3).collect()).collect();
        assert_eq!(turns, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!(turn(5, 1).collect::<Vec<_>>(), [0]);
    }
}
