//! Two-list criticality scheduling.

use std::any::Any;

use seeklab_core::{Criticality, Instant, Pending, Positioning, Scheduler};

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
/// when none of those is pending \[Ganger & Patt 1998, section 7\].
///
/// Both sweeps go on from the request served last, whichever list it came from.
#[derive(Debug, Clone)]
struct CriticalityLook {
    pressing: Sweep,
    noncritical: Sweep,
}

impl CriticalityLook {
    /// Empty lists over that address.
    const fn new(address: Address) -> Self {
        Self {
            pressing: Sweep::new(address, SweepEnd::Restart),
            noncritical: Sweep::new(address, SweepEnd::Restart),
        }
    }
}

impl Scheduler for CriticalityLook {
    fn push(&mut self, pending: Pending) {
        match pending.request.criticality {
            Criticality::TimeCritical | Criticality::TimeLimited => self.pressing.push(pending),
            Criticality::TimeNoncritical => self.noncritical.push(pending),
        }
    }

    fn choose(&mut self, now: Instant, positioning: Option<&dyn Positioning>) -> Option<Pending> {
        let pending =
            self.pressing.choose(now, positioning).or_else(|| self.noncritical.choose(now, positioning))?;
        self.pressing.continue_from(&pending);
        self.noncritical.continue_from(&pending);
        Some(pending)
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
