//! Writes: through the buffer to the media, or into the buffer.

use seeklab_core::{BufferOutcome, Duration, Instant, Operation, Request};

use super::dirty::DirtyExtent;
use super::{Account, Segmented, Served, WriteBack};
use crate::disk::layout::Extent;
use crate::disk::mechanics::{Mechanics, Position};
use crate::disk::mechanism::Pass;

/// Arrival of the data of a write over the bus.
#[derive(Debug, Clone, Copy)]
struct Incoming {
    /// Time at which the first block begins.
    start: Instant,
    /// Time of each block.
    block: Duration,
    /// Time at which enough blocks are in the buffer to begin on the media.
    enough: Instant,
}

impl Incoming {
    /// Returns the time at which block `index` is in the buffer.
    fn at(&self, index: u32) -> Instant {
        self.start + self.block * (u64::from(index) + 1)
    }
}

impl<P: Position> Segmented<P> {
    pub(super) fn write(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> Served {
        let served = if self.is_buffered(request) {
            self.write_back(mechanism, now, request)
        } else {
            self.write_through(mechanism, now, request)
        };
        self.end_read_ahead_before(request);
        self.write_end = Some(request.end());
        self.after_read = false;
        self.sequential_reads = 0;
        self.bus_free = self.bus_free.max(served.free.min(served.completed));
        served
    }

    /// Returns true if a write is reported complete when it is in the buffer.
    fn is_buffered(&self, request: &Request) -> bool {
        let buffer = &self.parameters.buffer;
        buffer.write_back != WriteBack::None && !request.fua && request.blocks <= buffer.segment_blocks
    }

    /// Returns true if at `now` the buffer takes a write without waiting for the media.
    pub(super) fn takes_at_once(&self, request: &Request, now: Instant) -> bool {
        let (start, end) = (request.lbn, request.end());
        let continues = || self.dirty.continues(start, self.segments.home(start, end));
        let fits = match self.parameters.buffer.write_back {
            WriteBack::None => false,
            WriteBack::Sequential => self.dirty.is_empty() || continues(),
            WriteBack::All => self.dirty.has_room() || continues(),
        };
        fits && self.is_buffered(request) && self.segments.has_room_to_write(start, end, now)
    }

    /// Returns true if the buffer takes a write, but only when the media has written what takes the room at `now`.
    pub(super) fn waits_for_room(&self, request: &Request, now: Instant) -> bool {
        let takes_all = self.parameters.buffer.write_back == WriteBack::All;
        takes_all && self.is_buffered(request) && !self.takes_at_once(request, now)
    }

    fn write_back(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> Served {
        let overheads = self.parameters.overheads.clone();
        let overhead = self.after(overheads.write_hit_after_read, overheads.write_hit_after_write);
        let mut room = now;
        while !self.takes_at_once(request, room) {
            self.reading = None;
            if self.segments.written_at() <= room {
                self.destage_oldest(mechanism, room);
            }
            room = room.max(self.segments.written_at());
        }
        // The command is processed while it waits.
        let processed = now + overhead;
        let start = (processed.max(room) + overheads.data_preparation).max(self.bus_free);
        let block = self.write_block(request);
        let there = start + block * u64::from(request.blocks);
        let segment = self.segments.write_into(request.lbn, request.end(), room);
        mechanism.note_taken_in(request.lbn, request.end());
        let extent = DirtyExtent {
            start: request.lbn,
            end: request.end(),
            segment,
            begun: start + block,
            ready: there,
        };
        if self.dirty.add(extent) {
            self.segments.wait(segment);
        }
        let completed = there + overheads.write_completion;
        let internal = room.saturating_since(processed);
        let account = Account { overhead, internal, ..Account::default() };
        account.close(now, completed, completed, BufferOutcome::Hit)
    }

    /// Puts the data of a write in the buffer that goes through to the media from `begin` on; returns when there is
    /// room for it.
    fn keep_written_through(
        &mut self,
        mechanism: &impl Mechanics<P>,
        begin: Instant,
        request: &Request,
    ) -> Instant {
        let (start, end) = (request.lbn, request.end());
        if self.parameters.buffer.separate_write_segment {
            self.segments.discard(start, end);
            return begin;
        }
        let mut room = begin;
        while !self.segments.has_room_to_write(start, end, room) {
            self.destage_oldest(mechanism, room);
            room = room.max(self.media_free);
        }
        self.segments.write_into(start, end, room);
        room
    }

    fn write_block(&self, request: &Request) -> Duration {
        if request.op == Operation::WriteZeroes { Duration::ZERO } else { self.parameters.bus.write_block }
    }

    fn write_through(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> Served {
        self.reading = None;
        let begin = if self.dirty.overlaps(request.lbn, request.end()) {
            self.destage_overlap(mechanism, now, request.lbn, request.end())
        } else {
            now.max(self.media_free)
        };
        let begin = self.keep_written_through(mechanism, begin, request);
        mechanism.note_taken_in(request.lbn, request.end());
        let parameters = std::sync::Arc::clone(&self.parameters);
        let (overheads, bus) = (&parameters.overheads, &parameters.bus);
        let sequential = !self.after_read && self.write_end == Some(request.lbn);
        let extra =
            bus.extra_write_disconnect.enabled && !self.after_read && !sequential && self.write_end.is_some();
        let block = self.write_block(request);
        let mut account = Account { internal: begin - now, ..Account::default() };
        let (ready, start, disconnect, reselect);
        if extra {
            let extra = &bus.extra_write_disconnect;
            ready = begin + extra.command + extra.seek_delay;
            start = begin
                + extra.command
                + extra.disconnect
                + extra.pause
                + bus.first_reselect
                + overheads.data_preparation;
            (disconnect, reselect) = (extra.second_disconnect, bus.other_reselect);
            account.overhead = extra.command + extra.seek_delay;
        } else {
            let miss = self.after(overheads.write_miss_after_read, overheads.write_miss_after_write);
            let arm = if sequential && !overheads.sequential_write.is_zero() {
                overheads.sequential_write
            } else {
                miss
            };
            let data = self.after(overheads.write_data_after_read, overheads.write_data_after_write);
            ready = begin + arm;
            start = begin + if data.is_zero() { arm } else { data } + overheads.data_preparation;
            (disconnect, reselect) = (bus.write_disconnect, bus.first_reselect);
            account.overhead = arm;
        }
        let start = start.max(self.bus_free);
        let needed = self.needed_to_begin(request.blocks);
        let incoming = Incoming { start, block, enough: start + block * u64::from(needed) };
        let ready = ready.max(self.arm_free);
        let media_end = self.write_media(mechanism, ready, request, incoming, &mut account);
        let bus_end = start + block * u64::from(request.blocks);
        let done = if bus.never_disconnect {
            media_end.max(bus_end)
        } else {
            media_end.max(bus_end + disconnect) + reselect
        };
        let completed = done + overheads.write_completion;
        self.media_free = media_end;
        self.bus_free = bus_end;
        account.close(now, completed, media_end, BufferOutcome::Miss)
    }

    /// Blocks that must be in the buffer before a write of so many begins on the media.
    fn needed_to_begin(&self, blocks: u32) -> u32 {
        let buffer = &self.parameters.buffer;
        let needed = buffer
            .write_start
            .iter()
            .rev()
            .find(|(from, _)| blocks >= *from)
            .map_or(0, |(_, needed)| *needed);
        needed.min(blocks).min(buffer.segment_blocks)
    }

    /// Writes the blocks as they come over the bus; returns when the last is on the media.
    fn write_media(
        &mut self,
        mechanism: &impl Mechanics<P>,
        ready: Instant,
        request: &Request,
        incoming: Incoming,
        account: &mut Account,
    ) -> Instant {
        let minimum = self.parameters.overheads.minimum_write_seek;
        let mut time = ready;
        let mut written = 0;
        while written < request.blocks {
            let lbn = request.lbn + u64::from(written);
            let extent = mechanism.extent(lbn, request.blocks - written);
            if written == 0 {
                account.seek_cylinders = extent.cylinder.abs_diff(self.arm.cylinder());
            }
            let there = mechanism.move_to(&mut self.arm, time, &extent, true, &mut account.parts);
            if written == 0 && there < ready + minimum {
                account.overhead += minimum - (there - ready);
                time = ready + minimum;
            } else {
                time = there;
            }
            time = self.write_track(mechanism, time, lbn, &extent, written, incoming, account);
            written += extent.blocks;
        }
        time
    }

    /// Writes one track's part, block `first` of the request on; turns pass while data is not there.
    #[expect(clippy::too_many_arguments, reason = "one track's part of one write")]
    fn write_track(
        &self,
        mechanism: &impl Mechanics<P>,
        now: Instant,
        lbn: u64,
        extent: &Extent,
        first: u32,
        incoming: Incoming,
        account: &mut Account,
    ) -> Instant {
        let all_there = incoming.at(first + extent.blocks - 1);
        if self.zero_latency_write {
            // Zero-latency writing begins when all data of the request is in the buffer.
            let settled = now.max(incoming.enough);
            if all_there <= settled {
                account.parts.rotation += settled - now;
                let pass = mechanism.pass_on_arrival(settled, lbn, extent, &mut account.parts);
                mechanism.note_written(&pass);
                return pass.end;
            }
        }
        let turn = mechanism.period();
        let mut time = now;
        let (mut done, mut sector) = (0, 0);
        loop {
            let at = mechanism.extent(lbn + u64::from(done), extent.blocks - done);
            let mut start = time + mechanism.latency(time, at.angle);
            let needed = incoming.enough.max(incoming.at(first + done));
            if start < needed {
                let turns = (needed - start).as_ns().div_ceil(turn.as_ns());
                start += turn * turns;
                // Turns are rounded to nanoseconds: come back to the sector's start.
                start += mechanism.latency(start, at.angle);
            }
            account.parts.rotation += start - time;
            let blocks = Self::blocks_without_underrun(mechanism, &at, start, first + done, incoming);
            let span = if blocks == at.blocks { at.span } else { blocks };
            let passing = mechanism.passing(at.zone, span);
            account.parts.transfer += passing;
            time = start + passing;
            mechanism.note_written(&Pass {
                lbn: lbn + u64::from(done),
                blocks,
                start,
                end: time,
                wrapped: 0,
                cylinder: at.cylinder,
                zone: at.zone,
                span,
            });
            done += blocks;
            sector += span;
            debug_assert!(sector <= extent.span + 1);
            if done >= extent.blocks {
                return time;
            }
        }
    }

    /// Returns the number of blocks that pass under the head before one that is not in the buffer yet.
    fn blocks_without_underrun(
        mechanism: &impl Mechanics<P>,
        extent: &Extent,
        start: Instant,
        first: u32,
        incoming: Incoming,
    ) -> u32 {
        let sector = mechanism.passing(extent.zone, 1);
        let last = start + mechanism.passing(extent.zone, extent.blocks - 1);
        if incoming.block <= sector || incoming.at(first + extent.blocks - 1) <= last {
            return extent.blocks;
        }
        let slack = start - incoming.at(first);
        let blocks = slack.as_ns() / (incoming.block - sector).as_ns() + 1;
        u32::try_from(blocks).unwrap_or(u32::MAX).min(extent.blocks)
    }
}
