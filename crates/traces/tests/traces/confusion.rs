//! No trace is ever read as a trace of another format, neither by guessing nor by a wrong name.
//!
//! Every sample is given to every format. Guessing must find the right one alone. A wrong name must end in an
//! error before the first row, or be in the table of indistinguishable formats.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use seeklab_traces::{FORMATS, ReadOptions, Sniff, Source, TraceFormat, open_source, open_with};

use crate::shared::shared;

/// Samples of our own making and the format of each.
pub(crate) const SAMPLES: [(&str, &str); 24] = [
    ("csv/sample.csv", "csv"),
    ("disksim-ascii/sample.ascii", "disksim-ascii"),
    ("disksim-validate/sample.validate", "disksim-validate"),
    ("spc/sample.spc", "spc"),
    ("msr/sample.csv", "msr"),
    ("msr-cut/sample.trace", "msr-cut"),
    ("ssdsim/sample.ssdsim", "ssdsim"),
    ("alibaba/sample.csv", "alibaba"),
    ("tencent/sample.csv", "tencent"),
    ("systor/sample.csv", "systor"),
    ("fiu/sample.blkparse", "fiu"),
    ("arc/sample.lis", "arc"),
    ("cloudphysics-csv/sample.csv", "cloudphysics-csv"),
    ("cachelib/sample.csv", "cachelib"),
    ("thesios/sample.csv", "thesios"),
    ("wpa/sample.csv", "wpa"),
    ("biosnoop/sample.txt", "biosnoop"),
    ("biosnoop/queue.txt", "biosnoop"),
    ("blkparse/sample.txt", "blkparse"),
    ("tracefs/sample.ftrace", "tracefs"),
    ("fio-iolog/sample.v2.iolog", "fio-iolog-v2"),
    ("fio-iolog/sample.iolog", "fio-iolog-v3"),
    ("fio-log/sample.log", "fio-log"),
    ("issue-csv/sample.csv", "issue-csv"),
];

/// Shared samples and the format of each.
const SHARED: [(&str, &str); 28] = [
    ("arc-oltp/OLTP.lis.zst", "arc"),
    ("blkparse-mbpar/blktrace.txt.zst", "blkparse"),
    ("cachelib-tectonic/block_traces_1.csv.zst", "cachelib"),
    ("cloudphysics-sample/cloudPhysicsIO.csv.zst", "cloudphysics-csv"),
    ("disksim-ascii/ascii.trace.zst", "disksim-ascii"),
    ("disksim-validate/atlas10k.trace.zst", "disksim-validate"),
    ("disksim-validate/barracuda.trace.zst", "disksim-validate"),
    ("disksim-validate/dec_rz26.trace.zst", "disksim-validate"),
    ("disksim-validate/hp_c2247a.trace.zst", "disksim-validate"),
    ("fio-iolog-v3/oltp-poisson.iolog.zst", "fio-iolog-v3"),
    ("mqsim-tpcc/tpcc-small.trace.zst", "ssdsim"),
    ("msr-cuts/msr.cut.per_10k.rw_20_80.105.trace.zst", "msr-cut"),
    ("msr-cuts/msr.cut.per_10k.rw_40_60.1370.trace.zst", "msr-cut"),
    ("msr-format-fixture/pgloop_0.csv.zst", "msr"),
    ("opencas-ycsb-rocksdb-optane/ycsb_a_rocksdb.csv.zst", "issue-csv"),
    ("pgbench-loop/pgbench.biosnoop.txt.zst", "biosnoop"),
    ("pgbench-loop/pgbench.csv.zst", "issue-csv"),
    ("pgbench-loop/pgbench.ftrace.zst", "tracefs"),
    ("spc-financial1-prefix/Financial1.prefix.spc.zst", "spc"),
    ("spc-financial1-prefix/ssdsim-example.ascii.zst", "ssdsim"),
    ("thesios-sample/thesios_sample.csv", "thesios"),
    ("wpa-win11-boot/diskio.part1.csv.zst", "wpa"),
    ("blktrace-hadoop-node8/sdb.blktrace.tar.zst", "blktrace"),
    ("blktrace-sample-bsd/sample.blktrace.0.zst", "blktrace"),
    ("cloudphysics-sample/cloudPhysicsIO.oracleGeneral.bin.zst", "oracle-general"),
    ("cloudphysics-sample/cloudPhysicsIO.vscsi.zst", "vscsi"),
    ("hpl-srt-ajw/ajw.1week.srt.zst", "hpl-srt"),
    ("opencas-ycsb-rocksdb-optane/sample_trace.octf.tar.xz", "octf"),
];

/// Pairs of formats where a wrong name leads to no error: five numbers are five numbers, and only the user
/// can know more than their shape. Each pair is `(format of the trace, name given)`.
const INDISTINGUISHABLE: [(&str, &str); 2] = [("ssdsim", "disksim-ascii"), ("msr-cut", "disksim-ascii")];

