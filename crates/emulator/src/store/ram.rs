//! The store in memory.
//!
//! ```text
//! root ─▶ region (1 GiB, made on first write) ─▶ chunk (2 MiB, with a lock) ─▶ page (4 KiB)
//! ```
//! A page exists if and only if it holds something other than zeroes (but for pages zeroed with
//! `may_unmap` off). A terabyte device costs 24 KiB before the first write, and each page written
//! its 4 KiB, plus 16 KiB for the first in a gigabyte and 4 KiB for the first in 2 MiB.
//!
//! # Scope and limits
//! - Memory is counted before it is allocated, tables and the allocator's own included. A write
//!   that would exceed the cap changes nothing. If the allocator refuses below the cap, the write
//!   may have been done in part, as a disk's may.
//! - Pages given back go to the allocator, which keeps them for the next pages: what the process
//!   holds of the system's memory may not shrink.
//! - Pages that are [kept ready](RamStore::with_pages_ready) are beyond the cap: 32 MiB at most.
//! - Any number of threads. A write is atomic to other writes; a read that crosses a 2 MiB boundary
//!   may see a write that crosses it too in part, as on a disk.

use std::collections::TryReserveError;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use seeklab_core::units::ByteSize;

use super::budget::Budget;
use super::chunk::{CHUNK_BYTES, CHUNK_COST, Chunk, PAGE_BYTES, boxed};
use super::ready::ReadyPages;
use super::zeroes::is_zero;
use super::{Extent, StoreError};

/// Chunks of a region.
const CHUNK_COUNT: usize = 512;
const CHUNK_SIZE: u64 = CHUNK_BYTES as u64;
const REGION_SIZE: u64 = CHUNK_SIZE * CHUNK_COUNT as u64;
const REGION_COST: u64 = (CHUNK_COUNT * size_of::<Slot>()) as u64 + 16;

/// Most bytes of pages that are ready.
const READY_BYTES_MAX: u64 = 32 << 20;

type Slot = RwLock<Option<Chunk>>;
type Region = OnceLock<Box<[Slot]>>;

/// Keeps what was written in memory.
#[derive(Debug)]
pub struct RamStore {
    size: ByteSize,
    regions: Box<[Region]>,
    budget: Budget,
    ready: ReadyPages,
}

/// The part of one chunk that a range of the device covers.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Start on the device.
    offset: u64,
    /// Start in the range.
    at: usize,
    length: usize,
}

/// The pieces, chunk by chunk, of `length` bytes from `offset`.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        (at < length).then(|| {
            let offset = offset + at as u64;
            let piece = Piece { offset, at, length: (CHUNK_BYTES - within_chunk(offset)).min(length - at) };
            at += piece.length;
            piece
        })
    })
}

fn within_chunk(offset: u64) -> usize {
    (offset % CHUNK_SIZE) as usize
}

fn chunk_index(offset: u64) -> usize {
    (offset % REGION_SIZE / CHUNK_SIZE) as usize
}

// A panic while a chunk is locked is a bug of ours; its pages are whole all the same, because a
// page is exchanged by one assignment. So a poisoned lock is no reason to lose the device.
fn reading(slot: &Slot) -> RwLockReadGuard<'_, Option<Chunk>> {
    slot.read().unwrap_or_else(PoisonError::into_inner)
}

fn writing(slot: &Slot) -> RwLockWriteGuard<'_, Option<Chunk>> {
    slot.write().unwrap_or_else(PoisonError::into_inner)
}

fn no_memory(needed: u64) -> impl FnOnce(TryReserveError) -> StoreError {
    move |_| StoreError::NoMemory { needed: ByteSize::from_bytes(needed) }
}

/// A chunk locked for writing, and the bytes to write there.
type Locked<'a, 'b> = (RwLockWriteGuard<'a, Option<Chunk>>, usize, &'b [u8]);

impl RamStore {
    /// An empty store that takes at most `cap`.
    pub fn new(size: ByteSize, cap: ByteSize) -> Result<Self, StoreError> {
        let budget = Budget::new(cap);
        let region_count = size.as_bytes().div_ceil(REGION_SIZE) as usize;
        let root_cost = (region_count * size_of::<Region>()) as u64;
        budget.reserve(root_cost)?.take(root_cost);
        let regions = boxed(region_count, OnceLock::new).map_err(no_memory(root_cost))?;
        Ok(Self { size, regions, budget, ready: ReadyPages::none() })
    }

    /// Keeps pages ready, so that a write that is emulated in real time does not wait for the system's memory: as many as the
    /// device has, up to 32 MiB or an eighth of the limit, which they do not count against.
    #[must_use]
    pub fn with_pages_ready(mut self) -> Self {
        let bytes = self.size.as_bytes().min(READY_BYTES_MAX).min(self.budget.cap().as_bytes() / 8);
        self.ready = ReadyPages::filled(bytes as usize / PAGE_BYTES);
        self
    }

    /// Makes some pages ready in place of those that were used. Returns false if there are enough.
    pub(super) fn refill(&self) -> bool {
        self.ready.refill()
    }

    /// Returns true if [`refill`](Self::refill) has something to do.
    pub(super) fn is_short_of_pages(&self) -> bool {
        self.ready.is_short()
    }

