//! `seeklab bench --rates` and `--find-rate`, and operations beside reads and writes in the load.

use std::collections::BTreeMap;

use super::bench::{Bench, unfolded};

/// `operation, force unit access` of every row of a trace, counted.
fn operations(bench: &Bench, name: &str) -> (BTreeMap<(String, String), u64>, Vec<String>) {
    let text = String::from_utf8(bench.read(name)).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let (op, fua) = (column("op"), column("fua"));
    let (mut counts, mut order) = (BTreeMap::new(), Vec::new());
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        *counts.entry((cells[op].to_owned(), cells[fua].to_owned())).or_default() += 1;
        order.push(cells[op].to_owned());
    }
    (counts, order)
}

#[test]
fn recorded_requests_have_the_flushes_discards_zeroes_and_fua_of_the_load() {
    let bench = Bench::new();
    let load = "random,size=4KiB,read=40%,discard=10%,write_zeroes=5%,fua=25%,flush_every=32,closed=4,requests=20000";
    for target in ["model:immediate", "null"] {
        let figures = bench.json(&["bench", target, "-w", load, "--record", "t.csv"]);
        let (counts, order) = operations(&bench, "t.csv");
        let of = |name: &str| -> u64 {
            counts.iter().filter(|((op, _), _)| op == name).map(|(_, count)| count).sum()
        };
        assert_eq!(counts.values().sum::<u64>(), 20_000);
        // Each flush follows 32 writes.
        let mut writes = 0;
        for op in &order {
            match op.as_str() {
                "write" => writes += 1,
                "flush" => assert_eq!(std::mem::take(&mut writes), 32, "{target}"),
                _ => {}
            }
        }
        assert_eq!(of("flush"), of("write") / 32, "{target}");
        // Within four standard deviations of the shares of the other requests.
        let others = (20_000 - of("flush")) as f64;
        let near = |count: u64, share: f64, of: f64| {
            let deviation = (count as f64 - share * of).abs() / (of * share * (1.0 - share)).sqrt();
            assert!(deviation < 4.0, "{target}: {count} is not {share} of {of}");
        };
        near(of("read"), 0.4, others);
        near(of("discard"), 0.1, others);
        near(of("write_zeroes"), 0.05, others);
        let with_fua: u64 =
            counts.iter().filter(|((_, fua), _)| fua == "true" || fua == "1").map(|(_, count)| count).sum();
        near(with_fua, 0.25, of("write") as f64);
        assert_eq!(figures["others"], of("flush") + of("discard") + of("write_zeroes"));
    }
    // Without the new keys, the draws are those of before.
    let plain = |load: &str| {
        bench.json(&["bench", "null", "-w", load, "--record", "p.csv"]);
        operations(&bench, "p.csv").1
    };
    let one = plain("random,size=4KiB,read=40%,closed=1,requests=500");
    let other = plain("random,size=4KiB,read=40%,discard=1%,fua=50%,closed=1,requests=500");
    let reads = |order: &[String]| order.iter().map(|op| op == "read").collect::<Vec<_>>();
    assert_eq!(reads(&one), reads(&other));
    for (load, part) in [
        ("random,size=4KiB,read=95%,discard=10%,closed=1", "sum to more than 1"),
        ("random,size=4KiB,read=100%,flush_every=8,closed=1", "is for writes, and the workload has none"),
        ("random,size=4KiB,read=50%,flush_every=0,closed=1", "flush_every: 0"),
    ] {
        let run = bench.run(&["bench", "null", "-w", load]);
        run.fails(&[]);
        assert!(unfolded(&run.stderr).contains(part), "{load}: {}", run.stderr);
    }
}

#[test]
fn file_takes_the_flushes_and_fua_writes_of_a_load() {
    let bench = Bench::new();
    let load = "random,size=4KiB,read=0%,fua=50%,flush_every=10,closed=1,requests=550";
    let figures = bench.json(&[
        "bench",
        "psync:disk.img",
        "--create",
        "4MiB",
        "--buffered",
        "-w",
        load,
        "--record",
        "t.csv",
    ]);
    let (counts, _) = operations(&bench, "t.csv");
    assert_eq!(
        (&figures["others"], &figures["writes"], &figures["errors"]),
        (&50.into(), &500.into(), &0.into())
    );
    assert_eq!(counts.values().sum::<u64>(), 550);
}

