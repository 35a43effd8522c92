//! `seeklab experiment` as a process: the figures do not depend on how it is run, and mistakes are reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const SMALL: &str = r#"
title = "Small"
seed = 7
repetitions = 3
requests = 400
bare = true
devices = ["hp-c2247a", { name = "fast", base = "hp-c2247a", set = { rpm = "10000rpm" } }]
workloads = ["random,poisson=20/s"]
schedulers = ["fcfs", "sptf"]
figures = ["response_mean_ms", "breakdown.seek_mean_ms"]

[[parameters]]
name = "workload.arrivals.rate"
values = ["20/s", "40/s"]
"#;

/// A folder with an experiment in it.
struct Bench(TempDir);

impl Bench {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("e.toml"), text).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_seeklab"))
            .current_dir(self.0.path())
            .args(["experiment", "e.toml"])
            .args(arguments)
            .output()
            .unwrap()
    }

    /// Runs it to its end; stdout and stderr.
    fn succeed(&self, arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{stderr}");
        (stdout, stderr)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn figures_are_the_same_on_any_number_of_cores() {
    let one = Bench::new(SMALL);
    let (printed, _) = one.succeed(&["--jobs", "1"]);
    let four = Bench::new(SMALL);
    four.succeed(&["--jobs", "4"]);
    assert_eq!(text(&one.read("e.csv")), text(&four.read("e.csv")));
    assert_eq!(one.read("e.parquet"), four.read("e.parquet"));
    assert!(printed.contains("±") && printed.contains("Small"), "{printed}");
    let csv = text(&one.read("e.csv"));
    let header = csv.lines().next().unwrap();
    assert_eq!(
        header,
        "device,workload,scheduler,arrivals,workload.arrivals.rate_per_s,n,saturated,response_mean_ms_mean,response_mean_ms_sd,\
         response_mean_ms_half_width_95,breakdown.seek_mean_ms_mean,breakdown.seek_mean_ms_sd,breakdown.seek_mean_ms_half_width_95"
    );
    assert_eq!(csv.lines().count(), 1 + 2 * 2 * 2);
    assert!(csv.contains("fast (bare),\"random,poisson=20/s\",sptf,workload,40,3,0,"), "{csv}");
}

#[test]
fn interrupted_experiment_resumes() {
    let whole = Bench::new(SMALL);
    whole.succeed(&["--report", "e.html"]);
    let journal = text(&whole.read("e.results.jsonl"));
    assert_eq!(journal.lines().count(), 24);

    // As a run leaves it that is killed while it writes its sixth line.
    let interrupted = Bench::new(SMALL);
    let lines: Vec<&str> = journal.lines().collect();
    let torn = &lines[5][..lines[5].len() / 2];
    fs::write(interrupted.path("e.results.jsonl"), format!("{}\n{torn}", lines[..5].join("\n"))).unwrap();
    let (_, printed) = interrupted.succeed(&["--jobs", "2", "--report", "e.html"]);
    assert!(printed.contains("5 of 24 runs were taken from e.results.jsonl"), "{printed}");
    for name in ["e.csv", "e.parquet", "e.html"] {
        let place = if name == "e.html" { "the page is the same but for the command" } else { name };
        let strip = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace(" --jobs 2", "");
        assert_eq!(strip(whole.read(name)), strip(interrupted.read(name)), "{place}");
    }
    assert_eq!(text(&interrupted.read("e.results.jsonl")).lines().count(), 24);

    let (_, printed) = interrupted.succeed(&[]);
    assert!(printed.contains("24 of 24 runs were taken"), "{printed}");
    let (_, printed) = interrupted.succeed(&["--fresh"]);
    assert!(!printed.contains("were taken"), "{printed}");
    assert_eq!(text(&interrupted.read("e.results.jsonl")).lines().count(), 24);
    assert_eq!(whole.read("e.csv"), interrupted.read("e.csv"));
}

#[test]
fn only_changed_runs_are_run_again() {
    let bench = Bench::new(SMALL);
    bench.succeed(&[]);
    let printed = |change: &dyn Fn(&str) -> String| {
        fs::write(bench.path("e.toml"), change(SMALL)).unwrap();
        bench.succeed(&[]).1
    };
    let other_figures = |text: &str| text.replace("response_mean_ms", "response_p99_ms");
    assert!(printed(&other_figures).contains("24 of 24 runs"));
    let more = |text: &str| text.replace("repetitions = 3", "repetitions = 4");
    assert!(printed(&more).contains("24 of 32 runs"));
    let one_rate = |text: &str| text.replace("\"40/s\"", "\"30/s\"");
    assert!(printed(&one_rate).contains("12 of 24 runs"));
    let seed = |text: &str| text.replace("seed = 7", "seed = 8");
    assert!(!printed(&seed).contains("were taken"));
}

#[test]
fn killed_experiment_resumes() {
    let long = SMALL.replace("requests = 400", "requests = 200000");
    let bench = Bench::new(&long);
    let mut child = Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .current_dir(bench.0.path())
        .args(["experiment", "e.toml", "--jobs", "1"])
        .spawn()
        .unwrap();
    let journal = bench.path("e.results.jsonl");
    while fs::read_to_string(&journal).map_or(0, |text| text.lines().count()) < 2
        && child.try_wait().unwrap().is_none()
    {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let left = fs::read_to_string(&journal).unwrap().matches('\n').count();
    assert!(left >= 2);
    // The short form of the same experiment shares nothing with it; the long one does.
    fs::write(
        bench.path("e.toml"),
        long.replace("repetitions = 3", "repetitions = 1").replace("\"20/s\", \"40/s\"", "\"20/s\""),
    )
    .unwrap();
    let (_, printed) = bench.succeed(&["--jobs", "2"]);
    assert!(printed.contains("of 4 runs w") && printed.contains("taken from"), "{printed}");
}

#[test]
fn document_has_its_keys() {
    let bench = Bench::new(SMALL);
    let (stdout, _) = bench.succeed(&["--json"]);
    let document: Value = serde_json::from_str(&stdout).unwrap();
    let keys: Vec<&String> = document.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["schema", "title", "seed", "repetitions", "version", "command", "cells", "notes", "files"]
    );
    assert_eq!((&document["title"], &document["seed"]), (&Value::from("Small"), &Value::from(7)));
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8);
    let cell = cells[0].as_object().unwrap();
    assert_eq!(cell["device"], "hp-c2247a (bare)");
    assert_eq!(cell["workload.arrivals.rate_per_s"], 20.0);
    assert_eq!(cell["n"], 3);
    for part in ["mean", "sd", "half_width_95"] {
        assert!(cell[&format!("response_mean_ms_{part}")].as_f64().unwrap() > 0.0, "{cell:?}");
    }
    assert!(Path::new(document["files"]["csv"].as_str().unwrap()).ends_with("e.csv"));
}

