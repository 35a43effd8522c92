//! A trace format: recognises, reads and writes traces.

use std::borrow::Cow;
use std::path::Path;

use seeklab_core::number_words::{in_number, numbered};
use seeklab_core::{ByteSize, Duration, TraceRecord};

use crate::error::{ErrorKind, Place, TraceError};
use crate::issued::Issued;
use crate::metadata::Metadata;
use crate::options::{Applied, FormatOption, MissingColumn, Setting};
use crate::output::losses::Holds;
use crate::schema::Column;
use crate::source::integrity::Integrity;
use crate::source::part_blocks::OMITTED_KEY;
use crate::source::position::Position;
use crate::source::{Head, Source};

/// A trace format. Each is one file with one line in [`FORMATS`](crate::FORMATS).
pub trait TraceFormat: Sync {
    /// The name that a user types, such as `spc`.
    fn name(&self) -> &'static str;

    /// Returns a one-line description of the format.
    fn description(&self) -> &'static str;

    /// File suffixes without their dot that mean this format and no other, such as `spc`.
    fn suffixes(&self) -> &'static [&'static str];

    /// Returns the options of the format, with their defaults.
    fn options(&self) -> &'static [FormatOption] {
        &[]
    }

    /// Returns the information that every trace of this format lacks.
    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[]
    }

    /// Judges whether a trace that begins with `head` has this format. [`Sniff::NeedMore`] counts as
    /// [`Sniff::No`] if `head` is the whole trace.
    fn sniff(&self, head: Head<'_>) -> Sniff;

    /// Returns true if the format reads traces of several files, such as one for each processor.
    fn reads_parts(&self) -> bool {
        false
    }

    /// Begins to read `source`.
    ///
    /// # Errors
    /// If the start of the trace is not what the format demands.
    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError>;

    /// Returns true if [`create`](Self::create) works.
    fn is_writable(&self) -> bool {
        false
    }

    /// Returns the fields of a row that [`create`](Self::create) writes. The rest is lost, and
    /// [`create_with`](crate::create_with) counts it.
    fn holds(&self) -> Holds {
        Holds::ALL
    }

    /// Begins to write a trace to `path`, compressed according to its suffix.
    ///
    /// # Errors
    /// [`ErrorKind::NotWritable`] if [`is_writable`](Self::is_writable) is false; otherwise if the file cannot be
    /// created or the format cannot represent `metadata`.
    fn create(&self, path: &Path, metadata: &Metadata) -> Result<Box<dyn TraceWriter>, TraceError> {
        let _ = metadata;
        Err(TraceError::new(ErrorKind::NotWritable { format: self.name() }).in_file(path))
    }
}

/// Judgement on whether a trace has a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sniff {
    /// The trace has the format.
    Yes,
    /// The trace does not have the format.
    No,
    /// The bytes given do not tell.
    NeedMore,
}

/// The rows of a trace. After an error there are no more.
pub trait TraceReader: Iterator<Item = Result<TraceRecord, TraceError>> + Send {
    /// Returns the metadata of the trace found so far. Device labels may appear with the rows that use them.
    fn metadata(&self) -> &Metadata;

    /// Returns notes for the user on how the rows so far were changed.
    fn notes(&self) -> Vec<Note>;

    /// Returns the next rows that are available, stored in `buffer` or in a place of the reader's own. Empty at
    /// the end.
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
    /// Error of the row after the stored rows.
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
    /// The rows in order; none at the end of the trace.
    pub records: &'a [TraceRecord],
    /// Metadata of the trace when the rows were read.
    pub metadata: &'a Metadata,
}

/// Takes the rows of a trace.
pub trait TraceWriter: Send {
    /// Appends a row.
    ///
    /// # Errors
    /// If the format cannot represent `record`, or the file cannot be written.
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError>;

    /// Adds metadata that was not known when the trace was begun, such as the number of lost events: as
    /// [`Metadata::other`]. A format without metadata omits it.
    ///
    /// # Errors
    /// If the key is not allowed, or the file cannot be written.
    fn annotate(&mut self, key: &str, value: &str) -> Result<(), TraceError> {
        let _ = (key, value);
        Ok(())
    }

