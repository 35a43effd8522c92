//! Turns requests in order of completion into rows of a trace in order of arrival.
//!
//! A request waits until every earlier request has been given. It then leaves with the values that depend on
//! the order: the queue length at its arrival and the think time before the next request.
//!
//! # Scope and limits
//! At most 524,288 requests wait (about 60 MiB). Beyond that number, the earliest request leaves without
//! waiting, and requests that arrived before a request that has left are counted. Times of arrival and issue
//! are the block layer's; the device's activity between issue and completion is not observable, so `start` is
//! unknown.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use seeklab_core::{Duration, HostRequest, Instant, Operation, ProcessName, TraceRecord};

/// Requests that may wait.
const WAITING_MAX: usize = 1 << 19;
/// Processes whose names are kept.
const NAMES_MAX: usize = 4096;

/// Counts of [`Rows`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowsCounts {
    /// Rows that left.
    pub rows: u64,
    /// Rows that left behind one that had arrived later.
    pub out_of_order: u64,
    /// Requests whose ends lie within a block: widened to whole blocks.
    pub widened: u64,
}

/// Requests of one device on their way to a trace.
#[derive(Debug)]
pub struct Rows {
    block_bytes: u64,
    waiting: BinaryHeap<Reverse<Waiting>>,
    given: u64,
    /// Completions of what has left and was outstanding at the last arrival.
    outstanding: BinaryHeap<Reverse<Instant>>,
    /// The last that left, which waits to know its think time.
    before: Option<TraceRecord>,
    names: BTreeMap<u32, ProcessName>,
    counts: RowsCounts,
}

/// Ordered by arrival, then as given.
#[derive(Debug)]
struct Waiting {
    arrival: Instant,
    number: u64,
    request: HostRequest,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.arrival, self.number).cmp(&(other.arrival, other.number))
    }
}

impl Rows {
    /// Rows in blocks of that many bytes.
    ///
    /// # Panics
    /// If `block_bytes` is zero.
    pub fn new(block_bytes: u64) -> Self {
        assert!(block_bytes > 0, "a block has bytes");
        Self {
            block_bytes,
            waiting: BinaryHeap::new(),
            given: 0,
            outstanding: BinaryHeap::new(),
            before: None,
            names: BTreeMap::new(),
            counts: RowsCounts::default(),
        }
    }

    /// Takes a request; hands on the earliest where too many wait.
    pub fn push(&mut self, request: &HostRequest, mut emit: impl FnMut(&TraceRecord)) {
        let arrival = request.queued.unwrap_or(request.issue);
        self.given += 1;
        self.waiting.push(Reverse(Waiting { arrival, number: self.given, request: *request }));
        if self.waiting.len() > WAITING_MAX
            && let Some(Reverse(first)) = self.waiting.pop()
        {
            self.leave(&first, &mut emit);
        }
    }

    /// Hands on what arrived before `until`, before which every request has been given.
    pub fn settle(&mut self, until: Instant, mut emit: impl FnMut(&TraceRecord)) {
        while self.waiting.peek().is_some_and(|Reverse(first)| first.arrival < until) {
            let Reverse(first) = self.waiting.pop().expect("it was looked at");
            self.leave(&first, &mut emit);
        }
    }

    /// Hands on all that is left. Names of the processes, by number, and what was counted.
    pub fn finish(mut self, mut emit: impl FnMut(&TraceRecord)) -> (BTreeMap<u32, ProcessName>, RowsCounts) {
        while let Some(Reverse(first)) = self.waiting.pop() {
            self.leave(&first, &mut emit);
        }
        self.before.iter().for_each(emit);
        (self.names, self.counts)
    }

