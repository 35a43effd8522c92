//! Changes of class that a trace recorded, until they are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seeklab_core::{ClassTimes, Criticality, Duration, Instant, Reclassification, Request, RequestId};

/// Recorded changes of the requests that were issued, in order of their time in the replay.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes {
    /// Time and rank, then the change.
    waiting: BinaryHeap<Reverse<(Instant, u64, RequestId, u16, Criticality)>>,
    noted: u64,
}

impl Changes {
    /// Notes the changes of a request that is issued at `now` and that arrived at `recorded` in the trace. Each keeps its
    /// distance from the arrival, divided by `factor`.
    pub(super) fn issued(
        &mut self,
        now: Instant,
        request: &Request,
        recorded: Instant,
        became: ClassTimes,
        factor: f64,
    ) {
        for (time, criticality) in became.changes() {
            let distance = time.saturating_since(recorded);
            let distance = if factor == 1.0 {
                distance
            } else {
                Duration::from_ns_f64(distance.as_ns() as f64 / factor)
            };
            self.waiting.push(Reverse((now + distance, self.noted, request.id, request.device, criticality)));
            self.noted += 1;
        }
    }

    /// Returns true if no change is to come.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Time of the next change.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.peek().map(|Reverse((time, ..))| *time)
    }

    /// The next change, if it is due at `now`.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Reclassification> {
        self.next().filter(|time| *time <= now)?;
        let Reverse((_, _, id, device, criticality)) = self.waiting.pop()?;
        Some(Reclassification { id, device, criticality })
    }
}
