//! Results of a verification: blocks that hold something else than they should.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Number of the stream that wrote it, within its run.
    pub stream: u32,
}

/// A block that held something else than it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// Kind.
    pub kind: Kind,
    /// Number of the target.
    pub target: usize,
    /// The block.
    pub lbn: u64,
    /// Number of the last acknowledged write to it. A later one would be right, too.
    pub expected_sequence: u64,
    /// Stream of that write; `None` if the run has not written the block.
    pub expected_stream: Option<u32>,
    /// The stamp that was found, if the block holds a whole one.
    pub found: Option<FoundStamp>,
    /// The byte of which the block consists, if it is one.
    pub constant_byte: Option<u8>,
    /// Time of the completion of the read from the begin of the run.
    pub at: Instant,
}

impl Finding {
    /// Stream to which it counts: that of the expected write, or that of the data in a block that the run has not written.
    pub fn stream(&self) -> Option<u32> {
        self.expected_stream.or_else(|| self.found.filter(|found| found.is_of_run).map(|found| found.stream))
    }
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
    /// The same of each stream.
    pub streams: Vec<[u64; Kind::ALL.len()]>,
    /// The first findings.
    pub first: Vec<Finding>,
    /// Bytes of the ledger.
    pub memory_bytes: u64,
    /// The ledger is in a file.
    pub memory_in_file: bool,
}

impl Findings {
    /// Adds those of another target of the same run.
    pub fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.checked_blocks += other.checked_blocks;
        self.unwritten_blocks += other.unwritten_blocks;
        self.undecided_blocks += other.undecided_blocks;
        self.overtaken_blocks += other.overtaken_blocks;
        self.held_writes += other.held_writes;
        self.writes += other.writes;
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.streams.resize(self.streams.len().max(other.streams.len()), Default::default());
        for (counts, more) in self.streams.iter_mut().zip(other.streams) {
            counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        }
        self.first.extend(other.first);
        self.first.truncate(FIRST_MAX);
        self.memory_bytes += other.memory_bytes;
        self.memory_in_file |= other.memory_in_file;
    }

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
    lanes: Mutex<Vec<Arc<LaneCounts>>>,
    first: Mutex<Vec<Finding>>,
    /// Findings of each stream by kind.
    streams: Vec<[AtomicU64; Kind::ALL.len()]>,
    /// Target and number of each write that was cut off.
    cut_off: Mutex<BTreeSet<(usize, u64)>>,
    /// Writes of zeroes and discards that were cut off.
    cut_off_clears: Mutex<Vec<Clear>>,
}

/// Blocks that a request clears.
#[derive(Debug, Clone, Copy)]
struct Clear {
    target: usize,
    lbn: u64,
    end: u64,
}

/// The value behind a lock, also if a thread has panicked with it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Results of so many streams.
    pub(super) fn new(streams: usize) -> Self {
        Self {
            lanes: Mutex::default(),
            first: Mutex::default(),
            streams: (0..streams).map(|_| Default::default()).collect(),
            cut_off: Mutex::default(),
            cut_off_clears: Mutex::default(),
        }
    }

    /// The counts of one more thread.
    pub(super) fn add_lane(&self) -> Arc<LaneCounts> {
        let lane = Arc::<LaneCounts>::default();
        locked(&self.lanes).push(Arc::clone(&lane));
        lane
    }

    /// Takes a finding of a thread. Only findings take this lock.
    pub(super) fn report(&self, lane: &LaneCounts, finding: Finding) {
        add(&lane.kinds[finding.kind as usize], 1);
        if let Some(kinds) = finding.stream().and_then(|stream| self.streams.get(stream as usize)) {
            kinds[finding.kind as usize].fetch_add(1, Ordering::Relaxed);
        }
        let mut first = locked(&self.first);
        if first.len() < FIRST_MAX {
            first.push(finding);
        }
    }

    /// Notes a write that was cut off. Only such writes take this lock, and stale blocks.
    pub(super) fn cut_off(&self, target: usize, sequence: u64) {
        locked(&self.cut_off).insert((target, sequence));
    }

    /// Returns true of a write that was cut off.
    pub(super) fn was_cut_off(&self, target: usize, sequence: u64) -> bool {
        locked(&self.cut_off).contains(&(target, sequence))
    }

    /// Notes a write of zeroes or a discard that was cut off. Only such requests take this lock, and blank blocks.
    pub(super) fn cut_off_clear(&self, target: usize, lbn: u64, blocks: u64) {
        locked(&self.cut_off_clears).push(Clear { target, lbn, end: lbn + blocks });
    }

    /// Returns true of a block that a request which was cut off may clear at any time.
    pub(super) fn was_clear_cut_off(&self, target: usize, lbn: u64) -> bool {
        let clears = locked(&self.cut_off_clears);
        clears.iter().any(|clear| clear.target == target && (clear.lbn..clear.end).contains(&lbn))
    }

    pub(super) fn findings(&self) -> Findings {
        let lanes = locked(&self.lanes);
        let sum = |of: fn(&LaneCounts) -> &AtomicU64| {
            lanes.iter().map(|lane| of(lane).load(Ordering::Relaxed)).sum::<u64>()
        };
        let mut counts = [0; Kind::ALL.len()];
        for (kind, count) in counts.iter_mut().enumerate() {
            *count = lanes.iter().map(|lane| lane.kinds[kind].load(Ordering::Relaxed)).sum();
        }
        let kinds = |kinds: &[AtomicU64; Kind::ALL.len()]| {
            std::array::from_fn(|kind| kinds[kind].load(Ordering::Relaxed))
        };
        Findings {
            reads: sum(|lane| &lane.reads),
            checked_blocks: sum(|lane| &lane.checked_blocks),
            unwritten_blocks: sum(|lane| &lane.unwritten_blocks),
            undecided_blocks: sum(|lane| &lane.undecided_blocks),
            overtaken_blocks: sum(|lane| &lane.overtaken_blocks),
            held_writes: sum(|lane| &lane.held_writes),
            counts,
            streams: self.streams.iter().map(kinds).collect(),
            first: locked(&self.first).clone(),
            ..Findings::default()
        }
    }
}
