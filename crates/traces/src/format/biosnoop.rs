//! The output of `biosnoop`, with and without the time in the queue, from bcc and from libbpf-tools.
//!
//! ```text
//! TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)
//! 0.003738    postgres       645    loop1   R 8454416    4096       3.45
//! TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   QUE(ms) LAT(ms)
//! ```
//! `TIME` is the **completion**, counted from the first one; the request was issued to the device `LAT`
//! before it, and that is its arrival, as for every trace of events. Arrivals count from the earliest row
//! of the first window, and rows are sorted within it. `T` is `R`, `W` or the letters of the kernel; a
//! write of no bytes is a flush. The sector counts 512 bytes. The process id becomes the initiator, disks
//! become devices 0, 1, 2 in order of appearance. The name of a process may have blanks, so the fields are
//! found from both ends.
//!
//! For a command that is no request of a file system or program (such as the query of a drive's health), the tool knows neither
//! process nor disk: it prints the process `?` with the id 0, and a blank, `?` or `<unknown>` in place of the disk. These rows
//! are counted and omitted, and so are those with the sector -1 (as a whole number without sign: 18446744073709551615).
//!
//! # Scope and limits
//! `LAT` has two decimals, so arrivals and response times are exact to 10 us. `QUE`, the time that the
//! operating system held the request back before it issued it, counts where the option `arrival` is `queue`.
//!
//! # References
//! bcc, `tools/biosnoop_example.txt`.

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::event::rows::ARRIVAL;
use crate::metadata::Metadata;
use crate::options::{FormatOption, MissingColumn};
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::names::Names;
use crate::parse::number::{integer, time};
use crate::parse::text::{
    LineParser, Order, Parsed, TextReader, blanks_from_right, sniff_header, split_blank,
};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// biosnoop.
pub(super) struct Biosnoop;

