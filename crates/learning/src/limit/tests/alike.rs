//! Loads and devices that look like a limit and have none: a device that slows down, another load, and the pauses of a closed load; and two limits that a
//! load meets in turn.

use seeklab_core::{Completion, Device, Duration, Instant, Operation, Request, Seed, TraceRecord};
use seeklab_devices::layer::Limit;
use seeklab_devices::limit::{Buckets, Limited};

use super::{Mix, Phase, device, fast, found, near, of_bytes, of_requests, record};

/// Drives a device by a closed load of one request at a time, which begins at some time.
fn closed(
    device: &mut dyn Device,
    begin: Instant,
    count: usize,
    think: Duration,
    mut next: impl FnMut(u64) -> Request,
) -> Vec<TraceRecord> {
    let mut completions: Vec<Completion> = Vec::new();
    let mut now = begin;
    for id in 0..count as u64 {
        device.submit(now, next(id)).unwrap();
        while completions.len() as u64 <= id {
            now = device.next_event().unwrap();
            device.poll(now, &mut completions);
        }
        now += think;
    }
    completions.iter().map(TraceRecord::from).collect()
}

/// Drives a device by requests at given times, each the time after the one before; its answers in order of arrival.
fn open(
    device: &mut dyn Device,
    count: u64,
    mut next: impl FnMut(u64, Instant) -> (Duration, Request),
) -> Vec<TraceRecord> {
    let mut completions: Vec<Completion> = Vec::new();
    let mut arrival = Instant::ZERO;
    for id in 0..count {
        let (gap, request) = next(id, arrival);
        arrival += gap;
        while let Some(event) = device.next_event().filter(|event| *event < arrival) {
            device.poll(event, &mut completions);
        }
        device.submit(arrival, request).unwrap();
    }
    while let Some(event) = device.next_event() {
        device.poll(event, &mut completions);
    }
    let mut records: Vec<TraceRecord> = completions.iter().map(TraceRecord::from).collect();
    records.sort_by_key(|record| record.arrival);
    records
}

fn end(records: &[TraceRecord]) -> Instant {
    records.last().unwrap().completion.unwrap()
}

/// Reads and writes of up to 16 KiB at random.
fn random(seed: u64) -> impl FnMut(u64) -> Request {
    let mut stream = Seed(seed).stream("random");
    move |id| {
        let op = if stream.chance(0.67) { Operation::Read } else { Operation::Write };
        Request::new(id, op, stream.below(9_000_000), 1 + stream.below(32) as u32)
    }
}

const NO_PAUSE: Duration = Duration::ZERO;

#[test]
fn device_that_becomes_slower_has_no_limit() {
    // One server, four requests outstanding; its times are uniform about 0.2 ms, then about 0.8 ms.
    for (spread, reads) in [(0.5, 0.67), (0.25, 1.0), (0.1, 0.67)] {
        let mut stream = Seed(4).stream("service");
        let mut completions = vec![Instant::ZERO; 4];
        let mut records = Vec::new();
        for place in 0..32_000_usize {
            let typical = if place < 8_000 { 200_000.0 } else { 800_000.0 };
            let uniform = stream.below(1 << 32) as f64 / (1_u64 << 31) as f64 - 1.0;
            let service = Duration::from_ns_f64(typical * (1.0 + spread * uniform));
            let arrival = completions[place];
            let completion = completions[place + 3] + service;
            completions.push(completion);
            let op = if stream.chance(reads) { Operation::Read } else { Operation::Write };
            let request = Request::new(place as u64, op, stream.below(9_000_000), 8);
            records.push(TraceRecord {
                completion: Some(completion),
                ..TraceRecord::new(arrival, op, request.lbn, request.blocks)
            });
        }
        assert!(found(&records).is_empty(), "{spread}");
    }
}

#[test]
fn other_load_of_a_disk_is_no_limit() {
    // Random reads and writes, and long sequential reads that miss a revolution each, so that they take longer and all the same time.
    let mut disk = device("base = \"atlas10k\"");
    let mut records = closed(disk.as_mut(), Instant::ZERO, 2_500, NO_PAUSE, random(2));
    let sequential = |id: u64| Request::new(3_000 + id, Operation::Read, 12_500_000 + 128 * id, 128);
    records.extend(closed(disk.as_mut(), end(&records), 40_000, NO_PAUSE, sequential));
    assert!(found(&records).is_empty());
}

#[test]
fn pauses_of_a_load_are_no_second_limit() {
    // A limit, and the same volume under a load that does not reach it.
    let buckets = Buckets { requests: vec![of_requests(200.0, 400)], bytes: Vec::new() };
    let server =
        "kind = \"exponential\"\ncapacity_blocks = 10000000\nblock_size = \"512B\"\nservice_time = \"0.5ms\"";
    let mut volume = Limit::new(device(server), Limited::All, buckets);
    let mut records = closed(&mut volume, Instant::ZERO, 5_000, NO_PAUSE, random(1));
    records.extend(closed(&mut volume, end(&records), 16_000, Duration::from_ms(10), random(2)));
    let found = found(&records);
    let [layer] = &found[..] else { panic!("{} layers", found.len()) };
    let [bucket] = &layer.requests[..] else { panic!("{layer:?}") };
    near(bucket.rate.as_per_s(), 200.0, 0.005, "rate");
    near(bucket.burst as f64, 400.0, 0.02, "burst");
}

