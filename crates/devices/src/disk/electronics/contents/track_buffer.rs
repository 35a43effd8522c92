//! A model of a buffer of whole tracks: each block with the time at which it passed.

use std::collections::BTreeSet;
use std::ops::Range;

use seeklab_core::{BufferOutcome, Duration, Instant, Operation, Request};

use super::super::track_buffer::{TrackBuffer, TrackBufferParameters};
use super::super::{Controller, Served};
use super::{Arm, BLOCKS, Head, Model, Operations, Prediction, SECTOR, TRACK, TURN, compare, disk, until};

/// Contents of a segment: of one track.
#[derive(Debug, Clone)]
enum Content {
    Nothing,
    /// Read from the landing of the head on, and until the head left.
    Read {
        track: u64,
        landed: Instant,
        left: Instant,
    },
    Written {
        track: u64,
        blocks: BTreeSet<u64>,
    },
}

#[derive(Debug, Clone)]
struct Slot {
    content: Content,
    used: u64,
    /// Number of the destage that writes the last of its unwritten data.
    written_by: u64,
}

#[derive(Debug)]
struct Unwritten {
    blocks: Range<u64>,
    since: Instant,
}

struct TrackModel {
    rules: TrackBufferParameters,
    slots: Vec<Slot>,
    uses: u64,
    queue: Vec<Unwritten>,
    destages: u64,
    arm: Arm,
    media_free: Instant,
    filling: Option<usize>,
    ahead: Option<(u64, Instant)>,
    read_end: Option<u64>,
    run: u32,
    after_write: bool,
    /// Response time of the last command, had it not waited for the media.
    least: Duration,
    /// Completion of the last command.
    completed: Instant,
}

impl TrackModel {
    fn new(rules: TrackBufferParameters) -> Self {
        let slot = Slot { content: Content::Nothing, used: 0, written_by: 0 };
        Self {
            rules,
            slots: vec![slot; rules.segments as usize],
            uses: 0,
            queue: Vec::new(),
            destages: 0,
            arm: Arm::default(),
            media_free: Instant::ZERO,
            filling: None,
            ahead: None,
            read_end: None,
            run: 0,
            after_write: false,
            least: Duration::ZERO,
            completed: Instant::ZERO,
        }
    }

    fn read_slot(&self, of: u64) -> Option<usize> {
        self.slots.iter().position(|slot| matches!(slot.content, Content::Read { track, .. } if track == of))
    }

    fn written_slot(&self, of: u64) -> Option<usize> {
        self.slots
            .iter()
            .position(|slot| matches!(slot.content, Content::Written { track, .. } if track == of))
    }

    fn touch(&mut self, slot: usize) {
        self.uses += 1;
        self.slots[slot].used = self.uses;
    }

    fn full(&self) -> bool {
        self.queue.len() + 1 >= self.slots.len()
    }

    /// The least recently used slot that neither is being filled nor holds unwritten data.
    fn victim(&self, filling: Option<usize>) -> Option<usize> {
        let free = |index: &usize| filling != Some(*index) && self.slots[*index].written_by <= self.destages;
        (0..self.slots.len()).filter(free).min_by_key(|index| self.slots[*index].used)
    }

    // ---- Background.

    fn advance(&mut self, now: Instant) {
        while let Some(oldest) = self.queue.first() {
            if oldest.since.max(self.media_free) >= now {
                return;
            }
            self.destage();
        }
        self.finish(now);
        let Some((lbn, from)) = self.ahead else { return };
        let start = from.max(self.media_free);
        if self.filling.is_none() && start < now {
            self.ahead = None;
            if self.read_slot(lbn / TRACK).is_none() {
                let landed = self.arm.go(start, lbn);
                self.fill(lbn / TRACK, landed);
                self.finish(now);
            }
        }
    }

    fn destage(&mut self) -> Instant {
        let Unwritten { blocks, since } = self.queue.remove(0);
        self.destages += 1;
        let start = since.max(self.media_free);
        self.cut(start);
        self.ahead = None;
        self.media_free = self.arm.pass(start, blocks);
        start
    }

    fn fill(&mut self, track: u64, landed: Instant) {
        let slot = match self.read_slot(track) {
            Some(slot) => slot,
            None => {
                let victim = self.victim(None).unwrap();
                self.slots[victim].written_by = 0;
                victim
            }
        };
        self.slots[slot].content = Content::Read { track, landed, left: landed + TURN };
        self.touch(slot);
        self.filling = Some(slot);
    }

    fn left(&self, slot: usize) -> Instant {
        match self.slots[slot].content {
            Content::Read { left, .. } => left,
            _ => Instant::ZERO,
        }
    }

    fn cut(&mut self, time: Instant) {
        if let Some(slot) = self.filling.take()
            && let Content::Read { left, .. } = &mut self.slots[slot].content
        {
            *left = time.min(*left);
        }
    }

