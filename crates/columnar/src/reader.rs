//! Reads a trace from Parquet, batch by batch.
//!
//! Where few columns are wanted, rows are made some hundred at a time and column by column; else each from its
//! columns by [`Row`].
//!
//! # Scope and limits
//! The library beneath panics on some damaged files (version 60: a subtraction that overflows, among
//! others); what it panics with becomes an error here, though its message still reaches standard
//! error.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use seeklab_core::number_words::counted;
use seeklab_core::{Instant, Operation, TraceRecord};
use seeklab_traces::row::Row;
use seeklab_traces::schema::Column;
use seeklab_traces::{
    Metadata, Note, Place, Position, Problem, ReadOptions, RowBuffer, Rows, Source, TraceError, TraceReader,
};

use crate::batch::Values;
use crate::cause;
use crate::checksum::{self, Check, Pairs};
use crate::direct;
use crate::parquet_format::MAGIC;
use crate::writer::KEY_PREFIX;

/// Rows that are decoded together.
const BATCH_ROWS: usize = 4_096;

/// Rows that are made together where that is done column by column; they stay in the processor's cache.
const CHUNK_ROWS: usize = 256;

/// Columns from which an absent completion can be computed.
const COMPLETION_FROM: [Column; 4] =
    [Column::StartNs, Column::ResponseNs, Column::QueueNs, Column::ServiceNs];

/// Reads Parquet.
pub(crate) struct ParquetReader {
    path: PathBuf,
    batches: ParquetRecordBatchReader,
    columns: Vec<Values>,
    /// Checksums, if the file has them.
    check: Option<Check>,
    metadata: Metadata,
    notes: Vec<Note>,
    row: Row,
    /// Rows of the batch, and of those how many are handed out.
    batch_rows: usize,
    next: usize,
    /// Rows made in all.
    rows: u64,
    at_end: bool,
    /// Rows that were made together and are yet to be handed out; `None` where each is made alone.
    chunk: Option<Chunk>,
    position: Position,
}

/// Rows that were made together.
struct Chunk {
    /// Valid records, followed by unused ones.
    records: Vec<TraceRecord>,
    /// Records handed out so far. `end` counts all valid records.
    next: usize,
    end: usize,
    /// Error of the row after the records.
    failure: Option<TraceError>,
}

