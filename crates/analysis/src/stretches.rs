//! Floor of a demerit for dependent response times: the demerit of resamples of whole stretches against the
//! whole.
//!
//! Requests that queue are slow together, so two samples of the same load differ by more than independent
//! draws do. Therefore whole stretches of the sequence are drawn, with equal probability, until the resample
//! has the original number of stretches.
//!
//! # Scope and limits
//! 32 to 64 stretches of equal numbers of requests, whatever the length. Dependence over more than a
//! thirtieth of the sequence is not captured. With few stretches the spread is rough, and with fewer than
//! sixteen there is no result.
//!
//! # References
//! E. Carlstein, The use of subseries values for estimating the variance of a general statistic from a
//! stationary sequence, Annals of Statistics 14(3), 1986.

use seeklab_core::statistics::Distribution;
use seeklab_core::{Duration, Seed};

use crate::prediction::{Change, RESAMPLES, change, median};

/// Stretches at most; when there are as many, neighbours become one.
const STRETCHES: usize = 64;

/// Minimum number of stretches for a result.
const STRETCHES_LEAST: usize = 16;

/// Requests of a stretch at first.
const SHORTEST: u64 = 64;

/// Distributions of stretches of a sequence; memory has a bound.
#[derive(Debug, Clone)]
pub struct Stretches {
    stretches: Vec<Distribution>,
    /// Requests of a whole stretch, and of the last.
    each: u64,
    last: u64,
}

impl Default for Stretches {
    fn default() -> Self {
        Self { stretches: vec![Distribution::default()], each: SHORTEST, last: 0 }
    }
}

impl Stretches {
    /// Takes the next response time in.
    pub fn record(&mut self, response: Duration) {
        if self.last == self.each {
            if self.stretches.len() == STRETCHES {
                self.stretches = self.stretches.chunks(2).map(merged).collect();
                self.each *= 2;
            }
            self.stretches.push(Distribution::default());
            self.last = 0;
        }
        self.stretches.last_mut().expect("there is always one").record(response);
        self.last += 1;
    }

    /// The median demerit between the whole and resamples of its stretches, drawn from `seed`; `None` of fewer than a
    /// thousand times or so, which make no sixteen stretches.
    pub fn floor(&self, seed: Seed) -> Option<Change> {
        if self.stretches.len() < STRETCHES_LEAST {
            return None;
        }
        let whole = merged(&self.stretches);
        let mut stream = seed.stream("stretches");
        let mut resample = || {
            let mut drawn = Distribution::default();
            for _ in 0..self.stretches.len() {
                drawn.merge(&self.stretches[stream.below(self.stretches.len() as u64) as usize]);
            }
            change(&whole, &drawn)
        };
        let resamples: Option<Vec<Change>> = (0..RESAMPLES).map(|_| resample()).collect();
        let resamples = resamples?;
        let of = |chosen: fn(&Change) -> _| median(resamples.iter().map(chosen).collect());
        Some(Change { demerit_all: of(|one| one.demerit_all), demerit_to_p99: of(|one| one.demerit_to_p99) })
    }
}

fn merged(stretches: &[Distribution]) -> Distribution {
    let mut whole = Distribution::default();
    stretches.iter().for_each(|stretch| whole.merge(stretch));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::prediction;

    /// Times of which each is like the one before by that share.
    fn stretches(count: usize, likeness: f64) -> (Stretches, Distribution) {
        let (mut stream, mut level) = (Seed(3).stream("times"), 0.0);
        let (mut stretches, mut whole) = (Stretches::default(), Distribution::default());
        for _ in 0..count {
            let fresh = stream.exponential(Duration::from_ms(1)).as_ms();
            level = likeness * level + (1.0 - likeness) * fresh;
            let response = Duration::from_ns_f64(1e6 * (0.1 + level));
            stretches.record(response);
            whole.record(response);
        }
        (stretches, whole)
    }

    #[test]
    fn floor_of_stretches_is_near_that_of_independent_times() {
        let (stretches, whole) = stretches(50_000, 0.0);
        let ours = stretches.floor(Seed(1)).unwrap().demerit_to_p99.ea_rms_ms;
        let independent = prediction(&whole, &whole, Seed(1)).unwrap().resampled_demerit_to_p99.ea_rms_ms;
        assert!((0.5..2.0).contains(&(ours / independent)), "{ours} ms, {independent} of single requests");
    }

    #[test]
    fn floor_is_higher_for_dependent_times() {
        let (stretches, whole) = stretches(50_000, 0.99);
        let ours = stretches.floor(Seed(1)).unwrap().demerit_to_p99.ea_rms_ms;
        let independent = prediction(&whole, &whole, Seed(1)).unwrap().resampled_demerit_to_p99.ea_rms_ms;
        // Two hundred neighbours are worth one independent time; the root of that is 14.
        assert!(ours > 4.0 * independent, "{ours} ms, {independent} of single requests");
    }

    #[test]
    fn memory_is_bounded() {
        let (all, whole) = stretches(100_000, 0.0);
        assert!((STRETCHES / 2..=STRETCHES).contains(&all.stretches.len()), "{}", all.stretches.len());
        assert_eq!(merged(&all.stretches).moments().count(), whole.moments().count());
        assert!(Stretches::default().floor(Seed(1)).is_none());
        assert!(stretches(15 * 64, 0.0).0.floor(Seed(1)).is_none(), "fifteen stretches say nothing");
        assert!(stretches(15 * 64 + 1, 0.0).0.floor(Seed(1)).is_some());
    }
}
