//! Classes of the requests that a device has, from the events of its host.
//!
//! By [`ClassRule::Flags`], a request has the class that its flags say when it is issued. By [`ClassRule::Waits`], it
//! becomes time-critical when a thread sleeps on it. The kernel does not record on which request a thread sleeps. This is
//! concluded from the last trace that the thread left on the device before it slept:
//!
//! | last trace | the thread sleeps on |
//! | --- | --- |
//! | it submitted requests | the first of them: a read-ahead begins with the page that is needed. Synchronous writes and reads without read-ahead: all of them |
//! | it looked up a block of metadata | the request of this block |
//! | it reads a range of a file | the request of the first pending page of this range |
//! | it accesses a mapped page, or waits for the writeback of a page | the request of this page |
//! | it was throttled, as too much is dirty | any write: those that are pending become time-limited |
//!
//! If the request is a write, all pending synchronous writes of the thread become time-critical, for it waits for all of
//! them. If nothing of this is pending, the thread sleeps on something else, such as a lock, and no class changes.
//!
//! # Scope and limits
//! - The places of file pages come from events of the ext4 driver. With other file systems, a page has no known place,
//!   and the thread sleeps on the first of the requests that it submitted last, or on its first pending write.
//! - Threads that sleep interruptibly (as in `io_getevents`) wait for no request here.
//! - A kernel thread that sleeps on a request, such as that of a journal, counts as a process that waits.

use std::collections::{BTreeMap, VecDeque};

use seeklab_core::{Criticality, Operation};

use super::{ClassNotice, ClassRule, WaitCounts};
use crate::event::pairing::SECTOR_BYTES;

/// Requests, threads and extents that are remembered at most.
const PENDING_MAX: usize = 1 << 16;
const THREADS_MAX: usize = 1 << 14;
const EXTENTS_MAX: usize = 1 << 17;
/// Pages of a range that a thread may sleep on.
const PAGES_MAX: u64 = 256;
/// Size of the pages that file offsets are counted in.
const PAGE_BYTES: u64 = 4096;

/// Flags of a request, from the letters of the kernel's `blk_fill_rwbs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flags {
    pub(super) read_ahead: bool,
    /// Somebody waits, or the data must be durable when it completes.
    pub(super) synchronous: bool,
    pub(super) metadata: bool,
}

impl Flags {
    /// Reads letters such as `RA`, `WSM` or `FWFS`, ended by a zero.
    pub(super) fn of(letters: &[u8]) -> Self {
        let length = letters.iter().position(|byte| *byte == 0).unwrap_or(letters.len());
        let letters = &letters[..length];
        let has_preflush = letters.len() > 1 && letters[0] == b'F' && letters[1] != b'F';
        let flags = letters.get(1 + usize::from(has_preflush)..).unwrap_or_default();
        Self {
            read_ahead: flags.contains(&b'A'),
            synchronous: has_preflush || flags.contains(&b'S') || flags.contains(&b'F'),
            metadata: flags.contains(&b'M'),
        }
    }
}

/// Event of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostEvent {
    pub(super) time_ns: u64,
    pub(super) thread: u32,
    pub(super) what: What,
}

/// Content of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A request goes to the driver (by flags), or a bio to the block layer (by waits).
    Submitted { op: Operation, sector: u64, sectors: u64, flags: Flags },
    /// A request is complete, or a part of it.
    Completed { op: Operation, sector: u64, sectors: u64 },
    /// The thread looks up a block of metadata.
    Buffer { sector: u64, bytes: u64 },
    /// The thread reads pages of a file.
    Pages { inode: u64, first: u64, last: u64 },
    /// The thread needs a page of a file.
    Page { inode: u64, page: u64 },
    /// The thread needs the end of the writeback of a page.
    Written { inode: u64, page: u64 },
    /// The thread has made too much dirty, and will sleep.
    Throttled,
    /// The place of a part of a file, in blocks of the file system.
    Extent { inode: u64, file_block: u64, device_block: u64, blocks: u64 },
    /// The thread sleeps, and no signal ends this.
    Slept,
}

/// A request that the device has, or will have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pending {
    op: Operation,
    /// Sectors.
    start: u64,
    end: u64,
    flags: Flags,
    thread: u32,
    /// Number of the requests that the thread submitted together.
    batch: u64,
    class: Criticality,
}

impl Pending {
    const fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }
}

/// Last trace of a thread on the device, other than a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Sectors { start: u64, end: u64 },
    Pages { inode: u64, first: u64, last: u64 },
    Written { inode: u64, page: u64 },
    Fewer,
}

/// A thread that has left a trace on the device.
#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    batch: u64,
    /// Number of the event by which it last submitted something.
    submitted: u64,
    /// Number of the event of its last need, and the need.
    needed: u64,
    need: Option<Need>,
    /// Number of the event by which it last slept.
    slept: u64,
}

