//! A set of blocks as disjoint ranges in order.

/// A set of blocks, as ranges from a first block to before an end that neither touch nor overlap, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockSet(Vec<(u64, u64)>);

impl BlockSet {
    /// The ranges that begin and end in or at `start..end`, by index.
    fn touched(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        let first = self.0.partition_point(|(_, other)| *other < start);
        let after = self.0.partition_point(|(other, _)| *other <= end);
        first..after.max(first)
    }

    /// Adds the blocks from `start` to before `end`.
    pub fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let touched = self.touched(start, end);
        let (first, last) = (touched.start, touched.end);
        if first == last {
            return self.0.insert(first, (start, end));
        }
        let joined = (self.0[first].0.min(start), self.0[last - 1].1.max(end));
        self.0[first] = joined;
        self.0.drain(first + 1..last);
    }

    /// Takes the blocks from `start` to before `end` out.
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let touched = self.touched(start, end);
        let Some(&(first, _)) = self.0.get(touched.start).filter(|_| !touched.is_empty()) else { return };
        let (_, last) = self.0[touched.end - 1];
        let mut place = touched.start;
        self.0.drain(touched);
        for (start, end) in [(first, start), (end, last)] {
            if start < end {
                self.0.insert(place, (start, end));
                place += 1;
            }
        }
    }

    /// Returns true if there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges of the set within `start..end`, in order.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.0.partition_point(|(_, other)| *other <= start);
        let touching = self.0[first..].iter().take_while(move |(other, _)| *other < end);
        let ranges = touching.map(move |(from, to)| ((*from).max(start), (*to).min(end)));
        ranges.filter(|(from, to)| from < to)
    }

    /// The first block of the set from `start` to before `end`.
    pub fn first_within(&self, start: u64, end: u64) -> Option<u64> {
        let place = self.0.partition_point(|(_, other)| *other <= start);
        let block = self.0.get(place)?.0.max(start);
        (block < end).then_some(block)
    }

    /// The first block from `start` to before `end` that is not in the set.
    pub fn first_missing(&self, start: u64, end: u64) -> Option<u64> {
        let place = self.0.partition_point(|(_, other)| *other <= start);
        let block = match self.0.get(place) {
            Some((from, to)) if *from <= start => *to,
            _ => start,
        };
        (block < end).then_some(block)
    }

    /// Becomes as `other`; allocates only where that holds more than this ever did.
    pub fn copy_from(&mut self, other: &Self) {
        self.0.clear();
        self.0.reserve(other.0.capacity());
        self.0.extend_from_slice(&other.0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn set_holds_what_was_inserted_and_not_removed(
            steps in prop::collection::vec((any::<bool>(), 0_u64..60, 0_u64..20), 1..60)
        ) {
            let mut blocks = BlockSet::default();
            let mut expected = [false; 80];
            for (inserts, start, length) in steps {
                let end = start + length;
                if inserts { blocks.insert(start, end) } else { blocks.remove(start, end) }
                expected[start as usize..end as usize].fill(inserts);
                for start in 0..80_u64 {
                    let first = |wanted: bool| (start..80).find(|block| expected[*block as usize] == wanted);
                    prop_assert_eq!(blocks.first_within(start, 80), first(true));
                    prop_assert_eq!(blocks.first_missing(start, 80), first(false));
                    let mut within = [false; 80];
                    for (from, to) in blocks.within(start, 70) {
                        within[from as usize..to as usize].fill(true);
                    }
                    let inside = |block: usize| block as u64 >= start && block < 70 && expected[block];
                    prop_assert!((0..80).all(|block| within[block] == inside(block)));
                }
                prop_assert!(blocks.0.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }
}
