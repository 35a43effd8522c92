//! Requests decoded by a script into CSV: a header with `issue_us` or `issue_ns`, and what else is known.
//!
//! ```text
//! issue_us,latency_us,queue_us,op,rwbs,sector,sectors,inflight_at_issue,pid,comm
//! 290,3448,290,R,RM,8454416,8,0,645,postgres
//! issue_ns,latency_ns,op,lba_sectors,len_sectors,flags
//! 0,83797,W,1652296,256,
//! ```
//! Columns go by the names in the header; each name carries its unit. Needed are a time of issue, `op`
//! (`R`, `W`, `D`, `F`), an address (`sector` or `lba_sectors`) and a length (`sectors` or `len_sectors`) in
//! units of 512 bytes. Issue is arrival; the completion is `latency` later where that column is there and not
//! empty. `inflight_at_issue` is the number of requests ahead, `pid` the initiator, and an `F` behind the
//! operation in `rwbs` forces the media. Rows are sorted by arrival within the window of the options.
//!
//! # Scope and limits
//! The time in the queue before the issue and other columns are not kept.

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::MissingColumn;
use crate::parse::columns::Columns;
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::number::integer;
use crate::parse::text::{LineParser, Order, Parsed, TextReader, sniff_header};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// CSV of issued requests.
pub(super) struct IssueCsv;

const FIELDS: [&str; 12] = [
    "op",
    "issue_ns",
    "issue_us",
    "latency_ns",
    "latency_us",
    "sector",
    "lba_sectors",
    "sectors",
    "len_sectors",
    "inflight_at_issue",
    "pid",
    "rwbs",
];

/// Positions of the columns that a trace has, where variants exist.
#[derive(Clone, Copy)]
struct Layout {
    issue: (usize, u64),
    latency: Option<(usize, u64)>,
    sector: usize,
    sectors: usize,
}

struct Parser {
    blocks: Blocks,
    columns: Option<(Columns<12>, Layout)>,
}

fn columns(header: &[u8]) -> Result<(Columns<12>, Layout), Box<Problem>> {
    let columns = Columns::find(header, b',', &FIELDS, 1)?;
    let either = |first: usize| match (columns.has(first), columns.has(first + 1)) {
        (true, true) => {
            let problem = format!("`{}` and `{}` have the same meaning", FIELDS[first], FIELDS[first + 1]);
            Err(Problem::new("header", header, problem))
        }
        (true, false) => Ok(Some(first)),
        (false, true) => Ok(Some(first + 1)),
        (false, false) => Ok(None),
    };
    let needed = |first: usize| {
        either(first)?.ok_or_else(|| {
            let problem = format!("the column `{}` or `{}` is missing", FIELDS[first], FIELDS[first + 1]);
            Problem::new("header", header, problem)
        })
    };
    let in_ns = |index: usize| (index, if FIELDS[index].ends_with("_ns") { 1 } else { 1_000 });
    let layout = Layout {
        issue: in_ns(needed(1)?),
        latency: either(3)?.map(in_ns),
        sector: needed(5)?,
        sectors: needed(7)?,
    };
    Ok((columns, layout))
}

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], _: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let Some((columns, layout)) = &self.columns else {
            self.columns = Some(columns(line)?);
            return Ok(Parsed::Nothing);
        };
        let fields = columns.split(line)?;
        let time = |(index, unit_ns): (usize, u64)| -> Result<u64, Box<Problem>> {
            Ok(integer(FIELDS[index], fields[index], u64::MAX / unit_ns)? * unit_ns)
        };
        let arrival = time(layout.issue)?;
        let completion = match layout.latency {
            Some((index, _)) if fields[index].is_empty() => None,
            Some(latency) => {
                let end = arrival.checked_add(time(latency)?).ok_or_else(|| {
                    Problem::new(FIELDS[latency.0], fields[latency.0], "it ends after 584 years")
                })?;
                Some(Instant::from_ns(end))
            }
            None => None,
        };
        let op = match fields[0] {
            b"R" => Operation::Read,
            b"W" => Operation::Write,
            b"D" => Operation::Discard,
            b"F" => Operation::Flush,
            other => return Err(Problem::new(FIELDS[0], other, "`R`, `W`, `D` or `F` is allowed")),
        };
        let (lbn, blocks) = match op {
            Operation::Flush => (0, 0),
            _ => {
                let names = [FIELDS[layout.sector], FIELDS[layout.sectors]];
                self.blocks.sector_extent(names, fields[layout.sector], fields[layout.sectors])?
            }
        };
        check_extent(op, lbn, blocks)?;
        let number = |index: usize| match fields[index] {
            b"" => Ok(None),
            text => integer(FIELDS[index], text, u64::from(u32::MAX)).map(|number| Some(number as u32)),
        };
        let forced = fields[11].iter().position(|letter| *letter == b'W').map(|at| &fields[11][at..]);
        Ok(Parsed::Row(TraceRecord {
            issue: Some(Instant::from_ns(arrival)),
            completion,
            queue_length: number(9)?,
            initiator: number(10)?.unwrap_or_default(),
            fua: op == Operation::Write && forced.is_some_and(|flags| flags.contains(&b'F')),
            ..TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks)
        }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for IssueCsv {
    fn name(&self) -> &'static str {
        "issue-csv"
    }

    fn description(&self) -> &'static str {
        "CSV of a script: issue_us or issue_ns, latency, op, sector, sectors"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &[]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::Devices]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_header(head, |line| columns(line).is_ok())
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let parser = Parser {
            blocks: Blocks::of(checked_block_size(options.block_size_or_default())?),
            columns: None,
        };
        Ok(Box::new(TextReader::new(source, parser, Order::Rough, options)))
    }
}
