//! Reads: hits, misses, and reading on afterwards.

use seeklab_core::{BufferOutcome, Instant, Request};

use super::delivery::{deliver, deliver_in_portions, sendable_at};
use super::segments::{Origin, Segment};
use super::{Account, ReadAhead, Segmented, Served};
use crate::disk::mechanics::{Mechanics, Position};

/// Read-ahead in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// The segment being filled.
    segment: u64,
    /// Next block to read.
    next: u64,
    /// Time from which the heads are free to read the next block.
    time: Instant,
    /// Block at which reading ends.
    limit: u64,
    /// True if reading goes on to the next track.
    crosses_tracks: bool,
}

impl<P: Position> Segmented<P> {
    pub(super) fn read(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> Served {
        let sequential = self.after_read && request.lbn == self.read_end;
        self.sequential_reads = if sequential { self.sequential_reads + 1 } else { 0 };
        let hit = self.segments.holding(request.lbn).is_some()
            || (!self.dirty.overlaps(request.lbn, request.end())
                && self.catch_read_ahead(mechanism, now, request));
        let served = if hit {
            self.read_hit(mechanism, now, request)
        } else {
            self.read_miss(mechanism, now, request)
        };
        self.read_end = request.end();
        self.after_read = true;
        self.bus_free = served.completed;
        served
    }

    /// Returns true if block `lbn` is the next that read-ahead reads.
    pub(super) fn reads_ahead_to(&self, lbn: u64) -> bool {
        self.reading.is_some_and(|reading| reading.next == lbn && lbn < reading.limit)
    }

    /// Returns true if read-ahead is reading the first block of `request`, or finishes the sector before it.
    fn catch_read_ahead(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> bool {
        if self.reads_ahead_to(request.lbn) {
            return true;
        }
        let Some(reading) = &mut self.reading else { return false };
        if reading.next + 1 != request.lbn || request.lbn >= reading.limit {
            return false;
        }
        let extent = mechanism.extent(reading.next, 1);
        let start = mechanism.begins(reading.time, extent.angle);
        let on_track = (extent.cylinder, extent.head) == (self.arm.cylinder(), self.arm.head());
        if !on_track || start > now {
            return false;
        }
        reading.next = request.lbn;
        reading.time = start + mechanism.passing(extent.zone, extent.span);
        self.segments.fill(reading.segment, reading.next);
        true
    }

    /// Ends read-ahead before the blocks of a write or discard, or altogether if its segment has gone.
    pub(super) fn end_read_ahead_before(&mut self, request: &Request) {
        let Some(reading) = &mut self.reading else { return };
        if reading.next < request.end() {
            reading.limit = reading.limit.min(request.lbn);
        }
        if !self.segments.has(reading.segment) {
            self.reading = None;
        }
    }

    fn read_hit(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> Served {
        let parameters = std::sync::Arc::clone(&self.parameters);
        let (overheads, bus) = (&parameters.overheads, &parameters.bus);
        let (held_end, source) = self.segments.held(request.lbn, request.end());
        self.segments.touch(request.lbn, held_end);
        let partial = held_end < request.end();
        let mut account = Account::default();
        if partial && self.dirty.overlaps(held_end, request.end()) {
            self.reading = None;
            account.internal = self.destage_overlap(mechanism, now, held_end, request.end()) - now;
        }
        let running = self.reading.is_some_and(|reading| {
            (partial && reading.next == held_end)
                || source.is_some_and(|segment| segment.id == reading.segment)
        });
        let mut overhead = self.after(overheads.read_hit_after_read, overheads.read_hit_after_write);
        if running {
            overhead += overheads.busy_hit;
        }
        let (limit, crosses_tracks) = self.read_ahead_limit(mechanism, request);
        let is_written = source.is_some_and(|segment| segment.origin == Origin::Host);
        if running {
            let reading = self.reading.as_mut().expect("it is running");
            reading.limit = reading.limit.max(limit);
        } else if let Some(source) = source
            && (partial || !is_written)
        {
            self.restart_reading(mechanism, now, request, source, limit, crosses_tracks);
        }
        account.overhead = overhead;
        let start = (now + overhead + overheads.data_preparation).max(self.bus_free);
        if partial {
            let completed =
                self.read_rest(mechanism, request, held_end, start, &mut account) + overheads.read_completion;
            let free = self.reading.map_or(completed, |reading| reading.time.max(now));
            return account.close(now, completed, free, BufferOutcome::Hit);
        }
        let blocks = u64::from(request.blocks);
        let or = |time: seeklab_core::Duration, otherwise| if time.is_zero() { otherwise } else { time };
        let mut completed = start + or(bus.hit_block, bus.read_block) * blocks;
        if !overheads.stream_hit.is_zero() && self.sequential_reads >= 2 {
            completed = now + overheads.stream_hit + or(bus.stream_block, bus.read_block) * blocks;
            if self.sequential_reads == 2 {
                completed += overheads.stream_start;
            }
        }
        completed = completed.max(now + overheads.hit_min) + overheads.read_completion;
        account.close(now, completed, completed, BufferOutcome::Hit)
    }

    /// The part of a hit that read-ahead has not reached, from block `from` on: read on, continuing the sector in
    /// progress.
    fn read_rest(
        &mut self,
        mechanism: &impl Mechanics<P>,
        request: &Request,
        from: u64,
        bus: Instant,
        account: &mut Account,
    ) -> Instant {
        let (have, rest) = ((from - request.lbn) as u32, (request.end() - from) as u32);
        let mut reading = self.reading.expect("a partial hit lets read-ahead go on");
        let end = self.pass_over(mechanism, reading.time, from, rest, account);
        self.segments.fill(reading.segment, request.end());
        self.segments.touch_segment(reading.segment);
        (reading.next, reading.time) = (request.end(), end);
        self.reading = Some(reading);
        let bus_parameters = &self.parameters.bus;
        let block = bus_parameters.read_block;
        if bus_parameters.portion_blocks > 0 {
            let hit_block = if bus_parameters.hit_block.is_zero() { block } else { bus_parameters.hit_block };
            let bus = bus + hit_block * u64::from(have);
            return deliver_in_portions(mechanism, &self.passes, bus, rest, bus_parameters);
        }
        deliver(mechanism, &self.passes, bus + block * u64::from(have), block, bus_parameters.delivery)
    }

    /// A hit makes a stopped read-ahead go on behind `source`, the last segment that the hit found.
    fn restart_reading(
        &mut self,
        mechanism: &impl Mechanics<P>,
        now: Instant,
        request: &Request,
        source: Segment,
        limit: u64,
        crosses_tracks: bool,
    ) {
        self.reading = None;
        let next = source.end;
        let partial = next < request.end();
        let limit = limit.max(request.end());
        let goes_on = self.parameters.buffer.read_ahead_on_hit && self.dirty.is_empty();
        if next >= limit || !(partial || goes_on) {
            return;
        }
        let segment = if source.origin == Origin::Host {
            self.make_room_to_read(mechanism, now);
            self.segments.read_into(next, next, self.media_free)
        } else {
            source.id
        };
        let overheads = &self.parameters.overheads;
        let miss = self.after(overheads.read_miss_after_read, overheads.read_miss_after_write);
        let overhead = if partial && !overheads.partial_hit.is_zero() { overheads.partial_hit } else { miss };
        let mut time = (now + overhead).max(self.media_free);
        if !partial {
            // The arm goes there at once; rotation and reading follow in the background.
            let extent = mechanism.extent(next, 1);
            time = mechanism.move_to(&mut self.arm, time, &extent, false, &mut Default::default());
            self.arm_free = time;
        }
        self.reading = Some(Reading { segment, next, time, limit, crosses_tracks });
    }

    /// Writes unwritten data until a segment is free for blocks from the media.
    fn make_room_to_read(&mut self, mechanism: &impl Mechanics<P>, now: Instant) {
        while !self.segments.has_room_to_read() {
            self.destage_oldest(mechanism, now);
        }
    }

    fn read_miss(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> Served {
        self.reading = None;
        let parameters = std::sync::Arc::clone(&self.parameters);
        let (overheads, bus) = (&parameters.overheads, &parameters.bus);
        let overhead = self.after(overheads.read_miss_after_read, overheads.read_miss_after_write);
        let ready = now + overhead;
        self.destage_overlap(mechanism, now, request.lbn, request.end());
        self.make_room_to_read(mechanism, now);
        let begin = ready.max(self.arm_free).max(self.media_free);
        let mut account = Account { overhead, internal: begin - ready, ..Account::default() };
        let media_end = self.pass_over(mechanism, begin, request.lbn, request.blocks, &mut account);
        let start = if bus.never_disconnect {
            ready + overheads.data_preparation
        } else {
            let disconnect = self.after(bus.read_disconnect_after_read, bus.read_disconnect_after_write);
            let held = request.blocks.min(parameters.buffer.segment_blocks);
            let watermark = ((f64::from(held) * bus.read_watermark.as_f64()) as u32).max(1);
            let there = sendable_at(mechanism, &self.passes, watermark, bus.delivery);
            (ready + disconnect).max(there) + bus.first_reselect + overheads.data_preparation
        };
        let start = start.max(self.bus_free);
        let delivered = if bus.portion_blocks > 0 {
            deliver_in_portions(mechanism, &self.passes, start, request.blocks, bus)
        } else {
            deliver(mechanism, &self.passes, start, bus.read_block, bus.delivery)
        };
        let completed = delivered.max(media_end) + overheads.read_completion;
        let segment = self.segments.read_into(request.lbn, request.end(), begin);
        let (limit, crosses_tracks) = self.read_ahead_limit(mechanism, request);
        if limit > request.end() {
            self.reading =
                Some(Reading { segment, next: request.end(), time: media_end, limit, crosses_tracks });
        }
        account.close(now, completed, media_end, BufferOutcome::Miss)
    }

    /// Passes over blocks, keeping the passes; returns when the last has been read.
    fn pass_over(
        &mut self,
        mechanism: &impl Mechanics<P>,
        begin: Instant,
        lbn: u64,
        blocks: u32,
        account: &mut Account,
    ) -> Instant {
        self.passes.clear();
        let before = self.arm.cylinder();
        let passes = &mut self.passes;
        let end = mechanism.access(
            &mut self.arm,
            begin,
            lbn,
            blocks,
            false,
            self.zero_latency_read,
            &mut account.parts,
            |pass| passes.push(pass),
        );
        account.seek_cylinders = self.passes.first().map_or(0, |pass| pass.cylinder.abs_diff(before));
        self.media_free = end;
        end
    }

    /// Returns the end of the read-ahead after `request`, and true if it leaves the track.
    fn read_ahead_limit(&self, mechanism: &impl Mechanics<P>, request: &Request) -> (u64, bool) {
        let buffer = &self.parameters.buffer;
        let segment = u64::from(buffer.segment_blocks);
        // What a sequential read has delivered, its read-ahead may overwrite.
        let overwrites = buffer.read_ahead_beyond_request || self.sequential_reads > 0;
        let from = if overwrites { request.end() } else { request.lbn };
        let most = from + u64::from(buffer.read_ahead_blocks).min(segment);
        if request.end() >= mechanism.blocks() {
            return (request.end(), false);
        }
        let (limit, crosses) = match buffer.read_ahead {
            ReadAhead::None => (request.end(), false),
            ReadAhead::ToTrackEnd => (most, false),
            ReadAhead::FillSegment => (most, true),
            ReadAhead::NextTrackIfSequential if self.sequential_reads == 0 => (most, false),
            ReadAhead::NextTrackIfSequential => {
                let (_, end) = mechanism.track_bounds(request.end() - 1);
                let next = end.min(mechanism.blocks() - 1);
                (most.min(mechanism.track_bounds(next).1), true)
            }
            ReadAhead::FillSegmentIfCrossing => {
                let (_, end) = mechanism.track_bounds(request.lbn);
                if request.end() >= end { (request.end() + segment, true) } else { (end, false) }
            }
        };
        (limit.min(mechanism.blocks()).max(request.end()), crosses)
    }

    /// Brings read-ahead up to `now`; a seek under way is finished.
    pub(super) fn read_on(&mut self, mechanism: &impl Mechanics<P>, now: Instant) {
        let Some(mut reading) = self.reading else { return };
        let done = loop {
            if reading.next >= reading.limit {
                break true;
            }
            let left = u32::try_from(reading.limit - reading.next).unwrap_or(u32::MAX);
            let extent = mechanism.extent(reading.next, left);
            if (extent.cylinder, extent.head) != (self.arm.cylinder(), self.arm.head()) {
                if !reading.crosses_tracks {
                    break true;
                }
                if reading.time >= now {
                    break false;
                }
                reading.time =
                    mechanism.move_to(&mut self.arm, reading.time, &extent, false, &mut Default::default());
                self.arm_free = reading.time;
            }
            let start = mechanism.begins(reading.time, extent.angle);
            if start >= now {
                break false;
            }
            let passed = mechanism.passed(extent.zone, now - start);
            if passed < extent.span {
                let blocks = passed.min(extent.blocks.saturating_sub(1));
                reading.next += u64::from(blocks);
                reading.time = start + mechanism.passing(extent.zone, passed);
                self.segments.fill(reading.segment, reading.next);
                break false;
            }
            reading.next += u64::from(extent.blocks);
            reading.time = start + mechanism.passing(extent.zone, extent.span);
            self.segments.fill(reading.segment, reading.next);
        };
        self.reading = (!done).then_some(reading);
    }
}
