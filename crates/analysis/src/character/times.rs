//! Rates, response times, outstanding requests and the working set, interval by interval.

use seeklab_core::statistics::LogHistogram;
use seeklab_core::{Instant, Operation, TraceRecord};

use super::direction;
use super::reuse::{UNIT_BYTES, hash};
use super::unique::Unique;

/// Intervals; when more would be needed, they double their length.
const INTERVALS: usize = 256;
/// Response times in nanoseconds, eight buckets for each doubling: 12 % wide at most.
type Times = LogHistogram<3>;
/// Shorter times count as this one.
const TIME_NS_MIN: u64 = 8;
/// Units of a request that are counted in the working set; of longer ones only so many, evenly chosen.
const UNITS_MAX: u64 = 1024;

/// Accumulates by interval of time.
#[derive(Debug, Clone)]
pub struct OverTime {
    first: Option<Instant>,
    interval_ns: u64,
    intervals: Vec<Cell>,
    all: Unique,
}

#[derive(Debug, Clone, Default)]
struct Cell {
    requests: [u64; 3],
    bytes: [u64; 3],
    times: Times,
    outstanding: u64,
    outstanding_known: u64,
    outstanding_max: u32,
    unique: Unique,
    /// The working set since the start of the trace when the interval ended.
    all: f64,
}

/// One interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Seconds since the first arrival.
    pub start_s: f64,
    /// Its length in seconds.
    pub length_s: f64,
    /// Requests that arrived, by direction.
    pub requests: [u64; 3],
    /// Bytes of the requests, by direction.
    pub bytes: [u64; 3],
    /// 50th, 90th, 99th and 99.9th percentile of their response times in milliseconds, with an error of 9 %.
    pub response_ms: Option<[f64; 4]>,
    /// Requests outstanding when one arrived, mean and most.
    pub outstanding: Option<(f64, u32)>,
    /// Bytes that were read or written at all, about.
    pub working_set_bytes: f64,
    /// Bytes that were read or written since the start of the trace, about.
    pub footprint_bytes: f64,
}

impl Default for OverTime {
    fn default() -> Self {
        Self { first: None, interval_ns: 1_000_000, intervals: Vec::new(), all: Unique::default() }
    }
}

impl OverTime {
    pub(super) fn record(
        &mut self,
        record: &TraceRecord,
        bytes: u64,
        outstanding: Option<u32>,
        block_bytes: u64,
    ) {
        let first = *self.first.get_or_insert(record.arrival);
        let since_ns = record.arrival.saturating_since(first).as_ns();
        while since_ns / self.interval_ns >= INTERVALS as u64 {
            self.halve();
        }
        let index = (since_ns / self.interval_ns) as usize;
        while self.intervals.len() <= index {
            let all = self.all.estimate();
            if let Some(last) = self.intervals.last_mut() {
                last.all = all;
            }
            self.intervals.push(Cell::default());
        }
        let cell = &mut self.intervals[index];
        let direction = direction(record.op);
        cell.requests[direction] += 1;
        cell.bytes[direction] += bytes;
        if let Some(response) = record.successful_response_time() {
            cell.times.record(response.as_ns().max(TIME_NS_MIN));
        }
        if let Some(outstanding) = outstanding {
            cell.outstanding += u64::from(outstanding);
            cell.outstanding_known += 1;
            cell.outstanding_max = cell.outstanding_max.max(outstanding);
        }
        if matches!(record.op, Operation::Read | Operation::Write) && bytes > 0 {
            let start = record.lbn.saturating_mul(block_bytes) / UNIT_BYTES;
            let end = (record.lbn.saturating_mul(block_bytes).saturating_add(bytes) - 1) / UNIT_BYTES + 1;
            let step = (end - start).div_ceil(UNITS_MAX);
            for unit in (start..end).step_by(step as usize) {
                let hash = hash(record.device, unit);
                cell.unique.record(hash);
                self.all.record(hash);
            }
        }
    }

    fn halve(&mut self) {
        self.interval_ns *= 2;
        let mut halved: Vec<Cell> = Vec::with_capacity(self.intervals.len() / 2 + 1);
        for (index, cell) in std::mem::take(&mut self.intervals).into_iter().enumerate() {
            match halved.last_mut().filter(|_| index % 2 == 1) {
                Some(before) => before.merge(&cell),
                None => halved.push(cell),
            }
        }
        self.intervals = halved;
    }

    /// The intervals.
    pub fn intervals(&self) -> Vec<Interval> {
        let length_s = self.interval_ns as f64 / 1e9;
        let last = self.intervals.len().saturating_sub(1);
        let unit = UNIT_BYTES as f64;
        let of = |(index, cell): (usize, &Cell)| Interval {
            start_s: index as f64 * length_s,
            length_s,
            requests: cell.requests,
            bytes: cell.bytes,
            response_ms: cell.percentiles(),
            outstanding: (cell.outstanding_known > 0)
                .then(|| (cell.outstanding as f64 / cell.outstanding_known as f64, cell.outstanding_max)),
            working_set_bytes: cell.unique.estimate() * unit,
            footprint_bytes: if index == last { self.all.estimate() } else { cell.all } * unit,
        };
        self.intervals.iter().enumerate().map(of).collect()
    }
}

impl Cell {
    fn merge(&mut self, other: &Self) {
        for index in 0..3 {
            self.requests[index] += other.requests[index];
            self.bytes[index] += other.bytes[index];
        }
        self.times.merge(&other.times);
        self.outstanding += other.outstanding;
        self.outstanding_known += other.outstanding_known;
        self.outstanding_max = self.outstanding_max.max(other.outstanding_max);
        self.unique.merge(&other.unique);
        self.all = self.all.max(other.all);
    }

    fn percentiles(&self) -> Option<[f64; 4]> {
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|share| self.times.bucket_at(share));
        let middle_ms = |bucket| (Times::least(bucket) as f64 + Times::width(bucket) as f64 / 2.0) / 1e6;
        Some([p50?, p90?, p99?, p999?].map(middle_ms))
    }
}