#[test]
fn swept_sizes_and_times_are_numbers_with_their_unit_in_the_name() {
    let values = "name = \"workload.size\"\nvalues = [\"8KiB\", \"1MiB\"]\n\n[[parameters]]\nname = \"rpm\"\n\
                  values = [\"5400rpm\", \"7200rpm\"]";
    let swept = SMALL.replace("name = \"workload.arrivals.rate\"\nvalues = [\"20/s\", \"40/s\"]", values);
    let bench = Bench::new(&swept);
    let (stdout, _) = bench.succeed(&["--json"]);
    let document: Value = serde_json::from_str(&stdout).unwrap();
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(
        (&cells[0]["workload.size_bytes"], &cells[0]["rpm"]),
        (&Value::from(8192), &Value::from(5400.0))
    );
    assert_eq!(cells.last().unwrap()["workload.size_bytes"], 1 << 20);
    let (table, _) = bench.succeed(&[]);
    assert!(table.contains("8KiB") && table.contains("7200rpm"), "the table for people keeps units: {table}");
    assert!(text(&bench.read("e.csv")).contains(",8192,5400,3,0,"), "{}", text(&bench.read("e.csv")));
}

#[test]
fn schema_and_reference_of_experiment_files_are_printed() {
    let run = |argument: &str| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_seeklab")).args(["experiment", argument]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let schema: Value = serde_json::from_str(&run("--schema")).unwrap();
    let required: Vec<&Value> =
        schema["anyOf"].as_array().unwrap().iter().map(|form| &form["required"]).collect();
    let forms = [["devices", "workloads"].as_slice(), &["targets", "workloads"], &["plans"]];
    assert_eq!(required, forms.map(|keys| serde_json::json!(keys)).iter().collect::<Vec<_>>());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/experiments.md");
    assert_eq!(run("--reference"), fs::read_to_string(page).unwrap());
}

