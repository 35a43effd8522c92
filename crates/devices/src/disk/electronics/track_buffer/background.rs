//! Background work of the mechanism: destaging, filling segments, fetching ahead.

use seeklab_core::Instant;

use super::TrackBuffer;
use super::destage::Destage;
use super::segments::Key;
use crate::disk::layout::Extent;
use crate::disk::mechanics::{Mechanics, Position};
use crate::disk::mechanism::AccessParts;

impl<P: Position> TrackBuffer<P> {
    /// Does the background work that begins before `now`.
    pub(super) fn advance(&mut self, mechanism: &impl Mechanics<P>, now: Instant) {
        while let Some(ready) = self.write_back.ready() {
            if ready.max(self.media.free) >= now {
                return;
            }
            self.destage(mechanism);
        }
        self.finish_fill(now);
        let Some((lbn, ready)) = self.media.ahead else { return };
        let start = ready.max(self.media.free);
        if self.media.filling.is_some() || start >= now {
            return;
        }
        self.media.ahead = None;
        let extent = mechanism.extent(lbn, 1);
        if self.segments.find(Key::read(&extent)).is_none() {
            let parts = &mut AccessParts::default();
            let landed = mechanism.move_to(&mut self.media.arm, start, &extent, false, parts);
            self.fill(mechanism, &extent, landed);
            self.finish_fill(now);
        }
    }

    /// Writes the oldest unwritten data to the media, as soon as they are there and the media are free.
    pub(super) fn destage(&mut self, mechanism: &impl Mechanics<P>) -> Destage {
        let dirty = self.write_back.take();
        let start = dirty.ready().max(self.media.free);
        self.cut_fill(start);
        self.media.ahead = None;
        let seek_cylinders = dirty.seek_cylinders(self.media.arm);
        let mut parts = AccessParts::default();
        self.media.free =
            dirty.write(mechanism, &mut self.media.arm, start, self.zero_latency_write, &mut parts);
        Destage { start, parts, seek_cylinders }
    }

    /// Begins to read the track of `extent`, on which the head lands at `landed`.
    pub(super) fn fill(&mut self, mechanism: &impl Mechanics<P>, extent: &Extent, landed: Instant) {
        let segment = self
            .segments
            .claim(Key::read(extent), None, self.write_back.destages())
            .expect("the media is read when nothing is unwritten");
        self.segments.fill(segment, landed, landed + mechanism.period());
        self.media.filling = Some(segment);
    }

    /// Ends the filling of a segment at `time`.
    pub(super) fn cut_fill(&mut self, time: Instant) {
        if let Some(segment) = self.media.filling.take() {
            self.segments.cut(segment, time);
        }
    }

    /// Notes that a segment has been filled, if it has by `now`.
    fn finish_fill(&mut self, now: Instant) {
        if let Some(segment) = self.media.filling {
            let filled = self.segments.filled(segment);
            if filled <= now {
                self.media.free = self.media.free.max(filled);
                self.media.filling = None;
            }
        }
    }
}
