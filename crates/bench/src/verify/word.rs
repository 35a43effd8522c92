//! The word of a block in the ledger: the last write that is known to be there, its stream, and what else may be.
//!
//! # Scope and limits
//! A run has at most 2^46 writes to a target and 4,096 streams.

/// State of a block.
///
/// ```text
/// | sequence number: 46 bits | stream: 12 bits | doubt | busy | read | any | zeroes | acknowledged |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Word(pub(super) u64);

/// Bits of the flags.
const FLAG_BITS: u32 = 6;
/// Bits of the number of a stream.
const STREAM_BITS: u32 = 12;
/// Streams of a run at most.
pub(super) const STREAMS_MAX: usize = 1 << STREAM_BITS;

impl Word {
    /// The write of the sequence number was acknowledged, not only read.
    pub(super) const ACKNOWLEDGED: u64 = 1;
    /// The block may hold zeroes: a write of zeroes was issued.
    pub(super) const ZEROES: u64 = 1 << 1;
    /// The block may hold anything: a discard was issued.
    pub(super) const ANY: u64 = 1 << 2;
    /// A stamp of this run was read there.
    pub(super) const SEEN: u64 = 1 << 3;
    /// A write is under way.
    pub(super) const BUSY: u64 = 1 << 4;
    /// A later write ended without being acknowledged.
    pub(super) const DOUBT: u64 = 1 << 5;

    /// A word with the sequence number and the stream of a write, and flags.
    pub(super) const fn new(sequence: u64, stream: u32, flags: u64) -> Self {
        let stream = stream as u64 & (STREAMS_MAX as u64 - 1);
        Self((sequence << STREAM_BITS | stream) << FLAG_BITS | flags)
    }

    /// Sequence number; zero of a block that was never written.
    pub(super) const fn sequence(self) -> u64 {
        self.0 >> (FLAG_BITS + STREAM_BITS)
    }

    /// Number of the stream of the write; `None` of a block that was never written.
    pub(super) const fn stream(self) -> Option<u32> {
        match self.sequence() {
            0 => None,
            _ => Some((self.0 >> FLAG_BITS) as u32 & (STREAMS_MAX as u32 - 1)),
        }
    }

    /// The same write with those flags.
    pub(super) const fn with_flags(self, flags: u64) -> Self {
        Self(self.0 >> FLAG_BITS << FLAG_BITS | flags)
    }

    /// Returns true if one of the flags is set.
    pub(super) const fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }

    /// The flags among these that are set.
    pub(super) const fn flags(self, among: u64) -> u64 {
        self.0 & among & ((1 << FLAG_BITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_keeps_write_stream_and_flags_apart() {
        let (sequence, stream) = ((1 << 46) - 1, STREAMS_MAX as u32 - 1);
        for word in [
            Word::new(sequence, 0, 0),
            Word::new(sequence, stream, 0),
            Word::new(sequence, stream, Word::DOUBT | Word::ACKNOWLEDGED),
        ] {
            assert_eq!(word.sequence(), sequence);
        }
        let word = Word::new(7, stream, Word::DOUBT);
        assert_eq!((word.sequence(), word.stream(), word.flags(u64::MAX)), (7, Some(stream), Word::DOUBT));
        assert_eq!(Word(Word::BUSY).stream(), None);
    }
}
