//! Losses of power of the device beneath.

use std::sync::{Arc, Mutex, PoisonError};

use seeklab_core::{Duration, FaultSet, Instant, Operation, Request, Tearing, TornContents};

use super::Fault;
use super::fate::Fate;
use crate::fault::{Action, Rule, Watch};

impl Fault {
    /// The next loss of power or return behind the last change, if the device has received anything since the last loss.
    pub(super) fn next_power_change(&self) -> Option<Instant> {
        let pairs = self.rules.iter().zip(&self.states).filter(|_| !self.is_fresh);
        let power = pairs.filter(|(rule, _)| matches!(rule.action, Action::PowerLoss(_)));
        power.filter_map(|(_, state)| state.window.change_after(self.changed)).min()
    }

    /// Watches the device for the layer's own sake if a loss of power may leave a unit that cannot be read.
    pub(super) fn watch_torn_units(&mut self) {
        let tearing = self.device.hazards().tearing;
        if self.restarted.is_some()
            && tearing.is_some_and(|tearing| tearing.contents == TornContents::Unreadable)
        {
            self.watch_device(tearing);
        }
    }

    /// Watches the device beneath, which has received nothing.
    pub(super) fn watch_device(&mut self, tearing: Option<Tearing>) {
        self.device.watch();
        if self.restarted.is_some() {
            self.restarted = Some(Arc::new(Mutex::new(self.device.fork())));
        }
        self.watch = Some(Box::new(Watch::new(&self.rules, tearing)));
    }

    /// The fate of a request that arrives at `now` as far as units decide it that were torn.
    pub(super) fn meet_torn_units(&mut self, now: Instant, request: &Request) -> Fate {
        let mut fate = Fate::default();
        let Some(watch) = self.watch.as_mut().filter(|_| request.op == Operation::Read) else { return fate };
        let Some(block) = watch.first_unreadable(request) else { return fate };
        let loses_power = |rule: &Rule| matches!(rule.action, Action::PowerLoss(_));
        let number = self.rules.iter().position(loses_power).expect("the power was lost");
        fate.spoil(Duration::ZERO, (block - request.lbn) as u32);
        fate.faults = FaultSet::NONE.with(self.first_number + number);
        watch.note_strike(now, &self.rules[number], request);
        fate
    }

    /// The device has lost its power: it begins anew, without what it held.
    pub(super) fn restart(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.take_cut(&mut *self.device, &self.clock, now);
        }
        self.inside.clear();
        self.is_fresh = true;
        let restarted = self.restarted.as_ref().expect("there is one where power may be lost");
        restarted.lock().unwrap_or_else(PoisonError::into_inner).fork_into(&mut self.device);
    }
}