impl ParquetReader {
    pub(crate) fn open(source: Source, options: &ReadOptions) -> Result<Self, TraceError> {
        let (path, position) = (source.path().to_owned(), source.position());
        let mut file = source.into_file()?;
        check_ends(&mut file).map_err(|error| error.in_file(&path))?;
        let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file)).map_err(|error| {
            TraceError::malformed("the footer of the Parquet file is damaged")
                .with_source(cause(error))
                .in_file(&path)
        })?;
        check_codecs(&builder).map_err(|error| error.in_file(&path))?;
        let wanted = wanted(&builder, options.columns);
        let (mut roots, mut names, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for (index, field) in builder.schema().fields().iter().enumerate() {
            let name = field.name();
            if let Some(column) = Column::from_name(name) {
                if wanted.contains(&column) {
                    roots.push(index);
                    names.push(name.clone());
                }
                continue;
            }
            notes.push(Note::ColumnIgnored { column: name.clone(), reason: Column::advice(name).into() });
        }
        if let Some(missing) =
            Column::REQUIRED.iter().find(|column| !names.iter().any(|name| name == column.name()))
        {
            let found: Vec<_> = builder.schema().fields().iter().map(|field| field.name().as_str()).collect();
            let problem = format!("the column `{}` is missing; every trace needs it", missing.name());
            return Err(TraceError::invalid(Problem::new("list of columns", found.join(", "), problem))
                .in_file(&path));
        }
        let (metadata, checksums) = read_metadata(&builder, options).map_err(|error| error.in_file(&path))?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        position.restart(u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0));
        let batches = guarded(|| builder.with_batch_size(BATCH_ROWS).with_projection(mask).build()).map_err(
            |error| {
                TraceError::malformed("the Parquet file is damaged").with_source(cause(error)).in_file(&path)
            },
        )?;
        let columns: Vec<Column> = names.iter().filter_map(|name| Column::from_name(name)).collect();
        let chunk = direct::is_direct(columns.iter().copied()).then(Chunk::default);
        let check = checksums.map(|text| Check::new(&text, &columns)).transpose();
        let check = check.map_err(|problem| TraceError::invalid(problem).in_file(&path))?;
        Ok(Self {
            path,
            batches,
            columns: columns.into_iter().map(|column| Values::new(column, &metadata.faults)).collect(),
            check,
            metadata,
            notes,
            row: Row::default(),
            batch_rows: 0,
            next: 0,
            rows: 0,
            at_end: false,
            chunk,
            position,
        })
    }

    fn next_batch(&mut self) -> Result<bool, TraceError> {
        let batch = guarded(|| self.batches.next().transpose().map_err(ParquetError::from));
        let batch: Option<RecordBatch> = batch.map_err(|error| {
            let what =
                format!("the Parquet file is damaged, after {} could be read", counted(self.rows, "row"));
            TraceError::malformed(what).with_source(cause(error)).in_file(&self.path)
        })?;
        let Some(batch) = batch else {
            let ended = self.check.as_ref().map_or(Ok(()), Check::end);
            return ended.map(|()| false).map_err(|error| error.in_file(&self.path));
        };
        self.position.advance(batch.num_rows() as u64);
        // The projection keeps the order of the file, which is that of `columns`.
        for (number, (values, array)) in self.columns.iter_mut().zip(batch.columns()).enumerate() {
            values.fill(array.as_ref()).map_err(|(row, problem)| {
                let error = TraceError::invalid(problem).in_file(&self.path);
                match row {
                    Some(row) => error.at(Place::Row(self.rows + row as u64 + 1)),
                    None => error,
                }
            })?;
            if let Some(check) = &mut self.check {
                check
                    .add(number, &values.numbers, &values.valid, batch.num_rows())
                    .map_err(|error| error.in_file(&self.path))?;
            }
        }
        self.batch_rows = batch.num_rows();
        self.next = 0;
        Ok(true)
    }

    /// The next row, made alone.
    fn make_row(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        while self.next == self.batch_rows {
            if !self.next_batch()? {
                return Ok(None);
            }
        }
        let index = self.next;
        self.row.clear();
        for values in &self.columns {
            if !values.is_null() && (values.all_valid || values.valid[index]) {
                self.row.set(values.column, values.numbers[index]);
            }
        }
        self.next += 1;
        self.rows += 1;
        match self.row.to_record() {
            Ok(record) => Ok(Some(record)),
            Err(problem) => Err(TraceError::invalid(problem).at(Place::Row(self.rows)).in_file(&self.path)),
        }
    }

    /// Makes the next rows together; none at the end, or where the next cannot be made.
    fn fill(&mut self, chunk: &mut Chunk) -> Result<(), TraceError> {
        (chunk.next, chunk.end) = (0, 0);
        if let Some(failure) = chunk.failure.take() {
            return Err(failure);
        }
        while self.next == self.batch_rows {
            if !self.next_batch()? {
                return Ok(());
            }
        }
        let rows = self.next..self.batch_rows.min(self.next + CHUNK_ROWS);
        if direct::fill(&self.columns, rows.clone(), &mut chunk.records[..rows.len()]) {
            chunk.end = rows.len();
            self.next = rows.end;
            self.rows += rows.len() as u64;
            return Ok(());
        }
        // A look at each row tells what is wrong with which, and makes those that are right all the same.
        while self.next < rows.end {
            match self.make_row() {
                Ok(Some(record)) => {
                    chunk.records[chunk.end] = record;
                    chunk.end += 1;
                }
                Ok(None) => break,
                Err(failure) if chunk.end == 0 => return Err(failure),
                Err(failure) => {
                    chunk.failure = Some(failure);
                    break;
                }
            }
        }
        Ok(())
    }

    fn next_row(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        let Some(mut chunk) = self.chunk.take() else { return self.make_row() };
        let filled = if chunk.next < chunk.end { Ok(()) } else { self.fill(&mut chunk) };
        let record = chunk.records[..chunk.end].get(chunk.next).copied();
        chunk.next += usize::from(record.is_some());
        self.chunk = Some(chunk);
        filled.map(|()| record)
    }
}

impl Default for Chunk {
    fn default() -> Self {
        let record = TraceRecord::new(Instant::ZERO, Operation::Read, 0, 0);
        Self { records: vec![record; CHUNK_ROWS], next: 0, end: 0, failure: None }
    }
}

/// Returns the columns to read for the requested columns.
fn wanted(builder: &ParquetRecordBatchReaderBuilder<File>, asked: &[Column]) -> Vec<Column> {
    let mut wanted = [asked, &Column::REQUIRED].concat();
    // What seeklab writes has a completion wherever one is known.
    let is_ours =
        builder.metadata().file_metadata().created_by().is_some_and(|by| by.starts_with("seeklab "));
    if !is_ours && wanted.contains(&Column::CompletionNs) {
        wanted.extend(COMPLETION_FROM);
    }
    wanted
}

