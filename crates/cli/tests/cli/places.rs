//! Input files are never overwritten, and an input that is read twice is no pipe, or is copied.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::bench::{Bench, RANDOM};

#[test]
fn input_files_are_never_overwritten() {
    let bench = Bench::new();
    bench.trace("t.csv");
    let before = bench.read("t.csv");
    let toml = bench.run(&["devices", "hp-c2247a", "--toml"]).done();
    bench.write("disk.toml", &toml);
    bench.write("load.toml", "kind = \"replay\"\ntrace = \"t.csv\"\n");
    // Other names of the same file.
    fs::hard_link(bench.path("t.csv"), bench.path("hard.csv")).unwrap();
    std::os::unix::fs::symlink("t.csv", bench.path("soft.csv")).unwrap();
    fs::create_dir(bench.path("folder")).unwrap();
    for output in ["t.csv", "./t.csv", "folder/../t.csv", "hard.csv", "soft.csv"] {
        for arguments in [
            &["fit", "t.csv", "-o", output][..],
            &["fit", "t.csv", "-o", "x.toml", "--report", output],
            &["trace", "report", "t.csv", "--report", output],
            &["trace", "convert", "t.csv", output],
            &["trace", "slice", "t.csv", "-o", output],
            &["trace", "remap", "t.csv", "-o", output, "--shuffle"],
            &["trace", "remap", "disk.toml", "-o", output, "--shuffle", "--heat-of", "t.csv"],
            &["compare", "soft.csv", "t.csv", "--report", output],
            &["simulate", "hp-c2247a", "-w", "t.csv", "--out", output],
            &["simulate", "hp-c2247a", "-w", "load.toml", "--report", output],
        ] {
            bench.run(arguments).fails(&[&format!("{output}: cannot be written, it is an input"), "hint: "]);
            assert!(bench.read("t.csv") == before, "{arguments:?}");
        }
    }
    for arguments in [
        &["simulate", "disk.toml", "-w", RANDOM, "--report", "disk.toml"][..],
        &["devices", "disk.toml", "--report", "disk.toml"],
    ] {
        bench.run(arguments).fails(&["disk.toml: cannot be written, it is an input"]);
    }
    assert_eq!(bench.read("disk.toml"), toml.as_bytes());
    assert!(!bench.path("x.toml").exists());
    // What is beside it may be written, again and again.
    for _ in 0..2 {
        bench.run(&["trace", "convert", "t.csv", "t.parquet"]).done();
        bench.run(&["simulate", "hp-c2247a", "-w", "t.csv", "--report", "hp-c2247a.html"]).done();
    }
}

#[test]
fn no_file_of_a_multi_file_trace_is_overwritten() {
    let bench = Bench::new();
    fs::create_dir(bench.path("folder")).unwrap();
    bench.write("folder/sdb.blktrace.0", "0");
    bench.write("folder/sdb.csv", "beside");
    let convert = |input, output| bench.run(&["trace", "convert", input, output, "--to", "csv"]);
    for input in ["folder", "folder/sdb.blktrace", "folder/sdb"] {
        convert(input, "folder/sdb.blktrace.0").fails(&["cannot be written, it is an input"]);
        // One that was written beside them is no part. The error of the part is reported.
        let beside = convert(input, "folder/sdb.csv");
        assert!(beside.code == 2 && !beside.stderr.contains("cannot be written"), "{}", beside.stderr);
    }
    assert_eq!(bench.read("folder/sdb.blktrace.0"), b"0");
}

#[test]
fn named_pipe_is_refused_where_a_trace_is_read_twice() {
    let bench = Bench::new();
    bench.trace("t.csv");
    assert!(Command::new("mkfifo").arg(bench.path("pipe")).status().unwrap().success());
    for arguments in [
        &["fit", "pipe", "-o", "x.toml"][..],
        &["trace", "remap", "pipe", "-o", "x.csv", "--shuffle"],
        &["trace", "remap", "t.csv", "-o", "x.csv", "--hottest", "1", "--heat-of", "pipe"],
    ] {
        bench.run(arguments).fails(&["pipe: is a pipe or a device", "hint: write it to a file first", "`-`"]);
    }
}

