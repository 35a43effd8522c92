//! LOOK, C-LOOK, SCAN and C-SCAN: sweeps over the addresses.

use std::any::Any;

use seeklab_core::{Criticality, Instant, Pending, Positioning, RequestId, Scheduler};

use super::SchedulerKind;
use super::ordered::{Address, Ordered};

pub(super) const LOOK: SchedulerKind =
    SchedulerKind::new("look", "sweeps up and down between the outermost pending requests", |settings| {
        Box::new(Sweep::new(settings.address, SweepEnd::Turn))
    })
    .by_cylinder();

pub(super) const C_LOOK: SchedulerKind = SchedulerKind::new(
    "c-look",
    "sweeps upwards, then begins again at the lowest pending request",
    |settings| Box::new(Sweep::new(settings.address, SweepEnd::Restart)),
)
.by_cylinder();

pub(super) const SCAN: SchedulerKind =
    SchedulerKind::new("scan", "sweeps up and down between the edges", |settings| {
        Box::new(Sweep::new(settings.address, SweepEnd::TurnAtEdge))
    })
    .by_cylinder();

pub(super) const C_SCAN: SchedulerKind =
    SchedulerKind::new("c-scan", "sweeps upwards from edge to edge", |settings| {
        Box::new(Sweep::new(settings.address, SweepEnd::RestartAtEdge))
    })
    .by_cylinder();

/// Behaviour of a sweep at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepEnd {
    /// The sweep turns at the last pending request (LOOK).
    Turn,
    /// The sweep begins again at the lowest pending request (C-LOOK).
    Restart,
    /// As `Turn`, but a sweep that runs empty goes on to the edge and turns there (SCAN).
    TurnAtEdge,
    /// As `Restart`, but a sweep that runs empty goes on to the edge and begins again (C-SCAN).
    RestartAtEdge,
}

/// Serves requests in the order of a sweep over the addresses.
///
/// A scheduler cannot send the arm to the edge without a request, so SCAN and C-SCAN differ from LOOK
/// and C-LOOK in the sweep's position alone: when nothing is pending the sweep completes, and what
/// arrives then is met from the edge.
#[derive(Debug, Clone)]
pub(super) struct Sweep {
    pending: Ordered,
    end: SweepEnd,
    last: u64,
    upwards: bool,
}

impl Sweep {
    /// A sweep over that address, beginning upwards from zero.
    pub(super) const fn new(address: Address, end: SweepEnd) -> Self {
        Self { pending: Ordered::new(address), end, last: 0, upwards: true }
    }

    /// Adds a request with a rank that the owner of several lists keeps.
    pub(super) fn push_ranked(&mut self, pending: Pending, rank: u64) {
        self.pending.push_ranked(pending, rank);
    }

    /// Removes the pending request of that number. Returns the request with its rank.
    pub(super) fn take(&mut self, id: RequestId) -> Option<(Pending, u64)> {
        let key = self.pending.key_of(id)?;
        Some((self.pending.remove(key)?, key.1))
    }

    /// Goes on from a request that another list served.
    pub(super) fn continue_from(&mut self, served: &Pending) {
        self.last = self.pending.address().of(served);
    }

    fn complete_to_the_edge(&mut self) {
        match self.end {
            SweepEnd::Turn | SweepEnd::Restart => {}
            SweepEnd::TurnAtEdge => {
                self.last = if self.upwards { u64::MAX } else { 0 };
                self.upwards = !self.upwards;
            }
            SweepEnd::RestartAtEdge => self.last = 0,
        }
    }

    fn next(&mut self) -> Option<(u64, u64)> {
        match self.end {
            SweepEnd::Restart | SweepEnd::RestartAtEdge => {
                self.pending.at_or_above(self.last).or_else(|| self.pending.lowest())
            }
            SweepEnd::Turn | SweepEnd::TurnAtEdge => {
                let (above, below) =
                    (self.pending.at_or_above(self.last), self.pending.at_or_below(self.last));
                let (ahead, behind) = if self.upwards { (above, below) } else { (below, above) };
                if ahead.is_none() && behind.is_some() {
                    self.upwards = !self.upwards;
                }
                ahead.or(behind)
            }
        }
    }
}

impl Scheduler for Sweep {
    fn push(&mut self, pending: Pending) {
        self.pending.push(pending);
    }

    fn choose(&mut self, _now: Instant, _positioning: Option<&dyn Positioning>) -> Option<Pending> {
        let Some(key) = self.next() else {
            self.complete_to_the_edge();
            return None;
        };
        self.last = key.0;
        self.pending.remove(key)
    }

    fn reclassify(&mut self, id: RequestId, criticality: Criticality) -> Option<Criticality> {
        self.pending.get_mut(id)?.request.reclassify(criticality)
    }

    fn needs_positioning(&self) -> bool {
        self.pending.address() == Address::Cylinder
    }

    fn len(&self) -> usize {
        self.pending.len()
    }

    fn fork(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
