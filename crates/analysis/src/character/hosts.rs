//! Requests by device and initiator.

use std::collections::BTreeMap;

use seeklab_core::statistics::Moments;
use seeklab_core::{Operation, TraceRecord};

/// Maximum number of pairs of device and initiator that are counted separately.
const PAIRS_MAX: usize = 4096;

/// Requests of one initiator to one device.
#[derive(Debug, Clone, Copy, Default)]
pub struct Host {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes, discards, write-zeroes.
    pub others: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Response times in nanoseconds.
    pub response: Moments,
}

impl Host {
    /// All requests.
    pub const fn requests(&self) -> u64 {
        self.reads + self.writes + self.others
    }
}

/// Accumulates by device and initiator.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    pairs: BTreeMap<(u16, u32), Host>,
    /// Sum over all further pairs, once there are too many.
    rest: Option<Host>,
}

impl Hosts {
    pub(super) fn record(&mut self, record: &TraceRecord, bytes: u64) {
        let key = (record.device, record.initiator);
        let host = if self.pairs.len() < PAIRS_MAX || self.pairs.contains_key(&key) {
            self.pairs.entry(key).or_default()
        } else {
            self.rest.get_or_insert_default()
        };
        match record.op {
            Operation::Read => {
                host.reads += 1;
                host.read_bytes += bytes;
            }
            Operation::Write => {
                host.writes += 1;
                host.written_bytes += bytes;
            }
            _ => host.others += 1,
        }
        if let Some(response) = record.successful_response_time() {
            host.response.record(response.as_ns() as f64);
        }
    }

    /// By device and initiator, those with the most requests first.
    pub fn busiest(&self) -> Vec<((u16, u32), Host)> {
        let mut all: Vec<_> = self.pairs.iter().map(|(key, host)| (*key, *host)).collect();
        all.sort_by_key(|(key, host)| (std::cmp::Reverse(host.requests()), *key));
        all
    }

    /// Returns the requests of the pairs of device and initiator beyond the first 4,096.
    pub const fn rest(&self) -> Option<&Host> {
        self.rest.as_ref()
    }
}