#[test]
fn standard_input_is_refused_as_two_traces() {
    let bench = Bench::new();
    for arguments in
        [&["trace", "info", "-", "-"][..], &["trace", "head", "-", "/dev/stdin"], &["compare", "-", "-"]]
    {
        let output = piped(&bench, arguments, b"");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("/dev/stdin: is a pipe or a device"), "{message}");
        assert!(message.contains("hint: write it to a file first"), "{message}");
    }
}

/// Runs the command with a pipe as standard input, which a thread fills.
fn piped(bench: &Bench, arguments: &[&str], input: &[u8]) -> Output {
    let mut seeklab = Command::new(env!("CARGO_BIN_EXE_seeklab"));
    let seeklab = seeklab.args(arguments).current_dir(bench.path(".")).stdin(Stdio::piped());
    let mut child = seeklab.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut pipe, input) = (child.stdin.take().unwrap(), input.to_owned());
    let feeder = std::thread::spawn(move || {
        // A command that fails early does not read it all.
        let _ = pipe.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

/// Returns the lines of a file that do not name its origin.
fn without_names(bench: &Bench, name: &str) -> Vec<String> {
    let text = String::from_utf8(bench.read(name)).unwrap();
    let names = ["# remap:", "title =", "trace ="];
    let lines = text.lines().filter(|line| names.iter().all(|name| !line.starts_with(name)));
    lines.map(str::to_owned).collect()
}

#[test]
fn pipe_is_copied_where_standard_input_is_read_twice() {
    let bench = Bench::new();
    bench.trace("t.csv");
    bench.run(&["trace", "convert", "t.csv", "t.parquet"]).done();
    bench.run(&["fit", "t.csv", "-o", "from-file.toml"]).done();
    let placed = ["--shuffle", "--seed", "7"];
    bench.run(&[&["trace", "remap", "t.csv", "-o", "from-file.csv"], &placed[..]].concat()).done();
    for input in ["t.csv", "t.parquet"] {
        let input = bench.read(input);
        let fitted = piped(&bench, &["fit", "-", "-o", "from-pipe.toml", "--json"], &input);
        let message = String::from_utf8_lossy(&fitted.stderr);
        assert!(fitted.status.success(), "{message}");
        assert!(message.contains("copied to a temporary file"), "{message}");
        let remapped =
            piped(&bench, &[&["trace", "remap", "-", "-o", "from-pipe.csv"], &placed[..]].concat(), &input);
        assert!(remapped.status.success(), "{}", String::from_utf8_lossy(&remapped.stderr));
        assert_eq!(without_names(&bench, "from-pipe.csv"), without_names(&bench, "from-file.csv"));
    }
    assert_eq!(without_names(&bench, "from-pipe.toml"), without_names(&bench, "from-file.toml"));
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../learning/tests/data/fio/disk.json");
    let swept = piped(&bench, &["fit", "-", "-o", "swept.toml", "--json"], &fs::read(results).unwrap());
    assert!(String::from_utf8_lossy(&swept.stdout).contains("\"sweep\""));
    // A redirected file needs no copy.
    let mut seeklab = Command::new(env!("CARGO_BIN_EXE_seeklab"));
    let seeklab = seeklab.args(["fit", "-", "-o", "redirected.toml"]).current_dir(bench.path("."));
    let output = seeklab.stdin(fs::File::open(bench.path("t.csv")).unwrap()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !message.contains("temporary file"), "{message}");
}

#[test]
fn workload_comes_from_a_pipe_as_a_trace_or_as_a_description() {
    let bench = Bench::new();
    bench.trace("t.csv");
    let response = |output: &Output| {
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{message}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let devices = document["devices"].as_array().unwrap().clone();
        devices.iter().map(|device| device["response_mean_ms"].clone()).collect::<Vec<_>>()
    };
    let devices = ["simulate", "hp-c2247a", "barracuda", "--json", "-w"];
    let named = |workload: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_seeklab"))
            .args(devices)
            .arg(workload)
            .current_dir(bench.path("."))
            .output();
        response(&output.unwrap())
    };
    let from_pipe = |input: &[u8]| response(&piped(&bench, &[&devices[..], &["-"]].concat(), input));
    assert_eq!(from_pipe(&bench.read("t.csv")), named("t.csv"));
    bench.write("load.toml", "kind = \"replay\"\ntrace = \"t.csv\"\n");
    assert_eq!(from_pipe(&bench.read("load.toml")), named("t.csv"));
    let line = "preset = \"oltp\"\nrequests = 100\n";
    bench.write("synthetic.toml", line);
    assert_eq!(from_pipe(line.as_bytes()), named("synthetic.toml"));
    let nothing = piped(&bench, &[&devices[..], &["-"]].concat(), b"");
    let message = String::from_utf8_lossy(&nothing.stderr);
    assert!(nothing.status.code() == Some(2) && message.contains("/dev/stdin"), "{message}");
}

#[test]
fn experiment_comes_from_a_pipe_and_its_files_lie_in_the_current_directory() {
    let bench = Bench::new();
    bench.trace("t.csv");
    bench.write("disk.toml", bench.run(&["devices", "hp-c2247a", "--toml"]).done());
    let text = "devices = [\"barracuda\", \"disk.toml\"]\nworkloads = [\"t.csv\"]\n";
    bench.write("experiment.toml", text);
    bench.run(&["experiment", "experiment.toml"]).done();
    let named = bench.read("experiment.csv");
    fs::remove_file(bench.path("experiment.csv")).unwrap();
    for (arguments, table) in [
        (&["experiment", "-", "--fresh", "--json"][..], "experiment.csv"),
        (&["experiment", "/dev/stdin", "--output", "other", "--json"], "other.csv"),
    ] {
        let output = piped(&bench, arguments, text.as_bytes());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&document["title"], &document["files"]["csv"]), (&"experiment".into(), &table.into()));
        assert_eq!(bench.read(table), named);
    }
    let mistake = piped(&bench, &["experiment", "-"], b"devices = [\"barracuda\"]\nworkload = 3\n");
    let message = String::from_utf8_lossy(&mistake.stderr);
    assert!(
        mistake.status.code() == Some(2) && message.contains("/dev/stdin, line 2: workload: unknown key"),
        "{message}"
    );
}

