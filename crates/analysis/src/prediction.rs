//! Agreement of predicted and measured response times, beside the effect of random variation.
//!
//! The *random variation* is the median demerit between the measured times and resamples of themselves. Heavy
//! tails differ from sample to sample. Another sample of the same device is on average farther away than the
//! random variation, so a model with a lower demerit is nearer by chance only. The demerit and the random
//! variation are given over all times and up to the 99th percentile.
//!
//! The *change* is the demerit between the times measured in the fitted part and in the predicted part: the
//! demerit of a model that repeats the times of the fitted part. Only if the change is small do both parts
//! show the same device under the same workload.
//!
//! # Scope and limits
//! Distributions, not single requests: quantiles at 10,000 even shares, from buckets 0.1 % wide.
//!
//! # References
//! Demerit: [`demerit`]; resamples: B. Efron, Bootstrap methods, Annals of Statistics 7(1), 1979.

use rand_distr::Binomial;
use schemars::JsonSchema;
use seeklab_core::statistics::Distribution;
use seeklab_core::{Duration, Seed, Stream};
use serde::Serialize;

use crate::comparison::{Demerit, demerit};

/// Demerits of a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// Demerit over everything.
    pub demerit_all: Demerit,
    /// Demerit up to the 99th percentile of each.
    pub demerit_to_p99: Demerit,
    /// Median demerit of resamples of the measured times, over everything.
    pub resampled_demerit_all: Demerit,
    /// Median demerit of resamples of the measured times, up to the 99th percentile.
    pub resampled_demerit_to_p99: Demerit,
}

/// Difference between two parts of a trace. The second part is the reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// Demerit over everything.
    pub demerit_all: Demerit,
    /// Demerit up to the 99th percentile of each.
    pub demerit_to_p99: Demerit,
}

/// A change that counts as none, in percent, where twice the random variation is less.
pub const ALIKE_PCT: f64 = 2.0;

impl Change {
    /// Returns true if the change is within the range of like parts: up to the 99th percentile at most twice the
    /// random variation, or 2 % if that is more.
    pub fn is_small(&self, resampled_to_p99: &Demerit) -> bool {
        match (self.demerit_to_p99.ea_rms_pct, resampled_to_p99.ea_rms_pct) {
            (Some(change), Some(resampled)) => change <= ALIKE_PCT.max(2.0 * resampled),
            _ => self.demerit_to_p99.ea_rms_ms <= 2.0 * resampled_to_p99.ea_rms_ms,
        }
    }
}

/// Computes the difference between the times measured in the `fitted` part and the times `measured` in the
/// other part. `None` if either is empty.
pub fn change(measured: &Distribution, fitted: &Distribution) -> Option<Change> {
    let (demerit_all, demerit_to_p99) = both(&quantiles(&buckets(measured)), &quantiles(&buckets(fitted)))?;
    Some(Change { demerit_all, demerit_to_p99 })
}

/// Shares at which quantiles are compared.
const POINTS: usize = 10_000;

/// Quantiles up to the 99th percentile.
const TO_P99: usize = POINTS / 100 * 99;

/// Resamples of which the median counts.
pub(crate) const RESAMPLES: usize = 20;

/// Computes the demerits of `predicted` against `measured`. `None` if either is empty. Resamples are drawn
/// from `seed`.
pub fn prediction(measured: &Distribution, predicted: &Distribution, seed: Seed) -> Option<Prediction> {
    let reference = quantiles(&buckets(measured));
    let other = quantiles(&buckets(predicted));
    let (demerit_all, demerit_to_p99) = both(&reference, &other)?;
    let mut stream = seed.stream("resamples");
    let counts = buckets(measured);
    let variations: Option<Vec<_>> =
        (0..RESAMPLES).map(|_| both(&reference, &quantiles(&resampled(&counts, &mut stream)))).collect();
    let variations = variations?;
    let median = |chosen: fn(&(Demerit, Demerit)) -> Demerit| median(variations.iter().map(chosen).collect());
    Some(Prediction {
        demerit_all,
        demerit_to_p99,
        resampled_demerit_all: median(|pair| pair.0),
        resampled_demerit_to_p99: median(|pair| pair.1),
    })
}

/// The middle one of demerits; there is at least one.
pub(crate) fn median(mut demerits: Vec<Demerit>) -> Demerit {
    demerits.sort_by(|one, other| one.ea_rms_ms.total_cmp(&other.ea_rms_ms));
    demerits[demerits.len() / 2]
}

