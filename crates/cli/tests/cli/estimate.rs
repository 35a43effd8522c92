//! `seeklab estimate`: its figures against theory and simulations, and its mistakes.

use serde_json::Value;

use super::bench::{Bench, unfolded};
use super::shared_trace;

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
fn documents_have_the_figures_that_scripts_read() {
    let bench = Bench::new();
    let document = bench.json(&["estimate", "hp-c2247a", "-w", "random,read=100%,poisson=20/s"]);
    for key in [
        "service_mean_ms",
        "service_sd_ms",
        "utilisation_pct",
        "response_mean_ms",
        "response_p50_ms",
        "response_p90_ms",
        "response_p95_ms",
        "response_p99_ms",
        "response_p999_ms",
        "outstanding_mean",
        "saturation_per_s",
    ] {
        assert!(number(&first(&document)[key]) > 0.0, "{key}: {document}");
    }
    assert!(number(&first(&document)["error_pct"]["response_mean_pct"]) > 0.0, "{document}");
    assert!(!first(&document)["assumptions"].as_array().unwrap().is_empty(), "{document}");
    assert!(first(&document)["method"].is_string(), "{document}");
}

#[test]
fn constant_think_times_on_a_constant_device_meet_the_asymptotic_bound() {
    let bench = Bench::new();
    for (load, mean_ms) in [("closed=20,think=200ms", 10.0), ("closed=24,think=200ms", 40.0)] {
        let constant = bench.json(&["estimate", "constant", "-w", &format!("random,{load}")]);
        assert_eq!(first(&constant)["method"], "constant_think_times");
        close(&first(&constant)["response_mean_ms"], mean_ms, 1e-4);
        close(&first(&constant)["response_p99_ms"], mean_ms, 1e-4);
        assert_eq!(first(&constant)["notes"], serde_json::json!([]));
    }
    // Behind a limit they are estimated as exponential ones, and the note has the bound.
    bench.write(
        "limit.toml",
        "kind = 'limit'\n[[requests]]\nrate = '40/s'\nburst = 1\n[device]\nbase = 'constant'\n",
    );
    for (load, bound) in
        [("closed=8,think=300ms", "bound, 10.000 ms,"), ("closed=8,think=100ms", "bound, 100.0 ms,")]
    {
        let limited = bench.json(&["estimate", "limit.toml", "-w", &format!("random,{load}")]);
        assert_eq!(first(&limited)["error_pct"]["response_mean_pct"], Value::Null);
        let notes = first(&limited)["notes"].to_string();
        assert!(
            notes.contains("`exponential_think_times` does not hold") && notes.contains(bound),
            "{notes}"
        );
    }
}

#[test]
fn errors_of_priorities_and_delays_are_those_of_such_loads() {
    let bench = Bench::new();
    let error = |device: &[&str], load: &str, figure: &str| {
        let line = format!("random,size=4KiB,read=100%,{load}");
        let estimate = bench.json(&[&["estimate", "cheetah-36es"], device, &["-w", &line]].concat());
        first(&estimate)["error_pct"][figure].as_f64().unwrap()
    };
    // Such estimates were 8.3 % and 2.3 % off.
    let priorities = ["--scheduler", "criticality-c-look"];
    assert!(error(&priorities, "noncritical=40%,poisson=75/s", "response_p99_pct") > 8.3);
    assert!(error(&priorities, "poisson=75/s", "response_p99_pct") < 5.0);
    let delays = ["--fault", "delay,add=50ms,probability=2%"];
    assert!(error(&delays, "poisson=60/s", "response_mean_pct") > 2.3);
    assert!(error(&delays, "poisson=60/s", "response_p99_pct") > 2.3);
}

