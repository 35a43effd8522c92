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

mod alibaba;
mod arc;
mod biosnoop;
mod blkparse;
mod blktrace;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "capture uses more of it"))]
mod block_event;
mod cachelib;
mod canonical;
#[cfg(target_os = "linux")]
pub mod capture;
mod cloudphysics_csv;
mod columns;
mod compression;
mod devices_out;
mod disksim_ascii;
mod disksim_validate;
mod dtb;
mod error;
mod event_rows;
mod event_text;
mod extent;
mod fio_iolog;
mod fio_log;
mod fiu;
mod format;
pub mod guess;
mod hpl_srt;
mod issue_csv;
mod issue_order;
mod issued;
mod learnt;
mod lines;
mod losses;
mod metadata;
mod msr;
mod msr_cut;
mod names;
mod number;
mod objects;
mod octf;
mod options;
mod oracle_general;
mod output;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "capture uses more of it"))]
mod pairing;
mod parts;
mod position;
mod protobuf;
pub mod recorder;
mod records;
mod reorder;
pub mod row;
mod rows_out;
pub mod schema;
mod skips;
mod source;
mod spc;
mod ssdsim;
mod systor;
mod tencent;
mod text;
mod thesios;
mod tracefs;
mod units;
mod vscsi;
mod wpa;

pub use alibaba::Alibaba;
pub use arc::Arc;
pub use biosnoop::Biosnoop;
pub use blkparse::BlkParse;
pub use blktrace::Blktrace;
pub use cachelib::CacheLib;
pub use canonical::Canonical;
pub use cloudphysics_csv::CloudPhysicsCsv;
pub use compression::Compression;
pub use disksim_ascii::DiskSimAscii;
pub use disksim_validate::DiskSimValidate;
pub use dtb::Dtb;
pub use error::{ErrorKind, Place, Problem, TraceError};
pub use fio_iolog::FioIolog;
pub use fio_log::FioLog;
pub use fiu::Fiu;
pub use format::{
    Note, OpenTrace, ReadOptions, RowBuffer, Rows, Sniff, TraceFormat, TraceReader, TraceWriter,
};
pub use guess::{create_with, open_source, open_with};
pub use hpl_srt::HplSrt;
pub use issue_csv::IssueCsv;
pub use learnt::Learnt;
pub use losses::Holds;
pub use metadata::{Metadata, check_key};
pub use msr::Msr;
pub use msr_cut::MsrCut;
pub use octf::Octf;
pub use options::{Allowed, Applied, FormatOption, Lack, Setting};
pub use oracle_general::OracleGeneral;
pub use output::OutputFile;
pub use position::Position;
pub use recorder::Recorder;
pub use source::{Head, Source};
pub use spc::Spc;
pub use ssdsim::SsdSim;
pub use systor::Systor;
pub use tencent::Tencent;
pub use thesios::Thesios;
pub use tracefs::TraceFs;
pub use vscsi::Vscsi;
pub use wpa::Wpa;

/// The trace formats of this crate.
pub const FORMATS: &[&dyn TraceFormat] = &[
    &Canonical,
    &DiskSimAscii,
    &DiskSimValidate,
    &Spc,
    &Msr,
    &MsrCut,
    &SsdSim,
    &Alibaba,
    &Tencent,
    &Systor,
    &Fiu,
    &Arc,
    &CloudPhysicsCsv,
    &CacheLib,
    &Thesios,
    &Wpa,
    &Biosnoop,
    &BlkParse,
    &TraceFs,
    &FioIolog::V2,
    &FioIolog::V3,
    &FioLog,
    &IssueCsv,
    &Blktrace,
    &HplSrt,
    &Vscsi,
    &OracleGeneral,
    &Octf,
    &Dtb,
];
