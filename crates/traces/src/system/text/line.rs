//! One line of a text of events.
//!
//! ```text
//!   cp 13701 [000] 29570.101367835:  sched:sched_waking: comm=…    perf; `13699/13701` with the process
//!   cp-13701 [000] 29570.101367835: sched_waking:        comm=…    trace-cmd
//!   cp-13701 (13699) [000] d..2. 29570.101367: sched_waking: comm=…    tracefs
//! ```

use std::str;

use super::super::event::Context;
use crate::parse::number::{decimal, hexadecimal, unsigned};

/// Digits of a second down to the nanosecond.
const SCALE: u32 = 9;
/// Bytes in which the processor of an event is searched.
const HEAD_MAX: usize = 256;

/// Content of a line.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// An event.
    Event(Stamped<'a>),
    /// A function of a call stack in the kernel. The name is empty in a program.
    Frame(&'a str),
    /// Events were lost, of this processor if it is named.
    Lost {
        /// The processor.
        cpu: Option<u16>,
        /// Their number. 1 if the text does not state it.
        events: u64,
    },
    /// A fact of the host.
    Header {
        /// Its name.
        name: &'a str,
        /// Its value.
        value: &'a str,
    },
    /// Nothing, or a comment.
    Blank,
    /// Anything else.
    Other,
}

/// An event with its place.
#[derive(Debug)]
pub(super) struct Stamped<'a> {
    /// Name of the thread.
    pub(super) comm: &'a [u8],
    pub(super) thread: u32,
    pub(super) process: Option<u32>,
    pub(super) cpu: u16,
    /// Context that the flags of the line state.
    pub(super) context: Option<Context>,
    pub(super) time_ns: u64,
    /// Name of the event without its group.
    pub(super) name: &'a [u8],
    /// Text behind the name, without blanks at its ends and without the address that perf appends.
    pub(super) details: &'a [u8],
}

impl Stamped<'_> {
    /// Thread, process and name.
    pub(super) fn current(&self) -> (u32, Option<u32>, String) {
        (self.thread, self.process, String::from_utf8_lossy(self.comm).into_owned())
    }
}

impl<'a> Line<'a> {
    /// Parses a line without its end.
    pub(super) fn parse(line: &'a [u8]) -> Self {
        let text = line.trim_ascii();
        if text.is_empty() {
            return Self::Blank;
        }
        if let Some(comment) = text.strip_prefix(b"#") {
            return header(comment, b':').unwrap_or(Self::Blank);
        }
        if let Some(stamped) = stamped(text) {
            return Self::Event(stamped);
        }
        if let Some(function) = frame(text) {
            return Self::Frame(function);
        }
        if let Some((cpu, events)) = lost(text) {
            return Self::Lost { cpu, events };
        }
        match text {
            _ if text.starts_with(b"cpus=") => header(text, b'=').unwrap_or(Self::Other),
            _ if text.starts_with(b"version =") => Self::Blank,
            _ => Self::Other,
        }
    }
}

/// `name : value`, for example `nrcpus online : 2`.
fn header(text: &[u8], separator: u8) -> Option<Line<'_>> {
    let at = text.iter().position(|byte| *byte == separator)?;
    let part = |bytes| str::from_utf8(bytes).ok().map(str::trim).filter(|part| !part.is_empty());
    Some(Line::Header { name: part(&text[..at])?, value: part(&text[at + 1..])? })
}

/// The first part of the text without blanks, and the rest without the blanks between.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim_ascii_start())
}

fn stamped(text: &[u8]) -> Option<Stamped<'_>> {
    let head = &text[..text.len().min(HEAD_MAX)];
    let mut opens = head.iter().enumerate().filter(|(_, byte)| **byte == b'[').map(|(at, _)| at);
    opens.find_map(|open| {
        let close = open + head[open..].iter().position(|byte| *byte == b']')?;
        let cpu = u16::try_from(unsigned(&text[open + 1..close]).ok()?).ok()?;
        let behind = text[close + 1..].strip_prefix(b" ")?.trim_ascii_start();
        let (first, rest) = word(behind);
        let (flags, stamp, rest) = match first.strip_suffix(b":") {
            Some(stamp) => (None, stamp, rest),
            None => {
                let (second, rest) = word(rest);
                (Some(first), second.strip_suffix(b":")?, rest)
            }
        };
        if !stamp.contains(&b'.') {
            return None;
        }
        let time_ns = decimal(stamp, SCALE).ok().filter(|time_ns| i64::try_from(*time_ns).is_ok())?;
        let (comm, thread, process, is_perf) = thread(text[..open].trim_ascii_end())?;
        let (mut name, mut details) = word(rest);
        // The number of events that perf counts as one.
        if !name.is_empty() && name.iter().all(u8::is_ascii_digit) {
            (name, details) = word(details);
        }
        let name = name.strip_suffix(b":").unwrap_or(name);
        let name = name.rsplit(|byte| *byte == b':').next().unwrap_or(name);
        let details = if is_perf { without_address(details) } else { details };
        Some(Stamped { comm, thread, process, cpu, context: flags.and_then(context), time_ns, name, details })
    })
}

