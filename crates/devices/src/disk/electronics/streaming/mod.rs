//! One read stream and recent writes, write-back: the electronics of Seagate's drives of the late 1990s.
//!
//! The same rules serve the Cheetah 9LP and the Barracuda 4LP; their parameters differ.
//!
//! ```text
//! read miss   overhead │ seek │ rotation │ transfer ┐ the longer, then the completion;
//!                                          bus ─────┘ the heads read on: this is now THE read stream
//! read hit    overhead │ bus        and what it took is consumed: the read-ahead goes on
//! write       overhead │ bus        the data is written to the media behind the host's back
//! ```
//! - **Stream.** After a read from the media the heads read on for `stream.read_ahead` blocks. A later
//!   read within what is left of that is a hit, and waits where the heads have not come by yet. So is a read
//!   that begins there and goes beyond, unless a write came in between or waits in its place: the heads read on.
//!   The read itself is not kept: reading it again is a miss. Another miss replaces the stream.
//! - **Live.** The drive answers faster until it has left the stream: after some idle time
//!   (`idle_timer`) or when the read-ahead is over (`reading_ahead`); in any case after a write.
//! - **Writes** are complete when they are in the buffer. One within the stream takes with it what lies
//!   before its end; too many since the read from the media end the stream. The last writes (`write.kept`), each for
//!   itself, answer reads until later writes take their segments. A read from the media does not: the Cheetah's
//!   trace has one read of data written before such a read, and it hits.
//! - **Destaging.** Written extents wait in a bounded list, oldest first, contiguous ones as one. A write
//!   ends the read-ahead, which leaves the mechanism to them; after a read miss they wait for the end of
//!   its read-ahead. What has begun is finished, and a miss waits for it (`internal`); what has not
//!   begun lets a miss go first, unless that overlaps it. A write that finds no room waits for the
//!   oldest extent. The heads stay where they wrote last, and overheads are relative to that place.
//! - **Durability.** A write with force unit access, or one longer than `write.segment_blocks`, is
//!   complete when it is on the media, and so is everything that it overlaps; a flush, when everything
//!   is. Discard is its overhead only; write-zeroes is a write without bus time.
//!
//! Nothing here has events. Read-ahead and destaging are brought up to date when the next command
//! begins, track by track.
//!
//! # Scope and limits
//! A read longer than the buffer does not stop the heads for the bus; where the bus is the slower one,
//! as in these drives, the completion is the same. Overheads have no spread: most classes were measured
//! within 0.02 ms. What was found and is not modelled: 6 % of the Cheetah's reads just after a read from
//! the media that should have found its read-ahead are media reads all the same.
//!
//! # Evidence
//! The rules and the overheads were re-identified from published response-time traces of both drives
//! (10,000 requests each, `../shared/reference/measured/`), overheads as medians over the first half of
//! each. `tests/devices/measured_buffers.rs` repeats the comparison, and `docs/models/measured-drives.md`
//! lists for each rule the requests that show it and those that contradict it.
//!
//! The think times of these traces precede the request on their line. Hits of the live stream, 0.18 and
//! 0.38 ms faster than others, occur exactly where the line's own number is short. The skews in the
//! published parameters are not those of the drives; with skews fitted to the phases 94 % of the media
//! reads lie within 5 % too. The catalog keeps the published skews.
//!
//! # References
//! Traces and the parameters compared with: \[DS4\], validation suite.

mod background;
mod parameters;
mod ranges;
mod read;
mod read_ahead;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;

use seeklab_core::{Instant, Operation, Request};

use super::{Account, BufferRules, Controller, Served};
use crate::disk::mechanics::{Mechanics, Position};
use crate::disk::params::DiskParameters;
use crate::error::DescriptionError;
pub use parameters::{
    Consumption, LiveRule, ReadHitParameters, ReadMissParameters, StreamParameters, StreamingParameters,
    WriteParameters,
};
use ranges::{DIRTY_MAX, Dirty, Fifo, KEPT_MAX, Range};
use read_ahead::{Place, ReadAhead};

/// State of a drive with one read stream and recent writes.
#[derive(Debug, Clone)]
pub(crate) struct Streaming<P> {
    rules: Arc<StreamingParameters>,
    zero_latency_read: bool,
    zero_latency_write: bool,
    /// Place of the heads. During a read-ahead, their place after the last finished track.
    place: Place<P>,
    /// End of the last access and of the extent that is being destaged.
    mechanism_free: Instant,
    /// Time at which the last command was complete.
    idle_since: Instant,
    previous: Previous,
    /// True if the stream was live as of the last command.
    live: bool,
    stream: Option<Stream>,
    /// The read-ahead at work; it ends where the stream ends.
    read_ahead: Option<ReadAhead<P>>,
    /// End of a read-ahead that ended since the last command began.
    read_ahead_ended: Option<Instant>,
    kept: Fifo<Range, KEPT_MAX>,
    dirty: Fifo<Dirty, DIRTY_MAX>,
    /// True while the oldest dirty extent is being written, until `mechanism_free`.
    destaging: bool,
}

