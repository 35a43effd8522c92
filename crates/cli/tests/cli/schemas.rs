//! The documents that each verb prints with `--json` have the form that `seeklab schema` states.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::bench::{Bench, RANDOM};
use super::schema_check::differences;
use super::survive::client::{READ, Request};
use super::survive::harness::Served;

/// Asserts that a document has the form of the schema of that name.
#[track_caller]
pub(crate) fn conforms(bench: &Bench, name: &str, document: &Value) {
    let schema = bench.run(&["schema", name]).done();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let found = differences(&schema, document);
    assert!(found.is_empty(), "{name}: {found:#?}");
}

/// An experiment of two cells, of which one saturates.
const EXPERIMENT: &str = "repetitions = 2\nrequests = 200\nmax_outstanding = 50\ndevices = ['hp-c2247a']\n\
                          workloads = ['random,poisson=20/s', 'random,poisson=20000/s']\n";

/// A system-level trace.
const COPY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/copy.sys");

/// A trace of which two requests have all measurement points.
const EMULATED: &str = "\
# block_size: 512B
arrival_ns,completion_ns,op,lbn,blocks,mp1_arrival_ns,mp1_completion_ns,mp2_arrival_ns,mp2_due_ns,mp2_completion_ns,miss_cause
10000,1010000,read,0,8,4000,1024000,10000,1005000,1006000,
2010000,3010000,write,8,8,2004000,3124000,2010000,3005000,3105000,kernel_scheduling
";

#[test]
fn documents_of_devices_and_simulations_conform_to_their_schemas() {
    let bench = Bench::new();
    bench.trace("t.csv");
    bench.json(&["fit", "t.csv", "-o", "clone.toml"]);
    bench.write("e.toml", EXPERIMENT);
    for (name, arguments) in [
        ("devices", &["devices"][..]),
        ("devices-name", &["devices", "hp-c2247a"]),
        ("devices-name", &["devices", "clone.toml"]),
        ("devices-kinds", &["devices", "--kinds"]),
        ("devices-parameters", &["devices", "--parameters", "disk"]),
        ("workloads", &["workloads"]),
        ("workloads-parameters", &["workloads", "--parameters", "synthetic"]),
        ("faults", &["faults"]),
        ("faults-name", &["faults", "delay"]),
        ("faults-name", &["faults", "tail-disk"]),
        ("simulate", &["simulate", "hp-c2247a", "immediate", "-w", RANDOM]),
        ("simulate", &["simulate", "hp-c2247a", "-w", "t.csv", "--follow"]),
        ("simulate", &["simulate", "cheetah-36es", "-w", "postmark,scale=0.02"]),
        ("estimate", &["estimate", "hp-c2247a", "constant", "-w", RANDOM, "--until", "response_mean_ms<=90"]),
        ("estimate", &["estimate", "hp-c2247a", "-w", "t.csv"]),
        ("estimate", &["estimate", "clone.toml", "-w", "oltp"]),
        (
            "simulate",
            &["simulate", "berkeley-1975", "-w", "jobs,jobs=2,cycles=20,buffer=4,input=200/s,output=200/s"],
        ),
        (
            "estimate-jobs",
            &["estimate", "berkeley-1975", "-w", "jobs,jobs=2,cycles=50,buffer=4,input=200/s,output=200/s"],
        ),
        ("simulate", &["simulate", "hp-c2247a", "-w", "t.csv", "--estimate"]),
        ("estimate-trace", &["estimate", "-w", "t.csv"]),
        (
            "run",
            &["run", "berkeley-1975", "--builtin", "jobs,jobs=1,cycles=2,buffer=4,input=200/s,output=200/s"],
        ),
        ("fit-jobs", &["fit", COPY, COPY, "--as", "jobs", "-o", "mix.toml"]),
        ("experiment", &["experiment", "e.toml"]),
        ("bench", &["bench", "model:hp-c2247a", "-w", RANDOM, "--fault", "aborted,probability=50%"]),
        (
            "bench",
            &["bench", "null", "-w", "random,size=4KiB,read=100%,closed=2,requests=1000", "--interval", "0s"],
        ),
        ("bench", &["bench", "model:hp-c2247a", "-w", RANDOM, "--repeat", "2"]),
        ("bench", &["bench", "model:constant", "-w", RANDOM, "--find-rate", "response_mean_ms<=12"]),
        ("schema", &["schema"]),
    ] {
        conforms(&bench, name, &bench.json(arguments));
    }
}

