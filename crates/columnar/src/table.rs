//! A table of results as Parquet: columns of text, counts and numbers, with checksums of their values.
//!
//! # Scope and limits
//! Checksums are those of a trace: the key `seeklab.checksum` of the footer has one for every 262,144 values of each column.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use seeklab_files::OutputFile;
use seeklab_traces::TraceError;

use crate::cause;
use crate::checksum::{self, Spans};
use crate::writer::KEY_PREFIX;

/// A column of a table of results.
#[derive(Debug, Clone, PartialEq)]
pub struct TableColumn {
    /// Its name, with the unit of the values.
    pub name: String,
    /// A value for each row.
    pub values: ColumnValues,
}

/// The values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnValues {
    /// Text.
    Text(Vec<String>),
    /// Counts.
    Counts(Vec<u64>),
    /// Counts, some of which may be absent.
    OptionalCounts(Vec<Option<u64>>),
    /// Numbers, some of which may be absent.
    Numbers(Vec<Option<f64>>),
}

impl ColumnValues {
    /// Returns the number of rows.
    pub const fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Counts(values) => values.len(),
            Self::OptionalCounts(values) => values.len(),
            Self::Numbers(values) => values.len(),
        }
    }

    /// Returns true if there are no rows.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Text(_) => DataType::Utf8,
            Self::Counts(_) | Self::OptionalCounts(_) => DataType::UInt64,
            Self::Numbers(_) => DataType::Float64,
        }
    }

    /// Checksums of the values.
    fn spans(&self) -> Spans {
        let mut spans = Spans::default();
        let mut add = |values: Vec<u64>, valid: Vec<bool>| spans.add(&values, &valid, values.len());
        let optional = |values: &[Option<u64>]| {
            let bits = values.iter().map(|value| value.unwrap_or(0)).collect();
            (bits, values.iter().map(Option::is_some).collect::<Vec<bool>>())
        };
        match self {
            Self::Text(values) => {
                add(values.iter().map(|text| checksum::of_text(text)).collect(), Vec::new())
            }
            Self::Counts(values) => add(values.clone(), Vec::new()),
            Self::OptionalCounts(values) => {
                let (bits, valid) = optional(values);
                add(bits, valid);
            }
            Self::Numbers(values) => {
                let bits: Vec<Option<u64>> = values.iter().map(|value| value.map(f64::to_bits)).collect();
                let (bits, valid) = optional(&bits);
                add(bits, valid);
            }
        }
        spans
    }

    /// The values of an array.
    fn of_array(array: &ArrayRef) -> Option<Self> {
        match array.data_type() {
            DataType::Utf8 => {
                let texts = array.as_string::<i32>();
                Some(Self::Text(texts.iter().map(|text| text.unwrap_or_default().to_owned()).collect()))
            }
            DataType::UInt64 if array.null_count() == 0 => {
                Some(Self::Counts(array.as_primitive::<UInt64Type>().values().to_vec()))
            }
            DataType::UInt64 => {
                Some(Self::OptionalCounts(array.as_primitive::<UInt64Type>().iter().collect()))
            }
            DataType::Float64 => Some(Self::Numbers(array.as_primitive::<Float64Type>().iter().collect())),
            _ => None,
        }
    }

    fn array(&self) -> ArrayRef {
        match self {
            Self::Text(values) => Arc::new(StringArray::from_iter_values(values)),
            Self::Counts(values) => Arc::new(UInt64Array::from_iter_values(values.iter().copied())),
            Self::OptionalCounts(values) => Arc::new(values.iter().copied().collect::<UInt64Array>()),
            Self::Numbers(values) => Arc::new(values.iter().copied().collect::<Float64Array>()),
        }
    }
}

