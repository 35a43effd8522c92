//! Measures real targets, or models in virtual time, under workloads.
//!
//! ```text
//! targets ─▶ claim, open ─▶ lanes ─┐
//! workloads ─▶ load, share ────────┴▶ seeklab-bench, phase by phase ─▶ BenchFigures, page, trace
//! ```

mod answer;
mod compared_runs;
mod comparison;
mod counters;
mod course;
mod curves;
mod displaced;
mod figure_names;
mod figures;
mod fio;
mod fio_json;
mod folder;
mod free_space;
mod listener;
mod load;
mod made;
mod options;
mod overwriting;
mod page;
mod page_cache;
mod phase;
mod phases;
mod plan;
mod plan_file;
mod ranges;
mod rates;
mod read_back;
mod repeated;
mod rerun;
mod run_document;
mod saved_plan;
mod served_page;
mod state_check;
mod targets;
mod trust;
mod verification;
mod verified_run;

use std::path::PathBuf;
use std::sync::mpsc;

use seeklab_bench::Listener;
use seeklab_bench::target::TargetKind;
use seeklab_core::ByteSize;
use seeklab_emulator::clock::KeptAwake;
use seeklab_files::{check_apart, check_distinct};
use seeklab_report::Page;
use seeklab_traces::{Metadata, TraceWriter};
use serde_json::Value;

use crate::failure::Failure;
use crate::output::VERSION;
use crate::session::Session;

use course::Course;
use folder::RunFolder;
use load::Load;
use phase::{PhaseRun, Run};
use rates::RateSearch;
use targets::ReadyTarget;

pub use comparison::{
    ChangeThreshold, FigureChange, RunComparisonFigures, RunComparisonOptions, RunComparisonResult,
    ThresholdFigures, compare_runs,
};
pub use counters::{CounterFigures, CounterSeriesFigures, counter_plots};
pub use figures::{
    BenchFigures, CostFigures, CountFigures, HungFigures, IntervalFigures, LoadFigures, OperationFigures,
    ResponseTimes, ServiceTimes,
};
pub use fio::{
    FioArrivals, FioLoad, FioLog, FioLogFigure, FioOptions, FioSize, FioWorkload, FioZones, read as read_fio,
};
pub use folder::{TRACE as TRACE_FILE, is_run_under_way, unfinished_run};
pub use listener::{BenchListener, DrainingFigures, PhaseStart, UnheardBench};
pub use options::{BenchOptions, ExpectedDevice, PhaseOptions, StreamLoad, StreamOptions, TargetChoice};
pub use overwriting::{OverwrittenTarget, overwritten};
pub use page::interval_plots;
pub use phases::{PhaseFigures, SteadyChangeFigures, SteadyFigures, StreamFigures};
pub use plan_file::{
    PlanOverrides, document as plan_document, page as plan_page, read as read_plan,
    read_text as read_plan_text,
};
pub use rates::{FoundRateFigures, OfferedRate, RateLimit, TrialFigures, with_rates};
pub use repeated::{RepeatedFigure, RepeatedFigures};
pub use rerun::rerun;
pub use run_document::{RunFacts, RunHost, RunSource, RunState, RunTarget};
pub use seeklab_bench::counters::{CounterOptions, Counters, Watch};
pub use seeklab_bench::target::Polling;
pub use seeklab_bench::{IoPriority, Late, Ramp, SteadyFigure, SteadyRule, WriteData};
pub use served_page::BenchPage;
pub use state_check::{
    StateCheckFigures, StateCheckOptions, StateCheckResult, StateFigures, TargetStateFigures, check_state,
};
pub use targets::MeasuredTargets;
pub use verification::{
    FindingFigures, ReadBackFigures, StreamFindingFigures, VerificationFigures, VerificationOptions,
};

pub(crate) use figure_names::{figure_names, named_figures};
pub(crate) use overwriting::{is_overwritten, names_typed_again};
pub(crate) use plan_file::TargetTable;
pub(crate) use saved_plan::identity;

