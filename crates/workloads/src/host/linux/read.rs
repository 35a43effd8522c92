//! Reads through the page cache, page faults, and accesses to metadata.

use std::ops::Range;

use seeklab_core::{Criticality, Operation};

use super::read_ahead::{ReadAhead, Window};
use super::{Host, METADATA, Run};
use crate::host::page_cache::FrameState;
use crate::host::process::Next;

/// Pages that one look-up returns at most.
const BATCH_PAGES: u64 = 31;

/// Position of a read in its blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    pub(super) file: u32,
    /// The next block, and the block after the last that is accessed.
    pub(super) next: u64,
    pub(super) end: u64,
    /// The block after the last that the process requested.
    pub(super) requested_end: u64,
}

impl Host {
    /// Reads the next blocks. Returns the wait if one is needed, and the position.
    pub(super) fn read_blocks(&mut self, pid: u32, access: &mut Access) -> Next {
        while access.next < access.end {
            let first = self.linux().page(access.file, access.next);
            if self.cache.find(first).is_none() {
                self.miss(pid, access);
                if self.cache.find(first).is_none() {
                    return self.await_memory(pid);
                }
            }
            let mut index = access.next;
            let read_before = self.linux().files[access.file as usize].read_ahead.next;
            let (frame, is_marked) = loop {
                let page = self.linux().page(access.file, index);
                let frame = self.cache.find(page).expect("the batch is in memory");
                self.need(frame);
                // Of several reads of one block in a row, the first counts.
                if read_before != Some(index + 1) {
                    self.cache.touch(frame);
                }
                let held = self.cache.frame_mut(frame);
                let is_marked = std::mem::take(&mut held.is_marked);
                let is_last = held.state == FrameState::Reading || is_marked;
                let following = index + 1;
                let is_full = following >= access.end || following - access.next >= BATCH_PAGES;
                if is_last || is_full || self.cache.find(page + 1).is_none() {
                    break (frame, is_marked);
                }
                index = following;
            };
            if is_marked {
                self.read_marked(pid, access.file, index, frame, access.requested_end - index);
            }
            if self.cache.frame(frame).state == FrameState::Reading {
                access.next = index;
                return self.wait_for_frame(pid, frame);
            }
            access.next = index + 1;
            self.linux_mut().files[access.file as usize].read_ahead.next = Some(index + 1);
        }
        Next::Continue
    }

    /// A block is not in memory: reads it, with what follows it.
    fn miss(&mut self, pid: u32, access: &Access) {
        let requested = access.requested_end - access.next;
        let limit = self.window_limit(access.file, requested);
        let first = self.linux().page(access.file, access.next);
        let state = &self.linux().files[access.file as usize].read_ahead;
        let mut state = if state.owner == pid { *state } else { ReadAhead::default() };
        state.owner = pid;
        let before = first - access.next;
        let cache = &self.cache;
        let contiguous = || {
            (before..first).rev().take(limit as usize).take_while(|page| cache.find(*page).is_some()).count()
                as u64
        };
        let window = state.miss(access.next, requested, limit, contiguous);
        self.linux_mut().files[access.file as usize].read_ahead = state;
        self.read_window(pid, access.file, window, access.next..access.end);
    }

    /// The marked block of a window is accessed: reads the next window. The process holds the frame of the block meanwhile.
    fn read_marked(&mut self, pid: u32, file: u32, index: u64, frame: u32, requested: u64) {
        let limit = self.window_limit(file, requested);
        let page = self.linux().page(file, index);
        let mut state = self.linux().files[file as usize].read_ahead;
        let cache = &self.cache;
        let next_missing = || {
            (1..=limit + 1)
                .find(|distance| cache.find(page + distance).is_none())
                .map(|distance| index + distance)
        };
        let window = state.marked(index, requested, limit, self.settings.aligned_read_ahead, next_missing);
        self.linux_mut().files[file as usize].read_ahead = state;
        if let Some(window) = window {
            self.cache.hold(frame);
            self.read_window(pid, file, window, 0..0);
            self.cache.release(frame);
        }
    }

    /// Pages of a window at most: the limit of read-ahead, or a larger request as far as a device request holds it.
    fn window_limit(&self, file: u32, requested: u64) -> u64 {
        let factor = if self.linux().files[file as usize].is_sequential { 2 } else { 1 };
        let limit = self.settings.read_ahead * factor;
        limit.max(requested.min(self.settings.max_pages))
    }

