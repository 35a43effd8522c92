//! fio's JSON is read correctly, and refused where it holds no usable results.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Output of fio 3.33 for this project's own runs on a virtual disk, most of it omitted.
const DISK: &[u8] = include_bytes!("../../tests/data/fio/disk.json");

#[test]
fn results_of_fio_are_read() {
    assert!(looks_like_fio(DISK));
    let Sweep { loads, notes } = read(DISK).unwrap();
    assert_eq!(notes, Vec::<String>::new());
    let figures: Vec<(&str, u32, u32, usize, bool)> = loads
        .iter()
        .map(|load| {
            (load.name.as_str(), load.depth(), load.queue_length(), load.components.len(), load.fits())
        })
        .collect();
    assert_eq!(
        figures,
        [
            ("r4k-q1", 1, 0, 1, true),
            ("r4k-q4", 4, 3, 1, true),
            ("r4k-q16", 16, 15, 1, true),
            ("r4k-q64", 64, 63, 1, true),
            ("r64k-q1", 1, 0, 1, true),
            ("r64k-q8", 8, 7, 1, true),
            ("w4k-q4", 4, 3, 1, true),
            ("seq64k-q1", 1, 0, 1, true),
            ("mix4k-q8", 8, 7, 2, true),
            ("rated4k", 16, 1, 1, false),
            ("r4k-2jobs", 8, 7, 1, true),
        ]
    );
    let first = &loads[0].components[0];
    assert_eq!((first.op, first.bytes, first.is_sequential), (Operation::Read, 4096, false));
    assert!((first.iops - 15_939.0).abs() < 1.0 && (first.mean_ns - 46_700.0).abs() < 100.0, "{first:?}");
    assert!((first.times.mean_ns() / first.mean_ns - 1.0).abs() < 1e-6, "times are of that mean");
    assert!(loads[7].components[0].is_sequential);
    assert_eq!(loads[8].components[1].op, Operation::Write);
    assert_eq!(loads[0].region_bytes, Some(1 << 30));
    // Two jobs of one name are one kind of requests, and two loops.
    let two = &loads[10];
    assert_eq!(two.loops.iter().map(|of| of.depth).collect::<Vec<_>>(), [4, 4]);
    assert!((two.components[0].iops - 59_781.0).abs() < 2.0);
}

/// Output of fio 3.33 for directions reported as one, and for flushes, on a loop device. Most of it is
/// omitted.
const UNIFIED: &[u8] = include_bytes!("../../tests/data/fio/unified.json");
const FLUSHES: &[u8] = include_bytes!("../../tests/data/fio/flushes.json");

#[test]
fn unified_report_of_one_direction_is_read() {
    let Sweep { loads, notes } = read(UNIFIED).unwrap();
    let made: Vec<(&str, Vec<Operation>, bool)> = loads
        .iter()
        .map(|load| (load.name.as_str(), load.components.iter().map(|of| of.op).collect(), load.fits()))
        .collect();
    let [read, write] = [Operation::Read, Operation::Write];
    assert_eq!(made, [("mixed-read", vec![read], true), ("both", vec![read, write], true)]);
    let mixed = &loads[0].components[0];
    assert!((mixed.iops - 30_282.6).abs() < 0.1 && (mixed.mean_ns - 127_121.0).abs() < 1.0, "{mixed:?}");
    let both = &loads[1].components;
    assert!(
        (both[1].iops - 9_794.4).abs() < 0.1,
        "each by itself, what is there of both passed over: {both:?}"
    );
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].starts_with("mixed-read: ") && notes[0].contains("all are reads"), "{notes:?}");
    assert!(
        notes[1].starts_with("mixed-both was left out") && notes[1].contains("run it with `both`"),
        "{notes:?}"
    );
}

