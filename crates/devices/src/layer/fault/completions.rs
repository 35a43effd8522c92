//! Completions and events of the device beneath, and what the faults make of them.

use seeklab_core::{Completion, DataEffect, Device, Duration, Instant, Outcome};

use super::Fault;
use super::fate::{Fate, Taken};
use super::requests::Inside;

impl Fault {
    /// Takes what the device completes at `now`.
    pub(super) fn poll_device(&mut self, now: Instant) {
        let mut scratch = std::mem::take(&mut self.scratch);
        self.device.poll(self.clock.inside(now), &mut scratch);
        if let Some(watch) = &mut self.watch {
            scratch.iter().for_each(|completion| watch.note_completed(completion));
        }
        self.take_events(now, &scratch);
        let mut busy = Duration::ZERO;
        for mut completion in scratch.drain(..) {
            let taken = match self.inside.remove(completion.request.id) {
                None => Taken::plain(&completion),
                Some(Inside { answered: true, .. }) => continue,
                Some(Inside { taken, .. }) => taken,
            };
            self.translate(&mut completion, now, &taken);
            let Fate { delay, busy: longer, status, caps, faults, .. } = taken.fate;
            completion.faults = completion.faults.and(faults);
            let mut late = Duration::ZERO;
            if !longer.is_zero() {
                // The device is busy with one after the other.
                busy += longer;
                late = busy;
            }
            if caps != 0 {
                late = self.leave(caps, &completion, late);
            }
            completion.completed += late + delay;
            completion.breakdown.internal += late + delay;
            if let Some((status, good_blocks)) = status {
                let good_blocks = if status.is_success() { completion.request.blocks } else { good_blocks };
                completion.outcome = Outcome { status, good_blocks, ..completion.outcome };
            }
            let outcome = &mut completion.outcome;
            if !outcome.status.is_success() {
                outcome.effect = DataEffect::NONE;
            } else if outcome.effect.is_none() {
                outcome.effect = taken.fate.effect;
            }
            self.hold(completion);
        }
        self.scratch = scratch;
        if !busy.is_zero() {
            self.clock.pause(now, busy);
        }
        while self.inside.len() < self.depth
            && let Some(place) = self.hanging.iter().position(|hanging| hanging.for_room)
        {
            let waited = self.hanging.remove(place).expect("the position was found");
            self.issue(now, waited.taken);
        }
        // Plain requests are older than every change of the clock.
        if self.clock.is_long() && !self.inside.has_plain() {
            let oldest = self.inside.oldest();
            self.clock.forget_before(oldest.unwrap_or_else(|| self.clock.inside(now)));
        }
    }

    /// Takes the events of the device up to `now`, as far as its clock says that they have happened. The device has just
    /// handed out `completed`.
    pub(super) fn take_events(&mut self, now: Instant, completed: &[Completion]) {
        if let Some(watch) = &mut self.watch {
            let is_completed = |id| completed.iter().any(|completion| completion.request.id == id);
            let is_outstanding = |id| self.inside.keeps(id) && !is_completed(id);
            watch.take(&mut *self.device, &self.clock, now, is_outstanding);
            if !self.is_watched {
                watch.forget(now);
            }
        }
    }

    /// Turns a completion that the device hands out at `now` into one outside.
    fn translate(&self, completion: &mut Completion, now: Instant, taken: &Taken) {
        let within = completion.completed - completion.submitted;
        let queued = completion.started - completion.submitted;
        let outside = |time: Instant| self.clock.outside(time).max(taken.submitted);
        completion.request = taken.request;
        completion.submitted = taken.submitted;
        completion.issued = outside(completion.issued);
        completion.started = outside(completion.started).min(now);
        // A slow clock rounds to whole nanoseconds; nothing completes before it was looked for.
        completion.completed = now;
        completion.queue_length = taken.queue_length;
        let longer = (completion.completed - completion.submitted) - within;
        let waited = (completion.started - completion.submitted).saturating_sub(queued);
        let waited = if waited < longer { waited } else { longer };
        completion.breakdown.queue += waited;
        completion.breakdown.internal += longer - waited;
    }
}
