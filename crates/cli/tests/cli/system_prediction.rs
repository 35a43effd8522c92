//! Predictions from the system-level trace of the examples: `cp -r` of 120 files on an emulated disk.

use std::fs;
use std::path::{Path, PathBuf};

use seeklab_columnar::{TypedTableReader, TypedTableWriter};
use seeklab_traces::system::table::TableRow;
use seeklab_traces::system::tables::{ProcessRow, TABLES_VERSION, WaitRow, WritebackRow};
use seeklab_traces::system::{WaitCause, WritebackReason};
use serde_json::Value;

use super::bench::Bench;

const TRACE: &str = "copy.sys";
/// The emulated disk that the copy was recorded on.
const RECORDED_ON: &str = "cheetah-36es";

/// A folder with a copy of the trace.
fn bench() -> Bench {
    let bench = Bench::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(TRACE);
    fs::create_dir(bench.path(TRACE)).unwrap();
    for entry in fs::read_dir(example).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, table(&bench, path.file_name().unwrap().to_str().unwrap())).unwrap();
    }
    bench
}

fn table(bench: &Bench, name: &str) -> PathBuf {
    bench.path(TRACE).join(name)
}

/// Figures of a device, without those of the simulator's own speed.
fn figures_on(bench: &Bench, device: &str, arguments: &[&str]) -> Value {
    let mut document = bench.json(&[&["simulate", device, "-w", TRACE], arguments].concat());
    let figures = document["devices"][0].as_object_mut().expect("there is a device");
    for key in ["cpu_s", "wall_s", "requests_per_cpu_s"] {
        figures.remove(key).unwrap_or_else(|| panic!("{key} is there"));
    }
    document["devices"][0].take()
}

fn figures(bench: &Bench, arguments: &[&str]) -> Value {
    figures_on(bench, RECORDED_ON, arguments)
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key}: {value}"))
}

/// Relative difference of a prediction.
fn error(predicted: f64, measured: f64) -> f64 {
    (predicted - measured).abs() / measured
}

/// Tolerances of `docs/models/host.md`, where the errors of six recordings are. The requests depend on the moments at which
/// the flusher begins.
const ELAPSED_TOLERANCE: f64 = 0.05;
const REQUESTS_TOLERANCE: f64 = 0.02;
/// Another disk, the mean elapsed time in seconds of five runs of the same copy there without a trace
/// (`scripts/record-copy.sh`, 2026-11-26, standard deviation 0.053 s), and the tolerance.
const ELSEWHERE: (&str, f64) = ("hp-c2247a", 4.409);
const ELSEWHERE_TOLERANCE: f64 = 0.06;

#[test]
fn copy_is_predicted_on_its_own_configuration() {
    let bench = bench();
    let info = bench.json(&["trace", "info", TRACE])["traces"][0].take();
    let predicted = figures(&bench, &[]);
    let host = &predicted["host"];
    for (row, predicted, measured, tolerance) in [
        ("elapsed", number(host, "elapsed_s"), number(&info, "command_elapsed_s"), ELAPSED_TOLERANCE),
        ("requests", number(&predicted, "requests"), number(&info, "requests"), REQUESTS_TOLERANCE),
        // The programs compute as long as the trace says.
        ("computing", number(host, "task_cpu_s"), number(&info["task"], "computing_s"), 1e-3),
    ] {
        assert!(error(predicted, measured) <= tolerance, "{row}: {predicted} predicted, {measured} measured");
    }
    let parts = ["task_cpu_s", "other_cpu_s", "false_idle_s", "idle_s"].map(|key| number(host, key));
    let cpus = number(host, "cpus");
    assert!((parts.iter().sum::<f64>() - cpus * number(host, "elapsed_s")).abs() < 1e-6, "{host}");
}

#[test]
fn copy_is_predicted_on_another_disk() {
    let predicted = figures_on(&bench(), ELSEWHERE.0, &[]);
    let elapsed_s = number(&predicted["host"], "elapsed_s");
    assert!(error(elapsed_s, ELSEWHERE.1) <= ELSEWHERE_TOLERANCE, "{elapsed_s}, {ELSEWHERE:?}");
}

