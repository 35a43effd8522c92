//! Counts of whole numbers in logarithmic buckets.
//!
//! ```text
//! BITS = 2:   0 1 2 3 │ 4 5 6 7 │ 8.. 10.. 12.. 14.. │ 16.. 20.. 24.. 28.. │ 32..
//!             width 1   width 1   width 2              width 4               width 8
//! ```
//! A doubling has `2^BITS` buckets of equal width, so a bucket is at most `2^-BITS` of its least value wide.
//! Values below `2^(BITS + 1)` are exact. Every other logarithmic histogram of seeklab is this one with other `BITS`.

use std::ops::Range;

/// Counts of whole numbers, `2^BITS` buckets for each doubling.
///
/// Memory spans the buckets from the least value to the greatest, or after [`compact`](Self::compact) those that hold a value.
#[derive(Debug, Clone, Default)]
pub struct LogHistogram<const BITS: u32> {
    /// The bucket of the first count.
    first: usize,
    counts: Vec<u64>,
    /// Buckets and counts of a compacted histogram, ascending; then `counts` is empty. A count beyond 32 bits has several entries.
    compacted: Box<[(u32, u32)]>,
}

impl<const BITS: u32> LogHistogram<BITS> {
    /// The number of buckets that hold all values of 64 bits.
    pub const BUCKETS: usize = Self::bucket(u64::MAX) + 1;

    /// Returns the bucket of a value.
    pub const fn bucket(value: u64) -> usize {
        if value < 1 << BITS {
            return value as usize;
        }
        let octave = value.ilog2() - BITS;
        let within = (value >> octave) - (1 << BITS);
        ((octave as usize + 1) << BITS) + within as usize
    }

    /// Returns the least value of a bucket.
    pub const fn least(bucket: usize) -> u64 {
        let (octave, within) = (bucket >> BITS, (bucket & ((1 << BITS) - 1)) as u64);
        if octave == 0 { within } else { ((1 << BITS) + within) << (octave - 1) }
    }

    /// Returns the number of values in a bucket.
    pub const fn width(bucket: usize) -> u64 {
        1 << (bucket >> BITS).saturating_sub(1)
    }

    /// Returns the greatest value of a bucket.
    pub const fn greatest(bucket: usize) -> u64 {
        Self::least(bucket) + (Self::width(bucket) - 1)
    }

    /// Returns the values of a bucket; those of the last end before 2^64 - 1.
    pub const fn values(bucket: usize) -> Range<u64> {
        Self::least(bucket)..Self::greatest(bucket).saturating_add(1)
    }

    /// Counts a value once.
    #[inline]
    pub fn record(&mut self, value: u64) {
        // A bucket below the first one gets a place behind all counts.
        match self.counts.get_mut(Self::bucket(value).wrapping_sub(self.first)) {
            Some(count) => *count = count.saturating_add(1),
            None => self.record_many(value, 1),
        }
    }

    /// Counts a value `count` times.
    pub fn record_many(&mut self, value: u64, count: u64) {
        let place = self.place(Self::bucket(value));
        self.counts[place] = self.counts[place].saturating_add(count);
    }

