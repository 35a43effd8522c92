//! The flusher: the thread of the kernel that writes dirty files.
//!
//! ```text
//!  a file becomes dirty ──▶ dirty ──┐  in the order of time
//!                                   ├──▶ batch ──▶ written: clean, or dirty again
//!  its turn was too short ─▶ rest ──┘                          │
//!        ▲─────────────────────────────────────────────────────┘
//! ```
//! A *work* is a reason to write: more is dirty than the background limit, files have been dirty for long, or everything is to be
//! written (processes wait for memory, or the command has ended: the recording of a trace ends with `syncfs`). It takes files in batches.
//! All of a batch are written, until a tenth of a second has passed; then the work looks at its reason again. What is left of a file
//! after its turn comes with the next batch, of any work.
//!
//! The flusher runs when a writer wakes it, and an interval after its last run, or after the first file became dirty.
//!
//! A *plug* holds its requests back. Blocks that follow the last one on the device join it, also those of the next file. The device gets
//! them when a new one finds 32 there, or the first one has 128 KiB or more (`blk_add_rq_to_plug` in `block/blk-mq.c`. The plug has been a
//! queue since Linux 6.13, so that the first one is the oldest: in recordings of 6.18, requests of 640 KiB were held back behind a small
//! one, and each let go by the next if the plug began with one), when the flusher sleeps, and when it gives way to another process.

use std::collections::VecDeque;

use seeklab_core::{Criticality, Duration, Instant, Operation};

use super::{Host, Run};
use crate::host::process::{Next, Wait};
use crate::host::{PAGE_BYTES, SYNCER};

/// Time for which the flusher writes before it looks at the reason again.
const PASS: Duration = Duration::from_ms(100);

/// Requests in a plug: `BLK_MAX_REQUEST_COUNT`.
const PLUGGED_MAX: usize = 32;

/// Length of the first request of a plug from which on the plug takes no second one: `BLK_PLUG_FLUSH_SIZE`.
const PLUGGED_PAGES_MAX: u64 = 128 * 1024 / PAGE_BYTES;

/// Reason to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// More is dirty than the background limit.
    Background,
    /// Files have been dirty for long.
    Old,
    /// Everything is to be written.
    All,
}

/// State of the flusher.
#[derive(Debug, Clone, Default)]
pub(super) struct Flusher {
    /// Dirty files, the one that became dirty first in front.
    dirty: VecDeque<u32>,
    /// Files of the batch that the work has yet to write.
    batch: VecDeque<u32>,
    /// Files whose turn ended before all of them was written.
    rest: VecDeque<u32>,
    work: Option<Work>,
    /// Time at which the work looks at its reason again, and true if it wrote something since the batch was filled.
    pass_end: Instant,
    has_progress: bool,
    /// Time of the last look for old files. `None` before the first.
    looked: Option<Instant>,
    /// True if processes wait for memory.
    is_wanted: bool,
    /// The file that it writes: the next block among those of all files, the end of the file, and the blocks left of its turn.
    current: Option<Current>,
    /// Requests that the plug holds back.
    pub(super) plugged: VecDeque<Run>,
    /// Blocks that wait for room for their request.
    stalled: Option<Run>,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    file: u32,
    next: u64,
    end: u64,
    left: u64,
}

impl Flusher {
    /// Returns true if files are dirty that it does not write now.
    fn has_files(&self) -> bool {
        !(self.dirty.is_empty() && self.batch.is_empty() && self.rest.is_empty())
    }

    /// A file has become dirty.
    pub(super) fn push(&mut self, file: u32) {
        self.dirty.push_back(file);
    }

    /// A file is no longer dirty.
    pub(super) fn remove(&mut self, file: u32) {
        for list in [&mut self.dirty, &mut self.batch, &mut self.rest] {
            list.retain(|listed| *listed != file);
        }
    }

    /// Processes wait for memory.
    pub(super) const fn request(&mut self) {
        self.is_wanted = true;
    }
}

