//! A stream of jobs fitted to the programs of a system-level trace: `seeklab fit TRACE.sys --as jobs`.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use seeklab_core::{ByteSize, Seed};
use seeklab_files::check_distinct;
use seeklab_learning::jobs::{
    FittedJobs, Interval, JobsFitOptions, fit, intervals, kolmogorov_distance, median_rate_per_s,
};
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
    /// The distances of the rates as they are.
    #[serde(flatten)]
    pub recorded: RateDistances,
    /// Median rate at system calls as a multiple of that of the first trace: of the input, or of the output without
    /// input. A processor of another speed, or with colder caches, shows here. Null if no direction has transfers in both traces.
    pub speed: Option<f64>,
    /// The distances with the rates of the trace divided by `speed`: what is left is the difference of the programs. As
    /// recorded if `speed` is null.
    pub at_equal_speed: RateDistances,
}

/// Largest differences of the distributions of rates, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RateDistances {
    /// Distance of the input rates at system calls.
    pub input_distance: Option<f64>,
    /// Distance of the output rates at system calls.
    pub output_distance: Option<f64>,
    /// Distance of the rates of reads at the block layer.
    pub read_request_distance: Option<f64>,
    /// Distance of the rates of writes at the block layer.
    pub write_request_distance: Option<f64>,
}

/// The rates of a trace at both levels.
struct TracedRates {
    input: Vec<Interval>,
    output: Vec<Interval>,
    reads: Vec<Interval>,
    writes: Vec<Interval>,
}

impl TracedRates {
    /// The median rate as a multiple of that of `first`.
    fn speed(&self, first: &Self) -> Option<f64> {
        let ratio = |own, first| Some(median_rate_per_s(own)? / median_rate_per_s(first)?);
        ratio(&self.input, &first.input).or_else(|| ratio(&self.output, &first.output))
    }

    fn distances(&self, first: &Self, speed: f64) -> RateDistances {
        RateDistances {
            input_distance: kolmogorov_distance(&first.input, &self.input, speed),
            output_distance: kolmogorov_distance(&first.output, &self.output, speed),
            read_request_distance: kolmogorov_distance(&first.reads, &self.reads, speed),
            write_request_distance: kolmogorov_distance(&first.writes, &self.writes, speed),
        }
    }

    fn compared(&self, first: &Self, trace: &Path) -> ComparedRates {
        let speed = self.speed(first);
        ComparedRates {
            trace: trace.to_owned(),
            recorded: self.distances(first, 1.0),
            speed,
            at_equal_speed: self.distances(first, speed.unwrap_or(1.0)),
        }
    }
}

/// Fits a stream of jobs. The caller writes its description.
///
/// # Errors
/// Traces that cannot be read, or hold no transfer.
pub fn fit_jobs(session: &Session, files: &JobsFitFiles) -> Result<JobsFitResult, Failure> {
    check_distinct(&files.output, files.traces.clone())?;
    let options = JobsFitOptions { sector: files.sector, states: files.states };
    let mut notes = Vec::new();
    let mut read = |path: &Path| -> Result<(FittedJobs, TracedRates), Failure> {
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
        let rates = TracedRates {
            input: fitted.input.clone(),
            output: fitted.output.clone(),
            reads: of(Direction::Input),
            writes: of(Direction::Output),
        };
        Ok((fitted, rates))
    };
    let (first, others) = files.traces.split_first().expect("a fit has a trace");
    let (fitted, rates) = read(first)?;
    let mut compared = Vec::new();
    for path in others {
        let (_, other) = read(path)?;
        compared.push(other.compared(&rates, path));
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

#[cfg(test)]
mod tests {
    use seeklab_core::Duration;

    use super::*;

    /// Transfers of 8 sectors on a processor that is `speed` times as fast as the first.
    fn rates(speed: u64, input: &[u64], writes: &[u64]) -> TracedRates {
        let of = |times: &[u64]| -> Vec<Interval> {
            times
                .iter()
                .map(|time| Interval { sectors: 8.0, processor: Duration::from_us(time / speed) })
                .collect()
        };
        TracedRates { input: of(input), output: Vec::new(), reads: Vec::new(), writes: of(writes) }
    }

    #[test]
    fn processor_of_another_speed_is_no_other_program() {
        let first = rates(1, &[800, 1600, 2400], &[800, 800]);
        let faster = rates(4, &[800, 1600, 2400], &[2400, 2400]).compared(&first, Path::new("b.sys"));
        assert!((faster.speed.unwrap() - 4.0).abs() < 1e-9);
        assert!(faster.recorded.input_distance.unwrap() > 0.6);
        assert!(faster.at_equal_speed.input_distance.unwrap() < 1e-9);
        assert_eq!(faster.at_equal_speed.write_request_distance, Some(1.0));
        assert_eq!((faster.recorded.output_distance, faster.recorded.read_request_distance), (None, None));
        let unlike = rates(1, &[], &[800]).compared(&first, Path::new("c.sys"));
        assert_eq!((unlike.speed, unlike.at_equal_speed.input_distance), (None, None));
    }
}