/// Formats that are no text; they have their samples elsewhere.
const BINARY: [&str; 6] = ["blktrace", "hpl-srt", "vscsi", "oracle-general", "octf", "dtb"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Names of the formats that recognise the first bytes of `path`, however many are looked at.
fn recognising(path: &Path, size: usize) -> BTreeSet<&'static str> {
    let mut source = Source::open(path).unwrap();
    let head = source.head(size);
    let yes = |format: &&&dyn TraceFormat| format.sniff(head) == Sniff::Yes;
    FORMATS.iter().filter(yes).map(|format| format.name()).collect()
}

/// Names under which `path`, a trace of `format`, can be read to its end although it is none.
fn misreading(path: &Path, format: &str) -> Vec<&'static str> {
    let is_misread = |name: &&'static str| {
        let trace = open_with(FORMATS, path, Some(name), &ReadOptions::default());
        trace.is_ok_and(|mut trace| trace.all(|row| row.is_ok()))
    };
    let names = FORMATS.iter().map(|other| other.name()).filter(|name| *name != format);
    names.filter(is_misread).collect()
}

/// Checks all and gives the formats under whose names it can be read although it is none.
fn check(path: &Path, format: &'static str) -> Vec<(&'static str, &'static str)> {
    for size in [4 << 10, 64 << 10, 1 << 20] {
        assert_eq!(recognising(path, size), BTreeSet::from([format]), "{} at {size}", path.display());
    }
    let trace = open_with(FORMATS, path, None, &ReadOptions::default()).unwrap();
    assert_eq!(trace.format(), format, "{}", path.display());
    let misread: Vec<_> = misreading(path, format).into_iter().map(|name| (format, name)).collect();
    for pair in &misread {
        assert!(INDISTINGUISHABLE.contains(pair), "{} is read as `{}`", path.display(), pair.1);
    }
    misread
}

#[test]
fn every_own_sample_is_recognised_by_its_format_alone() {
    let misread: BTreeSet<_> =
        SAMPLES.into_iter().flat_map(|(name, format)| check(&folder().join(name), format)).collect();
    assert_eq!(misread, BTreeSet::from(INDISTINGUISHABLE), "the table says no more than is so");
    let covered: BTreeSet<_> = SAMPLES.iter().map(|(_, format)| *format).collect();
    let names = FORMATS.iter().map(|format| format.name());
    let all: BTreeSet<_> = names.filter(|name| !BINARY.contains(name)).collect();
    assert_eq!(covered, all, "every text format has a sample");
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn every_shared_sample_is_recognised_by_its_format_alone() {
    for (name, format) in SHARED {
        check(&shared(name), format);
    }
}

/// Reads `bytes` in the format of that name, to the end or an error: how many rows, the error, what is noted.
fn read(format: &str, bytes: &[u8]) -> (usize, Option<String>, Vec<String>) {
    let source = Source::from_stream("x", Box::new(Cursor::new(bytes.to_vec())));
    match source.and_then(|source| open_source(FORMATS, source, Some(format), &ReadOptions::default())) {
        Ok(mut trace) => {
            let (mut rows, mut failure) = (0, None);
            for row in trace.by_ref() {
                match row {
                    Ok(_) => rows += 1,
                    Err(error) => failure = Some(error.to_string()),
                }
            }
            (rows, failure, trace.notes().iter().map(ToString::to_string).collect())
        }
        Err(error) => (0, Some(error.to_string()), Vec::new()),
    }
}

#[test]
fn two_formats_in_one_file_are_an_error() {
    for (first, format) in SAMPLES {
        for (second, other) in SAMPLES {
            if format == other || INDISTINGUISHABLE.contains(&(other, format)) {
                continue;
            }
            let mut bytes = std::fs::read(folder().join(first)).unwrap();
            bytes.extend(std::fs::read(folder().join(second)).unwrap());
            let (_, failure, notes) = read(format, &bytes);
            // Lines that are no events are passed over and counted by what reads events.
            let is_counted = notes.iter().any(|note| note.contains("skipped"));
            assert!(failure.is_some() || is_counted, "{first} and then {second} as `{format}`");
        }
    }
}

#[test]
fn trace_cut_within_a_line_yields_an_error_or_a_note() {
    for (name, format) in SAMPLES {
        let bytes = std::fs::read(folder().join(name)).unwrap();
        let (whole, failure, _) = read(format, &bytes);
        assert_eq!(failure, None, "{name}");
        for cut in 1..bytes.len() {
            let (rows, failure, notes) = read(format, &bytes[..cut]);
            assert!(rows <= whole, "{name} cut at {cut}");
            match failure {
                Some(failure) => {
                    assert!(failure.starts_with("x, line ") || failure.starts_with("x: "), "{failure}")
                }
                None if bytes[cut - 1] == b'\n' => {}
                None => {
                    let is_noted = notes.iter().any(|note| note.contains("may have been cut"));
                    assert!(is_noted, "{name} cut at {cut}: {notes:?}");
                }
            }
        }
    }
}
