//! Mistakes of a hostile or new user: each gives one message and exit code 2.

use crate::bench::{Bench, RANDOM};

const BEYOND: &str = "arrival_ns,op,lbn,blocks\n0,read,0,8\n1000000,read,2054860,8\n2000000,read,5000000,8\n";

#[test]
fn broken_traces_are_reported() {
    let bench = Bench::new();
    for name in ["t.csv", "t.parquet", "t.csv.gz", "t.csv.zst"] {
        bench.trace(name);
    }
    for name in ["t.parquet", "t.csv.gz", "t.csv.zst"] {
        let whole = bench.read(name);
        bench.write(&format!("cut-{name}"), &whole[..whole.len() * 2 / 3]);
    }
    let text = String::from_utf8(bench.read("t.csv")).unwrap();
    let line = 1 + text.lines().position(|line| line.contains(",read,")).unwrap();
    bench.write("bad.csv", text.replacen(",read,", ",raed,", 1));
    bench.write("empty.csv", "");
    bench.write("garbage.csv", (0..4000_u32).map(|i| (i * 7919 + i * i) as u8).collect::<Vec<_>>());
    std::fs::create_dir(bench.path("folder")).unwrap();
    let place = format!("bad.csv, line {line}");
    for (file, parts) in [
        ("bad.csv", [place.as_str(), "`raed`", "read, write, flush"].as_slice()),
        ("cut-t.parquet", &["cut-t.parquet: the file ends early", "hint: "]),
        ("cut-t.csv.gz", &["cut-t.csv.gz: the compressed data ends early", "hint: "]),
        ("cut-t.csv.zst", &["cut-t.csv.zst: the compressed data ends early", "hint: "]),
        ("empty.csv", &["empty.csv: the file is empty"]),
        ("garbage.csv", &["garbage.csv: no trace format recognises the file", "`csv`", "hint: "]),
        ("no.csv", &["no.csv", "no such file"]),
        ("folder", &["folder", "a "]),
    ] {
        bench.run(&["simulate", "hp-c2247a", "-w", file, "--json"]).fails(parts);
        if !["no.csv", "folder"].contains(&file) {
            bench.run(&["trace", "info", file, "--json"]).fails(parts);
        }
    }
    bench.run(&["trace", "info", "no.csv"]).fails(&["no.csv: cannot open", "No such file"]);
    bench.run(&["simulate", "hp-c2247a", "-w", "t.csv", "--format", "tar"]).fails(&["`tar`", "`csv`"]);
    bench.write("arrivals.csv", "arrival_ns,op,lbn,blocks\n0,read,0,8\n10,read,8,8\n");
    bench.run(&["simulate", "hp-c2247a", "-w", "arrivals.csv", "--think"]).fails(&[
        "record ",
        "think time",
        "hint: ",
    ]);
}

