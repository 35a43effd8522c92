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
    /// When the last of them was in the buffer.
    ready: Instant,
}

impl DirtyExtent {
    pub(super) fn blocks(&self) -> u32 {
        (self.end - self.start) as u32
    }
}

/// What waits, first come, first served; contiguous requests wait together.
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

    /// When writing the first of them can begin on a media that is free from `media_free` on.
    pub(super) fn begins(&self, media_free: Instant) -> Option<Instant> {
        self.extents.front().map(|extent| extent.ready.max(media_free))
    }

    /// Whether `start..end` continues the last of them and fits in with it.
    pub(super) fn continues(&self, start: u64, end: u64) -> bool {
        self.extents.back().is_some_and(|last| last.end == start && end - last.start <= self.blocks_max)
    }

    /// Whether there is room for `start..end`.
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

    /// Whether one of them holds all of `start..end`.
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
        self.extents.reserve(source.extents.capacity());
        self.extents.extend(&source.extents);
        (self.extents_max, self.blocks_max) = (source.extents_max, source.blocks_max);
    }
}
