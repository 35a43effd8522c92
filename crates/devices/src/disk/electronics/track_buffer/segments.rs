//! The segments of a track buffer.
//!
//! A segment holds what was read of one track, or what was written to it; a track can have one of
//! each. What was read is known from when the head landed and when it left: a piece is there if it
//! passed between. What was written is a map of the track's sectors. The least recently used segment
//! gives way, unless it is being filled or holds unwritten data.

use seeklab_core::Instant;

use crate::disk::layout::Extent;
use crate::disk::mechanics::Media;

/// A track, and whether a segment holds what was read of it or what was written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(u64);

impl Key {
    /// Of a segment that holds nothing.
    const EMPTY: Self = Self(u64::MAX);

    pub(super) const fn read(extent: &Extent) -> Self {
        Self(((extent.cylinder as u64) << 32) | ((extent.head as u64) << 1))
    }

    pub(super) const fn written(extent: &Extent) -> Self {
        Self(Self::read(extent).0 | 1)
    }
}

/// Times at which a piece that the buffer holds, or is about to hold, comes from the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Time at which the first sector is in the buffer.
    pub(super) first: Instant,
    /// Time at which the whole piece is in the buffer.
    pub(super) last: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    /// Number of its last use; zero if it was never used.
    used: u64,
    /// Time at which the head landed on the track that was read.
    landed: Instant,
    /// Time at which the head left the track, or will have read all of it.
    until: Instant,
    /// Number of destages after which the written data is on the media.
    destages: u64,
}

/// The segments of the buffer.
#[derive(Debug)]
pub(super) struct Segments {
    keys: Vec<Key>,
    segments: Vec<Segment>,
    /// Sectors written, one bit each, `words` words for each segment.
    written: Vec<u64>,
    words: usize,
    uses: u64,
}

impl Clone for Segments {
    fn clone(&self) -> Self {
        Self {
            keys: self.keys.clone(),
            segments: self.segments.clone(),
            written: self.written.clone(),
            words: self.words,
            uses: self.uses,
        }
    }

    fn clone_from(&mut self, source: &Self) {
        self.keys.clone_from(&source.keys);
        self.segments.clone_from(&source.segments);
        self.written.clone_from(&source.written);
        self.words = source.words;
        self.uses = source.uses;
    }
}

impl Segments {
    /// Returns `count` empty segments for tracks of up to `sectors` sectors.
    pub(super) fn new(count: u32, sectors: u32) -> Self {
        let count = count as usize;
        let words = sectors.div_ceil(u64::BITS) as usize;
        let empty = Segment { used: 0, landed: Instant::ZERO, until: Instant::ZERO, destages: 0 };
        Self {
            keys: vec![Key::EMPTY; count],
            segments: vec![empty; count],
            written: vec![0; count * words],
            words,
            uses: 0,
        }
    }

    /// The segment of that key.
    pub(super) fn find(&self, key: Key) -> Option<usize> {
        self.keys.iter().position(|other| *other == key)
    }

    /// Makes a segment the most recently used.
    pub(super) fn touch(&mut self, segment: usize) {
        self.uses += 1;
        self.segments[segment].used = self.uses;
    }

    /// The segment of that key, as it is or else empty in place of another; `None` if every segment is
    /// being filled or unwritten after that many destages.
    pub(super) fn claim(&mut self, key: Key, filling: Option<usize>, destages: u64) -> Option<usize> {
        let segment = match self.find(key) {
            Some(segment) => segment,
            None => {
                let victim = self.victim(filling, destages)?;
                self.keys[victim] = key;
                self.segments[victim].destages = 0;
                self.written[victim * self.words..(victim + 1) * self.words].fill(0);
                victim
            }
        };
        self.touch(segment);
        Some(segment)
    }

    /// Returns true if [`claim`](Self::claim) would find a segment.
    pub(super) fn can_claim(&self, key: Key, filling: Option<usize>, destages: u64) -> bool {
        self.find(key).is_some() || self.victim(filling, destages).is_some()
    }

    fn victim(&self, filling: Option<usize>, destages: u64) -> Option<usize> {
        // A plain loop: as a chain of iterators it took a fifth of a simulation's time.
        let (mut victim, mut least) = (None, u64::MAX);
        for (index, segment) in self.segments.iter().enumerate() {
            if segment.used < least && segment.destages <= destages && filling != Some(index) {
                (victim, least) = (Some(index), segment.used);
            }
        }
        victim
    }

    /// Reads the track of a segment from `landed` until `until`.
    pub(super) fn fill(&mut self, segment: usize, landed: Instant, until: Instant) {
        self.segments[segment].landed = landed;
        self.segments[segment].until = until;
    }

    /// Ends the filling of a segment at `time`, if it has not ended before.
    pub(super) fn cut(&mut self, segment: usize, time: Instant) {
        let until = &mut self.segments[segment].until;
        *until = time.min(*until);
    }

    /// Returns the time at which the filling of a segment ends.
    pub(super) fn filled(&self, segment: usize) -> Instant {
        self.segments[segment].until
    }

    /// Puts written sectors into a segment; they will be on the media after that many destages.
    pub(super) fn write(&mut self, segment: usize, extent: &Extent, destages: u64) {
        self.segments[segment].destages = destages;
        for (index, mask) in masks(extent) {
            self.written[segment * self.words + index] |= mask;
        }
    }

    /// The segment that holds all of a piece at `now`, or will, and when.
    pub(super) fn holds(
        &self,
        mechanism: &impl Media,
        extent: &Extent,
        now: Instant,
    ) -> Option<(usize, Arrival)> {
        if let Some(segment) = self.find(Key::read(extent))
            && let Some(arrival) = self.arrival(mechanism, segment, extent)
        {
            return Some((segment, arrival));
        }
        let segment = self.find(Key::written(extent))?;
        let written = &self.written[segment * self.words..];
        masks(extent)
            .all(|(index, mask)| written[index] & mask == mask)
            .then_some((segment, Arrival { first: now, last: now }))
    }

    /// Returns the arrival of a piece of a track that is read, or `None` if the head left before.
    fn arrival(&self, mechanism: &impl Media, segment: usize, extent: &Extent) -> Option<Arrival> {
        let Segment { landed, until, .. } = self.segments[segment];
        let begin = mechanism.latency(landed, extent.angle);
        // Where the head landed within the piece, the turn that brings its front completes it.
        let end = (begin + mechanism.passing(extent.zone, extent.span)).min(mechanism.period());
        let last = landed + end;
        (last <= until).then(|| Arrival { first: landed + begin + mechanism.passing(extent.zone, 1), last })
    }
}

/// The sectors of an extent as words of a bit map.
fn masks(extent: &Extent) -> impl Iterator<Item = (usize, u64)> {
    let (from, end) = (extent.sector, extent.sector + extent.span);
    (from / u64::BITS..end.div_ceil(u64::BITS)).map(move |word| {
        let first = from.saturating_sub(word * u64::BITS);
        let last = (end - word * u64::BITS).min(u64::BITS);
        (word as usize, (u64::MAX >> (u64::BITS - (last - first))) << first)
    })
}
