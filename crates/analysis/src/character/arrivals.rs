//! How irregular arrivals are.
//!
//! The coefficient of variation of interarrival times is 1 for a Poisson process. The Hurst parameter is estimated
//! from the variance of the counts in intervals of growing length: if it falls as `m^(2H-2)`, `H` is 0.5 without
//! long-range dependence and up to 1 with it.
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
/// Intervals that a level must have seen for its variance to say something.
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
            self.push(self.count as f64);
            for _ in 0..(interval - self.interval - 1).min(GAP_MAX) {
                self.push(0.0);
            }
            (self.interval, self.count) = (interval, 0);
        }
        self.count += 1;
    }

    fn push(&mut self, count: f64) {
        let mut count = count;
        for level in &mut self.levels {
            level.moments.record(count);
            match level.half.take() {
                Some(half) => count += half,
                None => {
                    level.half = Some(count);
                    return;
                }
            }
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
