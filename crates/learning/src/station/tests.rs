//! Tests that a station answers like the trace that it was fitted to, and that the fit finds the kind of
//! device that wrote the trace.

use std::collections::VecDeque;

use seeklab_core::{ByteSize, Device, Duration, Instant, Operation, Request, Seed, Stream, TraceRecord};
use seeklab_devices::station::{Feature, First, Order, Station, StationParameters};

use seeklab_devices::station::parts::Line;

use super::observe::Observed;
use super::sample::Sample;
use super::*;
use crate::fit::{DeviceInfo, Fit, LeftOut};
use crate::stop::StopCheck;

/// A device with so many servers: 1 ms in sequence, 4 ms near by, 9 ms far away, writes half of it, and a tenth by chance.
fn service(stream: &mut Stream, op: Operation, lbn: u64, last_end: u64) -> Duration {
    let base_us = match lbn.abs_diff(last_end) {
        0 => 1_000,
        1..1_000_000 => 4_000,
        _ => 9_000,
    };
    let us = if op == Operation::Write { base_us / 2 } else { base_us };
    Duration::from_us(us + stream.below(us / 10))
}

/// Requests of that many microseconds apart on average over `blocks`, 30 % of which are writes and 30 % sequential.
fn requests(stream: &mut Stream, blocks: u64, gap_us: u64, count: usize) -> Vec<TraceRecord> {
    let (mut now_ns, mut end) = (0, 0);
    (0..count)
        .map(|_| {
            now_ns += stream.exponential(Duration::from_us(gap_us)).as_ns();
            let op = if stream.chance(0.3) { Operation::Write } else { Operation::Read };
            let lbn = if stream.chance(0.3) { end } else { stream.below(blocks) };
            end = lbn + 8;
            TraceRecord::new(Instant::from_ns(now_ns), op, lbn, 8)
        })
        .collect()
}

/// Returns the trace of a station of the given kind with random arrivals, `gap_us` apart on average.
fn trace(servers: usize, order: Order, gap_us: u64, count: usize, seed: u64) -> Vec<TraceRecord> {
    banded(servers, (order, 1), 1 << 24, gap_us, count, seed)
}

/// The same with requests in order of arrival within bands of so many blocks, over so many blocks.
fn banded(
    servers: usize,
    (order, band): (Order, u64),
    blocks: u64,
    gap_us: u64,
    count: usize,
    seed: u64,
) -> Vec<TraceRecord> {
    let mut stream = Seed(seed).stream("trace");
    let records = requests(&mut stream, blocks, gap_us, count);
    let key = |record: &TraceRecord, last_end: u64| match order {
        Order::Fcfs => 0,
        Order::Nearest => (record.lbn / band).abs_diff(last_end / band),
        Order::Ascending => (record.lbn / band).wrapping_sub(last_end / band),
        Order::Sptf => unreachable!("keys are places"),
    };
    served_by(stream, servers, records, key)
}

/// The requests as so many servers complete them, the one with the least key first.
fn served_by<K: Ord>(
    mut stream: Stream,
    servers: usize,
    mut records: Vec<TraceRecord>,
    key: impl Fn(&TraceRecord, u64) -> K,
) -> Vec<TraceRecord> {
    let count = records.len();
    let mut waiting: VecDeque<usize> = VecDeque::new();
    let mut served: Vec<Instant> = vec![Instant::ZERO; servers];
    let (mut next, mut last_end) = (0, 0);
    while next < count || !waiting.is_empty() {
        served.sort_unstable();
        let free = served[0];
        while next < count && (records[next].arrival <= free || waiting.is_empty()) {
            waiting.push_back(next);
            next += 1;
        }
        let first = (0..waiting.len())
            .min_by_key(|place| (key(&records[waiting[*place]], last_end), *place))
            .unwrap();
        let index = waiting.remove(first).unwrap();
        let record = &mut records[index];
        let start = free.max(record.arrival);
        served[0] = start + service(&mut stream, record.op, record.lbn, last_end);
        record.completion = Some(served[0]);
        last_end = record.lbn + 8;
    }
    records
}

