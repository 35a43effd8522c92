//! Measures the time to read a row of a text format: `cargo bench -p seeklab-traces`.
//!
//! The rows are generated in memory, so neither the disk nor decompression affects the result.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Cursor;
use std::time;

use seeklab_traces::{FORMATS, ReadOptions, Source, open_source};

/// Appends a row: its number, and a pseudo-random sector.
type Row = fn(&mut String, u64, u64);

const HEADER_BIOSNOOP: &str = "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)\n";
const HEADER_WPA: &str =
    "IO Type;Init Time (s);Complete Time (s);Size (B);Min Offset;Max Offset;IO Time (µs)\n";

/// Name of a format, its header and its rows.
const CASES: &[(&str, &str, Row)] = &[
    ("spc", "", |text, row, sector| {
        let _ = writeln!(text, "{},{sector},4096,r,{}.{:06}", row % 24, row / 1_000_000, row % 1_000_000);
    }),
    ("ssdsim", "", |text, row, sector| {
        let _ = writeln!(text, "{} {} {sector} 8 {}", row * 1_000, row % 24, row % 2);
    }),
    ("msr", "", |text, row, sector| {
        let ticks = 128_166_372_000_000_000 + row * 10;
        let _ = writeln!(text, "{ticks},prxy,{},Read,{},4096,{}", row % 2, sector * 512, row % 90_000);
    }),
    ("alibaba", "", |text, row, sector| {
        let us = 1_577_808_000_000_000 + row;
        let _ = writeln!(text, "{},W,{},4096,{us}", row * 7 % 1_000, sector * 512);
    }),
    ("tencent", "", |text, row, sector| {
        let _ = writeln!(text, "{},{sector},8,1,{}", 1_538_323_200 + row / 10_000, row * 7 % 5_584);
    }),
    ("fio-iolog-v3", "fio version 3 iolog\n0 /dev/sdb add\n0 /dev/sdb open\n", |text, row, sector| {
        let _ = writeln!(text, "{row} /dev/sdb read {} 4096", sector * 512);
    }),
    ("biosnoop", HEADER_BIOSNOOP, |text, row, sector| {
        let _ = writeln!(
            text,
            "{}.{:06}    postgres       645    loop1   R {sector}    4096       3.45",
            row / 1_000_000,
            row % 1_000_000
        );
    }),
    ("wpa", HEADER_WPA, |text, row, sector| {
        let (seconds, micros, first) = (row / 1_000_000, row % 1_000_000, sector * 512);
        let last = first + 4_095;
        let _ = writeln!(
            text,
            "Read;{seconds},{micros:06};{seconds},{micros:06};4.096;0x{first:X};0x{last:X};0,0"
        );
    }),
    ("blkparse", "", |text, row, sector| {
        let (event, end) = if row.is_multiple_of(2) { ("D", "[java]") } else { ("C", "[0]") };
        // An issue and its completion have the same sector.
        let sector = if row.is_multiple_of(2) { sector } else { (row - 1).wrapping_mul(STEP) >> 30 };
        let _ = writeln!(
            text,
            "  8,16   5 {row} {}.{:09} 18615  {event}   R {sector} + 8 {end}",
            row / 1_000_000,
            row % 1_000_000 * 1_000
        );
    }),
];

/// Scatters sectors.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn main() {
    // `cargo test --benches` runs the small size, so that the benchmark never rots.
    let large = std::env::args().any(|argument| argument == "--bench");
    let rows: u64 = if large { 2_000_000 } else { 1_000 };
    for (format, header, row) in CASES {
        let mut text = (*header).to_owned();
        for number in 0..rows {
            row(&mut text, number, number.wrapping_mul(STEP) >> 30);
        }
        let (lines, megabytes) = (rows, text.len() as f64 / 1e6);
        let source =
            Source::from_stream("generated", Box::new(Cursor::new(text.into_bytes()))).expect("it has rows");
        let start = time::Instant::now();
        let trace = open_source(FORMATS, source, Some(format), &ReadOptions::default()).expect("it is right");
        let (mut count, mut sum) = (0_u64, 0_u64);
        for record in trace {
            let record = record.expect("every row is right");
            count += 1;
            sum = sum.wrapping_add(record.lbn);
        }
        black_box(sum);
        assert!(count == rows || count * 2 == rows, "{format}: {count} rows");
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{:6.1} ns per line, {:5.0} MB/s: {format}",
            seconds * 1e9 / lines as f64,
            megabytes / seconds
        );
    }
}
