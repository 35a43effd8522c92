//! Blocks of the device that hold data of files, and no metadata.

use std::collections::{BTreeMap, BTreeSet};

use super::block_set::BlockSet;

/// Blocks of files, by the inodes that were accessed as files: directories have places, too.
#[derive(Debug, Default)]
pub(super) struct DataBlocks {
    files: BTreeSet<u64>,
    blocks: BlockSet,
    /// For each directory, true if it has one block.
    directories: BTreeMap<u64, bool>,
}

impl DataBlocks {
    /// Takes note that an inode belongs to a file.
    pub(super) fn add_file(&mut self, inode: u64) {
        self.files.insert(inode);
    }

    /// Takes note of blocks of an inode: `blocks` at `first` on the device, from `file_block` on. Comes after all files.
    pub(super) fn insert(&mut self, inode: u64, file_block: u64, first: u64, blocks: u64) {
        if self.files.contains(&inode) {
            self.blocks.insert(first, first + blocks);
        } else {
            *self.directories.entry(inode).or_insert(true) &= file_block + blocks == 1;
        }
    }

    /// Returns true if the inode is a directory of one block: names are looked up in it one after the other, and not by an index.
    pub(super) fn is_small_directory(&self, inode: u64) -> bool {
        self.directories.get(&inode) == Some(&true)
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
            data.insert(inode, 0, first, blocks);
        }
        for (inode, file_block) in [(6, 0), (7, 0), (7, 1), (6, 0)] {
            data.insert(inode, file_block, 40 + file_block, 1);
        }
        assert_eq!([6, 7, 8, 9].map(|inode| data.is_small_directory(inode)), [true, false, false, false]);
        let listed: Vec<u64> = (0..70).filter(|block| data.contains(*block)).collect();
        assert_eq!(listed, (10..20).chain(50..60).collect::<Vec<_>>());
    }
}