/// Name, thread, process in `name-thread (process)` or perf's `name process/thread`, and true for perf's.
fn thread(head: &[u8]) -> Option<(&[u8], u32, Option<u32>, bool)> {
    let number = |text: &[u8]| u32::try_from(unsigned(text).ok()?).ok();
    let (head, group) = match head.strip_suffix(b")") {
        Some(inner) => {
            let open = inner.iter().rposition(|byte| *byte == b'(')?;
            (head[..open].trim_ascii_end(), number(inner[open + 1..].trim_ascii()))
        }
        None => (head, None),
    };
    let last = head.rsplit(u8::is_ascii_whitespace).next()?;
    if last.len() < head.len() {
        let comm = head[..head.len() - last.len()].trim_ascii();
        let mut parts = last.splitn(2, |byte| *byte == b'/');
        let (first, second) = (parts.next()?, parts.next());
        // Perf prints -1 where it does not know a number.
        let first = if first == b"-1" { Some(0) } else { number(first) };
        match (first, second) {
            (Some(thread), None) => return Some((comm, thread, group, true)),
            (Some(process), Some(thread)) => return Some((comm, number(thread)?, Some(process), true)),
            (None, _) => {}
        }
    }
    let dash = head.iter().rposition(|byte| *byte == b'-')?;
    Some((head[..dash].trim_ascii(), number(&head[dash + 1..])?, group, false))
}

/// Context of the flags `d..2.`: the third is the interrupt.
fn context(flags: &[u8]) -> Option<Context> {
    match flags.get(2)? {
        b'h' | b'H' | b'z' | b'Z' => Some(Context::Interrupt),
        b's' => Some(Context::Softirq),
        b'.' => Some(Context::Process),
        _ => None,
    }
}

/// The details without the address of the tracepoint, which perf appends: ` ffffffff81b057cf symbol+0x1df (module)`.
pub(super) fn without_address(details: &[u8]) -> &[u8] {
    let cut = || {
        let (before, module) = last_word(details)?;
        (module.starts_with(b"(") && module.ends_with(b")")).then_some(())?;
        let (before, _symbol) = last_word(before)?;
        let (before, address) = match last_word(before) {
            Some(split) => split,
            None => (&before[..0], before),
        };
        (address.len() >= 8 && hexadecimal(address).is_ok()).then_some(before)
    };
    cut().unwrap_or(details)
}

/// The text before the last word, without the blanks between, and that word.
fn last_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().rposition(u8::is_ascii_whitespace)?;
    Some((text[..at].trim_ascii_end(), &text[at + 1..]))
}

/// Function in `ffffffff821facd8 __schedule+0x618 (module)` of perf, or in `=> __schedule (address)`.
fn frame(text: &[u8]) -> Option<&str> {
    let function = |text| str::from_utf8(word(text).0).ok();
    if let Some(rest) = text.strip_prefix(b"=>") {
        return function(rest.trim_ascii_start());
    }
    let (address, rest) = word(text);
    hexadecimal(address).ok()?;
    if rest.is_empty() || !(rest.ends_with(b")") || rest.contains(&b'+')) {
        return rest.is_empty().then_some("");
    }
    // A program may have functions of the kernel's names.
    if address.len() == 16 && address.starts_with(b"ffff") { function(rest) } else { Some("") }
}

/// Number of the events of which `CPU:1 [LOST 34 EVENTS]`, `CPU:1 [34 EVENTS DROPPED]` or `LOST 34 events` tells.
fn lost(text: &[u8]) -> Option<(Option<u16>, u64)> {
    let text = str::from_utf8(text).ok()?.to_ascii_uppercase();
    let (cpu, rest) = match text.strip_prefix("CPU:") {
        Some(rest) => {
            let (cpu, rest) = rest.split_once(' ')?;
            (Some(cpu.parse().ok()?), rest)
        }
        None => (None, text.as_str()),
    };
    let is_loss = rest.contains("EVENTS") && (rest.contains("LOST") || rest.contains("DROPPED"));
    let words = || rest.split(|character: char| !character.is_ascii_alphanumeric());
    // Only lines that state nothing else.
    let allowed =
        |word: &str| matches!(word, "" | "LOST" | "DROPPED" | "EVENTS") || word.parse::<u64>().is_ok();
    (is_loss && words().all(allowed)).then_some(())?;
    Some((cpu, words().find_map(|word| word.parse().ok()).unwrap_or(1)))
}