fn both(reference: &[Duration], other: &[Duration]) -> Option<(Demerit, Demerit)> {
    if reference.is_empty() || other.is_empty() {
        return None;
    }
    demerit(reference, other).zip(demerit(&reference[..TO_P99], &other[..TO_P99]))
}

fn buckets(distribution: &Distribution) -> Vec<(Duration, u64)> {
    distribution.buckets().collect()
}

/// Returns a resample of the same size, drawn from the buckets: a multinomial draw, bucket by bucket.
fn resampled(counts: &[(Duration, u64)], stream: &mut Stream) -> Vec<(Duration, u64)> {
    let mut left: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut to_draw = left;
    let mut drawn = Vec::with_capacity(counts.len());
    for (time, count) in counts {
        let share = (*count as f64 / left as f64).min(1.0);
        let here = stream.sample(&Binomial::new(to_draw, share).expect("a share is from 0 to 1"));
        drawn.push((*time, here));
        to_draw -= here;
        left -= count;
    }
    drawn.retain(|(_, count)| *count > 0);
    drawn
}

/// The times that even shares of the counts do not exceed; none of nothing.
fn quantiles(counts: &[(Duration, u64)]) -> Vec<Duration> {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut quantiles = Vec::with_capacity(POINTS);
    let mut until = 0;
    for (time, count) in counts {
        until += count;
        while quantiles.len() < POINTS
            && (2 * quantiles.len() as u128 + 1) * u128::from(total) < 2 * POINTS as u128 * u128::from(until)
        {
            quantiles.push(*time);
        }
    }
    if let Some((last, _)) = counts.last() {
        quantiles.resize(POINTS, *last);
    }
    quantiles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(mean_us: u64, count: usize, name: &str) -> Distribution {
        let (mut stream, mut distribution) = (Seed(5).stream(name), Distribution::default());
        for _ in 0..count {
            distribution.record(stream.exponential(Duration::from_us(mean_us)));
        }
        distribution
    }

    #[test]
    fn demerit_of_a_second_sample_is_near_the_random_variation() {
        let measured = exponential(1_000, 50_000, "one");
        let same = prediction(&measured, &exponential(1_000, 50_000, "other"), Seed(1)).unwrap();
        // Two samples differ by the square root of two more than a sample and its resamples, on average.
        assert!(same.demerit_all.ea_rms_ms < 4.0 * same.resampled_demerit_all.ea_rms_ms, "{same:?}");
        assert!(
            same.resampled_demerit_all.ea_rms_pct.unwrap() < 2.0
                && same.resampled_demerit_all.ea_rms_ms > 0.0,
            "{same:?}"
        );
        let slower = prediction(&measured, &exponential(1_200, 50_000, "other"), Seed(1)).unwrap();
        // Quantiles scale: the distance is 0.2 ms times the second moment's root, 1.414, of one exponential.
        assert!((slower.demerit_all.ea_rms_ms / 0.2828 - 1.0).abs() < 0.15, "{slower:?}");
        assert!(slower.demerit_to_p99.ea_rms_ms < slower.demerit_all.ea_rms_ms);
    }

    #[test]
    fn parts_are_alike_only_if_their_times_are() {
        let rest = exponential(1_000, 50_000, "rest");
        let resampled = prediction(&rest, &rest, Seed(1)).unwrap().resampled_demerit_to_p99;
        let alike = change(&rest, &exponential(1_000, 50_000, "first")).unwrap();
        assert!(alike.is_small(&resampled), "{alike:?}, resampled {resampled:?}");
        let slower = change(&rest, &exponential(1_100, 50_000, "first")).unwrap();
        assert!(!slower.is_small(&resampled), "{slower:?}, resampled {resampled:?}");
        assert_eq!(change(&rest, &Distribution::default()), None);
    }

    #[test]
    fn empty_distribution_gives_no_prediction() {
        let measured = exponential(1_000, 10, "one");
        assert_eq!(prediction(&measured, &Distribution::default(), Seed(1)), None);
        assert_eq!(prediction(&Distribution::default(), &measured, Seed(1)), None);
        let itself = prediction(&measured, &measured, Seed(1)).unwrap();
        assert_eq!(itself.demerit_all.ea_rms_ms, 0.0);
    }
}
