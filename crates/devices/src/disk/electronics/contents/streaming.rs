//! A model of one read stream and recent writes: lists of blocks.

use std::collections::VecDeque;
use std::ops::Range;

use seeklab_core::{Duration, Instant, Operation, Request};

use super::super::streaming::{Consumption, LiveRule, Streaming, StreamingParameters};
use super::super::{Controller, Served};
use super::{Arm, BLOCKS, Head, Model, Operations, Prediction, SECTOR, TRACK, compare, disk, until};

/// Heads that read on.
#[derive(Debug, Clone, Copy)]
struct Run {
    next: u64,
    end: u64,
    at: Instant,
    arm: Arm,
}

impl Run {
    /// Passes over blocks until `now`; the track of the next block is reached at once.
    fn advance(&mut self, now: Instant) {
        while self.next < self.end && self.at < now {
            let mut arm = self.arm;
            let there = if self.next / TRACK == arm.track { self.at } else { arm.go(self.at, self.next) };
            let passed = there + until(there, self.next) + SECTOR;
            if passed > now {
                return;
            }
            *self = Self { next: self.next + 1, at: passed, arm, ..*self };
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.next >= self.end && self.at <= now
    }
}

#[derive(Debug, Clone)]
struct Stream {
    /// Blocks that the host has not read, in the buffer or about to be.
    blocks: VecDeque<u64>,
    /// The block after them.
    edge: u64,
    writes: u32,
}

#[derive(Debug, Clone)]
struct Unwritten {
    blocks: Vec<u64>,
    since: Instant,
}

struct StreamModel {
    rules: StreamingParameters,
    stream: Option<Stream>,
    run: Option<Run>,
    live: bool,
    arm: Arm,
    free: Instant,
    idle_since: Instant,
    kept: VecDeque<Vec<u64>>,
    unwritten: VecDeque<Unwritten>,
    writing: bool,
    /// Completion of the last command.
    completed: Instant,
}

fn list(blocks: Range<u64>) -> Vec<u64> {
    blocks.collect()
}

fn holds(list: &[u64], blocks: &Range<u64>) -> bool {
    blocks.clone().all(|lbn| list.contains(&lbn))
}

fn touches(list: &[u64], blocks: &Range<u64>) -> bool {
    list.iter().any(|lbn| blocks.contains(lbn))
}

impl StreamModel {
    fn new(rules: &StreamingParameters) -> Self {
        Self {
            rules: rules.clone(),
            stream: None,
            run: None,
            live: false,
            arm: Arm::default(),
            free: Instant::ZERO,
            idle_since: Instant::ZERO,
            kept: VecDeque::new(),
            unwritten: VecDeque::new(),
            writing: false,
            completed: Instant::ZERO,
        }
    }

    fn advance(&mut self, now: Instant, op: Operation) {
        let mut over = None;
        if let Some(run) = &mut self.run {
            run.advance(now);
            if run.is_over(now) {
                over = Some(run.at);
                self.arm = run.arm;
                self.free = self.free.max(run.at);
                self.run = None;
            }
        }
        self.live &= match self.rules.stream.live {
            LiveRule::IdleTimer { idle } => now.saturating_since(self.idle_since) <= idle,
            LiveRule::ReadingAhead { margin } => {
                let margin = if op == Operation::Read { margin } else { Duration::ZERO };
                self.run.is_some() || over.is_some_and(|over| now < over + margin)
            }
        };
        loop {
            if self.writing {
                if self.free > now {
                    return;
                }
                self.written();
            }
            let Some(oldest) = self.unwritten.front() else { return };
            let begin = self.free.max(oldest.since);
            if self.run.is_some() || begin >= now {
                return;
            }
            self.begin_writing(begin);
        }
    }

    fn begin_writing(&mut self, begin: Instant) {
        let blocks = &self.unwritten[0].blocks;
        self.free = self.arm.pass(begin, blocks[0]..blocks[blocks.len() - 1] + 1);
        self.writing = true;
    }

