//! Blocks that the file system gave to new data.
//!
//! ```text
//! in the order of time   a: 100+3   b: 500+2   c: 103+5   d: 109+4   e: 502+1
//! pools                  100+3, 103+5, 109+4      500+2, 502+1
//! ```
//! A file system gives blocks that follow each other to the files that it meets, from one part of the device for each
//! processor (ext4: locality groups) or for each large file. Blocks that begin where the last ones of a pool ended belong to it.

use std::collections::BTreeMap;

use seeklab_workloads::host::{RecordedAllocation, RecordedPlace, RecordedPool};

use super::extents::NewBlocks;

/// Blocks at most between two parts of a pool. Metadata of a file lie between its data: an indirect block behind 12 blocks (ext2), and up
/// to four of them for larger files.
const GAP_BLOCKS: u64 = 4;

/// Pools that grow with the blocks that the file system gives.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pools: Vec<RecordedPool>,
    /// The pool whose last blocks end at an address.
    ends: BTreeMap<u64, usize>,
}

impl Pools {
    /// Adds blocks to the pool that ends there or a little before, or to a new one. Returns its number.
    fn add(&mut self, address: u64, pages: u64) -> usize {
        let open = self.ends.range(address.saturating_sub(GAP_BLOCKS)..=address).next_back();
        let pool = match open.map(|(end, pool)| (*end, *pool)) {
            Some((end, pool)) => {
                self.ends.remove(&end);
                pool
            }
            None => {
                self.pools.push(RecordedPool::default());
                self.pools.len() - 1
            }
        };
        self.ends.insert(address + pages, pool);
        self.pools[pool].places.push(RecordedPlace { address, pages });
        pool
    }

    /// The pools of blocks of metadata, in the order of time.
    pub(super) fn of_metadata(blocks: impl Iterator<Item = u64>) -> Vec<RecordedPool> {
        let mut pools = Self::default();
        blocks.for_each(|block| {
            pools.add(block, 1);
        });
        pools.pools
    }
}

/// New blocks of all files.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    /// File and blocks.
    new: Vec<(usize, NewBlocks)>,
}

impl Allocations {
    /// Takes note of new blocks of a file.
    pub(super) fn push(&mut self, file: usize, blocks: NewBlocks) {
        self.new.push((file, blocks));
    }

    /// The parts of each file that are new, in order, and the pools.
    pub(super) fn finish(mut self) -> (BTreeMap<usize, Vec<RecordedAllocation>>, Vec<RecordedPool>) {
        self.new.sort_unstable_by_key(|(file, blocks)| (blocks.known_ns, *file, blocks.first));
        let mut parts: BTreeMap<usize, Vec<RecordedAllocation>> = BTreeMap::new();
        let mut pools = Pools::default();
        for (file, NewBlocks { first, address, blocks, .. }) in self.new {
            let pool = pools.add(address, blocks);
            parts.entry(file).or_default().push(RecordedAllocation {
                first,
                pages: blocks,
                pool: pool as u32,
            });
        }
        for parts in parts.values_mut() {
            parts.sort_unstable_by_key(|part| part.first);
        }
        (parts, pools.pools)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_follow_each_other_are_a_pool() {
        let mut allocations = Allocations::default();
        for (file, address, blocks) in
            [(0, 100, 3), (1, 500, 2), (2, 103, 5), (0, 109, 4), (3, 502, 1), (4, 90, 2)]
        {
            let first = if address == 109 { 3 } else { 0 };
            allocations.push(file, NewBlocks { first, address, blocks, known_ns: 7 + address % 2 });
        }
        // In the order of time, then of files.
        let (parts, pools) = allocations.finish();
        let places =
            |pool: &RecordedPool| pool.places.iter().map(|one| (one.address, one.pages)).collect::<Vec<_>>();
        assert_eq!(
            pools.iter().map(places).collect::<Vec<_>>(),
            [vec![(100, 3), (103, 5)], vec![(500, 2), (502, 1)], vec![(90, 2)], vec![(109, 4)],]
        );
        let of_first: Vec<_> = parts[&0].iter().map(|part| (part.first, part.pages, part.pool)).collect();
        assert_eq!(of_first, [(0, 3, 0), (3, 4, 3)]);
    }
}
