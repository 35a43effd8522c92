//! A model of a buffer of segments: each segment a list of blocks.

use seeklab_core::{Duration, Instant, Operation, Request};

use super::super::segmented::{ReadAhead, Segmented, SegmentedParameters, WriteBack};
use super::super::{Controller, Served};
use super::{Arm, BLOCKS, Head, Model, Operations, Prediction, SECTOR, TRACK, compare, disk, until};

/// Blocks in a part of the buffer.
#[derive(Debug, Clone, Default)]
struct Part {
    name: u64,
    /// In ascending order without gaps.
    blocks: Vec<u64>,
    /// The block after those that it held last.
    edge: u64,
    written: bool,
    /// Extents of it that are not on the media and whose writing has not begun.
    unwritten: u32,
    used: u64,
}

/// Blocks that are not on the media.
#[derive(Debug, Clone)]
struct Unwritten {
    blocks: std::ops::Range<u64>,
    part: u64,
    /// Arrival of the first block and of the last.
    from: Instant,
    since: Instant,
}

/// Reading on behind a read.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    part: u64,
    next: u64,
    end: u64,
    at: Instant,
    crosses: bool,
}

struct SegmentedModel {
    rules: SegmentedParameters,
    parts: Vec<Part>,
    names: u64,
    uses: u64,
    queue: Vec<Unwritten>,
    /// The part written last, and until when.
    last_written: (u64, Instant),
    ahead: Option<Ahead>,
    arm: Arm,
    arm_free: Instant,
    media_free: Instant,
    /// End of the last command, if that was a read.
    read_end: Option<u64>,
    run: u32,
    /// End of the media's work in the last command, where the command tells.
    media_end: Option<Instant>,
}

impl SegmentedModel {
    fn new(rules: &SegmentedParameters) -> Self {
        Self {
            rules: rules.clone(),
            parts: Vec::new(),
            names: 0,
            uses: 0,
            queue: Vec::new(),
            last_written: (0, Instant::ZERO),
            ahead: None,
            arm: Arm::default(),
            arm_free: Instant::ZERO,
            media_free: Instant::ZERO,
            read_end: None,
            run: 0,
            media_end: None,
        }
    }

    fn size(&self) -> usize {
        self.rules.buffer.segment_blocks as usize
    }

    fn part(&mut self, name: u64) -> &mut Part {
        self.parts.iter_mut().find(|part| part.name == name).unwrap()
    }

    fn use_part(&mut self, name: u64) {
        self.uses += 1;
        self.part(name).used = self.uses;
    }

    /// The most recently used part of which `like` is true.
    fn latest(&self, like: impl Fn(&Part) -> bool) -> Option<&Part> {
        self.parts.iter().filter(|part| like(part)).max_by_key(|part| part.used)
    }

    fn answers(&self, part: &Part, lbn: u64) -> bool {
        part.blocks.contains(&lbn) && !(self.rules.buffer.separate_write_segment && part.written)
    }

    /// Names of the parts that hold the blocks of a read, up to the first missing one, which comes too.
    fn found(&self, blocks: std::ops::Range<u64>) -> (Vec<u64>, u64) {
        let mut names = Vec::new();
        for lbn in blocks.clone() {
            let stays = names.last().is_some_and(|name| {
                self.parts.iter().any(|part| part.name == *name && self.answers(part, lbn))
            });
            if stays {
                continue;
            }
            match self.latest(|part| self.answers(part, lbn)) {
                Some(part) => names.push(part.name),
                None => return (names, lbn),
            }
        }
        (names, blocks.end)
    }

    // ---- Background.

    fn advance(&mut self, now: Instant) {
        let begin = self.queue.first().map(|first| first.from.max(self.media_free));
        match begin {
            Some(begin) if begin < now => {
                self.read_on(begin);
                self.ahead = None;
                while let Some(first) = self.queue.first() {
                    let begin = first.from.max(self.media_free);
                    if begin >= now {
                        break;
                    }
                    self.write_oldest(begin);
                }
            }
            _ => self.read_on(now),
        }
    }

