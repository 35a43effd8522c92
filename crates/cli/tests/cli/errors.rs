//! Workloads that survive failed requests, and hosts that send them again.

use std::path::Path;

use serde_json::Value;

use crate::bench::Bench;

fn device<'a>(document: &'a Value, key: &str) -> &'a Value {
    &document["devices"][0][key]
}

#[test]
fn retries_end_with_success_or_are_given_up() {
    let bench = Bench::new();
    let line = ["simulate", "immediate", "--workload", "random,requests=2000", "--closed", "4"];
    let fault = ["--fault", "aborted,probability=50%"];
    let once = bench.json(&[&line[..], &fault].concat());
    assert!(device(&once, "retries").is_null());
    let failed = device(&once, "errors").as_u64().unwrap();
    assert!((900..1100).contains(&failed), "{failed}");
    let again = bench.json(&[&line[..], &fault, &["--retries", "3"]].concat());
    // The alias of who writes `--retry`.
    let alias = bench.json(&[&line[..], &fault, &["--retry", "3"]].concat());
    assert_eq!(device(&alias, "retries"), device(&again, "retries"));
    let retries = device(&again, "retries");
    let count = |name: &str| retries[name].as_u64().unwrap();
    // One in sixteen fails four times; the bounds are five standard deviations.
    assert!((70..180).contains(&count("abandoned_requests")), "{retries}");
    assert_eq!(device(&again, "requests").as_u64().unwrap() + count("abandoned_requests"), 2000);
    assert_eq!(device(&again, "errors").as_u64().unwrap(), count("retries") + count("abandoned_requests"));
    assert!((800..1000).contains(&count("retried_requests")), "{retries}");
    // A device that refuses a write would refuse it again.
    let refused = ["--fault", "write_protected", "--retries", "3"];
    let refused = bench.json(&[&line[..], &refused].concat());
    assert_eq!(device(&refused, "retries")["retries"], 0);
    assert_eq!(device(&refused, "retries")["abandoned_requests"], *device(&refused, "errors"));
}

#[test]
fn retry_waits_and_every_attempt_is_a_row_of_the_trace() {
    let bench = Bench::new();
    let trace = bench.path("trace.csv");
    bench
        .run(&[
            "simulate",
            "constant",
            "--set",
            "service_time=1ms",
            "--workload",
            "random,requests=3",
            "--closed",
            "1",
            "--fault",
            "medium_error,probability=100%,for=20ms",
            "--retries",
            "5",
            "--retry-after",
            "4ms",
            "--out",
            &trace.to_string_lossy(),
        ])
        .done();
    let text = std::fs::read_to_string(&trace).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let column = |name: &str| names.iter().position(|column| *column == name).unwrap();
    let cells = |name: &str| rows.iter().map(|row| row[column(name)]).collect::<Vec<_>>();
    assert_eq!(
        cells("arrival_ns"),
        ["0", "5000000", "10000000", "15000000", "20000000", "21000000", "22000000"]
    );
    assert_eq!(
        cells("status"),
        ["medium_error", "medium_error", "medium_error", "medium_error", "ok", "ok", "ok"]
    );
    let lbns = cells("lbn");
    assert!(lbns[..5].iter().all(|lbn| *lbn == lbns[0]) && lbns[5] != lbns[0], "{lbns:?}");
}

