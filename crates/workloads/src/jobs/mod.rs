//! Streams of jobs that compute while their buffers are written and read.
//!
//! ```text
//!              produces, consumes at its rates              calls, first come, first served
//! processor ──▶ job ──▶ output buffer, B sectors ──▶ ┌──────────────────────────────────┐
//!    ▲           ▲ └──◀ input buffer,  B sectors ◀── │ drive: held for one call a time  │──requests──▶ device
//!    │ shares    └─ blocked: no room, no data        └──────────────────────────────────┘
//! system, first
//! ```
//! A job reads its input and writes its output at once, each at a rate per second of processor time that changes from
//! state to state. When a buffer has `threshold` sectors free (input) or filled (output), the job calls the drive and
//! goes on. It is blocked when the next sector is due and the buffer has no room or no data. The jobs that are ready
//! share one processor evenly. The system comes first: it takes time for each call and each sector. The model is that
//! of Lindsay and Ferrari, whose equations `seeklab estimate` solves.
//!
//! # Scope and limits
//! - One processor. Shares are exact: there are no time slices and no context switches.
//! - Input files lie on the first drive, output files on the last.
//! - Each call transfers from a place of its own, so that it pays an access. The drive serves calls in order of arrival.
//! - A request that fails counts as done.
//!
//! # References
//! D. S. Lindsay and D. Ferrari, A Study in Operating System Performance Measurement and Modeling, Memorandum ERL-M550,
//! University of California, Berkeley, 1975. `docs/models/jobs.md` compares.

mod drive;
mod figures;
mod file;
mod processor;
mod set;
mod slot;
mod spec;
mod states;

use seeklab_core::{Arrival, Completion, DescriptionError, Instant, Seed, Workload};

pub use self::figures::JobsFigures;
pub use self::file::{Direction, File};
pub use self::processor::Progress;
pub use self::set::JobSet;
pub use self::spec::{JobsSpec, Reactivation, Transfers};
pub use self::states::{RateState, RateStates, SectorTimes};

use self::processor::Processor;
use crate::synthetic::AddressSpace;

/// A stream of jobs on a simulated processor.
#[derive(Debug, Clone)]
pub struct JobStream {
    jobs: JobSet,
    processor: Processor,
    now: Instant,
    /// Drives whose requests have completed and were not yet taken over.
    complete: Vec<usize>,
}

impl JobStream {
    /// The stream of that description for that device.
    ///
    /// # Errors
    /// [`DescriptionError`], if a quantity is out of range or does not fit the device.
    pub fn new(spec: &JobsSpec, target: AddressSpace, seed: Seed) -> Result<Self, DescriptionError> {
        let jobs = JobSet::new(spec, target, seed)?;
        Ok(Self { jobs, processor: Processor::new(), now: Instant::ZERO, complete: Vec::new() })
    }

    /// Figures of the run so far.
    pub fn figures(&self) -> JobsFigures {
        let elapsed = self.now.saturating_since(Instant::ZERO);
        JobsFigures { elapsed, system_processor: self.processor.system_time(), ..self.jobs.figures().clone() }
    }

    /// Advances the processor to `now` and carries out what is due.
    fn advance(&mut self, now: Instant) {
        self.processor.add_system_time(self.jobs.take_system_time());
        let ready = self.jobs.ready().count();
        let progress = self.processor.advance(now.saturating_since(self.now), ready);
        self.now = now;
        self.jobs.compute_all(progress);
        for drive in self.complete.drain(..) {
            self.jobs.complete(drive, now);
        }
        self.jobs.run_ready(now);
        self.processor.add_system_time(self.jobs.take_system_time());
    }

    /// Time at which the next sector of a job is due, if nothing completes before.
    fn next_due(&self) -> Option<Instant> {
        let first = self.jobs.ready().filter_map(|slot| self.jobs.until_due(slot)).min()?;
        Some(self.now + self.processor.time_until(first, self.jobs.ready().count()))
    }
}

impl Workload for JobStream {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        if let Some(request) = self.jobs.next_request() {
            return Arrival::Request(request);
        }
        self.advance(now);
        if let Some(request) = self.jobs.next_request() {
            return Arrival::Request(request);
        }
        match self.next_due() {
            Some(due) => Arrival::At(due),
            None if self.jobs.is_finished() => Arrival::Finished,
            None => Arrival::WaitForCompletion,
        }
    }

    fn completed(&mut self, completion: &Completion) {
        self.jobs.count_failure(!completion.outcome.status.is_success());
        self.complete.push(usize::from(completion.request.device));
    }
}
