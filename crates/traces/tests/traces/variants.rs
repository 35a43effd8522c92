//! Traces as they are found beside the samples: headers, blank fields, other languages, archives of other programs.

use std::path::{Path, PathBuf};

use seeklab_core::{ByteSize, Instant, Operation, TraceRecord};
use seeklab_traces::{FORMATS, Metadata, OpenTrace, ReadOptions, create_with, open_with};

use Operation::{Flush, Read, Write};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn open(path: &Path) -> OpenTrace {
    open_with(FORMATS, path, None, &ReadOptions::default()).unwrap()
}

/// Operation, first block and blocks of every row of a trace with this text in a format that is guessed, and its notes.
fn read(format: &str, text: &str) -> (Vec<(Operation, u64, u32)>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    std::fs::write(&path, text).unwrap();
    let mut trace = open(&path);
    assert_eq!(trace.format(), format);
    let rows = trace.by_ref().map(|row| row.map(|row| (row.op, row.lbn, row.blocks)).unwrap()).collect();
    (rows, trace.notes().iter().map(ToString::to_string).collect())
}

#[test]
fn systor_rows_of_unknown_operation_are_counted() {
    let (rows, notes) =
        read("systor", "1456358400.1,0.1,,6,512,512\n1456358400.2,,R,6,1024,512\n1456358400.3,,,6,0,512\n");
    assert_eq!(rows, [(Read, 2, 1)]);
    assert_eq!(
        notes,
        ["skipped 2 requests of unknown operation, the first at line 1: the trace leaves their IOType blank"]
    );
}

#[test]
fn biosnoop_rows_of_unknown_process_and_disk_are_counted() {
    let text = "\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)
0.000000    ?              0              R 0          8         2.00
0.001000    ?              0      <unknown> R 0          8         2.00
0.002000    ?              0              R -1         8         0.28
0.003000    smartd         712    sda     R 18446744073709551615 512 0.31
0.004000    ?              0      sda     W 8          512       0.50
0.005000    kworker/0:1    0      sda     F 0          0         0.41
";
    let (rows, notes) = read("biosnoop", text);
    assert_eq!(rows, [(Write, 8, 1), (Flush, 0, 0)], "a request to a known disk counts, whoever made it");
    assert_eq!(
        notes,
        ["skipped 4 commands without a disk or sector, the first at line 2: they address no blocks"]
    );
}

#[test]
fn tables_of_wpa_are_read_in_english_as_in_german() {
    let german = std::fs::read_to_string(data("wpa/sample.csv")).unwrap();
    let in_english = |field: &str| {
        // Names and offsets have neither sign.
        let number = field.bytes().all(|byte| byte.is_ascii_digit() || b".,".contains(&byte));
        let swap = |sign| match sign {
            '.' => ',',
            ',' => '.',
            other => other,
        };
        let field: String = if number { field.chars().map(swap).collect() } else { field.to_owned() };
        if field.contains(',') { format!("\"{field}\"") } else { field }
    };
    let english: Vec<String> =
        german.lines().map(|line| line.split(';').map(in_english).collect::<Vec<_>>().join(",")).collect();
    assert!(english[1].contains("1.080116400") && english[1].contains("\"16,384\""), "{}", english[1]);
    assert_eq!(read("wpa", &(english.join("\n") + "\n")), read("wpa", &german));
    let rows = |path: &Path| open(path).map(Result::unwrap).collect::<Vec<TraceRecord>>();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, english.join("\r\n")).unwrap();
    assert_eq!(rows(&path), rows(&data("wpa/sample.csv")), "times, priorities and queue lengths, too");
    // The sign between thousands stands before three digits.
    std::fs::write(&path, english.join("\n").replace("16,384", "1,6384")).unwrap();
    let error = open(&path).find_map(Result::err).unwrap().to_string();
    assert!(error.contains("`,` between groups of three digits"), "{error}");
}

#[test]
fn objects_rounded_to_blocks_are_counted_in_a_note() {
    let mut trace = open(&data("thesios/sample.csv"));
    assert_eq!(trace.by_ref().filter(Result::is_ok).count(), 3);
    let notes: Vec<String> = trace.notes().iter().map(ToString::to_string).collect();
    assert!(
        notes.iter().any(|note| note.contains("of 3 requests begins or ends within a block of 512 bytes")),
        "{notes:?}"
    );
    let bytes = ReadOptions { block_size: Some(ByteSize::from_bytes(1)), ..ReadOptions::default() };
    let mut trace = open_with(FORMATS, &data("thesios/sample.csv"), None, &bytes).unwrap();
    assert_eq!(trace.by_ref().filter(Result::is_ok).count(), 3);
    assert_eq!(trace.notes().len(), 1, "bytes are not rounded: {:?}", trace.notes());
}

