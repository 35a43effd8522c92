//! Writes to files in the page cache, and synchronisations.

use std::ops::Range;

use seeklab_core::{Criticality, Operation, Request};

use super::{Host, Run};
use crate::host::criticality::Owner;
use crate::host::page_cache::FrameState;
use crate::host::process::{Next, Wait};
use crate::host::recorded::SyncEnd;

/// Place behind all blocks of a synchronisation that has flushed the device.
pub(super) const FLUSHED: u64 = u64::MAX;

/// Blocks of the largest folio: `PREFERRED_MAX_PAGECACHE_ORDER`.
const FOLIO_ORDER_MAX: u32 = 9;

/// A number of folios, and how many of them begin a segment. The others follow the one before them in memory, as the free lists of a
/// processor hold neighbours: in ten recordings of PostMark (Linux 6.18), requests of 128 segments had 143 to 190 folios of one block, 163
/// on average.
const FOLIOS_APART: (u64, u64) = (32, 25);

/// Returns true if the memory of block `index` of a file begins a segment when a process writes all of `blocks`. `page` is its number
/// among those of all files.
fn begins_segment(page: u64, index: u64, blocks: Range<u64>, large_folios: bool) -> bool {
    let (begin, order) = if large_folios { folio(index, blocks) } else { (index, 0) };
    let (folios, apart) = FOLIOS_APART;
    begin == index && (page >> order) * apart % folios < apart
}

/// The first block of the folio that holds block `index` when a process writes all of `blocks`, and the binary logarithm of its length.
///
/// A folio has as many blocks as are left of the write and as lie at a multiple of that number, rounded down to a power of two
/// (`__filemap_get_folio` in `mm/filemap.c`).
fn folio(index: u64, blocks: Range<u64>) -> (u64, u32) {
    let mut begin = blocks.start;
    loop {
        let left = blocks.end - begin;
        let order = left.ilog2().min(begin.trailing_zeros()).min(FOLIO_ORDER_MAX);
        // As many of that length follow each other if it is the largest.
        let equal = if order == FOLIO_ORDER_MAX { left >> order } else { 1 };
        let before = (index - begin) >> order;
        if before < equal {
            return (begin + (before << order), order);
        }
        begin += equal << order;
    }
}

impl Host {
    /// Changes block `index` as a part of a write of `blocks`. `keeps` if it holds data that the write leaves, so that it must be read.
    pub(super) fn write_block(
        &mut self,
        pid: u32,
        file: u32,
        index: u64,
        blocks: Range<u64>,
        keeps: bool,
    ) -> Next {
        let page = self.linux().page(file, index);
        let frame = match self.cache.find(page) {
            Some(frame) => frame,
            None => {
                let Some(frame) = self.cache.allocate(page) else {
                    return self.await_memory(pid);
                };
                self.cache.frame_mut(frame).begins_segment =
                    begins_segment(page, index, blocks, self.settings.large_folios);
                match self.linux().place(page).filter(|_| keeps) {
                    None => self.cache.set_state(frame, FrameState::Clean),
                    Some((address, _)) => {
                        let class = Criticality::TimeCritical;
                        let run = Run::new(frame, address, class);
                        self.issue_run(pid, run, Operation::Read);
                    }
                }
                frame
            }
        };
        self.need(frame);
        if self.cache.frame(frame).state == FrameState::Reading {
            return self.wait_for_frame(pid, frame);
        }
        self.dirty_by(pid, frame);
        Next::Continue
    }

    /// Takes the blocks of a deleted file from memory, from block `cursor` on. What is dirty is not written. Returns the wait
    /// for a block that is being transferred.
    pub(super) fn delete_blocks(&mut self, pid: u32, file: u32, cursor: &mut u64) -> Next {
        let pages = self.linux().files[file as usize].recorded.pages;
        while *cursor < pages {
            let page = self.linux().page(file, *cursor);
            if let Some(frame) = self.cache.find(page) {
                if matches!(self.cache.frame(frame).state, FrameState::Reading | FrameState::Writing) {
                    return self.wait_for_frame(pid, frame);
                }
                self.linux_mut().dirty_pages.remove(page);
                self.cache.set_state(frame, FrameState::Free);
            }
            *cursor += 1;
        }
        self.wake_memory_waiters();
        Next::Continue
    }

    /// Takes clean blocks of a file from memory.
    pub(super) fn lose_blocks(&mut self, file: u32, first: u64, pages: u64) {
        for index in first..first + pages {
            if let Some(frame) = self.cache.find(self.linux().page(file, index))
                && self.cache.frame(frame).state == FrameState::Clean
            {
                self.cache.set_state(frame, FrameState::Free);
            }
        }
        self.wake_memory_waiters();
    }

