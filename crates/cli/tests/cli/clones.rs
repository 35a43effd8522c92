//! Devices cloned from their traces: fitted, described, simulated, and what is wrong with a trace.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::bench::Bench;

const WORKLOAD: &str = "random,poisson=40/s,requests=20000";

#[test]
fn does_a_clone_stand_in_for_a_simulated_disk() {
    let bench = Bench::new();
    bench.run(&["simulate", "atlas10k", "-w", WORKLOAD, "--out", "seen.parquet"]).done();
    let document = bench.json(&["fit", "seen.parquet", "-o", "clone.toml"]);
    let fit = &document["fit"];
    assert_eq!(fit["requests"], 20_000);
    let evaluation = &fit["evaluations"][0];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
    // Stationary, and what its times depend on is in the tables but for the rotation, which is as good as random.
    assert!(number(&evaluation["to_p99"]["ea_rms_pct"]) < 3.0, "{evaluation}");
    assert!(number(&evaluation["floor_to_p99"]["ea_rms_pct"]) > 0.0, "{evaluation}");
    let fitted = number(&evaluation["fitted"]) + number(&evaluation["predicted"]);
    assert_eq!(fitted, 20_000.0);
    // The clone is a device like any other: another draw of the same workload.
    let simulate = |device: &str| {
        let other = ["simulate", device, "-w", WORKLOAD, "--seed", "2", "--out", "other.parquet"];
        bench.run(&other).done();
        let information = bench.json(&["trace", "info", "other.parquet"]);
        bench.run(&["trace", "head", "other.parquet", "--rows", "1"]).done();
        information
    };
    simulate("clone.toml");
    let mean = |device: &str| {
        let document = bench.json(&["simulate", device, "-w", WORKLOAD, "--seed", "2"]);
        number(&document["devices"][0]["response_mean_ms"])
    };
    let (clone, original) = (mean("clone.toml"), mean("atlas10k"));
    assert!((clone / original - 1.0).abs() < 0.02, "{clone} ms, {original} of the original");
    let shown = bench.run(&["devices", "clone.toml"]).done();
    assert!(shown.contains("seen.parquet") && shown.contains("demerit"), "{shown}");
}

#[test]
fn is_what_cannot_be_fitted_told() {
    let bench = Bench::new();
    bench.write("none.spc", "0,303567,3584,w,0.000000\n0,55590,3072,r,0.1\n0,303574,3584,w,0.2\n");
    bench
        .run(&["fit", "none.spc", "-o", "x.toml"])
        .fails(&["no request of the trace has a response time", "hint"]);
    bench.write(
        "two.csv",
        "arrival_ns,response_ns,device,op,lbn,blocks\n0,1000,0,read,0,8\n10,1000,1,read,8,8\n",
    );
    bench.run(&["fit", "two.csv", "-o", "x.toml"]).fails(&["2 devices", "--device"]);
    bench.run(&["fit", "two.csv", "-o", "x.toml", "--device", "7"]).fails(&["--device 7", "0, 1"]);
    bench
        .run(&["fit", "two.csv", "-o", "x.toml", "--device", "0", "--queue-classes", "3"])
        .fails(&["1, 2 or 4"]);
    bench.run(&["fit", "absent.csv", "-o", "x.toml"]).fails(&["absent.csv"]);
    assert!(!bench.path("x.toml").exists());
    bench.run(&["fit", "two.csv", "-o", "one.toml", "--device", "0"]).done();
    let text = String::from_utf8(bench.read("one.toml")).unwrap();
    bench.write("bad.toml", text.replace("read 8 0 0:", "move 8 0 0:"));
    bench
        .run(&["simulate", "bad.toml", "-w", "random,poisson=1/s,requests=5"])
        .fails(&["cells[0]", "`move`"]);
}

/// A folder of shared traces; without it the test is skipped, or fails where it is required.
fn shared(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(folder);
    if path.exists() {
        return Some(path);
    }
    let required = std::env::var_os("SEEKLAB_REQUIRE_SHARED").is_some_and(|value| value == "1");
    assert!(!required, "{} is absent, but SEEKLAB_REQUIRE_SHARED=1", path.display());
    eprintln!("skipped: {} is absent", path.display());
    None
}

#[test]
fn does_the_plain_technique_predict_real_drives_as_well_as_it_is_said_to() {
    let Some(folder) = shared("disksim-validate") else { return };
    let bench = Bench::new();
    // One request at a time, one workload: demerit to p99 of the second half, as docs/models/table.md has it.
    for (trace, most_pct) in REAL_DRIVES {
        let path = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.file_name().unwrap().to_string_lossy().contains(trace))
            .unwrap_or_else(|| panic!("{trace} is not in {}", folder.display()));
        let document = bench.json(&["fit", path.to_str().unwrap(), "-o", "clone.toml"]);
        let to_p99 = document["fit"]["evaluations"][0]["to_p99"]["ea_rms_pct"].as_f64().unwrap();
        assert!(to_p99 <= most_pct, "{trace}: {to_p99} %, at most {most_pct} % is said");
    }
}

/// Measured drives, and what the demerit to p99 may be in percent: what was measured, rounded up.
const REAL_DRIVES: [(&str, f64); 6] = [
    ("atlas10k", 2.5),
    ("cheetah9LP", 1.8),
    ("barracuda", 1.4),
    ("hp_c2247a", 1.3),
    ("hp_c2490a", 1.5),
    ("dec_rz26", 1.8),
];