/// Result of a measurement.
#[derive(Debug)]
pub struct BenchResult {
    /// Figures, as one JSON document.
    pub figures: BenchFigures,
    /// The same, with plots.
    pub page: Page,
    /// The same as fio 3 writes it (`json+`): a job for each stream of each run of a phase.
    pub fio: Value,
    /// Failure to write the trace or the folder.
    pub write_failure: Option<Failure>,
    /// The failed check: a target that holds requests, fails as a whole, or was not measured to the end.
    pub failure: Option<Failure>,
    /// The targets, which nobody else can claim until this is dropped.
    pub targets: MeasuredTargets,
}

/// Measures the targets under the workloads, phase by phase.
///
/// # Errors
/// If targets, workloads or an output do not fit, or nothing could be measured. A target that fails later is part of the
/// result.
pub fn bench(session: &Session, options: &BenchOptions) -> Result<BenchResult, Failure> {
    bench_with(session, options, &mut UnheardBench)
}

/// Measures as [`bench()`], and sends the figures to a listener while it goes on.
///
/// # Errors
/// As those of [`bench()`].
pub fn bench_with(
    session: &Session,
    options: &BenchOptions,
    listener: &mut dyn BenchListener,
) -> Result<BenchResult, Failure> {
    bench_in_folder(session, options, listener).map_err(|failure| options.worded(failure))
}

fn bench_in_folder(
    session: &Session,
    options: &BenchOptions,
    listener: &mut dyn BenchListener,
) -> Result<BenchResult, Failure> {
    check(options)?;
    let mut search = options.find_rate.map(|bound| RateSearch::new(options, bound)).transpose()?;
    let loads = loads(options)?;
    let streams = options.phases.iter().flat_map(|phase| &phase.streams);
    for void in streams.filter_map(|stream| stream.workload.workload()?.void.as_ref()) {
        session.remark(format!("warning: {void}"));
    }
    verified_run::check(options, &loads)?;
    let is_folder_made = check_outputs(options)?;
    let ready = || {
        let targets = targets::ready(session, options, &loads)?;
        let folder = RunFolder::begin(session, options, &targets)?;
        Ok((targets, folder))
    };
    // A target whose opening ended with the stop has not failed.
    let stopped = |failure: Failure| match session.stop().is_stopped() {
        true => options.worded(failure).before_figures(),
        false => options.worded(failure),
    };
    let (targets, mut folder) = ready().map_err(stopped).inspect_err(|_: &Failure| {
        if let Some(folder) = options.folder.as_ref().filter(|_| is_folder_made) {
            // Files of a run that began stay.
            let _ = std::fs::remove_dir(folder);
        }
    })?;
    drop(loads);
    let mut result =
        run((session, listener), options, search.as_mut(), targets, folder.as_mut()).map_err(stopped);
    if let Ok(result) = &mut result {
        result.failure = result.failure.take().map(|failure| options.worded(failure));
    }
    match (folder, result) {
        (None, result) => result,
        (Some(folder), Ok(mut result)) => {
            let failure = result.failure.as_ref().or(result.write_failure.as_ref());
            let written = folder.finish(&result.figures, failure);
            result.write_failure =
                Failure::all(result.write_failure.into_iter().chain(written.err()).collect());
            Ok(result)
        }
        (Some(folder), Err(failure)) => {
            folder.fail(&failure, session.stop().is_stopped());
            Err(failure)
        }
    }
}

/// Refuses options that do not go together.
fn check(options: &BenchOptions) -> Result<(), Failure> {
    if let (Some(_), Some(model)) = (
        &options.counters,
        options.targets.iter().find(|target| TargetKind::of(&target.address).0.is_virtual),
    ) {
        return Err(Failure::new(format!("--counters: `{}` is measured in virtual time", model.address))
            .hint("counters are those of real time; leave them out, or measure a real target"));
    }
    Ok(())
}

