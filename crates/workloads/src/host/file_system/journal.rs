//! The journal of a file system: a process of the system that commits transactions.
//!
//! ```text
//! running transaction ──5 s, or fsync──▶ descriptor and metadata ▸ flush ▸ commit block (FUA) ▸ discards ──▶ durable
//!        ▲ metadata that changes                                                     blocks are free again ◀──┘
//! ```
//! The journal of a recording has the blocks that the trace names. Its transactions know how many blocks changed, and not which.
//!
//! # Scope and limits
//! - Data are not written by a commit: they get their place when they are written back, as with delayed allocation. A
//!   synchronisation writes the data of its file first.
//! - No checkpoint stalls: the journal never waits for metadata that are not in their place.
//! - Metadata of the running transaction may be written to their place before the commit.
//!
//! # References
//! Documentation of Linux, filesystems/ext4/journal: commits every 5 s. mke2fs(8): 64 MiB for a file system below 32 GiB, in
//! the middle of the device.

use seeklab_core::{Criticality, Duration, Instant, Operation};

use crate::host::action::{Action, Direct, Plan};
use crate::host::page_set::PageSet;
use crate::host::process::{Next, State, Wait};
use crate::host::recorded::RecordedExtent;
use crate::host::{Host, JOURNAL};

/// mke2fs gives file systems below 32 GiB a journal of at most 64 MiB.
pub(super) const JOURNAL_PAGES: u64 = 16_384;

/// Time after which a transaction is committed.
const COMMIT_INTERVAL: Duration = Duration::from_s(5);

/// State of a journal.
#[derive(Debug, Clone, Default)]
pub(in crate::host) struct Journal {
    /// Its blocks on the device.
    pages: Vec<u64>,
    /// The next block of it to write.
    at: usize,
    /// Metadata of the running transaction, and their number.
    running: PageSet,
    running_count: usize,
    /// Number of the running transaction.
    number: u64,
    /// True while the transaction before it is being committed.
    is_committing: bool,
    /// True if the running transaction shall be committed.
    is_requested: bool,
    /// Time at which the running transaction is committed.
    due: Option<Instant>,
    /// Processes that wait for a transaction: its number, and the process.
    waiting: Vec<(u64, u32)>,
    /// Blocks that the running transaction freed, and those of the transaction that is being committed.
    freed: Vec<RecordedExtent>,
    freeing: Vec<RecordedExtent>,
}

impl Journal {
    /// An empty journal on these blocks.
    pub(in crate::host) fn new(pages: Vec<u64>) -> Self {
        Self { pages, ..Self::default() }
    }

    /// A block of metadata changes.
    pub(super) fn add(&mut self, page: u64, now: Instant) {
        if self.running.next(page, page + 1).is_some() {
            return;
        }
        self.running.insert(page);
        self.running_count += 1;
        self.due.get_or_insert(now + COMMIT_INTERVAL);
    }

    /// Blocks of metadata change that the running transaction did not have.
    pub(in crate::host) fn add_blocks(&mut self, blocks: u32, now: Instant) {
        // A transaction of the kernel has a quarter of the journal at most.
        let most = (self.pages.len() / 4).max(1);
        self.running_count = self.running_count.saturating_add(blocks as usize).min(most);
        self.due.get_or_insert(now + COMMIT_INTERVAL);
    }

    /// Blocks are free once the running transaction is durable.
    pub(super) fn free(&mut self, extent: RecordedExtent) {
        self.freed.push(extent);
    }

    /// A part of what the running transaction freed, for a device that is full.
    pub(super) fn take_freed(&mut self) -> Option<RecordedExtent> {
        self.freed.pop()
    }

