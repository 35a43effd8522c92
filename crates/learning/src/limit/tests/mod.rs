//! Tests that limits are found where they exist, with their values, and nowhere else.

use seeklab_core::{
    ByteSize, Completion, Device, Duration, Instant, Operation, Request, Seed, Stream, TraceRecord,
};

use seeklab_devices::Description;
use seeklab_devices::layer::Limit;
use seeklab_devices::limit::{Buckets, LimitParameters, Limited, RequestRate, TokenBucket};
use toml::Table;

mod alike;
mod mixed;
mod portions;
mod separate;

use super::*;
use crate::fit::LeftOut;
use crate::stop::StopCheck;

/// A part of a load.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Seconds of a load, and its constant number of outstanding requests.
    Closed(u64, usize),
    /// Seconds of random arrivals, and their rate per second.
    Open(u64, u64),
    /// Seconds without requests.
    Idle(u64),
}

/// Mix of the requests: share of reads, and lengths in blocks.
#[derive(Debug, Clone, Copy)]
struct Mix {
    reads: f64,
    blocks: &'static [u32],
}

const SMALL_READS: Mix = Mix { reads: 1.0, blocks: &[8] };

const VARIED: Mix = Mix { reads: 0.7, blocks: &[8, 16, 64, 256] };

/// Drives a device; what it answered, in order of arrival.
fn record(device: &mut dyn Device, phases: &[Phase], mix: Mix, seed: u64) -> Vec<TraceRecord> {
    let mut stream = Seed(seed).stream("load");
    let capacity_blocks = device.capabilities().capacity_blocks;
    let (mut now, mut id, mut outstanding) = (Instant::ZERO, 0, 0_usize);
    let mut completions: Vec<Completion> = Vec::new();
    let mut request = |stream: &mut Stream| {
        let op = if stream.chance(mix.reads) { Operation::Read } else { Operation::Write };
        let blocks = mix.blocks[stream.below(mix.blocks.len() as u64) as usize];
        id += 1;
        Request::new(id, op, stream.below(capacity_blocks - 256), blocks)
    };
    let mut poll = |device: &mut dyn Device, now, outstanding: &mut usize| {
        let before = completions.len();
        device.poll(now, &mut completions);
        *outstanding -= completions.len() - before;
    };
    for phase in phases {
        let (Phase::Closed(s, _) | Phase::Open(s, _) | Phase::Idle(s)) = *phase;
        let end = now + Duration::from_s(s);
        let mut next = now;
        while now < end {
            match *phase {
                Phase::Closed(_, most) => {
                    while outstanding < most {
                        device.submit(now, request(&mut stream)).unwrap();
                        outstanding += 1;
                    }
                    next = end;
                }
                Phase::Open(_, per_s) => {
                    while next <= now {
                        device.submit(now, request(&mut stream)).unwrap();
                        outstanding += 1;
                        next += stream.exponential(Duration::from_ns(1_000_000_000 / per_s));
                    }
                }
                Phase::Idle(_) => next = end,
            }
            now = device.next_event().unwrap_or(Instant::MAX).min(next).min(end);
            poll(device, now, &mut outstanding);
        }
    }
    while let Some(event) = device.next_event() {
        poll(device, event, &mut outstanding);
    }
    let mut records: Vec<TraceRecord> = completions.iter().map(TraceRecord::from).collect();
    records.sort_by_key(|record| record.arrival);
    records
}

fn device(text: &str) -> Box<dyn Device> {
    Description::parse("x", "x.toml", text)
        .unwrap_or_else(|error| panic!("{error}"))
        .build(Seed(5), "x")
        .unwrap()
}

/// A device that serves 16 at a time, each for a time by chance.
fn fast() -> Box<dyn Device> {
    device(
        "kind = \"station\"\ncapacity_blocks = 10000000\nblock_size = \"512B\"\nservers = 16\n\
         tree = [\"op < write\", \"= 900*5 20*5 30*3 100*1\", \"= 800*5 30*5 50*1\"]\n\
         [[operations]]\nop = \"read\"\nrequests = 10\ntypical = \"0.1ms\"\nblocks_min = 8\nblocks_max = 256\nqueue_max = 31\n",
    )
}

