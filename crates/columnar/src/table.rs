//! A table of results as Parquet: columns of text, counts and numbers.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use seeklab_files::OutputFile;
use seeklab_traces::TraceError;

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
    let pairs =
        metadata.iter().map(|(key, value)| KeyValue::new(format!("{KEY_PREFIX}{key}"), value.clone()));
    let properties = WriterProperties::builder()
        .set_created_by(concat!("seeklab ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(pairs.collect()))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let failed = |error| TraceError::malformed("cannot write the table").with_source(error).in_file(path);
    let mut writer = ArrowWriter::try_new(OutputFile::create(path)?, Arc::clone(&schema), Some(properties))
        .map_err(failed)?;
    let arrays = columns.iter().map(|column| column.values.array()).collect();
    RecordBatch::try_new(schema, arrays)
        .map_err(parquet::errors::ParquetError::from)
        .and_then(|batch| writer.write(&batch))
        .map_err(failed)?;
    Ok(writer.into_inner().map_err(failed)?.finish()?)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

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
    fn two_columns_of_one_name_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let columns = ["n", "n"].map(|name| column(name, ColumnValues::Counts(vec![1])));
        let error = write_table(&path, &columns, &[]).unwrap_err().to_string();
        assert!(error.contains("two columns are named `n`"), "{error}");
        assert!(!path.exists());
    }
}
