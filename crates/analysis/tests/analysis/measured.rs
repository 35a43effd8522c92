//! The comparison against six real disks: response times measured on SCSI disks of 1992 to 1999 and the times
//! that DiskSim 4.0 predicts for the same requests, as published with DiskSim for its validation.
//!
//! Source: `../shared/reference/measured/README.md` and its `summary.json` (quantile version of the demerit, share
//! within 5 %).

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "reference data is read from files")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use seeklab_analysis::{ComparisonSummary, compare};
use seeklab_core::{Duration, Instant, Operation, TraceRecord};

/// Disk, EA_rms in percent, share within 5 %, EI_rms in ms.
const EXPECTED: [(&str, f64, f64, f64); 6] = [
    ("hp_c2247a", 0.61, 93.22, 2.3055),
    ("hp_c2490a", 2.03, 77.16, 3.0201),
    ("dec_rz26", 2.16, 57.46, 3.5877),
    ("barracuda", 5.26, 16.12, 2.4488),
    ("cheetah9LP", 2.52, 35.19, 1.8437),
    ("atlas10k", 6.89, 29.94, 1.7802),
];

fn duration(ms: &str) -> Duration {
    Duration::from_ms_f64(ms.parse().expect("a number of milliseconds"))
}

/// Both traces of a file; columns `arrival_ms,lbn,blocks,op,measured_response_ms,think_after_ms,label,
/// disksim_response_ms`.
fn traces(path: &Path) -> (Vec<TraceRecord>, Vec<TraceRecord>) {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    BufReader::new(GzDecoder::new(file))
        .lines()
        .skip(1)
        .map(|line| {
            let line = line.expect("the file is whole");
            let columns: Vec<&str> = line.split(',').collect();
            let op = if columns[3] == "R" { Operation::Read } else { Operation::Write };
            let (lbn, blocks) = (columns[1].parse().expect("an lbn"), columns[2].parse().expect("a length"));
            let arrival = Instant::ZERO + duration(columns[0]);
            let record = TraceRecord::new(arrival, op, lbn, blocks);
            let after = |ms: &str| TraceRecord { completion: Some(arrival + duration(ms)), ..record };
            (after(columns[4]), after(columns[7]))
        })
        .unzip()
}

fn summary(path: &Path) -> ComparisonSummary {
    let (measured, disksim) = traces(path);
    let rows = |records: Vec<TraceRecord>| records.into_iter().map(Ok::<_, std::io::Error>);
    compare(rows(measured), rows(disksim)).expect("both columns are of the same requests").summary()
}

#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn demerits_of_disksim_are_reproduced() {
    let shared = Path::new(env!("SEEKLAB_SHARED_FOLDER"));
    for (disk, ea_rms_pct, within_5pct_pct, ei_rms_ms) in EXPECTED {
        let seen = summary(&shared.join(format!("reference/measured/{disk}.csv.gz")));
        println!("{disk}: {seen:?}");
        let check = |what: &str, seen: f64, expected: f64, tolerance: f64| {
            assert!((seen - expected).abs() <= tolerance, "{disk}: {what} {seen}, expected {expected}");
        };
        check("EA_rms %", seen.ea_rms_pct.expect("the mean is not zero"), ea_rms_pct, 0.006);
        check("within 5 %", seen.within_5pct_pct, within_5pct_pct, 0.006);
        check("EI_rms ms", seen.ei_rms_ms, ei_rms_ms, 0.0002);
    }
}
