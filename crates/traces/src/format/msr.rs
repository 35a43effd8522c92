//! The format of the MSR Cambridge traces:
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, without a header.
//!
//! ```text
//! 128166372000002900,pgloop,0,Read,4328660992,4096,34480
//! ```
//! Both times count ticks of 100 ns, the timestamp since 1601. Arrivals count from the earliest row
//! of the first window, as rows are only roughly in order; the response time gives the completion.
//! Host and disk number become devices 0, 1, 2 in order of appearance, labelled `host.disk`.
//! Offset and size count bytes: the offset must be a multiple of the block size, the size rounds up.
//!
//! # Scope and limits
//! Writing needs response times, reads and writes; times round to 100 ns, and the first row is put at
//! its distance from 22 February 2007, 17:00 UTC, when the original traces began.
//!
//! # References
//! D. Narayanan, A. Donnelly, A. Rowstron: Write Off-Loading, FAST 2008; SNIA IOTTA trace set 388.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Place, Problem, TraceError};
use crate::metadata::Metadata;
use crate::output::device_names::DevicesOut;
use crate::output::losses::Holds;
use crate::output::{TextOutput, TextSink};
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::header::Header;
use crate::parse::number::{integer, push_unsigned};
use crate::parse::text::{LineParser, Order, Parsed, TextReader, comma_fields, no_more_fields, sniff_rows};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader, TraceWriter};

/// MSR Cambridge.
pub(super) struct Msr;

const NAME: &str = "msr";
const FIELDS: [&str; 7] = ["Timestamp", "Hostname", "DiskNumber", "Type", "Offset", "Size", "ResponseTime"];
const HEADER: Header = Header(&[
    &["timestamp", "time"],
    &["hostname", "host"],
    &["disknumber", "disk"],
    &["type", "op", "optype", "operation"],
    &["offset"],
    &["size", "length"],
    &["responsetime", "response", "latency"],
]);
const TICK_NS: u64 = 100;
/// Start of written traces, in ticks since 1601.
const ORIGIN_TICKS: u64 = 128_166_372_000_000_000;

struct Parser {
    blocks: Blocks,
    /// Devices by host and disk number.
    devices: BTreeMap<Box<[u8]>, BTreeMap<u64, u16>>,
}

impl Parser {
    fn new(block_size: u64) -> Self {
        Self { blocks: Blocks::of(block_size), devices: BTreeMap::new() }
    }

    #[inline]
    fn device(&mut self, host: &[u8], disk: u64, metadata: &mut Metadata) -> Result<u16, Box<Problem>> {
        if let Some(device) = self.devices.get(host).and_then(|disks| disks.get(&disk)) {
            return Ok(*device);
        }
        let device = u16::try_from(metadata.labels.len())
            .map_err(|_| Problem::new(FIELDS[1], host, "more than 65536 disks are too many"))?;
        let name = std::str::from_utf8(host)
            .ok()
            .filter(|name| !name.is_empty() && !name.contains(char::is_control))
            .ok_or_else(|| Problem::new(FIELDS[1], host, "the name of a host is allowed"))?;
        metadata.labels.push(format!("{name}.{disk}"));
        self.devices.entry(host.into()).or_default().insert(disk, device);
        Ok(device)
    }
}

impl LineParser for Parser {
    const HEADER: Header = HEADER;

