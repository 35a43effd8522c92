//! The short way through a layer in which nothing strikes: requests go to the device and completions come from it as
//! they are.
//!
//! ```text
//!              ┌── every gate lets it pass ──▶ the device's own answer to the submission
//! submit ──────┤ quiet
//!              └── otherwise ──▶ the rules, which may end the quiet
//! poll, next_event ── quiet ──▶ the device's own
//! ```
//! The layer is quiet before the next change of a window as long as it holds no request that was struck or waits, and
//! the time of the device is the time outside. Then it counts the requests in the device and remembers nothing else of them.

use seeklab_core::{Completion, Device, Instant, Rejected, Request};

use super::Fault;
use crate::fault::{Action, Rule};

impl Fault {
    /// Returns true if the layer changes nothing up to `now`, apart from requests that arrive.
    #[inline]
    pub(super) fn is_quiet(&self, now: Instant) -> bool {
        now < self.passes_until
    }

    /// Finds out whether the layer is quiet; to be called behind everything that may change that.
    pub(super) fn settle(&mut self) {
        let is_quiet = self.inside.are_plain()
            && self.held.is_empty()
            && self.hanging.is_empty()
            && self.watch.is_none()
            && !self.limits_busy_time
            && self.clock.is_even();
        self.passes_until = if is_quiet { self.quiet_until } else { Instant::ZERO };
        if is_quiet {
            let pairs = self.rules.iter().zip(&self.states);
            self.gates.clear();
            self.gates.extend(pairs.filter_map(|(rule, state)| rule.gate(state, self.now)));
        }
    }

    /// Polls a device in a quiet layer.
    #[inline]
    pub(super) fn pass_completions(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.now = now;
        let first = completions.len();
        self.device.poll(now, completions);
        if let [.., last] = &completions[first..] {
            self.idle_since = last.completed;
            self.inside.remove_plain(completions.len() - first);
        }
    }

    /// Returns true if a quiet layer does nothing to a request.
    #[inline]
    pub(super) fn lets_pass(&self, request: &Request) -> bool {
        let queue_length = self.inside.len() as u32;
        self.gates.iter().all(|gate| gate.lets_pass(self.number, request, queue_length))
    }

    /// Hands a device in a quiet layer a request that nothing strikes.
    ///
    /// # Errors
    /// As [`Device::submit`]: the device and the layer hold the same requests and reject the same.
    #[inline]
    pub(super) fn pass_request(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        self.device.submit(now, request)?;
        self.inside.add_plain();
        self.number += 1;
        self.now = now;
        self.is_fresh = false;
        Ok(())
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
