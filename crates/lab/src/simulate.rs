//! Simulates a workload on one or more devices.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use seeklab_analysis::{HostProcess, HostSummary, HostTimeline, MetricsSummary, TimeBin};
use seeklab_core::{Duration, Limits, Seed};
use seeklab_files::{check_apart, check_distinct};
use seeklab_report::{DeviceSection, HostRow, Note, Parameter, Report};
use seeklab_traces::TraceWriter;
use serde::Serialize;

use crate::devices::{Resolved, Setup, resolve};
use crate::estimate::{
    EstimateCheck, JobsEstimateCheck, Observed, Observer, check, check_jobs, check_method, jobs_of,
};
use crate::events::{EventFile, Until};
use crate::failure::Failure;
use crate::fitted_range::FittedRangeFigures;
use crate::jobs::JobsSummary;
use crate::output::VERSION;
use crate::retries::RetryFigures;
use crate::run::{Followed, Outputs, SimulationResult, metadata, run};
use crate::session::Session;
use crate::workload::{ResolvedWorkload, WorkloadOptions, resolve_workload};

/// CPU time of a run from which on its speed is stated: less measures the clock.
const SPEED_CPU_S: f64 = 0.01;

/// Options of a simulation.
#[derive(Debug, Clone)]
pub struct SimulateOptions {
    /// Catalog names or TOML files.
    pub devices: Vec<String>,
    /// Setup of every device.
    pub setup: Setup,
    /// Workload: a trace, a TOML file, or a line that describes it.
    pub workload: String,
    /// Options beside the workload.
    pub workload_options: WorkloadOptions,
    /// Seed of all random draws.
    pub seed: Seed,
    /// Limits at which a run stops.
    pub limits: Limits,
    /// Trace of every request. `{device}` is replaced by the name of the device.
    pub out: Option<String>,
    /// File of the events inside every device. `{device}` is replaced by the name of the device.
    pub events: Option<String>,
    /// End of the events.
    pub until: Until,
    /// Include the times of each process of a host.
    pub processes: bool,
    /// Path that the caller writes the report to.
    pub report: Option<PathBuf>,
    /// Compare the figures with the estimate of the same load.
    pub estimate: bool,
}

/// Result of a simulation.
#[derive(Debug)]
pub struct SimulateResult {
    /// Figures, as one JSON document.
    pub figures: SimulateFigures,
    /// The same, with plots.
    pub report: Report,
    /// Failures to write traces.
    pub write_failures: Vec<Failure>,
    /// The failed check, if a device could not sustain the load or the trace of a host was incomplete.
    pub saturated: Option<Failure>,
}

/// Figures of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SimulateFigures {
    /// Seed of all random draws.
    pub seed: u64,
    /// Name of the workload.
    pub workload: String,
    /// Program and version.
    pub version: &'static str,
    /// Command that makes the figures again.
    pub command: Option<String>,
    /// Figures of each device.
    pub devices: Vec<DeviceFigures>,
}

/// Figures of one device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeviceFigures {
    /// Name of the device.
    pub device: String,
    /// True if only the mechanics were simulated.
    pub bare: bool,
    /// Measurements that the model was compared with.
    pub validated: String,
    /// Figures of the requests.
    #[serde(flatten)]
    pub summary: MetricsSummary,
    /// Requests simulated per second of CPU time.
    pub requests_per_cpu_s: f64,
    /// CPU time of the simulation.
    pub cpu_s: f64,
    /// Wall-clock time of the simulation.
    pub wall_s: f64,
    /// True if the device could not sustain the load.
    pub saturated: bool,
    /// Requests of a kind that the model was neither fitted to nor compared with.
    pub out_of_validated_range: u64,
    /// Requests outside of the loads that a clone was fitted to, by what they lie outside of. Absent of other devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted_range: Option<FittedRangeFigures>,
    /// Verdicts of the fit on a clone as its file states them: one, or one for each device of a bank. Absent of other devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clone_verdicts: Vec<String>,
    /// Dependencies that were inferred from the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed: Option<FollowedFigures>,
    /// Failed requests that the host sent again, if it retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<RetryFigures>,
    /// Figures of the host, of a workload that runs on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSummary>,
    /// Comparison with the estimate of the same load, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_check: Option<EstimateCheck>,
    /// Figures of a stream of jobs, of a workload of kind `jobs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<JobsSummary>,
    /// Comparison of a stream of jobs with its estimates, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs_estimate_check: Option<JobsEstimateCheck>,
    /// Course of the run of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_timeline: Option<HostTimeline>,
    /// Times of each process of the host, with `--processes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_processes: Option<Vec<HostProcess>>,
    /// Notes for people.
    pub notes: Vec<String>,
    /// Throughput over time.
    pub throughput: Throughput,
}

