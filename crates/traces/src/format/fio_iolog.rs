//! The I/O logs of fio that it writes and replays, versions 2 and 3.
//!
//! ```text
//! fio version 2 iolog             fio version 3 iolog
//! /dev/sdb add                    15 /dev/sdb add
//! /dev/sdb open                   17 /dev/sdb open
//! /dev/sdb wait 120 0             4486 /dev/sdb read 217546752 16384
//! /dev/sdb read 4096 8192         5902 /dev/sdb sync 217546752 0
//! /dev/sdb close                  25005016 /dev/sdb close
//! ```
//! Version 3 begins every line with its time in **microseconds** since the start. The documentation of fio
//! does not state the unit, but its source and its files show it; the option `time-unit` selects another.
//! Version 2 has no times: a `wait` gives the microseconds from the end of the wait before it (or from the
//! start) until the following lines begin. Rows without waits all arrive at once. Files become devices 0, 1,
//! 2 in the order in which they are added; their paths may have blanks, so lines are taken apart from the
//! right. Offsets count bytes and must be multiples of the block size, lengths round up. `trim` is a discard;
//! `sync`, `datasync` and `sync_file_range` are flushes, their offset and length mean nothing.
//!
//! # Scope and limits
//! There are no response times. Writing rounds times to microseconds. Version 2 can represent pauses only, so
//! its rows must be in order of arrival (fio itself ignores waits below 100 us). The labels of the devices
//! are the files' names. Write-zeroes and forced media cannot be represented: the former are refused, the
//! latter lost.
//!
//! # References
//! fio, HOWTO, trace file format v2 and v3; `iolog.c`.

use std::path::Path;

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::{FormatOption, MissingColumn};
use crate::output::losses::Holds;
use crate::output::rows::RowsOut;
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::names::Names;
use crate::parse::number::{integer, push_unsigned};
use crate::parse::text::{
    LineParser, Order, Parsed, TextReader, blanks_from_right, sniff_header, split_blank,
};
use crate::parse::units::{time_unit, unit_ns};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader, TraceWriter};

/// A version of fio's I/O log.
pub(super) struct FioIolog(Version);

impl FioIolog {
    /// Without times.
    pub(super) const V2: Self = Self(Version::Two);
    /// With times.
    pub(super) const V3: Self = Self(Version::Three);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

impl Version {
    const fn header(self) -> &'static [u8] {
        match self {
            Self::Two => b"fio version 2 iolog",
            Self::Three => b"fio version 3 iolog",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Two => "fio-iolog-v2",
            Self::Three => "fio-iolog-v3",
        }
    }
}

const NS_PER_US: u64 = 1_000;
/// Of version 3.
const TIME_UNIT: FormatOption = time_unit("us");

struct Parser {
    version: Version,
    blocks: Blocks,
    files: Names,
    at_start: bool,
    /// Nanoseconds in the unit of version 3's times.
    unit_ns: u64,
    /// End of the last wait of version 2, in microseconds.
    waited_us: u64,
}

/// The operation of that name, `None` where it is another action.
fn operation(action: &[u8]) -> Option<Operation> {
    match action {
        b"read" => Some(Operation::Read),
        b"write" => Some(Operation::Write),
        b"trim" => Some(Operation::Discard),
        b"sync" | b"datasync" | b"sync_file_range" => Some(Operation::Flush),
        _ => None,
    }
}

