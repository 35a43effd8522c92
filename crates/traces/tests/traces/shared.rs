//! Real traces, read whole. The tests are ignored where `../shared/traces` is absent (`docs/testing.md`).

use std::path::{Path, PathBuf};

use seeklab_core::{Operation, TraceRecord};
use seeklab_traces::{FORMATS, ReadOptions, open_with};

/// Path of the shared trace of that name.
pub(crate) fn shared(name: &str) -> PathBuf {
    Path::new(env!("SEEKLAB_SHARED_FOLDER")).join("traces").join(name)
}

/// Reads the trace by guessing and checks format and number of rows.
fn check(name: &str, format: &str, rows: usize) -> Vec<TraceRecord> {
    let path = shared(name);
    let mut trace = open_with(FORMATS, &path, None, &ReadOptions::default()).unwrap();
    assert_eq!(trace.format(), format, "{name}");
    let records: Vec<_> = trace.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(records.len(), rows, "{name}");
    assert!(trace.notes().is_empty(), "{name}: {:?}", trace.notes());
    assert!(records.is_sorted_by_key(|record| record.arrival), "{name}");
    records
}

fn read_share(records: &[TraceRecord]) -> f64 {
    let reads = records.iter().filter(|record| record.op == Operation::Read).count();
    reads as f64 / records.len() as f64
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn traces_of_measured_drives_are_read_completely() {
    let drives = [
        ("atlas10k", 10_000, 1_112),
        ("barracuda", 10_000, 2_196),
        ("cheetah9LP", 10_000, 1_895),
        ("hp_c2247a", 9_999, 15_287),
        ("hp_c2490a", 9_984, 0),
        ("dec_rz26", 7_980, 15_870),
    ];
    for (drive, rows, median_us) in drives {
        let name = format!("disksim-validate/{drive}.trace.zst");
        let records = check(&name, "disksim-validate", rows);
        let mut responses: Vec<_> =
            records.iter().map(|record| record.response_time().unwrap().as_ns()).collect();
        responses.sort();
        let median = responses[responses.len() / 2] / 1_000;
        assert!(median_us == 0 || median.abs_diff(median_us) <= 10, "{drive}: {median} us");
    }
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn example_of_disksim_is_read_completely() {
    let records = check("disksim-ascii/ascii.trace.zst", "disksim-ascii", 100_000);
    assert!((read_share(&records) - 0.796).abs() < 0.001);
    assert_eq!(records[0].arrival.as_ns(), 13_191_135);
    assert_eq!(records.last().unwrap().arrival.as_ns(), 1_532_949_045_363);
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn start_of_financial1_is_read_completely() {
    let records = check("spc-financial1-prefix/Financial1.prefix.spc.zst", "spc", 10_000);
    assert!((read_share(&records) - 0.408).abs() < 0.001);
    assert_eq!((records[0].lbn, records[0].blocks, records[0].op), (303_567, 7, Operation::Write));
    let devices: std::collections::BTreeSet<_> = records.iter().map(|record| record.device).collect();
    // The whole trace has 24 application storage units; its first 10,000 rows use 22.
    assert_eq!(devices.len(), 22);
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn trace_in_the_format_of_msr_is_read_completely() {
    let records = check("msr-format-fixture/pgloop_0.csv.zst", "msr", 20_000);
    assert_eq!(records[0].arrival.as_ns(), 0);
    assert_eq!(records[0].lbn, 4_328_660_992 / 512);
    assert_eq!(records[0].response_time().unwrap().as_ns(), 3_448_000);
}
