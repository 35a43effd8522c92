//! Real traces of binary formats, read whole, with the figures that are published for them.

use std::path::Path;

use seeklab_core::{Operation, TraceRecord};
use seeklab_traces::{FORMATS, MissingColumn, Note, OpenTrace, ReadOptions, open_with};

use crate::shared::shared;

/// Reads the trace by guessing and checks format and number of rows.
fn check(path: &Path, format: &str, rows: usize, settings: &[&str]) -> (Vec<TraceRecord>, OpenTrace) {
    let settings = settings.iter().map(|setting| setting.parse().unwrap()).collect();
    let mut trace =
        open_with(FORMATS, path, None, &ReadOptions { settings, ..ReadOptions::default() }).unwrap();
    assert_eq!(trace.format(), format);
    let records: Vec<_> = trace.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(records.len(), rows);
    assert!(records.is_sorted_by_key(|record| record.arrival));
    assert_eq!(records[0].arrival.as_ns(), 0);
    let has_responses = records.iter().any(|record| record.completion.is_some());
    // DTB and vscsi have some or none, as the trace is.
    assert!(!(has_responses && trace.missing_columns().contains(&MissingColumn::ResponseTimes)));
    (records, trace)
}

fn count(records: &[TraceRecord], op: Operation) -> usize {
    records.iter().filter(|record| record.op == op).count()
}

/// The given share of the response times of `op`, in microseconds, and how many there are.
fn response_us(records: &[TraceRecord], op: Option<Operation>, share: f64) -> (u64, usize) {
    let of_op = records.iter().filter(|record| op.is_none_or(|op| record.op == op));
    let mut times: Vec<u64> = of_op.filter_map(|record| Some(record.response_time()?.as_ns())).collect();
    times.sort_unstable();
    (times[(times.len() as f64 * share) as usize] / 1_000, times.len())
}

/// Within 1 % of what is published.
fn is_near(seen: u64, published: u64) {
    assert!(seen.abs_diff(published) * 100 <= published, "{seen}, but {published} is published");
}

