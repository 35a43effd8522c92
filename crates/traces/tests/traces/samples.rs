//! Every sample of our own making is read as its description states.

use std::path::{Path, PathBuf};

use seeklab_core::{BufferOutcome, ByteSize, Duration, Instant, Operation, Seed, TraceRecord};
use seeklab_traces::{FORMATS, Note, OpenTrace, ReadOptions, open_with};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Opens the sample by guessing and checks that the guess is `format`.
fn open(name: &str, format: &str) -> OpenTrace {
    let trace = open_with(FORMATS, &sample(name), None, &ReadOptions::default()).unwrap();
    assert_eq!(trace.format(), format);
    assert!(trace.guess().unwrap().contains(format));
    trace
}

fn rows(trace: &mut OpenTrace) -> Vec<TraceRecord> {
    trace.by_ref().collect::<Result<_, _>>().unwrap()
}

fn at(ns: u64) -> Option<Instant> {
    Some(Instant::from_ns(ns))
}

#[test]
fn canonical_csv_is_read_with_metadata_and_derived_times() {
    let mut trace = open("csv/sample.csv", "csv");
    let rows = rows(&mut trace);
    let metadata = trace.metadata();
    assert_eq!(metadata.seed, Some(Seed(42)));
    assert_eq!(metadata.device.as_deref(), Some("kind = \"disk\"\nrpm = \"10000rpm\"\n"));
    assert_eq!(metadata.clock.as_deref(), Some("simulated"));
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0].buffer, BufferOutcome::Miss);
    assert_eq!(rows[0].breakdown.unwrap().total(), rows[0].response_time().unwrap());
    assert_eq!(rows[1].breakdown.unwrap().queue.as_ns(), 5_657_000);
    assert_eq!(rows[1].buffer, BufferOutcome::Hit);
    assert_eq!((rows[2].op, rows[2].completion, rows[2].breakdown), (Operation::Flush, None, None));
    assert_eq!(rows[2].buffer, BufferOutcome::None);
}

#[test]
fn disksim_ascii_is_sorted_and_exact() {
    let mut trace = open("disksim-ascii/sample.ascii", "disksim-ascii");
    let rows = rows(&mut trace);
    let arrivals: Vec<_> = rows.iter().map(|row| row.arrival.as_ns()).collect();
    assert_eq!(arrivals, [500_000, 900_000, 1_250_001, 20_000_000]);
    assert_eq!((rows[3].op, rows[3].device, rows[3].lbn), (Operation::Read, 2, 4096));
    assert!(trace.notes().is_empty());
    assert_eq!(trace.metadata().block_size, ByteSize::from_bytes(512));
}

#[test]
fn next_arrival_is_the_completion_plus_the_think_time() {
    let rows = rows(&mut open("disksim-validate/sample.validate", "disksim-validate"));
    assert_eq!((rows[0].arrival, rows[0].completion), (Instant::ZERO, at(6_657_000)));
    assert_eq!((rows[1].arrival, rows[1].completion), (Instant::from_ns(70_704_000), at(87_925_001)));
    assert_eq!(rows[2].arrival, Instant::from_ns(87_925_001 + 21_894_380));
    assert!(rows.iter().all(|row| row.issue == Some(row.arrival) && row.buffer == BufferOutcome::None));
}

#[test]
fn think_time_before_its_request_is_read_on_demand() {
    let read = |think: &str| {
        let settings = vec![format!("think={think}").parse().unwrap()];
        let options = ReadOptions { settings, ..ReadOptions::default() };
        rows(&mut open_with(FORMATS, &sample("disksim-validate/sample.validate"), None, &options).unwrap())
    };
    let before = read("before");
    assert_eq!((before[0].arrival, before[0].completion), (Instant::from_ns(64_047_000), at(70_704_000)));
    assert_eq!((before[1].arrival, before[1].completion), (Instant::from_ns(92_598_380), at(109_819_381)));
    assert_eq!(before[2].arrival, Instant::from_ns(109_819_381 + 13_876_270));
    // The think time of a record follows it, whichever line states it; nothing is known behind the last request.
    let think =
        |rows: &[TraceRecord]| rows.iter().map(|row| row.think.map(Duration::as_ns)).collect::<Vec<_>>();
    assert_eq!(think(&before), [Some(21_894_380), Some(13_876_270), None]);
    let after = read("after");
    assert_eq!(think(&after), [Some(64_047_000), Some(21_894_380), Some(13_876_270)]);
    let default = rows(&mut open("disksim-validate/sample.validate", "disksim-validate"));
    assert_eq!(after, default);
    for (row, other) in before.iter().zip(&after) {
        assert_eq!((row.op, row.lbn, row.response_time()), (other.op, other.lbn, other.response_time()));
    }
}

#[test]
fn spc_size_is_rounded_up_to_blocks_and_further_fields_are_skipped() {
    let rows = rows(&mut open("spc/sample.spc", "spc"));
    let read: Vec<_> =
        rows.iter().map(|row| (row.arrival.as_ns(), row.device, row.lbn, row.blocks)).collect();
    assert_eq!(
        read,
        [(0, 0, 303_567, 7), (0, 1, 55_590, 6), (26_214_000, 0, 303_574, 2), (500_000_000, 14, 591_867, 1)]
    );
    assert_eq!(rows[1].op, Operation::Write);
    assert_eq!(rows[3].op, Operation::Read);
}

#[test]
fn msr_disks_become_devices_and_its_ticks_nanoseconds() {
    let mut trace = open("msr/sample.csv", "msr");
    let rows = rows(&mut trace);
    assert_eq!(trace.metadata().labels, ["hm.1", "hm.0", "web.1"]);
    let read: Vec<_> = rows.iter().map(|row| (row.device, row.lbn, row.blocks, row.completion)).collect();
    assert_eq!(read[0], (1, 5_512, 8, at(25_100)));
    assert_eq!(read[1], (0, 749_016, 64, at(2_900 + 11_373_600)));
    assert_eq!(read[2], (2, 2_112, 2, at(2_332_064_500 + 100)));
    assert_eq!(rows[3].arrival, Instant::from_ns(2_332_070_000));
}

#[test]
fn rows_beyond_the_window_are_counted() {
    let options = ReadOptions { sort_window: 0, ..ReadOptions::default() };
    let mut trace = open_with(FORMATS, &sample("disksim-ascii/sample.ascii"), None, &options).unwrap();
    let rows = rows(&mut trace);
    assert_eq!(rows[2].arrival, Instant::from_ns(1_250_001));
    assert_eq!(trace.notes(), [Note::ArrivalsClamped { rows: 1, window: 0 }]);
}
