//! Output for people has at most 80 columns, whatever the number of devices and the size of the figures.

use std::path::Path;

use crate::bench::{Bench, RANDOM};
use crate::points::SEEN;

/// Asserts that no line is wider than 80 characters. The command to repeat keeps its line, for it is copied.
#[track_caller]
fn assert_fits(bench: &Bench, arguments: &[&str]) -> String {
    let text = bench.run(arguments).done();
    let wide: Vec<&str> =
        text.lines().filter(|line| line.chars().count() > 80 && !line.starts_with("repeat: ")).collect();
    assert!(wide.is_empty(), "seeklab {}:\n{}", arguments.join(" "), wide.join("\n"));
    assert!(text.lines().count() > 2, "seeklab {}: {text}", arguments.join(" "));
    text
}

/// A device of the catalog with a long name, in a file.
fn long_name(bench: &Bench) -> &'static str {
    let name = "a-disk-with-a-name-that-is-longer-than-any-column.toml";
    bench.write(name, "base = \"cheetah-36es\"\n[set]\nrpm = \"15000rpm\"\n");
    name
}

#[test]
fn simulations_and_comparisons_fit() {
    let bench = Bench::new();
    let long = long_name(&bench);
    assert_fits(&bench, &["simulate", "hp-c2247a", "-w", RANDOM, "--out", "a.csv"]);
    let three = ["simulate", "hp-c2247a", long, "nearline-7200", "-w", RANDOM];
    let text = assert_fits(&bench, &three);
    for part in ["busy %", "±95%", "p99.9", "max", "where the time goes"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let queued = ["--scheduler", "aged-sptf(10ms)", "--depth", "1", "-w", "random,closed=64,requests=20000"];
    assert_fits(&bench, &[&["simulate", long, "nearline-7200"], &queued[..]].concat());
    bench.run(&["simulate", "cheetah-36es", "-w", "a.csv", "--out", "b.csv"]).done();
    assert_fits(&bench, &["compare", "a.csv", "b.csv"]);
    bench.write("points.csv", SEEN);
    assert_fits(&bench, &["compare", "points.csv", "--between", "mp1,mp3"]);
}

#[test]
fn measurements_fit() {
    let bench = Bench::new();
    let text = assert_fits(&bench, &["bench", "model:cheetah-36es", "-w", "oltp,poisson=60/s,requests=3000"]);
    for part in ["IOPS", "MiB/s", "p99.99", "longest pause", "until s", "read service"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let null = ["bench", "null", "-w", "random,size=4KiB,read=100%,closed=4,requests=20000"];
    let text = assert_fits(&bench, &null);
    assert!(text.contains("processor time per request"), "{text}");
}

#[test]
fn traces_and_devices_fit() {
    let bench = Bench::new();
    let trace = "a-trace-with-a-long-name-that-says-where-it-was-recorded.csv";
    bench.run(&["simulate", "hp-c2247a", "-w", "random,closed=8,requests=3000", "--out", trace]).done();
    assert_fits(&bench, &["trace", "info", trace]);
    assert_fits(&bench, &["trace", "head", trace]);
    let list = assert_fits(&bench, &["devices"]);
    assert!(list.contains("hp-c2247a") && list.contains("validated against"), "{list}");
    for device in ["hp-c2247a", "nearline-7200", "immediate", long_name(&bench)] {
        assert_fits(&bench, &["devices", device]);
    }
    assert_fits(&bench, &["devices", "--kinds"]);
    for kind in ["disk", "station", "queue"] {
        assert_fits(&bench, &["devices", "--parameters", kind]);
    }
    assert_fits(&bench, &["workloads"]);
    for kind in ["synthetic", "replay", "postmark"] {
        assert_fits(&bench, &["workloads", "--parameters", kind]);
    }
    for fault in ["delay", "throttle", "fail-slow-drive"] {
        assert_fits(&bench, &["faults", fault]);
    }
    assert_fits(&bench, &["faults"]);
    assert_fits(&bench, &["trace", "columns"]);
}

#[test]
fn fits_of_traces_and_of_fio_fit() {
    let bench = Bench::new();
    bench.run(&["simulate", "hp-c2247a", "-w", "random,poisson=40/s,requests=6000", "--out", "t.csv"]).done();
    let text = assert_fits(&bench, &["fit", "t.csv", "-o", "c.toml", "--model", "station,plain"]);
    for part in ["demerit", "random variation", "usable", "Density"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_fits(&bench, &["devices", "c.toml"]);
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../learning/tests/data/fio/disk.json");
    bench.write("disk.json", std::fs::read(sample).unwrap());
    let text = assert_fits(&bench, &["fit", "disk.json", "-o", "s.toml"]);
    assert!(text.contains("in sample: IOPS %") && text.contains("from the others: IOPS %"), "{text}");
}

#[test]
fn experiments_and_runs_fit() {
    let bench = Bench::new();
    bench.write(
        "e.toml",
        "devices = [\"hp-c2247a\", \"cheetah-36es\"]\nworkloads = [\"random,poisson=20/s\"]\n\
         schedulers = [\"fcfs\", \"sptf\"]\nrepetitions = 2\nrequests = 200\n\
         [[parameters]]\nname = \"workload.arrivals.rate\"\nvalues = [\"20/s\", \"40/s\"]\n",
    );
    assert_fits(&bench, &["experiment", "e.toml"]);
    let run = ["run", "constant-5ms.toml", "--compare", "immediate", "--repeat", "2", "--builtin"];
    bench.write("constant-5ms.toml", "base = \"immediate\"\n[set]\nservice_time = \"5ms\"\n");
    let text = assert_fits(&bench, &[&run[..], &["postmark,transactions=20,files=10"]].concat());
    for part in ["elapsed s", "flush s", "late p99 us", "missed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
