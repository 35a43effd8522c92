//! Variation between parts of a sequence of dependent response times: the demerit of resamples of whole parts
//! against the whole.
//!
//! Requests that queue are slow together, so two samples of the same load differ by more than independent
//! draws do. Therefore whole parts of the sequence are drawn, with equal probability, until the resample has
//! the original number of parts.
//!
//! # Scope and limits
//! 32 to 64 parts of equal numbers of requests, whatever the length. Dependence over more than a thirtieth of
//! the sequence is not captured. With few parts the spread is rough, and with fewer than sixteen there is no
//! result.
//!
//! # References
//! E. Carlstein, The use of subseries values for estimating the variance of a general statistic from a
//! stationary sequence, Annals of Statistics 14(3), 1986.

use seeklab_core::statistics::Distribution;
use seeklab_core::{Duration, Seed};

use crate::prediction::{Change, RESAMPLES, change, median};

/// Maximum number of parts; when it is reached, neighbours are merged.
const PARTS: usize = 64;

/// Minimum number of parts for a result.
const PARTS_LEAST: usize = 16;

/// Requests of a part at first.
const SHORTEST: u64 = 64;

/// Distributions of parts of a sequence; memory has a bound. Parts that are over are compact.
#[derive(Debug, Clone)]
pub struct PartTimes {
    parts: Vec<Distribution>,
    /// Requests of a whole part, and of the last.
    each: u64,
    last: u64,
}

impl Default for PartTimes {
    fn default() -> Self {
        Self { parts: vec![Distribution::default()], each: SHORTEST, last: 0 }
    }
}

impl PartTimes {
    /// Takes the next response time in.
    pub fn record(&mut self, response: Duration) {
        if self.last == self.each {
            self.parts.last_mut().expect("there is always one").compact();
            if self.parts.len() == PARTS {
                self.parts = self.parts.chunks(2).map(compacted).collect();
                self.each *= 2;
            }
            self.parts.push(Distribution::default());
            self.last = 0;
        }
        self.parts.last_mut().expect("there is always one").record(response);
        self.last += 1;
    }

    /// The median demerit between the whole and resamples of its parts, drawn from `seed`; `None` of fewer than a
    /// thousand times or so, which make no sixteen parts.
    pub fn variation(&self, seed: Seed) -> Option<Change> {
        if self.parts.len() < PARTS_LEAST {
            return None;
        }
        let whole = merged(&self.parts);
        let mut stream = seed.stream("stretches");
        let mut resample = || {
            let mut drawn = Distribution::default();
            for _ in 0..self.parts.len() {
                drawn.merge(&self.parts[stream.below(self.parts.len() as u64) as usize]);
            }
            change(&whole, &drawn)
        };
        let resamples: Option<Vec<Change>> = (0..RESAMPLES).map(|_| resample()).collect();
        let resamples = resamples?;
        let of = |chosen: fn(&Change) -> _| median(resamples.iter().map(chosen).collect());
        Some(Change { demerit_all: of(|one| one.demerit_all), demerit_to_p99: of(|one| one.demerit_to_p99) })
    }
}

fn compacted(parts: &[Distribution]) -> Distribution {
    let mut whole = merged(parts);
    whole.compact();
    whole
}

fn merged(parts: &[Distribution]) -> Distribution {
    let mut whole = Distribution::default();
    parts.iter().for_each(|part| whole.merge(part));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::prediction;

    /// Times of which each is like the one before by that share.
    fn parts(count: usize, likeness: f64) -> (PartTimes, Distribution) {
        let (mut stream, mut level) = (Seed(3).stream("times"), 0.0);
        let (mut parts, mut whole) = (PartTimes::default(), Distribution::default());
        for _ in 0..count {
            let fresh = stream.exponential(Duration::from_ms(1)).as_ms();
            level = likeness * level + (1.0 - likeness) * fresh;
            let response = Duration::from_ns_f64(1e6 * (0.1 + level));
            parts.record(response);
            whole.record(response);
        }
        (parts, whole)
    }

    #[test]
    fn variation_between_parts_is_near_that_of_independent_times() {
        let (parts, whole) = parts(50_000, 0.0);
        let ours = parts.variation(Seed(1)).unwrap().demerit_to_p99.ea_rms_ms;
        let independent = prediction(&whole, &whole, Seed(1)).unwrap().resampled_demerit_to_p99.ea_rms_ms;
        assert!((0.5..2.0).contains(&(ours / independent)), "{ours} ms, {independent} of single requests");
    }

    #[test]
    fn variation_is_higher_for_dependent_times() {
        let (parts, whole) = parts(50_000, 0.99);
        let ours = parts.variation(Seed(1)).unwrap().demerit_to_p99.ea_rms_ms;
        let independent = prediction(&whole, &whole, Seed(1)).unwrap().resampled_demerit_to_p99.ea_rms_ms;
        // Two hundred neighbours are worth one independent time; the root of that is 14.
        assert!(ours > 4.0 * independent, "{ours} ms, {independent} of single requests");
    }

    #[test]
    fn memory_is_bounded() {
        let (all, whole) = parts(100_000, 0.0);
        assert!((PARTS / 2..=PARTS).contains(&all.parts.len()), "{}", all.parts.len());
        assert_eq!(merged(&all.parts).moments().count(), whole.moments().count());
        assert!(PartTimes::default().variation(Seed(1)).is_none());
        assert!(parts(15 * 64, 0.0).0.variation(Seed(1)).is_none(), "fifteen parts are too few");
        assert!(parts(15 * 64 + 1, 0.0).0.variation(Seed(1)).is_some());
    }
}
