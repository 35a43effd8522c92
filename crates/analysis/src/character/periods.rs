//! Busy and idle periods of a trace.
//!
//! A *busy period* (burst) is a time in which at least one request was outstanding. An *idle period* is a
//! time between busy periods. Both are computed from arrivals and completions of all devices of the trace
//! together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seeklab_core::statistics::Distribution;
use seeklab_core::{Instant, TraceRecord};

/// Completions that are remembered; more are not outstanding in anything real.
const OUTSTANDING_MAX: usize = 1 << 20;

/// Accumulates busy and idle periods.
#[derive(Debug, Clone, Default)]
pub struct Periods {
    ends: BinaryHeap<Reverse<Instant>>,
    /// The busy period that goes on.
    open: Option<(Instant, Instant)>,
    requests: u64,
    /// Busy periods.
    pub busy: Distribution,
    /// Idle periods.
    pub idle: Distribution,
    /// Requests per busy period, counted as nanoseconds.
    pub burst: Distribution,
}

impl Periods {
    /// Takes a request; gives how many were outstanding when it arrived, if completions are known.
    pub(super) fn record(&mut self, record: &TraceRecord) -> Option<u32> {
        let completion = record.completion?;
        while self.ends.peek().is_some_and(|Reverse(end)| *end <= record.arrival) {
            self.ends.pop();
        }
        let outstanding = self.ends.len();
        if outstanding < OUTSTANDING_MAX {
            self.ends.push(Reverse(completion));
        }
        self.open = Some(match self.open {
            Some((start, end)) if record.arrival <= end => (start, end.max(completion)),
            before => {
                if let Some((start, end)) = before {
                    self.busy.record(end.saturating_since(start));
                    self.idle.record(record.arrival.saturating_since(end));
                    self.burst.record(seeklab_core::Duration::from_ns(self.requests));
                }
                self.requests = 0;
                (record.arrival, completion)
            }
        });
        self.requests += 1;
        Some(u32::try_from(outstanding).unwrap_or(u32::MAX))
    }
}
