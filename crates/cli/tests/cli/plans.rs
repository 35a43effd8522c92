//! `seeklab bench PLAN.toml`: phases of streams, steady states, repetitions, and mistakes in plans.

use serde_json::Value;

use crate::survive::harness::Served;

use super::bench::{Bench, unfolded};

/// AWS's gp2 with fewer credits: 54,000 last for 20 s at 3,000/s, as 300/s come back.
const GP2: &str = r#"
kind = "limit"
[[requests]]
rate = "300/s"
burst = 54000
[[requests]]
rate = "3000/s"
burst = 300
[device]
kind = "exponential"
service_time = "0.3ms"
capacity_blocks = 1048576
block_size = "512B"
"#;

const PLAN: &str = r#"
title = "Two phases"
target = "model:gp2.toml"
[[phases]]
name = "burst"
until = "steady"
hold = 30
[[phases.streams]]
name = "readers"
workload = "random,size=4KiB,read=100%,closed=8"
[[phases.streams]]
name = "log"
workload = { kind = "synthetic", size = "4KiB", read = "0%", sequential = "100%", arrivals = { process = "poisson", rate = "50/s" } }
[[phases]]
name = "after"
requests = 300
[[phases.streams]]
workload = "random,size=4KiB,read=100%,poisson=100/s"
"#;

fn numbers(values: &Value, key: &str) -> Vec<u64> {
    values.as_array().unwrap().iter().map(|value| value[key].as_u64().unwrap()).collect()
}

#[test]
fn plan_measures_phases_of_streams_and_finds_the_end_of_burst_credits() {
    let bench = Bench::new();
    bench.write("gp2.toml", GP2);
    bench.write("plan.toml", PLAN);
    let arguments = ["bench", "plan.toml", "--record", "t.csv", "--report", "out.html"];
    let figures = bench.json(&arguments);
    let phases = figures["phases"].as_array().unwrap();
    assert_eq!(
        (phases.len(), &figures["title"], &figures["workload"]),
        (2, &"Two phases".into(), &Value::Null)
    );
    for phase in phases {
        let of_streams: u64 = numbers(&phase["streams"], "requests").iter().sum();
        assert_eq!(phase["requests"], of_streams);
    }
    assert_eq!(numbers(&figures["phases"], "requests").iter().sum::<u64>(), figures["requests"]);
    assert_eq!(phases[1]["requests"], 300);
    let steady = &phases[0]["steady"];
    assert_eq!((&steady["reached_round"], &steady["rounds"]), (&5.into(), &35.into()));
    let left = steady["left_round"].as_u64().unwrap();
    assert!((20..=22).contains(&left), "{steady}");
    let notes = figures["notes"].as_array().unwrap();
    assert!(
        notes.iter().any(|note| note.as_str().unwrap().contains("the steady state of interval 5 was left"))
    );
    // The second phase begins where the first ended, and so do its rows.
    let from = phases[1]["from_s"].as_f64().unwrap();
    assert!((35.0..35.2).contains(&from), "{from}");
    let info = bench.json(&["trace", "info", "t.csv"]);
    assert_eq!(info["traces"][0]["requests"], figures["requests"]);
    let rows = String::from_utf8(bench.read("t.csv")).unwrap();
    let header: Vec<&str> = rows.lines().find(|line| !line.starts_with('#')).unwrap().split(',').collect();
    let arrival = header.iter().position(|name| *name == "arrival_ns").unwrap();
    let last: f64 = rows.lines().last().unwrap().split(',').nth(arrival).unwrap().parse().unwrap();
    assert!(last / 1e9 > from + 1.0, "{last}");
    let page = String::from_utf8(bench.read("out.html")).unwrap();
    assert!(page.contains("Phase burst, stream log") && page.contains("Two phases"));
    // The same again, with the same draws.
    assert_eq!(bench.json(&arguments[..2])["phases"], figures["phases"]);
}

#[test]
fn plan_of_one_stream_has_the_figures_of_the_command() {
    let bench = Bench::new();
    let load = "oltp,poisson=40/s,requests=2000";
    bench.write(
        "plan.toml",
        format!("seed = 7\n[targets.d]\naddress = \"model:cheetah-36es\"\nset = {{ rpm = \"10000rpm\" }}\n[[streams]]\n\
                 target = \"d\"\nworkload = \"{load}\"\n[[phases]]\n"),
    );
    let mut of_plan = bench.json(&["bench", "plan.toml"]);
    let command = ["bench", "model:cheetah-36es", "-w", load, "--seed", "7", "--set", "rpm=10000rpm"];
    let mut of_command = bench.json(&command);
    for figures in [&mut of_plan, &mut of_command] {
        figures.as_object_mut().unwrap().remove("command");
    }
    assert_eq!(of_plan, of_command);
}

