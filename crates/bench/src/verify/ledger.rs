//! The ledger: for every block of a target the last write that is known to be there. All threads of all streams share it
//! without a lock, but for flushes, which look at the writes under way of all threads.
//!
//! # Scope and limits
//! With a state file, each block has a second word: the last write that a completed flush covers, of blocks that were
//! written again since. A write that was acknowledged while a flush was under way, and overwritten before that completed,
//! is missing there.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use seeklab_core::{ByteSize, Operation, Request};

use super::memory::Words;
use super::state::{StateError, StatePart};
use super::word::{STREAMS_MAX, Word};

/// Failure to make a ledger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// No memory or no file for it.
    #[error("--verify: no room for {bytes} bytes, 8 for each block")]
    Room {
        /// Bytes of the ledger.
        bytes: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// More streams than a word has numbers for.
    #[error("--verify: the plan has {count} streams, at most {STREAMS_MAX} are allowed")]
    Streams {
        /// Streams of all phases.
        count: usize,
    },
    /// The state file cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Properties of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Number of the run.
    pub(super) run: u64,
    /// Blocks of the target.
    pub(super) blocks: u64,
    /// Size of a block.
    pub(super) block_bytes: u64,
}

/// The ledger of a target.
#[derive(Debug)]
pub(super) struct Ledger {
    shape: Shape,
    words: Arc<Words>,
    /// Place of the word of block 0.
    first: usize,
    state: Option<StatePart>,
    is_in_file: bool,
    /// Threads that may write, or have.
    writers: AtomicU32,
    heeds_flushes: AtomicBool,
    /// A write of zeroes or a discard was issued.
    clears: AtomicBool,
    /// An audit requires this instead of checking a run: every acknowledged write, or those that a flush covers.
    audit: Option<Required>,
    /// The last sequence number that was given to a write.
    pub(super) sequence: AtomicU64,
    /// Writes below this number had ended before the last completed flush was issued.
    flushed_below: AtomicU64,
    /// For each thread a number that none of its writes under way is below.
    oldest: RwLock<Vec<Arc<AtomicU64>>>,
}

/// Writes that an audit requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Required {
    /// Acknowledged before the last completed flush.
    Flushed,
    /// Acknowledged.
    Acknowledged,
}

impl Ledger {
    fn make(shape: Shape, words: Arc<Words>, state: Option<StatePart>, is_in_file: bool) -> Self {
        Self {
            shape,
            words,
            first: state.as_ref().map_or(0, StatePart::first_word),
            state,
            is_in_file,
            writers: AtomicU32::new(0),
            heeds_flushes: AtomicBool::new(true),
            clears: AtomicBool::new(false),
            audit: None,
            sequence: AtomicU64::new(0),
            flushed_below: AtomicU64::new(0),
            oldest: RwLock::default(),
        }
    }

    /// A ledger that ends with the process: in memory up to `ram`, else in a file without a name.
    ///
    /// # Errors
    /// If there is no room for it.
    pub(super) fn new(shape: Shape, ram: ByteSize) -> Result<Self, LedgerError> {
        let bytes = shape.blocks.saturating_mul(8);
        let room = |source| LedgerError::Room { bytes, source };
        let count = usize::try_from(shape.blocks).map_err(|_| room(io::ErrorKind::OutOfMemory.into()))?;
        let is_in_file = bytes > ram.as_bytes();
        let words = match is_in_file {
            false => Words::in_ram(count).map_err(room)?,
            true => tempfile::tempfile().and_then(|file| Words::in_file(&file, count)).map_err(room)?,
        };
        Ok(Self::make(shape, Arc::new(words), None, is_in_file))
    }

    /// A ledger in a new state file.
    pub(super) fn in_state(state: StatePart) -> Self {
        Self::make(state.shape(), Arc::clone(state.words()), Some(state), true)
    }

