//! Counts fields of written rows that a format cannot represent, and refuses rows that would be read back as
//! different requests.
//!
//! # Scope and limits
//! Only fields of rows are counted. An issue or start of service at the arrival itself is no loss, since it
//! means that nothing waited. The first initiator is no loss either, since it also stands for an unknown
//! initiator. Metadata of the whole trace, such as its seed, is not counted.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use seeklab_core::{BufferOutcome, Criticality, Duration, MeasurementPoints, Status, TraceRecord};

use crate::error::{Place, TraceError};
use crate::schema::Column;
use crate::trace_format::{Note, TraceWriter};

/// Fields and precision of a row that a format can represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holds {
    /// Columns.
    pub columns: &'static [Column],
    /// Its unit of time.
    pub unit: Duration,
}

impl Holds {
    /// Everything.
    pub const ALL: Self = Self { columns: &Column::ALL, unit: Duration::from_ns(1) };

    /// Arrivals and addresses on several devices, in units of so many nanoseconds.
    pub(crate) const fn requests(unit_ns: u64) -> Self {
        Self {
            columns: &[Column::ArrivalNs, Column::Device, Column::Op, Column::Lbn, Column::Blocks],
            unit: Duration::from_ns(unit_ns),
        }
    }

    /// The same with completions.
    pub(crate) const fn responses(unit_ns: u64) -> Self {
        Self {
            columns: &[
                Column::ArrivalNs,
                Column::CompletionNs,
                Column::Device,
                Column::Op,
                Column::Lbn,
                Column::Blocks,
            ],
            unit: Duration::from_ns(unit_ns),
        }
    }
}

/// Optional field of a row: its column, its name, and a test for its presence.
type Field = (Column, &'static str, fn(&TraceRecord) -> bool);

const FIELDS: [Field; 15] = [
    (Column::CompletionNs, "response times", |row| row.completion.is_some()),
    (Column::IssueNs, "issue times", |row| row.issue.is_some_and(|issue| issue != row.arrival)),
    (Column::StartNs, "starts of service", |row| row.start.is_some_and(|start| start != row.arrival)),
    (Column::ThinkNs, "think times", |row| row.think.is_some()),
    (Column::QueueLength, "queue lengths", |row| row.queue_length.is_some()),
    (Column::Initiator, "initiators", |row| row.initiator != 0),
    (Column::Fua, "demands to bypass the write cache", |row| row.fua),
    (Column::Criticality, "criticalities", |row| row.criticality != Criticality::default()),
    (Column::BecameTimeCriticalNs, "changes of criticality", |row| !row.became.is_none()),
    (Column::Priority, "priorities", |row| row.priority != 0),
    (Column::Status, "errors", |row| row.status != Status::Ok),
    (Column::OverheadNs, "parts of response times", |row| row.breakdown.is_some()),
    (Column::SeekCylinders, "seek distances", |row| row.seek_cylinders.is_some()),
    (Column::CacheHit, "hits and misses of the buffer", |row| row.buffer != BufferOutcome::None),
    (Column::Mp1ArrivalNs, "measurement points", |row| row.points != MeasurementPoints::NONE),
];

/// A writer that counts what is lost.
pub(crate) struct Counting {
    inner: Box<dyn TraceWriter>,
    path: PathBuf,
    format: &'static str,
    holds: Holds,
    rows: u64,
    lost: [u64; FIELDS.len()],
    rounded: u64,
    /// Device of the first row.
    device: Option<u16>,
}

impl Counting {
    /// `inner` writes that format to `path`, which holds that much.
    pub(crate) fn new(inner: Box<dyn TraceWriter>, format: &'static str, path: &Path, holds: Holds) -> Self {
        let (path, lost) = (path.to_owned(), [0; FIELDS.len()]);
        Self { inner, path, format, holds, rows: 0, lost, rounded: 0, device: None }
    }

    fn holds(&self, column: Column) -> bool {
        self.holds.columns.contains(&column)
    }
}

impl TraceWriter for Counting {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.rows += 1;
        let first = *self.device.get_or_insert(record.device);
        if first != record.device && !self.holds(Column::Device) {
            let what = format!("which device a request addresses: here {}, before {first}", record.device);
            return Err(TraceError::not_representable(self.format, what)
                .at(Place::Row(self.rows))
                .in_file(&self.path)
                .with_hint(
                    "write `csv` or `parquet` instead, or one device of `seeklab trace slice --device`",
                ));
        }
        self.inner.write(record)?;
        for ((_, _, says), lost) in FIELDS.iter().zip(&mut self.lost) {
            *lost += u64::from(says(record));
        }
        let unit = self.holds.unit.as_ns();
        if unit > 1 {
            let completion = record.completion.filter(|_| self.holds(Column::CompletionNs));
            let is_finer = !record.arrival.as_ns().is_multiple_of(unit)
                || completion.is_some_and(|completion| !completion.as_ns().is_multiple_of(unit));
            self.rounded += u64::from(is_finer);
        }
        Ok(())
    }

    fn annotate(&mut self, key: &str, value: &str) -> Result<(), TraceError> {
        self.inner.annotate(key, value)
    }

    fn label(&mut self, device: u16, name: &str) -> Result<(), TraceError> {
        self.inner.label(device, name)
    }

    fn notes(&self) -> Vec<Note> {
        let lost = FIELDS.iter().zip(self.lost).filter(|((column, ..), _)| !self.holds(*column));
        let mut notes: Vec<Note> = lost
            .filter(|(_, rows)| *rows > 0)
            .map(|((_, what, _), rows)| Note::Lost { format: self.format, what: Cow::Borrowed(what), rows })
            .collect();
        if self.rounded > 0 {
            let (format, unit, rows) = (self.format, self.holds.unit, self.rounded);
            notes.push(Note::Rounded { format, unit, rows });
        }
        notes.extend(self.inner.notes());
        notes
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        self.inner.finish()
    }
}
