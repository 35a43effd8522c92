//! Read-ahead as a function of time.

use seeklab_core::Instant;

use crate::disk::mechanism::{AccessParts, Arm, Mechanism};

/// Where the heads are, and in which zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub(super) arm: Arm,
    pub(super) zone: u32,
}

/// Heads that read on: blocks `next..end` in order, from `place` at `at`.
///
/// Tracks that have passed are folded into the beginning, so that a run is never walked twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadAhead {
    pub(super) next: u64,
    pub(super) end: u64,
    pub(super) at: Instant,
    pub(super) place: Place,
}

impl ReadAhead {
    /// Brings the run up to `until`; whether it is finished by then, at `at`.
    pub(super) fn advance(&mut self, mechanism: &Mechanism, until: Instant) -> bool {
        while self.next < self.end && self.at < until {
            let (end, blocks, place) = self.next_track(mechanism, |_, end, _| end);
            if end > until {
                return false;
            }
            (self.next, self.at, self.place) = (self.next + u64::from(blocks), end, place);
        }
        self.next >= self.end && self.at <= until
    }

    /// When the block before `end` has been read.
    pub(super) fn reaches(mut self, mechanism: &Mechanism, end: u64) -> Instant {
        self.end = self.end.min(end);
        self.advance(mechanism, Instant::from_ns(u64::MAX));
        self.at
    }

    /// Stops at `until`, up to which it has been brought: the first block not read, and the heads' place.
    pub(super) fn stopped(&self, mechanism: &Mechanism, until: Instant) -> (u64, Place) {
        if self.next >= self.end || until <= self.at {
            return (self.next, self.place);
        }
        let (read, _, place) = self.next_track(mechanism, |start, end, blocks| {
            let passed = until.saturating_since(start).as_ns();
            let whole = (end - start).as_ns().max(1);
            // Rounded down: a block counts when all of it has passed.
            (u128::from(passed) * u128::from(blocks) / u128::from(whole)).min(u128::from(blocks)) as u64
        });
        (self.next + read, place)
    }

    /// Passes over the part of the run on its next track: what `see` makes of start, end and blocks;
    /// the blocks; and where the heads are then.
    fn next_track<T>(
        &self,
        mechanism: &Mechanism,
        see: impl FnOnce(Instant, Instant, u32) -> T,
    ) -> (T, u32, Place) {
        let left = u32::try_from(self.end - self.next).unwrap_or(u32::MAX);
        let extent = mechanism.layout().extent(self.next, left);
        let (mut arm, mut parts) = (self.place.arm, AccessParts::default());
        let there = mechanism.move_to(&mut arm, self.at, &extent, false, &mut parts);
        let pass = mechanism.pass_in_order(there, self.next, &extent, &mut parts);
        (see(pass.start, pass.end, extent.blocks), extent.blocks, Place { arm, zone: extent.zone })
    }
}
