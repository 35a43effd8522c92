//! Transfers past the page cache (`O_DIRECT`), and the queues in which asynchronous ones end.
//!
//! ```text
//! thread ── Direct ──▶ what is dirty of the part is written; a write takes the part from memory ──▶ requests
//!        ◀── Reap ──── queue: transfers that are complete                                     ◀── completions
//! ```
//! A part that lies in several places is several requests. Places that follow each other are one request, up to `max_request`. Holes
//! of the file are not read.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use seeklab_core::{Criticality, Operation, Request};

use super::{Host, PAGE_BYTES};
use crate::host::criticality::Owner;
use crate::host::process::{Next, Wait};

/// Unit of the addresses of transfers.
const SECTOR_BYTES: u64 = 512;
const PAGE_SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES;
/// Position of a transfer whose requests have been issued.
const SUBMITTED: u64 = u64::MAX;

/// A part of a file, in sectors of 512 B.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) file: u32,
    pub(super) first: u64,
    pub(super) sectors: u32,
    pub(super) writes: bool,
    /// Queue in which the transfer ends. `None` if the thread waits for it.
    pub(super) queue: Option<NonZeroU32>,
}

/// Asynchronous transfers.
#[derive(Debug, Clone, Default)]
pub(super) struct Transfers {
    queues: BTreeMap<NonZeroU32, Queue>,
    under_way: Vec<Transfer>,
    /// Places in `under_way` that are free.
    free: Vec<u32>,
}

/// A queue in which transfers end.
#[derive(Debug, Clone, Default)]
struct Queue {
    /// Numbers of the requests that the device has.
    requests: Vec<u64>,
    under_way: u32,
    /// Transfers that are complete and have not been taken.
    complete: u32,
    has_failed: bool,
    /// True if the last transfer was a write.
    writes: bool,
    waiting: VecDeque<Waiting>,
}

/// A process that waits for transfers.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    transfers: u32,
    pid: u32,
    /// True if transfers were under way when it began to wait. Otherwise it waits for another process to submit them.
    is_for_device: bool,
}

/// An asynchronous transfer.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    queue: NonZeroU32,
    /// Requests that are not complete.
    requests: u32,
}

impl Transfers {
    /// Begins a transfer. Returns its number.
    fn begin(&mut self, queue: NonZeroU32, writes: bool) -> u32 {
        let state = self.queues.entry(queue).or_default();
        state.under_way += 1;
        state.writes = writes;
        let transfer = Transfer { queue, requests: 0 };
        match self.free.pop() {
            Some(number) => {
                self.under_way[number as usize] = transfer;
                number
            }
            None => {
                self.under_way.push(transfer);
                self.under_way.len() as u32 - 1
            }
        }
    }

    /// Takes note of a request of a transfer.
    fn add_request(&mut self, transfer: u32, number: u64) {
        let transfer = &mut self.under_way[transfer as usize];
        transfer.requests += 1;
        self.queues.entry(transfer.queue).or_default().requests.push(number);
    }

    /// A request of a transfer is complete. Returns the queue if the transfer is.
    fn complete_request(&mut self, transfer: u32, number: u64, is_ok: bool) -> Option<NonZeroU32> {
        let state = &mut self.under_way[transfer as usize];
        state.requests -= 1;
        let (queue, is_over) = (state.queue, state.requests == 0);
        let held = self.queues.entry(queue).or_default();
        held.requests.retain(|request| *request != number);
        held.has_failed |= !is_ok;
        is_over.then(|| self.end(transfer))
    }

    /// Ends a transfer. Returns its queue.
    fn end(&mut self, transfer: u32) -> NonZeroU32 {
        let queue = self.under_way[transfer as usize].queue;
        self.free.push(transfer);
        let state = self.queues.entry(queue).or_default();
        state.under_way -= 1;
        state.complete += 1;
        queue
    }

    /// Takes a waiting process from a queue, if it can go on: the process, and true if one of the transfers failed.
    fn take_waiting(&mut self, queue: NonZeroU32) -> Option<(u32, bool)> {
        let state = self.queues.get_mut(&queue)?;
        let Waiting { transfers, pid, is_for_device } = *state.waiting.front()?;
        let is_last = is_for_device && state.under_way == 0;
        if state.complete < transfers && !is_last {
            return None;
        }
        state.waiting.pop_front();
        state.complete = state.complete.saturating_sub(transfers);
        Some((pid, std::mem::take(&mut state.has_failed)))
    }
}

