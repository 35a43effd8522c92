//! `seeklab bench` whose results lie on a disk without space, or that becomes full, or may not grow.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use super::bench::Bench;

/// Runs lines of shell in the folder of the test, with a tmpfs of that size in `disk`. `None` where no tmpfs can be made.
fn on_small_disk(bench: &Bench, size: &str, lines: &str) -> Option<Output> {
    fs::create_dir(bench.path("disk")).unwrap();
    let line = format!("mount -t tmpfs -o size={size} tmpfs disk || exit 77; {lines}");
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "--user", "sh", "-c", &line])
        .env("SEEKLAB", env!("CARGO_BIN_EXE_seeklab"))
        .current_dir(bench.path("."))
        .output();
    match output {
        Ok(output) if output.status.code() != Some(77) => Some(output),
        other => {
            eprintln!("skipped: no tmpfs of our own: {other:?}");
            None
        }
    }
}

fn run_file(bench: &Bench) -> Value {
    serde_json::from_slice(&bench.read("run/run.json")).unwrap()
}

#[test]
fn full_disk_is_refused_before_any_request_and_keeps_no_folder() {
    let bench = Bench::new();
    bench.write("target.img", vec![7; 1 << 20]);
    let lines = "\"$SEEKLAB\" bench psync:target.img --buffered -w random,size=4KiB,read=0%,closed=1 --requests 50 \
                 --destroy psync:target.img -o disk/run; code=$?; ls -A disk > left; exit $code";
    let Some(output) = on_small_disk(&bench, "64k", lines) else { return };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{text}");
    for part in
        ["error: disk/run: 64KiB are free", "take at least 1MiB", "hint: free space there", "--folder"]
    {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    assert_eq!(bench.read("left"), b"", "neither a folder nor a file stays");
    assert_eq!(bench.read("target.img"), vec![7; 1 << 20], "nothing was written");
}

#[test]
fn file_for_a_run_that_does_not_fit_is_refused_before_it_is_filled() {
    let bench = Bench::new();
    let lines = "\"$SEEKLAB\" bench psync:disk/x.img --buffered --create 1TiB -w random,size=4KiB,read=100%,closed=1 \
                 --requests 50; code=$?; ls -A disk > left; exit $code";
    let Some(output) = on_small_disk(&bench, "3m", lines) else { return };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{text}");
    for part in [
        "error: disk/x.img: --create 1TiB: 3MiB are free on its disk",
        "hint: make a smaller file, free space",
    ] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    assert_eq!(bench.read("left"), b"", "the file does not stay");
}

#[test]
fn trace_on_a_disk_that_becomes_full_is_readable_up_to_there_and_the_run_is_whole() {
    let bench = Bench::new();
    let lines = "\"$SEEKLAB\" bench null -w random,read=70%,size=4KiB,poisson=20000/s --duration 4s --interval 100ms \
                 -o disk/run --record; code=$?; cp -r disk/run run; exit $code";
    let Some(output) = on_small_disk(&bench, "2200k", lines) else { return };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("No space left on device (os error 28); the run goes on, and its trace ends here"),
        "{text}"
    );
    assert!(text.contains("`seeklab trace convert disk/run/trace.parquet.part OUTPUT`"), "{text}");
    let document = run_file(&bench);
    assert_eq!(document["run"]["state"], "complete");
    let failure = document["run"]["failure"].as_str().unwrap();
    assert!(failure.contains("trace.parquet") && failure.contains("No space left"), "{failure}");
    assert_eq!(document["intervals"].as_array().unwrap().len(), 40);
    assert!(!bench.path("run/trace.parquet").exists());
    bench.run(&["trace", "convert", "run/trace.parquet.part", "rows.csv"]).done();
    let rows = String::from_utf8(bench.read("rows.csv")).unwrap().lines().count() as u64;
    let requests = document["requests"].as_u64().unwrap();
    assert!(rows > 1_000 && rows < requests, "{rows} rows of {requests} requests");
}

#[test]
fn trace_of_a_simulation_that_does_not_fit_is_an_error_of_the_file_system() {
    let bench = Bench::new();
    let lines = "\"$SEEKLAB\" simulate constant -w random,closed=1,requests=300000 --out disk/t.parquet; code=$?; \
                 ls -A disk > left; exit $code";
    let Some(output) = on_small_disk(&bench, "64k", lines) else { return };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("disk/t.parquet: cannot write the file: No space left on device"), "{text}");
    assert_eq!(bench.read("left"), b"");
}

#[test]
fn trace_that_cannot_be_begun_leaves_no_file() {
    let bench = Bench::new();
    let lines = "head -c 64k /dev/zero > disk/other; \"$SEEKLAB\" bench null -w random,size=4KiB,read=100%,closed=1 --requests 50 \
                 --record disk/t.csv; code=$?; ls -A disk > left; exit $code";
    let Some(output) = on_small_disk(&bench, "64k", lines) else { return };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{text}");
    assert!(text.contains("disk/t.csv.part: cannot write the file: No space left"), "{text}");
    assert_eq!(bench.read("left"), b"other\n");
}

#[test]
fn limit_of_the_size_of_files_is_an_error_of_writing_and_ends_no_run() {
    let bench = Bench::new();
    let line = "ulimit -f 200; \"$SEEKLAB\" bench null -w random,read=70%,size=4KiB,poisson=20000/s --duration 2s \
                --interval 100ms -o run --record";
    let output = Command::new("sh")
        .args(["-c", line])
        .env("SEEKLAB", env!("CARGO_BIN_EXE_seeklab"))
        .current_dir(bench.path("."))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("File too large (os error 27); the run goes on, and its trace ends here"),
        "{text}"
    );
    let document = run_file(&bench);
    assert_eq!(document["run"]["state"], "complete");
    assert_eq!(document["intervals"].as_array().unwrap().len(), 20);
}
