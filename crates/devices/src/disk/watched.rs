//! A watched disk: which written blocks are on the media, and since when.
//!
//! ```text
//! controller ─▶ WatchedMechanism ─▶ mechanism     the controller drives the mechanism through it,
//!                    │                            and says what it takes into its buffer
//!                    ▼
//!                MediaLog: blocks that wait, by the write that they belong to ─▶ events
//! ```
//! A media write carries the newest data of its blocks that the controller had taken in when it began; what comes while
//! it is under way waits for another. Discarded blocks wait no more: they are durable with their command.

use std::cell::RefCell;

use seeklab_core::{Angle, Duration, Event, Instant, Operation, Request, RequestId};

use super::electronics::{Electronics, Served};
use super::layout::Extent;
use super::mechanics::{Mechanics, Media, Position};
use super::mechanism::{AccessParts, Arm, Mechanism, Pass};
use crate::durability::{Noted, Waiting};

/// State of a watched disk.
#[derive(Debug)]
pub(super) struct Watch {
    log: MediaLog,
    /// The electronics and the log as of a later time than that of the last command.
    ahead: (Electronics<Arm>, MediaLog),
}

impl Watch {
    /// Of a disk whose electronics have served nothing.
    pub(super) fn new(electronics: &Electronics<Arm>) -> Self {
        Self { log: MediaLog::new(), ahead: (electronics.clone(), MediaLog::new()) }
    }

    /// Serves a request, and notes what is written meanwhile.
    pub(super) fn serve(
        &mut self,
        electronics: &mut Electronics<Arm>,
        mechanism: &Mechanism,
        now: Instant,
        request: &Request,
    ) -> Served {
        let watched = WatchedMechanism::new(mechanism, &mut self.log, (request.id, now));
        let served = electronics.serve(&watched, now, request);
        if request.op == Operation::Discard && request.blocks > 0 {
            self.log.discard(request, served.completed);
        }
        served
    }

    /// Does the background work that begins before `now`, and notes what is written.
    pub(super) fn work_until(
        &mut self,
        electronics: &mut Electronics<Arm>,
        mechanism: &Mechanism,
        now: Instant,
    ) {
        electronics.work_until(&WatchedMechanism::of_background(mechanism, &mut self.log), now);
    }

    /// Hands out the events up to `now`. Background work goes on in a copy, so that the time at which events are taken
    /// has no effect on the disk.
    pub(super) fn hand_out(
        &mut self,
        electronics: &Electronics<Arm>,
        mechanism: &Mechanism,
        now: Instant,
        events: &mut Vec<Event>,
    ) {
        let (ahead, log) = &mut self.ahead;
        ahead.clone_from(electronics);
        log.clone_from(&self.log);
        ahead.work_until(&WatchedMechanism::of_background(mechanism, log), now);
        log.events.hand_out(now, events);
        self.log.events.forget(now);
    }

    /// The time of the last event if the work in the background goes on for as long as there is some.
    pub(super) fn work_ends(&self, electronics: &Electronics<Arm>, mechanism: &Mechanism) -> Option<Instant> {
        let (mut ahead, mut log) = (electronics.clone(), self.log.clone());
        let far = Instant::from_ns(u64::MAX / 2);
        ahead.work_until(&WatchedMechanism::of_background(mechanism, &mut log), far);
        log.events.last()
    }
}

impl Clone for Watch {
    fn clone(&self) -> Self {
        Self { log: self.log.clone(), ahead: self.ahead.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        // What is ahead is made anew whenever it is needed.
        self.log.clone_from(&source.log);
    }
}

/// Written blocks that wait for the media, and the events of those that got there.
#[derive(Debug)]
struct MediaLog {
    /// By request, and the time at which its command began.
    waiting: Waiting<(RequestId, Instant)>,
    events: Noted,
}

impl MediaLog {
    fn new() -> Self {
        Self { waiting: Waiting::new(), events: Noted::new() }
    }

