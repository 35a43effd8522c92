//! Tests that a table model answers like the trace that it was fitted to.

use seeklab_core::{ByteSize, Device, Duration, Instant, Operation, Request, Seed, TraceRecord};

use super::*;
use crate::fit::{About, Fit};

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
    let about = About { block_size: ByteSize::from_bytes(512), capacity_blocks: 0, fit: Default::default() };
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
fn model_matches_the_trace() {
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
fn description_is_read_as_written() {
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
fn requests_outside_the_fitted_region_are_answered_and_counted() {
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
fn mistakes_in_a_description_are_reported() {
    let good = fitted(&records(50));
    let told = |change: &dyn Fn(&mut TableParameters)| {
        let mut parameters = good.clone();
        change(&mut parameters);
        TableModel::new(&parameters, Seed(1), "disk0").unwrap_err().to_string()
    };
    let cell = |text: &str| told(&|parameters| parameters.cells[0] = text.to_owned());
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
        told(&|parameters| parameters.cells.push(parameters.cells[0].clone())).contains("same operation")
    );
    let any_and_one = ["read 8 0 any beyond: 12", "read 8 0 +1024: 12"].map(str::to_owned).to_vec();
    assert!(told(&|parameters| parameters.cells = any_and_one.clone()).contains("same operation"));
    assert!(told(&|parameters| parameters.cells.clear()).contains("cells"));
    assert!(told(&|parameters| parameters.capacity_blocks = 0).contains("capacity_blocks"));
    assert!(told(&|parameters| parameters.classes.queues_per_octave = 3).contains("queues_per_octave"));
}
