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
    /// Segment that holds them.
    pub(super) segment: u64,
    /// Time at which the first of the blocks was in the buffer.
    pub(super) begun: Instant,
    /// Time at which the last of the blocks was in the buffer.
    pub(super) ready: Instant,
}

impl DirtyExtent {
    pub(super) fn blocks(&self) -> u32 {
        (self.end - self.start) as u32
    }

    /// Returns true if `start..end` of `segment` can be written together with the extent.
    fn joins(&self, start: u64, segment: u64) -> bool {
        (self.end, self.segment) == (start, segment)
    }
}

/// Extents that wait to be written, first come, first served. Contiguous requests of one segment wait together.
#[derive(Debug)]
pub(super) struct Dirty {
    extents: VecDeque<DirtyExtent>,
    extents_max: usize,
}

impl Dirty {
    pub(super) fn new(extents_max: u32) -> Self {
        Self { extents: VecDeque::new(), extents_max: extents_max as usize }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Returns true if there is room for one extent more.
    pub(super) fn has_room(&self) -> bool {
        self.extents.len() < self.extents_max
    }

    /// Returns the time at which the arm can move for the first extent, if the media is free from
    /// `media_free` on.
    pub(super) fn begins(&self, media_free: Instant) -> Option<Instant> {
        self.extents.front().map(|extent| extent.begun.max(media_free))
    }

    /// Returns the first block of the extent that is written next.
    pub(super) fn next_block(&self) -> Option<u64> {
        self.extents.front().map(|extent| extent.start)
    }

    /// Returns true if a write from `start` to that segment continues the last extent.
    pub(super) fn continues(&self, start: u64, segment: Option<u64>) -> bool {
        segment.is_some_and(|segment| self.extents.back().is_some_and(|last| last.joins(start, segment)))
    }

    /// Adds an extent for which there is room. Returns false if it is written together with the last one.
    pub(super) fn add(&mut self, extent: DirtyExtent) -> bool {
        let DirtyExtent { start, end, segment, ready, .. } = extent;
        if let Some(last) = self.extents.back_mut().filter(|last| last.joins(start, segment)) {
            last.end = end;
            last.ready = ready;
            return false;
        }
        // Room for all at the first, so that no later one allocates.
        self.extents.reserve_exact(self.extents_max.saturating_sub(self.extents.len()));
        self.extents.push_back(extent);
        true
    }

    pub(super) fn take(&mut self) -> Option<DirtyExtent> {
        self.extents.pop_front()
    }

    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.extents.iter().any(|extent| extent.start < end && start < extent.end)
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
        self.extents_max = source.extents_max;
    }
}
