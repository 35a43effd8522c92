//! The `.lis` traces of the ARC cache: `start blocks ignored request`, split by blanks.
//!
//! ```text
//! 1 1 0 0
//! 42936149 8 0 17
//! ```
//! Start and length count blocks of 512 bytes. The third field is zero and the fourth, the number of the
//! request, is not kept: its meaning differs between the traces.
//!
//! # Scope and limits
//! There are **no times and no operations**: every row is a read that arrives at time zero, in the order of
//! the file. Such a trace is useful for its addresses: reuse distances, working sets, popularity.
//!
//! # References
//! N. Megiddo, D. S. Modha: ARC, a self-tuning, low overhead replacement cache, FAST 2003.

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::MissingColumn;
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::number::integer;
use crate::parse::text::{LineParser, Order, Parsed, TextReader, blank_fields, no_more_fields, sniff_lines};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// ARC `.lis`.
pub(super) struct Arc;

const FIELDS: [&str; 4] = ["start", "blocks", "ignored", "request"];

struct Parser {
    blocks: Blocks,
}

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], _: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let ([start, blocks, ignored, request], count) = blank_fields(line, &FIELDS)?;
        no_more_fields(line, count, &FIELDS)?;
        let (lbn, blocks) = self.blocks.sector_extent([FIELDS[0], FIELDS[1]], start, blocks)?;
        if ignored != b"0" {
            return Err(Problem::new(FIELDS[2], ignored, "`0` is allowed"));
        }
        integer(FIELDS[3], request, u64::MAX)?;
        check_extent(Operation::Read, lbn, blocks)?;
        Ok(Parsed::Row(TraceRecord::new(Instant::ZERO, Operation::Read, lbn, blocks)))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for Arc {
    fn name(&self) -> &'static str {
        "arc"
    }

    fn description(&self) -> &'static str {
        "ARC `.lis`: start, blocks of 512 bytes, 0, number; neither times nor operations"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["lis"]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[
            MissingColumn::ArrivalTimes,
            MissingColumn::ResponseTimes,
            MissingColumn::Operations,
            MissingColumn::Devices,
        ]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        let mut parser = Parser { blocks: Blocks::of(512) };
        sniff_lines(head, |line| parser.parse(line, &mut Metadata::default()).is_ok())
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let parser = Parser { blocks: Blocks::of(checked_block_size(options.block_size_or_default())?) };
        Ok(Box::new(TextReader::new(source, parser, Order::AsWritten, options)))
    }
}
