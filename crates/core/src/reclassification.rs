//! Changes of the class of pending requests: the host learns who waits.
//!
//! A read-ahead becomes time-critical when a process needs its blocks before they are there; a background write when
//! memory is full and a process waits for the page. Such a change is an input of a device, like a request: a workload
//! states it at a time ([`Arrival::Reclassification`](crate::Arrival::Reclassification)), every layer passes it on
//! ([`Device::reclassify`](crate::Device::reclassify)), schedulers sort the request anew, and the trace records when.
//!
//! # Scope and limits
//! A class only becomes more pressing. A process that waits for a request waits until it completes, so the most pressing
//! class that was stated is the class that holds; a less pressing one has no effect. A process that gives up, because it is
//! killed for example, is not modelled.
//!
//! # References
//! \[Ganger & Patt 1998, §2 and §7\]

use crate::request::{Criticality, RequestId};
use crate::units::Instant;

/// A pending request is more pressing from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reclassification {
    /// Number of the request.
    pub id: RequestId,
    /// Number of the device that holds the request.
    pub device: u16,
    /// Class of the request from now on. Less pressing classes than the present one have no effect.
    pub criticality: Criticality,
}

/// Times at which a pending request became more pressing, in 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassTimes {
    /// [`Instant::MAX`] if it never did.
    time_limited: Instant,
    /// [`Instant::MAX`] if it never did.
    time_critical: Instant,
}

impl Default for ClassTimes {
    fn default() -> Self {
        Self::NONE
    }
}

impl ClassTimes {
    /// The class did not change.
    pub const NONE: Self = Self { time_limited: Instant::MAX, time_critical: Instant::MAX };

    /// Times of the changes that are known.
    pub fn new(time_limited: Option<Instant>, time_critical: Option<Instant>) -> Self {
        Self {
            time_limited: time_limited.unwrap_or(Instant::MAX),
            time_critical: time_critical.unwrap_or(Instant::MAX),
        }
    }

    /// Returns true if the class did not change.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Time at which a time-noncritical request became time-limited.
    pub fn time_limited(self) -> Option<Instant> {
        Some(self.time_limited).filter(|time| *time != Instant::MAX)
    }

    /// Time at which the request became time-critical: a process has waited for it since then.
    pub fn time_critical(self) -> Option<Instant> {
        Some(self.time_critical).filter(|time| *time != Instant::MAX)
    }

    /// The changes with the class that each led to, in order of time.
    pub fn changes(self) -> impl Iterator<Item = (Instant, Criticality)> {
        let limited = self.time_limited().map(|time| (time, Criticality::TimeLimited));
        let critical = self.time_critical().map(|time| (time, Criticality::TimeCritical));
        limited.into_iter().chain(critical)
    }
}

/// Class of a request from its arrival to its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassHistory {
    /// Class of the request when it arrived.
    pub at_arrival: Criticality,
    /// Changes since then.
    pub became: ClassTimes,
}

impl ClassHistory {
    /// The class was this from arrival to completion.
    pub const fn constant(criticality: Criticality) -> Self {
        Self { at_arrival: criticality, became: ClassTimes::NONE }
    }

    /// Notes that the request became more pressing at `now`.
    const fn note(&mut self, now: Instant, criticality: Criticality) {
        match criticality {
            Criticality::TimeCritical => self.became.time_critical = now,
            Criticality::TimeLimited => self.became.time_limited = now,
            Criticality::TimeNoncritical => {}
        }
    }
}

/// Histories of the outstanding requests whose class has changed, for those who drive a device.
///
/// It is empty, and costs nothing, while no class changes.
#[derive(Debug, Clone, Default)]
pub struct ClassLedger {
    /// In order of the numbers.
    changed: Vec<(RequestId, ClassHistory)>,
}

impl ClassLedger {
    /// An empty ledger.
    pub const fn new() -> Self {
        Self { changed: Vec::new() }
    }

    /// Notes a change that a device made at `now`; `before` is the class that the device returned.
    pub fn note(&mut self, now: Instant, change: &Reclassification, before: Criticality) {
        let place = self.changed.partition_point(|(id, _)| *id < change.id);
        if self.changed.get(place).is_none_or(|(id, _)| *id != change.id) {
            self.changed.insert(place, (change.id, ClassHistory::constant(before)));
        }
        self.changed[place].1.note(now, change.criticality);
    }

    /// Removes the history of a request that completed with that class.
    #[inline]
    pub fn complete(&mut self, id: RequestId, criticality: Criticality) -> ClassHistory {
        if self.changed.is_empty() { ClassHistory::constant(criticality) } else { self.take(id, criticality) }
    }

    fn take(&mut self, id: RequestId, criticality: Criticality) -> ClassHistory {
        match self.changed.binary_search_by_key(&id, |(other, _)| *other) {
            Ok(place) => self.changed.remove(place).1,
            Err(_) => ClassHistory::constant(criticality),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Criticality::{TimeCritical, TimeLimited, TimeNoncritical};

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn ledger_keeps_the_class_at_arrival_and_the_time_of_each_change() {
        let mut ledger = ClassLedger::new();
        let change = |id, criticality| Reclassification { id: RequestId(id), device: 0, criticality };
        ledger.note(at(5), &change(9, TimeLimited), TimeNoncritical);
        ledger.note(at(6), &change(2, TimeCritical), TimeNoncritical);
        ledger.note(at(7), &change(9, TimeCritical), TimeLimited);
        assert_eq!(ledger.complete(RequestId(4), TimeLimited), ClassHistory::constant(TimeLimited));
        let nine = ledger.complete(RequestId(9), TimeCritical);
        assert_eq!(nine.at_arrival, TimeNoncritical);
        assert_eq!((nine.became.time_limited(), nine.became.time_critical()), (Some(at(5)), Some(at(7))));
        assert!(nine.became.changes().eq([(at(5), TimeLimited), (at(7), TimeCritical)]));
        let two = ledger.complete(RequestId(2), TimeCritical);
        assert_eq!((two.became.time_limited(), two.became.time_critical()), (None, Some(at(6))));
        assert!(ledger.changed.is_empty());
        // The number may be used again.
        assert!(ledger.complete(RequestId(2), TimeCritical).became.is_none());
    }

    #[test]
    fn only_a_more_pressing_class_changes_a_request() {
        for before in Criticality::ALL {
            for stated in Criticality::ALL {
                let mut request = crate::Request {
                    criticality: before,
                    ..crate::Request::new(0, crate::Operation::Read, 0, 1)
                };
                let changed = request.reclassify(stated);
                assert_eq!(request.criticality, before.min(stated), "the most pressing class holds");
                assert_eq!(changed, (request.criticality != before).then_some(before));
            }
        }
    }
}
