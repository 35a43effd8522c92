//! Writes a trace as Parquet, batch by batch.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, StringBuilder};
use arrow_array::types::{Int8Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, DictionaryArray, PrimitiveArray, RecordBatch, StringArray, new_null_array,
};
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use seeklab_core::{FaultSet, TraceRecord};
use seeklab_files::OutputFile;
use seeklab_traces::row::Row;
use seeklab_traces::schema::{Column, Content};
use seeklab_traces::{
    Compression, FaultNames, Metadata, Place, TraceError, TraceWriter, check_key, create_file,
};

use crate::cause;
use crate::checksum::{self, Pairs, Spans};
use crate::columns::{data_type, properties, schema};

/// Rows that are turned into columns together.
const BATCH_ROWS: usize = 4_096;

/// Prefix of the keys of seeklab in the key-value metadata.
pub(crate) const KEY_PREFIX: &str = "seeklab.";

/// Writes Parquet.
pub(crate) struct ParquetWriter {
    path: PathBuf,
    /// The file until the first row, which decides on the columns.
    empty: Option<Empty>,
    body: Option<Body>,
    row: Row,
    rows: u64,
    faults: FaultNames,
    /// Checksum of the metadata.
    pairs: Pairs,
}

/// A file without its columns.
struct Empty {
    file: BufWriter<OutputFile>,
    key_values: Vec<KeyValue>,
    faults: FaultNames,
}

/// A file with its columns.
struct Body {
    writer: ArrowWriter<BufWriter<OutputFile>>,
    schema: Arc<Schema>,
    columns: &'static [Column],
    buffers: Vec<Buffer>,
    buffered: usize,
}

/// The values of one column that are yet to be written.
struct Buffer {
    column: Column,
    /// A value for each row, or nothing if every one is null.
    values: Vec<u64>,
    /// True for each row whose value is not null. Empty if every value is null, or none is.
    valid: Vec<bool>,
    /// Number of values that are not null.
    present: usize,
    /// The names, for a column of names.
    names: Option<Arc<StringArray>>,
    /// Names of the faults of the trace.
    faults: FaultNames,
    /// Checksums of what was written.
    spans: Spans,
}

impl ParquetWriter {
    pub(crate) fn create(path: &Path, metadata: &Metadata) -> Result<Self, TraceError> {
        let pairs = metadata.to_pairs().map_err(|problem| TraceError::invalid(problem).in_file(path))?;
        if Compression::of_path(path).0 != Compression::None {
            return Err(TraceError::malformed("Parquet compresses its columns itself")
                .in_file(path)
                .with_hint("end the file name in `.parquet`"));
        }
        let file = BufWriter::with_capacity(64 * 1024, create_file(path, metadata)?);
        let faults = metadata.faults.clone();
        let empty = Some(Empty { file, key_values: Vec::new(), faults: faults.clone() });
        let (path, row, pairs_so_far) = (path.to_owned(), Row::default(), Pairs::default());
        let mut this = Self { path, empty, body: None, row, rows: 0, faults, pairs: pairs_so_far };
        for (key, value) in pairs {
            this.say(&key, &value);
        }
        Ok(this)
    }

    /// Adds to the metadata.
    fn say(&mut self, key: &str, value: &str) {
        self.pairs.add(key, value);
        self.append(key, value);
    }

    /// Adds to the keys of the footer.
    fn append(&mut self, key: &str, value: &str) {
        let pair = KeyValue::new(format!("{KEY_PREFIX}{key}"), value.to_owned());
        match (&mut self.empty, &mut self.body) {
            (Some(empty), _) => empty.key_values.push(pair),
            (None, Some(body)) => body.writer.append_key_value_metadata(pair),
            (None, None) => {}
        }
    }

    /// The body, begun with `columns` if it is not yet.
    fn body(&mut self, columns: &'static [Column]) -> Result<&mut Body, TraceError> {
        if let Some(empty) = self.empty.take() {
            let body = Body::begin(empty, columns).map_err(|error| failed(error, &self.path))?;
            self.body = Some(body);
        }
        let gone = || TraceError::malformed("the file could not be begun").in_file(&self.path);
        self.body.as_mut().ok_or_else(gone)
    }
}

fn failed(error: ParquetError, path: &Path) -> TraceError {
    TraceError::malformed("cannot write the file").with_source(cause(error)).in_file(path)
}

impl Body {
    fn begin(empty: Empty, columns: &'static [Column]) -> Result<Self, ParquetError> {
        let schema = schema(columns);
        let writer =
            ArrowWriter::try_new(empty.file, Arc::clone(&schema), Some(properties(empty.key_values)))?;
        let buffers = columns.iter().map(|column| Buffer::new(*column, &empty.faults)).collect();
        Ok(Self { writer, schema, columns, buffers, buffered: 0 })
    }

    fn push(&mut self, row: &Row) -> Result<(), ParquetError> {
        for buffer in &mut self.buffers {
            buffer.push(self.buffered, row.get(buffer.column));
        }
        self.buffered += 1;
        if self.buffered == BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.buffered == 0 {
            return Ok(());
        }
        for buffer in &mut self.buffers {
            buffer.spans.add(&buffer.values, &buffer.valid, self.buffered);
        }
        let arrays = self.buffers.iter_mut().map(|buffer| buffer.take(self.buffered)).collect();
        self.buffered = 0;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays)?;
        self.writer.write(&batch)
    }
}

