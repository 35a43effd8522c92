//! Written traces are read back unchanged, and arbitrary bytes never cause a panic.

use std::io::Cursor;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use seeklab_core::{
    Breakdown, BufferOutcome, ClassTimes, Criticality, Duration, Instant, MeasurementPoints, MissCause,
    Operation, Status, TraceRecord,
};
use seeklab_traces::{FORMATS, Metadata, ReadOptions, Source, create_with, open_source, open_with};

use crate::any_points::{any_points, measured};

/// Generates rows that a canonical trace can represent: times in order, a breakdown that sums to the response
/// time.
fn any_record() -> impl Strategy<Value = TraceRecord> {
    let address = (select(&Operation::ALL[..]), 0..u64::MAX / 2, 1..u32::MAX, any::<u16>(), any::<u32>());
    let parts = proptest::option::of(proptest::array::uniform9(0..1_u64 << 40));
    let lengths = (any::<Option<u32>>(), any::<Option<u32>>(), any::<Option<u64>>());
    let options = (any::<bool>(), any::<u8>(), any::<bool>(), any::<Option<u32>>(), 0..3_usize, 0..3_usize);
    (address, 0..1_u64 << 60, parts, lengths, options, any::<Option<u32>>()).prop_map(
        |((op, lbn, blocks, device, initiator), arrival, parts, lengths, options, seek_cylinders)| {
            let breakdown = parts.map(|parts| {
                let [queue, overhead, seek, settle, head_switch, rotation, transfer, bus, internal] =
                    parts.map(Duration::from_ns);
                Breakdown { queue, overhead, seek, settle, head_switch, rotation, transfer, bus, internal }
            });
            let after = |length: Option<u32>| length.map(|ns| Instant::from_ns(arrival + u64::from(ns)));
            let (issue, start, think) = lengths;
            let total = breakdown.map(|breakdown| breakdown.total());
            let completion = total.map(|total| Instant::from_ns(arrival) + total);
            let start = after(start).map(|start| completion.map_or(start, |end| start.min(end)));
            let (fua, priority, failed, queue_length, criticality, buffer) = options;
            TraceRecord {
                issue: after(issue),
                start,
                completion,
                think: think.map(Duration::from_ns),
                queue_length,
                device,
                initiator,
                fua,
                criticality: Criticality::ALL[criticality],
                became: match Criticality::ALL[criticality] {
                    Criticality::TimeNoncritical if priority % 4 > 0 => {
                        let limited = (priority % 4 > 1).then_some(Instant::from_ns(arrival));
                        let end = completion.unwrap_or(Instant::from_ns(arrival + 7));
                        ClassTimes::new(limited, (priority % 4 < 3).then_some(end))
                    }
                    Criticality::TimeLimited if fua => ClassTimes::new(None, Some(Instant::from_ns(arrival))),
                    _ => ClassTimes::NONE,
                },
                priority,
                status: if failed { Status::MediumError } else { Status::Recovered },
                good_blocks: (failed && priority % 2 == 0).then_some(blocks / 2),
                breakdown,
                seek_cylinders,
                buffer: [BufferOutcome::None, BufferOutcome::Miss, BufferOutcome::Hit][buffer],
                ..TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks)
            }
        },
    )
}

/// A read or write of which the times are known, at `arrival`.
fn simple(arrival: u64, response: Option<u64>, write: bool, lbn: u64, blocks: u32) -> TraceRecord {
    let op = if write { Operation::Write } else { Operation::Read };
    let completion = response.map(|ns| Instant::from_ns(arrival + ns));
    TraceRecord { completion, ..TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks) }
}