#[test]
fn hostile_traces_are_reported_with_the_place_of_the_mistake() {
    let bench = Bench::new();
    let row = "0,1000,0,read,0,8\n";
    let rows = |rows: &str| format!("arrival_ns,response_ns,device,op,lbn,blocks\n{row}{rows}");
    let far = "99999999999999999999999999999";
    for (name, bytes, parts) in [
        ("cut.csv", rows("10,1000,0,re"), ["cut.csv, line 3", "`re`"]),
        ("nul.csv", rows("\0\0,1000,0,read,0,8\n"), ["nul.csv, line 3", "`\\0\\0`"]),
        ("far.csv", rows(&format!("0,1000,0,read,{far},8\n")), ["far.csv, line 3", far]),
        ("end.csv", rows("0,1000,0,read,18446744073709551615,8\n"), ["end.csv, line 3", "beyond 64 bits"]),
        ("late.csv", rows("9,18446744073709551615,0,read,0,8\n"), ["late.csv, line 3", "584 years"]),
        ("minus.csv", rows("-5,1000,0,read,0,8\n"), ["minus.csv, line 3", "`-5`"]),
        ("mixed.csv", rows("0,303567,3584,w,0.000000\n"), ["mixed.csv, line 3", "`w`"]),
        ("long.csv", rows(&"7".repeat(1 << 20)), ["long.csv, line 3", "longer than 65536 bytes"]),
        (
            "minus.spc",
            "0,1,512,w,0.5\n0,2,512,r,-1.5\n".to_owned(),
            ["no trace format", "as `spc`, the format of that file name"],
        ),
        ("far.spc", format!("0,1,512,w,0.5\n0,{far},512,r,1.5\n"), ["far.spc, line 2", far]),
        ("other.spc", "no trace at all\n".to_owned(), ["no trace format", "hint: name the format"]),
    ] {
        bench.write(name, bytes);
        bench.run(&["trace", "info", name]).fails(&parts);
        bench.run(&["trace", "convert", name, "x.parquet"]).fails(&parts);
        bench.run(&["fit", name, "-o", "x.toml"]).fails(&parts);
    }
    assert!(!bench.path("x.toml").exists() && !bench.path("x.parquet").exists());
    // Rows in another order than that of arrival: reported, and no model is fitted to them.
    bench.write(
        "back.csv",
        rows("50,1000,1,read,8,8\n100,1000,0,read,8,8\n70,1000,0,read,8,8\n40,1000,1,read,8,8\n"),
    );
    let printed = bench.run(&["trace", "info", "back.csv"]).done();
    assert!(printed.contains("2 rows arrive before a row that precedes them"), "{printed}");
    for model in ["station", "plain"] {
        let fit = ["fit", "back.csv", "-o", "x.toml", "--device", "0", "--model", model];
        bench.run(&fit).fails(&["row 4 arrives at 70 ns", "at 100 ns", "order of arrival", "hint: "]);
    }
}

#[test]
fn split_outside_0_to_100_percent_is_refused() {
    let bench = Bench::new();
    bench.trace("t.csv");
    for split in ["0%", "0", "150%", "-1%", "half"] {
        let run = bench.run(&["fit", "t.csv", "-o", "x.toml", &format!("--split={split}")]);
        run.fails(&["--split"]);
        assert!(run.stderr.contains("at most 100 %") || run.stderr.contains("ratio"), "{}", run.stderr);
    }
    assert!(!bench.path("x.toml").exists());
    for split in ["0.1%", "100%"] {
        bench.run(&["fit", "t.csv", "-o", "x.toml", "--model", "plain", "--split", split]).done();
    }
}

#[test]
fn every_verb_reports_a_device_that_the_trace_lacks() {
    let bench = Bench::new();
    let rows: String = (0..40).map(|number| format!("{number},100,{number},read,0,8\n")).collect();
    bench.write("many.csv", format!("arrival_ns,response_ns,device,op,lbn,blocks\n{rows}"));
    let listed = ["--device 70: there is no such device", " 0, 1, 2,", " 14, 15 and 24 more"];
    for arguments in [
        &["fit", "many.csv", "-o", "x.out"][..],
        &["trace", "report", "many.csv", "--report", "x.out"],
        &["trace", "slice", "many.csv", "-o", "x.csv"],
    ] {
        bench.run(&[arguments, &["--device", "70"]].concat()).fails(&listed);
        bench.run(&[arguments, &["--device", "39"]].concat()).done();
    }
    bench.run(&["fit", "many.csv", "-o", "x.toml"]).fails(&["40 devices", "14, 15 and 24 more"]);
}

