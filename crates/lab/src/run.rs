//! One run: a device, a workload, a seed.

use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant as WallClock;

use rustix::time::{ClockId, clock_gettime};
use seeklab_analysis::Metrics;
use seeklab_core::number_words::{counted, numbered};
use seeklab_core::{
    Arrival, ArrivalOrder, ByteSize, Capabilities, ClassHistory, Completion, Coverage, DescriptionError,
    Device, Duration, Instant, Limits, Seed, Simulation, SimulationError, TraceRecord, Workload,
};
use seeklab_report::Note;
use seeklab_traces::schema::Column;
use seeklab_traces::{Metadata, OpenTrace, TraceError, TraceWriter, capacity_key};
use seeklab_workloads::host::SystemSpec;
use seeklab_workloads::replay::{
    ArrivalMode, DependencyCounts, DerivedThinkTimes, Mode, Population, Replay, ReplaySpec, Survey,
    ThinkTimes,
};
use seeklab_workloads::synthetic::{AddressDistribution, ArrivalSpec, Extent, SyntheticSpec};
use seeklab_workloads::{
    AddressSpace, Builtin, Host, JobStream, JobsSpec, Retries, RetryCounts, Retrying, Supplied, Synthetic,
    WorkloadSpec,
};

use crate::devices::Resolved;
use crate::events::EventFile;
use crate::failure::Failure;
use crate::jobs::JobsSummary;
use crate::output::VERSION;
use crate::progress::Progress;
use crate::replay_part::check_part;
use crate::session::Session;
use crate::stop::Stop;
use crate::system::{Programs, SystemTrace, programs};
use crate::workload::ResolvedWorkload;

pub use crate::host::HostResult;

/// Result of a run.
#[derive(Debug)]
pub struct SimulationResult {
    /// Figures of all requests that completed.
    pub metrics: Metrics,
    /// Notes that a reader needs.
    pub notes: Vec<Note>,
    /// Reason why the run stopped early, if the device could not sustain the load.
    pub saturated: Option<String>,
    /// Number of requests within the region of the model's fit, if the model has one.
    pub coverage: Option<Coverage>,
    /// Dependencies that were inferred from the trace and kept, if requests followed others.
    pub followed: Option<Followed>,
    /// Failed requests that were sent again, if the host retries.
    pub retries: Option<RetryCounts>,
    /// Figures of the host, if the workload has one.
    pub host: Option<HostResult>,
    /// Figures of a stream of jobs, if the workload is one.
    pub jobs: Option<JobsSummary>,
    /// Reason why the figures are void: the trace of a host is incomplete, or its task did not do all of its work.
    pub void: Option<Void>,
    /// CPU time of the simulation.
    pub cpu_s: f64,
    /// Wall-clock time of the simulation.
    pub wall_s: f64,
    /// Reason for an incomplete trace, if it could not be written.
    pub write_error: Option<Failure>,
}

/// Reason why figures are void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Void {
    /// The reason.
    pub reason: String,
    /// Advice.
    pub hint: &'static str,
}

impl Void {
    /// The trace that the figures come from is incomplete.
    fn of_trace(reason: &str) -> Self {
        Self { reason: reason.to_owned(), hint: "record the trace again with a larger --kernel-buffer" }
    }
}

impl SimulationResult {
    /// Requests simulated in a second of CPU time.
    pub fn requests_per_cpu_s(&self) -> f64 {
        self.metrics.summary().requests as f64 / self.cpu_s.max(1e-9)
    }
}

/// Dependencies of requests that a replay inferred from its trace and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// Longest time from a completion to the arrival of a request that had waited for it; `None` if none had.
    pub within: Option<Duration>,
    /// Requests by what they had waited for.
    pub counts: DependencyCounts,
}

impl fmt::Display for Followed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let DependencyCounts { after_idle, after_completion, independent } = self.counts;
        let text =
            "request[|s] that arrived at an idle device [is|are] sent when the simulated device is idle";
        f.write_str(&numbered(after_idle, text))?;
        if let Some(within) = self.within {
            write!(f, "; {after_completion} that arrived within {within} of a completion follow it")?;
        }
        write!(f, "; {independent} keep their recorded interarrival times")
    }
}

/// Takes completions in: figures, trace, progress.
struct Observer<'a> {
    metrics: Metrics,
    writer: Option<&'a mut (dyn TraceWriter + 'static)>,
    write_error: Option<TraceError>,
    order: ArrivalOrder,
    progress: &'a mut Progress,
    interrupted: &'a Cell<bool>,
}

