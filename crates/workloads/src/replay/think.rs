//! Think times of records that have none, from the times of the trace.
//!
//! ```text
//! request 1   |───────|
//! request 2              |───────────|        1 thinks from its completion to the arrival of 2
//! request 3                      |──────|     2 thinks for no time: 3 arrived before its completion
//! ```

use seeklab_core::TraceRecord;

/// Counts of [`ThinkTimes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DerivedThinkTimes {
    /// Think times that were derived.
    pub derived: u64,
    /// Derived think times that are zero, since the next request arrived before the completion.
    pub overlapping: u64,
}

impl DerivedThinkTimes {
    /// Counts a think time that was derived.
    pub const fn count(&mut self, is_overlapping: bool) {
        self.derived += 1;
        self.overlapping += is_overlapping as u64;
    }
}

/// Records with the think time from the completion of each to the arrival of the next.
///
/// A recorded think time is kept. A record without a completion time, and the last one, keep none.
#[derive(Debug)]
pub struct ThinkTimes<I, E, F> {
    records: I,
    next: Option<Result<TraceRecord, E>>,
    has_begun: bool,
    /// `None` if the records are handed on as they are.
    on_derived: Option<F>,
}

impl<I, E, F> ThinkTimes<I, E, F>
where
    I: Iterator<Item = Result<TraceRecord, E>>,
    F: FnMut(bool),
{
    /// Derives the think times of `records`. Calls `on_derived` for each, with true if it is zero because the next request
    /// arrived before the completion. Without it, hands the records on as they are.
    pub const fn new(records: I, on_derived: Option<F>) -> Self {
        Self { records, next: None, has_begun: false, on_derived }
    }
}

impl<I, E, F> Iterator for ThinkTimes<I, E, F>
where
    I: Iterator<Item = Result<TraceRecord, E>>,
    F: FnMut(bool),
{
    type Item = Result<TraceRecord, E>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Some(on_derived) = &mut self.on_derived else { return self.records.next() };
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
            on_derived(next.arrival < completion);
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
        let mut counts = DerivedThinkTimes::default();
        let on_derived = |is_overlapping| counts.count(is_overlapping);
        let times: Vec<Option<u64>> = ThinkTimes::new(records.into_iter().map(Ok::<_, ()>), Some(on_derived))
            .map(|record| record.unwrap().think.map(Duration::as_ns))
            .collect();
        assert_eq!(times, [Some(15), Some(0), Some(7), None, None]);
        assert_eq!(counts, DerivedThinkTimes { derived: 2, overlapping: 1 });
        let as_they_are = None::<fn(bool)>;
        let kept: Vec<_> = ThinkTimes::new(records.into_iter().map(Ok::<_, ()>), as_they_are).collect();
        assert_eq!(kept, records.map(Ok));
    }

    #[test]
    fn error_ends_the_think_time_before_it() {
        let mut counts = DerivedThinkTimes::default();
        let records = [Ok(record(0, Some(10), None)), Err("broken"), Ok(record(20, Some(30), None))];
        let on_derived = |is_overlapping| counts.count(is_overlapping);
        let mut records = ThinkTimes::new(records.into_iter(), Some(on_derived));
        assert_eq!(records.next().unwrap().unwrap().think, None);
        assert_eq!(records.next(), Some(Err("broken")));
        assert!(records.next().unwrap().is_ok() && records.next().is_none());
        drop(records);
        assert_eq!(counts, DerivedThinkTimes::default());
    }
}
