//! Events of a device with faults.

use std::collections::VecDeque;

use seeklab_core::{
    DataEffect, Device, Duration, Effect, Event, EventKind, Instant, Operation, Request, RequestId,
};

use super::clock::DeviceClock;
use super::rule::{Action, Rule};
use super::schedule::Window;
use crate::durability::Noted;

/// Time within which a media write that is under way ends.
const MEDIA_WRITE_MAX: Duration = Duration::from_s(60);

/// Writes that do not reach the media as they arrived that are remembered. Later ones push the oldest out: their blocks
/// are on the media by then.
const SPOILT_MAX: usize = 4096;

/// Events and state of a watched device with faults.
#[derive(Debug)]
pub struct Watch {
    events: Noted,
    /// Of each fault the window of which the next change is to be noted, and true if its start has been.
    windows: Vec<(Window, bool)>,
    spoilt: VecDeque<Spoilt>,
    /// Time of the last request that the device got.
    issued: Instant,
    scratch: Vec<Event>,
}

/// A write that does not reach the media as it arrived.
#[derive(Debug, Clone, Copy)]
struct Spoilt {
    request: RequestId,
    /// First block that is not written.
    end: u64,
    /// Blocks to the place that is written instead.
    displaced: i64,
}

impl Spoilt {
    /// The write, if it fails behind `good_blocks` or has that effect.
    fn of(request: &Request, good_blocks: Option<u32>, effect: DataEffect) -> Option<Self> {
        if request.op == Operation::Read {
            return None;
        }
        let (blocks, displaced) = match (good_blocks, effect.effect()) {
            (Some(good), _) | (None, Effect::Torn(good)) => (good, 0),
            (None, Effect::Misdirected(blocks)) => (request.blocks, i64::from(blocks)),
            _ => return None,
        };
        Some(Self { request: request.id, end: request.lbn + u64::from(blocks), displaced })
    }

    /// Effect on the event that blocks of it are durable.
    fn spoil(&self, event: &Event) -> Option<Event> {
        let good = self.end.saturating_sub(event.lbn).min(u64::from(event.blocks));
        let mut event = event.part(event.lbn, event.lbn + good)?;
        event.lbn = event.lbn.checked_add_signed(self.displaced).expect("the wrong place lies in the device");
        Some(event)
    }
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
    pub fn note_issued(
        &mut self,
        now: Instant,
        request: &Request,
        good_blocks: Option<u32>,
        effect: DataEffect,
    ) {
        self.issued = now;
        let Some(spoilt) = Spoilt::of(request, good_blocks, effect) else { return };
        if self.spoilt.len() == SPOILT_MAX {
            self.spoilt.pop_front();
        }
        self.spoilt.push_back(spoilt);
    }

    /// Takes the events of `device`, whose clock is `clock`, up to `now`; to be called before the clock is changed.
    pub fn take(&mut self, device: &mut dyn Device, clock: &DeviceClock, now: Instant) {
        device.events(clock.inside(now), &mut self.scratch);
        for mut event in self.scratch.drain(..) {
            event.time = clock.outside(event.time).min(now).max(self.issued);
            if let EventKind::Durable { begun } = &mut event.kind {
                *begun = clock.outside(*begun).min(event.time);
                let spoilt = self.spoilt.iter().find(|spoilt| Some(spoilt.request) == event.request);
                if let Some(spoilt) = spoilt {
                    let Some(spoiled) = spoilt.spoil(&event) else { continue };
                    event = spoiled;
                }
            }
            self.events.push(event);
        }
    }

    /// Takes what the media writes of `device` that are under way at `now` have written by then, and forgets what is to
    /// come. The device has lost its power and is not used any more.
    pub fn take_cut(&mut self, device: &mut dyn Device, clock: &DeviceClock, now: Instant) {
        let mut lost = Vec::new();
        while let Some(event) = device.next_event() {
            device.poll(event, &mut lost);
        }
        device.events(clock.inside(now) + MEDIA_WRITE_MAX, &mut self.scratch);
        for mut event in self.scratch.drain(..) {
            let EventKind::Durable { begun } = &mut event.kind else { continue };
            event.time = clock.outside(event.time);
            *begun = clock.outside(*begun).min(event.time);
            let spoilt = self.spoilt.iter().find(|spoilt| Some(spoilt.request) == event.request);
            let Some(event) = spoilt.map_or(Some(event.clone()), |spoilt| spoilt.spoil(&event)) else {
                continue;
            };
            let written = u64::from(event.on_media(now).blocks);
            if let Some(written) = event.part(event.lbn, event.lbn + written) {
                self.events.push(written);
            }
        }
        self.spoilt.clear();
    }

    /// Hands out the events up to `now`.
    pub fn hand_out(&mut self, rules: &[Rule], now: Instant, events: &mut Vec<Event>) {
        for (rule, (window, begun)) in rules.iter().zip(&mut self.windows) {
            let (begins, ends) = match rule.action {
                Action::Gone(_) => (EventKind::Gone, Some(EventKind::Back)),
                Action::Stall | Action::Slow(_) | Action::Cap(_) => {
                    (EventKind::Fault(rule.name.clone()), None)
                }
                Action::PowerLoss(_) => (EventKind::PowerLoss, Some(EventKind::Back)),
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
