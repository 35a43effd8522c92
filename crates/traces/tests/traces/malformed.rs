//! Every malformed trace gets an error that names file, line and value.

use std::io::Cursor;

use seeklab_core::ByteSize;
use seeklab_traces::guess::by_name;
use seeklab_traces::{ErrorKind, FORMATS, ReadOptions, Source, TraceError, open_source};

fn read(format: Option<&str>, text: &[u8]) -> Result<Vec<seeklab_core::TraceRecord>, TraceError> {
    let source = Source::from_stream("bad.trace", Box::new(Cursor::new(text.to_vec())))?;
    open_source(FORMATS, source, format, &ReadOptions::default())?.collect()
}

/// Checks that `line`, in line 2 behind the good line `first`, is refused for `reasons`.
fn check(format: &str, first: &str, table: &[(&str, &[&str])]) {
    assert!(read(Some(format), first.as_bytes()).is_ok(), "{first}");
    for (line, reasons) in table {
        let text = format!("{first}\n{line}\n");
        let error = read(Some(format), text.as_bytes()).expect_err(line);
        let message = error.to_string();
        assert!(message.starts_with("bad.trace, line 2: "), "{line}: {message}");
        for reason in *reasons {
            assert!(message.contains(reason), "{line}: {message}");
        }
    }
}

#[test]
fn bad_lines_of_disksim_ascii_are_named() {
    let table: &[(&str, &[&str])] = &[
        ("x 0 1 1 1", &["arrival_ms is `x`", "milliseconds"]),
        ("-1 0 1 1 1", &["`-1`", "without sign"]),
        ("1e3 0 1 1 1", &["`1e3`"]),
        ("99999999999999999999 0 1 1 1", &["too many", "584 years"]),
        ("1 65536 1 1 1", &["device is `65536`", "0 to 65535"]),
        ("1 0 1 4294967296 1", &["blocks is `4294967296`"]),
        ("1 0 1 0 1", &["blocks is `0`", "at least 1 block"]),
        ("1 0 36028797018963968 1 1", &["lbn is `36028797018963968`", "0 to 36028797018963967"]),
        ("1 0 1 1 g", &["flags is `g`", "hexadecimal"]),
        ("1 0 1 1", &["`flags` is missing"]),
        ("1 0 1 1 1 1", &["6 fields are too many"]),
        ("\0\u{1}", &["\\0\\u{1}"]),
    ];
    check("disksim-ascii", "0.5 0 1 1 1", table);
}

#[test]
fn bad_lines_of_disksim_validate_are_named() {
    let table: &[(&str, &[&str])] = &[
        ("X Hit 1 1 1 1", &["op is `X`", "`R` or `W`"]),
        ("R Maybe 1 1 1 1", &["label is `Maybe`"]),
        ("R Hit 1 0 1 1", &["blocks is `0`"]),
        ("R Hit 1 1 nan 1", &["response_us is `nan`"]),
        ("R Hit 1 1 18446744073709551 1", &["584 years"]),
        ("R Hit 1 1 1", &["`think_us` is missing"]),
    ];
    check("disksim-validate", "R Hit 1 1 1000.5 1000.5", table);
}

#[test]
fn bad_lines_of_spc_are_named() {
    let table: &[(&str, &[&str])] = &[
        ("0,1,512,x,0.5", &["opcode is `x`", "`r` or `w`"]),
        ("0,1,512,r,", &["timestamp is ``"]),
        ("0,1,0,r,0.5", &["blocks is `0`"]),
        ("0,1,9999999999999999,r,0.5", &["size is `9999999999999999`", "4294967295 blocks"]),
        ("70000,1,512,r,0.5", &["asu is `70000`"]),
        ("0,1,512", &["`opcode` is missing", "asu, lba, size"]),
    ];
    check("spc", "0,1,512,r,0.0", table);
}

