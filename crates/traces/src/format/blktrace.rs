//! The binary format of blktrace, version 7: the records (`blk_io_trace`) that the kernel writes.
//!
//! ```text
//! u32 magic  u32 sequence  u64 time_ns  u64 sector  u32 bytes  u32 action  u32 pid
//! u32 device (major << 20 | minor)  u32 cpu  u16 error  u16 pdu_length, then that many bytes
//! ```
//! The magic is `0x65617400` and the version; its bytes in the file determine the byte order. There is one
//! file per processor, of any byte order, each in order of time; they are merged by time. The number behind a
//! file's name has no meaning: a merged stream (`blkparse -d`) may be called `sample.blktrace.0` and hold the
//! events of every processor.
//!
//! A request is an issue to the driver (action `D`) with its completion `C`. `pairing.rs` and `rows.rs` state
//! how they are paired. A request begins at its `Q` with the option `arrival=queue`. Other actions (getrq,
//! merge, plug, unplug, split, bounce, remap and so on) begin no request.
//!
//! # Scope and limits
//! A record cut short at the end of a file is passed over and counted, as blkparse does. Any other damage is
//! an error. Passed-through commands are omitted and counted. Write-zeroes cannot be distinguished from
//! writes. Times are the kernel's; the first row is at time zero. Not written.
//!
//! # References
//! Linux, include/uapi/linux/blktrace_api.h; blktrace(8), blkparse(1).

use seeklab_core::{Operation, ProcessName, TraceRecord};

use crate::error::TraceError;
use crate::event::block_event::{BlockEvent, Kind};
use crate::event::rows::{ARRIVAL, EventRows};
use crate::metadata::Metadata;
use crate::options::FormatOption;
use crate::parse::records::{Merge, Next, Records, chunk};
use crate::parse::skips::Skips;
use crate::source::parts::{PARTS, left_beside};
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// The binary format of blktrace.
pub(super) struct Blktrace;

const NAME: &str = "blktrace";
/// Bytes of a record before its payload.
const RECORD: usize = 48;
/// Magic without the version in its low byte.
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

const OPTIONS: &[FormatOption] = &[ARRIVAL, PARTS];

/// Bits of the action that give the kind of request.
mod category {
    pub(super) const WRITE: u32 = 1 << 17;
    pub(super) const FLUSH: u32 = 1 << 18;
    pub(super) const PASSED_THROUGH: u32 = 1 << 25;
    pub(super) const NOTIFY: u32 = 1 << 26;
    pub(super) const DISCARD: u32 = 1 << 29;
    pub(super) const FUA: u32 = 1 << 31;
}

#[derive(Debug, Clone, Copy)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Returns the byte order of a record, and its version.
    fn of(record: [u8; 4]) -> Option<(Self, u32)> {
        let version = |magic: u32| (magic & 0xffff_ff00 == MAGIC).then_some(magic & 0xff);
        let little = version(u32::from_le_bytes(record)).map(|version| (Self::Little, version));
        little.or_else(|| version(u32::from_be_bytes(record)).map(|version| (Self::Big, version)))
    }

    fn u16(self, record: &[u8], at: usize) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(chunk(record, at)),
            Self::Big => u16::from_be_bytes(chunk(record, at)),
        }
    }

    fn u32(self, record: &[u8], at: usize) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(chunk(record, at)),
            Self::Big => u32::from_be_bytes(chunk(record, at)),
        }
    }

    fn u64(self, record: &[u8], at: usize) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(chunk(record, at)),
            Self::Big => u64::from_be_bytes(chunk(record, at)),
        }
    }
}

/// An event that matters, of a device.
struct Event {
    device: u32,
    event: BlockEvent,
}

struct Parser;

impl Next<Event> for Parser {
    fn next(&mut self, records: &mut Records, skips: &mut Skips) -> Result<Option<(u64, Event)>, TraceError> {
        loop {
            let place = records.place();
            let mut record = [0; RECORD];
            let count = records.fill(&mut record)?;
            if count == 0 {
                return Ok(None);
            }
            let magic = record[..count].first_chunk::<4>();
            let known = magic.and_then(|magic| ByteOrder::of(*magic));
            let order = match known {
                Some((order, VERSION)) => order,
                Some((_, version)) => {
                    let what = format!("blktrace version {version} is not known; version {VERSION} is");
                    return Err(records.wrong(place, what));
                }
                None if count < 4 => ByteOrder::Little,
                None => {
                    let magic = u32::from_le_bytes(chunk(&record, 0));
                    let what = format!("the record begins with {magic:#010x}, not with 0x65617407");
                    return Err(records.wrong(place, what));
                }
            };
            let payload = if count == RECORD { u64::from(order.u16(&record, 46)) } else { 0 };
            records.advance(count as u64);
            if count < RECORD || records.skip(payload)? < payload {
                skips.add(
                    "record[|s] cut short at the end of a file",
                    "blkparse passes over [it|them] too",
                    place,
                );
                return Ok(None);
            }
            if let Some(event) = event(order, &record) {
                return Ok(Some((order.u64(&record, 8), Event { device: order.u32(&record, 36), event })));
            }
        }
    }
}