/// Request on which a thread sleeps.
enum Sleeps {
    On(usize),
    /// On any write.
    Throttled,
    Elsewhere,
}

/// Classes of the requests of one device.
#[derive(Debug)]
pub(super) struct Classifier {
    rule: ClassRule,
    /// Number of the device, which is the inode of its own pages.
    device: u64,
    /// In order of submission.
    pending: VecDeque<Pending>,
    threads: BTreeMap<u32, Thread>,
    /// First device block and number of blocks, by inode and first file block.
    extents: BTreeMap<(u64, u64), (u64, u64)>,
    /// Size of a block of the file system.
    block_bytes: u64,
    /// Events so far.
    events: u64,
    counts: WaitCounts,
}

impl Classifier {
    /// Classes by `rule` of the requests of the device with that number.
    pub(super) const fn new(rule: ClassRule, device: u64) -> Self {
        Self {
            rule,
            device,
            pending: VecDeque::new(),
            threads: BTreeMap::new(),
            extents: BTreeMap::new(),
            block_bytes: PAGE_BYTES,
            events: 0,
            counts: WaitCounts { attributed: 0, throttled: 0, other: 0 },
        }
    }

    /// Sleeps of threads that have left a trace on the device.
    pub(super) const fn counts(&self) -> WaitCounts {
        self.counts
    }

    /// Takes an event. `notify` receives the changes of class that follow from it.
    pub(super) fn push(&mut self, event: &HostEvent, notify: &mut impl FnMut(ClassNotice)) {
        self.events += 1;
        match event.what {
            What::Submitted { op, sector, sectors, flags } => {
                self.submit(event.thread, op, sector..sector.saturating_add(sectors), flags);
            }
            What::Completed { op, sector, sectors } => {
                let end = sector.saturating_add(sectors);
                self.pending.retain(|pending| {
                    pending.op != op
                        || op != Operation::Flush && !(sector < pending.end && pending.end <= end)
                });
            }
            What::Buffer { sector, bytes } => {
                self.block_bytes = bytes.clamp(SECTOR_BYTES, 1 << 20);
                let end = sector.saturating_add(bytes.div_ceil(SECTOR_BYTES));
                self.need(event.thread, Need::Sectors { start: sector, end });
            }
            What::Pages { inode, first, last } => {
                // The thread has the first page. The next one that it reads may lie behind the range.
                let last = last.saturating_add(1).min(first.saturating_add(PAGES_MAX));
                self.need(event.thread, Need::Pages { inode, first, last });
            }
            What::Page { inode, page } => {
                self.need(event.thread, Need::Pages { inode, first: page, last: page });
            }
            What::Written { inode, page } => self.need(event.thread, Need::Written { inode, page }),
            What::Throttled => self.need(event.thread, Need::Fewer),
            What::Extent { inode, file_block, device_block, blocks } => {
                if self.extents.len() >= EXTENTS_MAX {
                    self.extents.clear();
                }
                self.extents.insert((inode, file_block), (device_block, blocks));
            }
            What::Slept => self.sleep(event, notify),
        }
    }

    /// Class of a request that arrives at the device.
    pub(super) fn class(&self, op: Operation, offset_bytes: u64, length_bytes: u64) -> Criticality {
        let start = offset_bytes / SECTOR_BYTES;
        let end = offset_bytes.saturating_add(length_bytes).div_ceil(SECTOR_BYTES);
        let its = self
            .pending
            .iter()
            .filter(|pending| pending.op == op && (op == Operation::Flush || pending.overlaps(start, end)));
        its.map(|pending| pending.class).min().unwrap_or(self.rule.class_of_operation(op))
    }

    fn submit(&mut self, thread: u32, op: Operation, sectors: std::ops::Range<u64>, flags: Flags) {
        let events = self.events;
        let batch = self.thread(thread).map_or(0, |known| {
            if known.needed > known.submitted || known.slept > known.submitted {
                known.batch = events;
            }
            known.submitted = events;
            known.batch
        });
        if self.pending.len() >= PENDING_MAX {
            self.pending.pop_front();
        }
        let class = self.rule.class(op, flags);
        let (start, end) = (sectors.start, sectors.end);
        self.pending.push_back(Pending { op, start, end, flags, thread, batch, class });
    }

