//! The trace format of the Storage Performance Council: `asu,lba,size,opcode,timestamp`.
//!
//! ```text
//! 0,303567,3584,w,0.000000
//! 1,55590,3072,w,0.000000
//! ```
//! The application storage unit becomes the device; the address counts units of `address-unit` within it, the size
//! counts bytes and rounds up to blocks; the opcode is `r` or `w` in either case; the timestamp counts
//! seconds from the start of the trace. Rows only roughly in order are sorted within the window of
//! the options. Further fields, which the standard leaves to the maker of a trace, are not read.
//!
//! # Scope and limits
//! The specification leaves the unit of addresses to the description of a trace, which lies outside of the file. Those of
//! the published traces have 512 bytes, the default of `address-unit`, and so have written traces. The block size of the
//! options is another thing: it changes no byte that a request addresses. There are no response times. Writing drops fields that the format cannot represent and refuses operations other than
//! read and write.
//!
//! # References
//! SPC trace file format specification, revision 1.0.1.

use std::path::Path;

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::{Allowed, FormatOption, MissingColumn};
use crate::output::losses::Holds;
use crate::output::rows::RowsOut;
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::header::Header;
use crate::parse::number::{integer, push_decimal, push_unsigned, time};
use crate::parse::text::{LineParser, Order, Parsed, TextReader, comma_fields, sniff_rows};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader, TraceWriter};

/// SPC.
pub(super) struct Spc;

const NAME: &str = "spc";
const FIELDS: [&str; 5] = ["asu", "lba", "size", "opcode", "timestamp"];
const HEADER: Header = Header(&[
    &["asu", "applicationspecificunit", "device"],
    &["lba", "lbn", "logicalblockaddress"],
    &["size", "bytes", "length"],
    &["opcode", "op", "type"],
    &["timestamp", "time"],
]);
/// Digits of a second down to the nanosecond.
const SCALE: u32 = 9;

const ADDRESS_UNIT: FormatOption = FormatOption {
    name: "address-unit",
    allowed: Allowed::Size,
    default: "512B",
    meaning: "unit of the addresses, the block size that the description of the trace states",
};

struct Parser {
    blocks: Blocks,
    /// Bytes that an address counts.
    unit: u64,
}

impl LineParser for Parser {
    const HEADER: Header = HEADER;

    #[inline]
    fn parse(&mut self, line: &[u8], _: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let ([asu, lba, size, opcode, timestamp], _) = comma_fields(line, &FIELDS)?;
        let device = integer(FIELDS[0], asu, u64::from(u16::MAX))? as u16;
        let lbn = self.blocks.address(FIELDS[1], lba, self.unit)?;
        let blocks = self.blocks.count_text(FIELDS[2], size)?;
        let op = match opcode {
            b"r" | b"R" => Operation::Read,
            b"w" | b"W" => Operation::Write,
            _ => return Err(Problem::new(FIELDS[3], opcode, "`r` or `w` is allowed")),
        };
        check_extent(op, lbn, blocks)?;
        let arrival = time(FIELDS[4], timestamp, SCALE, "seconds")?;
        Ok(Parsed::Row(TraceRecord {
            device,
            ..TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks)
        }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for Spc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "SPC (UMass traces): asu, lba, bytes, r or w, seconds"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["spc"]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[ADDRESS_UNIT]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::ResponseTimes]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        let mut parser = Parser { blocks: Blocks::of(1), unit: 1 };
        sniff_rows(head, &mut parser, |_| true)
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let unit = ADDRESS_UNIT.size(options)?.expect("its default is a size").as_bytes();
        let parser =
            Parser { blocks: Blocks::of(checked_block_size(options.block_size_or_default())?), unit };
        Ok(Box::new(TextReader::new(source, parser, Order::Rough, options)))
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn holds(&self) -> Holds {
        Holds::requests(1)
    }

    fn create(&self, path: &Path, metadata: &Metadata) -> Result<Box<dyn TraceWriter>, TraceError> {
        let block_size = checked_block_size(metadata.block_size)?;
        Ok(Box::new(Writer { rows: RowsOut::create(NAME, path)?, block_size }))
    }
}

struct Writer {
    rows: RowsOut,
    block_size: u64,
}

impl TraceWriter for Writer {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        let rows = &mut self.rows;
        rows.begin();
        let opcode = rows.read_or_write(record, b'r', b'w')?;
        let (sector, sectors) = rows.sectors(record, self.block_size)?;
        for number in [u64::from(record.device), sector, sectors * 512] {
            push_unsigned(&mut rows.line, number);
            rows.line.push(b',');
        }
        rows.line.extend_from_slice(&[opcode, b',']);
        push_decimal(&mut rows.line, record.arrival.as_ns(), SCALE);
        rows.end()
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        self.rows.finish()
    }
}
