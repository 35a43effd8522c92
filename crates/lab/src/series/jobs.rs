//! A stream of jobs for real: processor time is burnt, and requests go to the emulated device, over NBD or past the page
//! cache of a block device.

use std::sync::mpsc::Sender;

use schemars::JsonSchema;
use seeklab_analysis::HostKnown;
use seeklab_core::{ByteSize, HostRequest};
use seeklab_emulator::client::jobs::{self, DriveClient, JobsOptions, JobsResult, Scheduling};
use seeklab_emulator::client::{ClientError, file, nbd};
use seeklab_emulator::clock::priority::Thread;
use seeklab_emulator::frontend::loop_device::QueueOptions;
use seeklab_emulator::frontend::nbd::Uri;
use seeklab_stage::{FileSystem, Needs};
use seeklab_workloads::{AddressSpace, JobsSpec};
use serde::{Deserialize, Serialize};

use super::figures::PhaseFigures;
use super::repetition::{Ran, Repetition};
use super::{Series, host};
use crate::emulate::{HostMessage, Running, capabilities_of};
use crate::failure::Failure;
use crate::jobs::JobsSummary;

/// A stream of jobs, and the way to its device.
#[derive(Debug, Clone)]
pub struct Jobs {
    /// The stream.
    pub spec: Box<JobsSpec>,
    /// Stream as requested by the user.
    pub line: String,
    /// Options of the host's queue, if the stream uses a block device past the page cache. `None` for NBD.
    pub block: Option<QueueOptions>,
}

/// Scheduling of the threads of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobsScheduling {
    /// Jobs, drives and emulator had real-time priorities.
    RealTime,
    /// All had an ordinary priority, because the kernel refused others.
    Ordinary,
}

/// Figures of a stream of jobs that ran for real.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobsRunFigures {
    /// Figures as a simulation has them.
    #[serde(flatten)]
    pub summary: JobsSummary,
    /// Scheduling of the threads.
    pub scheduling: JobsScheduling,
    /// Processor of jobs and drives. `None` if they could not be pinned to one.
    pub processor: Option<u32>,
    /// True if the emulator had to use the processor of the jobs.
    pub processor_is_shared: bool,
    /// Time for which a job could compute and neither a job nor a drive had the processor.
    pub lost_processor_s: f64,
    /// Warnings about the run.
    pub notes: Vec<String>,
}

/// Share of the elapsed time that may be lost without a warning.
const LOST_MAX: f64 = 0.005;

impl JobsRunFigures {
    fn of(result: &JobsResult) -> Self {
        let summary = JobsSummary::from(&result.figures);
        let mut notes = Vec::new();
        if let Scheduling::Ordinary(reason) = &result.scheduling {
            notes.push(format!(
                "{reason}, so other work of the machine delays jobs and replies; run as root, or raise the limit with \
                 `ulimit -r {PRIORITY_MAX}`"
            ));
        }
        if result.is_shared {
            notes.push("there is one processor, so the emulator takes time of the jobs".to_owned());
        } else if result.processor.is_none() {
            notes.push(
                "the jobs could not be pinned to one processor, so they may run at the same time".to_owned(),
            );
        }
        let lost_s = result.lost.as_s();
        if lost_s > LOST_MAX * summary.elapsed_s {
            notes.push(format!(
                "the processor was not available to the jobs for {lost_s:.2} s, {:.1} % of the elapsed time",
                100.0 * lost_s / summary.elapsed_s
            ));
        }
        Self {
            summary,
            scheduling: match result.scheduling {
                Scheduling::RealTime => JobsScheduling::RealTime,
                Scheduling::Ordinary(_) => JobsScheduling::Ordinary,
            },
            processor: result.processor.map(|number| number as u32),
            processor_is_shared: result.is_shared,
            lost_processor_s: lost_s,
            notes,
        }
    }
}

/// The highest priority that a run sets.
const PRIORITY_MAX: u8 = 30;

/// The blocks of each drive.
fn space(series: &Series, block_size: ByteSize) -> AddressSpace {
    AddressSpace { capacity_blocks: series.size.as_bytes() / block_size.as_bytes(), block_size }
}

