//! Irregularity of arrivals.
//!
//! The coefficient of variation of interarrival times is 1 for a Poisson process. The Hurst parameter is
//! estimated from the variance of the counts in intervals of growing length: if the variance falls as
//! `m^(2H-2)`, `H` is 0.5 without long-range dependence and up to 1 with it.
//!
//! # References
//! Leland, Taqqu, Willinger and Wilson, IEEE/ACM Transactions on Networking 2(1), 1994 (variance-time plot);
//! Gribble et al., SIGMETRICS 1998 (of file systems' requests).

use seeklab_core::statistics::{Distribution, Moments};
use seeklab_core::{Duration, Instant};

/// The shortest interval whose arrivals are counted: 1 ms.
const BASE_NS: u64 = 1_000_000;
/// Intervals are 1, 2, 4 … times as long: up to 1 ms × 2^40, some 35 years.
const LEVELS: usize = 41;
/// Number of intervals that a level needs for its variance to be meaningful.
const INTERVALS_MIN: u64 = 32;
/// Empty intervals after which the rest of a gap is passed over: what follows is another piece.
const GAP_MAX: u64 = 1 << 24;

/// Accumulates interarrival times.
#[derive(Debug, Clone)]
pub struct Arrivals {
    last: Option<Instant>,
    interarrival: Distribution,
    /// The interval that is being counted, and its arrivals.
    interval: u64,
    count: u64,
    levels: Vec<Level>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Level {
    moments: Moments,
    /// The first half of an interval, if it is there.
    half: Option<f64>,
}

impl Level {
    /// The counts of intervals that follow, the first, if any, and then empty ones; those of the intervals twice as long that
    /// they complete.
    fn push(&mut self, first: Option<f64>, empty: u64) -> (Option<f64>, u64) {
        let mut whole = None;
        if let Some(count) = first {
            self.moments.record(count);
            match self.half.take() {
                Some(half) => whole = Some(half + count),
                None => self.half = Some(count),
            }
        }
        self.moments.record_many(0.0, empty);
        let mut left = empty;
        if left > 0
            && let Some(half) = self.half.take()
        {
            // There was no half when `first` completed an interval, so it is the only one with arrivals.
            whole = Some(half);
            left -= 1;
        }
        if left % 2 == 1 {
            self.half = Some(0.0);
        }
        (whole, left / 2)
    }
}

/// The variance of arrivals per interval of one length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variance {
    /// Seconds of an interval.
    pub interval_s: f64,
    /// Variance over the squared mean of the counts.
    pub relative: f64,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            last: None,
            interarrival: Distribution::default(),
            interval: 0,
            count: 0,
            levels: vec![Level::default(); LEVELS],
        }
    }
}

impl Arrivals {
    /// Takes an arrival.
    pub fn record(&mut self, arrival: Instant) {
        if let Some(last) = self.last {
            self.interarrival.record(arrival.saturating_since(last));
        }
        self.last = Some(self.last.map_or(arrival, |last| last.max(arrival)));
        let interval = arrival.as_ns() / BASE_NS;
        if self.interarrival.moments().count() == 0 {
            self.interval = interval;
        }
        if interval > self.interval {
            self.push(self.count as f64, (interval - self.interval - 1).min(GAP_MAX));
            (self.interval, self.count) = (interval, 0);
        }
        self.count += 1;
    }

    /// An interval with so many arrivals, and so many empty ones behind it.
    fn push(&mut self, count: f64, empty: u64) {
        let (mut first, mut empty) = (Some(count), empty);
        for level in &mut self.levels {
            (first, empty) = level.push(first, empty);
        }
    }

    /// Interarrival times.
    pub const fn interarrival(&self) -> &Distribution {
        &self.interarrival
    }

    /// Standard deviation over mean of the interarrival times.
    pub fn variation(&self) -> Option<f64> {
        let moments = self.interarrival.moments();
        let mean = moments.mean().filter(|mean| *mean > 0.0)?;
        Some(moments.standard_deviation()? / mean)
    }

    /// The variance of the counts over the length of the intervals.
    pub fn variances(&self) -> Vec<Variance> {
        let of = |(level, found): (usize, &Level)| {
            let moments = &found.moments;
            let mean = moments.mean().filter(|mean| *mean > 0.0 && moments.count() >= INTERVALS_MIN)?;
            let interval_s = (BASE_NS << level) as f64 / 1e9;
            Some(Variance { interval_s, relative: moments.variance()? / (mean * mean) })
        };
        self.levels.iter().enumerate().filter_map(of).filter(|variance| variance.relative > 0.0).collect()
    }

    /// The Hurst parameter by least squares over the intervals in which a request arrives on average or more;
    /// `None` with fewer than four of them.
    pub fn hurst(&self) -> Option<f64> {
        let mean_s = self.interarrival.moments().mean()? / 1e9;
        let points: Vec<(f64, f64)> = self
            .variances()
            .iter()
            .filter(|variance| variance.interval_s >= mean_s)
            .map(|variance| (variance.interval_s.ln(), variance.relative.ln()))
            .collect();
        if points.len() < 4 {
            return None;
        }
        let slope = slope(&points)?;
        Some(1.0 + slope / 2.0)
    }

    /// The mean time between arrivals.
    pub fn mean(&self) -> Option<Duration> {
        self.interarrival.moments().mean().map(|ns| Duration::from_ns(ns as u64))
    }
}

/// Slope of the line of least squares.
pub(super) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut xy, mut xx) = (0.0, 0.0);
    for (x, y) in points {
        xy += (x - mean_x) * (y - mean_y);
        xx += (x - mean_x) * (x - mean_x);
    }
    (xx > 0.0).then(|| xy / xx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_intervals_count_the_same_together_and_one_by_one() {
        let arrivals_ms = [0_u64, 0, 1, 4, 5, 12, 13, 40, 41, 1_000, 1_003, 1_004, 70_000];
        let mut arrivals = Arrivals::default();
        arrivals_ms.iter().for_each(|ms| arrivals.record(Instant::ZERO + Duration::from_ms(*ms)));
        let count = |from: u64, length: u64| {
            arrivals_ms.iter().filter(|ms| (from..from + length).contains(*ms)).count() as f64
        };
        // The last interval is not over.
        let intervals = 70_000;
        for (level, found) in arrivals.levels.iter().enumerate().take(20) {
            let length = 1 << level;
            let mut expected = Moments::default();
            (0..intervals / length).for_each(|index| expected.record(count(index * length, length)));
            assert_eq!(found.moments.count(), expected.count(), "level {level}");
            let near = |one: Option<f64>, other: Option<f64>| match (one, other) {
                (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * other.abs().max(1.0),
                (one, other) => one == other,
            };
            assert!(near(found.moments.mean(), expected.mean()), "level {level}");
            assert!(near(found.moments.variance(), expected.variance()), "level {level}");
        }
    }
}
