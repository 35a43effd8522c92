//! The table *Disk Usage* of Windows Performance Analyzer. The separator of the fields tells the language of the system that
//! exported it: behind `;` the decimal sign is a comma, `87,200` is 87.2 and `16.384` is 16384; behind `,` it is a point, and
//! numbers with commas between their thousands stand in quotation marks.
//!
//! ```text
//! IO Type;Priority;Process (Name);Init Time (s);Complete Time (s);IO Time (µs);Disk Service Time (µs);Size (B);…
//! Read;Normal;System;1,080116400;1,080275600;159,200;159,200;16.384;0x0000000000000400;0x00000000000043FF;0;0;1;1
//! Read,Normal,System,1.080116400,1.080275600,159.200,159.200,"16,384",0x0000000000000400,0x00000000000043FF,0,0,1,1
//! ```
//! Columns go by the names in the header. `Init Time` is the arrival, counted from the start of the
//! recording, `Complete Time` the completion; service starts `Disk Service Time` before it. The first
//! offset must be a multiple of the block size; the last is inclusive and must agree with the size. A flush
//! addresses nothing. `QD/I`, the queue depth at the start, is the number of requests ahead. Priorities
//! from `Very Low` to `Critical` become 0 to 4; processes become initiators and disks devices, both in
//! order of appearance. Rows are sorted by arrival within the window of the options.
//!
//! # Scope and limits
//! A row that stands for several requests (`Count` above 1: the table was grouped) is an error. The sign between thousands is
//! read as such only before groups of three digits, so that a decimal sign of the other language is not misread. Before exactly
//! three digits it is ambiguous, and is read as in the rest of the table.
//!
//! # References
//! Microsoft: Windows Performance Analyzer, Disk Usage graph.

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::parse::columns::Columns;
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::names::Names;
use crate::parse::number::{hexadecimal, integer, time};
use crate::parse::text::{LineParser, Order, Parsed, TextReader, sniff_header};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// Windows Performance Analyzer.
pub(super) struct Wpa;

const FIELDS: [&str; 13] = [
    "IO Type",
    "Init Time (s)",
    "Complete Time (s)",
    "Size (B)",
    "Min Offset",
    "Max Offset",
    "IO Time (µs)",
    "Disk Service Time (µs)",
    "Priority",
    "Process (Name)",
    "QD/I - Queue Depth at Init Time",
    "Disk",
    "Count",
];
const REQUIRED: usize = 6;
const PRIORITIES: [&[u8]; 5] = [b"Very Low", b"Low", b"Normal", b"High", b"Critical"];
/// Largest allowed difference between the rounded columns.
const SLACK_NS: u64 = 1_000;

struct Parser {
    blocks: Blocks,
    columns: Option<(Columns<13>, Language)>,
    processes: Names,
    disks: Names,
    /// A number in the notation of everybody else.
    plain: Vec<u8>,
}

/// Signs of the language of the system that exported the table.
#[derive(Debug, Clone, Copy)]
struct Language {
    decimal: u8,
    thousands: u8,
}

fn columns(header: &[u8]) -> Result<(Columns<13>, Language), Box<Problem>> {
    let semicolon = header.contains(&b';');
    let (separator, decimal, thousands) = if semicolon { (b';', b',', b'.') } else { (b',', b'.', b',') };
    Ok((Columns::find(header, separator, &FIELDS, REQUIRED)?, Language { decimal, thousands }))
}

impl Parser {
    /// The number in `text` without signs between its thousands, its decimal sign a point.
    #[inline]
    fn plain(&mut self, field: &'static str, text: &[u8]) -> Result<&[u8], Box<Problem>> {
        let Some((_, Language { decimal, thousands })) = self.columns else {
            return Err(Problem::new("header", text, "the header comes first"));
        };
        self.plain.clear();
        let whole = text.iter().position(|byte| *byte == decimal).unwrap_or(text.len());
        let mut groups = text[..whole].split(|byte| *byte == thousands);
        let first = groups.next().unwrap_or_default();
        self.plain.extend_from_slice(first);
        for group in groups {
            if group.len() != 3 || first.is_empty() || first.len() > 3 {
                let (decimal, thousands) = (char::from(decimal), char::from(thousands));
                let problem = format!(
                    "`{thousands}` between groups of three digits and `{decimal}` before the fraction are allowed"
                );
                return Err(Problem::new(field, text, problem));
            }
            self.plain.extend_from_slice(group);
        }
        if let Some(fraction) = text.get(whole + 1..) {
            self.plain.push(b'.');
            self.plain.extend_from_slice(fraction);
        }
        Ok(&self.plain)
    }

    #[inline]
    fn seconds(&mut self, field: &'static str, text: &[u8]) -> Result<u64, Box<Problem>> {
        time(field, self.plain(field, text)?, 9, "seconds")
    }

    #[inline]
    fn microseconds(&mut self, field: &'static str, text: &[u8]) -> Result<u64, Box<Problem>> {
        time(field, self.plain(field, text)?, 3, "microseconds")
    }

