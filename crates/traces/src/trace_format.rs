//! What a trace format is: something that recognises, reads and writes traces.

use std::borrow::Cow;
use std::path::Path;

use seeklab_core::{ByteSize, Duration, TraceRecord};

use crate::error::{ErrorKind, Place, TraceError};
use crate::issued::Issued;
use crate::metadata::Metadata;
use crate::options::{Applied, FormatOption, Lack, Setting};
use crate::output::losses::Holds;
use crate::schema::Column;
use crate::source::position::Position;
use crate::source::{Head, Source};

/// A trace format. Each is one file with one line in [`FORMATS`](crate::FORMATS).
pub trait TraceFormat: Sync {
    /// The name that a user types, such as `spc`.
    fn name(&self) -> &'static str;

    /// What it is, in one line.
    fn description(&self) -> &'static str;

    /// File suffixes without their dot that mean this format and no other, such as `spc`.
    fn suffixes(&self) -> &'static [&'static str];

    /// What it leaves open, with what is assumed unless the user says otherwise.
    fn options(&self) -> &'static [FormatOption] {
        &[]
    }

    /// What it cannot say, whatever the trace.
    fn lacks(&self) -> &'static [Lack] {
        &[]
    }

    /// Whether a trace that begins so has this format. [`Sniff::NeedMore`] is counted as
    /// [`Sniff::No`] where `head` is the whole trace.
    fn sniff(&self, head: Head<'_>) -> Sniff;

    /// Whether it reads traces of several files, such as one for each processor.
    fn reads_parts(&self) -> bool {
        false
    }

    /// Begins to read `source`.
    ///
    /// # Errors
    /// If the start of the trace is not what the format demands.
    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError>;

    /// Whether [`create`](Self::create) works.
    fn is_writable(&self) -> bool {
        false
    }

    /// What of a row [`create`](Self::create) writes; the rest is lost, and [`create_with`](crate::create_with) counts it.
    fn holds(&self) -> Holds {
        Holds::ALL
    }

    /// Begins to write a trace to `path`, compressed as its suffix says.
    ///
    /// # Errors
    /// [`ErrorKind::NotWritable`] unless [`is_writable`](Self::is_writable); else if the file
    /// cannot be created or `metadata` cannot be said.
    fn create(&self, path: &Path, metadata: &Metadata) -> Result<Box<dyn TraceWriter>, TraceError> {
        let _ = metadata;
        Err(TraceError::new(ErrorKind::NotWritable { format: self.name() }).in_file(path))
    }
}

/// Whether a trace has a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sniff {
    /// It has.
    Yes,
    /// It has not.
    No,
    /// The bytes given do not tell.
    NeedMore,
}

/// The rows of a trace. After an error there are no more.
pub trait TraceReader: Iterator<Item = Result<TraceRecord, TraceError>> + Send {
    /// What is known about the trace so far; device labels may appear with the rows that use them.
    fn metadata(&self) -> &Metadata;

    /// What was done to the rows so far that their user should know.
    fn notes(&self) -> Vec<Note>;

    /// The next rows, as many as are at hand, in `buffer` or in a place of its own; none at the end.
    ///
    /// # Errors
    /// If the next row cannot be read.
    fn next_rows<'a>(&'a mut self, buffer: &'a mut RowBuffer) -> Result<Rows<'a>, TraceError> {
        Ok(Rows { records: buffer.fill(self)?, metadata: self.metadata() })
    }
}

/// Rows that are handed out together: few enough to stay in the processor's cache.
const ROWS: usize = 256;

/// A place for rows that are handed out together.
#[derive(Debug, Default)]
pub struct RowBuffer {
    records: Vec<TraceRecord>,
    /// What is wrong with the row behind them.
    failure: Option<TraceError>,
}

