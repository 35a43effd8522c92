//! The frame of each block: a table that grows with the blocks that are in memory.

use super::list::NONE;

/// Blocks in a leaf of the index.
const LEAF_PAGES: u64 = 1024;

/// The frame of each block: a table of leaves, of which those in use exist.
#[derive(Debug, Clone, Default)]
pub(crate) struct PageIndex {
    leaves: Vec<Option<Box<[u32]>>>,
}

impl PageIndex {
    pub(crate) const fn new() -> Self {
        Self { leaves: Vec::new() }
    }

    /// The frame of a block.
    pub(crate) fn get(&self, page: u64) -> Option<u32> {
        let leaf = self.leaves.get((page / LEAF_PAGES) as usize)?.as_ref()?;
        Some(leaf[(page % LEAF_PAGES) as usize]).filter(|frame| *frame != NONE)
    }

    pub(crate) fn insert(&mut self, page: u64, frame: u32) {
        let leaf = (page / LEAF_PAGES) as usize;
        if leaf >= self.leaves.len() {
            self.leaves.resize(leaf + 1, None);
        }
        let leaf =
            self.leaves[leaf].get_or_insert_with(|| vec![NONE; LEAF_PAGES as usize].into_boxed_slice());
        leaf[(page % LEAF_PAGES) as usize] = frame;
    }

    pub(crate) fn remove(&mut self, page: u64) {
        if let Some(Some(leaf)) = self.leaves.get_mut((page / LEAF_PAGES) as usize) {
            leaf[(page % LEAF_PAGES) as usize] = NONE;
        }
    }
}
