//! The binary format of the CloudPhysics traces, as VMware's vscsiStats records it, versions 1 and 2.
//!
//! ```text
//! 1, 32 bytes: u32 serial  u32 length  u32 segments  u16 command  u16 version  u64 lbn  u64 time_us
//! 2, 40 bytes: u16 command  u16 version  u32 serial  u32 length  u32 segments  u64 lbn  u64 time_us
//!              u64 response_us
//! ```
//! All integers are little-endian; the high byte of `version` is the version, the same in every record. The
//! command is SCSI's operation code, the length counts bytes, the address sectors of 512 bytes. Rows only
//! roughly in order are sorted; the first is at time zero.
//!
//! # Scope and limits
//! Only version 2 has response times. Commands that are neither read nor write, synchronize cache, unmap or
//! write same are passed over and counted. The serial and the segments are not carried.
//!
//! Writing makes version 2 where the first row has a response time, which then every row needs, else
//! version 1; times round to microseconds.
//!
//! # References
//! C. Waldspurger et al.: Efficient MRC Construction with SHARDS, FAST 2015 (the traces); libCacheSim, which
//! reads them.

use std::path::Path;

use seeklab_core::{Duration, Instant, Operation, TraceRecord};

use crate::error::{Place, Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::MissingColumn;
use crate::output::losses::Holds;
use crate::output::{TextOutput, TextSink};
use crate::parse::extent::checked_block_size;
use crate::parse::records::{RecordParser, RecordReader, Records, blocks_of_bytes, chunk, micros};
use crate::parse::skips::Skips;
use crate::parse::text::Order;
use crate::parse::units::to_micros;
use crate::schema::Column;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader, TraceWriter};

/// CloudPhysics.
pub(super) struct Vscsi;

const NAME: &str = "vscsi";
const SECTOR: u64 = 512;
const V1: usize = 32;
const V2: usize = 40;
/// Records that sniffing looks at.
const SNIFFED: usize = 64;

/// Times that a record plausibly has are below: 2200 years, and a day.
const TIME_US_MAX: u64 = 1 << 56;
const RESPONSE_US_MAX: u64 = 86_400_000_000;

/// A record of either version.
struct Record {
    command: u16,
    length: u32,
    lbn: u64,
    time_us: u64,
    response_us: Option<u64>,
}

impl Record {
    fn v1(record: &[u8; V1]) -> Option<Self> {
        let version = u16::from_le_bytes(chunk(record, 14));
        (version >> 8 == 1).then(|| Self {
            length: u32::from_le_bytes(chunk(record, 4)),
            command: u16::from_le_bytes(chunk(record, 12)),
            lbn: u64::from_le_bytes(chunk(record, 16)),
            time_us: u64::from_le_bytes(chunk(record, 24)),
            response_us: None,
        })
    }

    fn v2(record: &[u8; V2]) -> Option<Self> {
        let version = u16::from_le_bytes(chunk(record, 2));
        (version >> 8 == 2).then(|| Self {
            command: u16::from_le_bytes(chunk(record, 0)),
            length: u32::from_le_bytes(chunk(record, 8)),
            lbn: u64::from_le_bytes(chunk(record, 16)),
            time_us: u64::from_le_bytes(chunk(record, 24)),
            response_us: Some(u64::from_le_bytes(chunk(record, 32))),
        })
    }

