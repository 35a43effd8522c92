//! The distribution of a stream of durations.

use std::ops::Range;

use super::{LogHistogram, Moments};
use crate::units::Duration;

/// Buckets of times: 1,024 for each doubling, so 0.1 % wide at most.
type Times = LogHistogram<10>;

/// A distribution of durations: exact count, mean, deviation and extremes; percentiles to three
/// significant digits whatever the range, in bounded memory.
#[derive(Debug, Clone, Default)]
pub struct Distribution {
    moments: Moments,
    times: Times,
}

impl Distribution {
    /// Takes one duration in.
    pub fn record(&mut self, duration: Duration) {
        self.moments.record(duration.as_ns() as f64);
        self.times.record(duration.as_ns());
    }

    /// Takes all durations of `other` in.
    pub fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        self.times.merge(&other.times);
    }

    /// Takes less memory. The next duration that is taken in undoes it.
    pub fn compact(&mut self) {
        self.times.compact();
    }

    /// Moments in nanoseconds.
    pub const fn moments(&self) -> &Moments {
        &self.moments
    }

    /// The duration at `quantile` in `[0, 1]`, `None` of nothing: the upper bound of its bucket, but never
    /// outside the shortest and the longest duration.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let (min, max) = self.moments.min().zip(self.moments.max())?;
        let bucket = self.times.bucket_at(quantile)?;
        let ns = if quantile > 0.0 { Times::greatest(bucket) } else { Times::least(bucket) };
        Some(Duration::from_ns(ns.clamp(min as u64, max as u64)))
    }

    /// `(upper bound, count)` of every occupied bucket, ascending; buckets are 0.1 % wide.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.times.occupied().map(|(bucket, count)| (Duration::from_ns(Times::greatest(bucket)), count))
    }

    /// `(nanoseconds, count)` of every occupied bucket, ascending: which times it holds, and how many.
    pub fn spans(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.times.occupied().map(|(bucket, count)| (Times::values(bucket), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_to_three_digits() {
        let mut distribution = Distribution::default();
        for us in 1..=100_000 {
            distribution.record(Duration::from_us(us));
        }
        for (quantile, us) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.999, 99_900.0)] {
            let seen = distribution.quantile(quantile).unwrap().as_us();
            assert!((seen / us - 1.0).abs() < 1.1e-3, "{quantile}: {seen}");
        }
        assert_eq!(distribution.moments().mean(), Some(50_000_500.0));
        let mut end = 0;
        for (span, _) in distribution.spans() {
            assert!(
                span.start >= end && (span.end - span.start) as f64 <= 1.0 + span.start as f64 * 1e-3,
                "{span:?}"
            );
            end = span.end;
        }
        assert_eq!(Distribution::default().quantile(0.5), None);
    }

    #[test]
    fn quantile_lies_between_the_shortest_and_the_longest() {
        let mut distribution = Distribution::default();
        // The bucket of 1,000,003 ns goes from 999,936 to 1,000,447 ns.
        distribution.record(Duration::from_ns(1_000_003));
        for quantile in [0.0, 0.5, 0.99, 1.0] {
            assert_eq!(distribution.quantile(quantile), Some(Duration::from_ns(1_000_003)), "{quantile}");
        }
        distribution.record(Duration::from_ns(2_000_003));
        assert_eq!(distribution.quantile(0.5), Some(Duration::from_ns(1_000_447)), "the end of its bucket");
        assert_eq!(distribution.quantile(0.99), Some(Duration::from_ns(2_000_003)));
    }
}
