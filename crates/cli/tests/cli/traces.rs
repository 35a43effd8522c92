//! Traces that are written, converted, compared and replayed.

use crate::bench::{Bench, RANDOM};

#[test]
fn trace_survives_every_format_that_can_hold_it() {
    let bench = Bench::new();
    bench.trace("t.csv");
    bench.trace("t.parquet");
    bench.trace("t.csv.zst");
    for (file, format) in [
        ("a.parquet", "parquet"),
        ("a.csv.zst", "csv"),
        ("a.csv.gz", "csv"),
        ("a.msr", "msr"),
        ("a.spc", "spc"),
        ("a.ascii", "disksim-ascii"),
        ("a.vscsi", "vscsi"),
        ("a.dtb.zst", "dtb"),
    ] {
        bench.run(&["trace", "convert", "t.csv", file, "--to", format]).done();
        bench.run(&["trace", "convert", file, "back.csv", "--from", format]).done();
        let info = bench.json(&["trace", "info", "t.csv", "back.csv"]);
        let [before, after] = info["traces"].as_array().unwrap().as_slice() else { panic!("two traces") };
        for key in ["requests", "reads", "writes", "address_range_blocks", "request_blocks_max"] {
            assert_eq!(before[key], after[key], "{format} {key}");
        }
        if ["parquet", "csv"].contains(&format) {
            assert!(bench.read("t.csv") == bench.read("back.csv"), "{file} is the same trace");
        }
    }
    assert!(bench.run(&["trace", "head", "t.csv", "--rows", "3"]).done().lines().count() == 4);
    bench
        .run(&["trace", "convert", "t.csv", "a.val", "--to", "disksim-validate"])
        .fails(&["a.val", "overlap", "hint: "]);
    assert!(!bench.path("a.val").exists(), "no half a file");
}

#[test]
fn think_times_survive_the_validate_format() {
    let bench = Bench::new();
    let closed = "random,closed=1,think=2ms,requests=100";
    bench.run(&["simulate", "hp-c2247a", "-w", closed, "--out", "t.csv"]).done();
    bench.run(&["trace", "convert", "t.csv", "t.val", "--to", "disksim-validate"]).done();
    let replayed =
        bench.json(&["simulate", "hp-c2247a", "-w", "t.val", "--format", "disksim-validate", "--think"]);
    assert_eq!(replayed["devices"][0]["requests"], 100);
}

#[test]
fn trace_equals_itself_and_differs_from_another() {
    let bench = Bench::new();
    bench.trace("t.csv");
    let figures = bench.json(&["compare", "t.csv", "t.csv"]);
    for key in ["ei_avg_ms", "ei_avg_pct", "ei_rms_ms", "ei_rms_pct", "ea_rms_ms", "ea_rms_pct"] {
        assert_eq!(figures[key].as_f64(), Some(0.0), "{key}");
    }
    assert_eq!(figures["requests"], 200);
    assert_eq!(figures["within_5pct_pct"].as_f64(), Some(100.0));
    bench.run(&["simulate", "hp-c2247a", "-w", RANDOM, "--seed", "2", "--out", "other.csv"]).done();
    bench.run(&["compare", "t.csv", "other.csv"]).fails(&["t.csv", "other.csv", "request 0"]);
    bench.write("arrivals.csv", "arrival_ns,op,lbn,blocks\n0,read,0,8\n");
    bench.run(&["compare", "arrivals.csv", "arrivals.csv"]).fails(&[
        "arrivals.csv",
        "row 1",
        "no completion",
    ]);
}

#[test]
fn trace_replays_with_every_kind_of_arrivals() {
    let bench = Bench::new();
    bench.trace("t.csv");
    let run = |arguments: &[&str]| {
        let document = bench.json(&[&["simulate", "hp-c2247a", "-w", "t.csv"], arguments].concat());
        assert_eq!(document["devices"][0]["requests"], 200);
        document["devices"][0]["duration_s"].as_f64().unwrap()
    };
    let open = run(&["--open"]);
    assert!(run(&["--scaled", "2"]) < open * 0.6);
    assert!(run(&["--closed", "4"]) < open);
    run(&["--closed", "auto"]);
    bench.run(&["simulate", "hp-c2247a", "-w", "t.csv", "--out", "again.csv"]).done();
    let figures = bench.json(&["compare", "t.csv", "again.csv"]);
    assert_eq!(figures["ei_rms_ms"].as_f64(), Some(0.0), "an open replay repeats the run");
}