#[test]
fn million_members_that_think_are_estimated_without_percentiles() {
    let bench = Bench::new();
    let many = bench.json(&["estimate", "constant", "-w", "random,closed=1000000,think=1ms"]);
    close(&first(&many)["response_mean_ms"], 1e7 - 1.0, 1e-6);
    assert_eq!(first(&many)["response_p99_ms"], Value::Null);
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
    // An arrival finds the other member thinking or at the device with the same probability: half exponential, half Erlang-2.
    close(&first(&thinking)["response_p50_ms"], 11.461, 0.01);
    // The report draws the population up to twice its members.
    bench.run(&["estimate", "constant", "-w", "random", "--closed", "8", "--report", "closed.html"]).done();
    let report = String::from_utf8(bench.read("closed.html")).unwrap();
    for part in ["throughput of constant", "response time of constant", "asymptotic bounds"] {
        assert!(report.contains(part), "{part}");
    }
}

#[test]
fn percentiles_behind_a_limit_meet_their_simulation() {
    let bench = Bench::new();
    bench.write(
        "requests.toml",
        "kind = 'limit'\n[[requests]]\nrate = '60/s'\nburst = 2\n[device]\nbase = 'constant'\n",
    );
    bench.write(
        "bytes.toml",
        "kind = 'limit'\n[[bytes]]\nrate = '2MB/s'\nburst = '64KiB'\n[device]\nbase = 'constant'\n",
    );
    // Portions of eight requests, and of 400 kB, which fast requests use up long before an interval ends.
    let fast =
        "kind = 'exponential'\ncapacity_blocks = 1000000\nblock_size = '512B'\nservice_time = '0.2ms'\n";
    let portions = [
        ("portions.toml", "requests", "rate = '80/s'\nburst = 8"),
        ("byte_portions.toml", "bytes", "rate = '4MB/s'\nburst = '400kB'"),
    ];
    for (name, unit, bucket) in portions {
        let limit = format!("[[{unit}]]\n{bucket}\ninterval = '100ms'\n");
        bench.write(name, format!("kind = 'limit'\n{limit}[device]\n{fast}"));
    }
    // A limit of bytes takes eight times as much for a long request.
    for (device, sizes, rate) in [
        ("requests.toml", "4KiB", 42),
        ("bytes.toml", "8KiB:60+64KiB:40", 45),
        ("portions.toml", "4KiB", 50),
        ("byte_portions.toml", "8KiB:60+64KiB:40", 60),
    ] {
        let line = format!("random,size={sizes},poisson={rate}/s,requests=400000");
        let estimated = bench.json(&["estimate", device, "-w", &line]);
        let simulated = bench.json(&["simulate", device, "-w", &line]);
        assert_eq!(first(&estimated)["method"], "limited_queue");
        let error_pct = &first(&estimated)["error_pct"]["response_mean_pct"];
        assert_eq!(error_pct.is_null(), device.contains("portions"), "{device}");
        for (figure, tolerance) in [("response_mean_ms", 0.03), ("response_p99_ms", 0.05)] {
            close(&first(&estimated)[figure], number(&first(&simulated)[figure]), tolerance);
        }
    }
}

#[test]
fn limits_count_the_shares_that_a_description_states() {
    let bench = Bench::new();
    let device = "[device]\nbase = 'hp-c2247a'\n";
    bench.write(
        "writes.toml",
        format!("kind = 'limit'\nof = 'writes'\n[[requests]]\nrate = '20/s'\nburst = 10\n{device}"),
    );
    bench.write("bytes.toml", format!("kind = 'limit'\n[[bytes]]\nrate = '1MB/s'\nburst = '1MB'\n{device}"));
    let mean_bytes = 0.6 * 8192.0 + 0.4 * 65536.0;
    for (device, load, per_s) in [
        ("writes.toml", "size=8KiB,read=50%", 40.0),
        ("writes.toml", "size=8KiB,read=75%", 80.0),
        ("bytes.toml", "size=8KiB:60+64KiB:40,read=50%", 1e6 / mean_bytes),
    ] {
        let document = bench.json(&["estimate", device, "-w", &format!("random,{load},poisson=10/s")]);
        close(&first(&document)["law"]["limits"][0]["requests_per_s"], per_s, 1e-6);
    }
}

