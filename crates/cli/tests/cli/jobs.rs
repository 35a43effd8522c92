//! Streams of jobs: simulated, and estimated without running.

use serde_json::Value;

use crate::bench::{Bench, unfolded};

/// The example of the documentation.
const MIX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/job-streams/mix.toml");

fn estimate<'a>(document: &'a Value, point: usize, method: &str) -> &'a Value {
    let estimates = document["devices"][0]["points"][point]["estimates"].as_array().unwrap();
    estimates.iter().find(|estimate| estimate["method"] == method).unwrap()
}

#[test]
fn job_slot_and_simulation_of_the_example_agree() {
    let bench = Bench::new();
    let simulated = bench.json(&["simulate", "berkeley-1975", "-w", MIX]);
    let jobs = &simulated["devices"][0]["jobs"];
    assert_eq!(
        (&jobs["finished"], &jobs["jobs"], &jobs["sectors"]),
        (&true.into(), &20.into(), &40_000.into())
    );
    let estimated = bench.json(&["estimate", "berkeley-1975", "-w", MIX]);
    let slot = estimate(&estimated, 0, "job_slot");
    let near = |key: &str, tolerance: f64| {
        let (found, expected) = (slot[key].as_f64().unwrap(), jobs[key].as_f64().unwrap());
        assert!((found / expected - 1.0).abs() < tolerance, "{key}: {found}, simulated {expected}");
    };
    near("elapsed_s", 0.1);
    near("calls", 0.2);
    near("job_processor_s", 1e-3);
    assert_eq!(slot["error_max_pct"], 8.9);
    // The processor is not the bottleneck here.
    let alone = estimate(&estimated, 0, "processor_alone")["elapsed_s"].as_f64().unwrap();
    assert!(alone < 0.9 * jobs["elapsed_s"].as_f64().unwrap(), "{alone}");
}

#[test]
fn varied_parameter_has_a_row_for_each_value_and_a_plot() {
    let bench = Bench::new();
    let line = ["estimate", "berkeley-1975", "-w", MIX, "--vary", "threshold=2..8"];
    let document = bench.json(&[&line[..], &["--report", "report.html"]].concat());
    let values: Vec<u64> = document["devices"][0]["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["value"].as_u64().unwrap())
        .collect();
    assert_eq!(values, [2, 3, 4, 5, 6, 7, 8]);
    // Figure 7: both ends of the threshold cost more than its middle.
    let elapsed = |point: usize| estimate(&document, point, "lindsay_ferrari")["elapsed_s"].as_f64().unwrap();
    assert!(
        elapsed(0) > elapsed(3) && elapsed(6) > elapsed(3),
        "{} {} {}",
        elapsed(0),
        elapsed(3),
        elapsed(6)
    );
    let page = String::from_utf8(bench.read("report.html")).unwrap();
    assert!(page.contains("elapsed time over threshold"), "the page has the plot");
    let text = bench.run(&line).done();
    assert!(text.contains("lindsay_ferrari") && text.contains("job_slot"), "{text}");
}

#[test]
fn estimates_of_jobs_refuse_what_does_not_fit() {
    let bench = Bench::new();
    for (arguments, part) in [
        (&["-w", "random,poisson=5/s", "--vary", "buffer=8..64"][..], "is no stream of jobs"),
        (&["-w", MIX, "--until", "response_p99_ms<=20"], "has no rate that could grow"),
        (&["-w", MIX, "--vary", "buffer=2..3"], "threshold: 4 sectors are more than the buffer has"),
        (&["-w", MIX, "--vary", "cycles=1..8"], "`cycles` cannot be varied"),
        (&["-w", MIX, "--closed", "4"], "is a stream of jobs"),
        (&["-w", "jobs,buffer=4,input=5/s:40%,output=5/s"], "the shares of the states sum to 40.000000 %"),
        (&["-w", "jobs,buffer=4,input=0/s,output=5/s"], "0/s"),
        (&["-w", "jobs,buffer=4,sector=100B,input=5/s,output=5/s"], "are not whole blocks"),
    ] {
        let run = bench.run(&[&["estimate", "berkeley-1975"], arguments].concat());
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.stderr);
        assert!(unfolded(&run.stderr).contains(part), "{arguments:?}: {}", run.stderr);
    }
}