fn fitted(records: &[TraceRecord]) -> StationParameters {
    fitted_without(records, &[])
}

fn fitted_without(records: &[TraceRecord], left_out: &[Feature]) -> StationParameters {
    let mut fit = StationFit::default();
    records.iter().for_each(|record| fit.record(record));
    fit.leave_out(&LeftOut { features: left_out.to_vec(), ..LeftOut::default() });
    assert_eq!(fit.summary().requests, records.len() as u64);
    let about = DeviceInfo {
        block_size: ByteSize::from_bytes(512),
        capacity_blocks: 1 << 25,
        fit: Default::default(),
    };
    fit.parameters(about).unwrap()
}

/// Response times in ms of the requests of a trace, open.
fn answers(device: &mut dyn Device, records: &[TraceRecord]) -> Vec<f64> {
    let (mut completions, mut answers) = (Vec::new(), vec![0.0; records.len()]);
    for (index, record) in records.iter().enumerate() {
        device.poll(record.arrival, &mut completions);
        device.submit(record.arrival, record.request(index as u64)).unwrap();
    }
    while let Some(next) = device.next_event() {
        device.poll(next, &mut completions);
    }
    for completion in completions {
        answers[completion.request.id.0 as usize] = completion.response_time().as_ms();
        assert_eq!(completion.breakdown.total(), completion.response_time());
    }
    answers
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn measured(records: &[TraceRecord]) -> impl ExactSizeIterator<Item = f64> {
    records.iter().map(|record| record.response_time().unwrap().as_ms())
}

#[test]
fn fit_finds_servers_and_order_of_the_traced_device() {
    for (servers, order, gap_us) in [
        (1, Order::Fcfs, 6_000),
        (1, Order::Ascending, 5_000),
        (1, Order::Nearest, 5_000),
        (4, Order::Fcfs, 1_500),
    ] {
        let parameters = fitted(&trace(servers, order, gap_us, 8_000, 7));
        assert_eq!(parameters.servers as usize, servers, "{order:?}");
        assert_eq!(parameters.order, order, "{servers}");
    }
}

#[test]
fn fit_finds_that_an_elevator_knows_cylinders() {
    let [fine, coarse] =
        [1, 1 << 14].map(|band| fitted(&banded(1, (Order::Ascending, band), 1 << 18, 3_000, 12_000, 7)));
    assert_eq!((fine.order, fine.band_blocks), (Order::Ascending, 1));
    assert_eq!((coarse.order, coarse.band_blocks), (Order::Ascending, 1 << 14));
    let fresh = banded(1, (Order::Ascending, 1 << 14), 1 << 18, 3_000, 30_000, 9);
    let mut station = Station::new(&coarse, Seed(1), "disk0").unwrap();
    let (ours, theirs) = (mean(answers(&mut station, &fresh).into_iter()), mean(measured(&fresh)));
    assert!((ours / theirs - 1.0).abs() < 0.08, "{ours} ms, {theirs} measured");
}

#[test]
fn fit_finds_the_operation_that_overtakes_others() {
    // One operation comes first, in ascending order among itself, as do the others.
    let trace_of = |first: Operation| {
        let mut stream = Seed(7).stream("trace");
        let records = requests(&mut stream, 1 << 24, 5_500, 12_000);
        let key =
            |record: &TraceRecord, last_end: u64| (record.op != first, record.lbn.wrapping_sub(last_end));
        served_by(stream, 1, records, key)
    };
    for (op, first, tolerance) in
        [(Operation::Read, First::Reads, 0.25), (Operation::Write, First::Writes, 0.05)]
    {
        let records = trace_of(op);
        let parameters = fitted(&records);
        assert_eq!(parameters.first, first);
        let mut station = Station::new(&parameters, Seed(1), "disk0").unwrap();
        let of_op = |times: Vec<f64>| {
            let of = records.iter().zip(times).filter(|(record, _)| record.op == op);
            mean(of.map(|(_, time)| time).collect::<Vec<_>>().into_iter())
        };
        let ours = of_op(answers(&mut station, &records).into_iter().collect());
        let theirs = of_op(measured(&records).collect());
        assert!((ours / theirs - 1.0).abs() < tolerance, "{op:?}: {ours} ms, {theirs} measured");
        assert_eq!(parameters.order, Order::Ascending, "{} servers", parameters.servers);
    }
    let without = fitted(&trace(1, Order::Ascending, 5_000, 8_000, 7));
    assert_eq!(without.first, First::None, "no operation is preferred there");
}

/// Blocks of a disk that serves what it can reach first.
const POSITIONED_BLOCKS: u64 = 1 << 24;

/// The service of a request by that disk at a time, after one at `last`: a seek by distance, then the turn of the platter (8 ms) to the
/// request. An operation that comes before all others takes 0.2 ms.
fn positioned_us(record: &TraceRecord, now: Instant, last: u64, first: Option<Operation>) -> u64 {
    const TURN_US: u64 = 8_000;
    if Some(record.op) == first {
        return 200;
    }
    let way = record.lbn.abs_diff(last) as f64 / POSITIONED_BLOCKS as f64;
    let seek_us = 1_000 + (6_000.0 * way.sqrt()) as u64;
    let angle_us = record.lbn.wrapping_mul(0x9E37_79B9_7F4A_7C15) % TURN_US;
    let under_us = (now.as_ns() / 1_000 + seek_us) % TURN_US;
    seek_us + (angle_us + TURN_US - under_us) % TURN_US + 100
}

/// The trace of that disk under random arrivals.
fn positioned(first: Option<Operation>, gap_us: u64, count: usize, seed: u64) -> Vec<TraceRecord> {
    let mut stream = Seed(seed).stream("trace");
    let mut records = requests(&mut stream, POSITIONED_BLOCKS, gap_us, count);
    let (mut waiting, mut next, mut last, mut free) = (Vec::new(), 0, 0_u64, Instant::ZERO);
    while next < count || !waiting.is_empty() {
        while next < count && (records[next].arrival <= free || waiting.is_empty()) {
            free = free.max(records[next].arrival);
            waiting.push(next);
            next += 1;
        }
        let service_us = |index: usize| positioned_us(&records[index], free, last, first);
        let key = |index: usize| (Some(records[index].op) != first, service_us(index), index);
        let place = (0..waiting.len()).min_by_key(|place| key(waiting[*place])).unwrap();
        let index = waiting.remove(place);
        free += Duration::from_us(service_us(index));
        records[index].completion = Some(free);
        last = records[index].lbn;
    }
    records
}

/// The trace of that disk with as many requests outstanding: it has taken the next one when another arrives.
fn positioned_closed(outstanding: usize, count: usize, seed: u64) -> Vec<TraceRecord> {
    let mut stream = Seed(seed).stream("trace");
    let mut records = requests(&mut stream, POSITIONED_BLOCKS, 1, count);
    records.iter_mut().for_each(|record| record.arrival = Instant::ZERO);
    let mut waiting: Vec<usize> = (0..outstanding).collect();
    let (mut next, mut last, mut now) = (outstanding, 0, Instant::ZERO);
    let mut served = waiting.remove(0);
    loop {
        now += Duration::from_us(positioned_us(&records[served], now, last, None));
        (records[served].completion, last) = (Some(now), records[served].lbn);
        let service_us = |index: usize| positioned_us(&records[index], now, last, None);
        let nearest = (0..waiting.len()).min_by_key(|place| (service_us(waiting[*place]), *place));
        if next < count {
            records[next].arrival = now;
            waiting.push(next);
            next += 1;
        }
        match nearest {
            Some(place) => served = waiting.remove(place),
            None => return records,
        }
    }
}

/// The mean response in ms of a device with as many of the requests outstanding.
fn closed_mean(device: &mut dyn Device, records: &[TraceRecord], outstanding: usize) -> f64 {
    let mut requests = (0..).zip(records).map(|(id, record)| record.request(id));
    let mut completions = Vec::new();
    requests.by_ref().take(outstanding).for_each(|request| device.submit(Instant::ZERO, request).unwrap());
    while let Some(now) = device.next_event() {
        let before = completions.len();
        device.poll(now, &mut completions);
        let ended = completions.len() - before;
        requests.by_ref().take(ended).for_each(|request| device.submit(now, request).unwrap());
    }
    mean(completions.iter().map(|completion| completion.response_time().as_ms()))
}

#[test]
fn fit_finds_that_the_shortest_service_comes_first() {
    for (first, gap_us) in [(None, 8_000), (Some(Operation::Write), 6_500)] {
        let parameters = fitted(&positioned(first, gap_us, 40_000, 7));
        assert_eq!((parameters.servers, parameters.order), (1, Order::Sptf), "{first:?}");
        assert_eq!(parameters.first, if first.is_some() { First::Writes } else { First::None });
        // Fresh requests, and as many in less time: more wait.
        for gap_us in [gap_us, gap_us * 9 / 10] {
            let fresh = positioned(first, gap_us, 40_000, 9);
            let mut station = Station::new(&parameters, Seed(1), "disk0").unwrap();
            let ours = answers(&mut station, &fresh);
            let reads = |times: Vec<f64>| {
                let of = fresh.iter().zip(times).filter(|(record, _)| record.op == Operation::Read);
                let mut times: Vec<f64> = of.map(|(_, time)| time).collect();
                times.sort_by(f64::total_cmp);
                (mean(times.iter().copied()), times[times.len() * 99 / 100])
            };
            let ((ours, p99), (theirs, measured_p99)) = (reads(ours), reads(measured(&fresh).collect()));
            let errors = [ours / theirs - 1.0, p99 / measured_p99 - 1.0];
            assert!(errors[0].abs() < 0.04 && errors[1].abs() < 0.1, "{first:?} {gap_us}: {errors:?}");
        }
    }
}

#[test]
fn clone_of_a_disk_that_orders_by_position_holds_with_any_number_outstanding() {
    for fitted_to in [4, 32] {
        let parameters = fitted(&positioned_closed(fitted_to, 20_000, 7));
        assert_eq!((parameters.servers, parameters.order), (1, Order::Sptf), "{fitted_to}");
        for outstanding in [4, 8, 32] {
            let fresh = positioned_closed(outstanding, 20_000, 9);
            let mut station = Station::new(&parameters, Seed(1), "disk0").unwrap();
            let (ours, theirs) = (closed_mean(&mut station, &fresh, outstanding), mean(measured(&fresh)));
            let error = ours / theirs - 1.0;
            assert!(error.abs() < 0.1, "{fitted_to} {outstanding}: {error}");
        }
    }
}

#[test]
fn times_are_compared_with_all_that_were_passed_over() {
    let mut sample = Sample::default();
    positioned(Some(Operation::Write), 6_500, 3_000, 5).iter().for_each(|record| sample.record(record));
    let line = Line { order: Order::Sptf, band_blocks: 1, first: First::Writes };
    let runs = sample.runs(usize::MAX);
    let observed = Observed::of(&runs, 1, Some(line), 1 << 24, &StopCheck::default()).unwrap();
    let (served, passed): (Vec<_>, Vec<_>) =
        observed.services.iter().partition(|(_, service)| service.is_served());
    assert_eq!(served.len(), 3_000);
    // A read is passed over for a read alone, in this trace by a shorter one.
    let by_request: std::collections::BTreeMap<u32, Duration> =
        served.iter().map(|(index, service)| (*index, service.time)).collect();
    for (index, service) in &passed {
        assert_eq!(service.time, by_request[index]);
        assert_eq!(service.row[Feature::Op as usize], runs[0][*index as usize].asked.op as u8);
    }
    assert!(passed.len() > 1_000 && observed.picks.write()[0].starts_with("first: "), "{}", passed.len());
    assert_eq!(observed.picks.write().len(), 1, "times decide, not ranks");
}

/// The trace of a disk with a write buffer: a write takes 0.1 ms, its destage and a read 8 to 10 ms. While no read is there, one
/// destage follows the other; one that has begun is finished before a read.
fn buffered(gap_us: u64, count: usize, seed: u64) -> Vec<TraceRecord> {
    let mut stream = Seed(seed).stream("trace");
    let mut records = requests(&mut stream, 1 << 24, gap_us, count);
    let (mut free, mut media_free, mut owed) = (Instant::ZERO, Instant::ZERO, 0_u32);
    for record in &mut records {
        let start = free.max(record.arrival);
        media_free = media_free.max(free);
        while owed > 0 && media_free <= start {
            media_free += Duration::from_us(8_000 + stream.below(2_000));
            owed -= 1;
        }
        free = match record.op {
            Operation::Write => {
                owed += 1;
                start + Duration::from_us(100)
            }
            _ => start.max(media_free) + Duration::from_us(8_000 + stream.below(2_000)),
        };
        record.completion = Some(free);
    }
    records
}

#[test]
fn clone_of_a_write_buffer_pays_its_debt_one_by_one() {
    let p99 = |times: &mut Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() * 99 / 100]
    };
    let (seen, fresh) = (buffered(14_000, 30_000, 7), buffered(14_000, 60_000, 9));
    let errors = |left_out: &[Feature]| {
        let mut station = Station::new(&fitted_without(&seen, left_out), Seed(1), "disk0").unwrap();
        let (mut ours, mut theirs) = (answers(&mut station, &fresh), measured(&fresh).collect::<Vec<_>>());
        let mean = mean(ours.iter().copied()) / mean(theirs.iter().copied()) - 1.0;
        (mean.abs(), (p99(&mut ours) / p99(&mut theirs) - 1.0).abs())
    };
    let (mean, p99) = errors(&[]);
    assert!(mean < 0.02 && p99 < 0.03, "{mean} {p99}");
    let without = errors(&[Feature::Owed, Feature::WritesInRow, Feature::WritesSinceIdle]);
    assert!(without.1 > 0.02, "{without:?} without what is owed, {p99} with it");
}

