//! `seeklab bench --verify`: faults of data are found over NBD and named, states outlive a kill, and mistakes are named.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::bench::{Bench, unfolded};
use super::survive::harness::until;

/// A served device, ended when this is dropped.
pub(crate) struct Served(Child);

impl Served {
    /// Serves 4 MiB of a fast device with these faults over the socket `s` in the folder.
    pub(crate) fn start(bench: &Bench, faults: &[&str]) -> Self {
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
pub(crate) fn uri(bench: &Bench) -> String {
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

/// Three streams fill parts of the target, then two write to parts and one reads everywhere.
fn plan(target: &str) -> String {
    let phase = |name: &str| format!("[[phases]]\nname = \"{name}\"\n");
    let stream = |name: &str, workload: &str| {
        format!("[[phases.streams]]\nname = \"{name}\"\nworkload = \"{workload}\"\n")
    };
    let fill = "sequential,size=4KiB,read=0%,closed=4,requests=300";
    let mix = "random,size=4KiB,read=50%,closed=4,requests=1500";
    let read = "random,size=8KiB,read=100%,closed=4,requests=1500";
    [
        format!("target = \"{target}\"\n"),
        phase("fill"),
        stream("low", fill),
        stream("middle", fill),
        stream("high", fill),
        phase("mixed"),
        stream("left", mix),
        stream("reader", read),
        stream("right", mix),
    ]
    .concat()
}

#[test]
fn streams_and_phases_of_a_plan_are_verified_with_repetitions() {
    let bench = Bench::new();
    let _served = Served::start(&bench, &[]);
    let uri = uri(&bench);
    bench.write("plan.toml", plan(&uri));
    let arguments =
        ["bench", "plan.toml", "--destroy", &uri, "--repeat", "2", "--verify", "--state", "state"];
    let figures = bench.json(&arguments);
    let found = &figures["verification"];
    assert_eq!(found["finding_blocks"], 0, "{found:#}");
    let names: Vec<&str> =
        found["streams"].as_array().unwrap().iter().map(|of| of["stream"].as_str().unwrap()).collect();
    assert_eq!(names, ["fill/low", "fill/middle", "fill/high", "mixed/left", "mixed/reader", "mixed/right"]);
    // The stream that only reads checks what the others wrote in both phases.
    let reads: u64 = figures["phases"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|phase| phase["streams"].as_array().unwrap())
        .map(|stream| stream["reads"].as_u64().unwrap())
        .sum();
    assert_eq!(found["checked_reads"].as_u64(), Some(reads), "{figures:#}");
    assert!(found["checked_blocks"].as_u64().unwrap() > 8 * 4_000, "{found:#}");
    let checked = bench.json(&["bench", "verify", "state", "--acknowledged"]);
    assert!(checked["required_blocks"].as_u64().unwrap() > 8 * 900, "{checked:#}");
    assert_eq!((&checked["finding_blocks"], &checked["target"]), (&0.into(), &uri.as_str().into()));
    assert_eq!(checked["target_states"].as_array().unwrap().len(), 1);
}

#[test]
fn findings_of_a_plan_name_their_streams() {
    let bench = Bench::new();
    let _served = Served::start(&bench, &["lost_write,probability=5%"]);
    let uri = uri(&bench);
    bench.write("plan.toml", plan(&uri));
    let arguments =
        ["bench", "plan.toml", "--destroy", &uri, "--verify", "--state", "state", "--report", "r.html"];
    let run = bench.run(&[&arguments[..], &["--json"]].concat());
    assert_eq!(run.code, 1, "{}", run.stderr);
    for part in ["read other than written", "(streams `", "`mixed/left`", "`mixed/right`"] {
        assert!(run.stderr.contains(part), "no {part} in {}", run.stderr);
    }
    let figures: Value = serde_json::from_str(&run.stdout).unwrap();
    let found = &figures["verification"];
    let of = |stream: &Value| stream["finding_blocks"].as_u64().unwrap();
    let streams = found["streams"].as_array().unwrap();
    assert_eq!(streams.iter().map(of).sum::<u64>(), of(found), "{found:#}");
    assert_eq!(of(&streams[4]), 0, "the reader writes nothing: {found:#}");
    // Each finding is in the part of its stream.
    let blocks = figures["phases"][0]["streams"][0]["capacity_bytes"].as_u64().unwrap() / 512;
    let findings = found["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 16);
    for finding in findings {
        let (lbn, stream) = (finding["lbn"].as_u64().unwrap(), finding["expected_stream"].as_str().unwrap());
        let (part, parts) = match stream {
            "fill/low" => (0, 3),
            "fill/middle" => (1, 3),
            "fill/high" => (2, 3),
            "mixed/left" => (0, 2),
            "mixed/right" => (1, 2),
            other => panic!("{other}: {finding:#}"),
        };
        let block_bytes = figures["phases"][0]["streams"][0]["block_size_bytes"].as_u64().unwrap();
        let at = lbn * block_bytes / 512;
        // Parts begin at multiples of a sixteenth of them at most.
        let slack = blocks / 16;
        assert!(
            at + slack >= blocks * part / parts && at < blocks * (part + 1) / parts + slack,
            "{finding:#}"
        );
    }
    let page = String::from_utf8(bench.read("r.html")).unwrap();
    // HTML with `/` as an entity.
    for part in ["mixed&#x2f;left", "of stream", "Findings by the stream"] {
        assert!(page.contains(part), "no `{part}` in the page");
    }
    let run = bench.run(&["bench", "verify", "state", "--acknowledged"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("(streams `"), "{}", run.stderr);
}

#[test]
fn state_of_several_targets_is_checked_at_their_addresses() {
    let bench = Bench::new();
    for name in ["a.img", "b.img"] {
        bench.write(name, vec![0; 1 << 20]);
    }
    let target = |name: &str| format!("[targets.{name}]\naddress = \"psync:{name}.img\"\nbuffered = true\n");
    let stream = |target: &str| {
        let load = "random,size=4KiB,read=50%,flush_every=10,closed=1,requests=400";
        format!("[[phases.streams]]\nname = \"on {target}\"\ntarget = \"{target}\"\nworkload = \"{load}\"\n")
    };
    let parts = [target("a"), target("b"), "[[phases]]\n".to_owned(), stream("a"), stream("b")];
    bench.write("plan.toml", parts.concat());
    let arguments =
        ["bench", "plan.toml", "--destroy", "psync:a.img", "--destroy", "psync:b.img", "--verify"];
    let figures = bench.json(&[&arguments[..], &["--state", "state"]].concat());
    let found = &figures["verification"];
    assert_eq!(found["targets"], serde_json::json!(["psync:a.img", "psync:b.img"]));
    assert_eq!(found["finding_blocks"], 0, "{found:#}");
    let checked = bench.json(&["bench", "verify", "state", "--buffered"]);
    assert_eq!((&checked["finding_blocks"], &checked["target"]), (&0.into(), &Value::Null));
    let required = |of: &Value| of["required_blocks"].as_u64().unwrap();
    let states = checked["target_states"].as_array().unwrap();
    assert!(states.len() == 2 && states.iter().all(|state| required(state) > 100), "{checked:#}");
    assert_eq!(states.iter().map(required).sum::<u64>(), required(&checked));
    bench
        .run(&["bench", "verify", "state", "--target", "psync:a.img"])
        .fails(&["--target psync:a.img: the run had 2 targets", "leave it out"]);
    // The second file is lost.
    bench.write("b.img", vec![0; 1 << 20]);
    let run = bench.run(&["bench", "verify", "state", "--buffered", "--json"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("(stream `on b`)"), "{}", run.stderr);
    let checked: Value = serde_json::from_str(&run.stdout).unwrap();
    let findings = checked["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["target"] == "psync:b.img"), "{checked:#}");
}

#[test]
fn streams_that_write_to_the_same_blocks_are_named() {
    let bench = Bench::new();
    bench.write("disk.img", vec![0; 1 << 20]);
    let run = |streams: &[(&str, &str)]| {
        let stream = |(name, more): &(&str, &str)| {
            let load = format!("random,size=4KiB,closed=1,requests=100{more}");
            format!("[[phases.streams]]\nname = \"{name}\"\nworkload = \"{load}\"\n")
        };
        let streams: String = streams.iter().map(stream).collect();
        let target = "[targets.disk]\naddress = \"psync:disk.img\"\nbuffered = true\n";
        bench.write("plan.toml", format!("target = \"disk\"\n{target}[[phases]]\nname = \"one\"\n{streams}"));
        bench.run(&["bench", "plan.toml", "--verify", "--destroy", "psync:disk.img"])
    };
    let [low, high] = [",read=0%,address.end=51%", ",read=0%,address.start=50%"];
    run(&[("low", low), ("reader", ",read=100%"), ("high", high)]).fails(&[
        "streams `low` and `high` of phase `one` both write to blocks 1024 to 1043 of `psync:disk.img`",
        "blocks of their own",
        "start and end",
    ]);
    let low = ",read=0%,address.end=50%";
    run(&[("low", low), ("reader", ",read=100%"), ("high", high)]).done();
    // What is stated stays, and the others share the rest.
    run(&[("low", low), ("one", ",read=50%"), ("other", ",read=50%")]).done();
    run(&[("all", ",read=0%,address.end=100%"), ("none", ",read=50%")])
        .fails(&["0 blocks of `psync:disk.img` are left for 1 stream of phase `one`", "too few"]);
    bench.write("jobs.fio", "[global]\nfilename=disk.img\nrw=write\nsize=512k\n[one]\n[two]\noffset=256k\n");
    bench
        .run(&["bench", "jobs.fio", "--verify", "--destroy", "psync:disk.img"])
        .fails(&["streams `one` and `two`", "offset and size"]);
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
    let poisson = "random,size=4KiB,read=50%,poisson=50/s,requests=100";
    run(&["disk.img", "-w", poisson, "--verify", "--find-rate", "response_p99_ms<=20"])
        .fails(&["--verify: does not go with --find-rate", "--rates"]);
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
    let text = unfolded(&run(&["verify", "s", "--buffered"]).done());
    assert!(text.contains("no block was checked: no flush of the run completed"), "{text}");
    run(&state).fails(&["s: is there already", "seeklab bench verify s"]);
    run(&["verify", "s", "--buffered", "--target", "null"]).fails(&["carries no data"]);
    bench.write("small.img", vec![0; 1 << 19]);
    let other = ["verify", "s", "--buffered", "--target", "psync:small.img"];
    run(&other).fails(&["`psync:small.img`: has 1024 blocks", "and the run had 2048"]);
    run(&["verify", "s", "--buffered", "--acknowledged"]).done();
}
