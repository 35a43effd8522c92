//! The distribution of a stream of durations.

use std::ops::Range;

use hdrhistogram::Histogram;

use super::Moments;
use crate::units::Duration;

/// A distribution of durations: exact count, mean, deviation and extremes; percentiles to three
/// significant digits whatever the range, in bounded memory.
#[derive(Debug, Clone)]
pub struct Distribution {
    moments: Moments,
    histogram: Histogram<u64>,
}

impl Default for Distribution {
    fn default() -> Self {
        let histogram = Histogram::new(3).expect("three significant digits are allowed");
        Self { moments: Moments::default(), histogram }
    }
}

impl Distribution {
    /// Takes one duration in.
    ///
    /// # Panics
    /// If it is 2^63 ns (292 years) or longer.
    pub fn record(&mut self, duration: Duration) {
        self.moments.record(duration.as_ns() as f64);
        self.histogram.record(duration.as_ns()).expect("the histogram resizes itself up to 2^63 ns");
    }

    /// Takes all durations of `other` in.
    pub fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        self.histogram.add(&other.histogram).expect("both histograms resize themselves");
    }

    /// Moments in nanoseconds.
    pub const fn moments(&self) -> &Moments {
        &self.moments
    }

    /// The duration at `quantile` in `[0, 1]`, `None` of nothing.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        (self.moments.count() > 0).then(|| Duration::from_ns(self.histogram.value_at_quantile(quantile)))
    }

    /// `(upper bound, count)` of every occupied bucket, ascending; buckets are 0.1 % wide.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.histogram
            .iter_recorded()
            .map(|step| (Duration::from_ns(step.value_iterated_to()), step.count_at_value()))
    }

    /// `(nanoseconds, count)` of every occupied bucket, ascending: which times it holds, and how many.
    pub fn spans(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.histogram.iter_recorded().map(|step| {
            let last = step.value_iterated_to();
            (self.histogram.lowest_equivalent(last)..last + 1, step.count_at_value())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_quantiles_right_to_three_digits() {
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
}
