//! Rows whose arrival is so far from all others that a wrong clock explains it better than an idle device.
//!
//! ```text
//! arrivals in any order ─▶ spans, an hour or more apart ─▶ outliers: the main span, and those far from it
//! ```
//! A gap between neighbours in order of time is a fault of the clock in two cases:
//!
//! - It is longer than [`GAP_TIMES`] times everything else, and few rows are on its other side. A recording
//!   that is so long usually has more than a few rows before and after its idle times.
//! - It is longer than a year and [`YEAR_GAP_TIMES`] times everything else. No recorder waits so long, so the number of
//!   rows does not matter: a machine that starts in 1970 records many rows before its clock is set.
//!
//! # Scope and limits
//! One pass in bounded memory. Every gap counts that is longer than all that is no such gap. There are always fewer than
//! `SPANS_MAX` of them, so spans that are joined to save memory never have one between them. Rows with more different
//! wrong times are not recognised.

use seeklab_core::{Duration, Instant};

/// Shortest gap between two spans. Idle times of less are everyday.
const GAP_MIN: Duration = Duration::from_ns(3_600_000_000_000);

/// A gap with few rows on its other side is an outlier's from this multiple of everything else on.
pub const GAP_TIMES: u64 = 1000;

/// The same if the gap is longer than a year.
pub const YEAR_GAP_TIMES: u64 = 10;

const YEAR: Duration = Duration::from_ns(365 * 24 * 3_600_000_000_000);

/// Few rows: one, or at most one of so many.
const FEW_OF: u64 = 10;

/// Spans that are held at the same time.
const SPANS_MAX: usize = 16;

/// Rows that arrive without a gap between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivalSpan {
    /// First arrival.
    pub first: Instant,
    /// Last arrival.
    pub last: Instant,
    /// Number of rows.
    pub rows: u64,
    /// Number of the row that was read first.
    pub row: u64,
    /// Arrival of that row.
    pub row_arrival: Instant,
}

impl ArrivalSpan {
    const fn of(arrival: Instant, row: u64) -> Self {
        Self { first: arrival, last: arrival, rows: 1, row, row_arrival: arrival }
    }

    /// Returns the time from this span to a later one.
    fn gap_to(&self, later: &Self) -> Duration {
        later.first.saturating_since(self.last)
    }

    fn length(&self) -> Duration {
        self.last.saturating_since(self.first)
    }

    fn join(&mut self, other: &Self) {
        if other.row < self.row {
            (self.row, self.row_arrival) = (other.row, other.row_arrival);
        }
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.rows += other.rows;
    }
}

/// Rows far from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrivalOutliers {
    /// The span with the most rows.
    pub main: ArrivalSpan,
    /// Other spans, in order of time, each with the gap between it and its neighbour on the side of the main span.
    pub outliers: Vec<(ArrivalSpan, Duration)>,
}

/// Spans of the arrivals that were recorded.
#[derive(Debug, Clone, Default)]
pub struct ArrivalGaps {
    /// In order of time.
    spans: Vec<ArrivalSpan>,
    /// Span of the arrival that was recorded last.
    current: usize,
}

impl ArrivalGaps {
    /// Records the arrival of a row. Rows are numbered in the order of the trace, which need not be that of time.
    #[inline]
    pub fn record(&mut self, arrival: Instant, row: u64) {
        let is_last = self.current + 1 == self.spans.len();
        if let Some(span) = self.spans.get_mut(self.current)
            && arrival >= span.first
            && (arrival <= span.last || (is_last && arrival.saturating_since(span.last) <= GAP_MIN))
        {
            span.last = span.last.max(arrival);
            span.rows += 1;
            return;
        }
        self.place(arrival, row);
    }

    #[cold]
    fn place(&mut self, arrival: Instant, row: u64) {
        let index = self.spans.partition_point(|span| span.first <= arrival);
        self.spans.insert(index, ArrivalSpan::of(arrival, row));
        for left in [Some(index), index.checked_sub(1)].into_iter().flatten() {
            if left + 1 < self.spans.len() && self.gap_after(left) <= GAP_MIN {
                self.join(left);
            }
        }
        if self.spans.len() > SPANS_MAX {
            let shortest = (0..self.spans.len() - 1).min_by_key(|left| self.gap_after(*left));
            self.join(shortest.expect("there are several spans"));
        }
        self.current = self.spans.partition_point(|span| span.first <= arrival) - 1;
    }

    fn gap_after(&self, left: usize) -> Duration {
        self.spans[left].gap_to(&self.spans[left + 1])
    }

    fn join(&mut self, left: usize) {
        let right = self.spans.remove(left + 1);
        self.spans[left].join(&right);
    }

    /// Returns the rows far from all others, if there are any.
    pub fn outliers(&self) -> Option<ArrivalOutliers> {
        let mut gaps: Vec<Duration> = (1..self.spans.len()).map(|right| self.gap_after(right - 1)).collect();
        gaps.sort_unstable();
        gaps.dedup();
        // The shortest gap that qualifies divides the rows the most.
        gaps.into_iter().find_map(|gap| self.outliers_beyond(gap))
    }