    /// Writes the next dirty blocks in a part of all blocks, waits for the writes, then makes them durable. `cursor` is the next block
    /// among those of all files, or [`FLUSHED`].
    pub(super) fn sync_blocks(
        &mut self,
        pid: u32,
        pages: Range<u64>,
        end: SyncEnd,
        cursor: &mut u64,
    ) -> Next {
        if *cursor == FLUSHED {
            return Next::Continue;
        }
        let next = self.write_out(pid, pages, cursor);
        if next != Next::Continue || end == SyncEnd::Later {
            return next;
        }
        *cursor = FLUSHED;
        match end {
            SyncEnd::Commit if !self.await_commit(pid) => Next::Wait(Wait::Write),
            _ if self.settings.has_write_cache => self.issue_flush(pid),
            _ => Next::Continue,
        }
    }

    /// Writes the next dirty blocks in a part of all blocks, then waits for the writes. Requests for blocks that follow each other
    /// on the device are joined, as a plug does. `cursor` is the next block.
    pub(in crate::host) fn write_out(&mut self, pid: u32, pages: Range<u64>, cursor: &mut u64) -> Next {
        *cursor = (*cursor).max(pages.start);
        let mut plugged: Option<Run> = None;
        while *cursor < pages.end {
            let Some(run) = self.next_dirty_run(*cursor, pages.end, Criticality::TimeCritical) else { break };
            *cursor = self.cache.frame(run.last).page + 1;
            plugged = match plugged {
                None => Some(run),
                Some(first) => match self.join(&first, &run) {
                    Some(joined) => Some(joined),
                    None => {
                        self.issue_run(pid, first, Operation::Write);
                        Some(run)
                    }
                },
            };
        }
        if let Some(run) = plugged {
            self.issue_run(pid, run, Operation::Write);
        }
        *cursor = pages.end;
        match self.cache.find_writing(|page| pages.contains(&page)) {
            Some(frame) => self.wait_for_frame(pid, frame),
            None => Next::Continue,
        }
    }

    /// Lets the device make durable what it has, and waits.
    pub(in crate::host) fn issue_flush(&mut self, pid: u32) -> Next {
        let flush = Request::new(0, Operation::Flush, 0, 0);
        self.issue(pid, Owner::Process(pid), Criticality::TimeCritical, flush);
        Next::Wait(Wait::Write)
    }

    /// Writes blocks of metadata that lay in a part of the device in the recording until none is dirty: together if they follow each other
    /// now, too.
    pub(super) fn write_recorded_metadata(
        &mut self,
        pid: u32,
        recorded: Range<u64>,
        position: &mut u64,
    ) -> Next {
        let new = &mut self.linux_mut().new_metadata;
        let first = new.place(recorded.start);
        if recorded.clone().all(|block| new.place(block) == first + (block - recorded.start)) {
            return self.write_until_clean(pid, first..first + (recorded.end - recorded.start), position);
        }
        for block in recorded {
            let place = self.linux_mut().new_metadata.place(block);
            let next = self.write_until_clean(pid, place..place + 1, &mut 0);
            if next != Next::Continue {
                return next;
            }
        }
        Next::Continue
    }

    /// Begins to write the first dirty blocks in a part of all blocks that follow each other on the device, as far as
    /// one request can hold them. Blocks without a place become clean.
    pub(super) fn next_dirty_run(&mut self, start: u64, end: u64, class: Criticality) -> Option<Run> {
        let mut run: Option<Run> = None;
        let mut cursor = start;
        let mut has_discarded = false;
        while let Some(page) = self.linux().dirty_pages.next(cursor, end) {
            cursor = page + 1;
            let frame = self.cache.find(page).expect("a dirty block is in memory");
            if self.cache.frame(frame).state != FrameState::Dirty {
                // It is being written, and became dirty again.
                if run.is_some() {
                    break;
                }
                continue;
            }
            let Some((address, _)) = self.linux().place(page) else {
                self.linux_mut().dirty_pages.remove(page);
                self.linux_mut().discarded_blocks += 1;
                self.cache.set_state(frame, FrameState::Clean);
                has_discarded = true;
                continue;
            };
            match &mut run {
                None => run = Some(Run::new(frame, address, class)),
                Some(run) => {
                    if self.cache.frame(run.last).page + 1 != page || !self.extend(run, frame, address) {
                        break;
                    }
                }
            }
            self.linux_mut().dirty_pages.remove(page);
            self.cache.set_state(frame, FrameState::Writing);
        }
        if has_discarded {
            self.wake_memory_waiters();
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folios of a write, each with its first block and its length.
    fn folios(blocks: Range<u64>) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        for index in blocks.clone() {
            let (begin, order) = folio(index, blocks.clone());
            assert!((begin..begin + (1 << order)).contains(&index), "{index} of {blocks:?}");
            if found.last().is_none_or(|(last, _)| *last != begin) {
                found.push((begin, 1 << order));
            }
        }
        found
    }

    #[test]
    fn folios_of_a_write_are_as_large_as_their_place_and_the_rest_of_the_write_allow() {
        assert_eq!(folios(0..15), [(0, 8), (8, 4), (12, 2), (14, 1)]);
        assert_eq!(folios(3..9), [(3, 1), (4, 4), (8, 1)]);
        assert_eq!(folios(7..8), [(7, 1)]);
        // No folio is larger than 2 MiB.
        assert_eq!(folios(1023..2048 + 1), [(1023, 1), (1024, 512), (1536, 512), (2048, 1)]);
    }
}
