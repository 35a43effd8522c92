//! Extreme values of a sequence, kept in memory that has a bound.

/// The `K` greatest values.
#[derive(Debug, Clone)]
pub(super) struct Greatest<const K: usize> {
    /// Descending; those beyond the count mean nothing.
    values: [u64; K],
    count: u64,
}

impl<const K: usize> Default for Greatest<K> {
    fn default() -> Self {
        Self { values: [0; K], count: 0 }
    }
}

impl<const K: usize> Greatest<K> {
    pub(super) fn record(&mut self, value: u64) {
        let kept = self.kept();
        self.count += 1;
        if kept == K && value <= self.values[K - 1] {
            return;
        }
        let place = self.values[..kept].partition_point(|other| *other >= value);
        self.values[place..K.min(kept + 1)].rotate_right(1);
        self.values[place] = value;
    }

    /// Number of values so far.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    fn kept(&self) -> usize {
        self.count.min(K as u64) as usize
    }

    /// The value of that rank, 1 for the greatest. `None` if fewer are kept.
    pub(super) fn rank(&self, rank: usize) -> Option<u64> {
        self.values[..self.kept()].get(rank.checked_sub(1)?).copied()
    }

    /// The value that one in `one_in` values of the same distribution exceeds, extrapolated by an exponential tail if
    /// there are too few: a value, and what is added to it. Of more values than `K` times `one_in`, fewer exceed it.
    fn tail(&self, one_in: u64) -> (u64, u64) {
        /// Excesses of which the mean is taken, where a quarter of the values has as many.
        const EXCESSES: u64 = 16;
        let expected = self.count as f64 / one_in as f64;
        let least = EXCESSES.min(self.count / 4).max(1);
        let rank = (expected.ceil() as u64).clamp(least, K as u64) as usize;
        let Some(value) = self.rank(rank) else { return (0, 0) };
        if expected >= rank as f64 {
            return (value, 0);
        }
        let excesses = self.values[..rank - 1].iter().map(|other| (other - value) as f64);
        let mean = excesses.sum::<f64>() / (rank - 1).max(1) as f64;
        (value, (mean * (rank as f64 / expected).ln()).ceil() as u64)
    }

    /// The value that one in `one_in` values exceeds.
    pub(super) fn quantile(&self, one_in: u64) -> u64 {
        let (value, more) = self.tail(one_in);
        value.saturating_add(more)
    }
}

/// The `K` greatest and the `K` least values.
#[derive(Debug, Clone, Default)]
pub(super) struct Extremes<const K: usize> {
    greatest: Greatest<K>,
    /// The greatest of the complements.
    least: Greatest<K>,
}

impl<const K: usize> Extremes<K> {
    pub(super) fn record(&mut self, value: u64) {
        self.greatest.record(value);
        self.least.record(!value);
    }

    /// Number of values so far.
    pub(super) const fn count(&self) -> u64 {
        self.greatest.count()
    }

    /// The value of that rank from above.
    pub(super) fn greatest(&self, rank: usize) -> Option<u64> {
        self.greatest.rank(rank)
    }

    /// The value of that rank from below.
    pub(super) fn least(&self, rank: usize) -> Option<u64> {
        self.least.rank(rank).map(|complement| !complement)
    }

    /// The value that one in `one_in` values exceeds.
    pub(super) fn high_quantile(&self, one_in: u64) -> u64 {
        self.greatest.quantile(one_in)
    }

    /// The value that one in `one_in` values falls below.
    pub(super) fn low_quantile(&self, one_in: u64) -> u64 {
        let (complement, less) = self.least.tail(one_in);
        (!complement).saturating_sub(less)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seeklab_core::{Duration, Seed};

    use super::*;

    proptest! {
        #[test]
        fn extremes_are_those_of_the_sorted_values(values in prop::collection::vec(0_u64..50, 1..200)) {
            let mut extremes = Extremes::<8>::default();
            values.iter().for_each(|value| extremes.record(*value));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for rank in 1..=8 {
                prop_assert_eq!(extremes.least(rank), sorted.get(rank - 1).copied());
                let above = sorted.len().checked_sub(rank).map(|place| sorted[place]);
                prop_assert_eq!(extremes.greatest(rank), above);
            }
        }
    }

    #[test]
    fn quantile_of_an_exponential_tail_is_extrapolated() {
        // One in 1,000 exceeds 6.91 means, however many values there are.
        for (count, tolerance) in [(100_u64, 0.35), (400, 0.25), (4_000, 0.15), (40_000, 0.1)] {
            let found: Vec<f64> = (0..20)
                .map(|seed| {
                    let mut stream = Seed(seed).stream("values");
                    let mut extremes = Extremes::<64>::default();
                    for _ in 0..count {
                        extremes.record(stream.exponential(Duration::from_ms(1)).as_ns());
                    }
                    extremes.high_quantile(1_000) as f64 / 1e6
                })
                .collect();
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            assert!((mean / 6.91 - 1.0).abs() < tolerance, "{count}: {mean}");
        }
    }

    #[test]
    fn constant_values_have_no_margin() {
        let mut extremes = Extremes::<64>::default();
        (0..50).for_each(|_| extremes.record(24));
        assert_eq!((extremes.low_quantile(1_000), extremes.high_quantile(1_000)), (24, 24));
    }
}
