//! Places of new data.
//!
//! Where new data lie is an effect: the file system gives the next free blocks to the process that writes first. A recording
//! says which blocks it gave, one after the other (a pool). Processes that write in another order get the same blocks
//! in that order, so that what becomes dirty together lies together. The same holds of metadata that it initialised: inodes, directories
//! and indirect blocks.

use std::sync::Arc;

use super::Linux;
use crate::host::page_index::PageIndex;
use crate::host::recorded::{RecordedPlace, RecordedPool};

/// Blocks for new data.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    source: Arc<RecordedPool>,
    /// The part of the device that is next, and the number of its blocks that are gone.
    next: usize,
    taken: u64,
}

impl Pool {
    pub(super) fn new(source: RecordedPool) -> Self {
        Self { source: Arc::new(source), next: 0, taken: 0 }
    }

    /// Takes so many blocks, fewer if it has fewer.
    fn take(&mut self, mut pages: u64) -> Vec<RecordedPlace> {
        let mut places: Vec<RecordedPlace> = Vec::new();
        while pages > 0
            && let Some(part) = self.source.places.get(self.next)
        {
            let address = part.address + self.taken;
            let count = pages.min(part.pages - self.taken);
            match places.last_mut() {
                Some(last) if last.address + last.pages == address => last.pages += count,
                _ => places.push(RecordedPlace { address, pages: count }),
            }
            pages -= count;
            self.taken += count;
            if self.taken == part.pages {
                (self.next, self.taken) = (self.next + 1, 0);
            }
        }
        places
    }
}

/// Places of blocks of metadata that the file system initialises.
#[derive(Debug, Clone, Default)]
pub(super) struct NewMetadata {
    pools: Vec<Pool>,
    /// Number in `blocks` of a block that was new in the recording.
    numbers: PageIndex,
    /// Its pool, and its place since its first access.
    blocks: Vec<(u32, Option<u64>)>,
}

impl NewMetadata {
    pub(super) fn new(pools: Vec<RecordedPool>) -> Self {
        let (mut numbers, mut blocks) = (PageIndex::new(), Vec::new());
        for (pool, source) in pools.iter().enumerate() {
            for block in source.places.iter().flat_map(|place| place.address..place.address + place.pages) {
                numbers.insert(block, blocks.len() as u32);
                blocks.push((pool as u32, None));
            }
        }
        Self { pools: pools.into_iter().map(Pool::new).collect(), numbers, blocks }
    }

    /// The place of a block that lay at `address` in the recording. New ones take the next place of their pool when they are first accessed.
    pub(super) fn place(&mut self, address: u64) -> u64 {
        let Some(number) = self.numbers.get(address) else { return address };
        let (pool, place) = &mut self.blocks[number as usize];
        *place.get_or_insert_with(|| {
            self.pools[*pool as usize].take(1).first().map_or(address, |taken| taken.address)
        })
    }
}

impl Linux {
    /// Gives a place to the part of a file that a block belongs to, if the block has none yet.
    pub(super) fn allocate(&mut self, file: u32, index: u64) {
        let state = &mut self.files[file as usize];
        if !state.recorded.is_unallocated(index) {
            return;
        }
        let recorded = Arc::make_mut(&mut state.recorded);
        if let Some(part) = recorded.take_allocation(index) {
            let places = self.pools[part.pool as usize].take(part.pages);
            recorded.set_places(part.first, &places);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_metadata_takes_its_places_in_the_order_of_first_accesses() {
        let place = |address, pages| RecordedPlace { address, pages };
        let pools =
            [vec![place(10, 1), place(11, 2)], vec![place(50, 1)]].map(|places| RecordedPool { places });
        let mut new = NewMetadata::new(pools.into());
        assert_eq!(
            [12, 50, 10, 7, 11, 12, 10].map(|address| new.place(address)),
            [10, 50, 11, 7, 12, 10, 11]
        );
    }

    #[test]
    fn pool_gives_its_blocks_in_their_order() {
        let place = |address, pages| RecordedPlace { address, pages };
        let places = vec![place(10, 3), place(13, 2), place(40, 4)];
        let mut pool = Pool::new(RecordedPool { places });
        assert_eq!(pool.take(2), [place(10, 2)]);
        assert_eq!(pool.take(4), [place(12, 3), place(40, 1)]);
        assert_eq!(pool.take(9), [place(41, 3)]);
        assert_eq!(pool.take(1), []);
    }
}
