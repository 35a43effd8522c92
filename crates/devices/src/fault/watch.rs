//! Events of a device with faults.

use std::collections::VecDeque;

use seeklab_core::{Device, Event, EventKind, Instant, Operation, Request, RequestId};

use super::clock::DeviceClock;
use super::rule::{Action, Rule};
use super::schedule::Window;
use crate::durability::Noted;

/// Failed writes whose good blocks are remembered. Later ones push the oldest out: their blocks are on the media by then.
const SPOILT_MAX: usize = 4096;

/// Events and state of a watched device with faults.
#[derive(Debug)]
pub struct Watch {
    events: Noted,
    /// Of each fault the window of which the next change is to be noted, and true if its start has been.
    windows: Vec<(Window, bool)>,
    /// Writes that fail at a block, and that block.
    spoilt: VecDeque<(RequestId, u64)>,
    /// Time of the last request that the device got.
    issued: Instant,
    scratch: Vec<Event>,
}

impl Watch {
    /// Of a device that has received nothing.
    pub fn new(rules: &[Rule]) -> Self {
        Self {
            events: Noted::new(),
            windows: rules.iter().map(|rule| (rule.schedule.first(), false)).collect(),
            spoilt: VecDeque::new(),
            issued: Instant::ZERO,
            scratch: Vec::new(),
        }
    }

    /// The fault begins to last at `now`, with no request of its own.
    pub fn note_begun(&mut self, now: Instant, rule: &Rule) {
        let kind = EventKind::Fault(rule.name.clone());
        self.events.push(Event { time: now, device: 0, request: None, lbn: 0, blocks: 0, kind });
    }

    /// The fault struck the request.
    pub fn note_strike(&mut self, now: Instant, rule: &Rule, request: &Request) {
        let Request { id, lbn, blocks, .. } = *request;
        let kind = EventKind::Fault(rule.name.clone());
        self.events.push(Event { time: now, device: 0, request: Some(id), lbn, blocks, kind });
    }

    /// The device gets a request at `now`, with its events taken up to then; one that fails, behind `good_blocks`.
    pub fn note_issued(&mut self, now: Instant, request: &Request, good_blocks: Option<u32>) {
        self.issued = now;
        let Some(good_blocks) = good_blocks.filter(|_| request.op != Operation::Read) else { return };
        if self.spoilt.len() == SPOILT_MAX {
            self.spoilt.pop_front();
        }
        self.spoilt.push_back((request.id, request.lbn + u64::from(good_blocks)));
    }

    /// Takes the events of `device`, whose clock is `clock`, up to `now`; to be called before the clock is changed.
    pub fn take(&mut self, device: &mut dyn Device, clock: &DeviceClock, now: Instant) {
        device.events(clock.inside(now), &mut self.scratch);
        for mut event in self.scratch.drain(..) {
            event.time = clock.outside(event.time).min(now).max(self.issued);
            if let EventKind::Durable { begun } = &mut event.kind {
                *begun = clock.outside(*begun).min(event.time);
                let spoilt = self.spoilt.iter().find(|(request, _)| Some(*request) == event.request);
                if let Some((_, end)) = spoilt {
                    let good = end.saturating_sub(event.lbn).min(u64::from(event.blocks));
                    if good == 0 {
                        continue;
                    }
                    event = event.part(event.lbn, event.lbn + good).expect("some are good");
                }
            }
            self.events.push(event);
        }
    }

    /// Hands out the events up to `now`.
    pub fn hand_out(&mut self, rules: &[Rule], now: Instant, events: &mut Vec<Event>) {
        for (rule, (window, begun)) in rules.iter().zip(&mut self.windows) {
            let (begins, ends) = match rule.action {
                Action::Gone(_) => (EventKind::Gone, Some(EventKind::Back)),
                Action::Stall | Action::Slow(_) | Action::Cap(_) => {
                    (EventKind::Fault(rule.name.clone()), None)
                }
                _ => continue,
            };
            let event = |time, kind| Event { time, device: 0, request: None, lbn: 0, blocks: 0, kind };
            loop {
                if !*begun && window.start <= now {
                    *begun = true;
                    self.events.push(event(window.start, begins.clone()));
                }
                if !*begun || window.end > now {
                    break;
                }
                if let Some(kind) = ends.clone() {
                    self.events.push(event(window.end, kind));
                }
                let next = rule.schedule.advance(*window, window.end);
                if next == *window {
                    // The last one is over: it is noted once.
                    window.end = Instant::MAX;
                    break;
                }
                (*window, *begun) = (next, false);
            }
        }
        self.events.hand_out(now, events);
    }
}

impl Clone for Watch {
    fn clone(&self) -> Self {
        Self {
            events: self.events.clone(),
            windows: self.windows.clone(),
            spoilt: self.spoilt.clone(),
            issued: self.issued,
            scratch: Vec::new(),
        }
    }

    fn clone_from(&mut self, source: &Self) {
        self.events.clone_from(&source.events);
        self.windows.clone_from(&source.windows);
        self.spoilt.clone_from(&source.spoilt);
        self.issued = source.issued;
    }
}
