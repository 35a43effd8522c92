//! The budget: counts what the store keeps in memory, before it is allocated.

use std::sync::atomic::{AtomicU64, Ordering};

use seeklab_core::units::ByteSize;

use super::StoreError;

/// Memory that may be used up to a cap.
#[derive(Debug)]
pub(super) struct Budget {
    cap: u64,
    used: AtomicU64,
}

/// Memory set aside; what is not taken returns to the budget when this is dropped.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    budget: &'a Budget,
    left: u64,
}

impl Budget {
    pub(super) fn new(cap: ByteSize) -> Self {
        Self { cap: cap.as_bytes(), used: AtomicU64::new(0) }
    }

    /// Sets `bytes` aside, or refuses and leaves everything as it was.
    pub(super) fn reserve(&self, bytes: u64) -> Result<Reservation<'_>, StoreError> {
        // The counter guards no other memory, so relaxed order is enough.
        if bytes > 0 {
            self.used
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                    used.checked_add(bytes).filter(|sum| *sum <= self.cap)
                })
                .map_err(|_| StoreError::NoSpace { cap: self.cap() })?;
        }
        Ok(Reservation { budget: self, left: bytes })
    }

    /// Gives back what was taken.
    pub(super) fn release(&self, bytes: u64) {
        if bytes > 0 {
            let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
            assert!(before >= bytes, "only what was taken is released");
        }
    }

    pub(super) fn cap(&self) -> ByteSize {
        ByteSize::from_bytes(self.cap)
    }

    pub(super) fn used(&self) -> ByteSize {
        ByteSize::from_bytes(self.used.load(Ordering::Relaxed))
    }
}

impl Reservation<'_> {
    /// Uses `bytes` of what was set aside: they stay counted until they are released.
    pub(super) fn take(&mut self, bytes: u64) {
        self.left = self.left.checked_sub(bytes).expect("no more is taken than was reserved");
    }

    /// Gives back what had been taken earlier.
    pub(super) fn give_back(&self, bytes: u64) {
        self.budget.release(bytes);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.budget.release(self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_allows_exactly_the_cap() {
        let budget = Budget::new(ByteSize::from_bytes(100));
        budget.reserve(60).unwrap().take(60);
        assert!(matches!(budget.reserve(41), Err(StoreError::NoSpace { .. })));
        assert!(matches!(budget.reserve(u64::MAX), Err(StoreError::NoSpace { .. })));
        budget.reserve(40).unwrap().take(40);
        budget.release(100);
        assert_eq!(budget.used().as_bytes(), 0);
    }

    #[test]
    fn unused_part_of_a_reservation_returns_to_the_budget() {
        let budget = Budget::new(ByteSize::from_bytes(100));
        let mut reservation = budget.reserve(100).unwrap();
        reservation.take(30);
        drop(reservation);
        assert_eq!(budget.used().as_bytes(), 30);
    }
}