const FIELDS: [&str; 9] = ["TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "QUE(ms)", "LAT(ms)"];
/// Column of the time in the queue, which may be missing.
const QUEUE: usize = 7;
/// Digits of a second and of a millisecond down to the nanosecond.
const SECOND: u32 = 9;
const MILLISECOND: u32 = 6;
/// Added to every time, for the first request was issued before the first completion, where time starts.
const ORIGIN_NS: u64 = 1 << 50;

struct Parser {
    blocks: Blocks,
    /// True if rows have the time in the queue. `None` before the header.
    queue: Option<bool>,
    from_queue: bool,
    disks: Names,
}

/// Returns true if the rows have the time in the queue, or `None` if `line` is no header.
fn header(line: &[u8]) -> Option<bool> {
    let names = || line.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty());
    let without = FIELDS.iter().enumerate().filter(|(index, _)| *index != QUEUE).map(|(_, name)| name);
    if names().eq(FIELDS.iter().map(|name| name.as_bytes())) {
        Some(true)
    } else if names().eq(without.map(|name| name.as_bytes())) {
        Some(false)
    } else {
        None
    }
}

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], metadata: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let Some(queue) = self.queue else {
            self.queue = Some(header(line).ok_or_else(|| {
                Problem::new(
                    "header",
                    line,
                    format!("{} is allowed, `QUE(ms)` may be missing", FIELDS.join(" ")),
                )
            })?);
            return Ok(Parsed::Nothing);
        };
        let missing = || {
            let names = FIELDS.iter().enumerate().filter(|(index, _)| queue || *index != QUEUE);
            let names: Vec<_> = names.map(|(_, name)| *name).collect();
            Problem::new("line", line, format!("a row has {}", names.join(" ")))
        };
        let (completion, rest) = split_blank(line).ok_or_else(missing)?;
        let (rest, [latency]) = blanks_from_right(rest).ok_or_else(missing)?;
        let (rest, waited_ns) = match queue {
            true => {
                let (rest, [waited]) = blanks_from_right(rest).ok_or_else(missing)?;
                (rest, time(FIELDS[QUEUE], waited, MILLISECOND, "milliseconds")?)
            }
            false => (rest, 0),
        };
        let (names, [kind, sector, bytes]) = blanks_from_right(rest).ok_or_else(missing)?;
        if is_of_nobody(names) || matches!(sector, b"-1" | b"18446744073709551615") {
            let what = "command[|s] without a disk or sector";
            return Ok(Parsed::Skipped { what, why: "[it addresses|they address] no blocks" });
        }
        let (_, [process, disk]) = blanks_from_right(names).ok_or_else(missing)?;
        let completion_ns = time(FIELDS[0], completion, SECOND, "seconds")?;
        let completion_ns = completion_ns.checked_add(ORIGIN_NS).ok_or_else(|| {
            Problem::new(FIELDS[0], completion, "it lies beyond the clock, which ends after 584 years")
        })?;
        let response_ns = time(FIELDS[8], latency, MILLISECOND, "milliseconds")?;
        let issue_ns = completion_ns.checked_sub(response_ns);
        let waited_ns = if self.from_queue { waited_ns } else { 0 };
        let arrival_ns = issue_ns.and_then(|issue| issue.checked_sub(waited_ns));
        let (Some(issue_ns), Some(arrival_ns)) = (issue_ns, arrival_ns) else {
            let problem = "more than 13 days before the first completion are too many";
            return Err(Problem::new(FIELDS[8], latency, problem));
        };
        let length = integer(FIELDS[6], bytes, u64::MAX)?;
        let (op, fua) = operation(kind, length)?;
        let (lbn, blocks) = match op {
            Operation::Flush => (0, 0),
            _ => {
                let lbn = self.blocks.address(FIELDS[5], sector, 512)?;
                (lbn, self.blocks.count(FIELDS[6], bytes, length)?)
            }
        };
        check_extent(op, lbn, blocks)?;
        let initiator = integer(FIELDS[2], process, u64::from(u32::MAX))? as u32;
        let device = self.disks.device(FIELDS[3], disk, metadata)?;
        Ok(Parsed::Row(TraceRecord {
            issue: Some(Instant::from_ns(issue_ns)),
            completion: Some(Instant::from_ns(completion_ns)),
            device,
            initiator,
            fua,
            ..TraceRecord::new(Instant::from_ns(arrival_ns), op, lbn, blocks)
        }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

/// Returns true if the tool knew neither the process nor the disk of a row with these names: `?`, 0, and no disk.
fn is_of_nobody(names: &[u8]) -> bool {
    let mut names = names.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty());
    (names.next(), names.next()) == (Some(b"?"), Some(b"0"))
        && matches!(names.next(), None | Some(b"?" | b"<unknown>"))
        && names.next().is_none()
}

/// Returns the operation that the letters of `kind` mean for a request of that many bytes, and whether the
/// request forces the media.
fn operation(kind: &[u8], bytes: u64) -> Result<(Operation, bool), Box<Problem>> {
    let not_allowed =
        || Problem::new(FIELDS[4], kind, "`R`, `W`, `D`, `F` or the letters of the kernel are allowed");
    let letters = match kind {
        [b'F', b'W' | b'R' | b'D', ..] => &kind[1..],
        _ => kind,
    };
    let (first, flags) = letters.split_first().ok_or_else(not_allowed)?;
    if !flags.iter().all(|flag| b"FASMEUB".contains(flag)) {
        return Err(not_allowed());
    }
    match first {
        b'R' => Ok((Operation::Read, false)),
        b'W' if bytes == 0 => Ok((Operation::Flush, false)),
        b'W' => Ok((Operation::Write, flags.contains(&b'F'))),
        b'D' => Ok((Operation::Discard, false)),
        b'F' => Ok((Operation::Flush, false)),
        b'N' if bytes > 0 => Ok((Operation::WriteZeroes, false)),
        _ => Err(not_allowed()),
    }
}

impl TraceFormat for Biosnoop {
    fn name(&self) -> &'static str {
        "biosnoop"
    }

    fn description(&self) -> &'static str {
        "biosnoop: completion in s, process, disk, R or W, sector, bytes, latency in ms"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &[]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[ARRIVAL]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::ArrivalOrder]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_header(head, |line| header(line).is_some())
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let blocks = Blocks::of(checked_block_size(options.block_size_or_default())?);
        let from_queue = ARRIVAL.text(options)? == "queue";
        let parser = Parser { blocks, queue: None, from_queue, disks: Names::default() };
        Ok(Box::new(TextReader::new(source, parser, Order::RoughAbsolute, options)))
    }
}
