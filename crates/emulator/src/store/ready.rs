//! Pages that are there before they are needed.
//!
//! The first touch of memory takes the system 1 to 4 us for each page of 4 KiB: 0.9 ms for a write of 1 MiB, most of it beyond
//! the response time of a disk with a write cache. Pages that were touched before take 0.1 ms.

use std::collections::TryReserveError;
use std::sync::{Mutex, PoisonError};

use super::chunk::{PAGE_BYTES, Page};

/// Pages at a time, so that a request that arrives meanwhile waits for some 30 us at most.
const SLICE: usize = 8;

/// Touched pages without contents that matter, up to a target.
#[derive(Debug)]
pub(super) struct ReadyPages {
    pages: Mutex<Vec<Box<Page>>>,
    target: usize,
}

impl ReadyPages {
    /// None, and none to be kept.
    pub(super) const fn none() -> Self {
        Self { pages: Mutex::new(Vec::new()), target: 0 }
    }

    /// Pages up to the target, or as many as the allocator has.
    pub(super) fn filled(target: usize) -> Self {
        let this = Self { pages: Mutex::new(Vec::new()), target };
        while this.refill() {}
        this
    }

    /// Adds some pages if the target is not reached. Returns false if there are enough, or the allocator has no more.
    pub(super) fn refill(&self) -> bool {
        let mut pages = self.lock();
        let missing = self.target.saturating_sub(pages.len()).min(SLICE);
        for _ in 0..missing {
            // Zeroes would come from the system without a touch.
            match new_page(1) {
                Ok(page) => pages.push(page),
                Err(_) => return false,
            }
        }
        pages.len() < self.target
    }

    /// Returns true if there are fewer pages than the target.
    pub(super) fn is_short(&self) -> bool {
        self.target > 0 && self.lock().len() < self.target
    }

    /// A page with `bytes` from `first`, and zeroes around them.
    pub(super) fn page_with(&self, first: usize, bytes: &[u8]) -> Result<Box<Page>, TryReserveError> {
        let ready = if self.target > 0 { self.lock().pop() } else { None };
        let Some(mut page) = ready else {
            let mut page = new_page(0)?;
            page[first..first + bytes.len()].copy_from_slice(bytes);
            return Ok(page);
        };
        page[..first].fill(0);
        page[first..first + bytes.len()].copy_from_slice(bytes);
        page[first + bytes.len()..].fill(0);
        Ok(page)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Box<Page>>> {
        // Each page is whole, whatever else panicked.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A page full of `byte`.
fn new_page(byte: u8) -> Result<Box<Page>, TryReserveError> {
    let mut page = Vec::new();
    page.try_reserve_exact(PAGE_BYTES)?;
    page.resize(PAGE_BYTES, byte);
    Ok(page.into_boxed_slice().try_into().expect("a page was filled"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_ready_up_to_the_target_and_again_after_use() {
        let ready = ReadyPages::filled(20);
        let count = || ready.lock().len();
        assert_eq!((count(), ready.is_short()), (20, false));
        for _ in 0..11 {
            let page = ready.page_with(4090, b"bytes").unwrap();
            assert_eq!(
                (&page[4090..4095], page.iter().filter(|byte| **byte == 0).count()),
                (&b"bytes"[..], 4091)
            );
        }
        assert_eq!((count(), ready.is_short()), (9, true));
        assert!(ready.refill(), "a slice is not enough");
        assert_eq!(count(), 9 + SLICE);
        assert!(!ready.refill());
        assert_eq!((count(), ready.is_short()), (20, false));
    }

    #[test]
    fn pages_come_from_the_allocator_where_none_are_ready() {
        for ready in [ReadyPages::none(), ReadyPages::filled(1)] {
            for _ in 0..3 {
                let page = ready.page_with(1, &[7; 3]).unwrap();
                assert!(page[0] == 0 && page[1..4] == [7; 3] && page[4..].iter().all(|byte| *byte == 0));
            }
        }
        assert!(!ReadyPages::none().is_short() && !ReadyPages::none().refill());
    }
}