#[test]
fn limit_that_holds_few_requests_for_long_shows_in_the_percentiles() {
    let bench = Bench::new();
    let limit = |name: &str, of: &str, rate: u32, burst: u32, device: &str| {
        let bucket = format!("[[requests]]\nrate = '{rate}/s'\nburst = {burst}\n");
        bench.write(name, format!("kind = 'limit'\nof = '{of}'\n{bucket}[device]\nbase = '{device}'\n"));
    };
    limit("writes.toml", "writes", 30, 5, "hp-c2247a");
    limit("all.toml", "all", 60, 10, "cheetah-36es");
    limit("reordering.toml", "all", 30, 5, "nearline-7200");
    // Limits hold requests for less than a hundredth of the mean response time here.
    for (device, load) in [("writes.toml", "read=50%,poisson=30/s"), ("all.toml", "read=100%,poisson=42/s")] {
        let line = format!("random,size=8KiB,{load},requests=1000000");
        let estimated = bench.json(&["estimate", device, "-w", &line]);
        let simulated = bench.json(&["simulate", device, "-w", &line]);
        assert_eq!(first(&estimated)["method"], "limited_queue", "{device}");
        for (figure, tolerance) in [("response_mean_ms", 0.02), ("response_p99_ms", 0.05)] {
            close(&first(&estimated)[figure], number(&first(&simulated)[figure]), tolerance);
        }
    }
    let load = "random,size=8KiB,read=100%,poisson=15/s";
    let unknown = bench.json(&["estimate", "reordering.toml", "-w", load]);
    assert_eq!(first(&unknown)["response_p99_ms"], Value::Null, "{unknown}");
    let notes = first(&unknown)["notes"].to_string();
    assert!(notes.contains("the limits hold") && notes.contains("no percentiles"), "{notes}");
}

