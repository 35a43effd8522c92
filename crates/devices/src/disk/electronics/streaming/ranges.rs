//! Ranges of blocks in bounded lists that live inline.

use seeklab_core::Instant;

/// Most extents that can wait to be written.
pub(super) const DIRTY_MAX: usize = 8;
/// Most written extents that can be kept for reads.
pub(super) const KEPT_MAX: usize = 4;

/// Blocks `lbn..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Range {
    pub(super) lbn: u64,
    pub(super) end: u64,
}

impl Range {
    pub(super) const fn blocks(self) -> u64 {
        self.end - self.lbn
    }

    pub(super) const fn holds(self, other: Self) -> bool {
        self.lbn <= other.lbn && other.end <= self.end
    }

    pub(super) const fn overlaps(self, other: Self) -> bool {
        self.lbn < other.end && other.lbn < self.end
    }
}

/// An extent that waits to be written to the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Dirty {
    pub(super) range: Range,
    /// Time at which the last block arrived.
    pub(super) since: Instant,
}

/// Up to `N` items, oldest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fifo<T, const N: usize> {
    items: [T; N],
    len: usize,
}

impl<T: Copy + Default, const N: usize> Default for Fifo<T, N> {
    fn default() -> Self {
        Self { items: [T::default(); N], len: 0 }
    }
}

impl<T: Copy, const N: usize> Fifo<T, N> {
    pub(super) fn as_slice(&self) -> &[T] {
        &self.items[..self.len]
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut T> {
        self.items[..self.len].last_mut()
    }

    /// Appends `item`.
    ///
    /// # Panics
    /// If there are `N` already.
    pub(super) fn push(&mut self, item: T) {
        self.items[self.len] = item;
        self.len += 1;
    }

    /// Drops the oldest item; nothing happens to an empty list.
    pub(super) fn drop_oldest(&mut self) {
        if self.len > 0 {
            self.items.copy_within(1..self.len, 0);
            self.len -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_half_open() {
        let range = Range { lbn: 10, end: 20 };
        assert_eq!(range.blocks(), 10);
        assert!(range.holds(range));
        assert!(!range.holds(Range { lbn: 10, end: 21 }));
        assert!(!range.overlaps(Range { lbn: 20, end: 30 }));
        assert!(!range.overlaps(Range { lbn: 0, end: 10 }));
        assert!(range.overlaps(Range { lbn: 19, end: 20 }));
    }

    #[test]
    fn oldest_item_leaves_first() {
        let mut list: Fifo<u32, 3> = Fifo::default();
        list.drop_oldest();
        assert!(list.is_empty());
        for item in [1, 2, 3] {
            list.push(item);
        }
        list.drop_oldest();
        *list.last_mut().unwrap() = 4;
        assert_eq!(list.as_slice(), [2, 4]);
        assert_eq!(list.len(), 2);
    }
}