#[test]
fn saturated_cells_have_no_figures() {
    let text =
        SMALL.replace("\"40/s\"", "\"4000/s\"").replace("bare = true", "bare = true\nmax_outstanding = 100");
    let bench = Bench::new(&text);
    let (stdout, _) = bench.succeed(&[]);
    assert!(stdout.contains("warning: the device cannot sustain the load in 4 of 8 cells"), "{stdout}");
    let csv = String::from_utf8(bench.read("e.csv")).unwrap();
    assert!(csv.contains(",4000,3,3,,,,,,\n"), "{csv}");
}

#[test]
fn workload_with_retries_sends_failed_requests_again() {
    let bench = Bench::new(
        "requests = 200\nfigures = ['requests', 'errors', 'duration_s']\n\
         devices = [{ name = 'bad', kind = 'fault', fault = [{ kind = 'aborted', probability = '30%' }], \
         device = { base = 'constant' } }]\n\
         workloads = [{ name = 'once', preset = 'random' }, { name = 'again', preset = 'random', retries = 9 }, \
         { name = 'later', preset = 'random', retries = 9, retry_after = '10s' }]\n",
    );
    let (stdout, _) = bench.succeed(&["--json"]);
    let document: Value = serde_json::from_str(&stdout).unwrap();
    let figure = |cell: usize, name: &str| document["cells"][cell][format!("{name}_mean")].as_f64().unwrap();
    // A request fails ten times with a probability of 6e-6.
    assert_eq!([1, 2].map(|cell| figure(cell, "requests")), [200.0, 200.0], "{stdout}");
    assert_eq!(figure(0, "requests") + figure(0, "errors"), 200.0);
    assert!(figure(1, "errors") > figure(0, "errors"), "attempts fail, too: {stdout}");
    // At least each of the 55 requests that fail at first waits.
    assert!(figure(2, "duration_s") > figure(1, "duration_s") + 500.0, "attempts wait: {stdout}");
}

#[test]
fn parameter_without_effect_is_reported() {
    let bench = Bench::new(&SMALL.replace("schedulers =", "arrivals = [\"closed 2\"]\nschedulers ="));
    let (stdout, _) = bench.succeed(&[]);
    assert!(stdout.contains("warning: some cells differ only in their names"), "{stdout}");
}

#[test]
fn table_never_overwrites_a_trace() {
    let trace = "arrival_ns,completion_ns,op,lbn,blocks\n0,9000000,read,0,8\n";
    for workload in ["'e.csv'", "{ kind = 'replay', trace = './e.csv' }"] {
        // Results go to the experiment's own name unless it says otherwise.
        let bench = Bench::new(&format!("devices = ['hp-c2247a']\nworkloads = [{workload}]\n"));
        fs::write(bench.path("e.csv"), trace).unwrap();
        let output = bench.run(&[]);
        let printed = text(&output.stderr);
        assert!(
            !output.status.success() && printed.contains("e.csv: cannot be written, it is an input"),
            "{printed}"
        );
        assert_eq!(text(&bench.read("e.csv")), trace);
        bench.succeed(&["--output", "other"]);
        bench.succeed(&["--output", "other"]);
    }
}

