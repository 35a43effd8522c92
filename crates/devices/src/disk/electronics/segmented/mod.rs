//! Segments of contiguous blocks, read-ahead into them, write-through or write-back.
//!
//! ```text
//! read hit     │ overhead │ bus ………………│ completion
//! read miss    │ overhead │ seek │ rotation │ transfer ……………│
//!              │          └ disconnect     │ reselect │ bus ……………│ completion   (bus overlaps the media)
//! write        │ overhead │ bus ……………│ disconnect
//!              │          │ seek │ rotation │ transfer …………│ reselect │ completion
//! write-back   │ overhead │ bus ……………│ completion            the media follows when it is free
//! ```
//! # Reads
//! After a read the drive reads on into the same segment until its limit or the next command that needs
//! the media. The read-ahead of a read that continues the one before overwrites what was read. A read is a hit if
//! the buffer holds its first block, or if read-ahead is reading that block or finishes the sector before it.
//! The heads read its other blocks from the place where read-ahead stands, or else after a positioning. A read of which
//! the buffer holds only later blocks is a miss and reads all of its blocks from the media.
//!
//! # Writes
//! Written data answers reads from its arrival until its segment is reused: while it waits, while it is written to the
//! media, and afterwards.
//!
//! - A write goes into the written segment that holds its first block or ends there, if it fits, else into
//!   a segment of its own. Reads and writes share the segments: the least recently used one gives way, unless
//!   it holds unwritten data, which takes up to `write_segments`. With `separate_write_segment` one segment
//!   serves writes alone and answers no read: a read of unwritten data waits until that data is on the media,
//!   and reads it there.
//! - Overwritten blocks leave the other segments: a segment read from the media is dropped, a written one
//!   keeps its other blocks. Read-ahead ends before blocks that are written; the head stays.
//! - Write-back data is written first come, first served, contiguous requests together: the arm moves when the
//!   first block has arrived and the media is free, and waits for the last block over the track. A read of the
//!   media waits for what is being written, and for what waits as far as the read needs it. A write that finds no
//!   segment is processed and waits for one.
//! - Flush waits for all unwritten data. FUA writes and requests larger than a segment are written through:
//!   they complete on the media, and the buffer keeps their last blocks as far as a segment holds them.
//! - A discard costs a command overhead, drops segments that hold discarded blocks and were read, and takes the
//!   discarded blocks out of written ones: of a segment that they divide, the first part stays. Discarded data that waits
//!   is written all the same. Write-zeroes is a write without its bus time.
//!
//! # Scope and limits
//! - The heads do not wait for the bus where a request is larger than its segment.
//! - The bus is the drive's alone: no arbitration with other devices.
//!
//! # References
//! \[DS4\] for what the parameters mean; the same constants give the same answers on the HP C2247A
//! (`crates/devices/tests/devices/validated.rs`).

mod delivery;
mod dirty;
mod params;
mod read;
mod segments;
mod write;

use seeklab_core::{BufferOutcome, Duration, Instant, Operation, Request};

use super::{Account, BufferRules, Controller, Served};
use crate::disk::mechanics::{Mechanics, Position};
use crate::disk::mechanism::Pass;
use crate::disk::params::DiskParameters;
use crate::error::DescriptionError;
use dirty::Dirty;
pub use params::{
    Buffer, Bus, Delivery, ExtraWriteDisconnect, Overheads, ReadAhead, SegmentedParameters, WriteBack,
};
use read::Reading;
use segments::Segments;
use std::sync::Arc;

/// State of a segmented controller.
#[derive(Debug)]
pub(crate) struct Segmented<P> {
    parameters: Arc<SegmentedParameters>,
    zero_latency_read: bool,
    zero_latency_write: bool,
    arm: P,
    segments: Segments,
    reading: Option<Reading>,
    dirty: Dirty,
    /// Time at which the present motion of the arm ends.
    arm_free: Instant,
    /// Time from which the media is free of work that is finished once begun.
    media_free: Instant,
    /// Time from which the bus is free.
    bus_free: Instant,
    after_read: bool,
    read_end: u64,
    write_end: Option<u64>,
    sequential_reads: u32,
    /// Passes of the command at hand.
    passes: Vec<Pass>,
}

