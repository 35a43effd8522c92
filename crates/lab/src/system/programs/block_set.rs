//! Sets of blocks.

use std::collections::BTreeMap;

/// Numbers of blocks, as parts that are apart: the first block and the block behind the last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BlockSet {
    parts: BTreeMap<u64, u64>,
}

impl BlockSet {
    /// Adds the blocks from `first` to `end`.
    pub(super) fn insert(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let (mut first, mut end) = (first, end);
        while let Some((start, stop)) =
            self.parts.range(..=end).next_back().map(|(start, stop)| (*start, *stop))
        {
            if stop < first {
                break;
            }
            self.parts.remove(&start);
            (first, end) = (first.min(start), end.max(stop));
        }
        self.parts.insert(first, end);
    }

    /// Adds a block. Returns true if the set did not have it.
    pub(super) fn add(&mut self, block: u64) -> bool {
        let is_new = !self.contains(block);
        if is_new {
            self.insert(block, block + 1);
        }
        is_new
    }

    /// Number of blocks from `block` on that follow each other in the set.
    pub(super) fn run(&self, block: u64) -> u64 {
        let part = self.parts.range(..=block).next_back();
        part.map_or(0, |(_, end)| end.saturating_sub(block))
    }

    /// Returns true if the set has the block.
    pub(super) fn contains(&self, block: u64) -> bool {
        self.run(block) > 0
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> u64 {
        self.parts.iter().map(|(first, end)| end - first).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_touch_join() {
        let mut set = BlockSet::default();
        for (first, end) in [(10, 20), (30, 40), (5, 5), (20, 25), (39, 50), (60, 61), (24, 31)] {
            set.insert(first, end);
        }
        assert_eq!(set.parts, BTreeMap::from([(10, 50), (60, 61)]));
        assert_eq!([9, 10, 49, 50, 60].map(|block| set.run(block)), [0, 40, 1, 0, 1]);
        assert_eq!((set.len(), set.contains(5)), (41, false));
        assert_eq!([50, 50, 49, 70].map(|block| set.add(block)), [true, false, false, true]);
        assert_eq!(set.len(), 43);
    }
}
