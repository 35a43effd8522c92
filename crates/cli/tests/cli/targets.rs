//! `seeklab bench`: a model is measured as it is simulated; files are made, measured and kept from being overwritten.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::bench::{Bench, RANDOM, unfolded};

/// Figures that a simulation and a measurement of a model have in common.
const COMMON: [&str; 16] = [
    "requests",
    "reads",
    "writes",
    "read_bytes",
    "written_bytes",
    "errors",
    "duration_s",
    "requests_per_second",
    "mib_per_second",
    "response_mean_ms",
    "response_sd_ms",
    "response_p50_ms",
    "response_p90_ms",
    "response_p99_ms",
    "response_p999_ms",
    "response_max_ms",
];

#[test]
fn ends_of_short_intervals_differ_on_the_lines_of_live() {
    let bench = Bench::new();
    let load =
        ["bench", "model:constant", "-w", "random,size=4KiB,read=100%,constant=80/s", "--duration", "80ms"];
    let run = bench.run(&[&load[..], &["--interval", "20ms", "--live"]].concat());
    for end in ["0.020 s", "0.040 s", "0.060 s"] {
        assert!(run.stderr.contains(end), "no `{end}` in: {}", run.stderr);
    }
}

#[test]
fn model_has_the_figures_of_its_simulation() {
    let bench = Bench::new();
    bench.trace("t.csv");
    let mut checked = 0;
    for device in ["hp-c2247a", "cheetah-36es", "constant"] {
        for arguments in [
            &["-w", RANDOM][..],
            &["-w", "oltp,poisson=40/s,requests=2000", "--seed", "7"],
            &["-w", "random,size=4KiB:1+64KiB:1,read=60%,closed=8,requests=2000"],
            &["-w", "t.csv"],
            &["-w", "t.csv", "--closed", "4"],
            &["-w", "t.csv", "--scaled", "2"],
            &["-w", "t.csv", "--think"],
            &["-w", "t.csv", "--follow"],
            &["-w", "postmark,scale=0.01"],
            &["-w", RANDOM, "--scheduler", "sptf", "--depth", "1", "--set", "write_settle=1ms"],
            &["-w", RANDOM, "--fault", "aborted,probability=10%", "--retries", "1"],
        ] {
            if device == "constant" && arguments.contains(&"sptf") {
                continue;
            }
            let simulated = bench.json(&[&["simulate", device], arguments].concat());
            let measured = bench.json(&[&["bench", &format!("model:{device}")], arguments].concat());
            for key in COMMON {
                // A simulation counts attempts as requests of their own.
                if arguments.contains(&"--retries") && key.starts_with("response") {
                    continue;
                }
                assert_eq!(measured[key], simulated["devices"][0][key], "{device} {arguments:?}: {key}");
                checked += 1;
            }
            assert_eq!(measured["virtual_time"], true);
        }
    }
    assert!(checked > 400, "{checked}");
}

#[test]
fn file_is_made_measured_and_removed() {
    let bench = Bench::new();
    let load = "random,size=4KiB,read=50%,closed=4,requests=500";
    let arguments = ["bench", "disk.img", "--create", "4MiB", "--buffered", "-w", load, "--folder", "run"];
    for (target, folder) in [("psync:disk.img", "one"), ("disk.img", "many")] {
        let mut arguments = arguments;
        arguments[1] = target;
        arguments[8] = folder;
        let run = bench.run(&[&arguments[..], &["--record", "t.csv", "--json"]].concat());
        if run.stderr.contains("no io_uring") {
            eprintln!("skipped: {}", run.stderr);
            return;
        }
        let figures: Value = serde_json::from_str(&run.done()).unwrap();
        assert_eq!((&figures["requests"], &figures["errors"]), (&500.into(), &0.into()));
        assert!(figures["response_min_ms"].as_f64() >= figures["service_min_ms"].as_f64());
        assert!(figures["cost"]["system_calls_per_request"].as_f64() > Some(0.1));
        assert!(!bench.path("disk.img").exists());
        let kept: Value = serde_json::from_slice(&bench.read(&format!("{folder}/run.json"))).unwrap();
        let mut of_json = kept.as_object().unwrap().clone();
        assert_eq!(of_json.remove("run").unwrap()["state"], "complete");
        assert_eq!(Value::Object(of_json), figures);
        assert!(bench.path(&format!("{folder}/report.html")).exists());
        let info = bench.json(&["trace", "info", "t.csv"]);
        assert_eq!(info["traces"][0]["requests"], 500);
        bench.run(&arguments).fails(&["holds the results of another run"]);
    }
    bench.write("disk.img", [7; 8192]);
    bench.run(&arguments).fails(&["disk.img: cannot be made", "leave out --create"]);
}

