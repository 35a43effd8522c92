//! The default output of `blkparse` for a block trace: `major,minor cpu sequence time pid action rwbs …`,
//! split by blanks.
//!
//! ```text
//!   8,16   5        2     0.000001850 18615  Q   R 1444645666 + 256 [java]
//!   8,16   5        6     0.000031865 18615  D   R 1444645666 + 256 [java]
//!   8,16   5       15     0.000356669     0  C   R 1444645666 + 256 [0]
//! ```
//! A request is a `D` (issue to the driver). `C` completes the request, `R` gives it back to be issued again,
//! and `Q` is the time at which it was queued. `pairing.rs` states which completion belongs to which request,
//! and how requests without a completion are handled. By default, requests arrive when they are issued
//! (option `arrival`). The first request is at time zero. Sectors count 512 bytes. Flushes have no sector and
//! are not confused with requests at sector 0. Devices become 0, 1, 2 in order of appearance, labelled
//! `major,minor`. Other actions (`A` `G` `I` `M` `F` `S` `P` `U` `UT` `X` `B` `m`) begin and end no request.
//!
//! # Scope and limits
//! Lines that do not begin with a device, such as the summary at the end, are passed over and counted. Only
//! the default layout is read, not one of `blkparse -f`. Passed-through commands are counted and omitted.
//!
//! # References
//! blkparse(1), blktrace 1.3.0.

use seeklab_core::{Operation, ProcessName};

use crate::error::{Problem, TraceError};
use crate::event::block_event::{BlockEvent, Kind, operation};
use crate::event::rows::ARRIVAL;
use crate::event::text::{EventLine, EventParser, EventReader, device, error_number};
use crate::options::FormatOption;
use crate::parse::number::{integer, time};
use crate::parse::text::{blank_fields, sniff_lines};
use crate::source::{Head, Source};
use crate::trace_format::{ReadOptions, Sniff, TraceFormat, TraceReader};

/// blkparse text.
pub(super) struct BlkParse;

const FIELDS: [&str; 7] = ["device", "cpu", "sequence", "time", "pid", "action", "rwbs"];
/// Digits of a second down to the nanosecond.
const SCALE: u32 = 9;
/// Actions that begin and end no request.
const OTHER: [&[u8]; 14] =
    [b"A", b"G", b"I", b"M", b"F", b"S", b"P", b"U", b"UT", b"X", b"B", b"m", b"SC", b"FC"];

#[derive(Default)]
struct Parser {
    /// True if flushes are issued as empty writes, as old kernels do. They then complete as empty writes too, and
    /// such a completion is not the second end of a request whose flush is over.
    flushes_are_writes: bool,
}

impl Parser {
    /// Operation and forced media, where a request without data is a flush that blkparse prints as `FN` or,
    /// of old kernels, as `FW`.
    fn operation(&mut self, kind: Kind, letters: &[u8], sectors: u32) -> (Option<Operation>, bool) {
        match letters {
            [b'F', b'N', ..] if sectors == 0 => (Some(Operation::Flush), false),
            [b'F', b'W', ..] if sectors == 0 => {
                self.flushes_are_writes |= kind == Kind::Issue;
                match self.flushes_are_writes {
                    true => (Some(Operation::Flush), false),
                    false => operation(kind, letters, sectors),
                }
            }
            _ => operation(kind, letters, sectors),
        }
    }
}

