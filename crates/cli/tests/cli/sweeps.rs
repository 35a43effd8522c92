//! Devices cloned from fio's results: fitted, described, simulated, and what is wrong with a file.

use std::path::Path;

use serde_json::{Value, json};

use super::bench::{Bench, unfolded};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn clone_has_the_times_that_fio_measured() {
    let bench = Bench::new();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../learning/tests/data/fio/disk.json");
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
    let simulated_us = number(&simulated["devices"][0]["response_mean_ms"]) * 1e3;
    assert!(
        (simulated_us / number(&measured["mean_us"]) - 1.0).abs() < 0.03,
        "{simulated_us} us, {measured}"
    );
    let shown = unfolded(&bench.run(&["devices", "clone.toml"]).done());
    assert!(shown.contains("disk.json") && shown.contains("predicted from the others"), "{shown}");
    let page = bench.run(&["fit", sample, "-o", "again.toml"]).done();
    assert!(page.contains("Little") && page.contains("median absolute error"), "{page}");
    assert_eq!(bench.read("clone.toml"), bench.read("again.toml"), "the same seed, the same device");
}

#[test]
fn clone_flushes_as_fio_measured() {
    let bench = Bench::new();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../learning/tests/data/fio/flushes.json");
    let document = bench.json(&["fit", sample.to_str().unwrap(), "-o", "clone.toml"]);
    let points = document["sweep"]["points"].as_array().unwrap();
    let flushes: Vec<&Value> = points.iter().filter(|point| point["op"] == "flush").collect();
    assert_eq!((points.len(), flushes.len()), (5, 2), "{points:?}");
    for point in &flushes {
        assert_eq!((&point["bytes"], &point["fits"]), (&json!(0), &json!(true)));
        // Writes and flushes come in turns there and by chance here, so that counts differ by chance alone.
        let errors = &point["in_sample"];
        assert!(number(&errors["mean_pct"]).abs() < 2.0 && number(&errors["p99_pct"]).abs() < 5.0, "{point}");
    }
    // One at a time, as was measured: each of that mean.
    let mut trace = "arrival_ns,device,op,lbn,blocks\n".to_owned();
    for index in 0..4_000_u64 {
        trace += &format!("{},0,flush,0,0\n", index * 100_000_000);
    }
    bench.write("flushes.csv", trace);
    let simulated = bench.json(&["simulate", "clone.toml", "-w", "replay,trace=flushes.csv"]);
    let device = &simulated["devices"][0];
    let simulated_us = number(&device["response_mean_ms"]) * 1e3;
    assert!(
        (simulated_us / number(&flushes[0]["mean_us"]) - 1.0).abs() < 0.05,
        "{simulated_us} us, {}",
        flushes[0]
    );
    assert_eq!(device["out_of_validated_range"], 0);
    let page = bench.run(&["fit", sample.to_str().unwrap(), "-o", "again.toml"]).done();
    assert!(page.contains("fdatasync-q4  flush"), "{page}");
}

#[test]
fn options_of_a_trace_are_refused_for_results_of_fio() {
    let bench = Bench::new();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../learning/tests/data/fio/disk.json");
    let fit = ["fit", sample.to_str().unwrap(), "-o", "clone.toml"];
    for option in
        [&["--require", "mean_pct<=1"][..], &["--warm-up", "3s"], &["--report", "r.html"], &["--open"]]
    {
        bench.run(&[&fit[..], option].concat()).fails(&[option[0], "results of fio"]);
        assert!(!bench.path("clone.toml").exists());
    }
}

#[test]
fn mistakes_in_fio_results_are_reported() {
    let bench = Bench::new();
    bench.write("cut.json", "{\"fio version\": \"fio-3.33\", \"jobs\": [");
    bench.run(&["fit", "cut.json", "-o", "x.toml"]).fails(&["cut.json", "line 1", "not JSON", "hint"]);
    bench.write("other.json", "{\"a\": 1}");
    bench.run(&["fit", "other.json", "-o", "x.toml"]).fails(&["other.json", "`fio version` is missing"]);
    bench.write("none.json", json!({"fio version": "fio-3.33", "jobs": []}).to_string());
    bench.run(&["fit", "none.json", "-o", "x.toml"]).fails(&["no model can be fitted"]);
    bench.write("trace.csv", "arrival_ns,response_ns,device,op,lbn,blocks\n0,1000,0,read,0,8\n");
    bench
        .run(&["fit", "trace.csv", "none.json", "-o", "x.toml"])
        .fails(&["none.json", "a model is fitted to one trace"]);
    assert!(!bench.path("x.toml").exists());
}
