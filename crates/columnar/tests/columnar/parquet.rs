//! Parquet carries the canonical trace, files of other writers are read, and errors are named.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use ::parquet::basic::Compression;
use ::parquet::file::properties::WriterProperties;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    LargeStringArray, RecordBatch, StringArray, StringViewArray, UInt64Array,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use seeklab_columnar::{create, open};
use seeklab_core::{
    Breakdown, BufferOutcome, ByteSize, ClassTimes, Criticality, Duration, Instant, MeasurementPoints,
    Operation, Seed, Status, TraceRecord,
};
use seeklab_traces::{Metadata, ReadOptions, TraceError};

use crate::any_points::{any_points, measured};

fn write(path: &Path, metadata: &Metadata, records: &[TraceRecord]) {
    let mut writer = create(path, None, metadata).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap();
}

fn read(path: &Path) -> Result<Vec<TraceRecord>, TraceError> {
    open(path, None, &ReadOptions::default())?.collect()
}

fn any_record() -> impl Strategy<Value = TraceRecord> {
    let parts = proptest::option::of(proptest::array::uniform9(0..1_u64 << 40));
    let address = (select(&Operation::ALL[..]), 0..u64::MAX / 2, 1..u32::MAX, any::<u16>(), any::<u32>());
    let options =
        (any::<bool>(), any::<u8>(), any::<Option<u32>>(), any::<Option<u64>>(), 0..3_usize, 0..3_usize);
    (address, 0..1_u64 << 60, parts, options).prop_map(|(address, arrival, parts, options)| {
        let (op, lbn, blocks, device, initiator) = address;
        let (flag, priority, some_u32, think, criticality, buffer) = options;
        let arrival = Instant::from_ns(arrival);
        let breakdown = parts.map(|parts| {
            let [queue, overhead, seek, settle, head_switch, rotation, transfer, bus, internal] =
                parts.map(Duration::from_ns);
            Breakdown { queue, overhead, seek, settle, head_switch, rotation, transfer, bus, internal }
        });
        TraceRecord {
            issue: some_u32.map(|ns| arrival + Duration::from_ns(u64::from(ns))),
            start: breakdown.filter(|_| flag).map(|breakdown| arrival + breakdown.queue),
            completion: breakdown.map(|breakdown| arrival + breakdown.total()),
            think: think.map(Duration::from_ns),
            queue_length: some_u32,
            device,
            initiator,
            fua: flag,
            criticality: Criticality::ALL[criticality],
            became: match Criticality::ALL[criticality] {
                Criticality::TimeNoncritical if flag => {
                    let limited = (priority % 2 == 0).then_some(arrival);
                    let end = breakdown.map(|breakdown| arrival + breakdown.total());
                    ClassTimes::new(limited, (priority % 3 == 0).then_some(end.unwrap_or(arrival)))
                }
                Criticality::TimeLimited if flag => ClassTimes::new(None, Some(arrival)),
                _ => ClassTimes::NONE,
            },
            priority,
            status: if flag { Status::MediumError } else { Status::Ok },
            breakdown,
            seek_cylinders: some_u32.filter(|_| !flag),
            buffer: [BufferOutcome::None, BufferOutcome::Miss, BufferOutcome::Hit][buffer],
            ..TraceRecord::new(arrival, op, lbn, blocks)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn parquet_round_trips(records in proptest::collection::vec(any_record(), 0..40)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write(&path, &Metadata::default(), &records);
        prop_assert_eq!(read(&path).unwrap(), records);
    }

    #[test]
    fn measurement_points_round_trip(
        records in proptest::collection::vec(any_record(), 1..40),
        points in proptest::collection::vec(any_points(), 40),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let records = measured(records, &points);
        write(&path, &Metadata::default(), &records);
        prop_assert_eq!(read(&path).unwrap(), records);
    }

    #[test]
    fn damaged_files_never_panic(at: Index, byte: u8, cut: Index) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let records: Vec<_> = (0..50).map(|row| TraceRecord::new(Instant::from_ns(row), Operation::Read, row, 8)).collect();
        write(&path, &Metadata::default(), &records);
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        fs::write(&path, &bytes).unwrap();
        let _ = read(&path);
        fs::write(&path, &bytes[..cut.index(bytes.len()).max(1)]).unwrap();
        prop_assert!(read(&path).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        fs::write(&path, [b"PAR1", &bytes[..], b"PAR1"].concat()).unwrap();
        prop_assert!(read(&path).is_err());
    }
}

#[test]
fn many_groups_and_all_metadata_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let metadata = Metadata {
        block_size: ByteSize::from_bytes(4096),
        seed: Some(Seed(7)),
        device: Some("kind = \"disk\"\n".to_owned()),
        labels: vec!["hm.0".to_owned()],
        ..Metadata::default()
    };
    let record = |row: u64| TraceRecord {
        completion: (!row.is_multiple_of(3)).then(|| Instant::from_ns(row * 10 + 5)),
        ..TraceRecord::new(Instant::from_ns(row * 10), Operation::ALL[row as usize % 5], row * 17 % 1_000, 8)
    };
    let records: Vec<_> = (0..300_000).map(record).collect();
    write(&path, &metadata, &records);
    let mut trace = open(&path, None, &ReadOptions::default()).unwrap();
    assert_eq!((trace.format(), trace.metadata()), ("parquet", &metadata));
    assert!(trace.by_ref().map(Result::unwrap).eq(records));
    assert!(trace.notes().is_empty());
}

#[test]
fn files_have_measurement_point_columns_only_if_the_first_row_has_points() {
    let folder = tempfile::tempdir().unwrap();
    let columns = |records: &[TraceRecord]| {
        let path = folder.path().join("t.parquet");
        write(&path, &Metadata::default(), records);
        let file = fs::File::open(&path).unwrap();
        ParquetRecordBatchReaderBuilder::try_new(file).unwrap().schema().fields().len()
    };
    let plain = TraceRecord::new(Instant::ZERO, Operation::Read, 0, 1);
    let points = MeasurementPoints { mp2_due: Some(Instant::ZERO), ..MeasurementPoints::NONE };
    let emulated = TraceRecord { points, ..plain };
    assert_eq!([columns(&[]), columns(&[plain]), columns(&[emulated, plain])], [32, 32, 38]);
    let mut writer = create(&folder.path().join("t.parquet"), None, &Metadata::default()).unwrap();
    writer.write(&plain).unwrap();
    let error = writer.write(&emulated).unwrap_err().to_string();
    assert!(error.contains("row 2: mp2_due_ns is `0`"), "{error}");
}

/// A file as another program might write it.
fn foreign(folder: &Path, columns: Vec<(&str, ArrayRef)>) -> PathBuf {
    let path = folder.join("foreign.parquet");
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    // As DuckDB, pandas and Spark do by default.
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let file = fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

fn minimum() -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("arrival_ns", Arc::new(Int64Array::from(vec![0, 10]))),
        ("op", Arc::new(StringArray::from(vec!["read", "write"]))),
        ("lbn", Arc::new(Int32Array::from(vec![5, 6]))),
        ("blocks", Arc::new(Int16Array::from(vec![1, 2]))),
    ]
}

#[test]
fn foreign_files_are_read_with_any_width_and_kind_of_string() {
    let folder = tempfile::tempdir().unwrap();
    let dictionary: DictionaryArray<Int32Type> = vec![Some("read"), Some("write")].into_iter().collect();
    let ops: [ArrayRef; 4] = [
        Arc::new(StringArray::from(vec!["read", "write"])),
        Arc::new(LargeStringArray::from(vec!["read", "write"])),
        Arc::new(StringViewArray::from(vec!["read", "write"])),
        Arc::new(dictionary),
    ];
    for op in ops {
        let mut columns = minimum();
        columns[1].1 = op;
        columns.push(("response_ns", Arc::new(UInt64Array::from(vec![None, Some(7)]))));
        columns.push(("priority", Arc::new(Int8Array::from(vec![None, Some(3)]))));
        columns.push(("cache_hit", Arc::new(BooleanArray::from(vec![None, Some(true)]))));
        columns.push(("completion_us", Arc::new(Float64Array::from(vec![0.5, 1.5]))));
        let path = foreign(folder.path(), columns);
        let mut trace = open(&path, None, &ReadOptions::default()).unwrap();
        let rows: Vec<_> = trace.by_ref().collect::<Result<_, _>>().unwrap();
        assert_eq!(rows[0], TraceRecord::new(Instant::ZERO, Operation::Read, 5, 1));
        let second = TraceRecord::new(Instant::from_ns(10), Operation::Write, 6, 2);
        let completion = Some(Instant::from_ns(17));
        assert_eq!(rows[1], TraceRecord { completion, priority: 3, buffer: BufferOutcome::Hit, ..second });
        let notes: Vec<_> = trace.notes().iter().map(ToString::to_string).collect();
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("`completion_us`") && notes[0].contains("`completion_ns`"), "{notes:?}");
    }
}

