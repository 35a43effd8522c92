//! The word of a block in the ledger: the last write that is known to be there, and what else may be.

/// State of a block.
///
/// ```text
/// | sequence number: 56 bits | 2 unused | doubt | busy | read | any | zeroes | acknowledged |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Word(pub(super) u64);

/// Bits of the flags.
const FLAG_BITS: u32 = 8;

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

    /// A word with that sequence number and flags.
    pub(super) const fn new(sequence: u64, flags: u64) -> Self {
        Self(sequence << FLAG_BITS | flags)
    }

    /// Sequence number; zero of a block that was never written.
    pub(super) const fn sequence(self) -> u64 {
        self.0 >> FLAG_BITS
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