impl Host {
    /// A step of the flusher.
    pub(in crate::host) fn flush(&mut self) -> Next {
        if let Some(run) = self.linux_mut().flusher.stalled.take() {
            return self.plug(run);
        }
        let Some(current) = self.linux().flusher.current else {
            return match self.next_file() {
                Some(current) => {
                    self.linux_mut().flusher.current = Some(current);
                    Next::Continue
                }
                None => self.sleep(),
            };
        };
        let Some(run) = self.next_dirty_run(current.next, current.end, Criticality::TimeNoncritical) else {
            self.leave(current);
            return Next::Continue;
        };
        let left = current.left.saturating_sub(run.pages);
        let current = Current { next: self.cache.frame(run.last).page + 1, left, ..current };
        let flusher = &mut self.linux_mut().flusher;
        (flusher.has_progress, flusher.current) = (true, Some(current));
        if left == 0 || current.next >= current.end {
            self.leave(current);
        }
        let last = self.linux_mut().flusher.plugged.pop_back();
        if let Some(joined) = last.and_then(|last| self.join(&last, &run)) {
            self.linux_mut().flusher.plugged.push_back(joined);
            return Next::Compute(self.settings.page_submission * run.pages);
        }
        self.linux_mut().flusher.plugged.extend(last);
        self.plug(run)
    }

    /// Adds a request to the plug, if there is room for another one.
    fn plug(&mut self, run: Run) -> Next {
        if let Some(wait) = self.await_room() {
            self.linux_mut().flusher.stalled = Some(run);
            return wait;
        }
        let plugged = &self.linux().flusher.plugged;
        if plugged.len() >= PLUGGED_MAX
            || plugged.front().is_some_and(|first| first.pages >= PLUGGED_PAGES_MAX)
        {
            self.release_plug();
        }
        self.linux_mut().flusher.plugged.push_back(run);
        Next::Compute(self.settings.submission + self.settings.page_submission * run.pages)
    }

    /// Returns the wait for room for another request, if the flusher must wait. The plug lets go what it holds before.
    fn await_room(&mut self) -> Option<Next> {
        let now = self.now;
        let linux = self.linux();
        let is_throttled = linux.throttle.is_full(now, linux.flusher.plugged.len());
        let has_tags = linux.tags_used as usize + linux.flusher.plugged.len() < self.settings.tags as usize;
        if !is_throttled && has_tags && linux.queued.is_empty() {
            return None;
        }
        self.release_plug();
        let linux = self.linux_mut();
        if linux.throttle.is_full(now, 0) {
            linux.is_flusher_throttled = true;
        } else {
            linux.is_flusher_waiting = true;
        }
        Some(Next::Wait(Wait::Time))
    }

    /// Hands what the plug holds back to the device.
    fn release_plug(&mut self) {
        while let Some(run) = self.linux_mut().flusher.plugged.pop_front() {
            self.issue_run(SYNCER, run, Operation::Write);
        }
    }

    /// Lets go what the plug of a process holds back, which gives way to another one (`writeback_sb_inodes`).
    pub(in crate::host) fn release_plug_of(&mut self, pid: u32) {
        if pid == SYNCER && self.linux.is_some() {
            self.release_plug();
        }
    }

    /// The next file to write. `None` if there is no reason to write.
    fn next_file(&mut self) -> Option<Current> {
        loop {
            let work = match self.linux().flusher.work {
                Some(work) => self.continue_work(work),
                None => {
                    let work = self.next_work()?;
                    self.begin_batch(work);
                    Some(work)
                }
            };
            let (now, is_writing) = (self.now, self.cache.dirty_count() > self.cache.to_write_count());
            let linux = self.linux_mut();
            linux.flusher.work = work;
            let Some(work) = work else { continue };
            let Some(file) = linux.flusher.batch.pop_front() else {
                linux.flusher.work = None;
                // There may be another reason than files that have been dirty for long.
                if work == Work::Old { continue } else { return None }
            };
            let state = &linux.files[file as usize];
            let (next, end) = (state.first_page, state.first_page + state.recorded.pages);
            linux.balance.begin_file(is_writing, now);
            return Some(Current { file, next, end, left: linux.balance.chunk_pages() });
        }
    }

