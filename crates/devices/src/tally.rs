//! What is counted of the requests that a model is fitted to.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seeklab_core::{Instant, Operation, Status, TraceRecord};

use crate::fit::FitSummary;

/// Counts of requests, taken in order of arrival; memory holds what is outstanding.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    outstanding: BinaryHeap<Reverse<Instant>>,
    summary: FitSummary,
    queue_length_max: [u32; Operation::ALL.len()],
}

impl Tally {
    /// Takes one request in.
    pub(crate) fn record(&mut self, record: &TraceRecord) {
        while self.outstanding.peek().is_some_and(|Reverse(completion)| *completion <= record.arrival) {
            self.outstanding.pop();
        }
        if record.op.addresses_blocks() {
            let end = record.lbn.saturating_add(u64::from(record.blocks));
            self.summary.end = self.summary.end.max(end);
        }
        let Some(completion) = record.completion else {
            self.summary.without_response += 1;
            return;
        };
        let queue_length = u32::try_from(self.outstanding.len()).unwrap_or(u32::MAX);
        self.outstanding.push(Reverse(completion));
        if record.status != Status::Ok {
            self.summary.failed += 1;
            return;
        }
        self.summary.requests += 1;
        self.summary.queue_length_max = self.summary.queue_length_max.max(queue_length);
        let most = &mut self.queue_length_max[record.op as usize];
        *most = (*most).max(queue_length);
    }

    pub(crate) const fn summary(&self) -> FitSummary {
        self.summary
    }

    /// Most other requests that were outstanding when one of that operation arrived.
    pub(crate) const fn queue_length_max(&self, op: Operation) -> u32 {
        self.queue_length_max[op as usize]
    }
}