    fn write_oldest(&mut self, now: Instant) {
        let Unwritten { blocks, part, from, since } = self.queue.remove(0);
        let begin = from.max(self.media_free).max(now).max(self.arm_free);
        let there = self.arm.go(begin, blocks.start);
        self.media_free = self.arm.pass(there.max(since), blocks);
        self.part(part).unwritten -= 1;
        self.last_written = (part, self.media_free);
    }

    /// Writes until no unwritten block of `blocks` is left.
    fn write_all_of(&mut self, now: Instant, blocks: &std::ops::Range<u64>) {
        while self.queue.iter().any(|one| one.blocks.start < blocks.end && blocks.start < one.blocks.end) {
            self.write_oldest(now);
        }
    }

    /// Takes in, block by block, what read-ahead reads until `now`.
    fn read_on(&mut self, now: Instant) {
        while let Some(Ahead { part, next, end, at, crosses }) = self.ahead {
            let away = next / TRACK != self.arm.track;
            if next >= end || (away && !crosses) {
                self.ahead = None;
                return;
            }
            if away {
                if at >= now {
                    return;
                }
                let there = self.arm.go(at, next);
                self.arm_free = there;
                self.ahead.as_mut().unwrap().at = there;
                continue;
            }
            let begins = at + until(at, next);
            if begins + SECTOR > now {
                return;
            }
            self.take_block(part, next);
            let ahead = self.ahead.as_mut().unwrap();
            (ahead.next, ahead.at) = (next + 1, begins + SECTOR);
        }
    }

    fn take_block(&mut self, part: u64, lbn: u64) {
        let size = self.size();
        let part = self.part(part);
        part.blocks.push(lbn);
        part.edge = lbn + 1;
        if part.blocks.len() > size {
            part.blocks.remove(0);
        }
    }

    // ---- Parts.

    /// The part that gives way to one for reads or writes; `Some(None)` if none need give way.
    fn victim(&self, written: bool, now: Instant) -> Option<Option<u64>> {
        let separate = self.rules.buffer.separate_write_segment;
        let all = self.rules.buffer.segments as usize;
        let most = match (separate, written) {
            (false, _) => all,
            (true, true) => 1,
            (true, false) => all - 1,
        };
        let busy = |part: &Part| part.name == self.last_written.0 && self.last_written.1 > now;
        let unwritten = self.parts.iter().filter(|part| part.unwritten > 0 || busy(part)).count();
        let unwritten_max = match (separate, self.rules.buffer.write_segments as usize) {
            (true, _) => 1,
            (false, 0) => all,
            (false, some) => some,
        };
        if written && unwritten >= unwritten_max {
            return None;
        }
        let rivals: Vec<&Part> =
            self.parts.iter().filter(|part| !separate || part.written == written).collect();
        if rivals.len() < most {
            return Some(None);
        }
        let free = rivals.into_iter().filter(|part| part.unwritten == 0 && !busy(part));
        free.min_by_key(|part| part.used).map(|part| Some(part.name))
    }

    fn new_part(&mut self, written: bool, blocks: std::ops::Range<u64>, now: Instant) -> u64 {
        if let Some(name) = self.victim(written, now).unwrap() {
            self.parts.retain(|part| part.name != name);
        }
        self.names += 1;
        self.uses += 1;
        let skip = (blocks.end - blocks.start).saturating_sub(self.size() as u64);
        let part = Part {
            name: self.names,
            blocks: (blocks.start + skip..blocks.end).collect(),
            edge: blocks.end,
            written,
            unwritten: 0,
            used: self.uses,
        };
        self.parts.push(part);
        self.names
    }

    fn room_to_read(&mut self, now: Instant) {
        while self.victim(false, Instant::from_ns(u64::MAX)).is_none() {
            self.write_oldest(now);
        }
    }

    /// The written part that takes in more.
    fn home(&self, blocks: &std::ops::Range<u64>) -> Option<u64> {
        let fits = |part: &Part| {
            let first = part.blocks.first().copied().unwrap_or(part.edge);
            part.written && first <= blocks.start && blocks.end - first <= self.size() as u64
        };
        let within = self.latest(|part| fits(part) && part.blocks.contains(&blocks.start));
        within.or_else(|| self.latest(|part| fits(part) && part.edge == blocks.start)).map(|part| part.name)
    }

