//! The plan of a run as its folder keeps it, so that `bench rerun` runs the same again.
//!
//! ```text
//! BenchOptions ─▶ SavedPlan ─▶ run.json ─▶ SavedPlan ─▶ BenchOptions
//! ```
//! # Scope and limits
//! Workloads are kept as they were resolved, so later changes of presets and of files in TOML change nothing. Traces are kept by
//! their paths. The file of `--state` belongs to one run and is not kept.

use std::path::{Path, PathBuf};

use seeklab_bench::counters::CounterOptions;
use seeklab_bench::target::{Polling, TargetKind};
use seeklab_bench::{IoPriority, Late, Ramp, SteadyFigure, SteadyRule, WriteData};
use seeklab_core::{ByteSize, Duration, Seed};
use seeklab_devices::scheduler::SchedulerSpec;
use seeklab_emulator::clock::Pacing;
use seeklab_traces::{ReadOptions, Setting};
use seeklab_workloads::{Retries, WorkloadSpec};
use serde::{Deserialize, Serialize};

use super::fio::FioLoad;
use super::options::{BenchOptions, ExpectedDevice, PhaseOptions, StreamLoad, StreamOptions, TargetChoice};
use super::verification::VerificationOptions;
use crate::devices::{Faults, Setup};
use crate::failure::Failure;
use crate::workload::{ReplayPart, ResolvedWorkload};

/// Version of the form of saved plans.
const VERSION: u32 = 1;