fn missing(trace: &OpenTrace) -> (u64, u64, u64) {
    let (mut requests, mut given_up, mut completions) = (0, 0, 0);
    for note in trace.notes() {
        match note {
            Note::CompletionsMissing { requests: count, given_up: of_them } => {
                (requests, given_up) = (count, of_them);
            }
            Note::IssuesMissing { completions: count } => completions = count,
            _ => {}
        }
    }
    (requests, given_up, completions)
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn blktrace_of_39_processors_is_read_although_one_is_missing() {
    let path = shared("blktrace-hadoop-node8/sdb.blktrace.tar.zst");
    let (records, trace) = check(&path, "blktrace", 110_246, &[]);
    let (median, reads) = response_us(&records, Some(Operation::Read), 0.5);
    is_near(median, 1_742);
    is_near(response_us(&records, Some(Operation::Read), 0.99).0, 10_972);
    let (_, pairs) = response_us(&records, None, 0.5);
    // 48,959 pairs are published, some of them false; what a later event proves false is given up.
    assert!((48_900..=48_959).contains(&pairs), "{pairs}");
    let (requests, given_up, completions) = missing(&trace);
    assert_eq!(requests as usize + pairs, 110_246);
    assert!((1_000..3_000).contains(&given_up) && completions < 300, "{given_up} {completions}");
    // 13.6 s is the longest false pair where nothing is given up.
    let longest = records.iter().filter_map(TraceRecord::response_time).max().unwrap();
    assert!(longest.as_ns() < 400_000_000, "{longest}");
    let bytes: u64 = records
        .iter()
        .filter(|record| record.op == Operation::Read && record.completion.is_some())
        .map(|record| u64::from(record.blocks) * 512)
        .sum();
    assert_eq!(bytes / reads as u64 / 1024, 257);
    assert_eq!(trace.metadata().labels, ["8,16"]);
    assert!(trace.notes().iter().any(|note| note.to_string().contains("`seekwatcher_seek`")));
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn merged_stream_is_read_although_its_name_ends_in_processor_0() {
    let path = shared("blktrace-sample-bsd/sample.blktrace.0.zst");
    let (records, trace) = check(&path, "blktrace", 963, &[]);
    assert_eq!(count(&records, Operation::Read), 963);
    assert!(records.iter().all(|record| record.blocks == 8 && record.completion.is_some()));
    assert_eq!(response_us(&records, None, 0.5).0, 54);
    assert!(trace.notes().is_empty(), "{:?}", trace.notes());
    let (queued, _) = check(&path, "blktrace", 963, &["arrival=queue"]);
    for (queued, issued) in queued.iter().zip(&records) {
        assert!(queued.arrival < queued.issue.unwrap());
        assert!(queued.response_time() > issued.response_time());
    }
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn week_of_hplajw_is_read_completely_in_its_own_sectors() {
    let path = shared("hpl-srt-ajw/ajw.1week.srt.zst");
    let (records, trace) = check(&path, "hpl-srt", 44_519, &[]);
    assert_eq!(trace.metadata().block_size.as_bytes(), 256);
    // The largest sector, below the 113 x 8 x 1449 of the drive's geometry.
    assert_eq!(records.iter().map(|record| record.lbn).max(), Some(1_308_080));
    assert_eq!(trace.metadata().labels.len(), 2);
    assert_eq!(response_us(&records, None, 0.5), (32_143, 44_519));
    let mean: u64 =
        records.iter().map(|record| record.response_time().unwrap().as_ns()).sum::<u64>() / 44_519;
    is_near(mean / 1_000, 116_700);
    let mut queue: Vec<_> = records.iter().map(|record| record.queue_length.unwrap()).collect();
    queue.sort_unstable();
    let at = |share: f64| queue[(44_519.0 * share) as usize];
    assert_eq!((at(0.5), at(0.9), at(0.99), at(1.0 - 1e-9)), (0, 15, 42, 103));
    assert!(trace.notes().is_empty(), "{:?}", trace.notes());
    // As DiskSim's reader takes them.
    let (doubled, trace) = check(&path, "hpl-srt", 44_519, &["sector-size=512B"]);
    assert_eq!((doubled[9].lbn, trace.metadata().block_size.as_bytes()), (records[9].lbn, 512));
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn encodings_of_one_trace_agree_in_their_common_fields() {
    let path = shared("cloudphysics-sample/cloudPhysicsIO.vscsi.zst");
    let (vscsi, _) = check(&path, "vscsi", 113_872, &[]);
    assert_eq!(count(&vscsi, Operation::Write), 66_898);
    assert_eq!(count(&vscsi, Operation::Read), 46_974);
    let path = shared("cloudphysics-sample/cloudPhysicsIO.oracleGeneral.bin.zst");
    let (oracle, trace) = check(&path, "oracle-general", 113_872, &[]);
    assert_eq!(
        trace.missing_columns(),
        [
            MissingColumn::Operations,
            MissingColumn::ResponseTimes,
            MissingColumn::FineTimes,
            MissingColumn::Devices
        ]
    );
    // The microseconds of the first timestamp, which is time zero here.
    const FIRST_NS: u64 = 368_802_000;
    let mut first = std::collections::BTreeMap::new();
    let mut other_lengths = 0;
    for (fine, coarse) in vscsi.iter().zip(&oracle) {
        assert_eq!((fine.arrival.as_ns() + FIRST_NS) / 1_000_000_000, coarse.arrival.as_ns() / 1_000_000_000);
        assert_eq!(fine.lbn, coarse.lbn);
        // An object has one length there, that of its first request.
        assert_eq!(*first.entry(fine.lbn).or_insert(fine.blocks), coarse.blocks);
        other_lengths += u32::from(fine.blocks != coarse.blocks);
    }
    assert_eq!(other_lengths, 13_671);
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn octf_of_72_processors_is_read_and_equals_an_earlier_decoding() {
    let path = shared("opencas-ycsb-rocksdb-optane/sample_trace.octf.tar.xz");
    let (records, trace) = check(&path, "octf", 64_420, &[]);
    assert_eq!(count(&records, Operation::Write), 64_188);
    assert_eq!(count(&records, Operation::Discard), 231);
    assert_eq!(count(&records, Operation::Read), 1);
    assert!(records.iter().all(|record| record.completion.is_some()));
    assert_eq!(missing(&trace), (0, 0, 0));
    assert_eq!(response_us(&records, Some(Operation::Write), 0.5).0, 13_853);
    assert_eq!(response_us(&records, Some(Operation::Write), 0.99).0, 48_373);
    assert_eq!(trace.metadata().labels, ["nvme0n1"]);
    let path = shared("opencas-ycsb-rocksdb-optane/ycsb_a_rocksdb.csv.zst");
    let text = zstd::stream::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut seen: Vec<String> = records
        .iter()
        .map(|record| {
            let op = record.op.name()[..1].to_uppercase();
            let response = record.response_time().unwrap().as_ns();
            format!("{},{response},{op},{},{}", record.arrival.as_ns(), record.lbn, record.blocks)
        })
        .collect();
    let mut decoded: Vec<String> =
        text.lines().skip(1).map(|line| line.rsplit_once(',').unwrap().0.to_owned()).collect();
    seen.sort();
    decoded.sort();
    assert_eq!(seen, decoded);
}
