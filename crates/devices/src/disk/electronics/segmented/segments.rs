//! Contents of the buffer: segments of contiguous blocks.
//!
//! A segment holds blocks that were read from the media or blocks that the host wrote. Reads and writes share
//! the segments, unless one of them serves writes alone; that one answers no reads. Data that is not on the media
//! yet stays in its segment. Every other segment gives way when it is the least recently used one.

use seeklab_core::Instant;

use super::SegmentedParameters;

/// Origin of the blocks of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Read from the media.
    Media,
    /// Written by the host.
    Host,
}

/// Contiguous blocks in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// Number that no other segment has had.
    pub(super) id: u64,
    /// First block held.
    start: u64,
    /// Block after the last held.
    pub(super) end: u64,
    pub(super) origin: Origin,
    /// Pieces that wait to be written to the media.
    waiting: u32,
}

impl Segment {
    const fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < self.end && self.start < end && start < self.end
    }
}

/// Segments, most recently used first.
#[derive(Debug)]
pub(super) struct Segments {
    segments: Vec<Segment>,
    count_max: usize,
    /// Most segments with unwritten data.
    unwritten_max: usize,
    /// True if one segment serves writes alone.
    separate: bool,
    blocks_max: u64,
    made: u64,
    /// Segment of which a piece was written last, and the time at which that piece is on the media.
    writing: (u64, Instant),
}

impl Segments {
    pub(super) fn new(parameters: &SegmentedParameters) -> Self {
        let buffer = &parameters.buffer;
        Self {
            segments: Vec::new(),
            count_max: buffer.segments as usize,
            unwritten_max: parameters.unwritten_segments_max() as usize,
            separate: buffer.separate_write_segment,
            blocks_max: u64::from(buffer.segment_blocks),
            made: 0,
            writing: (0, Instant::ZERO),
        }
    }

    /// Returns the segment that answers a read of block `lbn`.
    pub(super) fn holding(&self, lbn: u64) -> Option<Segment> {
        let answers = |segment: &&Segment| {
            (segment.start..segment.end).contains(&lbn) && !(self.separate && segment.origin == Origin::Host)
        };
        self.segments.iter().find(answers).copied()
    }

    /// Returns the first block of `start..end` that the buffer does not hold, `end` if it holds all, and the
    /// segment of the block before that one.
    pub(super) fn held(&self, start: u64, end: u64) -> (u64, Option<Segment>) {
        let (mut next, mut last) = (start, None);
        while next < end
            && let Some(segment) = self.holding(next)
        {
            next = segment.end;
            last = Some(segment);
        }
        (next.min(end), last)
    }

    /// Makes the segments of `start..end`, which the buffer holds, the most recently used.
    pub(super) fn touch(&mut self, start: u64, end: u64) {
        let mut next = start;
        while next < end
            && let Some(segment) = self.holding(next)
        {
            next = segment.end;
            self.touch_segment(segment.id);
        }
    }

    /// Returns true if the segment still exists.
    pub(super) fn has(&self, id: u64) -> bool {
        self.segments.iter().any(|segment| segment.id == id)
    }

    /// Returns true if a segment is free for blocks from the media, nothing being written.
    pub(super) fn has_room_to_read(&self) -> bool {
        self.room(Origin::Media, Instant::from_ns(u64::MAX)).is_some()
    }

    /// Makes a segment of `start..end`, read from the media at `now`.
    pub(super) fn read_into(&mut self, start: u64, end: u64, now: Instant) -> u64 {
        self.make(Origin::Media, start, end, now)
    }

    /// Returns the segment that takes in a write of `start..end` beside what it holds: a written segment that
    /// holds the first block, or else one that ends there.
    pub(super) fn home(&self, start: u64, end: u64) -> Option<u64> {
        let homes = || {
            let fits = |segment: &&Segment| {
                segment.origin == Origin::Host
                    && (segment.start..=segment.end).contains(&start)
                    && end - segment.start <= self.blocks_max
            };
            self.segments.iter().filter(fits)
        };
        let home = homes().find(|segment| start < segment.end).or_else(|| homes().next());
        home.map(|segment| segment.id)
    }

    /// Returns true if a write of `start..end` finds a segment at `now`.
    pub(super) fn has_room_to_write(&self, start: u64, end: u64, now: Instant) -> bool {
        self.home(start, end).is_some() || self.room(Origin::Host, now).is_some()
    }