/// Writes a table anew with changed rows.
fn rewrite<R: TableRow>(bench: &Bench, mut change: impl FnMut(u64, &mut R)) {
    let path = table(bench, &format!("{}.parquet", R::TABLE));
    let rows: Vec<R> =
        TypedTableReader::open(&path, TABLES_VERSION).unwrap().collect::<Result<_, _>>().unwrap();
    assert!(!rows.is_empty(), "{}", R::TABLE);
    let mut writer = TypedTableWriter::create(&path, TABLES_VERSION).unwrap();
    for (index, mut row) in rows.into_iter().enumerate() {
        change(index as u64, &mut row);
        writer.write(&row).unwrap();
    }
    writer.finish().unwrap();
}

/// Any number below 2^30.
fn noise(index: u64) -> u64 {
    (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34
}

#[test]
fn prediction_reads_no_effects_of_the_traced_device() {
    let bench = bench();
    let before = figures(&bench, &[]);
    let mut waits = 0;
    rewrite::<WaitRow>(&bench, |index, row| {
        if row.cause.is_io() {
            row.wait_ns = noise(index);
            (row.device, row.sector) = (Some(noise(index + 8) as u32), Some(noise(index + 9)));
            waits += 1;
        }
    });
    assert!(waits > 50, "{waits}");
    rewrite::<ProcessRow>(&bench, |index, row| {
        for (cause, offset) in [(WaitCause::DataRead, 1), (WaitCause::MetadataRead, 2), (WaitCause::Write, 3)]
        {
            row.set_wait_ns(cause, noise(index + offset));
        }
        row.elapsed_ns = noise(index + 4);
    });
    // The time of a page in background rounds is a cost of the machine, as that of a completion.
    rewrite::<WritebackRow>(&bench, |index, row| {
        row.begin_ns = noise(index + 5);
        if row.reason != WritebackReason::Background {
            (row.write_ns, row.pages) = (noise(index + 6), noise(index + 7));
        }
    });
    // A trace that states no such tables is whole without them.
    let path = table(&bench, "system.json");
    let mut metadata: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for unread in ["commits", "cpus", "losses"] {
        fs::remove_file(table(&bench, &format!("{unread}.parquet"))).unwrap();
        metadata["tables"].as_object_mut().unwrap().remove(unread).unwrap();
    }
    metadata["tables"]["requests"] = 500.into();
    fs::write(&path, metadata.to_string()).unwrap();
    // Other requests, with other response times.
    bench
        .run(&["simulate", "hp-c2247a", "-w", "random,poisson=60/s,requests=500", "--out", "noise.parquet"])
        .done();
    fs::copy(bench.path("noise.parquet"), table(&bench, "requests.parquet")).unwrap();
    assert_eq!(figures(&bench, &[]).to_string(), before.to_string());
    // A replay is another workload now: it reads the requests.
    assert_eq!(number(&figures(&bench, &["--open", "--beyond", "wrap"]), "requests"), 500.0);
}

#[test]
fn one_verb_replays_the_requests_of_the_trace_too() {
    let bench = bench();
    let requests = number(&bench.json(&["trace", "info", TRACE]).take()["traces"][0], "requests");
    for arrivals in [
        &["--open"][..],
        &["--closed", "auto"],
        &["--closed", "4"],
        &["--think"],
        &["--scaled", "2"],
        &["--follow"],
    ] {
        let replayed = figures(&bench, arrivals);
        assert_eq!(number(&replayed, "requests"), requests, "{arrivals:?}");
        assert!(replayed.get("host").is_none_or(Value::is_null), "{arrivals:?}");
    }
    let think = figures(&bench, &["--think"]);
    assert!(think["notes"].to_string().contains("think times of "), "{think}");
    assert!(figures(&bench, &["--system"])["host"].is_object());
    for (arguments, parts) in [
        (&["-w", TRACE, "--open", "--host", "cpus=2"][..], &["--host", "system-level trace"][..]),
        (&["-w", TRACE, "--system", "--open"], &["--system", "--open"]),
        (&["-w", "random", "--system"], &["--system: `random` is no system-level trace", "hint"]),
        (&["-w", TRACE, "--host", "memory=1"], &["--host", "memory"]),
        (&["-w", TRACE, "--host", "profile=svr4"], &["host.profile: svr4", "linux", "hint"]),
        (&["-w", TRACE, "--open", "--processes"], &["--processes", "runs on no host"]),
        (&["-w", TRACE, "--requests", "7"], &["--requests"]),
    ] {
        bench.run(&[&["simulate", "cheetah-36es"], arguments].concat()).fails(parts);
    }
}

#[test]
fn settings_change_what_they_name() {
    let bench = bench();
    let plain = figures(&bench, &[]);
    let elapsed = |figures: &Value| number(&figures["host"], "elapsed_s");
    let cpu = |figures: &Value| number(&figures["host"], "task_cpu_s");
    let fast = figures(&bench, &["--host", "cpu_speed=4"]);
    assert!(error(cpu(&fast) * 4.0, cpu(&plain)) < 1e-3, "{} and {}", cpu(&fast), cpu(&plain));
    bench.write("copy.toml", "kind = \"system\"\ntrace = \"copy.sys\"\n[host]\ncpu_speed = \"4\"\n");
    let described = bench.json(&["simulate", RECORDED_ON, "immediate", "-w", "copy.toml"]);
    assert_eq!(number(&described["devices"][0]["host"], "elapsed_s"), elapsed(&fast));
    let immediate = &described["devices"][1]["host"];
    assert!(number(immediate, "elapsed_s") < elapsed(&fast) / 2.0, "{immediate}");
}

#[test]
fn trace_that_lacks_records_or_kinds_of_events_voids_the_prediction() {
    for (was, is, reason) in [
        ("\"malformed_records\": 0", "\"malformed_records\": 3", "3 records of the trace could not be read"),
        ("\"switch\": ", "\"swytch\": ", "the trace has no events of these kinds: switch"),
        (
            "\"missing_events\": []",
            "\"missing_events\": [\"sched_switch\"]",
            "the traced kernel lacks the event sched_switch",
        ),
    ] {
        let bench = bench();
        let path = table(&bench, "system.json");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches(was).count(), 1, "{was}");
        fs::write(&path, text.replace(was, is)).unwrap();
        let run = bench.run(&["simulate", "cheetah-36es", "-w", TRACE]);
        assert_eq!(run.code, 1, "{}", run.stderr);
        let printed = super::bench::unfolded(&format!("{}{}", run.stdout, run.stderr));
        assert!(printed.contains(reason) && printed.contains("void"), "{printed}");
        assert!(bench.json(&["trace", "info", TRACE])["traces"][0]["notes"].to_string().contains(reason));
    }
}

