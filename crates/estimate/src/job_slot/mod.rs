//! Elapsed time of a stream of jobs, from one job slot that is followed exactly.
//!
//! The equations of [`lindsay_ferrari`](crate::lindsay_ferrari) keep one buffer and one mean per rate state. Here one
//! slot is followed sector by sector: its rate states with their residence, both buffers, the sector in hand, and the
//! calls on the drives. The other slots appear in two places only:
//!
//! ```text
//!   processor: the slot computes at a share r_e while it is ready           (6), (12)
//!   drives:    the files of the other slots call like those of this one     a queue in order of arrival
//! ```
//! The followed slot runs all jobs of the stream, one after another, so that its times are `M` times those of one slot.
//! Each other file alternates between a pause and a call. Pauses and hold times are drawn in pairs from those of the
//! followed slot in the iteration before. The iteration ends when the elapsed time is stationary, and the mean of the
//! last iterations counts.
//!
//! While the job computes for long and calls no drive, the other files come to a steady state, and time without effect is skipped.
//! So the work depends on the sectors and hardly on their times.
//!
//! # Assumptions
//! - The other slots are like this one, and independent of it except for the queues.
//! - A ready slot computes at a constant share. In truth it changes with the number of slots that are ready.
//!
//! # Scope and limits
//! `docs/models/jobs.md` has the comparison with simulation.

mod history;
mod slot;

use seeklab_core::{DescriptionError, Duration, Seed};
use seeklab_workloads::JobsSpec;
use seeklab_workloads::jobs::Direction;

use self::history::History;
use self::slot::{Followed, SlotRun};
use crate::lindsay_ferrari::DriveTimes;
use crate::lindsay_ferrari::elapsed::Demand;

/// Estimate of a stream of jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobsEstimate {
    /// `R`: elapsed time, in seconds.
    pub elapsed_s: f64,
    /// `U`: time that one job slot is blocked, in seconds.
    pub blocked_s: f64,
    /// `C_j`: processor time of the jobs, in seconds.
    pub job_processor_s: f64,
    /// `C_s`: processor time of the system, in seconds.
    pub system_processor_s: f64,
    /// Calls of all drives.
    pub calls: f64,
    /// `r_e`: processor share of a job that is ready.
    pub processor_share: f64,
    /// `d`: mean wait of a call in the queue of its drive, in seconds.
    pub wait_s: f64,
}

/// Iterations of an estimate.
pub const ITERATIONS: u32 = 16;

/// Iterations at the end whose mean counts.
const COUNTED: u32 = 8;

/// Sectors of all jobs at most: their times are kept, 8 bytes each.
const SECTORS_MAX: u64 = 20_000_000;

/// Estimates the stream of jobs that `seed` draws, on drives with these times. `advance` is called with the number of iterations
/// that have ended since the call before, 0 included, often enough to stop the estimate.
///
/// # Errors
/// A description that no stream of jobs can have, more than 20 million sectors, or an error of `advance`.
pub fn estimate<E: From<DescriptionError>>(
    spec: &JobsSpec,
    drive: DriveTimes,
    seed: Seed,
    advance: &mut impl FnMut(u32) -> Result<(), E>,
) -> Result<JobsEstimate, E> {
    spec.check()?;
    if spec.sectors() > SECTORS_MAX {
        let problem = format!("{} sectors of all jobs are more than an estimate follows", spec.sectors());
        let hint = format!("at most {SECTORS_MAX}: name fewer jobs or cycles, or simulate the stream");
        return Err(DescriptionError::invalid("cycles", problem).hint(hint).into());
    }
    let mut sector_times: Vec<[Vec<f64>; 2]> = Vec::new();
    for job in 0..spec.jobs {
        advance(0)?;
        let (mut input, mut output) = spec.sector_times(seed, job);
        let seconds = |time: Duration| time.as_s();
        sector_times.push([
            (0..spec.file_sectors(Direction::Input)).map(|_| seconds(input.next_time())).collect(),
            (0..spec.file_sectors(Direction::Output)).map(|_| seconds(output.next_time())).collect(),
        ]);
    }
    let of_job =
        |times: &[Vec<f64>; 2]| times.iter().map(|times| times.iter().sum::<f64>()).fold(0.0, f64::max);
    let job_processor_s: f64 = sector_times.iter().map(of_job).sum();
    let slots = f64::from(spec.multiprogramming);
    let sector_system_s = spec.sector_time.as_s() * spec.sectors() as f64;

    let mut share = 1.0 / slots;
    let mut history = History::guess(spec, drive, &sector_times, share);
    let mut sum = Sum::default();
    for iteration in 0..ITERATIONS {
        let stream = seed.stream(&format!("job_slot.{iteration}"));
        let Followed { blocked_s, calls, wait_s, history: next } =
            SlotRun::new(spec, drive, share, &history, stream).follow(&sector_times, &mut || advance(0))?;
        history = next;
        let demand = Demand {
            job_processor_s,
            system_processor_s: spec.call_time.as_s() * calls as f64 + sector_system_s,
            blocked_s: blocked_s / slots,
            multiprogramming: slots,
        };
        let elapsed_s = demand.elapsed_s();
        let next_share = (job_processor_s / (slots * (elapsed_s - demand.blocked_s))).min(1.0);
        if iteration >= ITERATIONS - COUNTED {
            sum.add(&JobsEstimate {
                elapsed_s,
                blocked_s: demand.blocked_s,
                job_processor_s,
                system_processor_s: demand.system_processor_s,
                calls: calls as f64,
                processor_share: share,
                wait_s: wait_s / calls.max(1) as f64,
            });
        }
        share += (next_share - share) / 2.0;
        advance(1)?;
    }
    Ok(sum.mean(job_processor_s))
}

/// Sums of estimates.
#[derive(Debug, Default)]
struct Sum {
    count: f64,
    values: [f64; 6],
}

impl Sum {
    fn add(&mut self, estimate: &JobsEstimate) {
        let JobsEstimate { elapsed_s, blocked_s, system_processor_s, calls, processor_share, wait_s, .. } =
            *estimate;
        let values = [elapsed_s, blocked_s, system_processor_s, calls, processor_share, wait_s];
        self.values.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        self.count += 1.0;
    }

    fn mean(&self, job_processor_s: f64) -> JobsEstimate {
        let [elapsed_s, blocked_s, system_processor_s, calls, processor_share, wait_s] =
            self.values.map(|value| value / self.count);
        JobsEstimate {
            elapsed_s,
            blocked_s,
            job_processor_s,
            system_processor_s,
            calls,
            processor_share,
            wait_s,
        }
    }
}
