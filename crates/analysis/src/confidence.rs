//! Confidence interval of a mean.
//!
//! Over independent repetitions, the mean lies within `t · s / √n` of the expectation with 95 %
//! probability, where `t` is the 97.5 % quantile of Student's distribution with n - 1 degrees of
//! freedom. Within one run successive response times are not independent: [`BatchMeans`] groups them
//! into long batches, whose means nearly are, and applies the same formula to those.
//!
//! # Scope and limits
//! The start of a run is not cut off. Batches shorter than the correlation of the stream make the interval
//! too narrow, so the interval of a run below about a thousand requests is unreliable.
//!
//! # References
//! Student, Biometrika 6(1), 1908; B. Schmeiser, Operations Research 30(3), 1982 (10 to 30 batches
//! suffice).

use seeklab_core::statistics::Moments;
use serde::Serialize;

use crate::rounding::six_decimals;

/// A mean with its 95 % confidence interval, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Number of values.
    pub n: u64,
    /// Their mean.
    pub mean: f64,
    /// Their sample standard deviation, zero of one value.
    pub sd: f64,
    /// Half width of the interval `mean ± half_width_95`. `None` for a single value, whose spread is unknown.
    pub half_width_95: Option<f64>,
}

impl Interval {
    fn of(moments: &Moments) -> Option<Self> {
        let mean = moments.mean()?;
        let sd = moments.standard_deviation();
        let n = moments.count();
        Some(Self {
            n,
            mean: six_decimals(mean),
            sd: six_decimals(sd.unwrap_or(0.0)),
            half_width_95: sd.map(|sd| six_decimals(student_t_975(n - 1) * sd / (n as f64).sqrt())),
        })
    }
}

/// The mean of independent repetitions with its 95 % interval, `None` of nothing.
pub fn interval(values: &[f64]) -> Option<Interval> {
    let mut moments = Moments::default();
    values.iter().for_each(|value| moments.record(*value));
    Interval::of(&moments)
}

/// The 97.5 % quantile of Student's distribution for 1 to 30 degrees of freedom.
const STUDENT_T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The 97.5 % quantile; above 30 degrees of freedom by the expansion of Cornish and Fisher about the
/// normal quantile, right to three decimals there.
pub(crate) fn student_t_975(degrees: u64) -> f64 {
    const Z: f64 = 1.959_964;
    match usize::try_from(degrees) {
        Ok(0) => f64::INFINITY,
        Ok(degrees) if degrees <= STUDENT_T_975.len() => STUDENT_T_975[degrees - 1],
        _ => {
            let (v, z3, z5) = (degrees as f64, Z * Z * Z, Z * Z * Z * Z * Z);
            Z + (z3 + Z) / (4.0 * v) + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * v * v)
        }
    }
}

/// Batches kept at most; when they are full, neighbours are joined and 16 remain.
const BATCHES_MAX: usize = 32;

/// The confidence in the mean of a correlated stream, in bounded memory: 16 to 32 equal batches
/// that double their length as the stream grows.
#[derive(Debug, Clone)]
pub struct BatchMeans {
    sums: Vec<f64>,
    batch_size: u64,
    sum: f64,
    count: u64,
}

impl Default for BatchMeans {
    fn default() -> Self {
        Self { sums: Vec::with_capacity(BATCHES_MAX), batch_size: 1, sum: 0.0, count: 0 }
    }
}

impl BatchMeans {
    /// Takes one value in.
    pub fn record(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
        if self.count == self.batch_size {
            self.close_batch();
        }
    }

    fn close_batch(&mut self) {
        self.sums.push(self.sum);
        (self.sum, self.count) = (0.0, 0);
        if self.sums.len() == BATCHES_MAX {
            self.sums = self.sums.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
            self.batch_size *= 2;
        }
    }

    /// The interval over the full batches; `None` below 16 batches of 8 values.
    pub fn interval(&self) -> Option<Interval> {
        if self.batch_size < 8 {
            return None;
        }
        let mut moments = Moments::default();
        self.sums.iter().for_each(|sum| moments.record(sum / self.batch_size as f64));
        Interval::of(&moments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_equals_that_of_the_textbook() {
        let seen = interval(&[10.0, 12.0, 14.0, 16.0]).unwrap();
        assert_eq!((seen.n, seen.mean), (4, 13.0));
        assert!((seen.sd - 2.581_989).abs() < 1e-6);
        assert!((seen.half_width_95.unwrap() - 3.182 * 2.581_989 / 2.0).abs() < 1e-5);
        assert_eq!(interval(&[5.0]).unwrap().half_width_95, None);
        assert_eq!(interval(&[]), None);
    }

    #[test]
    fn quantiles_are_right_beyond_the_table() {
        for (degrees, t) in [(1, 12.706), (30, 2.042), (40, 2.021), (60, 2.000), (120, 1.980)] {
            assert!((student_t_975(degrees) - t).abs() < 6e-4, "{degrees}: {}", student_t_975(degrees));
        }
    }

    #[test]
    fn batches_cover_the_mean_of_a_correlated_stream() {
        let mut stream = seeklab_core::Seed(3).stream("batches");
        let runs = 200;
        let mut covered = 0;
        for _ in 0..runs {
            let (mut batches, mut value) = (BatchMeans::default(), 0.0);
            for _ in 0..4_096 {
                value = 0.8 * value + stream.unit() - 0.5;
                batches.record(value);
            }
            let seen = batches.interval().unwrap();
            covered += u32::from(seen.mean.abs() <= seen.half_width_95.unwrap());
        }
        assert!((180..=200).contains(&covered), "{covered} of {runs} intervals hold the true mean 0");
    }
}