impl RowBuffer {
    /// The next rows, one by one from `rows`; none at the end.
    ///
    /// # Errors
    /// If the next row cannot be read.
    pub fn fill<I>(&mut self, rows: &mut I) -> Result<&[TraceRecord], TraceError>
    where
        I: Iterator<Item = Result<TraceRecord, TraceError>> + ?Sized,
    {
        self.records.clear();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        while self.records.len() < ROWS
            && let Some(record) = rows.next()
        {
            match record {
                Ok(record) => self.records.push(record),
                Err(failure) if self.records.is_empty() => return Err(failure),
                Err(failure) => {
                    self.failure = Some(failure);
                    break;
                }
            }
        }
        Ok(&self.records)
    }
}

/// Some rows of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// They, in order; none at the end of the trace.
    pub records: &'a [TraceRecord],
    /// What is known about the trace when they were read.
    pub metadata: &'a Metadata,
}

/// Takes the rows of a trace.
pub trait TraceWriter: Send {
    /// Appends a row.
    ///
    /// # Errors
    /// If the format cannot say what `record` says, or the file cannot be written.
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError>;

    /// Says something about the trace that was not known when it was begun, such as how much of it was lost:
    /// as [`Metadata::other`]. A format without metadata leaves it out.
    ///
    /// # Errors
    /// If the key is not allowed, or the file cannot be written.
    fn annotate(&mut self, key: &str, value: &str) -> Result<(), TraceError> {
        let _ = (key, value);
        Ok(())
    }

    /// Says what a device is called, before the first row of it or later: as [`Metadata::labels`]. A format that names
    /// no devices leaves it out, and one that names them in every row leaves out what comes behind such a row.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn label(&mut self, device: u16, name: &str) -> Result<(), TraceError> {
        let _ = (device, name);
        Ok(())
    }

    /// What of the rows so far was lost.
    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }

    /// Writes what is held back and gives the file its name; without it there is no file.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn finish(self: Box<Self>) -> Result<(), TraceError>;
}

/// How to read a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// Bytes in a logical block; by default what the trace says, else 512 bytes.
    pub block_size: Option<ByteSize>,
    /// Rows within which a roughly sorted trace is sorted by arrival.
    pub sort_window: usize,
    /// Options of the format that the user settled; of several for one option the last counts.
    pub settings: Vec<Setting>,
    /// Columns that are wanted. A format that holds columns apart leaves the others out, unread and unchecked, and
    /// their fields are as in [`TraceRecord::new`]; the other formats read all.
    pub columns: &'static [Column],
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { block_size: None, sort_window: 4096, settings: Vec::new(), columns: &Column::ALL }
    }
}

impl ReadOptions {
    /// The block size of a trace that does not say its own.
    pub fn block_size_or_default(&self) -> ByteSize {
        self.block_size.unwrap_or(Metadata::DEFAULT_BLOCK_SIZE)
    }
}