    /// Returns the memory limit.
    pub fn cap(&self) -> ByteSize {
        self.budget.cap()
    }

    pub(super) fn size(&self) -> ByteSize {
        self.size
    }

    pub(super) fn allocated_bytes(&self) -> ByteSize {
        self.budget.used()
    }

    /// The slot of the chunk with the byte at `offset`, if its region was ever written.
    fn slot(&self, offset: u64) -> Option<&Slot> {
        let region = self.regions[(offset / REGION_SIZE) as usize].get()?;
        Some(&region[chunk_index(offset)])
    }

    fn slot_or_new(&self, offset: u64) -> Result<&Slot, StoreError> {
        let region = &self.regions[(offset / REGION_SIZE) as usize];
        if region.get().is_none() {
            let mut reservation = self.budget.reserve(REGION_COST)?;
            let slots = boxed(CHUNK_COUNT, Slot::default).map_err(no_memory(REGION_COST))?;
            // Another thread may have been faster; then ours is not needed.
            if region.set(slots).is_ok() {
                reservation.take(REGION_COST);
            }
        }
        Ok(&region.get().expect("was just set")[chunk_index(offset)])
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) {
        for piece in pieces(offset, buffer.len()) {
            let target = &mut buffer[piece.at..piece.at + piece.length];
            let chunk = self.slot(piece.offset).map(reading);
            match chunk.as_ref().and_then(|chunk| chunk.as_ref()) {
                Some(chunk) => chunk.read(within_chunk(piece.offset), target),
                None => target.fill(0),
            }
        }
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let lock = |piece: Piece| {
            let source = &bytes[piece.at..piece.at + piece.length];
            let slot = match self.slot(piece.offset) {
                Some(slot) => slot,
                None if is_zero(source) => return Ok(None),
                None => self.slot_or_new(piece.offset)?,
            };
            Ok(Some((writing(slot), within_chunk(piece.offset), source)))
        };
        // Chunks are locked in ascending order, so two writers cannot wait for each other.
        let mut pieces = pieces(offset, bytes.len());
        match (pieces.next(), pieces.next()) {
            (None, _) => Ok(()),
            (Some(only), None) => match lock(only)? {
                Some(locked) => self.commit(&mut [locked]),
                None => Ok(()),
            },
            (Some(first), Some(second)) => {
                let mut locked: Vec<Locked<'_, '_>> = Vec::new();
                for piece in [first, second].into_iter().chain(pieces) {
                    locked.extend(lock(piece)?);
                }
                self.commit(&mut locked)
            }
        }
    }

    /// Writes to chunks that are all locked: all of it, or nothing for want of space.
    fn commit(&self, locked: &mut [Locked<'_, '_>]) -> Result<(), StoreError> {
        let cost =
            locked.iter().map(|(chunk, start, bytes)| Chunk::write_cost(chunk.as_ref(), *start, bytes)).sum();
        let mut reservation = self.budget.reserve(cost)?;
        for (slot, start, bytes) in locked {
            let chunk = match &mut **slot {
                Some(chunk) => chunk,
                None if is_zero(bytes) => continue,
                none => {
                    let chunk = none.insert(Chunk::new().map_err(no_memory(CHUNK_COST))?);
                    reservation.take(CHUNK_COST);
                    chunk
                }
            };
            chunk.write(*start, bytes, &mut reservation, &self.ready).map_err(no_memory(cost))?;
            self.drop_if_empty(slot);
        }
        Ok(())
    }

    fn drop_if_empty(&self, slot: &mut Option<Chunk>) {
        if slot.take_if(|chunk| chunk.is_empty()).is_some() {
            self.budget.release(CHUNK_COST);
        }
    }

    /// Zeroes a range; what becomes zero gives its memory back if `may_free`.
    pub(super) fn zero(&self, offset: u64, length: u64, may_free: bool) {
        let end = offset + length;
        let mut position = offset;
        while position < end {
            let Some(slot) = self.slot(position) else {
                position = (position / REGION_SIZE + 1).saturating_mul(REGION_SIZE);
                continue;
            };
            let start = within_chunk(position);
            let count = (CHUNK_SIZE - start as u64).min(end - position);
            let mut slot = writing(slot);
            if may_free && count == CHUNK_SIZE {
                if let Some(chunk) = slot.take() {
                    self.budget.release(chunk.pages_cost() + CHUNK_COST);
                }
            } else if let Some(chunk) = slot.as_mut() {
                self.budget.release(chunk.zero(start, count as usize, may_free));
                self.drop_if_empty(&mut slot);
            }
            position += count;
        }
    }

    /// Returns the extent that starts at `offset`, up to `end` at most, as far as one lookup shows.
    pub(super) fn extent_at(&self, offset: u64, end: u64) -> Extent {
        let hole_to = |boundary: u64| Extent::hole(boundary.min(end) - offset);
        let Some(slot) = self.slot(offset) else {
            return hole_to((offset / REGION_SIZE + 1).saturating_mul(REGION_SIZE));
        };
        let start = within_chunk(offset);
        match reading(slot).as_ref() {
            None => hole_to(offset - start as u64 + CHUNK_SIZE),
            Some(chunk) => {
                let reach = (CHUNK_SIZE - start as u64).min(end - offset);
                chunk.extent_at(start, start + reach as usize)
            }
        }
    }
}