#[test]
fn bytes_and_addresses_survive_every_format_whatever_the_block_size() {
    let folder = tempfile::tempdir().unwrap();
    for format in FORMATS.iter().filter(|format| format.is_writable()) {
        for block_size in [256_u64, 512, 4096] {
            let per = 4096 / block_size;
            let metadata = Metadata { block_size: ByteSize::from_bytes(block_size), ..Metadata::default() };
            let records: Vec<TraceRecord> = (0..9_u64)
                .map(|index| {
                    let arrival = Instant::from_ns(index * 1_000_000_000);
                    let op = if index % 3 == 0 { Write } else { Read };
                    let record =
                        TraceRecord::new(arrival, op, index * 7 * per, (index + 1) as u32 * per as u32);
                    let completion = Some(Instant::from_ns(arrival.as_ns() + 5_000_000));
                    TraceRecord { completion, ..record }
                })
                .collect();
            let path = folder.path().join("t");
            let mut writer = create_with(FORMATS, &path, Some(format.name()), &metadata).unwrap();
            records.iter().for_each(|record| writer.write(record).unwrap());
            writer.finish().unwrap();
            let mut trace = open_with(FORMATS, &path, Some(format.name()), &ReadOptions::default()).unwrap();
            let rows: Vec<TraceRecord> = trace.by_ref().collect::<Result<_, _>>().unwrap();
            let read_size = trace.metadata().block_size.as_bytes();
            let bytes = |rows: &[TraceRecord], size: u64| -> Vec<(Operation, u64, u64)> {
                rows.iter().map(|row| (row.op, row.lbn * size, u64::from(row.blocks) * size)).collect()
            };
            assert_eq!(
                bytes(&rows, read_size),
                bytes(&records, block_size),
                "{} in blocks of {block_size} bytes",
                format.name()
            );
        }
    }
}

#[test]
fn archives_of_zip_and_files_of_bzip2_are_read() {
    let plain: Vec<TraceRecord> = open(&data("alibaba/sample.csv")).map(Result::unwrap).collect();
    for name in ["deflated.zip", "stored.zip", "sample.csv.bz2"] {
        let mut trace = open(&data("archive").join(name));
        assert_eq!(trace.by_ref().map(Result::unwrap).collect::<Vec<_>>(), plain, "{name}");
        let bytes = std::fs::read(data("archive").join(name)).unwrap();
        let stream = Box::new(std::io::Cursor::new(bytes));
        let source = seeklab_traces::Source::from_stream("standard input", stream).unwrap();
        assert!(source.part_count() >= 1, "{name} comes through a pipe");
    }
    let refused = |name: &str| {
        let error =
            open_with(FORMATS, &data("archive").join(name), None, &ReadOptions::default()).err().unwrap();
        format!("{error}")
    };
    assert!(refused("encrypted.zip").contains("an encrypted file"), "{}", refused("encrypted.zip"));
}

#[test]
fn flipped_bits_in_compressed_traces_are_reported_as_damage() {
    let folder = tempfile::tempdir().unwrap();
    let compressed = ["t.csv.zst", "t.csv.gz"].map(|name| {
        let path = folder.path().join(name);
        let mut writer = create_with(FORMATS, &path, None, &Metadata::default()).unwrap();
        let rows: Vec<TraceRecord> = (0..2_000)
            .map(|index| {
                TraceRecord::new(Instant::from_ns(index * index * 977), Read, index * 7919 % 4001, 8)
            })
            .collect();
        rows.iter().for_each(|row| writer.write(row).unwrap());
        writer.finish().unwrap();
        path
    });
    let archives = ["deflated.zip", "stored.zip", "sample.csv.bz2"].map(|name| data("archive").join(name));
    for original in compressed.into_iter().chain(archives) {
        let expected: Vec<TraceRecord> = open(&original).map(Result::unwrap).collect();
        let bytes = std::fs::read(&original).unwrap();
        let damaged = folder.path().join("damaged");
        for position in 0..bytes.len().min(400) {
            let position = position * bytes.len() / bytes.len().min(400);
            let mut flipped = bytes.clone();
            flipped[position] ^= 1 << (position % 8);
            std::fs::write(&damaged, &flipped).unwrap();
            let trace = open_with(FORMATS, &damaged, None, &ReadOptions::default());
            let place = format!("{}: byte {position}", original.display());
            match trace.and_then(Iterator::collect::<Result<Vec<TraceRecord>, _>>) {
                Ok(read) => assert_eq!(read, expected, "{place}"),
                Err(error) => {
                    let text = error.to_string();
                    let is_damage = text.contains("the compressed data") || text.contains("archive");
                    // A file without the mark of its compression is none.
                    assert!(is_damage || position < 4, "{place}: {text}");
                }
            }
        }
    }
}