/// Checks what [`bench()`] checks without a target.
///
/// # Errors
/// If options, targets or workloads do not fit each other.
pub(crate) fn check_options(options: &BenchOptions) -> Result<(), Failure> {
    let checked = || {
        check(options)?;
        targets::check_kinds(options)?;
        targets::check_buffering(options)?;
        verified_run::check(options, &loads(options)?)
    };
    checked().map_err(|failure| options.worded(failure))
}

/// Measures the targets, which are ready.
fn run(
    (session, listener): (&Session, &mut dyn BenchListener),
    options: &BenchOptions,
    search: Option<&mut RateSearch>,
    mut targets: Vec<ReadyTarget>,
    mut folder: Option<&mut RunFolder>,
) -> Result<BenchResult, Failure> {
    let is_virtual = targets.iter().any(|target| target.kind.is_virtual);
    let held = if is_virtual { None } else { KeptAwake::under(options.pacing) };
    let (samples, taken) = mpsc::channel();
    let counting = match &options.counters {
        Some(counters) => {
            Some((counters, counters::begin(session, counters, options.folder.as_deref(), samples)?))
        }
        None => None,
    };
    let mut course = Course::new(session, options, folder.as_deref_mut(), listener, taken);
    let (mut measured, mut of_measured) =
        measure(session, options, search.as_deref(), &mut targets, &mut course)?;
    let found = match search {
        None => None,
        Some(search) => loop {
            let is_over =
                measured.is_stopped || measured.phases.iter().any(|run| run.measurement.failure.is_some());
            if is_over {
                measured.phases[0].notes.add(true, search.unfinished(true));
                break search.figures_so_far();
            }
            let is_found = search.take(&figures::total(&measured.phases));
            if !is_found || !search.is_last_found() {
                match measure(session, options, Some(search), &mut targets, &mut course) {
                    Ok(next) => (measured, of_measured) = next,
                    // The trials until then are kept.
                    Err(_) if session.stop().is_stopped() => {
                        measured.phases[0].notes.add(true, search.unfinished(false));
                        measured.is_stopped = true;
                        break search.figures_so_far();
                    }
                    Err(failure) => return Err(failure),
                }
            }
            if is_found {
                let found = search.figures();
                if let Some(note) = found.doubt() {
                    measured.phases[0].notes.add(true, note);
                }
                break Some(found);
            }
        },
    };
    let options = &of_measured;
    let counted = counting.map(|(counters, thread)| (counters, thread.finish()));
    course.look();
    let write_failure = course.finish();
    if let Some(folder) = folder {
        folder.complete(options, &measured.phases, counted.as_ref().map(|(_, counters)| counters));
    }
    let wrong = measured.verification.as_ref().and_then(verification::failure);
    let failure = wrong.or(measured.failure.take()).or_else(|| failure(options, &measured));
    let notes = &mut measured.phases[0].notes;
    let verified = measured.verification.iter().flat_map(verification::notes);
    verified.for_each(|(limits, note)| notes.add(limits, note));
    let mut figures = BenchFigures::new(session, options, &measured.phases, found);
    figures.stopped = measured.is_stopped;
    figures.processors = KeptAwake::processors(held.as_ref());
    figures.verification = measured.verification.take();
    figures.counters = counted.as_ref().map(|(options, counters)| CounterFigures::of(options, counters));
    let counted = counted.as_ref().map(|(_, counters)| counters);
    let page = page::page(options, &figures, &measured.phases, counted);
    let fio = fio_json::document(options, &measured.phases);
    let targets = MeasuredTargets::new(targets);
    Ok(BenchResult { figures, page, fio, write_failure, failure, targets })
}

/// A run of all phases.
struct Measured {
    loads: Vec<Vec<Load>>,
    phases: Vec<PhaseRun>,
    /// Results of the check of the data, if there is one.
    verification: Option<VerificationFigures>,
    /// Reason for which a later phase or repetition could not begin.
    failure: Option<Failure>,
    /// True if the caller ended the run.
    is_stopped: bool,
}

