//! Distribution of a service time.

use std::sync::Arc;

/// Distribution of a time, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceTimes {
    /// Always the same time.
    Constant {
        /// The time.
        time_s: f64,
    },
    /// Exponential.
    Exponential {
        /// The mean.
        mean_s: f64,
    },
    /// Times with equal shares.
    Sample(Arc<Sample>),
}

/// Times with equal shares, in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    sorted_s: Vec<f64>,
    mean_s: f64,
    variance_s2: f64,
    /// Sums of the first 0, 1, … times.
    sums_s: Vec<f64>,
    /// Sums of the squares of the first 0, 1, … times.
    squares_s2: Vec<f64>,
}

impl Sample {
    fn new(mut times_s: Vec<f64>) -> Self {
        times_s.sort_unstable_by(f64::total_cmp);
        let sums = |of: fn(f64) -> f64| {
            let running = times_s.iter().scan(0.0, |sum, time| {
                *sum += of(*time);
                Some(*sum)
            });
            std::iter::once(0.0).chain(running).collect::<Vec<f64>>()
        };
        let (sums_s, squares_s2) = (sums(|time| time), sums(|time| time * time));
        let count = times_s.len() as f64;
        let mean_s = sums_s[times_s.len()] / count;
        // Around the mean, so that nearly constant times keep their digits.
        let variance_s2 = times_s.iter().map(|time| (time - mean_s).powi(2)).sum::<f64>() / count;
        Self { sorted_s: times_s, mean_s, variance_s2, sums_s, squares_s2 }
    }

    /// Number of times not above `time_s`.
    fn count_up_to(&self, time_s: f64) -> usize {
        self.sorted_s.partition_point(|time| *time <= time_s)
    }
}

impl ServiceTimes {
    /// Always the same time.
    pub const fn constant(time_s: f64) -> Self {
        Self::Constant { time_s }
    }

    /// Times with equal shares.
    ///
    /// # Panics
    /// If there are none.
    pub fn sample(times_s: Vec<f64>) -> Self {
        assert!(!times_s.is_empty(), "a sample has times");
        Self::Sample(Arc::new(Sample::new(times_s)))
    }

    /// Mean, in seconds.
    pub fn mean_s(&self) -> f64 {
        match self {
            Self::Constant { time_s } => *time_s,
            Self::Exponential { mean_s } => *mean_s,
            Self::Sample(sample) => sample.mean_s,
        }
    }

    /// Variance, in seconds squared.
    pub fn variance_s2(&self) -> f64 {
        match self {
            Self::Constant { .. } => 0.0,
            Self::Exponential { mean_s } => mean_s * mean_s,
            Self::Sample(sample) => sample.variance_s2,
        }
    }

    /// Standard deviation, in seconds.
    pub fn deviation_s(&self) -> f64 {
        self.variance_s2().sqrt()
    }

    /// Longest time; of an exponential time, one that 10⁻¹² of the times exceed.
    pub fn longest_s(&self) -> f64 {
        match self {
            Self::Constant { time_s } => *time_s,
            Self::Exponential { mean_s } => mean_s * 12.0 * std::f64::consts::LN_10,
            Self::Sample(sample) => sample.sorted_s[sample.sorted_s.len() - 1],
        }
    }

    /// Time that a share of the times, below 1, does not exceed.
    pub fn quantile_s(&self, share: f64) -> f64 {
        match self {
            Self::Constant { time_s } => *time_s,
            Self::Exponential { mean_s } => -mean_s * (1.0 - share).ln(),
            Self::Sample(sample) => {
                let rank = (share * sample.sorted_s.len() as f64) as usize;
                sample.sorted_s[rank.min(sample.sorted_s.len() - 1)]
            }
        }
    }

    /// Share of the times that are not above `time_s`.
    pub fn share_up_to(&self, time_s: f64) -> f64 {
        match self {
            Self::Constant { time_s: constant } => f64::from(*constant <= time_s),
            Self::Exponential { mean_s } => 1.0 - (-time_s.max(0.0) / mean_s).exp(),
            Self::Sample(sample) => sample.count_up_to(time_s) as f64 / sample.sorted_s.len() as f64,
        }
    }

    /// Mean of `max(0, x − S)` over the times S, in seconds.
    pub fn mean_shortfall_s(&self, x_s: f64) -> f64 {
        if x_s <= 0.0 {
            return 0.0;
        }
        match self {
            Self::Constant { time_s } => (x_s - time_s).max(0.0),
            Self::Exponential { mean_s } => x_s + mean_s * (-x_s / mean_s).exp_m1(),
            Self::Sample(sample) => {
                let below = sample.count_up_to(x_s);
                (below as f64 * x_s - sample.sums_s[below]) / sample.sorted_s.len() as f64
            }
        }
    }