fn of_requests(per_s: f64, burst: u64) -> TokenBucket {
    TokenBucket::of_requests(RequestRate::from_per_s(per_s).unwrap(), burst)
}

fn of_bytes(rate: &str, burst: u64) -> TokenBucket {
    TokenBucket::of_bytes(rate.parse().unwrap(), burst)
}

/// The limits of a trace, the outermost layer first.
fn found(records: &[TraceRecord]) -> Vec<LimitParameters> {
    let device: Table = "kind = \"immediate\"".parse().unwrap();
    let found = limits(records).around(device, BLOCK_SIZE, false).unwrap();
    let layers = layers(found);
    println!("{} requests", records.len());
    for layer in &layers {
        println!("{:?}: {:?} {:?} {:?}", layer.of, layer.requests, layer.bytes, layer.fit);
    }
    layers
}

const BLOCK_SIZE: ByteSize = ByteSize::from_bytes(512);

/// The limits of a trace, and the waits for them.
fn limits(records: &[TraceRecord]) -> Limits {
    let mut history = History::default();
    let passed = |record: &TraceRecord| {
        let TraceRecord { arrival, op, lbn, blocks, .. } = *record;
        Passed { arrival, completion: record.completion.unwrap(), op, lbn, blocks }
    };
    let passed: Vec<Passed> = records.iter().map(passed).collect();
    passed.iter().for_each(|one| history.record(one.arrival, one.completion, one.op, one.blocks));
    find(vec![passed], &history, BLOCK_SIZE, &StopCheck::default()).unwrap()
}

/// The layers of limits of a fitted device, the outermost first.
fn layers(mut table: Table) -> Vec<LimitParameters> {
    let mut layers = Vec::new();
    while table["kind"].as_str() == Some("limit") {
        table.remove("kind");
        let Some(toml::Value::Table(device)) = table.remove("device") else {
            panic!("a limit owns a device")
        };
        layers.push(table.try_into().unwrap());
        table = device;
    }
    layers
}

fn near(value: f64, expected: f64, share: f64, what: &str) {
    assert!((value / expected - 1.0).abs() <= share, "{what}: {value}, {expected} expected");
}

#[test]
fn limit_of_requests_is_found() {
    use Phase::{Closed, Idle, Open};
    for (rate, burst, phases) in [
        (1_000.0, 100, &[Closed(5, 8), Idle(2), Open(5, 800), Closed(5, 1), Idle(1), Closed(5, 32)][..]),
        (1_000.0, 12_000, &[Closed(10, 16), Idle(14), Open(8, 1_500), Idle(20), Closed(8, 4)]),
        (250.0, 25, &[Closed(10, 4), Idle(1), Open(10, 200), Open(10, 240), Closed(10, 2)]),
        (100.0, 40_000, &[Closed(30, 16), Idle(100), Closed(60, 1), Open(60, 140), Closed(30, 16)]),
    ] {
        let buckets = Buckets { requests: vec![of_requests(rate, burst)], bytes: Vec::new() };
        let mut limit = Limit::new(fast(), Limited::All, buckets);
        let records = record(&mut limit, phases, SMALL_READS, 3);
        let found = found(&records);
        let [layer] = &found[..] else { panic!("{} layers", found.len()) };
        let [bucket] = &layer.requests[..] else { panic!("{layer:?}") };
        near(bucket.rate.as_per_s(), rate, 0.005, "rate");
        near(bucket.burst as f64, burst as f64, 0.05, "burst");
    }
}

/// Loads that use a burst up, let it come back, and ask for less and for more than the rate.
const LOADS: &[Phase] = &[
    Phase::Closed(12, 16),
    Phase::Idle(8),
    Phase::Open(8, 300),
    Phase::Closed(8, 4),
    Phase::Idle(20),
    Phase::Open(6, 3_000),
    Phase::Closed(10, 32),
];