impl<P: Position> Segmented<P> {
    fn after(&self, after_read: Duration, after_write: Duration) -> Duration {
        if self.after_read { after_read } else { after_write }
    }

    /// Brings read-ahead and destaging up to `now`.
    fn advance(&mut self, mechanism: &impl Mechanics<P>, now: Instant) {
        if let Some(begin) = self.dirty.begins(self.media_free).filter(|begin| *begin < now) {
            self.read_on(mechanism, begin);
            self.reading = None;
            self.destage_until(mechanism, now);
        } else {
            self.read_on(mechanism, now);
        }
    }

    /// Writes what waits, as long as a piece begins before `now`.
    fn destage_until(&mut self, mechanism: &impl Mechanics<P>, now: Instant) {
        while let Some(begin) = self.dirty.begins(self.media_free).filter(|begin| *begin < now) {
            self.destage_next(mechanism, begin);
        }
    }

    fn destage_next(&mut self, mechanism: &impl Mechanics<P>, begin: Instant) {
        if let Some(extent) = self.dirty.take() {
            let parts = &mut Default::default();
            let mut begin = begin.max(self.arm_free);
            if begin < extent.ready {
                let first = mechanism.extent(extent.start, extent.blocks());
                begin = mechanism.move_to(&mut self.arm, begin, &first, true, parts).max(extent.ready);
            }
            self.media_free = mechanism.access(
                &mut self.arm,
                begin,
                extent.start,
                extent.blocks(),
                true,
                self.zero_latency_write,
                parts,
                |_| {},
            );
            self.segments.write_out(extent.segment, self.media_free);
        }
    }

    /// Writes the oldest unwritten data from `now` on, or later.
    fn destage_oldest(&mut self, mechanism: &impl Mechanics<P>, now: Instant) {
        let begin = self.dirty.begins(self.media_free).expect("unwritten data takes the room");
        self.destage_next(mechanism, begin.max(now));
    }

    /// Writes what overlaps `start..end`, and what waits before it; returns when that is done.
    fn destage_overlap(
        &mut self,
        mechanism: &impl Mechanics<P>,
        now: Instant,
        start: u64,
        end: u64,
    ) -> Instant {
        while self.dirty.overlaps(start, end) {
            self.destage_oldest(mechanism, now);
        }
        now.max(self.media_free)
    }

    /// Writes everything that waits; returns when that is done.
    fn destage_all(&mut self, mechanism: &impl Mechanics<P>, now: Instant) -> Instant {
        self.destage_overlap(mechanism, now, 0, u64::MAX)
    }

    fn flush(&mut self, mechanism: &impl Mechanics<P>, now: Instant) -> Served {
        let overhead = self.after(
            self.parameters.overheads.write_hit_after_read,
            self.parameters.overheads.write_hit_after_write,
        );
        if !self.dirty.is_empty() {
            self.reading = None;
        }
        let written = self.destage_all(mechanism, now);
        let completed = written + overhead;
        let account = Account { overhead, internal: written - now, ..Account::default() };
        account.close(now, completed, completed, BufferOutcome::None)
    }

    fn discard(&mut self, now: Instant, request: &Request) -> Served {
        let overheads = &self.parameters.overheads;
        let overhead = self.after(overheads.write_hit_after_read, overheads.write_hit_after_write);
        self.segments.discard(request.lbn, request.end());
        self.end_read_ahead_before(request);
        let completed = now + overhead;
        Account { overhead, ..Account::default() }.close(now, completed, completed, BufferOutcome::None)
    }
}

impl<P: Position> Controller<P> for Segmented<P> {
    type Parameters = SegmentedParameters;

