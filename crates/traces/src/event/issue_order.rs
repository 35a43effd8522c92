//! Rows that wait for their completion, in order of issue.
//!
//! A row leaves in one of three cases: its request is complete, the pairing of events reports that the
//! completion will not be found, or 65,536 younger requests wait behind it. Memory is therefore bounded. The
//! row then passes through the window that sorts by arrival. The first row is at time zero.

use std::collections::VecDeque;

use seeklab_core::{Instant, Status, TraceRecord};

use crate::event::pairing::OUTSTANDING_MAX;
use crate::reorder::Reorder;
use crate::trace_format::{Note, ReadOptions};

/// Rows that wait for their completion. `T` identifies the request for the pairing of events.
pub(crate) struct IssueOrder<T> {
    waiting: VecDeque<Waiting<T>>,
    /// Rows that have left `waiting`, so the number of its first.
    left: u64,
    sorted: Reorder,
    /// Rows that left without a completion.
    incomplete: u64,
    /// Incomplete rows that left because too many waited or the trace ended.
    forced: u64,
    /// Completions stamped earlier than the issue.
    reversed: u64,
    at_end: bool,
}

struct Waiting<T> {
    tag: T,
    record: TraceRecord,
}

impl<T> IssueOrder<T> {
    pub(crate) fn new(options: &ReadOptions) -> Self {
        Self {
            waiting: VecDeque::new(),
            left: 0,
            sorted: Reorder::new(options.sort_window, true),
            incomplete: 0,
            forced: 0,
            reversed: 0,
            at_end: false,
        }
    }

    /// Takes the row of a request that was issued; its number.
    pub(crate) fn push(&mut self, tag: T, record: TraceRecord) -> u64 {
        self.waiting.push_back(Waiting { tag, record });
        self.left + self.waiting.len() as u64 - 1
    }

    /// Records the completion of the request with that number. If clocks differ and the completion is stamped
    /// earlier than the issue, the row leaves without a response time and is counted.
    ///
    /// # Panics
    /// If its row has left.
    pub(crate) fn complete(&mut self, number: u64, completion: Instant, status: Status) {
        let place = number.checked_sub(self.left).expect("a row that is open has not left");
        let record = &mut self.waiting[usize::try_from(place).expect("it is in memory")].record;
        if completion < record.issue.unwrap_or(record.arrival) {
            self.reversed += 1;
            return;
        }
        record.completion = Some(completion);
        record.status = status;
    }

    /// There are no more events.
    pub(crate) fn end(&mut self) {
        self.at_end = true;
    }

    /// Returns the next row that can leave, if there is one. `leaves` receives the first row, its number, and
    /// whether the row has to leave. It returns whether the completion is no longer awaited, which is always true
    /// for a row that has to leave.
    pub(crate) fn pop(
        &mut self,
        mut leaves: impl FnMut(&T, &TraceRecord, u64, bool) -> bool,
    ) -> Option<TraceRecord> {
        loop {
            if self.sorted.is_full() || (self.at_end && self.waiting.is_empty()) {
                return self.sorted.pop();
            }
            let first = self.waiting.front()?;
            if first.record.completion.is_none() {
                if !leaves(&first.tag, &first.record, self.left, false) {
                    if self.waiting.len() < OUTSTANDING_MAX && !self.at_end {
                        return None;
                    }
                    leaves(&first.tag, &first.record, self.left, true);
                    self.forced += 1;
                }
                self.incomplete += 1;
            } else {
                leaves(&first.tag, &first.record, self.left, true);
            }
            let first = self.waiting.pop_front().expect("it was looked at");
            self.left += 1;
            self.sorted.push(first.record);
        }
    }

    /// Rows that left without a completion for no other reason than that too many waited or the trace ended.
    pub(crate) fn forced(&self) -> u64 {
        self.forced
    }

    /// Appends what the user should know; so many rows were given up and so many completions had no issue.
    pub(crate) fn notes(&self, given_up: u64, completions: u64, notes: &mut Vec<Note>) {
        let missing = self.incomplete.saturating_sub(self.reversed);
        if missing > 0 {
            notes.push(Note::CompletionsMissing { requests: missing, given_up });
        }
        if self.reversed > 0 {
            let what = "requests complete before they are issued by their stamps, and have no response time";
            notes.push(Note::Remark(format!("{} {what}", self.reversed).into()));
        }
        if completions > 0 {
            notes.push(Note::IssuesMissing { completions });
        }
        if self.sorted.clamped() > 0 {
            notes.push(Note::ArrivalsClamped { rows: self.sorted.clamped(), window: self.sorted.window() });
        }
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