fn found_behind(of: Limited, buckets: Buckets, mix: Mix) -> Vec<LimitParameters> {
    let records = record(&mut Limit::new(fast(), of, buckets), LOADS, mix, 3);
    found(&records)
}

#[test]
fn limit_of_bytes_differs_from_one_of_requests() {
    let buckets = Buckets { requests: Vec::new(), bytes: vec![of_bytes("20MB/s", 30_000_000)] };
    let found = found_behind(Limited::All, buckets, VARIED);
    let [layer] = &found[..] else { panic!("{} layers", found.len()) };
    let ([], [bucket]) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
    near(bucket.rate.as_bytes_per_s() as f64, 20e6, 0.005, "rate");
    near(bucket.burst.as_bytes() as f64, 30e6, 0.05, "burst");
    let buckets = Buckets { requests: vec![of_requests(600.0, 3_000)], bytes: Vec::new() };
    let found = found_behind(Limited::All, buckets, VARIED);
    let [layer] = &found[..] else { panic!("{} layers", found.len()) };
    let ([bucket], []) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
    near(bucket.rate.as_per_s(), 600.0, 0.005, "rate");
    near(bucket.burst as f64, 3_000.0, 0.05, "burst");
}

#[test]
fn rate_of_a_burst_is_found_beside_the_lasting_one() {
    let buckets = Buckets {
        requests: vec![of_requests(1_000.0, 12_000), of_requests(4_000.0, 400)],
        bytes: Vec::new(),
    };
    let found = found_behind(Limited::All, buckets, SMALL_READS);
    let [layer] = &found[..] else { panic!("{} layers", found.len()) };
    let mut requests = layer.requests.clone();
    requests.sort_by_key(|bucket| bucket.rate);
    let [lasting, burst] = &requests[..] else { panic!("{layer:?}") };
    near(lasting.rate.as_per_s(), 1_000.0, 0.005, "rate");
    near(lasting.burst as f64, 12_000.0, 0.05, "burst");
    near(burst.rate.as_per_s(), 4_000.0, 0.01, "rate of the burst");
    near(burst.burst as f64, 400.0, 0.25, "burst of the burst");
}

#[test]
fn limits_of_requests_and_of_bytes_are_found_together() {
    // Long requests meet the one, short ones the other.
    let buckets =
        || Buckets { requests: vec![of_requests(800.0, 2_000)], bytes: vec![of_bytes("20MB/s", 2_000_000)] };
    let mut limit = Limit::new(fast(), Limited::All, buckets());
    let short = Mix { reads: 0.7, blocks: &[8, 16] };
    let long = Mix { reads: 0.7, blocks: &[64, 128, 256] };
    let mut records = record(&mut limit, LOADS, short, 3);
    let mut limit = Limit::new(fast(), Limited::All, buckets());
    let later = Duration::from_s(100);
    let mut others = record(&mut limit, LOADS, long, 4);
    others.iter_mut().for_each(|record| {
        record.arrival += later;
        record.completion = record.completion.map(|completion| completion + later);
    });
    records.extend(others);
    let found = found(&records);
    let [layer] = &found[..] else { panic!("{} layers", found.len()) };
    let ([requests], [bytes]) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
    near(requests.rate.as_per_s(), 800.0, 0.01, "rate of requests");
    near(requests.burst as f64, 2_000.0, 0.05, "burst of requests");
    near(bytes.rate.as_bytes_per_s() as f64, 20e6, 0.01, "rate of bytes");
    near(bytes.burst.as_bytes() as f64, 2e6, 0.1, "burst of bytes");
}

#[test]
fn limit_of_writes_alone_is_found() {
    let buckets = Buckets { requests: vec![of_requests(300.0, 600)], bytes: Vec::new() };
    let found = found_behind(Limited::Writes, buckets, VARIED);
    let [layer] = &found[..] else { panic!("{} layers", found.len()) };
    let ([bucket], []) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
    assert_eq!(layer.of, Limited::Writes);
    near(bucket.rate.as_per_s(), 300.0, 0.005, "rate");
    near(bucket.burst as f64, 600.0, 0.05, "burst");
}

