//! Writes a trace as Parquet, batch by batch.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::BooleanBuilder;
use arrow_array::types::{Int8Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, DictionaryArray, PrimitiveArray, RecordBatch, StringArray, new_null_array,
};
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use seeklab_core::TraceRecord;
use seeklab_traces::row::Row;
use seeklab_traces::schema::{Column, Content};
use seeklab_traces::{Compression, Metadata, OutputFile, Place, TraceError, TraceWriter};

use crate::columns::{data_type, properties, schema};

/// Rows that are turned into columns together.
const BATCH_ROWS: usize = 4_096;

/// Prefix of the keys of seeklab in the key-value metadata.
pub(crate) const KEY_PREFIX: &str = "seeklab.";

/// Writes Parquet.
pub(crate) struct ParquetWriter {
    path: PathBuf,
    writer: ArrowWriter<BufWriter<OutputFile>>,
    schema: Arc<Schema>,
    row: Row,
    columns: Vec<Buffer>,
    buffered: usize,
    rows: u64,
}

/// The values of one column that are yet to be written.
struct Buffer {
    column: Column,
    values: Vec<u64>,
    valid: Vec<bool>,
    /// How many are not null.
    present: usize,
    /// The names, for a column of names.
    names: Option<Arc<StringArray>>,
}

impl ParquetWriter {
    pub(crate) fn create(path: &Path, metadata: &Metadata) -> Result<Self, TraceError> {
        let pairs = metadata.to_pairs().map_err(|problem| TraceError::invalid(problem).in_file(path))?;
        let pairs = pairs
            .into_iter()
            .map(|(key, value)| KeyValue::new(format!("{KEY_PREFIX}{key}"), value))
            .collect();
        if Compression::of_path(path).0 != Compression::None {
            return Err(TraceError::malformed("Parquet compresses its columns itself")
                .in_file(path)
                .with_hint("end the file name in `.parquet`"));
        }
        let schema = schema();
        let file = BufWriter::with_capacity(64 * 1024, OutputFile::create(path)?);
        let writer =
            ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties(pairs))).map_err(|error| {
                TraceError::malformed("cannot begin the file").with_source(error).in_file(path)
            })?;
        let columns = Column::ALL.map(Buffer::new).into();
        Ok(Self { path: path.to_owned(), writer, schema, row: Row::default(), columns, buffered: 0, rows: 0 })
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        if self.buffered == 0 {
            return Ok(());
        }
        let arrays = self.columns.iter_mut().map(|buffer| buffer.take(self.buffered)).collect();
        self.buffered = 0;
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
            .map_err(parquet::errors::ParquetError::from)
            .and_then(|batch| self.writer.write(&batch))
            .map_err(|error| {
                TraceError::malformed("cannot write the file").with_source(error).in_file(&self.path)
            })
    }
}

impl TraceWriter for ParquetWriter {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.rows += 1;
        self.row
            .set_record(record)
            .map_err(|problem| TraceError::invalid(problem).at(Place::Row(self.rows)).in_file(&self.path))?;
        for buffer in &mut self.columns {
            let value = self.row.get(buffer.column);
            buffer.values.push(value.unwrap_or(0));
            buffer.valid.push(value.is_some());
            buffer.present += usize::from(value.is_some());
        }
        self.buffered += 1;
        if self.buffered == BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<(), TraceError> {
        self.flush()?;
        let path = self.path;
        let file = self.writer.into_inner().map_err(|error| {
            TraceError::malformed("cannot write the end of the file").with_source(error).in_file(&path)
        })?;
        let file = file
            .into_inner()
            .map_err(|error| TraceError::io("cannot write the file", error.into_error()).in_file(&path))?;
        file.finish()
    }
}

impl Buffer {
    fn new(column: Column) -> Self {
        let names = match column.content() {
            Content::Name(names) => Some(Arc::new(StringArray::from(names.to_vec()))),
            _ => None,
        };
        let (values, valid) = (Vec::with_capacity(BATCH_ROWS), Vec::with_capacity(BATCH_ROWS));
        Self { column, values, valid, present: 0, names }
    }

    /// The values as an array; the buffer is empty then.
    fn take(&mut self, rows: usize) -> ArrayRef {
        let array = match self.column.content() {
            _ if self.present == 0 => new_null_array(&data_type(self.column), rows),
            Content::Number(max) if max > u64::from(u32::MAX) => self.primitive::<UInt64Type>(|v| v),
            Content::Number(max) if max > u64::from(u16::MAX) => self.primitive::<UInt32Type>(|v| v as u32),
            Content::Number(max) if max > u64::from(u8::MAX) => self.primitive::<UInt16Type>(|v| v as u16),
            Content::Number(_) => self.primitive::<UInt8Type>(|v| v as u8),
            Content::Flag => {
                let mut flags = BooleanBuilder::with_capacity(rows);
                for (value, valid) in self.values.iter().zip(&self.valid) {
                    flags.append_option(valid.then_some(*value == 1));
                }
                Arc::new(flags.finish())
            }
            Content::Name(_) => {
                let keys = self.values.iter().map(|code| *code as i8);
                let keys = PrimitiveArray::<Int8Type>::from_iter_values(keys);
                let names = Arc::clone(self.names.as_ref().expect("a column of names has its names"));
                Arc::new(DictionaryArray::new(keys, names))
            }
        };
        self.values.clear();
        self.valid.clear();
        self.present = 0;
        array
    }

    /// Numbers, which the row has checked to fit.
    fn primitive<T: ArrowPrimitiveType>(&self, narrow: impl Fn(u64) -> T::Native) -> ArrayRef {
        if self.present == self.values.len() {
            return Arc::new(PrimitiveArray::<T>::from_iter_values(self.values.iter().map(|v| narrow(*v))));
        }
        let values = self.values.iter().zip(&self.valid);
        Arc::new(values.map(|(value, valid)| valid.then(|| narrow(*value))).collect::<PrimitiveArray<T>>())
    }
}