#[test]
fn flushes_are_read_beside_the_writes_that_they_follow() {
    let Sweep { loads, notes } = read(FLUSHES).unwrap();
    assert_eq!(notes, Vec::<String>::new(), "of a block device past the page cache");
    let flushes = |load: usize| loads[load].components.iter().find(|of| of.op == Operation::Flush);
    // Each write followed by a flush, one at a time: the whole of the time is theirs.
    let (each, load) = (flushes(0).unwrap(), &loads[0]);
    assert!((each.iops / load.components[0].iops - 1.0).abs() < 1e-6 && each.requests == 11_650, "{each:?}");
    assert!((each.mean_ns - 159_233.0).abs() < 1.0 && each.bytes == 0 && !each.is_sequential, "{each:?}");
    assert!(
        (each.times.mean_ns() / each.mean_ns - 1.0).abs() < 1e-6 && each.p99_ns > 2.0 * each.mean_ns,
        "{each:?}"
    );
    assert!(load.fits() && load.queue_length() == 0, "{}", load.outstanding());
    // One after eight writes; `total_ios` says 0. The engine waits for it while four writes are out.
    let (eighth, load) = (flushes(1).unwrap(), &loads[1]);
    assert_eq!(eighth.requests, 6_448);
    assert!((eighth.iops - load.components[0].iops / 8.0).abs() < 1.0, "{eighth:?}");
    assert!(
        load.outstanding() > 1.05 * 4.0 && load.fits() && load.queue_length() == 3,
        "{}",
        load.outstanding()
    );
    assert!(flushes(2).is_none() && loads[2].fits());
    assert!(loads.iter().flat_map(|load| &load.loops).all(|of| of.makes.iter().all(|(_, iops)| *iops > 0.0)));
}

#[test]
fn flush_times_of_more_than_the_device_are_noted() {
    let sync = json!({"total_ios": 0, "lat_ns": {
        "min": 200_000, "max": 900_000, "mean": 300_000.0, "N": 250, "percentile": {"50.0": 290_000, "99.0": 700_000},
    }});
    let with =
        |options: Value, sync: &Value| of_jobs(&[job(&[("/job options", options), ("/sync", sync.clone())])]);
    let options = |of: [&str; 3]| json!({"rw": "randread", "iodepth": "4", "ioengine": of[0], "filename": of[1], "direct": of[2]});
    for (of, note) in [
        (["libaio", "/dev/vda", "1"], None),
        (["nbd", "", "0"], None),
        (["libaio", "/dev/vda", "0"], Some("those of a page cache too")),
        (["psync", "/dev/vda:data", "1"], Some("those of a file system too")),
    ] {
        let Sweep { loads, notes } = with(options(of), &sync);
        let made: Vec<Operation> = loads[0].components.iter().map(|component| component.op).collect();
        assert_eq!(made, [Operation::Read, Operation::Flush], "{of:?}");
        // 250 in the time in which there were 1,000 requests at 10,000 per second.
        assert!((loads[0].components[1].iops - 2_500.0).abs() < 1e-6, "{loads:?}");
        assert_eq!(notes.len(), usize::from(note.is_some()), "{of:?}: {notes:?}");
        assert!(note.is_none_or(|note| notes[0].contains(note)), "{notes:?}");
    }
    let ranges =
        json!({"rw": "randread", "ioengine": "libaio", "iodepth": "4", "sync_file_range": "write:8"});
    let mut bare = sync.clone();
    bare["lat_ns"]["percentile"].take();
    let none = json!({"total_ios": 0, "lat_ns": {"mean": 0.0, "N": 0}});
    let aio = || options(["libaio", "/dev/vda", "1"]);
    for (options, sync, note) in [
        (ranges, &sync, Some("flushes nothing")),
        (aio(), &bare, Some("its flushes were left out: there are no percentiles")),
        (aio(), &none, None),
        (aio(), &json!({"total_ios": 3}), None),
        (aio(), &json!({"lat_ns": {"N": -1}}), Some("`N` is `-1`")),
    ] {
        let Sweep { loads, notes } = with(options, sync);
        assert_eq!(loads[0].components.len(), 1, "the reads: {loads:?}");
        assert!(notes.len() == usize::from(note.is_some()), "{notes:?}");
        assert!(note.is_none_or(|note| notes[0].contains(note)), "{notes:?}");
    }
}

