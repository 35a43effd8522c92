//! Options of a measurement: its targets, and its phases with their streams.
//!
//! ```text
//! command line ─▶ one phase, one stream ─┐
//! plan.toml ─▶ phases, streams ──────────┼─▶ BenchOptions ─▶ bench()
//! job.fio ─▶ groups, jobs ───────────────┘
//! ```

use std::path::PathBuf;

use seeklab_bench::counters::CounterOptions;
use seeklab_bench::target::Polling;
use seeklab_bench::{IoPriority, Late, Ramp, SteadyRule, WriteData};
use seeklab_core::{ByteSize, Duration, Seed};
use seeklab_emulator::clock::Pacing;
use seeklab_workloads::Retries;

use super::fio::{FioLoad, FioLog};
use super::verification::VerificationOptions;
use crate::devices::Setup;
use crate::estimate::Bound;
use crate::failure::Failure;
use crate::workload::ResolvedWorkload;

/// Options of a measurement.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Title of the report [default: workload and target].
    pub title: Option<String>,
    /// Targets, to which streams refer by their place.
    pub targets: Vec<TargetChoice>,
    /// Phases, one after another.
    pub phases: Vec<PhaseOptions>,
    /// Runs of all phases, each with a seed of its own.
    pub repetitions: u64,
    /// Look for the highest rate of the only stream at which this bound holds.
    pub find_rate: Option<Bound>,
    /// Seed of all random draws of the first repetition.
    pub seed: Seed,
    /// Trade of processor time for exact arrivals.
    pub pacing: Pacing,
    /// Names of targets, typed again, to let the workloads overwrite them.
    pub destroy: Vec<String>,
    /// Check the data of every read; `None` leaves them unchecked.
    pub verification: Option<VerificationOptions>,
    /// Trace of every request.
    pub record: Option<PathBuf>,
    /// Logs of jobs of fio.
    pub fio_logs: Vec<FioLog>,
    /// Path that the caller writes the page to.
    pub report: Option<PathBuf>,
    /// Folder for the results.
    pub folder: Option<PathBuf>,
    /// Replace the results of another run that the folder holds.
    pub fresh: bool,
    /// Counters of the machine and of processes; `None` reads none.
    pub counters: Option<CounterOptions>,
    /// Folder of the run that this one repeats.
    pub rerun_of: Option<PathBuf>,
    /// Send a line of figures to the listener at the end of every interval.
    pub live: bool,
    /// Files that were read for these options, which no output may overwrite.
    pub inputs: Vec<PathBuf>,
    /// Notes on the way in which the options came about.
    pub notes: Vec<String>,
    /// The options were written as keys of a plan, whose names messages use.
    pub is_plan: bool,
}

/// A target, as it was chosen.
#[derive(Debug, Clone)]
pub struct TargetChoice {
    /// Address: a block device, a file, an NBD URI, `iscsi://HOST/IQN/LUN`, `vhost-user:PATH`, `model:DEVICE`, `emulate:DEVICE` or `null`.
    pub address: String,
    /// Setup of a model.
    pub setup: Setup,
    /// Go through the page cache.
    pub buffered: bool,
    /// Drop the pages of the target from the page cache when a stream opens it.
    pub drops_pages: bool,
    /// Polling in place of system calls and interrupts.
    pub polling: Polling,
    /// Make the target, a file of this size, for the run.
    pub create: Option<ByteSize>,
    /// Device that must be there.
    pub expected: ExpectedDevice,
}

impl TargetChoice {
    /// The target at an address, as it is.
    pub fn at(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            setup: Setup::default(),
            buffered: false,
            drops_pages: false,
            polling: Polling::default(),
            create: None,
            expected: ExpectedDevice::default(),
        }
    }
}

/// A device to which a plan is bound. Another one under the same address is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpectedDevice {
    /// Serial number [default: any].
    pub serial: Option<String>,
    /// Size [default: any].
    pub capacity: Option<ByteSize>,
}

/// A phase: streams that run at the same time.
#[derive(Debug, Clone)]
pub struct PhaseOptions {
    /// Name in the results.
    pub name: String,
    /// Time that counts [default: until the workloads end].
    pub duration: Option<Duration>,
    /// End in the steady state.
    pub steady: Option<SteadyRule>,
    /// Part before it that does not count.
    pub ramp: Ramp,
    /// Length of an interval of the figures over time. Zero makes one interval of the whole.
    pub interval: Duration,
    /// Streams.
    pub streams: Vec<StreamOptions>,
}

