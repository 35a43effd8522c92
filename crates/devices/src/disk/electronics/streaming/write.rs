//! Writes, and what makes them durable.

use seeklab_core::{BufferOutcome, Duration, Instant};

use super::ranges::{Dirty, Range};
use super::{Account, Previous, Served, Streaming};
use crate::disk::mechanics::{Mechanics, Position};

impl<P: Position> Streaming<P> {
    /// A write that is complete when it is in the buffer.
    pub(super) fn buffer_write(
        &mut self,
        mechanism: &impl Mechanics<P>,
        now: Instant,
        range: Range,
        bus_blocks: u64,
    ) -> Served {
        let overhead = self.write_overhead(mechanism, range);
        let mut account = Account { overhead, ..Account::default() };
        let mut buffer = BufferOutcome::Hit;
        if !self.has_room(range) {
            self.stop_read_ahead(mechanism, now);
            self.destage(mechanism, now, 1);
            account.internal = self.mechanism_free.saturating_since(now);
            buffer = BufferOutcome::Miss;
        }
        let completed = now + account.internal + overhead + self.rules.bus_per_block * bus_blocks;
        self.stop_read_ahead(mechanism, completed);
        self.note_dirty(range, completed);
        mechanism.note_taken_in(range.lbn, range.end);
        self.note_write(range);
        account.close(now, completed, completed, buffer)
    }

    /// A write that is complete when it is on the media.
    pub(super) fn write_through(
        &mut self,
        mechanism: &impl Mechanics<P>,
        now: Instant,
        range: Range,
        bus_blocks: u64,
    ) -> Served {
        let overhead = self.write_overhead(mechanism, range);
        let ready = now + overhead;
        self.stop_read_ahead(mechanism, now);
        self.destage(mechanism, now, self.dirty_before(range));
        let begin = ready.max(self.mechanism_free);
        let mut account = Account { overhead, internal: begin - ready, ..Account::default() };
        mechanism.note_taken_in(range.lbn, range.end);
        account.seek_cylinders = self.write_media(mechanism, begin, range, &mut account.parts);
        let received = ready + self.rules.bus_per_block * bus_blocks;
        let completed = self.mechanism_free.max(received);
        self.note_write(range);
        account.close(now, completed, completed, BufferOutcome::Miss)
    }

    /// A flush: complete when everything written is on the media.
    pub(super) fn flush(&mut self, mechanism: &impl Mechanics<P>, now: Instant) -> Served {
        if self.dirty.is_empty() {
            return self.command_without_data(now, now);
        }
        self.stop_read_ahead(mechanism, now);
        self.destage(mechanism, now, self.dirty.len());
        self.command_without_data(now, self.mechanism_free)
    }

    /// A command that moves no data and waits until `done`.
    pub(super) fn command_without_data(&self, now: Instant, done: Instant) -> Served {
        let ready = now + self.rules.without_data;
        let internal = done.saturating_since(ready);
        let account = Account { overhead: self.rules.without_data, internal, ..Account::default() };
        account.close(now, ready + internal, ready + internal, BufferOutcome::None)
    }

    /// Returns true if a write of `range` need not wait for the media.
    pub(super) fn has_room(&self, range: Range) -> bool {
        let write = &self.rules.write;
        range.blocks() <= u64::from(write.segment_blocks)
            && (self.dirty.len() < write.segments as usize || self.joined(range).is_some())
    }

    /// Returns the newest dirty extent enlarged by `range`; `None` if `range` cannot join it.
    fn joined(&self, range: Range) -> Option<Range> {
        let being_written = self.destaging && self.dirty.len() == 1;
        let newest = self.dirty.as_slice().last().filter(|_| !being_written)?.range;
        if newest.holds(range) {
            return Some(newest);
        }
        let joined = Range { lbn: newest.lbn, end: range.end };
        let contiguous = newest.end == range.lbn;
        (contiguous && joined.blocks() <= u64::from(self.rules.write.segment_blocks)).then_some(joined)
    }

    fn note_dirty(&mut self, range: Range, since: Instant) {
        match self.joined(range) {
            Some(joined) => {
                if let Some(newest) = self.dirty.last_mut() {
                    *newest = Dirty { range: joined, since };
                }
            }
            None => self.dirty.push(Dirty { range, since }),
        }
    }

    fn write_overhead(&self, mechanism: &impl Mechanics<P>, range: Range) -> Duration {
        let overheads = &self.rules.write;
        let (target, place) = (mechanism.extent(range.lbn, 1), self.place);
        let after_write = self.previous == Previous::Write;
        let same_cylinder = target.cylinder == place.arm.cylinder();
        let mut overhead = if same_cylinder && target.head == place.arm.head() {
            if after_write { overheads.same_track_after_write } else { overheads.same_track }
        } else {
            let overhead = if same_cylinder {
                overheads.same_cylinder
            } else if target.zone == place.zone {
                overheads.same_zone
            } else {
                overheads.other_zone
            };
            if after_write { overhead.saturating_sub(overheads.saved_after_write) } else { overhead }
        };
        overhead += match (self.live, self.previous == Previous::SequentialHit) {
            (true, false) => overheads.live,
            (true, true) => overheads.live_after_sequential,
            (false, true) => overheads.after_sequential,
            (false, false) => Duration::ZERO,
        };
        overhead
    }

    /// Applies a write to the stream, to the data kept for reads, and to the overheads of later commands.
    fn note_write(&mut self, range: Range) {
        if let Some(stream) = &mut self.stream {
            stream.writes = stream.writes.saturating_add(1);
            if stream.writes > self.rules.stream.survives_writes {
                self.stream = None;
            } else if stream.ahead.overlaps(range) {
                stream.ahead.lbn = range.end.min(stream.ahead.end);
            }
        }
        self.live = false;
        self.previous = Previous::Write;
        let (kept, limit) = (self.rules.write.kept as usize, u64::from(self.rules.write.segment_blocks));
        if kept > 0 {
            if self.kept.len() == kept {
                self.kept.drop_oldest();
            }
            // A segment holds the last of what is longer.
            self.kept.push(Range { lbn: range.lbn.max(range.end.saturating_sub(limit)), end: range.end });
        }
    }
}
