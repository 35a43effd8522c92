//! `seeklab bench --folder` and `bench rerun`: what a run leaves, however it ends, and the same run once more.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use seeklab_columnar::{ColumnValues, Table, read_table};
use serde_json::Value;

use super::bench::{Bench, unfolded};
use super::survive::harness::until;

const PLAN: &str = r#"
title = "Two phases"
targets.disk = { address = "model:cheetah-36es", set = { rpm = "15000rpm" }, capacity = "36419441152B" }
[[phases]]
name = "fill, first"
until = "steady"
round = "2s"
[[phases.streams]]
name = "readers"
target = "disk"
workload = "random,size=4KiB,read=70%,closed=4"
[[phases.streams]]
name = "log"
target = "disk"
workload = "sequential,size=4KiB,read=0%,poisson=20/s"
retries = 2
retry_after = "3ms"
[[phases]]
name = "after"
requests = 300
ramp = "500ms"
[[phases.streams]]
target = "disk"
workload = { preset = "oltp", arrivals = { process = "poisson", rate = "33.333333/s" } }
"#;

fn run_file(bench: &Bench, folder: &str) -> Value {
    serde_json::from_slice(&bench.read(&format!("{folder}/run.json"))).unwrap()
}

/// The figures of a run alone.
fn figures(bench: &Bench, folder: &str) -> Value {
    let mut document = run_file(bench, folder);
    let keys = document.as_object_mut().unwrap();
    keys.remove("run").unwrap();
    keys.remove("command").unwrap();
    document
}

fn texts<'a>(table: &'a Table, name: &str) -> &'a [String] {
    match &table.columns.iter().find(|column| column.name == name).unwrap().values {
        ColumnValues::Text(values) => values,
        other => panic!("{name}: {other:?}"),
    }
}

fn counts<'a>(table: &'a Table, name: &str) -> &'a [u64] {
    match &table.columns.iter().find(|column| column.name == name).unwrap().values {
        ColumnValues::Counts(values) => values,
        other => panic!("{name}: {other:?}"),
    }
}