#[test]
fn files_are_relative_to_the_experiment_file() {
    let bench = Bench::new(
        "devices = ['drive.toml']\nworkloads = ['load.toml', 'requests.csv', { kind = 'replay', trace = 'requests.csv', arrivals = 'closed 2' }]\noutput = 'out/r'",
    );
    fs::write(bench.path("drive.toml"), "base = 'hp-c2247a'\n[set]\nrpm = '7200rpm'\n").unwrap();
    fs::write(bench.path("load.toml"), "preset = 'random'\nrequests = 50\n").unwrap();
    let rows: String = (0..20)
        .map(|i| format!("{},{},read,{},8\n", i * 20_000_000, i * 20_000_000 + 9_000_000, i * 1000))
        .collect();
    fs::write(bench.path("requests.csv"), format!("arrival_ns,completion_ns,op,lbn,blocks\n{rows}")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .current_dir(elsewhere.path())
        .args(["experiment", bench.path("e.toml").to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let csv = text(&bench.read("out/r.csv"));
    let names: Vec<&str> = csv.lines().skip(1).map(|line| line.split(",none").next().unwrap()).collect();
    assert_eq!(names, ["drive.toml,load.toml", "drive.toml,requests.csv", "drive.toml,replay 3"]);
    // From another folder the paths differ, the runs do not.
    let (_, printed) = bench.succeed(&[]);
    assert!(printed.contains("3 of 3 runs were taken"), "{printed}");
}

#[test]
fn mistakes_are_reported_with_file_key_and_remedy() {
    let base = "devices = ['atlas10k']\nworkloads = ['random,poisson=60/s,requests=10']\n";
    let with = |more: &str| format!("{base}{more}");
    let parameter = |rest: &str| with(&format!("[[parameters]]\n{rest}"));
    let cases: Vec<(String, &str, &str)> = vec![
        (
            with("schedulars = ['fcfs']"),
            "e.toml, line 3: schedulars: unknown key `schedulars`; did you mean `schedulers`?",
            "allowed: title",
        ),
        ("workloads = ['random']".to_owned(), "e.toml: devices: is missing", "devices = [\"hp-c2247a\"]"),
        (
            with("arrivals = ['open']").replace(
                "'random,poisson=60/s,requests=10'",
                "{ preset = 'random', recorded_on = { device = 'atlas10k', arrivals = 'open' } }",
            ),
            "workloads[0].recorded_on.arrivals: stands beside `arrivals` of the experiment",
            "for all workloads",
        ),
        (
            base.replace(
                "'random,poisson=60/s,requests=10'",
                "{ workload = 'random', size = '4KiB', recorded_on = { device = 'atlas10k' } }",
            ),
            "workloads[0].size: stands beside `workload = \"random\"`, which describes it",
            "remove one",
        ),
        (
            base.replace(
                "'random,poisson=60/s,requests=10'",
                "{ preset = 'random', recorded_on = { device = 'atlas10' } }",
            ),
            "workloads[0].recorded_on.device: unknown device `atlas10`; did you mean `atlas10k`?",
            "allowed: atlas10k",
        ),
        (
            base.replace(
                "'random,poisson=60/s,requests=10'",
                "{ kind = 'replay', trace = 'a.csv', recorded_on = { device = 'atlas10k' } }",
            ),
            "workloads[0].recorded_on: the workload is a trace already",
            "name a host",
        ),
        (
            "devices = ['atlas10k']\nworkloads = [{ preset = 'random', retry_after = '1ms' }]".to_owned(),
            "workloads[0].retry_after: there are no retries",
            "`retries = 3`",
        ),
        (
            "devices = ['atlas10k']\nworkloads = []".to_owned(),
            "e.toml, line 2: workloads: is empty",
            "allowed: at least 1 workload",
        ),
        (
            "devices = 'atlas10k'\nworkloads = ['random']".to_owned(),
            "e.toml, line 1: devices: string \"atlas10k\" is not a list",
            "allowed: a list",
        ),
        (
            base.replace("atlas10k", "atlas10"),
            "e.toml, line 1: devices[0]: there is no device `atlas10` in the catalog; did you mean `atlas10k`?",
            "seeklab devices",
        ),
        (
            base.replace("'atlas10k'", "'atlas10k', 'atlas10k'"),
            "e.toml, line 1: devices[1]: `atlas10k` is there twice",
            "remove one",
        ),
        (base.replace("atlas10k", "no.toml"), "e.toml, line 1: devices[0]: no.toml: cannot be read", ""),
        (
            base.replace("random,poisson=60/s", "no.csv").replace(",requests=10", ""),
            "e.toml, line 2: workloads[0] `no.csv`: there is no such file",
            "name a trace",
        ),
        (
            base.replace("60/s", "60"),
            "e.toml, line 2: workloads[0] `random,poisson=60,requests=10`: arrivals.rate: `60` has no unit",
            "60/s",
        ),
        (
            with("schedulers = ['clook']"),
            "e.toml, line 3: schedulers[0]: there is no scheduler `clook`; did you mean `c-look`",
            "allowed: none, fcfs",
        ),
        (with("depth = 4"), "e.toml, line 3: depth: is for a host's queue", "schedulers"),
        (
            with("arrivals = ['closed']"),
            "e.toml, line 3: arrivals[0]: `closed`: `closed` needs a population",
            "closed 8",
        ),
        (
            with("arrivals = ['think']"),
            "workload `random,poisson=60/s,requests=10`: `think` is for traces",
            "[[parameters]]",
        ),
        (
            with("figures = ['response_mean']"),
            "e.toml, line 3: figures[0]: there is no figure `response_mean`; did you mean `response_mean_ms`",
            "requests_per_second",
        ),
        (with("repetitions = 0"), "e.toml, line 3: repetitions: 0\n", "allowed: 1 to 100000 runs"),
        (
            with("seed = 'x'"),
            "e.toml, line 3: seed: string \"x\" is not a whole number from 0",
            "allowed: a whole number from 0",
        ),
        (
            base.replace("'random,poisson=60/s,requests=10'", "\n  { preset = 'oltp', size = '8k' },\n"),
            "e.toml, line 3: workloads[0].size: `8k` has an ambiguous unit",
            "write 8KiB",
        ),
        (
            base.replace("'atlas10k'", "{ name = 'fast', base = 'atlas10k', set = { rpm = '7200' } }"),
            "e.toml, line 1: devices[0].set.rpm: mechanics.rpm: `7200` has no unit",
            "7200rpm",
        ),
        (
            parameter("name = 'rpm'\nvalues = ['7200rpm', [1]]"),
            "e.toml, line 5: parameters[0].values[1]: a list is not one value",
            "text with its unit",
        ),
        (with("x = 'rpm'"), "e.toml, line 3: x: there is no parameter `rpm`", "[[parameters]]"),
        (
            parameter("nam = 'rpm'"),
            "e.toml, line 4: parameters[0].nam: unknown key `nam`; did you mean `name`?",
            "allowed: name",
        ),
        (
            parameter("name = 'rpm'\nvalues = []"),
            "e.toml, line 5: parameters[0].values: is empty",
            "allowed: at least 1 value",
        ),
        (
            parameter("name = 'rpm'\nvalues = ['7200']"),
            "e.toml: device `atlas10k`, rpm = \"7200\": ",
            "7200rpm",
        ),
        (
            parameter("name = 'rmp'\nvalues = ['7200rpm']"),
            "device `atlas10k` has no parameter `rmp`; did you mean `rpm`?",
            "--toml",
        ),
        (
            parameter("name = 'workload.arrivals.rate'\nvalues = ['60']"),
            "arrivals.rate: `60` has no unit",
            "60/s",
        ),
        (
            parameter("name = 'workload.arrivals.rte'\nvalues = ['60/s']"),
            "unknown key `rte` where `process = \"poisson\"`; did you mean `rate`?",
            "allowed: rate, interarrival",
        ),
        (
            parameter("name = 'rpm'\nfrom = '60'\nto = '70'\nsteps = 3"),
            "e.toml, line 5: parameters[0].from: \"60\" has no unit",
            "60ms",
        ),
        (
            parameter("name = 'rpm'\nfrom = '60rpm'\nto = '70rpm'"),
            "e.toml, line 3: parameters[0].steps: is missing",
            "steps = 5",
        ),
        ("devices = [".to_owned(), "e.toml, line 1: ", ""),
    ];
    for (text_of_file, problem, hint) in cases {
        let bench = Bench::new(&text_of_file);
        let output = bench.run(&[]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text_of_file}\n{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(problem), "{text_of_file}\n{stderr}");
        assert!(stderr.contains(hint), "{text_of_file}\n{stderr}");
        assert!(output.stdout.is_empty());
    }
}

/// Columns of a table of results by its header, row by row.
fn rows(csv: &str) -> Vec<std::collections::BTreeMap<&str, &str>> {
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(|line| header.iter().copied().zip(line.split(',')).collect()).collect()
}

#[test]
fn recorded_workload_is_the_replay_of_its_requests() {
    let recorded = |name: &str, on: &str| {
        format!(
            "{{ name = '{name}', workload = 'host.toml', recorded_on = {{ device = 'hp-c2247a', {on} }} }}"
        )
    };
    let bench = Bench::new(&format!(
        "devices = ['hp-c2247a', 'immediate']\nschedulers = ['fcfs', 'c-look']\nworkloads = ['host.toml', {}, {}]\n\
         figures = ['requests', 'response_mean_ms', 'host.elapsed_s', 'host.time_critical.requests']\n",
        recorded("open", "scheduler = 'fcfs', arrivals = 'open'"),
        recorded("closed", "scheduler = 'c-look', arrivals = 'closed 4'"),
    ));
    let host = "kind = 'host'\n[host]\nmemory = '1MiB'\nsweep = '100%'\n[files.data]\nsize = '400KiB'\nat = '100MiB'\n\
                [files.log]\nsize = '400KiB'\nnew = true\n[processes.p]\n\
                program = 'repeat 100 { read data 4KiB; compute 2ms; write log 4KiB }; sync'\n";
    fs::write(bench.path("host.toml"), host).unwrap();
    bench.succeed(&[]);
    let table = text(&bench.read("e.csv"));
    let rows = rows(&table);
    let row = |device: &str, workload: &str, scheduler: &str| {
        let is = |row: &&std::collections::BTreeMap<&str, &str>| {
            [row["device"], row["workload"], row["scheduler"]] == [device, workload, scheduler]
        };
        rows.iter().find(is).unwrap_or_else(|| panic!("{device}, {workload}, {scheduler}: {table}"))
    };
    let (host, open) = (row("hp-c2247a", "host.toml", "fcfs"), row("hp-c2247a", "open", "fcfs"));
    assert_eq!([host["arrivals"], open["arrivals"]], ["workload", "open"]);
    // On the configuration of the recording, the requests meet what they met, and the host has no figures of theirs.
    for figure in ["requests_mean", "response_mean_ms_mean"] {
        assert_eq!(host[figure], open[figure], "{figure}: {table}");
    }
    assert_eq!(host["host.time_critical.requests_mean"], "101", "a read and the writes of `sync`: {table}");
    assert_eq!(open["host.elapsed_s_mean"], "");
    // Elsewhere they do not follow the device as the host does.
    let elapsed =
        |row: &std::collections::BTreeMap<&str, &str>| row["host.elapsed_s_mean"].parse::<f64>().unwrap();
    assert!(elapsed(row("immediate", "host.toml", "fcfs")) < elapsed(host));
    assert_eq!(row("immediate", "closed", "c-look")["requests_mean"], host["requests_mean"]);
    // A second run takes everything from the journal, although the requests were recorded again.
    let (_, printed) = bench.succeed(&[]);
    assert!(printed.contains("12 of 12 runs were taken"), "{printed}");
    // What determines the recording determines the replay.
    fs::write(
        bench.path("host.toml"),
        fs::read_to_string(bench.path("host.toml")).unwrap().replace("2ms", "3ms"),
    )
    .unwrap();
    let (_, printed) = bench.succeed(&[]);
    assert!(!printed.contains("runs were taken"), "{printed}");
}

#[test]
fn void_predictions_fail_and_have_no_figures() {
    let bench = Bench::new(
        "devices = [\"cheetah-36es\"]\nworkloads = [\"copy.sys\"]\nfigures = [\"host.elapsed_s\"]\n",
    );
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/copy.sys");
    let trace = bench.path("copy.sys");
    fs::create_dir(&trace).unwrap();
    for entry in fs::read_dir(example).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, trace.join(path.file_name().unwrap())).unwrap();
    }
    let elapsed = || rows(&text(&bench.read("e.csv")))[0]["host.elapsed_s_mean"].to_string();
    bench.succeed(&[]);
    assert!(elapsed().parse::<f64>().is_ok_and(|elapsed| elapsed > 0.0), "{}", elapsed());

    let metadata = fs::read_to_string(trace.join("system.json")).unwrap();
    let lossy = metadata.replace("\"lost_events\": 0", "\"lost_events\": 12");
    assert_ne!(lossy, metadata);
    fs::write(trace.join("system.json"), lossy).unwrap();
    let output = bench.run(&[]);
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("12 events of the trace were lost"), "{printed}");
    assert_eq!(elapsed(), "");
}