    fn written(&mut self) {
        self.unwritten.pop_front();
        self.writing = false;
    }

    fn write_oldest(&mut self, now: Instant, count: usize) {
        for _ in 0..count {
            if !self.writing {
                self.begin_writing(self.free.max(now));
            }
            self.written();
        }
    }

    /// Ends reading on at `now`; what has not passed is not in the stream.
    fn stop(&mut self, now: Instant) {
        let Some(mut run) = self.run.take() else { return };
        run.advance(now);
        self.arm = run.arm;
        self.free = self.free.max(now);
        if run.next < run.end && run.at < now {
            // A seek that has begun is finished.
            self.arm.track = run.next / TRACK;
        }
        if let Some(stream) = &mut self.stream {
            stream.blocks.retain(|lbn| *lbn < run.next);
            stream.edge = stream.edge.min(run.next);
        }
    }

    /// Number of the oldest unwritten extents that must be written before the media may be used for `blocks`.
    fn before(&self, blocks: &Range<u64>) -> usize {
        let last = self.unwritten.iter().rposition(|one| touches(&one.blocks, blocks));
        last.map_or(usize::from(self.writing), |last| last + 1)
    }

    fn read(&mut self, now: Instant, blocks: Range<u64>) -> Prediction {
        if self.streams(&blocks) {
            self.read_stream(now, blocks)
        } else if self.has_written(&blocks) {
            self.completed = self.answered(now, &blocks);
            Prediction::Hit
        } else {
            self.read_miss(now, blocks)
        }
    }

    /// True if the stream answers a read.
    fn streams(&self, blocks: &Range<u64>) -> bool {
        self.stream.as_ref().is_some_and(|stream| {
            let beyond = blocks.end > stream.edge;
            let waiting = || self.unwritten.iter().any(|one| touches(&one.blocks, blocks));
            stream.blocks.contains(&blocks.start) && (!beyond || (stream.writes == 0 && !waiting()))
        })
    }

    /// True if one write has brought all of those blocks.
    fn has_written(&self, blocks: &Range<u64>) -> bool {
        self.kept.iter().any(|kept| holds(kept, blocks))
            || self.unwritten.iter().any(|one| holds(&one.blocks, blocks))
    }

    /// Completion of a read that waits for nothing.
    fn answered(&self, now: Instant, blocks: &Range<u64>) -> Instant {
        now + self.rules.read_hit.written + self.rules.bus_per_block * (blocks.end - blocks.start)
    }

    /// Lets the stream go on to `end`.
    fn go_on(&mut self, now: Instant, end: u64) {
        let stream = self.stream.as_mut().unwrap();
        if end <= stream.edge {
            return;
        }
        let next = stream.edge;
        stream.blocks.extend(next..end);
        stream.edge = end;
        match &mut self.run {
            Some(run) => run.end = end,
            None => self.run = Some(Run { next, end, at: self.free.max(now), arm: self.arm }),
        }
    }

    fn read_stream(&mut self, now: Instant, blocks: Range<u64>) -> Prediction {
        self.go_on(now, blocks.end);
        self.completed = self.answered(now, &blocks);
        let mut prediction = Prediction::Hit;
        if let Some(run) = self.run
            && run.next < blocks.end
        {
            let mut to = Run { end: blocks.end, ..run };
            to.advance(Instant::from_ns(u64::MAX));
            let last = to.at + self.rules.bus_per_block;
            if last > self.completed {
                self.completed = last;
                prediction = Prediction::Wait;
            }
        }
        if self.live || self.rules.stream.consumed == Consumption::Always {
            let stream = self.stream.as_mut().unwrap();
            stream.blocks.retain(|lbn| *lbn >= blocks.end);
            let end = (blocks.end + u64::from(self.rules.stream.read_ahead)).min(BLOCKS);
            self.go_on(now, end);
        }
        prediction
    }

