//! The file system of an application, in the manner of ext2 and ext4: where blocks lie, and which blocks of the page cache
//! an operation on a file accesses.
//!
//! ```text
//! operation ──▶ actions of the process: metadata ▸ data ▸ … ──▶ page cache
//!     │ at once
//!     ▼
//! layout: groups, inodes, directories, places of files
//! ```
//! # Scope and limits
//! - An operation changes the layout at once. The process does the actions one after the other.
//! - [`Mount::Sync`] is a mount with `-o sync`, whose order of writes was observed with Linux 6.18 (its ext4
//!   driver on an ext2 file system, `docs/models/applications.md`): creating and deleting write the
//!   directory's block; every `write` call writes the data, then the inode's block, then flushes; bitmaps
//!   and the rest go by write-back.
//! - [`Mount::Journal`] is write-back with ordered data: `fsync` writes the file's dirty blocks, then commits the running
//!   transaction to the journal and waits for it.
//! - Directories are lists, searched from their beginning. No indirect blocks or extent trees beyond the inode, no
//!   fragmentation by age.
//! - Blocks of a deleted file are free when the process has deleted it, with a journal when the transaction is durable. If
//!   the device is full, they are free at once.
//!
//! # References
//! R. Card, T. Ts'o and S. Tweedie, Design and Implementation of the Second Extended Filesystem, 1994 (groups).
//! Documentation of Linux, filesystems/ext4: the journal. Linux 6.18, `fs/ext4/namei.c` (directories are read 8 blocks at a
//! time), `fs/ext4/mballoc.c` (freed blocks).

mod group;
mod journal;

use std::collections::VecDeque;

use seeklab_core::{Criticality, Stream};

use self::group::{
    CAPACITY_PAGES_MAX, CAPACITY_PAGES_MIN, Groups, block_bitmap, group_start, inode_bitmap, inode_page,
};
use self::journal::JOURNAL_PAGES;
pub(super) use self::journal::Journal;
use super::action::Action;
use super::application::System;
use super::linux::Linux;
use super::page_set::PageSet;
use super::recorded::{RecordedAction, RecordedExtent};
use super::{Host, PAGE_BYTES};

/// A directory entry: 8 bytes and a name of up to 12, what PostMark's names take.
const ENTRIES_PER_PAGE: u64 = PAGE_BYTES / 20;

/// Blocks of a directory that are read together.
const DIRECTORY_READ_PAGES: usize = 8;

/// Time at which changes go to the device.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Mount {
    /// Data and metadata before a call returns, as by `mount -o sync`.
    #[default]
    Sync,
    /// Later, by write-back and a journal.
    Journal,
}

/// A file of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(u32);

/// A directory of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryId(u32);

/// Error: the files do not fit on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

#[derive(Debug, Clone, Copy)]
struct File {
    directory: u32,
    entry: u64,
    inode: u64,
    size_bytes: u64,
    /// Blocks that it can have, as a power of two.
    class: u32,
}

#[derive(Debug, Clone)]
struct Directory {
    group: u64,
    pages: Vec<u64>,
    free_entries: PageSet,
    /// Entries that were ever in use.
    entries_max: u64,
}

/// The layout of a mounted file system.
#[derive(Debug, Clone)]
pub(super) struct FileSystem {
    mount: Mount,
    groups: Groups,
    /// By the number of the file among those of the page cache.
    files: Vec<File>,
    /// Numbers of files that were deleted, by their class.
    free_files: Vec<VecDeque<u32>>,
    directories: Vec<Directory>,
    journal: Option<Journal>,
    discards: bool,
    stream: Stream,
}

