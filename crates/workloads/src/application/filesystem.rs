//! A file system in the manner of ext2 and ext4, above a page cache: which requests a file operation makes.
//!
//! ```text
//! group 0            group 1                     128 MiB each
//! |S|bb|ib|itable|…data…|bb|ib|itable|…data…|    S superblock and descriptors, bb block bitmap,
//!                                                ib inode bitmap, itable inode table
//! ```
//! # Scope and limits
//! - Every operation changes the model at once and adds to the [`Plan`] what the process has to wait for.
//! - [`Mount::Sync`] is a mount with `-o sync`, whose order of writes was observed with Linux 6.18 (its ext4
//!   driver on an ext2 file system, `docs/models/applications.md`): creating and deleting write the
//!   directory's block; every `write` call writes the data, then the inode's block, then flushes; bitmaps
//!   and the rest go by write-back.
//! - [`Mount::Journal`] is write-back with ordered data: `fsync` writes the file's dirty pages, then a
//!   descriptor and the metadata of the running transaction into the journal, flushes, and writes the
//!   commit block with FUA. Commits every 5 s; metadata go to their places by write-back.
//! - A process that reads waits for the whole read-ahead window; a page that another process is reading
//!   counts as there. Directories are lists, searched from their beginning as far as they are not cached.
//!   No checkpoint stalls, no indirect blocks or extent trees beyond the inode, no fragmentation by age.
//!
//! # References
//! R. Card, T. Ts'o and S. Tweedie, Design and Implementation of the Second Extended Filesystem, 1994
//! (groups). mke2fs.conf(5): 4 KiB blocks, one inode per 16 KiB, inodes of 256 bytes. Documentation of
//! Linux: admin-guide/sysctl/vm (dirty ratios 10 and 20 %, 5 s wake-ups, 30 s of age), read-ahead of 128 KiB,
//! filesystems/ext4/journal (5 s commits).

use std::collections::BTreeSet;

use seeklab_core::{Duration, Instant, Operation, Stream};

use super::cache::PageCache;
use super::plan::{Io, PAGE_BYTES, Plan, Stage, merge};

