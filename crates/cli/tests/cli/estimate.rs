//! `seeklab estimate`: its figures against theory and simulations, and its mistakes.

use serde_json::Value;

use super::bench::{Bench, unfolded};

/// The figures of the first device.
fn first(document: &Value) -> &Value {
    &document["devices"][0]
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}: is no number"))
}

#[track_caller]
fn close(found: &Value, expected: f64, tolerance: f64) {
    let found = number(found);
    assert!((found / expected - 1.0).abs() <= tolerance, "{found} {expected}");
}

#[test]
fn simple_servers_have_the_figures_of_theory() {
    let bench = Bench::new();
    // A service time of 10 ms: M/D/1 and M/M/1 at 80 % load.
    let document = bench.json(&["estimate", "constant", "exponential", "-w", "random,poisson=80/s"]);
    let (constant, exponential) = (&document["devices"][0], &document["devices"][1]);
    close(&constant["response_mean_ms"], 30.0, 1e-6);
    close(&exponential["response_mean_ms"], 50.0, 1e-6);
    close(&exponential["response_p99_ms"], 50.0 * 100.0_f64.ln(), 2e-3);
    close(&exponential["outstanding_mean"], 4.0, 1e-6);
    assert_eq!((&constant["method"], &constant["law"]["origin"]), (&"mg1".into(), &"exact".into()));
    close(&constant["saturation_per_s"], 100.0, 1e-6);
}

#[test]
fn closed_loads_have_the_figures_of_theory() {
    let bench = Bench::new();
    let closed = bench.json(&["estimate", "constant", "-w", "random", "--closed", "8"]);
    close(&first(&closed)["response_mean_ms"], 80.0, 1e-6);
    close(&first(&closed)["throughput_per_s"], 100.0, 1e-6);
    bench.write(
        "think.toml",
        "preset = 'random'\n[arrivals]\nprocess = 'closed'\npopulation = 2\nthink = '10ms'\n\
         think_distribution = 'exponential'\n",
    );
    let thinking = bench.json(&["estimate", "exponential", "-w", "think.toml"]);
    // Weights 1, 2, 2 of 0, 1 and 2 outstanding: 1.2 outstanding at 80 per second.
    assert_eq!(first(&thinking)["method"], "finite_population");
    close(&first(&thinking)["response_mean_ms"], 15.0, 1e-6);
    close(&first(&thinking)["throughput_per_s"], 80.0, 1e-6);
}

#[test]
fn disks_meet_their_simulation() {
    let bench = Bench::new();
    let line = "random,size=8KiB,read=100%,poisson=60/s,requests=100000";
    let estimated = bench.json(&["estimate", "cheetah-36es", "-w", line]);
    let simulated = bench.json(&["simulate", "cheetah-36es", "-w", line]);
    close(&first(&estimated)["response_mean_ms"], number(&first(&simulated)["response_mean_ms"]), 0.02);
    close(&first(&estimated)["response_p99_ms"], number(&first(&simulated)["response_p99_ms"]), 0.04);
    assert_eq!(first(&estimated)["law"]["origin"], "integrated");
}

#[test]
fn traces_are_estimated_by_the_recursion() {
    let bench = Bench::new();
    bench.write("bursts.csv", {
        let row =
            |index: u64| format!("{},read,{},8\n", index / 20 * 2_000_000_000 + 1, index * 7_919 % 100_000);
        "arrival_ns,op,lbn,blocks\n".to_owned() + &(0..2_000).map(row).collect::<String>()
    });
    let document = bench.json(&["estimate", "constant", "-w", "bursts.csv"]);
    let device = first(&document);
    // Twenty at once take 10 ms each: 105 ms on average, and Poisson arrivals of that rate would hardly wait.
    assert_eq!(device["method"], "lindley");
    close(&device["response_mean_ms"], 105.0, 1e-6);
    assert_eq!(device["beside"][0]["method"], "mg1");
    assert!(number(&device["beside"][0]["response_mean_ms"]) < 11.0, "{device}");
    let poisson = &device["assumptions"][0];
    assert_eq!((&poisson["name"], &poisson["holds"]), (&"poisson_arrivals".into(), &false.into()));
}

#[test]
fn load_grows_until_the_bound() {
    let bench = Bench::new();
    let until =
        |bound: &str| bench.json(&["estimate", "exponential", "-w", "random,poisson=10/s", "--until", bound]);
    // 1 / (100 − 10 f) = 50 ms.
    let document = until("response_mean_ms<=50");
    let found = &first(&document)["until"];
    close(&found["growth"], 8.0, 1e-3);
    close(&found["arrivals_per_s"], 80.0, 1e-3);
    assert!(number(&found["growth_min"]) <= 8.0 && number(&found["growth_max"]) >= 7.99, "{found}");
    // Also from a load that the device cannot sustain.
    let overloaded =
        ["estimate", "exponential", "-w", "random,poisson=500/s", "--until", "response_mean_ms<=50"];
    close(&first(&bench.json(&overloaded))["until"]["arrivals_per_s"], 80.0, 1e-3);
}

#[test]
fn overload_is_a_failed_check() {
    let bench = Bench::new();
    let run = bench.run(&["estimate", "constant", "-w", "random,poisson=150/s"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stdout.contains("overloaded"), "{}", run.stdout);
    let error = unfolded(&run.stderr);
    assert!(error.contains("150.000000 requests arrive per second") && error.contains("--until"), "{error}");
}

#[test]
fn mistakes_are_explained() {
    let bench = Bench::new();
    bench.write("at_once.csv", "arrival_ns,op,lbn,blocks\n".to_owned() + &"5,read,0,8\n".repeat(20));
    bench.write("few.csv", "arrival_ns,op,lbn,blocks\n5,read,0,8\n9,read,0,8\n");
    let fails = |arguments: &[&str], parts: &[&str]| {
        bench.run(&[&["estimate", "constant", "-w"], arguments].concat()).fails(parts);
    };
    fails(&["at_once.csv"], &["the same arrival time", "hint: "]);
    fails(&["few.csv"], &["2 requests are too few"]);
    fails(&["postmark"], &["depend on what their processes do", "--out TRACE"]);
    fails(
        &["random,poisson=10/s", "--until", "response_p99_ms<=1"],
        &["exceeds 1.000000 at any load", "10.000 ms"],
    );
    fails(&["random,poisson=10/s", "--until", "response_p98_ms<=1"], &["response_p98_ms", "did you mean"]);
    fails(&["no-such.csv"], &["there is no such file"]);
    let never = ["estimate", "immediate", "-w", "random,poisson=10/s", "--until", "response_mean_ms<=1"];
    bench.run(&never).fails(&["stays within 1.000000 at any load"]);
}

#[test]
fn report_has_the_response_curve() {
    let bench = Bench::new();
    let line = ["estimate", "constant", "-w", "random,poisson=50/s", "--report", "out.html"];
    bench.run(&line).done();
    let page = String::from_utf8(bench.read("out.html")).unwrap();
    assert!(page.contains("response time of constant") && page.contains("knee"), "the page has no curve");
}
