//! `seeklab bench --verify`: faults of data are found over NBD and named, states outlive a kill, and mistakes are named.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::bench::{Bench, unfolded};
use super::survive::harness::until;

/// A served device, ended when this is dropped.
struct Served(Child);

impl Served {
    /// Serves 4 MiB of a fast device with these faults over the socket `s` in the folder.
    fn start(bench: &Bench, faults: &[&str]) -> Self {
        let socket = bench.path("s");
        let mut command = Command::new(env!("CARGO_BIN_EXE_seeklab"));
        command.args([
            "serve",
            "immediate",
            "--size",
            "4MiB",
            "--nbd",
            &format!("unix:{}", socket.display()),
        ]);
        faults.iter().for_each(|fault| {
            command.args(["--fault", fault]);
        });
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until(|| socket.exists().then_some(()).ok_or_else(|| "the server has no socket".to_owned()));
        Self(child)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The address of the socket `s`.
fn uri(bench: &Bench) -> String {
    format!("nbd+unix:///?socket={}", bench.path("s").display())
}

/// Verifies a random load on the served device.
fn verify(bench: &Bench, load: &str) -> (i32, Value, String) {
    let uri = uri(bench);
    let run = bench.run(&["bench", &uri, "-w", load, "--destroy", &uri, "--verify", "--json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr));
    (run.code, document["verification"].clone(), run.stderr)
}

const LOAD: &str = "random,size=4KiB,read=50%,closed=8,requests=6000";

#[test]
fn faults_of_data_of_a_served_device_are_found_and_named() {
    for (fault, kinds) in [
        ("", &[][..]),
        ("lost_write,probability=5%", &["stale", "blank"]),
        ("torn_write,probability=5%", &["torn", "stale", "blank"]),
        ("misdirected_write,probability=5%,by=8KiB", &["misdirected", "stale", "blank"]),
        ("misdirected_read,probability=5%,by=8KiB", &["misdirected", "blank"]),
        ("stale_read,probability=5%", &["stale", "blank"]),
        ("bit_rot,probability=5%", &["corrupt"]),
    ] {
        let bench = Bench::new();
        let faults: Vec<&str> = [fault].into_iter().filter(|fault| !fault.is_empty()).collect();
        let _served = Served::start(&bench, &faults);
        let (code, found, stderr) = verify(&bench, LOAD);
        let of = |kind: &str| found[format!("{kind}_blocks")].as_u64().unwrap();
        assert!(found["checked_blocks"].as_u64().unwrap() > 5_000, "{fault}: {found:#}");
        for kind in ["corrupt", "torn", "misdirected", "stale", "blank"] {
            assert!(of(kind) == 0 || kinds.contains(&kind), "{fault}: {kind}: {found:#}");
        }
        let Some(first) = kinds.first() else {
            assert_eq!((code, found["finding_blocks"].as_u64()), (0, Some(0)), "{stderr}");
            continue;
        };
        assert!(of(first) > 20, "{fault}: {found:#}");
        assert_eq!(code, 1, "{fault}");
        assert!(stderr.contains("read other than written") && stderr.contains(first), "{fault}: {stderr}");
        assert_eq!(found["findings"].as_array().unwrap().len(), 16);
    }
}

#[test]
fn tables_name_the_first_findings() {
    let bench = Bench::new();
    let _served = Served::start(&bench, &["lost_write,probability=2%"]);
    let uri = uri(&bench);
    let arguments = ["bench", &uri, "-w", LOAD, "--destroy", &uri, "--verify", "--report", "r.html"];
    let run = bench.run(&arguments);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let page = String::from_utf8(bench.read("r.html")).unwrap();
    for text in [unfolded(&run.stdout), page] {
        for part in
            ["blocks checked", "read other than written", "or later", "blocks read other than written"]
        {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
    }
}

#[test]
fn state_of_a_killed_run_is_checked_later() {
    let bench = Bench::new();
    let _served = Served::start(&bench, &[]);
    let uri = uri(&bench);
    let load = "random,size=4KiB,read=30%,closed=8";
    let mut run = Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .args(["bench", &uri, "-w", load, "--duration", "600s", "--destroy", &uri, "--live"])
        .args(["--interval", "100ms", "--verify", "--state", "state"])
        .current_dir(bench.path("."))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Three intervals.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(run.stderr.take().unwrap()));
    (0..3).for_each(|_| assert!(lines.next().unwrap().unwrap().contains("MiB/s")));
    bench.run(&["bench", "verify", "state"]).fails(&["is in use"]);
    run.kill().unwrap();
    run.wait().unwrap();
    let figures = bench.json(&["bench", "verify", "state", "--acknowledged"]);
    assert!(figures["required_blocks"].as_u64().unwrap() > 1_000, "{figures:#}");
    assert_eq!(figures["finding_blocks"], 0, "{figures:#}");
    assert_eq!(figures["checked_blocks"], figures["required_blocks"]);
    // No flush: nothing is required.
    let text = unfolded(&bench.run(&["bench", "verify", "state"]).done());
    assert!(text.contains("no flush of the run completed"), "{text}");
    // Another run overwrites a part.
    bench
        .run(&["bench", &uri, "-w", "random,size=4KiB,read=0%,closed=8,requests=50", "--destroy", &uri])
        .done();
    let run = bench.run(&["bench", "verify", "state", "--acknowledged"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("read other than written"), "{}", run.stderr);
}

#[test]
fn mistakes_are_named() {
    let bench = Bench::new();
    bench.write("disk.img", vec![0; 1 << 20]);
    let write = "random,size=4KiB,read=50%,closed=1,requests=10";
    let run = |arguments: &[&str]| bench.run(&[&["bench"], arguments].concat());
    run(&["null", "-w", write, "--verify"]).fails(&["`null` carries no data", "verify a block device"]);
    run(&["model:constant", "-w", write, "--verify"]).fails(&["carries no data"]);
    run(&["disk.img", "--buffered", "-w", "random,read=100%,requests=10", "--verify"])
        .fails(&["writes nothing", "bench verify"]);
    run(&["disk.img", "-w", write, "--state", "s"]).fails(&["--verify"]);
    run(&["disk.img", "-w", write, "--verify", "--ram", "1MiB", "--state", "s"])
        .fails(&["cannot be used with"]);
    run(&["verify", "disk.img"]).fails(&["is no state of a verification"]);
    run(&["verify", "absent"]).fails(&["cannot open the state"]);
    let state = [
        "psync:disk.img",
        "--buffered",
        "-w",
        write,
        "--destroy",
        "psync:disk.img",
        "--verify",
        "--state",
        "s",
    ];
    run(&state).done();
    run(&state).fails(&["s: is there already", "seeklab bench verify s"]);
    run(&["verify", "s", "--buffered", "--target", "null"]).fails(&["carries no data"]);
    bench.write("small.img", vec![0; 1 << 19]);
    let other = ["verify", "s", "--buffered", "--target", "psync:small.img"];
    run(&other).fails(&["`psync:small.img`: has 1024 blocks", "and the run had 2048"]);
    run(&["verify", "s", "--buffered", "--acknowledged"]).done();
}
