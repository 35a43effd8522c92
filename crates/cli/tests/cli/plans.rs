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

/// A plan of one stream with keys of the target, of the phase and of the stream.
fn plan_with(target: &str, of_target: &str, of_phase: &str, of_stream: &str) -> String {
    format!(
        "[targets.disk]\naddress = \"{target}\"\n{of_target}\n[[phases]]\nrequests = 10\n{of_phase}\n[[phases.streams]]\ntarget = \"disk\"\n{of_stream}\n"
    )
}

#[test]
fn messages_about_a_plan_name_its_keys_and_no_options() {
    let bench = Bench::new();
    bench.write("there.img", vec![7; 1 << 16]);
    let random = "workload = \"random,read=100%,size=4KiB,closed=2\"";
    let poisson = "workload = \"random,read=50%,size=4KiB,poisson=50/s\"";
    for (target, of_target, of_phase, of_stream, expected) in [
        ("null", "", "", format!("{random}\nthreads = 3"), "`threads` 3: a closed load of 2"),
        ("null", "", "", format!("{random}\nlate = \"drop\""), "`late` drop: "),
        ("null", "", "", format!("{random}\noutstanding_max = 4"), "`outstanding_max`: "),
        ("null", "", "", format!("{random}\nbatch = 4"), "`batch` 4: "),
        (
            "null",
            "",
            "",
            format!("{random}\nformat = \"csv\""),
            "`format`: a synthetic workload reads no trace",
        ),
        ("null", "", "", format!("{random}\nshape = \"t.csv\""), "`shape` t.csv: "),
        (
            "null",
            "",
            "",
            "workload = \"jobs,jobs=2,buffer=4,input=200/s,output=200/s\"".to_owned(),
            "`requests`: `jobs,jobs=2",
        ),
        ("null", "buffered = true", "", random.to_owned(), "`buffered`: `null` is no file"),
        ("null", "poll = [\"submission\"]", "", random.to_owned(), "`poll`: `null` is no target of io_uring"),
        ("null", "create = \"1MiB\"", "", random.to_owned(), "`create`: `null` is no file"),
        ("there.img", "create = \"1MiB\"", "", random.to_owned(), "leave out `create`"),
        ("absent.img", "", "", random.to_owned(), "with `create` SIZE"),
        (
            "null",
            "set = { rpm = \"5rpm\" }",
            "",
            random.to_owned(),
            "`bare`, `set`, `fault`, `faults` and `scheduler` set up",
        ),
        ("null", "", "rates = [\"50%\"]", random.to_owned(), "rates"),
        (
            "null",
            "",
            "find_rate = \"utilisation_pct<=5\"",
            poisson.to_owned(),
            "`find_rate` utilisation_pct<=5: ",
        ),
    ] {
        bench.write("plan.toml", plan_with(target, of_target, of_phase, &of_stream));
        let run = bench.run(&["bench", "plan.toml"]);
        run.fails(&[]);
        let message = unfolded(&run.stderr);
        assert!(message.contains(expected), "no `{expected}` in: {message}");
        assert!(!message.contains(" --") || message.contains("--destroy"), "an option in: {message}");
    }
}

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
    let open = |text: &str| plan(text).replace("closed=1", "poisson=50/s");
    let disk = |address: &str, text: &str| {
        format!("[targets.x]\naddress = \"{address}\"\n{text}\n[[phases]]\n{stream}target = \"x\"\n")
    };
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
        (
            plan("rates = [\"50%\"]"),
            &["line 3: phases[0].rates: `random,closed=1` has no rate", "poisson=100/s"],
        ),
        (open("rates = [\"50%\", \"50%\"]"), &["line 3: phases[0].rates: 50% is there twice"]),
        (open("rates = [\"fast\"]"), &["line 3: phases[0].rates[0]: `fast` is no rate", "such as 50%"]),
        (
            open("rates = [\"50%\"]") + stream,
            &["line 3: phases[0].rates: the phase has 2 streams", "a phase of their own"],
        ),
        (open("find_rate = \"response_p98_ms<=5\""), &["line 3: phases[0].find_rate", "did you mean"]),
        (
            open("find_rate = \"response_p99_ms<=5\"\nrates = [\"50%\"]"),
            &["phases[0].find_rate: stands beside `rates`"],
        ),
        (
            format!("repetitions = 2\n{}", open("find_rate = \"response_p99_ms<=5\"")),
            &["phases[0].find_rate: a search is not repeated", "remove `repetitions`"],
        ),
        (
            format!("{}[[phases]]\n{stream}", open("find_rate = \"response_p99_ms<=5\"")),
            &[
                "phases[0].find_rate: is for a plan of one phase, and this one has 2",
                "a plan of this phase alone",
            ],
        ),
        (
            format!("ram = \"1MiB\"\n{}", plan("")),
            &["line 1: ram: is the memory for `verify`", "verify = true"],
        ),
        (format!("verify = true\n{}", plan("")), &["`null` carries no data", "leave out `verify`"]),
        (disk("model:constant", "depth = 4"), &["line 3: targets.x.depth", "scheduler = \"fcfs\""]),
        (
            disk("model:constant", "fault = [\"dely,add=20ms\"]"),
            &["line 3: targets.x.fault[0]: unknown kind or preset `dely`; did you mean `delay`?"],
        ),
        (disk("null", "bare = true"), &["set up a model, and `null` is none", "model:DEVICE"]),
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
    bench.run(&["bench", "plan.toml", "--set", "a=b"]).fails(&["--set", "is a plan", "as a key of the plan"]);
    bench
        .run(&["bench", "plan.toml", "-w", "random,read=100%,size=512B,closed=1"])
        .fails(&["--workload: `plan.toml` is a plan", "model:FILE"]);
    // A file that is named as a target or a model is one.
    bench.write("disk.toml", "base = 'constant'\n");
    for target in ["psync:plan.toml", "model:disk.toml"] {
        let line = "random,read=100%,size=512B,closed=1";
        let run = bench.run(&["bench", target, "-w", line, "--requests", "9", "--interval", "0s"]);
        assert!(!unfolded(&run.stderr).contains("is a plan"), "{target}: {}", run.stderr);
    }
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

