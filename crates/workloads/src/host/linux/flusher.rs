//! The flusher: the thread of the kernel that writes dirty files.
//!
//! It writes file by file, in the order in which they became dirty, and within a file in the order of its blocks. It
//! begins for one of three reasons: a file has been dirty for long, more is dirty than the background limit, or the
//! command has ended (the recording of a trace ends with `syncfs`).
//!
//! Once begun, it writes all files that are dirty, until a tenth of a second has passed. Then it looks at the amount again.
//!
//! A *plug* holds its last request back: blocks that follow it on the device join it, also those of the next file.

use std::collections::VecDeque;

use seeklab_core::{Criticality, Duration, Instant, Operation};

use super::{Host, Run};
use crate::host::SYNCER;
use crate::host::process::{Next, Wait};

/// Time for which the flusher writes before it looks at the amount again.
const PASS: Duration = Duration::from_ms(100);

/// State of the flusher.
#[derive(Debug, Clone, Default)]
pub(super) struct Flusher {
    /// Dirty files, the one that became dirty first in front.
    pub(super) queue: VecDeque<u32>,
    /// True while it looks for files that have been dirty for long.
    pub(super) is_periodic: bool,
    /// True if processes wait for memory.
    pub(super) wanted: bool,
    /// A pass over the dirty files: its end, and the files left.
    pass: Option<(Instant, usize)>,
    /// The file that it writes: the next block among those of all files, the end of the file, and the blocks left until
    /// the next file's turn.
    current: Option<Current>,
    /// Request that the plug holds back.
    plugged: Option<Run>,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    file: u32,
    next: u64,
    end: u64,
    left: u64,
}

impl Host {
    /// A step of the flusher.
    pub(in crate::host) fn flush(&mut self) -> Next {
        let now = self.now;
        let linux = self.linux_mut();
        if linux.throttle.is_full(now) {
            linux.is_flusher_throttled = true;
            return Next::Wait(Wait::Time);
        }
        if !linux.queued.is_empty() {
            linux.is_flusher_waiting = true;
            return Next::Wait(Wait::Time);
        }
        let Some(current) = linux.flusher.current else {
            return match self.next_file() {
                Some(current) => {
                    self.linux_mut().flusher.current = Some(current);
                    Next::Continue
                }
                None => self.unplug(),
            };
        };
        let Some(run) = self.next_dirty_run(current.next, current.end, Criticality::TimeNoncritical) else {
            let linux = self.linux_mut();
            linux.flusher.current = None;
            linux.balance.end_file(now);
            return Next::Continue;
        };
        let left = current.left.saturating_sub(run.pages);
        let next = self.cache.frame(run.last).page + 1;
        if left == 0 || next >= current.end {
            self.leave(current.file, next, current.end);
        } else {
            self.linux_mut().flusher.current = Some(Current { next, left, ..current });
        }
        match self.linux_mut().flusher.plugged.take() {
            None => self.linux_mut().flusher.plugged = Some(run),
            Some(plugged) => match self.join(&plugged, &run) {
                Some(joined) => self.linux_mut().flusher.plugged = Some(joined),
                None => {
                    self.linux_mut().flusher.plugged = Some(run);
                    self.issue_run(SYNCER, plugged, Operation::Write);
                    return Next::Compute(self.settings.submission);
                }
            },
        }
        Next::Continue
    }

    /// The next file to write. `None` if there is no reason to write.
    fn next_file(&mut self) -> Option<Current> {
        let (now, expire) = (self.now, self.settings.dirty_expire);
        let is_running = self.linux().flusher.pass.is_some();
        // Writers never wait in vain: they run freely up to the background limit (`DirtyLimits`).
        let is_over = (is_running && self.cache.to_write_count() > self.settings.background_frames)
            || self.is_flusher_due()
            || self.alive == 0;
        let is_writing = self.cache.dirty_count() > self.cache.to_write_count();
        let linux = self.linux_mut();
        let queued = linux.flusher.queue.len();
        let pass = linux.flusher.pass.filter(|(end, left)| *end > now && *left > 0);
        linux.flusher.pass = pass.or(is_over.then(|| (now + PASS, queued)));
        let file = *linux.flusher.queue.front()?;
        let state = &linux.files[file as usize];
        let is_old = state.dirty_since.is_some_and(|since| since + expire <= now);
        let is_chosen =
            linux.flusher.pass.is_some() || linux.flusher.wanted || (linux.flusher.is_periodic && is_old);
        if !is_chosen {
            linux.flusher.is_periodic = false;
            return None;
        }
        linux.flusher.wanted = false;
        if let Some((_, left)) = &mut linux.flusher.pass {
            *left = left.saturating_sub(1);
        }
        linux.flusher.queue.pop_front();
        let state = &mut linux.files[file as usize];
        state.dirty_since = None;
        let next = state.first_page;
        let end = next + state.recorded.pages;
        linux.balance.begin_file(is_writing, now);
        Some(Current { file, next, end, left: linux.balance.chunk_pages() })
    }

    /// Ends the turn of a file. It goes to the end of the queue if more of it is dirty.
    fn leave(&mut self, file: u32, next: u64, end: u64) {
        let now = self.now;
        let linux = self.linux_mut();
        linux.flusher.current = None;
        linux.balance.end_file(now);
        let is_dirty = next < end && linux.dirty_pages.next(next, end).is_some();
        let state = &mut linux.files[file as usize];
        if is_dirty && state.dirty_since.is_none() {
            state.dirty_since = Some(now);
            linux.flusher.queue.push_back(file);
        }
    }

    /// Issues the request that the plug holds back, then waits for a reason to write.
    fn unplug(&mut self) -> Next {
        match self.linux_mut().flusher.plugged.take() {
            Some(run) => {
                self.issue_run(SYNCER, run, Operation::Write);
                Next::Compute(self.settings.submission)
            }
            None => Next::Wait(Wait::Time),
        }
    }
}
