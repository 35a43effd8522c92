//! Think times of records that have none, from the times of the trace.
//!
//! ```text
//! request 1   |───────|
//! request 2              |───────────|        1 thinks from its completion to the arrival of 2
//! request 3                      |──────|     2 thinks for no time: 3 arrived before its completion
//! ```

use std::cell::Cell;

use seeklab_core::TraceRecord;

/// Counts of [`ThinkTimes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DerivedThinkTimes {
    /// Think times that were derived.
    pub derived: u64,
    /// Derived think times that are zero, since the next request arrived before the completion.
    pub overlapping: u64,
}

/// Records with the think time from the completion of each to the arrival of the next.
///
/// A recorded think time is kept. A record without a completion time, and the last one, keep none.
#[derive(Debug)]
pub struct ThinkTimes<'a, I, E> {
    records: I,
    next: Option<Result<TraceRecord, E>>,
    has_begun: bool,
    /// `None` if the records are handed on as they are.
    counts: Option<&'a Cell<DerivedThinkTimes>>,
}

impl<'a, I, E> ThinkTimes<'a, I, E>
where
    I: Iterator<Item = Result<TraceRecord, E>>,
{
    /// Derives the think times of `records`, and counts them in `counts`.
    pub fn new(records: I, counts: &'a Cell<DerivedThinkTimes>) -> Self {
        Self { records, next: None, has_begun: false, counts: Some(counts) }
    }

    /// Hands `records` on as they are.
    pub fn recorded(records: I) -> Self {
        Self { records, next: None, has_begun: false, counts: None }
    }
}

impl<I, E> Iterator for ThinkTimes<'_, I, E>
where
    I: Iterator<Item = Result<TraceRecord, E>>,
{
    type Item = Result<TraceRecord, E>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Some(counts) = self.counts else { return self.records.next() };
        if !std::mem::replace(&mut self.has_begun, true) {
            self.next = self.records.next();
        }
        let record = self.next.take()?;
        self.next = self.records.next();
        let mut record = match record {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        if let (None, Some(completion), Some(Ok(next))) = (record.think, record.completion, &self.next) {
            record.think = Some(next.arrival.saturating_since(completion));
            let DerivedThinkTimes { derived, overlapping } = counts.get();
            let overlapping = overlapping + u64::from(next.arrival < completion);
            counts.set(DerivedThinkTimes { derived: derived + 1, overlapping });
        }
        Some(Ok(record))
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Duration, Instant, Operation};

    use super::*;

    fn record(arrival_ns: u64, completion_ns: Option<u64>, think_ns: Option<u64>) -> TraceRecord {
        TraceRecord {
            completion: completion_ns.map(Instant::from_ns),
            think: think_ns.map(Duration::from_ns),
            ..TraceRecord::new(Instant::from_ns(arrival_ns), Operation::Read, 0, 8)
        }
    }

    #[test]
    fn think_time_is_the_time_from_a_completion_to_the_next_arrival() {
        let records = [
            record(0, Some(10), None),
            record(25, Some(40), None),
            record(30, Some(50), Some(7)),
            record(60, None, None),
            record(70, Some(80), None),
        ];
        let counts = Cell::default();
        let times: Vec<Option<u64>> = ThinkTimes::new(records.into_iter().map(Ok::<_, ()>), &counts)
            .map(|record| record.unwrap().think.map(Duration::as_ns))
            .collect();
        assert_eq!(times, [Some(15), Some(0), Some(7), None, None]);
        assert_eq!(counts.get(), DerivedThinkTimes { derived: 2, overlapping: 1 });
        let kept: Vec<_> = ThinkTimes::recorded(records.into_iter().map(Ok::<_, ()>)).collect();
        assert_eq!(kept, records.map(Ok));
    }

    #[test]
    fn error_ends_the_think_time_before_it() {
        let counts = Cell::default();
        let records = [Ok(record(0, Some(10), None)), Err("broken"), Ok(record(20, Some(30), None))];
        let mut records = ThinkTimes::new(records.into_iter(), &counts);
        assert_eq!(records.next().unwrap().unwrap().think, None);
        assert_eq!(records.next(), Some(Err("broken")));
        assert!(records.next().unwrap().is_ok() && records.next().is_none());
        assert_eq!(counts.get(), DerivedThinkTimes::default());
    }
}