    fn finish(&mut self, now: Instant) {
        if let Some(slot) = self.filling.filter(|slot| self.left(*slot) <= now) {
            self.media_free = self.media_free.max(self.left(slot));
            self.filling = None;
        }
    }

    // ---- Commands.

    /// The slot that holds blocks of one track, and when the first and the last of them are there.
    fn found(&self, blocks: &Range<u64>, now: Instant) -> Option<(usize, Instant, Instant)> {
        let track = blocks.start / TRACK;
        if let Some(slot) = self.read_slot(track)
            && let Content::Read { landed, left, .. } = self.slots[slot].content
        {
            let passed = |lbn: u64| landed + (until(landed, lbn) + SECTOR).min(TURN);
            let last = blocks.clone().map(passed).max().unwrap();
            if last <= left {
                return Some((slot, landed + until(landed, blocks.start) + SECTOR, last));
            }
        }
        let slot = self.written_slot(track)?;
        let Content::Written { blocks: written, .. } = &self.slots[slot].content else { return None };
        blocks.clone().all(|lbn| written.contains(&lbn)).then_some((slot, now, now))
    }

    fn read(&mut self, now: Instant, request: &Request) -> Prediction {
        let sequential = self.read_end == Some(request.lbn);
        self.run = if sequential { self.run + 1 } else { 0 };
        self.read_end = Some(request.end());
        let (mut bus, mut passed): (Option<Instant>, Option<Instant>) = (None, None);
        let mut last_piece = 0..0;
        for blocks in pieces(request) {
            let (first, last) = if let Some((slot, first, last)) = self.found(&blocks, now) {
                self.touch(slot);
                bus = bus.or(Some(now + self.rules.read_hit));
                self.media_free = self.media_free.max(last);
                (first, last)
            } else {
                let landed = match passed {
                    None => self.go_to(now, blocks.start),
                    Some(passed) => {
                        let left = self.media_free.max(passed);
                        self.cut(left);
                        self.arm.go(left, blocks.start)
                    }
                };
                self.fill(blocks.start / TRACK, landed);
                let start = landed + until(landed, blocks.start);
                let end = start + SECTOR * (blocks.end - blocks.start);
                passed = Some(end);
                (start + SECTOR, end)
            };
            let begin = bus.map_or(first, |bus| bus.max(first));
            let moved = begin + self.rules.bus_per_block * (blocks.end - blocks.start);
            bus = Some(moved.max(last + self.rules.bus_per_block));
            last_piece = blocks;
        }
        if self.run >= self.rules.stream_after {
            let next = last_piece.start / TRACK * TRACK + TRACK;
            self.ahead = (next < BLOCKS).then_some((next, passed.unwrap_or(now)));
        }
        self.after_write = false;
        self.least = self.rules.read_hit + self.rules.bus_per_block * u64::from(request.blocks);
        self.completed = bus.unwrap();
        match (passed, self.completed > now + self.least) {
            (Some(_), _) => Prediction::Miss,
            (None, true) => Prediction::Wait,
            (None, false) => Prediction::Hit,
        }
    }

    fn go_to(&mut self, now: Instant, lbn: u64) -> Instant {
        while !self.queue.is_empty() {
            self.destage();
        }
        let start = self.media_free.max(now);
        self.ahead = None;
        self.cut(start);
        let there = self.arm.go(start, lbn);
        let rules = &self.rules;
        there.max(start + if self.after_write { rules.read_setup_after_write } else { rules.read_setup })
    }

    fn write(&mut self, now: Instant, request: &Request) -> Prediction {
        self.end_run();
        let zeroes = request.op == Operation::WriteZeroes;
        let bus = if zeroes { Duration::ZERO } else { self.rules.bus_per_block };
        let mut time = now;
        let mut own = None;
        let mut waited = false;
        for (index, blocks) in pieces(request).into_iter().enumerate() {
            let track = blocks.start / TRACK;
            if let Some(read) = self.read_slot(track) {
                self.touch(read);
            }
            let slot = loop {
                let ours = own.is_some_and(|own| own > self.destages);
                if !self.full() || ours {
                    let slot = self.written_slot(track).or_else(|| self.victim(self.filling));
                    if let Some(slot) = slot {
                        break slot;
                    }
                }
                self.destage();
                waited |= self.media_free > time;
                time = time.max(self.media_free);
            };
            if index == 0 {
                time += self.rules.write_hit;
            }
            time += bus * (blocks.end - blocks.start);
            self.take_in(slot, &blocks, time, &mut own);
        }
        if request.fua {
            while own.is_some_and(|own| own > self.destages) {
                self.destage();
            }
            self.completed = self.media_free.max(time);
            return Prediction::Miss;
        }
        self.completed = time;
        if waited { Prediction::Wait } else { Prediction::Hit }
    }

