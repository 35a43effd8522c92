//! `seeklab bench --json=fio`: programs that read fio's results read ours, and find the same percentiles.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::bench::Bench;

/// A measurement in virtual time, as our document and as fio's.
fn measured(bench: &Bench, load: &str) -> (Value, Value) {
    let arguments = ["bench", "model:cheetah-36es", "-w", load];
    let text = bench.run(&[&arguments[..], &["--json=fio"]].concat()).done();
    bench.write("run.json", &text);
    (bench.json(&arguments), serde_json::from_str(&text).unwrap())
}

const LOAD: &str = "random,size=4KiB:3+64KiB:1,read=60%,poisson=60/s,requests=5000";

#[test]
fn figures_are_those_of_our_document() {
    let bench = Bench::new();
    let (ours, fio) = measured(&bench, LOAD);
    let job = &fio["jobs"][0];
    let options = &job["job options"];
    assert_eq!((&options["rw"], &options["rwmixread"]), (&"randrw".into(), &"60".into()));
    assert_eq!((&options["bssplit"], &options["numjobs"]), (&"4k/75:64k/25".into(), &"1".into()));
    assert_eq!(options["size"], ours["capacity_bytes"].to_string(), "{options}");
    for (direction, op) in [("read", 0), ("write", 1)] {
        let (theirs, ours) = (&job[direction], &ours["operations"][op]);
        assert_eq!(theirs["total_ios"], ours["requests"]);
        let close = |found: &Value, expected: &Value, factor: f64| {
            let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap() * factor);
            assert!((found / expected - 1.0).abs() < 1e-5, "{direction}: {found} {expected}");
        };
        close(&theirs["iops"], &ours["requests_per_second"], 1.0);
        for (times, name) in [("clat_ns", "service"), ("lat_ns", "response")] {
            let of = &theirs[times];
            assert_eq!(of["N"], theirs["total_ios"]);
            for (key, figure) in [("min", "min"), ("mean", "mean"), ("stddev", "sd"), ("max", "max")] {
                close(&of[key], &ours[format!("{name}_{figure}_ms")], 1e6);
            }
            for (key, figure) in
                [("50", "p50"), ("90", "p90"), ("95", "p95"), ("99", "p99"), ("99.9", "p999")]
            {
                let key = format!("{:.6}", key.parse::<f64>().unwrap());
                close(&of["percentile"][key], &ours[format!("{name}_{figure}_ms")], 1e6);
            }
        }
    }
    let shares = ["latency_ns", "latency_us", "latency_ms"].map(|name| job[name].as_object().unwrap());
    let sum: f64 =
        shares.iter().flat_map(|shares| shares.values()).map(|share| share.as_f64().unwrap()).sum();
    assert!((sum - 100.0).abs() < 1e-6, "{sum}");
}

/// Keys of an object and of those in it, with their paths. The keys of `percentile` and `bins` are times.
fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    let Some(object) = value.as_object() else { return };
    for (key, value) in object {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if !["percentile", "bins", "job options"].contains(&key.as_str()) {
            keys(value, &path, found);
        }
        found.insert(path);
    }
}

#[test]
fn keys_are_those_of_fio_but_for_a_list() {
    let bench = Bench::new();
    bench.write("there.img", vec![7; 4 << 20]);
    let of_fio = [
        "--name=a",
        "--filename=there.img",
        "--size=4m",
        "--rw=randrw",
        "--bs=4k",
        "--iodepth=4",
        "--fdatasync=8",
    ];
    let limits = ["--ioengine=io_uring", "--number_ios=400", "--output-format=json+"];
    let Ok(output) = Command::new("fio").args(of_fio).args(limits).current_dir(bench.path(".")).output()
    else {
        eprintln!("skipped: there is no fio");
        return;
    };
    let theirs: Value = serde_json::from_slice(&output.stdout).unwrap();
    let load = "random,size=4KiB,read=50%,closed=4,flush_every=8,requests=400";
    let run = ["bench", "there.img", "--buffered", "--destroy", "there.img", "-w", load, "--json=fio"];
    let ours: Value = serde_json::from_str(&bench.run(&run).done()).unwrap();
    let sets = [&theirs, &ours].map(|document| {
        let mut found = BTreeSet::new();
        keys(document, "", &mut found);
        keys(&document["jobs"][0], "job", &mut found);
        found
    });
    let missing: Vec<&str> = sets[0].difference(&sets[1]).map(String::as_str).collect();
    // The date is `timestamp`, without a time zone. The utilisation of a disk includes the requests of others.
    assert_eq!(missing, ["disk_util", "time"]);
    let more: Vec<&str> = sets[1].difference(&sets[0]).map(String::as_str).collect();
    // Response times are more than the sum of fio's `slat_ns` and `clat_ns`: they have a distribution of their own.
    let response =
        ["read", "write"].map(|op| ["bins", "percentile"].map(|key| format!("job.{op}.lat_ns.{key}")));
    assert_eq!(more, response.as_flattened());
    let job = &ours["jobs"][0];
    let options: Vec<&String> = job["job options"].as_object().unwrap().keys().collect();
    let known = Command::new("fio").arg("--cmdhelp").output().unwrap();
    let known = String::from_utf8_lossy(&known.stdout).into_owned();
    let is_known = |name: &str| known.lines().any(|line| line.split_whitespace().next() == Some(name));
    assert!(options.iter().all(|name| is_known(name)), "{options:?}");
    for key in ["iodepth_level", "iodepth_submit", "iodepth_complete"] {
        let sum: f64 = job[key].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
        assert!((sum - 100.0).abs() < 1e-6, "{key}: {sum}");
    }
    // Never more than four under way; a flush goes alone or beside others.
    let level = |class: &str| job["iodepth_level"][class].as_f64().unwrap();
    assert!(level("4") > 50.0 && level("8") == 0.0, "{job:#}");
}