#[test]
fn limit_is_found_where_each_kind_of_request_always_waits_for_it() {
    use Operation::{Read, Write};
    // So many requests of one kind after so many of another: operation, blocks, and true if they are sequential.
    let kinds = [(Read, 8, false), (Write, 8, false), (Read, 128, false), (Read, 8, true)];
    let server =
        "kind = \"exponential\"\ncapacity_blocks = 10000000\nblock_size = \"512B\"\nservice_time = \"0.2ms\"";
    for (place, second) in kinds.into_iter().enumerate() {
        for first in kinds.into_iter().skip(place + 1) {
            for (count, [first, second]) in
                [(4_500, [first, second]), (4_500, [second, first]), (20_000, [first, second])]
            {
                let buckets = Buckets { requests: vec![of_requests(1_000.0, 3_000)], bytes: Vec::new() };
                let mut volume = Limit::new(device(server), Limited::All, buckets);
                let requests = |(op, blocks, is_sequential): (Operation, u32, bool)| {
                    let mut stream = Seed(7).stream("places");
                    move |id: u64| {
                        let lbn =
                            if is_sequential { u64::from(blocks) * id } else { stream.below(9_000_000) };
                        Request::new(id, op, lbn, blocks)
                    }
                };
                let mut records = closed(&mut volume, Instant::ZERO, count, NO_PAUSE, requests(first));
                records.extend(closed(&mut volume, end(&records), 20_000, NO_PAUSE, requests(second)));
                let found = found(&records);
                let [layer] = &found[..] else { panic!("{first:?}, {second:?}: {} layers", found.len()) };
                let ([bucket], []) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
                assert_eq!(layer.of, Limited::All, "{first:?}, {second:?}");
                near(bucket.rate.as_per_s(), 1_000.0, 0.005, "rate");
                near(bucket.burst as f64, 3_000.0, 0.02, "burst");
            }
        }
    }
}

#[test]
fn small_burst_is_found_under_many_kinds_of_requests() {
    // A tenth of a second, so that few of each kind are free.
    let buckets = Buckets { requests: vec![of_requests(1_000.0, 100)], bytes: Vec::new() };
    let mix = Mix { reads: 0.5, blocks: &[8, 32, 128, 512] };
    let records = record(&mut Limit::new(fast(), Limited::All, buckets), &[Phase::Closed(40, 32)], mix, 3);
    let found = found(&records);
    let [layer] = &found[..] else { panic!("{} layers", found.len()) };
    let ([bucket], []) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
    near(bucket.rate.as_per_s(), 1_000.0, 0.005, "rate");
    near(bucket.burst as f64, 100.0, 0.05, "burst");
}

#[test]
fn limits_of_requests_and_of_bytes_are_found_where_the_load_always_meets_one() {
    // 1,500 per second arrive, more than either bears: short ones and long ones in turn, of which each begins with the other's burst back.
    let buckets =
        Buckets { requests: vec![of_requests(900.0, 3_000)], bytes: vec![of_bytes("40MB/s", 90_000_000)] };
    let mut volume = Limit::new(fast(), Limited::All, buckets);
    let mut stream = Seed(5).stream("arrivals");
    let records = open(&mut volume, 60_000, |id, _| {
        let lengths = if id / 6_000 % 2 == 1 { [64, 256] } else { [8, 16] };
        let blocks = lengths[stream.below(2) as usize];
        let gap = stream.exponential(Duration::from_us(667));
        (gap, Request::new(id, Operation::Read, stream.below(9_000_000), blocks))
    });
    let found = found(&records);
    let [layer] = &found[..] else { panic!("{} layers", found.len()) };
    let ([requests], [bytes]) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
    near(requests.rate.as_per_s(), 900.0, 0.005, "rate of requests");
    near(requests.burst as f64, 3_000.0, 0.02, "burst of requests");
    near(bytes.rate.as_bytes_per_s() as f64, 40e6, 0.005, "rate of bytes");
    near(bytes.burst.as_bytes() as f64, 90e6, 0.02, "burst of bytes");
}

#[test]
fn limit_slightly_below_a_slow_device_is_found() {
    // What has passed a burst waits in the device, so that the level differs from one time to the next.
    let buckets = Buckets { requests: vec![of_requests(90.0, 90)], bytes: Vec::new() };
    let server =
        "kind = \"exponential\"\ncapacity_blocks = 10000000\nblock_size = \"512B\"\nservice_time = \"9ms\"";
    let mut volume = Limit::new(device(server), Limited::All, buckets);
    let mut stream = Seed(1).stream("arrivals");
    let records = open(&mut volume, 30_000, |id, now| {
        let per_s = 60.0 * (0.8 * ((now - Instant::ZERO).as_s() / 6.0).sin()).exp();
        let blocks = if stream.chance(0.5) { 8 } else { 128 };
        let op = if stream.chance(0.7) { Operation::Read } else { Operation::Write };
        let gap = stream.exponential(Duration::from_ns_f64(1e9 / per_s));
        (gap, Request::new(id, op, stream.below(9_000_000), blocks))
    });
    let found = found(&records);
    let [layer] = &found[..] else { panic!("{} layers", found.len()) };
    let ([bucket], []) = (&layer.requests[..], &layer.bytes[..]) else { panic!("{layer:?}") };
    assert_eq!(layer.of, Limited::All);
    near(bucket.rate.as_per_s(), 90.0, 0.005, "rate");
    near(bucket.burst as f64, 90.0, 0.05, "burst");
}
