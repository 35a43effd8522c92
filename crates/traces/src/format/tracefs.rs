//! Block events as the kernel's tracefs and trace-cmd print them, `comm-pid [cpu] flags time: event: …`, and
//! as `perf script` prints them, `comm pid [cpu] time: block:event: …`.
//!
//! ```text
//!   postgres-645  [000] .....  1751.904411: block_bio_queue: 7,1 RM 8454416 + 8 [postgres]
//!   postgres-645  [000] .....  1751.904701: block_rq_issue: 7,1 RM 4096 () 8454416 + 8 be,0,4 [postgres]
//!    apt-get-603  [001] ..s2.  1751.908149: block_rq_complete: 7,1 RM () 8454416 + 8 be,0,4 [0]
//!         dd 28465 [001] 62545.407007:    block:block_rq_issue: 254,0 RA 73728 () 12580536 + 144 0x2,0,5 [dd]
//! ```
//! A request is a `block_rq_issue`; `block_rq_complete` completes it, `block_rq_requeue` gives it back, and
//! it was queued at its `block_bio_queue`, or at its `block_getrq` in a trace without those events.
//! `pairing.rs` states which completion belongs to which request. By default, requests arrive when they are
//! issued (option `arrival`). The first request is at time zero. The clock is the tracer's; its stamps have
//! microseconds or nanoseconds. Devices become 0, 1, 2 in order of appearance, labelled `major,minor`.
//!
//! # Scope and limits
//! Other events are passed over and counted, and so are lines that are no events. Where the kernel reports
//! lost events (`[LOST n EVENTS]`), all outstanding requests are given up. Names of processes may have
//! blanks, dashes and brackets: a line is taken apart from the name of its event.
//!
//! # References
//! Linux, `Documentation/trace/ftrace.rst` and `include/trace/events/block.h`.

use seeklab_core::ProcessName;

use crate::error::{Problem, TraceError};
use crate::event::block_event::{BlockEvent, Kind, operation};
use crate::event::details::Details;
use crate::event::rows::ARRIVAL;
use crate::event::text::{EventLine, EventParser, EventReader, error_number};
use crate::options::FormatOption;
use crate::parse::lines::LINE_MAX;
use crate::parse::number::{decimal, integer, time, unsigned};
use crate::parse::text::blanks_from_right;
use crate::source::{Head, Source};
use crate::trace_format::{ReadOptions, Sniff, TraceFormat, TraceReader};

/// tracefs text.
pub(super) struct TraceFs;

/// Digits of a second down to the nanosecond.
const SCALE: u32 = 9;
/// Lines that the search for the first event looks at.
const SNIFFED_LINES: usize = 256;

#[derive(Default)]
struct Parser {
    /// True if the trace contains `block_bio_queue` events.
    has_bio_queue: bool,
}

/// Returns the text before `time: EVENT` or perf's `time:  block:EVENT`, the time included, and the position
/// at which the name of a block layer event begins.
fn event_start(line: &[u8]) -> Option<(&[u8], usize)> {
    const MARK: &[u8] = b"block_";
    let mut places =
        line.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK).map(|(at, _)| at);
    places.find_map(|at| {
        let before = line[..at].strip_suffix(b"block:").unwrap_or(&line[..at]);
        let head = before.trim_ascii_end().strip_suffix(b":")?;
        let is_stamped = before.ends_with(b" ") && head.last().is_some_and(u8::is_ascii_digit);
        is_stamped.then_some((head, at))
    })
}

