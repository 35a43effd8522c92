//! Figures of the requests that ended in one interval, on one thread or on all.

use seeklab_core::statistics::Distribution;
use seeklab_core::{Duration, Instant, Operation, Status};

/// Successful requests of one operation.
#[derive(Debug, Clone, Default)]
pub struct Direction {
    /// Requests that were carried out.
    pub requests: u64,
    /// Bytes that they transferred.
    pub bytes: u64,
    /// Intended start to completion.
    pub response: Distribution,
    /// Issue of the successful attempt to completion.
    pub service: Distribution,
}

impl Direction {
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.response.merge(&other.response);
        self.service.merge(&other.service);
    }

    fn compact(&mut self) {
        self.response.compact();
        self.service.compact();
    }
}

/// Counts of numbers of requests by class: 0, 1, and twice as many with each class, the last one without a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depths([u64; Self::CLASSES]);

impl Depths {
    /// Number of classes: 0, 1, 2 to 3, 4 to 7, 8 to 15, 16 to 31, 32 to 63, and from 64 on.
    pub const CLASSES: usize = 8;

    /// Counts a number once.
    pub(crate) fn record(&mut self, number: u32) {
        let class = u32::BITS - number.leading_zeros();
        self.0[(class as usize).min(Self::CLASSES - 1)] += 1;
    }

    /// Counts by class.
    pub const fn counts(&self) -> &[u64; Self::CLASSES] {
        &self.0
    }

    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, other)| *count += other);
    }
}

/// Figures of an interval. Counts of errors are apart from those of successful requests everywhere.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// Begin of the interval.
    pub from: Instant,
    /// End of the interval.
    pub until: Instant,
    /// Successful requests by operation.
    pub operations: [Direction; Operation::ALL.len()],
    /// Attempts that ended with each status. Those that exceeded their time limit are `timeout`.
    pub statuses: [u64; Status::ALL.len()],
    /// Intended start to the end of the last attempt, of requests that were not carried out.
    pub failed_response: Distribution,
    /// Requests that were not carried out, all attempts included.
    pub failed: u64,
    /// Attempts that were issued.
    pub attempts: u64,
    /// Attempts under way on the thread of each attempt when it was issued, that one included.
    pub depths: Depths,
    /// Attempts that were given to the target together, less one: that of one attempt is 0.
    pub submissions: Depths,
    /// Attempts that the target returned together, less one.
    pub completions: Depths,
    /// Attempts after the first of a request.
    pub retries: u64,
    /// Requests that a retry carried out.
    pub retried: u64,
    /// Time from the intended start to the issue, of attempts that found room at once.
    pub lateness: Distribution,
    /// Arrivals that found no room and waited.
    pub delayed: u64,
    /// Delayed arrivals that waited for a connection.
    pub delayed_away: u64,
    /// Arrivals that found no room and were left out.
    pub dropped: u64,
    /// Attempts that ended after they had been given up.
    pub late_ends: u64,
    /// Attempts that the target has at the end of the interval.
    pub outstanding: u64,
    /// Arrivals that wait at the end of the interval.
    pub queued: u64,
    /// Age of the oldest attempt that the target has at the end of the interval.
    pub oldest: Option<Duration>,
    /// Attempts of at least a second of age at the end of the interval.
    pub hung: u64,
    /// Longest time without a completion while requests were under way or waited, on a thread.
    pub pause: Duration,
    /// The last completion.
    pub last_completion: Option<Instant>,
}

impl Part {
    /// An interval that begins.
    pub(crate) fn begin(from: Instant) -> Self {
        Self { from, until: from, ..Self::default() }
    }

    /// Requests that were carried out.
    pub fn requests(&self) -> u64 {
        self.operations.iter().map(|direction| direction.requests).sum()
    }

    /// Bytes that were read and written. Discards and writes of zeroes transfer none.
    pub fn bytes(&self) -> u64 {
        self.operations[Operation::Read as usize].bytes + self.operations[Operation::Write as usize].bytes
    }

    /// Response times of all successful requests.
    pub fn response(&self) -> Distribution {
        self.all(|direction| &direction.response)
    }