    #[inline]
    fn parse(&mut self, line: &[u8], metadata: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let ([timestamp, host, disk, kind, offset, size, response], count) = comma_fields(line, &FIELDS)?;
        no_more_fields(line, count, &FIELDS)?;
        let arrival = integer(FIELDS[0], timestamp, u64::MAX / TICK_NS)? * TICK_NS;
        let disk = integer(FIELDS[2], disk, u64::from(u32::MAX))?;
        let op = match kind {
            b"Read" => Operation::Read,
            b"Write" => Operation::Write,
            _ => return Err(Problem::new(FIELDS[3], kind, "`Read` or `Write` is allowed")),
        };
        let bytes = integer(FIELDS[4], offset, u64::MAX)?;
        let lbn = self.blocks.aligned(FIELDS[4], offset, bytes)?;
        let blocks = self.blocks.count_text(FIELDS[5], size)?;
        check_extent(op, lbn, blocks)?;
        let response_ns = integer(FIELDS[6], response, u64::MAX / TICK_NS)? * TICK_NS;
        let completion = arrival.checked_add(response_ns).ok_or_else(|| {
            Problem::new(FIELDS[6], response, "its end lies beyond the clock, which ends in 2185")
        })?;
        let device = self.device(host, disk, metadata)?;
        Ok(Parsed::Row(TraceRecord {
            device,
            completion: Some(Instant::from_ns(completion)),
            ..TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks)
        }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for Msr {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "MSR Cambridge: ticks of 100 ns, host, disk, Read or Write, bytes, response time"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["msr", "msr.csv"]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_rows(head, &mut Parser::new(1), |_| true)
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let parser = Parser::new(checked_block_size(options.block_size_or_default())?);
        Ok(Box::new(TextReader::new(source, parser, Order::RoughAbsolute, options)))
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn holds(&self) -> Holds {
        Holds::responses(TICK_NS)
    }

    fn create(&self, path: &Path, metadata: &Metadata) -> Result<Box<dyn TraceWriter>, TraceError> {
        let block_size = checked_block_size(metadata.block_size)?;
        Ok(Box::new(Writer {
            output: TextOutput::create(path)?,
            line: Vec::new(),
            rows: 0,
            block_size,
            devices: DevicesOut::new(&metadata.labels, named, |device| {
                format!("seeklab,{device}").into_bytes()
            }),
        }))
    }
}

struct Writer {
    output: TextOutput,
    line: Vec<u8>,
    rows: u64,
    block_size: u64,
    devices: DevicesOut,
}

/// Host and disk number of a label of the form `host.disk`.
fn named(label: &str) -> Option<Vec<u8>> {
    let (host, disk) = label.rsplit_once('.')?;
    let disk: u32 = disk.parse().ok()?;
    let usable = host.trim() == host && !host.is_empty() && !host.contains(is_separator);
    usable.then(|| format!("{host},{disk}").into_bytes())
}

fn is_separator(letter: char) -> bool {
    letter == ',' || letter.is_control()
}

/// `ns` in ticks, rounded half up.
fn ticks(ns: u64) -> u64 {
    ns / TICK_NS + u64::from(ns % TICK_NS >= TICK_NS / 2)
}

impl TraceWriter for Writer {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.rows += 1;
        let cannot = |this: &Self, what: Cow<'static, str>| {
            TraceError::not_representable(NAME, what).at(Place::Row(this.rows)).in_file(this.output.path())
        };
        let kind = match record.op {
            Operation::Read => "Read",
            Operation::Write => "Write",
            other => return Err(cannot(self, format!("a {}", other.name()).into())),
        };
        let Some(response) = record.response_time() else {
            return Err(cannot(self, "a request of unknown response time".into())
                .with_hint("write `spc` or `csv` instead"));
        };
        let offset = record.lbn.checked_mul(self.block_size);
        let size = u64::from(record.blocks).checked_mul(self.block_size);
        let Some((offset, size)) = offset.zip(size) else {
            return Err(cannot(self, format!("block {} in bytes", record.lbn).into()));
        };
        let arrival = ORIGIN_TICKS + ticks(record.arrival.as_ns());
        if arrival.checked_add(ticks(response.as_ns())).is_none_or(|end| end > u64::MAX / TICK_NS) {
            return Err(cannot(self, "a time beyond 2185".into()));
        }
        self.line.clear();
        push_unsigned(&mut self.line, arrival);
        self.line.push(b',');
        match self.devices.name(record.device) {
            Ok(name) => self.line.extend_from_slice(name),
            Err(same) => return Err(cannot(self, same.into())),
        }
        self.line.push(b',');
        self.line.extend_from_slice(kind.as_bytes());
        for number in [offset, size, ticks(response.as_ns())] {
            self.line.push(b',');
            push_unsigned(&mut self.line, number);
        }
        self.line.push(b'\n');
        self.output.write(&self.line)
    }

    fn label(&mut self, device: u16, name: &str) -> Result<(), TraceError> {
        self.devices.label(device, name);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        self.output.finish()
    }
}
