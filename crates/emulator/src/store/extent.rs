//! Extents: which parts of the device take space, for block status and for copying sparsely.

use super::{Store, StoreError};

/// Allocation state of a part of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// Space is allocated. The contents are not known without reading.
    Allocated,
    /// No space is allocated, and the part reads as zeroes.
    Hole,
}

/// Bytes one behind the other with the same allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes; never zero.
    pub length: u64,
    /// Allocation state of the bytes.
    pub allocation: Allocation,
}

impl Extent {
    pub(super) fn allocated(length: u64) -> Self {
        Self { length, allocation: Allocation::Allocated }
    }

    pub(super) fn hole(length: u64) -> Self {
        Self { length, allocation: Allocation::Hole }
    }
}

/// Extents of a range, in order, as returned by [`Store::extents`]: their lengths add up to the range, and
/// neighbours differ.
///
/// Each extent is looked up when it is needed, so the first few cost no more than their own lookups.
#[derive(Debug)]
pub struct Extents<'a> {
    store: &'a Store,
    position: u64,
    end: u64,
    ahead: Option<Extent>,
}

impl<'a> Extents<'a> {
    /// The extents of the bytes from `position` up to `end`, which lie within the device.
    pub(super) fn new(store: &'a Store, position: u64, end: u64) -> Self {
        Self { store, position, end, ahead: None }
    }

    /// The next piece that the backend can name at once; it may continue in the one behind it.
    fn piece(&mut self) -> Result<Option<Extent>, StoreError> {
        if let Some(extent) = self.ahead.take() {
            return Ok(Some(extent));
        }
        if self.position == self.end {
            return Ok(None);
        }
        let extent = self.store.extent_at(self.position, self.end)?;
        assert!(extent.length > 0 && extent.length <= self.end - self.position, "an extent within the range");
        self.position += extent.length;
        Ok(Some(extent))
    }

    fn coalesced(&mut self) -> Result<Option<Extent>, StoreError> {
        let Some(mut extent) = self.piece()? else { return Ok(None) };
        while let Some(next) = self.piece()? {
            if next.allocation != extent.allocation {
                self.ahead = Some(next);
                break;
            }
            extent.length += next.length;
        }
        Ok(Some(extent))
    }
}

impl Iterator for Extents<'_> {
    type Item = Result<Extent, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.coalesced();
        if next.is_err() {
            self.position = self.end;
            self.ahead = None;
        }
        next.transpose()
    }
}