#[test]
fn contents_are_overwritten_only_by_who_types_the_name_again() {
    let bench = Bench::new();
    let mut image = vec![7; 1 << 20];
    image[1080..1082].copy_from_slice(b"\x53\xef");
    bench.write("disk.img", &image);
    let write =
        ["bench", "psync:disk.img", "--buffered", "-w", "random,size=4KiB,read=0%,closed=1,requests=50"];
    let refused = bench.run(&write);
    refused.fails(&["destroys an ext2, ext3 or ext4 file system", "add --destroy psync:disk.img"]);
    bench
        .run(&[&write[..], &["--destroy", "disk.image"]].concat())
        .fails(&["names `disk.image`, another target"]);
    assert_eq!(bench.read("disk.img"), image, "nothing was written");
    let read =
        ["bench", "psync:disk.img", "--buffered", "-w", "random,size=4KiB,read=100%,closed=1,requests=50"];
    assert!(bench.run(&read).done().contains("50"));
    bench.run(&[&read[..], &["--destroy", "disk.img"]].concat()).fails(&["nothing would be overwritten"]);
    assert_eq!(bench.read("disk.img"), image);
    bench.run(&[&write[..], &["--destroy", "psync:disk.img"]].concat()).done();
    assert_ne!(bench.read("disk.img"), image);
    assert_eq!(bench.read("disk.img").len(), image.len());
}

#[test]
fn contradictory_plans_are_refused() {
    let bench = Bench::new();
    bench.trace("t.csv");
    let _server = UnixListener::bind(bench.path("server.sock")).unwrap();
    for (arguments, parts) in [
        (&["null", "-w", "random,closed=8", "--late", "drop"][..], &["--late drop", "is a closed load"][..]),
        (
            &["null", "-w", "random,closed=8", "--outstanding-max", "4"],
            &["--outstanding-max", "is a closed load"],
        ),
        (
            &["null", "-w", "random,closed=8", "--open"],
            &["--open: `random,closed=8` is a closed load", "poisson=120/s"],
        ),
        (&["null", "-w", "random,closed=2", "--threads", "3"], &["--threads 3", "closed load of 2"]),
        (&["null", "-w", "t.csv", "--closed", "4", "--threads", "2"], &["--threads 2", "one thread"]),
        (&["null", "-w", "random,poisson=9/s", "--batch", "4"], &["--batch 4", "closed=32"]),
        (&["null", "-w", "jobs,jobs=2,buffer=4,input=200/s,output=200/s"], &["cannot be sent to a target"]),
        (&["null", "-w", RANDOM, "--set", "rpm=1rpm"], &["set up a model", "model:DEVICE"]),
        (&["model:no-such", "-w", RANDOM], &["no-such"]),
        (&["absent.img", "-w", "random,read=100%,closed=1"], &["absent.img"]),
        (&["nbd://", "-w", RANDOM, "--destroy", "nbd://"], &["host is missing"]),
        (&["null", "-w", RANDOM, "--destroy", "null"], &["nothing would be overwritten"]),
        (&["null", "-w", RANDOM, "--create", "1MiB"], &["--create: `null` is no file"]),
        (
            &["x.img", "-w", RANDOM, "--create", "0B"],
            &["--create: 0B is out of range", "the size is above zero"],
        ),
        (&["nul", "-w", RANDOM], &["`nul`: there is no such file; did you mean `null`?", "--create SIZE"]),
        (&["/absent/x", "-w", RANDOM], &["`/absent/x`: there is no such file", "--create SIZE"]),
        (
            &["cheetah-36es", "-w", RANDOM],
            &["there is no such file", "as model:cheetah-36es, in real time as emulate:"],
        ),
        (
            &["server.sock", "-w", "random,read=100%,closed=1"],
            &["is a socket", "nbd+unix:///EXPORT?socket=server.sock"],
        ),
        (&["null", "-w", RANDOM, "--buffered"], &["--buffered: `null` is no file or block device"]),
        (&["model:constant", "-w", RANDOM, "--buffered"], &["--buffered: `model:constant`"]),
        (&["emulate:constant", "-w", RANDOM, "--buffered"], &["--buffered: `emulate:constant`"]),
        (&["nbd://localhost/x", "-w", RANDOM, "--buffered"], &["--buffered: `nbd://localhost/x`"]),
        (&["null", "-w", RANDOM, "--interval", "2h"], &["10ms", "3600s"]),
        (&["null", "-w", RANDOM, "--ramp", "10 bananas"], &["a time with its unit"]),
    ] {
        let run = bench.run(&[&["bench"], arguments].concat());
        run.fails(&[]);
        for part in parts {
            assert!(unfolded(&run.stderr).contains(part), "{arguments:?}: no `{part}` in: {}", run.stderr);
        }
    }
}

