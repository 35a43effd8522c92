//! `seeklab experiment` with targets and plans: measurements take turns, a journal keeps them, and nothing is overwritten unasked.

use std::fs;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::bench::{Bench, unfolded};
use super::schemas::conforms;

/// Two targets in virtual time and two workloads.
const MODELS: &str = r#"
title = "Two drives"
targets = ["model:hp-c2247a", { name = "fast", address = "model:hp-c2247a", set = { rpm = "10000rpm" } }]
workloads = ["random,read=60%,poisson=20/s", "random,read=100%,closed=2"]
requests = 200
repetitions = 3
"#;

/// A minute of measurements of this program itself.
const SLOW: &str = r#"
targets = ["null"]
workloads = ["random,size=4KiB,read=100%,closed=1", "random,size=4KiB,read=100%,closed=2"]
duration = "100ms"
repetitions = 300
"#;

const PLAN: &str = r#"
target = "model:hp-c2247a"
repetitions = 4
[[phases]]
name = "fill"
requests = 50
[[phases.streams]]
workload = "sequential,size=64KiB,read=0%,closed=2"
[[phases]]
name = "mix"
requests = 100
[[phases.streams]]
name = "readers"
workload = "random,size=4KiB,read=100%,closed=4"
[[phases.streams]]
name = "log"
workload = "sequential,size=4KiB,read=0%,poisson=20/s"
"#;

/// A folder with this experiment.
fn with(experiment: &str) -> Bench {
    let bench = Bench::new();
    bench.write("e.toml", experiment);
    bench
}

/// Lines of the journal: cell, repetition, and failure.
fn journal(bench: &Bench) -> Vec<(String, u64, Option<String>)> {
    let text = fs::read_to_string(bench.path("e.results.jsonl")).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let failed = line["result"]["failed"].as_str().map(str::to_owned);
        (line["cell"].as_str().unwrap().to_owned(), line["repetition"].as_u64().unwrap(), failed)
    };
    whole.map(line).collect()
}

/// Starts the experiment, and waits until so many measurements are in its journal.
fn start(bench: &Bench, measured: usize) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seeklab"));
    command.args(["experiment", "e.toml", "--json"]).current_dir(bench.path("."));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while journal(bench).len() < measured {
        assert!(child.try_wait().unwrap().is_none(), "it ended with {:?}", journal(bench));
        std::thread::yield_now();
    }
    child
}

fn mean(cell: &Value, figure: &str) -> f64 {
    cell[format!("{figure}_mean")].as_f64().unwrap_or_else(|| panic!("{figure}: {cell}"))
}

#[test]
fn model_targets_have_the_figures_of_their_simulation() {
    let rest = "workloads = ['random,read=60%,poisson=20/s', { preset = 'random', name = 'again', retries = 1 }]\n\
                schedulers = ['fcfs', 'sptf']\nbare = true\nrequests = 200\nrepetitions = 2\nseed = 7\n\
                figures = ['requests', 'response_mean_ms', 'response_p99_ms', 'requests_per_second']\n\
                [[parameters]]\nname = 'rpm'\nvalues = ['5400rpm', '7200rpm']\n\
                [[parameters]]\nname = 'workload.size'\nvalues = ['4KiB', '64KiB']\n";
    let bench = with(&format!("targets = ['model:hp-c2247a']\n{rest}"));
    bench.write("s.toml", format!("devices = ['hp-c2247a']\n{rest}"));
    let (measured, simulated) =
        (bench.json(&["experiment", "e.toml"]), bench.json(&["experiment", "s.toml"]));
    let cells = |document: &Value| document["cells"].as_array().unwrap().clone();
    assert_eq!(cells(&measured).len(), 16);
    for (measured, simulated) in cells(&measured).iter().zip(&cells(&simulated)) {
        assert_eq!(
            (&measured["target"], &simulated["device"]),
            (&"model:hp-c2247a".into(), &"hp-c2247a (bare)".into())
        );
        let of = |cell: &Value| {
            let mut cell = cell.as_object().unwrap().clone();
            for key in ["target", "device", "failed", "saturated"] {
                cell.remove(key);
            }
            cell
        };
        assert_eq!(of(measured), of(simulated));
        assert_eq!((&measured["n"], &measured["failed"]), (&2.into(), &0.into()));
    }
}