fn lines(bench: &Bench, name: &str) -> Vec<String> {
    let text = String::from_utf8(bench.read(name)).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn folder_has_plan_figures_intervals_histograms_and_events() {
    let bench = Bench::new();
    bench.write("plan.toml", PLAN);
    let printed = bench.json(&["bench", "plan.toml", "--folder", "run", "--record", "--seed", "7"]);
    let document = run_file(&bench, "run");
    let run = &document["run"];
    assert_eq!((&run["state"], &run["seed"], &run["failure"]), (&"complete".into(), &7.into(), &Value::Null));
    assert_eq!(run["source"]["text"], PLAN);
    assert_eq!(run["targets"][0]["capacity_bytes"], 36_419_441_152_u64);
    assert!(run["targets"][0]["description"].as_str().unwrap().contains("15000rpm"));
    assert!(run["host"]["kernel"].as_str().is_some_and(|kernel| kernel.contains('.')));
    let mut of_json = document.as_object().unwrap().clone();
    of_json.remove("run");
    assert_eq!(Value::Object(of_json), printed, "the document of --json stands beside `run`");
    let table = read_table(&bench.path("run/intervals.parquet")).unwrap();
    let (phases, streams) = (texts(&table, "phase"), texts(&table, "stream"));
    let (operations, requests) = (texts(&table, "operation"), counts(&table, "requests"));
    let sum = |phase: &str, stream: &str, op: &dyn Fn(&str) -> bool| -> u64 {
        (0..requests.len())
            .filter(|row| phases[*row] == phase && streams[*row] == stream && op(&operations[*row]))
            .map(|row| requests[row])
            .sum()
    };
    for phase in printed["phases"].as_array().unwrap() {
        let name = phase["phase"].as_str().unwrap();
        for stream in phase["streams"].as_array().unwrap() {
            let of = |op: &dyn Fn(&str) -> bool| sum(name, stream["stream"].as_str().unwrap(), op);
            assert_eq!(of(&|op| op == "all"), stream["requests"].as_u64().unwrap(), "{name}");
            assert_eq!(of(&|op| op != "all"), stream["requests"].as_u64().unwrap(), "{name}");
            assert_eq!(of(&|op| op == "read"), stream["reads"].as_u64().unwrap(), "{name}");
        }
    }
    assert!(table.metadata.contains(&("table".to_owned(), "intervals".to_owned())));
    let single = operations.iter().filter(|op| *op != "all").count();
    for log in ["run/response.hlog", "run/service.hlog"] {
        let lines = lines(&bench, log);
        assert_eq!(lines.len(), single, "{log}: a histogram for each interval, stream and operation");
        assert!(lines[0].starts_with("Tag=fill__first/readers/read,0.000,2.000,"), "{}", lines[0]);
    }
    let events: Vec<Value> =
        lines(&bench, "run/events.jsonl").iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["phase_begin", "steady_state_reached", "phase_end", "phase_begin", "phase_end"]);
    let info = bench.json(&["trace", "info", "run/trace.parquet"]);
    assert!(info["traces"][0]["requests"].as_u64() >= printed["requests"].as_u64());
    let mut left: Vec<String> = fs::read_dir(bench.path("run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let files = [
        "events.jsonl",
        "intervals.parquet",
        "report.html",
        "response.hlog",
        "run.json",
        "service.hlog",
        "trace.parquet",
    ];
    assert_eq!(left, files);
}

#[test]
fn file_in_place_of_a_folder_is_refused_before_the_run() {
    let bench = Bench::new();
    bench.write("file", "mine");
    let load = ["-w", "random,size=4KiB,read=100%,closed=1", "--requests", "10"];
    for (folder, problem) in [("file", "is a file"), ("file/run", "`file` is a file")] {
        // The target would be made first.
        let run = bench.run(&[&["bench", "disk.img", "--create", "1MiB", "-o", folder], &load[..]].concat());
        run.fails(&[&format!("error: {folder}: {problem}, and must be a folder"), "hint: name a folder"]);
        assert!(!bench.path("disk.img").exists());
    }
    bench.run(&["bench", "ui", "--port", "0", "--runs", "file"]).fails(&["error: file: is a file"]);
    assert_eq!(bench.read("file"), b"mine");
}

#[test]
fn rerun_of_every_kind_of_run_gives_the_same_figures() {
    let bench = Bench::new();
    bench.write("plan.toml", PLAN);
    bench.trace("t.csv");
    bench.write("faults.toml", "[[fault]]\nkind = \"delay\"\nadd = \"4ms\"\nprobability = \"3%\"\n");
    bench.write("job.fio", "[global]\nsize=1m\nbsrange=512-4k\n[a]\nrw=randrw\nrwmixread=30\n[b]\nstonewall\nrw=read\nrate_iops=77\n");
    let disk = "model:cheetah-36es";
    let stream =
        "[[phases.streams]]\nworkload = \"random,size=4KiB,read=100%,poisson=50/s\"\ntarget = \"disk\"\n";
    let disk_with = |keys: &str, phase: &str| {
        format!(
            "[targets.disk]\naddress = \"model:cheetah-36es\"\n{keys}\n[[phases]]\nrequests = 200\n{phase}\n{stream}"
        )
    };
    let fault = "bare = true\nscheduler = \"sptf\"\nfault = [\"delay,add=20ms,probability=10%\"]";
    bench.write("curve.toml", disk_with(fault, "rates = [\"33.3%\", \"90%\"]"));
    bench.write("search.toml", disk_with("faults = \"faults.toml\"", "find_rate = \"response_mean_ms<=30\""));
    let runs: [&[&str]; 8] = [
        &["curve.toml"],
        &["search.toml"],
        &["plan.toml", "--repeat", "2"],
        &[disk, "-w", "t.csv", "--scaled", "1.37", "--requests", "150", "--faults", "faults.toml"],
        &[
            disk,
            "-w",
            "random,size=4KiB:3+16KiB:1,read=60%,flush_every=8,poisson=61.7/s",
            "--requests",
            "400",
            "--rates",
            "33.3%,90%",
            "--scheduler",
            "sstf",
            "--set",
            "rpm=12000rpm",
        ],
        &[
            disk,
            "-w",
            "oltp,poisson=40/s",
            "--duration",
            "7500ms",
            "--ramp",
            "20",
            "--outstanding-max",
            "3",
            "--late",
            "drop",
            "--timeout",
            "30ms",
            "--retries",
            "1",
        ],
        &[
            "model:exponential",
            "-w",
            "random,read=100%,size=4KiB,poisson=50/s",
            "--requests",
            "2000",
            "--find-rate",
            "response_mean_ms<=20",
            "--interval",
            "0s",
        ],
        &["job.fio", "--on", disk],
    ];
    for (number, arguments) in runs.into_iter().enumerate() {
        let (first, second) = (format!("run{number}"), format!("run{number}-rerun-1"));
        bench.run(&[&["bench"], arguments, &["-o", &first, "--seed", "11"]].concat()).done();
        let text = bench.run(&["bench", "rerun", &first]).done();
        assert!(text.contains("requests_per_second"), "compared with the first: {text}");
        let (one, other) = (figures(&bench, &first), figures(&bench, &second));
        assert_eq!(one, other, "{arguments:?}");
        assert!(one["requests"].as_u64().is_some_and(|requests| requests > 100), "{arguments:?}");
        let rerun_of = run_file(&bench, &second)["run"]["rerun_of"].as_str().unwrap().to_owned();
        assert!(rerun_of.ends_with(&first), "{rerun_of}");
    }
    bench.run(&["bench", "compare", "run0", "run0-rerun-1"]).done();
    bench.run(&["bench", "rerun", "run0", "-o", "run0"]).fails(&["is the folder of the first run"]);
    bench
        .run(&["bench", "rerun", "run0", "-o", "run1"])
        .fails(&["holds the results of another run", "--fresh"]);
    bench.run(&["bench", "rerun", "run0", "-o", "run1", "--fresh"]).done();
    assert_eq!(figures(&bench, "run1"), figures(&bench, "run0"));
}

#[test]
fn another_target_under_the_same_name_is_refused_with_both_values() {
    let bench = Bench::new();
    bench.write("disk.img", vec![1; 1 << 20]);
    let load = |read: &str| format!("random,size=4KiB,read={read},closed=1,requests=20");
    let run = ["bench", "psync:disk.img", "--buffered", "-w"];
    bench.run(&[&run[..], &[&load("100%"), "-o", "reads"]].concat()).done();
    bench.run(&[&run[..], &[&load("0%"), "-o", "writes", "--destroy", "disk.img"]].concat()).done();
    bench.run(&["bench", "rerun", "writes"]).fails(&["the workload writes", "--destroy psync:disk.img"]);
    bench.run(&["bench", "rerun", "writes", "--destroy", "disk.img"]).done();
    bench.write("disk.img", vec![1; 3 << 20]);
    bench.run(&["bench", "rerun", "reads"]).fails(&["`psync:disk.img`: has 3MiB, and 1MiB is expected"]);
    bench.write(
        "own.toml",
        "kind = \"constant\"\nservice_time = \"1ms\"\ncapacity_blocks = 4096\nblock_size = \"512B\"\n",
    );
    bench.run(&["bench", "model:own.toml", "-w", &load("100%"), "-o", "model"]).done();
    bench.write(
        "own.toml",
        "kind = \"constant\"\nservice_time = \"2ms\"\ncapacity_blocks = 4096\nblock_size = \"512B\"\n",
    );
    bench.run(&["bench", "rerun", "model"]).fails(&["`service_time = \"2ms\"`", "`service_time = \"1ms\"`"]);
    let plan = |key: &str| {
        let target = format!("targets.d = {{ address = \"psync:disk.img\", buffered = true, {key} }}\n");
        target
            + "[[phases]]\n[[phases.streams]]\ntarget = \"d\"\nworkload = \"random,read=100%,closed=1,requests=9\"\n"
    };
    bench.write("size.toml", plan("capacity = \"3145728B\""));
    bench.run(&["bench", "size.toml"]).done();
    bench.write("size.toml", plan("capacity = \"4MiB\""));
    bench.run(&["bench", "size.toml"]).fails(&["`psync:disk.img`: has 3MiB, and 4MiB is expected"]);
    bench.write("serial.toml", plan("serial = \"S4EVNX0R112233\""));
    bench
        .run(&["bench", "serial.toml"])
        .fails(&["`psync:disk.img`: has no serial number, and `S4EVNX0R112233` is expected"]);
}

/// A run on `null` that goes on until it is ended, with intervals that were written.
fn begun(bench: &Bench, folder: &str) -> Child {
    let load = "random,size=4KiB,read=60%,poisson=300/s";
    let arguments =
        ["bench", "null", "-w", load, "--interval", "20ms", "--counters", "20ms", "-o", folder, "--record"];
    let child = Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .args(arguments)
        .current_dir(bench.path("."))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let rows = |path: &Path| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    until(|| {
        let parts = ["intervals.parquet.part", "counters.parquet.part"];
        let found = parts.map(|part| rows(&bench.path(folder).join(part)));
        if found[0] > 20 && found[1] > 100 { Ok(()) } else { Err(format!("{found:?} rows so far")) }
    });
    child
}

#[test]
fn killed_run_leaves_what_it_had_measured() {
    let bench = Bench::new();
    let mut child = begun(&bench, "run");
    bench
        .run(&["bench", "null", "-w", "random,closed=1,requests=5", "-o", "run", "--fresh"])
        .fails(&["intervals.parquet.part: another run writes it"]);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let document = run_file(&bench, "run");
    assert_eq!((&document["run"]["state"], document.get("requests")), (&"running".into(), None));
    let part = lines(&bench, "run/intervals.parquet.part");
    let heading: Vec<&str> = part[0].split(',').collect();
    let place = |name: &str| heading.iter().position(|column| *column == name).unwrap();
    let (operation, requests) = (place("operation"), place("requests"));
    let of_all: u64 = part[1..]
        .iter()
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|cells| cells[operation] == "all")
        .map(|cells| cells[requests].parse::<u64>().unwrap())
        .sum();
    assert!(of_all > 5, "{of_all}");
    assert!(lines(&bench, "run/response.hlog").len() > 5);
    bench.run(&["bench", "compare", "run", "run"]).fails(&["run.json: the run goes on, or was killed"]);
    let again = ["bench", "null", "-w", "random,read=100%,closed=1,requests=50", "-o", "run"];
    bench.run(&again).fails(&["holds the results of another run", "--fresh"]);
    bench.run(&[&again[..], &["--fresh"]].concat()).done();
    assert_eq!(run_file(&bench, "run")["requests"], 50);
    assert!(
        !bench.path("run/trace.parquet.part").exists() && !bench.path("run/counters.parquet.part").exists()
    );
}

