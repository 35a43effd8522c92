//! Output of runs: JSON, reports, the same bytes from the same seed.

use serde_json::Value;

use crate::bench::{Bench, RANDOM};

/// Returns the document without the command and the figures that depend on the speed of the machine.
fn without_speed(mut document: Value) -> Value {
    document.as_object_mut().unwrap().remove("command");
    for device in document["devices"].as_array_mut().unwrap() {
        for key in ["requests_per_cpu_s", "cpu_s", "wall_s"] {
            assert!(
                device.as_object_mut().unwrap().remove(key).is_some_and(|value| value.is_number()),
                "{key}"
            );
        }
    }
    document
}

#[test]
fn document_has_the_documented_keys() {
    let bench = Bench::new();
    let document = bench.json(&["simulate", "hp-c2247a", "barracuda", "-w", RANDOM]);
    assert_eq!(document["seed"], 1);
    assert_eq!(document["workload"], RANDOM);
    let devices = document["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 2);
    for (device, name) in devices.iter().zip(["hp-c2247a", "barracuda"]) {
        assert_eq!(device["device"], name);
        assert_eq!(device["requests"], 200);
        for key in
            ["response_mean_ms", "response_p99_ms", "requests_per_second", "requests_per_cpu_s", "wall_s"]
        {
            assert!(device[key].as_f64().is_some_and(|value| value > 0.0), "{name} {key}");
        }
    }
    let list = bench.json(&["devices"]);
    assert!(list["devices"].as_array().unwrap().iter().any(|device| device["device"] == "atlas10k"));
    assert_eq!(bench.json(&["devices", "atlas10k"])["kind"], "disk");
    assert!(bench.json(&["trace", "formats"])["formats"].as_array().unwrap().len() >= 6);
}

#[test]
fn same_seed_gives_the_same_bytes() {
    let bench = Bench::new();
    for suffix in ["csv", "parquet"] {
        let run = |name: &str, seed: &str| {
            let file = format!("{name}.{suffix}");
            let arguments = ["simulate", "exponential", "-w", RANDOM, "--seed", seed, "--out", &file];
            (without_speed(bench.json(&arguments)), bench.read(&file))
        };
        let (first, second, other) = (run("a", "7"), run("b", "7"), run("c", "8"));
        assert!(first == second, "{suffix}");
        assert!(first.0["devices"] != other.0["devices"] && first.1 != other.1, "{suffix}");
    }
}

#[test]
fn description_from_a_file_is_the_same_device() {
    let bench = Bench::new();
    bench.write("saved.toml", bench.run(&["devices", "hp-c2247a", "--toml"]).done());
    bench.write("based.toml", "base = \"hp-c2247a\"\n[set]\nrpm = \"10000rpm\"\n");
    bench.write("hp-c2247a.toml", "base = \"hp-c2247a\"\n");
    bench.write("queue.toml", "kind = \"queue\"\nscheduler = \"sptf\"\n[device]\nbase = \"hp-c2247a\"\n");
    let run = |arguments: &[&str]| {
        let mut document = without_speed(bench.json(&[&["simulate", "-w", RANDOM], arguments].concat()));
        document["devices"][0].as_object_mut().unwrap().remove("device");
        document["devices"].take()
    };
    let catalog = run(&["hp-c2247a"]);
    assert_eq!(run(&["saved.toml"]), catalog);
    assert_eq!(run(&["hp-c2247a.toml"]), catalog);
    assert_eq!(run(&["based.toml"]), run(&["hp-c2247a", "--set", "rpm=10000rpm"]));
    assert_ne!(run(&["based.toml"]), catalog);
    assert_eq!(run(&["queue.toml"]), run(&["hp-c2247a", "--scheduler", "sptf"]));
    assert_eq!(run(&["queue.toml", "--set", "rpm=10000rpm"]), run(&["based.toml", "--scheduler", "sptf"]),);
    let bare = run(&["hp-c2247a", "--bare"]);
    assert_ne!(bare, catalog);
    assert_ne!(run(&["hp-c2247a", "--bare", "--set", "per_command=0.5ms"]), bare);
    run(&["hp-c2247a", "--bare", "--set", "zero_latency_read=true"]);
}

#[test]
fn report_needs_no_other_file() {
    let bench = Bench::new();
    bench.run(&["simulate", "hp-c2247a", "barracuda", "-w", RANDOM, "--report", "out.html"]).done();
    let html = String::from_utf8(bench.read("out.html")).unwrap();
    assert!(html.contains("hp-c2247a") && html.contains("barracuda"));
    let fetched = ["src=\"http", "href=\"http", "url(http", "@import"];
    assert!(fetched.iter().all(|what| !html.contains(what)));
    bench.trace("t.csv");
    bench.json(&["compare", "t.csv", "t.csv", "--report", "diff.html"]);
    assert!(String::from_utf8(bench.read("diff.html")).unwrap().contains("t.csv"));
}

#[test]
fn application_reports_the_time_of_each_phase_on_each_device() {
    let arguments = ["simulate", "cheetah-36es", "immediate", "--workload", "postmark,scale=0.02"];
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_seeklab")).args(arguments).output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    for device in ["cheetah-36es", "immediate"] {
        for phase in ["create: 10 operations", "transactions: 10 operations", "delete: "] {
            assert!(text.contains(&format!("{device}: {phase}")), "{phase} of {device} is not in\n{text}");
        }
    }
}

#[test]
fn drive_measured_behind_a_slow_host_bus_says_so_in_devices_and_reports() {
    let bench = Bench::new();
    let bus = "measured drive behind a 5 MB/s host bus";
    assert!(bench.run(&["devices", "barracuda"]).done().contains(bus));
    bench.run(&["simulate", "barracuda", "-w", RANDOM, "--report", "it.html"]).done();
    // A slash is escaped.
    let page = String::from_utf8(bench.read("it.html")).unwrap().replace("&#x2f;", "/");
    assert!(page.contains(bus));
}
