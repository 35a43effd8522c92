//! Limits that give back in portions, and devices whose requests complete together without one.

use seeklab_core::{Device, Duration};
use seeklab_devices::layer::Limit;
use seeklab_devices::limit::{Buckets, Limited};

use super::{
    Mix, Phase, SMALL_READS, VARIED, device, fast, found, limits, near, of_bytes, of_requests, record,
};

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
    near(bucket.rate.as_bytes_per_s() as f64, 40e6, 0.003, "rate");
    near(bucket.burst.as_bytes() as f64, 4e6, 0.05, "burst");
    near(bucket.interval.as_ms(), 100.0, 0.01, "interval");
}

/// A device that serves 16 at a time, each for the same time.
fn even(typical: &str) -> Box<dyn Device> {
    device(&format!(
        "kind = \"station\"\ncapacity_blocks = 10000000\nblock_size = \"512B\"\nservers = 16\ntree = [\"= 1000*1\"]\n\
         [[operations]]\nop = \"read\"\nrequests = 10\ntypical = \"{typical}\"\nblocks_min = 8\nblocks_max = 256\nqueue_max = 31\n"
    ))
}

#[test]
fn requests_that_are_served_together_show_no_portions() {
    // Few are outstanding later, or all the time as many as are served.
    let later = [Phase::Closed(20, 16), Phase::Closed(20, 64), Phase::Closed(20, 1), Phase::Open(20, 300)];
    for phases in [&later[..], &later[..1]] {
        assert!(found(&record(even("10ms").as_mut(), phases, SMALL_READS, 3)).is_empty(), "{phases:?}");
    }
}

#[test]
fn portions_are_found_in_a_part_of_a_busy_trace() {
    let buckets = Buckets { requests: vec![of_requests(600.0, 60).in_portions(INTERVAL)], bytes: Vec::new() };
    let phases = [Phase::Open(150, 400), Phase::Closed(5, 16), Phase::Open(50, 400)];
    let found = found(&record(&mut Limit::new(even("1ms"), Limited::All, buckets), &phases, SMALL_READS, 3));
    let [layer] = &found[..] else { panic!("{} layers", found.len()) };
    let ([bucket], []) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
    near(bucket.rate.as_per_s(), 600.0, 0.005, "rate");
    assert_eq!((bucket.burst, bucket.interval.as_ms().round()), (60, 100.0));
}

#[test]
fn portions_from_a_larger_burst_are_not_all_of_the_limit() {
    // As QEMU releases requests: twelve together, once 12,000 have gone.
    let of = of_requests(1_000.0, 12_000).in_portions(Duration::from_ms(12));
    let buckets = Buckets { requests: vec![of], bytes: Vec::new() };
    let phases = [Phase::Closed(30, 16), Phase::Idle(20), Phase::Closed(30, 8)];
    let found = found(&record(&mut Limit::new(fast(), Limited::All, buckets), &phases, SMALL_READS, 3));
    let [layer] = &found[..] else { panic!("{} layers", found.len()) };
    let ([bucket], []) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
    near(bucket.rate.as_per_s(), 1_000.0, 0.005, "rate");
    near(bucket.burst as f64, 12_000.0, 0.05, "burst");
    assert!(bucket.interval.is_zero(), "{}", bucket.interval);
}

#[test]
fn requests_wait_for_the_end_of_the_interval() {
    let buckets = Buckets { requests: vec![of_requests(600.0, 60).in_portions(INTERVAL)], bytes: Vec::new() };
    let records = record(&mut Limit::new(fast(), Limited::All, buckets), PHASES, SMALL_READS, 3);
    let limits = limits(&records);
    // Sixteen of each sixty, and eight of them later; what they take is the wait and the service.
    let held: Vec<(f64, f64)> = limits
        .waits
        .iter()
        .zip(&records)
        .filter(|(wait, _)| wait.is_held)
        .map(|(wait, record)| (wait.time.as_ms(), record.response_time().unwrap().as_ms()))
        .collect();
    near(held.len() as f64, 150.0 * 16.0 + 150.0 * 8.0, 0.05, "requests that waited");
    let [waited, took] = [0, 1].map(|part| held.iter().map(|of| [of.0, of.1][part]).sum::<f64>());
    near(waited, took, 0.02, "waits");
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
    let about = || DeviceInfo {
        block_size: seeklab_core::ByteSize::from_bytes(512),
        capacity_blocks: 10_000_000,
        fit: BTreeMap::new(),
    };
    let description = fit.description(about()).unwrap();
    // The trace ends within an interval, of which a part is used.
    let left = fit.description_with_state(about()).unwrap();
    let used = left["requests"][0].get("used").and_then(|used| used.as_integer());
    assert!(used.is_some_and(|used| (1..=60).contains(&used)), "{used:?}");
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
