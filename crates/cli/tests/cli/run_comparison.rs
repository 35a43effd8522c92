//! `seeklab bench compare`: changes between repeated runs, thresholds, and mistakes.

use super::bench::{Bench, unfolded};

/// Five runs in virtual time in that folder.
fn runs(bench: &Bench, folder: &str, seeds: std::ops::Range<u32>, more: &[&str]) {
    for seed in seeds {
        let (folder, seed) = (format!("{folder}/{seed}"), seed.to_string());
        let load = "random,size=4KiB,read=100%,poisson=60/s,requests=2000";
        let run = ["bench", "model:cheetah-36es", "-w", load, "--seed", &seed, "--folder", &folder];
        bench.run(&[&run[..], more].concat()).done();
    }
}

#[test]
fn slower_system_exceeds_its_threshold_and_the_same_system_does_not() {
    let bench = Bench::new();
    runs(&bench, "before", 0..5, &[]);
    runs(&bench, "same", 10..15, &[]);
    runs(&bench, "slow", 20..25, &["--fault", "delay,add=2ms"]);
    let threshold = ["--fail-if", "response_p99_ms +5%", "--fail-if", "requests_per_second -5%"];
    let compare = |after: &str| bench.run(&[&["bench", "compare", "before", after][..], &threshold].concat());
    let same = compare("same");
    let text = unfolded(&same.stdout);
    assert_eq!(same.code, 0, "{text}");
    let slow = compare("slow");
    assert_eq!(slow.code, 1, "{}", slow.stdout);
    assert!(slow.stderr.contains("the change exceeds response_p99_ms +5%"), "{}", slow.stderr);
    assert!(!slow.stderr.contains("requests_per_second"), "the load is open: {}", slow.stderr);
    let run = ["bench", "compare", "before", "slow", "--fail-if", "read.service_mean_ms +400%", "--json"];
    let document: serde_json::Value = serde_json::from_str(&bench.run(&run).done()).unwrap();
    assert_eq!((document["before_runs"].as_u64(), document["after_runs"].as_u64()), (Some(5), Some(5)));
    assert_eq!(document["thresholds"][0]["verdict"], "kept");
    let mean = document["figures"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["figure"] == "response_mean_ms")
        .unwrap();
    let of = |key: &str| mean[key].as_f64().unwrap();
    assert!(of("change_low_pct") > 0.0 && of("change_low_pct") < of("change_pct"), "{mean:#}");
    assert!(of("change_pct") < of("change_high_pct") && of("runs_needed") <= 5.0, "{mean:#}");
}

