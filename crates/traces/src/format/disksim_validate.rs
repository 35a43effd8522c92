//! DiskSim's format for validating a model against a measured drive:
//! `R|W label lbn blocks response_us think_us`, split by blanks.
//!
//! ```text
//! R Hit  3962268  12   6657.00000  64047.00000
//! R Hit  3962296  16   1825.00000  36016.00000
//! ```
//! One request at a time: the next is issued `think_us` after this one completes. So the first
//! arrives at zero and `arrival[i + 1] = completion[i] + think[i]`; nothing ever queues, and
//! arrival, issue and start of service are one.
//!
//! # Scope and limits
//! The label counts how often the drive left the bus (`Hit`, `Miss`, `Doub`, `Trip`). In most of the
//! published traces it is `Hit` in every row, so the label is checked but not interpreted as a buffer hit.
//! Writing needs reads and writes to device 0 that never overlap; the time before the first request is lost.

use std::path::Path;

use seeklab_core::{BufferOutcome, Duration, Instant, Operation, TraceRecord};

use crate::error::{Place, Problem, TraceError};
use crate::metadata::Metadata;
use crate::output::TextOutput;
use crate::output::losses::Holds;
use crate::parse::number::{integer, push_decimal, push_unsigned, time};
use crate::parse::text::{LineParser, Order, Parsed, TextReader, blank_fields, no_more_fields, sniff_lines};
use crate::row::check_extent;
use crate::schema::Column;
use crate::source::{Head, Source};
use crate::trace_format::{ReadOptions, Sniff, TraceFormat, TraceReader, TraceWriter};

/// DiskSim validate.
pub(super) struct DiskSimValidate;

const NAME: &str = "disksim-validate";
const FIELDS: [&str; 6] = ["op", "label", "lbn", "blocks", "response_us", "think_us"];
const LABELS: [&[u8]; 4] = [b"Hit", b"Miss", b"Doub", b"Trip"];
/// Digits of a microsecond down to the nanosecond.
const SCALE: u32 = 3;

/// Knows when the next request arrives.
#[derive(Default)]
struct Parser {
    arrival_ns: u64,
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
        let lbn = integer(FIELDS[2], lbn, u64::MAX)?;
        let blocks = integer(FIELDS[3], blocks, u64::from(u32::MAX))? as u32;
        check_extent(op, lbn, blocks)?;
        let response_ns = time(FIELDS[4], response, SCALE, "microseconds")?;
        let think_ns = time(FIELDS[5], think, SCALE, "microseconds")?;
        let arrival = Instant::from_ns(self.arrival_ns);
        let completion_ns = self.arrival_ns.checked_add(response_ns);
        let next = completion_ns.and_then(|completion| completion.checked_add(think_ns));
        let (Some(completion_ns), Some(next)) = (completion_ns, next) else {
            return Err(Problem::new(FIELDS[5], think, "the clock ends after 584 years"));
        };
        self.arrival_ns = next;
        Ok(Parsed::Row(TraceRecord {
            issue: Some(arrival),
            start: Some(arrival),
            completion: Some(Instant::from_ns(completion_ns)),
            think: Some(Duration::from_ns(think_ns)),
            queue_length: Some(0),
            ..TraceRecord::new(arrival, op, lbn, blocks)
        }))
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

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_lines(head, |line| Parser::default().parse(line, &mut Metadata::default()).is_ok())
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        Ok(Box::new(TextReader::new(source, Parser::default(), Order::AsWritten, options)))
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

    fn create(&self, path: &Path, _: &Metadata) -> Result<Box<dyn TraceWriter>, TraceError> {
        Ok(Box::new(Writer {
            output: TextOutput::create(path)?,
            line: Vec::new(),
            rows: 0,
            completion: None,
        }))
    }
}

struct Writer {
    output: TextOutput,
    /// The row before, up to its think time.
    line: Vec<u8>,
    rows: u64,
    /// Completion of the row before, and the think time that the row states.
    completion: Option<(Instant, Option<Duration>)>,
}

impl Writer {
    /// Writes the row before, of which the think time is known now.
    fn complete_line(&mut self, think: Duration) -> Result<(), TraceError> {
        push_decimal(&mut self.line, think.as_ns(), SCALE);
        self.line.push(b'\n');
        self.output.write(&self.line)
    }
}

impl TraceWriter for Writer {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.rows += 1;
        let place = Place::Row(self.rows);
        let cannot = |this: &Self, what: String| {
            TraceError::not_representable(NAME, what).at(place).in_file(this.output.path())
        };
        let op = match record.op {
            Operation::Read => b'R',
            Operation::Write => b'W',
            other => return Err(cannot(self, format!("a {}", other.name()))),
        };
        if record.device != 0 {
            return Err(cannot(
                self,
                format!("a request to device {}, it has device 0 alone", record.device),
            ));
        }
        let Some((completion, response)) = record.completion.zip(record.response_time()) else {
            return Err(cannot(self, "a request of unknown response time".to_owned()));
        };
        if let Some((before, _)) = self.completion {
            if record.arrival < before {
                return Err(cannot(self, "requests that overlap or are out of order".to_owned())
                    .with_hint("write `csv` or `parquet` instead"));
            }
            self.complete_line(record.arrival - before)?;
        }
        self.completion = Some((completion, record.think));
        self.line.clear();
        let label = if record.buffer == BufferOutcome::Hit { "Hit" } else { "Miss" };
        self.line.extend_from_slice(&[op, b' ']);
        self.line.extend_from_slice(label.as_bytes());
        for number in [record.lbn, u64::from(record.blocks)] {
            self.line.push(b' ');
            push_unsigned(&mut self.line, number);
        }
        self.line.push(b' ');
        push_decimal(&mut self.line, response.as_ns(), SCALE);
        self.line.push(b' ');
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), TraceError> {
        if let Some((_, think)) = self.completion {
            self.complete_line(think.unwrap_or(Duration::ZERO))?;
        }
        self.output.finish()
    }
}
