//! Limits that give back in portions, and devices whose requests complete together without one.

use seeklab_core::Duration;
use seeklab_devices::layer::Limit;
use seeklab_devices::limit::{Buckets, Limited};

use super::{Mix, Phase, SMALL_READS, VARIED, device, fast, found, near, of_bytes, of_requests, record};

const INTERVAL: Duration = Duration::from_ms(100);

/// A load that a limit of 600/s holds, then one that it does not.
const PHASES: &[Phase] = &[Phase::Closed(15, 16), Phase::Open(15, 200), Phase::Closed(15, 8)];

#[test]
fn portions_of_requests_are_found_with_their_interval() {
    let half = Mix { reads: 0.5, blocks: &[8] };
    for (mix, of) in
        [(SMALL_READS, Limited::All), (half, Limited::All), (half, Limited::Reads), (half, Limited::Writes)]
    {
        for (interval, burst) in [(INTERVAL, 60), (Duration::from_ms(20), 12)] {
            let buckets = Buckets {
                requests: vec![of_requests(600.0, burst).in_portions(interval)],
                bytes: Vec::new(),
            };
            let records = record(&mut Limit::new(fast(), of, buckets), PHASES, mix, 3);
            let found = found(&records);
            let [layer] = &found[..] else { panic!("{of:?}, {interval}: {} layers", found.len()) };
            let ([bucket], []) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
            assert_eq!(layer.of, of);
            near(bucket.rate.as_per_s(), 600.0, 0.005, "rate");
            assert_eq!(bucket.burst, burst);
            near(bucket.interval.as_ms(), interval.as_ms(), 0.01, "interval");
        }
    }
}

#[test]
fn portions_of_reads_and_of_writes_are_found_beside_each_other() {
    let in_portions = |per_s: f64, burst| Buckets {
        requests: vec![of_requests(per_s, burst).in_portions(INTERVAL)],
        bytes: Vec::new(),
    };
    let writes = Limit::new(fast(), Limited::Writes, in_portions(300.0, 30));
    let mut both = Limit::new(Box::new(writes), Limited::Reads, in_portions(700.0, 70));
    let half = Mix { reads: 0.5, blocks: &[8] };
    // Both hold requests where many are outstanding.
    let phases = [Phase::Open(20, 2_000), Phase::Idle(60), Phase::Open(20, 200)];
    let found = found(&record(&mut both, &phases, half, 5));
    let mut rates: Vec<(Limited, f64, u64)> = Vec::new();
    for layer in &found {
        let ([bucket], []) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
        near(bucket.interval.as_ms(), 100.0, 0.01, "interval");
        rates.push((layer.of, bucket.rate.as_per_s(), bucket.burst));
    }
    rates.sort_by_key(|(of, ..)| *of);
    let [(Limited::Reads, reads, 70), (Limited::Writes, writes, 30)] = rates[..] else { panic!("{rates:?}") };
    near(reads, 700.0, 0.005, "reads");
    near(writes, 300.0, 0.005, "writes");
}

#[test]
fn portions_of_bytes_are_found_with_their_interval() {
    let buckets =
        Buckets { requests: Vec::new(), bytes: vec![of_bytes("40MB/s", 4_000_000).in_portions(INTERVAL)] };
    let phases = [Phase::Closed(20, 32), Phase::Open(20, 200)];
    let found = found(&record(&mut Limit::new(fast(), Limited::All, buckets), &phases, VARIED, 3));
    let [layer] = &found[..] else { panic!("{} layers", found.len()) };
    let ([], [bucket]) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
    near(bucket.rate.as_bytes_per_s() as f64, 40e6, 0.01, "rate");
    near(bucket.burst.as_bytes() as f64, 4e6, 0.05, "burst");
    near(bucket.interval.as_ms(), 100.0, 0.01, "interval");
}

#[test]
fn requests_that_are_served_together_show_no_portions() {
    // Sixteen at once, each for the same time; few are outstanding later.
    let phases = [Phase::Closed(20, 16), Phase::Closed(20, 64), Phase::Closed(20, 1), Phase::Open(20, 300)];
    let mut served = device(
        "kind = \"station\"\ncapacity_blocks = 10000000\nblock_size = \"512B\"\nservers = 16\ntree = [\"= 1000*1\"]\n\
         [[operations]]\nop = \"read\"\nrequests = 10\ntypical = \"10ms\"\nblocks_min = 8\nblocks_max = 256\nqueue_max = 31\n",
    );
    assert!(found(&record(served.as_mut(), &phases, SMALL_READS, 3)).is_empty());
}

#[test]
fn clone_lets_portions_go_together() {
    use crate::fit::{DeviceInfo, Fit};
    use std::collections::BTreeMap;

    let buckets =
        || Buckets { requests: vec![of_requests(600.0, 60).in_portions(INTERVAL)], bytes: Vec::new() };
    let records = record(&mut Limit::new(fast(), Limited::All, buckets()), PHASES, SMALL_READS, 3);
    let mut fit = crate::station::StationFit::default();
    fit.record_all(&records);
    let about = DeviceInfo {
        block_size: seeklab_core::ByteSize::from_bytes(512),
        capacity_blocks: 10_000_000,
        fit: BTreeMap::new(),
    };
    let description = fit.description(about).unwrap();
    let mut clone = seeklab_devices::Description::from_table("clone", "clone", description)
        .unwrap()
        .build(seeklab_core::Seed(9), "clone")
        .unwrap();
    // Another depth: of each portion of 60, all but the 32 outstanding go at once.
    let other = [Phase::Closed(20, 32)];
    let truth = record(&mut Limit::new(fast(), Limited::All, buckets()), &other, SMALL_READS, 4);
    let cloned = record(clone.as_mut(), &other, SMALL_READS, 4);
    let waited = |records: &[seeklab_core::TraceRecord]| {
        let slow = records.iter().filter(|of| of.response_time().unwrap() > Duration::from_ms(50)).count();
        slow as f64 / records.len() as f64
    };
    near(cloned.len() as f64, truth.len() as f64, 0.01, "requests");
    near(waited(&cloned), waited(&truth), 0.05, "share of slow requests");
    near(waited(&truth), 32.0 / 60.0, 0.05, "share of slow requests of the device");
}