    /// Returns the operation that the SCSI operation code means.
    fn operation(&self) -> Option<Operation> {
        match self.command {
            0x08 | 0x28 | 0xa8 | 0x88 => Some(Operation::Read),
            0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Operation::Write),
            0x35 | 0x91 => Some(Operation::Flush),
            0x42 => Some(Operation::Discard),
            0x41 | 0x93 => Some(Operation::WriteZeroes),
            _ => None,
        }
    }

    /// Returns true if this may be a record: an operation code of one byte, and a time and an extent that a row
    /// can hold.
    fn is_plausible(&self) -> bool {
        self.command <= 0xff
            && self.time_us < TIME_US_MAX
            && self.response_us.is_none_or(|us| us < RESPONSE_US_MAX)
            && self.operation().is_none_or(|op| self.to_row(op, SECTOR).is_ok())
    }

    fn to_row(&self, op: Operation, block_size: u64) -> Result<TraceRecord, Box<Problem>> {
        let (offset, length) = match op {
            Operation::Flush => (0, 0),
            _ => (u128::from(self.lbn) * u128::from(SECTOR), u64::from(self.length)),
        };
        let (lbn, blocks) = blocks_of_bytes(op, offset, length, block_size)?;
        let arrival = micros("time", self.time_us)?;
        let completion = match self.response_us {
            Some(us) => Some(arrival.checked_add(micros("response time", us)?).ok_or_else(|| {
                Problem::new("response time", us.to_string(), "its end lies beyond the clock of 584 years")
            })?),
            None => None,
        };
        Ok(TraceRecord {
            completion: completion.map(Instant::from_ns),
            ..TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks)
        })
    }
}

struct Parser {
    version: u8,
    block_size: u64,
    skips: Skips,
}

impl RecordParser for Parser {
    #[inline]
    fn next(&mut self, records: &mut Records, _: &mut Metadata) -> Result<Option<TraceRecord>, TraceError> {
        loop {
            let place = records.place();
            let record = match self.version {
                1 => records.next::<V1>()?.map(|bytes| Record::v1(&bytes)),
                _ => records.next::<V2>()?.map(|bytes| Record::v2(&bytes)),
            };
            let Some(record) = record else { return Ok(None) };
            let Some(record) = record else {
                let what = format!("the record is not of version {}, as the first one is", self.version);
                return Err(records.wrong(place, what));
            };
            match record.operation() {
                Some(op) => {
                    let row = record.to_row(op, self.block_size);
                    return row.map(Some).map_err(|problem| records.invalid(place, problem));
                }
                None => self.skips.add(
                    "SCSI command[|s]",
                    "[it is|they are] neither read nor write, synchronize cache, unmap or write same",
                    place,
                ),
            }
        }
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.skips.notes(notes);
    }
}

/// The version of the first record, where all that are looked at have it and are plausible.
fn version(head: Head<'_>) -> Option<u8> {
    let all = |good: &mut dyn Iterator<Item = bool>| {
        let mut good = good.take(SNIFFED).peekable();
        good.peek().is_some() && good.all(|good| good)
    };
    let is_known = |record: Option<Record>| record.is_some_and(|record| record.is_plausible());
    let is_v1 = |record: &[u8]| record.first_chunk().is_some_and(|record| is_known(Record::v1(record)));
    let is_v2 = |record: &[u8]| record.first_chunk().is_some_and(|record| is_known(Record::v2(record)));
    match () {
        () if all(&mut head.bytes.chunks_exact(V1).map(is_v1)) => Some(1),
        () if all(&mut head.bytes.chunks_exact(V2).map(is_v2)) => Some(2),
        () => None,
    }
}

impl TraceFormat for Vscsi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "CloudPhysics (vscsiStats) binary, versions 1 and 2"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["vscsi"]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::Devices]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        match version(head) {
            Some(_) => Sniff::Yes,
            None if head.bytes.len() < V2 => Sniff::NeedMore,
            None => Sniff::No,
        }
    }

    fn open(&self, mut source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let block_size = checked_block_size(options.block_size_or_default())?;
        let head = source.head(V2);
        let first = |at: usize| head.bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        let version = |at: usize| first(at).map(|bytes| u16::from_le_bytes(*bytes) >> 8);
        let version = match (version(14), version(2)) {
            (Some(1), _) => 1,
            (_, Some(2)) => 2,
            _ => {
                let what = "the first record is neither of version 1 nor of version 2";
                return Err(TraceError::malformed(what).at(Place::Byte(0)));
            }
        };
        let metadata = Metadata { block_size: options.block_size_or_default(), ..Metadata::default() };
        let parser = Parser { version, block_size, skips: Skips::default() };
        let records = Records::of(source)?;
        Ok(Box::new(RecordReader::new(records, parser, metadata, Order::RoughAbsolute, options)))
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn holds(&self) -> Holds {
        const COLUMNS: &[Column] =
            &[Column::ArrivalNs, Column::CompletionNs, Column::Op, Column::Lbn, Column::Blocks];
        Holds { columns: COLUMNS, unit: Duration::from_ns(1_000) }
    }

    fn create(&self, path: &Path, metadata: &Metadata) -> Result<Box<dyn TraceWriter>, TraceError> {
        let block_size = checked_block_size(metadata.block_size)?;
        Ok(Box::new(Writer { output: TextOutput::create(path)?, rows: 0, block_size, has_response: None }))
    }
}