#[test]
fn device_that_keeps_the_order_of_its_requests_has_one_server() {
    // As many clients as keep it busy for most of the time, each of which thinks after its request.
    for seed in 0..4 {
        let mut stream = Seed(seed).stream("clients");
        let mut think = || stream.exponential(Duration::from_ms(600));
        let mut ready: Vec<Instant> = (0..60).map(|_| Instant::ZERO + think()).collect();
        let mut times = Seed(seed).stream("times");
        let (mut free, mut records) = (Instant::ZERO, Vec::new());
        for index in 0..12_000_u64 {
            let next = (0..ready.len()).min_by_key(|client| ready[*client]).unwrap();
            let arrival = ready[next];
            free = free.max(arrival) + times.exponential(Duration::from_ms(8));
            ready[next] = free + think();
            let lbn = 997 * index % (1 << 20);
            records.push(TraceRecord {
                completion: Some(free),
                ..TraceRecord::new(arrival, Operation::Read, lbn, 8)
            });
        }
        assert_eq!(fitted(&records).servers, 1, "seed {seed}");
    }
}

#[test]
fn clone_answers_for_a_load_that_was_not_recorded() {
    // Fitted at half the load that the device can bear, asked at six sevenths.
    let parameters = fitted(&trace(1, Order::Fcfs, 9_000, 12_000, 7));
    let busier = trace(1, Order::Fcfs, 5_300, 30_000, 8);
    let mut station = Station::new(&parameters, Seed(1), "disk0").unwrap();
    let (ours, theirs) = (mean(answers(&mut station, &busier).into_iter()), mean(measured(&busier)));
    assert!((ours / theirs - 1.0).abs() < 0.15, "{ours} ms, {theirs} measured");
    // The queue was never as long as now, and that is counted.
    assert!(station.coverage().unwrap().outside > 0, "{:?}", station.coverage());
}

