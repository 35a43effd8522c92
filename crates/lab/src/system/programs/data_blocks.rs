//! Blocks of the device that hold data of files, and no metadata.

use std::collections::BTreeSet;

use super::block_set::BlockSet;

/// Blocks of files, by the inodes that were accessed as files: directories have places, too.
#[derive(Debug, Default)]
pub(super) struct DataBlocks {
    files: BTreeSet<u64>,
    blocks: BlockSet,
}

impl DataBlocks {
    /// Takes note that an inode belongs to a file.
    pub(super) fn add_file(&mut self, inode: u64) {
        self.files.insert(inode);
    }

    /// Takes note of blocks of an inode. Comes after all files.
    pub(super) fn insert(&mut self, inode: u64, first: u64, blocks: u64) {
        if self.files.contains(&inode) {
            self.blocks.insert(first, first + blocks);
        }
    }

    /// Returns true if the block holds data.
    pub(super) fn contains(&self, block: u64) -> bool {
        self.blocks.contains(block)
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
    }
}
