//! `simulate --estimate`: flags an estimate that is off, and names the assumption that the load breaks.

use serde_json::Value;

use super::bench::{Bench, unfolded};

/// Pseudorandom numbers below 1, the same on every machine.
struct Draws(u64);

impl Draws {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.unit() * end as f64) as u64
    }

    /// Exponential time in nanoseconds.
    fn exponential_ns(&mut self, rate_per_s: f64) -> u64 {
        (-(1.0 - self.unit()).ln() / rate_per_s * 1e9) as u64
    }
}

/// Writes a trace of reads from arrival, first block and number of blocks.
fn write_trace(bench: &Bench, name: &str, requests: impl IntoIterator<Item = (u64, u64, u32)>) {
    let mut text = "arrival_ns,op,lbn,blocks\n".to_owned();
    for (arrival_ns, lbn, blocks) in requests {
        text += &format!("{arrival_ns},read,{lbn},{blocks}\n");
    }
    bench.write(name, text);
}

/// The comparison with the estimate.
fn check(bench: &Bench, arguments: &[&str]) -> Value {
    let document = bench.json(&[&["simulate"], arguments, &["--estimate"]].concat());
    document["devices"][0]["estimate_check"].clone()
}

/// Names of the assumptions that do not hold.
fn broken(of: &Value) -> Vec<&str> {
    of["broken_assumptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|broken| broken["name"].as_str().unwrap())
        .collect()
}

/// The comparison with M/G/1, which stands beside the recursion over a trace.
fn mg1(check: &Value) -> &Value {
    check["beside"].as_array().unwrap().iter().find(|method| method["method"] == "mg1").unwrap()
}

#[test]
fn estimate_of_a_plain_load_agrees_and_nothing_is_broken() {
    let bench = Bench::new();
    let line = "random,read=100%,size=8KiB,poisson=70/s,requests=30000";
    let check = check(&bench, &["cheetah-36es", "-w", line]);
    assert_eq!(check["agrees"], true, "{check}");
    assert!(broken(&check).is_empty(), "{check}");
    assert!(check["response_mean_variation_pct"].as_f64().unwrap() > 0.1, "{check}");
    let run = bench.run(&["simulate", "cheetah-36es", "-w", line, "--estimate"]);
    let output = unfolded(&(run.stdout + &run.stderr));
    assert!(output.contains("the estimate by `mg1` agrees with the simulation"), "{output}");
}

#[test]
fn estimate_of_batches_agrees() {
    let bench = Bench::new();
    let batches = |distribution: &str| {
        format!(
            "random,size=8KiB,read=100%,arrivals.process=bursty,arrivals.within=0ms,arrivals.burst=4,\
             arrivals.burst_distribution={distribution},arrivals.gap=160ms,requests=100000"
        )
    };
    for (device, distribution) in
        [("exponential", "geometric"), ("constant", "constant"), ("hp-c2490a", "constant")]
    {
        let check = check(&bench, &[device, "-w", &batches(distribution)]);
        assert_eq!(
            (&check["estimate"]["method"], &check["agrees"]),
            (&"mxg1".into(), &true.into()),
            "{check:#}"
        );
        assert!(broken(&check).is_empty(), "{check:#}");
        let difference = |key: &str| check[key].as_f64().unwrap().abs();
        // Without batches, M/G/1 is more than 60 % off.
        assert!(difference("response_mean_difference_pct") < 4.0, "{check:#}");
        assert!(difference("response_p99_difference_pct") < 8.0, "{check:#}");
    }
    let grown = batches("constant");
    let until = ["estimate", "exponential", "-w", &grown, "--until", "response_mean_ms<=60"];
    let growth = bench.json(&until)["devices"][0]["until"].clone();
    // Constant batches of 4 at an exponential server of 10 ms: (1 + 4) / 2 · 10 ms / (1 − ρ).
    let utilisation = 0.25 * growth["growth"].as_f64().unwrap();
    assert!((25.0 / (1.0 - utilisation) - 60.0).abs() < 0.1, "{growth:#}");
}

#[test]
fn estimates_of_two_classes_of_priority_agree() {
    let bench = Bench::new();
    for device in ["exponential", "constant"] {
        let load = "random,size=8KiB,read=100%,noncritical=40%,poisson=75/s,requests=200000";
        let check = check(&bench, &[device, "--scheduler", "criticality-c-look", "-w", load]);
        assert_eq!(check["estimate"]["method"], "mg1_priorities", "{check:#}");
        assert_eq!(check["agrees"], true, "{check:#}");
        for class in ["time_critical", "time_noncritical"] {
            let difference = check[&format!("{class}_difference_pct")].as_f64().unwrap();
            assert!(difference.abs() < 4.0, "{device}: {class}: {check:#}");
        }
        let of = |key: &str| check["estimate"][key].as_f64().unwrap();
        assert!(
            2.0 * of("time_critical_response_mean_ms") < of("time_noncritical_response_mean_ms"),
            "{check:#}"
        );
        // Without such a queue, classes have no effect.
        let plain = self::check(&bench, &[device, "-w", load]);
        assert_eq!(plain["estimate"]["method"], "mg1", "{plain:#}");
    }
    let run = bench.run(&[
        "estimate",
        "constant",
        "--scheduler",
        "criticality-c-look",
        "-w",
        "random,noncritical=40%,poisson=75/s",
    ]);
    assert!(unfolded(&run.done()).contains("time-noncritical"));
}

#[test]
fn preset_with_writes_behind_a_buffer_agrees() {
    let bench = Bench::new();
    // Exponential sizes, 67 % reads: the write buffer empties between arrivals.
    let load = "random,poisson=60/s,requests=20000";
    for (device, method) in [("cheetah-36es", "buffered_writes"), ("nearline-7200", "lindley_reordered")] {
        let check = check(&bench, &[device, "-w", load]);
        assert_eq!(check["estimate"]["method"], method, "{check:#}");
        let difference = check["response_mean_difference_pct"].as_f64().unwrap();
        // A law of closed runs is more than 20 % off.
        assert!(difference.abs() < 10.0, "{device}: {difference}");
        assert!(check["estimate"]["write_response_mean_ms"].is_number(), "{check:#}");
    }
    let part = "random,size=4KiB,poisson=60/s,requests=20000,address.start=10%,address.end=30%";
    let check = check(&bench, &["cheetah-36es", "-w", part]);
    let difference = check["response_mean_difference_pct"].as_f64().unwrap();
    assert!(difference.abs() < 10.0, "{difference}");
}

#[test]
fn writes_that_no_buffer_may_hold_are_estimated_as_such() {
    let bench = Bench::new();
    let load = "random,size=8KiB,read=50%,poisson=40/s,fua=100%,requests=20000";
    let forced = check(&bench, &["cheetah-36es", "-w", load]);
    let difference = forced["response_mean_difference_pct"].as_f64().unwrap();
    assert!(difference.abs() < 6.0, "{difference}");
    assert!(broken(&forced).is_empty(), "{forced:#}");
    // Beside writes that a buffer holds, and with flushes, no law is known: the device runs over drawn arrivals.
    for (device, part) in
        [("cheetah-36es", "fua=50%"), ("nearline-7200", "flush_every=10"), ("cheetah-36es", "sequential=50%")]
    {
        let load = format!("random,size=8KiB,read=50%,poisson=40/s,requests=20000,{part}");
        let check = check(&bench, &[device, "-w", &load]);
        let method = check["estimate"]["method"].as_str().unwrap();
        assert!(method.starts_with("lindley"), "{device} {part}: {method}");
        let difference = check["response_mean_difference_pct"].as_f64().unwrap();
        assert!(difference.abs() < 10.0, "{device} {part}: {difference}");
        assert!(!broken(&check).contains(&"writes_of_the_law"), "{device} {part}: {check:#}");
    }
}

#[test]
fn limit_on_writes_that_is_exceeded_is_agreed_on() {
    let bench = Bench::new();
    bench.write(
        "writes.toml",
        "kind = 'limit'\nof = 'writes'\n[[requests]]\nrate = '100/s'\nburst = 10\n[device]\nkind = 'constant'\n\
         capacity_blocks = 100000\nblock_size = '512B'\nservice_time = '1ms'\n",
    );
    // 150 writes a second, of which 100 pass: reads do not pile up.
    let check =
        check(&bench, &["writes.toml", "-w", "random,size=4KiB,read=50%,poisson=300/s,requests=5000"]);
    assert_eq!(check["agrees"], true, "{check:#}");
}

#[test]
fn bursts_in_place_of_poisson_arrivals_are_named() {
    let bench = Bench::new();
    let (mut draws, mut now) = (Draws(1), 0);
    let bursts = (0..8_000_u64).map(|index| {
        now += if index % 16 == 0 { draws.exponential_ns(1.0) } else { 0 };
        (now, index * 7_919 % 1_000_000, 8)
    });
    write_trace(&bench, "bursts.csv", bursts);
    let check = check(&bench, &["constant", "-w", "bursts.csv"]);
    assert_eq!((&check["estimate"]["method"], broken(&check).len()), (&"lindley".into(), 0));
    let poisson = mg1(&check);
    assert_eq!(poisson["agrees"], false, "{check}");
    assert_eq!(broken(poisson), ["poisson_arrivals"], "{check}");
    let run = bench.run(&["simulate", "constant", "-w", "bursts.csv", "--estimate"]);
    let output = unfolded(&(run.stdout + &run.stderr));
    assert!(output.contains("`mg1` would be off by -") && output.contains("`poisson_arrivals`"), "{output}");
}

#[test]
fn trend_of_the_rate_is_named() {
    let bench = Bench::new();
    let (mut draws, mut now) = (Draws(2), 0);
    let growing = (0..20_000_u64).map(|index| {
        now += draws.exponential_ns(20.0 + index as f64 / 333.0);
        (now, index * 7_919 % 1_000_000, 8)
    });
    write_trace(&bench, "growing.csv", growing);
    let check = check(&bench, &["constant", "-w", "growing.csv"]);
    assert_eq!(mg1(&check)["agrees"], false, "{check}");
    assert_eq!(broken(mg1(&check)), ["stationary_arrivals"], "{check}");
}

#[test]
fn sequential_runs_correlate_services_and_are_named() {
    let bench = Bench::new();
    let (mut draws, mut now, mut next) = (Draws(3), 0, 0);
    // Stretches of 100 random reads and of 100 sequential ones, which the buffer answers.
    let runs = (0..40_000_u64).map(|index| {
        now += draws.exponential_ns(150.0);
        next = if index / 100 % 2 == 0 { draws.below(60_000_000) / 8 * 8 } else { next + 8 };
        (now, next, 8)
    });
    write_trace(&bench, "runs.csv", runs);
    let check = check(&bench, &["cheetah-36es", "-w", "runs.csv"]);
    assert_eq!(mg1(&check)["agrees"], false, "{check}");
    assert!(mg1(&check)["response_mean_difference_pct"].as_f64().unwrap() < -10.0, "{check}");
    assert_eq!(broken(mg1(&check)), ["independent_services"], "{check}");
}

#[test]
fn faults_are_named() {
    let bench = Bench::new();
    // The runs that sample the law end before the fault begins.
    let line = "random,read=100%,size=8KiB,poisson=60/s,requests=40000";
    let fault = ["--fault", "delay,add=40ms,after=25000"];
    let check = check(&bench, &[&["cheetah-36es", "-w", line][..], &fault].concat());
    assert_eq!(check["agrees"], false, "{check}");
    assert_eq!(broken(&check), ["no_faults"], "{check}");
    assert!((check["broken_assumptions"][0]["figure"].as_f64().unwrap() - 0.375).abs() < 0.01, "{check}");
}

#[test]
fn burst_of_a_limit_that_outlasts_the_run_is_named() {
    let bench = Bench::new();
    bench.write(
        "limited.toml",
        "kind = 'limit'\n[[requests]]\nrate = '100/s'\nburst = 20000\n[device]\nkind = 'constant'\n\
         capacity_blocks = 1000000\nblock_size = '512B'\nservice_time = '1ms'\n",
    );
    // 50 requests a second beyond the limit use the burst up in 400 s; the run ends before.
    let short = check(&bench, &["limited.toml", "-w", "random,poisson=150/s,requests=15000"]);
    assert_eq!((&short["agrees"], &short["estimate"]["method"]), (&false.into(), &Value::Null), "{short}");
    assert_eq!(broken(&short), ["limits_in_steady_state"], "{short}");
    let steady = check(&bench, &["limited.toml", "-w", "random,poisson=80/s,requests=15000"]);
    assert_eq!(steady["agrees"], true, "{steady}");
    assert!(broken(&steady).is_empty(), "{steady}");
}

#[test]
fn requests_outside_the_law_are_named() {
    let bench = Bench::new();
    // Of a long trace, the laws are sampled in eight stretches. Long reads lie between two of them.
    let mut draws = Draws(4);
    let mut text = "arrival_ns,op,lbn,blocks,device\n".to_owned();
    for index in 0..120_000_u64 {
        let blocks = if (6_000..16_000).contains(&index) { 256 } else { 8 };
        text += &format!("{index},read,{},{blocks},{}\n", draws.below(60_000_000), draws.below(2));
    }
    bench.write("long.csv", text);
    let check = check(&bench, &["cheetah-36es", "-w", "long.csv", "--closed", "4"]);
    assert_eq!(check["agrees"], false, "{check}");
    assert!(check["service_mean_difference_pct"].as_f64().unwrap() < -1.0, "{check}");
    assert!(broken(&check).contains(&"sizes_of_the_law"), "{check}");
}

#[test]
fn loads_without_a_method_are_refused_before_anything_runs() {
    let bench = Bench::new();
    let parts = ["--estimate: --workload `postmark`", "depend on what their processes do"];
    bench.run(&["simulate", "constant", "-w", "postmark", "--estimate", "--out", "t.csv"]).fails(&parts);
    assert!(!bench.path("t.csv").exists());
}

#[test]
fn estimate_of_a_closed_load_over_several_devices_agrees() {
    let bench = Bench::new();
    let mut draws = Draws(7);
    let mut text = "arrival_ns,op,lbn,blocks,device\n".to_owned();
    for request in 0..60_000_u64 {
        let device = [0, 0, 0, 0, 0, 1, 1, 1, 4, 4][draws.below(10) as usize];
        text += &format!("{request},read,{},8,{device}\n", draws.below(2_000_000));
    }
    bench.write("three.csv", text);
    for (device, tolerance_pct) in [("exponential", 2.0), ("constant", 25.0)] {
        let check = check(&bench, &[device, "-w", "three.csv", "--closed", "8"]);
        assert_eq!(check["estimate"]["method"], "mean_value_analysis", "{check:#}");
        let difference = check["response_mean_difference_pct"].as_f64().unwrap();
        assert!(difference.abs() < tolerance_pct, "{device}: {check:#}");
        // Services that vary less than exponential ones wait less.
        let expected: &[&str] = if device == "constant" { &["exponential_services"] } else { &[] };
        assert_eq!(broken(&check), expected, "{check:#}");
    }
    let estimated = bench.json(&["estimate", "exponential", "-w", "three.csv", "--closed", "8"]);
    let network = &estimated["devices"][0]["network"];
    let demand = |place: usize| network["devices"][place]["demand_mean_ms"].as_f64().unwrap();
    assert!((demand(0) - 5.0).abs() < 0.1 && (demand(2) - 2.0).abs() < 0.1, "{network:#}");
    assert_eq!(network["devices"][2]["device"], 4);
    let throughput = estimated["devices"][0]["throughput_per_s"].as_f64().unwrap();
    let bound = |key: &str| network["bounds"][key].as_f64().unwrap();
    assert!(bound("throughput_min_per_s") < bound("balanced_throughput_min_per_s"));
    assert!(bound("balanced_throughput_min_per_s") < throughput, "{network:#}");
    assert!(throughput < bound("balanced_throughput_max_per_s"), "{network:#}");
    // The device that limits the rate has half of the requests.
    let limit = estimated["devices"][0]["saturation_per_s"].as_f64().unwrap();
    assert!((limit / 200.0 - 1.0).abs() < 0.02, "{limit}");
}

#[test]
fn device_of_each_request_that_follows_from_the_one_before_is_named() {
    let bench = Bench::new();
    let rows = (0..20_000_u64).map(|request| format!("{request},read,{},8,{}\n", request * 8, request % 2));
    bench.write("turns.csv", format!("arrival_ns,op,lbn,blocks,device\n{}", rows.collect::<String>()));
    let check = check(&bench, &["exponential", "-w", "turns.csv", "--closed", "6"]);
    assert_eq!(broken(&check), ["independent_routing"], "{check:#}");
}

#[test]
fn errors_of_devices_with_faults_are_those_of_such_devices() {
    let bench = Bench::new();
    let load = ["-w", "random,size=8KiB,read=100%,poisson=40/s"];
    let error_pct = |device: &[&str]| {
        let document = bench.json(&[&["estimate"], device, &load[..]].concat());
        document["devices"][0]["error_pct"]["response_mean_pct"].clone()
    };
    let delayed = error_pct(&["cheetah-36es", "--fault", "delay,add=20ms,probability=1%"]);
    assert!(delayed.is_f64(), "{delayed}");
    assert_ne!(delayed, error_pct(&["cheetah-36es"]));
    // Other faults were not compared with simulations.
    assert!(error_pct(&["cheetah-36es", "--fault", "slow,factor=2"]).is_null());
}