#[test]
fn clone_answers_as_its_trace_did() {
    for (servers, order, gap_us) in [(1, Order::Ascending, 6_000), (4, Order::Fcfs, 2_000)] {
        let parameters = fitted(&trace(servers, order, gap_us, 12_000, 7));
        let fresh = trace(servers, order, gap_us, 30_000, 9);
        let mut station = Station::new(&parameters, Seed(1), "disk0").unwrap();
        let (ours, theirs) = (mean(answers(&mut station, &fresh).into_iter()), mean(measured(&fresh)));
        assert!((ours / theirs - 1.0).abs() < 0.06, "{order:?}: {ours} ms, {theirs} measured");
    }
}

#[test]
fn structure_that_was_judged_is_kept() {
    let about = || DeviceInfo {
        block_size: ByteSize::from_bytes(512),
        capacity_blocks: 1 << 25,
        fit: Default::default(),
    };
    // One server that takes the nearest, then four in order of arrival, which serve more requests.
    let first = trace(1, Order::Nearest, 6_000, 6_000, 7);
    let mut rest = trace(4, Order::Fcfs, 2_000, 30_000, 8);
    let later = first.iter().filter_map(|record| record.completion).max().unwrap() - Instant::ZERO;
    for record in &mut rest {
        record.arrival += later;
        record.completion = record.completion.map(|completion| completion + later);
    }
    let mut anew = StationFit::default();
    anew.record_all(&first);
    let judged = anew.parameters(about()).unwrap();
    assert_eq!((judged.servers, judged.order), (1, Order::Nearest));
    let mut kept = anew.clone();
    kept.keep_structure();
    let both = [&mut anew, &mut kept].map(|fit| {
        fit.record_all(&rest);
        fit.parameters(about()).unwrap()
    });
    let [anew, kept] = both.map(|one| (one.servers, one.order));
    assert!(anew.0 > 1 && anew.1 == Order::Fcfs, "{anew:?}");
    assert_eq!(kept, (1, Order::Nearest));
}