#[test]
fn each_device_of_a_trace_has_its_own_instance() {
    let bench = Bench::new();
    let rows: String =
        (0..40_u64).map(|i| format!("{},{},read,{},8\n", i / 4 * 1000, i % 4, i * 1000)).collect();
    bench.write("four.csv", format!("arrival_ns,device,op,lbn,blocks\n{rows}"));
    bench.write(
        "one.csv",
        format!("arrival_ns,device,op,lbn,blocks\n{rows}")
            .replace(",1,r", ",0,r")
            .replace(",2,r", ",0,r")
            .replace(",3,r", ",0,r"),
    );
    let run = |file| bench.json(&["simulate", "constant", "-w", file])["devices"][0].take();
    let (four, one) = (run("four.csv"), run("one.csv"));
    assert!(four["notes"].to_string().contains("4 devices of the trace"), "{}", four["notes"]);
    let mean = |device: &serde_json::Value| device["response_mean_ms"].as_f64().unwrap();
    assert!(mean(&four) < mean(&one) / 2.0, "{} against {}", mean(&four), mean(&one));
}

#[test]
fn trace_of_a_reordered_run_replays_as_the_same_load() {
    let bench = Bench::new();
    let workload = "synthetic,size=8KiB,read=66%,poisson=130/s,requests=2000";
    let simulate =
        |arguments: &[&str]| bench.json(&[&["simulate", "atlas10k", "--bare", "-w"], arguments].concat());
    let first = simulate(&[workload]);
    for file in ["sptf.csv", "sptf.parquet"] {
        simulate(&[workload, "--scheduler", "sptf", "--out", file]);
        let again = simulate(&[file]);
        let device = &again["devices"][0];
        assert_eq!(device["response_mean_ms"], first["devices"][0]["response_mean_ms"], "{file}");
        assert_eq!(device["bare"], true);
        let rates = device["throughput"]["requests_per_second"].as_array().unwrap();
        assert!(rates.len() > 1, "throughput over time");
    }
}

#[test]
fn trace_of_a_run_one_at_a_time_has_its_think_times() {
    let bench = Bench::new();
    let workload = "synthetic,size=8KiB,read=66%,closed=1,think=5ms,requests=500";
    let first = bench.json(&["simulate", "atlas10k", "-w", workload, "--out", "t.csv"]);
    let again = bench.json(&["simulate", "atlas10k", "-w", "t.csv", "--think"]);
    assert_eq!(first["devices"][0]["response_mean_ms"], again["devices"][0]["response_mean_ms"]);
}

#[test]
fn flush_needs_no_address() {
    let bench = Bench::new();
    bench.write("f.csv", "arrival_ns,op,lbn,blocks\n0,write,8,8\n5000,flush,,\n");
    let document = bench.json(&["simulate", "atlas10k", "-w", "f.csv"]);
    assert_eq!(document["devices"][0]["requests"], 2);
}

#[test]
fn sizes_below_a_block_are_rounded_up_and_reported() {
    let bench = Bench::new();
    let document = bench.json(&["simulate", "nearline-7200", "-w", "fileserver,requests=100"]);
    let note = document["devices"][0]["notes"][0].as_str().unwrap();
    assert_eq!(note, "sizes were rounded up to whole blocks of 4KiB");
}

/// Reads, writes and their ends on controller 1, target 4, as DTB has them in that byte order.
fn dtb(is_big: bool) -> Vec<u8> {
    let word = |number: u32| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
    let records = [(0, 8, 5), (1, 64, 10), (2, 64, 250), (2, 8, 500)];
    let record = |(code, sector, after_us): (u8, u32, u32)| {
        [&[code, 1, 4, 8][..], &word(sector), &word(after_us)].concat()
    };
    records.into_iter().flat_map(record).collect()
}