    /// Service times of all successful requests.
    pub fn service(&self) -> Distribution {
        self.all(|direction| &direction.service)
    }

    fn all(&self, of: fn(&Direction) -> &Distribution) -> Distribution {
        let mut all = Distribution::default();
        self.operations.iter().for_each(|direction| all.merge(of(direction)));
        all
    }

    /// Attempts that failed.
    pub fn errors(&self) -> u64 {
        let of = |status: &Status| self.statuses[*status as usize];
        Status::ALL.iter().filter(|status| !status.is_success()).map(of).sum()
    }

    /// Adds the figures of another thread in the same interval: requests under way add up.
    pub(crate) fn merge_thread(&mut self, other: &Self) {
        self.outstanding += other.outstanding;
        self.queued += other.queued;
        self.hung += other.hung;
        self.oldest = self.oldest.max(other.oldest);
        self.until = self.until.max(other.until);
        self.merge_counts(other);
    }

    /// Adds the figures of the interval that follows, whose end becomes that of this one.
    pub(crate) fn merge_later(&mut self, later: &Self) {
        (self.until, self.outstanding, self.queued) = (later.until, later.outstanding, later.queued);
        (self.oldest, self.hung) = (later.oldest, later.hung);
        self.merge_counts(later);
    }

    /// Adds the figures of a later interval, without its length.
    pub fn merge_counts(&mut self, other: &Self) {
        for (direction, other) in self.operations.iter_mut().zip(&other.operations) {
            direction.merge(other);
        }
        for (count, other) in self.statuses.iter_mut().zip(other.statuses) {
            *count += other;
        }
        self.failed_response.merge(&other.failed_response);
        self.failed += other.failed;
        self.attempts += other.attempts;
        self.depths.merge(&other.depths);
        self.submissions.merge(&other.submissions);
        self.completions.merge(&other.completions);
        self.retries += other.retries;
        self.retried += other.retried;
        self.lateness.merge(&other.lateness);
        self.delayed += other.delayed;
        self.delayed_away += other.delayed_away;
        self.dropped += other.dropped;
        self.late_ends += other.late_ends;
        self.pause = self.pause.max(other.pause);
        self.last_completion = self.last_completion.max(other.last_completion);
    }

    /// Takes less memory, for an interval that is over: one of few requests has few of the buckets between their times.
    pub(crate) fn compact(&mut self) {
        self.operations.iter_mut().for_each(Direction::compact);
        self.failed_response.compact();
        self.lateness.compact();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::Interval;

    #[test]
    fn classes_of_depths_double() {
        let mut depths = Depths::default();
        [0, 1, 2, 3, 4, 7, 8, 63, 64, u32::MAX].into_iter().for_each(|number| depths.record(number));
        assert_eq!(depths.counts(), &[1, 1, 2, 2, 1, 0, 1, 2]);
    }

    #[test]
    fn interval_that_is_over_keeps_the_buckets_that_hold_a_time() {
        let mut part = Part::default();
        let read = &mut part.operations[Operation::Read as usize];
        for times in [&mut read.response, &mut read.service, &mut part.failed_response, &mut part.lateness] {
            // 20,000 buckets lie between them.
            [1_000, 1_000_000_000].into_iter().for_each(|ns| times.record(Duration::from_ns(ns)));
        }
        let length = |part: &Part| format!("{part:?}").len();
        assert!(length(&part) > 4 * 2 * 20_000);
        let mut interval =
            Interval { index: 0, streams: vec![part.clone()], part: part.clone(), silent_threads: 0 };
        interval.compact();
        assert!(length(&interval.part) < 10_000 && length(&interval.streams[0]) < 10_000);
        assert_eq!(interval.part.response().quantile(1.0), part.response().quantile(1.0));
    }

    #[test]
    fn bytes_are_those_read_and_written() {
        let mut part = Part::default();
        for (bytes, op) in (1..).zip(Operation::ALL) {
            part.operations[op as usize].bytes = match op {
                Operation::Read => 1 << 20,
                Operation::Write => 1 << 21,
                _ => bytes,
            };
        }
        assert_eq!(part.bytes(), 3 << 20);
    }
}
