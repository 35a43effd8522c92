//! A stream of jobs fitted to the programs of a system-level trace: `seeklab fit TRACE.sys --as jobs`.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use seeklab_core::{ByteSize, Seed};
use seeklab_files::check_distinct;
use seeklab_learning::jobs::{FittedJobs, Interval, JobsFitOptions, fit, intervals, kolmogorov_distance};
use seeklab_workloads::WorkloadSpec;
use seeklab_workloads::jobs::{Direction, RateStates};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{VERSION, path_text};
use crate::session::Session;
use crate::system::{SystemTrace, TracedJobs, is_system_trace, traced_jobs};

/// Files and options of a fit.
#[derive(Debug, Clone)]
pub struct JobsFitFiles {
    /// System-level traces. The stream is fitted to the first, and the others are compared with it.
    pub traces: Vec<PathBuf>,
    /// Path that the caller writes the description to.
    pub output: PathBuf,
    /// Size of a sector.
    pub sector: ByteSize,
    /// Rate states of each direction at most.
    pub states: usize,
}

/// Result of a fit of a stream of jobs. Its serialized form is the JSON document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobsFitResult {
    /// Program and version.
    pub version: &'static str,
    /// Command that makes the result again.
    pub command: Option<String>,
    /// The trace.
    #[serde(serialize_with = "path_text")]
    pub trace: PathBuf,
    /// File of the description of the stream.
    #[serde(serialize_with = "path_text")]
    pub output: PathBuf,
    /// Jobs: threads that read or wrote at system calls.
    pub jobs: u32,
    /// Threads that did neither.
    pub idle_threads: u64,
    /// Most jobs that ran at the same time.
    pub multiprogramming: u32,
    /// Size of a sector.
    pub sector_bytes: u64,
    /// Processor time of the jobs in the trace.
    pub processor_s: f64,
    /// Processor time of the jobs of the stream, as seed 1 draws them.
    pub stream_processor_s: f64,
    /// Rates of the input.
    pub input_rates: RateFigures,
    /// Rates of the output.
    pub output_rates: RateFigures,
    /// Comparison of the rates of the other traces with those of the first.
    pub compared: Vec<ComparedRates>,
    /// Notes on the result.
    pub notes: Vec<String>,
    /// Description of the stream, in TOML.
    #[serde(skip)]
    pub description: String,
}

/// Rates of a direction.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RateFigures {
    /// Transfers at system calls.
    pub transfers: u64,
    /// Sectors of all jobs.
    pub sectors: f64,
    /// Sectors per second of processor time, of all transfers together. Null without transfers.
    pub rate_per_s: Option<f64>,
    /// Fitted rate states, from the slowest.
    pub states: Vec<RateStateFigures>,
}

/// A rate state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RateStateFigures {
    /// Sectors per second of processor time.
    pub rate_per_s: f64,
    /// Share of the sectors.
    pub share_pct: f64,
    /// Mean number of sectors for which a drawn state lasts.
    pub residence_sectors: f64,
}

/// Rates of a trace compared with those of the first. A distance is the largest difference of the two distributions, by
/// sectors (Kolmogorov). It is null if one of the traces has no transfers of the direction.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ComparedRates {
    /// The trace.
    #[serde(serialize_with = "path_text")]
    pub trace: PathBuf,
    /// Distance of the input rates at system calls.
    pub input_distance: Option<f64>,
    /// Distance of the output rates at system calls.
    pub output_distance: Option<f64>,
    /// Distance of the rates of reads at the block layer.
    pub read_request_distance: Option<f64>,
    /// Distance of the rates of writes at the block layer.
    pub write_request_distance: Option<f64>,
}

/// Rates at the block layer.
struct RequestRates {
    reads: Vec<Interval>,
    writes: Vec<Interval>,
}

/// Fits a stream of jobs. The caller writes its description.
///
/// # Errors
/// Traces that cannot be read, or hold no transfer.
pub fn fit_jobs(session: &Session, files: &JobsFitFiles) -> Result<JobsFitResult, Failure> {
    check_distinct(&files.output, files.traces.clone())?;
    let options = JobsFitOptions { sector: files.sector, states: files.states };
    let mut notes = Vec::new();
    let mut read = |path: &Path| -> Result<(FittedJobs, RequestRates), Failure> {
        if !is_system_trace(path) {
            return Err(Failure::new(format!("--as jobs: `{}` is no system-level trace", path.display()))
                .hint("record one with `seeklab capture --system DEVICE -o TRACE.sys -- COMMAND`"));
        }
        let TracedJobs { programs, requests, note } = traced_jobs(&SystemTrace::open(path)?)?;
        notes.extend(note.map(|note| format!("{}: {note}", path.display())));
        let fitted = fit(&programs, options).map_err(|error| {
            let hint = error.hint().map(str::to_owned);
            hint.into_iter().fold(Failure::new(format!("{}: {error}", path.display())), Failure::hint)
        })?;
        let of = |direction| intervals(&requests, direction, files.sector.as_bytes());
        Ok((fitted, RequestRates { reads: of(Direction::Input), writes: of(Direction::Output) }))
    };
    let (first, others) = files.traces.split_first().expect("a fit has a trace");
    let (fitted, of_requests) = read(first)?;
    let mut compared = Vec::new();
    for path in others {
        let (other, requests) = read(path)?;
        compared.push(ComparedRates {
            trace: path.clone(),
            input_distance: kolmogorov_distance(&fitted.input, &other.input),
            output_distance: kolmogorov_distance(&fitted.output, &other.output),
            read_request_distance: kolmogorov_distance(&of_requests.reads, &requests.reads),
            write_request_distance: kolmogorov_distance(&of_requests.writes, &requests.writes),
        });
    }
    let spec = &fitted.spec;
    notes.push(format!(
        "the buffer of {} sectors, the threshold and the policy of reactivation are chosen, not fitted",
        spec.buffer
    ));
    Ok(JobsFitResult {
        version: VERSION,
        command: session.command(),
        trace: first.clone(),
        output: files.output.clone(),
        jobs: spec.jobs,
        idle_threads: fitted.idle_programs,
        multiprogramming: spec.multiprogramming,
        sector_bytes: files.sector.as_bytes(),
        processor_s: fitted.processor.as_s(),
        stream_processor_s: spec.processor_time(Seed(1)).as_s(),
        input_rates: figures(&fitted.input, &spec.input),
        output_rates: figures(&fitted.output, &spec.output),
        compared,
        notes,
        description: description(first, &fitted),
    })
}

fn figures(intervals: &[Interval], states: &RateStates) -> RateFigures {
    let sectors: f64 = intervals.iter().map(|interval| interval.sectors).sum();
    let processor_s: f64 = intervals.iter().map(|interval| interval.processor.as_s()).sum();
    let states = states.0.iter().map(|state| RateStateFigures {
        rate_per_s: state.rate.as_per_s(),
        share_pct: 100.0 * state.share.as_f64(),
        residence_sectors: state.residence,
    });
    RateFigures {
        transfers: intervals.len() as u64,
        sectors,
        rate_per_s: (sectors > 0.0).then(|| sectors / processor_s.max(1e-9)),
        states: if intervals.is_empty() { Vec::new() } else { states.collect() },
    }
}

/// The description as a file.
fn description(trace: &Path, fitted: &FittedJobs) -> String {
    let spec = WorkloadSpec::Jobs(Box::new(fitted.spec.clone()));
    let table = toml::to_string(&spec).expect("a workload is a table");
    format!(
        "# Jobs of {}, fitted by {VERSION}. The buffer, the threshold and the policy of reactivation are chosen.\n{table}",
        trace.display()
    )
}
