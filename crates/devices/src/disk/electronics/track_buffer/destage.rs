//! Written data that is not on the media yet.

use seeklab_core::Instant;

use crate::disk::layout::Extent;
use crate::disk::mechanics::{Mechanics, Position};
use crate::disk::mechanism::AccessParts;

/// Contiguous blocks to be written in one access.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dirty {
    lbn: u64,
    blocks: u32,
    /// Time at which all blocks were in the buffer.
    ready: Instant,
    /// Place of the first blocks: of all blocks, if the numbers of blocks agree.
    first: Extent,
}

impl Dirty {
    pub(super) const fn new(lbn: u64, ready: Instant, extent: Extent) -> Self {
        Self { lbn, blocks: extent.blocks, ready, first: extent }
    }

    /// Returns the time at which all blocks were in the buffer.
    pub(super) const fn ready(&self) -> Instant {
        self.ready
    }

    /// Cylinders from `arm` to the first track.
    pub(super) fn seek_cylinders<P: Position>(&self, arm: P) -> u32 {
        arm.cylinder().abs_diff(self.first.cylinder)
    }

    /// Writes the blocks from `start`; returns when they are on the media.
    pub(super) fn write<P: Position>(
        &self,
        mechanism: &impl Mechanics<P>,
        arm: &mut P,
        start: Instant,
        zero_latency: bool,
        parts: &mut AccessParts,
    ) -> Instant {
        if self.blocks != self.first.blocks {
            return mechanism.access(arm, start, self.lbn, self.blocks, true, zero_latency, parts, |_| {});
        }
        let there = mechanism.move_to(arm, start, &self.first, true, parts);
        let pass = if zero_latency {
            mechanism.pass_on_arrival(there, self.lbn, &self.first, parts)
        } else {
            mechanism.pass_in_order(there, self.lbn, &self.first, parts)
        };
        mechanism.note_written(&pass);
        pass.end
    }
}

/// Queue of data that waits to be destaged, in order of arrival.
#[derive(Debug)]
pub(super) struct WriteBack {
    queue: Vec<Dirty>,
    limit: usize,
    /// Number of entries that have left the queue.
    destages: u64,
}

impl Clone for WriteBack {
    fn clone(&self) -> Self {
        let mut clone = Self::new(self.limit);
        clone.clone_from(self);
        clone
    }

    fn clone_from(&mut self, source: &Self) {
        self.queue.clear();
        self.queue.reserve_exact(source.queue.capacity());
        self.queue.extend_from_slice(&source.queue);
        self.limit = source.limit;
        self.destages = source.destages;
    }
}

impl WriteBack {
    /// An empty queue of up to `limit` entries.
    pub(super) fn new(limit: usize) -> Self {
        Self { queue: Vec::new(), limit, destages: 0 }
    }

    /// Returns the number of entries that have left the queue.
    pub(super) const fn destages(&self) -> u64 {
        self.destages
    }

    /// Returns the number of entries that will have left the queue when everything in it is on the media.
    pub(super) fn destages_of_all(&self) -> u64 {
        self.destages + self.queue.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= self.limit
    }

    /// Returns the time at which the oldest entry is ready to be written.
    pub(super) fn ready(&self) -> Option<Instant> {
        self.queue.first().map(|oldest| oldest.ready)
    }

    /// Takes the oldest entry out, to be written.
    pub(super) fn take(&mut self) -> Dirty {
        self.destages += 1;
        self.queue.remove(0)
    }

    /// Adds an entry.
    pub(super) fn push(&mut self, entry: Dirty) {
        debug_assert!(!self.is_full());
        // Room for all at the first, so that no later one allocates.
        self.queue.reserve_exact(self.limit - self.queue.len());
        self.queue.push(entry);
    }

    /// Adds to the newest entry what adjoins it.
    pub(super) fn extend(&mut self, entry: Dirty) {
        if let Some(newest) = self.queue.last_mut() {
            newest.blocks += entry.blocks;
            newest.ready = newest.ready.max(entry.ready);
        }
    }

    /// Returns true if the newest entry ends where `entry` begins.
    pub(super) fn adjoins(&self, entry: &Dirty) -> bool {
        self.queue.last().is_some_and(|newest| newest.lbn + u64::from(newest.blocks) == entry.lbn)
    }
}

/// Result of a destage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Destage {
    /// Start of the destage.
    pub(super) start: Instant,
    /// Parts of the access.
    pub(super) parts: AccessParts,
    /// Cylinders to its first track.
    pub(super) seek_cylinders: u32,
}