impl Observer<'_> {
    fn observe(&mut self, completion: &Completion, classes: ClassHistory) {
        let record = TraceRecord::of(completion, classes);
        self.metrics.record(&record);
        if let Some(writer) = &mut self.writer {
            let write_error = &mut self.write_error;
            self.order.push(completion.request.id.0, record, |record| {
                if write_error.is_none() {
                    *write_error = writer.write(record).err();
                }
            });
        }
        if self.progress.step().is_err() {
            self.interrupted.set(true);
        }
    }

    /// Writes the records that are held back. Returns the figures, and why the trace is incomplete.
    fn finish(self) -> (Metrics, Option<TraceError>) {
        let Self { metrics, writer, mut write_error, order, .. } = self;
        if let Some(writer) = writer {
            order.finish(|record| {
                if write_error.is_none() {
                    write_error = writer.write(record).err();
                }
            });
        }
        (metrics, write_error)
    }
}

/// Outputs of a run besides its figures.
#[derive(Default)]
pub struct Outputs<'a> {
    /// Takes every completed request.
    pub trace: Option<&'a mut (dyn TraceWriter + 'static)>,
    /// Takes the events of the devices.
    pub events: Option<&'a mut EventFile>,
}

/// Runs `workload` on a new instance of `device`; completed requests go to `outputs`, too.
///
/// # Errors
/// A workload that does not fit the device, a trace that cannot be read or written.
pub fn run(
    device: &Resolved,
    workload: &ResolvedWorkload,
    seed: Seed,
    limits: Limits,
    mut outputs: Outputs,
    session: &Session,
) -> Result<SimulationResult, Failure> {
    let progress = &mut session.progress(&device.name, workload.requests());
    let mut result = match &workload.spec {
        WorkloadSpec::Synthetic(spec) => {
            let mut built = device.build(seed, "disk0")?;
            let supplied = supplied(device, workload, spec)?;
            let (spec, rounded) = in_whole_blocks(spec, built.capabilities().block_size);
            let mut requests =
                Synthetic::new(&spec, AddressSpace::from(built.capabilities()), seed, supplied).map_err(
                    |error| Failure::from(error).context(format!("--workload `{}`", workload.name)),
                )?;
            let mut result =
                drive(&mut requests, &mut built, limits, workload.retries, &mut outputs, progress)?;
            result.notes.extend(rounded);
            result
        }
        WorkloadSpec::Replay(spec) => {
            let mut result = replay(device, workload, spec, seed, limits, outputs, progress)?;
            result.notes.extend(workload.void.iter().cloned().map(Note::Warning));
            result.void = workload.void.as_deref().map(Void::of_trace);
            result
        }
        WorkloadSpec::Postmark(_) | WorkloadSpec::Build(_) | WorkloadSpec::Database(_) => {
            let builtin = workload.spec.builtin().expect("these are the applications");
            application(device, workload, &builtin, seed, limits, outputs, progress)?
        }
        WorkloadSpec::Host(spec) => {
            let host = |space| Host::new(spec, space, seed);
            let names = spec.processes.keys().cloned().collect();
            run_host(device, workload, host, names, seed, limits, outputs, progress)?.0
        }
        WorkloadSpec::System(spec) => system(device, workload, spec, seed, limits, outputs, progress)?,
        WorkloadSpec::Jobs(spec) => run_jobs(device, workload, spec, seed, limits, outputs, progress)?,
    };
    result.notes.extend(device.outside_note(result.coverage).map(Note::Warning));
    Ok(result)
}

/// Runs an application on a host, and notes how long its phases took.
fn application(
    device: &Resolved,
    workload: &ResolvedWorkload,
    builtin: &Builtin,
    seed: Seed,
    limits: Limits,
    outputs: Outputs,
    progress: &mut Progress,
) -> Result<SimulationResult, Failure> {
    let host = |space| builtin.host(space, seed);
    let (mut result, host) = run_host(device, workload, host, Vec::new(), seed, limits, outputs, progress)?;
    for phase in host.phases() {
        let Some(elapsed) = phase.elapsed() else { continue };
        let unmount = match (phase.end, phase.unmounted) {
            (Some(end), Some(unmounted)) => {
                format!(", then {:.2} s to unmount", unmounted.saturating_since(end).as_s())
            }
            _ => String::new(),
        };
        result.notes.push(Note::Remark(format!(
            "{}: {}: {} in {:.2} s{unmount}",
            device.name,
            phase.name,
            counted(phase.operations, "operation"),
            elapsed.as_s()
        )));
    }
    if host.is_full() {
        let reason = "it ended early because the device was full, so the prediction is void".to_owned();
        result.notes.push(Note::Warning(format!("{}: {reason}", device.name)));
        result.void.get_or_insert(Void { reason, hint: "choose a larger device, or fewer or shorter files" });
    }
    Ok(result)
}

