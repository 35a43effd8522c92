//! The page cache of Linux in front of the device: read-ahead, dirty limits, the flusher, plugging and tags.
//!
//! ```text
//! read ──▶ read-ahead ──┐                     ┌──▶ device (at most `tags` requests)
//! fault ─▶ read-around ─┤   runs of blocks    │
//! sync ─────────────────┼──▶ up to ───────────┤
//! flusher ─▶ plug ──────┘   `max_request`     └──▶ queue, in the order of submission
//!    ▲ age, amount, end
//! ```
//! # Scope and limits
//! - A page is a block of 4 KiB. Blocks of the file system have the same size.
//! - Absent: cgroups.
//!
//! # References
//! Linux 6.18, `mm/readahead.c`, `mm/filemap.c`, `mm/page-writeback.c`, `fs/fs-writeback.c`, `block/blk-mq.c`,
//! `block/blk-wbt.c`: the algorithms, not the code.

mod allocation;
mod balance;
mod direct;
mod flusher;
mod growing;
mod process;
mod read;
mod read_ahead;
mod throttle;
mod write;

use std::collections::VecDeque;
use std::sync::Arc;

use seeklab_core::{Arrival, Criticality, Instant, Operation, Reclassification, Request, RequestId};

pub(super) use self::balance::Writer;

use self::allocation::{NewMetadata, Pool};
use self::balance::Balance;
use self::direct::Transfers;
use self::flusher::Flusher;
use self::read_ahead::ReadAhead;
use self::throttle::Throttle;
use super::file_system::Journal;
use super::list::NONE;
use super::page_cache::FrameState;
use super::page_set::PageSet;
use super::process::{Next, Wait};
use super::profile::Settings;
use super::recorded::{CachedPages, RecordedExtent, RecordedFile, RecordedPool, RecordedThread};
use super::recorded_steps::StepWindow;
use super::{Host, PAGE_BYTES, SYNCER};

/// Number of the file that stands for the device: its blocks are metadata.
const METADATA: u32 = 0;

/// Queues of those who wait for a tag: `SBQ_WAIT_QUEUES` of the kernel. A share of the tags is free when one is woken.
const WAIT_QUEUES: u32 = 8;
/// Completions at most until one queue is woken: `SBQ_WAKE_BATCH`.
const WAKE_BATCH_MAX: u32 = 8;

/// A file.
#[derive(Debug, Clone)]
struct LinuxFile {
    /// Number of its first block among the blocks of all files.
    first_page: u64,
    recorded: Arc<RecordedFile>,
    read_ahead: ReadAhead,
    /// True if a process has announced that it will read the file in order.
    is_sequential: bool,
    /// Time since which the file has been dirty. `None` if it is clean.
    dirty_since: Option<Instant>,
    /// Blocks of each file, if it stands for several.
    each_pages: u64,
}

/// A file, as a description or a recording has it.
#[derive(Debug, Clone)]
pub(super) struct LinuxFileSource {
    pub(super) recorded: Arc<RecordedFile>,
    /// Blocks of each file, if it stands for several.
    pub(super) each_pages: u64,
}

/// A thread that others may wait for.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// Steps that it has done.
    done: u32,
    has_started: bool,
    has_ended: bool,
    /// Threads that wait: the number of steps, and the process.
    waiting: Vec<(u32, u32)>,
    /// Steps around the next one.
    window: StepWindow,
}

impl Progress {
    fn has_done(&self, steps: u32) -> bool {
        self.has_ended || self.done >= steps
    }
}