#[test]
fn fit_reports_why_there_is_nothing_to_fit() {
    let bench = Bench::new();
    let head = "arrival_ns,response_ns,op,lbn,blocks,status\n";
    let rows = |row: &dyn Fn(u64) -> String| -> String { (0..60).map(row).collect() };
    let failed = rows(&|number| format!("{},100,read,{number},8,error\n", number * 1000));
    bench.write("failed.csv", head.to_owned() + &failed);
    let fit = |name: &str| bench.run(&["fit", name, "-o", "x.toml"]);
    fit("failed.csv").fails(&["all 60 requests with a response time failed", "hint: "]);
    // The ends of two: one that a number of 63 bits cannot hold, and one that is beyond 8 EiB.
    for (name, step, end) in
        [("end.csv", 1_u64 << 58, "17005592192950992904"), ("far.csv", 1 << 50, "66428094503714824")]
    {
        let far = rows(&|number| format!("{},100,read,{},8,ok\n", number * 1000, number * step));
        bench.write(name, head.to_owned() + &far);
        fit(name).fails(&[
            &format!("{name}: requests reach to"),
            end,
            "1 to 18014398509481984 blocks",
            "hint: ",
        ]);
    }
}

#[test]
fn requests_beyond_the_end_are_an_error_by_default() {
    let bench = Bench::new();
    bench.write("beyond.csv", BEYOND);
    let run =
        |beyond| bench.run(&["simulate", "hp-c2247a", "-w", "beyond.csv", "--json", "--beyond", beyond]);
    run("error").fails(&["beyond.csv: record 2", "8 blocks at lbn 2054860", "2054864 blocks", "hint: "]);
    run("sideways").fails(&["sideways", "wrap"]);
    for (beyond, requests, note) in
        [("wrap", 3, "2 requests"), ("scale", 3, "requests were moved"), ("drop", 1, "2 requests")]
    {
        let document: serde_json::Value = serde_json::from_str(&run(beyond).done()).unwrap();
        let device = &document["devices"][0];
        assert_eq!(device["requests"], requests, "{beyond}");
        assert!(device["notes"].to_string().contains(note), "{beyond}: {}", device["notes"]);
    }
}

#[test]
fn broken_descriptions_are_reported() {
    let bench = Bench::new();
    let whole = bench.run(&["devices", "hp-c2247a", "--toml"]).done();
    let check = |name: &str, from: &str, to: &str, parts: &[&str]| {
        assert!(whole.contains(from), "{from}");
        let file = format!("{name}.toml");
        bench.write(&file, whole.replacen(from, to, 1));
        bench.run(&["devices", &file]).fails(&[parts, &[file.as_str()]].concat());
    };
    check(
        "unit",
        "\"5400rpm\"",
        "\"5400\"",
        &["mechanics.rpm: `5400` has no unit", "hint: write a rotation speed"],
    );
    check("bare", "\"5400rpm\"", "5400", &["mechanics.rpm: integer `5400`", "hint: "]);
    check("key", "head_switch", "head_swich", &["head_swich", "did you mean `head_switch`"]);
    check("zone", "track_skew", "trak_skew", &["geometry.zones[0]", "did you mean `track_skew`"]);
    check("negative", "track_skew = 14", "track_skew = -14", &["geometry.zones[0].track_skew", "-14"]);
    check(
        "overlap",
        "first_cylinder = 559",
        "first_cylinder = 500",
        &["geometry.zones[1]", "500 overlaps", "558"],
    );
    check("heads", "surfaces = 13", "surfaces = 0", &["geometry.surfaces: 0", "1 to 256"]);
    check("sectors", "sectors_per_track = 96", "sectors_per_track = 0", &["zones[0].sectors_per_track: 0"]);
    check(
        "huge",
        "last_cylinder = 2050",
        "last_cylinder = 4294967290",
        &["zones[7].last_cylinder", "16777215"],
    );
    check("huger", "last_cylinder = 2050", "last_cylinder = 1099511627776", &["zones[7].last_cylinder"]);
    check("text", "surfaces = 13", "surfaces 13", &["text.toml, line "]);
    check("nan", "rpm_error = \"0\"", "rpm_error = nan", &["mechanics.rpm_error"]);
    check("kind", "kind = \"disk\"", "kind = \"dsk\"", &["no kind `dsk`", "did you mean `disk`"]);
    bench.write("binary.toml", b"\xff\xfe\x00");
    bench.write("empty.toml", "");
    bench.write(
        "capacity.toml",
        "kind = \"constant\"\ncapacity_blocks = 9223372036854775807\nblock_size = \"512B\"\n",
    );
    bench.write("base.toml", "base = \"base\"\n");
    bench.write(
        "layer.toml",
        "kind = \"queue\"\n[device]\nkind = \"constant\"\ncapacity_blocks = 10\nblock_size = \"512\"\n",
    );
    bench.write("sptf.toml", "kind = \"queue\"\nscheduler = \"sptf\"\n[device]\nbase = \"immediate\"\n");
    let deep = |depth| (0..depth).map(|_| "device.").collect::<String>();
    let layers: String = (0..40).map(|depth| format!("{}kind = \"queue\"\n", deep(depth))).collect();
    bench.write("deep.toml", layers + &deep(40) + "base = \"atlas10k\"\n");
    std::fs::create_dir(bench.path("folder.toml")).unwrap();
    for (file, parts) in [
        ("binary.toml", ["UTF-8"].as_slice()),
        ("empty.toml", &["no key `kind` or `base`", "hint: "]),
        ("capacity.toml", &["capacity_blocks: 9223372036854775807", "8EiB"]),
        ("base.toml", &["base: there is no device `base`", "hint: "]),
        ("layer.toml", &["layer.toml, line 5: device.block_size: `512` has no unit", "hint: "]),
        ("sptf.toml", &["scheduler: sptf", "hint: "]),
        ("deep.toml", &["more than 16"]),
        ("folder.toml", &["directory"]),
        ("missing.toml", &["No such file"]),
        ("hp_c2247a", &["did you mean `hp-c2247a`", "hint: "]),
    ] {
        bench.run(&["devices", file]).fails(&[parts, &[file]].concat());
    }
}