/// Dependencies that were inferred from the trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct FollowedFigures {
    /// Longest time from a completion to the request that had waited for it; null if none had.
    pub follows_within_ms: Option<f64>,
    /// Requests that had waited for an idle device.
    pub after_idle_requests: u64,
    /// Requests that had waited for a completion.
    pub after_completion_requests: u64,
    /// Requests that had waited for nothing.
    pub independent_requests: u64,
}

impl From<Followed> for FollowedFigures {
    fn from(Followed { within, counts }: Followed) -> Self {
        Self {
            follows_within_ms: within.map(Duration::as_ms),
            after_idle_requests: counts.after_idle,
            after_completion_requests: counts.after_completion,
            independent_requests: counts.independent,
        }
    }
}

/// Throughput over time, in intervals of equal length from the first arrival.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Throughput {
    /// Length of an interval.
    pub stretch_s: f64,
    /// Requests per second in each interval.
    pub requests_per_second: Vec<f64>,
    /// MiB per second in each interval.
    pub mib_per_second: Vec<f64>,
}

impl Throughput {
    fn of(timeline: &[TimeBin]) -> Self {
        let per_second = |value: fn(&TimeBin) -> f64| {
            timeline.iter().map(|bin| (value(bin) / bin.width_s * 1e3).round() / 1e3).collect()
        };
        Self {
            stretch_s: timeline.first().map_or(0.0, |bin| bin.width_s),
            requests_per_second: per_second(|bin| bin.requests as f64),
            mib_per_second: per_second(|bin| bin.bytes as f64 / f64::from(1 << 20)),
        }
    }
}

/// Simulates the workload on each device in turn, up to the first device that cannot sustain it.
///
/// # Errors
/// If a device, the workload or an output does not fit, or a trace cannot be read.
pub fn simulate(session: &Session, options: &SimulateOptions) -> Result<SimulateResult, Failure> {
    let devices: Vec<Resolved> =
        options.devices.iter().map(|name| resolve(name, &options.setup)).collect::<Result<_, _>>()?;
    let workload = resolve_workload(&options.workload, &options.workload_options)?;
    if options.processes && !workload.has_processes() {
        return Err(Failure::new(format!("--processes: `{}` runs on no host", workload.name)).hint(
            "name a file with `kind = \"host\"`, a system-level trace or an application, without --open, --closed or --think",
        ));
    }
    if options.estimate {
        check_method(&workload).map_err(|failure| failure.context("--estimate"))?;
    }
    let outputs = outputs("--out", options.out.as_deref(), &devices)?;
    let events = outputs_of_events(options, &devices)?;
    let paths = || options.report.iter().chain(outputs.iter().chain(&events).flatten());
    for path in paths() {
        check_distinct(path, options.inputs(&workload))?;
    }
    check_apart(paths())?;
    let (mut results, mut checks) = (Vec::with_capacity(devices.len()), Vec::with_capacity(devices.len()));
    for ((device, out), events) in devices.iter().zip(&outputs).zip(&events) {
        let (mut result, observed) =
            options.run_on(session, device, &workload, out.as_deref(), events.as_deref())?;
        let is_saturated = result.saturated.is_some();
        let check = observed.map(|observed| options.check(device, &workload, &mut result, &observed));
        let of_jobs = options.check_jobs(session, device, &workload, &mut result)?;
        checks.push((check.transpose()?, of_jobs));
        results.push(result);
        if is_saturated {
            break;
        }
    }
    let runs = || results.iter().zip(&devices);
    let saturated = runs().find_map(|(result, device)| {
        let failure = Failure::check(format!("{}: {}", device.name, result.saturated.as_ref()?));
        Some(failure.hint("lower the rate, replay closed (--closed N), or raise --max-outstanding"))
    });
    let void = runs().find_map(|(result, device)| {
        let void = result.void.as_ref()?;
        Some(Failure::check(format!("{}: {}", device.name, void.reason)).hint(void.hint))
    });
    let figures = SimulateFigures {
        seed: options.seed.0,
        workload: workload.name.clone(),
        version: VERSION,
        command: session.command(),
        devices: runs()
            .zip(checks)
            .map(|((result, device), (check, of_jobs))| DeviceFigures {
                estimate_check: check,
                jobs_estimate_check: of_jobs,
                ..DeviceFigures::new(result, device, options.processes)
            })
            .collect(),
    };
    let report = make_report(session, options, &devices, &workload, &results);
    let write_failures = results.into_iter().filter_map(|result| result.write_error).collect();
    Ok(SimulateResult { figures, report, write_failures, saturated: saturated.or(void) })
}