impl Host {
    /// A step of a transfer past the page cache.
    pub(super) fn direct_part(&mut self, pid: u32, part: Part, position: &mut u64) -> Next {
        if *position == SUBMITTED {
            return Next::Continue;
        }
        let Part { file, first, sectors, writes, queue } = part;
        let end = first.saturating_add(u64::from(sectors));
        let state = &self.linux().files[file as usize];
        let recorded_pages = state.recorded.pages;
        let (first_page, start) = (state.first_page, (first / PAGE_SECTORS).min(recorded_pages));
        let end_index = end.div_ceil(PAGE_SECTORS).min(recorded_pages);
        if self.cache.dirty_count() > 0 {
            let pages = first_page + start..first_page + end_index;
            let next = self.write_out(pid, pages, position);
            if next != Next::Continue {
                return next;
            }
        }
        *position = SUBMITTED;
        if writes {
            self.lose_blocks(file, start, end_index - start);
            for index in start..end_index {
                self.linux_mut().allocate(file, index);
            }
        }
        let op = if writes { Operation::Write } else { Operation::Read };
        let transfer = queue.map(|queue| self.linux_mut().transfers.begin(queue, writes));
        let recorded = Arc::clone(&self.linux().files[file as usize].recorded);
        let from = recorded.extents.partition_point(|extent| extent.first + extent.pages <= start);
        // First sector on the device, and number of sectors.
        let mut open: Option<(u64, u64)> = None;
        for extent in &recorded.extents[from..] {
            let begin = (extent.first * PAGE_SECTORS).max(first);
            let stop = ((extent.first + extent.pages) * PAGE_SECTORS).min(end);
            if begin >= stop {
                break;
            }
            let at = extent.address * PAGE_SECTORS + (begin - extent.first * PAGE_SECTORS);
            match &mut open {
                Some((sector, length)) if *sector + *length == at => *length += stop - begin,
                open => {
                    if let Some(run) = open.replace((at, stop - begin)) {
                        self.issue_direct(pid, op, run, transfer);
                    }
                }
            }
        }
        if let Some(run) = open {
            self.issue_direct(pid, op, run, transfer);
        }
        match transfer {
            Some(transfer) => {
                if self.linux().transfers.under_way[transfer as usize].requests == 0 {
                    let queue = self.linux_mut().transfers.end(transfer);
                    self.wake_reapers(queue);
                }
                Next::Continue
            }
            None if self.processes[pid as usize].outstanding == 0 => Next::Continue,
            None => Next::Wait(if writes { Wait::Write } else { Wait::Read }),
        }
    }

    /// Issues the requests for sectors that follow each other on the device.
    fn issue_direct(&mut self, pid: u32, op: Operation, run: (u64, u64), transfer: Option<u32>) {
        let (mut sector, length) = run;
        let end = sector + length;
        let (owner, class) = match transfer {
            Some(transfer) => (Owner::Transfer(transfer), Criticality::TimeLimited),
            None => (Owner::Process(pid), Criticality::TimeCritical),
        };
        let request_sectors = self.settings.max_pages.max(1) * PAGE_SECTORS;
        while sector < end {
            let stop = end.min(sector.saturating_add(request_sectors));
            let lbn = sector * SECTOR_BYTES / self.block_bytes;
            let blocks = (stop * SECTOR_BYTES).div_ceil(self.block_bytes) - lbn;
            let number = self.issue(pid, owner, class, Request::new(0, op, lbn, blocks as u32));
            if let Some(transfer) = transfer {
                self.linux_mut().transfers.add_request(transfer, number);
            }
            sector = stop;
        }
    }

    /// Waits until so many transfers of a queue are complete, and takes them.
    pub(super) fn reap(&mut self, pid: u32, queue: NonZeroU32, transfers: u32, position: &mut u64) -> Next {
        if std::mem::replace(position, 1) == 1 {
            return Next::Continue;
        }
        let state = self.linux_mut().transfers.queues.entry(queue).or_default();
        let is_for_device = state.under_way > 0;
        let wait = match (is_for_device, state.writes) {
            (false, _) => Wait::Process,
            (true, false) => Wait::Read,
            (true, true) => Wait::Write,
        };
        if state.waiting.is_empty() && state.complete >= transfers {
            state.complete -= transfers;
            let has_failed = std::mem::take(&mut state.has_failed);
            self.processes[pid as usize].is_failed |= has_failed;
            return Next::Continue;
        }
        state.waiting.push_back(Waiting { transfers, pid, is_for_device });
        let requests = std::mem::take(&mut state.requests);
        requests.iter().for_each(|request| self.await_request(*request));
        self.linux_mut().transfers.queues.entry(queue).or_default().requests = requests;
        Next::Wait(wait)
    }

    /// A request of a transfer is complete.
    pub(in crate::host) fn complete_transfer(&mut self, transfer: u32, number: u64, is_ok: bool) {
        if let Some(queue) = self.linux_mut().transfers.complete_request(transfer, number, is_ok) {
            self.wake_reapers(queue);
        }
    }

    fn wake_reapers(&mut self, queue: NonZeroU32) {
        while let Some((pid, has_failed)) = self.linux_mut().transfers.take_waiting(queue) {
            self.processes[pid as usize].is_failed |= has_failed;
            self.wake(pid);
        }
    }
}
