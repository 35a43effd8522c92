//! Measures a real target, or a model in virtual time, under a workload.
//!
//! ```text
//! TARGET ─▶ claim, open ─▶ lanes ─┐
//! W ─▶ load, dealt to threads ────┴▶ seeklab-bench ─▶ BenchFigures, page, trace
//! ```

mod comparison;
mod course;
mod figures;
mod fio_json;
mod load;
mod made;
mod page;
mod plan;
mod state_check;
mod trust;
mod verification;

use std::path::{Path, PathBuf};

use seeklab_bench::target::{Opening, Target, TargetFacts, TargetKind, TargetOptions};
use seeklab_bench::{ClaimOptions, Lane, claim, measure};
use seeklab_core::{ByteSize, Duration, Seed};
use seeklab_emulator::clock::{Clock, Pacing};
use seeklab_files::{check_distinct, check_writable};
use seeklab_report::Page;
use seeklab_traces::{Metadata, TraceWriter};
use serde_json::Value;

use crate::devices::{Resolved, Setup, resolve};
use crate::failure::Failure;
use crate::output::VERSION;
use crate::session::Session;
use crate::workload::{ResolvedWorkload, WorkloadOptions, resolve_workload};

use course::Course;
use load::Load;
use made::MadeFile;

pub use comparison::{
    ChangeThreshold, FigureChange, RunComparisonFigures, RunComparisonOptions, RunComparisonResult,
    ThresholdFigures, compare_runs,
};
pub use figures::{
    BenchFigures, CostFigures, HungFigures, IntervalFigures, LoadFigures, OperationFigures, ResponseTimes,
    ServiceTimes,
};
pub use seeklab_bench::{Late, Ramp};
pub use state_check::{StateCheckFigures, StateCheckOptions, StateCheckResult, check_state};
pub use verification::{FindingFigures, VerificationFigures, VerificationOptions};

/// Options of a measurement.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Target: a block device, a file, an NBD URI, `model:DEVICE` or `null`.
    pub target: String,
    /// Setup of a model.
    pub setup: Setup,
    /// Workload: a trace, a TOML file, or a line that describes it.
    pub workload: String,
    /// Options beside the workload.
    pub workload_options: WorkloadOptions,
    /// Seed of all random draws.
    pub seed: Seed,
    /// Time that counts [default: until the workload ends].
    pub duration: Option<Duration>,
    /// Part before it that does not count.
    pub ramp: Ramp,
    /// Length of an interval of the figures over time. Zero makes one interval of the whole.
    pub interval: Duration,
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
    /// Trade of processor time for exact arrivals.
    pub pacing: Pacing,
    /// Go through the page cache.
    pub buffered: bool,
    /// Make the target, a file of this size, for the run.
    pub create: Option<ByteSize>,
    /// Name of the target, typed again, to let the workload overwrite it.
    pub destroy: Option<String>,
    /// Check the data of every read; `None` leaves them unchecked.
    pub verification: Option<VerificationOptions>,
    /// Trace of every request.
    pub record: Option<PathBuf>,
    /// Path that the caller writes the page to.
    pub report: Option<PathBuf>,
    /// Folder for the results.
    pub folder: Option<PathBuf>,
    /// Send a line of figures to the listener at the end of every interval.
    pub live: bool,
}

/// Result of a measurement.
#[derive(Debug)]
pub struct BenchResult {
    /// Figures, as one JSON document.
    pub figures: BenchFigures,
    /// The same, with plots.
    pub page: Page,
    /// The same as fio 3 writes it (`json+`).
    pub fio: Value,
    /// Failure to write the trace.
    pub write_failure: Option<Failure>,
    /// The failed check: a target that holds requests, fails as a whole, or was not measured to the end.
    pub failure: Option<Failure>,
}

