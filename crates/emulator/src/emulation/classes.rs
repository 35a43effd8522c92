//! Classes of requests that come from outside of the requests, as from the kernel of the host.
//!
//! ```text
//!  ClassSource ── class at arrival ─▶ request ─▶ pacer
//!       └──────── ClassChange, by range ─▶ pending requests of this range ─▶ Pacer::reclassify
//! ```
//! A change reaches the model like an arrival: at the time at which it happened, or at the time that is settled by then.
//! The record of a request has its class at arrival and the times of its changes as the model received them.
//!
//! # Scope and limits
//! The source is read when a request arrives, in every turn of the loop, and every 200 us while requests are outstanding.
//! A change that happened after the time of a turn waits for the next turn.

#[cfg(test)]
mod tests;

use seeklab_core::{Criticality, Duration, Instant, Operation, Reclassification, RequestId};

use super::Emulation;

/// Interval at which the source is read while requests are outstanding.
const INTERVAL: Duration = Duration::from_us(200);
/// Interval at which the source is read otherwise.
const IDLE_INTERVAL: Duration = Duration::from_ms(10);

/// A change of class of all pending requests in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassChange {
    /// Time at which it happened.
    pub at: Instant,
    /// Operation of the requests.
    pub op: Operation,
    /// First byte of the range. A flush has none.
    pub offset_bytes: u64,
    /// Bytes of the range.
    pub length_bytes: u64,
    /// The new class.
    pub criticality: Criticality,
}

/// Source of the classes of requests.
pub trait ClassSource: Send {
    /// Appends the changes that have become known since the last call, in order of time.
    fn poll(&mut self, changes: &mut Vec<ClassChange>);

    /// Class of a request that arrives, from what was known at the last call of [`poll`](Self::poll).
    fn class(&self, op: Operation, offset_bytes: u64, length_bytes: u64) -> Criticality;
}

/// A source, and the ranges of the outstanding requests.
pub(super) struct Classes {
    source: Box<dyn ClassSource>,
    /// Changes that are known and were not carried out.
    changes: Vec<ClassChange>,
    /// Range and class, by number of the request.
    outstanding: Vec<Option<(Range, Criticality)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    op: Operation,
    start: u64,
    end: u64,
}

impl Range {
    fn of(op: Operation, offset_bytes: u64, length_bytes: u64) -> Self {
        Self { op, start: offset_bytes, end: offset_bytes.saturating_add(length_bytes) }
    }

    fn meets(self, other: Self) -> bool {
        let overlaps = self.start < other.end && other.start < self.end;
        self.op == other.op && (overlaps || self.op == Operation::Flush)
    }
}

impl Classes {
    /// Class of a request that arrives now.
    pub(super) fn at_arrival(&mut self, op: Operation, offset_bytes: u64, length_bytes: u64) -> Criticality {
        self.source.poll(&mut self.changes);
        self.source.class(op, offset_bytes, length_bytes)
    }

    /// The model received a request.
    pub(super) fn arrive(&mut self, id: u64, criticality: Criticality, command: (Operation, u64, u64)) {
        let place = id as usize;
        if self.outstanding.len() <= place {
            self.outstanding.resize(place + 1, None);
        }
        let (op, offset_bytes, length_bytes) = command;
        self.outstanding[place] = Some((Range::of(op, offset_bytes, length_bytes), criticality));
    }

    /// The model completed a request.
    pub(super) fn complete(&mut self, id: u64) {
        self.outstanding[id as usize] = None;
    }

    /// Longest time until the source is read again.
    pub(super) fn interval(&self) -> Duration {
        if self.outstanding.iter().any(Option::is_some) { INTERVAL } else { IDLE_INTERVAL }
    }
}

impl Emulation {
    /// Takes the classes of requests from `source`.
    #[must_use]
    pub fn classified_by(self, source: Box<dyn ClassSource>) -> Self {
        let classes = Classes { source, changes: Vec::new(), outstanding: Vec::new() };
        Self { classes: Some(classes), ..self }
    }

    /// Gives the changes that have happened by `now` to the model. Returns true if the model received any.
    pub(super) fn follow_classes(&mut self, now: Instant) -> bool {
        let Some(classes) = &mut self.classes else { return false };
        classes.source.poll(&mut classes.changes);
        if classes.changes.is_empty() {
            return false;
        }
        let mut is_changed = false;
        for change in classes.changes.extract_if(.., |change| change.at <= now) {
            let range = Range::of(change.op, change.offset_bytes, change.length_bytes);
            for (id, outstanding) in classes.outstanding.iter_mut().enumerate() {
                let Some((pending, class)) = outstanding else { continue };
                if change.criticality >= *class || !pending.meets(range) {
                    continue;
                }
                *class = change.criticality;
                let id = RequestId(id as u64);
                let input = Reclassification { id, device: 0, criticality: change.criticality };
                let Some(time) = self.pacer.reclassify(now, change.at, &input) else {
                    self.statistics.missed_changes += 1;
                    continue;
                };
                is_changed = true;
                if let Some(outstanding) = &self.outstanding[id.0 as usize] {
                    self.failing.reclassify(time, outstanding.number, input);
                }
            }
        }
        is_changed
    }
}