/// Something done to rows that their user should know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// Rows so far out of order that they were moved to the arrival of the row before them.
    ArrivalsClamped {
        /// How many.
        rows: u64,
        /// Rows within which the trace was sorted.
        window: usize,
    },
    /// A column that was not read.
    ColumnIgnored {
        /// Its name.
        column: String,
        /// Why, or what it may have been meant to be.
        reason: Cow<'static, str>,
    },
    /// Lines or records that were passed over, as the format's own tools do.
    Skipped {
        /// What they are, in the plural.
        what: Cow<'static, str>,
        /// Why they are no requests.
        why: Cow<'static, str>,
        /// How many.
        count: u64,
        /// Where the first is.
        first: Place,
    },
    /// Requests whose completion is not in the trace: rows without a response time.
    CompletionsMissing {
        /// How many.
        requests: u64,
        /// Those of them that were given up because a later event showed that their completion was lost;
        /// without that rule each would have been given the completion of a later one.
        given_up: u64,
    },
    /// Completions of requests whose issue is not in the trace; they are not rows.
    IssuesMissing {
        /// How many.
        completions: u64,
    },
    /// Something that rows say and the format that they are written in does not.
    Lost {
        /// Name of the format.
        format: &'static str,
        /// What, in the plural.
        what: Cow<'static, str>,
        /// Rows that say it.
        rows: u64,
    },
    /// Rows with times finer than the format that they are written in.
    Rounded {
        /// Name of the format.
        format: &'static str,
        /// Its unit of time.
        unit: Duration,
        /// How many.
        rows: u64,
    },
    /// Something about the trace as a whole.
    Remark(Cow<'static, str>),
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::ArrivalsClamped { rows, window } => write!(
                f,
                "{rows} rows lie further out of order than the {window} rows within which the trace is sorted; \
                 they were moved to the arrival of the row before"
            ),
            Self::ColumnIgnored { column, reason } => write!(f, "column `{column}` is ignored: {reason}"),
            Self::Skipped { what, why, count, first } => {
                write!(f, "skipped {count} {what}, the first at {first}: {why}")
            }
            Self::CompletionsMissing { requests, given_up: 0 } => {
                write!(f, "{requests} requests have no completion in the trace and no response time")
            }
            Self::CompletionsMissing { requests, given_up } => write!(
                f,
                "{requests} requests have no completion in the trace and no response time; {given_up} of them \
                 were given up, as a later event showed that their completion is lost"
            ),
            Self::IssuesMissing { completions } => {
                write!(f, "{completions} completions belong to requests whose issue is not in the trace")
            }
            Self::Lost { format, what, rows } => {
                write!(f, "the format `{format}` cannot say {what}: those of {rows} rows are lost")
            }
            Self::Rounded { format, unit, rows } => {
                write!(f, "the format `{format}` holds times to {unit}: those of {rows} rows are finer")
            }
            Self::Remark(remark) => f.write_str(remark),
        }
    }
}

/// A trace that is being read: an iterator over its rows that knows its metadata.
pub struct OpenTrace {
    reader: Box<dyn TraceReader>,
    format: &'static str,
    guess: Option<String>,
    lacks: &'static [Lack],
    applied: Vec<Applied>,
    position: Position,
    buffer: RowBuffer,
}

impl OpenTrace {
    /// Wraps `reader` of `format`, opened with `applied`; `guess` says how the format was found unless it was
    /// named.
    pub(crate) fn new(
        reader: Box<dyn TraceReader>,
        format: &dyn TraceFormat,
        guess: Option<String>,
        applied: Vec<Applied>,
        position: Position,
    ) -> Self {
        let (lacks, format) = (format.lacks(), format.name());
        Self { reader, format, guess, lacks, applied, position, buffer: RowBuffer::default() }
    }

    /// The same trace as the driver saw it: [`arrival`](TraceRecord::arrival) is the issue where that is told, and rows come
    /// in order of it.
    #[must_use]
    pub fn at_issue(self) -> Self {
        Self { reader: Box::new(Issued::new(self.reader)), ..self }
    }

    /// How far it was read.
    pub fn position(&self) -> Position {
        self.position.clone()
    }

    /// The next rows, as many as are at hand; none at the end. For who goes through many millions.
    ///
    /// # Errors
    /// If the next row cannot be read.
    pub fn next_rows(&mut self) -> Result<Rows<'_>, TraceError> {
        self.reader.next_rows(&mut self.buffer)
    }

    /// What the format cannot say.
    pub fn lacks(&self) -> &'static [Lack] {
        self.lacks
    }

    /// What the format leaves open and how it was read.
    pub fn applied(&self) -> &[Applied] {
        &self.applied
    }

    /// Name of the format.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// How the format was found, such as `spc, from the first lines`; `None` where it was named.
    pub fn guess(&self) -> Option<&str> {
        self.guess.as_deref()
    }

    /// What is known about the trace so far; device labels may appear with the rows that use them.
    pub fn metadata(&self) -> &Metadata {
        self.reader.metadata()
    }

    /// What was done to the rows so far that their user should know.
    pub fn notes(&self) -> Vec<Note> {
        self.reader.notes()
    }
}

impl Iterator for OpenTrace {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.reader.next()
    }
}

impl std::fmt::Debug for OpenTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("OpenTrace").field("format", &self.format).field("guess", &self.guess).finish()
    }
}