    /// The state of a thread; `None` if threads do not matter.
    fn thread(&mut self, thread: u32) -> Option<&mut Thread> {
        if self.rule == ClassRule::Flags {
            return None;
        }
        if self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&thread) {
            self.threads.clear();
        }
        Some(self.threads.entry(thread).or_default())
    }

    fn need(&mut self, thread: u32, need: Need) {
        let events = self.events;
        if let Some(thread) = self.thread(thread) {
            (thread.needed, thread.need) = (events, Some(need));
        }
    }

    fn sleep(&mut self, event: &HostEvent, notify: &mut impl FnMut(ClassNotice)) {
        let Some(known) = self.threads.get_mut(&event.thread) else { return };
        known.slept = self.events;
        let thread = *known;
        // A throttled thread sleeps once for each event that says so.
        known.need = known.need.filter(|need| *need != Need::Fewer);
        match self.sleeps_on(event.thread, &thread) {
            Sleeps::Elsewhere => self.counts.other += 1,
            Sleeps::Throttled => {
                self.counts.throttled += 1;
                self.raise(event.time_ns, Criticality::TimeLimited, notify, |pending| {
                    pending.op == Operation::Write
                });
            }
            Sleeps::On(index) => {
                self.counts.attributed += 1;
                let slept_on = self.pending[index];
                self.raise(event.time_ns, Criticality::TimeCritical, notify, |pending| {
                    let is_own = pending.thread == event.thread;
                    *pending == slept_on
                        || is_own
                            && match slept_on.op {
                                Operation::Read => {
                                    pending.batch == slept_on.batch
                                        && pending.op == Operation::Read
                                        && !pending.flags.read_ahead
                                }
                                _ => pending.op != Operation::Read && pending.flags.synchronous,
                            }
                });
            }
        }
    }

    fn sleeps_on(&self, number: u32, thread: &Thread) -> Sleeps {
        let on_submitted = || {
            self.pending.iter().position(|pending| {
                pending.thread == number
                    && pending.batch == thread.batch
                    && (pending.op == Operation::Read || pending.flags.synchronous)
            })
        };
        if thread.needed < thread.submitted
            && let Some(index) = on_submitted()
        {
            return Sleeps::On(index);
        }
        let on = |start: u64, end: u64| self.pending.iter().position(|pending| pending.overlaps(start, end));
        let found = match thread.need {
            None => None,
            Some(Need::Fewer) => return Sleeps::Throttled,
            Some(Need::Sectors { start, end }) => on(start, end),
            Some(Need::Pages { inode, first, last }) => {
                let mut is_known = false;
                let found = (first..=last).find_map(|page| {
                    let (start, end) = self.sectors(inode, page)?;
                    is_known = true;
                    on(start, end)
                });
                if is_known { found } else { on_submitted() }
            }
            Some(Need::Written { inode, page }) => match self.sectors(inode, page) {
                Some((start, end)) => on(start, end),
                None => self
                    .pending
                    .iter()
                    .position(|pending| pending.thread == number && pending.op == Operation::Write),
            },
        };
        found.map_or(Sleeps::Elsewhere, Sleeps::On)
    }

    /// Sectors that hold a page of a file, or the beginning of it.
    fn sectors(&self, inode: u64, page: u64) -> Option<(u64, u64)> {
        if inode == self.device {
            let start = page.checked_mul(PAGE_BYTES / SECTOR_BYTES)?;
            return Some((start, start.checked_add(PAGE_BYTES / SECTOR_BYTES)?));
        }
        let block = page.checked_mul(PAGE_BYTES)? / self.block_bytes;
        let (&(found, first), &(device_block, blocks)) = self.extents.range(..=(inode, block)).next_back()?;
        let within = block.checked_sub(first).filter(|within| found == inode && *within < blocks)?;
        let start = device_block.checked_add(within)?.checked_mul(self.block_bytes)? / SECTOR_BYTES;
        Some((start, start.checked_add(PAGE_BYTES.min(self.block_bytes) / SECTOR_BYTES)?))
    }

    /// Makes the chosen requests more pressing.
    fn raise(
        &mut self,
        time_ns: u64,
        criticality: Criticality,
        notify: &mut impl FnMut(ClassNotice),
        is_chosen: impl Fn(&Pending) -> bool,
    ) {
        for pending in self.pending.iter_mut().filter(|pending| is_chosen(pending)) {
            if criticality < pending.class {
                pending.class = criticality;
                notify(ClassNotice {
                    time_ns,
                    op: pending.op,
                    offset_bytes: pending.start.saturating_mul(SECTOR_BYTES),
                    length_bytes: (pending.end - pending.start).saturating_mul(SECTOR_BYTES),
                    criticality,
                });
            }
        }
    }
}

impl ClassRule {
    /// Class of a request of which nothing but its operation is known.
    pub fn class_of_operation(self, op: Operation) -> Criticality {
        self.class(op, Flags::default())
    }

    /// Class of a request when it is submitted.
    fn class(self, op: Operation, flags: Flags) -> Criticality {
        use Criticality::{TimeCritical, TimeLimited, TimeNoncritical};
        match (op, self) {
            (Operation::Flush, _) => TimeCritical,
            (Operation::Read, Self::Flags) if !flags.read_ahead => TimeCritical,
            (Operation::Read, _) => TimeLimited,
            (_, Self::Flags) if flags.synchronous => TimeCritical,
            (_, Self::Flags) if flags.metadata => TimeLimited,
            _ => TimeNoncritical,
        }
    }
}
