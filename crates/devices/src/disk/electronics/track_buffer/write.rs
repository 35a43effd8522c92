//! Writes.

use seeklab_core::{BufferOutcome, Duration, Instant, Operation, Request};

use super::destage::Dirty;
use super::segments::Key;
use super::{LastWrite, TrackBuffer};
use crate::disk::electronics::{Account, Served};
use crate::disk::layout::Extent;
use crate::disk::mechanics::{Mechanics, Position};

impl<P: Position> TrackBuffer<P> {
    /// Serves a write or the writing of zeroes.
    pub(super) fn write(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> Served {
        let zeroes = request.op == Operation::WriteZeroes;
        let bus_per_block = if zeroes { Duration::ZERO } else { self.parameters.bus_per_block };
        let (mut next, mut left) = (request.lbn, request.blocks);
        let mut extent = mechanism.extent(next, left);
        let ending = self.end_stream();
        let (overhead, next_track) = self.write_overhead(mechanism, request, &extent);
        let mut account = Account { overhead: ending + overhead, ..Account::default() };

        let mut entry = None;
        let (mut segment, room) = self.make_room(mechanism, &extent, entry, now);
        account.internal = room - now;
        let mut time = room + account.overhead;
        let next_track = time + next_track;
        loop {
            time += bus_per_block * u64::from(extent.blocks);
            let destages = self.buffer(Dirty::new(next, time, extent), entry);
            mechanism.note_taken_in(next, next + u64::from(extent.blocks));
            self.segments.write(segment, &extent, destages);
            entry = Some(destages);
            left -= extent.blocks;
            if left == 0 {
                break;
            }
            next += u64::from(extent.blocks);
            extent = mechanism.extent(next, left);
            account.overhead += next_track.saturating_since(time);
            time = time.max(next_track);
            let room;
            (segment, room) = self.make_room(mechanism, &extent, entry, time);
            account.internal += room - time;
            time = room;
        }
        let track = Key::written(&extent);
        self.history.last_write = Some(LastWrite { lbn: request.lbn, end: request.end(), track });
        let Some(destages) = entry.filter(|_| request.fua) else {
            return account.close(now, time, time, BufferOutcome::Hit);
        };
        while self.write_back.destages() < destages {
            let destage = self.destage(mechanism);
            if self.write_back.destages() == destages {
                account.internal += destage.start - time;
                account.parts = destage.parts;
                account.seek_cylinders = destage.seek_cylinders;
            }
        }
        let completed = self.media.free.max(time);
        account.close(now, completed, completed, BufferOutcome::Miss)
    }

    /// Processing of a write whose first piece is `extent`, and how long after that a further track of
    /// it can be taken.
    fn write_overhead(
        &self,
        mechanism: &impl Mechanics<P>,
        request: &Request,
        extent: &Extent,
    ) -> (Duration, Duration) {
        let costs = &self.parameters;
        let overhead = costs.write_hit + costs.write_per_zone * u64::from(extent.zone);
        if self.segments.find(Key::read(extent)).is_some() {
            return (overhead + costs.write_into_read_segment, costs.write_next_track);
        }
        if self.segments.find(Key::written(extent)).is_none() {
            return (overhead + costs.write_new_segment, costs.write_next_track_new);
        }
        let gap = match self.history.last_write {
            Some(last) if last.track == Key::written(extent) && request.end() != last.lbn => {
                request.lbn.abs_diff(last.end)
            }
            _ => 0,
        };
        let track = u64::from(mechanism.sectors_per_track(extent.zone));
        (overhead + costs.write_gap * gap.min(track) / track, costs.write_next_track)
    }

    /// A segment for what is written to a track, and when it is there, not before `now`; `entry` is what
    /// of the same command is unwritten already.
    fn make_room(
        &mut self,
        mechanism: &impl Mechanics<P>,
        extent: &Extent,
        entry: Option<u64>,
        now: Instant,
    ) -> (usize, Instant) {
        if let Some(read) = self.segments.find(Key::read(extent)) {
            self.segments.touch(read);
        }
        let mut room = now;
        loop {
            let destages = self.write_back.destages();
            if !self.write_back.is_full() || entry.is_some_and(|entry| entry > destages) {
                let key = Key::written(extent);
                if let Some(segment) = self.segments.claim(key, self.media.filling, destages) {
                    return (segment, room);
                }
            }
            self.destage(mechanism);
            room = self.media.free.max(now);
        }
    }

    /// Takes in written data, after `entry` of the same command if that is still unwritten; how many
    /// destages there will have been when it is on the media.
    fn buffer(&mut self, dirty: Dirty, entry: Option<u64>) -> u64 {
        let same_command = entry.is_some_and(|entry| entry > self.write_back.destages());
        // An older entry takes in new data only if it cannot begin before them.
        let joins = || self.media.free >= dirty.ready() && self.write_back.adjoins(&dirty);
        if same_command || joins() {
            self.write_back.extend(dirty);
        } else {
            self.write_back.push(dirty);
        }
        self.write_back.destages_of_all()
    }
}
