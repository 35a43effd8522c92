//! What a conversion carries over, and what it says that it lost.

use crate::bench::Bench;

const BIOSNOOP: &str = "\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)
0.003738    postgres       645    loop1   R 8454416    4096       3.45
0.008112    postgres       645    sda     R 8388888    45056      0.37
0.009112    dd             7      loop1   W 16         1024       0.25
";

const WPA: &[u8] = include_bytes!("../../../traces/tests/data/wpa/sample.csv");

#[test]
fn are_names_that_appear_with_the_rows_converted() {
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
fn does_a_disk_keep_its_name_in_formats_that_name_it_in_every_row() {
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