#[test]
fn every_verb_that_reads_traces_takes_format_options() {
    let bench = Bench::new();
    bench.write("little.dtb", dtb(false));
    bench.write("big.dtb", dtb(true));
    let big = ["--format-option", "byte-order=big"];
    let info = |arguments: &[&str]| bench.json(&[&["trace", "info"], arguments].concat())["traces"][0].take();
    let little = info(&["little.dtb"]);
    let option = |trace: &serde_json::Value| {
        let options = trace["options"].as_array().unwrap();
        options.iter().find(|option| option["name"] == "byte-order").cloned().unwrap()
    };
    assert_eq!((&option(&little)["value"], &option(&little)["is_default"]), (&"little".into(), &true.into()));
    let swapped = info(&[&["big.dtb", "--from", "dtb"], &big[..]].concat());
    assert_eq!(option(&swapped)["is_default"], false);
    for key in ["requests", "reads", "address_range_blocks", "requests_with_response", "labels"] {
        assert_eq!(little[key], swapped[key], "{key}");
    }
    assert_eq!(little["requests"], 2);
    let text = bench.run(&["trace", "info", "little.dtb"]).done();
    assert!(text.contains("assumed          byte-order=little"), "{text}");
    bench.run(&[&["trace", "convert", "big.dtb", "big.csv", "--from", "dtb"], &big[..]].concat()).done();
    bench.run(&["trace", "convert", "little.dtb", "little.csv"]).done();
    assert!(bench.read("big.csv") == bench.read("little.csv"));
    bench.run(&[&["trace", "head", "big.dtb", "--from", "dtb"], &big[..]].concat()).done();
    let compare = ["compare", "little.csv", "big.dtb", "--other-format", "dtb"];
    let figures = bench.json(&[&compare[..], &["--other-format-option", "byte-order=big"]].concat());
    assert_eq!(figures["ei_rms_ms"].as_f64(), Some(0.0));
    let simulate = ["simulate", "constant", "-w", "big.dtb", "--format", "dtb"];
    let replayed = bench.json(&[&simulate[..], &big].concat());
    assert_eq!(replayed["devices"][0]["requests"], 2);
    bench.write(
        "e.toml",
        "title = \"t\"\ndevices = [\"constant\"]\n[[workloads]]\nkind = \"replay\"\ntrace = \"big.dtb\"\n\
         format = \"dtb\"\nformat_options = { byte-order = \"middle\" }\n",
    );
    bench.run(&["experiment", "e.toml"]).fails(&["byte-order", "`middle`", "little|big"]);
    bench.run(&["trace", "info", "little.dtb", "--format-option", "byte-ordre=big"]).fails(&[
        "little.dtb",
        "has the options `byte-order`",
        "hint: did you mean `byte-order`?",
    ]);
    bench.run(&["trace", "info", "little.dtb", "--format-option", "byte-order"]).fails(&["NAME=VALUE"]);
    let formats = bench.run(&["trace", "formats"]).done();
    assert!(formats.contains("    byte-order=little|big (default little): "), "{formats}");
    bench.run(&["simulate", "constant", "-w", RANDOM, big[0], big[1]]).fails(&["--format-option"]);
}