    /// The blocks of a discard are durable at `time`, whatever a media write that is under way leaves there.
    fn discard(&mut self, request: &Request, time: Instant) {
        self.waiting.remove(request.lbn, request.end(), |_, _, _| {});
        self.events.take_out(request.lbn, request.end(), time);
        self.events.push(Event::durable(request.id, request.lbn, request.blocks, time, time));
    }

    /// The heads write the blocks of `pass`. Those that they skip at first take `front` at the end.
    fn write(&mut self, pass: &Pass, front: Duration) {
        let first = pass.lbn + u64::from(pass.wrapped);
        let end = pass.lbn + u64::from(pass.blocks);
        if pass.wrapped == 0 {
            return self.write_run(first, end, pass.start, pass.end);
        }
        // The rest of the track passes between the two runs.
        let front_begins = Instant::from_ns(pass.end.as_ns().saturating_sub(front.as_ns())).max(pass.start);
        let sector = front / u64::from(pass.wrapped);
        let back_ends = (pass.start + sector * (end - first)).min(front_begins);
        self.write_run(first, end, pass.start, back_ends);
        self.write_run(pass.lbn, first, front_begins, pass.end);
    }

    /// Blocks `start..end` are written one after the other from `begun` until `done`.
    fn write_run(&mut self, start: u64, end: u64, begun: Instant, done: Instant) {
        let time = u128::from((done - begun).as_ns());
        let at = |block: u64| {
            let passed = u128::from(block - start) * time / u128::from(end - start);
            begun + Duration::from_ns(passed as u64)
        };
        let events = &mut self.events;
        self.waiting.remove(start, end, |from, to, (request, since)| {
            // Heads that catch a sector as it begins to pass may have begun nanoseconds before.
            let begun = at(from).max(since);
            events.push_unless_known(Event::durable(request, from, (to - from) as u32, begun, at(to)));
        });
    }
}

impl Clone for MediaLog {
    fn clone(&self) -> Self {
        Self { waiting: self.waiting.clone(), events: self.events.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        self.waiting.clone_from(&source.waiting);
        self.events.clone_from(&source.events);
    }
}

/// A mechanism whose media writes are noted, while the command of one request is served.
struct WatchedMechanism<'a, M> {
    mechanism: &'a M,
    log: RefCell<&'a mut MediaLog>,
    /// The request, and the time at which its command began.
    request: (RequestId, Instant),
}

impl<'a, M> WatchedMechanism<'a, M> {
    const fn new(mechanism: &'a M, log: &'a mut MediaLog, request: (RequestId, Instant)) -> Self {
        Self { mechanism, log: RefCell::new(log), request }
    }

    /// Of background work, which takes nothing in: the request is not used.
    const fn of_background(mechanism: &'a M, log: &'a mut MediaLog) -> Self {
        Self::new(mechanism, log, (RequestId(0), Instant::ZERO))
    }
}

impl<M: Media> Media for WatchedMechanism<'_, M> {
    fn blocks(&self) -> u64 {
        self.mechanism.blocks()
    }

    fn extent(&self, lbn: u64, blocks: u32) -> Extent {
        self.mechanism.extent(lbn, blocks)
    }

    fn track_bounds(&self, lbn: u64) -> (u64, u64) {
        self.mechanism.track_bounds(lbn)
    }

    fn sectors_per_track(&self, zone: u32) -> u32 {
        self.mechanism.sectors_per_track(zone)
    }

    fn period(&self) -> Duration {
        self.mechanism.period()
    }

    fn latency(&self, now: Instant, angle: Angle) -> Duration {
        self.mechanism.latency(now, angle)
    }

    fn begins(&self, now: Instant, angle: Angle) -> Instant {
        self.mechanism.begins(now, angle)
    }

    fn passing(&self, zone: u32, sectors: u32) -> Duration {
        self.mechanism.passing(zone, sectors)
    }