/// Runs processes on a host, and takes its figures. `names` has those of the processes of a description or recording.
#[expect(clippy::too_many_arguments, reason = "the inputs of a run, and the host")]
fn run_host(
    device: &Resolved,
    workload: &ResolvedWorkload,
    make: impl FnOnce(AddressSpace) -> Result<Host, DescriptionError>,
    names: Vec<String>,
    seed: Seed,
    limits: Limits,
    mut outputs: Outputs,
    progress: &mut Progress,
) -> Result<(SimulationResult, Host), Failure> {
    let mut built = device.build(seed, "disk0")?;
    let mut host = make(AddressSpace::from(built.capabilities()))
        .map_err(|error| Failure::from(error).context(format!("--workload `{}`", workload.name)))?;
    let mut result = drive(&mut host, &mut built, limits, workload.retries, &mut outputs, progress)?;
    let kinds = host.kinds().iter().map(|kind| (*kind).to_owned());
    let figures = HostResult::new(&host, names.into_iter().chain(kinds).collect());
    let summary = &figures.summary;
    let mut void = |reason: String, hint| {
        result.notes.push(Note::Warning(format!("{}: {reason}", device.name)));
        result.void.get_or_insert(Void { reason, hint });
    };
    if !summary.finished {
        void(
            "the task did not end, so the prediction is void".to_owned(),
            "processes that wait for each other never end, and a run ends after a year of its own time",
        );
    }
    if summary.failed_processes > 0 {
        void(
            format!(
                "{} ended early because a request failed, or there were too many processes, so the prediction is void",
                numbered(summary.failed_processes, "process[|es]")
            ),
            "an application (postmark, build, database) goes on after failed requests",
        );
    }
    result.host = Some(figures);
    Ok((result, host))
}

/// Runs a stream of jobs on one instance of the device for each drive, and takes its figures.
fn run_jobs(
    device: &Resolved,
    workload: &ResolvedWorkload,
    spec: &JobsSpec,
    seed: Seed,
    limits: Limits,
    mut outputs: Outputs,
    progress: &mut Progress,
) -> Result<SimulationResult, Failure> {
    let mut bank = device.build_bank(seed)?;
    let mut stream = JobStream::new(spec, AddressSpace::from(bank.capabilities()), seed)
        .map_err(|error| Failure::from(error).context(format!("--workload `{}`", workload.name)))?;
    let mut result = drive(&mut stream, &mut bank, limits, workload.retries, &mut outputs, progress)?;
    let summary = JobsSummary::from(&stream.figures());
    result.notes.push(Note::Remark(format!("{}: {summary}", device.name)));
    result.jobs = Some(summary);
    Ok(result)
}

/// Runs the processes of a system-level trace on a host.
fn system(
    device: &Resolved,
    workload: &ResolvedWorkload,
    spec: &SystemSpec,
    seed: Seed,
    limits: Limits,
    outputs: Outputs,
    progress: &mut Progress,
) -> Result<SimulationResult, Failure> {
    let folder = spec.trace.as_deref().expect("a workload of kind `system` names its trace");
    let Programs { mut recording, names, settings, notes, void } =
        programs(&SystemTrace::open(Path::new(folder))?)?;
    if let Some(task) = &spec.task {
        recording.task = threads_of(task, &names)?;
    }
    let settings = spec
        .settings(&settings)
        .map_err(|error| Failure::from(error).context(format!("--workload `{}`", workload.name)))?;
    let host = |space| Host::of_recording(recording, &settings, space, seed);
    let (mut result, _) = run_host(device, workload, host, names, seed, limits, outputs, progress)?;
    result.notes.extend(notes.into_iter().map(Note::Remark));
    result.notes.extend(void.iter().cloned().map(Note::Warning));
    result.void = void.as_deref().map(Void::of_trace).or(result.void);
    Ok(result)
}

