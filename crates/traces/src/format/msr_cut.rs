//! Cuts of the MSR Cambridge traces as replay tools take them: `arrival_ms device offset size op`,
//! split by blanks.
//!
//! ```text
//! 0.000 0 200626176 4096 0
//! 22.810 0 2205343744 4096 1
//! ```
//! Arrivals count milliseconds from the start of the cut; offset and size count **bytes**, unlike in
//! DiskSim ASCII, which looks alike: the offset must be a multiple of the block size, the size rounds
//! up. 0 is a write, 1 a read. Rows only roughly in order are sorted within the window of the options.
//!
//! # Scope and limits
//! There are no response times: the authors of the cuts dropped them.
//!
//! A trace is recognised where an arrival has a decimal point and every offset and size of the first lines is
//! a multiple of 512. Fewer than eight such lines may be DiskSim ASCII as well: then both formats recognise
//! the trace, and the user must name the format.
//!
//! # References
//! Heimdall, EuroSys 2025, and its replayer; D. Narayanan et al., Write Off-Loading, FAST 2008.

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::{FormatOption, MissingColumn};
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::number::{integer, time};
use crate::parse::text::{LineParser, Order, Parsed, TextReader, blank_fields, no_more_fields, sniff_lines};
use crate::parse::units::{READ_CODE, WRITE_READ, operations};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// Cuts of MSR Cambridge traces in bytes.
pub(super) struct MsrCut;

const FIELDS: [&str; 5] = ["arrival_ms", "device", "offset", "size", "op"];
/// Digits of a millisecond down to the nanosecond.
const SCALE: u32 = 6;

struct Parser {
    blocks: Blocks,
    operations: [Operation; 2],
}

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], _: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let ([arrival, device, offset, size, op], count) = blank_fields(line, &FIELDS)?;
        no_more_fields(line, count, &FIELDS)?;
        let arrival = Instant::from_ns(time(FIELDS[0], arrival, SCALE, "milliseconds")?);
        let device = integer(FIELDS[1], device, u64::from(u16::MAX))? as u16;
        let (lbn, blocks) = self.blocks.byte_extent([FIELDS[2], FIELDS[3]], offset, size)?;
        let op = match op {
            b"0" => self.operations[0],
            b"1" => self.operations[1],
            _ => return Err(Problem::new(FIELDS[4], op, "`0` or `1` is allowed")),
        };
        check_extent(op, lbn, blocks)?;
        Ok(Parsed::Row(TraceRecord { device, ..TraceRecord::new(arrival, op, lbn, blocks) }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for MsrCut {
    fn name(&self) -> &'static str {
        "msr-cut"
    }

    fn description(&self) -> &'static str {
        "cuts of MSR traces for replay tools: ms, device, offset and size in bytes, op (0 write, 1 read)"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &[]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[READ_CODE]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::ResponseTimes]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        let (mut parser, mut decimal_point) =
            (Parser { blocks: Blocks::of(1), operations: WRITE_READ }, false);
        let sniff = sniff_lines(head, |line| match parser.parse(line, &mut Metadata::default()) {
            Ok(Parsed::Row(record)) => {
                decimal_point |= line.contains(&b'.');
                record.lbn % 512 == 0 && record.blocks % 512 == 0
            }
            _ => false,
        });
        match sniff {
            Sniff::Yes if !decimal_point => Sniff::No,
            sniff => sniff,
        }
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let parser = Parser {
            blocks: Blocks::of(checked_block_size(options.block_size_or_default())?),
            operations: operations(options)?,
        };
        Ok(Box::new(TextReader::new(source, parser, Order::Rough, options)))
    }
}