#[test]
fn fork_continues_identically() {
    let records = trace(2, Order::Nearest, 3_000, 4_000, 3);
    let mut station = Station::new(&fitted(&records), Seed(1), "disk0").unwrap();
    answers(&mut station, &records[..2_000]);
    let mut other = Station::new(&fitted(&records[..600]), Seed(2), "disk0").unwrap();
    answers(&mut other, &records[..50]);
    let mut fork: Box<dyn Device> = Box::new(other);
    station.fork_into(&mut fork);
    // After all that has been served.
    let later = Duration::from_ms(1_000_000);
    let mut rest = records[2_000..].to_vec();
    rest.iter_mut().for_each(|record| record.arrival += later);
    assert_eq!(answers(fork.as_mut(), &rest), answers(&mut station, &rest));
}

#[test]
fn description_reads_back_as_it_was_written() {
    let parameters = fitted(&trace(1, Order::Ascending, 5_000, 5_000, 5));
    assert!(parameters.tree.len() > 3 && !parameters.picks.is_empty(), "{parameters:?}");
    let text = toml::to_string(&parameters).unwrap();
    let read: StationParameters = toml::from_str(&text).unwrap();
    assert_eq!(read, parameters);
    let requests = trace(1, Order::Ascending, 5_000, 500, 6);
    let [one, other] = [&parameters, &read]
        .map(|parameters| answers(&mut Station::new(parameters, Seed(4), "disk0").unwrap(), &requests));
    assert_eq!(one, other);
}