#[test]
fn documents_of_traces_conform_to_their_schemas() {
    let bench = Bench::new();
    bench.trace("t.csv");
    bench.write("emulated.csv", EMULATED);
    bench.write("empty.csv", "arrival_ns,op,lbn,blocks\n");
    bench.write("one.csv", "arrival_ns,op,lbn,blocks\n1000,read,0,8\n");
    for (name, arguments) in [
        ("compare", &["compare", "t.csv", "t.csv"][..]),
        ("compare-between", &["compare", "emulated.csv", "--between", "mp1,mp3"]),
        ("compare-between", &["compare", "emulated.csv", "--between", "mp2,due"]),
        ("trace-info", &["trace", "info", "t.csv", "emulated.csv", "one.csv", "empty.csv"]),
        ("trace-convert", &["trace", "convert", "t.csv", "t.parquet"]),
        ("trace-head", &["trace", "head", "t.csv", "one.csv"]),
        ("trace-report", &["trace", "report", "t.csv"]),
        ("trace-report", &["trace", "report", "one.csv"]),
        ("trace-report", &["trace", "report", "empty.csv"]),
        ("trace-remap", &["trace", "remap", "t.csv", "-o", "moved.csv", "--hottest", "2"]),
        ("trace-slice", &["trace", "slice", "t.csv", "-o", "part.csv", "--length", "1s"]),
        ("trace-columns", &["trace", "columns"]),
        ("trace-formats", &["trace", "formats"]),
    ] {
        conforms(&bench, name, &bench.json(arguments));
    }
}

#[test]
fn documents_of_fits_conform_to_their_schemas() {
    let bench = Bench::new();
    bench.trace("t.csv");
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../learning/tests/data/fio/disk.json");
    for (name, arguments) in [
        ("fit", &["fit", "t.csv", "-o", "a.toml", "--model", "station,plain", "--report", "a.html"][..]),
        ("fit", &["fit", "t.csv", "-o", "b.toml", "--split", "100%"]),
        ("fit-devices", &["fit", "t.csv", "-o", "d.toml", "--device", "all", "--predict", "all"]),
        ("fit", &["fit", "t.csv", "-o", "b.toml", "--open", "--without", "idle"]),
        ("fit-sweep", &["fit", results.to_str().unwrap(), "-o", "c.toml"]),
    ] {
        conforms(&bench, name, &bench.json(arguments));
    }
}

#[test]
fn documents_of_emulations_conform_to_their_schemas() {
    let bench = Bench::new();
    let served = Served::nbd(&bench.path("."), &["immediate", "--size", "1MiB"]);
    let idle = served.interrupt();
    conforms(&bench, "serve", &idle);
    let served = Served::nbd(&bench.path("."), &["immediate", "--size", "1MiB"]);
    let mut client = served.connect();
    assert_eq!(client.call(&Request::new(READ, 1, 0, 4096)).unwrap().error, 0);
    drop(client);
    conforms(&bench, "serve", &served.interrupt());
    let postmark = "postmark,transactions=5,files=5";
    conforms(&bench, "run", &bench.json(&["run", "immediate", "--size", "64MiB", "--builtin", postmark]));
    bench.write("disk", vec![0; 1 << 20]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_seeklab"));
    let socket = bench.path("recorded");
    command.args(["record", "--backing", "disk", "-o", "seen.csv", "--json", "--nbd"]);
    command.arg(format!("unix:{}", socket.display())).current_dir(bench.path("."));
    conforms(&bench, "record", &Served::start(command, socket).interrupt());
    let calibrated = bench.json(&["calibrate", "--frontend", "nbd", "--file", "calibration.json"]);
    conforms(&bench, "calibrate", &calibrated);
}

#[test]
fn list_names_a_schema_for_every_verb_that_prints_json() {
    let bench = Bench::new();
    let list = bench.json(&["schema"]);
    let listed: BTreeSet<&str> =
        list["documents"].as_array().unwrap().iter().map(|of| of["document"].as_str().unwrap()).collect();
    let verbs = |arguments: &[&str]| -> Vec<String> {
        let help = bench.run(&[arguments, &["--help"]].concat()).done();
        let commands = help.split_once("Commands:\n").unwrap().1.split("\n\n").next().unwrap().to_owned();
        let lines =
            commands.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
        lines.map(|line| line.split(' ').next().unwrap().to_owned()).filter(|verb| verb != "help").collect()
    };
    let tools = verbs(&["trace"]).into_iter().map(|tool| format!("trace-{tool}"));
    for verb in verbs(&[]).into_iter().filter(|verb| verb != "trace").chain(tools) {
        assert!(listed.contains(verb.as_str()), "{verb} has no schema among {listed:?}");
    }
    let text = bench.run(&["schema"]).done();
    assert!(text.contains("trace-info") && text.contains("seeklab trace info --json"), "{text}");
    bench.run(&["schema", "simulat"]).fails(&["no JSON document `simulat`", "did you mean `simulate`?"]);
    assert_eq!(list["schema"], json!(1));
}

#[test]
fn reference_of_json_keys_is_the_page_of_the_documentation() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/json.md");
    let printed = Bench::new().run(&["schema", "--reference"]).done();
    assert_eq!(printed, std::fs::read_to_string(page).unwrap());
}