    /// Takes in blocks that the host writes at `now`. Other copies of them leave the buffer: a segment read from
    /// the media whole, a written one as far as it is overwritten.
    pub(super) fn write_into(&mut self, start: u64, end: u64, now: Instant) -> u64 {
        let home = self.home(start, end);
        self.remove(start, end, home);
        let Some(id) = home else { return self.make(Origin::Host, start, end, now) };
        self.touch_segment(id);
        let segment = &mut self.segments[0];
        segment.end = segment.end.max(end);
        id
    }

    /// Removes discarded blocks from the buffer: a segment read from the media whole, a written one up to its end
    /// if blocks before them remain, else up to the last of them.
    pub(super) fn discard(&mut self, start: u64, end: u64) {
        self.remove(start, end, None);
    }

    fn remove(&mut self, start: u64, end: u64, except: Option<u64>) {
        let (writing, _) = self.writing;
        self.segments.retain_mut(|segment| {
            if !segment.overlaps(start, end) || except == Some(segment.id) {
                return true;
            }
            if segment.origin == Origin::Media {
                return false;
            }
            if segment.start < start {
                segment.end = start;
            } else {
                segment.start = end.min(segment.end);
            }
            segment.start < segment.end || segment.waiting > 0 || segment.id == writing
        });
    }

    /// The segment has been filled up to `end`; what no longer fits in drops out at its start.
    pub(super) fn fill(&mut self, id: u64, end: u64) {
        let first = end.saturating_sub(self.blocks_max);
        if let Some(segment) = self.find(id) {
            segment.end = end;
            segment.start = segment.start.max(first);
        }
    }

    /// Notes that a piece of the segment waits to be written.
    pub(super) fn wait(&mut self, id: u64) {
        self.find(id).expect("unwritten data stays in its segment").waiting += 1;
    }

    /// Notes that a piece of the segment that waited is on the media at `done`.
    pub(super) fn write_out(&mut self, id: u64, done: Instant) {
        self.find(id).expect("unwritten data stays in its segment").waiting -= 1;
        self.writing = (id, done);
    }

    /// Returns the time at which the last piece is on the media whose writing has begun.
    pub(super) fn written_at(&self) -> Instant {
        self.writing.1
    }

    fn find(&mut self, id: u64) -> Option<&mut Segment> {
        self.segments.iter_mut().find(|segment| segment.id == id)
    }

    /// Makes a segment the most recently used.
    pub(super) fn touch_segment(&mut self, id: u64) {
        if let Some(index) = self.segments.iter().position(|segment| segment.id == id) {
            self.segments[..=index].rotate_right(1);
        }
    }

    /// Returns the place for a new segment at `now`: the number of segments if there is one more, else that of the
    /// segment that gives way.
    fn room(&self, origin: Origin, now: Instant) -> Option<usize> {
        let unwritten = || self.segments.iter().filter(|segment| self.is_unwritten(segment, now)).count();
        if origin == Origin::Host && unwritten() >= self.unwritten_max {
            return None;
        }
        let competes = |segment: &&Segment| !self.separate || segment.origin == origin;
        let count_max = match (self.separate, origin) {
            (false, _) => self.count_max,
            (true, Origin::Media) => self.count_max - 1,
            (true, Origin::Host) => 1,
        };
        if self.segments.len() < count_max || self.segments.iter().filter(competes).count() < count_max {
            return Some(self.segments.len());
        }
        let gives_way = |segment: &Segment| competes(&segment) && !self.is_unwritten(segment, now);
        self.segments.iter().rposition(gives_way)
    }

    /// Returns true if some of the segment's data is not on the media at `now`.
    fn is_unwritten(&self, segment: &Segment, now: Instant) -> bool {
        let (writing, written) = self.writing;
        segment.waiting > 0 || (segment.id == writing && written > now)
    }

    fn make(&mut self, origin: Origin, start: u64, end: u64, now: Instant) -> u64 {
        let room = self.room(origin, now).expect("a segment is free");
        if room < self.segments.len() {
            self.segments.remove(room);
        }
        self.made += 1;
        // Room for all at the first, so that no later one allocates.
        self.segments.reserve_exact(self.count_max - self.segments.len());
        let start = start.max(end.saturating_sub(self.blocks_max));
        self.segments.insert(0, Segment { id: self.made, start, end, origin, waiting: 0 });
        self.made
    }
}