#[test]
fn throughput_of_the_intervals_and_of_the_whole_is_that_read_and_written() {
    let bench = Bench::new();
    let load = "random,size=4KiB,read=50%,discard=25%,closed=1,requests=4000";
    let run = ["bench", "model:constant", "-w", load, "--interval", "0s"];
    let figures = bench.json(&run);
    assert!(figures["others"].as_u64() > Some(500), "{figures:#}");
    assert_eq!(figures["intervals"][0]["mib_per_second"], figures["mib_per_second"]);
}

#[test]
fn closed_load_leaves_no_arrivals_behind() {
    let bench = Bench::new();
    let load = "random,size=4KiB,read=100%,closed=32";
    let figures = bench.json(&["bench", "null", "-w", load, "--duration", "200ms"]);
    assert!(figures["requests"].as_u64() > Some(1000));
    assert_eq!(figures["unissued_requests"], 0);
}

#[test]
fn interrupt_prints_what_was_measured() {
    let bench = Bench::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .args(["bench", "null", "-w", "random,size=4KiB,read=100%,constant=200/s", "--duration", "600s"])
        .args(["--interval", "100ms", "--live", "--json"])
        .current_dir(bench.path("."))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("/s") && first.contains("out"), "{first}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(figures["stopped"], true);
    assert!(figures["requests"].as_u64() > Some(5), "{figures}");
    assert_eq!(rest.last().map(String::as_str), Some("error: interrupted"));
}

#[test]
fn sequential_reads_of_a_whole_disk_show_the_rate_of_each_zone() {
    let bench = Bench::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/spek/figure-4.py");
    let folder = bench.path("figure");
    // In virtual time alone.
    let run =
        Command::new("python3").arg(script).arg(&folder).args([env!("CARGO_BIN_EXE_seeklab"), "0"]).output();
    let Ok(run) = run else { return println!("skipped: python3 is not installed") };
    let (text, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "more than 1 % off: {text}{errors}");
    let reads = text.lines().filter_map(|line| line.split_whitespace().nth(4)?.parse::<u64>().ok());
    assert_eq!(reads.filter(|reads| *reads > 1000).count(), 24, "{text}");
    assert!(folder.join("figure-4.svg").metadata().unwrap().len() > 5_000);
}

#[test]
fn emulated_devices_are_measured_in_real_time_and_their_lateness_is_stated() {
    let bench = Bench::new();
    let line = ["bench", "emulate:constant", "--set", "service_time=1ms", "--threads", "2", "-w"];
    let found = bench.json(&[&line[..], &["random,size=4KiB,read=100%,poisson=2000/s,requests=60"]].concat());
    let of = |key: &str| found[key].as_f64().unwrap_or_else(|| panic!("{key}: {found}"));
    assert_eq!(of("requests") as u64, 60);
    assert!(of("duration_s") >= 0.06 && of("response_mean_ms") >= 1.0, "{found}");
    let notes = found["notes"].to_string();
    assert!(notes.contains("`emulate:constant`: half of the completions came more than"), "{notes}");
    bench.run(&["bench", "emulate:constant", "--verify", "-w", RANDOM]).fails(&["carries no data"]);
    bench.run(&["bench", "emulate:nothing", "-w", RANDOM]).fails(&["nothing"]);
}

