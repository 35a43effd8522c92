//! First come, first served.

use std::any::Any;
use std::collections::VecDeque;

use seeklab_core::{Criticality, Instant, Pending, Positioning, RequestId, Scheduler};

use super::SchedulerKind;

pub(super) const FCFS: SchedulerKind =
    SchedulerKind::new("fcfs", "first come, first served", |_| Box::new(Fcfs::default()));

/// First come, first served.
#[derive(Debug, Clone, Default)]
struct Fcfs {
    pending: VecDeque<Pending>,
}

impl Scheduler for Fcfs {
    fn push(&mut self, pending: Pending) {
        self.pending.push_back(pending);
    }

    fn choose(&mut self, _now: Instant, _positioning: Option<&dyn Positioning>) -> Option<Pending> {
        self.pending.pop_front()
    }

    fn reclassify(&mut self, id: RequestId, criticality: Criticality) -> Option<Criticality> {
        let mut pending = self.pending.iter_mut().map(|pending| &mut pending.request);
        pending.find(|request| request.id == id)?.reclassify(criticality)
    }

    fn needs_positioning(&self) -> bool {
        false
    }

    fn len(&self) -> usize {
        self.pending.len()
    }

    fn fork(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }

    fn fork_into(&self, target: &mut Box<dyn Scheduler>) {
        match target.as_any_mut().downcast_mut::<Self>() {
            Some(target) => target.pending.clone_from(&self.pending),
            None => *target = self.fork(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
