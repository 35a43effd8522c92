//! Characteristics of a trace: all common figures and plots, from a single pass in bounded memory.
//!
//! ```text
//!   TraceRecord ─▶ Character ─┬▶ over time: rates, response-time percentiles, outstanding, working set
//!                             ├▶ arrivals: distribution, variation, Hurst; busy and idle periods
//!                             ├▶ places: seek distances, runs, heat map
//!                             ├▶ reuse: distances, miss ratios, popularity, rewrites (sampled)
//!                             └▶ who: devices and processes
//! ```
//!
//! # Scope and limits
//! About 20 MiB whatever the trace. Bins over time and place double their width as the trace goes on. Figures
//! that depend on every block ever accessed are estimated from a sample of the blocks, see [`reuse`].
//! Arrivals must be in order; an arrival earlier than the one before counts with an interarrival time of
//! zero.

mod arrivals;
mod hosts;
mod map;
mod periods;
pub mod reuse;
mod times;
mod unique;

use seeklab_core::statistics::{Distribution, LogHistogram};
use seeklab_core::{ByteSize, Operation, TraceRecord};

pub use arrivals::{Arrivals, Variance};
pub use hosts::{Host, Hosts};
pub use map::HeatMap;
pub use periods::Periods;
pub use reuse::Reuse;
pub use times::{Interval, OverTime};
pub use unique::Unique;

use crate::seeks::Seeks;

/// Reads, writes and all else, in the order of arrays by direction.
pub const DIRECTIONS: [&str; 3] = ["read", "write", "other"];

/// Returns the index under which reads, writes and all other operations are counted separately.
pub(crate) const fn direction(op: Operation) -> usize {
    match op {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Flush | Operation::Discard | Operation::WriteZeroes => 2,
    }
}

/// Sizes in bytes, by power of two.
type Sizes = LogHistogram<0>;

/// Accumulates what a trace is like.
#[derive(Debug, Clone)]
pub struct Character {
    block_bytes: u64,
    /// Rates, times and working set over time.
    pub over_time: OverTime,
    /// Response times by direction.
    pub response: [Distribution; 3],
    /// Time in the host's block layer, from arrival to issue, where a trace contains both.
    pub host_queue: Distribution,
    /// Interarrival times.
    pub arrivals: Arrivals,
    /// Busy and idle periods.
    pub periods: Periods,
    /// Seek distances and sequential runs.
    pub seeks: Seeks,
    /// Requests over time and place.
    pub map: HeatMap,
    /// Bytes of each request, for each direction.
    sizes: [Sizes; 3],
    /// Reuse of blocks.
    pub reuse: Reuse,
    /// Requests by device and initiator.
    pub hosts: Hosts,
}

impl Character {
    /// Nothing yet, of a device with this block size.
    pub fn new(block_size: ByteSize) -> Self {
        let block_bytes = block_size.as_bytes();
        Self {
            block_bytes,
            over_time: OverTime::default(),
            response: Default::default(),
            host_queue: Distribution::default(),
            arrivals: Arrivals::default(),
            periods: Periods::default(),
            seeks: Seeks::new(block_bytes),
            map: HeatMap::default(),
            sizes: Default::default(),
            reuse: Reuse::default(),
            hosts: Hosts::default(),
        }
    }

    /// Takes a request.
    pub fn record(&mut self, record: &TraceRecord) {
        let bytes = u64::from(record.blocks) * self.block_bytes;
        let direction = direction(record.op);
        self.arrivals.record(record.arrival);
        let outstanding = self.periods.record(record);
        self.over_time.record(record, bytes, outstanding, self.block_bytes);
        if let Some(response) = record.successful_response_time() {
            self.response[direction].record(response);
        }
        if let Some(issue) = record.issue {
            self.host_queue.record(issue.saturating_since(record.arrival));
        }
        self.seeks.record(record);
        if record.op.addresses_blocks() {
            self.sizes[direction].record(bytes.max(1));
            self.map.record(record.arrival, record.lbn.saturating_mul(self.block_bytes));
        }
        self.reuse.record(record, self.block_bytes);
        self.hosts.record(record, bytes);
    }

    /// Requests of at least so many bytes and below twice as many, for each direction; sizes without any are left out.
    pub fn sizes(&self) -> Vec<(u64, [u64; 3])> {
        let counts = |bucket| [0, 1, 2].map(|direction: usize| self.sizes[direction].count_in(bucket));
        let all = (0..Sizes::BUCKETS).map(|bucket| (Sizes::least(bucket), counts(bucket)));
        all.filter(|(_, counts)| counts.iter().any(|count| *count > 0)).collect()
    }
}

#[cfg(test)]
mod tests;