impl EventParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8]) -> Result<EventLine, Box<Problem>> {
        if line.starts_with(b"#") {
            return Ok(EventLine::Nothing);
        }
        let Some((head, start)) = event_start(line) else {
            if line.ends_with(b" EVENTS]") && line.windows(6).any(|window| window == b"[LOST ") {
                return Ok(EventLine::Lost);
            }
            return Ok(EventLine::Skipped {
                what: "line[|s]",
                why: "[it is no event|they are no events] of the block layer",
            });
        };
        let name_end = line[start..].iter().position(|byte| *byte == b':').map(|length| start + length);
        let name_end =
            name_end.ok_or_else(|| Problem::new("line", line, "a colon is missing behind the event"))?;
        let kind = match &line[start..name_end] {
            b"block_bio_queue" => {
                self.has_bio_queue = true;
                Kind::Queue
            }
            b"block_getrq" if !self.has_bio_queue => Kind::Queue,
            b"block_rq_issue" => Kind::Issue,
            b"block_rq_requeue" => Kind::Requeue,
            b"block_rq_complete" => Kind::Complete,
            _ => return Ok(EventLine::Other),
        };
        let details = line[name_end + 1..].trim_ascii();
        let (head, [stamp]) = blanks_from_right(head)
            .ok_or_else(|| Problem::new("line", line, "a time is missing before the event"))?;
        let time_ns = time("time", stamp, SCALE, "seconds")?;
        let process = process(head).ok_or_else(|| {
            Problem::new("process", head, "`name-pid [cpu]` or `name pid [cpu]` is allowed")
        })?;
        let malformed =
            || Problem::new("event", details, "`major,minor rwbs … sector + sectors … […]` is allowed");
        let details = Details::parse(details).ok_or_else(malformed)?;
        let (op, fua) = operation(kind, details.letters, details.sectors);
        let error = match kind {
            Kind::Complete | Kind::Requeue => error_number(details.last).ok_or_else(|| {
                Problem::new("error", details.last, "a whole number in brackets is allowed")
            })?,
            _ => 0,
        };
        // A flush is at sector 18446744073709551615.
        let sector = if details.sectors == 0 { 0 } else { details.sector };
        let (sectors, command) = (details.sectors, ProcessName::default());
        let event = BlockEvent { kind, op, fua, sector, sectors, error, process, command };
        Ok(EventLine::Event { device: details.device, time_ns, event })
    }
}

/// Returns true if the tracer itself prints such a line beside events of the block layer.
fn is_of_tracer(line: &[u8]) -> bool {
    let is_event = || {
        let mut fields = line.split(|byte| *byte == b' ');
        let stamp = |field: &[u8]| {
            field
                .strip_suffix(b":")
                .is_some_and(|stamp| stamp.contains(&b'.') && decimal(stamp, SCALE).is_ok())
        };
        process(line).is_some() && fields.any(stamp)
    };
    // trace-cmd begins with the number of processors.
    line.is_empty() || line.starts_with(b"cpus=") || line.starts_with(b"version =") || is_event()
}

/// The process in `name-pid [cpu] flags`, where the group in parentheses and the flags may be missing, or in perf's
/// `name pid [cpu]` or `name pid/tid [cpu]`.
fn process(head: &[u8]) -> Option<u32> {
    let bracket = head.iter().rposition(|byte| *byte == b'[')?;
    let close = head[bracket..].iter().position(|byte| *byte == b']')?;
    unsigned(&head[bracket + 1..bracket + close]).ok()?;
    let mut name = head[..bracket].trim_ascii_end();
    if name.ends_with(b")") {
        name = name[..name.iter().rposition(|byte| *byte == b'(')?].trim_ascii_end();
    }
    let integer = |text: &[u8]| integer("pid", text, u64::from(u32::MAX)).ok().map(|process| process as u32);
    let last = name.rsplit(u8::is_ascii_whitespace).next()?;
    if last.len() < name.len()
        && let Some(process) = last.split(|byte| *byte == b'/').next().and_then(integer)
    {
        return Some(process);
    }
    let dash = name.iter().rposition(|byte| *byte == b'-')?;
    integer(&name[dash + 1..])
}

impl TraceFormat for TraceFs {
    fn name(&self) -> &'static str {
        "tracefs"
    }

    fn description(&self) -> &'static str {
        "block events of tracefs, trace-cmd or perf script: block_rq_issue and block_rq_complete as text"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["ftrace"]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[ARRIVAL]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        // Other events may come first.
        let mut lines = head.text().split_inclusive(|byte| *byte == b'\n');
        for line in lines.by_ref().take(SNIFFED_LINES) {
            if line.contains(&0) || line.len() > LINE_MAX {
                return Sniff::No;
            }
            if !line.ends_with(b"\n") && !head.whole {
                return Sniff::NeedMore;
            }
            match Parser::default().parse(line.trim_ascii()) {
                Ok(EventLine::Event { .. }) => return Sniff::Yes,
                Ok(EventLine::Skipped { .. }) if !is_of_tracer(line.trim_ascii()) => return Sniff::No,
                Err(_) => return Sniff::No,
                Ok(_) => {}
            }
        }
        if lines.next().is_some() { Sniff::No } else { Sniff::NeedMore }
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        Ok(Box::new(EventReader::new(source, Parser::default(), options)?))
    }
}
