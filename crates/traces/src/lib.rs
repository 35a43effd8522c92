//! Trace formats of seeklab: reading, writing, guessing.
//!
//! ```text
//!  file ─▶ Source (gzip, zstd) ─▶ guess ─▶ TraceFormat ─▶ rows: Result<TraceRecord, TraceError>
//!  rows ─▶ TraceWriter ─▶ temporary file ─▶ finish() renames it
//! ```
//! A format is one file and one line in [`FORMATS`]. Every row becomes a
//! [`TraceRecord`](seeklab_core::TraceRecord), time in nanoseconds and addresses in blocks; what a
//! format does not know is `None`, nothing is guessed silently.
//!
//! Live capture of a block device is in `capture` (Linux only).
//!
//! # Scope and limits
//! Rows stream: no trace is held in memory, and no row allocates. Text is parsed strictly, decimals
//! with integer arithmetic. Parquet lives in the crate `seeklab-columnar`, whose list of formats
//! contains these; programs open and create traces there.

#[cfg(target_os = "linux")]
pub mod capture;
mod error;
mod event;
mod fault_names;
mod format;
mod issued;
mod metadata;
mod name_table;
mod options;
mod output;
mod parse;
pub mod recorder;
pub mod reference;
mod reorder;
pub mod row;
pub mod schema;
mod source;
pub mod system;
mod trace_format;

pub use error::{ErrorKind, Place, Problem, TraceError};
pub use fault_names::FaultNames;
pub use format::FORMATS;
pub use metadata::{Metadata, capacity_key, check_key};
pub use name_table::NameTable;
pub use options::{Allowed, Applied, FormatOption, MissingColumn, Setting};
pub use output::create_file;
pub use output::losses::Holds;
pub use output::{check_no_part, saving};
pub use recorder::Recorder;
pub use source::compression::Compression;
pub use source::guess;
pub use source::guess::{create_with, open_source, open_with};
pub use source::position::Position;
pub use source::{Head, Source};
pub use trace_format::{
    Note, OpenTrace, ReadOptions, RowBuffer, Rows, Sniff, TraceFormat, TraceReader, TraceWriter,
};