impl Iterator for ParquetReader {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at_end {
            return None;
        }
        let item = self.next_row().transpose();
        self.at_end = !matches!(item, Some(Ok(_)));
        item
    }
}

impl TraceReader for ParquetReader {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn notes(&self) -> Vec<Note> {
        self.notes.clone()
    }

    fn next_rows<'a>(&'a mut self, buffer: &'a mut RowBuffer) -> Result<Rows<'a>, TraceError> {
        let Some(mut chunk) = self.chunk.take() else {
            return Ok(Rows { records: buffer.fill(self)?, metadata: &self.metadata });
        };
        let is_empty = chunk.next == chunk.end && !self.at_end;
        let filled = if is_empty { self.fill(&mut chunk) } else { Ok(()) };
        let rows = chunk.next..chunk.end;
        chunk.next = chunk.end;
        self.at_end |= filled.is_err() || rows.is_empty();
        let chunk = self.chunk.insert(chunk);
        filled?;
        Ok(Rows { records: &chunk.records[rows], metadata: &self.metadata })
    }
}

/// Returns the result of `read` and turns a panic into an error. After an error, the source of `read` is not
/// used again.
fn guarded<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        Err(ParquetError::General(format!("the Parquet library panicked: {text}")))
    })
}

/// Checks both ends of the file, for a file that was cut short lacks its footer.
fn check_ends(file: &mut File) -> Result<(), TraceError> {
    let mut read = |from: SeekFrom| -> std::io::Result<[u8; 4]> {
        let mut ends = [0; 4];
        file.seek(from)?;
        file.read_exact(&mut ends)?;
        Ok(ends)
    };
    let begin = read(SeekFrom::Start(0)).ok();
    let end = read(SeekFrom::End(-4)).ok();
    file.rewind().map_err(|error| TraceError::io("cannot go back in the file", error))?;
    if begin.as_ref() != Some(MAGIC) {
        return Err(TraceError::malformed("it is not a Parquet file, which begins with `PAR1`"));
    }
    if end.as_ref() != Some(MAGIC) {
        return Err(TraceError::malformed("the file ends early: a Parquet file ends with `PAR1`")
            .with_hint("copy or download the file again; it was cut short"));
    }
    Ok(())
}

/// Checks that the columns are compressed as this crate can read.
fn check_codecs(builder: &ParquetRecordBatchReaderBuilder<File>) -> Result<(), TraceError> {
    let mut columns = builder.metadata().row_groups().iter().flat_map(|group| group.columns());
    let other = columns.find_map(|column| match column.compression() {
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_) => None,
        other => Some(other),
    });
    match other {
        None => Ok(()),
        Some(other) => {
            let codec = other.to_string();
            let codec = codec.split('(').next().unwrap_or_default();
            let what =
                format!("its columns are compressed with `{codec}`; zstd, snappy and none can be read");
            Err(TraceError::malformed(what).with_hint("write the file again, compressed with zstd"))
        }
    }
}

/// The metadata, and the checksums of the columns, if the file states them.
fn read_metadata(
    builder: &ParquetRecordBatchReaderBuilder<File>,
    options: &ReadOptions,
) -> Result<(Metadata, Option<String>), TraceError> {
    let mut metadata = Metadata { block_size: options.block_size_or_default(), ..Metadata::default() };
    let pairs = builder.metadata().file_metadata().key_value_metadata();
    let (mut checksums, mut stated, mut found) = (None, None, Pairs::default());
    for pair in pairs.into_iter().flatten() {
        let (Some(key), Some(value)) = (pair.key.strip_prefix(KEY_PREFIX), &pair.value) else { continue };
        match key {
            checksum::KEY => {
                checksums = Some(value.clone());
                continue;
            }
            checksum::METADATA_KEY => {
                stated = Some(value.as_str());
                continue;
            }
            _ => found.add(key, value),
        }
        metadata.set(key, value).map_err(TraceError::invalid)?;
    }
    // A file has both keys or none.
    if stated.map_or(checksums.is_some(), |stated| stated != found.text()) {
        return Err(TraceError::malformed(
            "the Parquet file is damaged: its metadata differ from their checksum",
        ));
    }
    if let Some(requested) = options.block_size.filter(|requested| *requested != metadata.block_size) {
        let problem = format!("it disagrees with the requested {requested}");
        let problem = Problem::new("block_size", metadata.block_size.to_string(), problem);
        return Err(TraceError::invalid(problem));
    }
    Ok((metadata, checksums))
}
