//! Completed writes that are not on the media: they are read, and lost with the power.

use std::collections::BTreeMap;

use seeklab_core::BlockSet;

use super::Contents;
use crate::store::{Store, StoreError};

/// Completed writes of which blocks are not on the media.
pub(super) struct Unsettled {
    block_bytes: u64,
    /// By rank of arrival.
    writes: BTreeMap<u64, Write>,
    /// Of each unsettled block, the write that completed last: first block, block behind, rank of arrival.
    newest: BTreeMap<u64, (u64, u64)>,
    completed_count: u64,
}

struct Write {
    /// First block that it is written to.
    place: u64,
    contents: Contents,
    /// Blocks that may still get to the media.
    left: BlockSet,
    /// Rank of completion.
    completed: u64,
}

impl Unsettled {
    pub(super) const fn new(block_bytes: u64) -> Self {
        Self { block_bytes, writes: BTreeMap::new(), newest: BTreeMap::new(), completed_count: 0 }
    }

    /// The write of that rank has completed: it gives the blocks from `place` to before `end` contents.
    pub(super) fn insert(&mut self, number: u64, (place, end): (u64, u64), contents: Contents) {
        let mut left = BlockSet::default();
        left.insert(place, end);
        self.writes.insert(number, Write { place, contents, left, completed: self.completed_count });
        self.completed_count += 1;
        self.take_out(place, end, |_| true);
        self.newest.insert(place, (end, number));
    }

    /// Takes the blocks from `start` to before `end` out of those that are newest, as far as they belong to such a write.
    fn take_out(&mut self, start: u64, end: u64, belongs: impl Fn(u64) -> bool) {
        let before = self.newest.range(..=start).next_back().map(|(from, _)| *from);
        let touching: Vec<u64> =
            self.newest.range(before.unwrap_or(start)..end).map(|(from, _)| *from).collect();
        for from in touching {
            let (to, number) = self.newest[&from];
            if to <= start || !belongs(number) {
                continue;
            }
            self.newest.remove(&from);
            if from < start {
                self.newest.insert(from, (start, number));
            }
            if end < to {
                self.newest.insert(end, (to, number));
            }
        }
    }

    /// Blocks of a write are on the media.
    pub(super) fn settle(
        &mut self,
        store: &Store,
        number: u64,
        lbn: u64,
        blocks: u32,
    ) -> Result<(), StoreError> {
        let end = lbn + u64::from(blocks);
        let Some(write) = self.writes.get(&number) else { return Ok(()) };
        let completed = write.completed;
        let from = (lbn - write.place) * self.block_bytes;
        write.contents.put(store, lbn * self.block_bytes, from, u64::from(blocks) * self.block_bytes)?;
        self.take_out(lbn, end, |owner| owner == number);
        // Nothing older gets there any more.
        self.writes.retain(|_, write| {
            if write.completed <= completed {
                write.left.remove(lbn, end);
            }
            !write.left.is_empty()
        });
        Ok(())
    }

    /// Puts what is newest into the store.
    pub(super) fn settle_all(&mut self, store: &Store) -> Result<(), StoreError> {
        for (from, (to, number)) in std::mem::take(&mut self.newest) {
            let write = &self.writes[&number];
            let (offset, length) = (from * self.block_bytes, (to - from) * self.block_bytes);
            write.contents.put(store, offset, (from - write.place) * self.block_bytes, length)?;
        }
        self.writes.clear();
        Ok(())
    }

    /// The power is lost.
    pub(super) fn lose(&mut self) {
        self.writes.clear();
        self.newest.clear();
    }

    /// Puts what is newest over `buffer`, which holds bytes from `offset` on.
    pub(super) fn lay_over(&self, offset: u64, buffer: &mut [u8]) {
        let (start, end) = (offset / self.block_bytes, (offset + buffer.len() as u64) / self.block_bytes);
        let before = self.newest.range(..=start).next_back().map(|(from, _)| *from);
        for (from, (to, number)) in self.newest.range(before.unwrap_or(start)..end) {
            let (from, to) = ((*from).max(start), (*to).min(end));
            if from >= to {
                continue;
            }
            let write = &self.writes[number];
            let at = ((from - start) * self.block_bytes) as usize;
            let length = ((to - from) * self.block_bytes) as usize;
            write.contents.fill((from - write.place) * self.block_bytes, &mut buffer[at..at + length]);
        }
    }
}
