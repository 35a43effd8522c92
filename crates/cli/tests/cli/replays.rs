//! Replay of a trace on another device, with the dependencies of its requests.

use serde_json::Value;

use super::bench::Bench;

const SLOW: &str =
    "kind = \"constant\"\ncapacity_blocks = 10000000\nblock_size = \"512B\"\nservice_time = \"100ms\"\n";

#[test]
fn followed_requests_wait_for_a_slower_device() {
    let bench = Bench::new();
    bench.write("slow.toml", SLOW);
    // One at a time, 5 ms after each completion: every request finds the disk idle.
    let workload = "random,closed=1,think=5ms,requests=500";
    bench.run(&["simulate", "hp-c2247a", "-w", workload, "--out", "seen.parquet"]).done();
    let simulate = |device: &str, mode: &str| {
        bench.json(&["simulate", device, "-w", "seen.parquet", mode])["devices"][0].take()
    };
    let [open, follow] = ["--open", "--follow"].map(|mode| simulate("slow.toml", mode));
    assert_eq!(follow["response_mean_ms"], 100.0, "a closed load never queues");
    assert!(open["response_mean_ms"].as_f64().unwrap() > 1_000.0, "{open}");
    let followed = &follow["followed"];
    assert_eq!(followed["after_idle_requests"], 500, "{followed}");
    assert_eq!(
        (&followed["follows_within_ms"], &followed["independent_requests"]),
        (&Value::Null, &0.into())
    );
    assert!(open.get("followed").is_none());
    let note = follow["notes"].to_string();
    assert!(note.contains("500 requests that arrived at an idle device"), "{note}");
    // On the device that made the trace nothing changes.
    let [open, follow] = ["--open", "--follow"].map(|mode| simulate("hp-c2247a", mode));
    assert_eq!(open["response_mean_ms"], follow["response_mean_ms"]);
}

#[test]
fn independent_arrivals_are_followed_by_their_recorded_times() {
    let bench = Bench::new();
    bench.write("slow.toml", SLOW);
    let workload = "random,poisson=5/s,requests=5000";
    bench.run(&["simulate", "hp-c2247a", "-w", workload, "--out", "seen.parquet"]).done();
    let [open, follow] = ["--open", "--follow"]
        .map(|mode| bench.json(&["simulate", "slow.toml", "-w", "seen.parquet", mode])["devices"][0].take());
    assert!(open["response_mean_ms"].as_f64().unwrap() > 110.0, "requests queue at 5/s: {open}");
    assert_eq!(open["response_mean_ms"], follow["response_mean_ms"]);
    assert!(follow["notes"].to_string().contains("arrive independently of the device"), "{follow}");
}

#[test]
fn follow_without_completion_times_is_refused() {
    let bench = Bench::new();
    bench.write("arrivals.csv", "arrival_ns,op,lbn,blocks\n0,read,0,8\n10,read,8,8\n");
    let arguments = ["simulate", "hp-c2247a", "-w", "arrivals.csv", "--follow"];
    bench.run(&arguments).fails(&["`follow` needs completion times", "hint: "]);
}

#[test]
fn parts_that_a_trace_lacks_are_refused() {
    let bench = Bench::new();
    bench.write(
        "t.csv",
        "arrival_ns,device,op,lbn,blocks\n0,0,read,0,8\n1000000000,2,read,8,8\n2000000000,0,read,8,8\n",
    );
    let run = |part: &[&str]| bench.run(&[&["simulate", "hp-c2247a", "-w", "t.csv"], part].concat());
    run(&["--replay-device", "5"]).fails(&["--replay-device 5", "devices of the trace: 0, 2"]);
    run(&["--replay-from", "100s"]).fails(&["--replay-from 100s", "the last request arrives at 2s"]);
    run(&["--replay-device", "2", "--replay-from", "1.5s"]).fails(&["--replay-from 1.5s", "arrives at 1s"]);
    run(&["--replay-device", "2", "--replay-from", "1s"]).done();
}