/// Blocks of a group: one for each bit of a bitmap block.
const GROUP_PAGES: u64 = PAGE_BYTES * 8;
/// One inode per 16 KiB of the group.
const GROUP_INODES: u64 = GROUP_PAGES * PAGE_BYTES / 16_384;
const INODES_PER_PAGE: u64 = PAGE_BYTES / 256;
const INODE_TABLE_PAGES: u64 = GROUP_INODES / INODES_PER_PAGE;
/// A superblock and descriptors before the first group's bitmaps.
const SUPER_PAGES: u64 = 2;
const GROUP_META_PAGES: u64 = SUPER_PAGES + 2 + INODE_TABLE_PAGES;
/// A directory entry: 8 bytes and a name of up to 12, what PostMark's names take.
const ENTRIES_PER_PAGE: u64 = PAGE_BYTES / 20;
/// mke2fs gives file systems below 32 GiB a journal of at most 64 MiB.
const JOURNAL_PAGES: u64 = 16_384;
/// The first and the widest read-ahead window.
const READ_AHEAD_PAGES: (u64, u64) = (4, 32);
/// `vm.dirty_writeback_centisecs` and the journal's commit interval.
pub(super) const WAKE_UP: Duration = Duration::from_s(5);
/// `vm.dirty_expire_centisecs`.
const AGE: Duration = Duration::from_s(30);

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId(usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirectoryId(usize);

#[derive(Debug, Default)]
struct Group {
    /// A bit per page of the group, set where it is taken.
    taken: Vec<u64>,
    free_pages: u64,
    free_inodes: BTreeSet<u64>,
    next_inode: u64,
}

#[derive(Debug)]
struct File {
    directory: DirectoryId,
    entry: u64,
    inode: u64,
    size_bytes: u64,
    pages: Vec<u64>,
    /// End of the last read, and its read-ahead window, in pages.
    sequence: (u64, u64),
}

#[derive(Debug)]
struct Directory {
    group: u64,
    pages: Vec<u64>,
    free_entries: BTreeSet<u64>,
    entries: u64,
    /// Entries that were ever in use.
    entries_max: u64,
}

/// A mounted file system, and the plan of the process that is calling it.
#[derive(Debug)]
pub(super) struct FileSystem {
    pub(super) mount: Mount,
    pub(super) plan: Plan,
    pub(super) now: Instant,
    cache: PageCache,
    groups: Vec<Group>,
    files: Vec<Option<File>>,
    free_files: Vec<usize>,
    directories: Vec<Directory>,
    journal: Vec<u64>,
    journal_at: usize,
    /// Metadata of the running transaction.
    running: BTreeSet<u64>,
    discards: bool,
    stream: Stream,
    /// Log records not yet durable, in pages.
    log: BTreeSet<u64>,
}

/// Error: the files do not fit on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl FileSystem {
    /// An empty file system on `capacity_pages` with a cache of `cache_pages`.
    pub(super) fn new(
        mount: Mount,
        capacity_pages: u64,
        cache_pages: usize,
        discards: bool,
        stream: Stream,
    ) -> Result<Self, Full> {
        let mut groups = Vec::new();
        let mut left = capacity_pages;
        while left > GROUP_META_PAGES {
            groups.push(Group::new(left.min(GROUP_PAGES)));
            left -= left.min(GROUP_PAGES);
        }
        let mut system = Self {
            mount,
            plan: Plan::default(),
            now: Instant::ZERO,
            cache: PageCache::new(cache_pages),
            groups,
            files: Vec::new(),
            free_files: Vec::new(),
            directories: Vec::new(),
            journal: Vec::new(),
            journal_at: 0,
            running: BTreeSet::new(),
            discards,
            stream,
            log: BTreeSet::new(),
        };
        if mount == Mount::Journal {
            // In the middle of the device, as mke2fs places it.
            let pages = JOURNAL_PAGES.min(capacity_pages / 16);
            let mut goal = system.groups.len() as u64 / 2 * GROUP_PAGES;
            for _ in 0..pages {
                let page = system.allocate_page(goal).ok_or(Full)?;
                system.journal.push(page);
                goal = page + 1;
            }
        }
        Ok(system)
    }

    pub(super) fn compute(&mut self, time: Duration) {
        self.plan.push(Stage::Compute(time));
    }

    pub(super) fn operation(&mut self) {
        self.plan.push(Stage::Operation);
    }

    /// Makes a directory in a group chosen at random, as the Orlov allocator does for top-level ones.
    pub(super) fn make_directory(&mut self) -> Result<DirectoryId, Full> {
        let group = self.stream.below(self.groups.len() as u64);
        self.directories.push(Directory {
            group,
            pages: Vec::new(),
            free_entries: BTreeSet::new(),
            entries: 0,
            entries_max: 0,
        });
        let directory = DirectoryId(self.directories.len() - 1);
        let page = self.allocate_page(group * GROUP_PAGES).ok_or(Full)?;
        self.directories[directory.0].pages.push(page);
        self.dirty(page, true);
        self.dirty(block_bitmap(page / GROUP_PAGES), true);
        Ok(directory)
    }

    /// Creates an empty file.
    pub(super) fn create(&mut self, directory: DirectoryId) -> Result<FileId, Full> {
        let pages = self.directories[directory.0].pages.clone();
        self.bring(&pages);
        let inode = self.allocate_inode(self.directories[directory.0].group).ok_or(Full)?;
        self.bring(&[inode_bitmap(inode / GROUP_INODES), inode_page(inode)]);
        let place = &mut self.directories[directory.0];
        let entry = place.free_entries.pop_first().unwrap_or_else(|| {
            place.entries_max += 1;
            place.entries_max - 1
        });
        place.entries += 1;
        let index = (entry / ENTRIES_PER_PAGE) as usize;
        if index == place.pages.len() {
            let goal = place.pages.last().expect("a directory has a page") + 1;
            let page = self.allocate_page(goal).ok_or(Full)?;
            self.directories[directory.0].pages.push(page);
            self.dirty(block_bitmap(page / GROUP_PAGES), true);
        }
        self.dirty(inode_bitmap(inode / GROUP_INODES), true);
        self.dirty(inode_page(inode), true);
        self.write_entry(directory, entry);
        let file = File { directory, entry, inode, size_bytes: 0, pages: Vec::new(), sequence: (0, 0) };
        Ok(match self.free_files.pop() {
            Some(index) => {
                self.files[index] = Some(file);
                FileId(index)
            }
            None => {
                self.files.push(Some(file));
                FileId(self.files.len() - 1)
            }
        })
    }

    pub(super) fn size_bytes(&self, file: FileId) -> u64 {
        self.file(file).size_bytes
    }

    /// Returns the page of the device that holds page `index` of the file.
    pub(super) fn page(&self, file: FileId, index: u64) -> u64 {
        self.file(file).pages[index as usize]
    }

    /// One `write` call.
    pub(super) fn write(&mut self, id: FileId, offset: u64, bytes: u64) -> Result<(), Full> {
        let file = self.file(id);
        let (old_size, inode) = (file.size_bytes, file.inode);
        let end = offset + bytes;
        let indices = offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        // Pages that change in part must be there.
        let is_partial = |index: u64| {
            let (from, to) = (index * PAGE_BYTES, ((index + 1) * PAGE_BYTES).min(old_size.max(end)));
            (offset > from || end < to) && from < old_size
        };
        let parts: Vec<u64> =
            indices.clone().filter(|&index| is_partial(index)).map(|index| self.page(id, index)).collect();
        self.bring(&parts);
        let mut pages = Vec::new();
        for index in indices {
            if index as usize >= self.file(id).pages.len() {
                let goal = match self.file(id).pages.last() {
                    Some(last) => last + 1,
                    None => inode / GROUP_INODES * GROUP_PAGES,
                };
                let page = self.allocate_page(goal).ok_or(Full)?;
                self.dirty(block_bitmap(page / GROUP_PAGES), true);
                self.file_mut(id).pages.push(page);
            }
            pages.push(self.page(id, index));
        }
        for &page in &pages {
            self.dirty(page, false);
        }
        self.dirty(inode_page(inode), true);
        let file = self.file_mut(id);
        file.size_bytes = old_size.max(end);
        match self.mount {
            Mount::Sync => {
                self.write_through(&pages);
                self.write_through(&[inode_page(inode)]);
                self.plan.flush();
            }
            Mount::Journal => self.throttle(),
        }
        Ok(())
    }

    /// Reads; beyond the end there is nothing.
    pub(super) fn read(&mut self, id: FileId, offset: u64, bytes: u64) {
        let file = self.file(id);
        let end = (offset + bytes).min(file.size_bytes);
        if offset >= end {
            return;
        }
        let (last_end, last_window) = file.sequence;
        let (count, inode) = (file.pages.len() as u64, file.inode);
        let (start, stop) = (offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
        let (first, widest) = READ_AHEAD_PAGES;
        let mut window = if start > 0 && start == last_end { last_window } else { 0 };
        self.bring(&[inode_page(inode)]);
        let mut at = start;
        while at < stop {
            if self.cache.lookup(self.page(id, at)) {
                at += 1;
                continue;
            }
            window = if window == 0 { first.max(stop - at) } else { window * 2 }.clamp(first, widest);
            let ahead: Vec<u64> = (at..(at + window).min(count))
                .map(|index| self.page(id, index))
                .filter(|page| !self.cache.contains(*page))
                .collect();
            self.bring(&ahead);
            at += 1;
        }
        self.file_mut(id).sequence = (stop, window);
    }

    /// Looks a file up by its name.
    pub(super) fn open(&mut self, id: FileId) {
        let file = self.file(id);
        let index = (file.entry / ENTRIES_PER_PAGE) as usize;
        let inode = file.inode;
        let pages = self.directories[file.directory.0].pages[..=index].to_vec();
        self.bring(&pages);
        self.bring(&[inode_page(inode)]);
    }

    pub(super) fn delete(&mut self, id: FileId) {
        self.open(id);
        let file = self.files[id.0].take().expect("a file is deleted once");
        self.free_files.push(id.0);
        self.bring(&[inode_bitmap(file.inode / GROUP_INODES)]);
        self.dirty(inode_bitmap(file.inode / GROUP_INODES), true);
        self.dirty(inode_page(file.inode), true);
        for &page in &file.pages {
            self.cache.forget(page);
            self.groups[(page / GROUP_PAGES) as usize].release(page % GROUP_PAGES);
            self.dirty(block_bitmap(page / GROUP_PAGES), true);
        }
        if self.discards {
            self.plan.push(Stage::Leave(merge(Operation::Discard, &file.pages)));
        }
        self.groups[(file.inode / GROUP_INODES) as usize].free_inodes.insert(file.inode % GROUP_INODES);
        let place = &mut self.directories[file.directory.0];
        place.entries -= 1;
        place.free_entries.insert(file.entry);
        self.write_entry(file.directory, file.entry);
    }

    /// Makes a file durable.
    pub(super) fn fsync(&mut self, id: FileId) {
        let pages: Vec<u64> =
            self.file(id).pages.iter().copied().filter(|page| self.cache.is_dirty(*page)).collect();
        self.write_through(&pages);
        match self.mount {
            Mount::Sync => {
                let inode = inode_page(self.file(id).inode);
                self.write_through(&[inode]);
                self.plan.flush();
            }
            Mount::Journal if self.running.is_empty() => self.plan.flush(),
            Mount::Journal => self.commit(),
        }
    }

    /// Writes everything back, as unmounting does.
    pub(super) fn sync(&mut self) {
        if self.mount == Mount::Journal && !self.running.is_empty() {
            let dirty = self.cache.take_dirty(None);
            let (metadata, data): (Vec<u64>, Vec<u64>) =
                dirty.into_iter().partition(|page| self.running.contains(page));
            self.plan.wait(Operation::Write, &data);
            self.commit();
            self.plan.wait(Operation::Write, &metadata);
        } else {
            let dirty = self.cache.take_dirty(None);
            self.plan.wait(Operation::Write, &dirty);
        }
        self.plan.flush();
    }

    /// Forgets what is cached.
    pub(super) fn drop_caches(&mut self) {
        self.cache.drop_clean();
    }

    /// Performs the periodic work of the kernel's threads: writes old pages and the dirty pages above the
    /// background ratio. If `is_time`, it also commits the transaction.
    pub(super) fn wake_up(&mut self, is_time: bool) {
        if is_time && self.mount == Mount::Journal && !self.running.is_empty() {
            self.commit();
        }
        let before = self.now.as_ns().saturating_sub(AGE.as_ns());
        let mut old = self.cache.take_dirty(Some(Instant::from_ns(before)));
        if self.is_above(10) {
            let target = self.cache.capacity() / 10;
            old.extend(self.cache.take_some_dirty(self.cache.dirty_count() - target));
            old.sort_unstable();
        }
        self.plan.wait(Operation::Write, &old);
    }

    /// Returns true if more than `percent` percent of the cache is dirty. Above 10 percent the write-back
    /// thread is woken before its time.
    pub(super) fn is_above(&self, percent: usize) -> bool {
        self.cache.dirty_count() * 100 > self.cache.capacity() * percent
    }

    /// Lookups in the page cache that hit, and that missed.
    pub(super) const fn lookups(&self) -> (u64, u64) {
        self.cache.lookups()
    }

    /// Adds pages to what the next group commit writes.
    pub(super) fn log(&mut self, pages: Vec<u64>) {
        self.log.extend(pages);
    }

    /// Writes the log and flushes it. A page that is not full yet is written again by the next commit.
    pub(super) fn write_log(&mut self) {
        let pages: Vec<u64> = std::mem::take(&mut self.log).into_iter().collect();
        self.plan.wait(Operation::Write, &pages);
        self.plan.flush();
    }

    fn file(&self, id: FileId) -> &File {
        self.files[id.0].as_ref().expect("the file exists")
    }

    fn file_mut(&mut self, id: FileId) -> &mut File {
        self.files[id.0].as_mut().expect("the file exists")
    }

    fn write_entry(&mut self, directory: DirectoryId, entry: u64) {
        let page = self.directories[directory.0].pages[(entry / ENTRIES_PER_PAGE) as usize];
        self.dirty(page, true);
        if self.mount == Mount::Sync {
            self.write_through(&[page]);
        }
    }

    /// Reads what of the pages is not cached.
    fn bring(&mut self, pages: &[u64]) {
        let missing: Vec<u64> = pages.iter().copied().filter(|page| !self.cache.lookup(*page)).collect();
        for &page in &missing {
            self.keep(page, None);
        }
        self.plan.wait(Operation::Read, &missing);
    }

    fn dirty(&mut self, page: u64, is_metadata: bool) {
        if is_metadata && self.mount == Mount::Journal {
            self.running.insert(page);
        }
        self.keep(page, Some(self.now));
    }

    fn keep(&mut self, page: u64, dirty: Option<Instant>) {
        if let Some(evicted) = self.cache.insert(page, dirty) {
            self.plan.wait(Operation::Write, &[evicted]);
        }
    }

    fn write_through(&mut self, pages: &[u64]) {
        pages.iter().for_each(|page| self.cache.clean(*page));
        self.plan.wait(Operation::Write, pages);
    }

    /// A process that dirties pages faster than they are written writes itself.
    fn throttle(&mut self) {
        if self.is_above(20) {
            let count = (self.cache.capacity() / 20).max(1);
            let pages = self.cache.take_some_dirty(count);
            self.plan.wait(Operation::Write, &pages);
        }
    }

    fn commit(&mut self) {
        let blocks = std::mem::take(&mut self.running).len() + 1;
        let mut pages = Vec::with_capacity(blocks);
        for _ in 0..=blocks {
            pages.push(self.journal[self.journal_at]);
            self.journal_at = (self.journal_at + 1) % self.journal.len();
        }
        let record = pages.pop().expect("there is one more than blocks");
        self.plan.wait(Operation::Write, &pages);
        self.plan.flush();
        self.plan.push(Stage::Wait(vec![Io { op: Operation::Write, fua: true, page: record, pages: 1 }]));
    }

    fn allocate_inode(&mut self, group: u64) -> Option<u64> {
        let count = self.groups.len() as u64;
        (0..count).map(|step| (group + step) % count).find_map(|group| {
            let place = &mut self.groups[group as usize];
            let index = place.free_inodes.pop_first().or_else(|| {
                (place.next_inode < GROUP_INODES).then(|| {
                    place.next_inode += 1;
                    place.next_inode - 1
                })
            })?;
            Some(group * GROUP_INODES + index)
        })
    }

    /// The first free page from `goal` on, in its group, else in the next group with any.
    fn allocate_page(&mut self, goal: u64) -> Option<u64> {
        let count = self.groups.len() as u64;
        let (first, from) = ((goal / GROUP_PAGES) % count, goal % GROUP_PAGES);
        (0..=count).find_map(|step| {
            let group = (first + step) % count;
            let page = self.groups[group as usize].take(if step == 0 { from } else { 0 })?;
            Some(group * GROUP_PAGES + page)
        })
    }
}

impl Group {
    fn new(pages: u64) -> Self {
        let mut group = Self {
            taken: vec![0; (GROUP_PAGES / 64) as usize],
            free_pages: pages - GROUP_META_PAGES,
            free_inodes: BTreeSet::new(),
            // The first eleven inodes of a file system are reserved; here, of every group.
            next_inode: 11,
        };
        for page in (0..GROUP_META_PAGES).chain(pages..GROUP_PAGES) {
            group.taken[(page / 64) as usize] |= 1 << (page % 64);
        }
        group
    }

    /// Takes the first free page from `from` on.
    fn take(&mut self, from: u64) -> Option<u64> {
        if self.free_pages == 0 {
            return None;
        }
        let first = from / 64;
        for word in first..GROUP_PAGES / 64 {
            let mask = if word == first { u64::MAX << (from % 64) } else { u64::MAX };
            let free = !self.taken[word as usize] & mask;
            if free != 0 {
                let bit = u64::from(free.trailing_zeros());
                self.taken[word as usize] |= 1 << bit;
                self.free_pages -= 1;
                return Some(word * 64 + bit);
            }
        }
        None
    }

    fn release(&mut self, page: u64) {
        let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
        assert!(self.taken[word] & bit != 0, "page {page} of a group was free already");
        self.taken[word] &= !bit;
        self.free_pages += 1;
    }
}

const fn block_bitmap(group: u64) -> u64 {
    group * GROUP_PAGES + SUPER_PAGES
}

const fn inode_bitmap(group: u64) -> u64 {
    group * GROUP_PAGES + SUPER_PAGES + 1
}

const fn inode_page(inode: u64) -> u64 {
    let group = inode / GROUP_INODES;
    group * GROUP_PAGES + SUPER_PAGES + 2 + inode % GROUP_INODES / INODES_PER_PAGE
}

/// The smallest device on which a file system fits.
pub(super) const CAPACITY_PAGES_MIN: u64 = 2 * GROUP_META_PAGES;

/// Bitmaps of the groups are kept in memory: 4 KiB for 128 MiB. Beyond this, the device's end is unused.
pub(super) const CAPACITY_PAGES_MAX: u64 = (1 << 40) / PAGE_BYTES;