/// Numbers of the threads that run a program or have a number, among names such as `cp (77)`.
fn threads_of(task: &str, names: &[String]) -> Result<Vec<u32>, Failure> {
    let parts = names.iter().map(|name| {
        let name = name.strip_suffix(')').unwrap_or(name);
        name.rsplit_once(" (").unwrap_or((name, ""))
    });
    let is_chosen = |(program, number): (&str, &str)| program == task || number == task;
    let chosen = parts.clone().zip(0_u32..).filter(|(parts, _)| is_chosen(*parts));
    let chosen: Vec<u32> = chosen.map(|(_, number)| number).collect();
    if chosen.is_empty() {
        let mut programs: Vec<&str> = parts.map(|(program, _)| program).collect();
        programs.sort_unstable();
        programs.dedup();
        let message = format!("task `{task}`: the trace has no such program");
        return Err(Failure::new(message).hint(format!("it has {}", programs.join(", "))));
    }
    Ok(chosen)
}

/// The description with sizes in whole blocks of the device, as traces are read, and a note if that changed any.
pub(crate) fn in_whole_blocks(spec: &SyntheticSpec, block_size: ByteSize) -> (SyntheticSpec, Option<Note>) {
    match spec.size.as_ref().and_then(|size| size.rounded_up(block_size)) {
        None => (spec.clone(), None),
        Some(size) => {
            let note = Note::Warning(format!("sizes were rounded up to whole blocks of {block_size}"));
            (SyntheticSpec { size: Some(size), ..spec.clone() }, Some(note))
        }
    }
}

/// Interarrival times taken from a trace at most; they repeat beyond.
const SHAPE_MAX: usize = 1 << 22;

/// Returns the inputs of the workload that come from the device and from a trace.
pub(crate) fn supplied(
    device: &Resolved,
    workload: &ResolvedWorkload,
    spec: &SyntheticSpec,
) -> Result<Supplied, Failure> {
    supplied_for(&device.name, Some(device), workload, spec)
}

/// As [`supplied`], for a target of that name, which has a description only if it is a model.
pub(crate) fn supplied_for(
    name: &str,
    device: Option<&Resolved>,
    workload: &ResolvedWorkload,
    spec: &SyntheticSpec,
) -> Result<Supplied, Failure> {
    let mut supplied = Supplied::default();
    if spec.address.distribution == AddressDistribution::Extents {
        let tracks = device.and_then(|device| device.description.tracks()).ok_or_else(|| {
            Failure::new(format!("device `{name}` has no tracks to align to"))
                .hint("name a disk, or choose another address distribution")
        })?;
        let extents: Vec<Extent> = tracks.into_iter().map(|(lbn, blocks)| Extent { lbn, blocks }).collect();
        supplied.extents = Some(Arc::from(extents));
    }
    if spec.arrivals == ArrivalSpec::Shaped {
        let path = workload.shape.as_ref().ok_or_else(|| {
            Failure::new(format!("workload `{}` takes its arrivals from a trace", workload.name))
                .hint("name it with --shape TRACE")
        })?;
        supplied.interarrival_times = Some(interarrival_times(path, workload)?);
    }
    Ok(supplied)
}

fn interarrival_times(path: &Path, workload: &ResolvedWorkload) -> Result<Arc<[Duration]>, Failure> {
    let trace = seeklab_columnar::open(path, workload.format.as_deref(), &workload.options)?;
    let mut last = None;
    let mut times = Vec::new();
    for record in trace {
        let arrival = record?.arrival;
        if let Some(last) = last.replace(arrival) {
            times.push(arrival.saturating_since(last));
        }
        if times.len() == SHAPE_MAX {
            break;
        }
    }
    if times.is_empty() {
        return Err(Failure::new(format!(
            "{}: has fewer than 2 requests, so no interarrival time",
            path.display()
        )));
    }
    Ok(Arc::from(times))
}

/// The columns that a replay takes requests from; the first with think times only, the last but one where think times or
/// dependencies follow from completions, the last where requests arrive at their issue.
pub(crate) const REPLAYED: [Column; 14] = [
    Column::ThinkNs,
    Column::ArrivalNs,
    Column::Device,
    Column::Initiator,
    Column::Op,
    Column::Fua,
    Column::Lbn,
    Column::Blocks,
    Column::Criticality,
    Column::BecameTimeLimitedNs,
    Column::BecameTimeCriticalNs,
    Column::Priority,
    Column::CompletionNs,
    Column::IssueNs,
];

