//! Rows are the same if only some columns are read, and an error in a row is still named.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use proptest::prelude::*;
use seeklab_columnar::{create, open};
use seeklab_core::{ClassTimes, Criticality, Duration, Instant, Operation, Seed, Status, TraceRecord};
use seeklab_traces::schema::Column;
use seeklab_traces::{Metadata, OpenTrace, ReadOptions, TraceError};

const WANTED: &[Column] = &[
    Column::ArrivalNs,
    Column::CompletionNs,
    Column::ThinkNs,
    Column::Device,
    Column::Initiator,
    Column::Op,
    Column::Fua,
    Column::Lbn,
    Column::Blocks,
    Column::Criticality,
    Column::BecameTimeLimitedNs,
    Column::BecameTimeCriticalNs,
    Column::Priority,
    Column::Status,
];

fn open_for(path: &Path, columns: &'static [Column]) -> OpenTrace {
    open(path, None, &ReadOptions { columns, ..ReadOptions::default() }).unwrap()
}

/// All rows, some at a time, up to the error.
fn by_runs(mut trace: OpenTrace) -> (Vec<TraceRecord>, Option<TraceError>) {
    let mut all = Vec::new();
    loop {
        match trace.next_rows().map(|rows| rows.records) {
            Ok([]) => return (all, None),
            Ok(records) => all.extend_from_slice(records),
            Err(error) => {
                assert!(trace.next_rows().unwrap().records.is_empty(), "after an error there are no more");
                return (all, Some(error));
            }
        }
    }
}

/// Requests with everything, some of it only in parts of the trace.
fn records(count: u64, seed: u64) -> Vec<TraceRecord> {
    let mut stream = Seed(seed).stream("records");
    let mut at = 0;
    let record = |index: u64| {
        at += stream.below(1_000);
        let arrival = Instant::from_ns(at);
        let op = Operation::ALL[stream.below(5) as usize];
        let blocks = stream.below(9) as u32 + u32::from(op.addresses_blocks());
        let completion = arrival + Duration::from_ns(stream.below(5_000));
        let criticality = Criticality::ALL[stream.below(3) as usize];
        let changes = (index / 3_000) % 2 == 1 && stream.chance(0.3);
        let became = match criticality {
            Criticality::TimeNoncritical if changes => ClassTimes::new(Some(arrival), Some(completion)),
            Criticality::TimeLimited if changes => ClassTimes::new(None, Some(completion)),
            _ => ClassTimes::NONE,
        };
        let is_complete = (index / 700).is_multiple_of(2) || stream.chance(0.9);
        TraceRecord {
            start: is_complete.then_some(arrival),
            completion: is_complete.then_some(completion),
            think: (index / 5_000 % 2 == 1).then(|| Duration::from_ns(index)),
            device: stream.below(3) as u16,
            initiator: stream.below(1 << 32) as u32,
            fua: stream.chance(0.1),
            criticality,
            became,
            priority: stream.below(256) as u8,
            status: if stream.chance(0.01) { Status::MediumError } else { Status::Ok },
            queue_length: Some(7),
            ..TraceRecord::new(arrival, op, stream.below(1 << 60), blocks)
        }
    };
    (0..count).map(record).collect()
}

/// Returns the part of a record that remains if only [`WANTED`] is read.
fn left_of(record: &TraceRecord) -> TraceRecord {
    TraceRecord { start: None, queue_length: None, ..*record }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn rows_are_equal_except_for_omitted_columns(count in 0_u64..12_000, seed: u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let records = records(count, seed);
        let mut writer = create(&path, None, &Metadata::default()).unwrap();
        records.iter().for_each(|record| writer.write(record).unwrap());
        writer.finish().unwrap();
        let left: Vec<TraceRecord> = records.iter().map(left_of).collect();
        let one_by_one: Vec<TraceRecord> = open_for(&path, WANTED).map(Result::unwrap).collect();
        prop_assert_eq!(&one_by_one, &left);
        prop_assert_eq!(&by_runs(open_for(&path, WANTED)).0, &left);
        prop_assert_eq!(&by_runs(open_for(&path, &Column::ALL)).0, &records);
        // A change from the first way to the second loses nothing.
        let mut trace = open_for(&path, WANTED);
        let mut mixed: Vec<TraceRecord> = trace.by_ref().take(100).map(Result::unwrap).collect();
        mixed.extend(by_runs(trace).0);
        prop_assert_eq!(&mixed, &left);
    }
}