#[test]
fn repetitions_have_seeds_of_their_own_and_a_mean_with_its_confidence() {
    let bench = Bench::new();
    let load = "random,size=4KiB,read=100%,poisson=60/s,requests=500";
    let figures = bench.json(&["bench", "model:cheetah-36es", "-w", load, "--repeat", "4"]);
    assert_eq!(numbers(&figures["phases"], "repetition"), [1, 2, 3, 4]);
    let means: Vec<f64> =
        (0..4).map(|index| figures["phases"][index]["response_mean_ms"].as_f64().unwrap()).collect();
    assert!(means.windows(2).all(|pair| pair[0] != pair[1]), "{means:?}");
    let repeated = &figures["repeated"][0]["response_mean_ms"];
    let mean = means.iter().sum::<f64>() / 4.0;
    assert!((repeated["mean"].as_f64().unwrap() - mean).abs() < 1e-5 && repeated["n"] == 4);
    assert!(repeated["half_width_95"].as_f64() > Some(0.0));
    // The first is that of a single run, and each begins with a device at rest.
    let single = bench.json(&["bench", "model:cheetah-36es", "-w", load]);
    assert_eq!(single["phases"][0]["response_mean_ms"], means[0]);
}

#[test]
fn phase_without_a_steady_state_fails_the_check_with_its_figures() {
    let bench = Bench::new();
    bench.write(
        "plan.toml",
        "target = \"model:constant\"\n[[phases]]\nuntil = \"steady\"\nround = \"100ms\"\nrounds_max = 8\n\
         [[phases.streams]]\nworkload = \"random,size=4KiB,read=100%,arrivals.process=bursty,arrivals.burst=30,\
         arrivals.within=0s,arrivals.gap=700ms\"\n",
    );
    let run = bench.run(&["bench", "plan.toml", "--json"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("no steady state in 8 rounds"), "{}", run.stderr);
    let figures: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (&figures["trusted"], &figures["phases"][0]["steady"]["reached_round"]),
        (&false.into(), &Value::Null)
    );
}

#[test]
fn streams_of_a_plan_write_to_their_own_files() {
    let bench = Bench::new();
    bench.write(
        "plan.toml",
        r#"
[targets.one]
address = "psync:one.img"
buffered = true
create = "2MiB"
[targets.two]
address = "psync:two.img"
buffered = true
[[phases]]
requests = 200
[[phases.streams]]
target = "one"
workload = "random,size=4KiB,read=0%,closed=1"
[[phases.streams]]
target = "two"
workload = "random,size=8KiB,read=0%,closed=2"
threads = 2
[[phases]]
requests = 100
[[phases.streams]]
target = "one"
workload = "random,size=4KiB,read=100%,closed=1"
"#,
    );
    bench.write("two.img", vec![7; 1 << 20]);
    bench.run(&["bench", "plan.toml"]).fails(&["psync:two.img", "add --destroy psync:two.img"]);
    assert!(!bench.path("one.img").exists(), "what was made is removed");
    bench
        .run(&["bench", "plan.toml", "--destroy", "psync:two.img", "--destroy", "three.img"])
        .fails(&["--destroy three.img: no target of that name"]);
    assert_eq!(bench.read("two.img"), vec![7; 1 << 20], "nothing was written");
    let figures = bench.json(&["bench", "plan.toml", "--destroy", "psync:two.img"]);
    let streams = |phase: usize| numbers(&figures["phases"][phase]["streams"], "requests");
    assert_eq!((streams(0), streams(1)), (vec![200, 200], vec![100]));
    assert_eq!(figures["target"], Value::Null);
    assert!(!bench.path("one.img").exists());
    assert_ne!(bench.read("two.img"), vec![7; 1 << 20]);
}

