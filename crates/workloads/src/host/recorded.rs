//! Recorded programs: the sequences of a system-level trace, as input of a host.
//!
//! ```text
//! steps of a thread   computing ─▶ action ─▶ computing ─▶ action ─▶ …
//! ```
//! A step is a computing time and the action after it. Actions are causes: accesses to files, to metadata, to other
//! processes. Waits for I/O, their lengths, and requests that the host makes itself (data, writeback, the journal) are not part of a
//! recording, so a prediction cannot depend on them. Reads and writes of metadata that the code of the file system decides are
//! actions, for the host has none of that code: `MetadataAhead`, `WriteMetadata`.

use std::num::NonZeroU32;

use seeklab_core::Duration;

use super::recorded_steps::RecordedSteps;

/// Programs, files and initial contents of the page cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recording {
    /// Files, by number.
    pub files: Vec<RecordedFile>,
    /// Threads, by number.
    pub threads: Vec<RecordedThread>,
    /// Numbers of the threads of the task, which also has what they start. If it is empty, all threads are the task.
    pub task: Vec<u32>,
    /// Blocks that the file system gave to new data, by number.
    pub pools: Vec<RecordedPool>,
    /// Blocks that it gave to new metadata, by pool. No two places share a block.
    pub new_metadata: Vec<RecordedPool>,
    /// Metadata in memory at the start: parts of the device, in blocks of 4 KiB.
    pub metadata: Vec<CachedPages>,
    /// Blocks of the journal in the order in which transactions take them, again and again. Empty without a journal.
    pub journal: Vec<RecordedPlace>,
}

/// Blocks of 4 KiB that are in memory at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedPages {
    /// First block of the file.
    pub first: u64,
    /// Number of blocks.
    pub pages: u64,
    /// True if they are dirty.
    pub is_dirty: bool,
}

/// Blocks that the file system gave to new data, one after the other.
///
/// The order in which a host writes decides which data get which of them, as in a file system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordedPool {
    /// Parts of the device, in the order in which the file system gave them.
    pub places: Vec<RecordedPlace>,
}

/// Blocks of the device that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedPlace {
    /// Address of the first one, in blocks of 4 KiB.
    pub address: u64,
    /// Number of blocks.
    pub pages: u64,
}

/// A file of the traced file system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordedFile {
    /// Size in blocks of 4 KiB.
    pub pages: u64,
    /// Places on the device, in the order of the file, without overlap.
    pub extents: Vec<RecordedExtent>,
    /// True if the file is in the page cache at the start, as far as it fits.
    pub is_cached: bool,
    /// Parts that are in memory at the start, as far as they fit. In order, without overlap.
    pub cached: Vec<CachedPages>,
    /// Parts that are new: they get their places when they are first written. In order, without overlap.
    pub allocations: Vec<RecordedAllocation>,
}

/// A part of a file that gets its place when one of its blocks is first written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedAllocation {
    /// First block of the file, of 4 KiB.
    pub first: u64,
    /// Number of blocks.
    pub pages: u64,
    /// Number of the pool that has the places.
    pub pool: u32,
}

/// Blocks of a file that follow each other on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedExtent {
    /// First block of the file, of 4 KiB.
    pub first: u64,
    /// Its address on the device, in blocks of 4 KiB.
    pub address: u64,
    /// Number of blocks.
    pub pages: u64,
}

/// A thread of the task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordedThread {
    /// Time at which it starts, unless another thread makes it.
    pub start: Duration,
    /// Its steps.
    pub steps: RecordedSteps,
}

/// A step of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedStep {
    /// Computing time before the action.
    pub computing: Duration,
    /// The action.
    pub action: RecordedAction,
}