    /// Sets the name of a device, before its first row or later: as [`Metadata::labels`]. A format that names no
    /// devices omits the name. A format that names them in every row omits a name that comes after the first such
    /// row.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn label(&mut self, device: u16, name: &str) -> Result<(), TraceError> {
        let _ = (device, name);
        Ok(())
    }

    /// Saves the rows so far for the case that the process is killed, if the last time was about a second ago. Does nothing
    /// unless the writer is one of [`saving`](crate::saving). To be called several times per second.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn save(&mut self) -> Result<(), TraceError> {
        Ok(())
    }

    /// Ends without a file, and removes rows that were saved.
    fn discard(self: Box<Self>) {}

    /// Returns notes on information of the rows so far that was lost.
    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }

    /// Writes what is held back and gives the file its name; without it there is no file.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn finish(self: Box<Self>) -> Result<(), TraceError>;
}

/// Options for reading a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// Bytes in a logical block [default: the block size stated in the trace, otherwise 512 bytes].
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
    /// Returns the block size for a trace that does not state its own.
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
        /// Number of rows.
        rows: u64,
        /// Rows within which the trace was sorted.
        window: usize,
    },
    /// A column that was not read.
    ColumnIgnored {
        /// Its name.
        column: String,
        /// Reason, or similar names of known columns.
        reason: Cow<'static, str>,
    },
    /// Lines or records that were passed over, as the format's own tools do.
    Skipped {
        /// Name of the skipped lines or records, [for one and for many](seeklab_core::number_words::numbered).
        what: Cow<'static, str>,
        /// Reason why they are no requests, for one and for many.
        why: Cow<'static, str>,
        /// Number of lines or records.
        count: u64,
        /// Place of the first.
        first: Place,
    },
    /// Requests whose completion is not in the trace: rows without a response time.
    CompletionsMissing {
        /// Number of requests.
        requests: u64,
        /// Requests of this number that were given up because a later event showed that their completion was lost.
        /// Otherwise each would have been given the completion of a later request.
        given_up: u64,
    },
    /// Completions of requests whose issue is not in the trace; they are not rows.
    IssuesMissing {
        /// Number of completions.
        completions: u64,
    },
    /// Information in the rows that the written format cannot represent.
    Lost {
        /// Name of the format.
        format: &'static str,
        /// Name of the information, in the plural.
        what: Cow<'static, str>,
        /// Rows that contain the information.
        rows: u64,
    },
    /// Rows with times finer than the format that they are written in.
    Rounded {
        /// Name of the format.
        format: &'static str,
        /// Its unit of time.
        unit: Duration,
        /// Number of rows.
        rows: u64,
    },
    /// Something about the trace as a whole.
    Remark(Cow<'static, str>),
}

/// Text about requests without a completion, for one and for many.
const WITHOUT_COMPLETION: &str = "request[|s] [has|have] no completion in the trace and no response time";

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::ArrivalsClamped { rows, window } => write!(
                f,
                "{} than the {window} rows within which the trace is sorted; {} moved to the arrival of the row before",
                numbered(*rows, "row[|s] [lies|lie] further out of order"),
                in_number(*rows, "[it was|they were]")
            ),
            Self::ColumnIgnored { column, reason } => write!(f, "column `{column}` is ignored: {reason}"),
            Self::Skipped { what, why, count, first } => {
                write!(
                    f,
                    "skipped {}, the first at {first}: {}",
                    numbered(*count, what),
                    in_number(*count, why)
                )
            }
            Self::CompletionsMissing { requests, given_up: 0 } => {
                f.write_str(&numbered(*requests, WITHOUT_COMPLETION))
            }
            Self::CompletionsMissing { requests, given_up } => write!(
                f,
                "{}; {given_up} of them {}",
                numbered(*requests, WITHOUT_COMPLETION),
                in_number(
                    *given_up,
                    "[was|were] given up, as a later event showed that [its|their] completion is lost"
                )
            ),
            Self::IssuesMissing { completions } => {
                let text =
                    "completion[|s] [belongs|belong] to [a request|requests] whose issue is not in the trace";
                f.write_str(&numbered(*completions, text))
            }
            Self::Lost { format, what, rows } => {
                let rows = numbered(*rows, "row[|s]");
                write!(f, "the format `{format}` cannot hold {what}: those of {rows} are lost")
            }
            Self::Rounded { format, unit, rows } => {
                let rows = numbered(*rows, "row[|s]");
                write!(f, "the format `{format}` holds times to {unit}: those of {rows} are finer")
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
    missing_columns: &'static [MissingColumn],
    applied: Vec<Applied>,
    position: Position,
    integrity: Integrity,
    /// Rows that were handed out.
    rows: u64,
    buffer: RowBuffer,
}

