//! The CloudPhysics virtual disk traces as CSV: `version,time,op,size,lbn`.
//!
//! ```text
//! version,time,op,size,lbn
//! 1,5633898,2a,512,42932745
//! ```
//! Columns go by the names in the header. By default, times count **whole seconds** from the start of the
//! machine (option `time-unit`). Arrivals count from the earliest row of the first window. The operation is
//! the SCSI opcode in hexadecimal digits; the size counts bytes and rounds up to blocks; the address counts
//! sectors of 512 bytes.
//!
//! # Scope and limits
//! Reads (08, 28, a8, 88) and writes (0a, 2a, aa, 8a) are read, other commands are counted and omitted. There
//! are no times within a second and no response times. The binary encodings are formats of their own.
//!
//! # References
//! C. Waldspurger et al.: SHARDS, FAST 2015; SCSI Block Commands (SBC-4) for the opcodes.

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::{FormatOption, MissingColumn};
use crate::parse::columns::Columns;
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::number::{hexadecimal, integer};
use crate::parse::text::{LineParser, Order, Parsed, TextReader, sniff_header};
use crate::parse::units::{time_unit, unit_ns};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// CloudPhysics as CSV.
pub(super) struct CloudPhysicsCsv;

const FIELDS: [&str; 5] = ["version", "time", "op", "size", "lbn"];
const TIME_UNIT: FormatOption = time_unit("s");

struct Parser {
    blocks: Blocks,
    unit_ns: u64,
    columns: Option<Columns<5>>,
}

fn columns(header: &[u8]) -> Result<Columns<5>, Box<Problem>> {
    Columns::find(header, b',', &FIELDS, FIELDS.len())
}

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], _: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let Some(columns) = &self.columns else {
            self.columns = Some(columns(line)?);
            return Ok(Parsed::Nothing);
        };
        let [version, time, op, size, lbn] = columns.split(line)?;
        if !matches!(version, b"1" | b"2") {
            return Err(Problem::new(FIELDS[0], version, "`1` or `2` is allowed"));
        }
        let arrival = Instant::from_ns(integer(FIELDS[1], time, u64::MAX / self.unit_ns)? * self.unit_ns);
        let opcode = hexadecimal(op).ok().filter(|opcode| *opcode <= 0xff);
        let opcode = opcode.ok_or_else(|| {
            Problem::new(FIELDS[2], op, "a SCSI opcode of two hexadecimal digits is allowed")
        })?;
        let op = match opcode {
            0x08 | 0x28 | 0xa8 | 0x88 => Operation::Read,
            0x0a | 0x2a | 0xaa | 0x8a => Operation::Write,
            _ => {
                return Ok(Parsed::Skipped {
                    what: "other SCSI command[|s]",
                    why: "[it neither reads nor writes|they neither read nor write]",
                });
            }
        };
        let blocks = self.blocks.count_text(FIELDS[3], size)?;
        let lbn = self.blocks.address(FIELDS[4], lbn, 512)?;
        check_extent(op, lbn, blocks)?;
        Ok(Parsed::Row(TraceRecord::new(arrival, op, lbn, blocks)))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for CloudPhysicsCsv {
    fn name(&self) -> &'static str {
        "cloudphysics-csv"
    }

    fn description(&self) -> &'static str {
        "CloudPhysics as CSV: version, time in s, SCSI opcode, bytes, sector"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &[]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[TIME_UNIT]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::FineTimes, MissingColumn::ResponseTimes, MissingColumn::Devices]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_header(head, |line| columns(line).is_ok())
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let blocks = Blocks::of(checked_block_size(options.block_size_or_default())?);
        let parser = Parser { blocks, unit_ns: unit_ns(&TIME_UNIT, options)?, columns: None };
        Ok(Box::new(TextReader::new(source, parser, Order::RoughAbsolute, options)))
    }
}
