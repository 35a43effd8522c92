//! Faults of time that count what passes: caps on the bandwidth, and throttling.

use seeklab_core::{ByteSize, Completion, Duration, Instant};

use super::Fault;
use crate::fault::Action;

impl Fault {
    /// Counts the load of a request that arrives at `now`, for the rules that throttle.
    pub(super) fn count_load(&mut self, now: Instant, outstanding: usize) {
        let idle_since = (outstanding == 0).then_some(self.idle_since);
        for (rule, state) in self.rules.iter().zip(&mut self.states) {
            if let Action::Throttle(throttle) = &rule.action {
                state.heat.arrive(throttle, now, idle_since);
            }
        }
    }

    /// Returns how much later than the completion a request leaves that the device is `late` with, behind the bytes
    /// that the caps let through before it.
    pub(super) fn leave(&mut self, caps: u32, completion: &Completion, late: Duration) -> Duration {
        let size = ByteSize::from_bytes(u64::from(completion.request.blocks) * self.block_bytes);
        let mut leaves = completion.completed + late;
        for (rule, state) in self.rules.iter().zip(&mut self.states) {
            if let Action::Cap(cap) = rule.action
                && cap.bit() & caps != 0
            {
                leaves = cap.leave(&mut state.pipe, completion.submitted, leaves, size);
            }
        }
        leaves - completion.completed
    }
}
