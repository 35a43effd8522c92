//! Formats that count bytes state how many requests were rounded to blocks, and what that adds.

use std::io::Cursor;

use seeklab_core::ByteSize;
use seeklab_traces::{FORMATS, ReadOptions, Source, open_source};

/// A format, and a read of 700 bytes and a write of 1,300 bytes at aligned offsets.
const TRACES: [(&str, &str); 9] = [
    ("spc", "0,100,700,r,0.000000\n0,200,1300,w,0.001000\n"),
    (
        "msr",
        "128166372003061629,usr,0,Read,7014609920,700,41286\n128166372016382155,usr,0,Write,2517504,1300,2326\n",
    ),
    ("alibaba", "0,R,126703644672,700,1577808000000046\n0,W,126703644672,1300,1577808000000059\n"),
    ("systor", "1455592800.000000001,0.000123,R,0,4096,700\n1455592800.000100001,0.000123,W,0,4096,1300\n"),
    ("msr-cut", "0.100 0 4096 700 1\n0.200 0 8192 1300 0\n"),
    ("fio-iolog-v3", "fio version 3 iolog\n0 f add\n0 f open\n10 f read 4096 700\n20 f write 8192 1300\n"),
    ("fio-iolog-v2", "fio version 2 iolog\nf add\nf open\nf read 4096 700\nf write 8192 1300\n"),
    ("fio-log", "10, 20000, 0, 700, 4096, 0\n20, 30000, 1, 1300, 8192, 0\n"),
    (
        "biosnoop",
        "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.100000 fio 123 vda R 104 700 0.05\n\
         0.200000 fio 123 vda W 200 1300 0.05\n",
    ),
];

/// Notes on a trace whose blocks have that size, and the blocks of its requests.
fn read(format: &str, text: &str, block_bytes: u64) -> (Vec<String>, Vec<u32>) {
    let source = Source::from_stream("x", Box::new(Cursor::new(text.as_bytes().to_vec()))).unwrap();
    let options =
        ReadOptions { block_size: Some(ByteSize::from_bytes(block_bytes)), ..ReadOptions::default() };
    let mut trace = open_source(FORMATS, source, Some(format), &options).unwrap();
    let blocks = trace.by_ref().map(|row| row.unwrap_or_else(|error| panic!("{format}: {error}")).blocks);
    let blocks = blocks.collect();
    (trace.notes().iter().map(ToString::to_string).collect(), blocks)
}

#[test]
fn rounded_requests_are_counted_with_the_bytes_that_they_gain() {
    for (format, text) in TRACES {
        let (notes, blocks) = read(format, text, 512);
        assert_eq!(blocks, [2, 3], "{format}");
        // 2,560 bytes in place of 2,000.
        let stated = notes.iter().filter(|note| note.contains("2 of 2 requests") && note.contains("28.00 %"));
        assert_eq!(stated.count(), 1, "{format}: {notes:?}");
        let (notes, blocks) = read(format, text, 4);
        assert_eq!(blocks, [175, 325], "{format}");
        assert!(!notes.iter().any(|note| note.contains("requests begin or end")), "{format}: {notes:?}");
    }
}

#[test]
fn sectors_in_larger_blocks_are_rounded_with_a_note() {
    for (format, text) in [
        ("ssdsim", "0 0 8 1 1\n10 0 16 8 0\n"),
        ("tencent", "1538323200,8,1,0,1283\n1538323200,16,8,1,1283\n"),
    ] {
        let (notes, blocks) = read(format, text, 4096);
        assert_eq!(blocks, [1, 1], "{format}");
        assert!(notes.iter().any(|note| note.contains("1 of 2 requests")), "{format}: {notes:?}");
        assert!(
            !read(format, text, 512).0.iter().any(|note| note.contains("requests begin or end")),
            "{format}"
        );
    }
}