#[test]
fn plan_sets_a_model_up_and_changes_its_rate_as_the_command_does() {
    let bench = Bench::new();
    bench.write("faults.toml", "[[fault]]\nkind = \"delay\"\nadd = \"4ms\"\nprobability = \"30%\"\n");
    let load = "random,size=4KiB,read=60%,poisson=80/s";
    let keys = [
        "bare = true\nscheduler = \"sptf\"\nfault = [\"delay,add=20ms,probability=10%\"]",
        "set = { \"queue.depth\" = \"4\" }\nscheduler = \"look\"\ndepth = 3\nfaults = \"faults.toml\"",
    ];
    let options: [&[&str]; 2] = [
        &["--bare", "--scheduler", "sptf", "--fault", "delay,add=20ms,probability=10%"],
        &["--set", "queue.depth=4", "--scheduler", "look", "--depth", "3", "--faults", "faults.toml"],
    ];
    for (keys, options) in keys.into_iter().zip(options) {
        let line = ["bench", "model:cheetah-36es", "-w", load, "--requests", "300", "--rates", "50%,110/s"];
        let of_command = bench.json(&[&line, options].concat());
        bench.write(
            "plan.toml",
            format!(
                "[targets.disk]\naddress = \"model:cheetah-36es\"\n{keys}\n[[phases]]\nrequests = 300\n\
                 rates = [\"50%\", \"110/s\"]\n[[phases.streams]]\ntarget = \"disk\"\nworkload = \"{load}\"\n"
            ),
        );
        let of_plan = bench.json(&["bench", "plan.toml"]);
        let figures = |of: &Value| {
            let phases = of["phases"].as_array().unwrap().iter();
            phases
                .map(|phase| {
                    ["phase", "offered_per_second", "response_mean_ms"].map(|key| phase[key].clone())
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(figures(&of_plan), figures(&of_command), "{keys}");
        assert_eq!(figures(&of_plan)[1][1], 110.0);
        let plain = bench.json(&line);
        assert_ne!(figures(&of_plan), figures(&plain), "{keys}: the setup changes the model");
    }
}

#[test]
fn rates_of_a_named_phase_stand_between_the_other_phases() {
    let bench = Bench::new();
    let stream = "[[phases.streams]]\nworkload = \"random,size=4KiB,read=100%,poisson=40/s\"\n";
    let phase = |keys: &str| format!("[[phases]]\nrequests = 50\n{keys}\n{stream}");
    let plan =
        ["name = \"fill\"", "name = \"curve\"\nrates = [\"25%\", \"2000/min\"]", ""].map(phase).concat();
    bench.write("plan.toml", format!("target = \"model:exponential\"\n{plan}"));
    let figures = bench.json(&["bench", "plan.toml"]);
    let phases = figures["phases"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    assert_eq!(names, ["fill", "curve 25%", "curve 33.333333/s", "3"]);
}

#[test]
fn plan_finds_the_rate_that_the_command_finds() {
    let bench = Bench::new();
    let load = "random,read=100%,size=4KiB,poisson=50/s";
    bench.write(
        "plan.toml",
        format!(
            "target = \"model:exponential\"\n[[phases]]\nrequests = 2000\nfind_rate = \"response_mean_ms<=20\"\n\
             [[phases.streams]]\nworkload = \"{load}\"\n"
        ),
    );
    let line = ["model:exponential", "-w", load, "--requests", "2000", "--find-rate", "response_mean_ms<=20"];
    let (plan, command) =
        (bench.json(&["bench", "plan.toml"]), bench.json(&[&["bench"], &line[..]].concat()));
    assert!(command["found_rate"]["arrivals_per_s"].as_f64() > Some(0.0), "{command:#}");
    assert_eq!(plan["found_rate"], command["found_rate"]);
    bench.run(&["bench", "plan.toml", "--repeat", "2"]).fails(&["a search is not repeated"]);
}

#[test]
fn plan_is_verified_and_so_is_its_rerun() {
    let bench = Bench::new();
    bench.write(
        "plan.toml",
        "verify = true\nram = \"1MiB\"\n[targets.w]\naddress = \"psync:w.img\"\ncreate = \"1MiB\"\nbuffered = true\n\
         [[phases]]\nrequests = 300\n[[phases.streams]]\ntarget = \"w\"\nworkload = \"random,size=4KiB,read=50%,closed=1\"\n",
    );
    bench.run(&["bench", "plan.toml", "-o", "run"]).done();
    bench.run(&["bench", "rerun", "run"]).done();
    for folder in ["run", "run-rerun-1"] {
        let document: Value = serde_json::from_slice(&bench.read(&format!("{folder}/run.json"))).unwrap();
        let verification = &document["verification"];
        assert!(verification["checked_blocks"].as_u64() > Some(0), "{folder}: {verification:#}");
        assert_eq!(document["run"]["plan"]["verification"]["ram"], "1MiB", "{folder}");
    }
    // A state is of one run, so it is an option.
    bench.run(&["bench", "plan.toml", "--verify", "--state", "state"]).done();
    assert!(bench.path("state").exists());
}