    /// Reads the blocks of a window that are not in memory. A process waits for the blocks of `needed`.
    fn read_window(&mut self, pid: u32, file: u32, window: Window, needed: Range<u64>) {
        let end = (window.start + window.size).min(self.linux().end_of_file(file, window.start));
        let mut run: Option<Run> = None;
        for index in window.start..end {
            let page = self.linux().page(file, index);
            let place = self.linux().place(page);
            if self.cache.find(page).is_some() {
                continue;
            }
            let Some(frame) = self.allocate_for(page) else { break };
            self.cache.frame_mut(frame).is_marked = window.marker == Some(index);
            let Some((address, _)) = place else {
                // A hole of the file.
                self.cache.set_state(frame, FrameState::Clean);
                continue;
            };
            let class =
                if needed.contains(&index) { Criticality::TimeCritical } else { Criticality::TimeLimited };
            if let Some(run) = &mut run
                && self.extend(run, frame, address)
            {
                run.class = run.class.min(class);
                continue;
            }
            let begun = Run::new(frame, address, class);
            if let Some(run) = run.replace(begun) {
                self.issue_run(pid, run, Operation::Read);
            }
        }
        if let Some(run) = run {
            self.issue_run(pid, run, Operation::Read);
        }
    }

    /// A frame for a block. One of metadata is active from the start: a new buffer is accessed when it is made, and when it is found
    /// afterwards (`__getblk_slow` in `fs/buffer.c`).
    fn allocate_for(&mut self, page: u64) -> Option<u32> {
        let frame = self.cache.allocate(page)?;
        if self.linux().is_metadata(page) {
            self.cache.activate(frame);
        }
        Some(frame)
    }

    /// Accesses a block of a mapped file: if it is not in memory, the blocks around it are read.
    pub(super) fn fault(&mut self, pid: u32, file: u32, index: u64) -> Next {
        let page = self.linux().page(file, index);
        if self.cache.find(page).is_none() {
            let limit = self.settings.read_ahead.max(1);
            let window = self.linux_mut().files[file as usize].read_ahead.around(index, limit);
            self.read_window(pid, file, window, index..index + 1);
        }
        let Some(frame) = self.cache.find(page) else {
            return self.await_memory(pid);
        };
        self.need(frame);
        self.cache.touch(frame);
        if std::mem::take(&mut self.cache.frame_mut(frame).is_marked) {
            self.read_marked(pid, file, index, frame, 1);
        }
        self.wait_if_reading(pid, frame)
    }

    /// Accesses a block of metadata. `is_present` if it need not be read: of a recording, until it is first evicted.
    pub(super) fn metadata(&mut self, pid: u32, address: u64, dirties: bool, is_present: bool) -> Next {
        let page = self.linux().page(METADATA, address);
        let frame = match self.cache.find(page) {
            Some(frame) => frame,
            None => {
                // The file system of an application initialises blocks that it frees and takes again.
                let was_evicted = self.is_recorded() && self.cache.was_evicted(page);
                let Some(frame) = self.allocate_for(page) else {
                    return self.await_memory(pid);
                };
                if is_present && !was_evicted {
                    self.cache.set_state(frame, FrameState::Clean);
                } else {
                    let class = Criticality::TimeCritical;
                    let run = Run::new(frame, address, class);
                    self.issue_run(pid, run, Operation::Read);
                }
                frame
            }
        };
        self.need(frame);
        self.cache.touch(frame);
        let next = self.wait_if_reading(pid, frame);
        if next == Next::Continue && dirties {
            self.dirty_by(pid, frame);
        }
        next
    }

    /// Looks a name up in a block of a directory: waits while the device writes it, as `__ext4_find_entry` of the kernel does.
    pub(super) fn look_up_name(&mut self, pid: u32, address: u64) -> Next {
        let page = self.linux().page(METADATA, address);
        match self.cache.find(page) {
            Some(frame) if self.cache.frame(frame).state == FrameState::Writing => {
                self.wait_for_frame(pid, frame)
            }
            _ => Next::Continue,
        }
    }

    /// Reads blocks of metadata in advance.
    pub(super) fn metadata_ahead(&mut self, pid: u32, address: u64, pages: u64) {
        let window = Window { start: address, size: pages, marker: None };
        self.read_window(pid, METADATA, window, 0..0);
    }

    fn wait_if_reading(&mut self, pid: u32, frame: u32) -> Next {
        if self.cache.frame(frame).state != FrameState::Reading {
            return Next::Continue;
        }
        self.wait_for_frame(pid, frame)
    }
}
