//! Results of a verification: blocks that hold something else than they should.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use seeklab_core::Instant;

/// Kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The stamp is there, and the checksum does not confirm it; or data of nobody, where a stamp was read before.
    Corrupt,
    /// A part of the write is there: sectors of a block, or blocks of the write, are those from before it.
    Torn,
    /// Data of another address.
    Misdirected,
    /// An earlier write, or one of an earlier run.
    Stale,
    /// Never written: the same byte throughout, or what was there before the run.
    Blank,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Corrupt, Self::Torn, Self::Misdirected, Self::Stale, Self::Blank];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Corrupt => "corrupt",
            Self::Torn => "torn",
            Self::Misdirected => "misdirected",
            Self::Stale => "stale",
            Self::Blank => "blank",
        }
    }
}

/// The stamp that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundStamp {
    /// The write was one of this run.
    pub is_of_run: bool,
    /// Block for which the data was written.
    pub lbn: u64,
    /// Number of the write within its run.
    pub sequence: u64,
    /// Stream that wrote it.
    pub stream: u32,
}

/// A block that held something else than it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// Kind.
    pub kind: Kind,
    /// The block.
    pub lbn: u64,
    /// Number of the last acknowledged write to it. A later one would be right, too.
    pub expected_sequence: u64,
    /// The stamp that was found, if the block holds a whole one.
    pub found: Option<FoundStamp>,
    /// The byte of which the block consists, if it is one.
    pub constant_byte: Option<u8>,
    /// Time of the completion of the read, on the clock of the target.
    pub at: Instant,
}

/// Results of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Reads that were checked.
    pub reads: u64,
    /// Blocks of these that had been written in the run, and were checked.
    pub checked_blocks: u64,
    /// Blocks of these that had not been written.
    pub unwritten_blocks: u64,
    /// Torn or corrupt blocks with a write under way, and blank ones with one that clears, which may be as they should.
    pub undecided_blocks: u64,
    /// Blocks with a write, or cleared by a request, that was cut off before a later one was acknowledged. A server may carry it out when it likes.
    pub overtaken_blocks: u64,
    /// Writes that waited for another write to one of their blocks.
    pub held_writes: u64,
    /// Writes, discards and writes of zeroes that were issued.
    pub writes: u64,
    /// Findings by kind, in the order of [`Kind::ALL`].
    pub counts: [u64; Kind::ALL.len()],
    /// The first findings.
    pub first: Vec<Finding>,
    /// Bytes of the ledger.
    pub memory_bytes: u64,
    /// The ledger is in a file.
    pub memory_in_file: bool,
}

impl Findings {
    /// Number of findings.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Findings that are kept.
const FIRST_MAX: usize = 16;

/// Counts of one thread, which only that thread changes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct LaneCounts {
    pub(super) reads: AtomicU64,
    pub(super) checked_blocks: AtomicU64,
    pub(super) unwritten_blocks: AtomicU64,
    pub(super) undecided_blocks: AtomicU64,
    pub(super) overtaken_blocks: AtomicU64,
    pub(super) held_writes: AtomicU64,
    kinds: [AtomicU64; Kind::ALL.len()],
}

/// Adds to a count that one thread changes.
pub(super) fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// Results of all threads, which can be read although a thread does not come back.
#[derive(Debug)]
pub(super) struct Shared {
    lanes: Vec<LaneCounts>,
    first: Mutex<Vec<Finding>>,
    /// Writes that were cut off.
    cut_off: Mutex<BTreeSet<u64>>,
    /// First block and end of writes of zeroes and discards that were cut off.
    cut_off_clears: Mutex<Vec<(u64, u64)>>,
}

impl Shared {
    pub(super) fn new(lanes: u32) -> Self {
        Self {
            lanes: (0..lanes).map(|_| LaneCounts::default()).collect(),
            first: Mutex::default(),
            cut_off: Mutex::default(),
            cut_off_clears: Mutex::default(),
        }
    }

    pub(super) fn lane(&self, lane: u32) -> &LaneCounts {
        &self.lanes[lane as usize]
    }

    /// Takes a finding. Only findings take this lock.
    pub(super) fn report(&self, lane: u32, finding: Finding) {
        add(&self.lane(lane).kinds[finding.kind as usize], 1);
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.len() < FIRST_MAX {
            first.push(finding);
        }
    }

    /// Notes a write that was cut off. Only such writes take this lock, and stale blocks.
    pub(super) fn cut_off(&self, sequence: u64) {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner).insert(sequence);
    }

    /// Returns true of a write that was cut off.
    pub(super) fn was_cut_off(&self, sequence: u64) -> bool {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner).contains(&sequence)
    }

    /// Notes a write of zeroes or a discard that was cut off. Only such requests take this lock, and blank blocks.
    pub(super) fn cut_off_clear(&self, lbn: u64, blocks: u64) {
        let mut clears = self.cut_off_clears.lock().unwrap_or_else(PoisonError::into_inner);
        clears.push((lbn, lbn + blocks));
    }

    /// Returns true of a block that a request which was cut off may clear at any time.
    pub(super) fn was_clear_cut_off(&self, lbn: u64) -> bool {
        let clears = self.cut_off_clears.lock().unwrap_or_else(PoisonError::into_inner);
        clears.iter().any(|(first, end)| (*first..*end).contains(&lbn))
    }

    pub(super) fn findings(&self) -> Findings {
        let sum = |of: fn(&LaneCounts) -> &AtomicU64| {
            self.lanes.iter().map(|lane| of(lane).load(Ordering::Relaxed)).sum::<u64>()
        };
        let mut counts = [0; Kind::ALL.len()];
        for (kind, count) in counts.iter_mut().enumerate() {
            *count = self.lanes.iter().map(|lane| lane.kinds[kind].load(Ordering::Relaxed)).sum();
        }
        Findings {
            reads: sum(|lane| &lane.reads),
            checked_blocks: sum(|lane| &lane.checked_blocks),
            unwritten_blocks: sum(|lane| &lane.unwritten_blocks),
            undecided_blocks: sum(|lane| &lane.undecided_blocks),
            overtaken_blocks: sum(|lane| &lane.overtaken_blocks),
            held_writes: sum(|lane| &lane.held_writes),
            counts,
            first: self.first.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            ..Findings::default()
        }
    }
}
