//! Written traces of the text formats are read back unchanged.

use proptest::prelude::*;
use proptest::sample::select;
use seeklab_core::{ByteSize, Instant, Operation, TraceRecord};
use seeklab_traces::{FORMATS, Metadata, ReadOptions, create_with, open_with};

/// Writes `records` in the format of that name and reads them back, with the labels.
fn there_and_back(
    format: &str,
    metadata: &Metadata,
    records: &[TraceRecord],
) -> (Vec<TraceRecord>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.zst");
    let mut writer = create_with(FORMATS, &path, Some(format), metadata).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap();
    let options = ReadOptions { block_size: Some(metadata.block_size), ..ReadOptions::default() };
    let mut trace = open_with(FORMATS, &path, Some(format), &options).unwrap();
    let rows = trace.by_ref().collect::<Result<_, _>>().unwrap();
    assert!(trace.notes().is_empty(), "{:?}", trace.notes());
    (rows, trace.metadata().labels.clone())
}

/// Records in order of arrival, in units of `unit_ns`, the first at zero; devices appear in order.
fn any_records(ops: &'static [Operation], unit_ns: u64) -> impl Strategy<Value = Vec<TraceRecord>> {
    let row = (0..1_u64 << 20, select(ops), 0..1_u64 << 40, 1..1_u32 << 20, 0..3_u16);
    proptest::collection::vec(row, 1..20).prop_map(move |rows| {
        let (mut arrival, mut devices) = (0, 0);
        let mut records: Vec<TraceRecord> = Vec::new();
        for (gap, op, lbn, blocks, device) in rows {
            let arrival_now = if records.is_empty() { 0 } else { arrival + gap * unit_ns };
            arrival = arrival_now;
            let device = device.min(devices);
            devices = devices.max(device + 1);
            let (lbn, blocks) = if op.addresses_blocks() { (lbn, blocks) } else { (0, 0) };
            let record = TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks);
            records.push(TraceRecord { device, ..record });
        }
        records
    })
}

const READ_WRITE: &[Operation] = &[Operation::Read, Operation::Write];
const FIO: &[Operation] = &[Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ssdsim_round_trips(records in any_records(READ_WRITE, 1), block in select(&[512_u64, 4096][..])) {
        let metadata = Metadata { block_size: ByteSize::from_bytes(block), ..Metadata::default() };
        prop_assert_eq!(there_and_back("ssdsim", &metadata, &records).0, records);
    }

    #[test]
    fn alibaba_round_trips_in_microseconds(records in any_records(READ_WRITE, 1_000)) {
        let labels: Vec<String> = ["419", "7", "0"].map(str::to_owned).into();
        let metadata = Metadata { labels: labels.clone(), ..Metadata::default() };
        let (rows, read) = there_and_back("alibaba", &metadata, &records);
        prop_assert_eq!(&labels[..read.len()], &read[..]);
        prop_assert_eq!(rows, records);
    }

    #[test]
    fn tencent_round_trips_in_seconds(records in any_records(READ_WRITE, 1_000_000_000)) {
        let metadata = Metadata { block_size: ByteSize::from_bytes(4096), ..Metadata::default() };
        prop_assert_eq!(there_and_back("tencent", &metadata, &records).0, records);
    }

    #[test]
    fn iologs_round_trip_in_microseconds(records in any_records(FIO, 1_000)) {
        let labels: Vec<String> = ["/my own/file 1 2", "/dev/sdb read", "add"].map(str::to_owned).into();
        let metadata = Metadata { labels: labels.clone(), ..Metadata::default() };
        for format in ["fio-iolog-v2", "fio-iolog-v3"] {
            let (rows, read) = there_and_back(format, &metadata, &records);
            prop_assert_eq!(&labels[..read.len()], &read[..]);
            prop_assert_eq!(&rows, &records);
        }
    }
}

fn read_at(arrival: u64, device: u16) -> TraceRecord {
    TraceRecord { device, ..TraceRecord::new(Instant::from_ns(arrival), Operation::Read, 0, 8) }
}

#[test]
fn invalid_file_labels_are_replaced_and_equal_labels_distinguished() {
    let labels = ["a", "a", "", " b", "line\nend"].map(str::to_owned).into();
    let metadata = Metadata { labels, ..Metadata::default() };
    let records: Vec<_> = (0..6).map(|device| read_at(0, device)).collect();
    let (rows, labels) = there_and_back("fio-iolog-v3", &metadata, &records);
    assert_eq!(rows, records);
    assert_eq!(labels, ["a", "seeklab.1", "seeklab.2", "seeklab.3", "seeklab.4", "seeklab.5"]);
}

#[test]
fn unrepresentable_rows_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let check = |format: &str, metadata: &Metadata, records: &[TraceRecord], reason: &str| {
        let path = folder.path().join("t");
        let mut writer = create_with(FORMATS, &path, Some(format), metadata).unwrap();
        let message = records.iter().find_map(|record| writer.write(record).err()).unwrap().to_string();
        assert!(message.contains(reason), "{message}");
    };
    let (plain, zero) = (Metadata::default(), Instant::ZERO);
    let flush = TraceRecord::new(zero, Operation::Flush, 0, 0);
    for format in ["ssdsim", "alibaba", "tencent"] {
        check(format, &plain, &[flush], &format!("row 1: the format `{format}` cannot hold a flush"));
    }
    let zeroes = TraceRecord::new(zero, Operation::WriteZeroes, 0, 1);
    check("fio-iolog-v3", &plain, &[zeroes], "cannot hold a write_zeroes");
    check("fio-iolog-v2", &plain, &[read_at(5_000, 0), read_at(0, 0)], "rows out of order");
    let far = TraceRecord::new(zero, Operation::Read, u64::MAX / 2, 1);
    check("alibaba", &plain, &[far], "in bytes");
    let odd = Metadata { block_size: ByteSize::from_bytes(520), ..Metadata::default() };
    check("ssdsim", &odd, &[read_at(0, 0), TraceRecord::new(zero, Operation::Read, 1, 1)], "sectors of 512");
}
