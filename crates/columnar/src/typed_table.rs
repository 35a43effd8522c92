//! Tables of typed rows as Parquet: the files of a system-level trace.
//!
//! The columns are those that the row type declares. Numbers are 64 bits wide, and names are text, so other programs read
//! the files as they are.

use std::fs::File;
use std::io::BufWriter;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use seeklab_files::OutputFile;
use seeklab_traces::system::table::{Cell, CellContent, TableRow};
use seeklab_traces::{Place, Problem, TraceError};

use crate::cause;
use crate::writer::KEY_PREFIX;

/// Rows that are turned into columns together.
const BATCH_ROWS: usize = 4_096;
/// Rows of a row group.
const GROUP_ROWS: usize = 262_144;
/// Key of the version of the tables.
const VERSION_KEY: &str = "tables_version";

/// Writes a table of rows. The file takes its name when it is finished.
pub struct TypedTableWriter<R> {
    path: PathBuf,
    writer: ArrowWriter<BufWriter<OutputFile>>,
    schema: Arc<Schema>,
    cells: Vec<Cell>,
    buffered: usize,
    rows: u64,
    row: PhantomData<fn(R)>,
}

/// Reads a table of rows.
pub struct TypedTableReader<R> {
    path: PathBuf,
    batches: ParquetRecordBatchReader,
    /// Place of each column of the row type in the file. Columns that were added later are absent.
    columns: Vec<Option<usize>>,
    batch: Option<RecordBatch>,
    next: usize,
    rows: u64,
    row_count: u64,
    row: PhantomData<fn() -> R>,
}

fn schema<R: TableRow>() -> Arc<Schema> {
    let fields = R::COLUMNS.iter().map(|column| {
        let content = match column.content {
            CellContent::Number => DataType::UInt64,
            CellContent::Signed => DataType::Int64,
            CellContent::Text => DataType::Utf8,
        };
        Field::new(column.name, content, column.is_optional)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn failed(what: &str, error: ParquetError, path: &Path) -> TraceError {
    TraceError::malformed(format!("cannot {what} the table")).with_source(cause(error)).in_file(path)
}

impl<R: TableRow> TypedTableWriter<R> {
    /// Begins the table at `path`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path, version: u32) -> Result<Self, TraceError> {
        let file = BufWriter::with_capacity(64 * 1024, OutputFile::create(path)?);
        let pairs = [("table", R::TABLE.to_owned()), (VERSION_KEY, version.to_string())];
        let pairs = pairs.map(|(key, value)| KeyValue::new(format!("{KEY_PREFIX}{key}"), value));
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("seeklab ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(pairs.to_vec()))
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_dictionary_enabled(false);
        for column in R::COLUMNS {
            let path = ColumnPath::from(column.name);
            properties = match column.content {
                CellContent::Text => properties.set_column_dictionary_enabled(path, true),
                _ => properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            };
        }
        let schema = schema::<R>();
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties.build()))
            .map_err(|error| failed("begin", error, path))?;
        Ok(Self {
            path: path.to_owned(),
            writer,
            schema,
            cells: Vec::new(),
            buffered: 0,
            rows: 0,
            row: PhantomData,
        })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, row: &R) -> Result<(), TraceError> {
        row.put(&mut self.cells);
        self.buffered += 1;
        self.rows += 1;
        if self.buffered == BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        if self.buffered == 0 {
            return Ok(());
        }
        let width = R::COLUMNS.len();
        let column = |index: usize| -> ArrayRef {
            let cells = self.cells.iter().skip(index).step_by(width);
            match R::COLUMNS[index].content {
                CellContent::Number => Arc::new(
                    cells
                        .map(|cell| if let Cell::Number(number) = cell { Some(*number) } else { None })
                        .collect::<UInt64Array>(),
                ),
                CellContent::Signed => Arc::new(
                    cells
                        .map(|cell| if let Cell::Signed(number) = cell { Some(*number) } else { None })
                        .collect::<Int64Array>(),
                ),
                CellContent::Text => Arc::new(
                    cells
                        .map(|cell| if let Cell::Text(text) = cell { Some(text.as_ref()) } else { None })
                        .collect::<StringArray>(),
                ),
            }
        };
        let columns = (0..width).map(column).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(ParquetError::from);
        let written = batch.and_then(|batch| self.writer.write(&batch));
        self.cells.clear();
        self.buffered = 0;
        written.map_err(|error| failed("write", error, &self.path))
    }

    /// Gives the complete table its name. Returns the number of rows.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> Result<u64, TraceError> {
        self.flush()?;
        let Self { path, writer, rows, .. } = self;
        let file = writer.into_inner().map_err(|error| failed("write", error, &path))?;
        let file = file
            .into_inner()
            .map_err(|error| TraceError::io("cannot write the table", error.into_error()).in_file(&path))?;
        file.finish()?;
        Ok(rows)
    }
}

