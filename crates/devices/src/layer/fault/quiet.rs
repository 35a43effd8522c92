//! The short way through a layer in which nothing strikes: requests go to the device and completions come from it as
//! they are.

use seeklab_core::{Completion, Device, Instant};

use super::requests::Inside;
use super::{Fault, Taken};
use crate::fault::{Action, Rule};

impl Fault {
    /// Returns true if the layer changes nothing up to `now`: no window begins or ends, the time of the device is the
    /// time outside, and no request waits or has been struck.
    pub(super) fn is_quiet(&self, now: Instant) -> bool {
        now < self.quiet_until
            && self.struck == 0
            && self.answered == 0
            && self.held.is_empty()
            && self.hanging.is_empty()
            && self.watch.is_none()
            && !self.limits_busy_time
            && self.clock.is_even()
    }

    /// Polls a device in a quiet layer.
    pub(super) fn pass_completions(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let first = completions.len();
        self.device.poll(now, completions);
        for completion in &mut completions[first..] {
            let inside = self.inside.remove(completion.request.id);
            completion.queue_length = inside.taken.queue_length;
            self.idle_since = completion.completed;
        }
        self.now = now;
    }

    /// Hands a device in a quiet layer a request that nothing has struck.
    pub(super) fn pass_request(&mut self, now: Instant, taken: Taken) {
        self.now = now;
        self.inside.insert(Inside { taken, received: now, answered: false, is_plain: true });
        self.is_fresh = false;
        self.device.submit(now, taken.request).expect("the request was checked, and there is room");
    }

    /// The time at which the next window begins or ends.
    pub(super) fn next_window(&self) -> Instant {
        let changes = self.states.iter().filter_map(|state| state.window.change_after(self.changed));
        changes.min().unwrap_or(Instant::MAX)
    }
}

/// Returns true if a rule acts at a time that depends on how long the device is busy.
pub(super) fn limits_busy_time(rules: &[Rule]) -> bool {
    rules.iter().any(|rule| matches!(&rule.action, Action::Throttle(throttle) if throttle.limits_busy_time()))
}
