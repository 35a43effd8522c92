//! Events of a device with faults.

use std::collections::VecDeque;

use seeklab_core::{
    Completion, DataEffect, Device, Duration, Effect, Event, EventKind, Instant, Operation, Request,
    RequestId, Tearing,
};

use super::buffered::Buffered;
use super::clock::DeviceClock;
use super::data::DataFault;
use super::head_unit::HeadUnit;
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
    /// Earlier data of the blocks of such writes, if a fault can spoil a write.
    buffered: Option<Box<Buffered>>,
    /// The unit under the heads, if a fault loses the power.
    head_unit: Option<Box<HeadUnit>>,
    /// Time of the last request that the device got.
    issued: Instant,
    scratch: Vec<Event>,
    /// Blocks that a media write leaves durable.
    durable: Vec<Event>,
}

/// A write that does not reach the media as it arrived.
#[derive(Debug, Clone, Copy)]
struct Spoilt {
    request: RequestId,
    /// First block that is not written.
    end: u64,
    /// Blocks to the place that is written instead.
    displaced: i64,
    /// Time at which the device began it, by its clock, once it has completed.
    started: Option<Instant>,
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
        Some(Self { request: request.id, end: request.lbn + u64::from(blocks), displaced, started: None })
    }

    /// Effect on the event that blocks of it are durable.
    fn spoil(&self, event: &Event) -> Option<Event> {
        let good = self.end.saturating_sub(event.lbn).min(u64::from(event.blocks));
        let mut event = event.part(event.lbn, event.lbn + good)?;
        event.lbn = self.displace(event.lbn);
        Some(event)
    }

    /// The place that is written instead of a block.
    fn displace(&self, lbn: u64) -> u64 {
        lbn.checked_add_signed(self.displaced).expect("the wrong place lies in the device")
    }

    /// Blocks of such an event that keep what they had.
    fn kept(&self, event: &Event) -> (u64, u64) {
        let end = event.lbn + u64::from(event.blocks);
        let first = if self.displaced == 0 { self.end.clamp(event.lbn, end) } else { event.lbn };
        (first, end)
    }
}