/// A plan with everything that determines the requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedPlan {
    plan_version: u32,
    title: Option<String>,
    targets: Vec<SavedTarget>,
    phases: Vec<SavedPhase>,
    repetitions: u64,
    find_rate: Option<String>,
    seed: u64,
    pacing: SavedPacing,
    verification: Option<SavedVerification>,
    is_recorded: bool,
    counters: Option<SavedCounters>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SavedCounters {
    interval: Duration,
    watch: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedPacing {
    Exact,
    Balanced,
    Frugal,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SavedVerification {
    ram: Option<ByteSize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SavedTarget {
    address: String,
    serial: Option<String>,
    capacity: Option<ByteSize>,
    buffered: bool,
    #[serde(default)]
    drops_pages: bool,
    #[serde(default)]
    polls_submission: bool,
    #[serde(default)]
    polls_completion: bool,
    create: Option<ByteSize>,
    bare: bool,
    overrides: Vec<String>,
    faults_file: Option<PathBuf>,
    faults: Vec<String>,
    scheduler: Option<SchedulerSpec>,
    queue_depth: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SavedPhase {
    name: String,
    duration: Option<Duration>,
    steady: Option<SavedSteady>,
    ramp: Option<Duration>,
    ramp_requests: Option<u64>,
    interval: Duration,
    streams: Vec<SavedStream>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SavedSteady {
    figure: String,
    round: Duration,
    rounds_max: u64,
    hold: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SavedStream {
    name: String,
    target: usize,
    workload: SavedWorkload,
    retries: u32,
    retry_after: Duration,
    is_counted: bool,
    outstanding_max: Option<u32>,
    drops_late: bool,
    timeout: Option<Duration>,
    batch: u32,
    threads: u32,
    #[serde(default)]
    data: WriteData,
    #[serde(default)]
    priority: Option<IoPriority>,
    #[serde(default)]
    read_back: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedWorkload {
    /// A workload of the grammar, a trace or an application.
    Spec(Box<SavedSpec>),
    /// A job of fio.
    FioJob(Box<FioLoad>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SavedSpec {
    name: String,
    spec: WorkloadSpec,
    format: Option<String>,
    block_size: Option<ByteSize>,
    format_options: Vec<(String, String)>,
    shape: Option<PathBuf>,
    device: Option<u16>,
    from: Option<Duration>,
    fitted_requests: bool,
    at_issue: bool,
}

impl From<&BenchOptions> for SavedPlan {
    fn from(options: &BenchOptions) -> Self {
        Self {
            plan_version: VERSION,
            title: options.title.clone(),
            targets: options.targets.iter().map(SavedTarget::from).collect(),
            phases: options.phases.iter().map(SavedPhase::from).collect(),
            repetitions: options.repetitions,
            find_rate: options.find_rate.map(|bound| bound.to_string()),
            seed: options.seed.0,
            pacing: match options.pacing {
                Pacing::Exact => SavedPacing::Exact,
                Pacing::Balanced => SavedPacing::Balanced,
                Pacing::Frugal => SavedPacing::Frugal,
            },
            verification: options
                .verification
                .as_ref()
                .map(|verification| SavedVerification { ram: verification.ram }),
            is_recorded: options.record.is_some(),
            counters: options.counters.as_ref().map(|counters| SavedCounters {
                interval: counters.interval,
                watch: counters.watch.iter().map(ToString::to_string).collect(),
            }),
        }
    }
}

impl SavedPlan {
    /// Reads a plan, whose form must be the one that this program writes.
    ///
    /// # Errors
    /// Another version, or what is wrong.
    pub(super) fn read(value: &serde_json::Value) -> Result<Self, Failure> {
        let version = value.get("plan_version").and_then(serde_json::Value::as_u64);
        if version != Some(u64::from(VERSION)) {
            let found = version.map_or_else(|| "absent".to_owned(), |version| version.to_string());
            return Err(Failure::new(format!(
                "run.plan.plan_version is {found}: this program reads {VERSION}"
            ))
            .hint("run the command of the first run again"));
        }
        Self::deserialize(value).map_err(|error| Failure::new(format!("run.plan: {error}")))
    }

    /// True if the run wrote a trace.
    pub(super) const fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// The options of the same run.
    ///
    /// # Errors
    /// A bound or a figure that this version does not know.
    pub(super) fn options(self) -> Result<BenchOptions, Failure> {
        let counters = |saved: SavedCounters| {
            let watch = saved.watch.iter().map(|watch| watch.parse().map_err(Failure::new));
            Ok::<_, Failure>(CounterOptions {
                interval: saved.interval,
                watch: watch.collect::<Result<_, _>>()?,
            })
        };
        let find_rate = self.find_rate.map(|bound| bound.parse().map_err(Failure::new)).transpose()?;
        Ok(BenchOptions {
            title: self.title,
            targets: self.targets.into_iter().map(TargetChoice::from).collect(),
            phases: self.phases.into_iter().map(SavedPhase::options).collect::<Result<_, _>>()?,
            repetitions: self.repetitions,
            find_rate,
            seed: Seed(self.seed),
            pacing: match self.pacing {
                SavedPacing::Exact => Pacing::Exact,
                SavedPacing::Balanced => Pacing::Balanced,
                SavedPacing::Frugal => Pacing::Frugal,
            },
            verification: self
                .verification
                .map(|verification| VerificationOptions { ram: verification.ram, state: None }),
            counters: self.counters.map(counters).transpose()?,
            ..BenchOptions::default()
        })
    }
}

impl From<&TargetChoice> for SavedTarget {
    fn from(choice: &TargetChoice) -> Self {
        let Setup { bare, overrides, faults, queue } = &choice.setup;
        Self {
            address: choice.address.clone(),
            serial: choice.expected.serial.clone(),
            capacity: choice.expected.capacity,
            buffered: choice.buffered,
            drops_pages: choice.drops_pages,
            polls_submission: choice.polling.submission,
            polls_completion: choice.polling.completion,
            create: choice.create,
            bare: *bare,
            overrides: overrides.clone(),
            faults_file: faults.file.as_deref().map(absolute),
            faults: faults.lines.clone(),
            scheduler: queue.map(|(scheduler, _)| scheduler),
            queue_depth: queue.map(|(_, depth)| depth),
        }
    }
}

impl From<SavedTarget> for TargetChoice {
    fn from(saved: SavedTarget) -> Self {
        Self {
            address: saved.address,
            setup: Setup {
                bare: saved.bare,
                overrides: saved.overrides,
                faults: Faults { file: saved.faults_file, lines: saved.faults },
                queue: saved.scheduler.zip(saved.queue_depth),
            },
            buffered: saved.buffered,
            drops_pages: saved.drops_pages,
            polling: Polling { submission: saved.polls_submission, completion: saved.polls_completion },
            create: saved.create,
            expected: ExpectedDevice { serial: saved.serial, capacity: saved.capacity },
        }
    }
}

impl From<&PhaseOptions> for SavedPhase {
    fn from(phase: &PhaseOptions) -> Self {
        let (ramp, ramp_requests) = match phase.ramp {
            Ramp::None => (None, None),
            Ramp::Time(time) => (Some(time), None),
            Ramp::Requests(requests) => (None, Some(requests)),
        };
        Self {
            name: phase.name.clone(),
            duration: phase.duration,
            steady: phase.steady.map(|rule| SavedSteady {
                figure: rule.figure.name().to_owned(),
                round: rule.round,
                rounds_max: rule.rounds_max,
                hold: rule.hold,
            }),
            ramp,
            ramp_requests,
            interval: phase.interval,
            streams: phase.streams.iter().map(SavedStream::from).collect(),
        }
    }
}

impl SavedPhase {
    fn options(self) -> Result<PhaseOptions, Failure> {
        let steady = self.steady.map(|saved| {
            let figure = SteadyFigure::ALL.into_iter().find(|figure| figure.name() == saved.figure);
            let unknown = || Failure::new(format!("run.plan: there is no figure `{}`", saved.figure));
            let SavedSteady { round, rounds_max, hold, .. } = saved;
            Ok::<_, Failure>(SteadyRule { figure: figure.ok_or_else(unknown)?, round, rounds_max, hold })
        });
        Ok(PhaseOptions {
            name: self.name,
            duration: self.duration,
            steady: steady.transpose()?,
            ramp: match (self.ramp, self.ramp_requests) {
                (Some(time), _) => Ramp::Time(time),
                (None, Some(requests)) => Ramp::Requests(requests),
                (None, None) => Ramp::None,
            },
            interval: self.interval,
            streams: self.streams.into_iter().map(StreamOptions::from).collect(),
        })
    }
}

impl From<&StreamOptions> for SavedStream {
    fn from(stream: &StreamOptions) -> Self {
        let retries = stream.workload.retries();
        Self {
            name: stream.name.clone(),
            target: stream.target,
            workload: match &stream.workload {
                StreamLoad::Workload(workload) => SavedWorkload::Spec(Box::new(SavedSpec::from(&**workload))),
                StreamLoad::Job(job, _) => SavedWorkload::FioJob(job.clone()),
            },
            retries: retries.count,
            retry_after: retries.after,
            is_counted: stream.is_counted,
            outstanding_max: stream.outstanding_max,
            drops_late: stream.late == Late::Drop,
            timeout: stream.timeout,
            batch: stream.batch,
            threads: stream.threads,
            data: stream.data.clone(),
            priority: stream.priority,
            read_back: stream.read_back,
        }
    }
}

impl From<SavedStream> for StreamOptions {
    fn from(saved: SavedStream) -> Self {
        let retries = Retries { count: saved.retries, after: saved.retry_after };
        Self {
            name: saved.name,
            target: saved.target,
            workload: match saved.workload {
                SavedWorkload::Spec(spec) => StreamLoad::Workload(Box::new(spec.resolved(retries))),
                SavedWorkload::FioJob(job) => StreamLoad::Job(job, retries),
            },
            is_counted: saved.is_counted,
            outstanding_max: saved.outstanding_max,
            late: if saved.drops_late { Late::Drop } else { Late::Queue },
            timeout: saved.timeout,
            batch: saved.batch,
            threads: saved.threads,
            data: saved.data,
            priority: saved.priority,
            read_back: saved.read_back,
        }
    }
}

impl From<&ResolvedWorkload> for SavedSpec {
    fn from(workload: &ResolvedWorkload) -> Self {
        let mut spec = workload.spec.clone();
        if let WorkloadSpec::Replay(replay) = &mut spec {
            replay.trace = replay.trace.take().map(|trace| absolute_text(&trace));
        }
        let settings = &workload.options.settings;
        Self {
            name: workload.name.clone(),
            spec,
            format: workload.format.clone(),
            block_size: workload.options.block_size,
            format_options: settings
                .iter()
                .map(|setting| (setting.name.clone(), setting.value.clone()))
                .collect(),
            shape: workload.shape.as_deref().map(absolute),
            device: workload.part.device,
            from: workload.part.from,
            fitted_requests: workload.part.fitted_requests,
            at_issue: workload.part.at_issue,
        }
    }
}

impl SavedSpec {
    fn resolved(self, retries: Retries) -> ResolvedWorkload {
        let settings = self.format_options.into_iter().map(|(name, value)| Setting { name, value });
        ResolvedWorkload {
            name: self.name,
            spec: self.spec,
            format: self.format,
            options: ReadOptions {
                block_size: self.block_size,
                settings: settings.collect(),
                ..ReadOptions::default()
            },
            shape: self.shape,
            retries,
            part: ReplayPart {
                device: self.device,
                from: self.from,
                fitted_requests: self.fitted_requests,
                at_issue: self.at_issue,
            },
            // A measurement answers for the device alone.
            void: None,
        }
    }
}

/// Everything that determines the requests of a plan and the targets that they go to, but its seed and its repetitions.
pub(crate) fn identity(options: &BenchOptions) -> String {
    let folder = absolute(Path::new("."));
    let mut plan = SavedPlan { title: None, seed: 0, repetitions: 1, ..SavedPlan::from(options) };
    for target in &mut plan.targets {
        target.address = address_from(&folder, &target.address);
    }
    serde_json::to_string(&plan).expect("a plan has text keys")
}

/// The path from the root, if the current directory is known.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn absolute_text(path: &str) -> String {
    absolute(Path::new(path)).to_string_lossy().into_owned()
}

/// An address as it is understood from `folder`, the folder in which the first run was started.
pub(super) fn address_from(folder: &Path, address: &str) -> String {
    let (kind, inner) = TargetKind::of(address);
    let is_relative_file = kind.holds_data && !inner.contains("://") && Path::new(inner).is_relative();
    let is_relative_model = kind.is_model && inner.ends_with(".toml") && Path::new(inner).is_relative();
    if !is_relative_file && !is_relative_model {
        return address.to_owned();
    }
    let prefix = &address[..address.len() - inner.len()];
    format!("{prefix}{}", folder.join(inner).display())
}