    /// Puts written blocks of one track in a slot and in the queue of what is unwritten.
    fn take_in(&mut self, slot: usize, blocks: &Range<u64>, since: Instant, own: &mut Option<u64>) {
        let track = blocks.start / TRACK;
        if self.written_slot(track) != Some(slot) {
            self.slots[slot].content = Content::Written { track, blocks: BTreeSet::new() };
        }
        self.touch(slot);
        let ours = own.is_some_and(|own| own > self.destages);
        match self.queue.last_mut() {
            Some(last) if ours || (self.media_free >= since && last.blocks.end == blocks.start) => {
                last.blocks.end = blocks.end;
                last.since = last.since.max(since);
            }
            _ => self.queue.push(Unwritten { blocks: blocks.clone(), since }),
        }
        let destage = self.destages + self.queue.len() as u64;
        *own = Some(destage);
        self.slots[slot].written_by = destage;
        if let Content::Written { blocks: written, .. } = &mut self.slots[slot].content {
            written.extend(blocks.clone());
        }
    }

    fn end_run(&mut self) {
        (self.run, self.read_end, self.after_write) = (0, None, true);
    }
}

/// Parts of a request on one track each.
fn pieces(request: &Request) -> Vec<Range<u64>> {
    let mut pieces = Vec::new();
    let mut start = request.lbn;
    while start < request.end() {
        let end = (start / TRACK * TRACK + TRACK).min(request.end());
        pieces.push(start..end);
        start = end;
    }
    pieces
}

impl Model for TrackModel {
    fn predict(&mut self, now: Instant, request: &Request) -> Prediction {
        self.advance(now);
        self.least = Duration::ZERO;
        match request.op {
            Operation::Read => self.read(now, request),
            Operation::Write | Operation::WriteZeroes => self.write(now, request),
            Operation::Flush => {
                self.end_run();
                while !self.queue.is_empty() {
                    self.destage();
                }
                self.completed = self.media_free.max(now + self.rules.write_hit);
                if self.media_free > now + self.rules.write_hit { Prediction::Wait } else { Prediction::Hit }
            }
            Operation::Discard => {
                self.end_run();
                self.completed = now + self.rules.write_hit;
                Prediction::Hit
            }
        }
    }

    fn holds(&self, request: &Request) -> bool {
        let first = &pieces(request)[0];
        match request.op {
            Operation::Read => self.found(first, Instant::ZERO).is_some(),
            Operation::Write | Operation::WriteZeroes => {
                let has_slot = || {
                    self.written_slot(first.start / TRACK).is_some() || self.victim(self.filling).is_some()
                };
                !request.fua && !self.full() && has_slot()
            }
            Operation::Flush => self.queue.is_empty(),
            Operation::Discard => true,
        }
    }

    fn served(&mut self, served: &Served) {
        assert_eq!(served.completed, self.completed, "{served:?}");
    }

    fn prediction(&self, served: &Served) -> Prediction {
        let waits = served.breakdown.service() > self.least;
        if self.least.is_zero() || served.buffer != BufferOutcome::Hit {
            Prediction::of(served)
        } else if waits {
            Prediction::Wait
        } else {
            Prediction::Hit
        }
    }
}

#[test]
fn track_buffer_holds_what_the_brute_force_model_says() {
    let share = super::OPERATIONS / 4;
    let mut all = super::Counts::default();
    for (index, (segments, stream_after, bus)) in
        [(3, 1, "0.1us"), (6, 2, "0.1us"), (10, 2, "2us"), (2, 3, "0.4us")].into_iter().enumerate()
    {
        let text = format!(
            "segments = {segments}\nstream_after = {stream_after}\nbus_per_block = \"{bus}\"\n\
             read_hit = \"0.3us\"\nstream_hit = \"0.3us\"\nstream_end = \"0us\"\nread_setup = \"8us\"\n\
             read_setup_after_write = \"9us\"\nwrite_hit = \"0.4us\"\nwrite_per_zone = \"0us\"\n\
             write_new_segment = \"0us\"\nwrite_into_read_segment = \"0us\"\nwrite_gap = \"0us\"\n\
             write_next_track = \"0us\"\nwrite_next_track_new = \"0us\""
        );
        let rules: TrackBufferParameters = toml::from_str(&text).unwrap();
        let controller = TrackBuffer::<Head>::new(&rules, &disk()).unwrap();
        let operations = Operations::new(100 + index as u64, 32);
        let counts = compare(&text, controller, TrackModel::new(rules), operations, share);
        println!("{segments} segments: {counts:?}");
        for (sum, count) in all.iter_mut().flatten().zip(counts.iter().flatten()) {
            *sum += count;
        }
    }
    assert!(all.iter().flatten().all(|count| *count > share / 100), "all predictions occur: {all:?}");
}
