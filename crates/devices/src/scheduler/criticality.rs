//! Two-list criticality scheduling.
//!
//! Pending requests stand in two lists: one of time-critical and time-limited requests, one of time-noncritical requests.
//! The second list is served only while the first is empty, each by C-LOOK. A request whose class changes goes over to the
//! list of its new class.
//!
//! # Scope and limits
//! Starvation is not prevented: time-noncritical requests wait for as long as more pressing ones are pending. Within a
//! list the class has no effect, so a time-limited request that becomes time-critical keeps its place. The priority of a
//! request has no effect.
//!
//! # References
//! \[Ganger & Patt 1998, §7\]: "we modify the C-LOOK algorithm to maintain two distinct lists of pending requests".

use std::any::Any;

use seeklab_core::{Criticality, Instant, Pending, Positioning, RequestId, Scheduler};

use super::SchedulerKind;
use super::ordered::Address;
use super::sweep::{Sweep, SweepEnd};

pub(super) const CRITICALITY_C_LOOK: SchedulerKind = SchedulerKind::new(
    "criticality-c-look",
    "C-LOOK over time-critical and -limited requests, then over the rest",
    |settings| Box::new(CriticalityLook::new(settings.address)),
)
.by_cylinder();

/// C-LOOK over two lists: time-critical and time-limited requests first, time-noncritical ones only
/// when none of those is pending.
///
/// Both sweeps go on from the request served last, whichever list it came from.
#[derive(Debug, Clone)]
struct CriticalityLook {
    pressing: Sweep,
    noncritical: Sweep,
    /// Requests pushed so far, which is the rank of the next.
    pushed: u64,
}

impl CriticalityLook {
    /// Empty lists over that address.
    const fn new(address: Address) -> Self {
        Self {
            pressing: Sweep::new(address, SweepEnd::Restart),
            noncritical: Sweep::new(address, SweepEnd::Restart),
            pushed: 0,
        }
    }
}

impl Scheduler for CriticalityLook {
    fn push(&mut self, pending: Pending) {
        let list = match pending.request.criticality {
            Criticality::TimeCritical | Criticality::TimeLimited => &mut self.pressing,
            Criticality::TimeNoncritical => &mut self.noncritical,
        };
        list.push_ranked(pending, self.pushed);
        self.pushed += 1;
    }

    fn choose(&mut self, now: Instant, positioning: Option<&dyn Positioning>) -> Option<Pending> {
        let pending =
            self.pressing.choose(now, positioning).or_else(|| self.noncritical.choose(now, positioning))?;
        self.pressing.continue_from(&pending);
        self.noncritical.continue_from(&pending);
        Some(pending)
    }

    fn reclassify(&mut self, id: RequestId, criticality: Criticality) -> Option<Criticality> {
        if criticality == Criticality::TimeNoncritical {
            return None;
        }
        let Some((mut pending, rank)) = self.noncritical.take(id) else {
            return self.pressing.reclassify(id, criticality);
        };
        let before = pending.request.reclassify(criticality);
        self.pressing.push_ranked(pending, rank);
        before
    }

    fn needs_positioning(&self) -> bool {
        self.pressing.needs_positioning()
    }

    fn len(&self) -> usize {
        self.pressing.len() + self.noncritical.len()
    }

    fn fork(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
