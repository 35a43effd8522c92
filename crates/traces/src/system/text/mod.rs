//! Text of a whole host's events, as `perf script`, `trace-cmd report` and tracefs print it.
//!
//! ```text
//!  lines ─▶ line     where: processor, time, thread, name of the event
//!        ─▶ details  what: the fields behind the name, into an `EventKind`
//!        ─▶ SystemText ─▶ events, as from the kernel's records
//! ```
//! The names and fields are those of the kernel's tracepoints. [`survey`] makes a first pass, for what a pass over the
//! events has to know before.
//!
//! # Scope and limits
//! - Events must be in order of time, as the tools print them. Nothing is sorted.
//! - Text of perf has no context of interrupts. It follows from the beginnings and ends of interrupts on the processor.
//! - A call chain that perf prints behind a `sched_switch`, and a `kernel_stack` of the others, is the call stack of a wait.
//! - Events of other kinds are counted and skipped, and so are lines of an unknown form, by their numbers.
//! - Memory does not depend on the length of the text.
//!
//! # References
//! Linux: Documentation/trace/ftrace.rst; the manual pages perf-script(1) and trace-cmd-report(1).

mod details;
mod line;
mod survey;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use super::cause::{StackCause, is_known};
use super::event::{Context, EventKind, InterruptSource, RunState, SystemEvent};
use crate::error::{Place, TraceError};
use crate::parse::lines::{LineError, Lines};
use crate::source::Source;
use details::Details;
use line::{Line, Stamped};

pub use survey::{SeenThread, Survey, survey};

/// Malformed lines that are named.
const NAMED_LINES: usize = 8;
/// Names of other events that are counted one by one.
const NAMES_MAX: usize = 64;
/// Functions of a call stack that are looked at.
const FUNCTIONS_MAX: usize = 256;
/// Interrupts that may interrupt each other.
const NESTED_MAX: usize = 16;

/// Counts of the lines of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextCounts {
    /// Events that were handed on.
    pub events: u64,
    /// Events of other kinds, by name. Beyond 64 names, they are counted as `others`.
    pub other_events: BTreeMap<String, u64>,
    /// Lines of an unknown form.
    pub malformed_lines: u64,
    /// Numbers of the first of them, counted from 1.
    pub malformed: Vec<u64>,
    /// Places at which events were lost.
    pub losses: u64,
    /// Call stacks of waits.
    pub stacks: u64,
    /// True if a time has digits below the microsecond.
    pub has_nanoseconds: bool,
    /// True if the last line has no end, and may have been cut.
    pub is_cut: bool,
}

/// A call stack whose functions are being read.
#[derive(Debug)]
struct OpenStack {
    event: SystemEvent,
    functions: Vec<String>,
    frames: usize,
}

/// Reads the events of a text.
pub struct SystemText {
    path: PathBuf,
    lines: Lines,
    ready: VecDeque<SystemEvent>,
    stack: Option<OpenStack>,
    /// Interrupts that have begun on each processor, outermost first.
    interrupts: BTreeMap<u16, Vec<(InterruptSource, u16)>>,
    last: Option<(u64, u16)>,
    header: BTreeMap<String, String>,
    /// Thread, process and name of the last event line.
    current: Option<(u32, Option<u32>, String)>,
    counts: TextCounts,
    at_end: bool,
}

