//! A trace like that of a busy volume: 4,000 requests a second, a third of them sequential, on eight channels that
//! serve first come, first served.
//!
//! # Scope and limits
//! It has the columns, sizes and queue lengths of a real trace, and is no model of a device.

use std::collections::VecDeque;

use seeklab_core::{Duration, Instant, Operation, Seed, Status, Stream, TraceRecord};

/// Blocks of the volume.
const CAPACITY: u64 = 1 << 31;

/// Channels of the volume.
const CHANNELS: usize = 8;

/// Makes requests in order of arrival, with their times.
#[derive(Debug)]
pub(crate) struct Generator {
    stream: Stream,
    arrival: Instant,
    /// Next block of each of four processes.
    ends: [u64; 4],
    /// Time at which each channel is free.
    free: [Instant; CHANNELS],
    outstanding: VecDeque<Instant>,
}

impl Generator {
    /// From the start, draws from `seed`.
    pub(crate) fn new(seed: Seed) -> Self {
        Self {
            stream: seed.stream("scale"),
            arrival: Instant::ZERO,
            ends: [0, 1 << 28, 1 << 29, 1 << 30],
            free: [Instant::ZERO; CHANNELS],
            outstanding: VecDeque::new(),
        }
    }

    /// Operation, address, length and mean service time.
    fn draw(&mut self, process: usize) -> (Operation, u64, u32, Duration) {
        let stream = &mut self.stream;
        if stream.chance(0.004) {
            return (Operation::Flush, 0, 0, Duration::from_us(900));
        }
        let is_read = stream.chance(0.66);
        let blocks = 8 << (stream.below(64).trailing_zeros().min(5));
        let is_sequential = stream.chance(0.33);
        let lbn = if is_sequential { self.ends[process] } else { 8 * stream.below(CAPACITY / 8 - 64) };
        let lbn = if lbn + u64::from(blocks) > CAPACITY { 0 } else { lbn };
        let us = match (is_read, is_sequential) {
            (true, true) => 300,
            (true, false) => 1_200,
            (false, _) => 500,
        };
        let op = if is_read { Operation::Read } else { Operation::Write };
        (op, lbn, blocks, Duration::from_us(us + u64::from(blocks)))
    }
}

impl Iterator for Generator {
    type Item = TraceRecord;

    fn next(&mut self) -> Option<TraceRecord> {
        self.arrival += self.stream.exponential(Duration::from_us(250));
        let process = self.stream.below(4) as usize;
        let (op, lbn, blocks, mean) = self.draw(process);
        self.ends[process] = lbn + u64::from(blocks);
        let channel = (lbn >> 7) as usize % CHANNELS;
        let start = self.free[channel].max(self.arrival);
        let service = Duration::from_ns(mean.as_ns() / 2) + self.stream.exponential(mean / 2);
        let completion = start + service;
        self.free[channel] = completion;
        self.outstanding.retain(|completion| *completion > self.arrival);
        let queue_length = self.outstanding.len() as u32;
        self.outstanding.push_back(completion);
        Some(TraceRecord {
            start: Some(start),
            completion: Some(completion),
            queue_length: Some(queue_length),
            initiator: 1_000 + process as u32,
            status: Status::Ok,
            ..TraceRecord::new(self.arrival, op, lbn, blocks)
        })
    }
}