struct Writer {
    output: TextOutput,
    rows: u64,
    block_size: u64,
    has_response: Option<bool>,
}

impl TraceWriter for Writer {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.rows += 1;
        let (place, path) = (Place::Row(self.rows), self.output.path());
        let cannot = |what: String| TraceError::not_representable(NAME, what).at(place).in_file(path);
        let command: u16 = match record.op {
            Operation::Read => 0x28,
            Operation::Write => 0x2a,
            Operation::Flush => 0x35,
            Operation::Discard => 0x42,
            Operation::WriteZeroes => 0x41,
        };
        let has_response = *self.has_response.get_or_insert(record.completion.is_some());
        if has_response && record.completion.is_none() {
            return Err(cannot("a request without a response time behind requests that have one".to_owned())
                .with_hint("write `csv` instead"));
        }
        let offset = u128::from(record.lbn) * u128::from(self.block_size);
        let lbn =
            u64::try_from(offset / u128::from(SECTOR)).ok().filter(|_| offset % u128::from(SECTOR) == 0);
        let lbn = lbn.ok_or_else(|| cannot(format!("block {} in sectors of 512 bytes", record.lbn)))?;
        let length = u64::from(record.blocks).checked_mul(self.block_size);
        let length = length.and_then(|bytes| u32::try_from(bytes).ok());
        let length = length.ok_or_else(|| cannot(format!("{} blocks in bytes of 32 bits", record.blocks)))?;
        let time = to_micros(record.arrival.as_ns());
        let mut bytes = [0; V2];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(16, &lbn.to_le_bytes());
        put(24, &time.to_le_bytes());
        let size = match record.completion.filter(|_| has_response) {
            Some(completion) => {
                put(0, &command.to_le_bytes());
                put(2, &0x0200_u16.to_le_bytes());
                put(4, &(self.rows as u32).to_le_bytes());
                put(8, &length.to_le_bytes());
                put(12, &1_u32.to_le_bytes());
                put(32, &to_micros(completion.as_ns()).saturating_sub(time).to_le_bytes());
                V2
            }
            None => {
                put(0, &(self.rows as u32).to_le_bytes());
                put(4, &length.to_le_bytes());
                put(8, &1_u32.to_le_bytes());
                put(12, &command.to_le_bytes());
                put(14, &0x0100_u16.to_le_bytes());
                V1
            }
        };
        self.output.write(&bytes[..size])
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        self.output.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record_v1(command: u16, lbn: u64, time_us: u64) -> Vec<u8> {
        let mut record = vec![0; 12];
        record[4..8].copy_from_slice(&512_u32.to_le_bytes());
        record.extend([command, 0x0100].map(u16::to_le_bytes).concat());
        record.extend([lbn, time_us].map(u64::to_le_bytes).concat());
        record
    }

    fn sniffed(records: &[Vec<u8>]) -> Sniff {
        Vscsi.sniff(Head { bytes: &records.concat(), whole: true })
    }

    #[test]
    fn trace_with_other_commands_at_its_start_is_recognised() {
        let (inquiry, read) = (record_v1(0x12, 0, 5), record_v1(0x28, 8, 6));
        assert_eq!(sniffed(&[inquiry.clone(), read.clone()]), Sniff::Yes);
        assert_eq!(sniffed(&[read.clone(), inquiry, read.clone()]), Sniff::Yes);
        for wrong in [record_v1(0x128, 8, 6), record_v1(0x12, 8, u64::MAX), record_v1(0x28, u64::MAX, 6)] {
            assert_eq!(sniffed(&[read.clone(), wrong.clone(), read.clone()]), Sniff::No, "{wrong:?}");
        }
    }
}