#[test]
fn bad_lines_of_msr_are_named() {
    let table: &[(&str, &[&str])] = &[
        ("1,h,0,read,0,512,1", &["Type is `read`", "`Read` or `Write`"]),
        ("1,h,0,Read,100,512,1", &["Offset is `100`", "multiple of the block size of 512 bytes"]),
        ("1,h,x,Read,0,512,1", &["DiskNumber is `x`"]),
        ("1,,0,Read,0,512,1", &["Hostname is ``"]),
        ("184467440737095517,h,0,Read,0,512,1", &["Timestamp is `184467440737095517`"]),
        ("184467440737095516,h,0,Read,0,512,9", &["2185"]),
        ("1,h,0,Read,0,512,1,", &["8 fields are too many"]),
    ];
    check("msr", "1,h,0,Read,0,512,1", table);
    let error = read(Some("msr"), b"1,h,0,Read,100,512,1\n").unwrap_err();
    assert!(error.hint().unwrap().contains("--block-size"));
}

#[test]
fn bad_rows_of_canonical_csv_are_named() {
    let table: &[(&str, &[&str])] = &[
        (",,,,,,read,1,1", &["arrival_ns is ``", "every row needs it"]),
        ("1,,,,,,erase,1,1", &["op is `erase`", "read, write, flush, discard, write_zeroes"]),
        ("1,,,,,,read,1,5000000000", &["blocks is `5000000000`", "4294967295"]),
        ("1,,,,,,read,1.5,1", &["lbn is `1.5`"]),
        ("5,,4,,,,read,1,1", &["completion_ns is `4`", "lies before 5"]),
        ("5,9,8,,,,read,1,1", &["completion_ns is `8`", "lies before 9"]),
        ("5,,9,5,,,read,1,1", &["response_ns is `5`", "completion_ns - arrival_ns, which is 4"]),
        ("5,7,,,3,,read,1,1", &["queue_ns is `3`", "which is 2"]),
        ("5,7,9,,,3,read,1,1", &["service_ns is `3`", "which is 2"]),
        ("5,,9,,,10,read,1,1", &["service_ns is `10`", "longer"]),
        ("18446744073709551615,,,1,,,read,1,1", &["response_ns is `1`", "584 years"]),
        ("1,,,,,,read,1", &["8 fields where the header has 9"]),
        ("1,,,,,,read,1,1,", &["10 fields where the header has 9"]),
    ];
    let header = "arrival_ns,start_ns,completion_ns,response_ns,queue_ns,service_ns,op,lbn,blocks";
    check("csv", header, table);
}

#[test]
fn breakdowns_are_checked_against_the_response_time() {
    let parts = "overhead_ns,seek_ns,settle_ns,head_switch_ns,rotation_ns,transfer_ns,bus_ns,internal_ns";
    let header = format!("arrival_ns,op,lbn,blocks,queue_ns,response_ns,{parts}");
    assert!(read(Some("csv"), format!("{header}\n0,read,1,1,2,10,1,1,1,1,1,1,1,1\n").as_bytes()).is_ok());
    assert!(read(Some("csv"), format!("{header}\n0,read,1,1,2,10,8,,,,,,,\n").as_bytes()).is_ok());
    let table: &[(&str, &[&str])] = &[
        ("0,read,1,1,2,10,9,1,1,1,1,1,1,1", &["is `16`", "longer than the response time, 10"]),
        ("0,read,1,1,2,10,1,,,,,,,", &["is `1`", "some parts are null"]),
        ("0,read,1,1,2,,1,1,1,1,1,1,1,1", &["a breakdown needs completion_ns"]),
    ];
    check("csv", &header, table);
}

#[test]
fn bad_headers_are_named() {
    let check = |header: &str, reason: &str| {
        let message = read(Some("csv"), format!("# seed: 1\n{header}\n").as_bytes()).unwrap_err().to_string();
        assert!(message.starts_with("bad.trace, line 2: ") && message.contains(reason), "{message}");
    };
    check("arrival_ns,op,lbn", "the column `blocks` is missing");
    check(
        "arrival_us,op,lbn,blocks",
        "column is `arrival_us`: the trace schema has no such column; near it is `arrival_ns`",
    );
    check("arrival_ns,op,lbn,blocks,lbn", "column is `lbn`: it occurs twice");
    let message = read(Some("csv"), b"# seed: x\n").unwrap_err().to_string();
    assert!(message.contains("line 1: seed is `x`"), "{message}");
    let message = read(Some("csv"), b"# seed: 1\n").unwrap_err().to_string();
    assert!(message.contains("the header is missing"), "{message}");
}

