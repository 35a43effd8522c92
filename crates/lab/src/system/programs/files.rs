//! Files of a trace: their numbers, sizes and places, and which file a process means by a descriptor.

use std::collections::{BTreeMap, BTreeSet};

use seeklab_workloads::host::{CachedPages, RecordedFile, RecordedPool};

use super::allocations::Allocations;
use super::block_set::BlockSet;
use super::extents::ExtentMap;

/// Files by the number of their inode, and by the number of files that had the inode before.
#[derive(Debug, Default)]
pub(super) struct Files {
    numbers: BTreeMap<(u64, usize), u32>,
    /// For each inode, the times at which a file that had it was deleted.
    deletions_ns: BTreeMap<u64, Vec<u64>>,
    files: Vec<File>,
}

#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) extents: ExtentMap,
    /// The block behind the last that was accessed.
    pub(super) end: u64,
    pub(super) is_cached: bool,
    pub(super) is_accessed: bool,
    /// Blocks that were read or written.
    pub(super) accessed: BlockSet,
    /// Parts that were in memory at the beginning, in order.
    pub(super) cached: Vec<CachedPages>,
}

impl File {
    /// Returns true if a page was accessed before, or was in memory at the beginning.
    pub(super) fn was_in_memory(&self, page: u64) -> bool {
        let after = self.cached.partition_point(|part| part.first <= page);
        let part = self.cached[..after].last();
        self.accessed.contains(page) || part.is_some_and(|part| page - part.first < part.pages)
    }
}

impl Files {
    /// Takes note that the file of an inode is deleted. Times of one inode come in order.
    pub(super) fn delete(&mut self, inode: u64, time_ns: u64) {
        self.deletions_ns.entry(inode).or_default().push(time_ns);
    }

    /// The number of the file that has an inode at a time, until its deletion.
    pub(super) fn number(&mut self, inode: u64, time_ns: u64) -> u32 {
        let deletions_ns = self.deletions_ns.get(&inode);
        let before =
            deletions_ns.map_or(0, |times| times.partition_point(|deleted_ns| *deleted_ns < time_ns));
        *self.numbers.entry((inode, before)).or_insert_with(|| {
            self.files.push(File::default());
            self.files.len() as u32 - 1
        })
    }

    pub(super) fn file(&mut self, number: u32) -> &mut File {
        &mut self.files[number as usize]
    }

    /// Number of blocks that were read or written.
    pub(super) fn accessed_blocks(&self) -> u64 {
        self.files.iter().map(|file| file.accessed.len()).sum()
    }

    /// The files, and the blocks that the file system gave to new data.
    pub(super) fn finish(self) -> (Vec<RecordedFile>, Vec<RecordedPool>) {
        let mut allocations = Allocations::default();
        for (number, file) in self.files.iter().enumerate() {
            for blocks in file.extents.new_blocks() {
                allocations.push(number, blocks);
            }
        }
        let (mut parts, pools) = allocations.finish();
        let recorded = |(number, file): (usize, File)| RecordedFile {
            pages: file.end.max(file.extents.end()),
            extents: file.extents.extents(),
            // The trace has the pages of a file if any were in memory.
            is_cached: file.is_cached && file.cached.is_empty(),
            cached: file.cached,
            allocations: parts.remove(&number).unwrap_or_default(),
        };
        (self.files.into_iter().enumerate().map(recorded).collect(), pools)
    }
}

/// Descriptors of the processes.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    files: BTreeMap<(u32, u64), u32>,
    /// Descriptors whose writes are synchronous.
    synchronous: BTreeSet<(u32, u64)>,
    /// Descriptors whose files will be read in order.
    sequential: BTreeSet<(u32, u64)>,
    /// Process that made a process.
    pub(super) parents: BTreeMap<u32, u32>,
}

impl Descriptors {
    pub(super) fn set(&mut self, process: u32, descriptor: u64, file: u32) {
        self.files.insert((process, descriptor), file);
    }

    pub(super) fn open(&mut self, process: u32, descriptor: u64, is_synchronous: bool) {
        self.close(process, descriptor);
        if is_synchronous {
            self.synchronous.insert((process, descriptor));
        }
    }

    pub(super) fn close(&mut self, process: u32, descriptor: u64) {
        self.files.remove(&(process, descriptor));
        self.synchronous.remove(&(process, descriptor));
        self.sequential.remove(&(process, descriptor));
    }

    /// Takes note that the file of a descriptor will be read in order.
    pub(super) fn advise_sequential(&mut self, process: u32, descriptor: u64) {
        self.sequential.insert((process, descriptor));
    }

    /// Returns true once for a descriptor whose file will be read in order.
    pub(super) fn take_sequential(&mut self, process: u32, descriptor: u64) -> bool {
        self.sequential.remove(&(process, descriptor))
    }

    pub(super) fn is_synchronous(&self, process: u32, descriptor: u64) -> bool {
        self.synchronous.contains(&(process, descriptor))
    }

    /// The file of a descriptor, which a process may have from the one that made it.
    pub(super) fn file(&self, process: u32, descriptor: u64) -> Option<u32> {
        let mut process = process;
        for _ in 0..=self.parents.len() {
            if let Some(file) = self.files.get(&(process, descriptor)) {
                return Some(*file);
            }
            process = *self.parents.get(&process)?;
        }
        None
    }
}