    /// Counts all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.is_empty() && self.compacted.is_empty() {
            // It stays as compact as the other one.
            self.clone_from(other);
            return;
        }
        for (bucket, count) in other.occupied() {
            let place = self.place(bucket);
            self.counts[place] = self.counts[place].saturating_add(count);
        }
    }

    /// Keeps only the buckets that hold a value, if that takes less memory. The next value that is counted undoes it.
    pub fn compact(&mut self) {
        let entries = |count: u64| count.div_ceil(u32::MAX.into()) as usize;
        let needed: usize = self.occupied().map(|(_, count)| entries(count)).sum();
        if self.counts.is_empty() || needed > self.counts.len() / 2 {
            self.counts.shrink_to_fit();
            return;
        }
        let mut compacted = Vec::with_capacity(needed);
        for (bucket, mut count) in self.occupied() {
            while count > 0 {
                let part = u32::try_from(count).unwrap_or(u32::MAX);
                compacted.push((bucket as u32, part));
                count -= u64::from(part);
            }
        }
        *self = Self { first: 0, counts: Vec::new(), compacted: compacted.into() };
    }

    /// Undoes [`compact`](Self::compact).
    #[cold]
    fn expand(&mut self) {
        let compacted = std::mem::take(&mut self.compacted);
        let (Some((first, _)), Some((last, _))) = (compacted.first(), compacted.last()) else { return };
        self.first = *first as usize;
        self.counts = vec![0; (last - first) as usize + 1];
        for (bucket, count) in &compacted {
            self.counts[(bucket - first) as usize] += u64::from(*count);
        }
    }

    /// Makes room for a bucket and returns its place in the counts.
    fn place(&mut self, bucket: usize) -> usize {
        if !self.compacted.is_empty() {
            self.expand();
        }
        if self.counts.is_empty() {
            self.first = bucket;
        } else if bucket < self.first {
            // At least as many buckets more as there are, so that descending values move the counts seldom.
            let first = bucket.min(self.first.saturating_sub(self.counts.len()));
            self.counts.splice(0..0, std::iter::repeat_n(0, self.first - first));
            self.first = first;
        }
        let place = bucket - self.first;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        place
    }

    /// Returns the number of values counted.
    pub fn count(&self) -> u64 {
        let compacted = self.compacted.iter().map(|(_, count)| u64::from(*count));
        self.counts.iter().copied().chain(compacted).sum()
    }

    /// Returns the number of values counted in a bucket.
    pub fn count_in(&self, bucket: usize) -> u64 {
        if !self.compacted.is_empty() {
            let from = self.compacted.partition_point(|(other, _)| (*other as usize) < bucket);
            let entries = self.compacted[from..].iter().take_while(|(other, _)| *other as usize == bucket);
            return entries.map(|(_, count)| u64::from(*count)).sum();
        }
        let place = bucket.checked_sub(self.first);
        place.and_then(|place| self.counts.get(place)).copied().unwrap_or(0)
    }

    /// Returns each bucket that holds a value, ascending, with its count.
    pub fn occupied(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + '_ {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let counts = counts.map(|(place, count)| (self.first + place, *count));
        self.compacted().chain(counts)
    }

    /// Each bucket of a compacted histogram with its count.
    fn compacted(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + '_ {
        let chunks = self.compacted.chunk_by(|(one, _), (next, _)| one == next);
        chunks.map(|entries| {
            let count = entries.iter().map(|(_, count)| u64::from(*count)).sum();
            (entries[0].0 as usize, count)
        })
    }

    /// Returns the bucket of the value at `quantile` in `[0, 1]`: the least one that with those below holds that
    /// share of all values, and at least one. `None` if nothing was counted.
    pub fn bucket_at(&self, quantile: f64) -> Option<usize> {
        let rank = (quantile.min(1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut counted = 0;
        self.occupied().find_map(|(bucket, count)| {
            counted += count;
            (counted >= rank).then_some(bucket)
        })
    }
}

impl<const BITS: u32> PartialEq for LogHistogram<BITS> {
    fn eq(&self, other: &Self) -> bool {
        self.occupied().eq(other.occupied())
    }
}

impl<const BITS: u32> Eq for LogHistogram<BITS> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const BITS: u32>() {
        let around = (0..64).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power - 1, power, power + 1, power + power / 3, power + (power - 1)]
        });
        for value in around.chain(0..5_000).chain([u64::MAX - 1, u64::MAX]) {
            let bucket = LogHistogram::<BITS>::bucket(value);
            let (least, width) = (LogHistogram::<BITS>::least(bucket), LogHistogram::<BITS>::width(bucket));
            assert!(least <= value && value - least < width, "{BITS} bits: {value} in {least} + {width}");
            assert!(width == 1 || width <= least >> BITS, "{BITS} bits: {least} + {width}");
            assert_eq!(LogHistogram::<BITS>::greatest(bucket), least + (width - 1));
            assert!(bucket < LogHistogram::<BITS>::BUCKETS);
            if bucket + 1 < LogHistogram::<BITS>::BUCKETS {
                assert_eq!(
                    LogHistogram::<BITS>::values(bucket),
                    least..LogHistogram::<BITS>::least(bucket + 1)
                );
            }
        }
        assert_eq!(LogHistogram::<BITS>::greatest(LogHistogram::<BITS>::BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn buckets_are_contiguous_and_as_narrow_as_promised() {
        check::<0>();
        check::<2>();
        check::<6>();
        check::<10>();
        assert_eq!([0, 1, 2, 3, 4, 7].map(LogHistogram::<0>::bucket), [0, 1, 2, 2, 3, 3]);
        assert_eq!([7, 8, 9, 10, 15, 16].map(LogHistogram::<2>::bucket), [7, 8, 8, 9, 11, 12]);
    }

    #[test]
    fn compacted_histogram_holds_the_same_counts_and_takes_more() {
        let mut dense = LogHistogram::<10>::default();
        for (value, count) in [(500_000, 3), (7, u64::from(u32::MAX) * 2 + 5), (90_000_000, 1)] {
            dense.record_many(value, count);
        }
        let mut compact = dense.clone();
        compact.compact();
        assert_eq!((compact.counts.capacity(), compact.compacted.len()), (0, 5));
        assert_eq!(compact, dense);
        assert_eq!(compact.count(), dense.count());
        for value in [7, 8, 500_000, 90_000_000] {
            let bucket = LogHistogram::<10>::bucket(value);
            assert_eq!(compact.count_in(bucket), dense.count_in(bucket), "{value}");
        }
        assert_eq!(compact.bucket_at(1.0), dense.bucket_at(1.0));
        assert!(compact.occupied().rev().eq(dense.occupied().rev()));
        let mut merged = LogHistogram::<10>::default();
        merged.merge(&compact);
        assert_eq!(merged, dense);
        assert_eq!(merged.counts.capacity(), 0, "of nothing before, it is as compact");
        merged.merge(&compact);
        assert_eq!(merged.count(), 2 * dense.count());
        compact.record(7);
        dense.record(7);
        assert_eq!(compact, dense);
        assert!(compact.compacted.is_empty());
    }

    #[test]
    fn full_histogram_stays_as_it_is() {
        let mut full = LogHistogram::<10>::default();
        (0..100).for_each(|value| full.record(value));
        full.compact();
        assert_eq!((full.counts.len(), full.compacted.len()), (100, 0));
    }

    #[test]
    fn counts_do_not_depend_on_the_order_of_values() {
        let values = [500, 3, 70_000, 3, 0, 1 << 40, 499];
        let of = |values: &[u64]| {
            let mut histogram = LogHistogram::<3>::default();
            values.iter().for_each(|value| histogram.record(*value));
            histogram
        };
        let (mut ascending, mut descending) = (values, values);
        ascending.sort_unstable();
        descending.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(of(&ascending), of(&descending));
        let mut merged = of(&values[..3]);
        merged.merge(&of(&values[3..]));
        assert_eq!(merged, of(&values));
        assert_eq!((merged.count(), merged.occupied().count()), (7, 5));
        assert_eq!([0, 1, 3, 1_000].map(|bucket| merged.count_in(bucket)), [1, 0, 2, 0]);
        assert_ne!(merged, of(&values[1..]));
    }

    #[test]
    fn quantile_takes_the_first_bucket_that_reaches_the_share() {
        let mut histogram = LogHistogram::<4>::default();
        assert_eq!(histogram.bucket_at(0.5), None);
        [1, 2, 3, 4].iter().for_each(|value| histogram.record(*value));
        for (quantile, bucket) in [(0.0, 1), (0.25, 1), (0.2501, 2), (0.5, 2), (0.75, 3), (1.0, 4), (2.0, 4)]
        {
            assert_eq!(histogram.bucket_at(quantile), Some(bucket), "{quantile}");
        }
    }
}
