//! Binary formats: small traces of our own making, bad input, round trips, and bytes of any kind.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::select;
use seeklab_core::{ByteSize, Instant, Operation, TraceRecord};
use seeklab_traces::{
    ErrorKind, FORMATS, Metadata, Note, OpenTrace, Place, ReadOptions, Source, TraceError, create_with,
    open_source, open_with,
};

fn options(settings: &[&str]) -> ReadOptions {
    let settings = settings.iter().map(|setting| setting.parse().unwrap()).collect();
    ReadOptions { settings, ..ReadOptions::default() }
}

fn open(format: Option<&str>, bytes: &[u8], settings: &[&str]) -> Result<OpenTrace, TraceError> {
    let source = Source::from_stream("x", Box::new(Cursor::new(bytes.to_vec())))?;
    open_source(FORMATS, source, format, &options(settings))
}

fn read(
    format: Option<&str>,
    bytes: &[u8],
    settings: &[&str],
) -> Result<(Vec<TraceRecord>, Vec<Note>), TraceError> {
    let mut trace = open(format, bytes, settings)?;
    let rows = trace.by_ref().collect::<Result<_, _>>()?;
    Ok((rows, trace.notes()))
}

/// Rows before the error, and the error.
fn fails(format: &str, bytes: &[u8], settings: &[&str]) -> (usize, TraceError) {
    match open(Some(format), bytes, settings) {
        Err(error) => (0, error),
        Ok(trace) => {
            let mut rows = 0;
            for row in trace {
                match row {
                    Ok(_) => rows += 1,
                    Err(error) => return (rows, error),
                }
            }
            panic!("{format}: {rows} rows and no error");
        }
    }
}

fn times(rows: &[TraceRecord]) -> Vec<(u64, Option<u64>)> {
    rows.iter().map(|row| (row.arrival.as_ns(), row.completion.map(Instant::as_ns))).collect()
}

/// Integers of a record in either byte order.
struct Bytes {
    bytes: Vec<u8>,
    is_big: bool,
}

impl Bytes {
    fn little() -> Self {
        Self { bytes: Vec::new(), is_big: false }
    }

    fn big() -> Self {
        Self { bytes: Vec::new(), is_big: true }
    }

    fn put(mut self, size: usize, number: u64) -> Self {
        let little = number.to_le_bytes();
        let mut field = little[..size].to_vec();
        if self.is_big {
            field.reverse();
        }
        self.bytes.extend(field);
        self
    }
}

const QUEUE: u32 = 1;
const REQUEUE: u32 = 6;
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;

/// A record of blktrace on device 8,16, with `payload` bytes behind it.
fn event(into: Bytes, time: u64, action: u32, sector: u64, bytes: u64, payload: usize) -> Bytes {
    let into = into.put(4, 0x6561_7407).put(4, 1).put(8, time).put(8, sector).put(4, bytes);
    let into = into.put(4, u64::from(action)).put(4, 77).put(4, 8 << 20 | 16).put(4, 3).put(2, 0);
    let mut into = into.put(2, payload as u64);
    into.bytes.extend(std::iter::repeat_n(0xaa, payload));
    into
}

#[test]
fn events_of_either_byte_order_and_with_payloads_become_requests() {
    for start in [Bytes::little(), Bytes::big()] {
        let events = event(start, 5, NOTIFY, 0, 0, 16);
        let events = event(events, 10, QUEUE | READ, 8, 4096, 0);
        let events = event(events, 12, ISSUE | READ, 8, 4096, 7);
        let events = event(events, 13, ISSUE | READ | FLUSH, 0, 0, 0);
        let events = event(events, 14, ISSUE | WRITE | DISCARD, 64, 8192, 0);
        let events = event(events, 20, COMPLETE | READ, 8, 4096, 0);
        let events = event(events, 21, COMPLETE | READ | FLUSH, 0, 0, 0);
        let events = event(events, 22, REQUEUE | WRITE | DISCARD, 64, 8192, 0);
        let events = event(events, 23, ISSUE | WRITE | DISCARD, 64, 8192, 0);
        let events = event(events, 30, COMPLETE | WRITE | DISCARD, 64, 8192, 0);
        let (rows, notes) = read(None, &events.bytes, &[]).unwrap();
        assert_eq!(times(&rows), [(0, Some(8)), (1, Some(9)), (2, None), (11, Some(18))]);
        let operations: Vec<_> = rows.iter().map(|row| (row.op, row.lbn, row.blocks)).collect();
        let discard = (Operation::Discard, 64, 16);
        assert_eq!(operations, [(Operation::Read, 8, 8), (Operation::Flush, 0, 0), discard, discard]);
        assert_eq!(rows[0].initiator, 77);
        assert_eq!(notes[0], Note::CompletionsMissing { requests: 1, given_up: 0 });
        assert_eq!(notes.len(), 2, "{notes:?}");
    }
}