impl DeviceFigures {
    fn new(result: &SimulationResult, device: &Resolved, with_processes: bool) -> Self {
        let summary = result.metrics.summary();
        let host = result.host.as_ref();
        Self {
            device: device.name.clone(),
            bare: device.bare,
            validated: device.description.validated().to_string(),
            out_of_validated_range: device.out_of_validated_range(
                result.coverage,
                summary.requests,
                summary.reads + summary.writes,
            ),
            fitted_range: result.coverage.as_ref().map(FittedRangeFigures::of),
            clone_verdicts: clone_verdicts(device, result),
            summary,
            requests_per_cpu_s: result.requests_per_cpu_s().round(),
            cpu_s: result.cpu_s,
            wall_s: result.wall_s,
            saturated: result.saturated.is_some(),
            followed: result.followed.map(FollowedFigures::from),
            retries: result.retries.map(RetryFigures::from),
            host: host.map(|host| host.summary),
            host_timeline: host.map(|host| host.timeline.clone()),
            host_processes: host.filter(|_| with_processes).map(|host| host.processes.clone()),
            jobs: result.jobs.clone(),
            estimate_check: None,
            jobs_estimate_check: None,
            notes: result.notes.iter().map(|note| note.text().to_owned()).collect(),
            throughput: Throughput::of(&result.metrics.timeline()),
        }
    }
}

impl SimulateOptions {
    /// Returns all arguments that may name an input file.
    fn inputs(&self, workload: &ResolvedWorkload) -> Vec<PathBuf> {
        let named = self.devices.iter().chain([&self.workload]).map(PathBuf::from);
        let shape = self.workload_options.shape.clone();
        named.chain(workload.trace().map(PathBuf::from)).chain(shape).collect()
    }

    /// Compares a result with the estimate of its load, and notes how it came out.
    fn check(
        &self,
        device: &Resolved,
        workload: &ResolvedWorkload,
        result: &mut SimulationResult,
        observed: &Observed,
    ) -> Result<EstimateCheck, Failure> {
        let summary = result.metrics.summary();
        let check = check(device, workload, self.seed, &summary, observed, result.saturated.is_some())?;
        let text = format!("{}: {}", device.label(), check.sentences());
        let disagrees = check.agrees == Some(false);
        result.notes.push(if disagrees { Note::Warning(text) } else { Note::Remark(text) });
        Ok(check)
    }

    /// Compares a simulated stream of jobs with its estimates, and notes how it came out. `None` of other workloads.
    fn check_jobs(
        &self,
        session: &Session,
        device: &Resolved,
        workload: &ResolvedWorkload,
        result: &mut SimulationResult,
    ) -> Result<Option<JobsEstimateCheck>, Failure> {
        let (Some(spec), Some(simulated), true) = (jobs_of(workload), &result.jobs, self.estimate) else {
            return Ok(None);
        };
        let check = check_jobs(session, device, spec, self.seed, simulated)?;
        for (place, sentence) in check.sentences().enumerate() {
            let text = format!("{}: {sentence}", device.label());
            let disagrees = place == 0 && check.agrees == Some(false);
            result.notes.push(if disagrees { Note::Warning(text) } else { Note::Remark(text) });
        }
        Ok(Some(check))
    }

    fn run_on(
        &self,
        session: &Session,
        device: &Resolved,
        workload: &ResolvedWorkload,
        out: Option<&Path>,
        events: Option<&Path>,
    ) -> Result<(SimulationResult, Option<Observed>), Failure> {
        let mut trace: Option<Box<dyn TraceWriter>> = match out {
            None => None,
            Some(path) => {
                let metadata = metadata(device, device.build(self.seed, "disk0")?.capabilities(), self.seed);
                Some(session.create_trace(path, None, &metadata)?)
            }
        };
        let events = events.map(|path| EventFile::create(session, path)).transpose()?;
        let mut events = events.map(|events| events.until(self.until));
        let observes = self.estimate && jobs_of(workload).is_none();
        let mut observer = observes.then(|| Observer::new(trace.take()));
        let writer = match &mut observer {
            Some(observer) => Some(observer as &mut dyn TraceWriter),
            None => trace.as_deref_mut(),
        };
        let outputs = Outputs { trace: writer, events: events.as_mut() };
        let mut result = run(device, workload, self.seed, self.limits, outputs, session)?;
        let (observed, trace) = match observer.map(Observer::into_parts) {
            Some((observed, trace)) => (Some(observed), trace),
            None => (None, trace),
        };
        if let (Some(trace), None) = (trace, &result.write_error) {
            result.write_error = trace.finish().err().map(Failure::from);
        }
        if let (Some(events), None) = (events, &result.write_error) {
            result.write_error = events.finish().err();
        }
        Ok((result, observed))
    }
}