#[test]
fn wrong_arguments_are_reported() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("folder")).unwrap();
    let check = |arguments: &[&str], parts: &[&str]| {
        bench.run(&[&["simulate", "hp-c2247a", "-w", RANDOM], arguments].concat()).fails(parts);
    };
    check(&["--scheduler", "sptff"], &["no scheduler `sptff`", "did you mean `sptf`"]);
    check(
        &["--scheduler", "sptf", "--depth", "99"],
        &["--depth: a depth of 99", "hint: allowed: 1 to 1; `--set queue.depth=99` deepens"],
    );
    let deep = ["--scheduler", "sptf", "--depth", "99", "--set", "queue.depth=99"];
    bench.run(&[&["simulate", "hp-c2247a", "-w", RANDOM], &deep[..]].concat()).done();
    check(&["--scheduler", "sptf", "--depth", "0"], &["--depth", "0"]);
    check(&["--depth", "3"], &["--scheduler"]);
    check(&["--set", "rpm"], &["`rpm`", "no `=`", "hint: "]);
    check(&["--set", "rpm=5400"], &["mechanics.rpm", "`5400` has no unit", "hint: "]);
    check(&["--set", "rpm=5ms"], &["`5ms` is not a rotation speed", "hint: "]);
    check(&["--set", "rpm=0rpm"], &["`0rpm` is out of range", "1000000rpm"]);
    check(&["--set", "rpm=1rpm"], &["mechanics.rpm: 1rpm", "15rpm"]);
    check(&["--set", "rpm=nanrpm"], &["`nanrpm`"]);
    check(&["--set", "rpmm=1rpm"], &["no parameter `rpmm`", "did you mean `rpm`", "hint: "]);
    check(&["--set", "head_switch=-1ms"], &["mechanics.head_switch", "`-1ms`", "hint: "]);
    check(&["--set", "segments=many"], &["electronics.buffer.segments", "\"many\"", "hint: "]);
    check(&["--set", "track_skew=3"], &["one of a list", "hint: "]);
    check(&["--set", "capacity_blocks=99999999999"], &["99999999999", "2054864"]);
    check(&["--open", "--closed", "4"], &["--open", "--closed"]);
    check(&["--closed", "0"], &["a population is 1 to 1000000"]);
    check(&["--closed", "auto"], &["--closed auto", "hint: "]);
    check(&["--scaled", "2"], &["--scaled", "hint: "]);
    check(&["--follow"], &["--follow", "hint: "]);
    check(&["--think"], &["--think", "hint: "]);
    check(&["--beyond", "wrap"], &["--beyond"]);
    check(&["--format", "csv"], &["--format"]);
    check(&["--seed", "x"], &["--seed", "whole number"]);
    check(&["--requests", "0"], &["--requests", "0"]);
    check(&["--max-outstanding", "0"], &["--max-outstanding", "0"]);
    check(&["--out", "no/x.csv"], &["no/x.csv: cannot be written", "`no`", "hint: "]);
    check(&["--out", "x.foo"], &["`x.foo`", "`csv`", "hint: "]);
    check(&["--report", "no/x.html"], &["no/x.html: cannot be written", "hint: "]);
    check(&["--report", "folder"], &["folder: cannot be written"]);
    check(&["--report", "/proc/x.html"], &["/proc/x.html: cannot be written"]);
    let simulate = |arguments: &[&str], parts: &[&str]| {
        bench.run(&[&["simulate"], arguments].concat()).fails(parts);
    };
    simulate(
        &["immediate", "-w", RANDOM, "--scheduler", "sptf"],
        &["immediate: --scheduler: sptf", "hint: "],
    );
    simulate(&["hp-c2247a", "-w", "randm"], &["`randm`", "did you mean `random`?", "hint: allowed: "]);
    simulate(&["hp-c2247a", "-w", "random,poisson=20"], &["arrivals.rate: `20` has no unit", "hint: "]);
    simulate(
        &["hp-c2247a", "-w", "random,sise=8KiB"],
        &["`sise`", "did you mean `size`?", "hint: allowed: "],
    );
    simulate(&["hp-c2247a", "-w", "replay"], &["names no trace", "hint: "]);
    simulate(&["hp-c2247a", "barracuda", "-w", RANDOM, "--out", "x.csv"], &["x.csv", "{device}"]);
    simulate(&["hp-c2247a", "hp-c2247a", "-w", RANDOM, "--out", "{device}.csv"], &["two devices", "hint: "]);
    simulate(&["constant", "-w", "track-aligned,requests=50"], &["`constant` has no tracks", "hint: "]);
    simulate(
        &["barracuda", "-w", RANDOM, "--set", "same_cylinder=1ms"],
        &["`same_cylinder` is ambiguous", "hint: write one of `electronics."],
    );
    assert!(!bench.path("x.csv").exists());
}

