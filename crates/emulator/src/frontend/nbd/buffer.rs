//! A byte queue in one piece of memory, initialised once and reused.

/// A queue of bytes: filled at the end, consumed from the start, always contiguous.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

/// Capacity that an empty buffer keeps. A larger buffer is reduced to it.
pub(super) const KEPT_BYTES: usize = 2 << 20;

impl Buffer {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { memory: vec![0; bytes], start: 0, end: 0 }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Forgets the first bytes.
    pub(super) fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "only what is there can be consumed");
        self.start += count;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Forgets the first bytes but lets them be looked at until the buffer is next changed.
    pub(super) fn take(&mut self, count: usize) -> std::ops::Range<usize> {
        let range = self.start..self.start + count;
        self.consume(count);
        range
    }

    /// Returns the bytes taken by [`take`](Self::take).
    pub(super) fn taken(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.memory[range]
    }

    /// Makes an empty, overgrown buffer small again.
    pub(super) fn trim(&mut self) {
        if self.is_empty() && self.memory.len() > KEPT_BYTES {
            self.memory.truncate(KEPT_BYTES);
            self.memory.shrink_to_fit();
        }
    }

    /// Makes the memory at least so large.
    pub(super) fn grow(&mut self, bytes: usize) {
        if self.memory.len() < bytes {
            self.memory.resize(bytes, 0);
        }
    }

    /// The room behind the content. Content and room together reach `wanted` in steps: memory at most
    /// doubles each time it is full, so that it follows what arrived and not what was announced.
    pub(super) fn room(&mut self, wanted: usize) -> &mut [u8] {
        let missing = wanted.saturating_sub(self.len());
        if self.start > 0 && self.memory.len() - self.end < missing.max(self.memory.len() / 4) {
            self.compact();
        }
        if self.end == self.memory.len() && wanted > self.memory.len() {
            let grown = wanted.min(self.memory.len().saturating_mul(2));
            self.memory.resize(grown, 0);
        }
        &mut self.memory[self.end..]
    }

    /// Counts bytes written into the [`room`](Self::room) as content.
    pub(super) fn filled(&mut self, count: usize) {
        assert!(count <= self.memory.len() - self.end, "only the room can be filled");
        self.end += count;
    }

    /// Appends `count` bytes of unspecified content and returns them.
    pub(super) fn append(&mut self, count: usize) -> &mut [u8] {
        if self.memory.len() - self.end < count {
            // Moving pays only where it frees much: else a long queue would be moved for each reply.
            if self.start >= self.memory.len() / 4 {
                self.compact();
            }
            let needed = self.end + count;
            if needed > self.memory.len() {
                let size = if needed > KEPT_BYTES {
                    needed.next_multiple_of(KEPT_BYTES / 2)
                } else {
                    needed.next_power_of_two()
                };
                self.memory.reserve_exact(size - self.memory.len());
                self.memory.resize(size, 0);
            }
        }
        let at = self.end;
        self.end += count;
        &mut self.memory[at..at + count]
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.append(bytes.len()).copy_from_slice(bytes);
    }

    /// The last bytes appended.
    pub(super) fn last(&mut self, count: usize) -> &mut [u8] {
        assert!(count <= self.len(), "only what is there can be changed");
        &mut self.memory[self.end - count..self.end]
    }

    /// Takes back the last bytes appended.
    pub(super) fn retract(&mut self, count: usize) {
        assert!(count <= self.len(), "only what is there can be taken back");
        self.end -= count;
    }

    fn compact(&mut self) {
        self.memory.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut buffer = Buffer::with_capacity(8);
        buffer.put(b"abcdef");
        buffer.consume(4);
        buffer.put(b"ghijkl");
        assert_eq!(buffer.as_slice(), b"efghijkl");
        assert_eq!(buffer.capacity(), 8, "the room at the start is used first");
        buffer.retract(3);
        let taken = buffer.take(2);
        assert_eq!(buffer.taken(taken), b"ef");
        assert_eq!(buffer.as_slice(), b"ghi");
    }

    #[test]
    fn room_follows_what_arrived() {
        let mut buffer = Buffer::with_capacity(16);
        assert_eq!(buffer.room(1 << 20).len(), 16, "an announcement alone allocates nothing");
        buffer.filled(16);
        assert_eq!(buffer.room(1 << 20).len(), 16);
        buffer.filled(16);
        assert_eq!(buffer.room(40).len(), 8);
        buffer.filled(8);
        buffer.consume(40);
        assert!(buffer.is_empty());
    }

    #[test]
    fn memory_follows_the_content_of_a_long_queue() {
        let mut buffer = Buffer::with_capacity(16);
        let piece = vec![7; 100_000];
        // Four pieces come for three that leave, up to 50 MB.
        for _ in 0..500 {
            for _ in 0..4 {
                buffer.put(&piece);
            }
            buffer.consume(3 * piece.len());
        }
        assert_eq!(buffer.len(), 50_000_000);
        assert!(buffer.capacity() <= buffer.len() / 3 * 4 + 2 * KEPT_BYTES, "{}", buffer.capacity());
    }

    #[test]
    fn an_overgrown_buffer_shrinks_when_empty() {
        let mut buffer = Buffer::with_capacity(16);
        buffer.append(3 * KEPT_BYTES);
        buffer.trim();
        assert!(buffer.capacity() > KEPT_BYTES);
        buffer.consume(3 * KEPT_BYTES);
        buffer.trim();
        assert_eq!(buffer.capacity(), KEPT_BYTES);
    }
}
