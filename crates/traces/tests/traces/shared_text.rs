//! Shared samples of the text formats, read whole, with the numbers that their descriptions state.

use std::collections::BTreeSet;

use seeklab_core::{Operation, TraceRecord};
use seeklab_traces::{FORMATS, Metadata, Note, ReadOptions, open_with};

use crate::shared::shared;

struct Read {
    rows: Vec<TraceRecord>,
    notes: Vec<Note>,
    metadata: Metadata,
}

/// Reads the trace by guessing and checks the format.
fn read(name: &str, format: &str) -> Read {
    let path = shared(name);
    let mut trace = open_with(FORMATS, &path, None, &ReadOptions::default()).unwrap();
    assert_eq!(trace.format(), format, "{name}");
    let rows: Vec<_> = trace.by_ref().collect::<Result<_, _>>().unwrap();
    assert!(rows.is_sorted_by_key(|record| record.arrival), "{name}");
    Read { rows, notes: trace.notes(), metadata: trace.metadata().clone() }
}

impl Read {
    /// Returns the same, and asserts that there are no notes for the user.
    fn in_silence(self) -> Self {
        assert!(self.notes.is_empty(), "{:?}", self.notes);
        self
    }

    fn count(&self, op: Operation) -> usize {
        self.rows.iter().filter(|record| record.op == op).count()
    }

