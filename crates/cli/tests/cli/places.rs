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
            bench
                .run(arguments)
                .fails(&[&format!("{output}: cannot be written, it is what is read"), "hint: "]);
            assert!(bench.read("t.csv") == before, "{arguments:?}");
        }
    }
    for arguments in [
        &["simulate", "disk.toml", "-w", RANDOM, "--report", "disk.toml"][..],
        &["devices", "disk.toml", "--report", "disk.toml"],
    ] {
        bench.run(arguments).fails(&["disk.toml: cannot be written, it is what is read"]);
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
        convert(input, "folder/sdb.blktrace.0").fails(&["cannot be written, it is what is read"]);
        // One that was written beside them is no part; what is wrong with the part is told.
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
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_seeklab"));
        let child = child.args(arguments).current_dir(bench.path(".")).stdin(Stdio::piped());
        let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // An empty pipe, which it would call an empty file if it read it.
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("/dev/stdin: is no file but a pipe"), "{told}");
        assert!(told.contains("hint: write it to a file first"), "{told}");
    }
    // Who reads it once takes it.
    let mut cat = Command::new("cat").arg(bench.path("t.csv")).stdout(Stdio::piped()).spawn().unwrap();
    let mut info = Command::new(env!("CARGO_BIN_EXE_seeklab"));
    let output =
        info.args(["trace", "info", "/dev/stdin"]).stdin(cat.stdout.take().unwrap()).output().unwrap();
    assert!(cat.wait().unwrap().success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("200 ("));
}