    /// Blocks that are written or discarded leave all parts but one.
    fn forget(&mut self, blocks: &std::ops::Range<u64>, except: Option<u64>) {
        let last_written = self.last_written.0;
        self.parts.retain_mut(|part| {
            if Some(part.name) == except || !part.blocks.iter().any(|lbn| blocks.contains(lbn)) {
                return true;
            }
            if !part.written {
                return false;
            }
            if part.blocks[0] < blocks.start {
                part.blocks.retain(|lbn| *lbn < blocks.start);
                part.edge = blocks.start;
            } else {
                part.blocks.retain(|lbn| *lbn >= blocks.end);
            }
            !part.blocks.is_empty() || part.unwritten > 0 || part.name == last_written
        });
    }

    fn write_in(&mut self, blocks: &std::ops::Range<u64>, now: Instant) -> u64 {
        let home = self.home(blocks);
        self.forget(blocks, home);
        let Some(name) = home else { return self.new_part(true, blocks.clone(), now) };
        self.use_part(name);
        let part = self.part(name);
        for lbn in blocks.clone() {
            if !part.blocks.contains(&lbn) {
                part.blocks.push(lbn);
            }
        }
        part.edge = part.edge.max(blocks.end);
        name
    }

    /// Read-ahead stops before blocks that change, and with its part.
    fn restrain(&mut self, blocks: &std::ops::Range<u64>) {
        if let Some(ahead) = &mut self.ahead {
            if ahead.next < blocks.end {
                ahead.end = ahead.end.min(blocks.start);
            }
            let part = ahead.part;
            if !self.parts.iter().any(|other| other.name == part) {
                self.ahead = None;
            }
        }
    }

    // ---- Commands.

    fn overhead(&self, op: Operation, hit: bool) -> Duration {
        let overheads = &self.rules.overheads;
        match (op == Operation::Read, hit) {
            (true, true) => overheads.read_hit_after_read,
            (true, false) => overheads.read_miss_after_read,
            (false, true) => overheads.write_hit_after_read,
            (false, false) => overheads.write_miss_after_read,
        }
    }

    /// Time of a written block on the bus.
    fn block_time(&self, request: &Request) -> Duration {
        if request.op == Operation::WriteZeroes { Duration::ZERO } else { self.rules.bus.write_block }
    }

    /// End of the read-ahead, and true if it leaves the track.
    fn limit(&self, blocks: &std::ops::Range<u64>) -> (u64, bool) {
        let buffer = &self.rules.buffer;
        let ahead = u64::from(buffer.read_ahead_blocks).min(self.size() as u64);
        let from = if buffer.read_ahead_beyond_request || self.run > 0 { blocks.end } else { blocks.start };
        let track_end = |lbn: u64| lbn / TRACK * TRACK + TRACK;
        let (limit, crosses) = match buffer.read_ahead {
            ReadAhead::None => (blocks.end, false),
            ReadAhead::ToTrackEnd => (from + ahead, false),
            ReadAhead::FillSegment => (from + ahead, true),
            ReadAhead::NextTrackIfSequential if self.run == 0 => (from + ahead, false),
            ReadAhead::NextTrackIfSequential => {
                ((from + ahead).min(track_end(track_end(blocks.end - 1).min(BLOCKS - 1))), true)
            }
            ReadAhead::FillSegmentIfCrossing if blocks.end >= track_end(blocks.start) => {
                (blocks.end + self.size() as u64, true)
            }
            ReadAhead::FillSegmentIfCrossing => (track_end(blocks.start), false),
        };
        if blocks.end >= BLOCKS { (blocks.end, false) } else { (limit.min(BLOCKS).max(blocks.end), crosses) }
    }