/// Measures all phases, at the rate of a search if there is one. Returns the options of the run, too.
fn measure(
    session: &Session,
    options: &BenchOptions,
    search: Option<&RateSearch>,
    targets: &mut [ReadyTarget],
    course: &mut Course<'_>,
) -> Result<(Measured, BenchOptions), Failure> {
    let options = match search {
        Some(search) => search.options(options)?,
        None => options.clone(),
    };
    let loads = loads(&options)?;
    let mut run = Run::new(session, &options, &loads);
    run.check(targets)?;
    let make = |facts: &[Option<seeklab_bench::target::TargetFacts>], targets: &[ReadyTarget]| {
        trace(session, &options, facts, targets)
    };
    let phases = run.measure(targets, course, &make)?;
    let (verification, failure, is_stopped) = (run.verification(), run.take_failure(), run.is_stopped());
    Ok((Measured { loads, phases, verification, failure, is_stopped }, options))
}

/// The loads of all streams of each phase.
fn loads(options: &BenchOptions) -> Result<Vec<Vec<Load>>, Failure> {
    let of_phase = |phase: &PhaseOptions| {
        let load = |stream: &StreamOptions| {
            Load::new(stream).map_err(|failure| match options.is_one_stream() {
                true => failure,
                false => failure.context(format!("phase `{}`, stream `{}`", phase.name, stream.name)),
            })
        };
        phase.streams.iter().map(load).collect()
    };
    options.phases.iter().map(of_phase).collect()
}

/// Advice on requests that a file or block device has not returned.
fn held_by_kernel() -> String {
    format!(
        "requests that the kernel holds may keep process {}, which sent them, until the target answers or goes",
        std::process::id()
    )
}

/// The failed check of a measurement, if there is one.
fn failure(options: &BenchOptions, measured: &Measured) -> Option<Failure> {
    let Measured { loads, phases, .. } = measured;
    let place = |failure: Failure, run: &PhaseRun| match options.phases.len() {
        1 => failure,
        _ => failure.context(format!("phase `{}`", run.options(options).name)),
    };
    if let Some(failure) = loads.iter().flatten().find_map(Load::failure) {
        return Some(failure);
    }
    for run in phases {
        let measurement = &run.measurement;
        if let Some(error) = &measurement.failure {
            return Some(place(Failure::check(Failure::chain(error).to_string()), run));
        }
        for (stream, totals) in run.options(options).streams.iter().zip(&measurement.streams) {
            let address = &options.targets[stream.target].address;
            if !totals.unfinished.is_empty() || totals.silent_threads > 0 {
                let oldest = totals.unfinished.iter().map(|request| request.age).max();
                let age = oldest.map(|age| format!(", the oldest issued {:.1} s before the end", age.as_s()));
                let problem =
                    format!("`{address}`: {}{}", trust::unreturned(totals), age.unwrap_or_default());
                let failure = Failure::check(problem);
                // Connections of others end with the process.
                let is_of_kernel = TargetKind::of(address).0.is_of_kernel();
                let failure = if is_of_kernel { failure.hint(held_by_kernel()) } else { failure };
                return Some(place(failure, run));
            }
            if let Some(away) = trust::away_at_end(totals) {
                let problem = format!("`{address}`: {away}");
                return Some(place(Failure::check(problem), run));
            }
            if totals.part.requests() == 0 && totals.part.failed > 0 {
                let failed = seeklab_core::number_words::counted(totals.part.failed, "request");
                let problem = format!("`{address}`: carried out no request, {failed} failed");
                return Some(place(Failure::check(problem), run));
            }
        }
    }
    if measured.is_stopped {
        return Some(Failure::interrupted());
    }
    let unsteady = |run: &&PhaseRun| {
        run.options(options).steady.is_some()
            && run.measurement.steady.as_ref().is_some_and(|track| track.changes().is_empty())
    };
    if let Some(run) = phases.iter().find(unsteady) {
        let rounds = run.measurement.steady.as_ref().map_or(0, |track| track.figures().len());
        let rounds = seeklab_core::number_words::counted(rounds, "round");
        let name = &run.options(options).name;
        return Some(Failure::check(format!("phase `{name}`: no steady state in {rounds}")));
    }
    let is_empty = |run: &&PhaseRun| run.measurement.totals.part.attempts == 0;
    let run = phases.iter().find(is_empty)?;
    let ramp = if run.options(options).ramp == Ramp::None { "" } else { " behind the ramp-up" };
    Some(place(Failure::check(format!("no request was issued{ramp}, so nothing was measured")), run))
}

