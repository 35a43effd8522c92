//! Read-ahead and destaging behind the host's back.

use seeklab_core::{Duration, Instant, Operation};

use super::Streaming;
use super::parameters::LiveRule;
use super::ranges::Range;
use super::read_ahead::Place;
use crate::disk::mechanics::{Mechanics, Position};
use crate::disk::mechanism::{AccessParts, Pass};

impl<P: Position> Streaming<P> {
    /// Brings read-ahead and destaging up to `now`.
    pub(super) fn bring_up_to(&mut self, mechanism: &impl Mechanics<P>, now: Instant) {
        if let Some(run) = &mut self.read_ahead {
            let ended = run.advance(mechanism, now);
            self.place = run.place();
            if let Some(ended) = ended {
                self.mechanism_free = self.mechanism_free.max(ended);
                self.read_ahead = None;
                self.read_ahead_ended = Some(ended);
            }
        }
        self.destage_until(mechanism, now);
    }

    /// Brings the stream's liveliness up to `now`, when a command begins and the background work is up to date.
    pub(super) fn bring_live_up_to(&mut self, now: Instant, op: Operation) {
        let ended = self.read_ahead_ended.take();
        self.live &= match self.rules.stream.live {
            LiveRule::IdleTimer { idle } => now.saturating_since(self.idle_since) <= idle,
            LiveRule::ReadingAhead { margin } => {
                let margin = if op == Operation::Read { margin } else { Duration::ZERO };
                self.read_ahead.is_some() || ended.is_some_and(|ended| now < ended + margin)
            }
        };
    }

    /// Destages in the background what begins before `now`.
    fn destage_until(&mut self, mechanism: &impl Mechanics<P>, now: Instant) {
        loop {
            if self.destaging {
                if self.mechanism_free > now {
                    return;
                }
                self.finish_destaging();
            }
            if self.read_ahead.is_some() {
                return;
            }
            let Some(oldest) = self.dirty.as_slice().first() else { return };
            let begin = self.mechanism_free.max(oldest.since);
            if begin >= now {
                return;
            }
            let range = oldest.range;
            self.write_media(mechanism, begin, range, &mut AccessParts::default());
            self.destaging = true;
        }
    }

    /// Destages the `extents` oldest dirty extents from `now` on, whatever else there is to do.
    pub(super) fn destage(&mut self, mechanism: &impl Mechanics<P>, now: Instant, extents: usize) {
        for _ in 0..extents {
            if !self.destaging {
                let range = self.dirty.as_slice()[0].range;
                self.write_media(mechanism, self.mechanism_free.max(now), range, &mut AccessParts::default());
            }
            self.finish_destaging();
        }
    }

    fn finish_destaging(&mut self) {
        self.dirty.drop_oldest();
        self.destaging = false;
    }

    /// Returns the number of the oldest dirty extents that must be on the media before `range` may be
    /// accessed there.
    pub(super) fn dirty_before(&self, range: Range) -> usize {
        let overlapping = self.dirty.as_slice().iter().rposition(|dirty| dirty.range.overlaps(range));
        overlapping.map_or(usize::from(self.destaging), |index| index + 1)
    }

    /// Writes `range` to the media, the heads free from `begin` on; how far the first seek went.
    pub(super) fn write_media(
        &mut self,
        mechanism: &impl Mechanics<P>,
        begin: Instant,
        range: Range,
        parts: &mut AccessParts,
    ) -> u32 {
        let Place { mut arm, mut zone } = self.place;
        let (before, mut first) = (arm.cylinder(), None);
        let zero_latency = self.zero_latency_write;
        let blocks = range.blocks() as u32;
        let see = |pass: Pass| {
            first.get_or_insert(pass.cylinder);
            zone = pass.zone;
        };
        let done = mechanism.access(&mut arm, begin, range.lbn, blocks, true, zero_latency, parts, see);
        self.place = Place { arm, zone };
        self.mechanism_free = done;
        first.map_or(0, |first| first.abs_diff(before))
    }

    /// Ends the read-ahead at `until`: the stream holds what has been read by then.
    pub(super) fn stop_read_ahead(&mut self, mechanism: &impl Mechanics<P>, until: Instant) {
        let Some(run) = self.read_ahead.take() else { return };
        let (end, place) = run.stop(mechanism, until);
        self.place = place;
        // Until then the heads were reading: what waits cannot have been written meanwhile.
        self.mechanism_free = self.mechanism_free.max(until);
        if let Some(stream) = &mut self.stream {
            stream.ahead.end = stream.ahead.end.min(end).max(stream.ahead.lbn);
        }
    }
}
