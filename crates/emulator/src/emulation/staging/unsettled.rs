//! Completed writes that are not on the media: they are read, and lost with the power.
//!
//! Blocks that the device has on its media and the store refused stay here, as in the buffer of a drive that cannot write
//! them. [`Unsettled::retry`] tries them again.

use std::collections::BTreeMap;

use seeklab_core::BlockSet;

use super::Contents;
use super::former::Former;
use crate::store::{Store, StoreError};

/// Completed writes of which blocks are not on the media.
pub(super) struct Unsettled {
    block_bytes: u64,
    /// By rank of arrival.
    writes: BTreeMap<u64, Write>,
    /// Of each unsettled block, the write that completed last: first block, block behind, rank of arrival.
    newest: BTreeMap<u64, (u64, u64)>,
    /// Ranges that the store refused, in order of the media: rank of arrival of their write, first block, block behind.
    refused: Vec<(u64, u64, u64)>,
    /// Contents of units of the media before their last blocks changed, in case a loss of power undoes that.
    former: Former,
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
    /// Nothing, of a device whose media write units of `unit_blocks`, which a loss of power may undo; 1 if it undoes none.
    pub(super) const fn new(block_bytes: u64, unit_blocks: u64) -> Self {
        Self {
            block_bytes,
            writes: BTreeMap::new(),
            newest: BTreeMap::new(),
            refused: Vec::new(),
            former: Former::new(block_bytes, unit_blocks),
            completed_count: 0,
        }
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
    ///
    /// # Errors
    /// A refusal of the store. The blocks stay here.
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
        let former = self.former.read(store, lbn, end);
        let put =
            write.contents.put(store, lbn * self.block_bytes, from, u64::from(blocks) * self.block_bytes);
        if let Err(error) = put {
            self.refused.push((number, lbn, end));
            return Err(error);
        }
        self.former.keep(number, (lbn, end), former);
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

    /// The power was lost within a unit: blocks of a write that were on the media hold again what they held before.
    ///
    /// # Errors
    /// A refusal of the store.
    pub(super) fn undo(&self, store: &Store, number: u64, start: u64, end: u64) -> Result<(), StoreError> {
        self.former.put_back(store, number, (start, end))
    }

    /// Puts the blocks into the store that it refused before.
    ///
    /// # Errors
    /// The first refusal of those that the store still refuses.
    pub(super) fn retry(&mut self, store: &Store) -> Result<(), StoreError> {
        let mut result = Ok(());
        for (number, lbn, end) in std::mem::take(&mut self.refused) {
            // What a newer write gave the media since then is not undone.
            let left = self.writes.get(&number).map(|write| write.left.within(lbn, end).collect::<Vec<_>>());
            for (from, to) in left.unwrap_or_default() {
                result = result.and(self.settle(store, number, from, (to - from) as u32));
            }
        }
        result
    }

    /// Returns true if the store refused blocks of that write, as of the last [`retry`](Self::retry).
    pub(super) fn is_refused(&self, number: u64) -> bool {
        self.refused.iter().any(|(refused, ..)| *refused == number)
    }

    /// Puts what is newest into the store.
    ///
    /// # Errors
    /// The first refusal of the store. Everything else is in the store.
    pub(super) fn settle_all(&mut self, store: &Store) -> Result<(), StoreError> {
        let mut result = Ok(());
        for (from, (to, number)) in std::mem::take(&mut self.newest) {
            let write = &self.writes[&number];
            let (offset, length) = (from * self.block_bytes, (to - from) * self.block_bytes);
            let put = write.contents.put(store, offset, (from - write.place) * self.block_bytes, length);
            result = result.and(put);
        }
        self.writes.clear();
        self.refused.clear();
        result
    }

    /// The power is lost. Returns true if blocks are lost that the device has on its media.
    pub(super) fn lose(&mut self) -> bool {
        let loses_media = self.refused.drain(..).any(|(number, lbn, end)| {
            self.writes.get(&number).is_some_and(|write| write.left.first_within(lbn, end).is_some())
        });
        self.writes.clear();
        self.newest.clear();
        self.former.clear();
        loses_media
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

#[cfg(test)]
mod tests {
    use seeklab_core::ByteSize;

    use super::*;

    const BLOCK: u64 = 512;

    fn store(cap: u64) -> Store {
        Store::in_ram(ByteSize::from_bytes(64 * BLOCK), Some(ByteSize::from_bytes(cap))).unwrap()
    }

    fn insert(unsettled: &mut Unsettled, number: u64, (place, end): (u64, u64)) {
        let bytes = vec![number as u8; ((end - place) * BLOCK) as usize];
        unsettled.insert(number, (place, end), Contents::Bytes(bytes.into()));
    }

    /// The number in each of the first sixteen blocks, in the buffer and on the media.
    fn numbers(unsettled: &Unsettled, store: &Store) -> [[u8; 16]; 2] {
        let mut bytes = vec![0; 16 * BLOCK as usize];
        store.read(0, &mut bytes).unwrap();
        let firsts = |bytes: &[u8]| std::array::from_fn(|block| bytes[block * BLOCK as usize]);
        let media = firsts(&bytes);
        unsettled.lay_over(0, &mut bytes);
        [firsts(&bytes), media]
    }

    #[test]
    fn write_leaves_with_its_last_block_and_takes_older_ones_along() {
        let (store, mut unsettled) = (store(1 << 20), Unsettled::new(BLOCK, 1));
        insert(&mut unsettled, 1, (0, 8));
        unsettled.settle(&store, 1, 0, 4).unwrap();
        assert_eq!(unsettled.writes.len(), 1);
        unsettled.settle(&store, 1, 4, 4).unwrap();
        assert!(unsettled.writes.is_empty() && unsettled.newest.is_empty());
        insert(&mut unsettled, 2, (0, 8));
        insert(&mut unsettled, 3, (2, 10));
        insert(&mut unsettled, 4, (4, 6));
        unsettled.settle(&store, 3, 2, 8).unwrap();
        assert_eq!(unsettled.writes.keys().collect::<Vec<_>>(), [&2, &4], "the newest is still to come");
        unsettled.settle(&store, 2, 0, 2).unwrap();
        assert_eq!(unsettled.writes.keys().collect::<Vec<_>>(), [&4]);
        let [buffer, media] = numbers(&unsettled, &store);
        assert_eq!(media, [2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0]);
        assert_eq!(buffer, [2, 2, 3, 3, 4, 4, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn overwritten_ranges_keep_what_lies_before_and_behind() {
        let (store, mut unsettled) = (store(1 << 20), Unsettled::new(BLOCK, 1));
        insert(&mut unsettled, 1, (0, 12));
        insert(&mut unsettled, 2, (4, 8));
        assert_eq!(numbers(&unsettled, &store)[0], [1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0]);
        insert(&mut unsettled, 3, (2, 5));
        insert(&mut unsettled, 4, (12, 13));
        assert_eq!(numbers(&unsettled, &store)[0], [1, 1, 3, 3, 3, 2, 2, 2, 1, 1, 1, 1, 4, 0, 0, 0]);
        unsettled.settle(&store, 1, 8, 2).unwrap();
        let [buffer, media] = numbers(&unsettled, &store);
        assert_eq!(buffer, [1, 1, 3, 3, 3, 2, 2, 2, 1, 1, 1, 1, 4, 0, 0, 0]);
        assert_eq!(media, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]);
        let ranges: Vec<_> =
            unsettled.newest.iter().map(|(from, (to, number))| (*from, *to, *number)).collect();
        assert_eq!(ranges, [(0, 2, 1), (2, 5, 3), (5, 8, 2), (10, 12, 1), (12, 13, 4)]);
    }

    #[test]
    fn retry_undoes_nothing_that_a_newer_write_gave_the_media() {
        // Space for the tables alone at first: a discard cannot make any, so the store is exchanged.
        let (full, roomy, mut unsettled) = (store(24 << 10), store(1 << 20), Unsettled::new(BLOCK, 1));
        insert(&mut unsettled, 1, (0, 4));
        unsettled.settle(&full, 1, 0, 4).unwrap_err();
        assert!(unsettled.is_refused(1));
        insert(&mut unsettled, 2, (1, 2));
        unsettled.settle(&roomy, 2, 1, 1).unwrap();
        unsettled.retry(&full).unwrap_err();
        unsettled.retry(&roomy).unwrap();
        assert!(!unsettled.is_refused(1) && unsettled.writes.is_empty());
        let expected = [1, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(numbers(&unsettled, &roomy), [expected, expected]);
        assert!(!unsettled.lose(), "everything is on the media");
    }
}