#[test]
fn mistakes_in_plans_name_line_key_value_and_what_is_allowed() {
    let bench = Bench::new();
    let stream = "[[phases.streams]]\nworkload = \"random,closed=1\"\n";
    let plan = |text: &str| format!("target = \"null\"\n[[phases]]\n{text}\n{stream}");
    for (text, parts) in [
        (plan("duration = 5"), &["plan.toml, line 3: phases[0].duration: integer `5`", "8.5ms"][..]),
        (plan("durations = \"5s\""), &["line 3", "unknown key `durations`; did you mean `duration`?"]),
        (plan("until = \"stead\""), &["line 3", "unknown name `stead`", "allowed: steady"]),
        (
            plan("until = \"steady\"\nduration = \"5s\""),
            &["line 4: phases[0].duration: stands beside `until`"],
        ),
        (plan("hold = 3"), &["line 3: phases[0].hold: is for a phase that ends in its steady state"]),
        (
            plan("until = \"steady\"\nrounds_max = 4"),
            &["line 4", "rounds_max: 4", "allowed: 5 to 100000 rounds"],
        ),
        (
            format!("{}requests = 500\n", plan("until = \"steady\"")),
            &["line 6: phases[0].streams[0].requests: stands in a phase with `until`"],
        ),
        (plan("until = \"steady\"\nround = \"1ms\""), &["line 4", "1ms is out of range", "10ms"]),
        (
            format!(
                "target = \"null\"\n[[phases]]\nname = \"a\"\n{stream}[[phases]]\nname = \"a\"\n{stream}"
            ),
            &["line 7: phases[1].name: another phase has the name `a`"],
        ),
        (
            "target = \"null\"\n[[phases]]\n".to_owned(),
            &["line 2: phases[0]: has no streams", "[[phases.streams]]"],
        ),
        (format!("[[phases]]\n{stream}"), &["phases[0].streams[0].target: is missing"]),
        (
            format!("[targets.x]\naddress = \"null\"\n[[phases]]\n{stream}target = \"null\"\n"),
            &["no stream names it"],
        ),
        (
            format!("{}threads = 0\n", plan("")),
            &["phases[0].streams[0].threads: 0", "allowed: 1 to 256 threads"],
        ),
        (format!("{}threads = 2\n", plan("")), &["phase `1`, stream `1`"][..0]),
        (plan("").replace("closed=1", "closd=1"), &["line 5", "unknown key `closd`"]),
        (
            format!(
                "{}[[phases.streams]]\ntarget = \"model:constant\"\nworkload = \"random,closed=1\"\n",
                plan("")
            ),
            &["`null` and `model:constant`", "virtual time"],
        ),
        ("phases = []\n".to_owned(), &["phases", "1"]),
    ] {
        bench.write("plan.toml", &text);
        let run = bench.run(&["bench", "plan.toml"]);
        run.fails(&[]);
        for part in parts {
            assert!(unfolded(&run.stderr).contains(part), "{text}: no `{part}` in: {}", run.stderr);
        }
    }
    bench.write("plan.toml", plan("requests = 10"));
    bench.run(&["bench", "plan.toml", "--threads", "2"]).fails(&["--threads: `plan.toml` is a plan"]);
    bench.run(&["bench", "plan.toml", "--set", "a=b"]).fails(&["--set", "is a plan"]);
    bench.run(&["bench", "plan.txt"]).fails(&["has no workload", ".toml"]);
    bench.run(&["bench", "absent.toml"]).fails(&["absent.toml: cannot be read"]);
}

#[test]
fn plan_on_an_emulated_device_has_the_figures_of_its_model() {
    let bench = Bench::new();
    let served = Served::nbd(&bench.path("."), &["constant", "--uncalibrated"]);
    let plan = |target: &str| {
        format!(
            "target = '{target}'\n[[phases]]\nname = 'closed'\nrequests = 150\n[[phases.streams]]\n\
             workload = 'random,size=4KiB,read=100%,closed=2'\n[[phases]]\nname = 'open'\nrequests = 100\n\
             [[phases.streams]]\nworkload = 'random,size=4KiB,read=100%,constant=50/s'\n"
        )
    };
    bench.write("simulated.toml", plan("model:constant"));
    bench.write("emulated.toml", plan(&served.place));
    let [simulated, emulated] = ["simulated.toml", "emulated.toml"].map(|plan| bench.json(&["bench", plan]));
    let is_trusted = served.interrupt()["trust"] == "trusted";
    for phase in 0..2 {
        let of = |figures: &Value, key: &str| figures["phases"][phase][key].as_f64().unwrap();
        assert_eq!(of(&emulated, "requests"), of(&simulated, "requests"));
        // An emulator that is late makes the times longer.
        for key in ["response_p50_ms", "response_p99_ms"] {
            assert!(of(&emulated, key) > 0.98 * of(&simulated, key), "{phase}: {key}");
        }
        for key in ["requests_per_second", "response_p50_ms"] {
            let ratio = of(&emulated, key) / of(&simulated, key);
            assert!(!is_trusted || (0.8..1.25).contains(&ratio), "{phase}: {key}: {ratio}");
        }
    }
}