#[test]
fn busy_device_without_limits_has_none() {
    let server = |kind: &str, us: u64| {
        format!(
            "kind = \"{kind}\"\ncapacity_blocks = 10000000\nblock_size = \"512B\"\nservice_time = \"{us}us\"\n"
        )
    };
    // A given number of servers of nearly constant time, and a cache of writes before a slow medium that is nearly constant.
    let station = |servers: u32, times: &str| {
        format!(
            "kind = \"station\"\ncapacity_blocks = 10000000\nblock_size = \"512B\"\nservers = {servers}\ntree = [\"= {times}\"]\n\
             [[operations]]\nop = \"read\"\nrequests = 10\ntypical = \"1ms\"\nblocks_min = 8\nblocks_max = 256\nqueue_max = 31\n"
        )
    };
    let behind = |scheduler: &str, depth: u32, device: &str| {
        format!("kind = \"queue\"\nscheduler = \"{scheduler}\"\ndepth = {depth}\n[device]\n{device}")
    };
    let devices = [
        server("constant", 1_000),
        server("exponential", 1_000),
        station(1, "1000*5 1*5"),
        station(4, "1150*9 1*5"),
        station(16, "1200*9 1*5 1*5 1*2"),
        station(16, "1200*9 30*5 100*1"),
        behind("fcfs", 1, "base = \"atlas10k\""),
        behind("sptf", 1, "base = \"atlas10k\""),
        behind("c-look", 1, "base = \"cheetah9lp\""),
        behind("fcfs", 1, "base = \"hp-c2247a\""),
    ];
    // Half of what a disk can bear, twice as much, and always some.
    const BUSY: &[Phase] = &[
        Phase::Closed(60, 8),
        Phase::Idle(5),
        Phase::Open(60, 50),
        Phase::Open(20, 200),
        Phase::Closed(60, 1),
        Phase::Closed(100, 16),
    ];
    for text in devices {
        for mix in [SMALL_READS, VARIED, Mix { reads: 0.0, blocks: &[8] }] {
            let phases = if text.contains("base") { BUSY } else { LOADS };
            let records = record(device(&text).as_mut(), phases, mix, 7);
            println!("{text}: {mix:?}");
            let found = found(&records);
            assert!(found.is_empty(), "{text}: {mix:?}: {found:?}");
        }
    }
}

#[test]
fn limit_is_found_in_a_trace_of_which_parts_are_kept() {
    use crate::fit::Fit;
    // Two and a half million requests, of which every fourth stretch is kept; what the bucket holds in between is reckoned.
    let buckets = Buckets { requests: vec![of_requests(5_000.0, 100_000)], bytes: Vec::new() };
    let cycle = [Phase::Closed(60, 16), Phase::Idle(30), Phase::Open(30, 4_000)];
    let phases = cycle.repeat(5);
    let records = record(&mut Limit::new(fast(), Limited::All, buckets), &phases, SMALL_READS, 3);
    assert!(records.len() > 2 * crate::station::SAMPLE_MAX, "{}", records.len());
    let mut fit = crate::station::StationFit::default();
    records.iter().for_each(|record| fit.record(record));
    let found = fit.limit_summaries(ByteSize::from_bytes(512)).unwrap();
    let [limit] = &found[..] else { panic!("{found:?}") };
    near(limit.rate_per_s, 5_000.0, 0.005, "rate");
    near(limit.burst as f64, 100_000.0, 0.05, "burst");
    fit.leave_out(&LeftOut { limits: true, ..LeftOut::default() });
    assert!(fit.limit_summaries(ByteSize::from_bytes(512)).unwrap().is_empty());
}

