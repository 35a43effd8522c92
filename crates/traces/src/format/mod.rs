//! THE list of trace formats: one file each and one line here.

use crate::trace_format::TraceFormat;

/// Declares the module of each format and lists the formats in the order in which they are tried.
macro_rules! formats {
    ($($module:ident: $($format:expr),+;)+) => {
        $(pub(crate) mod $module;)+

        /// The trace formats of this crate.
        pub const FORMATS: &[&dyn TraceFormat] = &[$($({
            use $module::*;
            &$format
        }),+),+];
    };
}

formats! {
    canonical: Canonical;
    disksim_ascii: DiskSimAscii;
    disksim_validate: DiskSimValidate;
    spc: Spc;
    msr: Msr;
    msr_cut: MsrCut;
    ssdsim: SsdSim;
    alibaba: Alibaba;
    tencent: Tencent;
    systor: Systor;
    fiu: Fiu;
    arc: Arc;
    cloudphysics_csv: CloudPhysicsCsv;
    cachelib: CacheLib;
    thesios: Thesios;
    wpa: Wpa;
    biosnoop: Biosnoop;
    blkparse: BlkParse;
    tracefs: TraceFs;
    fio_iolog: FioIolog::V2, FioIolog::V3;
    fio_log: FioLog;
    issue_csv: IssueCsv;
    blktrace: Blktrace;
    hpl_srt: HplSrt;
    vscsi: Vscsi;
    oracle_general: OracleGeneral;
    octf: Octf;
    dtb: Dtb;
}
