//! The `seeklab` command from end to end: real files, exit codes, what is on stdout and on stderr.

mod bench;
#[cfg(feature = "iscsi")]
mod bench_iscsi;
mod bench_tls;
mod bench_ui;
mod bench_vhost_user;
#[path = "../../../emulator/tests/emulator/nbd/certificates.rs"]
mod certificates;
mod cgroup_limits;
mod clones;
mod completion;
mod conversions;
mod criticality;
mod criticality_block;
mod descriptions;
mod errors;
mod estimate;
mod estimate_check;
mod events;
mod expendable_targets;
mod experiment;
mod experiment_targets;
mod fifos;
mod fio_jobs;
mod fio_logs;
mod fio_output;
mod fio_verify;
mod fio_words;
mod fitted_range;
mod full_disks;
mod hanging_servers;
mod held_targets;
mod host;
mod jobs;
mod limits;
mod mistakes;
mod notes;
mod places;
mod plans;
mod points;
mod rates;
mod record;
mod remap;
mod reorganise;
mod replays;
mod results;
mod run_comparison;
mod run_folders;
mod schema_check;
mod schemas;
mod serve;
mod serve_block;
mod several_devices;
mod survive;
mod sweeps;
mod system_prediction;
mod system_text;
mod target_limits;
mod targets;
mod tidy;
mod traces;
mod tutorials;
mod verdicts;
mod verification;
mod warm_up;
mod widths;

use std::path::{Path, PathBuf};

use bench::Bench;

/// Path of a file of the shared traces.
fn shared_trace(name: &str) -> PathBuf {
    Path::new(env!("SEEKLAB_SHARED_FOLDER")).join("traces").join(name)
}

#[test]
fn every_help_ends_with_examples() {
    let bench = Bench::new();
    for (verb, flags) in [
        ("devices", ["--set", "--toml", "--json"].as_slice()),
        (
            "simulate",
            &[
                "--workload",
                "--open",
                "--closed",
                "--scaled",
                "--think",
                "--follow",
                "--scheduler",
                "--depth",
                "--bare",
                "--set",
                "--seed",
                "--requests",
                "--beyond",
                "--max-outstanding",
                "--format",
                "--block-size",
                "--shape",
                "--host",
                "--out",
                "--report",
                "--json",
            ],
        ),
        ("estimate", &["--workload", "--closed", "--scaled", "--until", "--scheduler", "--report", "--json"]),
        (
            "bench",
            &[
                "--workload",
                "--duration",
                "--ramp",
                "--timeout",
                "--retries",
                "--destroy",
                "--record",
                "--json",
            ],
        ),
        ("faults", &["--reference", "--json"]),
        ("compare", &["--between", "--reference-format", "--other-format", "--report", "--json"]),
        ("trace", &["info", "convert", "head", "formats"]),
        ("fit", &["--device", "--split", "--seed", "--json"]),
    ] {
        let help = bench.run(&[verb, "--help"]).done();
        let (before, examples) = help.split_once("Examples:\n").expect("there are examples");
        assert!(examples.matches("\n  seeklab").count() + 1 >= 3, "{verb}: {examples}");
        for flag in flags {
            assert!(before.contains(flag), "{verb} --help says {flag}");
        }
    }
    bench.run(&["--help"]).done();
    assert!(bench.run(&["--version"]).done().starts_with("seeklab "));
    let nothing = bench.run(&[]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (2, ""));
    assert!(nothing.stderr.contains("Usage: seeklab"), "{}", nothing.stderr);
}

#[test]
fn closed_output_pipe_ends_the_command_quietly() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .args(["devices", "cheetah9lp", "--toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}