#[test]
fn clone_answers_for_a_burst_and_for_what_comes_after() {
    use crate::fit::{DeviceInfo, Fit};
    let volume = || {
        let buckets = Buckets { requests: vec![of_requests(1_000.0, 5_000)], bytes: Vec::new() };
        Limit::new(fast(), Limited::All, buckets)
    };
    let seen = [Phase::Closed(6, 16), Phase::Idle(6), Phase::Open(8, 800), Phase::Closed(4, 1)];
    let mut fit = crate::station::StationFit::default();
    record(&mut volume(), &seen, SMALL_READS, 3).iter().for_each(|record| fit.record(record));
    let about = || DeviceInfo {
        block_size: ByteSize::from_bytes(512),
        capacity_blocks: 10_000_000,
        fit: Default::default(),
    };
    let build = |table: Table| {
        let text = table.to_string();
        device(&text)
    };
    // Used tokens are reported, and kept only on request.
    let description_with_state = fit.description_with_state(about()).unwrap();
    assert!(
        description_with_state["requests"][0].get("used").is_some_and(|used| used.as_integer() > Some(100))
    );
    let mut clone = build(fit.description(about()).unwrap());
    // Another load, within the burst and beyond.
    for (phase, what) in [(Phase::Closed(1, 4), "within"), (Phase::Closed(12, 32), "beyond")] {
        let [theirs, ours] = [
            record(&mut volume(), &[phase], SMALL_READS, 9),
            record(&mut *clone.fork(), &[phase], SMALL_READS, 9),
        ];
        near(ours.len() as f64, theirs.len() as f64, 0.02, what);
        let mean = |records: &[TraceRecord]| {
            records.iter().map(|record| record.response_time().unwrap().as_ms()).sum::<f64>()
                / records.len() as f64
        };
        near(mean(&ours), mean(&theirs), 0.03, what);
    }
    // Without fitted limits, only the queue of the same device explains the times.
    fit.leave_out(&LeftOut { limits: true, ..LeftOut::default() });
    clone = build(fit.description(about()).unwrap());
    let ours = record(clone.as_mut(), &[Phase::Closed(12, 32)], SMALL_READS, 9);
    assert!((ours.len() as f64 / 17_000.0 - 1.0).abs() > 0.1, "{}", ours.len());
}

#[test]
fn requests_that_wait_at_the_end_of_the_trace_are_paid_for_by_those_that_follow() {
    use crate::fit::{DeviceInfo, Fit};
    let buckets = Buckets { requests: vec![of_requests(1_000.0, 500)], bytes: Vec::new() };
    let mut volume = Limit::new(fast(), Limited::All, buckets);
    // Some 3,000 requests wait in the middle, and all the time to the end.
    let seen = [Phase::Open(10, 700), Phase::Open(20, 1_300)];
    let records = record(&mut volume, &seen, SMALL_READS, 3);
    let boundary = Instant::from_ns(20_000_000_000);
    let (fitted, rest) = records.split_at(records.partition_point(|record| record.arrival < boundary));
    let mut fit = crate::station::StationFit::default();
    fitted.iter().for_each(|record| fit.record(record));
    let about = DeviceInfo {
        block_size: ByteSize::from_bytes(512),
        capacity_blocks: 10_000_000,
        fit: Default::default(),
    };
    let mut clone = device(&fit.description_with_state(about).unwrap().to_string());
    let mut completions = Vec::new();
    for (id, record) in (1..).zip(rest) {
        while let Some(event) = clone.next_event().filter(|event| *event <= record.arrival) {
            clone.poll(event, &mut completions);
        }
        clone.poll(record.arrival, &mut completions);
        clone.submit(record.arrival, Request::new(id, record.op, record.lbn, record.blocks)).unwrap();
    }
    while let Some(event) = clone.next_event() {
        clone.poll(event, &mut completions);
    }
    let mean = |times: &mut dyn Iterator<Item = Duration>| {
        let times: Vec<f64> = times.map(Duration::as_ms).collect();
        times.iter().sum::<f64>() / times.len() as f64
    };
    let measured = mean(&mut rest.iter().map(|record| record.response_time().unwrap()));
    let predicted = mean(&mut completions.iter().map(|one| one.completed.saturating_since(one.submitted)));
    assert!(measured > 2_000.0, "{measured} ms");
    near(predicted, measured, 0.02, "mean");
}