#[test]
fn block_size_that_contradicts_the_trace_is_refused() {
    let text = b"# block_size: 4KiB\narrival_ns,op,lbn,blocks\n".to_vec();
    let open = |bytes| {
        let source = Source::from_stream("bad.trace", Box::new(Cursor::new(text.clone()))).unwrap();
        let options = ReadOptions { block_size: Some(ByteSize::from_bytes(bytes)), ..ReadOptions::default() };
        open_source(FORMATS, source, None, &options)
    };
    assert!(open(4096).is_ok());
    let message = open(512).unwrap_err().to_string();
    assert!(message.contains("line 1: block_size is `4KiB`"), "{message}");
}

#[test]
fn unrecognised_and_ambiguous_traces_are_errors_with_a_hint() {
    for text in [&b"hello\n"[..], b"\0\x01\x02\x03", b"\xff\xfe", b"1 2 3 4\n", b"\n\n", b"{\"a\": 1}\n"] {
        let error = read(None, text).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::FormatNotRecognised { .. }), "{error}");
        assert!(error.hint().unwrap().contains("name the format"), "{:?}", error.hint());
        assert!(error.to_string().contains("`disksim-ascii`, `disksim-validate`, `spc`, `msr`"), "{error}");
    }
    // Whole numbers may be milliseconds or nanoseconds; a few multiples of 512 may be bytes or blocks.
    let (small, bytes) =
        ("0 0 303567 7 0\n262 0 303574 7 0\n", "0.000 0 200626176 4096 0\n22.8 0 512 512 1\n");
    for (text, formats) in [(small, ["disksim-ascii", "ssdsim"]), (bytes, ["disksim-ascii", "msr-cut"])] {
        let error = read(None, text.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::FormatAmbiguous { formats: formats.to_vec() });
        for format in formats {
            assert!(read(Some(format), text.as_bytes()).is_ok());
        }
    }
    // Whole numbers and bytes: none of the three.
    let error = read(None, "0 0 200626176 4096 0\n26214000 0 512 512 1\n".as_bytes()).unwrap_err();
    assert!(error.hint().unwrap().contains("SSDsim"), "{error}");
    let error = by_name(FORMATS, "disksim-asci").err().unwrap();
    assert_eq!(error.hint(), Some("did you mean `disksim-ascii`?"));
    assert_eq!(read(None, b"").unwrap_err().kind(), &ErrorKind::Empty);
}

#[test]
fn line_without_end_is_an_error() {
    let mut text = b"0,1,512,r,0.0\n".repeat(3);
    text.extend([b'1'; 100_000]);
    let message = read(None, &text).unwrap_err().to_string();
    assert_eq!(
        message,
        "bad.trace, line 4: the line is longer than 65536 bytes; this is not a trace in text"
    );
}

#[test]
fn rows_before_an_error_come_first() {
    let source =
        Source::from_stream("x", Box::new(Cursor::new(b"0,1,512,r,0.0\n0,1,512,r,x\n".to_vec()))).unwrap();
    let mut trace = open_source(FORMATS, source, Some("spc"), &ReadOptions::default()).unwrap();
    assert!(trace.next().unwrap().is_ok());
    assert!(trace.next().unwrap().is_err());
    assert!(trace.next().is_none());
}

#[test]
fn truncated_compressed_trace_reports_the_rows_before() {
    use std::io::Write;
    let rows = 50_000;
    let text: String = (0..rows).map(|row| format!("0,{},512,r,{row}.5\n", row * 7919 % 65_537)).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    for bytes in [gzip.finish().unwrap(), zstd::encode_all(text.as_bytes(), 3).unwrap()] {
        assert_eq!(read(None, &bytes).unwrap().len(), rows);
        let cut = &bytes[..bytes.len() / 2];
        let source = Source::from_stream("cut.gz", Box::new(Cursor::new(cut.to_vec()))).unwrap();
        let mut trace = open_source(FORMATS, source, Some("spc"), &ReadOptions::default()).unwrap();
        let given = trace.by_ref().take_while(Result::is_ok).count() as u64;
        let message = read(Some("spc"), cut).unwrap_err().to_string();
        assert_eq!(
            message,
            format!("bad.trace: the compressed data ends early, after {given} rows could be read")
        );
        assert!(trace.next().is_none());
    }
}
