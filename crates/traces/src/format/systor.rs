//! The format of the SYSTOR '17 traces of virtual desktops:
//! `Timestamp,Response,IOType,LUN,Offset,Size`.
//!
//! ```text
//! Timestamp,Response,IOType,LUN,Offset,Size
//! 1456358400.004861,0.000432,R,6,127541145600,4096
//! 1456358400.005124,,W,4,9437184,8192
//! ```
//! The header may be missing. Rows without an IOType, which the traces' README allows, are counted and omitted. The timestamp counts seconds since 1970; arrivals count from the earliest
//! row of the first window. The response time counts seconds and may be empty, then the completion is
//! unknown. Offset and size count bytes: the offset must be a multiple of the block size, the size rounds
//! up. LUNs become devices 0, 1, 2 in order of appearance, labelled with their number.
//!
//! # Scope and limits
//! Rows are roughly in order of completion; they are sorted by arrival within the window of the options.
//!
//! # References
//! C. Lee et al.: Understanding Storage Traffic Characteristics on Enterprise Virtual Desktop
//! Infrastructure, SYSTOR 2017; SNIA IOTTA trace set 4964.

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::MissingColumn;
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::header::Header;
use crate::parse::names::Names;
use crate::parse::number::{integer, time};
use crate::parse::text::{LineParser, Order, Parsed, TextReader, comma_fields, no_more_fields, sniff_rows};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// SYSTOR '17.
pub(super) struct Systor;

const FIELDS: [&str; 6] = ["Timestamp", "Response", "IOType", "LUN", "Offset", "Size"];
const HEADER: Header = Header(&[
    &["timestamp", "time"],
    &["response", "responsetime"],
    &["iotype", "type"],
    &["lun"],
    &["offset"],
    &["size"],
]);
/// Digits of a second down to the nanosecond.
const SCALE: u32 = 9;

struct Parser {
    blocks: Blocks,
    luns: Names,
}

impl Parser {
    fn new(block_size: u64) -> Self {
        Self { blocks: Blocks::of(block_size), luns: Names::default() }
    }
}

impl LineParser for Parser {
    const HEADER: Header = HEADER;

    #[inline]
    fn parse(&mut self, line: &[u8], metadata: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let ([timestamp, response, kind, lun, offset, size], count) = comma_fields(line, &FIELDS)?;
        no_more_fields(line, count, &FIELDS)?;
        let arrival = time(FIELDS[0], timestamp, SCALE, "seconds")?;
        let completion = if response.is_empty() {
            None
        } else {
            let response_ns = time(FIELDS[1], response, SCALE, "seconds")?;
            let end = arrival.checked_add(response_ns).ok_or_else(|| {
                Problem::new(FIELDS[1], response, "its end lies beyond the clock, which ends in 2554")
            })?;
            Some(Instant::from_ns(end))
        };
        let op = match kind {
            b"R" => Operation::Read,
            b"W" => Operation::Write,
            b"" => {
                let what = "request[|s] of unknown operation";
                return Ok(Parsed::Skipped { what, why: "the trace leaves [its|their] IOType blank" });
            }
            _ => return Err(Problem::new(FIELDS[2], kind, "`R` or `W` is allowed")),
        };
        integer(FIELDS[3], lun, u64::MAX)?;
        let (lbn, blocks) = self.blocks.byte_extent([FIELDS[4], FIELDS[5]], offset, size)?;
        check_extent(op, lbn, blocks)?;
        let device = self.luns.device(FIELDS[3], lun, metadata)?;
        let record = TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks);
        Ok(Parsed::Row(TraceRecord { device, completion, ..record }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for Systor {
    fn name(&self) -> &'static str {
        "systor"
    }

    fn description(&self) -> &'static str {
        "SYSTOR '17: s since 1970, response time in s, R or W, LUN, offset and size in bytes"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &[]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::ArrivalOrder]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_rows(head, &mut Parser::new(1), |_| true)
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let parser = Parser::new(checked_block_size(options.block_size_or_default())?);
        Ok(Box::new(TextReader::new(source, parser, Order::RoughAbsolute, options)))
    }
}