/// State of a host that runs Linux.
#[derive(Debug, Clone)]
pub(super) struct Linux {
    files: Vec<LinuxFile>,
    /// The number behind the last block among those of all files.
    end_page: u64,
    /// Blocks for new data, by number.
    pools: Vec<Pool>,
    new_metadata: NewMetadata,
    threads: Arc<[RecordedThread]>,
    progress: Vec<Progress>,
    /// Dirty blocks, also those that are being written and became dirty again.
    dirty_pages: PageSet,
    flusher: Flusher,
    /// Asynchronous transfers past the page cache.
    transfers: Transfers,
    /// Requests that wait for a tag.
    queued: VecDeque<Request>,
    /// Requests that the device has.
    tags_used: u32,
    /// Requests that completed since the last batch of wake-ups, while others waited.
    tags_freed: u32,
    /// True if the flusher waits for a tag.
    is_flusher_waiting: bool,
    throttle: Throttle,
    balance: Balance,
    /// The journal of a recording.
    pub(super) journal: Option<Journal>,
    /// True if the flusher waits because writeback is throttled.
    is_flusher_throttled: bool,
    /// Dirty blocks without a place that were discarded: their file was deleted before it was written.
    pub(super) discarded_blocks: u64,
}

/// Blocks on the device that one request transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// First and last frame of the chain.
    first: u32,
    last: u32,
    address: u64,
    pages: u64,
    /// Parts of the memory of the machine in which the frames lie.
    segments: u32,
    class: Criticality,
}

impl Run {
    const fn new(frame: u32, address: u64, class: Criticality) -> Self {
        Self { first: frame, last: frame, address, pages: 1, segments: 1, class }
    }
}

impl Linux {
    /// The files of a recording on a device of `device_pages`.
    pub(super) fn new(
        files: impl Iterator<Item = LinuxFileSource>,
        threads: Vec<RecordedThread>,
        pools: Vec<RecordedPool>,
        new_metadata: Vec<RecordedPool>,
        cached_metadata: Vec<CachedPages>,
        device_pages: u64,
        settings: &Settings,
    ) -> Self {
        let device = RecordedExtent { first: 0, address: 0, pages: device_pages };
        let metadata = RecordedFile {
            pages: device_pages,
            extents: vec![device],
            cached: cached_metadata,
            ..RecordedFile::default()
        };
        let mut first_page = 0;
        let metadata = LinuxFileSource { recorded: Arc::new(metadata), each_pages: u64::MAX };
        let files: Vec<LinuxFile> = std::iter::once(metadata)
            .chain(files)
            .map(|source| {
                let LinuxFileSource { recorded, each_pages } = source;
                let file = LinuxFile {
                    first_page,
                    recorded,
                    read_ahead: ReadAhead::default(),
                    is_sequential: false,
                    dirty_since: None,
                    each_pages,
                };
                first_page += file.recorded.pages;
                file
            })
            .collect();
        Self {
            files,
            end_page: first_page,
            pools: pools.into_iter().map(Pool::new).collect(),
            new_metadata: NewMetadata::new(new_metadata),
            progress: vec![Progress::default(); threads.len()],
            threads: threads.into(),
            dirty_pages: PageSet::default(),
            flusher: Flusher::default(),
            transfers: Transfers::default(),
            queued: VecDeque::new(),
            tags_used: 0,
            tags_freed: 0,
            is_flusher_waiting: false,
            throttle: Throttle::new(settings.writeback_throttling, settings.tags),
            balance: Balance::new(settings),
            journal: None,
            is_flusher_throttled: false,
            discarded_blocks: 0,
        }
    }

    /// Number of the block among those of all files.
    fn page(&self, file: u32, index: u64) -> u64 {
        self.files[file as usize].first_page + index
    }

    /// Returns true if a block is metadata.
    pub(super) fn is_metadata(&self, page: u64) -> bool {
        page < self.files[METADATA as usize].recorded.pages
    }

    /// The file of a block.
    fn file_of(&self, page: u64) -> u32 {
        self.files.partition_point(|file| file.first_page <= page) as u32 - 1
    }

    /// Address on the device of a block, and the number of blocks that follow it there. `None` of a hole, and of a block that gets its
    /// place when it is first written.
    fn place(&self, page: u64) -> Option<(u64, u64)> {
        let file = &self.files[self.file_of(page) as usize];
        let index = page - file.first_page;
        if file.recorded.is_unallocated(index) { None } else { file.recorded.place(index) }
    }

