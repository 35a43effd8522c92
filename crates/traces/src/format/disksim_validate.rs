//! DiskSim's format for validating a model against a measured drive:
//! `R|W label lbn blocks response_us think_us`, split by blanks.
//!
//! ```text
//! R Hit  3962268  12   6657.00000  64047.00000
//! R Hit  3962296  16   1825.00000  36016.00000
//! ```
//! One request at a time, so nothing ever queues, and arrival, issue and start of service are one. The format leaves
//! open to which side of its request a think time belongs:
//!
//! | option | arrivals | traces |
//! | --- | --- | --- |
//! | `think=after` | the first at zero; `arrival[i + 1] = completion[i] + think[i]` | drives of 1992-94 |
//! | `think=before` | the first at `think[0]`; `arrival[i + 1] = completion[i] + think[i + 1]` | drives of 1997-99 |
//!
//! DiskSim replays all with the first reading. `docs/models/measured-drives.md` shows which reading each published trace needs.
//!
//! # Scope and limits
//! The label counts how often the drive left the bus (`Hit`, `Miss`, `Doub`, `Trip`). In most of the
//! published traces it is `Hit` in every row, so the label is checked but not interpreted as a buffer hit.
//! Addresses and lengths count blocks of 512 bytes, as in DiskSim itself: other blocks are converted on reading and on
//! writing. Writing needs reads and writes to device 0 that never overlap. Think times are written after their requests, and the
//! time before the first request is lost.

use std::path::Path;

use seeklab_core::{BufferOutcome, Duration, Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::{Allowed, FormatOption};
use crate::output::losses::Holds;
use crate::output::rows::RowsOut;
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::number::{push_decimal, push_unsigned, time};
use crate::parse::text::{LineParser, Order, Parsed, TextReader, blank_fields, no_more_fields, sniff_lines};
use crate::row::check_extent;
use crate::schema::Column;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader, TraceWriter};

/// DiskSim validate.
pub(super) struct DiskSimValidate;

const NAME: &str = "disksim-validate";
const FIELDS: [&str; 6] = ["op", "label", "lbn", "blocks", "response_us", "think_us"];
const LABELS: [&[u8]; 4] = [b"Hit", b"Miss", b"Doub", b"Trip"];
/// Digits of a microsecond down to the nanosecond.
const SCALE: u32 = 3;

const THINK: FormatOption = FormatOption {
    name: "think",
    allowed: Allowed::OneOf(&["after", "before"]),
    default: "after",
    meaning: "side of the request on which the think time of its line lies",
};

/// Side of a request on which the think time of its line lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThinkSide {
    After,
    Before,
}

/// Knows when the request before was over.
struct Parser {
    blocks: Blocks,
    think_side: ThinkSide,
    /// Completion of the request before, with the think time after it where that stood on its line.
    before_ns: u64,
}

