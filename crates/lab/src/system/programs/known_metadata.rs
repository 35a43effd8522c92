//! Blocks of metadata that threads access: those that need not be read, and those that were new.

use seeklab_workloads::host::{CachedPages, RecordedPool};

use super::allocations::Pools;
use super::block_set::BlockSet;

/// Metadata of a file system, as far as a trace knows it.
#[derive(Debug, Default)]
pub(super) struct KnownMetadata {
    /// Blocks that were accessed.
    pub(super) accessed: BlockSet,
    /// Blocks whose first access read nothing.
    present: BlockSet,
    /// Blocks that a thread changed first, in the order of time: the file system initialised them.
    new: Vec<u64>,
    /// Parts of the device that are in memory at the start.
    cached: Vec<CachedPages>,
}

impl KnownMetadata {
    /// Blocks are in memory at the start.
    pub(super) fn cache(&mut self, part: CachedPages) {
        self.cached.push(part);
    }

    /// A thread accesses a block that it does not read. Returns true if the first access of all did not read the block: it was in
    /// memory or new, whichever thread comes first in a prediction.
    pub(super) fn access(&mut self, address: u64) -> bool {
        if self.accessed.add(address) { self.present.add(address) } else { self.present.contains(address) }
    }

    /// A thread changes a block, as [`access`](Self::access). `has_reads` if the trace has the reads that threads submitted.
    pub(super) fn change(&mut self, address: u64, has_reads: bool) -> bool {
        if has_reads && !self.accessed.contains(address) {
            self.new.push(address);
        }
        self.access(address)
    }

    /// Parts of the device that are in memory at the start, and blocks that the file system gave to new metadata.
    pub(super) fn finish(self) -> (Vec<CachedPages>, Vec<RecordedPool>) {
        let Self { new, cached, .. } = self;
        let is_cached =
            |block: u64| cached.iter().any(|part| (part.first..part.first + part.pages).contains(&block));
        let new = Pools::of_metadata(new.into_iter().filter(|block| !is_cached(*block)));
        (cached, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_that_no_thread_read_first_is_present_for_every_thread() {
        let mut known = KnownMetadata::default();
        // A block that a thread reads is accessed before.
        known.accessed.insert(90, 91);
        assert_eq!([42, 42, 90].map(|block| known.access(block)), [true, true, false]);
        assert_eq!([42, 60, 60, 90].map(|block| known.change(block, true)), [true, true, true, false]);
    }

    #[test]
    fn blocks_that_a_thread_changed_first_are_new_unless_they_were_in_memory() {
        let mut known = KnownMetadata::default();
        known.cache(CachedPages { first: 62, pages: 1, is_dirty: false });
        known.access(42);
        for block in [60, 42, 61, 62, 500, 60] {
            known.change(block, true);
        }
        let (cached, new) = known.finish();
        let places = |pool: &RecordedPool| pool.places.iter().map(|place| place.address).collect::<Vec<_>>();
        assert_eq!(new.iter().map(places).collect::<Vec<_>>(), [vec![60, 61], vec![500]]);
        assert_eq!(cached.len(), 1);
        // Without reads in the trace, any block may have been read.
        let mut unknown = KnownMetadata::default();
        unknown.change(60, false);
        assert_eq!(unknown.finish().1, []);
    }
}
