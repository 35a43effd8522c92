//! Are limits found where there are some, as they are, and nowhere else?

use seeklab_core::{
    ByteSize, Completion, Device, Duration, Instant, Operation, Request, Seed, Stream, TraceRecord,
};

use super::*;
use crate::Description;
use crate::fit::{About, Fit};
use crate::layer::Limit;
use crate::station::StationFit;

/// A part of a load.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// So many seconds with that many outstanding.
    Closed(u64, usize),
    /// So many seconds of requests by chance, so many a second.
    Open(u64, u64),
    /// So many seconds without.
    Idle(u64),
}

/// What is asked: the share of reads, and lengths in blocks.
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

fn fitted(records: &[TraceRecord]) -> toml::Table {
    let mut fit = StationFit::default();
    records.iter().for_each(|record| fit.record(record));
    let about =
        About { block_size: ByteSize::from_bytes(512), capacity_blocks: 10_000_000, fit: Default::default() };
    fit.description(about).unwrap()
}

/// The layers of limits of a fitted device, the outermost first.
fn layers(mut table: toml::Table) -> Vec<LimitParameters> {
    let mut layers = Vec::new();
    while table["kind"].as_str() == Some("limit") {
        table.remove("kind");
        let layer: LimitParameters = table.try_into().unwrap();
        table = layer.device.clone();
        layers.push(layer);
    }
    layers
}

fn near(value: f64, expected: f64, share: f64, what: &str) {
    assert!((value / expected - 1.0).abs() <= share, "{what}: {value}, {expected} expected");
}

#[test]
fn is_a_limit_of_requests_found_as_it_is() {
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
        let found = layers(fitted(&records));
        println!(
            "{rate} {burst}: {} requests, {:?}",
            records.len(),
            found.iter().map(|layer| (&layer.requests, &layer.bytes, &layer.fit)).collect::<Vec<_>>()
        );
        let [layer] = &found[..] else { panic!("{} layers", found.len()) };
        let [bucket] = &layer.requests[..] else { panic!("{layer:?}") };
        near(bucket.rate.as_per_s(), rate, 0.005, "rate");
        near(bucket.burst as f64, burst as f64, 0.05, "burst");
    }
}