    fn passed(&self, zone: u32, time: Duration) -> u32 {
        self.mechanism.passed(zone, time)
    }

    fn pass_in_order(&self, now: Instant, lbn: u64, extent: &Extent, parts: &mut AccessParts) -> Pass {
        self.mechanism.pass_in_order(now, lbn, extent, parts)
    }

    fn pass_on_arrival(&self, now: Instant, lbn: u64, extent: &Extent, parts: &mut AccessParts) -> Pass {
        self.mechanism.pass_on_arrival(now, lbn, extent, parts)
    }

    fn note_taken_in(&self, start: u64, end: u64) {
        self.log.borrow_mut().waiting.insert(start, end, self.request);
    }

    fn note_written(&self, pass: &Pass) {
        let front = self.mechanism.passing(pass.zone, pass.wrapped);
        self.log.borrow_mut().write(pass, front);
    }
}

impl<P: Position, M: Mechanics<P>> Mechanics<P> for WatchedMechanism<'_, M> {
    fn move_to(
        &self,
        arm: &mut P,
        now: Instant,
        extent: &Extent,
        write: bool,
        parts: &mut AccessParts,
    ) -> Instant {
        self.mechanism.move_to(arm, now, extent, write, parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    fn pass(lbn: u64, blocks: u32, start: u64, end: u64, wrapped: u32) -> Pass {
        Pass { lbn, blocks, start: us(start), end: us(end), wrapped, cylinder: 0, zone: 0, span: blocks }
    }

    /// Request, first block, blocks, and time in microseconds of the events up to `now`.
    fn events(log: &mut MediaLog, now: Instant) -> Vec<(u64, u64, u32, u64)> {
        let mut events = Vec::new();
        log.events.hand_out(now, &mut events);
        let shown =
            |event: &Event| (event.request.unwrap().0, event.lbn, event.blocks, event.time.as_ns() / 1_000);
        events.iter().map(shown).collect()
    }

    #[test]
    fn media_write_makes_the_newest_data_of_each_block_durable_once() {
        let mut log = MediaLog::new();
        log.waiting.insert(100, 110, (RequestId(1), us(0)));
        log.waiting.insert(104, 106, (RequestId(2), us(0)));
        log.write(&pass(100, 10, 0, 100, 0), Duration::ZERO);
        log.write(&pass(100, 10, 200, 300, 0), Duration::ZERO);
        assert_eq!(events(&mut log, us(50)), [(1, 100, 4, 40)]);
        assert_eq!(events(&mut log, us(1000)), [(2, 104, 2, 60), (1, 106, 4, 100)]);
    }

    #[test]
    fn write_on_arrival_makes_the_back_durable_before_the_front() {
        let mut log = MediaLog::new();
        log.waiting.insert(100, 110, (RequestId(1), us(0)));
        // A turn of 1 ms; each sector takes 10 us.
        log.write(&pass(100, 10, 0, 1000, 4), Duration::from_us(40));
        assert_eq!(events(&mut log, us(1000)), [(1, 104, 6, 60), (1, 100, 4, 1000)]);
    }

    #[test]
    fn discarded_blocks_wait_no_more() {
        let mut log = MediaLog::new();
        log.waiting.insert(100, 110, (RequestId(1), us(0)));
        log.discard(&Request::new(2, Operation::Discard, 102, 2), us(5));
        log.write(&pass(100, 10, 10, 110, 0), Duration::ZERO);
        assert_eq!(events(&mut log, us(1000)), [(2, 102, 2, 5), (1, 100, 2, 30), (1, 104, 6, 110)]);
    }

    #[test]
    fn event_that_a_copy_has_handed_out_is_not_noted_again() {
        let mut log = MediaLog::new();
        log.waiting.insert(100, 110, (RequestId(1), us(0)));
        log.events.forget(us(200));
        log.write(&pass(100, 10, 0, 100, 0), Duration::ZERO);
        assert_eq!(events(&mut log, us(1000)), []);
    }
}
