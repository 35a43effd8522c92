//! Blocks of the device that hold data of files, and no metadata.

use std::collections::{BTreeMap, BTreeSet};

use super::extents::ExtentMap;

/// Bits of the number of a block within a file.
const BLOCK_BITS: u32 = 32;

/// Blocks of files, by the inodes that were accessed as files: directories have places, too.
#[derive(Debug, Default)]
pub(super) struct DataBlocks {
    files: BTreeSet<u64>,
    /// For each block, the number of its file above that of the block within the file.
    blocks: ExtentMap,
    /// For each directory, true if it has one block.
    directories: BTreeMap<u64, bool>,
}

impl DataBlocks {
    /// Takes note that an inode belongs to a file.
    pub(super) fn add_file(&mut self, inode: u64) {
        self.files.insert(inode);
    }

    /// Takes note of blocks of an inode, which has the number `file`: `blocks` at `first` on the device, from `file_block` on, which end
    /// within 16 TiB. Comes after all files.
    pub(super) fn insert(&mut self, inode: u64, file: u32, file_block: u64, first: u64, blocks: u64) {
        if self.files.contains(&inode) {
            self.blocks.insert(first, u64::from(file) << BLOCK_BITS | file_block, blocks, 0);
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
        self.blocks.place(block).is_some()
    }

    /// The last file that held a block, and the number of the block within the file.
    pub(super) fn owner(&self, block: u64) -> Option<(u32, u32)> {
        let (place, _) = self.blocks.place(block)?;
        Some(((place >> BLOCK_BITS) as u32, place as u32))
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
            data.insert(inode, 3, 7, first, blocks);
        }
        for (inode, file_block) in [(6, 0), (7, 0), (7, 1), (6, 0)] {
            data.insert(inode, 0, file_block, 40 + file_block, 1);
        }
        assert_eq!([6, 7, 8, 9].map(|inode| data.is_small_directory(inode)), [true, false, false, false]);
        let listed: Vec<u64> = (0..70).filter(|block| data.contains(*block)).collect();
        assert_eq!(listed, (10..20).chain(50..60).collect::<Vec<_>>());
        // A later file may have a block of an earlier one.
        data.insert(9, 4, 0, 54, 2);
        let owners = [9, 10, 53, 54, 55, 56].map(|block| data.owner(block));
        assert_eq!(owners, [None, Some((3, 7)), Some((3, 10)), Some((4, 0)), Some((4, 1)), Some((3, 13))]);
    }
}