#[test]
fn text_names_the_assumptions_that_hold() {
    let bench = Bench::new();
    let text = bench.run(&["estimate", "cheetah-36es", "-w", OFFICE, "--scaled", "0.2", "--beyond", "wrap"]);
    let text = unfolded(&text.done());
    assert!(text.contains("tested assumptions that hold: `addresses_of_the_law`"), "{text}");
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
fn one_request_at_a_time_has_the_law_without_a_queue() {
    let bench = Bench::new();
    let alone = |device: &[&str]| {
        let load = ["-w", "random,size=8KiB,read=100%,closed=1"];
        let document = bench.json(&[&["estimate"], device, &load].concat());
        first(&document)["law"]["points"][0]["service_mean_ms"].clone()
    };
    // A queue of the disk's own, and one of the host: both have no choice among one.
    assert_eq!(alone(&["nearline-7200"]), alone(&["nearline-7200", "--set", "scheduler=fcfs"]));
    assert_eq!(alone(&["cheetah-36es", "--scheduler", "sptf"]), alone(&["cheetah-36es"]));
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
fn traces_on_disks_that_reorder_meet_their_simulation() {
    let bench = Bench::new();
    let load = ["nearline-7200", "-w", OFFICE];
    let found = bench.json(&[&["estimate"][..], &load, &["--until", "response_mean_ms<=20"]].concat());
    assert_eq!(first(&found)["method"], "lindley_reordered");
    let until = &first(&found)["until"];
    let growth = number(&until["growth"]).to_string();
    assert!(number(&until["growth_min"]) <= number(&until["growth"]), "{until}");
    assert!(number(&until["growth_max"]) >= number(&until["growth"]), "{until}");
    let scaled = [&load[..], &["--scaled", &growth]].concat();
    let simulated = bench.json(&[&["simulate"][..], &scaled].concat());
    close(&first(&simulated)["response_mean_ms"], 20.0, 0.05);
    let estimated = bench.json(&[&["estimate"][..], &scaled].concat());
    for (figure, tolerance) in [("response_mean_ms", 1e-3), ("response_p99_ms", 5e-3)] {
        for of in ["", "read_", "write_"] {
            let figure = format!("{of}{figure}");
            close(&first(&estimated)[&figure], number(&first(&simulated)[&figure]), tolerance);
        }
    }
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
    assert!(error.contains("150.000 requests arrive per second") && error.contains("--until"), "{error}");
}

#[test]
fn overload_of_regular_arrivals_is_a_failed_check() {
    let bench = Bench::new();
    bench.write(
        "limit.toml",
        "kind = 'limit'\n[[requests]]\nrate = '100/s'\nburst = 100\n[device]\nkind = 'constant'\n\
         capacity_blocks = 100000\nblock_size = '512B'\nservice_time = '1ms'\n",
    );
    let at = |rate: &str| {
        let load = format!("random,size=4KiB,constant={rate}");
        bench.run(&["estimate", "limit.toml", "-w", &load])
    };
    let run = at("150/s");
    let error = unfolded(&run.stderr);
    assert!(run.code == 1 && error.contains("completes at most 100.000 per second"), "{error}");
    assert_eq!(at("99/s").code, 0);
    // The limit is the highest rate, and a bound of the response time is met up to it.
    let load = ["-w", "random,size=4KiB,constant=80/s"];
    let document =
        bench.json(&[&["estimate", "limit.toml"], &load[..], &["--until", "response_mean_ms<=5"]].concat());
    close(&first(&document)["saturation_per_s"], 100.0, 1e-6);
    close(&first(&document)["until"]["growth"], 1.25, 1e-3);
}

#[test]
fn delay_takes_as_many_requests_as_arrive() {
    let bench = Bench::new();
    bench.write(
        "delayed.toml",
        "kind = 'fault'\n[[fault]]\nkind = 'delay'\nadd = '500ms'\n[device]\nkind = 'constant'\n\
         capacity_blocks = 100000\nblock_size = '512B'\nservice_time = '1ms'\n",
    );
    let document = bench.json(&["estimate", "delayed.toml", "-w", "random,size=4KiB,poisson=400/s"]);
    assert_eq!(first(&document)["saturated"], false, "{document:#}");
    close(&first(&document)["saturation_per_s"], 1_000.0, 0.02);
    close(&first(&document)["response_mean_ms"], 501.0, 0.1);
}

#[test]
fn closed_loads_grow_by_whole_members_and_have_percentiles() {
    let bench = Bench::new();
    let document =
        bench.json(&["estimate", "constant", "-w", "random,closed=4", "--until", "response_mean_ms<=105"]);
    close(&first(&document)["until"]["growth"], 2.5, 1e-9);
    assert_eq!(first(&document)["until"]["arrivals_per_s"], Value::Null);
    assert_eq!(first(&document)["until"]["members"], 10);
    let document = bench.json(&["estimate", "exponential", "-w", "random,closed=4"]);
    // Erlang with four stages.
    close(&first(&document)["response_p99_ms"], 100.45, 3e-3);
    bench
        .run(&["estimate", "immediate", "-w", "random,closed=3"])
        .fails(&["answers at once", "hint: give a rate or a think time"]);
}

#[test]
fn closed_replay_of_a_trace_meets_its_simulation() {
    let bench = Bench::new();
    // Short requests near each other, then long ones far away: no law of independent requests has these response times.
    let row = |index: u64| match index {
        0..2_500 => format!("{},write,{},8\n", index + 1, index * 16 % 40_000),
        _ => format!("{},read,{},256\n", index + 1, index * 7_919_000 % 2_000_000),
    };
    let rows = (0..5_000).map(row).collect::<String>();
    bench.write("phases.csv", "arrival_ns,op,lbn,blocks\n".to_owned() + &rows);
    for device in ["hp-c2247a", "atlas10k", "nearline-7200"] {
        let load = [device, "-w", "phases.csv", "--closed", "4"];
        let estimated = bench.json(&[&["estimate"][..], &load].concat());
        let simulated = bench.json(&[&["simulate"][..], &load].concat());
        let (estimated, simulated) = (first(&estimated), first(&simulated));
        assert_eq!(estimated["method"], "closed_replay", "{estimated}");
        close(&estimated["response_mean_ms"], number(&simulated["response_mean_ms"]), 1e-6);
        close(&estimated["response_p99_ms"], number(&simulated["response_p99_ms"]), 2e-3);
        close(&estimated["throughput_per_s"], number(&simulated["requests_per_second"]), 1e-3);
        assert!(number(&estimated["error_pct"]["response_mean_pct"]) < 0.01, "{estimated}");
    }
    // Other seeds draw other service times.
    let drawn =
        bench.json(&["estimate", "exponential", "-w", "phases.csv", "--beyond", "wrap", "--closed", "4"]);
    assert_eq!(first(&drawn)["method"], "closed_replay", "{drawn}");
    assert!(number(&first(&drawn)["error_pct"]["response_mean_pct"]) > 0.1, "{drawn}");
    // Each population that --until looks at has a run of its own.
    let mean_ms = |members: &str| {
        let closed = ["estimate", "hp-c2247a", "-w", "phases.csv", "--closed", members];
        number(&first(&bench.json(&closed))["response_mean_ms"])
    };
    let bound = format!("response_mean_ms<={}", mean_ms("7") * 1.01);
    let document =
        bench.json(&["estimate", "hp-c2247a", "-w", "phases.csv", "--closed", "4", "--until", &bound]);
    assert_eq!(first(&document)["until"]["members"], 7, "{document}");
}

#[test]
fn bound_without_a_growth_is_a_failed_check_with_a_document() {
    let bench = Bench::new();
    let load = ["-w", "random,poisson=10/s", "--json", "--until"];
    let run = |devices: &[&str], bound| bench.run(&[&["estimate"], devices, &load, &[bound]].concat());
    for (devices, bound, why) in [
        (&["constant"][..], "response_p99_ms<=1", "exceeds 1.0 at any load"),
        (&["immediate"], "response_mean_ms<=1", "stays within 1.0 at any load"),
        (&["constant", "exponential"], "response_p99_ms<=1", "exceeds 1.0 at any load"),
    ] {
        let run = run(devices, bound);
        run.misses(&[why]);
        let document: Value = serde_json::from_str(&run.stdout).unwrap();
        for device in document["devices"].as_array().unwrap() {
            assert_eq!(device["until"]["growth"], Value::Null, "{device}");
            assert!(device["until"]["growth_unknown_because"].to_string().contains(why), "{device}");
            assert!(number(&device["throughput_per_s"]) > 0.0, "{device}");
        }
    }
    // Another device may meet the bound, and the note names the device that does not once.
    let both = ["estimate", "constant", "exponential", "-w", "random,poisson=10/s", "--until"];
    let text = unfolded(&bench.run(&[&both[..], &["response_p50_ms<=9"]].concat()).done());
    assert!(text.contains("constant: --until response_p50_ms<=9: exceeds 9.0 at any load"), "{text}");
    assert!(!text.contains("constant: constant:"), "{text}");
}

#[test]
fn mistakes_are_explained() {
    let bench = Bench::new();
    let trace = |rows: &str| format!("arrival_ns,op,lbn,blocks\n{rows}");
    bench.write("at_once.csv", trace(&"5,read,0,8\n".repeat(20)));
    bench.write("few.csv", trace("5,read,0,8\n9,read,0,8\n"));
    bench.write("empty.csv", trace(""));
    bench.write("untimed.csv", "op,lbn,blocks\nread,0,8\n");
    bench.write("negative.csv", trace("5,read,0,-8\n"));
    bench.write("beyond.csv", trace(&"5,read,99999999999,8\n".repeat(20)));
    bench.write("two.csv", "arrival_ns,op,lbn,blocks,device\n1,read,0,8,0\n2000000,read,8,8,1\n");
    let poisson = "random,poisson=10/s";
    for (arguments, parts) in [
        (&["at_once.csv"][..], &["the same arrival time", "hint: "][..]),
        (&["few.csv"], &["2 requests are too few"]),
        (&["empty.csv"], &["empty.csv", "has no requests"]),
        (&["untimed.csv", "--format", "csv"], &["the column `arrival_ns` is missing"]),
        (&["negative.csv"], &["negative.csv, line 2", "blocks is `-8`", "0 to 4294967295 is allowed"]),
        (&["beyond.csv"], &["lbn 99999999999", "the device, which has 2147483648 blocks", "hint: "]),
        (&["two.csv"], &["several devices, such as 0 and 1", "replay,trace=two.csv,device=0"]),
        (&["no-such.csv"], &["there is no such file"]),
        (&["postmark"], &["depend on what their processes do", "--out TRACE"]),
        (&["random,poisson=0/s"], &["`0/s` is out of range", "0.000001/s and 1000000000/s"]),
        (&["random,size=0KiB,poisson=5/s"], &["0B is not a positive multiple", "512B"]),
        (&["random,size=99TiB,poisson=5/s"], &["99TiB is more than the addresses span", "1TiB"]),
        (&["random,read=150%,poisson=5/s"], &["allowed: at most 100%"]),
        (&["random", "--closed", "0"], &["a population is 1 to 1000000"]),
        (&[poisson, "--until", "response_p98_ms<=1"], &["response_p98_ms", "did you mean"]),
        (&[poisson, "--until", "response_p99_ms<=-1"], &["-1 is out of range", "above 0"]),
        (&[poisson, "--until", "response_p99_ms<=nan"], &["NaN is out of range"]),
        (&[poisson, "--until", "response_p99_ms<="], &["is no number"]),
        (&[poisson, "--until", "utilisation_pct<=100"], &["100 is out of range", "below 100"]),
        (&[poisson, "--vary", "buffer=8..64"], &["is no stream of jobs"]),
        (
            &["jobs,buffer=8,input=200/s,output=200/s", "--closed", "3"],
            &["error: --closed: `jobs,", "is a stream of jobs"],
        ),
    ] {
        bench.run(&[&["estimate", "constant", "-w"], arguments].concat()).fails(parts);
    }
    bench
        .run(&["estimate", "constant", "-w", poisson, "--until", "response_p99_ms<=1"])
        .misses(&["exceeds 1.0 at any load", "under the least load; allow more"]);
    // Another device may meet a bound that one exceeds at any load. If none does, a check has failed.
    let both = ["estimate", "constant", "exponential", "-w", poisson, "--until", "response_p50_ms<=9"];
    let document = bench.json(&both);
    assert_eq!(document["devices"][0]["until"]["growth"], Value::Null, "{document}");
    assert!(document["devices"][0]["notes"].to_string().contains("exceeds 9.0 at any load"), "{document}");
    assert!(number(&document["devices"][1]["until"]["growth"]) > 1.0, "{document}");
    bench
        .run(&["estimate", "constant", "exponential", "-w", poisson, "--until", "response_p99_ms<=1"])
        .misses(&["constant: --until", "exponential: --until"]);
    let never = ["estimate", "immediate", "-w", poisson, "--until", "response_mean_ms<=1"];
    bench.run(&never).misses(&["stays within 1.0 at any load"]);
}

#[test]
fn trace_alone_has_the_figures_counted_by_hand() {
    let bench = Bench::new();
    // Over 10 s, device 0 is busy for 2 s with four requests, device 1 for 5 s with one.
    let mut text = "arrival_ns,completion_ns,op,lbn,blocks,device\n".to_owned();
    for begin_ms in [0_u64, 1_000, 2_000, 3_000] {
        text += &format!("{},{},read,0,8,0\n", begin_ms * 1_000_000, (begin_ms + 500) * 1_000_000);
    }
    text += "5000000000,10000000000,write,0,8,1\n6000000000,,read,0,8,0\n";
    bench.write("recorded.csv", text);
    let document = bench.json(&["estimate", "-w", "recorded.csv", "--report", "laws.html"]);
    assert_eq!((&document["method"], &document["bottleneck"]), (&"operational".into(), &1.into()));
    // No error is stated, and why.
    assert_eq!(document["error_pct"], Value::Null);
    let reason = document["error_unknown_because"].as_str().unwrap();
    assert!(reason.contains("up to 62 % below"), "{reason}");
    close(&document["growth_max"], 2.0, 1e-9);
    close(&document["outstanding_mean"], 0.7, 1e-9);
    assert_eq!((&document["requests"], &document["requests_without_completion"]), (&5.into(), &1.into()));
    let device = first(&document);
    close(&device["utilisation_pct"], 20.0, 1e-9);
    close(&device["demand_mean_ms"], 400.0, 1e-9);
    close(&device["service_mean_ms"], 500.0, 1e-9);
    let page = String::from_utf8(bench.read("laws.html")).unwrap();
    assert!(page.contains("bounds of the throughput"), "the page has no bounds");
    let text = bench.run(&["estimate", "-w", "recorded.csv"]).done();
    assert!(text.contains("bottleneck") && text.contains("1 request without a completion"), "{text}");
}

#[test]
fn trace_alone_needs_a_trace_with_completions() {
    let bench = Bench::new();
    bench.write("open.csv", "arrival_ns,op,lbn,blocks\n5,read,0,8\n9,read,0,8\n");
    bench.write("empty.csv", "arrival_ns,op,lbn,blocks\n");
    for (arguments, parts) in [
        (
            &["-w", "random,poisson=5/s"][..],
            &["is no trace, and no device is named", "hint: name a device"][..],
        ),
        (&["-w", "open.csv"], &["none of its 2 requests has a completion time", "hint: "]),
        (&["-w", "empty.csv"], &["has no requests"]),
        (&["-w", "open.csv", "--until", "response_mean_ms<=5"], &["--until: no device is named"]),
        (&["-w", "open.csv", "--scheduler", "sptf"], &["--scheduler", "no device is named"]),
        (&["-w", "open.csv", "--closed", "4"], &["--closed", "no device is named"]),
    ] {
        bench.run(&[&["estimate"], arguments].concat()).fails(parts);
    }
}

/// The recorded server of the examples.
const OFFICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/office-server.csv.zst");

#[test]
fn laws_of_a_measured_trace_hold_together() {
    let bench = Bench::new();
    let document = bench.json(&["estimate", "-w", OFFICE]);
    let info = bench.json(&["trace", "report", OFFICE]);
    let device = first(&document);
    // Little's law and the utilisation law, with figures that `trace report` computes in another way.
    close(&document["response_mean_ms"], number(&info["summary"]["response_mean_ms"]), 1e-4);
    let little = number(&document["throughput_per_s"]) * number(&document["response_mean_ms"]) / 1e3;
    close(&document["outstanding_mean"], little, 1e-5);
    let utilisation = number(&document["throughput_per_s"]) * number(&device["demand_mean_ms"]) / 10.0;
    close(&device["utilisation_pct"], utilisation, 1e-4);
    assert!(number(&device["service_mean_ms"]) < number(&device["response_mean_ms"]), "{device}");
    close(&document["growth_max"], 100.0 / number(&device["utilisation_pct"]), 1e-6);
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn laws_of_the_hpl_trace_have_the_figures_of_its_origin() {
    let trace = shared_trace("hpl-srt-ajw").join("ajw.1week.srt.zst");
    let document = Bench::new().json(&["estimate", "-w", trace.to_str().unwrap()]);
    // Its page states 44,519 requests in 603,064 s on two disks.
    assert_eq!(document["requests"], 44_519);
    close(&document["elapsed_s"], 603_064.0, 1e-5);
    let devices = document["devices"].as_array().unwrap();
    assert_eq!((devices.len(), &document["bottleneck"]), (2, &0.into()));
    // A disk of 1992 takes 10 to 40 ms for a request alone.
    assert!(
        devices.iter().all(|device| (10.0..40.0).contains(&number(&device["service_mean_ms"]))),
        "{document}"
    );
    // Bounds of two devices do not meet: with many outstanding, the bottleneck decides.
    let bounds = document["bounds"].as_array().unwrap();
    close(&bounds.last().unwrap()["throughput_max_per_s"], number(&document["saturation_per_s"]), 1e-5);
    assert!(number(&bounds[1]["balanced_throughput_min_per_s"]) > number(&bounds[1]["throughput_min_per_s"]));
}

#[test]
fn growth_of_a_trace_is_that_of_bisected_simulations() {
    let bench = Bench::new();
    let bound = 20.0;
    let found = bench.json(&[
        "estimate",
        "cheetah-36es",
        "-w",
        OFFICE,
        "--beyond",
        "wrap",
        "--until",
        "response_mean_ms<=20",
    ]);
    let until = &first(&found)["until"];
    let mean_ms = |growth: f64| {
        let scaled = format!("{growth:.9}");
        let run =
            bench.json(&["simulate", "cheetah-36es", "-w", OFFICE, "--beyond", "wrap", "--scaled", &scaled]);
        number(&first(&run)["response_mean_ms"])
    };
    let growth = number(&until["growth"]);
    assert!(mean_ms(growth * 0.95) < bound && mean_ms(growth * 1.05) > bound, "{until}");
    assert!(number(&until["growth_min"]) < growth && growth < number(&until["growth_max"]), "{until}");
}

#[test]
fn report_has_the_response_curve() {
    let bench = Bench::new();
    let line = ["estimate", "constant", "-w", "random,poisson=50/s", "--report", "out.html"];
    bench.run(&line).done();
    let page = String::from_utf8(bench.read("out.html")).unwrap();
    assert!(page.contains("response time of constant") && page.contains("knee"), "the page has no curve");
}

#[test]
fn writes_behind_a_queue_that_reorders_are_estimated_by_a_run_over_drawn_arrivals() {
    let bench = Bench::new();
    bench.write(
        "queued.toml",
        "kind = 'queue'\nscheduler = 'c-look'\ndepth = 1\n[device]\nbase = 'ibm18es'\n",
    );
    // 77 % of the highest sustained rate. Alone, a destage holds up one read; here it changes which one comes next.
    let line = "random,size=8KiB,read=50%,poisson=100/s,requests=200000";
    let behind = ["-w", line, "--scheduler", "c-look"];
    let simulated = bench.json(&[&["simulate", "ibm18es"], &behind[..]].concat());
    let estimated = bench.json(&[&["estimate", "ibm18es"], &behind[..]].concat());
    let layered = bench.json(&["estimate", "queued.toml", "-w", line]);
    for estimate in [&estimated, &layered] {
        let found = first(estimate);
        assert_eq!(found["method"], "lindley_reordered", "{found:#}");
        // The random variation of a run is 3 % of the mean.
        close(&found["response_mean_ms"], number(&first(&simulated)["response_mean_ms"]), 0.15);
        close(&found["response_p99_ms"], number(&first(&simulated)["response_p99_ms"]), 0.2);
        assert!(number(&found["error_pct"]["response_mean_pct"]) > 0.0, "{found:#}");
    }
    // Reads alone keep their law.
    let reads = bench.json(&[
        "estimate",
        "ibm18es",
        "-w",
        "random,size=8KiB,read=100%,poisson=100/s",
        "--scheduler",
        "c-look",
    ]);
    assert_eq!(first(&reads)["method"], "departure_chain");
}

#[test]
fn buffered_writes_without_a_law_are_estimated_by_a_run_over_drawn_arrivals() {
    let bench = Bench::new();
    for line in ["sequential=30%,poisson=90/s", "fua=20%,poisson=60/s"] {
        let line = format!("random,size=8KiB,read=50%,{line},requests=200000");
        let simulated = bench.json(&["simulate", "cheetah-36es", "-w", &line]);
        let estimated = bench.json(&["estimate", "cheetah-36es", "-w", &line]);
        let found = first(&estimated);
        assert_eq!(found["method"], "lindley", "{found:#}");
        close(&found["response_mean_ms"], number(&first(&simulated)["response_mean_ms"]), 0.05);
        let broken = |name: &str| {
            let tests = found["assumptions"].as_array().unwrap();
            tests.iter().any(|test| test["name"] == name && test["holds"] == false)
        };
        assert!(!broken("writes_of_the_law"), "{found:#}");
    }
}