#[test]
fn highest_rate_on_an_exponential_server_is_that_of_the_closed_form() {
    let bench = Bench::new();
    // M/M/1 with 100 requests per second: the response time is exponential with the mean 1 / (100/s - rate).
    for (bound, mean_s) in [("response_mean_ms<=20", 0.020), ("response_p99_ms<=100", 0.100 / 100_f64.ln())] {
        let expected = 100.0 - 1.0 / mean_s;
        for start in ["30/s", "400/s"] {
            let load = format!("random,read=100%,size=4KiB,poisson={start}");
            let figures = bench.json(&[
                "bench",
                "model:exponential",
                "-w",
                &load,
                "--requests",
                "200000",
                "--interval",
                "0s",
                "--find-rate",
                bound,
            ]);
            let found = &figures["found_rate"];
            let rate = found["arrivals_per_s"].as_f64().unwrap();
            assert!(
                (rate / expected - 1.0).abs() <= 0.03,
                "{bound} from {start}: {rate}, expected {expected}"
            );
            let exceeded = found["exceeded_arrivals_per_s"].as_f64().unwrap();
            assert!(rate < exceeded && exceeded <= 1.006 * rate, "{found}");
            assert_eq!(found["limited_by"], "target");
            // The figures are those at the rate.
            assert_eq!(figures["phases"][0]["offered_per_second"], found["arrivals_per_s"]);
            let key = bound.split("<=").next().unwrap();
            assert_eq!(figures[key], found["value"]);
        }
    }
}

#[test]
fn rate_that_is_found_without_a_target_is_that_of_the_generator() {
    let bench = Bench::new();
    let load = "random,read=100%,size=4KiB,poisson=1000000/s";
    let line =
        ["bench", "null", "-w", load, "--duration", "200ms", "--find-rate", "response_p50_ms<=50", "--json"];
    let run = bench.run(&line);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let figures: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(figures["found_rate"]["limited_by"], "generator", "{:#}", figures["found_rate"]);
    assert_eq!(figures["trusted"], false);
    let notes = figures["notes"].as_array().unwrap();
    let is_named =
        |note: &serde_json::Value| note.as_str().unwrap().contains("not the target, broke the bound");
    assert!(notes.iter().any(is_named), "{notes:?}");
}

#[test]
fn search_on_a_target_whose_requests_fail_ends_when_the_target_is_idle() {
    let bench = Bench::new();
    let load = "random,read=100%,size=4KiB,poisson=40/s";
    let line =
        ["bench", "model:constant", "-w", load, "--requests", "2000", "--find-rate", "response_mean_ms<=20"];
    let faulty = [&line[..], &["--fault", "medium_error,probability=5%"]].concat();
    let found = bench.run(&faulty);
    assert_eq!(found.code, 1, "{}", found.stderr);
    for part in ["failed or never came at", "the target is idle then", "--retries"] {
        assert!(found.stderr.contains(part), "{}", found.stderr);
    }
}

#[test]
fn search_ends_with_the_first_trial_in_which_no_request_succeeds_or_arrives() {
    let bench = Bench::new();
    let search = |load: &str, rest: &[&str]| {
        let line = ["bench", "model:constant", "-w", load, "--find-rate", "response_mean_ms<=20"];
        let run = bench.run(&[&line[..], rest].concat());
        assert_eq!(run.stderr.matches("trial at").count(), 1, "{}", run.stderr);
        run
    };
    let load = "random,read=100%,size=4KiB,poisson=40/s";
    let faulty = ["--requests", "2000", "--fault", "medium_error,probability=100%"];
    search(load, &faulty)
        .misses(&["2000 requests failed or never came, and none succeeded at 40 requests", "--timeout"]);
    let late = ["--requests", "2000", "--timeout", "1ms"];
    search(load, &late).misses(&["and none succeeded at 40 requests"]);
    let rare = "random,read=100%,size=4KiB,constant=0.1/s,requests=5";
    search(rare, &["--duration", "1s"]).misses(&["no request arrived at 0.1 requests per second"]);
}

/// Points of the first series of that name in a page.
fn points_of(page: &str, name: &str) -> Vec<[f64; 2]> {
    let (_, series) = page.split_once(&format!("\"name\":\"{name}\"")).unwrap();
    let (_, points) = series.split_once("\"points\":").unwrap();
    let mut values = serde_json::Deserializer::from_str(points).into_iter::<Vec<[f64; 2]>>();
    values.next().unwrap().unwrap()
}