/// Writes `records` as `name` under `path` and reads them back by guessing.
fn there_and_back(
    name: &str,
    suffix: &str,
    metadata: &Metadata,
    records: &[TraceRecord],
) -> Vec<TraceRecord> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("t.{suffix}"));
    let mut writer = create_with(FORMATS, &path, Some(name), metadata).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap();
    let options = ReadOptions { block_size: Some(metadata.block_size), ..ReadOptions::default() };
    open_with(FORMATS, &path, Some(name), &options).unwrap().collect::<Result<_, _>>().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn canonical_csv_round_trips(
        records in proptest::collection::vec(any_record(), 0..20),
        suffix in select(&["csv", "csv.gz", "csv.zst"][..]),
        device: Option<String>,
    ) {
        let metadata = Metadata { device, ..Metadata::default() };
        prop_assert_eq!(there_and_back("csv", suffix, &metadata, &records), records);
    }

    #[test]
    fn measurement_points_round_trip_in_csv(
        records in proptest::collection::vec(any_record(), 1..20),
        points in proptest::collection::vec(any_points(), 20),
    ) {
        let records = measured(records, &points);
        prop_assert_eq!(there_and_back("csv", "csv", &Metadata::default(), &records), records);
    }

    #[test]
    fn formats_of_arrivals_round_trip(
        mut arrivals in proptest::collection::vec(0..1_u64 << 50, 1..20),
        lbn in 0..1_u64 << 40, blocks in 1..1_u32 << 20, write: bool, device: u16,
    ) {
        arrivals.sort();
        let records: Vec<_> = arrivals.iter()
            .map(|at| TraceRecord { device, ..simple(*at, None, write, lbn, blocks) })
            .collect();
        // Written in blocks of 512 bytes.
        let metadata = Metadata::default();
        prop_assert_eq!(&there_and_back("disksim-ascii", "ascii", &metadata, &records), &records);
        prop_assert_eq!(&there_and_back("spc", "spc.gz", &metadata, &records), &records);
    }

    #[test]
    fn msr_round_trips_in_ticks(
        mut arrivals in proptest::collection::vec(0..1_u64 << 50, 1..20),
        response in 0..1_u64 << 40, lbn in 0..1_u64 << 40, blocks in 1..1_u32 << 20, write: bool,
    ) {
        arrivals.sort();
        let first = arrivals[0];
        let records: Vec<_> = arrivals.iter()
            .map(|at| simple((at - first) * 100, Some(response * 100), write, lbn, blocks))
            .collect();
        prop_assert_eq!(there_and_back("msr", "msr.csv", &Metadata::default(), &records), records);
    }

    #[test]
    fn validate_round_trips(
        times in proptest::collection::vec((0..1_u64 << 40, 0..1_u64 << 40), 1..20),
        lbn in 0..1_u64 << 40, blocks in 1..1_u32 << 20, write: bool,
    ) {
        let mut arrival = 0;
        let records: Vec<_> = times.iter().map(|(response, think)| {
            let at = Some(Instant::from_ns(arrival));
            let record = TraceRecord {
                issue: at, start: at, queue_length: Some(0), think: Some(Duration::from_ns(*think)),
                ..simple(arrival, Some(*response), write, lbn, blocks)
            };
            arrival += response + think;
            record
        }).collect();
        prop_assert_eq!(there_and_back("disksim-validate", "validate", &Metadata::default(), &records), records);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[#RW HitMsArepadD0-9.,x:\r\n_-]{0,200}") {
        read_all(text.as_bytes());
    }

    #[test]
    fn damaged_samples_never_panic(which in 0..SAMPLES.len(), at: Index, byte: u8, cut: Index) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(SAMPLES[which]);
        let mut bytes = std::fs::read(path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        read_all(&bytes);
        read_all(&bytes[..cut.index(bytes.len())]);
    }
}