    fn new(parameters: &SegmentedParameters, disk: &DiskParameters) -> Result<Self, DescriptionError> {
        parameters.check()?;
        let mechanics = &disk.mechanics;
        let buffer = &parameters.buffer;
        Ok(Self {
            zero_latency_read: mechanics.zero_latency_read,
            zero_latency_write: mechanics.zero_latency_write,
            arm: P::default(),
            segments: Segments::new(parameters),
            reading: None,
            dirty: Dirty::new(buffer.segments),
            arm_free: Instant::ZERO,
            media_free: Instant::ZERO,
            bus_free: Instant::ZERO,
            after_read: false,
            read_end: u64::MAX,
            write_end: None,
            sequential_reads: 0,
            passes: Vec::with_capacity(8),
            parameters: Arc::new(parameters.clone()),
        })
    }

    fn has_volatile_cache(parameters: &SegmentedParameters) -> bool {
        parameters.write_back()
    }

    fn buffer_rules(parameters: &SegmentedParameters) -> Option<BufferRules> {
        let buffer = &parameters.buffer;
        let extents = match buffer.write_back {
            WriteBack::None => return None,
            // A write that does not continue the waiting data waits until that is written.
            WriteBack::Sequential => 1,
            WriteBack::All => parameters.unwritten_segments_max(),
        };
        // A read needs a segment that holds nothing unwritten.
        let beside = if buffer.separate_write_segment { extents } else { buffer.segments - 1 };
        Some(BufferRules {
            extents,
            extents_beside_read: extents.min(beside),
            blocks_max: buffer.segment_blocks,
            reads_wait_for_all: false,
            read_overlaps: true,
            write_overlaps: true,
            destages_at_first_block: true,
            waits_for_read_ahead: false,
        })
    }

    fn serve(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> Served {
        self.advance(mechanism, now);
        match request.op {
            Operation::Read => self.read(mechanism, now, request),
            Operation::Write | Operation::WriteZeroes => self.write(mechanism, now, request),
            Operation::Flush => self.flush(mechanism, now),
            Operation::Discard => self.discard(now, request),
        }
    }

    fn work_until(&mut self, mechanism: &impl Mechanics<P>, now: Instant) {
        self.advance(mechanism, now);
    }

    fn arm_moves_at(&self, now: Instant, op: Operation) -> Instant {
        let overheads = &self.parameters.overheads;
        let overhead = if op == Operation::Read {
            self.after(overheads.read_miss_after_read, overheads.read_miss_after_write)
        } else {
            self.after(overheads.write_miss_after_read, overheads.write_miss_after_write)
        };
        (now + overhead).max(self.arm_free).max(self.media_free)
    }

    fn arm(&self) -> P {
        self.arm
    }

    fn holds(&self, _mechanism: &impl Mechanics<P>, request: &Request) -> bool {
        match request.op {
            Operation::Read => {
                self.segments.holding(request.lbn).is_some() || self.reads_ahead_to(request.lbn)
            }
            Operation::Write | Operation::WriteZeroes => {
                self.takes_at_once(request, Instant::from_ns(u64::MAX))
            }
            Operation::Flush => self.dirty.is_empty(),
            Operation::Discard => true,
        }
    }

    fn lacks_room(&self, now: Instant, request: &Request) -> Option<u64> {
        let is_write = matches!(request.op, Operation::Write | Operation::WriteZeroes);
        let waits = is_write && self.waits_for_room(request, now);
        waits.then(|| self.dirty.next_block()).flatten()
    }
}

impl<P: Position> Clone for Segmented<P> {
    fn clone(&self) -> Self {
        Self {
            parameters: Arc::clone(&self.parameters),
            segments: self.segments.clone(),
            dirty: self.dirty.clone(),
            passes: Vec::with_capacity(8),
            ..*self
        }
    }

    fn clone_from(&mut self, source: &Self) {
        self.parameters.clone_from(&source.parameters);
        self.segments.clone_from(&source.segments);
        self.dirty.clone_from(&source.dirty);
        self.zero_latency_read = source.zero_latency_read;
        self.zero_latency_write = source.zero_latency_write;
        self.arm = source.arm;
        self.reading = source.reading;
        self.arm_free = source.arm_free;
        self.media_free = source.media_free;
        self.bus_free = source.bus_free;
        self.after_read = source.after_read;
        self.read_end = source.read_end;
        self.write_end = source.write_end;
        self.sequential_reads = source.sequential_reads;
    }
}