/// Calls the library, which panics on some damaged files.
fn guarded<T>(call: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(ParquetError::General("the file is damaged".to_owned())))
}

/// Number of rows of any Parquet file.
///
/// # Errors
/// If the file cannot be read or is no Parquet file.
pub fn row_count(path: &Path) -> Result<u64, TraceError> {
    Ok(count_rows(builder(path)?.metadata()))
}

fn builder(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>, TraceError> {
    let file =
        File::open(path).map_err(|error| TraceError::io("cannot open the table", error).in_file(path))?;
    guarded(|| ParquetRecordBatchReaderBuilder::try_new(file)).map_err(|error| failed("read", error, path))
}

fn count_rows(metadata: &ParquetMetaData) -> u64 {
    metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).sum()
}

impl<R: TableRow> TypedTableReader<R> {
    /// Opens the table at `path`.
    ///
    /// # Errors
    /// If the file cannot be read, is no table of these rows, or has another version.
    pub fn open(path: &Path, version: u32) -> Result<Self, TraceError> {
        let builder = builder(path)?;
        let pairs = builder.metadata().file_metadata().key_value_metadata();
        let value = |key: &str| {
            let key = format!("{KEY_PREFIX}{key}");
            pairs?.iter().find(|pair| pair.key == key)?.value.clone()
        };
        let invalid = |problem| Err(TraceError::invalid(problem).in_file(path));
        match value("table") {
            Some(table) if table == R::TABLE => {}
            table => {
                let found = table.unwrap_or_default();
                return invalid(Problem::new("table", found, format!("`{}` is expected", R::TABLE)));
            }
        }
        match value(VERSION_KEY) {
            Some(found) if found == version.to_string() => {}
            found => {
                let found = found.unwrap_or_default();
                let problem = Problem::new(VERSION_KEY, found, format!("this program reads {version}"));
                return invalid(problem.hint("record the trace again"));
            }
        }
        let expected = schema::<R>();
        let fields = |schema: &Schema| -> Vec<(String, DataType)> {
            schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
        };
        let columns = places::<R>(&fields(builder.schema()), &fields(&expected));
        let Some(columns) = columns else {
            let names: Vec<_> = builder.schema().fields().iter().map(|field| field.name().as_str()).collect();
            let problem = format!("the columns of `{}` in version {version} are expected", R::TABLE);
            return invalid(Problem::new("columns", names.join(","), problem));
        };
        let row_count = count_rows(builder.metadata());
        let batches = guarded(|| builder.with_batch_size(BATCH_ROWS).build())
            .map_err(|error| failed("read", error, path))?;
        let path = path.to_owned();
        Ok(Self { path, batches, columns, batch: None, next: 0, rows: 0, row_count, row: PhantomData })
    }

    /// Number of rows of the table.
    pub const fn row_count(&self) -> u64 {
        self.row_count
    }

    fn read(&mut self) -> Result<Option<R>, TraceError> {
        loop {
            if let Some(batch) = &self.batch
                && self.next < batch.num_rows()
            {
                let index = self.next;
                self.next += 1;
                self.rows += 1;
                let value = |place: &Option<usize>| {
                    place.map_or(Cell::Null, |place| cell(batch.column(place), index))
                };
                let cells: Vec<Cell> = self.columns.iter().map(value).collect();
                return R::take(&cells).map(Some).map_err(|problem| {
                    let problem = Problem::new(R::TABLE, format!("row {}", self.rows), problem);
                    TraceError::invalid(problem).at(Place::Row(self.rows)).in_file(&self.path)
                });
            }
            let next = guarded(|| self.batches.next().transpose().map_err(ParquetError::from));
            match next.map_err(|error| failed("read", error, &self.path))? {
                Some(batch) => (self.batch, self.next) = (Some(batch), 0),
                None => return Ok(None),
            }
        }
    }
}

/// The place of each expected column in a file. `None` if one that a row cannot do without is missing, or the file has
/// another column or order.
fn places<R: TableRow>(
    found: &[(String, DataType)],
    expected: &[(String, DataType)],
) -> Option<Vec<Option<usize>>> {
    let mut next = 0;
    let places = expected.iter().zip(R::COLUMNS).map(|(expected, column)| {
        let is_there = found.get(next) == Some(expected);
        next += usize::from(is_there);
        (is_there || column.is_optional).then_some(is_there.then(|| next - 1))
    });
    let places: Option<Vec<_>> = places.collect();
    places.filter(|_| next == found.len())
}