    /// Returns the outliers if gaps of at least `gap` are faults of the clock.
    fn outliers_beyond(&self, gap: Duration) -> Option<ArrivalOutliers> {
        let mut groups: Vec<ArrivalSpan> = Vec::new();
        for span in &self.spans {
            match groups.last_mut() {
                Some(group) if group.gap_to(span) < gap => group.join(span),
                _ => groups.push(*span),
            }
        }
        let rows: u64 = groups.iter().map(|group| group.rows).sum();
        let rest_ns: u128 = groups.iter().map(|group| u128::from(group.length().as_ns())).sum();
        let most = groups.iter().map(|group| group.rows).max()?;
        let main = groups.iter().position(|group| group.rows == most)?;
        let others = rows - most;
        let is_times = |times: u64| u128::from(gap.as_ns()) > u128::from(times) * rest_ns;
        let is_few = others <= (rows / FEW_OF).max(1) && others < most;
        if !((is_few && is_times(GAP_TIMES)) || (gap > YEAR && is_times(YEAR_GAP_TIMES))) {
            return None;
        }
        let outlier = |place: usize| {
            let left = if place < main { place } else { place - 1 };
            (groups[place], groups[left].gap_to(&groups[left + 1]))
        };
        let outliers = (0..groups.len()).filter(|place| *place != main).map(outlier).collect();
        Some(ArrivalOutliers { main: groups[main], outliers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3600 * SECOND;
    const DAY: u64 = 24 * HOUR;
    /// From 1970 to 2026.
    const DECADES: u64 = 1_767_225_600 * SECOND;

    fn of(arrivals: impl IntoIterator<Item = u64>) -> Option<ArrivalOutliers> {
        let mut gaps = ArrivalGaps::default();
        (1..).zip(arrivals).for_each(|(row, arrival)| gaps.record(Instant::from_ns(arrival), row));
        gaps.outliers()
    }

    fn found(arrivals: impl IntoIterator<Item = u64>) -> Vec<(u64, u64, u64)> {
        let outliers = of(arrivals).map(|found| found.outliers).unwrap_or_default();
        outliers.iter().map(|(span, gap)| (span.row, span.rows, gap.as_ns())).collect()
    }

    fn seconds(from: u64, count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(move |second| from + second * SECOND)
    }

    #[test]
    fn wild_row_is_found_wherever_it_lies() {
        let gap = DECADES - 99 * SECOND;
        for place in [0, 50, 100] {
            let mut late: Vec<u64> = seconds(0, 100).collect();
            late.insert(place, DECADES);
            assert_eq!(found(late), [(place as u64 + 1, 1, gap)], "late, at {place}");
            let mut early: Vec<u64> = seconds(DECADES, 100).collect();
            early.insert(place, 0);
            assert_eq!(found(early), [(place as u64 + 1, 1, DECADES)], "early, at {place}");
        }
    }

    #[test]
    fn several_wild_rows_are_found_in_order_of_time() {
        let trace = seconds(DECADES, 50).chain([2 * DECADES, 0]).chain(seconds(DECADES + 50 * SECOND, 50));
        assert_eq!(found(trace), [(52, 1, DECADES), (51, 1, DECADES - 99 * SECOND)]);
        let trace = of(seconds(DECADES, 50).chain([0])).unwrap();
        assert_eq!((trace.main.first.as_ns(), trace.main.rows), (DECADES, 50));
    }

    #[test]
    fn a_clock_that_is_set_late_divides_any_number_of_rows() {
        assert_eq!(found(seconds(0, 40).chain(seconds(DECADES, 60))), [(1, 40, DECADES - 39 * SECOND)]);
        assert_eq!(found(seconds(0, 40).chain(seconds(30 * DAY, 60))), [], "a month can be idle");
    }

    #[test]
    fn wild_row_is_found_beside_weeks_with_idle_nights() {
        let days: Vec<u64> = (0..60).flat_map(|day| seconds(DECADES + day * DAY, 100)).collect();
        assert_eq!(found(days.iter().copied()), []);
        assert_eq!(found(days.into_iter().chain([0])), [(6001, 1, DECADES)]);
    }

    #[test]
    fn rows_in_any_order_are_joined_in_bounded_memory() {
        // Every second hour first, so that hundreds of spans would be open, and then the hours between them.
        let hours = |from: u64| (from..2000).step_by(2).map(|hour| DECADES + hour * HOUR);
        assert_eq!(found(hours(0).chain([0]).chain(hours(1))), [(1001, 1, DECADES)]);
    }

    #[test]
    fn idle_times_are_none() {
        assert_eq!(found([]), []);
        assert_eq!(found([5]), []);
        assert_eq!(found([0, 2 * HOUR, 4 * HOUR]), [], "rows hours apart");
        assert_eq!(found((0..8).flat_map(|night| seconds(night * DAY, 2))), [], "short bursts each night");
        assert_eq!(found(seconds(0, 2).chain(seconds(DAY, 2))), [], "two bursts");
        assert_eq!(found(seconds(0, 100).chain([99 * SECOND + HOUR])), [], "an hour");
        assert_eq!(found(seconds(0, 100).chain([99 * SECOND + DAY])), [], "less than 1,000 times the rest");
        assert_eq!(found(seconds(0, 51).chain([50 * SECOND + DAY])), [(52, 1, DAY)], "more than that");
    }
}
