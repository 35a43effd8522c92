//! Sorts roughly sorted arrivals within a bounded window.
//!
//! Some traces are written as requests complete on several processors, so their arrivals go back a
//! little now and then. Rows wait here until the window is full and leave in order of arrival,
//! equal ones in order of the file. A row that arrives before one that has already left is moved to
//! that one's arrival, its response time kept, and counted; no row is lost.

use std::collections::VecDeque;

use seeklab_core::{Duration, Instant, TraceRecord};

/// The window.
pub(crate) struct Reorder {
    window: usize,
    /// Arrivals in order, with the place of their row in `rows`.
    order: VecDeque<(Instant, u32)>,
    rows: Vec<TraceRecord>,
    free: Vec<u32>,
    /// Time zero of the trace; `None` until the first row leaves, where it sets it.
    origin: Option<Instant>,
    last: Instant,
    clamped: u64,
}

impl Reorder {
    /// A window of `window` rows. With `relative`, the earliest row of the first window becomes time
    /// zero.
    pub(crate) fn new(window: usize, relative: bool) -> Self {
        Self {
            window: window.min(u32::MAX as usize - 1),
            order: VecDeque::new(),
            rows: Vec::new(),
            free: Vec::new(),
            origin: (!relative).then_some(Instant::ZERO),
            last: Instant::ZERO,
            clamped: 0,
        }
    }

    /// Takes a row.
    #[inline]
    pub(crate) fn push(&mut self, mut record: TraceRecord) {
        if record.arrival < self.last {
            let late = self.last - record.arrival;
            let later = |time: Instant| Instant::from_ns(time.as_ns().saturating_add(late.as_ns()));
            let times = [&mut record.issue, &mut record.start, &mut record.completion];
            record.arrival = self.last;
            times.into_iter().for_each(|time| *time = time.map(later));
            self.clamped += 1;
        }
        let place = match self.free.pop() {
            Some(place) => {
                self.rows[place as usize] = record;
                place
            }
            None => {
                self.rows.push(record);
                self.rows.len() as u32 - 1
            }
        };
        let entry = (record.arrival, place);
        match self.order.back() {
            Some((latest, _)) if record.arrival < *latest => {
                let at = self.order.partition_point(|(arrival, _)| *arrival <= record.arrival);
                self.order.insert(at, entry);
            }
            _ => self.order.push_back(entry),
        }
    }

    /// Returns true if the next row can leave although more rows are to come.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.order.len() > self.window
    }

    /// The earliest row.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<TraceRecord> {
        let (arrival, place) = self.order.pop_front()?;
        self.free.push(place);
        self.last = arrival;
        let mut record = self.rows[place as usize];
        let origin = *self.origin.get_or_insert(arrival);
        if origin > Instant::ZERO {
            let since: Duration = origin - Instant::ZERO;
            let from_origin = |time: Instant| {
                let since_origin = time.as_ns().checked_sub(since.as_ns());
                Instant::from_ns(since_origin.expect("no time of a row lies before its arrival"))
            };
            let times = [&mut record.issue, &mut record.start, &mut record.completion];
            record.arrival = from_origin(record.arrival);
            times.into_iter().for_each(|time| *time = time.map(from_origin));
        }
        Some(record)
    }

    /// Rows that were moved to the arrival of the row before them.
    pub(crate) fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Rows within which the trace is sorted.
    pub(crate) fn window(&self) -> usize {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seeklab_core::Operation;

    fn sorted(arrivals: &[u64], window: usize, relative: bool) -> (Vec<(u64, u64)>, u64) {
        let mut reorder = Reorder::new(window, relative);
        let mut out = Vec::new();
        for (index, arrival) in arrivals.iter().enumerate() {
            reorder.push(TraceRecord::new(Instant::from_ns(*arrival), Operation::Read, index as u64, 1));
            if reorder.is_full() {
                out.extend(reorder.pop());
            }
        }
        while let Some(record) = reorder.pop() {
            out.push(record);
        }
        let rows = out.iter().map(|record| (record.arrival.as_ns(), record.lbn)).collect();
        (rows, reorder.clamped())
    }

    #[test]
    fn rows_within_the_window_are_sorted_and_others_clamped_and_counted() {
        assert_eq!(sorted(&[5, 3, 9, 7], 2, false), (vec![(3, 1), (5, 0), (7, 3), (9, 2)], 0));
        assert_eq!(sorted(&[5, 6, 7, 1], 1, false), (vec![(5, 0), (6, 1), (6, 3), (7, 2)], 1));
        assert_eq!(sorted(&[5, 5, 5], 1, false), (vec![(5, 0), (5, 1), (5, 2)], 0));
    }

    #[test]
    fn row_that_arrives_late_leaves_behind_earlier_rows_of_its_arrival() {
        assert_eq!(sorted(&[5, 7, 5, 7, 5], 4, false), (vec![(5, 0), (5, 2), (5, 4), (7, 1), (7, 3)], 0));
    }

    #[test]
    fn earliest_row_is_time_zero() {
        assert_eq!(sorted(&[50, 30, 90], 2, true).0, [(0, 1), (20, 0), (60, 2)]);
    }

    proptest! {
        #[test]
        fn no_row_is_lost_or_out_of_order(arrivals: Vec<u64>, window in 0_usize..8, relative: bool) {
            let (rows, _) = sorted(&arrivals, window, relative);
            prop_assert!(rows.is_sorted_by_key(|(arrival, _)| *arrival));
            let mut numbers: Vec<u64> = rows.iter().map(|(_, number)| *number).collect();
            numbers.sort();
            prop_assert_eq!(numbers, (0..arrivals.len() as u64).collect::<Vec<_>>());
        }
    }
}
