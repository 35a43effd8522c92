//! Canonical traces as Parquet: the only crate that names arrow.
//!
//! The columns are those of [`seeklab_traces::schema`], by the same names as in CSV; unknown values are null.
//! Operation, criticality and status are strings, so DuckDB, pandas and others read the file as it is.
//! [`Metadata`] is stored in the key-value metadata of the file under `seeklab.*`.
//!
//! Programs open and create every trace through this crate, since [`FORMATS`] is the full list: the text
//! formats of `seeklab-traces` and [`Parquet`]. Tables of results, which are no traces, go through
//! [`write_table`]. Tables of typed rows, those of a system-level trace, go through [`TypedTableWriter`] and
//! [`TypedTableReader`].
//!
//! A caller that needs few columns of many rows lists them in [`ReadOptions::columns`]. Other columns are not
//! read, and the listed columns are converted to records column by column.
//!
//! # Scope and limits
//! Rows stream in batches of some thousands, so memory does not grow with the trace, except for the footer.
//! The footer has an entry for every column of every 262,144 rows: about 15 MiB for 100 million rows. Only
//! flat columns are read. Columns that the schema does not contain are ignored with a note.

mod batch;
mod checksum;
mod columns;
mod direct;
mod parquet_format;
mod reader;
mod table;
mod typed_table;
mod writer;

use std::error::Error;
use std::path::Path;

use parquet::errors::ParquetError;
use seeklab_traces::{Metadata, OpenTrace, ReadOptions, Source, TraceError, TraceFormat, TraceWriter};

pub use parquet_format::Parquet;
pub use table::{ColumnValues, Table, TableColumn, read_table, write_table};
pub use typed_table::{TypedTableReader, TypedTableWriter, row_count};

/// All trace formats: those of [`seeklab_traces::FORMATS`], and Parquet behind the canonical CSV.
pub const FORMATS: &[&dyn TraceFormat] = &{
    const OTHERS: &[&dyn TraceFormat] = seeklab_traces::FORMATS;
    let mut all: [&dyn TraceFormat; OTHERS.len() + 1] = [&Parquet; OTHERS.len() + 1];
    all[0] = OTHERS[0];
    let mut index = 1;
    while index < OTHERS.len() {
        all[index + 1] = OTHERS[index];
        index += 1;
    }
    all
};

/// Returns the cause of an error of the Parquet library: the error of another, such as of the file system, without the word of the
/// library for it ("External").
fn cause(error: ParquetError) -> Box<dyn Error + Send + Sync> {
    match error {
        ParquetError::External(cause) => cause,
        own => own.into(),
    }
}

/// Opens the trace at `path` with the format of that name, else with the one that recognises it.
///
/// # Errors
/// If the file cannot be read, the name is not known, or not exactly one format recognises it.
pub fn open(path: &Path, format: Option<&str>, options: &ReadOptions) -> Result<OpenTrace, TraceError> {
    seeklab_traces::open_with(FORMATS, path, format, options)
}

/// The same of a source that is open already.
///
/// # Errors
/// As [`open`].
pub fn open_source(
    source: Source,
    format: Option<&str>,
    options: &ReadOptions,
) -> Result<OpenTrace, TraceError> {
    seeklab_traces::open_source(FORMATS, source, format, options)
}

/// Begins to write the trace at `path` in the named format, or in the format of the file's suffix.
///
/// # Errors
/// If neither determines a format, the format cannot be written, or the file cannot be created.
pub fn create(
    path: &Path,
    format: Option<&str>,
    metadata: &Metadata,
) -> Result<Box<dyn TraceWriter>, TraceError> {
    seeklab_traces::create_with(FORMATS, path, format, metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_contains_every_format_once() {
        let names: Vec<_> = FORMATS.iter().map(|format| format.name()).collect();
        for format in seeklab_traces::FORMATS {
            assert!(names.contains(&format.name()), "{}", format.name());
        }
        assert_eq!(names.len(), seeklab_traces::FORMATS.len() + 1);
        assert_eq!(names[..2], ["csv", "parquet"]);
        assert_eq!(names.iter().filter(|name| **name == "parquet").count(), 1);
    }
}
