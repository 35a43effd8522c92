//! Events that nobody has taken yet.

use std::collections::VecDeque;

use seeklab_core::{Event, Instant};

use super::ROOM;

/// Events in order of time.
#[derive(Debug)]
pub(crate) struct Noted {
    events: VecDeque<Event>,
    /// Events up to this time have been handed out.
    handed_out: Option<Instant>,
}

impl Noted {
    pub(crate) fn new() -> Self {
        Self { events: VecDeque::with_capacity(ROOM), handed_out: None }
    }

    /// Adds an event of work in the background, unless a copy that was ahead has handed it out.
    pub(crate) fn push_unless_known(&mut self, event: Event) {
        if self.handed_out.is_none_or(|handed_out| event.time > handed_out) {
            self.push(event);
        }
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, event: Event) {
        let place = self.events.partition_point(|other| other.time <= event.time);
        self.events.insert(place, event);
    }

    /// Takes blocks `start..end` out of what is written behind `time`.
    pub(crate) fn take_out(&mut self, start: u64, end: u64, time: Instant) {
        let mut place = self.events.partition_point(|event| event.time <= time);
        while let Some(event) = self.events.get(place) {
            let event_end = event.lbn + u64::from(event.blocks);
            if end <= event.lbn || event_end <= start {
                place += 1;
                continue;
            }
            let event = self.events.remove(place).expect("it is there");
            let written = event.lbn + u64::from(event.on_media(time).blocks);
            let parts = [
                event.part(event.lbn, written),
                event.part(written, start),
                event.part(written.max(end), event_end),
            ];
            for part in parts.into_iter().flatten() {
                place += usize::from(part.time <= time);
                self.push(part);
            }
        }
    }

    /// The time of the last event.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.events.back().map(|event| event.time)
    }

    /// Hands out the events up to `now`.
    pub(crate) fn hand_out(&mut self, now: Instant, events: &mut Vec<Event>) {
        let known = self.events.partition_point(|event| event.time <= now);
        events.extend(self.events.drain(..known));
        self.handed_out = self.handed_out.max(Some(now));
    }

    /// Forgets the events up to `now`, which a copy has handed out.
    pub(crate) fn forget(&mut self, now: Instant) {
        let known = self.events.partition_point(|event| event.time <= now);
        self.events.drain(..known);
        self.handed_out = self.handed_out.max(Some(now));
    }
}

impl Clone for Noted {
    fn clone(&self) -> Self {
        let mut clone = Self::new();
        clone.clone_from(self);
        clone
    }

    fn clone_from(&mut self, source: &Self) {
        self.events.clear();
        self.events.reserve(source.events.capacity());
        self.events.extend(source.events.iter().cloned());
        self.handed_out = source.handed_out;
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{EventKind, RequestId};

    use super::*;

    #[test]
    fn blocks_taken_out_of_a_media_write_leave_the_others_at_their_times() {
        let us = |us: u64| Instant::from_ns(us * 1_000);
        let mut noted = Noted::new();
        noted.push(Event::durable(RequestId(1), 100, 10, us(0), us(100)));
        noted.push(Event::durable(RequestId(2), 200, 10, us(100), us(200)));
        noted.take_out(104, 106, us(40));
        noted.take_out(195, 205, us(120));
        noted.take_out(200, 210, us(200));
        let mut events = Vec::new();
        noted.hand_out(us(1000), &mut events);
        let shown = |event: &Event| match event.kind {
            EventKind::Durable { begun } => (event.lbn, event.blocks, begun, event.time),
            _ => unreachable!("no other was noted"),
        };
        let shown: Vec<_> = events.iter().map(shown).collect();
        assert_eq!(
            shown,
            [
                (100, 4, us(0), us(40)),
                (106, 4, us(60), us(100)),
                (200, 2, us(100), us(120)),
                (205, 5, us(150), us(200)),
            ]
        );
    }
}