    #[inline]
    fn whole(&mut self, field: &'static str, text: &[u8], max: u64) -> Result<u64, Box<Problem>> {
        integer(field, self.plain(field, text)?, max)
    }

    /// First block and number of blocks.
    fn extent(&mut self, size: &[u8], first: &[u8], last: &[u8]) -> Result<(u64, u32), Box<Problem>> {
        let bytes = self.whole(FIELDS[3], size, u64::MAX)?;
        let offset = |index: usize, text| {
            hexadecimal(text)
                .map_err(|_| Problem::new(FIELDS[index], text, "an offset in hexadecimal digits is allowed"))
        };
        let (first_byte, last_byte) = (offset(4, first)?, offset(5, last)?);
        if last_byte.checked_sub(first_byte).is_none_or(|length| length.checked_add(1) != Some(bytes)) {
            let problem = format!("it disagrees with the offsets: {bytes} bytes from {first_byte:#x} on");
            return Err(Problem::new(FIELDS[5], last, problem));
        }
        let lbn = self.blocks.aligned(FIELDS[4], first, first_byte)?;
        Ok((lbn, self.blocks.count(FIELDS[3], size, bytes)?))
    }
}

impl LineParser for Parser {
    fn parse(&mut self, line: &[u8], metadata: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let Some((columns, _)) = self.columns.clone() else {
            self.columns = Some(columns(line)?);
            return Ok(Parsed::Nothing);
        };
        let [
            kind,
            init,
            complete,
            size,
            first,
            last,
            io_time,
            service,
            priority,
            process,
            depth,
            disk,
            count,
        ] = columns.split(line)?;
        if columns.has(12) && count != b"1" {
            return Err(Problem::new(FIELDS[12], count, "`1` is allowed, a row for each request")
                .hint("export the table without grouping its rows"));
        }
        let op = match kind {
            b"Read" => Operation::Read,
            b"Write" => Operation::Write,
            b"Flush" => Operation::Flush,
            _ => return Err(Problem::new(FIELDS[0], kind, "`Read`, `Write` or `Flush` is allowed")),
        };
        let (lbn, blocks) = match op {
            Operation::Flush => (0, 0),
            _ => self.extent(size, first, last)?,
        };
        check_extent(op, lbn, blocks)?;
        let arrival = self.seconds(FIELDS[1], init)?;
        let completion = self.seconds(FIELDS[2], complete)?;
        let response = completion
            .checked_sub(arrival)
            .ok_or_else(|| Problem::new(FIELDS[2], complete, "it lies before the init time"))?;
        if columns.has(6) && self.microseconds(FIELDS[6], io_time)?.abs_diff(response) > SLACK_NS {
            return Err(Problem::new(
                FIELDS[6],
                io_time,
                format!("it disagrees with the init and complete times, which are {response} ns apart"),
            ));
        }
        let start = match columns.has(7) {
            true => {
                let service_ns = self.microseconds(FIELDS[7], service)?;
                if service_ns > response.saturating_add(SLACK_NS) {
                    let problem = "it is longer than the time from init to completion";
                    return Err(Problem::new(FIELDS[7], service, problem));
                }
                Some(Instant::from_ns(completion.saturating_sub(service_ns).max(arrival)))
            }
            false => None,
        };
        let priority = match columns.has(8) {
            true => PRIORITIES.iter().position(|name| *name == priority).ok_or_else(|| {
                let problem = "`Very Low`, `Low`, `Normal`, `High` or `Critical` is allowed";
                Problem::new(FIELDS[8], priority, problem)
            })? as u8,
            false => 0,
        };
        let initiator = match columns.has(9) {
            true => self.processes.initiator(FIELDS[9], process, metadata)?,
            false => 0,
        };
        let queue_length = match columns.has(10) {
            true => Some(self.whole(FIELDS[10], depth, u64::from(u32::MAX))? as u32),
            false => None,
        };
        let device = match columns.has(11) {
            true => self.disks.device(FIELDS[11], disk, metadata)?,
            false => 0,
        };
        Ok(Parsed::Row(TraceRecord {
            start,
            completion: Some(Instant::from_ns(completion)),
            queue_length,
            device,
            initiator,
            priority,
            ..TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks)
        }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for Wpa {
    fn name(&self) -> &'static str {
        "wpa"
    }

    fn description(&self) -> &'static str {
        "Windows Performance Analyzer, disk usage: a header, `;` and decimal comma or `,` and decimal point"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &[]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_header(head, |line| columns(line).is_ok())
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let blocks = Blocks::of(checked_block_size(options.block_size_or_default())?);
        let parser = Parser {
            blocks,
            columns: None,
            processes: Names::default(),
            disks: Names::default(),
            plain: Vec::new(),
        };
        Ok(Box::new(TextReader::new(source, parser, Order::Rough, options)))
    }
}