/// The columns that tell what a replay needs to know beforehand; the last where requests arrive at their issue.
pub(crate) const SURVEYED: [Column; 7] = [
    Column::ArrivalNs,
    Column::CompletionNs,
    Column::Device,
    Column::Op,
    Column::Lbn,
    Column::Blocks,
    Column::IssueNs,
];

fn replay(
    device: &Resolved,
    workload: &ResolvedWorkload,
    spec: &ReplaySpec,
    seed: Seed,
    limits: Limits,
    mut outputs: Outputs,
    progress: &mut Progress,
) -> Result<SimulationResult, Failure> {
    let mut bank = device.build_bank(seed)?;
    let capabilities = bank.capabilities().clone();
    let convert = |record: TraceRecord, from: ByteSize| in_blocks_of(record, from, capabilities.block_size);
    let survey = if spec.needs_survey() {
        let mut trace =
            workload.open_trace(if workload.part.at_issue { &SURVEYED } else { &SURVEYED[..6] })?;
        let block_size = trace.metadata().block_size;
        let records = trace.by_ref().map(|record| record.map(|record| convert(record, block_size)));
        Some(Survey::of(records, spec.device)?)
    } else {
        None
    };
    let settings = spec
        .settings(capabilities.capacity_blocks, survey.as_ref())
        .map_err(|error| Failure::from(error).context(format!("--workload `{}`", workload.name)))?;
    let mode = settings.mode;
    let needs_completions = workload.part.fitted_requests || workload.part.at_issue;
    let mut trace = workload.open_trace(match mode {
        _ if workload.part.at_issue => &REPLAYED,
        Mode::Think => &REPLAYED[..13],
        Mode::Follow { .. } => &REPLAYED[1..13],
        Mode::Open | Mode::Scaled { .. } | Mode::Closed { .. } if needs_completions => &REPLAYED[1..13],
        Mode::Open | Mode::Scaled { .. } | Mode::Closed { .. } => &REPLAYED[1..12],
    })?;
    let block_size = trace.metadata().block_size;
    let mut notes = Vec::new();
    if let (ArrivalMode::Closed(Population::Auto), Mode::Closed { population }) =
        (spec.arrivals, settings.mode)
    {
        notes
            .push(Note::Remark(format!("{}: {population} outstanding, the trace's own mean", workload.name)));
    }
    if let (ArrivalMode::Follow(_), Mode::Open) = (spec.arrivals, settings.mode) {
        notes.push(Note::Remark(format!(
            "{}: requests arrive independently of the device, as Poisson arrivals do, so they keep their recorded times",
            workload.name
        )));
    }
    if let Some(guess) = trace.guess() {
        notes.push(Note::Remark(format!("{}: read as {guess}", workload.name)));
    }
    if block_size != capabilities.block_size {
        let from_to = format!("{block_size} to {}", capabilities.block_size);
        notes.push(Note::Remark(format!("addresses were converted from blocks of {from_to}, outwards")));
    }
    let fitted_requests = workload.part.fitted_requests;
    let records = Records { fitted_requests, ..Records::new(&mut trace) };
    let records = records.map(|record| record.map(|record| convert(record, block_size)));
    let thought: Cell<DerivedThinkTimes> = Cell::default();
    let on_derived = |is_overlapping| {
        let mut counts = thought.get();
        counts.count(is_overlapping);
        thought.set(counts);
    };
    let records = ThinkTimes::new(records, (mode == Mode::Think).then_some(on_derived));
    let mut requests = Replay::new(records, settings).with_capacities(bank.capacities().collect());
    let result = drive(&mut requests, &mut bank, limits, workload.retries, &mut outputs, progress);
    let counters = requests.counters();
    let followed = match (mode, requests.dependencies()) {
        (Mode::Follow { within }, Some(counts)) => Some(Followed { within, counts }),
        _ => None,
    };
    requests.into_result().map_err(|error| {
        let hint = error.hint().map(str::to_owned);
        let failure = match &error {
            seeklab_workloads::replay::ReplayError::Trace { source, .. } => {
                let hint = source.hint().map(str::to_owned);
                return hint.into_iter().fold(Failure::chain(source), Failure::hint);
            }
            _ => Failure::chain(&error).context(workload.name.clone()),
        };
        hint.into_iter().fold(failure, Failure::hint)
    })?;
    let mut result = result?;
    if counters.issued == 0 {
        check_part(workload, spec)?;
    }
    for (count, what) in [
        (counters.wrapped, "request[|s] lay beyond the end of the device and [was|were] wrapped around"),
        (counters.scaled, "request[|s] [was|were] moved, as the trace extends beyond the end of the device"),
        (counters.dropped, "request[|s] lay beyond the end of the device and [was|were] left out"),
        (counters.out_of_order, "request[|s] arrived before the one before and [was|were] issued with it"),
    ] {
        if count > 0 {
            notes.push(Note::Warning(numbered(count, what)));
        }
    }
    notes.extend(followed.map(|followed| Note::Remark(followed.to_string())));
    let DerivedThinkTimes { derived, overlapping } = thought.get();
    if derived > 0 {
        notes.push(Note::Remark(format!(
            "think times of {} follow from the completions of the trace. {}, since the next request arrived before the completion",
            counted(derived, "request"),
            numbered(overlapping, "[is|are] zero")
        )));
    }
    result.followed = followed;
    let is_alike = device.description.device_numbers()?.is_none();
    if let Some(writer) = outputs.trace.filter(|_| is_alike && result.write_error.is_none()) {
        // The size of device 0 was known before the first row.
        let capacity = bank.capabilities().capacity().to_string();
        let mut others = 1..u16::try_from(bank.len()).unwrap_or(u16::MAX);
        let stated = others.try_for_each(|device| writer.annotate(&capacity_key(device), &capacity));
        result.write_error = stated.err().map(Failure::from);
    }
    if bank.len() > 1 {
        notes.push(Note::Remark(format!("{} devices of the trace, one instance each", bank.len())));
    }
    notes.extend(trace.notes().iter().map(|note| Note::Warning(note.to_string())));
    notes.append(&mut result.notes);
    result.notes = notes;
    Ok(result)
}