    fn read_miss(&mut self, now: Instant, blocks: Range<u64>) -> Prediction {
        self.stop(now);
        self.write_oldest(now, self.before(&blocks));
        let begin = (now + self.rules.read_miss.same_cylinder).max(self.free);
        self.free = self.arm.pass(begin, blocks.clone());
        // The bus is faster than the media.
        self.completed = self.free;
        let end = (blocks.end + u64::from(self.rules.stream.read_ahead)).min(BLOCKS);
        self.stream = Some(Stream { blocks: (blocks.end..end).collect(), edge: end, writes: 0 });
        self.run = Some(Run { next: blocks.end, end, at: self.free, arm: self.arm });
        self.live = true;
        Prediction::Miss
    }

    fn write(&mut self, now: Instant, request: &Request) -> Prediction {
        let blocks = request.lbn..request.end();
        let size = self.rules.write.segment_blocks as usize;
        if request.fua || request.blocks as usize > size {
            self.stop(now);
            self.write_oldest(now, self.before(&blocks));
            let begin = (now + self.rules.write.same_track).max(self.free);
            self.free = self.arm.pass(begin, blocks.clone());
            self.completed = self.free;
            self.note(&blocks);
            return Prediction::Miss;
        }
        let mut prediction = Prediction::Hit;
        let mut start = now;
        if !self.joins(&blocks) && self.unwritten.len() >= self.rules.write.segments as usize {
            self.stop(now);
            self.write_oldest(now, 1);
            start = now.max(self.free);
            prediction = Prediction::Miss;
        }
        let zeroes = request.op == Operation::WriteZeroes;
        let moved = if zeroes { 0 } else { u64::from(request.blocks) };
        let since = start + self.rules.write.same_track + self.rules.bus_per_block * moved;
        self.completed = since;
        self.stop(since);
        if self.joins(&blocks) {
            let newest = self.unwritten.back_mut().unwrap();
            newest
                .blocks
                .extend(blocks.clone().filter(|lbn| !newest.blocks.contains(lbn)).collect::<Vec<_>>());
            newest.since = since;
        } else {
            self.unwritten.push_back(Unwritten { blocks: list(blocks.clone()), since });
        }
        self.note(&blocks);
        prediction
    }

    /// True if the newest unwritten blocks take in those.
    fn joins(&self, blocks: &Range<u64>) -> bool {
        let Some(newest) = self.unwritten.back() else { return false };
        if self.writing && self.unwritten.len() == 1 {
            return false;
        }
        let (first, edge) = (newest.blocks[0], newest.blocks[newest.blocks.len() - 1] + 1);
        let size = u64::from(self.rules.write.segment_blocks);
        holds(&newest.blocks, blocks) || (edge == blocks.start && blocks.end - first <= size)
    }

    fn note(&mut self, blocks: &Range<u64>) {
        if let Some(stream) = &mut self.stream {
            stream.writes += 1;
            if stream.writes > u32::from(self.rules.stream.survives_writes) {
                self.stream = None;
            } else if stream.blocks.iter().any(|lbn| blocks.contains(lbn)) {
                stream.blocks.retain(|lbn| *lbn >= blocks.end);
            }
        }
        self.live = false;
        let (kept, size) = (self.rules.write.kept as usize, self.rules.write.segment_blocks as usize);
        if kept > 0 {
            if self.kept.len() == kept {
                self.kept.pop_front();
            }
            self.kept.push_back(list(blocks.clone()));
        }
        if let Some(newest) = self.kept.back_mut() {
            newest.drain(..newest.len().saturating_sub(size));
        }
    }
}

impl Model for StreamModel {
    fn predict(&mut self, now: Instant, request: &Request) -> Prediction {
        self.advance(now, request.op);
        match request.op {
            Operation::Read => self.read(now, request.lbn..request.end()),
            Operation::Write | Operation::WriteZeroes => self.write(now, request),
            Operation::Discard => {
                self.completed = now + self.rules.without_data;
                Prediction::Hit
            }
            Operation::Flush => {
                self.completed = now + self.rules.without_data;
                if self.unwritten.is_empty() {
                    return Prediction::Hit;
                }
                self.stop(now);
                self.write_oldest(now, self.unwritten.len());
                let waits = self.free > self.completed;
                self.completed = self.completed.max(self.free);
                if waits { Prediction::Wait } else { Prediction::Hit }
            }
        }
    }