/// A job of one direction that keeps 4 outstanding at 10,000 per second.
fn job(changes: &[(&str, Value)]) -> Value {
    let mut job = json!({
        "jobname": "a", "groupid": 0, "error": 0,
        "job options": {"rw": "randread", "iodepth": "4", "ioengine": "libaio", "size": "1g"},
        "read": {
            "total_ios": 1000, "io_bytes": 4_096_000, "iops": 10_000.0,
            "clat_ns": {"min": 300_000, "max": 900_000, "mean": 400_000.0, "percentile": {"50.0": 390_000, "99.0": 800_000}},
        },
        "write": {"total_ios": 0, "io_bytes": 0, "iops": 0.0},
    });
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = job.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        if value.is_null() {
            parent.remove(key)
        } else {
            parent.insert(key.to_owned(), value.clone())
        };
    }
    job
}

fn of_jobs(jobs: &[Value]) -> Sweep {
    read(json!({"fio version": "fio-3.36", "jobs": jobs}).to_string().as_bytes()).unwrap()
}

#[test]
fn queue_length_follows_littles_law() {
    let queue_length = |changes: &[(&str, Value)]| {
        let load = of_jobs(&[job(changes)]).loads.remove(0);
        (load.queue_length(), load.fits())
    };
    assert_eq!(queue_length(&[]), (3, true));
    // Half of it is outstanding: of four jobs each finds what the three others leave, 1.5.
    assert_eq!(queue_length(&[("/read/iops", json!(5_000.0))]), (2, false));
    // More than the options say: other jobs ran.
    assert_eq!(queue_length(&[("/read/iops", json!(20_000.0))]), (7, false));
    // An engine that waits for each request.
    let psync = json!({"rw": "randread", "iodepth": "4"});
    assert_eq!(queue_length(&[("/job options", psync), ("/read/iops", json!(2_500.0))]), (0, true));
    // A job that stands for four by group_reporting.
    let grouped = json!({"rw": "randread", "numjobs": "4"});
    assert_eq!(queue_length(&[("/job options", grouped)]), (3, true));
}

#[test]
fn unusable_jobs_are_left_out_with_a_note() {
    let seq = json!({"rw": "read", "iodepth": "4", "ioengine": "libaio"});
    let cases: [(&[(&str, Value)], &str); 11] = [
        (&[("/error", json!(5))], "job `a` ended with error 5"),
        (&[("/read/total_ios", json!(0))], "no request was made"),
        (&[("/read/iops", json!(-3))], "`iops` is `-3`, allowed is"),
        (&[("/read/iops", json!(0))], "`iops` is 0"),
        (&[("/read/io_bytes", json!("much"))], "`io_bytes` is `\"much\"`"),
        (&[("/read/clat_ns/percentile", Value::Null)], "no percentiles"),
        (&[("/read/clat_ns/percentile", json!({"x": 1}))], "`clat_ns.percentile` has `x`"),
        (&[("/read/clat_ns/bins", json!({"7": -1}))], "`clat_ns.bins` has `7`"),
        (&[("/read/clat_ns", Value::Null), ("/read/clat", json!({"mean": 400}))], "microseconds"),
        (&[("/job options/iodepth", json!("many"))], "`iodepth` is `many`"),
        (&[("/job options/rw", json!("rw"))], "two directions"),
    ];
    for (changes, part) in cases {
        let Sweep { loads, notes } = of_jobs(&[job(changes)]);
        assert!(loads.is_empty() && notes.len() == 1, "{changes:?}: {notes:?}");
        assert!(notes[0].starts_with("a was left out: ") && notes[0].contains(part), "{notes:?}");
    }
    let two = of_jobs(&[job(&[("/job options", seq.clone())]), job(&[("/jobname", json!("b"))])]);
    assert!(two.loads.is_empty() && two.notes[0].contains("sequential jobs beside others"), "{two:?}");
    let after_each_other = of_jobs(&[job(&[("/job options", seq)]), job(&[("/groupid", json!(1))])]);
    assert_eq!(after_each_other.loads.len(), 2);
    let lat = json!({"mean": 500_000.0, "percentile": {"50.0": 490_000}});
    let other = of_jobs(&[job(&[("/read/clat_ns/percentile", Value::Null), ("/read/lat_ns", lat)])]);
    assert_eq!(other.loads[0].components[0].mean_ns, 500_000.0, "percentiles and mean are of the same time");
}

