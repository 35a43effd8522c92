//! System-level traces from text of `perf script` and `trace-cmd report`.

use std::fs;
use std::path::Path;

use super::bench::Bench;

const TEXTS: [&str; 2] = ["perf-script.txt.gz", "trace-cmd.txt.gz"];

/// A folder with the texts that the programs printed of a small `cp -r`.
fn bench() -> Bench {
    let bench = Bench::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/tests/data/system-text");
    for name in TEXTS {
        fs::copy(data.join(name), bench.path(name)).unwrap();
    }
    bench
}

const FACTS: [&str; 4] = ["--system", "7:0", "--fact", "size=256MiB"];

#[test]
fn text_becomes_a_trace_that_is_described_and_simulated() {
    let bench = bench();
    for text in TEXTS {
        let conversion = bench.json(&[&["trace", "convert", text, "copy.sys"][..], &FACTS].concat());
        let infos = bench.json(&["trace", "info", "copy.sys"]);
        let info = &infos["traces"][0];
        assert_eq!(info["requests"], conversion["requests"], "{text}");
        assert!(info["requests"].as_u64().unwrap() >= 5, "{text}: {info}");
        assert_eq!(info["cpus"].as_array().unwrap().len(), 2, "{text}");
        let processes = info["processes"].as_array().unwrap();
        for name in ["sh", "cp", "sync"] {
            assert!(processes.iter().any(|process| process["name"] == name), "{text}: {name}");
        }
        let copy = processes.iter().find(|process| process["name"] == "cp").unwrap();
        let figure = |name: &str| copy[name].as_f64().unwrap_or(0.0);
        let waits: f64 =
            copy["waits"].as_object().unwrap().values().filter_map(serde_json::Value::as_f64).sum();
        let parts = figure("computing_s") + figure("interrupted_s") + figure("ready_s") + waits;
        assert!((parts - figure("elapsed_s")).abs() < 1e-9, "{text}: {copy}");
        assert!(copy["waits"]["data_read_s"].as_f64().unwrap() > 0.0, "{text}: {copy}");
        let simulation = bench.json(&["simulate", "cheetah-36es", "-w", "copy.sys"]);
        assert!(simulation["devices"][0]["requests"].as_u64().unwrap() > 0, "{text}: {simulation}");
    }
}

#[test]
fn perf_states_the_host_and_the_command() {
    let bench = bench();
    bench.run(&[&["trace", "convert", TEXTS[0], "copy.sys"][..], &FACTS].concat()).done();
    let metadata: serde_json::Value = serde_json::from_slice(&bench.read("copy.sys/system.json")).unwrap();
    assert_eq!(metadata["command"], serde_json::json!(["sh", "cmds.sh"]));
    assert_eq!(
        (metadata["machine"].as_str(), metadata["cpus"].as_array().unwrap().len()),
        (Some("x86_64"), 2)
    );
    assert!(metadata["memory_bytes"]["MemTotal"].as_u64().unwrap() > 1 << 30);
    assert_eq!(metadata["device"]["number"], 7 << 20);
}

#[test]
fn missing_facts_are_named_with_their_source() {
    let bench = bench();
    let convert =
        |facts: &[&str]| bench.run(&[&["trace", "convert", TEXTS[1], "copy.sys"][..], facts].concat());
    convert(&["--system", "7:0"]).fails(&["size of the device is missing", "blockdev --getsize64"]);
    let whole = ["--system", "7:3", "--fact", "size=1MiB", "--fact", "whole=7:0"];
    convert(&whole).fails(&["place of the partition is missing", "start=SECTOR"]);
    convert(&[&FACTS[..], &["--task", "emacs"]].concat()).fails(&["--task emacs", "(cp)"]);
    convert(&[&FACTS[..], &["--fact", "colour=red"]].concat()).fails(&["colour", "no known fact"]);
    convert(&["--system", "/dev/absent"]).fails(&["/dev/absent"]);
    assert!(!bench.path("copy.sys").exists(), "a failed conversion leaves nothing");
    let other = convert(&["--system", "8:0", "--fact", "size=1MiB"]);
    assert!(other.stderr.contains("7:0"), "the devices of the text are named: {}", other.stderr);
}

#[test]
fn text_without_events_of_a_host_is_refused() {
    let bench = Bench::new();
    bench.write("text", "# nrcpus online : 2\nnothing here\n");
    bench
        .run(&[&["trace", "convert", "text", "a.sys"][..], &FACTS].concat())
        .fails(&["no line of it is an event"]);
}