#[test]
fn requests_outside_the_fitted_range_are_answered_and_counted() {
    let mut station =
        Station::new(&fitted(&trace(1, Order::Fcfs, 9_000, 2_000, 1)), Seed(1), "disk0").unwrap();
    let mut completions = Vec::new();
    for (index, op) in Operation::ALL.into_iter().enumerate() {
        let blocks = if op == Operation::Flush { 0 } else { 4096 };
        station.submit(Instant::ZERO, Request::new(index as u64, op, 0, blocks)).unwrap();
    }
    while let Some(next) = station.next_event() {
        station.poll(next, &mut completions);
    }
    assert_eq!(completions.len(), Operation::ALL.len());
    assert_eq!(station.coverage().unwrap().outside, Operation::ALL.len() as u64);
}

#[test]
fn sample_is_bounded_and_even_over_the_trace() {
    let mut sample = Sample::default();
    let count = 3 * SAMPLE_MAX as u64;
    for index in 0..count {
        let arrival = Instant::from_ns(index * 1_000);
        let mut record = TraceRecord::new(arrival, Operation::Read, index, 8);
        // The one before is still outstanding at each arrival.
        record.completion = Some(arrival + Duration::from_ns(1_500));
        sample.record(&record);
    }
    let runs = sample.runs(usize::MAX);
    let kept: usize = runs.iter().map(Vec::len).sum();
    assert!((SAMPLE_MAX / 4..=SAMPLE_MAX).contains(&kept), "{kept}");
    let places: Vec<u64> = runs.iter().map(|run| run[0].asked.lbn).collect();
    let gaps: Vec<u64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap == gaps[0]), "{gaps:?}");
    assert!(count - places.last().unwrap() <= 2 * gaps[0]);
    for run in &runs[1..] {
        assert!(!run[0].counts, "what stands before it is not known");
        assert!(run[1..].iter().all(|seen| seen.counts));
    }
}

