//! Reads text formats whose lines are events of the block layer.
//!
//! Lines that are no events are passed over and counted where the format's own tools print or skip such
//! lines; a line that begins like an event and does not go on like one is an error. A file without a single
//! event is an error, too: it has another format.

use std::path::PathBuf;

use seeklab_core::TraceRecord;
use seeklab_core::number_words::counted;

use crate::error::{ErrorKind, Place, Problem, TraceError};
use crate::event::block_event::BlockEvent;
use crate::event::rows::EventRows;
use crate::metadata::Metadata;
use crate::parse::lines::Lines;
use crate::parse::skips::Skips;
use crate::parse::text::unended;
use crate::source::Source;
use crate::source::compression::Compression;
use crate::trace_format::{Note, ReadOptions, TraceReader};

/// Content of a line of events.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EventLine {
    /// Something happened to a request.
    Event {
        /// Major and minor number of the device.
        device: (u32, u32),
        /// Since some time.
        time_ns: u64,
        /// The event.
        event: BlockEvent,
    },
    /// An event that begins and ends no request.
    Other,
    /// Events were lost here.
    Lost,
    /// A comment.
    Nothing,
    /// A line that is no event.
    Skipped {
        /// Name of such lines, in the plural.
        what: &'static str,
        /// Reason why the lines are passed over.
        why: &'static str,
    },
}

/// Turns the lines of one format into events.
pub(crate) trait EventParser: Send {
    /// Parses `line`, which has no blanks at its ends and is not empty.
    fn parse(&mut self, line: &[u8]) -> Result<EventLine, Box<Problem>>;
}

/// Reads a text of events.
pub(crate) struct EventReader<P> {
    path: PathBuf,
    compressed: bool,
    lines: Lines,
    parser: P,
    rows: EventRows,
    metadata: Metadata,
    skips: Skips,
    events: u64,
    lost: u64,
    handed_out: u64,
    /// Error that ended the reading. It is reported after the rows before it.
    failure: Option<TraceError>,
    at_end: bool,
}

impl<P: EventParser> EventReader<P> {
    /// Reads the lines of `source` with `parser`.
    ///
    /// # Errors
    /// If an option is not allowed.
    pub(crate) fn new(source: Source, parser: P, options: &ReadOptions) -> Result<Self, TraceError> {
        Ok(Self {
            path: source.path().to_owned(),
            compressed: source.compression() != Compression::None,
            metadata: Metadata { block_size: options.block_size_or_default(), ..Metadata::default() },
            lines: Lines::new(source.into_stream()),
            parser,
            rows: EventRows::new(options)?,
            skips: Skips::default(),
            events: 0,
            lost: 0,
            handed_out: 0,
            failure: None,
            at_end: false,
        })
    }

    /// Reads a line; at the end, or where it cannot be read, there are no more events.
    fn advance(&mut self) {
        let failure = match self.lines.next() {
            Ok(Some(line)) => {
                let line = line.trim_ascii();
                if line.is_empty() {
                    return;
                }
                match self.parser.parse(line).and_then(|parsed| self.take(parsed)) {
                    Ok(()) => return,
                    Err(problem) => Some(TraceError::invalid(problem).at(Place::Line(self.lines.number()))),
                }
            }
            Ok(None) if self.events == 0 => Some(
                TraceError::malformed("no line of it is an event").with_hint("it may have another format"),
            ),
            Ok(None) => None,
            Err(error) => {
                let failure = error.into_trace_error(self.handed_out);
                Some(match failure.kind() {
                    ErrorKind::LineTooLong { .. } => failure.at(Place::Line(self.lines.number())),
                    _ if self.compressed => failure,
                    _ => failure.at(Place::Line(self.lines.number() + 1)),
                })
            }
        };
        self.failure = failure.map(|failure| failure.in_file(&self.path));
        self.rows.end();
        self.at_end = true;
    }

    fn take(&mut self, parsed: EventLine) -> Result<(), Box<Problem>> {
        match parsed {
            EventLine::Event { device: (major, minor), time_ns, event } => {
                self.events += 1;
                let key = u64::from(major) << 32 | u64::from(minor);
                let label = || format!("{major},{minor}");
                self.rows.push(key, label, time_ns, event, &mut self.metadata)?;
            }
            EventLine::Other => self.events += 1,
            EventLine::Lost => {
                self.lost += 1;
                self.rows.lost();
            }
            EventLine::Nothing => {}
            EventLine::Skipped { what, why } => {
                self.skips.add(what, why, Place::Line(self.lines.number()));
            }
        }
        Ok(())
    }
}

impl<P: EventParser> Iterator for EventReader<P> {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.rows.pop() {
                self.handed_out += 1;
                return Some(Ok(record));
            }
            if self.at_end {
                return self.failure.take().map(Err);
            }
            self.advance();
        }
    }
}

impl<P: EventParser> TraceReader for EventReader<P> {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        self.rows.notes(&mut notes);
        if self.lost > 0 {
            notes.push(Note::Remark(
                format!(
                    "events were lost at {}: the requests outstanding there have no completion",
                    counted(self.lost, "place")
                )
                .into(),
            ));
        }
        self.skips.notes(&mut notes);
        notes.extend(unended(&self.lines));
        notes
    }
}

/// `major,minor`.
pub(crate) fn device(text: &[u8]) -> Option<(u32, u32)> {
    let comma = text.iter().position(|byte| *byte == b',')?;
    let number =
        |text: &[u8]| crate::parse::number::unsigned(text).ok().and_then(|number| u32::try_from(number).ok());
    Some((number(&text[..comma])?, number(&text[comma + 1..])?))
}

/// The error of an event, negative or zero.
pub(crate) fn error_number(text: &[u8]) -> Option<i32> {
    let (sign, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let number = crate::parse::number::unsigned(digits).ok().and_then(|number| i32::try_from(number).ok())?;
    Some(sign * number)
}