    /// Lets a work look at its reason, if its batch is written or has taken long. Returns the work if it goes on.
    fn continue_work(&mut self, work: Work) -> Option<Work> {
        let is_done = work == Work::Background && !self.is_over_background();
        let now = self.now;
        let flusher = &mut self.linux_mut().flusher;
        if flusher.batch.is_empty() {
            if is_done {
                return None;
            }
            if flusher.has_progress {
                self.begin_batch(work);
            }
        } else if flusher.has_progress && flusher.pass_end <= now {
            if is_done {
                return None;
            }
            (flusher.has_progress, flusher.pass_end) = (false, now + PASS);
        }
        Some(work)
    }

    /// Takes the next files of a work: what is left of earlier ones first.
    fn begin_batch(&mut self, work: Work) {
        let (now, expire) = (self.now, self.settings.dirty_expire);
        let linux = self.linux_mut();
        let flusher = &mut linux.flusher;
        (flusher.has_progress, flusher.pass_end) = (false, now + PASS);
        if !flusher.batch.is_empty() {
            return;
        }
        flusher.batch.append(&mut flusher.rest);
        while let Some(file) = flusher.dirty.front().copied() {
            let is_old = linux.files[file as usize].dirty_since.is_some_and(|since| since + expire <= now);
            if work == Work::Old && !is_old {
                break;
            }
            flusher.dirty.pop_front();
            flusher.batch.push_back(file);
        }
    }

    /// The next reason to write.
    fn next_work(&mut self) -> Option<Work> {
        let (now, interval) = (self.now, self.settings.sweep_interval);
        let (is_ending, is_over) = (self.alive == 0, self.is_over_background());
        let age = self.settings.device_age;
        let flusher = &mut self.linux_mut().flusher;
        if std::mem::take(&mut flusher.is_wanted) || is_ending {
            return Some(Work::All);
        }
        let next_look = match flusher.looked {
            Some(looked) => looked + interval,
            None => Instant::ZERO + interval.saturating_sub(age),
        };
        if next_look <= now {
            flusher.looked = Some(now);
            return Some(Work::Old);
        }
        is_over.then_some(Work::Background)
    }

    /// Returns true if more is dirty than the background limit. What is being written does not count.
    fn is_over_background(&self) -> bool {
        self.cache.to_write_count() > self.settings.background_frames
    }

    /// Ends the turn of a file.
    fn leave(&mut self, current: Current) {
        let Current { file, left, .. } = current;
        let now = self.now;
        let linux = self.linux_mut();
        linux.flusher.current = None;
        linux.balance.end_file(now);
        let state = &mut linux.files[file as usize];
        let (first, end) = (state.first_page, state.first_page + state.recorded.pages);
        if linux.dirty_pages.next(first, end).is_none() {
            state.dirty_since = None;
        } else if left == 0 {
            linux.flusher.rest.push_back(file);
        } else {
            state.dirty_since = Some(now);
            linux.flusher.dirty.push_back(file);
        }
    }

    /// Lets go what the plug holds back, and waits for a reason to write.
    fn sleep(&mut self) -> Next {
        self.release_plug();
        self.syncer.due = Instant::MAX;
        self.arm_flusher();
        Next::Wait(Wait::Time)
    }

    /// Lets the flusher run after an interval, if files are dirty and it does not run earlier.
    pub(super) fn arm_flusher(&mut self) {
        if self.linux().flusher.has_files() && self.syncer.due == Instant::MAX {
            self.syncer.due = self.now + self.settings.sweep_interval;
        }
    }
}
