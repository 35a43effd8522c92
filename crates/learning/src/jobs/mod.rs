//! Recorded programs as a stream of jobs: rates of input and output per second of processor time, as histograms with
//! residence.
//!
//! ```text
//! transfers at system calls ─▶ intervals: sectors, processor time ─▶ histogram of rates ─▶ rate states ─▶ JobsSpec
//! ```
//! By equations (1) and (2) of Lindsay and Ferrari, the rate of a transfer is `r = s / t_cp`. For an output, `t_cp` is the
//! processor time since the output before it; for an input, the processor time until the next input. So the rates depend
//! neither on the device nor on waits.
//!
//! # Scope and limits
//! - A job is a thread that reads or writes at system calls. All jobs of the fitted stream are alike: each has the mean
//!   number of sectors, and the rates of all.
//! - The processor time before the first input, and after the last output, has no rate.
//! - Input and output are drawn independently of each other.
//!
//! # References
//! D. S. Lindsay and D. Ferrari, A Study in Operating System Performance Measurement and Modeling, Memorandum ERL-M550,
//! University of California, Berkeley, 1975, section 3.

mod histogram;
mod intervals;
#[cfg(test)]
mod tests;

use seeklab_core::{ByteSize, Duration, Instant};
use seeklab_workloads::JobsSpec;
use seeklab_workloads::jobs::{Direction, RateStates, Reactivation, Transfers};

use crate::error::{Error, ErrorKind};

pub use histogram::{kolmogorov_distance, median_rate_per_s};
pub use intervals::{Interval, intervals};

/// A transfer of a program at a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Direction.
    pub direction: Direction,
    /// Bytes that the call transferred.
    pub bytes: u64,
    /// Processor time of the program until then.
    pub processor: Duration,
}

/// A recorded program, which becomes a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordedJob {
    /// Time at which it began.
    pub begin: Instant,
    /// Time at which it ended.
    pub end: Instant,
    /// Its processor time.
    pub processor: Duration,
    /// Its transfers, in order.
    pub transfers: Vec<Transfer>,
}

/// Options of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobsFitOptions {
    /// Size of a sector.
    pub sector: ByteSize,
    /// Rate states of each direction at most.
    pub states: usize,
}

/// A stream of jobs that was fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedJobs {
    /// The stream. Its buffer is what the kernel reads ahead by default, 128 KiB.
    pub spec: JobsSpec,
    /// Intervals of the input, of all jobs.
    pub input: Vec<Interval>,
    /// Intervals of the output, of all jobs.
    pub output: Vec<Interval>,
    /// Processor time of all jobs that were fitted.
    pub processor: Duration,
    /// Programs without transfers, which are no jobs.
    pub idle_programs: u64,
}

/// Bytes of a buffer of the fitted stream.
const BUFFER_BYTES: u64 = 128 << 10;

/// Fits a stream of jobs to recorded programs.
///
/// # Errors
/// If no program transfers anything, or takes no processor time between its transfers.
pub fn fit(programs: &[RecordedJob], options: JobsFitOptions) -> Result<FittedJobs, Error> {
    let sector_bytes = options.sector.as_bytes();
    let jobs: Vec<&RecordedJob> = programs.iter().filter(|job| !job.transfers.is_empty()).collect();
    if jobs.is_empty() {
        return Err(Error::new(
            ErrorKind::NothingToFit,
            "no program reads or writes a file at a system call",
        )
        .with_hint("files of the traced file system count, and mapped files do not"));
    }
    let of = |direction| -> Vec<Vec<Interval>> {
        jobs.iter().map(|job| intervals(job, direction, sector_bytes)).collect()
    };
    let (input, output) = (of(Direction::Input), of(Direction::Output));
    let cycles = |all: &[Vec<Interval>]| {
        let sectors: f64 = all.iter().flatten().map(|interval| interval.sectors).sum();
        if sectors > 0.0 { (sectors / jobs.len() as f64).round().max(1.0) as u64 } else { 0 }
    };
    let (input_cycles, output_cycles) = (cycles(&input), cycles(&output));
    let states = |all: &[Vec<Interval>]| {
        if all.iter().all(Vec::is_empty) {
            // A rate that no sector has.
            return "1/s".parse::<RateStates>().expect("it is a rate");
        }
        histogram::rate_states(all, options.states)
    };
    let spec = JobsSpec {
        jobs: u32::try_from(jobs.len()).unwrap_or(u32::MAX),
        cycles: input_cycles,
        output_cycles: Some(output_cycles),
        multiprogramming: most_at_once(&jobs),
        drives: 1,
        sector: options.sector,
        buffer: u32::try_from(BUFFER_BYTES.div_ceil(sector_bytes)).unwrap_or(u32::MAX),
        threshold: None,
        reactivation: Reactivation::End,
        transfers: Transfers::SizedAtStart,
        call_time: Duration::ZERO,
        sector_time: Duration::ZERO,
        input: states(&input),
        output: states(&output),
    };
    spec.check()?;
    Ok(FittedJobs {
        spec,
        input: input.concat(),
        output: output.concat(),
        processor: jobs.iter().map(|job| job.processor).sum(),
        idle_programs: (programs.len() - jobs.len()) as u64,
    })
}

/// The largest number of jobs that ran at the same time.
fn most_at_once(jobs: &[&RecordedJob]) -> u32 {
    // At equal times, an end comes before a begin.
    let mut changes: Vec<(Instant, i32)> =
        jobs.iter().flat_map(|job| [(job.begin, 1), (job.end.max(job.begin), -1)]).collect();
    changes.sort_unstable();
    let (mut active, mut most) = (0_i32, 1_i32);
    for (_, change) in changes {
        active += change;
        most = most.max(active);
    }
    most.unsigned_abs()
}
