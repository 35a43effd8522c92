//! Tests that a table model answers like the trace that it was fitted to.

use seeklab_core::{ByteSize, Device, Duration, Instant, Operation, Request, Seed, TraceRecord};

use seeklab_devices::Description;
use seeklab_devices::table::{Classes, TableModel, TableParameters};

use super::*;
use crate::fit::{DeviceInfo, Fit};

/// Requests of a device whose response times depend on what the tables know: 1 ms in sequence, 8 ms elsewhere, 2 ms
/// more for each request before; writes half of it.
fn records(count: u64) -> Vec<TraceRecord> {
    let mut stream = Seed(7).stream("records");
    let (mut records, mut end, mut at): (Vec<TraceRecord>, _, _) = (Vec::new(), 0, 0);
    for index in 0..count {
        let op = if index % 3 == 0 { Operation::Write } else { Operation::Read };
        let lbn = if stream.chance(0.4) { end } else { stream.below(1 << 30) };
        let outstanding =
            records.iter().rev().take(40).filter(|before| before.completion.unwrap().as_ns() > at);
        let base_us = if lbn == end { 1_000 } else { 8_000 };
        let mut response_us = base_us + 2_000 * outstanding.count() as u64 + stream.below(base_us / 10);
        if op == Operation::Write {
            response_us /= 2;
        }
        let arrival = Instant::from_ns(at);
        records.push(TraceRecord {
            completion: Some(arrival + Duration::from_us(response_us)),
            ..TraceRecord::new(arrival, op, lbn, 8)
        });
        end = lbn + 8;
        at += stream.below(20_000_000);
    }
    records
}

fn fitted(records: &[TraceRecord]) -> TableParameters {
    let mut fit = TableFit::new(Classes::default()).unwrap();
    records.iter().for_each(|record| fit.record(record));
    assert_eq!(fit.summary().requests, records.len() as u64);
    let about =
        DeviceInfo { block_size: ByteSize::from_bytes(512), capacity_blocks: 0, fit: Default::default() };
    fit.parameters(about)
}

/// Response times in ms by the model of the requests of a trace, open, in order of arrival.
fn answers(model: &mut TableModel, records: &[TraceRecord]) -> Vec<f64> {
    let (mut completions, mut answers) = (Vec::new(), vec![0.0; records.len()]);
    for (index, record) in records.iter().enumerate() {
        model.poll(record.arrival, &mut completions);
        model.submit(record.arrival, record.request(index as u64)).unwrap();
    }
    while let Some(next) = model.next_event() {
        model.poll(next, &mut completions);
    }
    for completion in completions {
        answers[completion.request.id.0 as usize] = completion.response_time().as_ms();
        assert_eq!(completion.breakdown.total(), completion.response_time());
    }
    answers
}

#[test]
fn model_answers_as_the_trace_did() {
    let records = records(20_000);
    let parameters = fitted(&records[..10_000]);
    let mut model = TableModel::new(&parameters, Seed(1), "disk0").unwrap();
    let rest = &records[10_000..];
    let answers = answers(&mut model, rest);
    let measured: Vec<f64> = rest.iter().map(|record| record.response_time().unwrap().as_ms()).collect();
    let mean = |values: &[f64], chosen: &dyn Fn(usize) -> bool| {
        let chosen: Vec<f64> =
            values.iter().enumerate().filter(|(at, _)| chosen(*at)).map(|(_, ms)| *ms).collect();
        chosen.iter().sum::<f64>() / chosen.len() as f64
    };
    let kinds: [&dyn Fn(usize) -> bool; 3] = [&|_| true, &|at| rest[at].op == Operation::Write, &|at| {
        at > 0 && rest[at].lbn == rest[at - 1].lbn + 8
    }];
    for chosen in kinds {
        let (ours, theirs) = (mean(&answers, chosen), mean(&measured, chosen));
        assert!((ours / theirs - 1.0).abs() < 0.03, "{ours} ms, {theirs} measured");
    }
    let usage = model.coverage().unwrap();
    assert_eq!(usage.requests, 10_000);
    assert!(usage.outside < 100, "{usage:?}");
}

#[test]
fn fork_continues_identically() {
    let records = records(2_000);
    let mut model = TableModel::new(&fitted(&records), Seed(1), "disk0").unwrap();
    answers(&mut model, &records[..1_000]);
    let mut other = TableModel::new(&fitted(&records[..100]), Seed(2), "disk0").unwrap();
    answers(&mut other, &records[..50]);
    let mut fork: Box<dyn Device> = Box::new(other);
    model.fork_into(&mut fork);
    let fork = fork.as_any_mut().downcast_mut::<TableModel>().unwrap();
    assert_eq!(answers(fork, &records[1_000..]), answers(&mut model, &records[1_000..]));
}

#[test]
fn description_reads_back_as_it_was_written() {
    let parameters = fitted(&records(3_000));
    let text = toml::to_string(&parameters).unwrap();
    let read: TableParameters = toml::from_str(&text).unwrap();
    assert_eq!(read, parameters);
    let [one, other] = [&parameters, &read].map(|parameters| {
        answers(&mut TableModel::new(parameters, Seed(4), "disk0").unwrap(), &records(500))
    });
    assert_eq!(one, other);
}

