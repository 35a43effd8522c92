//! Blocks of the device that hold data of files, and no metadata.

use std::collections::BTreeSet;

/// Blocks of files, by the inodes that were accessed as files: directories have places, too.
#[derive(Debug, Default)]
pub(super) struct DataBlocks {
    files: BTreeSet<u64>,
    /// First block and the block behind the last. In order and apart if `is_sorted`.
    ranges: Vec<(u64, u64)>,
    is_sorted: bool,
}

impl DataBlocks {
    /// Takes note that an inode belongs to a file.
    pub(super) fn add_file(&mut self, inode: u64) {
        self.files.insert(inode);
    }

    /// Takes note of blocks of an inode. Comes after all files.
    pub(super) fn insert(&mut self, inode: u64, first: u64, blocks: u64) {
        if self.files.contains(&inode) {
            self.ranges.push((first, first + blocks));
            self.is_sorted = false;
        }
    }

    /// Returns true if the block holds data.
    pub(super) fn contains(&mut self, block: u64) -> bool {
        if !self.is_sorted {
            self.sort();
        }
        let after = self.ranges.partition_point(|(first, _)| *first <= block);
        self.ranges[..after].last().is_some_and(|(_, end)| block < *end)
    }

    fn sort(&mut self) {
        self.ranges.sort_unstable();
        self.ranges.dedup_by(|next, kept| {
            let joins = next.0 <= kept.1;
            if joins {
                kept.1 = kept.1.max(next.1);
            }
            joins
        });
        self.is_sorted = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_directories_are_no_data() {
        let mut data = DataBlocks::default();
        data.add_file(9);
        for (inode, first, blocks) in [(9, 50, 10), (9, 10, 5), (8, 30, 5), (9, 12, 8), (9, 55, 1)] {
            data.insert(inode, first, blocks);
        }
        let listed: Vec<u64> = (0..70).filter(|block| data.contains(*block)).collect();
        assert_eq!(listed, (10..20).chain(50..60).collect::<Vec<_>>());
        data.insert(9, 65, 1);
        assert!(data.contains(65) && !data.contains(66));
    }
}