/// Returns the event of a record, if it is of interest.
fn event(order: ByteOrder, record: &[u8; RECORD]) -> Option<BlockEvent> {
    let (action, bytes) = (order.u32(record, 28), order.u32(record, 24));
    if action & category::NOTIFY != 0 {
        return None;
    }
    let kind = match action & 0xffff {
        1 => Kind::Queue,
        6 => Kind::Requeue,
        7 => Kind::Issue,
        8 => Kind::Complete,
        _ => return None,
    };
    let (op, fua) = operation(kind, action, bytes);
    Some(BlockEvent {
        kind,
        op,
        fua,
        sector: if op == Some(Operation::Flush) { 0 } else { order.u64(record, 16) },
        sectors: bytes.div_ceil(512),
        error: -i32::from(order.u16(record, 44).cast_signed()).abs(),
        process: order.u32(record, 32),
        command: ProcessName::default(),
    })
}

/// Operation and FUA flag of an action: a flush has no length and is a read by its direction, but for the
/// queueing of an empty write to flush before; that one's completion is an echo of the write's.
fn operation(kind: Kind, action: u32, bytes: u32) -> (Option<Operation>, bool) {
    let is = |bit: u32| action & bit != 0;
    let op = match (is(category::WRITE), is(category::FLUSH)) {
        _ if is(category::PASSED_THROUGH) => return (None, false),
        _ if is(category::DISCARD) => Operation::Discard,
        (false, true) if bytes == 0 => Operation::Flush,
        (true, true) if bytes == 0 && kind != Kind::Complete => Operation::Flush,
        (true, _) => Operation::Write,
        (false, _) => Operation::Read,
    };
    (Some(op), op == Operation::Write && is(category::FUA))
}

struct BlktraceReader {
    merge: Merge<Event>,
    rows: EventRows,
    metadata: Metadata,
    beside: Vec<String>,
    failure: Option<TraceError>,
    at_end: bool,
}

impl Iterator for BlktraceReader {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.rows.pop() {
                return Some(Ok(record));
            }
            if self.at_end {
                return self.failure.take().map(Err);
            }
            let pushed = match self.merge.pop(&mut Parser) {
                Ok(Some((time_ns, Event { device, event }))) => {
                    let label = || format!("{},{}", device >> 20, device & 0xf_ffff);
                    self.rows
                        .push(u64::from(device), label, time_ns, event, &mut self.metadata)
                        .map_err(TraceError::invalid)
                        .map(|()| true)
                }
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            self.at_end = !matches!(pushed, Ok(true));
            self.failure = pushed.err();
            if self.at_end {
                self.rows.end();
            }
        }
    }
}

impl TraceReader for BlktraceReader {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        self.rows.notes(&mut notes);
        self.merge.skips.notes(&mut notes);
        notes.extend(left_beside(&self.beside));
        notes
    }
}

impl TraceFormat for Blktrace {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "blktrace binary, version 7: a file per processor, or merged"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["blktrace"]
    }

    fn options(&self) -> &'static [FormatOption] {
        OPTIONS
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        match head.bytes.first_chunk::<4>() {
            Some(magic) if ByteOrder::of(*magic).is_some() => Sniff::Yes,
            Some(_) => Sniff::No,
            None => Sniff::NeedMore,
        }
    }

    fn reads_parts(&self) -> bool {
        true
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let rows = EventRows::new(options)?;
        let siblings = PARTS.text(options)? == "siblings";
        let beside = source.beside().to_vec();
        let merge = Merge::new(source.into_parts(siblings)?, &mut Parser)?;
        let metadata = Metadata { block_size: options.block_size_or_default(), ..Metadata::default() };
        Ok(Box::new(BlktraceReader { merge, rows, metadata, beside, failure: None, at_end: false }))
    }
}