#[test]
fn requests_outside_the_fitted_range_are_answered_and_counted() {
    let mut model = TableModel::new(&fitted(&records(3_000)), Seed(1), "disk0").unwrap();
    let mut completions = Vec::new();
    for (index, op) in Operation::ALL.into_iter().enumerate() {
        let blocks = if op == Operation::Flush { 0 } else { 4096 };
        model.submit(Instant::ZERO, Request::new(index as u64, op, 0, blocks)).unwrap();
    }
    while let Some(next) = model.next_event() {
        model.poll(next, &mut completions);
    }
    assert_eq!(completions.len(), Operation::ALL.len());
    assert_eq!(model.coverage().unwrap().outside, Operation::ALL.len() as u64);
    let beyond = Request::new(9, Operation::Read, 1 << 40, 8);
    assert!(model.submit(Instant::from_ns(1 << 40), beyond).is_err());
}

#[test]
fn mistakes_in_a_description_are_named() {
    let good = fitted(&records(50));
    let problem = |change: &dyn Fn(&mut TableParameters)| {
        let mut parameters = good.clone();
        change(&mut parameters);
        TableModel::new(&parameters, Seed(1), "disk0").unwrap_err().to_string()
    };
    let cell = |text: &str| problem(&|parameters| parameters.cells[0] = text.to_owned());
    for (text, part) in [
        ("read 8 0 0 beyonds: 12", "5 words before the `:`"),
        ("read 8 0: 12", "3 words before the `:`, not 4"),
        ("move 8 0 0: 12", "`move` is no operation"),
        ("read x 0 0: 12", "`x` is no whole number"),
        ("read 8 0 near: 12", "`near` is no distance"),
        ("read 8 0 0:", "there is no time"),
        ("read 8 0 0: 12*0", "`12*0` does not lie"),
        ("read 8 0 0", "there is no `:`"),
    ] {
        let error = cell(text);
        assert!(error.contains("cells[0]") && error.contains(part), "{error}");
    }
    assert!(
        problem(&|parameters| parameters.cells.push(parameters.cells[0].clone())).contains("same operation")
    );
    let any_and_one = ["read 8 0 any beyond: 12", "read 8 0 +1024: 12"].map(str::to_owned).to_vec();
    assert!(problem(&|parameters| parameters.cells = any_and_one.clone()).contains("same operation"));
    assert!(problem(&|parameters| parameters.cells.clear()).contains("cells"));
    assert!(problem(&|parameters| parameters.capacity_blocks = 0).contains("capacity_blocks"));
    assert!(problem(&|parameters| parameters.classes.queues_per_octave = 3).contains("queues_per_octave"));
}

#[test]
fn fitted_tables_hold_the_recorded_times() {
    let mut fit = TableFit::new(Classes::default()).unwrap();
    let mut record = |at_ms: u64, op: Operation, lbn: u64, blocks: u32, response_us: u64| {
        let arrival = Instant::ZERO + Duration::from_ms(at_ms);
        let completion = Some(arrival + Duration::from_us(response_us));
        fit.record(&TraceRecord { completion, ..TraceRecord::new(arrival, op, lbn, blocks) });
    };
    record(0, Operation::Read, 0, 8, 5_000);
    record(1, Operation::Read, 8, 8, 7_000);
    record(100, Operation::Read, 4096, 8, 9_000);
    record(200, Operation::Write, 0, 64, 1_000);
    record(300, Operation::Flush, 0, 0, 20_000);
    let about =
        DeviceInfo { block_size: ByteSize::from_bytes(512), capacity_blocks: 0, fit: Default::default() };
    let text = fit.description(about).unwrap().to_string();
    let fitted = Description::parse("x", "x", &text).unwrap().fitted_model().unwrap().unwrap();
    let rows = &fitted.tables[0].rows;
    let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    // The first request of a trace has no distance, and counts as one of the same start.
    assert_eq!(names, ["read", "read, sequential", "read, same start", "write", "flush"]);
    let near = |seen: f64, expected: f64| (seen / expected - 1.0).abs() < 0.01;
    let [requests, share, mean, p50, p99, max] = rows[0].1[..] else { panic!("{rows:?}") };
    assert_eq!((requests, share), (3.0, 60.0));
    assert!(near(mean, 7.0) && near(p50, 7.0) && near(p99, 9.0) && near(max, 9.0), "{rows:?}");
    let curves = |key: &str| fitted.curves.iter().find(|curves| curves.key == key).unwrap();
    let points = |key: &str, name: &str| -> Vec<(f64, f64, u64)> {
        let series = curves(key).series.iter().find(|series| series.name == name).unwrap();
        series.points.iter().map(|point| (point.x, point.y, point.requests)).collect()
    };
    let by_queue = points("by_queue_length", "read");
    assert_eq!(by_queue.len(), 2);
    assert!(by_queue[0].2 == 2 && near(by_queue[0].1, 7.0) && by_queue[1].0 == 1.0, "{by_queue:?}");
    let ahead = points("by_seek_distance", "read ahead");
    assert!(ahead.len() == 1 && near(ahead[0].0, 1.0) && near(ahead[0].1, 9.0), "{ahead:?}");
    assert_eq!(points("by_seek_distance", "write behind").len(), 1);
    let by_length = points("by_length", "write");
    assert!(by_length.len() == 1 && by_length[0].0 == 32.0 && near(by_length[0].1, 1.0), "{by_length:?}");
    assert_eq!(curves("by_length").series.len(), 2, "a flush has no length");
}