    /// Response times of an operation in order.
    fn responses_us(&self, op: Operation) -> Vec<f64> {
        let of_op = self.rows.iter().filter(|record| record.op == op);
        let mut times: Vec<f64> =
            of_op.map(|record| record.response_time().unwrap().as_ns() as f64 / 1_000.0).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Checks median, 99th percentile and maximum of the response times in microseconds, each within
    /// `slack_us`.
    fn check_responses(&self, op: Operation, expect_us: [f64; 3], slack_us: f64) {
        let times = self.responses_us(op);
        // The descriptions interpolate between the two nearest.
        let quantile = |part: f64| {
            let place = (times.len() - 1) as f64 * part;
            let (below, above) = (times[place as usize], times[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        for (part, expect) in [0.5, 0.99, 1.0].into_iter().zip(expect_us) {
            let seen = quantile(part);
            assert!((seen - expect).abs() <= slack_us, "{op:?} {part}: {seen} us");
        }
    }

    fn span_s(&self) -> f64 {
        let (first, last) = (self.rows.first().unwrap(), self.rows.last().unwrap());
        (last.arrival - first.arrival).as_ns() as f64 / 1e9
    }

    fn devices(&self) -> usize {
        self.rows.iter().map(|record| record.device).collect::<BTreeSet<_>>().len()
    }
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn ssdsim_equals_its_spc_twin() {
    let name = "spc-financial1-prefix/ssdsim-example.ascii.zst";
    let ssdsim = read(name, "ssdsim");
    // The file, which is a prefix, ends without a line end.
    assert!(matches!(&ssdsim.notes[..], [Note::Remark(_)]), "{:?}", ssdsim.notes);
    assert_eq!((ssdsim.rows.len(), ssdsim.devices()), (10_000, 22));
    let spc = read("spc-financial1-prefix/Financial1.prefix.spc.zst", "spc");
    for (ssdsim, spc) in ssdsim.rows.iter().zip(&spc.rows) {
        let apart = ssdsim.arrival.as_ns().abs_diff(spc.arrival.as_ns());
        assert!(apart <= 1_000, "SPC has microseconds: {ssdsim:?} {spc:?}");
        assert_eq!(TraceRecord { arrival: spc.arrival, ..*ssdsim }, *spc);
    }
    assert_eq!(ssdsim.rows.len(), spc.rows.len());
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn excerpt_of_mqsim_is_read_completely() {
    let trace = read("mqsim-tpcc/tpcc-small.trace.zst", "ssdsim").in_silence();
    assert_eq!((trace.rows.len(), trace.count(Operation::Read)), (6_999, 4_381));
    assert_eq!(trace.rows[0].arrival.as_ns(), 938_513_000);
    assert!((trace.span_s() - 0.136).abs() < 0.001, "{} s", trace.span_s());
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn cuts_of_msr_are_read_in_bytes_and_with_0_for_a_write() {
    for (name, reads, span_s) in [("rw_20_80.105", 2_020, 242.9), ("rw_40_60.1370", 4_054, 85.9)] {
        let name = format!("msr-cuts/msr.cut.per_10k.{name}.trace.zst");
        let trace = read(&name, "msr-cut").in_silence();
        assert_eq!((trace.rows.len(), trace.count(Operation::Read)), (10_000, reads), "{name}");
        assert!((trace.span_s() - span_s).abs() < 0.1, "{name}: {} s", trace.span_s());
        assert!(trace.rows.iter().all(|record| record.blocks <= 2_048), "{name}");
    }
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn all_requests_of_arc_are_read_without_times() {
    let trace = read("arc-oltp/OLTP.lis.zst", "arc").in_silence();
    assert_eq!(trace.rows.len(), 914_145);
    assert!(trace.rows.iter().all(|record| record.arrival.as_ns() == 0 && record.blocks == 1));
    assert_eq!(trace.rows.iter().map(|record| record.lbn).max(), Some(186_880));
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn cloudphysics_csv_is_read_completely() {
    let name = "cloudphysics-sample/cloudPhysicsIO.csv.zst";
    let trace = read(name, "cloudphysics-csv").in_silence();
    assert_eq!(trace.rows.len(), 113_872);
    assert_eq!((trace.count(Operation::Read), trace.count(Operation::Write)), (46_974, 66_898));
    assert_eq!(trace.span_s(), 7_200.0);
    assert_eq!((trace.rows[3].lbn, trace.rows[3].blocks), (40_409_911, 13));
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn three_encodings_of_cloudphysics_have_the_same_requests() {
    let folder = "cloudphysics-sample/cloudPhysicsIO";
    let csv = read(&format!("{folder}.csv.zst"), "cloudphysics-csv");
    let vscsi = read(&format!("{folder}.vscsi.zst"), "vscsi");
    let oracle = read(&format!("{folder}.oracleGeneral.bin.zst"), "oracle-general");
    let mut sizes = std::collections::BTreeMap::new();
    assert_eq!((csv.rows.len(), vscsi.rows.len(), oracle.rows.len()), (113_872, 113_872, 113_872));
    for ((csv, vscsi), oracle) in csv.rows.iter().zip(&vscsi.rows).zip(&oracle.rows) {
        assert_eq!((csv.op, csv.lbn, csv.blocks), (vscsi.op, vscsi.lbn, vscsi.blocks));
        // One has microseconds, the others the whole seconds of it.
        assert!(csv.arrival.as_ns().abs_diff(vscsi.arrival.as_ns()) <= 1_000_000_000, "{csv:?} {vscsi:?}");
        // It has no operations, and sizes are those of objects: of the first request at that address.
        let first = *sizes.entry(csv.lbn).or_insert(csv.blocks);
        assert_eq!(*oracle, TraceRecord { op: Operation::Read, blocks: first, ..*csv });
    }
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn chunks_of_cachelib_are_read_completely() {
    let name = "cachelib-tectonic/block_traces_1.csv.zst";
    let trace = read(name, "cachelib");
    assert!(trace.notes[0].to_string().contains("requests begin or end within a block"), "{:?}", trace.notes);
    assert_eq!(trace.notes.len(), 1);
    assert_eq!(trace.rows.len(), 999);
    assert_eq!((trace.count(Operation::Read), trace.count(Operation::Write)), (599, 400));
    assert_eq!(trace.span_s(), 39.0);
    assert_eq!(trace.metadata.other["initiator.0"], "4235083322");
    // The second of the chunks begins at the second slot.
    assert_eq!(trace.rows[1].lbn, (9 << 20) / 512);
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn rows_of_thesios_are_read_by_the_names_of_their_columns() {
    let trace = read("thesios-sample/thesios_sample.csv", "thesios");
    // The sample has eight rows; one request has no bytes.
    assert_eq!(trace.rows.len(), 7);
    assert!(
        matches!(&trace.notes[..], [Note::Skipped { count: 1, .. }, Note::Remark(_)]),
        "{:?}",
        trace.notes
    );
    let read = &trace.rows[1];
    assert_eq!((read.op, read.blocks), (Operation::Read, 2_052));
    assert_eq!(read.response_time().unwrap().as_ns(), 4_246_402);
    assert_eq!(read.queue_time().unwrap().as_ns(), 7_391);
    assert_eq!(trace.rows[0].arrival.as_ns(), 0);
    assert!(trace.rows[0].start.is_none());
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn boot_of_windows_is_read_completely() {
    let trace = read("wpa-win11-boot/diskio.part1.csv.zst", "wpa").in_silence();
    assert_eq!(trace.rows.len(), 120_841);
    let count = |op| trace.count(op);
    assert_eq!(
        [count(Operation::Read), count(Operation::Write), count(Operation::Flush)],
        [109_814, 10_707, 320]
    );
    assert!((trace.span_s() - 38.8).abs() < 0.05);
    trace.check_responses(Operation::Read, [116.0, 11_775.0, 696_174.0], 1.0);
    trace.check_responses(Operation::Write, [29.0, 1_392.0, 453_782.0], 1.0);
    assert_eq!(trace.metadata.labels, ["1"]);
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn iolog_of_fio_is_read_in_microseconds() {
    let name = "fio-iolog-v3/oltp-poisson.iolog.zst";
    let trace = read(name, "fio-iolog-v3").in_silence();
    assert_eq!(trace.rows.len(), 32_433);
    assert_eq!((trace.count(Operation::Read), trace.count(Operation::Write)), (22_240, 10_193));
    assert_eq!(trace.rows[0].arrival.as_ns(), 4_486_000);
    assert!((trace.span_s() - 25.0).abs() < 0.01);
    assert_eq!(trace.metadata.labels.len(), 1);
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn optane_log_of_a_script_is_read_completely() {
    let name = "opencas-ycsb-rocksdb-optane/ycsb_a_rocksdb.csv.zst";
    let trace = read(name, "issue-csv").in_silence();
    let counts = [Operation::Write, Operation::Discard, Operation::Read].map(|op| trace.count(op));
    assert_eq!((trace.rows.len(), counts), (64_420, [64_188, 231, 1]));
    trace.check_responses(Operation::Write, [13_853.0, 48_374.0, 63_161.0], 1.0);
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn encodings_of_pgbench_have_the_same_requests() {
    let csv = read("pgbench-loop/pgbench.csv.zst", "issue-csv").in_silence();
    let biosnoop = read("pgbench-loop/pgbench.biosnoop.txt.zst", "biosnoop");
    let biosnoop = biosnoop.in_silence();
    for trace in [&csv, &biosnoop] {
        let counts = [Operation::Read, Operation::Write, Operation::Flush].map(|op| trace.count(op));
        assert_eq!((trace.rows.len(), counts), (132_565, [35_455, 68_905, 28_205]));
        // biosnoop prints hundredths of a millisecond.
        trace.check_responses(Operation::Read, [76.0, 7_556.0, 120_222.0], 5.1);
        trace.check_responses(Operation::Write, [499.0, 19_361.0, 183_987.0], 5.1);
    }
    assert_eq!(biosnoop.metadata.labels, ["loop1"]);
    // Address, length, operation and process agree; the order does but for requests within 10 us.
    let key = |record: &TraceRecord| (record.lbn, record.blocks, record.op as u8, record.initiator);
    let sorted = |trace: &Read| {
        let mut keys: Vec<_> = trace.rows.iter().map(key).collect();
        keys.sort();
        keys
    };
    assert!(sorted(&csv) == sorted(&biosnoop));
    let msr = read("msr-format-fixture/pgloop_0.csv.zst", "msr").in_silence();
    let first = csv.rows[0].arrival;
    let reads_and_writes = csv.rows.iter().filter(|record| record.op != Operation::Flush);
    for (msr, csv) in msr.rows.iter().zip(reads_and_writes) {
        assert_eq!((msr.lbn, msr.blocks, msr.op), (csv.lbn, csv.blocks, csv.op));
        assert_eq!(msr.arrival.as_ns(), (csv.arrival - first).as_ns());
        assert_eq!(msr.response_time(), csv.response_time());
    }
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn events_of_tracefs_equal_the_requests_of_its_csv() {
    let ftrace = read("pgbench-loop/pgbench.ftrace.zst", "tracefs").in_silence();
    // Every issue is a request, and each completes; the script that made the CSV paired 130 fewer.
    assert_eq!(ftrace.rows.len(), 132_695);
    assert_eq!(ftrace.metadata.labels, ["7,1"]);
    let counts = [Operation::Read, Operation::Write, Operation::Flush].map(|op| ftrace.count(op));
    assert_eq!(counts, [35_455, 68_906, 28_334]);
    ftrace.check_responses(Operation::Read, [76.0, 7_556.0, 120_222.0], 1.0);
    // One write more than in the CSV moves the percentile by two.
    ftrace.check_responses(Operation::Write, [499.0, 19_361.0, 183_987.0], 2.0);
    let csv = read("pgbench-loop/pgbench.csv.zst", "issue-csv");
    // Of flushes, the CSV has the end of the request behind them, some 20 us later: those are left out.
    let key = |record: &TraceRecord, first: u64| {
        let response = record.response_time().map(|time| time.as_ns());
        (record.arrival.as_ns() - first, record.lbn, record.blocks, record.op as u8, response)
    };
    let keys = |trace: &Read| -> BTreeSet<_> {
        let (rows, first) = (&trace.rows, trace.rows[0].arrival.as_ns());
        rows.iter().filter(|record| record.op != Operation::Flush).map(|record| key(record, first)).collect()
    };
    let (ours, theirs) = (keys(&ftrace), keys(&csv));
    assert_eq!((ours.len(), theirs.difference(&ours).count()), (104_361, 0));
    assert_eq!(ours.difference(&theirs).count(), 1);
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn blkparse_is_read_by_its_issues() {
    let trace = read("blkparse-mbpar/blktrace.txt.zst", "blkparse").in_silence();
    assert_eq!((trace.rows.len(), trace.count(Operation::Read)), (170, 78));
    assert!(trace.rows.iter().all(|record| record.completion.is_some()));
    for (op, expect_us) in [(Operation::Read, 520.0), (Operation::Write, 36_600.0)] {
        let times = trace.responses_us(op);
        let median = (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0;
        assert!((median - expect_us).abs() < expect_us / 500.0, "{op:?}: {median} us");
    }
    assert_eq!(trace.metadata.labels, ["8,16"]);
}