/// Action of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedAction {
    /// Nothing.
    None,
    /// Reads blocks of a file through the page cache.
    Read {
        /// Number of the file.
        file: u32,
        /// First block.
        first: u32,
        /// Number of blocks that are accessed.
        pages: u32,
        /// Number of blocks, from the first on, that the process requested.
        requested: u32,
    },
    /// Announces that a file will be read in order: its windows of read-ahead become up to twice as large.
    Sequential {
        /// Number of the file.
        file: u32,
    },
    /// Accesses a block of a mapped file.
    Fault {
        /// Number of the file.
        file: u32,
        /// The block.
        page: u32,
    },
    /// Changes blocks of a file in the page cache.
    Write {
        /// Number of the file.
        file: u32,
        /// First block.
        first: u32,
        /// Number of blocks.
        pages: u32,
        /// True if the first block holds data that the write leaves.
        keeps_first: bool,
        /// True if the last block holds data that the write leaves.
        keeps_last: bool,
    },
    /// Transfers a part of a file past the page cache (`O_DIRECT`).
    Direct {
        /// Number of the file.
        file: u32,
        /// First sector of the part within the file, of 512 B.
        first: u64,
        /// Number of sectors.
        sectors: u32,
        /// True for a write.
        writes: bool,
        /// Queue in which the transfer ends. Without one, the thread waits for the transfer.
        queue: Option<NonZeroU32>,
    },
    /// Waits until so many transfers of a queue are complete, and takes them out of it.
    Reap {
        /// Number of the queue.
        queue: NonZeroU32,
        /// Number of transfers.
        transfers: u32,
    },
    /// Deletes a file: its blocks leave the page cache unwritten. Waits for those that are being transferred.
    Delete {
        /// Number of the file.
        file: u32,
    },
    /// The machine takes clean blocks of a file from memory, for reasons of its own.
    Lose {
        /// Number of the file.
        file: u32,
        /// First block.
        first: u32,
        /// Number of blocks.
        pages: u32,
    },
    /// Accesses a block of metadata.
    Metadata {
        /// Address on the device, in blocks of 4 KiB.
        address: u64,
        /// True if the block becomes dirty.
        dirties: bool,
        /// True if the block need not be read: the file system initialises it, or it was in memory at the start.
        is_present: bool,
    },
    /// Looks a name up in a directory of one block: waits while the device writes the block.
    LookUp {
        /// Address on the device, in blocks of 4 KiB.
        address: u64,
    },
    /// Reads blocks of metadata in advance.
    MetadataAhead {
        /// Address of the first block on the device, in blocks of 4 KiB.
        address: u64,
        /// Number of blocks.
        pages: u32,
    },
    /// Writes blocks of metadata that are dirty, and waits.
    WriteMetadata {
        /// Address of the first block on the device, in blocks of 4 KiB.
        address: u64,
        /// Number of blocks.
        pages: u32,
    },
    /// Changes metadata within a transaction of the journal.
    Change {
        /// Blocks that the transaction did not have before.
        blocks: u32,
    },
    /// Waits until the journal has committed what changed before. If nothing has, flushes the device's write cache.
    Commit,
    /// Writes what is dirty of a file, and waits.
    SyncFile {
        /// Number of the file.
        file: u32,
        /// Step after the last write.
        end: SyncEnd,
    },
    /// Writes everything that is dirty, and waits. With a journal, also for a commit.
    SyncAll,
    /// Starts a thread.
    Start {
        /// Number of the thread.
        thread: u32,
    },
    /// Waits until a thread has done that many steps, or has ended.
    Await {
        /// Number of the thread.
        thread: u32,
        /// Number of steps.
        steps: u32,
    },
    /// Waits for that time: a timer, another device, or the world outside.
    Sleep {
        /// Length of the wait.
        time: Duration,
    },
    /// Waits for that time, and then looks whether a thread has done that many steps, or has ended. If it has, before or after the wait,
    /// the process goes on with step `end`.
    Poll {
        /// Length of the wait. If it is zero, the thread itself ends the wait.
        time: Duration,
        /// Number of the thread.
        thread: u32,
        /// Number of steps.
        steps: u32,
        /// Step behind the last of these waits.
        end: u32,
        /// Number of steps to go back otherwise: the last of these waits is repeated. Zero for the others.
        back: u16,
    },
}

/// End of a synchronisation of a file: how its data become durable once they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncEnd {
    /// By a flush of the device's write cache.
    Flush,
    /// By a commit of the journal, which flushes.
    Commit,
    /// By a later action.
    Later,
}

impl Recording {
    /// The block behind the last on the device that the recording can access. `None` if it accesses none.
    pub(super) fn end_page(&self) -> Option<u64> {
        let extents = self.files.iter().flat_map(|file| &file.extents);
        let data = extents.map(|extent| extent.address.saturating_add(extent.pages));
        let steps = self.threads.iter().flat_map(|thread| thread.steps.iter());
        let metadata = steps.filter_map(|step| match step.action {
            RecordedAction::Metadata { address, .. } | RecordedAction::LookUp { address } => {
                Some(address.saturating_add(1))
            }
            RecordedAction::MetadataAhead { address, pages } => {
                Some(address.saturating_add(u64::from(pages)))
            }
            RecordedAction::WriteMetadata { address, pages } => {
                Some(address.saturating_add(u64::from(pages)))
            }
            _ => None,
        });
        let dirty = self.metadata.iter().filter(|part| part.is_dirty);
        let dirty = dirty.map(|part| part.first.saturating_add(part.pages));
        let journal = self.journal.iter().map(|place| place.address.saturating_add(place.pages));
        data.chain(metadata).chain(dirty).chain(journal).max()
    }

