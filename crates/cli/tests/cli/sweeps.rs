//! Devices cloned from fio's results: fitted, described, simulated, and what is wrong with a file.

use std::path::Path;

use serde_json::{Value, json};

use super::bench::Bench;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn does_a_clone_say_what_fio_measured() {
    let bench = Bench::new();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fio/disk.json");
    let sample = sample.to_str().unwrap();
    let document = bench.json(&["fit", sample, "-o", "clone.toml"]);
    let sweep = &document["sweep"];
    let points = sweep["points"].as_array().unwrap();
    assert_eq!(points.len(), 12, "eleven loads, one of them of reads and writes");
    let in_sample = &sweep["in_sample"];
    for figure in ["iops_pct", "mean_pct", "p99_pct"] {
        assert!(number(&in_sample[figure]) < 2.0, "{in_sample}");
        assert!(number(&sweep["left_out"][figure]) > 0.0, "{sweep}");
    }
    // A device like any other, at a depth that was measured: its requests per second are those of fio.
    let measured = points.iter().find(|point| point["job"] == "r4k-q16").unwrap();
    let load = "random,size=4KiB,read=100%,closed=16,requests=100000";
    let simulated = bench.json(&["simulate", "clone.toml", "-w", load]);
    let said = number(&simulated["devices"][0]["response_mean_ms"]) * 1e3;
    assert!((said / number(&measured["mean_us"]) - 1.0).abs() < 0.03, "{said} us, {measured}");
    let shown = bench.run(&["devices", "clone.toml"]).done();
    assert!(shown.contains("disk.json") && shown.contains("predicted from the others"), "{shown}");
    let page = bench.run(&["fit", sample, "-o", "again.toml"]).done();
    assert!(page.contains("Little") && page.contains("median absolute error"), "{page}");
    assert_eq!(bench.read("clone.toml"), bench.read("again.toml"), "the same seed, the same device");
}

#[test]
fn is_what_is_wrong_with_results_told() {
    let bench = Bench::new();
    bench.write("cut.json", "{\"fio version\": \"fio-3.33\", \"jobs\": [");
    bench.run(&["fit", "cut.json", "-o", "x.toml"]).fails(&["cut.json", "line 1", "not JSON", "hint"]);
    bench.write("other.json", "{\"a\": 1}");
    bench.run(&["fit", "other.json", "-o", "x.toml"]).fails(&["other.json", "`fio version` is missing"]);
    bench.write("none.json", json!({"fio version": "fio-3.33", "jobs": []}).to_string());
    bench.run(&["fit", "none.json", "-o", "x.toml"]).fails(&["nothing to learn from"]);
    bench.write("trace.csv", "arrival_ns,response_ns,device,op,lbn,blocks\n0,1000,0,read,0,8\n");
    bench
        .run(&["fit", "trace.csv", "none.json", "-o", "x.toml"])
        .fails(&["none.json", "a model is of one trace"]);
    assert!(!bench.path("x.toml").exists());
}
