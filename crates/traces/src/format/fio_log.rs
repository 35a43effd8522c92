//! The latency logs of fio: `msec, value, direction, block size[, offset], priority[, issue time]`.
//!
//! ```text
//! 0, 16302, 0, 4096, 503808, 0                    log_offset=1
//! 1, 15270, 1, 4096, 7069696, 0x0000, 1012345     log_offset=1 log_prio=1 log_issue_time=1
//! 1, 15270, 15270, 1, 4096, 7069696, 0            log_offset=1 log_window_value=both
//! ```
//! A row is a completed request. The first field is its completion in whole milliseconds since the start of
//! the job. The value is its response time in nanoseconds (versions of fio before 3 wrote microseconds: the
//! option `latency-unit`). The arrival is the completion less the response time. If the log has the time of
//! issue in nanoseconds, the arrival is the issue, and the completion is the arrival plus the response time.
//! Arrivals count from the earliest row of the first window, and rows are sorted within it. Direction 0 is a
//! read, 1 a write, 2 a trim. Offsets count bytes and must be multiples of the block size, lengths round up.
//!
//! `log_window_value=both` adds a column behind the value. The option `values` must state that a log has this
//! column, since it cannot be distinguished from the time of issue.
//!
//! # Scope and limits
//! Logs of submission (`slat`), completion (`clat`) and total latency (`lat`) look alike, and so do those of
//! bandwidth and IOPS: use the log of the total latency. The names differ, as in `job_bw.1.log`: logs of
//! bandwidth, IOPS and submission are refused, unless the option `value-is` states that the value is a
//! latency. A log of averages over windows (`log_avg_msec`) holds no requests and is refused, as is one
//! without offsets, unless the option `without-offset` allows that every request be put at block 0.
//!
//! # References
//! fio, HOWTO, log file formats.

use std::path::Path;

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::{Allowed, FormatOption, MissingColumn};
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::number::{hexadecimal, integer};
use crate::parse::text::{LineParser, Order, Parsed, TextReader, comma_fields, sniff_lines};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// fio latency logs.
pub(super) struct FioLog;

const NS_PER_MS: u64 = 1_000_000;
/// Added to every time, for requests arrive before the start of the millisecond in which they complete.
const ORIGIN_NS: u64 = 1 << 50;

const UNIT: FormatOption = FormatOption {
    name: "latency-unit",
    allowed: Allowed::OneOf(&["ns", "us"]),
    default: "ns",
    meaning: "unit of the value; fio before version 3 wrote us",
};
const VALUES: FormatOption = FormatOption {
    name: "values",
    allowed: Allowed::OneOf(&["one", "both"]),
    default: "one",
    meaning: "values of a row: one, or two as log_window_value=both writes",
};
const WITHOUT_OFFSET: FormatOption = FormatOption {
    name: "without-offset",
    allowed: Allowed::OneOf(&["refuse", "zero"]),
    default: "refuse",
    meaning: "treatment of rows without offset: refuse them, or put them at block 0",
};

const VALUE: FormatOption = FormatOption {
    name: "value-is",
    allowed: Allowed::OneOf(&["by-name", "latency"]),
    default: "by-name",
    meaning: "meaning of the value: a latency, or by-name, a latency unless the file's name ends in _bw, _iops or _slat",
};

/// Endings of names of logs whose value is no response time, and what it is.
const OTHERS: [(&str, &str); 3] =
    [("bw", "a bandwidth"), ("iops", "a rate"), ("slat", "the time of submission alone")];

/// Returns the quantity that fio logs under this file name, such as `job_bw.1.log`. `None` if it may be a
/// latency.
fn other_value(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    let kind = name.rsplit('_').next()?.split('.').next()?;
    OTHERS.into_iter().find(|(other, _)| *other == kind).map(|(_, what)| what)
}

struct Parser {
    blocks: Blocks,
    unit_ns: u64,
    both: bool,
    allow_no_offset: bool,
}

impl Parser {
    const PLAIN: Self = Self { blocks: Blocks::of(1), unit_ns: 1, both: false, allow_no_offset: true };