    fn read(&mut self, now: Instant, blocks: std::ops::Range<u64>) -> Prediction {
        self.run = if self.read_end == Some(blocks.start) { self.run + 1 } else { 0 };
        self.read_end = Some(blocks.end);
        let (names, missing) = self.found(blocks.clone());
        let unwritten =
            self.queue.iter().any(|one| one.blocks.start < blocks.end && blocks.start < one.blocks.end);
        if names.is_empty() && (unwritten || !self.catches(now, blocks.start)) {
            return self.read_miss(now, blocks);
        }
        for name in &names {
            self.use_part(*name);
        }
        let partial = missing < blocks.end;
        let rest = missing..blocks.end;
        if partial && self.queue.iter().any(|one| one.blocks.start < rest.end && rest.start < one.blocks.end)
        {
            self.ahead = None;
            self.write_all_of(now, &rest);
        }
        let (limit, crosses) = self.limit(&blocks);
        let last = names.last().copied();
        let runs =
            self.ahead.is_some_and(|ahead| Some(ahead.part) == last || (partial && ahead.next == missing));
        if runs {
            let ahead = self.ahead.as_mut().unwrap();
            ahead.end = ahead.end.max(limit);
        } else if let Some(last) = last {
            let written = self.part(last).written;
            if partial || !written {
                self.go_on(now, last, written, partial, limit.max(blocks.end), crosses);
            }
        }
        if !partial {
            return Prediction::Hit;
        }
        let Ahead { part, at, .. } = self.ahead.unwrap();
        self.media_free = self.arm.pass(at, rest.clone());
        for lbn in rest {
            self.take_block(part, lbn);
        }
        self.use_part(part);
        let ahead = self.ahead.as_mut().unwrap();
        (ahead.next, ahead.at) = (blocks.end, self.media_free);
        self.media_end = Some(self.media_free.max(now));
        Prediction::Wait
    }

    /// Lets read-ahead that has stopped go on behind a part.
    fn go_on(&mut self, now: Instant, last: u64, written: bool, partial: bool, end: u64, crosses: bool) {
        self.ahead = None;
        let next = *self.part(last).blocks.last().unwrap() + 1;
        let restarts = self.rules.buffer.read_ahead_on_hit && self.queue.is_empty();
        if next >= end || !(partial || restarts) {
            return;
        }
        let part = if written {
            self.room_to_read(now);
            self.new_part(false, next..next, self.media_free)
        } else {
            last
        };
        let mut at = (now + self.overhead(Operation::Read, false)).max(self.media_free);
        if !partial {
            at = self.arm.go(at, next);
            self.arm_free = at;
        }
        self.ahead = Some(Ahead { part, next, end, at, crosses });
    }

    /// True if read-ahead reads that block, or the block before it now.
    fn catches(&mut self, now: Instant, lbn: u64) -> bool {
        let Some(ahead) = self.ahead else { return false };
        if lbn >= ahead.end || lbn < ahead.next || lbn > ahead.next + 1 {
            return false;
        }
        if lbn == ahead.next {
            return true;
        }
        let begins = ahead.at + until(ahead.at, ahead.next);
        if ahead.next / TRACK != self.arm.track || begins > now {
            return false;
        }
        self.take_block(ahead.part, ahead.next);
        let ahead = self.ahead.as_mut().unwrap();
        (ahead.next, ahead.at) = (lbn, begins + SECTOR);
        true
    }

    fn read_miss(&mut self, now: Instant, blocks: std::ops::Range<u64>) -> Prediction {
        self.ahead = None;
        self.write_all_of(now, &blocks);
        self.room_to_read(now);
        let begin = (now + self.overhead(Operation::Read, false)).max(self.arm_free).max(self.media_free);
        self.media_free = self.arm.pass(begin, blocks.clone());
        let part = self.new_part(false, blocks.clone(), begin);
        let (end, crosses) = self.limit(&blocks);
        self.ahead =
            (end > blocks.end).then_some(Ahead { part, next: blocks.end, end, at: self.media_free, crosses });
        self.media_end = Some(self.media_free);
        Prediction::Miss
    }

    fn write(&mut self, now: Instant, request: &Request) -> Prediction {
        let blocks = request.lbn..request.end();
        self.read_end = None;
        self.run = 0;
        let prediction = if self.goes_through(request) {
            self.write_through(now, request)
        } else {
            self.write_back(now, request)
        };
        self.restrain(&blocks);
        prediction
    }