    /// The block behind the last of the file that holds a block.
    fn end_of_file(&self, file: u32, index: u64) -> u64 {
        let file = &self.files[file as usize];
        let end = (index / file.each_pages).saturating_add(1).saturating_mul(file.each_pages);
        end.min(file.recorded.pages)
    }

    /// Blocks that are in memory at the start and dirty, or clean.
    pub(super) fn cached_pages(&self, is_dirty: bool) -> impl Iterator<Item = u64> {
        self.files.iter().flat_map(move |file| {
            let (first_page, pages) = (file.first_page, file.recorded.pages);
            let whole = (file.recorded.is_cached && !is_dirty).then_some(first_page..first_page + pages);
            let parts = file.recorded.cached.iter().filter(move |part| part.is_dirty == is_dirty);
            let parts = parts.map(move |part| {
                let (first, end) = (part.first.min(pages), part.first.saturating_add(part.pages).min(pages));
                first_page + first..first_page + end
            });
            whole.into_iter().chain(parts).flatten()
        })
    }
}

impl Host {
    fn linux(&self) -> &Linux {
        self.linux.as_deref().expect("a host with recorded programs has files")
    }

    fn linux_mut(&mut self) -> &mut Linux {
        self.linux.as_deref_mut().expect("a host with recorded programs has files")
    }

    /// Issues one request for the frames of a run.
    fn issue_run(&mut self, pid: u32, run: Run, op: Operation) {
        let per_page = PAGE_BYTES / self.block_bytes;
        let mut frame = run.first;
        let mut class = run.class;
        while frame != NONE {
            let held = self.cache.frame(frame);
            if held.waiting.len > 0 {
                class = Criticality::TimeCritical;
            }
            frame = held.chain;
        }
        let owner = super::criticality::Owner::Frame(run.first);
        let request = Request::new(0, op, run.address * per_page, (run.pages * per_page) as u32);
        let number = self.issue(pid, owner, class, request);
        let is_read_ahead = op == Operation::Read && run.class == Criticality::TimeLimited;
        let now = self.now;
        let mut frame = run.first;
        while frame != NONE {
            let held = self.cache.frame_mut(frame);
            held.request = Some(number);
            if is_read_ahead {
                held.ahead_since = Some(now);
            }
            frame = held.chain;
        }
    }

    /// Hands a request to the device, or lets it wait for a tag.
    pub(super) fn send(&mut self, request: Request) {
        let tags = self.settings.tags;
        if let Some(linux) = &mut self.linux {
            linux.throttle.issue(request.id.0, request.op, request.initiator == SYNCER, self.now);
        }
        match &mut self.linux {
            Some(linux) if linux.tags_used >= tags => linux.queued.push_back(request),
            Some(linux) => {
                linux.tags_used += 1;
                self.arrivals.push_back(Arrival::Request(request));
            }
            None => self.arrivals.push_back(Arrival::Request(request)),
        }
    }

    /// Makes an incomplete request time-critical: at the device, or where it waits for a tag.
    pub(super) fn make_critical(&mut self, number: u64) {
        let (id, criticality) = (RequestId(number), Criticality::TimeCritical);
        let queued = self.linux.as_mut().map(|linux| &mut linux.queued);
        match queued.and_then(|queued| queued.iter_mut().find(|request| request.id == id)) {
            Some(request) => request.criticality = criticality,
            None => self.arrivals.push_back(Arrival::Reclassification(Reclassification {
                id,
                device: 0,
                criticality,
            })),
        }
    }