/// The rows of a trace one by one, read many at a time.
pub(crate) struct Records<'a> {
    trace: &'a mut OpenTrace,
    rows: Vec<TraceRecord>,
    next: usize,
    /// Only the requests that a fit takes.
    fitted_requests: bool,
}

impl<'a> Records<'a> {
    /// The rows of a trace from here on.
    pub(crate) const fn new(trace: &'a mut OpenTrace) -> Self {
        Self { trace, rows: Vec::new(), next: 0, fitted_requests: false }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<TraceRecord, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while self.next == self.rows.len() {
            self.rows.clear();
            self.next = 0;
            match self.trace.next_rows() {
                Ok(rows) if rows.records.is_empty() => break,
                Ok(rows) if self.fitted_requests => {
                    let recorder = rows.metadata.recorder();
                    let is_fitted =
                        |record: &&TraceRecord| is_fitted(record) && !recorder.is_recorders_own(record);
                    self.rows.extend(rows.records.iter().filter(is_fitted));
                }
                Ok(rows) => self.rows.extend_from_slice(rows.records),
                Err(error) => return Some(Err(error)),
            }
        }
        let record = self.rows.get(self.next).map(|record| Ok(*record));
        self.next += usize::from(record.is_some());
        record
    }
}

/// Returns true if a fit takes a request that its recorder did not make: it has a completion time, and its length is not
/// zero.
fn is_fitted(record: &TraceRecord) -> bool {
    record.completion.is_some() && (record.blocks > 0 || !record.op.addresses_blocks())
}

/// A record with its addresses in blocks of another size: every block that it touches.
pub(crate) fn in_blocks_of(record: TraceRecord, from: ByteSize, to: ByteSize) -> TraceRecord {
    if from == to {
        return record;
    }
    let (from, to) = (u128::from(from.as_bytes()), u128::from(to.as_bytes()));
    let start = u128::from(record.lbn) * from / to;
    let end = ((u128::from(record.lbn) + u128::from(record.blocks)) * from).div_ceil(to);
    TraceRecord {
        lbn: u64::try_from(start).unwrap_or(u64::MAX),
        blocks: u32::try_from(end - start).unwrap_or(u32::MAX),
        ..record
    }
}

fn drive<W: Workload, D: Device>(
    workload: &mut W,
    device: &mut D,
    limits: Limits,
    retries: Retries,
    outputs: &mut Outputs,
    progress: &mut Progress,
) -> Result<SimulationResult, Failure> {
    if retries.count == 0 {
        return drive_once(workload, device, limits, outputs, progress);
    }
    let mut retrying = Retrying::new(workload, retries);
    let mut result = drive_once(&mut retrying, device, limits, outputs, progress)?;
    result.retries = Some(retrying.counts());
    Ok(result)
}

