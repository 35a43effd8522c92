//! Data that was reported written and waits for the media.

use std::collections::VecDeque;

use seeklab_core::Instant;

/// Blocks that wait to be written together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirtyExtent {
    /// First block.
    pub(super) start: u64,
    /// Block after the last.
    pub(super) end: u64,
    /// Time at which the last of the blocks was in the buffer.
    ready: Instant,
}

impl DirtyExtent {
    pub(super) fn blocks(&self) -> u32 {
        (self.end - self.start) as u32
    }
}

/// Extents that wait to be written, first come, first served. Contiguous requests wait together.
#[derive(Debug)]
pub(super) struct Dirty {
    extents: VecDeque<DirtyExtent>,
    extents_max: usize,
    blocks_max: u64,
}

impl Dirty {
    pub(super) fn new(extents_max: usize, blocks_max: u32) -> Self {
        Self { extents: VecDeque::new(), extents_max, blocks_max: u64::from(blocks_max) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Returns the time at which writing the first extent can begin, if the media is free from
    /// `media_free` on.
    pub(super) fn begins(&self, media_free: Instant) -> Option<Instant> {
        self.extents.front().map(|extent| extent.ready.max(media_free))
    }

    /// Returns true if `start..end` continues the last extent and fits in with it.
    pub(super) fn continues(&self, start: u64, end: u64) -> bool {
        self.extents.back().is_some_and(|last| last.end == start && end - last.start <= self.blocks_max)
    }

    /// Returns true if there is room for `start..end`.
    pub(super) fn has_room(&self, start: u64, end: u64) -> bool {
        end - start <= self.blocks_max
            && (self.extents.len() < self.extents_max || self.continues(start, end))
    }

    /// Adds `start..end`, which was in the buffer at `ready` and for which there is room.
    pub(super) fn add(&mut self, start: u64, end: u64, ready: Instant) {
        if self.continues(start, end) {
            let last = self.extents.back_mut().expect("it continues the last");
            last.end = end;
            last.ready = ready;
        } else {
            // Room for all at the first, so that no later one allocates.
            self.extents.reserve_exact(self.extents_max.saturating_sub(self.extents.len()));
            self.extents.push_back(DirtyExtent { start, end, ready });
        }
    }

    pub(super) fn take(&mut self) -> Option<DirtyExtent> {
        self.extents.pop_front()
    }

    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.extents.iter().any(|extent| extent.start < end && start < extent.end)
    }

    /// Returns true if one extent holds all of `start..end`.
    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        self.extents.iter().any(|extent| extent.start <= start && end <= extent.end)
    }
}

impl Clone for Dirty {
    fn clone(&self) -> Self {
        let mut clone = Self { extents: VecDeque::new(), ..*self };
        clone.clone_from(self);
        clone
    }

    fn clone_from(&mut self, source: &Self) {
        self.extents.clear();
        self.extents.reserve_exact(source.extents.capacity());
        self.extents.extend(&source.extents);
        (self.extents_max, self.blocks_max) = (source.extents_max, source.blocks_max);
    }
}