#[test]
fn think_times_before_their_requests_are_read_wherever_a_trace_is() {
    let bench = Bench::new();
    // A pause of 50 ms stands on the second line.
    bench.write("t.validate", "R Hit 0 8 1000 10000\nR Hit 80 8 2000 50000\nR Hit 160 8 1000 20000\n");
    let before = ["--format-option", "think=before"];
    let head = |more: &[&str]| {
        bench.json(&[&["trace", "head", "t.validate"], more].concat())["traces"][0]["requests"].take()
    };
    let times = |rows: &serde_json::Value, key: &str| -> Vec<Option<u64>> {
        rows.as_array().unwrap().iter().map(|row| row[key].as_u64()).collect()
    };
    let [after, read_before] = [head(&[]), head(&before)];
    assert_eq!(times(&after, "arrival_ns"), [Some(0), Some(11_000_000), Some(63_000_000)]);
    assert_eq!(times(&read_before, "arrival_ns"), [Some(10_000_000), Some(61_000_000), Some(83_000_000)]);
    assert_eq!(times(&read_before, "think_ns"), [Some(50_000_000), Some(20_000_000), None]);

    // Each request takes 1 ms; think times are kept.
    let simulate =
        ["simulate", "constant", "--set", "service_time=1ms", "-w", "t.validate", "--think", "--out"];
    let arrivals = |out: &str, more: &[&str]| {
        bench.run(&[&simulate[..], &[out], more].concat()).done();
        times(&bench.json(&["trace", "head", out])["traces"][0]["requests"], "arrival_ns")
    };
    assert_eq!(arrivals("b.csv", &before), [Some(10_000_000), Some(61_000_000), Some(82_000_000)]);
    assert_eq!(arrivals("a.csv", &[]), [Some(0), Some(11_000_000), Some(62_000_000)]);

    for (think, error) in
        [("between", Some(["think", "`between`", "after|before is allowed"])), ("before", None)]
    {
        bench.write(
            "e.toml",
            format!(
                "title = \"t\"\ndevices = [\"constant\"]\narrivals = [\"think\"]\n[[workloads]]\nkind = \"replay\"\n\
                 trace = \"t.validate\"\nformat_options = {{ think = \"{think}\" }}\n"
            ),
        );
        let run = bench.run(&["experiment", "e.toml"]);
        match error {
            None => drop(run.done()),
            Some(parts) => run.fails(&parts),
        }
    }
    let compare = ["compare", "t.validate", "t.validate", "--reference-format-option", "think=before"];
    assert_eq!(bench.json(&compare)["ei_rms_ms"].as_f64(), Some(0.0));
    bench.run(&[&["trace", "convert", "t.validate", "c.csv"], &before[..]].concat()).done();
    assert_eq!(
        times(&head(&before), "arrival_ns"),
        times(&bench.json(&["trace", "head", "c.csv"])["traces"][0]["requests"], "arrival_ns")
    );
    let formats = bench.run(&["trace", "formats"]).done();
    assert!(formats.contains("    think=after|before (default after): "), "{formats}");
}

#[test]
fn no_rates_are_reported_where_no_time_passes() {
    let bench = Bench::new();
    let rows: String = (0..500).map(|index| format!("{} 8 0 {index}\n", index * 37 % 1_000)).collect();
    bench.write("it.lis", rows);
    bench.run(&["trace", "report", "it.lis", "--report", "it.html"]).done();
    let page = String::from_utf8(bench.read("it.html")).unwrap();
    assert!(page.contains("no time passes in the trace"));
    for chart in ["iops", "rate", "scatter", "heat", "interarrival"] {
        assert!(!page.contains(&format!("\"id\":\"{chart}\"")), "{chart} is drawn over no time");
    }
    assert!(page.contains("\"id\":\"popularity\""));
}

#[test]
fn fit_reports_a_trace_too_short_to_compare_its_parts() {
    let bench = Bench::new();
    let rows: String = (0..200)
        .map(|index| {
            format!(
                "{},{},0,read,{},8\n",
                index * 10_000_000,
                1_000_000 + index * 7_919 % 3_000_000,
                index * 65_537 % 1_000_000
            )
        })
        .collect();
    bench.write("short.csv", format!("arrival_ns,response_ns,device,op,lbn,blocks\n{rows}"));
    let document = bench.json(&["fit", "short.csv", "-o", "x.toml"]);
    assert!(document["fit"]["rest"]["variation_between_parts"].is_null(), "{}", document["fit"]["rest"]);
    assert!(document["parts_alike"].is_null(), "{document}");
    assert!(document["notes"].to_string().contains("too short to estimate random variation"), "{document}");
}

#[test]
fn verbs_agree_on_the_share_of_sequential_requests() {
    let bench = Bench::new();
    let mut rows = "arrival_ns,device,op,lbn,blocks\n".to_owned();
    // Two devices in turns, each sequential, with a flush behind every second write.
    for index in 0..60_u64 {
        let (device, place) = (index % 2, index / 2);
        rows += &format!("{},{device},write,{},8\n", index * 1_000_000, 5_000 * device + 8 * place);
        if index % 4 == 3 {
            rows += &format!("{},{device},flush,0,0\n", index * 1_000_000 + 500_000);
        }
    }
    bench.write("t.csv", rows);
    let info = bench.json(&["trace", "info", "t.csv"])["traces"][0]["sequential_pct"].take();
    let report = bench.json(&["trace", "report", "t.csv"])["sequential_pct"].take();
    assert_eq!((info.as_f64(), report.as_f64()), (Some(100.0), Some(100.0)));
    assert!(bench.run(&["trace", "info", "t.csv"]).done().contains("100.0 % sequential"));
}