    /// A request is complete: its tag is free.
    pub(super) fn free_tag(&mut self) {
        let Some(linux) = &mut self.linux else { return };
        linux.tags_used -= 1;
        // The kernel wakes those who wait for a tag in batches.
        let batch = (self.settings.tags / WAIT_QUEUES).clamp(1, WAKE_BATCH_MAX);
        let is_awaited = linux.is_flusher_waiting || !linux.queued.is_empty();
        linux.tags_freed = if is_awaited { linux.tags_freed + 1 } else { 0 };
        if linux.tags_freed >= batch || linux.tags_used == 0 {
            linux.tags_freed = 0;
            while linux.tags_used < self.settings.tags
                && let Some(request) = linux.queued.pop_front()
            {
                linux.tags_used += 1;
                self.arrivals.push_back(Arrival::Request(request));
            }
            if linux.tags_used < self.settings.tags && std::mem::take(&mut linux.is_flusher_waiting) {
                self.wake_syncer();
            }
        }
    }

    /// Adds a frame to a run, if its block follows. Otherwise returns the run that begins with it.
    fn extend(&mut self, run: &mut Run, frame: u32, address: u64) -> bool {
        let segments = run.segments + u32::from(self.cache.frame(frame).begins_segment);
        let has_room = run.pages < self.settings.max_pages && segments <= self.settings.max_segments;
        if run.address + run.pages != address || !has_room {
            return false;
        }
        self.cache.frame_mut(run.last).chain = frame;
        (run.last, run.segments) = (frame, segments);
        run.pages += 1;
        true
    }

    /// Joins two runs of which one follows the other on the device, as far as one request can hold them.
    fn join(&mut self, first: &Run, second: &Run) -> Option<Run> {
        let (pages, segments) = (first.pages + second.pages, first.segments + second.segments);
        if pages > self.settings.max_pages || segments > self.settings.max_segments {
            return None;
        }
        let (front, back) = if first.address + first.pages == second.address {
            (first, second)
        } else if second.address + second.pages == first.address {
            (second, first)
        } else {
            return None;
        };
        self.cache.frame_mut(front.last).chain = back.first;
        Some(Run {
            first: front.first,
            last: back.last,
            address: front.address,
            pages,
            segments,
            class: first.class,
        })
    }

    /// A block becomes dirty. Returns true if it was not before.
    pub(super) fn dirty(&mut self, frame: u32) -> bool {
        let (page, state) = {
            let held = self.cache.frame(frame);
            (held.page, held.state)
        };
        let is_new = match state {
            FrameState::Writing => {
                !std::mem::replace(&mut self.cache.frame_mut(frame).is_dirtied_again, true)
            }
            FrameState::Dirty => return false,
            _ => {
                self.cache.set_state(frame, FrameState::Dirty);
                true
            }
        };
        let linux = self.linux_mut();
        linux.dirty_pages.insert(page);
        let file = linux.file_of(page);
        linux.allocate(file, page - linux.files[file as usize].first_page);
        self.queue_file(file);
        is_new
    }

    /// A block that changed while it was being written is dirty from now on.
    pub(super) fn queue_again(&mut self, frame: u32) {
        let file = self.linux().file_of(self.cache.frame(frame).page);
        self.queue_file(file);
        if self.alive == 0 {
            self.wake_syncer();
        }
    }

    /// Puts a file with dirty blocks into the flusher's queue.
    fn queue_file(&mut self, number: u32) {
        let now = self.now;
        let linux = self.linux_mut();
        let file = &mut linux.files[number as usize];
        if file.dirty_since.is_none() {
            file.dirty_since = Some(now);
            linux.flusher.push(number);
            self.arm_flusher();
        }
    }

    /// Returns true if the processes do the steps of a recording.
    pub(super) fn is_recorded(&self) -> bool {
        self.linux.as_ref().is_some_and(|linux| !linux.threads.is_empty())
    }

    /// Waits for memory: a frame that is neither free nor clean exists.
    fn await_memory(&mut self, pid: u32) -> Next {
        self.linux_mut().flusher.request();
        self.wake_syncer();
        self.links.push_back(&mut self.lists.memory, pid);
        Next::Wait(Wait::Memory)
    }
}