impl Watch {
    /// Of a device that has received nothing, with that effect of a power loss on its media write in progress.
    pub fn new(rules: &[Rule], tearing: Option<Tearing>) -> Self {
        let loses_power = rules.iter().any(|rule| matches!(rule.action, Action::PowerLoss(_)));
        Self {
            events: Noted::new(),
            windows: rules.iter().map(|rule| (rule.schedule.first(), false)).collect(),
            spoilt: VecDeque::new(),
            buffered: rules.iter().any(spoils_writes).then(|| Box::new(Buffered::new())),
            head_unit: loses_power.then(|| Box::new(HeadUnit::new(tearing.unwrap_or_default()))),
            issued: Instant::ZERO,
            scratch: Vec::new(),
            durable: Vec::new(),
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

    /// The device hands out the completion of a request; its times are by the device's clock.
    pub fn note_completed(&mut self, completion: &Completion) {
        let request = &completion.request;
        if matches!(request.op, Operation::Read | Operation::Flush) || !completion.outcome.status.is_success()
        {
            return;
        }
        let spoilt = self.spoilt.iter_mut().find(|spoilt| spoilt.request == request.id);
        let (start, blocks) = completion.written_blocks();
        let mut end = start + u64::from(blocks);
        let mut place = (start, end);
        if let Some(spoilt) = spoilt {
            spoilt.started = Some(completion.started);
            place = (spoilt.displace(start), spoilt.displace(spoilt.end));
            end = if spoilt.displaced == 0 { spoilt.end } else { start };
        }
        if let Some(buffered) = &mut self.buffered {
            buffered.complete(request.id, completion.started, (start, end));
        }
        if let Some(head_unit) = &mut self.head_unit {
            head_unit.note_completed(place.0, place.1);
        }
    }

    /// Returns the first block of a read that cannot be read, since the power was lost while it was written.
    pub fn first_unreadable(&self, request: &Request) -> Option<u64> {
        self.head_unit.as_ref()?.first_unreadable(request.lbn, request.end())
    }

    /// Forgets the events up to `now`, which nobody wants.
    pub fn forget(&mut self, now: Instant) {
        self.events.forget(now);
    }

    /// Takes the events of `device`, whose clock is `clock`, up to `now`, with the completions up to then noted; to be
    /// called before the clock is changed. The device holds the requests of which `is_outstanding` returns true.
    pub fn take(
        &mut self,
        device: &mut dyn Device,
        clock: &DeviceClock,
        now: Instant,
        is_outstanding: impl Fn(RequestId) -> bool,
    ) {
        device.events(clock.inside(now), &mut self.scratch);
        let mut scratch = std::mem::take(&mut self.scratch);
        for mut event in scratch.drain(..) {
            event.time = clock.outside(event.time).min(now).max(self.issued);
            if let EventKind::Durable { begun } = &mut event.kind {
                *begun = clock.outside(*begun).min(event.time);
                let is_outstanding = event.request.is_some_and(&is_outstanding);
                self.make_durable(event, is_outstanding);
                for event in self.durable.drain(..) {
                    if let Some(head_unit) = &mut self.head_unit {
                        head_unit.note_durable(&event);
                    }
                    self.events.push(event);
                }
                continue;
            }
            self.events.push(event);
        }
        self.scratch = scratch;
    }

    /// Turns the event that blocks are durable in the device into `durable`, what is on the media: blocks that the write does
    /// not reach get what the buffer had for them.
    fn make_durable(&mut self, event: Event, is_outstanding: bool) {
        let Some(request) = event.request else { return };
        let spoilt = self.spoilt.iter().find(|spoilt| spoilt.request == request);
        let durable = match spoilt {
            None => Some(event),
            Some(spoilt) => {
                if let Some(buffered) = &mut self.buffered {
                    let events = &mut self.durable;
                    buffered.take_older(spoilt.started, spoilt.kept(&event), |from, to, older| {
                        let part =
                            Event { request: Some(older), ..event.part(from, to).expect("it has blocks") };
                        events.push(Event { time: event.time, ..part });
                    });
                }
                // The media write ends with its last block, good or bad: the events up to an earlier time may have been
                // handed out.
                spoilt.spoil(&event).map(|part| Event { time: event.time, ..part })
            }
        };
        if let (Some(buffered), Some(durable)) = (&mut self.buffered, &durable) {
            let blocks = (durable.lbn, durable.lbn + u64::from(durable.blocks));
            buffered.make_durable(request, is_outstanding, blocks);
        }
        self.durable.extend(durable);
    }

    /// Takes what the media writes of `device` that are under way at `now` have written by then, and forgets what is to
    /// come. The device has lost its power and is not used any more.
    pub fn take_cut(&mut self, device: &mut dyn Device, clock: &DeviceClock, now: Instant) {
        let mut lost = Vec::new();
        while let Some(event) = device.next_event() {
            device.poll(event, &mut lost);
        }
        device.events(clock.inside(now) + MEDIA_WRITE_MAX, &mut self.scratch);
        let mut scratch = std::mem::take(&mut self.scratch);
        for mut event in scratch.drain(..) {
            let EventKind::Durable { begun } = &mut event.kind else { continue };
            event.time = clock.outside(event.time);
            *begun = clock.outside(*begun).min(event.time);
            self.make_durable(event, false);
        }
        self.scratch = scratch;
        let Self { head_unit, durable, events, .. } = self;
        if let Some(head_unit) = head_unit {
            head_unit.tear(durable, now, |event| events.push(event));
        }
        durable.clear();
        self.spoilt.clear();
        self.buffered.iter_mut().for_each(|buffered| buffered.clear());
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

/// Returns true if the fault can keep blocks of a write from the media.
fn spoils_writes(rule: &Rule) -> bool {
    use DataFault::{Lost, MisdirectedWrite, Torn};
    matches!(
        rule.action,
        Action::MediumError { .. }
            | Action::Retries(_)
            | Action::Data(Lost | MisdirectedWrite(_) | Torn { .. })
    )
}

impl Clone for Watch {
    fn clone(&self) -> Self {
        Self {
            events: self.events.clone(),
            windows: self.windows.clone(),
            spoilt: self.spoilt.clone(),
            buffered: self.buffered.clone(),
            head_unit: self.head_unit.clone(),
            issued: self.issued,
            scratch: Vec::new(),
            durable: Vec::new(),
        }
    }

    fn clone_from(&mut self, source: &Self) {
        self.events.clone_from(&source.events);
        self.windows.clone_from(&source.windows);
        self.spoilt.clone_from(&source.spoilt);
        self.buffered.clone_from(&source.buffered);
        self.head_unit.clone_from(&source.head_unit);
        self.issued = source.issued;
    }
}
