//! The buffer's segments.

/// Contiguous blocks in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// Number that no other segment has had.
    pub(super) id: u64,
    /// First block held.
    pub(super) start: u64,
    /// Block after the last held.
    pub(super) end: u64,
}

/// Segments, most recently used first.
#[derive(Debug)]
pub(super) struct Segments {
    segments: Vec<Segment>,
    count_max: usize,
    blocks_max: u64,
    made: u64,
}

impl Segments {
    pub(super) fn new(count_max: usize, blocks_max: u32) -> Self {
        Self { segments: Vec::new(), count_max, blocks_max: u64::from(blocks_max), made: 0 }
    }

    /// The segment that holds `lbn`.
    pub(super) fn holding(&self, lbn: u64) -> Option<Segment> {
        self.segments.iter().copied().find(|segment| (segment.start..segment.end).contains(&lbn))
    }

    /// Marks the segment as the most recently used.
    pub(super) fn touch(&mut self, id: u64) {
        if let Some(index) = self.segments.iter().position(|segment| segment.id == id) {
            self.segments[..=index].rotate_right(1);
        }
    }

    /// Makes a segment of `start..end`, in place of the least recently used if there is no other room.
    pub(super) fn make(&mut self, start: u64, end: u64) -> u64 {
        if self.segments.len() == self.count_max {
            self.segments.pop();
        }
        self.made += 1;
        // Room for all at the first, so that no later one allocates.
        self.segments.reserve_exact(self.count_max - self.segments.len());
        let segment = Segment { id: self.made, start: start.max(end.saturating_sub(self.blocks_max)), end };
        self.segments.insert(0, segment);
        self.made
    }

    /// The segment has been filled up to `end`; what no longer fits in drops out at its start.
    pub(super) fn fill(&mut self, id: u64, end: u64) {
        if let Some(segment) = self.segments.iter_mut().find(|segment| segment.id == id) {
            segment.end = end;
            segment.start = segment.start.max(end.saturating_sub(self.blocks_max));
        }
    }

    /// Forgets every segment that has a block of `start..end`.
    pub(super) fn invalidate(&mut self, start: u64, end: u64) {
        self.segments.retain(|segment| segment.end <= start || segment.start >= end);
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_segment_is_replaced() {
        let mut segments = Segments::new(2, 100);
        let first = segments.make(0, 10);
        segments.make(50, 60);
        segments.touch(first);
        segments.make(90, 95);
        assert!(segments.holding(5).is_some());
        assert!(segments.holding(55).is_none());
    }

    #[test]
    fn full_segment_drops_its_oldest_blocks() {
        let mut segments = Segments::new(1, 100);
        let id = segments.make(0, 10);
        segments.fill(id, 150);
        assert!(segments.holding(49).is_none());
        assert!(segments.holding(50).is_some());
        segments.invalidate(149, 151);
        assert!(segments.holding(60).is_none());
    }

    #[test]
    fn forking_to_and_fro_does_not_grow_the_buffer() {
        let mut one = Segments::new(16, 100);
        one.make(0, 10);
        let mut other = Segments::new(16, 100);
        other.clone_from(&one);
        for round in 0..64 {
            // A fork that has not been written to has another capacity than its target.
            other = Segments { segments: Vec::with_capacity(10), ..one.clone() };
            other.clone_from(&one);
            one.clone_from(&other);
            one.make(round * 20, round * 20 + 10);
            assert!(one.segments.capacity() <= 16, "round {round}: {}", one.segments.capacity());
        }
    }
}