impl Parser {
    /// A line that opens or closes a file, if it is one.
    fn file_action(&mut self, rest: &[u8], metadata: &mut Metadata) -> Result<bool, Box<Problem>> {
        let Some((file, [action])) = blanks_from_right(rest) else { return Ok(false) };
        if file.is_empty() {
            return Ok(false);
        }
        match action {
            b"add" => {
                self.files.device("file", file, metadata)?;
            }
            b"open" | b"close" => {
                self.file(file)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    #[inline]
    fn file(&mut self, name: &[u8]) -> Result<u16, Box<Problem>> {
        match self.files.find(name) {
            Some(device) => Ok(device),
            None => Err(Problem::new("file", name, "a file that was added by a line `… add` is allowed")),
        }
    }
}

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], metadata: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        if std::mem::take(&mut self.at_start) {
            return match line == self.version.header() {
                true => Ok(Parsed::Nothing),
                false => {
                    let header = String::from_utf8_lossy(self.version.header());
                    Err(Problem::new("header", line, format!("`{header}` is allowed")))
                }
            };
        }
        let malformed = || {
            Problem::new("line", line, "a file, an action, and for a request offset and length are allowed")
        };
        let (time_ns, rest) = match self.version {
            Version::Two => (self.waited_us * NS_PER_US, line),
            Version::Three => {
                let (time, rest) = split_blank(line).ok_or_else(malformed)?;
                (integer("time", time, u64::MAX / self.unit_ns)? * self.unit_ns, rest)
            }
        };
        let request = blanks_from_right(rest).filter(|(file, _)| !file.is_empty());
        let Some((file, [action, offset, length])) = request else {
            return match self.file_action(rest, metadata)? {
                true => Ok(Parsed::Nothing),
                false => Err(malformed()),
            };
        };
        if self.version == Version::Two && action == b"wait" {
            let us = integer("wait", offset, u64::MAX / NS_PER_US)?;
            self.waited_us = self
                .waited_us
                .checked_add(us)
                .filter(|us| *us <= u64::MAX / NS_PER_US)
                .ok_or_else(|| Problem::new("wait", offset, "the clock ends after 584 years"))?;
            return Ok(Parsed::Nothing);
        }
        let Some(op) = operation(action) else {
            return match self.file_action(rest, metadata)? {
                true => Ok(Parsed::Nothing),
                false => {
                    let allowed = "read, write, trim, sync, datasync, sync_file_range, add, open, close, \
                                   and in version 2 wait are allowed";
                    Err(Problem::new("action", action, allowed))
                }
            };
        };
        let device = self.file(file)?;
        let (lbn, blocks) = match op {
            Operation::Flush => {
                integer("offset", offset, u64::MAX)?;
                integer("length", length, u64::MAX)?;
                (0, 0)
            }
            _ => self.blocks.byte_extent(["offset", "length"], offset, length)?,
        };
        check_extent(op, lbn, blocks)?;
        let record = TraceRecord::new(Instant::from_ns(time_ns), op, lbn, blocks);
        Ok(Parsed::Row(TraceRecord { device, ..record }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for FioIolog {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn description(&self) -> &'static str {
        match self.0 {
            Version::Two => "fio iolog version 2: file, action, offset, length; pauses instead of times",
            Version::Three => "fio iolog version 3: us, file, action, offset, length",
        }
    }

    fn suffixes(&self) -> &'static [&'static str] {
        match self.0 {
            Version::Two => &["v2.iolog"],
            Version::Three => &["iolog"],
        }
    }

    fn options(&self) -> &'static [FormatOption] {
        match self.0 {
            Version::Two => &[],
            Version::Three => &[TIME_UNIT],
        }
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::ResponseTimes]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_header(head, |line| line == self.0.header())
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let parser = Parser {
            version: self.0,
            blocks: Blocks::of(checked_block_size(options.block_size_or_default())?),
            files: Names::default(),
            at_start: true,
            unit_ns: match self.0 {
                Version::Two => NS_PER_US,
                Version::Three => unit_ns(&TIME_UNIT, options)?,
            },
            waited_us: 0,
        };
        let order = match self.0 {
            Version::Two => Order::AsWritten,
            Version::Three => Order::Rough,
        };
        Ok(Box::new(TextReader::new(source, parser, order, options)))
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn holds(&self) -> Holds {
        Holds::requests(NS_PER_US)
    }

    fn create(&self, path: &Path, metadata: &Metadata) -> Result<Box<dyn TraceWriter>, TraceError> {
        let block_size = checked_block_size(metadata.block_size)?;
        let mut rows = RowsOut::create(self.0.name(), path)?;
        rows.line.extend_from_slice(self.0.header());
        rows.end()?;
        let files = file_names(&metadata.labels);
        Ok(Box::new(Writer { version: self.0, rows, block_size, files, last_us: 0 }))
    }
}

/// Returns the names of files for the devices with these labels: the labels themselves where they are
/// unambiguous.
fn file_names(labels: &[String]) -> Vec<File> {
    let mut files: Vec<File> = Vec::new();
    for (device, label) in labels.iter().enumerate() {
        let name = if is_usable(label, &files) { label.clone() } else { fallback(device) };
        files.push(File { name, is_open: false });
    }
    files
}

fn is_usable(label: &str, files: &[File]) -> bool {
    !label.is_empty()
        && label.trim_ascii() == label
        && !label.contains(char::is_control)
        && !files.iter().any(|file| file.name == label)
}

fn fallback(device: usize) -> String {
    format!("seeklab.{device}")
}

struct File {
    name: String,
    is_open: bool,
}

struct Writer {
    version: Version,
    rows: RowsOut,
    block_size: u64,
    /// By device.
    files: Vec<File>,
    /// Time of the row before.
    last_us: u64,
}

impl Writer {
    /// Begins a line at that time, about the file of `device`.
    fn begin_line(&mut self, time_us: u64, device: usize) {
        self.rows.line.clear();
        if self.version == Version::Three {
            push_unsigned(&mut self.rows.line, time_us);
            self.rows.line.push(b' ');
        }
        self.rows.line.extend_from_slice(self.files[device].name.as_bytes());
        self.rows.line.push(b' ');
    }