#[test]
fn application_survives_errors_over_nbd() {
    let bench = Bench::new();
    let line = ["run", "immediate", "--size", "64MiB", "--builtin", "postmark,files=40,transactions=60"];
    let fault = ["--fault", "aborted,op=write,probability=20%"];
    let repetition = |arguments: &[&str]| {
        let document = bench.json(&[&line[..], &fault, arguments].concat());
        document["devices"][0]["repetitions"][0].clone()
    };
    let once = repetition(&["--record", "traces"]);
    let failed = once["failed_requests"].as_u64().unwrap();
    assert!(failed > 0 && failed < once["requests"].as_u64().unwrap(), "{once}");
    assert_eq!(
        (&once["retries"]["abandoned_requests"], &once["retries"]["retries"]),
        (&failed.into(), &0.into())
    );
    assert_eq!(once["exit_code"], 0, "errors are no wrong data");
    // The trace of an emulation names the faults, as that of a simulation does.
    bench.run(&["trace", "convert", "traces/immediate-1.parquet", "emulated.csv"]).done();
    let trace = bench.path("emulated.csv");
    let named = cells(&trace, "status").into_iter().zip(cells(&trace, "fault"));
    let (struck, others): (Vec<_>, Vec<_>) = named.partition(|(status, _)| status == "aborted");
    assert_eq!(struck.len() as u64, failed);
    assert!(
        struck.iter().all(|(_, fault)| fault == "aborted")
            && others.iter().all(|(_, fault)| fault.is_empty())
    );
    let again = repetition(&["--retries", "20"]);
    let retries = &again["retries"];
    assert_eq!(retries["abandoned_requests"], 0, "{again}");
    assert_eq!(retries["retries"], again["failed_requests"]);
    assert!(retries["retried_requests"].as_u64().unwrap() > 0);
    let refused = bench.run(&["run", "immediate", "--retries", "1", "--", "true"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--retries: applies to --builtin"), "{}", refused.stderr);
}

/// Bytes of the reads that were carried out, by the second of their completion.
fn bytes_per_second(trace: &Path) -> Vec<f64> {
    let text = std::fs::read_to_string(trace).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| names.iter().position(|column| *column == name).unwrap();
    let (completion, status, blocks) = (column("completion_ns"), column("status"), column("blocks"));
    let mut bytes = vec![0.0; 30];
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let second = cells[completion].parse::<u64>().unwrap() / 1_000_000_000;
        if cells[status] == "ok"
            && let Some(sum) = bytes.get_mut(second as usize)
        {
            *sum += cells[blocks].parse::<f64>().unwrap() * 512.0;
        }
    }
    bytes
}

#[test]
fn spek_figure_8_halves_recovers_and_ends_at_zero() {
    let bench = Bench::new();
    let faults = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/spek-figure-8/faults.toml");
    let trace = bench.path("simulated.csv");
    // As examples/spek-figure-8/run.sh does.
    let document = bench.json(&[
        "simulate",
        "constant",
        "--set",
        "service_time=0.846ms",
        "--faults",
        &faults.to_string_lossy(),
        "--workload",
        "sequential,size=8KiB,read=100%,requests=27300",
        "--closed",
        "4",
        "--retries",
        "9",
        "--out",
        &trace.to_string_lossy(),
    ]);
    let bytes = bytes_per_second(&trace);
    let mean = |seconds: std::ops::Range<usize>| {
        let count = seconds.len() as f64;
        bytes[seconds].iter().sum::<f64>() / count
    };
    // The throughput of the paper without faults is 9.68 MB/s.
    let before = mean(1..15);
    assert!((before / 9.68e6 - 1.0).abs() < 0.01, "{before}");
    // 5910 attempts, each carried out with a probability of one half: five standard deviations are 3.3 %.
    let meanwhile = mean(15..20) / before;
    assert!((meanwhile - 0.5).abs() < 0.017, "{meanwhile}");
    let after = mean(20..25) / before;
    assert!((after - 1.0).abs() < 0.002, "{after}");
    assert_eq!(mean(26..30), 0.0);
    let abandoned = device(&document, "retries")["abandoned_requests"].as_u64().unwrap();
    // The reads from 25 s on, ten attempts each, and about three that failed ten times before.
    assert!(abandoned > 500, "{abandoned}");
}

/// Values of a column of a trace in CSV.
fn cells(trace: &Path, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(trace).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let place = lines.next().unwrap().split(',').position(|column| column == name).unwrap();
    lines.map(|line| line.split(',').nth(place).unwrap().to_owned()).collect()
}

#[test]
fn trace_names_the_faults_that_struck() {
    let bench = Bench::new();
    let simulate = |out: &str, scheduler: &[&str]| {
        let line =
            ["simulate", "constant", "--workload", "random,requests=12", "--closed", "1", "--out", out];
        let faults = ["--fault", "delay,add=1ms,every=2", "--fault", "aborted,every=3,name=broken cable"];
        bench.run(&[&line[..], &faults, scheduler].concat()).done();
    };
    let both = ["", "delay", "broken cable", "delay", "", "delay+broken cable"];
    let expected = [both, both].concat();
    simulate("trace.csv", &[]);
    assert_eq!(cells(&bench.path("trace.csv"), "fault"), expected);
    // Behind a queue, and through Parquet.
    simulate("trace.parquet", &["--scheduler", "fcfs"]);
    bench.run(&["trace", "convert", "trace.parquet", "copy.csv"]).done();
    assert_eq!(cells(&bench.path("copy.csv"), "fault"), expected);
    bench.run(&["trace", "convert", "copy.csv", "again.parquet"]).done();
    bench.run(&["trace", "convert", "again.parquet", "again.csv"]).done();
    assert_eq!(bench.read("again.csv"), bench.read("copy.csv"));
    // A name that the metadata does not have.
    let text = String::from_utf8(bench.read("copy.csv")).unwrap();
    bench.write("wrong.csv", text.replace("# fault.1: broken cable\n", ""));
    bench.run(&["trace", "info", "wrong.csv"]).fails(&["fault", "broken cable", "delay is allowed"]);
}

#[test]
fn request_that_failed_because_the_device_went_names_the_fault() {
    let bench = Bench::new();
    let line = ["simulate", "constant", "--workload", "random,requests=4", "--closed", "4"];
    let faults = ["--fault", "gone,at=15ms,name=cable", "--out", "trace.csv"];
    bench.run(&[&line[..], &faults].concat()).done();
    let trace = bench.path("trace.csv");
    assert_eq!(cells(&trace, "status"), ["ok", "gone", "gone", "gone"]);
    assert_eq!(cells(&trace, "fault"), ["", "cable", "cable", "cable"]);
}

#[test]
fn report_shades_the_times_of_faults_on_every_axis_of_time() {
    let bench = Bench::new();
    let line = ["simulate", "constant", "--workload", "random,requests=100", "--closed", "1"];
    let fault = ["--fault", "aborted,name=cable,at=200ms,for=100ms", "--report", "report.html"];
    bench.run(&[&line[..], &fault].concat()).done();
    let page = String::from_utf8(bench.read("report.html")).unwrap();
    let bands = page.matches(r#""bands":[{"name":"cable","#).count();
    // Throughput, errors, response time, longest response, and the map.
    assert_eq!(bands, 5);
    bench.run(&[&line[..], &fault[2..]].concat()).done();
    assert!(!String::from_utf8(bench.read("report.html")).unwrap().contains(r#""bands":"#));
}

#[test]
fn report_shades_faults_of_a_whole_device_though_no_request_arrives() {
    let bench = Bench::new();
    let page = |faults: &[&str]| {
        let set = ["simulate", "constant", "--set", "service_time=1ms", "--closed", "1"];
        let line =
            [&set[..], &["--workload", "random,requests=40", "--report", "report.html"], faults].concat();
        bench.run(&line).done();
        String::from_utf8(bench.read("report.html")).unwrap()
    };
    // The request that is outstanding arrived before the window, and the next one comes behind it.
    let stalled = page(&["--fault", "stall,at=5.5ms,for=10ms", "--fault", "slow,factor=2,at=1h,for=1s"]);
    assert!(stalled.contains(r#""bands":[{"name":"stall","from":5.5,"to":15.5}]"#), "{}", bands(&stalled));
    // Times behind the last completion are not drawn, and nothing of a fault that strikes requests alone.
    let late =
        page(&["--fault", "slow,factor=2,at=30ms,for=1s", "--fault", "delay,add=1ms,at=10.2ms,for=0.5ms"]);
    assert!(late.contains(r#""bands":[{"name":"slow","from":30.0,"to":50.0}]"#), "{}", bands(&late));
}

/// The first bands of a report.
fn bands(page: &str) -> &str {
    let from = page.find(r#""bands":"#).unwrap_or(page.len());
    &page[from..page.len().min(from + 200)]
}
