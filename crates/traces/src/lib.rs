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

mod blktrace;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "capture uses more of it"))]
mod block_event;
mod canonical;
#[cfg(target_os = "linux")]
pub mod capture;
mod compression;
mod disksim_ascii;
mod disksim_validate;
mod error;
mod event_rows;
mod format;
pub mod guess;
mod hpl_srt;
mod issue_order;
mod lines;
mod metadata;
mod msr;
mod number;
mod options;
mod oracle_general;
mod output;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "capture uses more of it"))]
mod pairing;
mod parts;
pub mod recorder;
mod records;
mod reorder;
pub mod row;
pub mod schema;
mod skips;
mod source;
mod spc;
mod text;
mod vscsi;

pub use blktrace::Blktrace;
pub use canonical::Canonical;
pub use compression::Compression;
pub use disksim_ascii::DiskSimAscii;
pub use disksim_validate::DiskSimValidate;
pub use error::{ErrorKind, Place, Problem, TraceError};
pub use format::{Note, OpenTrace, ReadOptions, Sniff, TraceFormat, TraceReader, TraceWriter};
pub use guess::{create_with, open_source, open_with};
pub use hpl_srt::HplSrt;
pub use metadata::{Metadata, check_key};
pub use msr::Msr;
pub use options::{Allowed, Applied, FormatOption, Lack, Setting};
pub use oracle_general::OracleGeneral;
pub use output::OutputFile;
pub use recorder::Recorder;
pub use source::{Head, Source};
pub use spc::Spc;
pub use vscsi::Vscsi;

/// The trace formats of this crate.
pub const FORMATS: &[&dyn TraceFormat] =
    &[&Canonical, &DiskSimAscii, &DiskSimValidate, &Spc, &Msr, &Blktrace, &HplSrt, &Vscsi, &OracleGeneral];