/// Kind of the last read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Previous {
    ReadMiss,
    /// A hit on the live stream, the block after the last one.
    SequentialHit,
    OtherHit,
    Write,
}

/// The blocks that follow the last read from the media.
#[derive(Debug, Clone, Copy)]
struct Stream {
    /// Not yet consumed, read or about to be.
    ahead: Range,
    /// The block after the last one that the host read.
    last_end: u64,
    /// Writes since the read from the media.
    writes: u8,
}

/// Part of the buffer that holds a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hit {
    Stream { sequential: bool },
    Written,
}

impl<P: Position> Streaming<P> {
    fn find(&self, range: Range) -> Option<Hit> {
        if let Some(stream) = &self.stream
            && (stream.ahead.holds(range) || self.reads_on_to(stream, range))
        {
            return Some(Hit::Stream { sequential: range.lbn == stream.last_end });
        }
        let written = self.kept.as_slice().iter().any(|kept| kept.holds(range))
            || self.dirty.as_slice().iter().any(|dirty| dirty.range.holds(range));
        written.then_some(Hit::Written)
    }

    /// Returns true if a read begins in the stream, goes beyond its end, and the heads read on behind it.
    fn reads_on_to(&self, stream: &Stream, range: Range) -> bool {
        let undisturbed =
            stream.writes == 0 && !self.dirty.as_slice().iter().any(|dirty| dirty.range.overlaps(range));
        stream.ahead.lbn <= range.lbn && range.lbn < stream.ahead.end && undisturbed
    }
}

impl<P: Position> Controller<P> for Streaming<P> {
    type Parameters = StreamingParameters;

    fn new(parameters: &StreamingParameters, disk: &DiskParameters) -> Result<Self, DescriptionError> {
        parameters.check()?;
        let mechanics = &disk.mechanics;
        Ok(Self {
            rules: Arc::new(parameters.clone()),
            zero_latency_read: mechanics.zero_latency_read,
            zero_latency_write: mechanics.zero_latency_write,
            place: Place::default(),
            mechanism_free: Instant::ZERO,
            idle_since: Instant::ZERO,
            previous: Previous::ReadMiss,
            live: false,
            stream: None,
            read_ahead: None,
            read_ahead_ended: None,
            kept: Fifo::default(),
            dirty: Fifo::default(),
            destaging: false,
        })
    }

    fn has_volatile_cache(_parameters: &StreamingParameters) -> bool {
        true
    }

    fn buffer_rules(parameters: &StreamingParameters) -> Option<BufferRules> {
        let extents = parameters.write.segments;
        Some(BufferRules {
            extents,
            extents_beside_read: extents,
            blocks_max: parameters.write.segment_blocks,
            reads_wait_for_all: false,
            read_overlaps: true,
            write_overlaps: false,
            destages_at_first_block: false,
            waits_for_read_ahead: true,
        })
    }

    fn serve(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> Served {
        self.bring_up_to(mechanism, now);
        self.bring_live_up_to(now, request.op);
        let range = Range { lbn: request.lbn, end: request.end() };
        let served = match request.op {
            Operation::Read => match self.find(range) {
                Some(hit) => self.read_hit(mechanism, now, range, hit),
                None => self.read_miss(mechanism, now, range),
            },
            Operation::Write | Operation::WriteZeroes => {
                let zeroes = request.op == Operation::WriteZeroes;
                let bus_blocks = if zeroes { 0 } else { range.blocks() };
                if request.fua || range.blocks() > u64::from(self.rules.write.segment_blocks) {
                    self.write_through(mechanism, now, range, bus_blocks)
                } else {
                    self.buffer_write(mechanism, now, range, bus_blocks)
                }
            }
            Operation::Flush => self.flush(mechanism, now),
            Operation::Discard => self.command_without_data(now, now),
        };
        self.idle_since = served.completed;
        served
    }

    fn work_until(&mut self, mechanism: &impl Mechanics<P>, now: Instant) {
        self.bring_up_to(mechanism, now);
    }

    fn arm_moves_at(&self, now: Instant, op: Operation) -> Instant {
        let rules = &self.rules;
        let overhead =
            if op == Operation::Read { rules.read_miss.other_cylinder } else { rules.write.other_zone };
        (now + overhead).max(self.mechanism_free)
    }

    fn arm(&self) -> P {
        self.place.arm
    }

    fn holds(&self, _mechanism: &impl Mechanics<P>, request: &Request) -> bool {
        let range = Range { lbn: request.lbn, end: request.end() };
        match request.op {
            Operation::Read => self.find(range).is_some(),
            Operation::Write | Operation::WriteZeroes => !request.fua && self.has_room(range),
            Operation::Flush => self.dirty.is_empty(),
            Operation::Discard => true,
        }
    }
}