#[test]
fn contents_and_priorities_that_a_target_does_not_have_are_refused() {
    let bench = Bench::new();
    let line = ["-w", "random,size=4KiB,closed=1", "--requests", "5"];
    let refuse = |target: &str, options: &[&str], parts: &[&str]| {
        bench.run(&[&["bench", target], &line[..], options].concat()).fails(parts);
    };
    refuse("null", &["--data", "zeroes"], &["`null`: carries no data", "zeroes"]);
    refuse("emulate:constant", &["--data", "compressible=50%"], &["carries no data"]);
    refuse("null", &["--data", "compress"], &["`compress`: is not known", "pattern=deadbeef"]);
    refuse("model:constant", &["--priority", "idle"], &["requests have no priority there", "idle"]);
    refuse("null", &["--priority", "realtime:8"], &["`realtime:8` is no I/O priority", "realtime:7"]);
    let file = bench.path("file").display().to_string();
    let own = [&["bench", &file, "--create", "1MiB", "--buffered"], &line[..]].concat();
    bench
        .run(&[&own[..], &["--verify", "--data", "zeroes"]].concat())
        .fails(&["--verify: writes carry stamps"]);
    bench
        .write("priority.fio", format!("[a]\nfilename={file}\nrw=write\nsize=64k\nioengine=psync\nprio=3\n"));
    let job = bench.path("priority.fio").display().to_string();
    bench.run(&["bench", &job]).fails(&["requests have no priority there, and best-effort:3 is wanted"]);
}

#[test]
fn options_that_a_run_does_not_use_are_refused_or_named() {
    let bench = Bench::new();
    bench.write("disk.img", vec![0; 1 << 20]);
    let load = "random,read=100%,size=4KiB,closed=8";
    let run = |arguments: &[&str]| {
        bench.run(&[&["bench", "null", "-w", load, "--requests", "9"], arguments].concat())
    };
    run(&["--block-size", "4KiB"]).fails(&["--block-size: a synthetic workload reads no trace", "size=4KiB"]);
    run(&["--shape", "absent"]).fails(&[
        "--shape absent: `random,",
        "takes no interarrival times from a trace",
        "process=shaped",
    ]);
    let replaced = "--closed 4 took the place of the 8 outstanding requests";
    assert!(unfolded(&run(&["--closed", "4"]).done()).contains(replaced));
    assert!(!unfolded(&run(&["--closed", "8"]).done()).contains("took the place"));
    let write = [
        "bench",
        "psync:disk.img",
        "--buffered",
        "-w",
        "random,size=4KiB,read=0%,closed=1",
        "--requests",
        "9",
    ];
    let named = ["--destroy", "psync:disk.img", "--destroy", "other.img"];
    bench
        .run(&[&write[..], &named].concat())
        .fails(&["--destroy other.img: no target of that name would be overwritten"]);
    assert_eq!(bench.read("disk.img"), vec![0; 1 << 20], "nothing was written");
    bench.run(&[&write[..], &named[..2]].concat()).done();
    let full = Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .args(["bench", "null", "-w", load, "--requests", "9", "--json"])
        .stdout(std::fs::File::create("/dev/full").unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&full.stderr).into_owned();
    assert_eq!(full.status.code(), Some(2), "{text}");
    assert!(text.contains("error: standard output: cannot be written: No space left on device"), "{text}");
}

#[test]
fn waits_for_arrivals_are_system_calls_of_every_target() {
    let bench = Bench::new();
    bench.write("disk.img", vec![0; 1 << 20]);
    for target in ["null", "psync:disk.img"] {
        let load = "random,size=4KiB,read=100%,constant=200/s";
        let figures = bench.json(&["bench", target, "-w", load, "--requests", "100", "--interval", "0s"]);
        let calls = figures["cost"]["system_calls_per_request"].as_f64().unwrap();
        // Nothing is due for most of the 5 ms between two arrivals.
        assert!(calls > 0.3, "{target}: {calls}");
    }
}

#[test]
fn exact_pacing_keeps_idle_processors_awake_where_that_is_permitted() {
    let driver =
        std::fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver").unwrap_or_default();
    let is_permitted = !matches!(driver.trim(), "" | "none")
        && std::fs::OpenOptions::new().write(true).open("/dev/cpu_dma_latency").is_ok();
    let bench = Bench::new();
    let kept = if is_permitted { "awake" } else { "asleep" };
    for (target, pacing, expected) in
        [("null", "exact", kept), ("null", "balanced", "asleep"), ("model:constant", "exact", "asleep")]
    {
        let load = "random,size=4KiB,read=100%,constant=200/s";
        let figures = bench.json(&["bench", target, "-w", load, "--requests", "9", "--pacing", pacing]);
        assert_eq!(figures["processors"], expected, "{target} {pacing}");
    }
}