    /// Plans the commit of the running transaction. False if there is no reason for one.
    fn plan(&mut self, plan: &mut Plan, discards: bool, has_fua: bool) -> bool {
        if !std::mem::take(&mut self.is_requested) || self.running_count == 0 {
            return false;
        }
        let is_awaited = self.waiting.iter().any(|(number, _)| *number <= self.number);
        let class = if is_awaited { Criticality::TimeCritical } else { Criticality::TimeLimited };
        let direct = |op, address, fua| Action::Submit(Direct { op, address, pages: 1, fua, class });
        // A descriptor and the metadata.
        for _ in 0..=self.running_count {
            let page = self.next_page();
            plan.push(direct(Operation::Write, page, false));
        }
        plan.push(Action::Await);
        plan.push(Action::Flush);
        let page = self.next_page();
        plan.push(direct(Operation::Write, page, true));
        plan.push(Action::Await);
        if !has_fua {
            plan.push(Action::Flush);
        }
        std::mem::swap(&mut self.freed, &mut self.freeing);
        plan.push(Action::Committed);
        if discards && !self.freeing.is_empty() {
            for extent in &self.freeing {
                plan.push(Action::discard(*extent, Criticality::TimeNoncritical));
            }
            plan.push(Action::Await);
        }
        plan.push(Action::ReleaseCommitted);
        let mut page = 0;
        while let Some(member) = self.running.next(page, u64::MAX) {
            self.running.remove(member);
            page = member + 1;
        }
        (self.running_count, self.due, self.is_committing) = (0, None, true);
        self.number += 1;
        true
    }

    fn next_page(&mut self) -> u64 {
        let page = self.pages[self.at];
        self.at = (self.at + 1) % self.pages.len();
        page
    }
}

impl Host {
    fn journal_mut(&mut self) -> Option<&mut Journal> {
        match &mut self.application {
            Some(application) => application.files.journal.as_mut(),
            None => self.linux.as_mut()?.journal.as_mut(),
        }
    }

    /// Metadata of a recording change: so many blocks that the running transaction did not have.
    pub(in crate::host) fn change_metadata(&mut self, blocks: u32) {
        let now = self.now;
        if let Some(journal) = self.journal_mut() {
            journal.add_blocks(blocks, now);
        }
    }

    /// Time at which the journal commits its running transaction.
    pub(in crate::host) fn commit_due(&self) -> Option<Instant> {
        let journal = match &self.application {
            Some(application) => &application.files.journal,
            None => &self.linux.as_ref()?.journal,
        };
        journal.as_ref()?.due
    }

    /// Commits the running transaction.
    pub(in crate::host) fn request_commit(&mut self) {
        let Some(journal) = self.journal_mut() else { return };
        (journal.due, journal.is_requested) = (None, true);
        if self.processes[JOURNAL as usize].state == State::Waiting(Wait::Time) {
            self.wake(JOURNAL);
        }
    }

    /// Waits until everything that changed before is durable in the journal. Returns true if there is nothing to wait for.
    pub(in crate::host) fn await_commit(&mut self, pid: u32) -> bool {
        let Some(journal) = self.journal_mut() else { return true };
        let number = match (journal.running_count, journal.is_committing) {
            (0, false) => return true,
            (0, true) => journal.number - 1,
            _ => journal.number,
        };
        journal.waiting.push((number, pid));
        let (has_running, is_committing) = (journal.running_count > 0, journal.is_committing);
        if has_running {
            self.request_commit();
        }
        if is_committing {
            for number in self.requests.numbers() {
                if self.requests.get_mut(number).is_some_and(|request| request.initiator == JOURNAL) {
                    self.await_request(number);
                }
            }
        }
        false
    }

    /// The transaction is durable: processes that waited for it go on.
    pub(in crate::host) fn end_commit(&mut self) {
        while let Some(journal) = self.journal_mut() {
            journal.is_committing = false;
            let last = journal.number - 1;
            let Some(index) = journal.waiting.iter().position(|(number, _)| *number <= last) else { return };
            let (_, pid) = journal.waiting.remove(index);
            self.wake(pid);
        }
    }

    /// The blocks that the transaction freed can be used again.
    pub(in crate::host) fn release_committed(&mut self) {
        let Some(application) = &mut self.application else { return };
        let files = &mut application.files;
        let Some(journal) = &mut files.journal else { return };
        for extent in journal.freeing.drain(..) {
            (extent.address..extent.address + extent.pages).for_each(|page| files.groups.release_page(page));
        }
    }

    /// The process of the journal has nothing planned: begins the next commit, or waits for a reason.
    pub(in crate::host) fn next_commit(&mut self) -> Next {
        let discards = self.application.as_ref().is_some_and(|application| application.files.discards);
        let has_fua = self.settings.has_fua;
        let mut plan = std::mem::take(&mut self.processes[JOURNAL as usize].plan);
        let is_planned = self.journal_mut().is_some_and(|journal| journal.plan(&mut plan, discards, has_fua));
        self.processes[JOURNAL as usize].plan = plan;
        if is_planned { Next::Continue } else { Next::Wait(Wait::Time) }
    }
}