fn cell(column: &ArrayRef, index: usize) -> Cell {
    if column.is_null(index) {
        return Cell::Null;
    }
    match column.data_type() {
        DataType::UInt64 => Cell::Number(column.as_primitive::<UInt64Type>().value(index)),
        DataType::Int64 => Cell::Signed(column.as_primitive::<Int64Type>().value(index)),
        _ => Cell::Text(column.as_string::<i32>().value(index).to_owned().into()),
    }
}

impl<R: TableRow> Iterator for TypedTableReader<R> {
    type Item = Result<R, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read().transpose();
        if let Some(Err(_)) = &read {
            // Nothing behind an error can be trusted.
            self.batch = None;
            self.next = 0;
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use seeklab_traces::system::tables::{LossRow, TABLES_VERSION, WaitRow};
    use seeklab_traces::system::{WaitCause, Waker};

    use super::*;

    fn row(number: u64) -> WaitRow {
        WaitRow {
            thread: 7,
            begin_ns: number,
            wait_ns: u64::MAX - number,
            ready_ns: 0,
            cause: WaitCause::ALL[number as usize % WaitCause::ALL.len()],
            call: number.is_multiple_of(2).then_some(9),
            waker: Waker::Timer,
            waker_thread: None,
            device: Some(1),
            sector: number.is_multiple_of(3).then_some(number),
        }
    }

    #[test]
    fn rows_come_back_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("waits.parquet");
        let rows: Vec<WaitRow> = (0..10_000).map(row).collect();
        let mut writer = TypedTableWriter::create(&path, TABLES_VERSION).unwrap();
        rows.iter().for_each(|row| writer.write(row).unwrap());
        assert!(!path.exists(), "the file takes its name at the end");
        assert_eq!(writer.finish().unwrap(), 10_000);
        let read: Result<Vec<WaitRow>, _> = TypedTableReader::open(&path, TABLES_VERSION).unwrap().collect();
        assert_eq!(read.unwrap(), rows);
    }

    #[test]
    fn optional_columns_may_be_absent_and_others_may_not() {
        let fields = |names: &[&str]| -> Vec<(String, DataType)> {
            let columns = WaitRow::COLUMNS.iter().filter(|column| !names.contains(&column.name));
            let kind = |content| match content {
                CellContent::Number => DataType::UInt64,
                CellContent::Signed => DataType::Int64,
                CellContent::Text => DataType::Utf8,
            };
            columns.map(|column| (column.name.to_owned(), kind(column.content))).collect()
        };
        let all = fields(&[]);
        let places = |found: &[(String, DataType)]| places::<WaitRow>(found, &all);
        assert_eq!(places(&all), Some((0..all.len()).map(Some).collect()));
        let without = places(&fields(&["call", "sector"])).unwrap();
        let absent: Vec<&str> = all
            .iter()
            .zip(&without)
            .filter(|(_, place)| place.is_none())
            .map(|(field, _)| field.0.as_str())
            .collect();
        assert_eq!(absent, ["call", "sector"]);
        assert_eq!(
            without.iter().flatten().copied().collect::<Vec<_>>(),
            (0..all.len() - 2).collect::<Vec<_>>()
        );
        assert_eq!(places(&fields(&["begin_ns"])), None, "a row needs it");
        let mut more = all.clone();
        more.push(("other".to_owned(), DataType::UInt64));
        assert_eq!(places(&more), None, "a column that is not known");
        let mut turned = all.clone();
        turned.swap(0, 1);
        assert_eq!(places(&turned), None, "another order");
    }

    #[test]
    fn another_table_version_or_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("waits.parquet");
        let mut writer = TypedTableWriter::create(&path, 1).unwrap();
        writer.write(&row(1)).unwrap();
        writer.finish().unwrap();
        let refused = |version| TypedTableReader::<WaitRow>::open(&path, version).err().unwrap().to_string();
        assert!(refused(2).contains("tables_version is `1`: this program reads 2"), "{}", refused(2));
        let other = TypedTableReader::<LossRow>::open(&path, 1).err().unwrap().to_string();
        assert!(other.contains("table is `waits`: `losses` is expected"), "{other}");
        std::fs::write(&path, b"PAR1 and nothing else PAR1").unwrap();
        assert!(TypedTableReader::<WaitRow>::open(&path, 1).is_err());
        assert!(TypedTableReader::<WaitRow>::open(&folder.path().join("absent"), 1).is_err());
    }
}
