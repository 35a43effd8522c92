//! The trace format of the simulators SSDsim and MQSim: `time device sector sectors op`, split by
//! blanks.
//!
//! ```text
//! 0 0 303567 7 0
//! 78643005 1 55596 6 1
//! ```
//! Times count nanoseconds from the start of the trace, which need not be the first row; addresses
//! and lengths count sectors of 512 bytes; **0 is a write, 1 a read**. Rows only roughly in order are
//! sorted within the window of the options.
//!
//! # Scope and limits
//! There are no response times. Writing drops fields that the format cannot represent and refuses operations
//! other than read and write. MQSim can be configured to count other units of time than the nanoseconds of
//! the traces that come with it, and relatives of the format exchange the codes: both are options.
//!
//! Two other formats of five numbers look alike. DiskSim ASCII has arrivals with a decimal point, and replay
//! tools count bytes: so a trace is recognised only where all times are whole and not all addresses and
//! lengths are multiples of 512. Where all times of the first lines also lie below a million, they might be
//! milliseconds: then DiskSim ASCII recognises the trace too, and the user must name the format.
//!
//! # References
//! Y. Hu et al., SSDsim, ICS 2011; A. Tavakkol et al., MQSim, FAST 2018.

use std::path::Path;

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::{FormatOption, MissingColumn};
use crate::output::losses::Holds;
use crate::output::rows::RowsOut;
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::number::{integer, push_unsigned};
use crate::parse::text::{LineParser, Order, Parsed, TextReader, blank_fields, no_more_fields, sniff_lines};
use crate::parse::units::{READ_CODE, WRITE_READ, operations, time_unit, unit_ns};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader, TraceWriter};

/// SSDsim and MQSim.
pub(super) struct SsdSim;

const NAME: &str = "ssdsim";
const FIELDS: [&str; 5] = ["time", "device", "sector", "sectors", "op"];

const TIME_UNIT: FormatOption = time_unit("ns");

struct Parser {
    blocks: Blocks,
    unit_ns: u64,
    operations: [Operation; 2],
}

impl Parser {
    const PLAIN: Self = Self { blocks: Blocks::of(512), unit_ns: 1, operations: WRITE_READ };
}

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], _: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let ([time, device, sector, sectors, op], count) = blank_fields(line, &FIELDS)?;
        no_more_fields(line, count, &FIELDS)?;
        let arrival = Instant::from_ns(integer(FIELDS[0], time, u64::MAX / self.unit_ns)? * self.unit_ns);
        let device = integer(FIELDS[1], device, u64::from(u16::MAX))? as u16;
        let (lbn, blocks) = self.blocks.sector_extent([FIELDS[2], FIELDS[3]], sector, sectors)?;
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

impl TraceFormat for SsdSim {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "SSDsim and MQSim: ns, device, sector, sectors, op (0 write, 1 read)"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["ssdsim"]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[TIME_UNIT, READ_CODE]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::ResponseTimes]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        let (mut parser, mut sectors_not_bytes) = (Parser::PLAIN, false);
        let sniff = sniff_lines(head, |line| match parser.parse(line, &mut Metadata::default()) {
            Ok(Parsed::Row(record)) => {
                sectors_not_bytes |= record.lbn % 512 != 0 || record.blocks % 512 != 0;
                true
            }
            _ => false,
        });
        match sniff {
            Sniff::Yes if !sectors_not_bytes => Sniff::No,
            sniff => sniff,
        }
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let parser = Parser {
            blocks: Blocks::of(checked_block_size(options.block_size_or_default())?),
            unit_ns: unit_ns(&TIME_UNIT, options)?,
            operations: operations(options)?,
        };
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
        let op = rows.read_or_write(record, b'1', b'0')?;
        let (sector, sectors) = rows.sectors(record, self.block_size)?;
        for number in [record.arrival.as_ns(), u64::from(record.device), sector, sectors] {
            push_unsigned(&mut rows.line, number);
            rows.line.push(b' ');
        }
        rows.line.push(op);
        rows.end()
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        self.rows.finish()
    }
}