impl EventParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8]) -> Result<EventLine, Box<Problem>> {
        let first = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let Some(device) = device(first) else {
            return Ok(EventLine::Skipped {
                what: "line[|s]",
                why: "[it is no event, as a line|they are no events, as those] of the summary",
            });
        };
        let ([_, cpu, sequence, stamp, process, action, letters], _) = blank_fields(line, &FIELDS)?;
        integer(FIELDS[1], cpu, u64::from(u32::MAX))?;
        integer(FIELDS[2], sequence, u64::MAX)?;
        let time_ns = time(FIELDS[3], stamp, SCALE, "seconds")?;
        let process = integer(FIELDS[4], process, u64::from(u32::MAX))? as u32;
        let kind = match action {
            b"Q" => Kind::Queue,
            b"D" => Kind::Issue,
            b"R" => Kind::Requeue,
            b"C" => Kind::Complete,
            other if OTHER.contains(&other) => return Ok(EventLine::Other),
            other => return Err(Problem::new(FIELDS[5], other, "an action of blkparse is allowed")),
        };
        if letters.len() > 8 || !letters.iter().all(u8::is_ascii_uppercase) {
            return Err(Problem::new(FIELDS[6], letters, "the letters of the kernel are allowed"));
        }
        let rest = behind_letters(line);
        let extent = Extent::parse(kind, rest).ok_or_else(|| {
            Problem::new("line", line, "`sector + sectors [process or error]` is missing at its end")
        })?;
        let (op, fua) = match extent {
            Extent::PassedThrough => (None, false),
            Extent::Sectors { sectors, .. } => self.operation(kind, letters, sectors),
            Extent::None { .. } => self.operation(kind, letters, 0),
        };
        let (sector, sectors, last) = match extent {
            Extent::Sectors { sector, sectors, last } => (sector, sectors, last),
            Extent::None { last } => (0, 0, last),
            Extent::PassedThrough => (0, 0, b"0".as_slice()),
        };
        let error = match kind {
            Kind::Complete => error_number(last)
                .ok_or_else(|| Problem::new("error", last, "a whole number in brackets is allowed"))?,
            _ => 0,
        };
        let command = ProcessName::default();
        let event = BlockEvent { kind, op, fua, sector, sectors, error, process, command };
        Ok(EventLine::Event { device, time_ns, event })
    }
}

/// Addresses of a request, and the text in brackets behind them.
enum Extent<'a> {
    Sectors { sector: u64, sectors: u32, last: &'a [u8] },
    None { last: &'a [u8] },
    PassedThrough,
}

impl<'a> Extent<'a> {
    fn parse(kind: Kind, text: &'a [u8]) -> Option<Self> {
        if let Some(last) = bracketed(text) {
            return Some(Self::None { last });
        }
        let end = text.iter().position(|byte| *byte == b' ')?;
        let number = crate::parse::number::unsigned(&text[..end]).ok()?;
        let rest = text[end..].trim_ascii_start();
        match rest {
            // A command in hexadecimal digits.
            [b'(', ..] => rest.ends_with(b"]").then_some(Self::PassedThrough),
            [b'+', b' ', rest @ ..] => {
                let end = rest.iter().position(|byte| *byte == b' ')?;
                let sectors = crate::parse::number::unsigned(&rest[..end]).ok()?;
                let last = bracketed(rest[end..].trim_ascii_start())?;
                Some(Self::Sectors { sector: number, sectors: u32::try_from(sectors).ok()?, last })
            }
            // A completion of nothing has its sector alone, a passed-through command its bytes.
            [b'[', ..] if kind == Kind::Complete => bracketed(rest).map(|last| Self::None { last }),
            [b'[', ..] => bracketed(rest).map(|_| Self::PassedThrough),
            _ => None,
        }
    }
}

fn bracketed(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"[")?.strip_suffix(b"]")
}

/// Returns the text behind the seventh field.
fn behind_letters(line: &[u8]) -> &[u8] {
    let mut rest = line;
    for _ in 0..FIELDS.len() {
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        rest = rest[end..].trim_ascii_start();
    }
    rest
}

impl TraceFormat for BlkParse {
    fn name(&self) -> &'static str {
        "blkparse"
    }

    fn description(&self) -> &'static str {
        "what blkparse prints: device, cpu, sequence, seconds, pid, action, rwbs, sector + sectors"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &[]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[ARRIVAL]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_lines(head, |line| {
            matches!(Parser::default().parse(line), Ok(EventLine::Event { .. } | EventLine::Other))
        })
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        Ok(Box::new(EventReader::new(source, Parser::default(), options)?))
    }
}
