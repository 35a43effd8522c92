//! Every verb that reads a trace prints notes on changed rows and on assumptions.

use super::bench::Bench;

/// An MSR trace of 10,000 requests in order, behind them so many that arrived with the first.
fn late(rows: u64) -> String {
    let row = |tick: u64, number: u64| format!("{},usr,0,Read,{},4096,500\n", tick, number * 4096);
    let in_order = (0..10_000).map(|number| row(128_166_372_000_000_000 + number * 10_000, number));
    let behind = (0..rows).map(|number| row(128_166_372_000_000_001, number));
    in_order.chain(behind).collect()
}

const MOVED: &str = "7 rows lie further out of order than the 4096 rows";
const GUESS: &str = "read as `msr`, recognised by its first bytes";

#[test]
fn fit_reports_rows_that_were_moved_in_time() {
    let bench = Bench::new();
    bench.write("late.msr", late(7));
    let fit = ["fit", "late.msr", "-o", "clone.toml", "--model", "plain", "--report", "fit.html"];
    let text = bench.run(&fit).done();
    for note in [MOVED, GUESS] {
        assert!(text.contains(&format!("note: {note}")), "{note}: {text}");
    }
    assert!(String::from_utf8(bench.read("fit.html")).unwrap().contains(MOVED));
    let notes = bench.json(&fit)["fit"]["notes"].clone();
    assert_eq!(notes[0], GUESS, "{notes}");
    assert!(notes[1].as_str().unwrap().starts_with(MOVED) && notes[2].is_null(), "{notes}");
    // One that is in order, of a format that is named, has nothing to tell.
    bench.write("order.msr", late(0));
    let order = ["fit", "order.msr", "-o", "clone.toml", "--model", "plain", "--from", "msr"];
    assert_eq!(bench.json(&order)["fit"]["notes"], serde_json::json!([]));
}

#[test]
fn fit_refuses_a_trace_with_many_rows_to_move_in_time() {
    let bench = Bench::new();
    for (rows, is_fitted) in [(101, true), (102, false)] {
        bench.write("late.msr", late(rows));
        let run = bench.run(&["fit", "late.msr", "-o", "clone.toml", "--model", "plain"]);
        if is_fitted {
            run.done();
            std::fs::remove_file(bench.path("clone.toml")).unwrap();
        } else {
            run.fails(&["102 of 10102 rows", "4096 rows", "at most 1 %", "hint: sort the lines"]);
            assert!(!bench.path("clone.toml").exists());
        }
    }
    // A conversion fits nothing.
    bench.run(&["trace", "convert", "late.msr", "late.parquet"]).done();
}

#[test]
fn remap_and_slice_report_changes_and_assumptions() {
    let bench = Bench::new();
    bench.write("late.msr", late(7));
    bench.write("fio.log", "0, 500, 0, 4096, 8192, 0\n1, 600, 0, 4096, 4096, 0\n");
    let assumed = "assumed latency-unit=ns (";
    for verb in [&["slice"][..], &["remap", "--shuffle"], &["convert"]] {
        for (input, format, part) in [("late.msr", "msr", MOVED), ("fio.log", "fio-log", assumed)] {
            let output: &[&str] = if verb == ["convert"] { &["x.csv"] } else { &["-o", "x.csv"] };
            let arguments = [&["trace"], verb, &[input], output].concat();
            let run = bench.run(&arguments);
            assert!(run.stderr.contains(&format!("(read as `{format}`, recog")), "{}", run.stderr);
            assert!(run.stderr.contains(&format!("note: {part}")), "{}", run.stderr);
            run.done();
            let document = bench.json(&arguments);
            assert_eq!(document["format"], format);
            let notes = document["notes"].as_array().unwrap();
            assert!(notes.iter().any(|note| note.as_str().unwrap().starts_with(part)), "{notes:?}");
        }
    }
}
