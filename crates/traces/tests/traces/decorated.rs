//! Traces as other programs leave them: byte order marks, line ends of Windows, blanks around fields, blank lines, headers in
//! several spellings. None of it changes a row. Blocks of another size change no byte that a request addresses.

use std::path::Path;

use seeklab_core::{ByteSize, Operation, TraceRecord};
use seeklab_traces::{FORMATS, OpenTrace, ReadOptions, open_with};

use crate::confusion::SAMPLES;

/// Formats whose fields are separated by commas, and may have blanks around them.
const COMMA_SEPARATED: [&str; 11] = [
    "csv",
    "spc",
    "msr",
    "alibaba",
    "tencent",
    "systor",
    "cloudphysics-csv",
    "cachelib",
    "thesios",
    "fio-log",
    "issue-csv",
];

/// Headers in use, each with a row of its format.
const HEADERS: [(&str, &str, &str); 13] = [
    ("alibaba", "device_id,opcode,offset,length,timestamp", "419,W,110592,4096,1577808144360767"),
    ("alibaba", "Device ID, Opcode, Offset, Length, Timestamp", "419,W,110592,4096,1577808144360767"),
    ("alibaba", "Device,Op,Off,Len,TS", "419,W,110592,4096,1577808144360767"),
    ("alibaba", "\"volume_id\",\"op\",\"offset\",\"size\",\"time\"", "419,W,110592,4096,1577808144360767"),
    ("tencent", "Timestamp,Offset,Size,IOType,VolumeID", "1538323200,12910952,128,0,1063"),
    ("tencent", "timestamp,offset,size,iotype,volume", "1538323200,12910952,128,0,1063"),
    ("tencent", "timestamp,offset,size,io_type,volume_id", "1538323200,12910952,128,0,1063"),
    ("systor", "Timestamp,Response,IOType,LUN,Offset,Size", "1455592980.0,0.000263,R,1,1024000,8192"),
    ("systor", "timestamp, response, iotype, lun, offset, size", "1455592980.0,0.000263,R,1,1024000,8192"),
    (
        "msr",
        "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
        "128166372003061629,hm,0,Read,383496192,32768,413",
    ),
    ("msr", "timestamp,host,disk,op,offset,size,latency", "128166372003061629,hm,0,Read,383496192,32768,413"),
    ("spc", "ASU,LBA,Size,Opcode,Timestamp", "0,303567,3584,w,0.000000"),
    ("spc", "asu,lbn,bytes,op,time", "0,303567,3584,w,0.000000"),
];

fn open(text: &[u8], options: &ReadOptions) -> OpenTrace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    std::fs::write(&path, text).unwrap();
    open_with(FORMATS, &path, None, options)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}

fn rows(trace: &mut OpenTrace) -> Vec<TraceRecord> {
    trace.map(Result::unwrap).collect()
}