    fn leave(&mut self, waiting: &Waiting, emit: &mut impl FnMut(&TraceRecord)) {
        let request = &waiting.request;
        while self.outstanding.peek().is_some_and(|Reverse(end)| *end <= waiting.arrival) {
            self.outstanding.pop();
        }
        let (lbn, blocks) = self.blocks_of(request);
        let record = TraceRecord {
            issue: Some(request.issue),
            completion: Some(request.completion),
            queue_length: Some(u32::try_from(self.outstanding.len()).unwrap_or(u32::MAX)),
            initiator: request.process,
            fua: request.fua,
            status: request.status(),
            ..TraceRecord::new(waiting.arrival, request.op, lbn, blocks)
        };
        self.outstanding.push(Reverse(request.completion));
        if self.names.len() < NAMES_MAX {
            self.names.entry(request.process).or_insert(request.command);
        }
        self.counts.rows += 1;
        if let Some(mut before) = self.before.replace(record) {
            self.counts.out_of_order += u64::from(before.arrival > record.arrival);
            let end = before.completion.filter(|end| *end <= record.arrival);
            before.think = end.map(|end| record.arrival.saturating_since(end)).or(None::<Duration>);
            emit(&before);
        }
    }

    /// The blocks that a request touches, and that it does.
    fn blocks_of(&mut self, request: &HostRequest) -> (u64, u32) {
        if request.op == Operation::Flush {
            return (0, 0);
        }
        let lbn = request.offset_bytes / self.block_bytes;
        let end = request.offset_bytes.saturating_add(request.length_bytes).div_ceil(self.block_bytes);
        let whole = request.offset_bytes.is_multiple_of(self.block_bytes)
            && request.length_bytes.is_multiple_of(self.block_bytes);
        self.counts.widened += u64::from(!whole);
        (lbn, u32::try_from(end - lbn).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(queued: Option<u64>, issue: u64, completion: u64, offset_bytes: u64) -> HostRequest {
        let at = Instant::from_ns;
        HostRequest {
            queued: queued.map(at),
            process: 42,
            command: ProcessName(*b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0"),
            ..HostRequest::new(at(issue), at(completion), Operation::Read, offset_bytes, 4096)
        }
    }

    #[test]
    fn rows_leave_in_order_of_arrival_when_all_before_are_known() {
        let mut rows = Rows::new(512);
        let mut seen = Vec::new();
        rows.push(&request(None, 20, 30, 0), |_| panic!("nothing is settled"));
        rows.push(&request(Some(10), 25, 40, 4096), |_| panic!("nothing is settled"));
        rows.settle(Instant::from_ns(21), |row| seen.push(*row));
        assert_eq!(seen.len(), 1, "the last waits for the think time before the next");
        rows.push(&request(Some(50), 50, 60, 512), |_| panic!("nothing is settled"));
        let (names, counts) = rows.finish(|row| seen.push(*row));
        let rows_seen: Vec<(u64, u64, u32, Option<u32>, Option<u64>)> = seen
            .iter()
            .map(|row| {
                let think = row.think.map(Duration::as_ns);
                (row.arrival.as_ns(), row.lbn, row.blocks, row.queue_length, think)
            })
            .collect();
        assert_eq!(
            rows_seen,
            [(10, 8, 8, Some(0), None), (20, 0, 8, Some(1), Some(20)), (50, 1, 8, Some(0), None)]
        );
        assert_eq!(seen[0].issue, Some(Instant::from_ns(25)));
        assert!(seen.iter().all(|row| row.start.is_none() && row.initiator == 42));
        assert_eq!(names[&42].to_string(), "fio");
        assert_eq!(counts, RowsCounts { rows: 3, out_of_order: 0, widened: 0 });
    }

    #[test]
    fn waiting_rows_are_bounded_and_late_rows_counted() {
        let mut rows = Rows::new(4096);
        let mut left = 0_u64;
        for index in 0..WAITING_MAX as u64 + 5 {
            rows.push(&request(None, 100 + index, 1 << 40, 512), |_| left += 1);
        }
        assert_eq!(left, 4);
        rows.push(&request(None, 1, 2, 0), |_| left += 1);
        let (_, counts) = rows.finish(|_| left += 1);
        assert_eq!((left, counts.rows, counts.out_of_order), (WAITING_MAX as u64 + 6, left, 1));
        assert_eq!(counts.widened, left - 1);
    }
}