impl FileSystem {
    /// An empty file system on a device of that many blocks.
    ///
    /// # Errors
    /// The device is too small.
    pub(super) fn new(
        mount: Mount,
        discards: bool,
        capacity_pages: u64,
        stream: Stream,
    ) -> Result<Self, Full> {
        let capacity_pages = capacity_pages.min(CAPACITY_PAGES_MAX);
        if capacity_pages < CAPACITY_PAGES_MIN {
            return Err(Full);
        }
        let mut groups = Groups::new(capacity_pages);
        let mut journal = None;
        if mount == Mount::Journal {
            // In the middle of the device, as mke2fs places it.
            let mut pages = Vec::new();
            let mut goal = group_start_of(groups.len() / 2);
            for _ in 0..JOURNAL_PAGES.min(capacity_pages / 16) {
                let page = groups.allocate_page(goal).ok_or(Full)?;
                pages.push(page);
                goal = page + 1;
            }
            journal = Some(Journal::new(pages));
        }
        Ok(Self {
            mount,
            groups,
            files: Vec::new(),
            free_files: Vec::new(),
            directories: Vec::new(),
            journal,
            discards,
            stream,
        })
    }

    /// True if a process of the system commits transactions.
    pub(super) const fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    fn allocate_page(&mut self, goal: u64) -> Result<u64, Full> {
        loop {
            if let Some(page) = self.groups.allocate_page(goal) {
                return Ok(page);
            }
            let freed = self.journal.as_mut().and_then(Journal::take_freed).ok_or(Full)?;
            (freed.address..freed.address + freed.pages).for_each(|page| self.groups.release_page(page));
        }
    }

    /// Takes the number of a file that can have so many blocks.
    fn allocate_file(&mut self, linux: &mut Linux, pages_max: u64, file: File) -> u32 {
        let class = pages_max.max(1).next_power_of_two().trailing_zeros();
        let file = File { class, ..file };
        if self.free_files.len() <= class as usize {
            self.free_files.resize(class as usize + 1, VecDeque::new());
        }
        match self.free_files[class as usize].pop_front() {
            Some(number) => {
                self.files[number as usize] = file;
                number
            }
            None => {
                self.files.push(file);
                linux.add_file(1 << class)
            }
        }
    }
}

/// Address of the first block of a group.
const fn group_start_of(group: u64) -> u64 {
    group * group::GROUP_PAGES
}