/// A file as another program might write it: reads of 8 blocks, one every 10 ns.
fn foreign(folder: &Path, change: impl FnOnce(&mut Vec<i64>), times: &[(&str, i64)]) -> PathBuf {
    const ROWS: usize = 600;
    let path = folder.join("foreign.parquet");
    let mut blocks = vec![8; ROWS];
    change(&mut blocks);
    let arrivals = (0..ROWS as i64).map(|row| row * 10);
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("arrival_ns", Arc::new(Int64Array::from_iter_values(arrivals.clone()))),
        ("op", Arc::new(StringArray::from(vec!["read"; ROWS]))),
        ("lbn", Arc::new(Int64Array::from(vec![5; ROWS]))),
        ("blocks", Arc::new(Int64Array::from(blocks))),
    ];
    for (name, ns) in times {
        let from = if name.starts_with("start") { 1 } else { 0 };
        let values = arrivals.clone().map(|arrival| arrival * from + ns);
        columns.push((name, Arc::new(Int64Array::from_iter_values(values))));
    }
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

#[test]
fn completion_is_computed_from_other_times() {
    let folder = tempfile::tempdir().unwrap();
    for times in [
        &[("response_ns", 7)][..],
        &[("start_ns", 3), ("service_ns", 4)],
        &[("queue_ns", 2), ("service_ns", 5)],
    ] {
        let (rows, error) = by_runs(open_for(&foreign(folder.path(), |_| {}, times), WANTED));
        assert!(error.is_none() && rows.len() == 600);
        let is_expected = |record: &TraceRecord| record.response_time() == Some(Duration::from_ns(7));
        assert!(rows.iter().all(is_expected), "{times:?}: {:?}", rows[0]);
    }
}

#[test]
fn wrong_row_is_named_after_the_rows_before_it() {
    let folder = tempfile::tempdir().unwrap();
    for (row, value, reason) in [
        (300, 0, "row 301: blocks is `0`"),
        (0, 0, "row 1: blocks"),
        (511, 1 << 40, "row 512: blocks is `1099511627776`"),
    ] {
        let path = foreign(folder.path(), |blocks| blocks[row] = value, &[]);
        for columns in [WANTED, &Column::ALL] {
            let (rows, error) = by_runs(open_for(&path, columns));
            let message = error.unwrap().to_string();
            assert!(rows.len() == row && message.contains(reason), "{} rows, then {message}", rows.len());
            let one_by_one: Vec<_> = open_for(&path, columns).collect();
            assert_eq!(one_by_one.len(), row + 1);
            assert_eq!(one_by_one[row].as_ref().unwrap_err().to_string(), message);
        }
    }
}

#[test]
fn progress_of_reading_a_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = open_for(&foreign(folder.path(), |_| {}, &[]), WANTED);
    let position = trace.position();
    assert_eq!(position.share(), Some(0.0));
    assert!(trace.by_ref().all(|record| record.is_ok()));
    assert_eq!(position.share(), Some(1.0));
    let text = folder.path().join("t.csv");
    let mut lines = "arrival_ns,op,lbn,blocks\n".to_owned();
    (0..100_000).for_each(|row| lines += &format!("{row},read,{row},8\n"));
    fs::write(&text, lines).unwrap();
    let mut trace = open_for(&text, &Column::ALL);
    let position = trace.position();
    let before = position.share().unwrap();
    assert!(before < 0.2, "{before}");
    let (_, half) = (trace.by_ref().take(50_000).count(), position.share().unwrap());
    assert!((0.4..0.6).contains(&half), "{half}");
}
