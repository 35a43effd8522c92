//! Google's Thesios traces: synthesised requests of one disk of a storage server, CSV of 17 columns.
//!
//! ```text
//! filename,file_offset,application,c_time,…,op_type,…,request_io_size_bytes,…,start_time,disk_time,…
//! d206…,2453358,bigtable,1705305576,…,WRITE,…,3390,…,1705305600.015989780,0.000000000,…
//! ```
//! Columns go by the names in the header: their order differs between the published files and their
//! description. `start_time`, in seconds since 1970, is the arrival, counted from the earliest row of the
//! first window; the completion is `simulated_latency` later, also in seconds. Where the disk was used
//! (`disk_time` is not zero) service starts at `simulated_disk_start_time`. The request is one of
//! `request_io_size_bytes` at `file_offset`; requests of no bytes are counted and omitted. The answer of the
//! flash cache becomes the buffer result: `cache_hit` 0 is a miss, 1 a hit, -1 (a write) neither. The
//! application becomes the initiator, numbered in order of appearance; service classes become priorities:
//! `LATENCY_SENSITIVE` 2, `THROUGHPUT_ORIENTED` 1, others 0.
//!
//! A file is an object named by its hash. Files are laid side by side in order of appearance, one slot each
//! [default: 1 GiB]. A request takes every block of the device that it touches.
//!
//! # Scope and limits
//! The location of the files on the disk is unknown. Queueing before the disk is `simulated`, as the name
//! states.
//!
//! # References
//! P. Phothilimthana et al.: Thesios, ASPLOS 2024; google-research-datasets/thesios, CC BY 4.0.

use seeklab_core::{BufferOutcome, ByteSize, Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::{Allowed, FormatOption, MissingColumn};
use crate::parse::columns::Columns;
use crate::parse::extent::checked_block_size;
use crate::parse::names::Names;
use crate::parse::number::{integer, time};
use crate::parse::objects::Objects;
use crate::parse::text::{LineParser, Order, Parsed, TextReader, sniff_header};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// Thesios.
pub(super) struct Thesios;

const FIELDS: [&str; 11] = [
    "filename",
    "file_offset",
    "op_type",
    "request_io_size_bytes",
    "start_time",
    "simulated_latency",
    "disk_time",
    "simulated_disk_start_time",
    "cache_hit",
    "application",
    "service_class",
];
const REQUIRED: usize = 6;
/// Digits of a second down to the nanosecond.
const SCALE: u32 = 9;
/// Bytes of a slot.
const SLOT: FormatOption = FormatOption {
    name: "slot",
    allowed: Allowed::Size,
    default: "1GiB",
    meaning: "room for each file on the device, in order of appearance",
};

struct Parser {
    columns: Option<Columns<11>>,
    objects: Objects,
    applications: Names,
}

fn columns(header: &[u8]) -> Result<Columns<11>, Box<Problem>> {
    Columns::find(header, b',', &FIELDS, REQUIRED)
}

impl LineParser for Parser {
    fn parse(&mut self, line: &[u8], metadata: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let Some(columns) = &self.columns else {
            self.columns = Some(columns(line)?);
            return Ok(Parsed::Nothing);
        };
        let [file, offset, op, size, arrival, latency, disk_time, disk_start, hit, application, class] =
            columns.split(line)?;
        let seconds = |index: usize, text| time(FIELDS[index], text, SCALE, "seconds");
        let arrival = seconds(4, arrival)?;
        let completion = arrival.checked_add(seconds(5, latency)?).ok_or_else(|| {
            Problem::new(FIELDS[5], latency, "its end lies beyond the clock, which ends in 2554")
        })?;
        let uses_disk = columns.has(6) && columns.has(7) && seconds(6, disk_time)? > 0;
        let start = match uses_disk {
            true => {
                let start = seconds(7, disk_start)?;
                if !(arrival..=completion).contains(&start) {
                    let problem = "it lies before the start_time or behind the simulated_latency";
                    return Err(Problem::new(FIELDS[7], disk_start, problem));
                }
                Some(Instant::from_ns(start))
            }
            false => None,
        };
        let op = match op {
            b"READ" => Operation::Read,
            b"WRITE" => Operation::Write,
            _ => return Err(Problem::new(FIELDS[2], op, "`READ` or `WRITE` is allowed")),
        };
        let buffer = match hit {
            b"0" => BufferOutcome::Miss,
            b"1" => BufferOutcome::Hit,
            b"-1" | b"" => BufferOutcome::None,
            _ => return Err(Problem::new(FIELDS[8], hit, "`0`, `1` or `-1` is allowed")),
        };
        let size = integer(FIELDS[3], size, u64::MAX)?;
        let offset = integer(FIELDS[1], offset, u64::MAX)?;
        if size == 0 {
            return Ok(Parsed::Skipped {
                what: "request[|s] of no bytes",
                why: "[it moves|they move] nothing",
            });
        }
        let (lbn, blocks) = self.objects.extent([FIELDS[0], FIELDS[1]], file, offset, size)?;
        check_extent(op, lbn, blocks)?;
        let initiator = match application {
            b"" => 0,
            name => self.applications.initiator(FIELDS[9], name, metadata)?,
        };
        let priority = match class {
            b"LATENCY_SENSITIVE" => 2,
            b"THROUGHPUT_ORIENTED" => 1,
            _ => 0,
        };
        let completion = Some(Instant::from_ns(completion));
        let record = TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks);
        Ok(Parsed::Row(TraceRecord { start, completion, initiator, priority, buffer, ..record }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.objects.notes(notes);
    }
}

impl TraceFormat for Thesios {
    fn name(&self) -> &'static str {
        "thesios"
    }

    fn description(&self) -> &'static str {
        "Thesios (Google): CSV with a header, file, offset, bytes, times in s, cache hit"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &[]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[SLOT]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::Devices]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_header(head, |line| columns(line).is_ok())
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let block_size = checked_block_size(options.block_size_or_default())?;
        let slot_bytes = SLOT.size(options)?.map_or(0, ByteSize::as_bytes);
        let parser = Parser {
            columns: None,
            objects: Objects::new(slot_bytes, block_size),
            applications: Names::default(),
        };
        Ok(Box::new(TextReader::new(source, parser, Order::RoughAbsolute, options)))
    }
}
