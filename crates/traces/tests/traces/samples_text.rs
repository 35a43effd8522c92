//! Every sample of the text formats, all of our own making, is read as its description states.

use std::path::{Path, PathBuf};

use seeklab_core::{BufferOutcome, Instant, Operation, Status, TraceRecord};
use seeklab_traces::{FORMATS, Note, OpenTrace, ReadOptions, open_with};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Opens the sample by guessing and checks that the guess is `format`.
fn open(name: &str, format: &str) -> OpenTrace {
    let trace = open_with(FORMATS, &sample(name), None, &ReadOptions::default()).unwrap();
    assert_eq!(trace.format(), format);
    trace
}

fn options(settings: &[&str]) -> ReadOptions {
    let settings = settings.iter().map(|text| text.parse().unwrap()).collect();
    ReadOptions { settings, ..ReadOptions::default() }
}

fn rows(trace: &mut OpenTrace) -> Vec<TraceRecord> {
    trace.by_ref().collect::<Result<_, _>>().unwrap()
}

/// Arrival in ns, device, operation, first block and blocks of every row.
fn requests(rows: &[TraceRecord]) -> Vec<(u64, u16, Operation, u64, u32)> {
    rows.iter().map(|row| (row.arrival.as_ns(), row.device, row.op, row.lbn, row.blocks)).collect()
}

/// Response times in ns.
fn responses(rows: &[TraceRecord]) -> Vec<Option<u64>> {
    rows.iter().map(|row| row.response_time().map(|time| time.as_ns())).collect()
}

use Operation::{Discard, Flush, Read, Write};

#[test]
fn ssdsim_is_exact_with_0_for_a_write() {
    let rows = rows(&mut open("ssdsim/sample.ssdsim", "ssdsim"));
    assert_eq!(
        requests(&rows),
        [(0, 0, Write, 303_567, 7), (78_643_000, 1, Write, 55_590, 6), (78_643_005, 1, Read, 55_596, 6)]
    );
}

#[test]
fn cuts_of_msr_count_bytes() {
    let rows = rows(&mut open("msr-cut/sample.trace", "msr-cut"));
    assert_eq!(rows.len(), 8);
    assert_eq!(requests(&rows)[1..3], [(22_810_000, 0, Read, 4_307_312, 8), (22_900_000, 1, Read, 1, 1)]);
}

#[test]
fn alibaba_devices_are_labelled_and_times_count_from_the_first_row() {
    let mut trace = open("alibaba/sample.csv", "alibaba");
    let rows = rows(&mut trace);
    assert_eq!(trace.metadata().labels, ["7", "419"]);
    assert_eq!(
        requests(&rows),
        [(0, 0, Read, 247_468_056, 8), (58_000, 1, Read, 0, 16), (374_000, 0, Write, 247_468_064, 2)]
    );
}

#[test]
fn tencent_has_0_for_a_read_and_whole_seconds() {
    let mut trace = open("tencent/sample.csv", "tencent");
    let rows = rows(&mut trace);
    assert_eq!(trace.metadata().labels, ["1063", "5584", "7"]);
    let second = 1_000_000_000;
    assert_eq!(
        requests(&rows),
        [
            (0, 0, Read, 12_910_952, 128),
            (0, 0, Write, 8, 1),
            (second, 2, Read, 0, 8),
            (2 * second, 1, Write, 2_097_152, 64)
        ]
    );
    assert!(trace.missing_columns().iter().any(|lack| lack.name() == "fine_times"));
}

#[test]
fn response_time_of_systor_can_be_empty() {
    let rows = rows(&mut open("systor/sample.csv", "systor"));
    assert_eq!(
        requests(&rows),
        [(0, 0, Write, 1, 1), (736_000, 0, Read, 249_103_800, 8), (999_000, 1, Write, 18_432, 16)]
    );
    assert_eq!(responses(&rows), [Some(10_500_000), Some(432_000), None]);
}

