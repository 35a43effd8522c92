//! Cost of `Metrics::record` and of `ResponseProfile::record`. `cargo bench` runs 200 rounds of 20,000 records; `cargo test` a thousand.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark reads the clock and its arguments"
)]

use std::hint::black_box;

use seeklab_analysis::{Metrics, ResponseProfile};
use seeklab_core::{Breakdown, BufferOutcome, ByteSize, Duration, Instant, Operation, Seed, TraceRecord};

fn records(count: usize) -> Vec<TraceRecord> {
    let mut stream = Seed(1).stream("bench");
    let (mut arrival, mut free) = (Instant::ZERO, Instant::ZERO);
    (0..count)
        .map(|_| {
            arrival += stream.exponential(Duration::from_us(7_000));
            let start = arrival.max(free);
            let (seek, rotation) =
                (stream.exponential(Duration::from_ms(3)), Duration::from_ns(stream.below(6_000_000)));
            let breakdown = Breakdown {
                queue: start - arrival,
                overhead: Duration::from_us(300),
                seek,
                rotation,
                transfer: Duration::from_us(200),
                ..Breakdown::default()
            };
            free = start + breakdown.service();
            let op = if stream.chance(0.66) { Operation::Read } else { Operation::Write };
            TraceRecord {
                issue: Some(start),
                start: Some(start),
                completion: Some(free),
                queue_length: Some(3),
                breakdown: Some(breakdown),
                seek_cylinders: Some(stream.below(9_000) as u32),
                buffer: BufferOutcome::Miss,
                ..TraceRecord::new(arrival, op, stream.below(1 << 30), 8)
            }
        })
        .collect()
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (count, rounds) = if is_bench { (20_000, 200) } else { (1_000, 1) };
    let records = records(count);
    let run = Duration::from_s(3_600);
    let mut metrics = Metrics::new(ByteSize::from_bytes(512));
    // Each round continues where the last ended, an hour later.
    let mut offset = Duration::ZERO;
    let rounds_ns: Vec<f64> = (0..rounds)
        .map(|_| {
            let begin = std::time::Instant::now();
            for record in &records {
                let later = |at: Instant| at + offset;
                metrics.record(black_box(&TraceRecord {
                    arrival: later(record.arrival),
                    start: record.start.map(later),
                    completion: record.completion.map(later),
                    ..*record
                }));
            }
            offset += run;
            begin.elapsed().as_nanos() as f64 / count as f64
        })
        .collect();
    assert_eq!(metrics.summary().requests, (count * rounds) as u64);
    let best_ns = rounds_ns.iter().copied().fold(f64::INFINITY, f64::min);
    let mean_ns = rounds_ns.iter().sum::<f64>() / rounds_ns.len() as f64;
    println!("Metrics::record: {best_ns:.1} ns per record (best of {rounds} rounds, mean {mean_ns:.1} ns)");
    profile(&records, rounds);
}

fn profile(records: &[TraceRecord], rounds: usize) {
    let mut profile = ResponseProfile::new(Duration::from_ms(20));
    let rounds_ns = (0..rounds).map(|_| {
        let begin = std::time::Instant::now();
        for record in records {
            let response = record.response_time().expect("each has one");
            profile.record(black_box(record.op), 3, black_box(response));
        }
        begin.elapsed().as_nanos() as f64 / records.len() as f64
    });
    let best_ns = rounds_ns.fold(f64::INFINITY, f64::min);
    assert_eq!(profile.response().moments().count(), (records.len() * rounds) as u64);
    println!("ResponseProfile::record: {best_ns:.1} ns per record (best of {rounds} rounds)");
}
