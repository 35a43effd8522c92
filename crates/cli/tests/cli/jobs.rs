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
fn simulated_stream_of_jobs_stands_beside_its_estimates() {
    let bench = Bench::new();
    let line = ["simulate", "berkeley-1975", "-w", MIX, "--estimate"];
    let document = bench.json(&line);
    let device = &document["devices"][0];
    let check = &device["jobs_estimate_check"];
    assert_eq!((&check["agrees"], device.get("estimate_check")), (&true.into(), None), "{document:#}");
    let estimated = bench.json(&["estimate", "berkeley-1975", "-w", MIX]);
    let of_one_slot = |key: &str| device["jobs"][key].as_f64().unwrap() / 2.0;
    for (place, method) in ["job_slot", "lindsay_ferrari", "processor_alone"].into_iter().enumerate() {
        let found = &check["methods"][place];
        // The figures are those of `estimate`.
        for (key, value) in estimate(&estimated, 0, method).as_object().unwrap() {
            assert_eq!(&found[key], value, "{method}: {key}");
        }
        let difference = |key: &str, estimated: &str, simulated: f64| {
            let expected = 100.0 * (found[estimated].as_f64().unwrap() / simulated - 1.0);
            assert!((found[key].as_f64().unwrap() - expected).abs() < 1e-5, "{method}: {key}: {expected}");
        };
        difference("elapsed_difference_pct", "elapsed_s", 2.0 * of_one_slot("elapsed_s"));
        difference("calls_difference_pct", "calls", 2.0 * of_one_slot("calls"));
        difference("blocked_difference_pct", "blocked_s", of_one_slot("blocked_s"));
    }
    // No error is known where the processor is the bottleneck, as it is by this method.
    assert_eq!(check["methods"][2]["agrees"], Value::Null);
    let run = bench.run(&line);
    let output = unfolded(&(run.stdout + &run.stderr));
    for part in [
        "the estimate by `job_slot` agrees with the simulation: elapsed time 407.54 s, a difference of -4.9 % (error of such estimates up to 8.9 %)",
        "the estimate by `processor_alone` has no known error to compare with",
        "(no error of such estimates is known)",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
}

#[test]
fn estimates_of_a_stream_that_a_limit_ended_are_not_compared() {
    let bench = Bench::new();
    let two_drives = "jobs,drives=2,multiprogramming=4,buffer=8,input=2000/s,output=2000/s";
    let line =
        ["simulate", "berkeley-1975", "-w", two_drives, "--estimate", "--max-outstanding", "1", "--json"];
    let run = bench.run(&line);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    let check = &document["devices"][0]["jobs_estimate_check"];
    assert_eq!(
        (&check["agrees"], &check["methods"][0]["elapsed_difference_pct"]),
        (&Value::Null, &Value::Null)
    );
    assert!(check["notes"].to_string().contains("ended before the stream"), "{check:#}");
}

#[test]
fn error_of_an_estimate_on_a_disk_with_a_buffer_is_unknown() {
    let bench = Bench::new();
    let document = bench.json(&["simulate", "cheetah-36es", "-w", MIX, "--estimate"]);
    let check = &document["devices"][0]["jobs_estimate_check"];
    assert_eq!(check["agrees"], Value::Null, "{check:#}");
    assert!(check["methods"][0]["elapsed_difference_pct"].is_f64(), "{check:#}");
    assert!(check["notes"].to_string().contains("access times are those of calls at random places"));
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
        assert_eq!(compared["at_equal_speed"][key], compared[key], "{key}");
    }
    assert_eq!(compared["speed"], 1.0);
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
