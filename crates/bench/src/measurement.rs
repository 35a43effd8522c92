//! The result of a measurement.

use seeklab_core::statistics::Distribution;
use seeklab_core::{Duration, Instant, Operation, Request};

use crate::cost::Cost;
use crate::error::TargetError;
use crate::part::Part;
use crate::steady::SteadyTrack;

/// Figures of one interval on all threads.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Number of the interval from the begin of the time that counts.
    pub index: u64,
    /// Its figures.
    pub part: Part,
    /// The figures of each stream.
    pub streams: Vec<Part>,
    /// Threads that did not hand over their figures in time: their target holds them.
    pub silent_threads: u32,
}

impl Interval {
    /// Adds the figures of the interval that follows.
    pub(crate) fn join(&mut self, later: &Self) {
        self.part.merge_later(&later.part);
        self.streams.iter_mut().zip(&later.streams).for_each(|(part, later)| part.merge_later(later));
        self.silent_threads = later.silent_threads;
    }

    /// Takes less memory.
    pub(crate) fn compact(&mut self) {
        self.part.compact();
        self.streams.iter_mut().for_each(Part::compact);
    }
}

/// Last requests of a phase, which are waited for when no more arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Draining {
    /// Time of these figures: the end of an interval behind the end of the arrivals.
    pub at: Instant,
    /// Attempts that the target has.
    pub outstanding: u64,
    /// Attempts of at least a second of age.
    pub hung: u64,
    /// Age of the oldest attempt.
    pub oldest: Option<Duration>,
}

/// A request that the target never returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfinished {
    /// Operation of the request.
    pub op: Operation,
    /// First logical block.
    pub lbn: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Time from its issue to the end of the run.
    pub age: Duration,
    /// Its intended start, unless a response time includes it, as of one that exceeded its time limit, or it does not count.
    pub since: Option<Instant>,
}

impl Unfinished {
    pub(crate) const fn of(request: &Request, age: Duration) -> Self {
        Self { op: request.op, lbn: request.lbn, blocks: request.blocks, age, since: None }
    }
}

/// Figures of the whole time that counts.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Sum over all intervals.
    pub part: Part,
    /// Begin of the time that counts. Without a duration or a ramp-up it is the first arrival.
    pub begin: Instant,
    /// Its end: that of the duration or of the last completion, the later one.
    pub end: Instant,
    /// Requests that arrived in the duration and were never issued.
    pub unissued: u64,
    /// True if there were more of them: they are not counted one by one without end.
    pub has_more_unissued: bool,
    /// Requests that the target never returned.
    pub unfinished: Vec<Unfinished>,
    /// Sum of the times from their intended starts to the end of the time that counts.
    pub unfinished_time: Duration,
    /// Threads that did not come back from their target.
    pub silent_threads: u32,
    /// Connections that were remade.
    pub reconnections: u64,
    /// Longest time at the end for which a thread had no connection.
    pub away: Option<Duration>,
    /// Reason for which the target refused requests without sending them, the first one.
    pub refusal: Option<String>,
    /// Cost of measuring; `None` in virtual time.
    pub cost: Option<Cost>,
}

impl Totals {
    /// Length of the time that counts.
    pub fn elapsed(&self) -> Duration {
        self.end.saturating_since(self.begin)
    }

    /// Requests that were issued and outstanding, mean over time. `None` of no time.
    ///
    /// The sum of the response times is the integral of the number outstanding. Requests that failed, and those that the
    /// target never returned, are outstanding, too, the latter to the end. Arrivals that were never issued are not.
    pub fn outstanding_mean(&self) -> Option<f64> {
        let sum_s =
            |of: &Distribution| of.moments().mean().unwrap_or(0.0) * of.moments().count() as f64 / 1e9;
        let ended_s = sum_s(&self.part.response()) + sum_s(&self.part.failed_response);
        let elapsed = self.elapsed();
        (!elapsed.is_zero()).then(|| (ended_s + self.unfinished_time.as_s()) / elapsed.as_s())
    }

    /// Share of the attempts that were issued more than `late` after they could be, in percent. `None` of no attempts.
    pub fn late_pct(&self, late: Duration) -> Option<f64> {
        let all = self.part.lateness.moments().count();
        let over = self.part.lateness.buckets().filter(|(upper, _)| *upper > late).map(|(_, count)| count);
        (all > 0).then(|| 100.0 * over.sum::<u64>() as f64 / all as f64)
    }
}

/// Result of a measurement.
#[derive(Debug)]
pub struct Measurement {
    /// Figures of the whole.
    pub totals: Totals,
    /// Figures of each stream. Its cost is that of its threads alone.
    pub streams: Vec<Totals>,
    /// Figures over time. The last one of very many includes all that follow it.
    pub intervals: Vec<Interval>,
    /// The rounds of a plan that ends in the steady state.
    pub steady: Option<SteadyTrack>,
    /// True if the caller stopped it.
    pub is_stopped: bool,
    /// Failure of the target as a whole, which ended the measurement early.
    pub failure: Option<TargetError>,
}