    fn holds(&self, request: &Request) -> bool {
        let blocks = request.lbn..request.end();
        let write = &self.rules.write;
        match request.op {
            Operation::Read => self.streams(&blocks) || self.has_written(&blocks),
            Operation::Write | Operation::WriteZeroes => {
                let has_room = self.unwritten.len() < write.segments as usize || self.joins(&blocks);
                !request.fua && request.blocks <= write.segment_blocks && has_room
            }
            Operation::Flush => self.unwritten.is_empty(),
            Operation::Discard => true,
        }
    }

    fn served(&mut self, served: &Served) {
        assert_eq!(served.completed, self.completed, "{served:?}");
        self.idle_since = served.completed;
    }
}

/// Electronics of which no overhead depends on the place of the heads.
fn parameters(stream: &str, write: &str) -> StreamingParameters {
    let text = format!(
        "bus_per_block = \"0.1us\"\nwithout_data = \"0.2us\"\n[stream]\n{stream}\n[read_hit]\n\
         live_sequential = \"0.3us\"\nlive_skip = \"0.3us\"\nlive_skip_after_sequential = \"0.3us\"\n\
         sequential = \"0.3us\"\nskip = \"0.3us\"\nafter_sequential = \"0.3us\"\nafter_write = \"0.3us\"\n\
         written = \"0.3us\"\n[read_miss]\nsame_cylinder = \"0.7us\"\nother_cylinder = \"0.7us\"\n\
         bus_per_block = \"0.1us\"\n[write]\nsame_track = \"0.4us\"\nsame_track_after_write = \"0.4us\"\n\
         same_cylinder = \"0.4us\"\nsame_zone = \"0.4us\"\nother_zone = \"0.4us\"\n{write}"
    );
    toml::from_str(&text).unwrap()
}

#[test]
fn stream_and_writes_hold_what_the_brute_force_model_says() {
    let share = super::OPERATIONS / 4;
    let idle = "live = { rule = \"idle_timer\", idle = \"30us\" }";
    let reading = "live = { rule = \"reading_ahead\", margin = \"5us\" }";
    let mut all = super::Counts::default();
    for (index, (stream, write)) in [
        (
            format!("read_ahead = 50\nsurvives_writes = 2\nconsumed = \"while_live\"\n{idle}"),
            "segments = 3\nkept = 2",
        ),
        (
            format!("read_ahead = 28\nsurvives_writes = 0\nconsumed = \"always\"\n{reading}"),
            "segments = 2\nkept = 1",
        ),
        (
            format!("read_ahead = 120\nsurvives_writes = 9\nconsumed = \"while_live\"\n{reading}"),
            "segments = 1\nkept = 4",
        ),
        (
            format!("read_ahead = 0\nsurvives_writes = 1\nconsumed = \"always\"\n{idle}"),
            "segments = 8\nkept = 0",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let rules = parameters(&stream, &format!("{write}\nsegment_blocks = 32"));
        let controller = Streaming::<Head>::new(&rules, &disk()).unwrap();
        let operations = Operations::new(200 + index as u64, 32);
        let counts = compare(&stream, controller, StreamModel::new(&rules), operations, share);
        println!("{stream:?}: {counts:?}");
        for (sum, count) in all.iter_mut().flatten().zip(counts.iter().flatten()) {
            *sum += count;
        }
    }
    // A write that waits counts as a miss.
    let [reads, writes] = all;
    assert!(reads.iter().chain([&writes[0], &writes[2]]).all(|count| *count > share / 100), "{all:?}");
}
