//! A chunk: 2 MiB of the device kept in memory, page by page.

use std::collections::TryReserveError;
use std::ops::Range;

use super::Extent;
use super::budget::Reservation;
use super::ready::ReadyPages;
use super::zeroes::is_zero;

/// Bytes of a page: what file systems write, and the unit in which memory is taken.
pub(super) const PAGE_BYTES: usize = 4096;
/// Pages of a chunk.
pub(super) const PAGE_COUNT: usize = 512;
/// Bytes of the device that a chunk holds.
pub(super) const CHUNK_BYTES: usize = PAGE_BYTES * PAGE_COUNT;
/// Memory cost of a page: its bytes and the allocator's overhead.
pub(super) const PAGE_COST: u64 = PAGE_BYTES as u64 + 16;
/// Memory cost of an empty chunk.
pub(super) const CHUNK_COST: u64 = (PAGE_COUNT * size_of::<Option<Box<Page>>>()) as u64 + 16;

/// Contents of a page.
pub(super) type Page = [u8; PAGE_BYTES];

/// The pages of 2 MiB of the device; one that is not there reads as zeroes.
#[derive(Debug)]
pub(super) struct Chunk {
    pages: Box<[Option<Box<Page>>]>,
    page_count: usize,
}

/// The part of one page that a range of a chunk covers.
struct Part {
    page_index: usize,
    within: Range<usize>,
    /// Bytes of the range that it covers.
    at: Range<usize>,
}

impl Part {
    fn is_whole_page(&self) -> bool {
        self.within.len() == PAGE_BYTES
    }
}

/// The parts, page by page, of `length` bytes from `start`.
fn parts(start: usize, length: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < length).then(|| {
            let position = start + done;
            let first = position % PAGE_BYTES;
            let count = (PAGE_BYTES - first).min(length - done);
            let part = Part {
                page_index: position / PAGE_BYTES,
                within: first..first + count,
                at: done..done + count,
            };
            done += count;
            part
        })
    })
}

/// A slice on the heap, or the allocator's refusal.
pub(super) fn boxed<T>(count: usize, fill: impl FnMut() -> T) -> Result<Box<[T]>, TryReserveError> {
    let mut items = Vec::new();
    items.try_reserve_exact(count)?;
    items.extend(std::iter::repeat_with(fill).take(count));
    Ok(items.into_boxed_slice())
}

impl Chunk {
    pub(super) fn new() -> Result<Self, TryReserveError> {
        Ok(Self { pages: boxed(PAGE_COUNT, || None)?, page_count: 0 })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.page_count == 0
    }

    /// Returns the memory cost of its pages, without the chunk itself.
    pub(super) fn pages_cost(&self) -> u64 {
        self.page_count as u64 * PAGE_COST
    }

    pub(super) fn read(&self, start: usize, buffer: &mut [u8]) {
        for part in parts(start, buffer.len()) {
            let target = &mut buffer[part.at];
            match &self.pages[part.page_index] {
                Some(page) => target.copy_from_slice(&page[part.within]),
                None => target.fill(0),
            }
        }
    }

    /// Returns the memory cost of writing `bytes` at `start`. Without a chunk, this includes the cost of a new
    /// chunk.
    pub(super) fn write_cost(chunk: Option<&Self>, start: usize, bytes: &[u8]) -> u64 {
        let is_missing = |part: &Part| {
            chunk.is_none_or(|chunk| chunk.pages[part.page_index].is_none())
                && !is_zero(&bytes[part.at.clone()])
        };
        let pages = parts(start, bytes.len()).filter(is_missing).count() as u64 * PAGE_COST;
        if chunk.is_none() && pages > 0 { pages + CHUNK_COST } else { pages }
    }

    /// Writes; takes what new pages cost from `reservation`, and gives back what pages that became
    /// zero cost before.
    pub(super) fn write(
        &mut self,
        start: usize,
        bytes: &[u8],
        reservation: &mut Reservation<'_>,
        ready: &ReadyPages,
    ) -> Result<(), TryReserveError> {
        for part in parts(start, bytes.len()) {
            let source = &bytes[part.at.clone()];
            let slot = &mut self.pages[part.page_index];
            if is_zero(source) {
                reservation.give_back(self.zero_part(&part, true));
            } else if let Some(page) = slot {
                page[part.within].copy_from_slice(source);
            } else {
                *slot = Some(ready.page_with(part.within.start, source)?);
                self.page_count += 1;
                reservation.take(PAGE_COST);
            }
        }
        Ok(())
    }

    /// Zeroes `length` bytes from `start`; pages that become zero go if `may_free`. Returns what
    /// those cost.
    pub(super) fn zero(&mut self, start: usize, length: usize, may_free: bool) -> u64 {
        parts(start, length).map(|part| self.zero_part(&part, may_free)).sum()
    }

    fn zero_part(&mut self, part: &Part, may_free: bool) -> u64 {
        let slot = &mut self.pages[part.page_index];
        let Some(page) = slot else { return 0 };
        if !(may_free && part.is_whole_page()) {
            page[part.within.clone()].fill(0);
        }
        if !(may_free && (part.is_whole_page() || is_zero(&page[..]))) {
            return 0;
        }
        *slot = None;
        self.page_count -= 1;
        PAGE_COST
    }

    /// The extent that starts at `start`, up to `end` at most.
    pub(super) fn extent_at(&self, start: usize, end: usize) -> Extent {
        let is_there = |page_index: usize| self.pages[page_index].is_some();
        let first = start / PAGE_BYTES;
        let there = is_there(first);
        let behind = (first + 1..end.div_ceil(PAGE_BYTES))
            .find(|page_index| is_there(*page_index) != there)
            .map_or(end, |page_index| page_index * PAGE_BYTES);
        let length = (behind - start) as u64;
        if there { Extent::allocated(length) } else { Extent::hole(length) }
    }
}