#[test]
fn undecided_threshold_names_the_runs_that_would_decide_it() {
    let bench = Bench::new();
    runs(&bench, "before", 0..2, &[]);
    runs(&bench, "after", 2..4, &[]);
    let run = bench.run(&["bench", "compare", "before", "after", "--fail-if", "response_p99_ms +0.1%"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = unfolded(&run.stdout);
    assert!(
        text.contains("undecided; about ") && text.contains("runs of each side would decide it"),
        "{text}"
    );
}

#[test]
fn repetitions_of_a_run_are_runs() {
    let bench = Bench::new();
    for (folder, seed) in [("before", "1"), ("after", "9")] {
        let load = "random,size=4KiB,read=100%,poisson=60/s,requests=2000";
        let run =
            ["bench", "model:cheetah-36es", "-w", load, "--seed", seed, "--repeat", "4", "--folder", folder];
        bench.run(&run).done();
    }
    let compared =
        bench.json(&["bench", "compare", "before", "after", "--fail-if", "read.response_mean_ms +50%"]);
    assert_eq!((&compared["before_runs"], &compared["after_runs"]), (&4.into(), &4.into()));
    assert_eq!(compared["thresholds"][0]["verdict"], "kept", "{compared}");
    let repeated: serde_json::Value = serde_json::from_slice(&bench.read("before/run.json")).unwrap();
    let figures = compared["figures"].as_array().unwrap();
    let mean = figures.iter().find(|figure| figure["figure"] == "response_mean_ms").unwrap();
    let (ours, theirs) = (&mean["before_mean"], &repeated["repeated"][0]["response_mean_ms"]["mean"]);
    assert!((ours.as_f64().unwrap() - theirs.as_f64().unwrap()).abs() < 1e-4, "{ours}, {theirs}");
}

#[test]
fn phases_and_streams_of_repeated_plans_are_compared_by_name() {
    let bench = Bench::new();
    let phase = |name: &str| format!("[[phases]]\nname = \"{name}\"\nrequests = 500\n");
    let stream = |name: &str, rate: u32| {
        let load = format!("random,size=4KiB,read=100%,poisson={rate}/s");
        format!("[[phases.streams]]\nname = \"{name}\"\nworkload = \"{load}\"\n")
    };
    let (idle, burst) =
        (phase("idle") + &stream("x", 20), phase("burst") + &stream("x", 40) + &stream("y", 40));
    let plan = format!("target = \"model:cheetah-36es\"\n{idle}{burst}");
    bench.write("plan.toml", plan);
    for (folder, seed) in [("cA", "1"), ("cB", "9")] {
        bench.run(&["bench", "plan.toml", "--seed", seed, "--repeat", "5", "--folder", folder]).done();
    }
    let threshold = ["--fail-if", "phases.burst.response_p99_ms +50%"];
    let compared = bench.json(&[&["bench", "compare", "cA", "cB"][..], &threshold].concat());
    assert_eq!((&compared["before_runs"], &compared["after_runs"]), (&5.into(), &5.into()));
    assert_eq!(compared["thresholds"][0]["verdict"], "kept", "{compared:#}");
    let figures = compared["figures"].as_array().unwrap();
    let repeated: serde_json::Value = serde_json::from_slice(&bench.read("cA/run.json")).unwrap();
    for (name, place) in [("phases.idle", 0), ("phases.burst", 1), ("phases.burst.streams.y", 3)] {
        let name = format!("{name}.response_p99_ms");
        let of = figures.iter().find(|figure| figure["figure"] == name.as_str()).unwrap();
        assert!(of["change_low_pct"].is_number(), "{of:#}");
        let mean = &repeated["repeated"][place]["response_p99_ms"]["mean"];
        assert!(
            (of["before_mean"].as_f64().unwrap() - mean.as_f64().unwrap()).abs() < 1e-4,
            "{name}: {mean}"
        );
    }
    // Percentiles of both phases together are none of any load.
    assert!(!figures.iter().any(|figure| figure["figure"] == "response_p99_ms"), "{figures:#?}");
    bench
        .run(&["bench", "compare", "cA", "cB", "--fail-if", "response_p99_ms +5%"])
        .fails(&["not every run has a figure `response_p99_ms`", "such as `phases.idle.response_p99_ms`"]);
}

#[test]
fn mistakes_are_named() {
    let bench = Bench::new();
    runs(&bench, "one", 0..1, &[]);
    bench.write("other.json", "{}");
    std::fs::create_dir(bench.path("empty")).unwrap();
    let run = |arguments: &[&str]| bench.run(&[&["bench", "compare"], arguments].concat());
    run(&["one", "absent"]).fails(&["absent"]);
    run(&["one", "empty"]).fails(&["empty: has no results", "--folder"]);
    run(&["one", "other.json"]).fails(&["other.json: is no result of seeklab bench"]);
    run(&["one", "one", "--fail-if", "response_p99_ms +5%"]).fails(&["no interval", "2 runs"]);
    run(&["one", "one", "--fail-if", "response_p98_ms +5%"])
        .fails(&["`response_p98_ms`", "seeklab schema bench"]);
    run(&["one", "one", "--fail-if", "response_p99_ms 5%"]).fails(&["'response_p99_ms +5%'"]);
    let text = unfolded(&run(&["one", "one/0/run.json"]).done());
    assert!(text.contains("1 run before and 1 run after"), "{text}");
}