/// Returns the file of `option` for each device.
fn outputs(option: &str, out: Option<&str>, devices: &[Resolved]) -> Result<Vec<Option<PathBuf>>, Failure> {
    let Some(out) = out else { return Ok(vec![None; devices.len()]) };
    if devices.len() > 1 && !out.contains("{device}") {
        let suffix = if option == "--out" { "parquet" } else { "csv" };
        return Err(Failure::new(format!("{option} `{out}`: is one file for {} devices", devices.len()))
            .hint(format!(
                "write {{device}} where the device's name belongs, for example out-{{device}}.{suffix}"
            )));
    }
    let file_name = |device: &Resolved| {
        let name = device.name.replace(['/', ' ', '(', ')'], "-");
        Some(PathBuf::from(out.replace("{device}", name.trim_matches('-'))))
    };
    let files: Vec<Option<PathBuf>> = devices.iter().map(file_name).collect();
    match (1..files.len()).find(|index| files[..*index].contains(&files[*index])) {
        None => Ok(files),
        Some(index) => Err(Failure::new(format!("{option} `{out}`: is one file for two devices"))
            .hint(format!("name `{}` once", devices[index].name))),
    }
}

/// Returns the file of events for each device, none of which is that of a trace.
fn outputs_of_events(
    options: &SimulateOptions,
    devices: &[Resolved],
) -> Result<Vec<Option<PathBuf>>, Failure> {
    if options.events.is_some() && options.events == options.out {
        return Err(Failure::new("--events: is the file of --out").hint("name another file"));
    }
    outputs("--events", options.events.as_deref(), devices)
}

/// Verdicts of the fit on a clone, which counts the requests outside of its range; none of other devices.
fn clone_verdicts(device: &Resolved, result: &SimulationResult) -> Vec<String> {
    if result.coverage.is_some() { device.clone_verdicts() } else { Vec::new() }
}

fn make_report(
    session: &Session,
    options: &SimulateOptions,
    devices: &[Resolved],
    workload: &ResolvedWorkload,
    results: &[SimulationResult],
) -> Report {
    let seed = options.seed;
    let mut notes: Vec<Note> = Vec::new();
    for (result, device) in results.iter().zip(devices) {
        notes.extend(result.saturated.iter().map(|why| Note::Warning(format!("{}: {why}", device.name))));
        let retries = result.retries.and_then(|counts| RetryFigures::from(counts).sentence());
        notes.extend(retries.map(|sentence| Note::Remark(format!("{}: {sentence}", device.name))));
        notes.extend(clone_verdicts(device, result).into_iter().map(Note::Remark));
        for note in &result.notes {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
    }
    let speed: Vec<String> = results
        .iter()
        .zip(devices)
        .filter(|(result, _)| result.cpu_s >= SPEED_CPU_S)
        .map(|(result, device)| format!("{} {:.2} M", device.name, result.requests_per_cpu_s() / 1e6))
        .collect();
    if !speed.is_empty() {
        notes.push(Note::Remark(format!("simulated requests per CPU-second: {}", speed.join(", "))));
    }
    let spec = toml::to_string(&workload.spec).unwrap_or_default();
    let parameters = spec
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, value)| Parameter {
            name: format!("workload.{name}"),
            value: value.trim_matches('"').to_owned(),
            source: None,
        })
        .collect();
    Report {
        title: format!("{} on {}", workload.name, names(devices)),
        subtitle: String::new(),
        command: session.command(),
        seed: Some(seed),
        generated_by: VERSION.to_owned(),
        parameters,
        devices: results
            .iter()
            .zip(devices)
            .map(|(result, device)| {
                DeviceSection::new(device.label(), device.about(), &result.metrics)
                    .with_parameters(device.parameters())
                    .with_faults(device.fault_names(seed).iter(), &result.metrics)
            })
            .collect(),
        hosts: results
            .iter()
            .zip(devices)
            .filter_map(|(result, device)| host_row(result, device, options.processes))
            .collect(),
        notes,
        ..Report::default()
    }
}

fn host_row(result: &SimulationResult, device: &Resolved, with_processes: bool) -> Option<HostRow> {
    let host = result.host.as_ref()?;
    Some(HostRow {
        device: device.label(),
        summary: host.summary,
        requests: result.metrics.summary(),
        timeline: host.timeline.clone(),
        processes: if with_processes { host.processes.clone() } else { Vec::new() },
    })
}

fn names(devices: &[Resolved]) -> String {
    devices.iter().map(Resolved::label).collect::<Vec<_>>().join(", ")
}