#[test]
fn keys_of_a_target_set_its_model_up_unless_the_experiment_has_them() {
    let rest = "workloads = ['random,size=4KiB,read=100%,poisson=90/s']\nrequests = 200\nfigures = ['response_mean_ms']\n";
    let means = |head: &str| -> Vec<f64> {
        let bench = with(&format!("{head}\n{rest}"));
        bench.write("f.toml", "[[fault]]\nkind = \"delay\"\nadd = \"20ms\"\n");
        let document = bench.json(&["experiment", "e.toml"]);
        let cells = document["cells"].as_array().unwrap().iter();
        cells.map(|cell| cell["response_mean_ms_mean"].as_f64().unwrap()).collect()
    };
    let target =
        |name: &str, keys: &str| format!("{{ name = '{name}', address = 'model:cheetah-36es', {keys} }}");
    let keys =
        ["scheduler = 'sptf'", "bare = true, faults = 'f.toml'", "fault = ['delay,add=20ms']", "set = {}"];
    let [queued, bare, delayed, plain] =
        keys.map(|keys| target("x", keys)).map(|one| means(&format!("targets = [{one}]"))[0]);
    assert!(queued < plain && plain < delayed, "{queued} < {plain} < {delayed}");
    assert!(bare > plain, "{bare} > {plain}: the file of faults is found beside the experiment");
    let both = [target("queued", keys[0]), target("plain", keys[3])].join(", ");
    assert_eq!(means(&format!("targets = [{both}]\nschedulers = ['sptf']")), [queued, queued]);
    assert_eq!(means(&format!("targets = [{both}]\nschedulers = ['fcfs']")), [plain, plain]);
}

#[test]
fn figures_are_those_of_bench_and_of_each_operation() {
    let names =
        ["mib_per_second", "service_p50_ms", "read.response_p99_ms", "write.requests", "statuses.timeout"];
    let bench = with(&format!("figures = {names:?}\n{MODELS}"));
    let document = bench.json(&["experiment", "e.toml"]);
    conforms(&bench, "experiment", &document);
    let line = "random,read=60%,poisson=20/s";
    let arguments = ["bench", "model:hp-c2247a", "-w", line, "--requests", "200", "--repeat", "3"];
    let phases = bench.json(&arguments)["phases"].as_array().unwrap().clone();
    let mean_of = |figure: &dyn Fn(&Value) -> &Value| {
        phases.iter().map(|phase| figure(phase).as_f64().unwrap()).sum::<f64>() / 3.0
    };
    let operation = |phase: &Value, op: &str, key: &str| {
        let operations = phase["streams"][0]["operations"].as_array().unwrap();
        operations.iter().find(|operation| operation["op"] == op).unwrap()[key].as_f64().unwrap()
    };
    let of_operation =
        |op: &str, key: &str| phases.iter().map(|phase| operation(phase, op, key)).sum::<f64>() / 3.0;
    let cell = &document["cells"][0];
    for (name, expected) in [
        (names[0], mean_of(&|phase| &phase["mib_per_second"])),
        (names[1], mean_of(&|phase| &phase["service_p50_ms"])),
        (names[2], of_operation("read", "response_p99_ms")),
        (names[3], of_operation("write", "requests")),
        (names[4], 0.0),
    ] {
        assert!((mean(cell, name) - expected).abs() < 1e-6, "{name}: {expected}: {cell}");
    }
    // A workload that only reads has no writes.
    assert_eq!(document["cells"][1]["write.requests_mean"], Value::Null);
    let csv = String::from_utf8(bench.read("e.csv")).unwrap();
    assert!(csv.starts_with("target,workload,scheduler,arrivals,n,failed,mib_per_second_mean,"), "{csv}");
    assert!(csv.contains("\nfast,\"random,read=100%,closed=2\",none,workload,3,0,"), "{csv}");
    assert!(bench.path("e.parquet").exists());
}

