//! Input files are never overwritten, and an input that is read twice must not be a pipe.

use std::fs;
use std::process::{Command, Stdio};

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
fn pipe_is_refused_where_a_trace_is_read_twice() {
    let bench = Bench::new();
    bench.trace("t.csv");
    for arguments in [
        &["fit", "/dev/stdin", "-o", "x.toml"][..],
        &["trace", "remap", "/dev/stdin", "-o", "x.csv", "--shuffle"],
        &["trace", "remap", "t.csv", "-o", "x.csv", "--hottest", "1", "--heat-of", "/dev/stdin"],
        &["trace", "remap", "-", "-o", "x.csv", "--shuffle"],
        &["trace", "info", "-", "-"],
        &["trace", "head", "-", "/dev/stdin"],
        &["compare", "-", "-"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_seeklab"));
        let child = child.args(arguments).current_dir(bench.path(".")).stdin(Stdio::piped());
        let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // An empty pipe, which it would call an empty file if it read it.
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("/dev/stdin: is a pipe or a device"), "{message}");
        assert!(message.contains("hint: write it to a file first"), "{message}");
    }
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