#[test]
fn each_phase_and_stream_has_a_response_curve_of_its_own() {
    let bench = Bench::new();
    let phase = |name: &str, load: &str| {
        format!(
            "[[phases]]\nname = \"{name}\"\nrates = [\"40/s\", \"10/s\"]\n[[phases.streams]]\nworkload = \"{load}\"\n"
        )
    };
    let small = "random,read=100%,size=4KiB,poisson=80/s,requests=2000";
    let plan = "target = \"model:exponential\"\nrepetitions = 2\n".to_owned()
        + &phase("day", small)
        + &phase("night", small)
        + "[[phases]]\nname = \"closed\"\n[[phases.streams]]\nworkload = \"random,read=100%,closed=2,requests=200\"\n";
    bench.write("plan.toml", plan);
    let figures = bench.json(&["bench", "plan.toml", "--report", "curves.html"]);
    let page = String::from_utf8(bench.read("curves.html")).unwrap();
    for name in ["response curves, mean", "response curves, p50", "response curves, p99"] {
        assert!(page.contains(name), "no `{name}`");
    }
    // Points in order of rate, each a mean over both repetitions, and none of another phase.
    for name in ["day", "night"] {
        let mean = |rate: &str| {
            let phases = figures["phases"].as_array().unwrap().iter();
            let of = phases.filter(|phase| phase["phase"] == format!("{name} {rate}"));
            let values: Vec<f64> = of.map(|phase| phase["response_mean_ms"].as_f64().unwrap()).collect();
            assert_eq!(values.len(), 2);
            values.iter().sum::<f64>() / 2.0
        };
        let points = points_of(&page, name);
        assert_eq!(points.len(), 2, "{name}: {points:?}");
        for ([rate, ms], expected) in points.into_iter().zip(["10/s", "40/s"]) {
            assert_eq!(format!("{rate}/s"), expected);
            assert!((ms / mean(expected) - 1.0).abs() < 1e-3, "{name} at {rate}: {ms}");
        }
    }
}

#[test]
fn rates_are_phases_of_a_response_curve() {
    let bench = Bench::new();
    let load = "random,read=100%,size=4KiB,poisson=80/s,requests=20000";
    let figures = bench.json(&[
        "bench",
        "model:exponential",
        "-w",
        load,
        "--rates",
        "10%,50%,90/s",
        "--report",
        "curve.html",
    ]);
    let phases = figures["phases"].as_array().unwrap();
    let of = |key: &str| phases.iter().map(|phase| phase[key].as_f64().unwrap()).collect::<Vec<_>>();
    assert_eq!(of("offered_per_second"), [8.0, 40.0, 90.0]);
    let names: Vec<&str> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    assert_eq!(names, ["10%", "50%", "90/s"]);
    for (rate, mean_ms) in [8.0, 40.0].into_iter().zip(of("response_mean_ms")) {
        let expected = 1e3 / (100.0 - rate);
        assert!((mean_ms / expected - 1.0).abs() < 0.05, "{rate}/s: {mean_ms} ms, expected {expected}");
    }
    let page = String::from_utf8(bench.read("curve.html")).unwrap();
    assert!(page.contains("Response curve"));
    for (arguments, part) in [
        (&["-w", "random,closed=4", "--rates", "50%"][..], "has no rate of arrivals"),
        (&["-w", load, "--rates", "50%,50%"], "is there twice"),
        (&["-w", load, "--rates", "fast"], "such as 50%"),
        (&["-w", load, "--find-rate", "utilisation_pct<=50"], "has no utilisation"),
        (&["-w", load, "--find-rate", "response_p98_ms<=5"], "did you mean"),
        (&["-w", load, "--find-rate", "response_mean_ms<=20", "--repeat", "2"], "--repeat"),
    ] {
        let run = bench.run(&[&["bench", "model:exponential"], arguments].concat());
        run.fails(&[]);
        assert!(unfolded(&run.stderr).contains(part), "{arguments:?}: {}", run.stderr);
    }
    // A bound below what an idle target takes is met by no rate.
    let line = ["--requests", "2000", "--find-rate", "response_p99_ms<=0.001"];
    let run = bench.run(&[&["bench", "model:exponential", "-w", load][..], &line].concat());
    assert_eq!(run.code, 1, "{}", run.stderr);
    let text = unfolded(&run.stderr);
    assert!(text.contains("the target is idle then trial at "), "{text}");
    assert!(text.contains("trial at 80 requests per second: response_p99_ms "), "{text}");
}
