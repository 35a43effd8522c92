//! Emulated traces, compared between their measurement points.

use crate::bench::Bench;

/// Three requests that took 1,000 us in the model; the second reply left 100 us late, the third request was
/// not matched with the host's.
pub(crate) const SEEN: &str = "\
# block_size: 512B
# floor: 2ms
arrival_ns,completion_ns,op,lbn,blocks,mp1_arrival_ns,mp1_completion_ns,mp2_arrival_ns,mp2_due_ns,mp2_completion_ns,miss_cause
10000,1010000,read,0,8,4000,1024000,10000,1005000,1006000,
2010000,3010000,write,8,8,2004000,3124000,2010000,3005000,3105000,kernel_scheduling
4010000,5010000,flush,,,,,4010000,5005000,5006000,
";

#[test]
fn one_trace_is_compared_at_two_measurement_points() {
    let bench = Bench::new();
    bench.write("seen.csv", SEEN);
    for pair in ["mp1,mp3", "MP3, mp1"] {
        let seen = bench.json(&["compare", "seen.csv", "--between", pair]);
        assert_eq!((&seen["point"], &seen["reference"]), (&"mp1".into(), &"mp3".into()));
        assert_eq!(
            (&seen["requests"], &seen["trace_requests"], &seen["driver_flushes"], &seen["unmatched"]),
            (&2.into(), &3.into(), &1.into(), &0.into())
        );
        let number = |key: &str| seen[key].as_f64().unwrap_or_else(|| panic!("{key}: {seen}"));
        assert_eq!(
            (number("reference_mean_ms"), number("ei_avg_ms"), number("ei_avg_pct")),
            (1.0, 0.07, 7.0)
        );
        assert_eq!((number("lateness_p50_us"), number("lateness_p99_us")), (1.0, 100.0));
        assert_eq!(seen["deadline_misses"]["kernel_scheduling"], 1);
        assert_eq!(seen["errors"][0]["completion"]["p99_us"], 114.0);
        assert_eq!(seen["errors"][2]["op"], "write");
        assert_eq!(seen["trust"], "not_trusted");
        let sentence = seen["trust_sentence"].as_str().unwrap();
        assert!(sentence.contains("100 % were due sooner than can be emulated here"), "{sentence}");
    }
    let seen = bench.json(&["compare", "seen.csv", "--between", "mp2,due"]);
    assert_eq!((&seen["requests"], &seen["reference"]), (&3.into(), &"due".into()));
    bench.run(&["trace", "convert", "seen.csv", "seen.parquet"]).done();
    let arguments = ["--between", "mp1,mp3", "--report", "seen.html"];
    let text = bench.run(&[&["compare", "seen.parquet"], &arguments[..]].concat()).done();
    assert!(text.contains("trust: This run cannot be trusted") && text.contains("lateness"), "{text}");
    let page = String::from_utf8(bench.read("seen.html")).unwrap();
    assert!(page.contains("Error of each request, uncut") && page.contains("Arrival and completion apart"));
}

#[test]
fn impossible_comparison_of_points_is_refused_with_its_reason() {
    let bench = Bench::new();
    bench.write("seen.csv", SEEN);
    bench.trace("t.csv");
    let between = |file, pair| bench.run(&["compare", file, "--between", pair]);
    between("seen.csv", "mp1,mp4").fails(&["`mp4` is no measurement point", "did you mean `mp1`?"]);
    between("seen.csv", "host,mp3").fails(&["`host` is no measurement point", "mp1, mp2, due, mp3"]);
    between("seen.csv", "mp1").fails(&["two of the measurement points", "`mp1,mp3`"]);
    between("seen.csv", "due,due").fails(&["the same measurement point"]);
    between("t.csv", "mp1,mp3").fails(&["t.csv", "`mp1_arrival_ns` and `mp1_completion_ns`", "hint: "]);
    between("t.csv", "mp2,mp3").fails(&["`mp2_completion_ns`", "hint: ", "seeklab serve DEVICE --record"]);
    bench.run(&["compare", "seen.csv", "t.csv", "--between", "mp1,mp3"]).fails(&[
        "one trace",
        "`t.csv`",
        "hint: ",
    ]);
    bench.run(&["compare", "seen.csv"]).fails(&["`seen.csv`", "--between mp1,mp3"]);
    bench.write("floor.csv", SEEN.replace("2ms", "2"));
    between("floor.csv", "mp1,mp3").fails(&["floor.csv", "`floor` in the metadata", "`2`"]);
    bench.write("before.csv", SEEN.replace(",1024000,", ",1024,"));
    between("before.csv", "mp1,mp3").fails(&["before.csv, line 4", "mp1_completion_ns is `1024`"]);
}