/// Files that a measurement reads or writes and that are no results: those of its workloads, of its options, and its targets.
pub(crate) fn inputs(options: &BenchOptions) -> impl Iterator<Item = PathBuf> {
    let streams = options.phases.iter().flat_map(|phase| &phase.streams);
    let named = streams.filter_map(|stream| stream.workload.workload()).flat_map(|workload| {
        [Some(PathBuf::from(&workload.name)), workload.trace().map(PathBuf::from), workload.shape.clone()]
    });
    named.flatten().chain(options.inputs.iter().cloned()).chain(targets::paths(options))
}

/// Checks the outputs before the work.
/// Returns true if the folder of the run was made.
fn check_outputs(options: &BenchOptions) -> Result<bool, Failure> {
    // The folder is made last, so that no mistake leaves it behind.
    let is_in_folder =
        |path: &&PathBuf| options.folder.as_deref().is_some_and(|folder| path.parent() == Some(folder));
    let mut logs: Vec<&PathBuf> = options.fio_logs.iter().map(|log| &log.path).collect();
    // Several jobs may share one.
    logs.sort();
    logs.dedup();
    let outputs = options.record.iter().chain(&options.report).filter(|path| !is_in_folder(path));
    for path in outputs.chain(logs.iter().copied()) {
        check_distinct(path, inputs(options))?;
    }
    let state = options.verification.iter().filter_map(|verification| verification.state.as_ref());
    let run = options.folder.as_ref().map(|folder| folder.join("run.json"));
    check_apart(options.record.iter().chain(&options.report).chain(state).chain(&run).chain(logs))?;
    if let Some(folder) = &options.folder {
        return folder::check(folder, options.fresh);
    }
    Ok(false)
}

/// The trace of every request, if one was requested.
fn trace(
    session: &Session,
    options: &BenchOptions,
    facts: &[Option<seeklab_bench::target::TargetFacts>],
    targets: &[ReadyTarget],
) -> Result<Option<Box<dyn TraceWriter>>, Failure> {
    let Some(path) = &options.record else { return Ok(None) };
    let spaces =
        || facts.iter().enumerate().filter_map(|(index, facts)| Some((index, facts.as_ref()?.space)));
    let Some((first, space)) = spaces().next() else { return Ok(None) };
    if let Some((other, _)) = spaces().find(|(_, other)| other.block_size != space.block_size) {
        let problem = format!(
            "--record: the blocks of `{}` and `{}` differ in size, and a trace has one size",
            targets[first].address, targets[other].address
        );
        return Err(Failure::new(problem));
    }
    let device = match &targets[first].device {
        Some(device) => device.description.to_toml(),
        None => targets[first].address.clone(),
    };
    let mut metadata = Metadata {
        block_size: space.block_size,
        seed: Some(options.seed),
        device: Some(device),
        version: Some(VERSION.to_owned()),
        clock: Some(if targets[first].kind.is_virtual { "simulated" } else { "monotonic" }.to_owned()),
        ..Metadata::default()
    };
    for (index, space) in spaces() {
        let bytes = space.capacity_blocks.saturating_mul(space.block_size.as_bytes());
        metadata.set_capacity(index as u16, ByteSize::from_bytes(bytes));
    }
    session.create_saved_trace(path, &metadata).map(Some)
}
