//! Tests of the verdict on a clone: the loads that it is good for, and too few requests to say so.

use super::bench::{Bench, unfolded};

#[test]
fn fit_states_the_loads_that_the_clone_is_good_for() {
    let bench = Bench::new();
    // Reads, every tenth request, take twice as long in the second half.
    let mut text = "arrival_ns,response_ns,device,op,lbn,blocks\n".to_owned();
    for index in 0..8_000_u64 {
        let (op, response) = match index % 10 {
            3 => ("read", if index < 4_000 { 1_000_000 } else { 2_000_000 }),
            _ => ("write", 4_000_000 + index * 7_919 % 2_000 * 1_000),
        };
        text += &format!("{},{response},0,{op},{},8\n", index * 10_000_000, index * 104_729 % 1_000_000);
    }
    bench.write("reads.csv", text);
    let fit = ["fit", "reads.csv", "-o", "clone.toml", "--model", "station"];
    let printed = bench.run(&fit).done();
    let sentence = "The clone (`station`) stands in for the device at the mean within 1 % and at p99 within 1 %, for writes \
                    under loads like those of the trace; not for reads (mean -50 %).";
    assert!(unfolded(&printed).contains(sentence), "{printed}");
    let at = |part: &str| printed.find(part).unwrap_or_else(|| panic!("{part}: {printed}"));
    assert!(
        at("The clone (") < at("Worst class: read") && at("Worst class: read") < at("response time ms"),
        "{printed}"
    );
    let suitability = bench.json(&fit)["suitability"].take();
    assert_eq!(
        (&suitability["operations"], &suitability["mean_within_pct"]),
        (&["write"].into(), &1.0.into())
    );
    // Bounds that hold, that do not, and that are unknown.
    bench.run(&[&fit[..], &["--require", "write_p99_pct<=20,out_of_range_pct<=1"]].concat()).done();
    for (requirement, reason) in
        [("read_mean_pct<=20", "it is 49"), ("mean_pct<=20", "it is 49"), ("flush_mean_pct<=20", "unknown")]
    {
        let required = [&fit[..], &["--require", requirement]].concat();
        let run = bench.run(&required);
        run.misses(&[requirement, reason]);
        assert!(bench.path("clone.toml").exists(), "the clone is written all the same");
    }
    bench.run(&[&fit[..], &["--require", "read_p98_pct<=20"]].concat()).fails(&["did you mean"]);
    // A single request is no validation; nor is none, for which no model of the first part is fitted.
    for (split, printed, kept) in [
        (
            "99.99%",
            "fitted and 1 left to predict, and at least 100",
            "fitted and 1 left to predict, and 100 of each",
        ),
        (
            "0.01%",
            "Not validated: of the requests, 1 are fitted and",
            "not measured: 1 requests were fitted and",
        ),
        ("100%", "no requests are left to predict", "not measured: there was nothing to predict"),
    ] {
        let text = unfolded(&bench.run(&[&fit[..], &["--split", split]].concat()).done());
        assert!(text.contains(printed), "{split}: {text}");
        let shown = unfolded(&bench.run(&["devices", "clone.toml"]).done());
        assert!(shown.contains(kept), "{split}: {shown}");
    }
    let unknown = [&fit[..], &["--split", "100%", "--require", "write_mean_pct<=20"]].concat();
    bench.run(&unknown).misses(&["write_mean_pct<=20", "unknown"]);
}

#[test]
fn few_requests_of_an_operation_judge_nothing() {
    let bench = Bench::new();
    let mut text = "arrival_ns,response_ns,device,op,lbn,blocks\n".to_owned();
    for index in 0..4_000_u64 {
        let op = if index % 1_000 == 7 { "read" } else { "write" };
        let response = 4_000_000 + index * 7_919 % 2_000 * 1_000;
        text += &format!("{},{response},0,{op},{},8\n", index * 10_000_000, index * 104_729 % 1_000_000);
    }
    bench.write("writes.csv", text);
    let fit = ["fit", "writes.csv", "-o", "clone.toml", "--model", "plain"];
    let suitability = bench.json(&fit)["suitability"].take();
    assert_eq!(
        (&suitability["operations"], &suitability["not_judged"]),
        (&serde_json::json!(["write"]), &serde_json::json!(["read"]))
    );
    let printed = unfolded(&bench.run(&fit).done());
    assert!(
        printed.contains("for writes under loads") && printed.contains("Too few to judge: reads."),
        "{printed}"
    );
    bench.run(&[&fit[..], &["--require", "mean_pct<=20"]].concat()).done();
    for requirement in ["read_mean_pct<=1000", "read_class_pct<=1000"] {
        bench.run(&[&fit[..], &["--require", requirement]].concat()).misses(&[requirement, "unknown"]);
    }
}
