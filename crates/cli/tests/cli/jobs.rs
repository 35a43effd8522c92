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

/// A stream of 80 ms of processor time.
const SHORT: &str =
    "jobs,jobs=4,cycles=25,buffer=8,input=100000/s:50%:9+2000/s:50%:9,output=100000/s:50%:9+2000/s:50%:9";

/// The device, a hundred times faster.
const FAST: [&str; 5] = ["berkeley-1975", "--set", "access_time=600us", "--set", "block_time=50us"];

#[test]
fn jobs_run_for_real_with_the_processor_time_of_the_simulation() {
    let bench = Bench::new();
    bench.write(
        "mix.toml",
        "kind = 'jobs'\njobs = 2\ncycles = 20\nbuffer = 4\ninput = '2000/s'\noutput = '2000/s'\n",
    );
    for (workload, more) in [
        ("mix.toml", &[][..]),
        (SHORT, &["--repeat", "2"]),
        (&*format!("{SHORT},drives=2,multiprogramming=4"), &["--record", "recorded"]),
        (&*format!("{SHORT},transfers=sized_at_start,reactivation=sector,multiprogramming=1"), &[]),
    ] {
        let simulated = bench.json(&[&["simulate"], &FAST[..], &["-w", workload]].concat());
        let simulated = &simulated["devices"][0]["jobs"];
        let ran = bench.json(&[&["run"], &FAST[..], &["--builtin", workload], more].concat());
        assert_eq!(ran["application"]["jobs"], workload);
        for repetition in ran["devices"][0]["repetitions"].as_array().unwrap() {
            let jobs = &repetition["jobs"];
            for key in ["finished", "jobs", "sectors"] {
                assert_eq!(jobs[key], simulated[key], "{workload}: {key}");
            }
            let seconds = |jobs: &Value, key: &str| jobs[key].as_f64().unwrap();
            let (found, drawn) = (seconds(jobs, "job_processor_s"), seconds(simulated, "job_processor_s"));
            assert!((drawn..2.0 * drawn).contains(&found), "{workload}: {found} {drawn}");
            assert!(seconds(jobs, "system_processor_s") > 0.0, "{workload}");
            assert!(["real_time", "ordinary"].contains(&jobs["scheduling"].as_str().unwrap()));
            assert_eq!(repetition["unmatched"], 0, "{workload}: requests of host and emulator are the same");
        }
    }
    // Both drives are in the trace.
    let info = bench.json(&["trace", "info", "recorded/berkeley-1975-1.parquet"]);
    let info = info.to_string();
    assert!(info.contains("\"requests\":200"), "{info}");
    let report = bench.run(&[&["run"], &FAST[..], &["--builtin", "mix.toml"]].concat()).done();
    assert!(unfolded(&report).contains("note: berkeley-1975: 2 jobs took"), "{report}");
}

#[test]
fn real_runs_of_jobs_refuse_what_does_not_fit() {
    let bench = Bench::new();
    bench.write("wrong.toml", "kind = 'jobs'\nbuffer = 8\nthreshold = 9\ninput = '5/s'\noutput = '5/s'\n");
    for (arguments, part) in [
        (
            &["--builtin", &*format!("{SHORT},multiprogramming=65")][..],
            "multiprogramming: 65 job slots are too many",
        ),
        (&["--builtin", "wrong.toml"], "threshold: 9 sectors are more than the buffer has"),
        (&["--builtin", "absent.toml"], "there is no such file"),
        (&["--builtin", "jobs,buffer=8,cycles=0,input=5/s,output=5/s"], "no job reads or writes a sector"),
        (&["--builtin", "jobs,buffer=8,multiprogramming=2.5,input=5/s,output=5/s"], "multiprogramming"),
        (&["--builtin", SHORT, "--retries", "2"], "--retries: "),
        (&["--builtin", SHORT, "--size", "4KiB"], "files of 25 sectors do not fit a device of 8"),
        (&["--builtin", "postmark", "--block"], "is no stream of jobs"),
        (&["--builtin", "replay,trace=a.csv"], "is not an application"),
    ] {
        let run = bench.run(&[&["run", "berkeley-1975"], arguments].concat());
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.stderr);
        assert!(unfolded(&run.stderr).contains(part), "{arguments:?}: {}", run.stderr);
    }
}

/// A recorded `cp -r` on ext2.
const COPY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/copy.sys");

#[test]
fn recorded_program_becomes_a_stream_that_can_be_simulated() {
    let bench = Bench::new();
    let fitted = bench.json(&["fit", COPY, COPY, "--as", "jobs", "-o", "mix.toml"]);
    assert_eq!((&fitted["jobs"], &fitted["multiprogramming"]), (&1.into(), &1.into()));
    for rates in ["input_rates", "output_rates"] {
        let states = fitted[rates]["states"].as_array().unwrap();
        assert!((1..=8).contains(&states.len()), "{states:?}");
        let share: f64 = states.iter().map(|state| state["share_pct"].as_f64().unwrap()).sum();
        assert!((share - 100.0).abs() < 1e-6, "{share}");
    }
    let compared = &fitted["compared"][0];
    for key in ["input_distance", "output_distance", "write_request_distance"] {
        assert!(compared[key].as_f64().unwrap().abs() < 1e-12, "{key}: {compared}");
    }
    let simulated = bench.json(&["simulate", "cheetah-36es", "-w", "mix.toml"]);
    let jobs = &simulated["devices"][0]["jobs"];
    assert_eq!(jobs["finished"], true);
    let (stream, drawn) = (&jobs["job_processor_s"], &fitted["stream_processor_s"]);
    assert!((stream.as_f64().unwrap() / drawn.as_f64().unwrap() - 1.0).abs() < 0.01, "{stream} {drawn}");
    let text = bench.run(&["fit", COPY, "--as", "jobs", "-o", "mix.toml", "--states", "1"]).done();
    assert!(text.contains("residence"), "{text}");
}

#[test]
fn fits_of_jobs_refuse_what_is_no_system_level_trace() {
    let bench = Bench::new();
    bench.trace("t.csv");
    for (arguments, part) in [
        (&["t.csv", "--as", "jobs"][..], "is no system-level trace"),
        (&[COPY, "--as", "jobs", "--split", "20%"], "cannot be used with"),
        (&["t.csv", "--sector", "4KiB"], "--as"),
    ] {
        let run = bench.run(&[&["fit"], arguments, &["-o", "mix.toml"]].concat());
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.stderr);
        assert!(unfolded(&run.stderr).contains(part), "{arguments:?}: {}", run.stderr);
    }
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
