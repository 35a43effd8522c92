//! Faults that last for a window: pauses, speed and presence of the device.

use seeklab_core::{Completion, FaultSet, Instant, Status};

use super::failed::{failed, gone_within};
use super::fate::{Fate, Taken};
use super::{Fault, hold};
use crate::fault::Action;

impl Fault {
    /// Changes what lasts for a window: pauses, speed and presence.
    pub(super) fn change(&mut self, now: Instant) {
        for (rule, state) in self.rules.iter().zip(&mut self.states) {
            state.window = rule.schedule.advance(state.window, now);
            if let Action::Throttle(throttle) = rule.action
                && state.heat.crossing(&throttle).is_some_and(|crossing| crossing <= now)
            {
                state.heat.cross();
                if let Some(watch) = &mut self.watch {
                    watch.note_begun(now, rule);
                }
            }
        }
        self.changed = now;
        self.quiet_until = self.next_window();
        self.begin(now);
    }

    /// Begins what lasts at `now` and has not begun.
    pub(super) fn begin(&mut self, now: Instant) {
        self.take_events(now, &[]);
        let (mut factor, mut gone, mut loses_power) = (1.0, FaultSet::NONE, false);
        for (number, (rule, state)) in self.rules.iter().zip(&mut self.states).enumerate() {
            match rule.action {
                Action::Stall if state.begins(now) => {
                    self.clock.pause(now, state.window.end.saturating_since(now));
                }
                Action::Slow(of) if state.window.holds(now) => factor *= of,
                Action::Throttle(throttle) if state.heat.is_hot() && state.window.holds(now) => {
                    factor *= throttle.factor();
                }
                Action::Gone(_) if state.begins(now) => gone = gone.with(self.first_number + number),
                Action::PowerLoss(_) if state.begins(now) => {
                    gone = gone.with(self.first_number + number);
                    loses_power = true;
                }
                _ => {}
            }
        }
        if factor != self.factor {
            self.clock.slow(now, factor);
            self.factor = factor;
        }
        if !gone.is_empty() {
            self.go(now, gone);
        }
        if loses_power {
            self.restart(now);
        }
    }

    /// The device goes because of these faults: everything outstanding fails.
    fn go(&mut self, now: Instant, gone: FaultSet) {
        let struck = |taken: Taken| {
            let faults = taken.fate.faults.and(gone);
            Taken { fate: Fate { faults, ..taken.fate }, ..taken }
        };
        for completion in self.held.iter_mut().filter(|completion| completion.completed > now) {
            let Completion { request, submitted, queue_length, faults, outcome, .. } = *completion;
            let fate = Fate { faults, effect: outcome.effect, ..Fate::default() };
            let taken = Taken { request, submitted, queue_length, fate };
            *completion = gone_within(now, &struck(taken));
        }
        self.keep_plain();
        let held = &mut self.held;
        self.inside.answer(|taken| hold(held, gone_within(now, &struck(taken))));
        while let Some(hanging) = self.hanging.pop_front() {
            self.hold(failed(now, &struck(hanging.taken), Status::Gone));
        }
    }
}