const SAMPLES: [&str; 24] = [
    "csv/sample.csv",
    "disksim-ascii/sample.ascii",
    "disksim-validate/sample.validate",
    "spc/sample.spc",
    "msr/sample.csv",
    "msr-cut/sample.trace",
    "ssdsim/sample.ssdsim",
    "alibaba/sample.csv",
    "tencent/sample.csv",
    "systor/sample.csv",
    "fiu/sample.blkparse",
    "arc/sample.lis",
    "cloudphysics-csv/sample.csv",
    "cachelib/sample.csv",
    "thesios/sample.csv",
    "wpa/sample.csv",
    "biosnoop/sample.txt",
    "biosnoop/queue.txt",
    "blkparse/sample.txt",
    "tracefs/sample.ftrace",
    "fio-iolog/sample.v2.iolog",
    "fio-iolog/sample.iolog",
    "fio-log/sample.log",
    "issue-csv/sample.csv",
];

/// Reads `bytes` in every format and by guessing, to the end or an error.
fn read_all(bytes: &[u8]) {
    for format in FORMATS.iter().map(|format| Some(format.name())).chain([None]) {
        let Ok(source) = Source::from_stream("x", Box::new(Cursor::new(bytes.to_vec()))) else { continue };
        if let Ok(trace) = open_source(FORMATS, source, format, &ReadOptions::default()) {
            let errors = trace.filter(Result::is_err).count();
            assert!(errors <= 1, "an error ends a trace");
        }
    }
}

#[test]
fn unrepresentable_rows_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let check = |format: &str, record: TraceRecord, reason: &str| {
        let path = folder.path().join("t");
        let mut writer = create_with(FORMATS, &path, Some(format), &Metadata::default()).unwrap();
        let message = writer.write(&record).unwrap_err().to_string();
        assert!(message.contains("row 1: ") && message.contains(reason), "{message}");
    };
    let flush = TraceRecord::new(Instant::ZERO, Operation::Flush, 0, 0);
    for format in ["disksim-ascii", "disksim-validate", "spc", "msr"] {
        check(format, flush, &format!("the format `{format}` cannot hold a flush"));
    }
    let unknown = simple(0, None, false, 0, 1);
    check("msr", unknown, "unknown response time");
    check("disksim-validate", unknown, "unknown response time");
    check("disksim-validate", TraceRecord { device: 3, ..simple(0, Some(1), false, 0, 1) }, "device 3");
    check("csv", simple(0, None, false, 0, 0), "blocks is `0`");
    let odd = TraceRecord { breakdown: Some(Breakdown::default()), ..simple(0, Some(5), false, 0, 1) };
    check("csv", odd, "disagrees with the response time, which is 5");
    let changed = |criticality, limited: Option<u64>, critical: Option<u64>| {
        let time = |ns: Option<u64>| ns.map(Instant::from_ns);
        let became = ClassTimes::new(time(limited), time(critical));
        TraceRecord { criticality, became, ..simple(10, Some(50), false, 0, 1) }
    };
    use Criticality::{TimeCritical, TimeLimited, TimeNoncritical};
    check("csv", changed(TimeNoncritical, Some(9), None), "became_time_limited_ns is `9`: it lies before 10");
    check(
        "csv",
        changed(TimeNoncritical, Some(20), Some(19)),
        "became_time_critical_ns is `19`: it lies before 20",
    );
    check("csv", changed(TimeNoncritical, None, Some(61)), "it lies behind the completion, 60");
    check("csv", changed(TimeLimited, Some(20), None), "less pressing, and this one was `time_limited`");
    check("csv", changed(TimeCritical, None, Some(20)), "less pressing, and this one was `time_critical`");
}

/// Returns a request with the measurement points of the emulator.
fn emulated() -> TraceRecord {
    let points = MeasurementPoints {
        mp2_arrival: Some(Instant::from_ns(8)),
        mp2_due: Some(Instant::from_ns(60)),
        mp2_completion: Some(Instant::from_ns(61)),
        miss_cause: Some(MissCause::DataNotThere),
        ..MeasurementPoints::NONE
    };
    TraceRecord { points, ..simple(10, Some(50), false, 3, 1) }
}

