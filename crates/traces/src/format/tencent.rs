//! The format of Tencent's cloud block storage traces: `timestamp,offset,size,type,volume`. A header
//! may stand above.
//!
//! ```text
//! 1538323200,12910952,128,0,1063
//! ```
//! The timestamp counts **whole seconds** since 1970; arrivals count from the earliest row of the first
//! window, and the rows of one second all arrive at its start, in their order. Offset and size count
//! sectors of 512 bytes. **0 is a read, 1 a write**, the opposite of SSDsim. Volumes become devices 0,
//! 1, 2 in order of appearance, labelled with their number.
//!
//! # Scope and limits
//! There are no response times, and no times within a second. Writing rounds arrivals down to seconds,
//! refuses operations other than read and write, and puts the first row at its distance from
//! 30 September 2018, 16:00 UTC, when the original trace began.
//!
//! # References
//! Y. Zhang et al.: OSCA, ATC 2020; SNIA IOTTA trace set 27917.

use std::path::Path;

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::MissingColumn;
use crate::output::device_names::{DevicesOut, push_device};
use crate::output::device_rows;
use crate::output::losses::Holds;
use crate::output::rows::RowsOut;
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::header::Header;
use crate::parse::names::Names;
use crate::parse::number::{integer, push_unsigned};
use crate::parse::text::{LineParser, Order, Parsed, TextReader, comma_fields, no_more_fields, sniff_rows};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader, TraceWriter};

/// Tencent CBS.
pub(super) struct Tencent;

const NAME: &str = "tencent";
const FIELDS: [&str; 5] = ["Timestamp", "Offset", "Size", "IOType", "VolumeID"];
const HEADER: Header = Header(&[
    &["timestamp", "time", "ts"],
    &["offset", "off"],
    &["size", "length", "len"],
    &["iotype", "type", "optype", "opcode", "op"],
    &["volumeid", "volume", "volid", "deviceid", "diskid"],
]);
const NS_PER_S: u64 = 1_000_000_000;
/// Start of written traces, in seconds since 1970.
const ORIGIN_S: u64 = 1_538_323_200;
/// The years 2001 to 2033 in seconds since 1970: what a timestamp must be for the format to be
/// recognised.
const PLAUSIBLE_S: std::ops::Range<u64> = 1_000_000_000..2_000_000_000;

struct Parser {
    blocks: Blocks,
    volumes: Names,
}

impl Parser {
    fn new(block_size: u64) -> Self {
        Self { blocks: Blocks::of(block_size), volumes: Names::default() }
    }
}

impl LineParser for Parser {
    const HEADER: Header = HEADER;

    #[inline]
    fn parse(&mut self, line: &[u8], metadata: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let ([timestamp, offset, size, kind, volume], count) = comma_fields(line, &FIELDS)?;
        no_more_fields(line, count, &FIELDS)?;
        let arrival = integer(FIELDS[0], timestamp, u64::MAX / NS_PER_S)? * NS_PER_S;
        let (lbn, blocks) = self.blocks.sector_extent([FIELDS[1], FIELDS[2]], offset, size)?;
        let op = match kind {
            b"0" => Operation::Read,
            b"1" => Operation::Write,
            _ => return Err(Problem::new(FIELDS[3], kind, "`0` for a read or `1` for a write is allowed")),
        };
        check_extent(op, lbn, blocks)?;
        integer(FIELDS[4], volume, u64::MAX)?;
        let device = self.volumes.device(FIELDS[4], volume, metadata)?;
        Ok(Parsed::Row(TraceRecord {
            device,
            ..TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks)
        }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for Tencent {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "Tencent CBS: s since 1970, sector, sectors, type (0 read, 1 write), volume"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["tencent.csv"]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::FineTimes, MissingColumn::ResponseTimes]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_rows(head, &mut Parser::new(512), |record| {
            PLAUSIBLE_S.contains(&(record.arrival.as_ns() / NS_PER_S))
        })
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let parser = Parser::new(checked_block_size(options.block_size_or_default())?);
        Ok(Box::new(TextReader::new(source, parser, Order::RoughAbsolute, options)))
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn holds(&self) -> Holds {
        Holds::requests(NS_PER_S)
    }

    fn create(&self, path: &Path, metadata: &Metadata) -> Result<Box<dyn TraceWriter>, TraceError> {
        device_rows::create(NAME, path, metadata, push_row)
    }
}

fn push_row(
    rows: &mut RowsOut,
    devices: &mut DevicesOut,
    record: &TraceRecord,
    block_size: u64,
) -> Result<(), TraceError> {
    let kind = rows.read_or_write(record, 0, 1)?;
    let (sector, sectors) = rows.sectors(record, block_size)?;
    let seconds = ORIGIN_S + record.arrival.as_ns() / NS_PER_S;
    for number in [seconds, sector, sectors, kind] {
        push_unsigned(&mut rows.line, number);
        rows.line.push(b',');
    }
    push_device(rows, devices, record.device)
}
