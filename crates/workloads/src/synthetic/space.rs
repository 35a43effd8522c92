//! The part of the device that requests start in, and how a start is picked from it.

use seeklab_core::Stream;

/// Blocks `start..end`, in which requests start at multiples of `align`.
///
/// `start` is a multiple of `align` too, and what is left after it holds the largest request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) align: u64,
}

impl Space {
    pub(super) const fn span(self) -> u64 {
        self.end - self.start
    }

    /// The last start at which `blocks` blocks still fit.
    pub(super) fn last_start(self, blocks: u32) -> u64 {
        debug_assert!(u64::from(blocks) <= self.span(), "{blocks} blocks in {self:?}");
        (self.end - u64::from(blocks)) / self.align * self.align
    }

    /// A uniform start anywhere.
    pub(super) fn anywhere(self, stream: &mut Stream, blocks: u32) -> u64 {
        let slots = (self.end - u64::from(blocks) - self.start) / self.align + 1;
        self.start + stream.below(slots) * self.align
    }

    /// A uniform start in `low..high`; where none fits, the nearest one below.
    pub(super) fn between(self, stream: &mut Stream, low: u64, high: u64, blocks: u32) -> u64 {
        let last = self.last_start(blocks);
        let first_slot = low.max(self.start).div_ceil(self.align);
        let last_slot = (high.saturating_sub(1)).min(last) / self.align;
        if first_slot > last_slot {
            return (low.min(last) / self.align * self.align).max(self.start);
        }
        (first_slot + stream.below(last_slot - first_slot + 1)) * self.align
    }

    /// The first start at or behind `block`; the first of all once nothing fits any more.
    pub(super) fn next_from(self, block: u64, blocks: u32) -> u64 {
        let start = block.checked_next_multiple_of(self.align).unwrap_or(u64::MAX);
        if start > self.last_start(blocks) { self.start } else { start }
    }
}