/// A stream: requests of a workload to a target.
#[derive(Debug, Clone)]
pub struct StreamOptions {
    /// Name in the results.
    pub name: String,
    /// Place of its target in the options.
    pub target: usize,
    /// Workload.
    pub workload: StreamLoad,
    /// The number of requests was chosen. Otherwise a synthetic workload with a time has no end of its own.
    pub is_counted: bool,
    /// Requests under way at a time at most [default: the population of a closed load, or 1024].
    pub outstanding_max: Option<u32>,
    /// Treatment of arrivals beyond that.
    pub late: Late,
    /// Time after which a request counts as failed [default: never].
    pub timeout: Option<Duration>,
    /// Completions to wait for at a time.
    pub batch: u32,
    /// Threads, each with a target of its own.
    pub threads: u32,
    /// Content of the data of writes.
    pub data: WriteData,
    /// I/O priority of the requests [default: that of this process].
    pub priority: Option<IoPriority>,
    /// Read the blocks that the stream wrote behind its phase, and check them.
    pub read_back: bool,
}

/// Workload of a stream.
#[derive(Debug, Clone)]
pub enum StreamLoad {
    /// A workload of the grammar, a trace or an application.
    Workload(Box<ResolvedWorkload>),
    /// A job of fio.
    Job(Box<FioLoad>, Retries),
}

impl StreamLoad {
    /// Name as given by the user.
    pub fn name(&self) -> &str {
        match self {
            Self::Workload(workload) => &workload.name,
            Self::Job(job, _) => &job.name,
        }
    }

    /// Note on requests that the program whose job it is would make otherwise.
    pub(super) fn note(&self) -> Option<&'static str> {
        match self {
            Self::Job(job, _) if job.cuts_in_fio() => Some(
                "several sizes at random offsets: fio keeps a map of the blocks that it has visited and cuts requests that meet one, so it \
                 sends more and shorter requests; here each has its size and its offset is drawn alone, as with norandommap",
            ),
            _ => None,
        }
    }

    /// Attempts after a request failed.
    pub const fn retries(&self) -> Retries {
        match self {
            Self::Workload(workload) => workload.retries,
            Self::Job(_, retries) => *retries,
        }
    }

    /// The workload, unless it is a job of fio.
    pub const fn workload(&self) -> Option<&ResolvedWorkload> {
        match self {
            Self::Workload(workload) => Some(workload),
            Self::Job(..) => None,
        }
    }
}

impl PhaseOptions {
    /// Returns true if the phase ends by time, not with its workloads.
    pub const fn is_timed(&self) -> bool {
        self.duration.is_some() || self.steady.is_some()
    }
}

/// Seed of the draws of a stream in a repetition. That of the first stream of the first phase is the seed of the repetition, so
/// a run of one stream is the simulation of its workload.
pub(super) fn seed_of_stream(seed: Seed, phase: usize, stream: usize) -> Seed {
    match (phase, stream) {
        (0, 0) => seed,
        _ => Seed(seed.stream(&format!("bench.phase.{phase}.stream.{stream}")).bits()),
    }
}

impl Default for BenchOptions {
    /// Nothing to measure: targets and phases are missing.
    fn default() -> Self {
        Self {
            title: None,
            targets: Vec::new(),
            phases: Vec::new(),
            repetitions: 1,
            find_rate: None,
            seed: Seed(1),
            pacing: Pacing::Balanced,
            destroy: Vec::new(),
            verification: None,
            record: None,
            fio_logs: Vec::new(),
            report: None,
            folder: None,
            fresh: false,
            counters: None,
            rerun_of: None,
            live: false,
            inputs: Vec::new(),
            notes: Vec::new(),
            is_plan: false,
        }
    }
}

impl BenchOptions {
    /// The failure in the words of whoever wrote the options.
    pub(crate) fn worded(&self, failure: Failure) -> Failure {
        if self.is_plan { failure.with_keys() } else { failure }
    }

    /// Returns true of one phase with one stream.
    pub fn is_one_stream(&self) -> bool {
        self.phases.len() == 1 && self.phases[0].streams.len() == 1
    }
}
