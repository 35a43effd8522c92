//! Contents that are kept beside the store, for some of its blocks.

use seeklab_core::{BlockSet, ByteSize};

use crate::store::{Store, StoreError};

/// Contents of some blocks.
pub(super) struct Kept {
    block_bytes: u64,
    blocks: BlockSet,
    contents: Store,
}

impl Kept {
    /// Nothing, of a device of that size.
    ///
    /// # Errors
    /// No memory for its tables.
    pub(super) fn new(size: ByteSize, block_bytes: u64) -> Result<Self, StoreError> {
        Ok(Self { block_bytes, blocks: BlockSet::default(), contents: Store::in_ram(size, None)? })
    }

    /// Keeps `bytes` as the contents of the blocks from `lbn` on.
    pub(super) fn keep(&mut self, lbn: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.contents.write(lbn * self.block_bytes, bytes)?;
        self.blocks.insert(lbn, lbn + bytes.len() as u64 / self.block_bytes);
        Ok(())
    }

    /// As [`keep`](Self::keep), of the blocks whose contents are not kept already.
    pub(super) fn keep_first(&mut self, lbn: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let end = lbn + bytes.len() as u64 / self.block_bytes;
        let mut at = lbn;
        while let Some(start) = self.blocks.first_missing(at, end) {
            let stop = self.blocks.first_within(start, end).unwrap_or(end);
            let part =
                ((start - lbn) * self.block_bytes) as usize..((stop - lbn) * self.block_bytes) as usize;
            self.keep(start, &bytes[part])?;
            at = stop;
        }
        Ok(())
    }

    /// Forgets the blocks from `start` to before `end`.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        self.blocks.remove(start, end);
    }

    /// Puts what is kept over `buffer`, which holds bytes from `offset` on.
    pub(super) fn lay_over(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        let (start, end) = (offset / self.block_bytes, (offset + buffer.len() as u64) / self.block_bytes);
        self.blocks.within(start, end).try_for_each(|(from, to)| {
            let at = (from * self.block_bytes - offset) as usize;
            let length = ((to - from) * self.block_bytes) as usize;
            self.contents.read(from * self.block_bytes, &mut buffer[at..at + length])
        })
    }

    /// Puts what is kept into `store`.
    pub(super) fn copy_to(&self, store: &Store) -> Result<(), StoreError> {
        const PIECE_BLOCKS: u64 = 256;
        let mut buffer = Vec::new();
        for (mut from, to) in self.blocks.within(0, u64::MAX) {
            while from < to {
                let blocks = (to - from).min(PIECE_BLOCKS);
                buffer.resize((blocks * self.block_bytes) as usize, 0);
                self.contents.read(from * self.block_bytes, &mut buffer)?;
                store.write(from * self.block_bytes, &buffer)?;
                from += blocks;
            }
        }
        Ok(())
    }
}
