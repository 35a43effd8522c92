//! Replacement of Linux: frames are on an inactive or an active list.
//!
//! ```text
//!  read, written ──▶ inactive ── second access ──▶ active
//!                    │    ▲                           │
//!         evicted ◀──┘    └── active is the longer ───┘
//!            │
//!            └── read again soon: a block that came back within as many evictions as there are active frames is active at once
//! ```
//! Blocks of metadata are active from the start. So blocks that are read once do not take those from memory that are used again. Writes are no accesses.
//!
//! # Scope and limits
//! The kernel's lists hold frames in any state, and reclaim looks at 32 at a time. Here only clean frames are in order, and one is
//! taken at a time. A frame that was written counts as new when the write is complete.
//!
//! # References
//! Linux 6.18, `mm/vmscan.c` (`inactive_is_low`, `shrink_active_list`), `mm/swap.c` (`folio_mark_accessed`), `mm/workingset.c`: the
//! algorithm, not the code.

use super::page_index::PageIndex;

/// Frames in a GiB.
const GIBIBYTE: u32 = 1 << 18;

/// Lengths of both lists, and the blocks that left memory.
#[derive(Debug, Clone, Default)]
pub(super) struct TwoLists {
    /// Frames on each list, in any state.
    active: u32,
    inactive: u32,
    /// Evictions and activations so far.
    age: u32,
    /// The age at which a block left memory.
    evicted: PageIndex,
}

impl TwoLists {
    /// A block comes into memory. Returns true if it was there lately, so that its frame is active.
    pub(super) fn enter(&mut self, page: u64) -> bool {
        let distance = self.evicted.get(page).map(|evicted| self.age.wrapping_sub(evicted));
        self.evicted.remove(page);
        let is_active = distance.is_some_and(|distance| distance <= self.active);
        if is_active {
            self.active += 1;
            self.advance();
        } else {
            self.inactive += 1;
        }
        is_active
    }

    /// A frame is freed.
    pub(super) const fn leave(&mut self, is_active: bool) {
        if is_active { self.active -= 1 } else { self.inactive -= 1 }
    }

    /// The block of a frame gives way to another.
    pub(super) fn evict(&mut self, page: u64, is_active: bool) {
        self.leave(is_active);
        self.evicted.insert(page, self.age);
        self.advance();
    }

    /// True if a block has left memory and not come back.
    pub(super) fn was_evicted(&self, page: u64) -> bool {
        self.evicted.get(page).is_some()
    }

    /// A frame goes to the active list.
    pub(super) const fn activate(&mut self) {
        self.inactive -= 1;
        self.active += 1;
        self.advance();
    }

    /// A frame goes to the inactive list.
    pub(super) const fn deactivate(&mut self) {
        self.active -= 1;
        self.inactive += 1;
    }

    /// True if the oldest active frames have to become inactive.
    pub(super) const fn is_inactive_low(&self) -> bool {
        let gibibytes = (self.active + self.inactive) / GIBIBYTE;
        let ratio = if gibibytes == 0 { 1 } else { (10 * gibibytes).isqrt() };
        self.inactive.saturating_mul(ratio) < self.active
    }

    /// The number that means no block is left out.
    const fn advance(&mut self) {
        self.age = if self.age == u32::MAX - 1 { 0 } else { self.age + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_that_comes_back_soon_is_active() {
        let mut lists = TwoLists::default();
        (0..16).for_each(|page| assert!(!lists.enter(page)));
        lists.activate();
        lists.activate();
        lists.evict(3, false);
        assert!(lists.enter(3), "the next eviction");
        lists.evict(4, false);
        (5..9).for_each(|page| lists.evict(page, false));
        // Five evictions later, with three active frames.
        assert!(!lists.enter(4));
        assert!(!lists.enter(99), "it was never in memory");
    }

    #[test]
    fn small_lists_are_balanced_at_equal_lengths_and_large_ones_hold_more_active_frames() {
        let lists = |active, inactive| TwoLists { active, inactive, ..TwoLists::default() };
        assert!(!lists(500, 500).is_inactive_low());
        assert!(lists(501, 500).is_inactive_low());
        // 100 GiB: a ratio of 31.
        let frames = 100 * GIBIBYTE;
        assert!(!lists(frames - frames / 32, frames / 32).is_inactive_low());
        assert!(lists(frames - frames / 33, frames / 33).is_inactive_low());
    }
}
