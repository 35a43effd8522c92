//! The default trace format of DiskSim: `arrival_ms device lbn blocks flags`, split by blanks.
//!
//! ```text
//! 13.191135   30  0       5   1
//! 17.829285   20  576560  6   1
//! ```
//! Flags are hexadecimal; bit 0 means read. Arrivals count from the start of the trace, which need not be the
//! first row. Rows only roughly in order are sorted within the window of the options. Addresses and lengths count blocks of 512
//! bytes, as in DiskSim itself: other blocks are converted on reading and on writing.
//!
//! # Scope and limits
//! Other flags are not carried. There are no response times; writing drops fields that the format cannot
//! represent (completions, initiators), and refuses operations other than read and write.
//!
//! Two other formats of five numbers look alike: SSDsim and MQSim count in nanoseconds without a decimal
//! point, some replay tools count offset and size in bytes. A trace whose arrivals have a decimal point and
//! whose blocks are not all multiples of 512 is this one alone. Whole arrivals below a million, or fewer than
//! eight rows of multiples of 512, may be either: then both formats recognise the trace, and the user must
//! name the format.

use std::path::Path;

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::MissingColumn;
use crate::output::losses::Holds;
use crate::output::rows::RowsOut;
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::number::{hexadecimal, integer, push_decimal, push_unsigned, time};
use crate::parse::text::{LineParser, Order, Parsed, TextReader, blank_fields, no_more_fields, sniff_lines};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader, TraceWriter};

/// DiskSim ASCII.
pub(super) struct DiskSimAscii;

const NAME: &str = "disksim-ascii";
const FIELDS: [&str; 5] = ["arrival_ms", "device", "lbn", "blocks", "flags"];
/// Digits of a millisecond down to the nanosecond.
const SCALE: u32 = 6;
/// Rows that are all multiples of 512 and therefore bytes.
const BYTES_FOR_SURE: usize = 8;

struct Parser {
    blocks: Blocks,
}

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], _: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let ([arrival, device, lbn, blocks, flags], count) = blank_fields(line, &FIELDS)?;
        no_more_fields(line, count, &FIELDS)?;
        let arrival = time(FIELDS[0], arrival, SCALE, "milliseconds")?;
        let device = integer(FIELDS[1], device, u64::from(u16::MAX))? as u16;
        let (lbn, blocks) = self.blocks.sector_extent([FIELDS[2], FIELDS[3]], lbn, blocks)?;
        let flags = hexadecimal(flags)
            .map_err(|_| Problem::new(FIELDS[4], flags, "a hexadecimal number is allowed, bit 0 for read"))?;
        let op = if flags & 1 == 1 { Operation::Read } else { Operation::Write };
        check_extent(op, lbn, blocks)?;
        Ok(Parsed::Row(TraceRecord {
            device,
            ..TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks)
        }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for DiskSimAscii {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "DiskSim ASCII: arrival in ms, device, lbn, blocks, flags"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["ascii"]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::ResponseTimes]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        let mut parser = Parser { blocks: Blocks::of(512) };
        let (mut decimal_point, mut blocks_not_bytes, mut rows, mut latest_ms) = (false, false, 0, 0);
        let sniff = sniff_lines(head, |line| {
            let Ok(Parsed::Row(record)) = parser.parse(line, &mut Metadata::default()) else { return false };
            decimal_point |= line.contains(&b'.');
            blocks_not_bytes |= record.lbn % 512 != 0 || record.blocks % 512 != 0;
            latest_ms = latest_ms.max(record.arrival.as_ns() / 1_000_000);
            rows += 1;
            true
        });
        // Whole numbers below a million may be milliseconds or nanoseconds, a few lines blocks or bytes.
        let fits = match decimal_point {
            true => blocks_not_bytes || rows < BYTES_FOR_SURE,
            false => blocks_not_bytes && latest_ms < 1_000_000,
        };
        match sniff {
            Sniff::Yes if !fits => Sniff::No,
            sniff => sniff,
        }
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let parser = Parser { blocks: Blocks::of(checked_block_size(options.block_size_or_default())?) };
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
        let flags = rows.read_or_write(record, b'1', b'0')?;
        let (sector, sectors) = rows.sectors(record, self.block_size)?;
        push_decimal(&mut rows.line, record.arrival.as_ns(), SCALE);
        for number in [u64::from(record.device), sector, sectors] {
            rows.line.push(b' ');
            push_unsigned(&mut rows.line, number);
        }
        rows.line.extend_from_slice(&[b' ', flags]);
        rows.end()
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        self.rows.finish()
    }
}