/// A folder with the events of two processors, the second compressed and in other hands' order.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let first = event(Bytes::little(), 100, ISSUE | READ, 8, 4096, 0);
    let first = event(first, 300, COMPLETE | READ, 16, 4096, 0);
    let second = event(Bytes::big(), 200, ISSUE | READ, 16, 4096, 0);
    let second = event(second, 250, COMPLETE | READ, 8, 4096, 0);
    std::fs::write(folder.path().join("sda.blktrace.0"), first.bytes).unwrap();
    std::fs::write(folder.path().join("sda.blktrace.1"), "").unwrap();
    let packed = zstd::stream::encode_all(&second.bytes[..], 0).unwrap();
    std::fs::write(folder.path().join("sda.blktrace.10.zst"), packed).unwrap();
    folder
}

fn read_path(path: &Path, settings: &[&str]) -> Vec<TraceRecord> {
    open_with(FORMATS, path, None, &options(settings)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn files_of_processors_are_one_trace_under_any_name() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let whole = [(0, Some(150)), (100, Some(200))];
    let paths = ["sda.blktrace.0", "sda.blktrace.10.zst", "sda.blktrace", "sda"];
    for path in paths.map(at).into_iter().chain([folder.path().to_owned()]) {
        assert_eq!(times(&read_path(&path, &[])), whole, "{}", path.display());
    }
    assert_eq!(times(&read_path(&at("sda.blktrace.0"), &["parts=alone"])), [(0, None)]);
    // Packed, and with something beside.
    let mut archive = tar::Builder::new(Vec::new());
    for name in ["sda.blktrace.0", "sda.blktrace.1", "sda.blktrace.10.zst"] {
        archive.append_path_with_name(at(name), format!("trace/{name}")).unwrap();
    }
    archive.append_path_with_name(at("sda.blktrace.0"), "trace/notes.txt").unwrap();
    let bytes = archive.into_inner().unwrap();
    for (name, bytes) in
        [("a.tar", bytes.clone()), ("a.tar.zst", zstd::stream::encode_all(&bytes[..], 0).unwrap())]
    {
        std::fs::write(at(name), bytes).unwrap();
        let mut trace = open_with(FORMATS, &at(name), None, &options(&[])).unwrap();
        let rows: Vec<_> = trace.by_ref().collect::<Result<_, _>>().unwrap();
        assert_eq!(times(&rows), whole, "{name}");
        assert!(trace.notes()[0].to_string().contains("`notes.txt`"), "{:?}", trace.notes());
    }
}

#[test]
fn single_file_format_refuses_a_trace_of_several_files() {
    let folder = folder();
    let error = open_with(FORMATS, folder.path(), Some("spc"), &options(&[])).err().unwrap();
    assert!(error.to_string().contains("it has 2 parts"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn blktrace_truncation_is_noted_and_wrong_bytes_are_an_error_with_place() {
    let events = event(Bytes::little(), 1, ISSUE | READ, 8, 4096, 4);
    let events = event(events, 2, COMPLETE | READ, 8, 4096, 4).bytes;
    for length in 53..events.len() {
        let (rows, notes) = read(Some("blktrace"), &events[..length], &[]).unwrap();
        assert_eq!(times(&rows), [(0, None)]);
        assert!(
            notes.iter().any(|note| matches!(note, Note::Skipped { count: 1, first: Place::Byte(52), .. }))
        );
    }
    for (at, byte, what) in [(52, 0x08, "version 8 is not known"), (54, 0, "begins with 0x65007407")] {
        let mut wrong = events.clone();
        wrong[at] = byte;
        let (rows, error) = fails("blktrace", &wrong, &[]);
        assert_eq!((rows, error.place()), (1, Some(Place::Byte(52))), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

fn vscsi_v1(records: &[(u16, u64, u32, u64)]) -> Vec<u8> {
    let record = |into: Bytes, (command, lbn, length, us): &(u16, u64, u32, u64)| {
        let into = into.put(4, 9).put(4, u64::from(*length)).put(4, 1).put(2, u64::from(*command));
        into.put(2, 0x0100).put(8, *lbn).put(8, *us)
    };
    records.iter().fold(Bytes::little(), record).bytes
}

#[test]
fn vscsi_commands_are_distinguished_and_unknown_commands_counted() {
    let records =
        [(0x28, 8, 512, 50), (0x8a, 9, 1024, 40), (0x12, 0, 36, 55), (0x35, 7, 0, 60), (0x42, 3, 512, 70)];
    let (rows, notes) = read(Some("vscsi"), &vscsi_v1(&records), &[]).unwrap();
    let seen: Vec<_> = rows.iter().map(|row| (row.arrival.as_ns(), row.op, row.lbn, row.blocks)).collect();
    let expected = [
        (0, Operation::Write, 9, 2),
        (10_000, Operation::Read, 8, 1),
        (20_000, Operation::Flush, 0, 0),
        (30_000, Operation::Discard, 3, 1),
    ];
    assert_eq!(seen, expected);
    assert!(matches!(&notes[..], [Note::Skipped { count: 1, first: Place::Byte(64), .. }]), "{notes:?}");
}

#[test]
fn bad_vscsi_is_an_error_with_its_place() {
    let good = vscsi_v1(&[(0x28, 8, 512, 50), (0x28, 8, 512, 60)]);
    let (_, error) = fails("vscsi", &good[..40], &[]);
    assert_eq!(error.place(), Some(Place::Byte(32)), "{error}");
    assert!(error.to_string().contains("8 of its 32 bytes"), "{error}");
    let mut mixed = good.clone();
    mixed[32 + 15] = 2;
    let (rows, error) = fails("vscsi", &mixed, &[]);
    assert_eq!((rows, error.place()), (1, Some(Place::Byte(32))), "{error}");
    let (_, error) = fails("vscsi", &[7; 64], &[]);
    assert_eq!(error.place(), Some(Place::Byte(0)));
    let (_, error) = fails("vscsi", &vscsi_v1(&[(0x28, u64::MAX, 512, 50)]), &[]);
    assert!(error.to_string().contains("lbn"), "{error}");
    let (_, error) = fails("vscsi", &vscsi_v1(&[(0x28, 1, 512, u64::MAX)]), &[]);
    assert!(error.to_string().contains("584 years"), "{error}");
    let (_, error) = fails("vscsi", &vscsi_v1(&[(0x28, 1, 0, 5)]), &[]);
    assert!(error.to_string().contains("blocks is `0`"), "{error}");
}

fn oracle(records: &[(u32, u64, u32, i64)]) -> Vec<u8> {
    let record = |into: Bytes, (time, id, size, next): &(u32, u64, u32, i64)| {
        into.put(4, u64::from(*time)).put(8, *id).put(4, u64::from(*size)).put(8, next.cast_unsigned())
    };
    records.iter().fold(Bytes::little(), record).bytes
}

#[test]
fn oracle_general_takes_missing_properties_from_its_options() {
    let bytes = oracle(&[(7, 4096, 512, 2), (7, 8192, 1024, -1), (9, 4096, 512, -1)]);
    let (rows, _) = read(None, &bytes, &[]).unwrap();
    let seen = |rows: &[TraceRecord]| -> Vec<_> {
        rows.iter().map(|row| (row.arrival.as_ns() / 1_000_000_000, row.op, row.lbn, row.blocks)).collect()
    };
    let read_at = |at, lbn, blocks| (at, Operation::Read, lbn, blocks);
    assert_eq!(seen(&rows), [read_at(0, 4096, 1), read_at(0, 8192, 2), read_at(2, 4096, 1)]);
    let (rows, _) = read(None, &bytes, &["operation=write", "id=bytes"]).unwrap();
    assert_eq!(seen(&rows)[1], (0, Operation::Write, 16, 2));
    let (_, error) = fails("oracle-general", &bytes[..30], &[]);
    assert_eq!(error.place(), Some(Place::Byte(24)), "{error}");
    let (_, error) = fails("oracle-general", &oracle(&[(1, 5, 512, -1)]), &["id=bytes"]);
    assert!(error.to_string().contains("multiple of the block size"), "{error}");
    // Neither times that go back nor what was asked for before are in such a file.
    assert!(open(None, &oracle(&[(7, 1, 512, -1), (6, 1, 512, -1)]), &[]).is_err());
    assert!(open(None, &oracle(&[(7, 1, 512, -1), (7, 1, 512, 1)]), &[]).is_err());
}

const SRT_HEADER: &str = "$$TR_IOREC-1.3\ndisks = { 0 -> { sectorsize  = 256,\n } };\n\x0c";

fn srt(header: &str, records: &[(u32, u32, [u32; 7])]) -> Vec<u8> {
    let mut bytes = Bytes::big();
    bytes.bytes.extend(header.as_bytes());
    for (size, id, [seconds, us, start, stop, length, sector, flags]) in records {
        let device = 0x0800_0108;
        let fields = [*size, *id, *seconds, *us, *start, *stop, *length, *sector, device, 4, 0, *flags, 0, 3];
        let before = bytes.bytes.len();
        bytes = fields.iter().fold(bytes, |bytes, field| bytes.put(4, u64::from(*field)));
        bytes.bytes.resize(before + *size as usize, 0xee);
    }
    bytes.bytes
}

#[test]
fn srt_records_of_every_size_and_type_are_handled() {
    let request = [1, 5, 10, 30, 1024, 40, 1];
    let bytes = srt(
        SRT_HEADER,
        &[
            (56, 4 << 16 | 1, request),
            (52, 3 << 16 | 1, request),
            (60, 4 << 16 | 4, [2, 0, 0, 9, 512, 8, 0x100]),
            (24, 4 << 16 | 9, request),
        ],
    );
    let (rows, notes) = read(None, &bytes, &[]).unwrap();
    let first = 1_000_005_000;
    let expected =
        [(first, Some(first + 30_000)); 2].into_iter().chain([(2_000_000_000, Some(2_000_009_000))]);
    assert_eq!(times(&rows), expected.collect::<Vec<_>>());
    let seen: Vec<_> =
        rows.iter().map(|row| (row.op, row.device, row.lbn, row.blocks, row.queue_length)).collect();
    let read_40 = |queue| (Operation::Read, 1, 40, 4, queue);
    assert_eq!(seen, [read_40(Some(2)), read_40(None), (Operation::Write, 1, 8, 2, Some(2))]);
    assert_eq!(rows[0].queue_time().unwrap().as_ns(), 10_000);
    let notes: Vec<_> = notes.iter().map(ToString::to_string).collect();
    assert!(notes[0].starts_with("1 request is marked as suspect"), "{notes:?}");
    assert!(notes[1].starts_with("skipped 1 record of other types"), "{notes:?}");
    let (rows, _) = read(None, &bytes, &["sector-size=512B"]).unwrap();
    assert_eq!((rows[0].lbn, rows[0].blocks), (40, 2));
}

#[test]
fn bad_srt_is_an_error_with_its_place() {
    let good = [1, 5, 10, 30, 1024, 40, 1];
    let at = SRT_HEADER.len() as u64;
    let check = |bytes: &[u8], what: &str, place: u64| {
        let (_, error) = fails("hpl-srt", bytes, &[]);
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(error.place(), Some(Place::Byte(place)), "{error}");
    };
    let bytes = srt(SRT_HEADER, &[(56, 4 << 16 | 1, good), (56, 4 << 16 | 1, good)]);
    for length in 1..56 {
        let (rows, error) = fails("hpl-srt", &bytes[..bytes.len() - length], &[]);
        assert!(error.to_string().contains("the file ends within"), "{error}");
        assert_eq!(rows, 1);
    }
    check(&bytes[..20], "no form feed", 20);
    check(&srt(SRT_HEADER, &[(56, 4 << 16 | 1, [1, 1_000_000, 0, 0, 512, 0, 1])]), "microseconds", at);
    check(&srt(SRT_HEADER, &[(56, 4 << 16 | 1, [1, 1, 9, 8, 512, 0, 1])]), "stops before it starts", at);
    check(&srt(SRT_HEADER, &[(40, 4 << 16 | 1, good)]), "too short", at);
    check(&srt(SRT_HEADER, &[(70_000, 4 << 16 | 1, good)]), "it has 70000 bytes", at);
    check(b"hello, world", "does not begin with", 0);
    let (_, error) = fails("hpl-srt", &srt("$$TR_IOREC\n\x0c", &[(56, 4 << 16 | 1, good)]), &[]);
    assert!(error.to_string().contains("no size of sectors"), "{error}");
    let both = SRT_HEADER.replace("256,", "256, sectorsize = 512,");
    let (_, error) = fails("hpl-srt", &srt(&both, &[(56, 4 << 16 | 1, good)]), &[]);
    assert!(error.to_string().contains("several sizes"), "{error}");
}

/// A field of protobuf.
fn field(number: u8, value: &Proto) -> Vec<u8> {
    match value {
        Proto::Number(value) => [vec![number << 3], varint(*value)].concat(),
        Proto::Message(bytes) => [vec![number << 3 | 2], varint(bytes.len() as u64), bytes.clone()].concat(),
    }
}

enum Proto {
    Number(u64),
    Message(Vec<u8>),
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// An event of octf behind its length: fields that are zero are left out, as protobuf does.
fn octf(time: u64, kind: u8, fields: &[(u8, u64)]) -> Vec<u8> {
    let header = [field(1, &Proto::Number(4)), field(2, &Proto::Number(time))].concat();
    let body = fields
        .iter()
        .filter(|(_, value)| *value > 0)
        .flat_map(|(number, value)| field(*number, &Proto::Number(*value)));
    let message = [field(1, &Proto::Message(header)), field(kind, &Proto::Message(body.collect()))].concat();
    [varint(message.len() as u64), message].concat()
}

fn io(time: u64, op: u64, lba: u64, sectors: u64, id: u64) -> Vec<u8> {
    octf(time, 2, &[(1, lba), (2, sectors), (3, 1), (4, 77), (5, op), (9, id)])
}

#[test]
fn octf_matches_completions_by_id_even_if_ids_are_reused() {
    let bytes = [
        octf(90, 3, &[(1, 77), (3, 1000)]),
        io(100, 1, 0, 8, 5),
        io(110, 2, 64, 8, 6),
        octf(120, 5, &[(1, 64), (2, 8), (4, 77), (5, 6)]),
        octf(125, 6, &[(1, 9)]),
        io(130, 3, 128, 8, 6),
        octf(140, 5, &[(4, 77), (5, 6), (3, 1)]),
        // The completion of the first is lost: its id is used again.
        io(150, 1, 8, 8, 5),
        octf(170, 5, &[(5, 5)]),
        octf(180, 5, &[(5, 5)]),
    ]
    .concat();
    let (rows, notes) = read(None, &bytes, &[]).unwrap();
    assert_eq!(times(&rows), [(0, None), (10, Some(20)), (30, Some(40)), (50, Some(70))]);
    assert_eq!(rows[2].op, Operation::Discard);
    assert_eq!(rows[2].status, seeklab_core::Status::Aborted);
    assert_eq!(
        notes,
        [Note::CompletionsMissing { requests: 1, given_up: 1 }, Note::IssuesMissing { completions: 1 }]
    );
    let old = [io(1, 0, 0, 8, 0), io(2, 0, 0, 8, 0), octf(5, 5, &[(1, 0), (2, 8), (4, 77)])].concat();
    let (rows, _) = read(None, &old, &["operations=from-0"]).unwrap();
    assert_eq!(times(&rows), [(0, Some(4)), (1, None)]);
    let (_, error) = fails("octf", &old, &[]);
    assert!(error.hint().unwrap().contains("operations=from-0"), "{error}");
}

#[test]
fn bad_octf_is_an_error_with_its_place() {
    let good = [io(1, 1, 0, 8, 5), io(2, 1, 0, 8, 6)].concat();
    let first = io(1, 1, 0, 8, 5).len();
    for length in first + 1..good.len() {
        let (rows, error) = fails("octf", &good[..length], &[]);
        assert!(error.to_string().contains("the file ends within"), "{error}");
        assert!(matches!(error.place(), Some(Place::Byte(_))), "{error}");
        assert_eq!(rows, 1);
    }
    for (bytes, what) in [
        (vec![0xff; 12], "does not fit in 64 bits"),
        ([varint(u64::MAX), vec![1, 2]].concat(), "1 to 65536 are allowed"),
        (vec![0], "0 bytes"),
        (vec![3, 0x0a, 9, 9], "ends within a field"),
        (vec![2, 0x10, 9], "no header"),
    ] {
        let (_, error) = fails("octf", &bytes, &[]);
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(error.place(), Some(Place::Byte(0)), "{error}");
    }
}

fn dtb(into: Bytes, records: &[(u8, u8, u32, u32)]) -> Vec<u8> {
    let put = |into: Bytes, (code, sectors, sector, us): &(u8, u8, u32, u32)| {
        let into = into.put(1, u64::from(*code)).put(1, 1).put(1, 4).put(1, u64::from(*sectors));
        into.put(4, u64::from(*sector)).put(4, u64::from(*us))
    };
    records.iter().fold(into, put).bytes
}

/// A read and a write of the same place, and their ends in the other order of a third.
const DTB: [(u8, u8, u32, u32); 6] =
    [(0, 8, 100, 5), (1, 8, 200, 10), (0, 16, 300, 10), (2, 16, 300, 20), (2, 8, 100, 30), (2, 8, 200, 40)];

#[test]
fn dtb_ends_match_by_place_or_the_oldest_request() {
    let (rows, notes) = read(None, &dtb(Bytes::little(), &DTB), &[]).unwrap();
    assert_eq!(times(&rows), [(0, Some(70_000)), (10_000, Some(110_000)), (20_000, Some(40_000))]);
    assert_eq!(rows[1].op, Operation::Write);
    assert!(notes.is_empty(), "{notes:?}");
    let settings = ["done-match=oldest"];
    let (rows, _) = read(None, &dtb(Bytes::little(), &DTB), &settings).unwrap();
    assert_eq!(times(&rows), [(0, Some(40_000)), (10_000, Some(70_000)), (20_000, Some(110_000))]);
    let settings = ["byte-order=big", "read-code=1", "write-code=0"];
    let (swapped, _) = read(Some("dtb"), &dtb(Bytes::big(), &DTB), &settings).unwrap();
    assert_eq!((swapped[0].op, swapped[0].lbn), (Operation::Write, 100));
    assert_eq!(times(&swapped)[1], (10_000, Some(110_000)));
    // In the other order the times would be absurd, so it is not taken for one by itself.
    assert!(open(None, &dtb(Bytes::big(), &DTB), &[]).is_err());
}

#[test]
fn bad_dtb_is_an_error_with_its_place_or_counted() {
    let good = dtb(Bytes::little(), &DTB);
    let (rows, error) = fails("dtb", &good[..good.len() - 5], &[]);
    assert_eq!((rows, error.place()), (3, Some(Place::Byte(60))), "{error}");
    let (_, error) = fails("dtb", &dtb(Bytes::little(), &[(9, 1, 1, 1)]), &[]);
    assert!(error.to_string().contains("the operation is 9, but reads are 0"), "{error}");
    let (_, error) = fails("dtb", &dtb(Bytes::little(), &[(0, 0, 1, 1)]), &[]);
    assert!(error.to_string().contains("no sectors"), "{error}");
    let (rows, _) = read(Some("dtb"), &dtb(Bytes::little(), &[(0, 0, 1, 1)]), &["zero-length=256"]).unwrap();
    assert_eq!(rows[0].blocks, 256);
    let (_, error) = fails("dtb", &good, &["read-code=2"]);
    assert!(error.to_string().contains("not different"), "{error}");
    let (rows, notes) = read(Some("dtb"), &dtb(Bytes::little(), &[(2, 8, 5, 1), (0, 8, 5, 1)]), &[]).unwrap();
    assert_eq!(times(&rows), [(0, None)]);
    assert_eq!(
        notes,
        [Note::CompletionsMissing { requests: 1, given_up: 0 }, Note::IssuesMissing { completions: 1 }]
    );
}

#[test]
fn empty_file_is_an_error_in_every_format() {
    for format in FORMATS {
        let error = open(Some(format.name()), b"", &[]).err().unwrap();
        assert_eq!(error.kind(), &ErrorKind::Empty);
    }
}

#[test]
fn formats_are_distinguished_by_their_first_bytes() {
    let blktrace = event(Bytes::little(), 1, ISSUE | READ, 8, 4096, 0).bytes;
    let traces: [(&str, Vec<u8>); 6] = [
        ("blktrace", blktrace),
        ("vscsi", vscsi_v1(&[(0x28, 8, 512, 50), (0x2a, 8, 512, 60)])),
        ("oracle-general", oracle(&[(7, 4096, 512, 2), (7, 8192, 1024, -1)])),
        ("hpl-srt", srt(SRT_HEADER, &[])),
        ("octf", io(1, 1, 0, 8, 5)),
        ("dtb", dtb(Bytes::little(), &DTB)),
    ];
    for (name, bytes) in &traces {
        for format in FORMATS {
            let head = seeklab_traces::Head { bytes, whole: true };
            let is_it = format.sniff(head) == seeklab_traces::Sniff::Yes;
            assert_eq!(is_it, format.name() == *name, "{} judges {name}", format.name());
        }
    }
}

fn there_and_back(
    name: &str,
    metadata: &Metadata,
    rows: &[TraceRecord],
) -> Result<Vec<TraceRecord>, TraceError> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join(format!("t.{name}.gz"));
    let mut writer = create_with(FORMATS, &path, None, metadata)?;
    for row in rows {
        writer.write(row)?;
    }
    writer.finish()?;
    let options = ReadOptions { block_size: Some(metadata.block_size), ..ReadOptions::default() };
    open_with(FORMATS, &path, Some(name), &options)?.collect()
}

/// Requests in microseconds from zero, in order of arrival, at places of their own.
fn rows(responses: bool) -> impl Strategy<Value = Vec<TraceRecord>> {
    let one = (0..1_u64 << 30, any::<bool>(), 1..32_u32, proptest::option::of(0..1_u64 << 30));
    proptest::collection::vec(one, 1..40).prop_map(move |requests| {
        let mut arrival = 0;
        let mut rows = Vec::new();
        for (index, (after, write, blocks, response)) in requests.into_iter().enumerate() {
            arrival += if index == 0 { 0 } else { after };
            let op = if write { Operation::Write } else { Operation::Read };
            let lbn = index as u64 * 100;
            let response = if responses { response.or(Some(1)) } else { response };
            let completion = response.map(|us| Instant::from_ns((arrival + us) * 1_000));
            let row = TraceRecord::new(Instant::from_ns(arrival * 1_000), op, lbn, blocks);
            rows.push(TraceRecord { completion, ..row });
        }
        rows
    })
}

/// First bytes of some binary formats.
const STARTS: &[&[u8]] = &[b"", b"$$TR_IOREC sectorsize = 512 \x0c", &[7, 0x74, 0x61, 0x65]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn dtb_round_trips(rows in rows(false), block_size in select(&[512_u64, 4096][..])) {
        let metadata = Metadata { block_size: ByteSize::from_bytes(block_size), ..Metadata::default() };
        let fits = rows.iter().all(|row| u64::from(row.blocks) * block_size / 512 <= 255);
        let read = there_and_back("dtb", &metadata, &rows);
        prop_assert_eq!(read.is_ok(), fits);
        if let Ok(read) = read {
            prop_assert_eq!(read, rows);
        }
    }

    #[test]
    fn vscsi_round_trips(rows in rows(true), block_size in select(&[512_u64, 4096][..])) {
        let metadata = Metadata { block_size: ByteSize::from_bytes(block_size), ..Metadata::default() };
        prop_assert_eq!(&there_and_back("vscsi", &metadata, &rows).unwrap(), &rows);
        let without: Vec<_> = rows.iter().map(|row| TraceRecord { completion: None, ..*row }).collect();
        prop_assert_eq!(there_and_back("vscsi", &metadata, &without).unwrap(), without);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        format in select(&["blktrace", "hpl-srt", "vscsi", "oracle-general", "octf", "dtb"][..]),
        start in select(STARTS),
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let bytes = [start, &bytes].concat();
        if !bytes.is_empty() && let Ok(trace) = open(Some(format), &bytes, &[]) {
            prop_assert!(trace.filter(Result::is_err).count() <= 1);
        }
    }

    #[test]
    fn good_traces_with_a_few_wrong_bytes_never_panic(
        which in 0..6_usize,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        length: proptest::sample::Index,
    ) {
        let events = event(event(Bytes::little(), 1, ISSUE | READ, 8, 4096, 0), 9, COMPLETE | READ, 8, 4096, 0);
        let (format, mut bytes) = match which {
            0 => ("blktrace", events.bytes),
            1 => ("vscsi", vscsi_v1(&[(0x28, 8, 512, 50), (0x2a, 8, 512, 60)])),
            2 => ("oracle-general", oracle(&[(7, 4096, 512, 2), (7, 8192, 1024, -1)])),
            3 => ("hpl-srt", srt(SRT_HEADER, &[(56, 4 << 16 | 1, [1, 5, 10, 30, 1024, 40, 1])])),
            4 => ("octf", [io(1, 1, 0, 8, 5), octf(5, 5, &[(5, 5)])].concat()),
            _ => ("dtb", dtb(Bytes::little(), &DTB)),
        };
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(length.index(bytes.len()) + 1);
        if let Ok(trace) = open(Some(format), &bytes, &[]) {
            prop_assert!(trace.filter(Result::is_err).count() <= 1);
        }
    }
}

#[test]
fn unrepresentable_rows_are_refused() {
    let row = TraceRecord::new(Instant::ZERO, Operation::Read, 8, 8);
    let metadata = Metadata::default();
    let cannot = |name: &str, rows: &[TraceRecord], what: &str| {
        let error = there_and_back(name, &metadata, rows).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    };
    cannot("dtb", &[TraceRecord { op: Operation::Flush, ..row }], "cannot hold a flush");
    cannot("dtb", &[TraceRecord { lbn: 1 << 32, ..row }], "32 bits");
    let late = TraceRecord { arrival: Instant::from_ns(4_300_000_000_000), ..row };
    cannot("dtb", &[row, late], "71.6 minutes");
    cannot(
        "vscsi",
        &[TraceRecord { completion: Some(Instant::ZERO), ..row }, row],
        "without a response time",
    );
    cannot("vscsi", &[TraceRecord { blocks: u32::MAX, ..row }], "bytes of 32 bits");
}