#[test]
fn dash_names_standard_input_where_a_trace_is_read_once() {
    let bench = Bench::new();
    bench.trace("t.csv");
    for (arguments, expected) in [
        (&["trace", "info", "/dev/stdin"][..], "200 ("),
        (&["trace", "info", "-"], "200 ("),
        (&["trace", "head", "-", "--rows", "1", "--json"], "arrival_ns"),
        (&["trace", "convert", "-", "out.parquet", "--json"], "\"requests\": 200"),
        (&["trace", "slice", "-", "-o", "part.csv", "--json"], "\"rows\": 200"),
        (&["trace", "report", "-", "--json"], "sequential_pct"),
        (&["compare", "-", "t.csv", "--json"], "ei_rms_ms"),
        (&["compare", "t.csv", "-", "--json"], "ei_rms_ms"),
    ] {
        let mut cat = Command::new("cat").arg(bench.path("t.csv")).stdout(Stdio::piped()).spawn().unwrap();
        let mut seeklab = Command::new(env!("CARGO_BIN_EXE_seeklab"));
        let seeklab = seeklab.args(arguments).current_dir(bench.path("."));
        let output = seeklab.stdin(cat.stdout.take().unwrap()).output().unwrap();
        let _ = cat.wait();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(printed.contains(expected), "{arguments:?}: {printed}");
    }
}
