//! Read-ahead as a function of time.

use seeklab_core::Instant;

use crate::disk::mechanics::{Mechanics, Position};
use crate::disk::mechanism::AccessParts;

/// Place of the heads, and its zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place<P> {
    pub(super) arm: P,
    pub(super) zone: u32,
}

/// Heads that read on: blocks `next..end` in order, from `place` at `at`.
///
/// Tracks that have passed are folded into the beginning, and the one that is passing is remembered, so
/// that no track is computed twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadAhead<P> {
    next: u64,
    end: u64,
    at: Instant,
    place: Place<P>,
    passing: Option<Passing<P>>,
}

/// The part of the run on the track that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passing<P> {
    start: Instant,
    end: Instant,
    blocks: u32,
    place: Place<P>,
}

impl<P: Position> ReadAhead<P> {
    /// A run over the blocks `next..end` that begins at `at`, the heads at `place`.
    pub(super) const fn new(next: u64, end: u64, at: Instant, place: Place<P>) -> Self {
        Self { next, end, at, place, passing: None }
    }

    /// The first block that had not been read when the run was last brought up to date; earlier blocks
    /// of the track that is passing may have been.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Returns the place of the heads after the last finished track.
    pub(super) const fn place(&self) -> Place<P> {
        self.place
    }

    /// Lets the run go on to `end`, which does not lie before its present end.
    pub(super) const fn extend(&mut self, end: u64) {
        self.end = end;
        self.passing = None;
    }

    /// Brings the run up to `until`; when it was finished, if it is by then.
    pub(super) fn advance(&mut self, mechanism: &impl Mechanics<P>, until: Instant) -> Option<Instant> {
        while self.next < self.end && self.at < until {
            let passing = self.passing.take().unwrap_or_else(|| self.next_track(mechanism));
            if passing.end > until {
                self.passing = Some(passing);
                return None;
            }
            self.next += u64::from(passing.blocks);
            (self.at, self.place) = (passing.end, passing.place);
        }
        (self.next >= self.end && self.at <= until).then_some(self.at)
    }

    /// Returns the time at which the block before `end`, which the run has not passed yet, will have been read.
    pub(super) fn reaches(mut self, mechanism: &impl Mechanics<P>, end: u64) -> Instant {
        if end < self.end {
            (self.end, self.passing) = (end, None);
        }
        self.advance(mechanism, Instant::from_ns(u64::MAX));
        self.at
    }

    /// Stops at `until`: the first block not read, and where the heads are.
    pub(super) fn stop(mut self, mechanism: &impl Mechanics<P>, until: Instant) -> (u64, Place<P>) {
        self.advance(mechanism, until);
        let Some(passing) = self.passing else { return (self.next, self.place) };
        let passed = mechanism.passed(passing.place.zone, until.saturating_since(passing.start));
        (self.next + u64::from(passed.min(passing.blocks)), passing.place)
    }

    /// The part of the run on its next track.
    fn next_track(&self, mechanism: &impl Mechanics<P>) -> Passing<P> {
        let left = u32::try_from(self.end - self.next).unwrap_or(u32::MAX);
        let extent = mechanism.extent(self.next, left);
        let (mut arm, mut parts) = (self.place.arm, AccessParts::default());
        let there = mechanism.move_to(&mut arm, self.at, &extent, false, &mut parts);
        let pass = mechanism.pass_in_order(there, self.next, &extent, &mut parts);
        let place = Place { arm, zone: extent.zone };
        Passing { start: pass.start, end: pass.end, blocks: extent.blocks, place }
    }
}