#[test]
fn open_replay_overestimates_what_a_scheduler_changes() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ganger-patt");
    let bench = Bench::new(&fs::read_to_string(examples.join("figure-1.toml")).unwrap());
    fs::copy(examples.join("copytree.toml"), bench.path("copytree.toml")).unwrap();
    bench.succeed(&["--output", bench.path("r").to_str().unwrap()]);
    let table = text(&bench.read("r.csv"));
    let rows = rows(&table);
    let response_ms = |workload: &str, scheduler: &str| {
        let row = rows.iter().find(|row| row["workload"] == workload && row["scheduler"] == scheduler);
        row.unwrap_or_else(|| panic!("{workload}, {scheduler}: {table}"))["response_mean_ms_mean"]
            .parse::<f64>()
            .unwrap()
    };
    // Figure 1 of Ganger and Patt: what an open model says of C-LOOK to FCFS is more than what the whole host says.
    let change = |workload: &str| response_ms(workload, "fcfs") / response_ms(workload, "c-look") - 1.0;
    assert!(change("whole host") > 0.0, "{table}");
    assert!(change("open from C-LOOK") > 2.0 * change("whole host"), "{table}");
    // Each replay is the host under the scheduler of its recording.
    for (scheduler, from) in [("fcfs", "open from FCFS"), ("c-look", "open from C-LOOK")] {
        assert_eq!(response_ms(from, scheduler), response_ms("whole host", scheduler), "{table}");
    }
}

#[test]
fn example_experiments_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for name in ["schedulers", "targets", "track-aligned"] {
        let text = fs::read_to_string(examples.join(format!("{name}.toml"))).unwrap();
        let is_long =
            |line: &&str| ["requests", "repetitions", "duration"].iter().any(|key| line.starts_with(key));
        let lines = text.lines().filter(|line| !is_long(line));
        let short = format!("requests = 50\n{}", lines.collect::<Vec<_>>().join("\n"));
        let bench = Bench::new(&short);
        let output = bench.path("r");
        bench.succeed(&["--output", output.to_str().unwrap()]);
        assert!(output.with_extension("csv").exists());
    }
}
