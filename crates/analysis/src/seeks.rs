//! Seek distances and runs of the requests of a trace.
//!
//! The *seek distance* is signed, from the start of one request to the start of the next on the same device,
//! in order of arrival \[Thornock97, §3\]. A trace contains this distance; the distance that an arm moves is
//! known only to a model of the disk. Requests without an address (flushes) are passed over.

use std::collections::BTreeMap;

use seeklab_core::TraceRecord;
use seeklab_core::statistics::LogHistogram;

use crate::rounding::percent;

/// Counts by power of two.
type Powers = LogHistogram<0>;

/// Accumulates seek distances and sequential runs of the devices of a trace.
#[derive(Debug, Clone)]
pub struct Seeks {
    block_bytes: u64,
    devices: BTreeMap<u16, Last>,
    /// Forward and backward distances in blocks; zero apart.
    forward: Powers,
    backward: Powers,
    zero: u64,
    sequential: u64,
    total_blocks: u128,
    /// Lengths of finished sequential runs in requests.
    runs: Powers,
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
    pub fn new(block_bytes: u64) -> Self {
        Self {
            block_bytes,
            devices: BTreeMap::new(),
            forward: Powers::default(),
            backward: Powers::default(),
            zero: 0,
            sequential: 0,
            total_blocks: 0,
            runs: Powers::default(),
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
            (_, true) => self.forward.record(blocks),
            (_, false) => self.backward.record(blocks),
        }
        if start == last.end {
            self.sequential += 1;
            last.run += 1;
        } else {
            self.runs.record(last.run);
            last.run = 1;
        }
        (last.start, last.end) = (start, end);
    }

    /// Distances, one less than the requests of each device.
    pub fn distances(&self) -> u64 {
        self.zero + self.forward.count() + self.backward.count()
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

    /// The percentage of distances that are zero: requests that start where the one before on their device did.
    pub fn zero_pct(&self) -> Option<f64> {
        percent(self.zero as f64, self.distances() as f64)
    }

    /// The percentage of distances to the block after the request before on the same device.
    pub fn sequential_pct(&self) -> Option<f64> {
        percent(self.sequential as f64, self.distances() as f64)
    }

    /// The histogram: distances of at least so many bytes and below twice as many, backward ones negative, from
    /// the longest backward to the longest forward; zero has a bar of its own.
    pub fn histogram(&self) -> Vec<(f64, u64)> {
        let bytes = |bucket: usize| Powers::least(bucket) as f64 * self.block_bytes as f64;
        let backward = self.backward.occupied().rev().map(|(bucket, count)| (-bytes(bucket), count));
        let forward = self.forward.occupied().map(|(bucket, count)| (bytes(bucket), count));
        let zero = (self.zero > 0).then_some((0.0, self.zero));
        backward.chain(zero).chain(forward).collect()
    }

    /// Lengths of sequential runs: of at least so many requests and below twice as many, how many runs there were
    /// and at least how many requests they had together. Runs that go on at the end are among them.
    pub fn runs(&self) -> Vec<(u64, u64)> {
        let mut runs = self.runs.clone();
        self.devices.values().for_each(|last| runs.record(last.run));
        runs.occupied().map(|(bucket, count)| (Powers::least(bucket), count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Instant, Operation};

    use super::*;

    #[test]
    fn distances_are_from_start_to_start_on_a_device() {
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
        assert_eq!(seeks.mean_bytes(), Some(512.0 * 116.0 / 4.0));
        assert_eq!(Seeks::new(512).mean_bytes(), None);
        assert_eq!(seeks.histogram(), [(-64.0 * 512.0, 1), (0.0, 1), (8.0 * 512.0, 2)]);
        assert_eq!((seeks.zero_pct(), seeks.sequential_pct()), (Some(25.0), Some(50.0)));
        // Three in a row, then one that starts again, the last, and the one of the other device.
        assert_eq!(seeks.runs(), [(1, 3), (2, 1)]);
    }
}
