//! A trace as the driver received it: requests arrive when they were issued, not when the host made them.
//!
//! Rows are sorted by issue within a window of 65,536 rows, the limit of rows awaiting their completion
//! elsewhere. If the issue of a row is unknown or later than its completion, its arrival counts instead.

use seeklab_core::{Instant, TraceRecord};

use crate::error::TraceError;
use crate::event::pairing::OUTSTANDING_MAX;
use crate::metadata::Metadata;
use crate::reorder::Reorder;
use crate::trace_format::{Note, TraceReader};

/// The rows of a reader, from their issue.
pub(crate) struct Issued {
    reader: Box<dyn TraceReader>,
    sorted: Reorder,
    /// Error of the row after the waiting rows.
    failure: Option<TraceError>,
    is_at_end: bool,
}

impl Issued {
    pub(crate) fn new(reader: Box<dyn TraceReader>) -> Self {
        Self { reader, sorted: Reorder::new(OUTSTANDING_MAX, false), failure: None, is_at_end: false }
    }
}

impl Iterator for Issued {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_at_end && !self.sorted.is_full() {
            match self.reader.next() {
                Some(Ok(record)) => {
                    let is_before_completion =
                        |issue: &Instant| record.completion.is_none_or(|completion| *issue <= completion);
                    let arrival = record.issue.filter(is_before_completion).unwrap_or(record.arrival);
                    self.sorted.push(TraceRecord { arrival, ..record });
                }
                Some(Err(failure)) => {
                    self.failure = Some(failure);
                    self.is_at_end = true;
                }
                None => self.is_at_end = true,
            }
        }
        self.sorted.pop().map(Ok).or_else(|| self.failure.take().map(Err))
    }
}

impl TraceReader for Issued {
    fn metadata(&self) -> &Metadata {
        self.reader.metadata()
    }

    fn notes(&self) -> Vec<Note> {
        let (rows, window) = (self.sorted.clamped(), self.sorted.window());
        let clamped = (rows > 0).then_some(Note::ArrivalsClamped { rows, window });
        self.reader.notes().into_iter().chain(clamped).collect()
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Operation;

    use super::*;
    use crate::error::ErrorKind;

    /// Rows in memory.
    struct Held(Vec<Result<TraceRecord, TraceError>>, Metadata);

    impl Iterator for Held {
        type Item = Result<TraceRecord, TraceError>;

        fn next(&mut self) -> Option<Self::Item> {
            (!self.0.is_empty()).then(|| self.0.remove(0))
        }
    }

    impl TraceReader for Held {
        fn metadata(&self) -> &Metadata {
            &self.1
        }

        fn notes(&self) -> Vec<Note> {
            Vec::new()
        }
    }

    fn issued(rows: Vec<Result<TraceRecord, TraceError>>) -> Issued {
        Issued::new(Box::new(Held(rows, Metadata::default())))
    }

    fn row(arrival: u64, issue: Option<u64>) -> Result<TraceRecord, TraceError> {
        let completion = Some(Instant::from_ns(issue.unwrap_or(arrival) + 100));
        let record = TraceRecord::new(Instant::from_ns(arrival), Operation::Write, arrival, 1);
        Ok(TraceRecord { issue: issue.map(Instant::from_ns), completion, ..record })
    }

    #[test]
    fn requests_arrive_in_order_of_their_issue() {
        let rows = vec![row(10, Some(50)), row(20, Some(30)), row(40, None), row(60, Some(60))];
        let seen: Vec<_> = issued(rows)
            .map(|record| record.map(|of| (of.arrival.as_ns(), of.lbn, of.response_time().unwrap().as_ns())))
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(seen, [(30, 20, 100), (40, 40, 100), (50, 10, 100), (60, 60, 100)]);
    }

    #[test]
    fn issue_after_its_completion_is_ignored() {
        let late =
            row(10, Some(50)).map(|record| TraceRecord { issue: Some(Instant::from_ns(500)), ..record });
        let record = issued(vec![late]).next().unwrap().unwrap();
        assert_eq!((record.arrival.as_ns(), record.response_time().unwrap().as_ns()), (10, 140));
    }

    #[test]
    fn broken_row_is_reported_after_the_rows_before_it() {
        let broken = Err(TraceError::new(ErrorKind::NotWritable { format: "it" }));
        let mut rows = issued(vec![row(10, Some(50)), row(20, Some(30)), broken]);
        assert_eq!(rows.next().unwrap().unwrap().lbn, 20);
        assert_eq!(rows.next().unwrap().unwrap().lbn, 10);
        assert!(rows.next().unwrap().is_err());
        assert!(rows.next().is_none());
    }
}