/// Writes a table to a Parquet file, which is whole or not there; `metadata` goes under `seeklab.*`.
///
/// The same table gives the same bytes.
///
/// # Errors
/// If two columns have the same name, or the file cannot be written.
///
/// # Panics
/// If the columns differ in length.
pub fn write_table(
    path: &Path,
    columns: &[TableColumn],
    metadata: &[(&str, String)],
) -> Result<(), TraceError> {
    let rows = columns.first().map_or(0, |column| column.values.len());
    assert!(
        columns.iter().all(|column| column.values.len() == rows),
        "every column has a value for each row"
    );
    if let Some(twice) =
        (1..columns.len()).find(|index| columns[..*index].iter().any(|c| c.name == columns[*index].name))
    {
        let problem = format!("two columns are named `{}`", columns[twice].name);
        return Err(TraceError::malformed(problem).in_file(path));
    }
    let fields: Vec<Field> = columns
        .iter()
        .map(|column| {
            let nullable =
                matches!(column.values, ColumnValues::Numbers(_) | ColumnValues::OptionalCounts(_));
            Field::new(&column.name, column.values.data_type(), nullable)
        })
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let spans: Vec<Spans> = columns.iter().map(|column| column.values.spans()).collect();
    let names = columns.iter().map(|column| column.name.as_str());
    let checksums = checksum::text(rows as u64, names.zip(&spans));
    let metadata = metadata.iter().cloned().chain([(checksum::KEY, checksums)]);
    let pairs = metadata.map(|(key, value)| KeyValue::new(format!("{KEY_PREFIX}{key}"), value.clone()));
    let properties = WriterProperties::builder()
        .set_created_by(concat!("seeklab ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(pairs.collect()))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let failed =
        |error| TraceError::malformed("cannot write the table").with_source(cause(error)).in_file(path);
    let mut writer = ArrowWriter::try_new(OutputFile::create(path)?, Arc::clone(&schema), Some(properties))
        .map_err(failed)?;
    let arrays = columns.iter().map(|column| column.values.array()).collect();
    RecordBatch::try_new(schema, arrays)
        .map_err(ParquetError::from)
        .and_then(|batch| writer.write(&batch))
        .map_err(failed)?;
    Ok(writer.into_inner().map_err(failed)?.finish()?)
}

/// A table that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Its columns. Counts of which none is absent are [`ColumnValues::Counts`].
    pub columns: Vec<TableColumn>,
    /// Its metadata under `seeklab.*`, without the prefix.
    pub metadata: Vec<(String, String)>,
}

/// Reads a table that [`write_table`] has written, and compares its values with their checksums.
///
/// # Errors
/// If the file cannot be read, has columns of other types, or values that differ from their checksum.
pub fn read_table(path: &Path) -> Result<Table, TraceError> {
    let failed = |error: ParquetError| {
        TraceError::malformed("cannot read the table").with_source(cause(error)).in_file(path)
    };
    let file =
        File::open(path).map_err(|error| TraceError::io("cannot read the table", error).in_file(path))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(failed)?;
    let pairs = reader.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
    let metadata: Vec<(String, String)> = pairs
        .into_iter()
        .filter_map(|pair| Some((pair.key.strip_prefix(KEY_PREFIX)?.to_owned(), pair.value?)))
        .collect();
    let rows = usize::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
    let schema = Arc::clone(reader.schema());
    let mut batches = reader.with_batch_size(rows.max(1)).build().map_err(failed)?;
    let batch = match batches.next() {
        Some(batch) => batch.map_err(|error| failed(error.into()))?,
        None => RecordBatch::new_empty(schema),
    };
    let mut columns = Vec::new();
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        let values = ColumnValues::of_array(array).ok_or_else(|| {
            TraceError::malformed(format!("the column `{}` is of another type", field.name())).in_file(path)
        })?;
        columns.push(TableColumn { name: field.name().clone(), values });
    }
    let stated = metadata.iter().find(|(key, _)| key == checksum::KEY).map(|(_, text)| text.as_str());
    for column in &columns {
        let spans = column.values.spans();
        let text = checksum::text(rows as u64, [(column.name.as_str(), &spans)].into_iter());
        let own = text.split(';').nth(1);
        if stated.is_some_and(|stated| !stated.split(';').any(|part| Some(part) == own)) {
            let problem = format!("the table is damaged: `{}` differs from its checksum", column.name);
            return Err(TraceError::malformed(problem).in_file(path));
        }
    }
    Ok(Table { columns, metadata })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, values: ColumnValues) -> TableColumn {
        TableColumn { name: name.to_owned(), values }
    }

    #[test]
    fn table_round_trips_through_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let columns = [
            column("device", ColumnValues::Text(vec!["a".to_owned(), "b, c".to_owned()])),
            column("n", ColumnValues::Counts(vec![3, u64::MAX])),
            column("response_ms", ColumnValues::Numbers(vec![Some(0.1), None])),
        ];
        write_table(&path, &columns, &[("seed", "7".to_owned())]).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
        let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap().clone();
        assert!(pairs.contains(&KeyValue::new("seeklab.seed".to_owned(), "7".to_owned())));
        let batch = reader.build().unwrap().next().unwrap().unwrap();
        let arrays: Vec<ArrayRef> = columns.iter().map(|column| column.values.array()).collect();
        assert_eq!(batch.columns(), arrays);
    }

    #[test]
    fn table_reads_back_and_values_that_differ_from_their_checksum_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let columns = |second: f64| {
            [
                column("name", ColumnValues::Text(vec!["a".to_owned(), String::new(), "a".to_owned()])),
                column("n", ColumnValues::OptionalCounts(vec![Some(3), None, Some(0)])),
                column("ms", ColumnValues::Numbers(vec![Some(0.1), None, Some(second)])),
            ]
        };
        write_table(&path, &columns(2.5), &[("seed", "7".to_owned())]).unwrap();
        let table = read_table(&path).unwrap();
        assert_eq!(table.columns, columns(2.5));
        assert!(table.metadata.contains(&("seed".to_owned(), "7".to_owned())));
        // The last value of its key counts.
        let (_, stated) = table.metadata.iter().find(|(key, _)| key == checksum::KEY).unwrap();
        write_table(&path, &columns(2.25), &[]).unwrap();
        let other = read_table(&path).unwrap();
        let (_, own) = other.metadata.iter().find(|(key, _)| key == checksum::KEY).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(own.len()).position(|window| window == own.as_bytes()).unwrap();
        let damaged = [&bytes[..at], stated.as_bytes(), &bytes[at + own.len()..]].concat();
        std::fs::write(&path, damaged).unwrap();
        let error = read_table(&path).unwrap_err().to_string();
        assert!(error.contains("`ms` differs from its checksum"), "{error}");
    }

    #[test]
    fn two_columns_of_one_name_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let columns = ["n", "n"].map(|name| column(name, ColumnValues::Counts(vec![1])));
        let error = write_table(&path, &columns, &[]).unwrap_err().to_string();
        assert!(error.contains("two columns are named `n`"), "{error}");
        assert!(!path.exists());
    }
}