#[test]
fn prediction_notes_what_makes_its_trace_less_exact() {
    for (change, note) in [
        (r#"{"events": {"clock_steps": 3}}"#, "the clock of 3 events runs back"),
        (
            r#"{"events": {"missing_events": ["ext4_evict_inode"]}}"#,
            "the kernel lacks the events ext4_evict_inode",
        ),
        (r#"{"command_exit_code": 7}"#, "the command ended with exit code 7"),
        (r#"{"settings": {}}"#, "the trace has no settings of its machine"),
    ] {
        let bench = bench();
        let path = table(&bench, "system.json");
        let mut metadata: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let change: Value = serde_json::from_str(change).unwrap();
        for (key, value) in change.as_object().unwrap() {
            match value.as_object().filter(|fields| !fields.is_empty()) {
                Some(fields) => fields.iter().for_each(|(field, value)| metadata[key][field] = value.clone()),
                None => metadata[key] = value.clone(),
            }
        }
        fs::write(&path, metadata.to_string()).unwrap();
        assert!(figures(&bench, &[])["notes"].to_string().contains(note), "{note}");
    }
}

#[test]
fn damaged_traces_are_refused() {
    for name in ["losses", "requests", "cpus", "occupied", "commits", "writeback"] {
        let bench = bench();
        let path = table(&bench, &format!("{name}.parquet"));
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
        let file = format!("{name}.parquet");
        bench.run(&["simulate", "cheetah-36es", "-w", TRACE]).fails(&[&file, "cannot read"]);
        fs::remove_file(&path).unwrap();
        for arguments in [&[][..], &["--open"]] {
            let run = bench.run(&[&["simulate", "cheetah-36es", "-w", TRACE], arguments].concat());
            run.fails(&[&file, "cannot open"]);
        }
    }
    let bench = bench();
    let path = table(&bench, "system.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut metadata: Value = serde_json::from_str(&text).unwrap();
    metadata["device"]["size_bytes"] = 0.into();
    fs::write(&path, metadata.to_string()).unwrap();
    bench.run(&["simulate", "cheetah-36es", "-w", TRACE]).fails(&["device.size_bytes is 0", "hint"]);
}

#[test]
fn tables_have_the_rows_that_the_trace_states() {
    let bench = bench();
    let path = table(&bench, "system.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut metadata: Value = serde_json::from_str(&text).unwrap();
    for name in ["steps", "waits", "extents", "processes"] {
        let stated = metadata["tables"][name].take();
        let rows = stated.as_u64().unwrap();
        metadata["tables"][name] = Value::from(rows + 1);
        fs::write(&path, metadata.to_string()).unwrap();
        let states = format!("{name}.parquet: {rows} rows, where system.json states {}", rows + 1);
        bench.run(&["simulate", "cheetah-36es", "-w", TRACE]).fails(&[&states, "belong together"]);
        metadata["tables"][name] = stated;
    }
    fs::write(&path, metadata.to_string()).unwrap();
    bench.run(&["simulate", "cheetah-36es", "-w", TRACE]).done();
}

#[test]
fn incomplete_trace_voids_the_prediction() {
    let bench = bench();
    let path = table(&bench, "system.json");
    let text = fs::read_to_string(&path).unwrap();
    let lossy = text.replace("\"lost_events\": 0", "\"lost_events\": 12");
    assert_ne!(lossy, text);
    fs::write(&path, lossy).unwrap();
    let run = bench.run(&["simulate", "cheetah-36es", "-w", TRACE]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let printed = super::bench::unfolded(&format!("{}{}", run.stdout, run.stderr));
    assert!(printed.contains("12 events of the trace were lost") && printed.contains("void"), "{printed}");
    // A replay of its requests may lack some.
    let replayed = bench.run(&["simulate", "cheetah-36es", "-w", TRACE, "--open"]);
    assert_eq!(replayed.code, 1, "{}", replayed.stderr);
    let printed = super::bench::unfolded(&format!("{}{}", replayed.stdout, replayed.stderr));
    let missing = "12 events of the trace were lost, so requests may be missing";
    assert!(printed.contains(missing), "{printed}");
    // Estimates and measurements of them say so.
    for arguments in [
        &["estimate", "cheetah-36es", "-w", TRACE, "--open"][..],
        &["bench", "model:cheetah-36es", "-w", TRACE, "--open"],
    ] {
        let run = bench.run(arguments);
        let printed = super::bench::unfolded(&format!("{}{}", run.stdout, run.stderr));
        assert!(printed.contains(missing), "{arguments:?}: {printed}");
    }
    fs::remove_file(table(&bench, "extents.parquet")).unwrap();
    bench.run(&["simulate", "cheetah-36es", "-w", TRACE]).fails(&["extents.parquet"]);
    fs::write(table(&bench, "extents.parquet"), b"PAR1 and nothing else PAR1").unwrap();
    bench.run(&["simulate", "cheetah-36es", "-w", TRACE]).fails(&["extents.parquet"]);
}