impl OpenTrace {
    /// Wraps `reader` of `format`, opened with `applied`. `guess` describes how the format was found, or is
    /// `None` if it was named.
    pub(crate) fn new(
        reader: Box<dyn TraceReader>,
        format: &dyn TraceFormat,
        guess: Option<String>,
        applied: Vec<Applied>,
        position: Position,
        integrity: Integrity,
    ) -> Self {
        let (missing_columns, format) = (format.missing_columns(), format.name());
        let (rows, buffer) = (0, RowBuffer::default());
        Self { reader, format, guess, missing_columns, applied, position, integrity, rows, buffer }
    }

    /// Returns the same trace as the driver received it: [`arrival`](TraceRecord::arrival) is the issue where
    /// known, and rows come in order of arrival.
    #[must_use]
    pub fn at_issue(self) -> Self {
        Self { reader: Box::new(Issued::new(self.reader)), ..self }
    }

    /// Returns the reading position.
    pub fn position(&self) -> Position {
        self.position.clone()
    }

    /// Returns the next rows that are available. Empty at the end. For callers that read many millions of rows.
    ///
    /// # Errors
    /// If the next row cannot be read.
    pub fn next_rows(&mut self) -> Result<Rows<'_>, TraceError> {
        match self.reader.next_rows(&mut self.buffer) {
            Ok(rows) => {
                self.rows += rows.records.len() as u64;
                Ok(rows)
            }
            Err(error) => Err(self.integrity.explain(error, self.rows)),
        }
    }

    /// Returns the information that the format lacks.
    pub fn missing_columns(&self) -> &'static [MissingColumn] {
        self.missing_columns
    }

    /// Returns the options of the format with the values that were used.
    pub fn applied(&self) -> &[Applied] {
        &self.applied
    }

    /// Name of the format.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// Returns how the format was found, such as `spc, from the first lines`. `None` if it was named.
    pub fn guess(&self) -> Option<&str> {
        self.guess.as_deref()
    }

    /// Returns the metadata of the trace found so far. Device labels may appear with the rows that use them.
    pub fn metadata(&self) -> &Metadata {
        self.reader.metadata()
    }

    /// Returns notes for the user on how the rows so far were changed.
    pub fn notes(&self) -> Vec<Note> {
        let metadata = self.metadata();
        let cut = metadata.is_unfinished().then(|| {
            let omitted = metadata.other.get(OMITTED_KEY);
            let omitted = omitted.map_or_else(String::new, |bytes| {
                format!(". The {bytes} bytes at its end are no complete block and were omitted")
            });
            Note::Remark(Cow::Owned(format!(
                "the trace is cut: its recording was killed, or goes on. Requests of about the last second are missing, \
                 and so are the counts of lost events and the names of processes{omitted}"
            )))
        });
        cut.into_iter().chain(self.reader.notes()).collect()
    }
}

impl Iterator for OpenTrace {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.reader.next()? {
            Ok(record) => {
                self.rows += 1;
                Some(Ok(record))
            }
            Err(error) => Some(Err(self.integrity.explain(error, self.rows))),
        }
    }
}

impl std::fmt::Debug for OpenTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("OpenTrace").field("format", &self.format).field("guess", &self.guess).finish()
    }
}