impl Parser {
    const fn new(block_size: u64, think_side: ThinkSide) -> Self {
        Self { blocks: Blocks::of(block_size), think_side, before_ns: 0 }
    }
}

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], _: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let ([op, label, lbn, blocks, response, think], count) = blank_fields(line, &FIELDS)?;
        no_more_fields(line, count, &FIELDS)?;
        let op = match op {
            b"R" => Operation::Read,
            b"W" => Operation::Write,
            _ => return Err(Problem::new(FIELDS[0], op, "`R` or `W` is allowed")),
        };
        if !LABELS.contains(&label) {
            return Err(Problem::new(FIELDS[1], label, "`Hit`, `Miss`, `Doub` or `Trip` is allowed"));
        }
        let (lbn, blocks) = self.blocks.sector_extent([FIELDS[2], FIELDS[3]], lbn, blocks)?;
        check_extent(op, lbn, blocks)?;
        let response_ns = time(FIELDS[4], response, SCALE, "microseconds")?;
        let think_ns = time(FIELDS[5], think, SCALE, "microseconds")?;
        let (think_before_ns, think_after_ns) = match self.think_side {
            ThinkSide::After => (0, think_ns),
            ThinkSide::Before => (think_ns, 0),
        };
        let arrival_ns = self.before_ns.checked_add(think_before_ns);
        let completion_ns = arrival_ns.and_then(|arrival| arrival.checked_add(response_ns));
        let next = completion_ns.and_then(|completion| completion.checked_add(think_after_ns));
        let (Some(arrival_ns), Some(completion_ns), Some(next)) = (arrival_ns, completion_ns, next) else {
            return Err(Problem::new(FIELDS[5], think, "the clock ends after 584 years"));
        };
        self.before_ns = next;
        let arrival = Instant::from_ns(arrival_ns);
        Ok(Parsed::Row(TraceRecord {
            issue: Some(arrival),
            start: Some(arrival),
            completion: Some(Instant::from_ns(completion_ns)),
            think: Some(Duration::from_ns(think_ns)),
            queue_length: Some(0),
            ..TraceRecord::new(arrival, op, lbn, blocks)
        }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

/// Rows whose think times precede them, turned into rows with the think time that follows: that of the next line.
struct PrecedingThinkTimes {
    rows: TextReader<Parser>,
    /// The row before, or an error that came behind one.
    held: Option<Result<TraceRecord, TraceError>>,
}

impl Iterator for PrecedingThinkTimes {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = match self.held.take().or_else(|| self.rows.next())? {
            Ok(row) => row,
            failure => return Some(failure),
        };
        self.held = self.rows.next();
        let think = match &self.held {
            Some(Ok(next)) => next.think,
            _ => None,
        };
        Some(Ok(TraceRecord { think, ..row }))
    }
}

impl TraceReader for PrecedingThinkTimes {
    fn metadata(&self) -> &Metadata {
        self.rows.metadata()
    }

    fn notes(&self) -> Vec<Note> {
        self.rows.notes()
    }
}

impl TraceFormat for DiskSimValidate {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "DiskSim validate: one request at a time, with response and think times in us"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["validate"]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[THINK]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_lines(head, |line| {
            Parser::new(512, ThinkSide::After).parse(line, &mut Metadata::default()).is_ok()
        })
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let think_side = match THINK.text(options)? {
            "before" => ThinkSide::Before,
            _ => ThinkSide::After,
        };
        let block_size = checked_block_size(options.block_size_or_default())?;
        let parser = Parser::new(block_size, think_side);
        let rows = TextReader::new(source, parser, Order::AsWritten, options);
        Ok(match think_side {
            ThinkSide::After => Box::new(rows),
            ThinkSide::Before => Box::new(PrecedingThinkTimes { rows, held: None }),
        })
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn holds(&self) -> Holds {
        const COLUMNS: &[Column] = &[
            Column::ArrivalNs,
            Column::CompletionNs,
            Column::ThinkNs,
            Column::QueueLength,
            Column::CacheHit,
            Column::Op,
            Column::Lbn,
            Column::Blocks,
        ];
        Holds { columns: COLUMNS, unit: Duration::from_ns(1) }
    }

    fn create(&self, path: &Path, metadata: &Metadata) -> Result<Box<dyn TraceWriter>, TraceError> {
        Ok(Box::new(Writer {
            rows: RowsOut::create(NAME, path)?,
            block_size: checked_block_size(metadata.block_size)?,
            before: Vec::new(),
            completion: None,
        }))
    }
}

struct Writer {
    rows: RowsOut,
    block_size: u64,
    /// The row before, up to its think time.
    before: Vec<u8>,
    /// Completion of the row before, and the think time that the row states.
    completion: Option<(Instant, Option<Duration>)>,
}

impl Writer {
    /// Writes the row before, of which the think time is known now.
    fn complete_row(&mut self, think: Duration) -> Result<(), TraceError> {
        std::mem::swap(&mut self.rows.line, &mut self.before);
        push_decimal(&mut self.rows.line, think.as_ns(), SCALE);
        self.rows.end()
    }
}

impl TraceWriter for Writer {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.rows.begin();
        let rows = &self.rows;
        let op = rows.read_or_write(record, b'R', b'W')?;
        if record.device != 0 {
            return Err(rows.cannot(format!("a request to device {}, it has device 0 alone", record.device)));
        }
        let Some((completion, response)) = record.completion.zip(record.response_time()) else {
            return Err(rows.cannot("a request of unknown response time"));
        };
        let (sector, sectors) = rows.sectors(record, self.block_size)?;
        if let Some((before, _)) = self.completion {
            if record.arrival < before {
                return Err(rows
                    .cannot("requests that overlap or are out of order")
                    .with_hint("write `csv` or `parquet` instead"));
            }
            self.complete_row(record.arrival - before)?;
        }
        self.completion = Some((completion, record.think));
        let label = if record.buffer == BufferOutcome::Hit { "Hit" } else { "Miss" };
        self.before.clear();
        self.before.extend_from_slice(&[op, b' ']);
        self.before.extend_from_slice(label.as_bytes());
        for number in [sector, sectors] {
            self.before.push(b' ');
            push_unsigned(&mut self.before, number);
        }
        self.before.push(b' ');
        push_decimal(&mut self.before, response.as_ns(), SCALE);
        self.before.push(b' ');
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), TraceError> {
        if let Some((_, think)) = self.completion {
            self.complete_row(think.unwrap_or(Duration::ZERO))?;
        }
        self.rows.finish()
    }
}