    /// For each thread, true if another one starts it.
    pub(super) fn started_by_others(&self) -> Vec<bool> {
        let mut is_started = vec![false; self.threads.len()];
        for step in self.threads.iter().flat_map(|thread| thread.steps.iter()) {
            if let RecordedAction::Start { thread } = step.action {
                is_started[thread as usize] = true;
            }
        }
        is_started
    }
}

impl RecordedFile {
    /// Address on the device of a block, and the number of blocks that follow it there. `None` if it has no place.
    pub(super) fn place(&self, index: u64) -> Option<(u64, u64)> {
        let after = self.extents.partition_point(|extent| extent.first <= index);
        let extent = self.extents[..after].last()?;
        let within = index - extent.first;
        (within < extent.pages).then(|| (extent.address + within, extent.pages - within))
    }

    /// Takes the part that gets its place with block `index`. `None` if the block has its place.
    pub(super) fn take_allocation(&mut self, index: u64) -> Option<RecordedAllocation> {
        let position = self.allocation_of(index)?;
        Some(self.allocations.remove(position))
    }

    /// Returns true if a block gets its place when it is written.
    pub(super) fn is_unallocated(&self, index: u64) -> bool {
        self.allocation_of(index).is_some()
    }

    fn allocation_of(&self, index: u64) -> Option<usize> {
        let after = self.allocations.partition_point(|part| part.first <= index);
        let position = after.checked_sub(1)?;
        let part = self.allocations[position];
        (index - part.first < part.pages).then_some(position)
    }

    /// Gives places to the blocks from `first` on. They replace those that the blocks had.
    pub(super) fn set_places(&mut self, first: u64, places: &[RecordedPlace]) {
        let end = first + places.iter().map(|place| place.pages).sum::<u64>();
        let mut extents = Vec::with_capacity(self.extents.len() + places.len());
        for extent in &self.extents {
            let extent_end = extent.first + extent.pages;
            if extent.first < first {
                extents.push(RecordedExtent { pages: extent.pages.min(first - extent.first), ..*extent });
            }
            if extent_end > end {
                let skipped = end.saturating_sub(extent.first);
                extents.push(RecordedExtent {
                    first: extent.first + skipped,
                    address: extent.address + skipped,
                    pages: extent.pages - skipped,
                });
            }
        }
        let mut next = first;
        for place in places {
            extents.push(RecordedExtent { first: next, address: place.address, pages: place.pages });
            next += place.pages;
        }
        extents.sort_unstable_by_key(|extent| extent.first);
        self.extents = extents;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_place_of_their_extent() {
        let extents = vec![
            RecordedExtent { first: 2, address: 100, pages: 3 },
            RecordedExtent { first: 8, address: 50, pages: 1 },
        ];
        let file = RecordedFile { pages: 9, extents, ..RecordedFile::default() };
        let places = [0, 2, 4, 5, 8, 9].map(|index| file.place(index));
        assert_eq!(places, [None, Some((100, 3)), Some((102, 1)), None, Some((50, 1)), None]);
    }

    #[test]
    fn places_of_new_data_replace_those_of_the_recording() {
        let extents = vec![
            RecordedExtent { first: 0, address: 100, pages: 10 },
            RecordedExtent { first: 12, address: 500, pages: 4 },
        ];
        let mut file = RecordedFile { pages: 16, extents, ..RecordedFile::default() };
        file.set_places(
            4,
            &[RecordedPlace { address: 200, pages: 3 }, RecordedPlace { address: 300, pages: 6 }],
        );
        let extents: Vec<_> = file.extents.iter().map(|one| (one.first, one.address, one.pages)).collect();
        assert_eq!(extents, [(0, 100, 4), (4, 200, 3), (7, 300, 6), (13, 501, 3)]);
    }

    #[test]
    fn a_part_gets_its_place_once() {
        let part = RecordedAllocation { first: 4, pages: 2, pool: 7 };
        let mut file = RecordedFile { pages: 8, allocations: vec![part], ..RecordedFile::default() };
        assert_eq!([3, 4, 5, 6].map(|index| file.is_unallocated(index)), [false, true, true, false]);
        assert_eq!((file.take_allocation(6), file.take_allocation(5)), (None, Some(part)));
        assert_eq!(file.take_allocation(5), None);
    }
}
