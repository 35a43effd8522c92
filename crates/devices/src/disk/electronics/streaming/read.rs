//! Reads: from the buffer, and from the media.

use seeklab_core::{BufferOutcome, Duration, Instant};

use super::parameters::{Consumption, ReadMissParameters};
use super::ranges::Range;
use super::read_ahead::{Place, ReadAhead};
use super::{Account, Hit, Previous, Served, Stream, Streaming};
use crate::disk::mechanics::{Mechanics, Media, Position};
use crate::disk::mechanism::Pass;

impl<P: Position> Streaming<P> {
    pub(super) fn read_hit(
        &mut self,
        mechanism: &impl Mechanics<P>,
        now: Instant,
        range: Range,
        hit: Hit,
    ) -> Served {
        let bus_per_block = self.rules.bus_per_block;
        let overhead = self.hit_overhead(hit);
        let mut account = Account { overhead, ..Account::default() };
        let mut completed = now + overhead + bus_per_block * range.blocks();
        if matches!(hit, Hit::Stream { .. }) {
            self.read_on_to(range.end, now);
        }
        if let Some(run) = &self.read_ahead
            && matches!(hit, Hit::Stream { .. })
            && run.next() < range.end
        {
            let last = run.reaches(mechanism, range.end) + bus_per_block;
            account.parts.transfer = last.saturating_since(completed);
            completed += account.parts.transfer;
        }
        if matches!(hit, Hit::Stream { .. }) {
            self.consume(mechanism, now, range);
        }
        self.previous = match hit {
            Hit::Stream { sequential: true } if self.live => Previous::SequentialHit,
            _ => Previous::OtherHit,
        };
        account.close(now, completed, completed, BufferOutcome::Hit)
    }

    fn hit_overhead(&self, hit: Hit) -> Duration {
        let overheads = &self.rules.read_hit;
        match (hit, self.live, self.previous) {
            (Hit::Written, _, _) => overheads.written,
            (Hit::Stream { sequential: true }, true, _) => overheads.live_sequential,
            (_, true, Previous::SequentialHit) => overheads.live_skip_after_sequential,
            (_, true, _) => overheads.live_skip,
            (_, false, Previous::SequentialHit) => overheads.after_sequential,
            (_, false, Previous::Write) => overheads.after_write,
            (Hit::Stream { sequential: true }, false, _) => overheads.sequential,
            (_, false, _) => overheads.skip,
        }
    }

    /// Notes that the host read `range` of the stream, which lets the read-ahead go on behind it.
    fn consume(&mut self, mechanism: &impl Mechanics<P>, now: Instant, range: Range) {
        let Some(stream) = &mut self.stream else { return };
        stream.last_end = range.end;
        if !(self.live || self.rules.stream.consumed == Consumption::Always) {
            return;
        }
        stream.ahead.lbn = range.end;
        let end = read_ahead_end(mechanism, range.end, self.rules.stream.read_ahead);
        self.read_on_to(end, now);
    }

    /// Lets the heads read on until the stream ends at `end`, if it ends before.
    fn read_on_to(&mut self, end: u64, now: Instant) {
        let Some(stream) = self.stream.as_mut().filter(|stream| stream.ahead.end < end) else { return };
        let next = std::mem::replace(&mut stream.ahead.end, end);
        match &mut self.read_ahead {
            Some(run) => run.extend(end),
            idle => {
                let at = self.mechanism_free.max(now);
                *idle = Some(ReadAhead::new(next, end, at, self.place));
            }
        }
    }

    pub(super) fn read_miss(&mut self, mechanism: &impl Mechanics<P>, now: Instant, range: Range) -> Served {
        self.stop_read_ahead(mechanism, now);
        let mut extent = mechanism.extent(range.lbn, range.blocks() as u32);
        let seek_cylinders = extent.cylinder.abs_diff(self.place.arm.cylinder());
        let ReadMissParameters { same_cylinder, other_cylinder, bus_per_block, completion } =
            self.rules.read_miss;
        let overhead = if seek_cylinders == 0 { same_cylinder } else { other_cylinder };
        let ready = now + overhead;
        self.destage(mechanism, now, self.dirty_before(range));
        let begin = ready.max(self.mechanism_free);
        let mut account = Account {
            overhead: overhead + completion,
            internal: begin - ready,
            seek_cylinders,
            ..Account::default()
        };

        let (mut next, mut arm) = (range.lbn, self.place.arm);
        let (mut media_end, mut delivered) = (begin, begin);
        loop {
            let parts = &mut account.parts;
            let there = mechanism.move_to(&mut arm, media_end, &extent, false, parts);
            let pass = if self.zero_latency_read {
                mechanism.pass_on_arrival(there, next, &extent, parts)
            } else {
                mechanism.pass_in_order(there, next, &extent, parts)
            };
            let bus = bus_per_block * u64::from(pass.blocks);
            delivered = delivered.max(first_block_passes(mechanism, &pass)) + bus;
            media_end = pass.end;
            next += u64::from(extent.blocks);
            if next >= range.end {
                break;
            }
            extent = mechanism.extent(next, (range.end - next) as u32);
        }
        let completed = delivered.max(media_end) + completion;

        self.place = Place { arm, zone: extent.zone };
        self.mechanism_free = media_end;
        let end = read_ahead_end(mechanism, range.end, self.rules.stream.read_ahead);
        self.read_ahead = Some(ReadAhead::new(range.end, end, media_end, self.place));
        self.stream = Some(Stream { ahead: Range { lbn: range.end, end }, last_end: range.end, writes: 0 });
        self.live = true;
        self.previous = Previous::ReadMiss;
        account.close(now, completed, completed, BufferOutcome::Miss)
    }
}

/// Returns the time at which the first block of a pass is read. It is the last one if the head landed behind it.
fn first_block_passes(mechanism: &impl Media, pass: &Pass) -> Instant {
    match pass.wrapped {
        0 => pass.start,
        wrapped => pass.start + (pass.end - pass.start).saturating_sub(mechanism.passing(pass.zone, wrapped)),
    }
}

/// Returns the end of a read-ahead of `blocks` blocks from `next` on.
fn read_ahead_end(mechanism: &impl Media, next: u64, blocks: u32) -> u64 {
    next.saturating_add(u64::from(blocks)).min(mechanism.blocks()).max(next)
}