#[test]
fn measurements_take_turns_and_a_second_run_repeats_none() {
    let bench = with(MODELS);
    bench.run(&["experiment", "e.toml"]).done();
    let (lines, table) = (journal(&bench), bench.read("e.csv"));
    let repetitions: Vec<u64> = lines.iter().map(|(_, repetition, _)| *repetition).collect();
    assert_eq!(repetitions, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    let cells: Vec<&str> = lines.iter().map(|(cell, ..)| cell.as_str()).collect();
    assert_eq!(cells[..4], cells[4..8]);
    // As a run leaves it that is killed while it writes its sixth line.
    let text = String::from_utf8(bench.read("e.results.jsonl")).unwrap();
    let whole: usize = text.split_inclusive('\n').take(5).map(str::len).sum();
    bench.write("e.results.jsonl", &text[..whole + 40]);
    let run = bench.run(&["experiment", "e.toml"]);
    assert!(run.stderr.contains("5 of 12 runs were taken from e.results.jsonl"), "{}", run.stderr);
    assert_eq!((journal(&bench), bench.read("e.csv")), (lines, table));
    let run = bench.run(&["experiment", "e.toml"]);
    assert!(run.stderr.contains("12 of 12 runs were taken"), "{}", run.stderr);
    // Each of these makes other measurements.
    for (key, other) in
        [("requests = 200", "requests = 201"), ("10000rpm", "9000rpm"), ("read=60%", "read=61%")]
    {
        bench.write("e.toml", MODELS.replace(key, other));
        let run = bench.run(&["experiment", "e.toml"]);
        assert!(!run.stderr.contains("12 of 12 runs were taken"), "{other}: {}", run.stderr);
    }
}

#[test]
fn killed_experiment_goes_on_where_it_was() {
    let bench = with(SLOW);
    let mut child = start(&bench, 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = journal(&bench);
    assert!(kept.len() < 600, "{}", kept.len());
    bench.write("e.toml", SLOW.replace("repetitions = 300", "repetitions = 3"));
    let made = kept.iter().filter(|(_, repetition, _)| *repetition < 3).count();
    let run = bench.run(&["experiment", "e.toml"]);
    let taken = format!("{made} of 6 runs were taken");
    assert!(run.code == 0 && run.stderr.contains(&taken), "{taken}: {}", run.stderr);
    assert_eq!(journal(&bench).len(), kept.len() + 6 - made);
}

#[test]
fn stopped_experiment_keeps_and_prints_the_measurements_before() {
    let bench = with(SLOW);
    let child = start(&bench, 3);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("error: interrupted") && errors.contains("the same command measures"),
        "{errors}"
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = document["cells"].as_array().unwrap();
    let made: u64 = cells.iter().map(|cell| cell["n"].as_u64().unwrap()).sum();
    assert_eq!(made, journal(&bench).len() as u64);
    assert!((3..600).contains(&made), "{document}");
    assert!(mean(&cells[0], "requests_per_second") > 0.0, "{document}");
    let note = format!("interrupted: {made} of 600 measurements were made");
    assert!(document["notes"].as_array().unwrap().contains(&note.into()), "{document}");
    assert!(bench.path("e.csv").exists() && bench.path("e.parquet").exists());
}

#[test]
fn plan_runs_on_each_target_and_its_phases_have_figures() {
    let names = [
        "requests",
        "phases.fill.mib_per_second",
        "phases.mix.streams.readers.read.response_p99_ms",
        "phases.mix.streams.log.response_mean_ms",
    ];
    let experiment =
        |places: &str| format!("{places}\nplans = ['plan.toml']\nseed = 3\nfigures = {names:?}\n");
    let bench = with(&experiment("targets = ['model:hp-c2247a', 'model:atlas10k']"));
    bench.write("plan.toml", PLAN);
    let cells = bench.json(&["experiment", "e.toml"])["cells"].clone();
    assert_eq!((&cells[0]["workload"], &cells[1]["target"]), (&"plan.toml".into(), &"model:atlas10k".into()));
    for (cell, target) in [(0, "model:hp-c2247a"), (1, "model:atlas10k")] {
        bench.write("one.toml", PLAN.replace("model:hp-c2247a", target));
        let figures = bench.json(&["bench", "one.toml", "--seed", "3", "--repeat", "1"]);
        let phases = &figures["phases"];
        let streams = &phases[1]["streams"];
        for (name, expected) in [
            (names[0], &figures["requests"]),
            (names[1], &phases[0]["mib_per_second"]),
            (names[2], &streams[0]["operations"][0]["response_p99_ms"]),
            (names[3], &streams[1]["response_mean_ms"]),
        ] {
            assert!((mean(&cells[cell], name) - expected.as_f64().unwrap()).abs() < 1e-6, "{target}: {name}");
        }
    }
    // Alone, it runs on its own target, and beside workloads on theirs.
    bench.write("own.toml", experiment(""));
    let own = bench.json(&["experiment", "own.toml"])["cells"].clone();
    assert_eq!(
        (&own[0]["target"], mean(&own[0], names[0])),
        (&"model:hp-c2247a".into(), mean(&cells[0], names[0]))
    );
    let beside = "targets = ['model:constant']\nworkloads = ['random,read=100%,closed=1,requests=30']";
    bench.write("beside.toml", experiment(beside));
    let beside = bench.json(&["experiment", "beside.toml"])["cells"].clone();
    assert_eq!([0, 1].map(|cell| mean(&beside[cell], names[0])), [30.0, 250.0]);
    assert_eq!(beside[0][format!("{}_mean", names[1])], Value::Null);
}

#[test]
fn failed_measurement_is_recorded_and_made_again() {
    let bench = with(
        "targets = ['null', { name = 'file', address = 'psync:disk.img', buffered = true }]\n\
         workloads = ['random,size=4KiB,read=100%,closed=1']\nrequests = 100\nrepetitions = 2\nfigures = ['requests']\n",
    );
    let run = bench.run(&["experiment", "e.toml", "--json"]);
    run.misses(&[
        "e.toml: 2 of 4 runs failed, the first: file: ",
        "disk.img",
        "measures those that failed again",
    ]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    let cells = &document["cells"];
    assert_eq!((mean(&cells[0], "requests"), &cells[0]["failed"]), (100.0, &0.into()));
    assert_eq!((&cells[1]["requests_mean"], &cells[1]["failed"]), (&Value::Null, &2.into()));
    let note = document["notes"][0].as_str().unwrap();
    assert!(note.starts_with("2 measurements failed, so their cells have no figures: file: "), "{note}");
    let failed = |bench: &Bench| journal(bench).iter().filter(|(_, _, failed)| failed.is_some()).count();
    assert_eq!((journal(&bench).len(), failed(&bench)), (4, 2));
    bench.write("disk.img", vec![7_u8; 1 << 20]);
    let run = bench.run(&["experiment", "e.toml", "--json"]);
    assert!(run.stderr.contains("2 of 4 runs were taken"), "{}", run.stderr);
    let document: Value = serde_json::from_str(&run.done()).unwrap();
    assert_eq!((mean(&document["cells"][1], "requests"), failed(&bench)), (100.0, 2));
    assert!(bench.run(&["experiment", "e.toml"]).stderr.contains("4 of 4 runs were taken"));
}

#[test]
fn nothing_is_overwritten_without_its_name() {
    let bench = with(
        "targets = ['null', { name = 'file', address = 'psync:disk.img', buffered = true }]\n\
         workloads = ['random,size=4KiB,read=0%,closed=1']\nrequests = 20\nfigures = ['requests']\n",
    );
    let content = vec![7_u8; 1 << 20];
    bench.write("disk.img", &content);
    let refused = |arguments: &[&str], parts: &[&str]| {
        bench.run(&[&["experiment", "e.toml"], arguments].concat()).fails(parts);
        assert!(bench.read("disk.img") == content && journal(&bench).is_empty(), "{arguments:?}");
    };
    refused(&[], &["psync:disk.img", "the workload writes", "--destroy psync:disk.img"]);
    refused(&["--destroy", "other.img"], &["psync:disk.img", "the workload writes"]);
    refused(
        &["--destroy", "disk.img", "--destroy", "other.img"],
        &["--destroy other.img: no target of that name is overwritten"],
    );
    bench.run(&["experiment", "e.toml", "--destroy", "disk.img"]).done();
    assert!(bench.read("disk.img") != content);
    // All results are there: nothing is written any more.
    let written = bench.read("disk.img");
    bench.run(&["experiment", "e.toml"]).done();
    assert!(bench.read("disk.img") == written);
    bench.write("reads.toml", "targets = ['null']\nworkloads = ['random,read=100%,requests=5,closed=1']\n");
    bench
        .run(&["experiment", "reads.toml", "--destroy", "null"])
        .fails(&["--destroy null: no target of that name is overwritten"]);
    bench.write("simulated.toml", "devices = ['constant']\nworkloads = ['random,poisson=20/s,requests=5']\n");
    bench
        .run(&["experiment", "simulated.toml", "--destroy", "constant"])
        .fails(&["--destroy constant: devices are simulated", "targets"]);
}

#[test]
fn table_never_overwrites_a_target() {
    let bench = with("targets = ['psync:e.csv']\nworkloads = ['random,size=4KiB,read=100%,closed=1']\n");
    bench.write("e.csv", vec![7_u8; 1 << 20]);
    bench.run(&["experiment", "e.toml"]).fails(&["e.csv: cannot be written, it is an input"]);
    assert_eq!(bench.read("e.csv").len(), 1 << 20);
}

#[test]
fn mistakes_of_measurements_name_key_value_and_remedy() {
    let load = "workloads = ['random,read=100%,closed=2']\n";
    let null = format!("targets = ['null']\n{load}");
    let planned = "targets = ['model:constant']\nplans = ['plan.toml']\n".to_owned();
    let rpm = "[[parameters]]\nname = 'rpm'\nvalues = ['7200rpm']\n";
    let rate = "[[parameters]]\nname = 'workload.arrivals.rate'\nvalues = ['20/s']\n";
    let cases: Vec<(String, &str, &str)> = vec![
        (
            format!("devices = ['constant']\n{null}"),
            "e.toml, line 2: targets: stands beside `devices`",
            "a target may be model:DEVICE",
        ),
        (
            format!("devices = ['constant']\n{load}plans = ['plan.toml']"),
            "e.toml, line 3: plans: stands beside",
            "",
        ),
        (
            "plans = ['plan.toml']\n".to_owned() + load,
            "e.toml: targets: is missing",
            "only a plan may have its own",
        ),
        ("targets = ['null']".to_owned(), "e.toml: workloads: is missing", "plans = [\"plan.toml\"]"),
        ("devices = ['constant']".to_owned(), "e.toml: workloads: is missing", "poisson=60/s"),
        (
            format!("devices = ['constant']\n{load}duration = '1s'"),
            "e.toml, line 3: duration: is for measurements, and `devices` are simulated",
            "name `targets`",
        ),
        (format!("{null}duration = '1us'"), "e.toml, line 3: duration: 1us", "at least 1ms"),
        (
            format!("{null}schedulers = ['sptf']"),
            "e.toml, line 3: schedulers: sets up a model, and `null` is none",
            "model:DEVICE",
        ),
        (
            format!("{null}bare = true"),
            "e.toml, line 3: bare: sets up a model, and `null` is none",
            "emulate:DEVICE",
        ),
        (format!("{null}{rpm}"), "parameters[0].name: sets up a model, and `null` is none", "model:DEVICE"),
        (
            format!("{null}max_outstanding = 5"),
            "e.toml, line 3: max_outstanding: is for simulations",
            "outstanding_max",
        ),
        (
            format!("{planned}requests = 5"),
            "e.toml, line 3: requests: stands beside `plans`",
            "write it in the plans",
        ),
        (
            format!("{planned}arrivals = ['open']"),
            "e.toml, line 3: arrivals: stands beside `plans`",
            "in the plans",
        ),
        (format!("{planned}{rate}"), "parameters[0].name: stands beside `plans`", "in the plans"),
        (
            format!("plans = ['plan.toml']\n{rpm}"),
            "parameters[0].name: sets up a model, and the plans have targets of their own",
            "",
        ),
        (
            "targets = ['null', 'null']\n".to_owned() + load,
            "e.toml, line 1: targets[1]: `null` is there twice",
            "remove one",
        ),
        ("targets = [{ name = 'a' }]\n".to_owned() + load, "targets[0].address: is missing", "/dev/nvme0n1"),
        (
            "targets = [{ adress = 'null' }]\n".to_owned() + load,
            "targets[0].adress: unknown key `adress`; did you mean `address`?",
            "name",
        ),
        (
            "targets = ['model:atlas10']\n".to_owned() + load,
            "there is no device `atlas10`",
            "seeklab devices",
        ),
        ("plans = ['job.fio']".to_owned(), "e.toml, line 1: plans[0]: `job.fio` is no plan", "end in .toml"),
        ("plans = ['no.toml']".to_owned(), "e.toml, line 1: plans[0]: no.toml: cannot be read", ""),
        (
            planned.replace("plan.toml", "own.toml"),
            "e.toml, line 2: plans[0]: own.toml, line 4: phases[0].streams[0].target: names `null`",
            "leave it out",
        ),
        (
            planned.replace("plan.toml", "wrong.toml"),
            "e.toml, line 2: plans[0]: wrong.toml, line 1: phases: is empty",
            "at least 1 phase",
        ),
        (
            format!("{null}figures = ['utilisation_pct']"),
            "e.toml, line 3: figures[0]: there is no figure `utilisation_pct`",
            "read.KEY",
        ),
        (
            format!("{planned}figures = ['phases.fil.requests']"),
            "there is no figure `phases.fil.requests`; did you mean `phases.fill.requests`",
            "phases.PHASE.KEY",
        ),
        (
            "targets = ['null']\nworkloads = [{ preset = 'random', recorded_on = { device = 'atlas10k' } }]"
                .to_owned(),
            "e.toml, line 2: workloads[0].recorded_on: is for experiments with `devices`",
            "simulate --out",
        ),
    ];
    for (text, problem, hint) in cases {
        let bench = with(&text);
        bench.write("plan.toml", PLAN);
        bench.write(
            "own.toml",
            "[[phases]]\n[[phases.streams]]\nworkload = 'random,closed=1'\ntarget = 'null'\n",
        );
        bench.write("wrong.toml", "phases = []\n");
        let run = bench.run(&["experiment", "e.toml"]);
        assert!(
            run.stderr.contains(problem) && run.stderr.contains(hint),
            "{text}\n{problem}\n{}",
            run.stderr
        );
        run.fails(&[]);
    }
    let bench = with(&null);
    bench
        .run(&["experiment", "e.toml", "--jobs", "2"])
        .fails(&["--jobs 2: measurements are made one after another"]);
    bench
        .run(&["experiment", "e.toml", "--fault", "aborted,probability=1%"])
        .fails(&["--fault and --faults: are those of models, and `null` is none"]);
}

#[test]
fn table_for_people_has_targets_and_notes() {
    let bench = with(
        "targets = ['null', 'model:constant']\nworkloads = ['random,read=100%,closed=2,requests=500']\n",
    );
    let text = unfolded(&bench.run(&["experiment", "e.toml", "--report", "e.html"]).done());
    for part in ["null", "model:constant", "requests_per_second", "mib_per_second"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = String::from_utf8(bench.read("e.html")).unwrap();
    assert!(page.contains("model:constant"), "{page}");
}