#[test]
fn row_decades_from_the_others_is_named_and_not_fitted() {
    let bench = Bench::new();
    let head = "arrival_ns,response_ns,op,lbn,blocks\n";
    let epoch_ns = 1_767_225_600_000_000_000_u64;
    let rows = |from_ns: u64| -> Vec<String> {
        (0..200_u64)
            .map(|row| {
                format!(
                    "{},{},read,{},8\n",
                    from_ns + row * 20_000_000,
                    5_000_000 + row * 999,
                    row * 991 % 4096
                )
            })
            .collect()
    };
    let wild = |from_ns: u64, place: usize, wild_ns: u64| {
        let mut rows = rows(from_ns);
        rows.insert(place, format!("{wild_ns},4000000,read,8,8\n"));
        head.to_owned() + &rows.concat()
    };
    bench.write("sound.csv", head.to_owned() + &rows(epoch_ns).concat());
    bench.run(&["fit", "sound.csv", "-o", "sound.toml"]).done();
    let sound = bench.json(&["trace", "info", "sound.csv"]);
    assert_eq!(sound["traces"][0]["arrival_outliers"], serde_json::json!([]));
    // The clock began at 1970 for a row, or a bit of a row's time flipped: at the begin, in the middle and at the end.
    for (name, from_ns, place, wild_ns) in [
        ("first.csv", epoch_ns, 0, 0),
        ("last.csv", 0, 200, epoch_ns),
        ("middle.csv", 0, 77, 1 << 60),
        ("early.csv", epoch_ns, 120, 7),
    ] {
        bench.write(name, wild(from_ns, place, wild_ns));
        let row = format!("row {} arrives at", place + 1);
        let printed = bench.run(&["trace", "info", name]).done();
        let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(printed.contains(&row) && printed.contains("The clock was probably wrong"), "{printed}");
        let info = bench.json(&["trace", "info", name]);
        let outlier = &info["traces"][0]["arrival_outliers"][0];
        assert_eq!(outlier["row"], place as u64 + 1, "{name}");
        assert_eq!(outlier["arrival_ns"], wild_ns, "{name}");
        assert_eq!(outlier["rows"], 1, "{name}");
        assert!(outlier["gap_s"].as_f64().unwrap() > 1e9, "{name}: {outlier}");
        let fit = ["fit", name, "-o", "x.toml"];
        bench.run(&fit).fails(&[name, &row, "1000 times", "hint: ", "--allow-gaps", "seeklab trace slice"]);
        assert!(!bench.path("x.toml").exists());
        // The command of the hint leaves the other rows, which are fitted as if the wild one had never been there.
        let command = printed.split('`').find(|part| part.starts_with("seeklab trace slice")).unwrap();
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let sliced = bench.run(&words).done();
        let part = bench.json(&["trace", "info", "part.parquet"]);
        assert_eq!(part["traces"][0]["requests"], 200, "{sliced}");
        assert_eq!(part["traces"][0]["duration_s"], sound["traces"][0]["duration_s"], "{name}");
        bench.run(&["fit", "part.parquet", "-o", "part.toml"]).done();
    }
    bench.run(&["fit", "last.csv", "-o", "x.toml", "--allow-gaps"]).done();
    // With that option, order counts as before.
    bench.run(&["fit", "middle.csv", "-o", "y.toml", "--allow-gaps"]).fails(&["row 79", "order of arrival"]);
    // The rows of another device do not matter.
    let other = wild(0, 200, epoch_ns).replace("op,", "device,op,").replace("read,", "0,read,");
    bench.write("other.csv", other.replace("4000000,0,", "4000000,1,"));
    bench.run(&["fit", "other.csv", "-o", "z.toml", "--device", "0"]).done();
}