/// Checks that the stream fits every device, and that a block device can be made.
pub(super) fn check(series: &Series, jobs: &Jobs) -> Result<(), Failure> {
    for device in &series.devices {
        let space = space(series, capabilities_of(device)?.block_size);
        jobs::check(&jobs.spec, space)
            .map_err(|error| Failure::from(error).context(format!("--builtin `{}`", jobs.line)))?;
    }
    let Some(queue) = &jobs.block else { return Ok(()) };
    if let Some((what, remedy)) = queue.unavailability() {
        return Err(Failure::new(what).hint(remedy));
    }
    host::check_needs(&Needs { block_over_fuse: true, file_system: FileSystem::None, ..Needs::default() })
}

/// Runs the stream over NBD; `connected` is called once its drives have connected.
pub(super) fn run_over_nbd(
    what: &Repetition<'_>,
    jobs: &Jobs,
    (running, uri): (&Running, &Uri),
    host: &Sender<HostMessage>,
    connected: &mut dyn FnMut(),
) -> Result<Ran, Failure> {
    let connect = |number: u16| {
        let client = nbd::Client::connect(uri, running.clock()).map_err(|error| Failure::chain(&error))?;
        Ok(DriveClient::over_nbd(client, u64::from(number) * what.series.size.as_bytes()))
    };
    let drives = (0..jobs.spec.drives).map(connect).collect::<Result<_, Failure>>();
    connected();
    run(what, jobs, running, drives?, host)
}

/// Runs the stream on the block device.
pub(super) fn run_on_block(
    what: &Repetition<'_>,
    jobs: &Jobs,
    running: &Running,
    host: &Sender<HostMessage>,
) -> Result<Ran, Failure> {
    let path = running.block().expect("the emulation was started with it").path();
    let open = |number: u16| {
        let failed = |error| Failure::from(error).context(path.display().to_string());
        let client = file::Client::open(path, running.clock()).map_err(failed)?;
        if !client.is_direct() {
            let what = format!("{}: cannot be opened past the page cache", path.display());
            return Err(Failure::new(what).hint("leave out --block"));
        }
        Ok(DriveClient::over_file(client, u64::from(number) * what.series.size.as_bytes()))
    };
    let drives = (0..jobs.spec.drives).map(open).collect::<Result<_, Failure>>()?;
    run(what, jobs, running, drives, host)
}

fn run(
    what: &Repetition<'_>,
    jobs: &Jobs,
    running: &Running,
    drives: Vec<DriveClient>,
    host: &Sender<HostMessage>,
) -> Result<Ran, Failure> {
    // With one drive, one request is outstanding: the host's side is known up to the last completion. What is joined during
    // the run corrects the compensation.
    let is_known = jobs.spec.drives == 1;
    let observe = |request: &HostRequest| {
        // The joining thread has ended early only if it panicked, which is reported there.
        let _ = host.send(HostMessage::Request(*request));
        if is_known {
            let known = HostKnown { issued: request.completion, happened: request.completion };
            let _ = host.send(HostMessage::Until(known));
        }
    };
    let options = JobsOptions {
        clock: running.clock(),
        emulator: Some(Thread::Numbered(running.thread_number())),
        stop: Some(what.interruption.flag()),
        observe: &observe,
    };
    let space = space(what.series, capabilities_of(what.device)?.block_size);
    let mut steps = what.session.steps("jobs", u64::from(jobs.spec.jobs));
    let mut ended = 0;
    let mut progress = |jobs: u32| {
        // A stop is noticed by the runner.
        let _ = steps.steps(u64::from(jobs - ended));
        ended = jobs;
    };
    let result = jobs::run_jobs(&jobs.spec, drives, space, what.series.seed, &options, &mut progress);
    let result = result.map_err(|error| match &error {
        ClientError::Stopped { .. } => Failure::check("interrupted"),
        _ => Failure::chain(&error),
    })?;
    let figures = JobsRunFigures::of(&result);
    let phase = PhaseFigures {
        name: "jobs".to_owned(),
        elapsed_s: figures.summary.elapsed_s,
        flush_s: 0.0,
        user_s: result.user.as_s(),
        system_s: result.kernel.as_s(),
        exit_code: 0,
        system_trace: None,
    };
    Ok(Ran { phases: vec![phase], jobs: Some(figures), ..Ran::default() })
}
