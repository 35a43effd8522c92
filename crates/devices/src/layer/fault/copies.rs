//! Copies of a layer: its state apart from that of its device.

use std::collections::VecDeque;

use super::Fault;

/// Makes `target` as `source`, with as much room, so that a fork grows only when its source has.
fn copy_queue<T: Copy>(target: &mut VecDeque<T>, source: &VecDeque<T>) {
    target.clear();
    target.reserve(source.capacity());
    target.extend(source);
}

impl Fault {
    /// Copies the state of `other`, which has the same faults, apart from that of its device.
    pub(super) fn copy_state(&mut self, other: &Self) {
        self.states.iter_mut().zip(&other.states).for_each(|(state, other)| state.copy_from(other));
        self.clock.copy_from(&other.clock);
        self.factor = other.factor;
        self.number = other.number;
        self.restarted.clone_from(&other.restarted);
        self.copied.clone_from(&other.copied);
        self.is_fresh = other.is_fresh;
        self.now = other.now;
        self.changed = other.changed;
        self.idle_since = other.idle_since;
        self.quiet_until = other.quiet_until;
        self.limits_busy_time = other.limits_busy_time;
        self.passes_until = other.passes_until;
        self.gates.clone_from(&other.gates);
        self.inside.copy_from(&other.inside);
        copy_queue(&mut self.hanging, &other.hanging);
        copy_queue(&mut self.held, &other.held);
        self.watch.clone_from(&other.watch);
        self.is_watched = other.is_watched;
    }
}
