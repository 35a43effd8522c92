//! Densities of several distributions of times over one axis.
//!
//! Steps are equal on the axis that is drawn, linear or logarithmic, so that equal areas are equal shares of the
//! requests, and curves that share a [`DensityAxis`] can be laid over each other.
//!
//! # Scope and limits
//! A histogram. Buckets of a [`Distribution`] are 0.1 % wide and taken to be evenly filled. What lies outside the axis
//! is missing in the curve: 0.1 % on either side at most.

use schemars::JsonSchema;
use seeklab_core::statistics::Distribution;
use serde::Serialize;

use crate::rounding::six_decimals;

/// Beyond this ratio of its ends, an axis is logarithmic: linear would lay the short times on its begin.
const LINEAR_RATIO_MAX: f64 = 30.0;

/// Shares of the requests between which the axis goes.
const ENDS: [f64; 2] = [0.001, 0.999];

/// Steps of equal width over a range of response times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DensityAxis {
    is_log: bool,
    low_ns: f64,
    high_ns: f64,
    steps: usize,
}

/// One step of a density.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct DensityStep {
    /// Start of the axis.
    pub low_ms: f64,
    /// End of the axis.
    pub high_ms: f64,
    /// Share of all requests in it.
    pub requests_pct: f64,
}

impl DensityAxis {
    /// The axis on which all of `distributions` have place, in `steps` steps; `None` if all are empty.
    pub fn over<'a>(distributions: impl IntoIterator<Item = &'a Distribution>, steps: usize) -> Option<Self> {
        let (mut low_ns, mut high_ns) = (f64::INFINITY, 0.0_f64);
        for distribution in distributions {
            let end = |share| distribution.quantile(share).map(|time| time.as_ns() as f64);
            let Some((low, high)) = end(ENDS[0]).zip(end(ENDS[1])) else { continue };
            low_ns = low_ns.min(low.max(1.0));
            high_ns = high_ns.max(high.max(1.0));
        }
        if high_ns == 0.0 {
            return None;
        }
        // The last value has place, and a single one a width.
        let (low_ns, high_ns) = (low_ns * 0.99, high_ns * 1.01 + 1.0);
        Some(Self { is_log: high_ns > LINEAR_RATIO_MAX * low_ns, low_ns, high_ns, steps: steps.max(1) })
    }

    /// Returns true if the axis is logarithmic.
    pub const fn is_log(&self) -> bool {
        self.is_log
    }

    /// Width of a step: in percent of the time at which it begins if logarithmic, else in milliseconds.
    pub fn step_width(&self) -> f64 {
        match self.is_log {
            true => 100.0 * ((self.high_ns / self.low_ns).powf(1.0 / self.steps as f64) - 1.0),
            false => (self.high_ns - self.low_ns) / self.steps as f64 / 1e6,
        }
    }

    /// Returns the position of a time on the axis, in steps.
    fn place(&self, ns: f64) -> f64 {
        let share = match self.is_log {
            true => (ns.max(self.low_ns * 1e-3) / self.low_ns).ln() / (self.high_ns / self.low_ns).ln(),
            false => (ns - self.low_ns) / (self.high_ns - self.low_ns),
        };
        share * self.steps as f64
    }

    /// The time in milliseconds where a step begins.
    fn at_ms(&self, step: usize) -> f64 {
        let share = step as f64 / self.steps as f64;
        let ns = match self.is_log {
            true => self.low_ns * (self.high_ns / self.low_ns).powf(share),
            false => self.low_ns + share * (self.high_ns - self.low_ns),
        };
        six_decimals(ns / 1e6)
    }

    /// The density of `distribution`; all zero if it is empty.
    pub fn density(&self, distribution: &Distribution) -> Vec<DensityStep> {
        let total = distribution.moments().count().max(1) as f64;
        let mut counts = vec![0.0; self.steps];
        let end = self.steps as f64;
        for (span, count) in distribution.spans() {
            let (from, to) = (self.place(span.start as f64), self.place(span.end as f64));
            let width = to - from;
            let (mut at, to) = (from.max(0.0), to.min(end));
            while at < to {
                let step = at.floor();
                let until = (step + 1.0).min(to);
                counts[step as usize] += count as f64 * (until - at) / width;
                at = until;
            }
        }
        let steps = counts.iter().enumerate();
        steps
            .map(|(step, count)| DensityStep {
                low_ms: self.at_ms(step),
                high_ms: self.at_ms(step + 1),
                requests_pct: six_decimals(100.0 * count / total),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Duration, Seed};

    use super::*;

    fn of(times: impl Iterator<Item = Duration>) -> Distribution {
        let mut distribution = Distribution::default();
        times.for_each(|time| distribution.record(time));
        distribution
    }

    #[test]
    fn uniform_distribution_has_a_flat_and_complete_density() {
        let even = of((0..400_000).map(|index| Duration::from_ns(3_000_000 + index * 10)));
        let axis = DensityAxis::over([&even], 50).unwrap();
        assert!(!axis.is_log());
        let density = axis.density(&even);
        let whole: f64 = density.iter().map(|step| step.requests_pct).sum();
        assert!((whole - 100.0).abs() < 1e-3, "{whole}");
        for step in &density[1..49] {
            // One step is 4.1 ms / 50 of 4 ms; buckets do not show.
            assert!((step.requests_pct / (axis.step_width() / 4.0 * 100.0) - 1.0).abs() < 0.01, "{step:?}");
        }
        assert!(density.windows(2).all(|pair| pair[0].high_ms == pair[1].low_ms));
    }

    #[test]
    fn wide_range_has_a_logarithmic_axis() {
        let mut stream = Seed(2).stream("times");
        let wide = of((0..200_000).map(|_| {
            Duration::from_ns_f64(1e3 * 1e4_f64.powf(stream.below(1 << 30) as f64 / (1_u64 << 30) as f64))
        }));
        let axis = DensityAxis::over([&wide], 40).unwrap();
        assert!(axis.is_log());
        let density = axis.density(&wide);
        // Even over the logarithm.
        assert!(density[2..38].iter().all(|step| (step.requests_pct / 2.5 - 1.0).abs() < 0.1), "{density:?}");
    }

    #[test]
    fn single_time_has_a_place() {
        let single = of([Duration::from_us(80); 10].into_iter());
        let axis = DensityAxis::over([&single, &Distribution::default()], 30).unwrap();
        let whole: f64 = axis.density(&single).iter().map(|step| step.requests_pct).sum();
        assert!((whole - 100.0).abs() < 1e-3);
        assert!(axis.density(&Distribution::default()).iter().all(|step| step.requests_pct == 0.0));
        assert_eq!(DensityAxis::over([&Distribution::default()], 30), None);
        let zero = of([Duration::ZERO; 3].into_iter());
        assert!(DensityAxis::over([&zero], 3).is_some());
    }
}