    /// The fields of a row: time, value, direction, block size, offset, time of issue.
    #[inline]
    fn fields<'a>(&self, line: &'a [u8]) -> Result<[&'a [u8]; 6], Box<Problem>> {
        const NAMES: [&str; 5] = ["msec", "value", "direction", "block size", "priority"];
        let ([time, value, third, fourth, fifth], _) = comma_fields(line, &NAMES)?;
        let mut rest = line.split(|byte| *byte == b',').skip(5).map(<[u8]>::trim_ascii);
        let (direction, size, fifth, sixth) = match self.both {
            true => {
                let sixth =
                    rest.next().ok_or_else(|| Problem::new("line", line, "the priority is missing"))?;
                if value != third && third != b"0" {
                    return Err(Problem::new(
                        "value",
                        value,
                        "it differs from the second value: the row is an average",
                    )
                    .hint(AVERAGES));
                }
                (fourth, fifth, sixth, rest.next())
            }
            false => (third, fourth, fifth, rest.next()),
        };
        let issue = rest.next();
        if rest.next().is_some() {
            return Err(Problem::new("line", line, "these are too many fields"));
        }
        // Without an offset, the fifth field is the priority and the last.
        let (offset, priority) = match sixth {
            Some(priority) => (fifth, priority),
            None => (&b""[..], fifth),
        };
        if hexadecimal(priority).is_err() {
            return Err(Problem::new("priority", priority, "a number is allowed"));
        }
        Ok([time, value, direction, size, offset, issue.unwrap_or_default()])
    }
}

const AVERAGES: &str = "log every request: leave `log_avg_msec` out";

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], _: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let [time, value, direction, size, offset, issue] = self.fields(line)?;
        let op = match direction {
            b"0" => Operation::Read,
            b"1" => Operation::Write,
            b"2" => Operation::Discard,
            _ => {
                let problem = Problem::new(
                    "direction",
                    direction,
                    "`0` to read, `1` to write or `2` to trim is allowed",
                );
                return Err(problem.hint(
                    "if it is the second value of log_window_value=both, add `--format-option values=both`",
                ));
            }
        };
        if size == b"0" {
            return Err(
                Problem::new("block size", size, "the row is an average over a window").hint(AVERAGES)
            );
        }
        let offset = match offset {
            b"" if self.allow_no_offset => b"0",
            b"" => {
                return Err(Problem::new("line", line, "it has no offset").hint(
                    "log with `log_offset=1`, or put every request at block 0 with `--format-option without-offset=zero`",
                ));
            }
            offset => offset,
        };
        let (lbn, blocks) = self.blocks.byte_extent(["offset", "block size"], offset, size)?;
        check_extent(op, lbn, blocks)?;
        let response_ns = integer("value", value, u64::MAX / self.unit_ns)? * self.unit_ns;
        let completion = integer("msec", time, (u64::MAX - ORIGIN_NS) / NS_PER_MS)? * NS_PER_MS + ORIGIN_NS;
        let (arrival, completion) = match issue {
            b"" => {
                let arrival = completion.checked_sub(response_ns).ok_or_else(|| {
                    Problem::new("value", value, "more than 13 days before the first completion are too many")
                })?;
                (arrival, completion)
            }
            issue => {
                let arrival = integer("issue time", issue, u64::MAX)?;
                let end = arrival.checked_add(response_ns);
                (arrival, end.ok_or_else(|| Problem::new("value", value, "it ends after 584 years"))?)
            }
        };
        let completion = Some(Instant::from_ns(completion));
        let record = TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks);
        Ok(Parsed::Row(TraceRecord { completion, ..record }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for FioLog {
    fn name(&self) -> &'static str {
        "fio-log"
    }

    fn description(&self) -> &'static str {
        "fio latency log: ms of completion, ns of latency, direction, bytes, offset, priority, issue time"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &[]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[UNIT, VALUES, WITHOUT_OFFSET, VALUE]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::ArrivalOrder, MissingColumn::Devices]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        let both = Parser { both: true, ..Parser::PLAIN };
        // Averages are recognised, too, so that the user learns why they cannot be read.
        sniff_lines(head, |line| {
            let is_row = |parser: &Parser| {
                parser.fields(line).is_ok_and(|[time, value, direction, size, offset, issue]| {
                    let number = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
                    matches!(direction, b"0" | b"1" | b"2")
                        && [time, value, size].iter().all(|text| !text.is_empty() && number(text))
                        && number(offset)
                        && number(issue)
                })
            };
            let commas = line.iter().filter(|byte| **byte == b',').count();
            let spaced = line.windows(2).filter(|pair| pair == b", ").count();
            commas == spaced && (is_row(&Parser::PLAIN) || is_row(&both))
        })
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let is_explicit = VALUE.text(options)? == "latency";
        if let Some(what) = other_value(source.path()).filter(|_| !is_explicit) {
            let message = format!("by its name this is a log of fio whose value is {what}, not a latency");
            return Err(TraceError::malformed(message).with_hint(
                "take the log of the total latency, `_lat`, or read the value as one: `--format-option value-is=latency`",
            ));
        }
        let parser = Parser {
            blocks: Blocks::of(checked_block_size(options.block_size_or_default())?),
            unit_ns: if UNIT.text(options)? == "us" { 1_000 } else { 1 },
            both: VALUES.text(options)? == "both",
            allow_no_offset: WITHOUT_OFFSET.text(options)? == "zero",
        };
        Ok(Box::new(TextReader::new(source, parser, Order::RoughAbsolute, options)))
    }
}