impl std::fmt::Debug for SystemText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SystemText").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SystemText {
    /// Opens a text, which may be compressed.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Ok(Self::new(Source::open(path)?))
    }

    /// Reads the text in `source`.
    pub fn new(source: Source) -> Self {
        Self {
            path: source.path().to_owned(),
            lines: Lines::new(source.into_stream()),
            ready: VecDeque::new(),
            stack: None,
            interrupts: BTreeMap::new(),
            last: None,
            header: BTreeMap::new(),
            current: None,
            counts: TextCounts::default(),
            at_end: false,
        }
    }

    /// Returns the next event. `None` at the end.
    ///
    /// # Errors
    /// If the text cannot be read.
    pub fn next_event(&mut self) -> Result<Option<SystemEvent>, TraceError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.counts.events += 1;
                return Ok(Some(event));
            }
            if self.at_end {
                return Ok(None);
            }
            self.advance()?;
        }
    }

    /// Counts of what was read.
    pub fn counts(&self) -> &TextCounts {
        &self.counts
    }

    /// Facts of the recorded host that the text begins with, by the names that perf and trace-cmd give them.
    pub fn header(&self) -> &BTreeMap<String, String> {
        &self.header
    }

    /// Reads a line, which may make events ready.
    fn advance(&mut self) -> Result<(), TraceError> {
        let number = self.lines.number() + 1;
        let line = match self.lines.next() {
            Ok(Some(line)) => line,
            Ok(None) => {
                self.end_stack();
                self.counts.is_cut = self.lines.ended_early();
                self.at_end = true;
                return Ok(());
            }
            Err(error @ LineError::TooLong) => {
                return Err(error
                    .into_trace_error(self.counts.events)
                    .at(Place::Line(number))
                    .in_file(&self.path));
            }
            Err(error) => return Err(error.into_trace_error(self.counts.events).in_file(&self.path)),
        };
        match Line::parse(line) {
            Line::Blank => self.end_stack(),
            Line::Header { name, value } => {
                if self.header.len() < NAMES_MAX {
                    self.header.entry(name.to_owned()).or_insert_with(|| value.to_owned());
                }
            }
            Line::Frame(function) => {
                if let Some(stack) = &mut self.stack {
                    stack.frames += 1;
                    let function = function.split(['.', '+']).next().unwrap_or(function);
                    if is_known(function) && stack.functions.len() < FUNCTIONS_MAX {
                        stack.functions.push(function.to_owned());
                    }
                }
            }
            Line::Lost { cpu, events } => {
                let (time_ns, last_cpu) = self.last.unwrap_or_default();
                let cpu = cpu.unwrap_or(last_cpu);
                self.end_stack();
                self.lose(time_ns, cpu, events);
            }
            Line::Event(stamped) => {
                let (current, event) = (stamped.current(), Details::parse(&stamped));
                let place = Placed::of(&stamped);
                self.end_stack();
                self.current = Some(current);
                self.counts.has_nanoseconds |= !place.time_ns.is_multiple_of(1000);
                self.last = Some((place.time_ns, place.cpu));
                self.take(place, event, number);
            }
            Line::Other => self.malformed(number),
        }
        Ok(())
    }

    fn take(&mut self, place: Placed, details: Details, number: u64) {
        match details {
            Details::Event(kind) => {
                let context = self.context(&place, &kind);
                let Placed { time_ns, cpu, thread, .. } = place;
                self.ready.push_back(SystemEvent { time_ns, cpu, thread, context, kind });
                if let EventKind::Switch { previous, state, .. } = kind {
                    self.interrupts.remove(&cpu);
                    if matches!(state, RunState::Interruptible | RunState::Uninterruptible) {
                        self.begin_stack(&place, previous);
                    }
                }
            }
            Details::Stack => self.begin_stack(&place, place.thread),
            Details::Lost(events) => self.lose(place.time_ns, place.cpu, events),
            Details::Nothing => {}
            Details::Other(name) => {
                let is_full = self.counts.other_events.len() >= NAMES_MAX;
                let name = match is_full && !self.counts.other_events.contains_key(&name) {
                    true => "others".to_owned(),
                    false => name,
                };
                *self.counts.other_events.entry(name).or_default() += 1;
            }
            Details::Malformed => self.malformed(number),
        }
    }

    /// Context of an event: that of its flags, otherwise that of the interrupts which have begun.
    fn context(&mut self, place: &Placed, kind: &EventKind) -> Context {
        let of_source = |source| match source {
            InterruptSource::Softirq => Context::Softirq,
            _ => Context::Interrupt,
        };
        let open = self.interrupts.entry(place.cpu).or_default();
        let inferred = match *kind {
            EventKind::InterruptEnter { source, number } => {
                if open.len() < NESTED_MAX {
                    open.push((source, number));
                }
                of_source(source)
            }
            EventKind::InterruptExit { source, number } => {
                if let Some(index) = open.iter().rposition(|interrupt| *interrupt == (source, number)) {
                    open.truncate(index);
                }
                of_source(source)
            }
            _ => open.last().map_or(Context::Process, |(source, _)| of_source(*source)),
        };
        place.context.unwrap_or(inferred)
    }

    fn begin_stack(&mut self, place: &Placed, thread: u32) {
        let Placed { time_ns, cpu, context, .. } = *place;
        let kind = EventKind::Stack(StackCause::Unknown);
        let context = context.unwrap_or(Context::Process);
        let event = SystemEvent { time_ns, cpu, thread, context, kind };
        self.stack = Some(OpenStack { event, functions: Vec::new(), frames: 0 });
    }

    fn end_stack(&mut self) {
        if let Some(OpenStack { event, functions, frames }) = self.stack.take()
            && frames > 0
        {
            self.counts.stacks += 1;
            let kind = EventKind::Stack(StackCause::of_stack(functions.iter().map(String::as_str)));
            self.ready.push_back(SystemEvent { kind, ..event });
        }
    }

    fn lose(&mut self, time_ns: u64, cpu: u16, events: u64) {
        self.counts.losses += 1;
        let kind = EventKind::Lost { events: events.max(1) };
        self.interrupts.remove(&cpu);
        self.ready.push_back(SystemEvent { time_ns, cpu, thread: 0, context: Context::Process, kind });
    }

    fn malformed(&mut self, number: u64) {
        self.counts.malformed_lines += 1;
        if self.counts.malformed.len() < NAMED_LINES {
            self.counts.malformed.push(number);
        }
    }
}

/// Place of an event.
#[derive(Debug, Clone, Copy)]
struct Placed {
    time_ns: u64,
    cpu: u16,
    thread: u32,
    context: Option<Context>,
}

impl Placed {
    fn of(stamped: &Stamped<'_>) -> Self {
        let Stamped { time_ns, cpu, thread, context, .. } = *stamped;
        Self { time_ns, cpu, thread, context }
    }
}