/// Drives the device with the requests of the workload, each of which is sent once.
fn drive_once<W: Workload, D: Device>(
    workload: &mut W,
    device: &mut D,
    limits: Limits,
    outputs: &mut Outputs,
    progress: &mut Progress,
) -> Result<SimulationResult, Failure> {
    let metrics = Metrics::new(device.capabilities().block_size);
    let interrupted = Cell::new(false);
    let stop = progress.stop();
    let mut observer = Observer {
        metrics,
        writer: outputs.trace.as_deref_mut(),
        write_error: None,
        order: ArrivalOrder::default(),
        progress,
        interrupted: &interrupted,
    };
    let mut workload = Interruptible { workload, stop, waits: 0, interrupted: &interrupted };
    #[expect(clippy::disallowed_methods, reason = "reports the simulator's own speed")]
    let wall = WallClock::now();
    let cpu = thread_cpu_s();
    let observe = |completion: &Completion, classes| observer.observe(completion, classes);
    let result = match outputs.events.as_deref_mut() {
        None => Simulation::new(limits).run_with_classes(&mut workload, device, observe).map(drop),
        Some(events) => events.simulate(&mut workload, device, limits, observe),
    };
    let (cpu_s, wall_s) = (thread_cpu_s() - cpu, wall.elapsed().as_secs_f64());
    let (mut metrics, write_error) = observer.finish();
    if let Some(end) = metrics.end() {
        for window in device.fault_windows(end) {
            metrics.note_fault(window.number, window.from, window.until);
        }
    }
    if interrupted.get() {
        return Err(Failure::interrupted());
    }
    let saturated = match result {
        Ok(()) => None,
        Err(error @ SimulationError::Saturated { .. }) => Some(error.to_string()),
        Err(error) => return Err(Failure::new(error.to_string())),
    };
    let coverage = device.coverage();
    Ok(SimulationResult {
        metrics,
        notes: Vec::new(),
        saturated,
        coverage,
        followed: None,
        retries: None,
        host: None,
        jobs: None,
        void: None,
        cpu_s,
        wall_s,
        write_error: write_error.map(Failure::from),
    })
}

/// Times named by a workload between two looks at the stop token.
const STRIDE: u32 = 1 << 12;

/// A workload that has finished as soon as the run is interrupted.
///
/// The progress of completions notices that. A host that only computes has none, so its times are looked at too.
struct Interruptible<'a, W> {
    workload: &'a mut W,
    stop: Stop,
    /// Times that the workload named instead of a request.
    waits: u32,
    interrupted: &'a Cell<bool>,
}

impl<W: Workload> Workload for Interruptible<'_, W> {
    #[inline]
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        if self.interrupted.get() {
            return Arrival::Finished;
        }
        let next = self.workload.next_arrival(now);
        if matches!(next, Arrival::At(_)) {
            self.waits = self.waits.wrapping_add(1);
            if self.waits.is_multiple_of(STRIDE) && self.stop.is_stopped() {
                self.interrupted.set(true);
                return Arrival::Finished;
            }
        }
        next
    }

    #[inline]
    fn completed(&mut self, completion: &Completion) {
        self.workload.completed(completion);
    }

    #[inline]
    fn heeds_completions(&self) -> bool {
        self.workload.heeds_completions()
    }
}

/// CPU time of this thread.
fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the metadata of the trace of a run on `device`, which can do so much.
pub fn metadata(device: &Resolved, capabilities: &Capabilities, seed: Seed) -> Metadata {
    let mut metadata = Metadata {
        block_size: capabilities.block_size,
        seed: Some(seed),
        device: Some(device.description.to_toml()),
        version: Some(VERSION.to_owned()),
        clock: Some("simulated".to_owned()),
        ..Metadata::default()
    };
    match device.description.device_numbers() {
        Ok(Some(numbers)) => {
            for (number, child) in numbers.into_iter().zip(device.description.children()) {
                child
                    .capabilities()
                    .into_iter()
                    .for_each(|own| metadata.set_capacity(number, own.capacity()));
            }
        }
        Ok(None) | Err(_) => metadata.set_capacity(0, capabilities.capacity()),
    }
    metadata.faults = device.fault_names(seed);
    metadata
}