#[test]
fn process_of_fiu_can_have_blanks_and_its_hash_can_be_missing() {
    let mut trace = open("fiu/sample.blkparse", "fiu");
    let rows = rows(&mut trace);
    assert_eq!(trace.metadata().labels, ["6:0", "8:16"]);
    assert_eq!(
        requests(&rows),
        [(0, 0, Write, 508_050_856, 8), (88_000, 0, Read, 508_050_864, 8), (88_500, 1, Write, 0, 1)]
    );
    assert_eq!([rows[0].initiator, rows[2].initiator], [4_253, 1]);
}

#[test]
fn arc_reports_that_times_and_operations_are_missing() {
    let mut trace = open("arc/sample.lis", "arc");
    let rows = rows(&mut trace);
    assert_eq!(requests(&rows), [(0, 0, Read, 1, 1), (0, 0, Read, 36_443, 8), (0, 0, Read, 1, 2)]);
    let missing: Vec<_> = trace.missing_columns().iter().map(|lack| lack.name()).collect();
    assert_eq!(missing, ["arrival_times", "response_times", "operations", "devices"]);
}

#[test]
fn other_commands_of_cloudphysics_are_counted() {
    let mut trace = open("cloudphysics-csv/sample.csv", "cloudphysics-csv");
    let second = 1_000_000_000;
    assert_eq!(
        requests(&rows(&mut trace)),
        [(0, 0, Write, 42_932_745, 1), (second, 0, Read, 40_409_911, 13), (2 * second, 0, Write, 8, 8)]
    );
    let notes = trace.notes();
    let [Note::Skipped { what, count: 1, first, .. }] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!((&**what, first.to_string()), ("other SCSI command[|s]", "line 4".to_owned()));
}

