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
fn references_are_the_pages_of_the_documentation() {
    for (command, page) in [
        (&["devices"][..], "devices"),
        (&["workloads"], "workloads"),
        (&["faults"], "faults"),
        (&["trace", "columns"], "traces"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/reference/{page}.md"));
        let printed = Bench::new().run(&[command, &["--reference"]].concat()).done();
        assert_eq!(printed, std::fs::read_to_string(path).unwrap(), "{page}");
    }
}

#[test]
fn kinds_presets_keys_and_schema_of_workloads_are_printed() {
    let bench = Bench::new();
    let listed = bench.json(&["workloads"]);
    assert!(listed["kinds"].as_array().unwrap().iter().any(|kind| kind["kind"] == "replay"), "{listed}");
    assert!(listed["presets"].as_array().unwrap().iter().any(|one| one["preset"] == "oltp"), "{listed}");
    let text = bench.run(&["workloads", "--parameters", "synthetic"]).done();
    assert!(text.contains("if arrivals.process = \"closed\":"), "{text}");
    assert!(
        text.contains("arrivals.population: whole number of members, 1 to 1000000 members (required)"),
        "{text}"
    );
    let schema = bench.json(&["workloads", "--schema", "postmark"]);
    assert_eq!(schema["properties"]["files"]["minimum"], 1);
    bench
        .run(&["workloads", "--schema", "replai"])
        .fails(&["unknown kind `replai`", "did you mean `replay`"]);
}

#[test]
fn columns_of_the_canonical_trace_are_printed() {
    let columns = Bench::new().json(&["trace", "columns"]);
    let first = &columns["columns"][0];
    assert_eq!((&first["column"], &first["unit"]), (&"arrival_ns".into(), &"ns".into()));
    assert_eq!((&first["required"], &first["since_schema"]), (&true.into(), &1.into()));
}

#[test]
fn size_with_a_letter_alone_is_refused_with_both_meanings() {
    let bench = Bench::new();
    for arguments in [
        &["simulate", "constant", "-w", "random,size=8k,requests=1"][..],
        &["simulate", "constant", "-w", RANDOM, "--block-size", "8k"],
        &["devices", "hp-c2247a", "--set", "geometry.block_size=8k"],
        &["trace", "remap", "a.csv", "-o", "b.csv", "--organ-pipe", "--block-size", "8k"],
    ] {
        bench.run(arguments).fails(&["8k", "8KiB (powers of 1024) or 8kB (powers of 1000)"]);
    }
}

#[test]
fn kinds_and_presets_of_faults_are_listed_and_explained() {
    let bench = Bench::new();
    let listed = bench.json(&["faults"]);
    let names = |list: &str| -> Vec<String> {
        let list = listed[list].as_array().unwrap().iter();
        list.map(|fault| fault["fault"].as_str().unwrap().to_owned()).collect()
    };
    let (kinds, presets) = (names("kinds"), names("presets"));
    assert!(kinds.contains(&"bandwidth_cap".to_owned()) && presets.contains(&"tail-disk".to_owned()));
    for name in kinds.iter().chain(&presets) {
        let text = bench.run(&["faults", name]).done();
        assert!(text.starts_with(&format!("{name}: ")), "{text}");
    }
    let text = bench.run(&["faults", "delay"]).done();
    for part in
        ["--fault \"delay,add=20ms,probability=1%\"", "holds: one of `reply`, `device`", "repeat: text"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = bench.run(&["faults", "tail-disk"]).done();
    for part in ["source   M. Hao et al.", "assumed  factor 2", "[[fault]]\nkind = \"slow\"\nfactor = 2.0\n"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    bench
        .run(&["faults", "tail-disc"])
        .fails(&["unknown kind or preset `tail-disc`", "did you mean `tail-disk`"]);
}

/// Mean response time of a device of 1 ms per request with these faults.
fn mean_ms(bench: &Bench, device: &str, faults: &[&str]) -> f64 {
    let load = ["-w", "random,closed=1,requests=2000"];
    let document = bench.json(&[&["simulate", device][..], &load, faults].concat());
    document["devices"][0]["response_mean_ms"].as_f64().unwrap()
}

#[test]
fn preset_means_the_same_on_a_line_in_a_file_and_in_a_description() {
    let bench = Bench::new();
    let line = "fail-slow-vibration,at=1s,rate=200kB/s";
    let fault = "[[fault]]\npreset = \"fail-slow-vibration\"\nat = \"1s\"\nrate = \"200kB/s\"\n";
    bench.write("faults.toml", fault);
    bench.write("disk.toml", format!("kind = \"fault\"\n{fault}[device]\nbase = \"constant\"\n"));
    let plain = mean_ms(&bench, "constant", &[]);
    let on_a_line = mean_ms(&bench, "constant", &["--fault", line]);
    assert!(on_a_line > 2.0 * plain, "{on_a_line} ms, and {plain} ms without the fault");
    assert_eq!(on_a_line, mean_ms(&bench, "constant", &["--faults", "faults.toml"]));
    assert_eq!(on_a_line, mean_ms(&bench, "disk.toml", &[]));
    let saved = bench.run(&["devices", "disk.toml", "--toml"]).done();
    assert!(saved.contains("kind = \"bandwidth_cap\"") && !saved.contains("preset"), "{saved}");
    bench.write("e.toml", "devices = [\"constant\"]\nworkloads = [\"random,closed=1,requests=2000\"]\n");
    for faults in [["--fault", line], ["--faults", "faults.toml"]] {
        let cells = bench.json(&[&["experiment", "e.toml"][..], &faults].concat());
        assert_eq!(cells["cells"][0]["response_mean_ms_mean"].as_f64(), Some(on_a_line), "{cells}");
    }
    bench.write("faults.toml", "[[fault]]\nkind = \"stall\"\nfor = \"1s\"\n[[fault]]\npreset = \"tail\"\n");
    bench
        .run(&["serve", "constant", "--faults", "faults.toml"])
        .fails(&["faults.toml, line 5: fault[1].preset: unknown preset `tail`", "tail-disk"]);
    bench
        .run(&["simulate", "constant", "-w", RANDOM, "--fault", "medium_error,blocks=1TiB..2TiB"])
        .fails(&["fault[0].blocks: 1TiB..2TiB lies beyond the end of the device", "1TiB or before"]);
}
