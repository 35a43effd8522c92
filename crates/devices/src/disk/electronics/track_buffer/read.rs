//! Reads.

use seeklab_core::{BufferOutcome, Duration, Instant, Request};

use super::segments::Arrival;
use super::{TrackBuffer, TrackBufferParameters};
use crate::disk::electronics::{Account, Served};
use crate::disk::layout::Extent;
use crate::disk::mechanics::{Mechanics, Position};

impl<P: Position> TrackBuffer<P> {
    /// Serves a read.
    pub(super) fn read(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> Served {
        let TrackBufferParameters { bus_per_block, stream_after, .. } = self.parameters;
        let sequential = self.history.read_end == Some(request.lbn);
        let armed = self.history.run >= stream_after;
        self.history.run = if sequential { self.history.run.saturating_add(1) } else { 0 };
        self.history.read_end = Some(request.end());
        let ending = if armed && !sequential { self.parameters.stream_end } else { Duration::ZERO };
        let overhead = if armed && sequential && self.holds_all(mechanism, now, request) {
            self.parameters.stream_hit
        } else {
            self.parameters.read_hit + ending
        };

        let mut account = Account::default();
        // When the bus is free for the next piece, and when the media have passed the last one read.
        let (mut bus, mut passed) = (None, None);
        let (mut next, mut left) = (request.lbn, request.blocks);
        loop {
            let extent = mechanism.extent(next, left);
            let arrival = if let Some((segment, arrival)) = self.segments.holds(mechanism, &extent, now) {
                self.segments.touch(segment);
                let free = bus.unwrap_or_else(|| {
                    account.overhead = overhead;
                    now + overhead
                });
                account.parts.rotation += arrival.first.saturating_since(free);
                bus = Some(free);
                // A turn that is waited for is not interrupted before.
                self.media.free = self.media.free.max(arrival.last);
                arrival
            } else {
                let landed = match passed {
                    None => self.go_to(mechanism, now, &extent, ending, &mut account),
                    Some(passed) => {
                        let left_at = self.media.free.max(passed);
                        self.cut_fill(left_at);
                        let (arm, parts) = (&mut self.media.arm, &mut account.parts);
                        mechanism.move_to(arm, left_at, &extent, false, parts)
                    }
                };
                self.fill(mechanism, &extent, landed);
                let pass = mechanism.pass_in_order(landed, next, &extent, &mut account.parts);
                passed = Some(pass.end);
                Arrival { first: pass.start + mechanism.passing(extent.zone, 1), last: pass.end }
            };
            // The slower of media and bus decides when the last block is across.
            let begin = bus.map_or(arrival.first, |free| arrival.first.max(free));
            let across = (begin + bus_per_block * u64::from(extent.blocks)).max(arrival.last + bus_per_block);
            bus = Some(across);
            left -= extent.blocks;
            if left == 0 {
                if self.history.run >= stream_after {
                    let (_, ahead) = mechanism.track_bounds(next);
                    let exists = ahead < mechanism.blocks();
                    self.media.ahead = exists.then(|| (ahead, passed.unwrap_or(now)));
                }
                self.history.after_write = false;
                let buffer = if passed.is_some() { BufferOutcome::Miss } else { BufferOutcome::Hit };
                return account.close(now, across, across, buffer);
            }
            next += u64::from(extent.blocks);
        }
    }

    /// Lands on the track of `extent` for a read, when nothing is unwritten any more.
    fn go_to(
        &mut self,
        mechanism: &impl Mechanics<P>,
        now: Instant,
        extent: &Extent,
        ending: Duration,
        account: &mut Account,
    ) -> Instant {
        while !self.write_back.is_empty() {
            self.destage(mechanism);
        }
        let start = self.media.free.max(now);
        self.media.ahead = None;
        self.cut_fill(start);
        account.internal = start - now;
        account.seek_cylinders = self.media.arm.cylinder().abs_diff(extent.cylinder);
        let start = start + ending;
        let there = mechanism.move_to(&mut self.media.arm, start, extent, false, &mut account.parts);
        let TrackBufferParameters { read_setup, read_setup_after_write, .. } = self.parameters;
        let setup = if self.history.after_write { read_setup_after_write } else { read_setup };
        let landed = there.max(start + setup);
        account.overhead += ending + (landed - there);
        landed
    }

    /// Returns true if the buffer holds all of a read at `now`.
    fn holds_all(&self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> bool {
        let (mut next, mut left) = (request.lbn, request.blocks);
        while left > 0 {
            let extent = mechanism.extent(next, left);
            if self.segments.holds(mechanism, &extent, now).is_none() {
                return false;
            }
            next += u64::from(extent.blocks);
            left -= extent.blocks;
        }
        true
    }
}
