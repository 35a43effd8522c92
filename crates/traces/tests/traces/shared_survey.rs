//! Every file of the shared traces opens with a guessed format, with the number of requests that its README
//! states, and no file is forgotten.
//!
//! `shared.rs`, `shared_text.rs` and `shared_binary.rs` assert the meaning of each trace (operations, times,
//! addresses).

use std::collections::{BTreeMap, BTreeSet};

use seeklab_analysis::ArrivalGaps;
use seeklab_traces::{FORMATS, ReadOptions, open_with};

use crate::shared::shared;

/// File, format, requests (of events, those that were issued), and requests with a response time.
const FILES: [(&str, &str, u64, u64); 30] = [
    ("arc-oltp/OLTP.lis.zst", "arc", 914_145, 0),
    ("blkparse-mbpar/blktrace.txt.zst", "blkparse", 170, 170),
    // Half of the completions are not in the trace, as its README tells; of the others some are false.
    ("blktrace-hadoop-node8/sdb.blktrace.tar.zst", "blktrace", 110_246, 48_938),
    ("blktrace-sample-bsd/sample.blktrace.0.zst", "blktrace", 963, 963),
    ("cachelib-tectonic/block_traces_1.csv.zst", "cachelib", 999, 0),
    ("cloudphysics-sample/cloudPhysicsIO.csv.zst", "cloudphysics-csv", 113_872, 0),
    ("cloudphysics-sample/cloudPhysicsIO.oracleGeneral.bin.zst", "oracle-general", 113_872, 0),
    ("cloudphysics-sample/cloudPhysicsIO.vscsi.zst", "vscsi", 113_872, 0),
    ("disksim-ascii/ascii.trace.zst", "disksim-ascii", 100_000, 0),
    ("disksim-validate/atlas10k.trace.zst", "disksim-validate", 10_000, 10_000),
    ("disksim-validate/barracuda.trace.zst", "disksim-validate", 10_000, 10_000),
    ("disksim-validate/cheetah9LP.trace.zst", "disksim-validate", 10_000, 10_000),
    ("disksim-validate/dec_rz26.trace.zst", "disksim-validate", 7_980, 7_980),
    ("disksim-validate/hp_c2247a.trace.zst", "disksim-validate", 9_999, 9_999),
    ("disksim-validate/hp_c2490a.trace.zst", "disksim-validate", 9_984, 9_984),
    ("fio-iolog-v3/oltp-poisson.iolog.zst", "fio-iolog-v3", 32_433, 0),
    ("hpl-srt-ajw/ajw.1week.srt.zst", "hpl-srt", 44_519, 44_519),
    ("mqsim-tpcc/tpcc-small.trace.zst", "ssdsim", 6_999, 0),
    ("msr-cuts/msr.cut.per_10k.rw_20_80.105.trace.zst", "msr-cut", 10_000, 0),
    ("msr-cuts/msr.cut.per_10k.rw_40_60.1370.trace.zst", "msr-cut", 10_000, 0),
    ("msr-format-fixture/pgloop_0.csv.zst", "msr", 20_000, 20_000),
    ("opencas-ycsb-rocksdb-optane/sample_trace.octf.tar.xz", "octf", 64_420, 64_420),
    ("opencas-ycsb-rocksdb-optane/ycsb_a_rocksdb.csv.zst", "issue-csv", 64_420, 64_420),
    ("pgbench-loop/pgbench.biosnoop.txt.zst", "biosnoop", 132_565, 132_565),
    ("pgbench-loop/pgbench.csv.zst", "issue-csv", 132_565, 132_565),
    // Every issue event; the script that made the other two paired 130 fewer.
    ("pgbench-loop/pgbench.ftrace.zst", "tracefs", 132_695, 132_695),
    ("spc-financial1-prefix/Financial1.prefix.spc.zst", "spc", 10_000, 0),
    ("spc-financial1-prefix/ssdsim-example.ascii.zst", "ssdsim", 10_000, 0),
    // Of eight rows one moves nothing; the README says no more than "a handful".
    ("thesios-sample/thesios_sample.csv", "thesios", 7, 7),
    ("wpa-win11-boot/diskio.part1.csv.zst", "wpa", 120_841, 120_841),
];

/// Files beside the traces.
const BESIDE: [&str; 3] = ["README.md", "LICENSE", "COPYING"];

/// A number as the READMEs write it: `44,519`.
fn in_thousands(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", number / 1_000, number % 1_000),
    }
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn every_shared_trace_has_the_requests_that_its_readme_states() {
    let folder = shared("");
    for (name, format, requests, with_response) in FILES {
        let path = folder.join(name);
        let mut trace = open_with(FORMATS, &path, None, &ReadOptions::default()).unwrap();
        assert_eq!(trace.format(), format, "{name}");
        let (mut rows, mut responses) = (0, 0);
        for record in trace.by_ref() {
            let record = record.unwrap_or_else(|error| panic!("{name}: {error}"));
            rows += 1;
            responses += u64::from(record.completion.is_some());
        }
        assert_eq!((rows, responses), (requests, with_response), "{name}");
        // All of it was read, whatever it is packed in.
        assert_eq!(trace.position().share(), Some(1.0), "{name}");
        let readme = std::fs::read_to_string(path.with_file_name("README.md")).unwrap();
        let stated = readme.contains(&in_thousands(requests)) || readme.contains("A handful of rows");
        assert!(stated, "the README of {name} does not state {requests}");
    }
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn no_shared_trace_is_forgotten() {
    let folder = shared("");
    let known: BTreeSet<String> = FILES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let mut there = BTreeSet::new();
    for kind in
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
    {
        for file in std::fs::read_dir(&kind).unwrap().map(|entry| entry.unwrap().path()) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            if !BESIDE.contains(&name.as_str()) {
                there.insert(format!("{}/{name}", kind.file_name().unwrap().to_string_lossy()));
            }
        }
    }
    assert_eq!(there, known);
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn no_shared_trace_has_rows_far_from_all_others() {
    // Some are of weeks, and hplajw's disks are idle for nights.
    let folder = shared("");
    for (name, ..) in FILES {
        let trace = open_with(FORMATS, &folder.join(name), None, &ReadOptions::default()).unwrap();
        let (mut all, mut devices) = (ArrivalGaps::default(), BTreeMap::<u16, ArrivalGaps>::new());
        for (row, record) in (1..).zip(trace) {
            let record = record.unwrap();
            all.record(record.arrival, row);
            devices.entry(record.device).or_default().record(record.arrival, row);
        }
        assert_eq!(all.outliers(), None, "{name}");
        for (device, gaps) in devices {
            assert_eq!(gaps.outliers(), None, "{name}, device {device}");
        }
    }
}