#[test]
fn errors_in_foreign_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let check = |columns: Vec<(&str, ArrayRef)>, reasons: &[&str]| {
        let path = foreign(folder.path(), columns);
        let message = read(&path).unwrap_err().to_string();
        assert!(message.starts_with(path.to_str().unwrap()), "{message}");
        for reason in reasons {
            assert!(message.contains(reason), "{message}");
        }
    };
    check(
        minimum().into_iter().filter(|(name, _)| *name != "blocks").collect(),
        &["list of columns is `arrival_ns, op, lbn`", "the column `blocks` is missing"],
    );
    let with = |index: usize, array: ArrayRef| {
        let mut columns = minimum();
        columns[index].1 = array;
        columns
    };
    check(
        with(2, Arc::new(Float64Array::from(vec![1.0, 2.0]))),
        &["type of column lbn is `Float64`", "integers"],
    );
    check(with(1, Arc::new(Int32Array::from(vec![1, 2]))), &["type of column op is `Int32`", "strings"]);
    check(with(2, Arc::new(Int32Array::from(vec![1, -2]))), &["row 2: lbn is `-2`"]);
    check(with(1, Arc::new(StringArray::from(vec!["read", "erase"]))), &["row 2: op is `erase`"]);
    check(with(0, Arc::new(Int64Array::from(vec![Some(1), None]))), &["row 2: arrival_ns is ``"]);
    check(with(3, Arc::new(Int64Array::from(vec![1, 1 << 40]))), &["row 2: blocks is `1099511627776`"]);
    let mut columns = minimum();
    columns.push(("completion_ns", Arc::new(Int64Array::from(vec![5, 20]))));
    columns.push(("response_ns", Arc::new(Int64Array::from(vec![5, 11]))));
    check(columns, &["row 2: response_ns is `11`", "which is 10"]);
}