fn sample(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

#[test]
fn marks_line_ends_and_blank_lines_change_no_row() {
    for (name, format) in SAMPLES {
        let text = String::from_utf8(sample(name)).unwrap();
        // The sample of WPA has a mark.
        let text = text.trim_start_matches('\u{feff}');
        let plain = rows(&mut open(text.as_bytes(), &ReadOptions::default()));
        let windows = text.replace('\n', "\r\n");
        for (what, decorated) in [
            ("byte order mark", format!("\u{feff}{text}")),
            ("line ends of Windows", windows.clone()),
            ("blank lines at the end", format!("{text}\n \n\n")),
            ("blank lines at the start", format!("\n{text}")),
            ("blanks at the end of lines", text.replace('\n', " \t\n")),
            ("all", format!("\u{feff}{windows}\r\n\r\n")),
        ] {
            let mut trace = open(decorated.as_bytes(), &ReadOptions::default());
            assert_eq!(trace.format(), format, "{name}, {what}");
            assert_eq!(rows(&mut trace), plain, "{name}, {what}");
        }
    }
}

#[test]
fn blanks_around_fields_change_no_row() {
    for (name, format) in SAMPLES.iter().filter(|(_, format)| COMMA_SEPARATED.contains(format)) {
        let text = String::from_utf8(sample(name)).unwrap();
        let plain = rows(&mut open(text.as_bytes(), &ReadOptions::default()));
        // Names of the canonical metadata stand in comments.
        let spaced = |line: &str| match line.starts_with('#') {
            true => line.to_owned(),
            false => line.split(',').map(|field| format!(" {} ", field.trim())).collect::<Vec<_>>().join(","),
        };
        let spaced: Vec<String> = text.lines().map(spaced).collect();
        let mut trace = open((spaced.join("\n") + "\n").as_bytes(), &ReadOptions::default());
        assert_eq!(trace.format(), *format, "{name}");
        assert_eq!(rows(&mut trace), plain, "{name}");
    }
}

#[test]
fn headers_in_every_spelling_change_no_row() {
    for (format, header, row) in HEADERS {
        let plain = rows(&mut open(format!("{row}\n").as_bytes(), &ReadOptions::default()));
        for text in [format!("{header}\n{row}\n"), format!("\u{feff}{header}\r\n{row}\r\n")] {
            let mut trace = open(text.as_bytes(), &ReadOptions::default());
            assert_eq!((trace.format(), rows(&mut trace)), (format, plain.clone()), "{header}");
            assert_eq!(trace.notes(), [], "{header}");
        }
    }
}

#[test]
fn header_of_another_order_is_refused() {
    let text = "timestamp,offset,size,volume,iotype\n1538323200,12910952,128,0,1\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    std::fs::write(&path, text).unwrap();
    assert!(open_with(FORMATS, &path, None, &ReadOptions::default()).is_err());
    let mut trace = open_with(FORMATS, &path, Some("tencent"), &ReadOptions::default()).unwrap();
    let error = trace.find_map(Result::err).unwrap().to_string();
    assert!(error.contains("line 1: Timestamp is `timestamp`"), "{error}");
}

#[test]
fn headers_between_rows_are_skipped_and_counted() {
    let part = "device_id,opcode,offset,length,timestamp\n419,W,110592,4096,1577808144360767\n";
    let mut trace = open(part.repeat(3).as_bytes(), &ReadOptions::default());
    assert_eq!(rows(&mut trace).len(), 3);
    let notes: Vec<String> = trace.notes().iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        ["skipped 2 further headers, the first at line 3: the trace was joined from several traces"]
    );
}

/// Operation, first byte and bytes of every row in blocks of `block_bytes`.
fn bytes(text: &[u8], block_bytes: u64, settings: &[&str]) -> Vec<(Operation, u64, u64)> {
    let options = ReadOptions {
        block_size: Some(ByteSize::from_bytes(block_bytes)),
        settings: settings.iter().map(|setting| setting.parse().unwrap()).collect(),
        ..ReadOptions::default()
    };
    let rows = rows(&mut open(text, &options));
    rows.iter().map(|row| (row.op, row.lbn * block_bytes, u64::from(row.blocks) * block_bytes)).collect()
}

#[test]
fn block_size_changes_no_byte_that_a_request_addresses() {
    // The canonical trace states its own blocks.
    for (name, _) in SAMPLES.iter().filter(|(_, format)| *format != "csv") {
        let text = sample(name);
        let first = |rows: Vec<(Operation, u64, u64)>| {
            rows.into_iter().map(|(op, first, _)| (op, first)).collect::<Vec<_>>()
        };
        let single = bytes(&text, 1, &[]);
        let of_512 = bytes(&text, 512, &[]);
        assert_eq!(bytes(&text, 256, &[]).len(), single.len(), "{name}");
        if !matches!(*name, "cachelib/sample.csv" | "thesios/sample.csv") {
            assert_eq!(first(single), first(of_512), "{name}: bytes and sectors");
        }
    }
    let text = b"0,8,4096,r,0.0\n0,16,3584,w,0.1\n";
    assert_eq!(bytes(text, 4096, &[]), [(Operation::Read, 4096, 4096), (Operation::Write, 8192, 4096)]);
}

#[test]
fn unit_of_spc_addresses_is_an_option() {
    let text = b"0,8,4096,r,0.0\n0,3,3584,w,0.1\n";
    assert_eq!(bytes(text, 512, &[]), [(Operation::Read, 4096, 4096), (Operation::Write, 1536, 3584)]);
    for block_bytes in [512, 1024] {
        let in_blocks = bytes(text, block_bytes, &["address-unit=4KiB"]);
        assert_eq!(in_blocks[0], (Operation::Read, 32_768, 4096));
        assert_eq!((in_blocks[1].0, in_blocks[1].1), (Operation::Write, 12_288));
    }
    let error = {
        let options = ReadOptions { block_size: Some(ByteSize::from_bytes(4096)), ..ReadOptions::default() };
        open(text, &options).find_map(Result::err).unwrap()
    };
    assert!(
        error
            .to_string()
            .contains("line 2: lba is `3`: an address at a multiple of the block size of 4096 bytes")
    );
    assert_eq!(
        error.hint(),
        Some("read the trace in smaller blocks: `--block-size 512B` divides this offset")
    );
}