#[test]
fn interrupted_run_is_whole_until_then() {
    let bench = Bench::new();
    let mut child = begun(&bench, "run");
    let number = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(number, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let document = run_file(&bench, "run");
    assert_eq!((&document["run"]["state"], &document["stopped"]), (&"stopped".into(), &true.into()));
    let table = read_table(&bench.path("run/intervals.parquet")).unwrap();
    let all = texts(&table, "operation").iter().zip(counts(&table, "requests"));
    let all: u64 = all.filter(|(operation, _)| *operation == "all").map(|(_, requests)| *requests).sum();
    assert_eq!(Some(all), document["requests"].as_u64());
    let parts = fs::read_dir(bench.path("run")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!parts.into_iter().any(|name| name.to_string_lossy().ends_with(".part")));
    read_table(&bench.path("run/counters.parquet")).unwrap();
    bench.run(&["bench", "compare", "run", "run"]).done();
}

#[test]
fn full_disk_loses_no_interval() {
    let bench = Bench::new();
    fs::create_dir(bench.path("disk")).unwrap();
    let line = "mount -t tmpfs -o size=2200k tmpfs disk || exit 77; \"$SEEKLAB\" bench null -w random,read=70%,size=4KiB,poisson=500/s \
                --duration 8s --interval 10ms -o disk/run; code=$?; cp -r disk/run run; exit $code";
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "--user", "sh", "-c", line])
        .env("SEEKLAB", env!("CARGO_BIN_EXE_seeklab"))
        .current_dir(bench.path("."))
        .output();
    let output = match output {
        Ok(output) if output.status.code() != Some(77) && bench.path("run").exists() => output,
        other => {
            eprintln!("skipped: no tmpfs of our own: {other:?}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("disk/run: no space left on its disk"), "{text}");
    let document = run_file(&bench, "run");
    assert_eq!(document["run"]["failure"], "disk/run: no space left on its disk");
    assert_eq!(document["intervals"].as_array().unwrap().len(), 800);
    let table = read_table(&bench.path("run/intervals.parquet")).unwrap();
    let all = texts(&table, "operation").iter().zip(counts(&table, "requests"));
    let all: u64 = all.filter(|(operation, _)| *operation == "all").map(|(_, requests)| *requests).sum();
    assert_eq!(Some(all), document["requests"].as_u64());
    assert!(lines(&bench, "run/events.jsonl").iter().any(|line| line.contains("disk_full")));
}

#[test]
fn requests_that_hang_at_the_end_show_their_ages_and_events_stand_in_order() {
    let bench = Bench::new();
    // The first request takes a minute, and is waited for until 2 s after the end.
    let load =
        ["bench", "emulate:constant", "-w", "random,read=100%,size=4KiB,closed=1", "--duration", "300ms"];
    let fault = ["--fault", "delay,add=60s", "--interval", "100ms", "--live", "-o", "run"];
    let run = bench.run(&[&load[..], &fault].concat());
    assert_eq!(run.code, 1, "{}", run.stderr);
    let waits: Vec<&str> =
        run.stderr.lines().filter(|line| line.contains("no more arrivals, 1 out, the oldest ")).collect();
    assert!(!waits.is_empty(), "{}", run.stderr);
    assert!(!unfolded(&run.stderr).contains("the kernel"), "no kernel holds it: {}", run.stderr);
    let events = lines(&bench, "run/events.jsonl");
    let events: Vec<Value> = events.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let stamps: Vec<f64> = events.iter().map(|event| event["at_s"].as_f64().unwrap()).collect();
    assert!(stamps.is_sorted(), "{events:#?}");
    let place = |name: &str| events.iter().position(|event| event["event"] == name);
    assert_eq!(place("phase_end"), Some(events.len() - 1), "{events:#?}");
    let hung = place("hung_requests_begin").map(|hung| stamps[hung]);
    assert!(hung >= Some(1.0), "{events:#?}");
    // The results have the wait in the last interval.
    assert_eq!(run_file(&bench, "run")["intervals"].as_array().unwrap().len(), 3);
}

#[test]
fn counters_are_read_beside_the_run() {
    let bench = Bench::new();
    let own = std::process::id().to_string();
    // It takes all the time of a processor: Linux counts that in ticks.
    let load =
        ["bench", "null", "-w", "random,read=100%,closed=1", "--duration", "1s", "--counters", "100ms"];
    let watch = ["--watch", &own, "--watch", "no-such-program", "-o", "run"];
    let run = bench.run(&[&load[..], &watch, &["--json"]].concat());
    assert!(
        run.stderr.contains("warning: --watch no-such-program: no process has this name"),
        "{}",
        run.stderr
    );
    let figures: Value = serde_json::from_str(&run.done()).unwrap();
    let counters = &figures["counters"];
    assert!(counters["samples"].as_u64() >= Some(3), "{counters:#}");
    let series = counters["series"].as_array().unwrap();
    let of = |scope: &str, counter: &str| {
        let mut found =
            series.iter().filter(|series| series["scope"] == scope && series["counter"] == counter);
        found.next().unwrap_or_else(|| panic!("{scope} {counter}")).clone()
    };
    let cpu = of("machine", "cpu_utilisation_pct");
    assert!(cpu["min"].as_f64() >= Some(0.0) && cpu["max"].as_f64() <= Some(100.0), "{cpu}");
    assert!(of("machine", "context_switches_per_second")["mean"].as_f64() > Some(0.0));
    assert!(of("self", "user_processors")["max"].as_f64() > Some(0.0));
    assert!(of("process", "resident_bytes")["name"].as_str().unwrap().ends_with(&format!("({own})")));
    let missing = counters["missing"].as_array().unwrap();
    assert!(missing.contains(&"no process was named `no-such-program`".into()), "{missing:?}");
    let table = read_table(&bench.path("run/counters.parquet")).unwrap();
    assert!(texts(&table, "counter").iter().any(|counter| counter == "interrupts_per_second"));
    assert!(
        String::from_utf8(bench.read("run/report.html")).unwrap().contains("Interrupts and context switches")
    );
    let model =
        ["bench", "model:exponential", "-w", "random,poisson=20/s", "--requests", "10", "--counters", "1s"];
    bench.run(&model).fails(&["--counters: `model:exponential` is measured in virtual time"]);
    bench
        .run(&["bench", "null", "-w", "random,closed=1", "--requests", "9", "--watch", "4194305"])
        .fails(&["there is no process 4194305 to watch"]);
}
