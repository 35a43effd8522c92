//! How far the requests of a trace lie apart, and how they follow on each other.
//!
//! The *seek distance* is signed, from the start of one request to the start of the next on the same device, in
//! order of arrival \[Thornock97, §3\]: what a trace knows; how far an arm moves, a model of the disk knows.
//! Requests without an address (flushes) are passed over.

use std::collections::BTreeMap;

use seeklab_core::TraceRecord;

/// Powers of two of blocks that are told apart.
const POWERS: usize = 65;

/// Accumulates seek distances and sequential runs of the devices of a trace.
#[derive(Debug, Clone)]
pub struct Seeks {
    block_bytes: u64,
    devices: BTreeMap<u16, Last>,
    /// Forward and backward distances by the power of two of blocks below them; zero apart.
    forward: [u64; POWERS],
    backward: [u64; POWERS],
    zero: u64,
    sequential: u64,
    total_blocks: u128,
    /// Lengths of finished sequential runs in requests, by power of two.
    runs: [u64; POWERS],
}

#[derive(Debug, Clone, Copy)]
struct Last {
    start: u64,
    end: u64,
    /// Requests of the run that goes on.
    run: u64,
}

impl Seeks {
    /// Nothing yet, of blocks of that many bytes.
    pub const fn new(block_bytes: u64) -> Self {
        Self {
            block_bytes,
            devices: BTreeMap::new(),
            forward: [0; POWERS],
            backward: [0; POWERS],
            zero: 0,
            sequential: 0,
            total_blocks: 0,
            runs: [0; POWERS],
        }
    }

    /// Takes a request.
    pub fn record(&mut self, record: &TraceRecord) {
        if !record.op.addresses_blocks() {
            return;
        }
        let (start, end) = (record.lbn, record.lbn.saturating_add(u64::from(record.blocks)));
        let Some(last) = self.devices.get_mut(&record.device) else {
            self.devices.insert(record.device, Last { start, end, run: 1 });
            return;
        };
        let blocks = start.abs_diff(last.start);
        self.total_blocks += u128::from(blocks);
        match (blocks, start > last.start) {
            (0, _) => self.zero += 1,
            (_, true) => self.forward[power(blocks)] += 1,
            (_, false) => self.backward[power(blocks)] += 1,
        }
        if start == last.end {
            self.sequential += 1;
            last.run += 1;
        } else {
            self.runs[power(last.run)] += 1;
            last.run = 1;
        }
        (last.start, last.end) = (start, end);
    }

    /// Distances, one less than the requests of each device.
    pub fn distances(&self) -> u64 {
        self.zero + self.forward.iter().sum::<u64>() + self.backward.iter().sum::<u64>()
    }

    /// Sum of the distances without their signs, in bytes.
    pub const fn total_bytes(&self) -> u128 {
        self.total_blocks * self.block_bytes as u128
    }

    /// Mean distance without its sign, in bytes.
    pub fn mean_bytes(&self) -> Option<f64> {
        let distances = self.distances();
        (distances > 0).then(|| self.total_bytes() as f64 / distances as f64)
    }

    /// The share of requests that start where the one before did.
    pub fn zero_share(&self) -> Option<f64> {
        self.share(self.zero)
    }

    /// The share of requests that start where the one before ended.
    pub fn sequential_share(&self) -> Option<f64> {
        self.share(self.sequential)
    }

    fn share(&self, count: u64) -> Option<f64> {
        let distances = self.distances();
        (distances > 0).then(|| count as f64 / distances as f64)
    }

    /// The histogram: distances of at least so many bytes and below twice as many, backward ones negative, from
    /// the longest backward to the longest forward; zero has a bar of its own.
    pub fn histogram(&self) -> Vec<(f64, u64)> {
        let bytes = |power: usize| (1_u128 << power) as f64 * self.block_bytes as f64;
        let backward = (0..POWERS).rev().map(|power| (-bytes(power), self.backward[power]));
        let forward = (0..POWERS).map(|power| (bytes(power), self.forward[power]));
        let all = backward.chain([(0.0, self.zero)]).chain(forward);
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// Lengths of sequential runs: of at least so many requests and below twice as many, how many runs there were
    /// and at least how many requests they had together. Runs that go on at the end are among them.
    pub fn runs(&self) -> Vec<(u64, u64)> {
        let mut runs = self.runs;
        self.devices.values().for_each(|last| runs[power(last.run)] += 1);
        let all = runs.into_iter().enumerate().filter(|(_, count)| *count > 0);
        all.map(|(power, count)| (1 << power.min(63), count)).collect()
    }
}

/// The power of two that is not above a positive `value`.
const fn power(value: u64) -> usize {
    value.ilog2() as usize
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Instant, Operation};

    use super::*;

    #[test]
    fn are_distances_those_from_start_to_start_on_a_device() {
        let mut seeks = Seeks::new(512);
        let mut ask = |device, op, lbn, blocks| {
            seeks.record(&TraceRecord { device, ..TraceRecord::new(Instant::ZERO, op, lbn, blocks) });
        };
        ask(0, Operation::Read, 100, 8);
        ask(1, Operation::Read, 5000, 8);
        ask(0, Operation::Write, 108, 8);
        ask(0, Operation::Flush, 0, 0);
        ask(0, Operation::Read, 116, 4);
        ask(0, Operation::Read, 116, 4);
        ask(0, Operation::Read, 16, 4);
        assert_eq!(seeks.distances(), 4);
        assert_eq!(seeks.total_bytes(), 512 * (8 + 8 + 100));
        assert_eq!(seeks.histogram(), [(-64.0 * 512.0, 1), (0.0, 1), (8.0 * 512.0, 2)]);
        assert_eq!((seeks.zero_share(), seeks.sequential_share()), (Some(0.25), Some(0.5)));
        // Three in a row, then one that starts again, the last, and the one of the other device.
        assert_eq!(seeks.runs(), [(1, 3), (2, 1)]);
    }
}