#[test]
fn chunks_of_cachelib_are_laid_side_by_side() {
    let mut trace = open("cachelib/sample.csv", "cachelib");
    let (rows, second, slot) = (rows(&mut trace), 1_000_000_000, (9 << 20) / 512);
    assert_eq!(
        requests(&rows),
        [(0, 0, Read, 0, 16_384), (second, 0, Write, slot, 3), (second, 0, Read, 2, 1)]
    );
    assert_eq!(rows.iter().map(|row| row.initiator).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(trace.notes().len(), 3, "no bytes, neither get nor put, rounded: {:?}", trace.notes());
    let small = options(&["slot=8MiB"]);
    let error = open_with(FORMATS, &sample("cachelib/sample.csv"), None, &small).map(Iterator::count);
    assert_eq!(error.unwrap(), 3, "the largest request just fits");
    let smaller = options(&["slot=1MiB"]);
    let mut trace = open_with(FORMATS, &sample("cachelib/sample.csv"), None, &smaller).unwrap();
    let error = trace.next().unwrap().unwrap_err();
    assert!(error.hint().unwrap().contains("slot=1GiB"), "{error}");
}

#[test]
fn columns_of_thesios_are_found_by_name() {
    let mut trace = open("thesios/sample.csv", "thesios");
    let rows = rows(&mut trace);
    let slot = (1 << 30) / 512;
    assert_eq!(
        requests(&rows),
        [(0, 0, Write, 4_791, 8), (3_607_274, 0, Read, slot + 14_364, 2_052), (26_619_196, 0, Read, 0, 1)]
    );
    assert_eq!(responses(&rows), [Some(124_652), Some(4_246_402), Some(724)]);
    assert_eq!(rows[1].start, Some(Instant::from_ns(3_607_274 + 7_391)));
    let answers = [BufferOutcome::None, BufferOutcome::Miss, BufferOutcome::Hit];
    assert_eq!(rows.iter().map(|row| row.buffer).collect::<Vec<_>>(), answers);
    assert_eq!(rows.iter().map(|row| row.priority).collect::<Vec<_>>(), [1, 2, 0]);
    assert_eq!(trace.metadata().other["initiator.1"], "spanner");
    let notes = trace.notes();
    assert!(matches!(&notes[..], [Note::Skipped { count: 1, .. }, Note::Remark(_)]), "{notes:?}");
}

#[test]
fn numbers_of_wpa_are_read_with_comma_and_points() {
    let mut trace = open("wpa/sample.csv", "wpa");
    let rows = rows(&mut trace);
    assert_eq!(
        requests(&rows),
        [
            (1_080_116_400, 0, Read, 2, 32),
            (1_718_742_000, 1, Write, 0x1_10cd_1000 / 512, 1),
            (1_718_822_100, 0, Flush, 0, 0)
        ]
    );
    assert_eq!(responses(&rows), [Some(159_200), Some(45_700), Some(1_795_900)]);
    assert_eq!(rows[0].service_time().unwrap().as_ns(), 100_000);
    assert_eq!(rows[2].service_time().unwrap().as_ns(), 1_205_600);
    assert_eq!(rows.iter().map(|row| row.priority).collect::<Vec<_>>(), [2, 4, 0]);
    assert_eq!(rows.iter().map(|row| row.queue_length).collect::<Vec<_>>(), [Some(0), Some(12), Some(1)]);
    assert_eq!(trace.metadata().labels, ["1", "0"]);
    assert_eq!(trace.metadata().other["initiator.1"], "my own.exe");
}

#[test]
fn biosnoop_arrival_is_the_completion_less_the_response_time() {
    let mut trace = open("biosnoop/sample.txt", "biosnoop");
    let rows = rows(&mut trace);
    // The write was issued 6 ms before 3 ms, the read 3.45 ms before 0.
    assert_eq!(
        requests(&rows),
        [(0, 0, Read, 8_454_416, 8), (450_000, 1, Write, 16, 2), (188_143_000, 0, Flush, 0, 0)]
    );
    assert_eq!(responses(&rows), [Some(3_450_000), Some(6_000_000), Some(410_000)]);
    assert_eq!(rows.iter().map(|row| row.initiator).collect::<Vec<_>>(), [645, 7, 29_105]);
    assert_eq!(trace.metadata().labels, ["loop1", "sda"]);
}

#[test]
fn biosnoop_with_the_time_in_the_queue_is_read_by_its_header() {
    let rows = rows(&mut open("biosnoop/queue.txt", "biosnoop"));
    assert_eq!(
        requests(&rows),
        [(0, 0, Read, 8_454_416, 8), (6_950_000, 1, Write, 16, 2), (8_200_000, 1, Discard, 2_048, 2_048)]
    );
    assert_eq!(rows.iter().map(|row| row.fua).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn blkparse_is_paired_by_its_issues_with_parts_errors_and_flushes() {
    let mut trace = open("blkparse/sample.txt", "blkparse");
    let rows = rows(&mut trace);
    assert_eq!(trace.metadata().labels, ["8,16", "8,0"]);
    assert_eq!(
        requests(&rows),
        [
            (0, 0, Read, 1_444_645_666, 256),
            (8_135, 1, Write, 8, 16),
            (18_135, 1, Write, 64, 8),
            (38_135, 1, Flush, 0, 0)
        ]
    );
    assert_eq!(responses(&rows), [Some(324_804), Some(50_000), None, Some(330_000)]);
    assert_eq!(rows[0].status, Status::Aborted);
    let notes: Vec<_> = trace.notes().iter().map(ToString::to_string).collect();
    let expected =
        ["1 request has no completion", "1 completion belongs", "command is neither", "skipped 2 lines"];
    for part in expected {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
    }
    let queue = options(&["arrival=queue"]);
    let mut trace = open_with(FORMATS, &sample("blkparse/sample.txt"), None, &queue).unwrap();
    assert_eq!(responses(&self::rows(&mut trace))[0], Some(354_819));
}

#[test]
fn output_of_perf_script_is_read() {
    // perf 6.1 on Linux 6.18: dd to a loop device, 12 writes, their flush, and 6 reads.
    let mut trace = open("tracefs/perf-script.txt", "tracefs");
    let rows = rows(&mut trace);
    let (writes, rest) = rows.split_at(12);
    let (flush, reads) = rest.split_first().unwrap();
    for (of, op, blocks, initiator) in [(writes, Write, 16, 16_040), (reads, Read, 32, 16_041)] {
        let next = (0_u64..).step_by(blocks as usize);
        for (row, lbn) in of.iter().zip(next) {
            assert_eq!((row.op, row.lbn, row.blocks, row.initiator), (op, lbn, blocks, initiator));
        }
    }
    assert_eq!((reads.len(), flush.op, flush.initiator), (6, Flush, 17_818));
    assert_eq!(responses(&rows)[..2], [Some(50_000), Some(7_000)]);
    assert!(rows.iter().all(|row| row.completion.is_some()));
    assert_eq!(trace.metadata().labels, ["7,0"]);
}

#[test]
fn tracefs_is_read_with_losses_odd_names_and_passed_through_commands() {
    let mut trace = open("tracefs/sample.ftrace", "tracefs");
    let rows = rows(&mut trace);
    assert_eq!(trace.metadata().labels, ["7,1", "8,0"]);
    assert_eq!(
        requests(&rows),
        [(0, 0, Read, 8_454_416, 8), (99_000, 1, Flush, 0, 0), (5_299_000, 1, Write, 24, 1)]
    );
    assert_eq!(responses(&rows), [Some(3_448_000), None, Some(1_000_000)]);
    assert_eq!((rows[1].initiator, rows[2].fua, rows[2].status), (29_105, true, Status::Aborted));
    let notes: Vec<_> = trace.notes().iter().map(ToString::to_string).collect();
    let expected =
        ["1 request has no completion", "1 completion belongs", "1 command is", "lost at 1 place:"];
    for part in expected {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
    }
}

#[test]
fn waits_of_a_version_2_iolog_give_its_times() {
    let mut trace = open("fio-iolog/sample.v2.iolog", "fio-iolog-v2");
    let rows = rows(&mut trace);
    assert_eq!(
        requests(&rows),
        [
            (0, 0, Read, 8, 16),
            (120_000, 1, Write, 1, 1),
            (1_000_120_000, 0, Flush, 0, 0),
            (1_000_120_000, 1, Discard, 2_048, 128)
        ]
    );
    assert_eq!(trace.metadata().labels, ["/tmp/my file", "/dev/sdb"]);
}

#[test]
fn iolog_has_times_in_microseconds_and_allows_blanks_in_a_path() {
    let mut trace = open("fio-iolog/sample.iolog", "fio-iolog-v3");
    assert_eq!(
        requests(&rows(&mut trace)),
        [(4_486_000, 0, Read, 424_896, 32), (5_901_000, 0, Write, 0, 1), (5_902_000, 0, Flush, 0, 0)]
    );
    assert_eq!(trace.metadata().labels, ["/tmp/my read 1 file"]);
}

#[test]
fn fio_logs_of_other_quantities_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str| {
        let path = folder.path().join(name);
        std::fs::copy(sample("fio-log/sample.log"), &path).unwrap();
        path
    };
    for (name, what) in [
        ("job_bw.1.log", "a bandwidth"),
        ("a_b_iops.log", "a rate"),
        ("bw.log", "a bandwidth"),
        ("job_slat.12.log", "the time of submission alone"),
    ] {
        let error = open_with(FORMATS, &named(name), None, &ReadOptions::default()).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(name) && message.contains(what), "{message}");
        assert!(error.hint().unwrap().contains("value-is=latency"), "{name}");
        let rows = open_with(FORMATS, &named(name), None, &options(&["value-is=latency"])).unwrap();
        assert_eq!(rows.count(), 3, "{name}");
    }
    for name in ["job_lat.1.log", "job_clat.1.log", "x_bw.of_lat.log", "bwx.log"] {
        assert_eq!(
            open_with(FORMATS, &named(name), None, &ReadOptions::default()).unwrap().count(),
            3,
            "{name}"
        );
    }
}

#[test]
fn fio_log_arrival_is_the_completion_less_the_response_time() {
    let mut trace = open("fio-log/sample.log", "fio-log");
    let rows = rows(&mut trace);
    assert_eq!(
        requests(&rows),
        [(0, 0, Read, 984, 8), (1_001_032, 0, Write, 13_808, 8), (1_015_025, 0, Discard, 7_696, 1)]
    );
    assert_eq!(responses(&rows), [Some(16_302), Some(15_270), Some(1_277)]);
    let mut trace =
        open_with(FORMATS, &sample("fio-log/sample.log"), None, &options(&["latency-unit=us"])).unwrap();
    assert_eq!(responses(&self::rows(&mut trace))[0], Some(16_302_000));
    let applied: Vec<_> =
        trace.applied().iter().map(|option| (option.name, &*option.value, option.is_explicit)).collect();
    assert_eq!(
        applied,
        [
            ("latency-unit", "us", true),
            ("values", "one", false),
            ("without-offset", "refuse", false),
            ("value-is", "by-name", false)
        ]
    );
}

#[test]
fn fio_log_arrival_is_the_time_of_issue_if_present() {
    let rows = rows(&mut open("fio-log/issue.log", "fio-log"));
    assert_eq!(requests(&rows), [(0, 0, Read, 7_696, 8), (4_000, 0, Write, 13_808, 8)]);
    assert_eq!(responses(&rows), [Some(1_277), Some(15_270)]);
}

#[test]
fn requests_of_a_script_are_read_with_all_its_fields() {
    let rows = rows(&mut open("issue-csv/sample.csv", "issue-csv"));
    assert_eq!(
        requests(&rows),
        [(290_000, 0, Read, 8_454_416, 8), (395_000, 0, Flush, 0, 0), (400_000, 0, Write, 16, 16)]
    );
    assert_eq!(responses(&rows), [Some(3_448_000), Some(20_000), None]);
    assert_eq!((rows[2].fua, rows[2].queue_length, rows[2].initiator), (true, Some(1), 7));
}

#[test]
fn options_set_units_codes_and_the_event_of_arrival() {
    let read = |name: &str, settings: &[&str]| {
        rows(&mut open_with(FORMATS, &sample(name), None, &options(settings)).unwrap())
    };
    let ssdsim = read("ssdsim/sample.ssdsim", &["time-unit=us", "read-code=0"]);
    assert_eq!(
        requests(&ssdsim),
        [
            (0, 0, Read, 303_567, 7),
            (78_643_000_000, 1, Read, 55_590, 6),
            (78_643_005_000, 1, Write, 55_596, 6)
        ]
    );
    let cut = read("msr-cut/sample.trace", &["read-code=0"]);
    assert_eq!(cut.iter().filter(|row| row.op == Write).count(), 3);
    let iolog = read("fio-iolog/sample.iolog", &["time-unit=ns"]);
    assert_eq!(iolog[0].arrival.as_ns(), 4_486);
    let cloudphysics = read("cloudphysics-csv/sample.csv", &["time-unit=us"]);
    assert_eq!(cloudphysics[2].arrival.as_ns(), 2_000);
    // The read waited 1.2 ms before its issue, the write not at all.
    let biosnoop = read("biosnoop/queue.txt", &["arrival=queue"]);
    assert_eq!(responses(&biosnoop), [Some(4_650_000), Some(500_000), Some(260_000)]);
    assert_eq!(biosnoop[0].issue, Some(Instant::from_ns(1_200_000)));
    let error =
        open_with(FORMATS, &sample("ssdsim/sample.ssdsim"), None, &options(&["time-unit=h"])).unwrap_err();
    assert!(error.to_string().contains("format option `time-unit` is `h`: s|ms|us|ns is allowed"), "{error}");
}