#[test]
fn documents_of_other_programs_are_refused() {
    let error = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
    assert!(error("").contains("no JSON"));
    assert!(error("fio: nothing").contains("no JSON"));
    assert!(error("a\nb {\"fio version\": ").contains("begins in line 2"));
    assert!(error("{}").contains("`fio version` is missing"));
    assert!(error(r#"{"fio version": "fio-2.21", "jobs": []}"#).contains("allowed is fio-3"));
    assert!(error(r#"{"fio version": "fio-3.1"}"#).contains("`jobs` is missing"));
    assert!(error(r#"{"fio version": "fio-3.1", "jobs": [3]}"#).contains("`jobs[0]` is no object"));
    assert!(error(&"{\"a\":".repeat(10_000)).contains("not JSON"), "however deep it goes");
    let twice = format!("warning\n{0}\nwarning\n{0}", json!({"fio version": "fio-3.1", "jobs": [job(&[])]}));
    assert_eq!(read(twice.as_bytes()).unwrap().loads.len(), 2, "documents after each other, text between");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(json!(1e300)),
        "[a-z0-9.%]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z0-9.]{0,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Everything that is read can be counted on.
fn check(sweep: &Sweep) {
    for load in &sweep.loads {
        assert!((1..=1 << 16).contains(&load.depth()) && load.outstanding().is_finite());
        let _ = load.queue_length();
        for component in &load.components {
            assert!(component.iops > 0.0 && component.mean_ns >= 1.0 && component.requests > 0);
            let is_flush = component.op == Operation::Flush;
            assert!((component.bytes >= 512) != is_flush && component.bytes % 512 == 0);
            assert!(component.times.mean_ns().is_finite() && component.p99_ns.is_finite());
        }
    }
}

proptest! {
    #[test]
    fn hostile_json_is_read_or_refused(
        pointer in prop::sample::select(vec![
            "/jobname", "/groupid", "/error", "/job options", "/job options/rw", "/job options/iodepth",
            "/job options/numjobs", "/job options/size", "/read", "/read/total_ios", "/read/io_bytes", "/read/iops",
            "/read/clat_ns", "/read/clat_ns/min", "/read/clat_ns/max", "/read/clat_ns/mean",
            "/read/clat_ns/percentile", "/read/clat_ns/bins", "/read/lat_ns", "/write", "/trim", "/mixed", "/sync",
            "/sync/lat_ns", "/sync/lat_ns/N", "/sync/lat_ns/mean", "/sync/lat_ns/bins", "/job_runtime",
        ]),
        value in any_json(),
    ) {
        let sync = json!({"lat_ns": {"min": 1, "max": 9, "mean": 5.0, "N": 10, "bins": {"5": 10}}});
        check(&of_jobs(&[job(&[("/sync", sync), (pointer, value)]), job(&[])]));
    }

    #[test]
    fn hostile_times_are_read_or_refused(
        bins in prop::collection::btree_map(any::<u64>(), any::<u64>(), 0..5),
        percentiles in prop::collection::btree_map("[0-9]{1,3}(\\.[0-9]{1,2})?", any::<f64>(), 0..5),
        mean in any::<f64>(),
    ) {
        let bins: serde_json::Map<_, _> = bins.into_iter().map(|(ns, count)| (ns.to_string(), count.into())).collect();
        let percentiles: serde_json::Map<_, _> = percentiles.into_iter().map(|(at, ns)| (at, ns.into())).collect();
        check(&of_jobs(&[
            job(&[("/read/clat_ns/bins", bins.into()), ("/read/clat_ns/mean", mean.into())]),
            job(&[("/groupid", 1.into()), ("/read/clat_ns/percentile", percentiles.into())]),
        ]));
    }

    #[test]
    fn damaged_bytes_are_read_or_refused(
        at in 0..DISK.len(),
        byte in any::<u8>(),
        end in 0..=DISK.len(),
    ) {
        let mut bytes = DISK.to_vec();
        bytes[at] = byte;
        let _ = looks_like_fio(&bytes[..end]);
        for bytes in [&bytes[..], &bytes[..end]] {
            if let Ok(sweep) = read(bytes) {
                check(&sweep);
            }
        }
    }
}
