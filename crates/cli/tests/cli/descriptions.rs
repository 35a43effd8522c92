//! Descriptions of devices: layers, changed values, parameters of kinds and their schema.

use std::path::Path;

use crate::bench::{Bench, RANDOM};

const QUEUE: &str = "kind = \"queue\"\nscheduler = \"sptf\"\n[device]\nbase = \"hp-c2247a\"\n";

#[test]
fn bare_layer_has_no_overhead_and_bus_times() {
    let bench = Bench::new();
    bench.write("queue.toml", QUEUE);
    let document = bench.json(&["simulate", "queue.toml", "-w", RANDOM, "--bare", "--out", "bare.csv"]);
    assert_eq!(document["devices"][0]["bare"], true);
    let text = String::from_utf8(bench.read("bare.csv")).unwrap();
    let mut rows = text.lines().filter(|line| !line.starts_with('#'));
    let columns: Vec<&str> = rows.next().unwrap().split(',').collect();
    for name in ["overhead_ns", "bus_ns"] {
        let column = columns.iter().position(|column| *column == name).expect(name);
        let sum: u64 =
            rows.clone().map(|row| row.split(',').nth(column).unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(sum, 0, "{name}");
    }
}

#[test]
fn layer_has_the_tracks_of_its_device() {
    let bench = Bench::new();
    bench.write("queue.toml", QUEUE);
    bench.json(&["simulate", "queue.toml", "-w", "track-aligned,requests=50"]);
}

#[test]
fn changed_device_is_not_called_validated() {
    let bench = Bench::new();
    bench.write("queue.toml", QUEUE);
    let validated = |arguments: &[&str]| bench.json(&[&["devices"], arguments].concat())["validated"].take();
    assert!(validated(&["hp-c2247a"]).as_str().unwrap().starts_with("measured"));
    assert_eq!(validated(&["queue.toml"]), validated(&["hp-c2247a"]));
    assert_eq!(validated(&["hp-c2247a", "--set", "rpm=15000rpm"]), "changed: rpm");
    let page = bench.run(&["devices", "queue.toml", "--set", "rpm=15000rpm"]).done();
    assert!(page.contains("validated  changed: rpm\n"), "{page}");
    let simulated = bench.json(&["simulate", "queue.toml", "-w", RANDOM, "--set", "rpm=15000rpm"]);
    let device = &simulated["devices"][0];
    assert_eq!(device["validated"], "changed: rpm");
    assert_eq!(device["out_of_validated_range"], device["requests"]);
}

#[test]
fn report_states_the_validation_of_each_device() {
    let bench = Bench::new();
    bench.run(&["simulate", "hp-c2247a", "-w", RANDOM, "--report", "out.html"]).done();
    let html = String::from_utf8(bench.read("out.html")).unwrap();
    let validated = bench.json(&["devices", "hp-c2247a"])["validated"].take();
    assert!(html.contains(validated.as_str().unwrap()), "the report does not state: {validated}");
}

#[test]
fn parameters_and_schema_of_a_kind_are_printed() {
    let bench = Bench::new();
    let kinds = bench.json(&["devices", "--kinds"]);
    assert!(kinds["kinds"].as_array().unwrap().iter().any(|kind| kind["kind"] == "limit"), "{kinds}");
    let text = bench.run(&["devices", "--parameters", "limit"]).done();
    assert!(text.contains("requests[].rate: rate of requests (required)"), "{text}");
    let text = bench.run(&["devices", "--parameters", "disk"]).done();
    assert!(text.contains("if electronics.controller = \"segmented\":"), "{text}");
    assert!(
        text.contains("geometry.surfaces: whole number of surfaces, 1 to 256 surfaces (required)"),
        "{text}"
    );
    let schema = bench.json(&["devices", "--schema", "queue"]);
    assert_eq!(schema["properties"]["kind"]["const"], "queue");
    assert_eq!(schema["properties"]["depth"]["minimum"], 1);
    assert_eq!(schema["required"], serde_json::json!(["kind", "device"]));
    bench.run(&["devices", "--schema", "qeue"]).fails(&["no kind `qeue`", "did you mean `queue`", "hint: "]);
}

#[test]
fn reference_is_the_page_of_the_documentation() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/devices.md");
    let printed = Bench::new().run(&["devices", "--reference"]).done();
    assert_eq!(printed, std::fs::read_to_string(page).unwrap());
}