#[test]
fn measurement_points_are_written_only_where_measured() {
    let folder = tempfile::tempdir().unwrap();
    let written = |records: &[TraceRecord]| {
        let path = folder.path().join("t.csv");
        let mut writer = create_with(FORMATS, &path, None, &Metadata::default()).unwrap();
        records.iter().for_each(|record| writer.write(record).unwrap());
        writer.finish().unwrap();
        std::fs::read_to_string(&path).unwrap()
    };
    let plain = simple(10, Some(50), false, 3, 1);
    for records in [&[][..], &[plain]] {
        assert!(written(records).contains("internal_ns,cache_hit\n"));
    }
    let text = written(&[emulated(), plain]);
    let names = "mp1_arrival_ns,mp1_completion_ns,mp2_arrival_ns,mp2_due_ns,mp2_completion_ns,miss_cause\n";
    assert!(text.contains(&format!("internal_ns,cache_hit,{names}")), "{text}");
    assert!(text.contains(",,,8,60,61,data_not_there\n") && text.ends_with(",,,,,,\n"), "{text}");
}

#[test]
fn contradictory_or_late_measurement_points_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let mut writer = create_with(FORMATS, &path, None, &Metadata::default()).unwrap();
    writer.write(&simple(0, Some(5), false, 3, 1)).unwrap();
    let error = writer.write(&emulated()).unwrap_err();
    assert!(
        error.to_string().contains("row 2: mp2_arrival_ns is `8`: the first row has no measurement points"),
        "{error}"
    );
    let mut points = emulated().points;
    points.mp2_completion = Some(Instant::from_ns(7));
    let mut writer = create_with(FORMATS, &path, None, &Metadata::default()).unwrap();
    let error = writer.write(&TraceRecord { points, ..emulated() }).unwrap_err();
    assert!(error.to_string().contains("row 1: mp2_completion_ns is `7`"), "{error}");
    for (row, reason) in [("0,read,1,1,9,8", "mp1_completion_ns is `8`"), ("0,read,1,1,9,x", "is `x`")] {
        std::fs::write(&path, format!("arrival_ns,op,lbn,blocks,mp1_arrival_ns,mp1_completion_ns\n{row}\n"))
            .unwrap();
        let error =
            open_with(FORMATS, &path, None, &ReadOptions::default()).unwrap().next().unwrap().unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn suffix_chooses_the_format() {
    let folder = tempfile::tempdir().unwrap();
    for (name, format) in
        [("a.csv", "csv"), ("a.msr.csv.zst", "msr"), ("a.spc.gz", "spc"), ("a.ascii", "disksim-ascii")]
    {
        let path = folder.path().join(name);
        let mut writer = create_with(FORMATS, &path, None, &Metadata::default()).unwrap();
        writer.write(&simple(1_500_000_001, Some(100), false, 3, 1)).unwrap();
        writer.finish().unwrap();
        let trace = open_with(FORMATS, &path, None, &ReadOptions::default()).unwrap();
        assert_eq!(trace.format(), format, "{name}");
        assert_eq!(trace.count(), 1);
    }
    let error = create_with(FORMATS, Path::new("a.xyz"), None, &Metadata::default()).err().unwrap();
    assert!(error.to_string().contains("`a.xyz` names no trace format"), "{error}");
}

#[test]
fn msr_labels_survive_writing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.msr");
    let labels = vec!["hm.1".to_owned(), "no number".to_owned()];
    let metadata = Metadata { labels, ..Metadata::default() };
    let mut writer = create_with(FORMATS, &path, None, &metadata).unwrap();
    for device in 0..2 {
        writer.write(&TraceRecord { device, ..simple(0, Some(100), true, 3, 1) }).unwrap();
    }
    writer.finish().unwrap();
    let mut trace = open_with(FORMATS, &path, None, &ReadOptions::default()).unwrap();
    assert_eq!(trace.by_ref().count(), 2);
    assert_eq!(trace.metadata().labels, ["hm.1", "seeklab.1"]);
}