#[test]
fn fault_that_can_never_strike_is_reported_by_every_verb() {
    let bench = Bench::new();
    bench.write("e.toml", "devices = [\"constant\"]\nworkloads = [\"random,closed=1,requests=20\"]\n");
    bench.write("cells.toml", "devices = [\"device.toml\"]\nworkloads = [\"random,closed=1,requests=20\"]\n");
    let verbs = |device: &'static str| {
        [
            vec!["simulate", device, "-w", RANDOM],
            vec!["serve", device],
            vec!["run", device, "--builtin", "database"],
            vec!["crash", device, "--builtin", "database"],
        ]
    };
    for (line, parts) in [
        (
            "medium_error,blocks=2TiB..3TiB",
            &["blocks: 2TiB..3TiB lies beyond the end of the device", "hint: "],
        ),
        (
            "medium_error,blocks=1GiB..2TiB",
            &["blocks: 1GiB..2TiB reaches beyond the end of the device", "hint: "],
        ),
        ("medium_error,blocks=2GiB..1GiB", &["blocks: 2GiB..1GiB", "hint: "]),
        (
            "aborted,size=100B..200B",
            &["size: no request has a size of 100B..200B", "multiple of the block size"],
        ),
        ("delay,add=1ms,for=1s,ramp=2s", &["ramp: 2s", "at most 1s"]),
        ("aborted,probability=101%", &["probability", "100%"]),
        ("aborted,atom=1s", &["atom", "hint: "]),
    ] {
        // On the line, in a file, and in the description of a device.
        let (kind, keys) = line.split_once(',').unwrap();
        let entries = keys.split(',').map(|key| key.replacen('=', " = \"", 1) + "\"\n");
        let table = format!("[[fault]]\nkind = \"{kind}\"\n{}", entries.collect::<String>());
        bench.write("faults.toml", &table);
        bench.write("device.toml", format!("kind = \"fault\"\n{table}[device]\nbase = \"constant\"\n"));
        for verb in verbs("constant") {
            bench.run(&[&verb[..], &["--fault", line]].concat()).fails(&[parts, &[line][..]].concat());
            bench
                .run(&[&verb[..], &["--faults", "faults.toml"]].concat())
                .fails(&[parts, &["faults.toml, line "][..]].concat());
        }
        for verb in verbs("device.toml") {
            bench.run(&verb).fails(&[parts, &["device.toml, line "][..]].concat());
        }
        bench.run(&["experiment", "e.toml", "--fault", line]).fails(parts);
        bench.run(&["experiment", "e.toml", "--faults", "faults.toml"]).fails(parts);
        bench.run(&["experiment", "cells.toml"]).fails(parts);
    }
    // What is served may be smaller than the device.
    bench.write(
        "device.toml",
        "kind = \"fault\"\n[[fault]]\nkind = \"medium_error\"\nblocks = \"2GiB..3GiB\"\n[device]\nbase = \"constant\"\n",
    );
    let line = "medium_error,blocks=2GiB..3GiB";
    let served = ["blocks: 2GiB..3GiB lies beyond the 1GiB of the device that are served", "hint: "];
    let place = format!("--fault {line}: ");
    for verb in verbs("constant").into_iter().skip(1) {
        let run = bench.run(
            &[&verb[..], &["--size", "1GiB", "--fault", "stall,at=1h,for=1s", "--fault", line]].concat(),
        );
        run.fails(&[&served[..], &[&place]].concat());
    }
    for (line, part) in [
        ("torn_write,unit=1GiB", "unit: 1GiB is no shorter than the 1GiB of the device that are served"),
        ("misdirected_write,by=2GiB", "by: 2GiB leads from any block out of the 1GiB of the device"),
    ] {
        let run = bench.run(&["serve", "cheetah-36es", "--size", "1GiB", "--fault", line]);
        run.fails(&[part, "less than 1GiB", &format!("--fault {line}: ")]);
    }
    for verb in verbs("device.toml").into_iter().skip(1) {
        bench
            .run(&[&verb[..], &["--size", "1GiB"]].concat())
            .fails(&[&served[..], &["device.toml, line 4"]].concat());
    }
    bench.run(&["simulate", "device.toml", "-w", RANDOM]).done();
}

#[test]
fn errors_that_nobody_reads_keep_their_exit_code() {
    for (device, code) in [("no-such", 2), ("hp-c2247a", 0)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_seeklab"));
        let output = command.args(["simulate", device, "-w", RANDOM]).stderr(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{device}");
    }
}

#[test]
fn load_that_cannot_be_sustained_is_a_failed_check() {
    let bench = Bench::new();
    let run = bench.run(&[
        "simulate",
        "hp-c2247a",
        "-w",
        "random,poisson=2000/s,requests=50000",
        "--max-outstanding",
        "100",
        "--json",
    ]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("cannot sustain this load: 101 requests are outstanding"), "{}", run.stderr);
    assert!(run.stderr.contains("hint: lower the rate"), "{}", run.stderr);
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(document["devices"][0]["saturated"], true);
}