    /// Gives every device up to that one a file.
    fn reach(&mut self, device: usize) {
        while self.files.len() <= device {
            let name = fallback(self.files.len());
            self.files.push(File { name, is_open: false });
        }
    }

    /// Adds and opens the file of `device` unless that was done.
    fn open(&mut self, time_us: u64, device: usize) -> Result<(), TraceError> {
        self.reach(device);
        if self.files[device].is_open {
            return Ok(());
        }
        let name = &self.files[device].name;
        if self.files.iter().filter(|file| file.name == *name).count() > 1 {
            let what = format!("two devices of the name `{name}`");
            return Err(self.rows.cannot(what));
        }
        for action in [b"add".as_slice(), b"open"] {
            self.begin_line(time_us, device);
            self.rows.line.extend_from_slice(action);
            self.rows.end()?;
        }
        self.files[device].is_open = true;
        Ok(())
    }
}

impl TraceWriter for Writer {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.rows.begin();
        let action: &[u8] = match record.op {
            Operation::Read => b"read",
            Operation::Write => b"write",
            Operation::Discard => b"trim",
            Operation::Flush => b"sync",
            other => return Err(self.rows.cannot(format!("a {}", other.name()))),
        };
        let (offset, length) = match record.op {
            Operation::Flush => (0, 0),
            _ => self.rows.bytes(record, self.block_size)?,
        };
        let arrival_ns = record.arrival.as_ns();
        let time_us = arrival_ns / NS_PER_US + u64::from(arrival_ns % NS_PER_US >= NS_PER_US / 2);
        let device = usize::from(record.device);
        self.open(time_us, device)?;
        if self.version == Version::Two && time_us != self.last_us {
            let Some(pause_us) = time_us.checked_sub(self.last_us) else {
                return Err(self
                    .rows
                    .cannot("rows out of order of arrival")
                    .with_hint("write `fio-iolog-v3` instead"));
            };
            self.begin_line(time_us, device);
            self.rows.line.extend_from_slice(b"wait ");
            push_unsigned(&mut self.rows.line, pause_us);
            self.rows.line.extend_from_slice(b" 0");
            self.rows.end()?;
        }
        self.last_us = self.last_us.max(time_us);
        self.begin_line(time_us, device);
        self.rows.line.extend_from_slice(action);
        for number in [offset, length] {
            self.rows.line.push(b' ');
            push_unsigned(&mut self.rows.line, number);
        }
        self.rows.end()
    }

    fn label(&mut self, device: u16, name: &str) -> Result<(), TraceError> {
        let device = usize::from(device);
        self.reach(device);
        if !self.files[device].is_open && is_usable(name, &self.files) {
            name.clone_into(&mut self.files[device].name);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), TraceError> {
        for device in 0..self.files.len() {
            if self.files[device].is_open {
                self.begin_line(self.last_us, device);
                self.rows.line.extend_from_slice(b"close");
                self.rows.end()?;
            }
        }
        self.rows.finish()
    }
}