    /// True if a write is complete on the media only.
    fn goes_through(&self, request: &Request) -> bool {
        let write_back = self.rules.buffer.write_back;
        write_back == WriteBack::None || request.fua || request.blocks as usize > self.size()
    }

    fn write_through(&mut self, now: Instant, request: &Request) -> Prediction {
        let blocks = &(request.lbn..request.end());
        self.ahead = None;
        self.write_all_of(now, blocks);
        let mut begin = now.max(self.media_free);
        if self.rules.buffer.separate_write_segment {
            self.forget(blocks, None);
        } else {
            while self.home(blocks).is_none() && self.victim(true, begin).is_none() {
                self.write_oldest(begin);
                begin = begin.max(self.media_free);
            }
            self.write_in(blocks, begin);
        }
        // The bus is faster than the media and delays no block but the first of all.
        let ready = begin + self.overhead(Operation::Write, false);
        let first = ready + self.block_time(request);
        let arrived = self.arm.go(ready.max(self.arm_free), blocks.start);
        let mut start = arrived + until(arrived, blocks.start);
        while start < first {
            start += super::TURN;
        }
        self.media_free = self.arm.pass(start, blocks.clone());
        self.media_end = Some(self.media_free);
        Prediction::Miss
    }

    fn write_back(&mut self, now: Instant, request: &Request) -> Prediction {
        let blocks = request.lbn..request.end();
        let mut room = now;
        while !self.takes(&blocks, room) {
            self.ahead = None;
            if self.last_written.1 <= room {
                self.write_oldest(room);
            }
            room = room.max(self.last_written.1);
        }
        let processed = now + self.overhead(Operation::Write, true);
        let from = room.max(processed) + self.block_time(request);
        let since = from + self.block_time(request) * u64::from(request.blocks - 1);
        let part = self.write_in(&blocks, room);
        match self.queue.last_mut().filter(|last| last.part == part && last.blocks.end == blocks.start) {
            Some(last) => {
                last.blocks.end = blocks.end;
                last.since = since;
            }
            None => {
                self.queue.push(Unwritten { blocks, part, from, since });
                self.part(part).unwritten += 1;
            }
        }
        if room > processed { Prediction::Wait } else { Prediction::Hit }
    }

    fn takes(&self, blocks: &std::ops::Range<u64>, now: Instant) -> bool {
        let home = self.home(blocks);
        let joins = home.is_some_and(|home| {
            self.queue.last().is_some_and(|last| last.part == home && last.blocks.end == blocks.start)
        });
        let queued = self.queue.len();
        let fits = match self.rules.buffer.write_back {
            WriteBack::None => false,
            WriteBack::Sequential => queued == 0 || joins,
            WriteBack::All => queued < self.rules.buffer.segments as usize || joins,
        };
        fits && (home.is_some() || self.victim(true, now).is_some())
    }
}

impl Model for SegmentedModel {
    fn predict(&mut self, now: Instant, request: &Request) -> Prediction {
        self.advance(now);
        self.media_end = None;
        match request.op {
            Operation::Read => self.read(now, request.lbn..request.end()),
            Operation::Write | Operation::WriteZeroes => self.write(now, request),
            Operation::Flush => {
                if !self.queue.is_empty() {
                    self.ahead = None;
                }
                while !self.queue.is_empty() {
                    self.write_oldest(now);
                }
                if self.media_free > now { Prediction::Wait } else { Prediction::Hit }
            }
            Operation::Discard => {
                let blocks = request.lbn..request.end();
                self.forget(&blocks, None);
                self.restrain(&blocks);
                Prediction::Hit
            }
        }
    }

    fn holds(&self, request: &Request) -> bool {
        let (lbn, blocks) = (request.lbn, request.lbn..request.end());
        match request.op {
            Operation::Read => {
                self.parts.iter().any(|part| self.answers(part, lbn))
                    || self.ahead.is_some_and(|ahead| ahead.next == lbn && lbn < ahead.end)
            }
            Operation::Write | Operation::WriteZeroes => {
                !self.goes_through(request) && self.takes(&blocks, Instant::from_ns(u64::MAX))
            }
            Operation::Flush => self.queue.is_empty(),
            Operation::Discard => true,
        }
    }