#[test]
fn mistakes_in_a_description_are_named() {
    let good = fitted(&trace(1, Order::Ascending, 5_000, 3_000, 5));
    let problem = |change: &dyn Fn(&mut StationParameters)| {
        let mut parameters = good.clone();
        change(&mut parameters);
        Station::new(&parameters, Seed(1), "disk0").unwrap_err().to_string()
    };
    let tree = |lines: &[&str]| {
        problem(&|parameters| parameters.tree = lines.iter().map(|line| (*line).to_owned()).collect())
    };
    for (lines, part) in [
        (&["op < write"][..], "questions are left"),
        (&["= 5", "= 6"], "nothing left to answer"),
        (&["mood < 3", "= 5", "= 6"], "`mood < 3` is no FEATURE"),
        (&["length < 8 miles", "= 5", "= 6"], "is no FEATURE"),
        (&["length < 8", "= 5", "= 6"], "is no FEATURE"),
        (&["= "], "there is no time"),
        (&[], "questions are left"),
    ] {
        let error = tree(lines);
        assert!(error.contains("tree[") && error.contains(part), "{error}");
    }
    assert!(problem(&|parameters| parameters.picks = vec!["2: 99*1".to_owned()]).contains("picks[0]"));
    assert!(problem(&|parameters| parameters.operations.clear()).contains("operations"));
    let twice = problem(&|parameters| parameters.operations.push(parameters.operations[0]));
    assert!(twice.contains(&format!("operations[{}].op", good.operations.len())), "{twice}");
    assert!(problem(&|parameters| parameters.capacity_blocks = 0).contains("capacity_blocks"));
}

#[test]
fn sequential_and_random_requests_count_as_outside_for_each_other() {
    let random: Vec<TraceRecord> = (0..4_000_u64)
        .map(|index| {
            let arrival = Instant::ZERO + Duration::from_ms(20 * index);
            let record = TraceRecord::new(arrival, Operation::Read, index * 7_919_993 % (1 << 24), 8);
            TraceRecord { completion: Some(arrival + Duration::from_ms(9)), ..record }
        })
        .collect();
    let sequential: Vec<TraceRecord> =
        (0_u64..).zip(&random).map(|(index, record)| TraceRecord { lbn: 8 * index, ..*record }).collect();
    let both: Vec<TraceRecord> = [&random[..], &sequential[..]].concat();
    let both: Vec<TraceRecord> = (0_u64..)
        .zip(both)
        .map(|(index, record)| {
            let arrival = Instant::ZERO + Duration::from_ms(20 * index);
            TraceRecord { arrival, completion: Some(arrival + Duration::from_ms(9)), ..record }
        })
        .collect();
    let outside = |fitted_to: &[TraceRecord], asked: &[TraceRecord]| {
        let mut device = Station::new(&fitted(fitted_to), Seed(1), "x").unwrap();
        answers(&mut device, asked);
        let coverage = device.coverage().unwrap();
        assert_eq!(coverage.requests, asked.len() as u64);
        coverage.outside
    };
    assert!(outside(&random, &random) <= 1);
    assert!(outside(&random, &sequential) >= 3_990);
    assert!(outside(&sequential, &random) >= 3_990);
    assert!(outside(&sequential, &sequential) <= 20);
    assert_eq!(outside(&both, &random) + outside(&both, &sequential), 0);
}

