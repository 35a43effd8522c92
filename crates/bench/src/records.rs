//! The requests of a worker as rows of a trace, in order of arrival, handed over many at a time.

use std::collections::VecDeque;

use seeklab_core::{ArrivalOrder, Duration, Instant, TraceRecord};

use crate::run::{Message, Outlet};

/// Rows that are handed over at a time.
const ROWS: usize = 1 << 12;
/// Time after which fewer are handed over, so that a trace has them if this process is killed.
const AGE_MAX: Duration = Duration::from_ms(200);

/// Rows of one worker.
pub(crate) struct Records {
    worker: usize,
    outlet: Outlet,
    order: ArrivalOrder,
    rows: Vec<TraceRecord>,
    /// Time at which rows are handed over, however few.
    due: Instant,
}

impl Records {
    pub(crate) fn new(worker: usize, outlet: Outlet) -> Self {
        let rows = Vec::with_capacity(ROWS);
        Self { worker, outlet, order: ArrivalOrder::default(), rows, due: Instant::ZERO }
    }

    /// Hands over the rows that have waited for long at `now`, in real time.
    pub(crate) fn hand_over_old(&mut self, now: Instant) {
        if now < self.due || self.rows.is_empty() {
            return;
        }
        self.due = now + AGE_MAX;
        self.outlet.send(Message::Rows(self.worker, self.rows.clone()));
        self.rows.clear();
    }

    /// Takes the row of that number; each is given once.
    pub(crate) fn push(&mut self, number: u64, record: TraceRecord) {
        let rows = &mut self.rows;
        self.order.push(number, record, |record| rows.push(*record));
        if self.rows.len() >= ROWS {
            let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(ROWS));
            self.outlet.send(Message::Rows(self.worker, rows));
        }
    }

    /// Hands over what is left.
    pub(crate) fn finish(self) {
        let Self { worker, outlet, order, mut rows, .. } = self;
        order.finish(|record| rows.push(*record));
        outlet.send(Message::Rows(worker, rows));
    }
}

/// Merges the rows of all workers in order of arrival.
#[derive(Debug)]
pub(crate) struct Merger {
    /// Rows that wait, by worker, and whether more may come.
    waiting: Vec<(VecDeque<TraceRecord>, bool)>,
}

impl Merger {
    pub(crate) fn new(workers: usize) -> Self {
        Self { waiting: (0..workers).map(|_| (VecDeque::new(), true)).collect() }
    }

    /// Takes rows of a worker, and hands on those that are next whatever comes.
    pub(crate) fn push(&mut self, worker: usize, rows: Vec<TraceRecord>, emit: &mut dyn FnMut(&TraceRecord)) {
        self.waiting[worker].0.extend(rows);
        self.hand_on(emit);
    }

    /// No more rows come from this worker.
    pub(crate) fn end(&mut self, worker: usize, emit: &mut dyn FnMut(&TraceRecord)) {
        self.waiting[worker].1 = false;
        self.hand_on(emit);
    }

    fn hand_on(&mut self, emit: &mut dyn FnMut(&TraceRecord)) {
        while self.waiting.iter().all(|(rows, is_open)| !rows.is_empty() || !is_open) {
            let arrival = |rows: &VecDeque<TraceRecord>| rows.front().map_or(Instant::MAX, |row| row.arrival);
            let Some((rows, _)) = self.waiting.iter_mut().min_by_key(|(rows, _)| arrival(rows)) else {
                return;
            };
            match rows.pop_front() {
                Some(row) => emit(&row),
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Operation;

    use super::*;

    #[test]
    fn rows_of_several_workers_come_in_order_of_arrival() {
        let rows = |arrivals: &[u64]| -> Vec<TraceRecord> {
            let row = |at: &u64| TraceRecord::new(Instant::from_ns(*at), Operation::Read, *at, 1);
            arrivals.iter().map(row).collect()
        };
        let mut seen = Vec::new();
        let mut merger = Merger::new(2);
        merger.push(0, rows(&[1, 5, 6]), &mut |row| seen.push(row.lbn));
        assert!(seen.is_empty(), "the other may have earlier ones");
        merger.push(1, rows(&[2, 3]), &mut |row| seen.push(row.lbn));
        assert_eq!(seen, [1, 2, 3]);
        merger.end(1, &mut |row| seen.push(row.lbn));
        assert_eq!(seen, [1, 2, 3, 5, 6]);
        merger.push(0, rows(&[9]), &mut |row| seen.push(row.lbn));
        merger.end(0, &mut |row| seen.push(row.lbn));
        assert_eq!(seen, [1, 2, 3, 5, 6, 9]);
    }
}