/// Measures the target under the workload.
///
/// # Errors
/// If target, workload or an output do not fit, or nothing could be measured. A target that fails later is part of the
/// result.
pub fn bench(session: &Session, options: &BenchOptions) -> Result<BenchResult, Failure> {
    let (kind, address) = TargetKind::of(&options.target);
    let workload = resolve_workload(&options.workload, &options.workload_options)?;
    let load = Load::new(&workload, options)?;
    check_outputs(options, kind, address, &workload)?;
    let device = options.device(kind, address)?;
    let made = match options.create {
        Some(size) => Some(MadeFile::create(session, kind, address, size)?),
        None => None,
    };
    let path = kind.holds_data.then(|| Path::new(address)).filter(|path| path.exists());
    let _claim = options.claim(kind, path, made.is_some(), &load)?;
    let targets = options.open(kind, address, device.as_ref(), &load)?;
    let (verification, targets) = verification::start(options, kind, &load, targets)?;
    let facts = targets[0].facts().clone();
    let mut lanes = Vec::new();
    for (index, target) in targets.into_iter().enumerate() {
        let workload = load.share(&workload, &facts, device.as_ref(), options, index as u32)?;
        lanes.push(Lane { target, workload });
    }
    let plan = plan::plan(options, kind, &load);
    let trace = options.trace(session, &facts, kind, device.as_ref())?;
    let mut course = Course::new(session, options, trace);
    // What was prepared is no part of the run.
    let mut measurement = measure(&plan, Clock::start(), lanes, &mut course)?;
    if !load.is_open {
        // The requests that follow the last completions of a closed load are no arrivals that the target kept waiting.
        measurement.totals.unissued = 0;
    }
    let write_failure = course.finish();
    drop(made);
    let findings = verification.map(|verification| verification.findings());
    let wrong = findings.as_ref().and_then(|findings| verification::failure(&options.target, findings));
    let failure = wrong.or_else(|| failure(&load, options, &measurement));
    let mut notes = trust::notes(&plan, &load, &facts, &measurement);
    findings.iter().flat_map(verification::notes).for_each(|(limits, note)| notes.add(limits, note));
    let mut figures = BenchFigures::new(session, options, kind, &plan, &facts, &measurement, notes);
    figures.verification = findings.as_ref().map(VerificationFigures::from);
    let page = page::page(&figures, &measurement);
    let fio = fio_json::document(&figures, &workload.spec, options, &measurement);
    Ok(BenchResult { figures, page, fio, write_failure, failure })
}

/// The failed check of a measurement, if there is one.
fn failure(load: &Load, options: &BenchOptions, measurement: &seeklab_bench::Measurement) -> Option<Failure> {
    if let Some(failure) = load.failure() {
        return Some(failure);
    }
    if let Some(error) = &measurement.failure {
        return Some(Failure::check(Failure::chain(error).to_string()));
    }
    let totals = &measurement.totals;
    let held = totals.unfinished.len();
    if held > 0 || totals.silent_threads > 0 {
        let oldest = totals.unfinished.iter().map(|request| request.age).max().unwrap_or_default();
        let requests = crate::output::counted(held, "request");
        return Some(Failure::check(format!(
            "`{}`: never returned {requests}, the oldest issued {:.1} s before the end",
            options.target,
            oldest.as_s()
        )));
    }
    if totals.part.requests() == 0 && totals.part.failed > 0 {
        let failed = crate::output::counted(totals.part.failed as usize, "request");
        return Some(Failure::check(format!(
            "`{}`: carried out no request, {failed} failed",
            options.target
        )));
    }
    measurement.is_stopped.then(Failure::interrupted)
}