#[test]
fn depths_are_those_of_the_load() {
    let bench = Bench::new();
    for (population, batch, class, group) in
        [("1", "1", "1", "4"), ("20", "20", "16", "32"), ("64", "1", ">=64", "64")]
    {
        let load = format!("random,size=4KiB,read=100%,closed={population},requests=6400");
        let run = ["bench", "null", "-w", &load, "--batch", batch, "--json=fio"];
        let document: Value = serde_json::from_str(&bench.run(&run).done()).unwrap();
        let job = &document["jobs"][0];
        // The first requests find fewer under way, and each group of `null` ends together.
        let least = 100.0 / population.parse::<f64>().unwrap();
        for (key, class) in [("iodepth_level", class), ("iodepth_submit", group), ("iodepth_complete", group)]
        {
            let share = job[key][class].as_f64().unwrap();
            let all = if key == "iodepth_level" { least } else { 99.0 };
            assert!(share >= all * 0.99, "{key} {class}: {job:#}");
        }
    }
}

#[test]
fn each_stream_of_each_run_of_a_phase_is_a_job() {
    let bench = Bench::new();
    bench.write(
        "plan.toml",
        r#"
target = "disk"

[targets.disk]
address = "model:cheetah-36es"

[[phases]]
name = "mixed"

[[phases.streams]]
name = "readers"
workload = "random,size=4KiB,read=100%,closed=2,requests=300"

[[phases.streams]]
name = "writers"
workload = "sequential,size=64KiB,read=0%,closed=1,requests=100"

[[phases]]
name = "scan"

[[phases.streams]]
name = "readers"
workload = "sequential,size=64KiB,read=100%,closed=1,requests=200"
"#,
    );
    let arguments = ["bench", "plan.toml", "--repeat", "2"];
    let fio: Value =
        serde_json::from_str(&bench.run(&[&arguments[..], &["--json=fio"]].concat()).done()).unwrap();
    let jobs = fio["jobs"].as_array().unwrap();
    let names: Vec<(&str, u64)> =
        jobs.iter().map(|job| (job["jobname"].as_str().unwrap(), job["groupid"].as_u64().unwrap())).collect();
    let run = |group| [("mixed/readers", group), ("writers", group), ("scan", group + 1)];
    assert_eq!(names, [run(0), run(2)].concat());
    let ours = bench.json(&arguments);
    let streams =
        ours["phases"].as_array().unwrap().iter().flat_map(|phase| phase["streams"].as_array().unwrap());
    for (job, stream) in jobs.iter().zip(streams) {
        for (direction, requests, bytes) in
            [("read", "reads", "read_bytes"), ("write", "writes", "written_bytes")]
        {
            let of = &job[direction];
            assert_eq!((&of["total_ios"], &of["io_bytes"]), (&stream[requests], &stream[bytes]));
            let share = if stream[requests] == 0 { 0.0 } else { 100.0 };
            assert_eq!(of["bw_agg"], share);
        }
        let bs = if job["jobname"] == "mixed/readers" { "4k" } else { "64k" };
        assert_eq!((&job["job options"]["bs"], &job["error"]), (&bs.into(), &0.into()));
    }
}

#[test]
fn script_of_fio_finds_our_percentiles() {
    const SCRIPT: &str = "fio_jsonplus_clat2csv";
    if Command::new(SCRIPT).arg("--help").output().is_err() {
        eprintln!("skipped: there is no {SCRIPT}, which the package fio has");
        return;
    }
    let bench = Bench::new();
    let (_, fio) = measured(&bench, LOAD);
    let script = |arguments: &[&str]| {
        let output = Command::new(SCRIPT)
            .args(["run.json", "run.csv"])
            .args(arguments)
            .current_dir(bench.path("."))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    script(&[]);
    assert!(script(&["--validate"]).contains("run_job0.csv validated"));
    let csv = String::from_utf8(bench.read("run_job0.csv")).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').map(str::trim).collect()).collect();
    for (direction, times) in [("read", "clat"), ("read", "lat"), ("write", "clat"), ("write", "lat")] {
        let name = format!("{direction}_{times}_ns_percentile");
        let column = rows[0].iter().position(|of| *of == name).unwrap();
        let percentiles = fio["jobs"][0][direction][format!("{times}_ns")]["percentile"].as_object().unwrap();
        for (pct, ns) in percentiles {
            // The first time that at least so many requests do not exceed.
            let share = pct.parse::<f64>().unwrap() / 100.0;
            let row =
                rows[1..].iter().find(|row| row[column].parse().is_ok_and(|of: f64| of >= share - 1e-12));
            assert_eq!(row.unwrap()[0], ns.to_string(), "{name} {pct}");
        }
    }
}

#[test]
fn fit_reads_the_document() {
    let bench = Bench::new();
    let mut capacity_bytes = 0;
    for population in [1, 4, 16] {
        let load = format!("random,size=4KiB,read=100%,closed={population},requests=3000");
        capacity_bytes = measured(&bench, &load).0["capacity_bytes"].as_u64().unwrap();
        bench.write(&format!("{population}.json"), bench.read("run.json"));
    }
    let fit = bench.json(&["fit", "1.json", "4.json", "16.json", "-o", "clone.toml"]);
    assert_eq!(fit["sweep"]["points"].as_array().map(Vec::len), Some(3), "{fit:#}");
    let clone = String::from_utf8(bench.read("clone.toml")).unwrap();
    // Of whole requests.
    let capacity_blocks = capacity_bytes / 4096 * 8;
    assert!(clone.contains(&format!("\ncapacity_blocks = {capacity_blocks}\n")), "{fit:#}");
}
