//! Losses of power of the device beneath.

use std::sync::PoisonError;

use seeklab_core::Instant;

use super::Fault;
use crate::fault::Action;

impl Fault {
    /// The next loss of power or return behind the last change, if the device has received anything since the last loss.
    pub(super) fn next_power_change(&self) -> Option<Instant> {
        let pairs = self.rules.iter().zip(&self.states).filter(|_| !self.is_fresh);
        let power = pairs.filter(|(rule, _)| matches!(rule.action, Action::PowerLoss(_)));
        power.filter_map(|(_, state)| state.window.change_after(self.changed)).min()
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
