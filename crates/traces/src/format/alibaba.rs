//! The format of Alibaba's block traces: `device_id,opcode,offset,length,timestamp`. A header may stand above.
//!
//! ```text
//! 0,R,126703644672,4096,1577808000000626
//! 419,W,12816957440,4096,1577808000000684
//! ```
//! The opcode is `R` or `W`; offset and length count bytes: the offset must be a multiple of the block
//! size, the length rounds up. The timestamp counts microseconds since 1970; arrivals count from the
//! earliest row of the first window. Device ids become devices 0, 1, 2 in order of appearance,
//! labelled with their id.
//!
//! # Scope and limits
//! There are no response times. The sizes of the devices lie in a file of their own, which is not read.
//! Writing refuses operations other than read and write and rounds arrivals to microseconds; the first
//! row is put at its distance from 31 December 2019, 16:00 UTC, when the original trace began.
//!
//! # References
//! J. Li et al.: An In-Depth Analysis of Cloud Block Storage Workloads in Large-Scale Production,
//! IISWC 2020.

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

/// Alibaba block traces.
pub(super) struct Alibaba;

const NAME: &str = "alibaba";
const FIELDS: [&str; 5] = ["device_id", "opcode", "offset", "length", "timestamp"];
const HEADER: Header = Header(&[
    &["deviceid", "device", "devid", "diskid", "volumeid", "volume"],
    &["opcode", "op", "optype", "iotype", "type", "operation"],
    &["offset", "off"],
    &["length", "len", "size"],
    &["timestamp", "timestampus", "time", "ts"],
]);
const NS_PER_US: u64 = 1_000;
/// Start of written traces, in microseconds since 1970.
const ORIGIN_US: u64 = 1_577_808_000_000_000;
/// The years 2001 to 2033 in microseconds since 1970: what a timestamp must be for the format to be
/// recognised.
const PLAUSIBLE_US: std::ops::Range<u64> = 1_000_000_000_000_000..2_000_000_000_000_000;

struct Parser {
    blocks: Blocks,
    devices: Names,
}

impl Parser {
    fn new(block_size: u64) -> Self {
        Self { blocks: Blocks::of(block_size), devices: Names::default() }
    }
}

impl LineParser for Parser {
    const HEADER: Header = HEADER;

    #[inline]
    fn parse(&mut self, line: &[u8], metadata: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let ([id, opcode, offset, length, timestamp], count) = comma_fields(line, &FIELDS)?;
        no_more_fields(line, count, &FIELDS)?;
        let op = match opcode {
            b"R" => Operation::Read,
            b"W" => Operation::Write,
            _ => return Err(Problem::new(FIELDS[1], opcode, "`R` or `W` is allowed")),
        };
        let (lbn, blocks) = self.blocks.byte_extent([FIELDS[2], FIELDS[3]], offset, length)?;
        check_extent(op, lbn, blocks)?;
        let arrival = integer(FIELDS[4], timestamp, u64::MAX / NS_PER_US)? * NS_PER_US;
        integer(FIELDS[0], id, u64::MAX)?;
        let device = self.devices.device(FIELDS[0], id, metadata)?;
        Ok(Parsed::Row(TraceRecord {
            device,
            ..TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks)
        }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for Alibaba {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "Alibaba block traces: device, R or W, offset and length in bytes, us since 1970"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["alibaba.csv"]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::ResponseTimes]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_rows(head, &mut Parser::new(1), |record| {
            PLAUSIBLE_US.contains(&(record.arrival.as_ns() / NS_PER_US))
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
        Holds::requests(NS_PER_US)
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
    let opcode = rows.read_or_write(record, b"R", b"W")?;
    let (offset, length) = rows.bytes(record, block_size)?;
    push_device(rows, devices, record.device)?;
    rows.line.push(b',');
    rows.line.extend_from_slice(opcode);
    let microseconds = ORIGIN_US + (record.arrival.as_ns() + NS_PER_US / 2) / NS_PER_US;
    for number in [offset, length, microseconds] {
        rows.line.push(b',');
        push_unsigned(&mut rows.line, number);
    }
    Ok(())
}