impl System<'_> {
    /// Makes a directory in a group chosen at random, as the Orlov allocator does for top-level ones.
    ///
    /// # Errors
    /// The device is full.
    pub fn make_directory(&mut self) -> Result<DirectoryId, Full> {
        let files = &mut *self.files;
        let group = files.stream.below(files.groups.len());
        let page = files.allocate_page(group_start_of(group))?;
        let free_entries = PageSet::default();
        files.directories.push(Directory { group, pages: vec![page], free_entries, entries_max: 0 });
        let number = files.directories.len() as u32 - 1;
        self.dirty_new(page);
        self.dirty(block_bitmap(page));
        Ok(DirectoryId(number))
    }

    /// Creates an empty file, which can grow to `bytes_max`.
    ///
    /// # Errors
    /// The device is full.
    pub fn create(&mut self, directory: DirectoryId, bytes_max: u64) -> Result<FileId, Full> {
        let DirectoryId(number) = directory;
        let last = self.files.directories[number as usize].pages.len() - 1;
        self.search(number, last);
        let files = &mut *self.files;
        let place = &mut files.directories[number as usize];
        let inode = files.groups.allocate_inode(place.group).ok_or(Full)?;
        let entry = match place.free_entries.next(0, u64::MAX) {
            Some(entry) => {
                place.free_entries.remove(entry);
                entry
            }
            None => {
                place.entries_max += 1;
                place.entries_max - 1
            }
        };
        if (entry / ENTRIES_PER_PAGE) as usize == place.pages.len() {
            let goal = place.pages.last().expect("a directory has a block") + 1;
            let page = files.allocate_page(goal)?;
            files.directories[number as usize].pages.push(page);
            self.dirty_new(page);
            self.dirty(block_bitmap(page));
        }
        self.dirty(inode_bitmap(inode));
        self.dirty(inode_page(inode));
        self.write_entry(number, entry);
        let file = File { directory: number, entry, inode, size_bytes: 0, class: 0 };
        Ok(FileId(self.files.allocate_file(self.linux, bytes_max.div_ceil(PAGE_BYTES), file)))
    }

    /// Size of a file, in bytes.
    pub fn size_bytes(&self, file: FileId) -> u64 {
        self.file(file).size_bytes
    }

    /// One `write` call.
    ///
    /// # Errors
    /// The device is full.
    ///
    /// # Panics
    /// If the file grows beyond the size of its creation, or the write begins behind its end.
    pub fn write(&mut self, id: FileId, offset: u64, bytes: u64) -> Result<(), Full> {
        let File { size_bytes: old_size, inode, class, .. } = *self.file(id);
        let end = offset + bytes;
        assert!(
            offset <= old_size && end <= PAGE_BYTES << class,
            "a write of a file that cannot be so large"
        );
        let (first, last) = (offset / PAGE_BYTES, (end - 1) / PAGE_BYTES);
        let mut pages = self.linux.file_pages(id.0);
        let mut bitmap = None;
        while pages <= last {
            let goal = match pages {
                0 => group_start(inode),
                _ => self.linux.file_place(id.0, pages - 1).0 + 1,
            };
            let page = self.files.allocate_page(goal)?;
            self.linux.append_page(id.0, page);
            pages += 1;
            if bitmap.replace(block_bitmap(page)) != Some(block_bitmap(page)) {
                self.dirty(block_bitmap(page));
            }
        }
        self.plan.push(Action::Cache(RecordedAction::Write {
            file: id.0,
            first: first as u32,
            pages: (last - first + 1) as u32,
            keeps_first: first * PAGE_BYTES < old_size && !offset.is_multiple_of(PAGE_BYTES),
            keeps_last: end < old_size.min((last + 1) * PAGE_BYTES),
        }));
        self.dirty(inode_page(inode));
        self.files.files[id.0 as usize].size_bytes = old_size.max(end);
        if self.files.mount == Mount::Sync {
            self.plan.push(Action::WriteFile(id.0));
            self.plan.push(Action::WriteMetadata(inode_page(inode)));
            self.plan.push(Action::Flush);
        }
        Ok(())
    }

    /// One `read` call; beyond the end there is nothing.
    pub fn read(&mut self, id: FileId, offset: u64, bytes: u64) {
        let File { size_bytes, inode, .. } = *self.file(id);
        let end = (offset + bytes).min(size_bytes);
        if offset >= end {
            return;
        }
        let (first, last) = (offset / PAGE_BYTES, (end - 1) / PAGE_BYTES);
        let pages = (last - first + 1) as u32;
        self.access(inode_page(inode));
        let file = id.0;
        self.plan.push(Action::Cache(RecordedAction::Read {
            file,
            first: first as u32,
            pages,
            requested: pages,
        }));
    }

    /// Looks a file up by its name, and opens it.
    pub fn open(&mut self, id: FileId) {
        let File { directory, entry, inode, .. } = *self.file(id);
        self.search(directory, (entry / ENTRIES_PER_PAGE) as usize);
        self.access(inode_page(inode));
        self.plan.push(Action::Open(id.0));
    }

    /// Deletes a file. Its number stands for nothing from then on.
    pub fn delete(&mut self, id: FileId) {
        self.open(id);
        let File { directory, entry, inode, .. } = *self.file(id);
        self.dirty(inode_bitmap(inode));
        self.dirty(inode_page(inode));
        self.plan.push(Action::Cache(RecordedAction::Delete { file: id.0 }));
        let is_discarded = self.files.discards && self.files.mount == Mount::Sync;
        for index in 0..self.linux.extents(id.0).len() {
            let extent = self.linux.extents(id.0)[index];
            let last = extent.address + extent.pages - 1;
            self.dirty(block_bitmap(extent.address));
            if block_bitmap(last) != block_bitmap(extent.address) {
                self.dirty(block_bitmap(last));
            }
            if is_discarded {
                self.plan.push(Action::discard(extent, Criticality::TimeCritical));
            }
        }
        self.plan.push(Action::Await);
        self.plan.push(Action::Release(id.0));
        self.files.groups.release_inode(inode);
        self.files.directories[directory as usize].free_entries.insert(entry);
        self.write_entry(directory, entry);
    }

    /// Makes a file durable.
    pub fn fsync(&mut self, id: FileId) {
        self.plan.push(Action::WriteFile(id.0));
        match self.files.mount {
            Mount::Sync => {
                self.plan.push(Action::WriteMetadata(inode_page(self.file(id).inode)));
                self.plan.push(Action::Flush);
            }
            Mount::Journal => self.plan.push(Action::Commit { or_flush: true }),
        }
    }

    /// Writes everything back and empties the page cache. The current phase then has the time of its unmount.
    pub fn unmount(&mut self) {
        self.plan.push(Action::WriteFiles);
        self.plan.push(Action::Commit { or_flush: false });
        self.plan.push(Action::WriteAll);
        self.plan.push(Action::Flush);
        self.plan.push(Action::DropCaches);
        self.plan.push(Action::Unmounted);
    }

    /// Sends a read of blocks of 4 KiB past the page cache. [`await_direct`](Self::await_direct) waits for it.
    pub fn read_direct(&mut self, file: FileId, first: u64, pages: u64) {
        self.direct(seeklab_core::Operation::Read, file, first, pages);
    }

    /// Sends a write of blocks of 4 KiB past the page cache. [`await_direct`](Self::await_direct) waits for it.
    pub fn write_direct(&mut self, file: FileId, first: u64, pages: u64) {
        self.direct(seeklab_core::Operation::Write, file, first, pages);
    }

    fn direct(&mut self, op: seeklab_core::Operation, file: FileId, first: u64, pages: u64) {
        let mut next = first;
        while next < first + pages {
            let (address, contiguous) = self.linux.file_place(file.0, next);
            let pages = contiguous.min(first + pages - next);
            self.plan.push(Action::direct(op, RecordedExtent { first: next, address, pages }));
            next += pages;
        }
    }

    /// Reads the blocks of a directory up to block `last`.
    fn search(&mut self, directory: u32, last: usize) {
        for index in 0..=last {
            let pages = &self.files.directories[directory as usize].pages;
            let address = pages[index];
            if index % DIRECTORY_READ_PAGES == 0 && index < last {
                let batch = &pages[index..=last.min(index + DIRECTORY_READ_PAGES - 1)];
                let adjacent = batch.iter().zip(address..).take_while(|(page, next)| *page == next).count();
                let pages = adjacent as u32;
                self.plan.push(Action::Cache(RecordedAction::MetadataAhead { address, pages }));
            }
            self.access(address);
        }
    }

    fn write_entry(&mut self, directory: u32, entry: u64) {
        let page = self.files.directories[directory as usize].pages[(entry / ENTRIES_PER_PAGE) as usize];
        self.dirty(page);
        if self.files.mount == Mount::Sync {
            self.plan.push(Action::WriteMetadata(page));
        }
    }

    /// Accesses a block of metadata.
    fn access(&mut self, address: u64) {
        self.metadata(address, false, false);
    }

    /// Changes a block of metadata.
    fn dirty(&mut self, address: u64) {
        self.metadata(address, true, false);
    }

    /// Initialises a block of metadata.
    fn dirty_new(&mut self, address: u64) {
        self.metadata(address, true, true);
    }

    fn metadata(&mut self, address: u64, dirties: bool, is_present: bool) {
        self.plan.push(Action::Cache(RecordedAction::Metadata { address, dirties, is_present }));
        if dirties && let Some(journal) = &mut self.files.journal {
            journal.add(address, self.now);
        }
    }

    fn file(&self, id: FileId) -> &File {
        &self.files.files[id.0 as usize]
    }
}

impl Host {
    /// A deleted file has left the page cache: its number and, without a journal, its blocks are free.
    pub(super) fn release_file(&mut self, number: u32) {
        let (Some(application), Some(linux)) = (&mut self.application, &mut self.linux) else { return };
        let files = &mut application.files;
        for extent in linux.extents(number) {
            match &mut files.journal {
                Some(journal) => journal.free(*extent),
                None => {
                    let pages = extent.address..extent.address + extent.pages;
                    pages.for_each(|page| files.groups.release_page(page));
                }
            }
        }
        linux.clear_file(number);
        let class = files.files[number as usize].class;
        files.free_files[class as usize].push_back(number);
    }
}
