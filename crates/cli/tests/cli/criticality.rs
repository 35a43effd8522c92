//! Classes of requests from a trace to the figures: recorded changes are replayed, and a scheduler by class serves by them.

use std::fmt::Write;

use serde_json::Value;

use super::bench::Bench;

/// Ten milliseconds for each request.
const DEVICE: &str =
    "kind = \"constant\"\ncapacity_blocks = 10000000\nblock_size = \"512B\"\nservice_time = \"10ms\"\n";

/// Forty background writes at once, of which a process needs the last 55 ms later, and ten reads for which a process
/// waits. Rows come in order of arrival.
fn trace() -> String {
    let mut rows =
        String::from("arrival_ns,op,lbn,blocks,criticality,became_time_limited_ns,became_time_critical_ns\n");
    for write in 0..40 {
        let needed = if write == 39 { "55000000" } else { "" };
        writeln!(rows, "0,write,{},8,time_noncritical,,{needed}", 1_000 + 8 * write).unwrap();
    }
    for read in 0..10 {
        writeln!(rows, "{},read,{},8,time_critical,,", 1 + 30_000_000 * read, 500_000 - 8 * read).unwrap();
    }
    rows
}

#[test]
fn scheduler_by_criticality_serves_those_who_wait() {
    let bench = Bench::new();
    bench.write("slow.toml", DEVICE);
    bench.write("t.csv", trace());
    let by_criticality = |scheduler: &str| {
        let arguments = ["simulate", "slow.toml", "-w", "t.csv", "--scheduler", scheduler];
        bench.json(&arguments)["devices"][0]["by_criticality"].take()
    };
    let [plain, by_class] = ["c-look", "criticality-c-look"].map(by_criticality);
    let ms = |classes: &Value, class: &str, figure: &str| classes[class][figure].as_f64().unwrap();
    for classes in [&plain, &by_class] {
        assert_eq!(classes["time_critical"]["requests"], 10, "{classes}");
        assert_eq!(classes["time_noncritical"]["requests"], 40, "{classes}");
        assert_eq!(classes["time_noncritical"]["became_time_critical"], 1, "{classes}");
        assert_eq!(classes["time_limited"]["requests"], 0, "{classes}");
        assert_eq!(classes["time_limited"]["response_mean_ms"], Value::Null, "{classes}");
    }
    // A sweep upwards reaches the reads behind all writes. By class each waits for one request at most.
    assert!(ms(&plain, "time_critical", "response_mean_ms") > 200.0, "{plain}");
    assert!(ms(&by_class, "time_critical", "response_max_ms") <= 30.0, "{by_class}");
    assert!(ms(&plain, "time_noncritical", "wait_mean_ms") > 300.0, "{plain}");
    // At 55 ms a write is being served until 60 ms; then the one that is needed.
    assert!(ms(&by_class, "time_noncritical", "wait_mean_ms") <= 25.0, "{by_class}");
    let [plain, by_class] =
        [plain, by_class].map(|classes| ms(&classes, "time_noncritical", "response_mean_ms"));
    assert!(by_class > plain, "background writes wait: {by_class} ms against {plain} ms");
    let arguments = ["simulate", "slow.toml", "-w", "t.csv", "--scheduler", "criticality-c-look"];
    let shown = bench.run(&arguments).done();
    for word in ["class", "time-critical", "time-noncritical", "became critical", "wait"] {
        assert!(shown.contains(word), "{word} in {shown}");
    }
    assert!(!shown.contains("time-limited"), "{shown}");
}

/// The trace of a run states its changes again, in CSV and Parquet.
#[test]
fn trace_of_a_run_replays_with_its_changes() {
    let bench = Bench::new();
    bench.write("slow.toml", DEVICE);
    bench.write("t.csv", trace());
    let simulate = |workload: &str, out: &str| {
        let scheduler = "criticality-c-look";
        bench.run(&["simulate", "slow.toml", "-w", workload, "--scheduler", scheduler, "--out", out]).done();
    };
    simulate("t.csv", "once.csv");
    simulate("once.csv", "twice.csv");
    simulate("once.csv", "once.parquet");
    simulate("once.parquet", "thrice.csv");
    let read = |name: &str| String::from_utf8(bench.read(name)).unwrap();
    let once = read("once.csv");
    assert!(once.contains("time_noncritical,,55000000,"), "{once}");
    assert_eq!(read("twice.csv"), once);
    assert_eq!(read("thrice.csv"), once);
}

#[test]
fn requests_of_one_class_have_no_figures_by_class() {
    let bench = Bench::new();
    let figures = bench.json(&["simulate", "constant", "-w", "random,requests=50"])["devices"][0].take();
    assert_eq!(figures["by_criticality"], Value::Null);
    let shown = bench.run(&["simulate", "constant", "-w", "random,requests=50"]).done();
    assert!(!shown.contains("class"), "{shown}");
}