#[test]
fn no_answer_is_shorter_than_the_shortest_measured() {
    // A pipe: 1 ms from start to end, but those that waited follow each other every 100 us.
    let mut stream = Seed(5).stream("trace");
    let (mut now_ns, mut free_ns) = (0, 0);
    let records: Vec<TraceRecord> = (0..20_000_u64)
        .map(|_| {
            now_ns += stream.exponential(Duration::from_us(400)).as_ns();
            let begins = free_ns <= now_ns;
            free_ns = if begins { now_ns + 1_000_000 } else { free_ns + 100_000 };
            let record =
                TraceRecord::new(Instant::from_ns(now_ns), Operation::Read, stream.below(1 << 24), 8);
            TraceRecord { completion: Some(Instant::from_ns(free_ns)), ..record }
        })
        .collect();
    let check = |left_out: &[Feature]| {
        let parameters = fitted_without(&records, left_out);
        let mut device = Station::new(&parameters, Seed(1), "x").unwrap();
        let simulated = answers(&mut device, &records);
        // What waits ends 100 us after the one before, so nothing that was measured took less than that.
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        assert!(least(&mut measured(&records)) >= 0.1);
        assert!(least(&mut simulated.iter().copied()) >= 0.098, "{}", least(&mut simulated.iter().copied()));
        let at_once = simulated.iter().filter(|ms| (**ms - 1.0).abs() < 0.02).count();
        let were = measured(&records).filter(|ms| (*ms - 1.0).abs() < 0.02).count();
        assert!(
            at_once.abs_diff(were) * 20 < were,
            "{at_once} took 1 ms, as what finds it idle does, and {were} did, without {left_out:?}"
        );
        let (simulated, measured) = (mean(simulated.into_iter()), mean(measured(&records)));
        assert!(
            (simulated / measured - 1.0).abs() < 0.03,
            "{simulated} ms, {measured} measured, without {left_out:?}"
        );
    };
    check(&[]);
    // Whether it had waited is enough to know.
    check(&[Feature::Queue, Feature::Idle]);
}

#[test]
fn fit_ends_wherever_it_is_stopped() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::{ErrorKind, StopCheck};

    let records = trace(2, Order::Nearest, 3_000, 20_000, 7);
    let mut fit = StationFit::default();
    records.iter().for_each(|record| fit.record(record));
    let about = || DeviceInfo {
        block_size: ByteSize::from_bytes(512),
        capacity_blocks: 1 << 25,
        fit: Default::default(),
    };
    // Looks until the fit has ended, with a stop at one of them.
    let mut looks_until = |stopped_at: usize| {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        fit.stop_by(&StopCheck::new(move || counted.fetch_add(1, Ordering::Relaxed) + 1 >= stopped_at));
        let ended = fit.description(about()).map(drop).map_err(|error| error.kind());
        (ended, looks.load(Ordering::Relaxed))
    };
    let (ended, looks) = looks_until(usize::MAX);
    assert_eq!(ended, Ok(()));
    // Each pass over these requests looks 19 times at least: their starts, what is observed, trees and predictions.
    assert!(looks > 500, "{looks}");
    for stopped_at in [1, 2, 50, 200, looks / 2, looks - 1, looks] {
        assert_eq!(looks_until(stopped_at), (Err(ErrorKind::Interrupted), stopped_at));
    }
}

#[test]
fn known_order_is_kept_with_the_picks_that_it_has_among_all() {
    let mut sample = Sample::default();
    trace(1, Order::Ascending, 7_000, 3_000, 5).iter().for_each(|record| sample.record(record));
    let runs = sample.runs(usize::MAX);
    let of = |known| Observed::of(&runs, 1, known, 1 << 24, &StopCheck::default()).unwrap();
    let likeliest = of(None);
    assert_eq!(likeliest.line.order, Order::Ascending);
    let known = of(Some(likeliest.line));
    assert_eq!((known.line, known.picks.write()), (likeliest.line, likeliest.picks.write()));
    for first in First::ALL {
        let other = Line { order: Order::Nearest, band_blocks: 16, first };
        let other_picks = of(Some(other));
        assert_eq!(other_picks.line, other);
        assert!(other_picks.picks.likelihood() < likeliest.picks.likelihood(), "{other:?}");
    }
}