/// Checks the outputs before the work.
fn check_outputs(
    options: &BenchOptions,
    kind: &TargetKind,
    address: &str,
    workload: &ResolvedWorkload,
) -> Result<(), Failure> {
    let inputs = || {
        let target = kind.holds_data.then(|| PathBuf::from(address));
        let shape = options.workload_options.shape.clone();
        let named =
            [Some(PathBuf::from(&options.workload)), workload.trace().map(PathBuf::from), shape, target];
        named.into_iter().flatten()
    };
    for path in options.record.iter().chain(&options.report) {
        check_distinct(path, inputs())?;
    }
    if options.record.is_some() && options.record == options.report {
        return Err(Failure::new("--report: is the file of --record").hint("name another file"));
    }
    if let Some(folder) = &options.folder {
        let run = folder.join("run.json");
        if run.exists() {
            return Err(Failure::new(format!("{}: holds the results of another run", folder.display()))
                .hint("name another folder"));
        }
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::from(error).context(format!("{}: cannot be made", folder.display())))?;
        check_writable(&run)?;
    }
    Ok(())
}

impl BenchOptions {
    /// The model, if the target is one.
    fn device(&self, kind: &TargetKind, address: &str) -> Result<Option<Resolved>, Failure> {
        if kind.is_virtual {
            return resolve(address, &self.setup).map(Some);
        }
        let Setup { bare, overrides, faults, queue } = &self.setup;
        let is_set_up = *bare || !overrides.is_empty() || queue.is_some();
        if is_set_up || faults.file.is_some() || !faults.lines.is_empty() {
            let problem = "--bare, --set, --fault, --faults and --scheduler set up a model";
            return Err(Failure::new(format!("{problem}, and `{}` is none", self.target))
                .hint("write model:DEVICE to measure a model in virtual time"));
        }
        Ok(None)
    }

    /// Leave to write, if the load writes to a target that holds data.
    fn claim(
        &self,
        kind: &TargetKind,
        path: Option<&Path>,
        is_own: bool,
        load: &Load,
    ) -> Result<Option<seeklab_bench::Claim>, Failure> {
        if !kind.holds_data || !load.writes {
            if self.destroy.is_some() {
                return Err(Failure::new("--destroy: nothing would be overwritten")
                    .hint("it goes with a workload that writes to a device, a file or an export"));
            }
            return Ok(None);
        }
        let options = ClaimOptions { address: &self.target, path, destroy: self.destroy.as_deref(), is_own };
        Ok(Some(claim(options)?))
    }

    /// Opens the target once for each thread.
    fn open(
        &self,
        kind: &TargetKind,
        address: &str,
        device: Option<&Resolved>,
        load: &Load,
    ) -> Result<Vec<Box<dyn Target>>, Failure> {
        let build = |_: &str| {
            let device = device.expect("the target is a model");
            device.build(self.seed, "disk0").map_err(|failure| failure.to_string())
        };
        let room = plan::outstanding_max(self, load).div_ceil(self.threads);
        let options = TargetOptions {
            outstanding_max: room,
            direct: !self.buffered,
            prepared_bytes: load.prepared_bytes,
            reads: load.reads,
            writes: load.writes,
            seed: self.seed.0,
        };
        let opening = Opening { clock: Clock::start(), options: &options, device: &build };
        let targets = (0..self.threads).map(|_| (kind.open)(address, &opening));
        let targets: Vec<Box<dyn Target>> = targets.collect::<Result<_, _>>()?;
        Ok(targets)
    }

    /// The trace of every request, if one was requested.
    fn trace(
        &self,
        session: &Session,
        facts: &TargetFacts,
        kind: &TargetKind,
        device: Option<&Resolved>,
    ) -> Result<Option<Box<dyn TraceWriter>>, Failure> {
        let Some(path) = &self.record else { return Ok(None) };
        let mut metadata = Metadata {
            block_size: facts.space.block_size,
            seed: Some(self.seed),
            device: Some(device.map_or_else(|| self.target.clone(), |device| device.description.to_toml())),
            version: Some(VERSION.to_owned()),
            clock: Some(if kind.is_virtual { "simulated" } else { "monotonic" }.to_owned()),
            ..Metadata::default()
        };
        let bytes = facts.space.capacity_blocks.saturating_mul(facts.space.block_size.as_bytes());
        metadata.set_capacity(0, ByteSize::from_bytes(bytes));
        session.create_trace(path, None, &metadata).map(Some)
    }
}