    /// Integral of the mean of `max(0, u − S)` over u from 0 to `x`, in seconds squared.
    pub fn shortfall_integral_s2(&self, x_s: f64) -> f64 {
        if x_s <= 0.0 {
            return 0.0;
        }
        match self {
            Self::Constant { time_s } => (x_s - time_s).max(0.0).powi(2) / 2.0,
            Self::Exponential { mean_s } => {
                x_s * x_s / 2.0 - mean_s * x_s - mean_s * mean_s * (-x_s / mean_s).exp_m1()
            }
            Self::Sample(sample) => {
                let below = sample.count_up_to(x_s);
                let squares =
                    below as f64 * x_s * x_s - 2.0 * x_s * sample.sums_s[below] + sample.squares_s2[below];
                squares / 2.0 / sample.sorted_s.len() as f64
            }
        }
    }

    /// Mean of `1 − exp(−r S)` over the times S: the chance that an event with the rate r, per second, happens meanwhile. It is
    /// 1 minus the Laplace transform.
    pub fn transform_complement(&self, rate_per_s: f64) -> f64 {
        match self {
            Self::Constant { time_s } => -(-rate_per_s * time_s).exp_m1(),
            Self::Exponential { mean_s } => rate_per_s * mean_s / (1.0 + rate_per_s * mean_s),
            Self::Sample(sample) => {
                let sum: f64 = sample.sorted_s.iter().map(|time| -(-rate_per_s * time).exp_m1()).sum();
                sum / sample.sorted_s.len() as f64
            }
        }
    }

    /// The same times multiplied by a factor.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        match self {
            Self::Constant { time_s } => Self::Constant { time_s: time_s * factor },
            Self::Exponential { mean_s } => Self::Exponential { mean_s: mean_s * factor },
            Self::Sample(sample) => Self::sample(sample.sorted_s.iter().map(|time| time * factor).collect()),
        }
    }

    /// The times of a sample in ascending order; empty of the others.
    pub fn sorted_s(&self) -> &[f64] {
        match self {
            Self::Sample(sample) => &sample.sorted_s,
            Self::Constant { .. } | Self::Exponential { .. } => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{found} {expected}");
    }

    #[test]
    fn sample_has_its_moments_and_quantiles() {
        let times = ServiceTimes::sample(vec![3.0, 1.0, 2.0, 2.0]);
        near(times.mean_s(), 2.0);
        near(times.variance_s2(), 0.5);
        assert_eq!([0.0, 0.25, 0.5, 0.99].map(|share| times.quantile_s(share)), [1.0, 2.0, 2.0, 3.0]);
        assert_eq!([0.5, 1.0, 2.0, 9.0].map(|time| times.share_up_to(time)), [0.0, 0.25, 0.75, 1.0]);
        near(times.scaled(2.0).variance_s2(), 2.0);
    }

    #[test]
    fn shortfalls_are_those_counted_by_hand() {
        let times = ServiceTimes::sample(vec![3.0, 1.0, 2.0, 2.0]);
        // At 2.5: 1.5, 0.5, 0.5 and none of four times.
        near(times.mean_shortfall_s(2.5), 2.5 / 4.0);
        near(times.shortfall_integral_s2(2.5), (1.5_f64.powi(2) + 2.0 * 0.25) / 8.0);
        near(ServiceTimes::constant(2.0).mean_shortfall_s(2.5), 0.5);
        near(ServiceTimes::constant(2.0).shortfall_integral_s2(2.5), 0.125);
        assert_eq!(times.mean_shortfall_s(-1.0), 0.0);
    }

    #[test]
    fn events_happen_during_a_time_as_its_transform_tells() {
        let half = std::f64::consts::LN_2;
        near(ServiceTimes::constant(2.0).transform_complement(half / 2.0), 0.5);
        near(ServiceTimes::Exponential { mean_s: 2.0 }.transform_complement(1.5), 0.75);
        near(ServiceTimes::sample(vec![0.0, half, 2.0 * half]).transform_complement(1.0), (0.5 + 0.75) / 3.0);
    }

    #[test]
    fn exponential_shortfall_is_the_integral_of_its_distribution() {
        let times = ServiceTimes::Exponential { mean_s: 0.5 };
        let (steps, end) = (100_000, 1.7);
        let (mut shortfall, mut integral) = (0.0, 0.0);
        for step in 0..steps {
            let at = end * (f64::from(step) + 0.5) / f64::from(steps);
            shortfall += times.share_up_to(at) * end / f64::from(steps);
            integral += times.mean_shortfall_s(at) * end / f64::from(steps);
        }
        assert!((shortfall - times.mean_shortfall_s(end)).abs() < 1e-8);
        assert!((integral - times.shortfall_integral_s2(end)).abs() < 1e-8);
        near(times.quantile_s(times.share_up_to(0.8)), 0.8);
    }
}