impl TraceWriter for ParquetWriter {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.rows += 1;
        let before = self.body.as_ref().map_or(&[][..], |body| body.columns);
        let columns = self.row.set_record(record).and_then(|()| self.row.columns_after(before));
        // Names are looked up when a batch is written.
        let named = if record.faults.is_empty() { Ok(()) } else { self.faults.text(record.faults).map(drop) };
        let columns = named
            .and(columns)
            .map_err(|problem| TraceError::invalid(problem).at(Place::Row(self.rows)).in_file(&self.path))?;
        self.body(columns)?;
        let body = self.body.as_mut().expect("it has just begun");
        body.push(&self.row).map_err(|error| failed(error, &self.path))
    }

    fn annotate(&mut self, key: &str, value: &str) -> Result<(), TraceError> {
        check_key(key).map_err(|problem| TraceError::invalid(problem).in_file(&self.path))?;
        self.say(key, value);
        Ok(())
    }

    fn label(&mut self, device: u16, name: &str) -> Result<(), TraceError> {
        self.say(&format!("label.{device}"), name);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), TraceError> {
        let flushed = self.body(Column::written(false))?.flush();
        flushed.map_err(|error| failed(error, &self.path))?;
        let buffers = self.body.iter().flat_map(|body| &body.buffers);
        let values = checksum::text(self.rows, buffers.map(|buffer| (buffer.column.name(), &buffer.spans)));
        let metadata = self.pairs.text();
        self.append(checksum::KEY, &values);
        self.append(checksum::METADATA_KEY, &metadata);
        let (path, body) = (self.path, self.body.expect("it was just flushed"));
        let file = body.writer.into_inner().map_err(|error| failed(error, &path))?;
        let file = file
            .into_inner()
            .map_err(|error| TraceError::io("cannot write the file", error.into_error()).in_file(&path))?;
        Ok(file.finish()?)
    }
}

impl Buffer {
    fn new(column: Column, faults: &FaultNames) -> Self {
        let names = match column.content() {
            Content::Name(names) => Some(Arc::new(StringArray::from(names.to_vec()))),
            _ => None,
        };
        let (values, valid) = (Vec::with_capacity(BATCH_ROWS), Vec::with_capacity(BATCH_ROWS));
        let (faults, spans) = (faults.clone(), Spans::default());
        Self { column, values, valid, present: 0, names, faults, spans }
    }

    /// Adds the value of a row after `rows` others.
    fn push(&mut self, rows: usize, value: Option<u64>) {
        if value.is_none() && self.present == 0 {
            return;
        }
        if self.present == 0 && rows > 0 {
            self.values.resize(rows, 0);
            self.valid.resize(rows, false);
        }
        if value.is_none() && self.valid.is_empty() {
            self.valid.resize(rows, true);
        }
        self.values.push(value.unwrap_or(0));
        if !self.valid.is_empty() || value.is_none() {
            self.valid.push(value.is_some());
        }
        self.present += usize::from(value.is_some());
    }

    /// The values as an array; the buffer is empty then.
    fn take(&mut self, rows: usize) -> ArrayRef {
        let array = match self.column.content() {
            _ if self.present == 0 => new_null_array(&data_type(self.column), rows),
            Content::Number(max) if max > u64::from(u32::MAX) => {
                Arc::new(self.primitive::<UInt64Type>(|v| v))
            }
            Content::Number(max) if max > u64::from(u16::MAX) => {
                Arc::new(self.primitive::<UInt32Type>(|v| v as u32))
            }
            Content::Number(max) if max > u64::from(u8::MAX) => {
                Arc::new(self.primitive::<UInt16Type>(|v| v as u16))
            }
            Content::Number(_) => Arc::new(self.primitive::<UInt8Type>(|v| v as u8)),
            Content::Flag => {
                let mut flags = BooleanBuilder::with_capacity(rows);
                for value in self.optional() {
                    flags.append_option(value.map(|value| value == 1));
                }
                Arc::new(flags.finish())
            }
            Content::Faults => {
                let mut texts = StringBuilder::new();
                for value in self.optional() {
                    let text = value.map(|bits| self.faults.text(FaultSet::from_bits(bits as u32)));
                    texts.append_option(text.map(|text| text.expect("the row was checked")));
                }
                Arc::new(texts.finish())
            }
            Content::Name(_) => {
                let keys = self.primitive::<Int8Type>(|code| code as i8);
                let names = Arc::clone(self.names.as_ref().expect("a column of names has its names"));
                Arc::new(DictionaryArray::new(keys, names))
            }
        };
        self.values.clear();
        self.valid.clear();
        self.present = 0;
        array
    }

    /// The values, if any is not null.
    fn optional(&self) -> impl Iterator<Item = Option<u64>> {
        let valid = self.valid.iter().copied().chain(std::iter::repeat(true));
        self.values.iter().zip(valid).map(|(value, valid)| valid.then_some(*value))
    }

    /// Numbers or codes, which the row has checked to fit.
    fn primitive<T: ArrowPrimitiveType>(&self, narrow: impl Fn(u64) -> T::Native) -> PrimitiveArray<T> {
        if self.valid.is_empty() {
            return PrimitiveArray::from_iter_values(self.values.iter().map(|value| narrow(*value)));
        }
        self.optional().map(|value| value.map(&narrow)).collect()
    }
}
