//! The requests of a worker as rows of a trace, in order of arrival, handed over many at a time.

use std::collections::VecDeque;

use seeklab_core::{ArrivalOrder, Duration, Instant, TraceRecord};

use crate::run::{Message, Outlet};

/// Rows that are handed over at a time.
const ROWS: usize = 1 << 12;
/// Time after which fewer are handed over, so that a trace has them if this process is killed.
const AGE_MAX: Duration = Duration::from_ms(200);

/// Arrival of the next row of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRow {
    /// At that time.
    At(Instant),
    /// At that time or later.
    From(Instant),
    /// None is known to come.
    Unknown,
}

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

    /// Returns true if rows have waited for long at `now`.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Number of the next row: the first that was not taken.
    pub(crate) const fn next(&self) -> u64 {
        self.order.next()
    }

    /// Hands over the rows so far in real time, and the arrival before which there are no others.
    pub(crate) fn hand_over_old(&mut self, now: Instant, next: NextRow) {
        self.due = now + AGE_MAX;
        let Self { order, rows, .. } = self;
        let from = match next {
            NextRow::At(at) => {
                order.next_arrives(at, |record| rows.push(*record));
                Some(at)
            }
            NextRow::From(from) => Some(order.last_arrival().map_or(from, |last| last.min(from))),
            NextRow::Unknown => None,
        };
        if !rows.is_empty() || from.is_some() {
            self.outlet.send(Message::Rows(self.worker, self.rows.clone(), from));
            self.rows.clear();
        }
    }

    /// Takes the row of that number; each is given once.
    pub(crate) fn push(&mut self, number: u64, record: TraceRecord) {
        let rows = &mut self.rows;
        self.order.push(number, record, |record| rows.push(*record));
        if self.rows.len() >= ROWS {
            let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(ROWS));
            self.outlet.send(Message::Rows(self.worker, rows, None));
        }
    }

    /// Hands over what is left.
    pub(crate) fn finish(self) {
        let Self { worker, outlet, order, mut rows, .. } = self;
        order.finish(|record| rows.push(*record));
        outlet.send(Message::Rows(worker, rows, None));
    }
}

/// Merges the rows of all workers in order of arrival.
#[derive(Debug)]
pub(crate) struct Merger {
    workers: Vec<Merged>,
}

/// Rows of a worker.
#[derive(Debug)]
struct Merged {
    waiting: VecDeque<TraceRecord>,
    /// Time before which no other rows of it arrive. The end of time if no more rows come.
    from: Instant,
}

impl Merged {
    /// Time before which no rows arrive but those that were handed on.
    fn next(&self) -> Instant {
        self.waiting.front().map_or(self.from, |row| row.arrival)
    }
}

impl Merger {
    pub(crate) fn new(workers: usize) -> Self {
        let none = || Merged { waiting: VecDeque::new(), from: Instant::ZERO };
        Self { workers: (0..workers).map(|_| none()).collect() }
    }

    /// Takes rows of a worker, of which all others arrive at `from` or later, and hands on those that are next whatever comes.
    pub(crate) fn push(
        &mut self,
        worker: usize,
        (rows, from): (Vec<TraceRecord>, Option<Instant>),
        emit: &mut dyn FnMut(&TraceRecord),
    ) {
        let of = &mut self.workers[worker];
        of.from = of.from.max(from.unwrap_or_default());
        of.waiting.extend(rows);
        self.hand_on(emit);
    }

    /// No more rows come from this worker.
    pub(crate) fn end(&mut self, worker: usize, emit: &mut dyn FnMut(&TraceRecord)) {
        self.workers[worker].from = Instant::MAX;
        self.hand_on(emit);
    }

    fn hand_on(&mut self, emit: &mut dyn FnMut(&TraceRecord)) {
        while let Some(first) = self.workers.iter_mut().min_by_key(|of| of.next()) {
            match first.waiting.pop_front() {
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
        merger.push(0, (rows(&[1, 5, 6]), None), &mut |row| seen.push(row.lbn));
        assert!(seen.is_empty(), "the other may have earlier ones");
        merger.push(1, (rows(&[2, 3]), None), &mut |row| seen.push(row.lbn));
        assert_eq!(seen, [1, 2, 3]);
        merger.end(1, &mut |row| seen.push(row.lbn));
        assert_eq!(seen, [1, 2, 3, 5, 6]);
        merger.push(0, (rows(&[9]), None), &mut |row| seen.push(row.lbn));
        merger.end(0, &mut |row| seen.push(row.lbn));
        assert_eq!(seen, [1, 2, 3, 5, 6, 9]);
    }

    #[test]
    fn rows_of_a_worker_wait_for_no_other_whose_next_row_is_later() {
        let rows = |arrivals: &[u64]| -> Vec<TraceRecord> {
            let row = |at: &u64| TraceRecord::new(Instant::from_ns(*at), Operation::Read, *at, 1);
            arrivals.iter().map(row).collect()
        };
        let mut seen = Vec::new();
        let mut merger = Merger::new(2);
        merger.push(1, (rows(&[2]), Some(Instant::from_ns(900))), &mut |row| seen.push(row.lbn));
        merger.push(0, (rows(&[1, 5, 899, 901]), None), &mut |row| seen.push(row.lbn));
        assert_eq!(seen, [1, 2, 5, 899], "one at 900 may come");
        merger.push(1, (rows(&[900]), Some(Instant::from_ns(1_900))), &mut |row| seen.push(row.lbn));
        assert_eq!(seen, [1, 2, 5, 899, 900, 901]);
    }
}