impl Clone for Segments {
    fn clone(&self) -> Self {
        let mut clone = Self { segments: Vec::new(), ..*self };
        clone.clone_from(self);
        clone
    }

    fn clone_from(&mut self, source: &Self) {
        self.segments.clear();
        self.segments.reserve_exact(source.segments.capacity());
        self.segments.extend_from_slice(&source.segments);
        (self.count_max, self.blocks_max, self.made) = (source.count_max, source.blocks_max, source.made);
        self.unwritten_max = source.unwritten_max;
        (self.separate, self.writing) = (source.separate, source.writing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    fn segments(buffer: &str) -> Segments {
        Segments::new(&toml::from_str(&format!("[buffer]\nsegment_blocks = 100\n{buffer}")).unwrap())
    }

    fn shared(count_max: u32) -> Segments {
        segments(&format!("segments = {count_max}"))
    }

    #[test]
    fn least_recently_used_segment_is_replaced() {
        let mut segments = shared(2);
        segments.read_into(0, 10, NOW);
        segments.write_into(50, 60, NOW);
        segments.touch(3, 7);
        segments.read_into(90, 95, NOW);
        assert!(segments.holding(5).is_some());
        assert!(segments.holding(55).is_none());
    }

    #[test]
    fn full_segment_drops_its_oldest_blocks() {
        let mut segments = shared(1);
        let id = segments.read_into(0, 10, NOW);
        segments.fill(id, 150);
        assert!(segments.holding(49).is_none());
        assert!(segments.holding(50).is_some());
        segments.discard(149, 151);
        assert!(segments.holding(60).is_none());
    }

    #[test]
    fn written_blocks_stay_until_they_are_overwritten() {
        let mut segments = shared(4);
        let first = segments.write_into(0, 60, NOW);
        assert_eq!(segments.write_into(60, 100, NOW), first, "it continues the segment and fits");
        assert_eq!(segments.write_into(20, 30, NOW), first, "it lies within the segment");
        let second = segments.write_into(90, 120, NOW);
        assert_ne!(second, first, "it does not fit");
        assert_eq!(segments.held(0, 120), (120, segments.holding(119)));
        assert_eq!(segments.holding(95).unwrap().id, second);
        segments.discard(0, 50);
        assert_eq!((segments.holding(49), segments.holding(50).unwrap().id), (None, first));
    }

    #[test]
    fn unwritten_data_keeps_its_segment() {
        let mut segments = shared(2);
        let first = segments.write_into(0, 10, NOW);
        segments.wait(first);
        let second = segments.write_into(50, 60, NOW);
        segments.wait(second);
        assert!(!segments.has_room_to_read() && !segments.has_room_to_write(90, 95, NOW));
        assert!(segments.has_room_to_write(10, 20, NOW), "it continues the first");
        let done = Instant::from_ns(5);
        segments.write_out(second, done);
        assert!(!segments.has_room_to_write(90, 95, Instant::from_ns(4)), "it is being written");
        assert_eq!(segments.held(50, 60).0, 60, "it answers reads meanwhile");
        segments.write_into(90, 95, done);
        assert_eq!((segments.held(0, 10).0, segments.held(50, 60).0), (10, 50));
    }

    #[test]
    fn separate_write_segment_answers_no_reads() {
        let mut segments = segments("segments = 2\nseparate_write_segment = true");
        segments.read_into(50, 60, NOW);
        let written = segments.write_into(0, 10, NOW);
        segments.wait(written);
        assert!(segments.holding(5).is_none() && segments.holding(55).is_some());
        assert!(segments.has_room_to_read() && !segments.has_room_to_write(20, 30, NOW));
    }

    #[test]
    fn forking_to_and_fro_does_not_grow_the_buffer() {
        let mut one = shared(16);
        one.read_into(0, 10, NOW);
        let mut other = shared(16);
        other.clone_from(&one);
        for round in 0..64 {
            // A fork that has not been written to has another capacity than its target.
            other = Segments { segments: Vec::with_capacity(10), ..one.clone() };
            other.clone_from(&one);
            one.clone_from(&other);
            one.read_into(round * 20, round * 20 + 10, NOW);
            assert!(one.segments.capacity() <= 16, "round {round}: {}", one.segments.capacity());
        }
    }
}
