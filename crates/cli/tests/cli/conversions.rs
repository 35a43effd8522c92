//! Conversions of traces: values that are carried over, and notes on values that are lost.

use crate::bench::Bench;

const BIOSNOOP: &str = "\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)
0.003738    postgres       645    loop1   R 8454416    4096       3.45
0.008112    postgres       645    sda     R 8388888    45056      0.37
0.009112    dd             7      loop1   W 16         1024       0.25
";

const WPA: &[u8] = include_bytes!("../../../traces/tests/data/wpa/sample.csv");

#[test]
fn convert_keeps_names_that_appear_with_the_rows() {
    let bench = Bench::new();
    bench.write("b.txt", BIOSNOOP);
    bench.write("w.csv", WPA);
    for output in ["o.parquet", "o.csv"] {
        bench.run(&["trace", "convert", "b.txt", output, "--from", "biosnoop"]).done();
        let info = bench.json(&["trace", "info", output])["traces"][0].take();
        assert_eq!(info["labels"], serde_json::json!(["loop1", "sda"]), "{output}");
        bench.run(&["trace", "convert", "w.csv", output, "--from", "wpa"]).done();
        let infos = bench.json(&["trace", "info", "w.csv", "--from", "wpa"])["traces"][0].take();
        let info = bench.json(&["trace", "info", output])["traces"][0].take();
        assert_eq!(info["metadata"]["initiator.1"], "my own.exe", "{output}");
        assert_eq!(info["labels"], infos["labels"], "{output}");
    }
}

#[test]
fn disk_keeps_its_name_in_formats_that_name_it_in_every_row() {
    let bench = Bench::new();
    let rows: String = (128_166_372_000_000_000_u64..)
        .zip([("hm", 1), ("hm", 0), ("web", 7), ("hm", 1)])
        .map(|(time, (host, disk))| format!("{time},{host},{disk},Read,4096,4096,100\n"))
        .collect();
    bench.write("t.msr", rows);
    bench.run(&["trace", "convert", "t.msr", "t.csv"]).done();
    bench.run(&["trace", "convert", "t.csv", "again.msr"]).done();
    bench.run(&["trace", "convert", "t.msr", "t.iolog"]).done();
    let before = bench.json(&["trace", "info", "t.msr"])["traces"][0]["labels"].take();
    assert_eq!(before.as_array().map(Vec::len), Some(3));
    for file in ["t.csv", "again.msr", "t.iolog"] {
        assert_eq!(bench.json(&["trace", "info", file])["traces"][0]["labels"], before, "{file}");
    }
}

#[test]
fn convert_counts_values_that_the_format_cannot_hold() {
    let bench = Bench::new();
    let rows = "0,0,read,0,8,900\n1500000000,0,write,8,8,1500000900\n2000000000,0,read,16,8,\n";
    bench.write("t.csv", format!("arrival_ns,device,op,lbn,blocks,completion_ns\n{rows}"));
    let notes = |output: &str| {
        let document = bench.json(&["trace", "convert", "t.csv", output]);
        let notes =
            document["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap().to_owned());
        notes.collect::<Vec<_>>()
    };
    let lost =
        |format: &str| format!("the format `{format}` cannot hold response times: those of 2 rows are lost");
    assert_eq!(notes("t.spc"), [lost("spc")]);
    let rounded = "the format `tencent` holds times to 1s: those of 1 row are finer".to_owned();
    assert_eq!(notes("t.tencent.csv"), [lost("tencent"), rounded]);
    assert!(notes("t.parquet").is_empty());
}

#[test]
fn formats_without_device_numbers_refuse_several_devices() {
    let bench = Bench::new();
    let trace = |devices: [u16; 2]| {
        let [one, other] = devices;
        format!("arrival_ns,device,op,lbn,blocks\n0,{one},read,0,8\n5,{other},read,0,8\n")
    };
    bench.write("two.csv", trace([3, 1]));
    bench.run(&["trace", "convert", "two.csv", "two.vscsi"]).fails(&[
        "two.vscsi",
        "row 2",
        "here 1",
        "hint: ",
    ]);
    assert!(!bench.path("two.vscsi").exists(), "no half a file");
    bench.write("one.csv", trace([3, 3]));
    bench.run(&["trace", "convert", "one.csv", "one.vscsi"]).done();
}

#[test]
fn slice_beyond_the_largest_time_goes_to_the_end() {
    let bench = Bench::new();
    bench.write("t.csv", "arrival_ns,op,lbn,blocks\n0,read,0,8\n11000000000,read,0,8\n");
    let slice = ["trace", "slice", "t.csv", "-o", "s.csv", "--start", "10s", "--length", "18446744073s"];
    assert_eq!(bench.json(&slice)["rows"], 1);
}

#[test]
fn report_names_initiators_and_info_lists_at_most_16() {
    let bench = Bench::new();
    bench.write("w.csv", WPA);
    bench.run(&["trace", "report", "w.csv", "--from", "wpa", "--report", "w.html"]).done();
    assert!(String::from_utf8(bench.read("w.html")).unwrap().contains("my own.exe"));
    let names: String = (0..20).map(|number| format!("# initiator.{number}: program {number}\n")).collect();
    bench.write("many.csv", names + "arrival_ns,op,lbn,blocks\n0,read,0,8\n");
    let page = bench.run(&["trace", "info", "many.csv"]).done();
    assert_eq!(page.matches("program ").count(), 16, "{page}");
    assert!(page.contains("4 more"), "{page}");
}
