//! THE list of trace formats, one file each.

mod alibaba;
mod arc;
mod biosnoop;
mod blkparse;
mod blktrace;
mod cachelib;
mod canonical;
mod cloudphysics_csv;
mod disksim_ascii;
mod disksim_validate;
mod dtb;
mod fio_iolog;
mod fio_log;
mod fiu;
mod hpl_srt;
mod issue_csv;
mod msr;
mod msr_cut;
mod octf;
mod oracle_general;
mod spc;
mod ssdsim;
mod systor;
mod tencent;
mod thesios;
mod tracefs;
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
pub use disksim_ascii::DiskSimAscii;
pub use disksim_validate::DiskSimValidate;
pub use dtb::Dtb;
pub use fio_iolog::FioIolog;
pub use fio_log::FioLog;
pub use fiu::Fiu;
pub use hpl_srt::HplSrt;
pub use issue_csv::IssueCsv;
pub use msr::Msr;
pub use msr_cut::MsrCut;
pub use octf::Octf;
pub use oracle_general::OracleGeneral;
pub use spc::Spc;
pub use ssdsim::SsdSim;
pub use systor::Systor;
pub use tencent::Tencent;
pub use thesios::Thesios;
pub use tracefs::TraceFs;
pub use vscsi::Vscsi;
pub use wpa::Wpa;

use crate::trace_format::TraceFormat;

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