    fn served(&mut self, served: &Served) {
        if let Some(end) = self.media_end {
            assert_eq!(served.free, end, "the media's work ends elsewhere: {served:?}");
        }
    }
}

/// Electronics with changes; the bus is ten times as fast as the media.
fn parameters(buffer: &str) -> SegmentedParameters {
    let text = format!(
        "[overheads]\nread_hit_after_read = \"0.3us\"\nread_hit_after_write = \"0.3us\"\n\
         read_miss_after_read = \"0.7us\"\nread_miss_after_write = \"0.7us\"\n\
         write_hit_after_read = \"0.4us\"\nwrite_hit_after_write = \"0.4us\"\n\
         write_miss_after_read = \"0.9us\"\nwrite_miss_after_write = \"0.9us\"\n\
         [bus]\nread_block = \"0.1us\"\nwrite_block = \"0.1us\"\n[buffer]\n{buffer}"
    );
    toml::from_str(&text).unwrap()
}

#[test]
fn segments_hold_what_the_brute_force_model_says() {
    let share = super::OPERATIONS / 15;
    let buffers = [
        ("segments = 4", "read_ahead = \"fill_segment\"\nread_ahead_on_hit = true\nwrite_back = \"all\""),
        ("segments = 4", "read_ahead = \"fill_segment\"\nwrite_back = \"sequential\""),
        (
            "segments = 3",
            "read_ahead = \"fill_segment\"\nread_ahead_beyond_request = true\nwrite_back = \"all\"",
        ),
        ("segments = 2", "read_ahead = \"to_track_end\"\nread_ahead_on_hit = true\nwrite_back = \"all\""),
        ("segments = 1", "read_ahead = \"fill_segment\"\nread_ahead_on_hit = true\nwrite_back = \"all\""),
        ("segments = 6", "read_ahead = \"next_track_if_sequential\"\nwrite_back = \"all\""),
        (
            "segments = 5",
            "read_ahead = \"fill_segment_if_crossing\"\nread_ahead_on_hit = true\nwrite_back = \"all\"",
        ),
        (
            "segments = 3",
            "separate_write_segment = true\nread_ahead = \"fill_segment\"\nwrite_back = \"all\"",
        ),
        (
            "segments = 3",
            "separate_write_segment = true\nread_ahead = \"fill_segment\"\nread_ahead_on_hit = true",
        ),
        ("segments = 1", "read_ahead = \"fill_segment\"\nread_ahead_on_hit = true"),
        (
            "segments = 3",
            "read_ahead = \"fill_segment\"\nread_ahead_beyond_request = true\nread_ahead_on_hit = true",
        ),
        (
            "segments = 6",
            "write_segments = 2\nread_ahead = \"fill_segment\"\nread_ahead_on_hit = true\nwrite_back = \"all\"",
        ),
        ("segments = 16", "read_ahead = \"none\"\nwrite_back = \"all\""),
        (
            "segments = 4",
            "read_ahead_blocks = 48\nread_ahead = \"fill_segment\"\nread_ahead_on_hit = true\nwrite_back = \"all\"",
        ),
        (
            "segments = 3",
            "read_ahead_blocks = 90\nread_ahead = \"next_track_if_sequential\"\nread_ahead_beyond_request = true",
        ),
    ];
    let mut all = super::Counts::default();
    for (index, (segments, rest)) in buffers.into_iter().enumerate() {
        let read_ahead = if rest.contains("read_ahead_blocks") { "" } else { "read_ahead_blocks = 24\n" };
        let buffer = format!("{segments}\nsegment_blocks = 32\n{read_ahead}{rest}");
        let rules = parameters(&buffer);
        let controller = Segmented::<Head>::new(&rules, &disk()).unwrap();
        let operations = Operations::new(index as u64, 32);
        let counts = compare(&buffer, controller, SegmentedModel::new(&rules), operations, share);
        println!("{rest:?}: {counts:?}");
        for (sum, count) in all.iter_mut().flatten().zip(counts.iter().flatten()) {
            *sum += count;
        }
    }
    assert!(all.iter().flatten().all(|count| *count > share / 10), "all predictions occur: {all:?}");
}