#[test]
fn truncated_file_is_named_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = foreign(folder.path(), minimum());
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = read(&path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{}: the file ends early: a Parquet file ends with `PAR1`", path.display())
    );
    assert!(error.hint().unwrap().contains("cut short"));
    let error = open(&path.with_extension("csv"), Some("parquett"), &ReadOptions::default()).unwrap_err();
    assert_eq!(error.hint(), Some("did you mean `parquet`?"));
}

#[test]
fn compressed_parquet_file_is_refused_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let error = create(&folder.path().join("t.parquet.zst"), None, &Metadata::default()).err().unwrap();
    assert!(error.hint().unwrap().contains(".parquet"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let path = foreign(folder.path(), minimum());
    let packed = path.with_extension("zst");
    fs::write(&packed, zstd_of(&fs::read(&path).unwrap())).unwrap();
    let error = read(&packed).unwrap_err();
    assert!(error.hint().unwrap().contains("zstd -d"), "{error}");
}

/// `bytes` as one raw block in a zstd frame (RFC 8878, sections 3.1.1.1 and 3.1.1.2).
fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    let size = u32::try_from(bytes.len()).unwrap();
    assert!(size < 1 << 17, "a block has at most 128 KiB");
    let header = (size << 3 | 1).to_le_bytes();
    [&[0x28, 0xb5, 0x2f, 0xfd, 0xa0][..], &size.to_le_bytes(), &header[..3], bytes].concat()
}

#[test]
fn unfinished_trace_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = create(&folder.path().join("t.parquet"), None, &Metadata::default()).unwrap();
    writer.write(&TraceRecord::new(Instant::ZERO, Operation::Read, 0, 1)).unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn flipped_bits_change_no_figure_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, damaged) = (folder.path().join("t.parquet"), folder.path().join("damaged.parquet"));
    let mut metadata = Metadata { labels: vec!["sda".to_owned()], ..Metadata::default() };
    metadata.set_capacity(0, ByteSize::from_bytes(4 << 30));
    let records: Vec<TraceRecord> = (0..9_000_u64)
        .map(|index| {
            let arrival = Instant::from_ns(index * 1_000_003 + index % 7 * 991);
            let op = if index % 3 == 0 { Operation::Write } else { Operation::Read };
            let record = TraceRecord::new(arrival, op, index * 7_919 % 100_003, 8 + (index % 5) as u32);
            let completion =
                (index % 11 > 0).then(|| Instant::from_ns(arrival.as_ns() + 90_000 + index % 13));
            TraceRecord { completion, ..record }
        })
        .collect();
    write(&path, &metadata, &records);
    let all = |path: &Path| -> Result<(Vec<TraceRecord>, Metadata), TraceError> {
        let mut trace = open(path, None, &ReadOptions::default())?;
        let rows = trace.by_ref().collect::<Result<_, _>>()?;
        Ok((rows, trace.metadata().clone()))
    };
    let expected = all(&path).unwrap();
    assert_eq!(expected, (records, metadata));
    let bytes = fs::read(&path).unwrap();
    let (trials, mut noticed) = (600, 0);
    for trial in 0..trials {
        let mut flipped = bytes.clone();
        flipped[trial * bytes.len() / trials] ^= 1 << (trial % 8);
        fs::write(&damaged, &flipped).unwrap();
        match all(&damaged) {
            Err(_) => noticed += 1,
            Ok(found) => assert!(found == expected, "trial {trial}"),
        }
    }
    assert!(noticed > trials * 2 / 3, "{noticed} of {trials} are noticed; the others change nothing");
}
