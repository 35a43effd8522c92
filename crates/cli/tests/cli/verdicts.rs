//! Tests of the verdict on a clone: the loads that it is good for, and too few requests to say so.

use serde_json::Value;

use super::bench::{Bench, unfolded};

/// A trace in which writes stay as they are, and reads, every tenth request, take twice as long in the second half.
fn slower_reads() -> String {
    let mut text = "arrival_ns,response_ns,device,op,lbn,blocks\n".to_owned();
    for index in 0..8_000_u64 {
        let (op, response) = match index % 10 {
            3 => ("read", if index < 4_000 { 1_000_000 } else { 2_000_000 }),
            _ => ("write", 4_000_000 + index * 7_919 % 2_000 * 1_000),
        };
        text += &format!("{},{response},0,{op},{},8\n", index * 10_000_000, index * 104_729 % 1_000_000);
    }
    text
}

#[test]
fn fit_names_the_worst_class_and_judges_each_operation() {
    let bench = Bench::new();
    bench.write("reads.csv", slower_reads());
    let fit = ["fit", "reads.csv", "-o", "clone.toml", "--report", "fit.html", "--model", "station"];
    let document = bench.json(&fit);
    let evaluation = &document["fit"]["evaluations"][0];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
    assert!(number(&evaluation["demerit_to_p99"]["ea_rms_pct"]) < 10.0, "good over all: {evaluation}");
    let worst = &evaluation["worst_class"];
    assert_eq!((&worst["operation"], &worst["queue_length_min"]), (&"read".into(), &0.into()), "{worst}");
    assert!((number(&worst["requests_pct"]) - 10.0).abs() < 0.1, "{worst}");
    assert!((number(&worst["mean_error_pct"]) + 50.0).abs() < 1.0, "{worst}");
    let operations = evaluation["operations"].as_array().unwrap().iter();
    let verdicts: Vec<_> = operations.map(|of| (of["operation"].clone(), of["verdict"].clone())).collect();
    let expected = [("read", "not_usable"), ("write", "usable")];
    assert_eq!(verdicts, expected.map(|(op, verdict)| (op.into(), verdict.into())), "{evaluation}");
    let sentence = "Worst class: read at queue length 0 (10.0 % of the requests). Their mean is 2.000 ms";
    let text = bench.run(&fit).done();
    assert!(text.replace('\n', " ").contains(sentence), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("read, station") && line.ends_with("not usable")),
        "{text}"
    );
    let page = String::from_utf8(bench.read("fit.html")).unwrap();
    for part in [sentence, "not usable"] {
        assert!(page.contains(part), "{part}");
    }
    let shown = unfolded(&bench.run(&["devices", "clone.toml"]).done());
    assert!(shown.contains("; read: not usable (mean -4") && shown.contains("; write: usable ("), "{shown}");
}

#[test]
fn fit_states_the_loads_that_the_clone_is_good_for() {
    let bench = Bench::new();
    bench.write("reads.csv", slower_reads());
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
            "not measured: 1 request was fitted and",
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
