//! Requests that arrive, and the faults that strike them.

use seeklab_core::{Duration, Instant, Request, Status};

use super::Fault;
use super::fate::Arrival;
use crate::fault::Action;

impl Fault {
    /// Reception of a request that arrives at `now`.
    pub(super) fn meet(&mut self, now: Instant, request: &Request, queue_length: u32) -> Arrival {
        let mut fate = self.meet_torn_units(now, request);
        let mut hangs: Option<(Duration, Instant)> = None;
        let mut fails = None;
        let mut throttles = false;
        for (number, (rule, state)) in self.rules.iter().zip(&mut self.states).enumerate() {
            let detour = rule.detour(state, self.number, request);
            let strike = rule.strike(state, now, self.number, request, queue_length);
            fate.busy += detour.unwrap_or_default();
            if strike.is_some() || detour.is_some() {
                fate.faults = fate.faults.with(self.first_number + number);
            }
            // What strikes the whole device is an event when it begins.
            let lasts =
                matches!(rule.action, Action::Cap(_) | Action::Throttle(_) | Action::Stall | Action::Slow(_));
            if let Some(watch) =
                self.watch.as_mut().filter(|_| (strike.is_some() || detour.is_some()) && !lasts)
            {
                watch.note_strike(now, rule, request);
            }
            let Some(strike) = strike else { continue };
            match rule.action {
                Action::Delay(_) => fate.delay += strike.length,
                Action::Busy(_) => fate.busy += strike.length,
                Action::Recovered(_) | Action::Remapped(_) => fate.correct(strike.length),
                Action::MediumError { .. } => fate.spoil(strike.length, strike.bad_block.unwrap_or(0)),
                Action::Retries(_) => match strike.bad_block {
                    Some(bad_block) => fate.spoil(strike.length, bad_block),
                    None => fate.correct(strike.length),
                },
                Action::Cap(cap) => fate.caps |= cap.bit(),
                Action::Throttle(throttle) => {
                    let bytes = u64::from(request.blocks) * self.block_bytes;
                    if state.heat.add(&throttle, bytes) {
                        throttles = true;
                        if let Some(watch) = &mut self.watch {
                            watch.note_strike(now, rule, request);
                        }
                    }
                }
                Action::Fail(status, _) => {
                    fails.get_or_insert((status, strike.length));
                }
                Action::Gone(_) | Action::PowerLoss(_) => {
                    fails.get_or_insert((Status::Gone, strike.length));
                }
                Action::Hang(timeout) => drop(hangs.get_or_insert((timeout, state.window.end))),
                Action::IgnoreFua => fate.ignores_fua = true,
                // Of several, the first applies.
                Action::Data(_) if fate.effect.is_none() => fate.effect = strike.effect,
                Action::Data(_) => {}
                Action::Stall | Action::Slow(_) => {}
            }
        }
        if throttles {
            self.begin(now);
        }
        match (fails, hangs) {
            (Some((status, takes)), _) => Arrival::Fails(status, takes, fate.faults),
            (None, Some((timeout, ends))) => Arrival::Hangs { timeout, ends, fate },
            (None, None) => Arrival::Device(fate),
        }
    }
}