    /// The ledger of a state file, to check what it requires.
    pub(super) fn audit(state: StatePart, required: Required) -> Self {
        let (sequence, flushed_below) = (state.sequence(), state.flushed_below());
        let ledger = Self::in_state(state);
        ledger.sequence.store(sequence, Ordering::Relaxed);
        ledger.flushed_below.store(flushed_below, Ordering::Relaxed);
        Self { audit: Some(required), ..ledger }
    }

    /// One more thread writes. A flush of one of several says nothing about the writes of the others, unless it covers all.
    pub(super) fn add_writer(&self, flush_covers_all: bool) {
        if self.writers.fetch_add(1, Ordering::Relaxed) > 0 && !flush_covers_all {
            self.heeds_flushes.store(false, Ordering::Relaxed);
        }
    }

    /// The number for one more thread that none of its writes under way is below.
    pub(super) fn add_lane(&self) -> Arc<AtomicU64> {
        let lane = Arc::new(AtomicU64::new(u64::MAX));
        let mut lanes = self.oldest.write().unwrap_or_else(PoisonError::into_inner);
        // Threads of earlier phases have none under way.
        lanes.retain(|lane| Arc::strong_count(lane) > 1);
        lanes.push(Arc::clone(&lane));
        lane
    }

    pub(super) const fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) const fn is_in_file(&self) -> bool {
        self.is_in_file
    }

    /// Bytes of the ledger.
    pub(super) fn memory_bytes(&self) -> u64 {
        let words = if self.state.is_some() { 2 } else { 1 };
        8 * words * self.shape.blocks
    }

    fn word_of(&self, lbn: u64) -> &AtomicU64 {
        &self.words.words()[self.first + lbn as usize]
    }

    fn durable_of(&self, lbn: u64) -> Option<&AtomicU64> {
        self.state.as_ref()?;
        Some(&self.words.words()[self.first + (self.shape.blocks + lbn) as usize])
    }

    /// State of a block now; in an audit, the state that is required.
    pub(super) fn word(&self, lbn: u64) -> Word {
        let word = Word(self.word_of(lbn).load(Ordering::Acquire));
        match self.audit {
            None => word,
            Some(required) => self.required(lbn, word, required),
        }
    }

    fn required(&self, lbn: u64, word: Word, required: Required) -> Word {
        let later = word.flags(Word::ZEROES | Word::ANY);
        let is_in_doubt = word.has(Word::BUSY | Word::DOUBT);
        let of = |base: Word| {
            let is_older = base.sequence() != word.sequence();
            let doubt = if is_older || is_in_doubt { Word::DOUBT } else { 0 };
            // Zeroes and discards that came later may or may not be there.
            Word(base.0 & !(Word::BUSY | Word::DOUBT) | later | doubt)
        };
        let is_durable = word.has(Word::ACKNOWLEDGED) && self.is_flushed(word.sequence());
        if required == Required::Acknowledged || is_durable {
            return of(word);
        }
        let durable = self.durable_of(lbn).map_or(0, |durable| durable.load(Ordering::Acquire));
        if durable == 0 { Word::default() } else { of(Word(durable)) }
    }

    fn is_flushed(&self, sequence: u64) -> bool {
        sequence < self.flushed_below.load(Ordering::Acquire)
    }

    /// Gives blocks to a write, unless one of them has a write under way.
    pub(super) fn take(&self, lbn: u64, blocks: u64, op: Operation) -> bool {
        for at in lbn..lbn + blocks {
            let before = Word(self.word_of(at).fetch_or(Word::BUSY, Ordering::AcqRel));
            if before.has(Word::BUSY) {
                for taken in lbn..at {
                    self.word_of(taken).fetch_and(!Word::BUSY, Ordering::AcqRel);
                }
                return false;
            }
        }
        let flag = match op {
            Operation::WriteZeroes => Word::ZEROES,
            Operation::Discard => Word::ANY,
            _ => return true,
        };
        self.clears.store(true, Ordering::Release);
        for at in lbn..lbn + blocks {
            self.word_of(at).fetch_or(flag, Ordering::AcqRel);
        }
        true
    }

    /// Returns true if a write of zeroes or a discard was issued so far.
    pub(super) fn clears(&self) -> bool {
        self.clears.load(Ordering::Acquire)
    }

    /// A sequence number for a write of a thread that has no write under way which is older.
    pub(super) fn next_sequence(&self, oldest: &AtomicU64, has_older: bool) -> u64 {
        if !has_older {
            // Before the number exists, so that a flush in between does not cover the write.
            oldest.store(self.sequence.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        let sequence = self.sequence.fetch_add(1, Ordering::SeqCst) + 1;
        if !has_older {
            oldest.store(sequence, Ordering::SeqCst);
        }
        if let Some(state) = &self.state {
            state.note_sequence(sequence);
        }
        sequence
    }

    /// A write of a stream was acknowledged.
    pub(super) fn acknowledge(&self, (sequence, stream): (u64, u32), request: &Request) {
        let (lbn, blocks, op) = (request.lbn, u64::from(request.blocks), request.op);
        let flags = match op {
            Operation::WriteZeroes => Word::ZEROES,
            Operation::Discard => Word::ANY,
            _ => 0,
        };
        for at in lbn..lbn + blocks {
            let flags = Word::ACKNOWLEDGED | flags;
            self.replace(at, |word| Word::new(sequence, stream, flags | word.flags(Word::SEEN)));
            if request.fua
                && let Some(durable) = self.durable_of(at)
            {
                durable.store(Word::new(sequence, stream, flags).0, Ordering::Release);
            }
        }
    }

    /// A write ended, and nobody knows whether it was carried out.
    pub(super) fn doubt(&self, lbn: u64, blocks: u64) {
        for at in lbn..lbn + blocks {
            let of = |word| Some((word | Word::DOUBT) & !Word::BUSY);
            let _ = self.word_of(at).fetch_update(Ordering::AcqRel, Ordering::Acquire, of);
        }
    }

    /// A write of a stream was read: an earlier one must not come back.
    pub(super) fn was_read(&self, lbn: u64, (sequence, stream): (u64, u32)) {
        if self.audit.is_some() {
            return;
        }
        let word = Word(self.word_of(lbn).load(Ordering::Acquire));
        if sequence > word.sequence() {
            let kept = Word::BUSY | Word::DOUBT | Word::ZEROES | Word::ANY;
            self.replace(lbn, |word| match sequence > word.sequence() {
                true => Word::new(sequence, stream, Word::SEEN | word.flags(kept)),
                false => word,
            });
        } else if !word.has(Word::SEEN) {
            self.word_of(lbn).fetch_or(Word::SEEN, Ordering::AcqRel);
        }
    }

    /// Changes a word, and keeps it as the durable one if a flush covers it and another write takes its place.
    fn replace(&self, lbn: u64, of: impl Fn(Word) -> Word) {
        let place = self.word_of(lbn);
        let mut now = place.load(Ordering::Acquire);
        loop {
            let (old, new) = (Word(now), of(Word(now)));
            let is_replaced = old.sequence() != new.sequence() && old.has(Word::ACKNOWLEDGED);
            if is_replaced
                && self.is_flushed(old.sequence())
                && let Some(durable) = self.durable_of(lbn)
            {
                let kept = old.flags(Word::ACKNOWLEDGED | Word::ZEROES | Word::ANY);
                durable.store(old.with_flags(kept).0, Ordering::Release);
            }
            match place.compare_exchange_weak(now, new.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }

    /// A flush is issued; returns the number below which it covers all writes that were acknowledged.
    pub(super) fn begin_flush(&self) -> u64 {
        let next = self.sequence.load(Ordering::SeqCst) + 1;
        let lanes = self.oldest.read().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().map(|oldest| oldest.load(Ordering::SeqCst)).fold(next, u64::min)
    }

    /// The flush completed.
    pub(super) fn flushed(&self, below: u64) {
        if !self.heeds_flushes.load(Ordering::Relaxed) {
            return;
        }
        self.flushed_below.fetch_max(below, Ordering::AcqRel);
        if let Some(state) = &self.state {
            state.note_flushed(below);
        }
    }
}
