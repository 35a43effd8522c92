//! The checker of one thread: stamps the data of writes, judges the data of reads, and keeps the ledger.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seeklab_core::{Duration, Instant, Operation, Request, Status};

use super::finding::{Finding, Kind, LaneCounts, Shared, add};
use super::judge::{Contents, Meanwhile, Verdict, judge};
use super::ledger::Ledger;
use super::stamp::{SECTOR_BYTES, Stamp};
use super::word::Word;

/// An attempt that the target has.
#[derive(Debug, Default)]
struct Pending {
    request: Option<Request>,
    /// Number of a write; of a flush the number below which it covers writes.
    sequence: u64,
    /// Position of a write among those of this thread.
    position: u64,
    /// States of the blocks of a read when it was issued.
    words: Vec<u64>,
}

/// Stamps and checks the data of one thread. It lives where the data are: in the target.
#[derive(Debug)]
pub struct Checker {
    ledger: Arc<Ledger>,
    shared: Arc<Shared>,
    counts: Arc<LaneCounts>,
    /// A number that no write of this thread under way is below.
    oldest: Arc<AtomicU64>,
    place: CheckerPlace,
    /// By slot.
    pending: Vec<Pending>,
    /// Numbers of the writes of this thread in order, up to the oldest that is under way, and whether each has ended.
    writes: VecDeque<(u64, bool)>,
    /// Position of the first of them.
    first: u64,
    /// Findings of one read.
    wrong: Vec<Finding>,
}

/// Place of a checker in its run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CheckerPlace {
    /// Number of the target.
    pub(super) target: usize,
    /// Number of the stream.
    pub(super) stream: u32,
    /// Begin of the phase, from the begin of the run.
    pub(super) begin: Duration,
}

impl Checker {
    pub(super) fn new(ledger: Arc<Ledger>, shared: Arc<Shared>, place: CheckerPlace) -> Self {
        let (counts, oldest) = (shared.add_lane(), ledger.add_lane());
        let (pending, writes, wrong) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { ledger, shared, counts, oldest, place, pending, writes, first: 0, wrong }
    }

    /// Notes that a write was held back.
    pub(super) fn held_back(&self) {
        add(&self.counts.held_writes, 1);
    }

    /// An attempt is about to be issued. Returns false if it must wait for another write to one of its blocks.
    pub(super) fn begin(&mut self, tag: u32, request: &Request) -> bool {
        let tag = tag as usize;
        if self.pending.len() <= tag {
            self.pending.resize_with(tag + 1, Pending::default);
        }
        let blocks = u64::from(request.blocks);
        let pending = &mut self.pending[tag];
        match request.op {
            Operation::Read => {
                pending.words.clear();
                let words = (request.lbn..request.lbn + blocks).map(|lbn| self.ledger.word(lbn).0);
                pending.words.extend(words);
            }
            Operation::Flush => pending.sequence = self.ledger.begin_flush(),
            Operation::Write | Operation::WriteZeroes | Operation::Discard => {
                if !self.ledger.take(request.lbn, blocks, request.op) {
                    return false;
                }
                pending.sequence = self.ledger.next_sequence(&self.oldest, !self.writes.is_empty());
                pending.position = self.first + self.writes.len() as u64;
                self.writes.push_back((pending.sequence, false));
            }
        }
        pending.request = Some(*request);
        true
    }

    /// Stamps the data of the write in that slot.
    ///
    /// # Panics
    /// If no write was begun there.
    pub(crate) fn stamp(&self, tag: u32, bytes: &mut [u8]) {
        let Pending { request, sequence, .. } = &self.pending[tag as usize];
        let request = request.as_ref().expect("the write was begun");
        let shape = self.ledger.shape();
        let blocks = bytes.chunks_exact_mut(shape.block_bytes as usize);
        for (lbn, block) in (request.lbn..).zip(blocks) {
            for (sector, bytes) in block.chunks_exact_mut(SECTOR_BYTES).enumerate() {
                let (stream, sector) = (self.place.stream, sector as u16);
                Stamp { run: shape.run, lbn, sequence: *sequence, stream, sector }.write(bytes);
            }
        }
    }

    /// Checks the data of the read in that slot, which completed at `at`.
    ///
    /// # Panics
    /// If no read was begun there.
    pub(crate) fn check(&mut self, tag: u32, bytes: &[u8], at: Instant) {
        let Pending { request, words, .. } = &self.pending[tag as usize];
        let request = request.as_ref().expect("the read was begun");
        let shape = self.ledger.shape();
        let newest = self.ledger.sequence.load(Ordering::Acquire);
        let (mut checked, mut unwritten, mut undecided, mut overtaken) = (0, 0, 0, 0);
        let blocks = bytes.chunks_exact(shape.block_bytes as usize);
        for ((lbn, block), word) in (request.lbn..).zip(blocks.clone()).zip(words) {
            let word = Word(*word);
            let contents = Contents::read(block, shape.run, lbn, newest);
            let change = (self.ledger.word(lbn).0 ^ word.0) & !Word::SEEN;
            let meanwhile = match change | word.flags(Word::BUSY) {
                0 => Meanwhile::Nothing,
                _ if self.ledger.clears() => Meanwhile::Cleared,
                _ => Meanwhile::Written,
            };
            match judge(&contents, shape.run, lbn, word, meanwhile) {
                Verdict::Right(sequence) => {
                    checked += 1;
                    if let (Some(sequence), Contents::Whole(stamp)) = (sequence, &contents) {
                        self.ledger.was_read(lbn, (sequence, stamp.stream));
                    }
                }
                Verdict::Unwritten => unwritten += 1,
                Verdict::Undecided => undecided += 1,
                Verdict::Wrong(Kind::Stale) if self.is_overtaken(&contents) => overtaken += 1,
                // A server may clear it later than writes that came over the next connection.
                Verdict::Wrong(Kind::Blank) if self.shared.was_clear_cut_off(self.place.target, lbn) => {
                    overtaken += 1
                }
                Verdict::Wrong(kind) => {
                    checked += 1;
                    let constant_byte = match contents {
                        Contents::Constant(byte) => Some(byte),
                        _ => None,
                    };
                    self.wrong.push(Finding {
                        kind,
                        target: self.place.target,
                        lbn,
                        expected_sequence: word.sequence(),
                        expected_stream: word.stream(),
                        found: contents.stamp(shape.run),
                        constant_byte,
                        at: at + self.place.begin,
                    });
                }
            }
        }
        if !self.wrong.is_empty() {
            let right = |sequence: u64| {
                (request.lbn..).zip(blocks.clone()).zip(words).any(|((lbn, block), word)| {
                    let contents = Contents::read(block, shape.run, lbn, newest);
                    // With a write under way, an earlier one may be a stale one.
                    let is_quiet =
                        (self.ledger.word(lbn).0 ^ word) & !Word::SEEN == 0 && !Word(*word).has(Word::BUSY);
                    is_quiet
                        && Word(*word).sequence() == sequence
                        && matches!(contents, Contents::Whole(stamp)
                            if (stamp.run, stamp.lbn, stamp.sequence) == (shape.run, lbn, sequence))
                })
            };
            for mut finding in self.wrong.drain(..) {
                // Another block has the write that is missing here: it was carried out in part.
                let is_missing = matches!(finding.kind, Kind::Stale | Kind::Blank);
                if is_missing && right(finding.expected_sequence) {
                    finding.kind = Kind::Torn;
                }
                self.shared.report(&self.counts, finding);
            }
        }
        let counts = &self.counts;
        add(&counts.reads, 1);
        add(&counts.checked_blocks, checked);
        add(&counts.unwritten_blocks, unwritten);
        add(&counts.undecided_blocks, undecided);
        add(&counts.overtaken_blocks, overtaken);
    }

    /// Returns true of a write of this run whose connection was cut: its server may carry it out later than writes that came
    /// over the next connection.
    fn is_overtaken(&self, contents: &Contents) -> bool {
        let found = contents.stamp(self.ledger.shape().run);
        found.is_some_and(|stamp| self.shared.was_cut_off(self.place.target, stamp.sequence))
    }

    /// The attempt in that slot has ended.
    pub(super) fn end(&mut self, tag: u32, status: Status) {
        let is_success = status.is_success();
        let Some(pending) = self.pending.get_mut(tag as usize) else { return };
        let Some(request) = pending.request.take() else { return };
        let (sequence, position) = (pending.sequence, pending.position);
        match request.op {
            Operation::Read => {}
            Operation::Flush if is_success => self.ledger.flushed(sequence),
            Operation::Flush => {}
            Operation::Write | Operation::WriteZeroes | Operation::Discard => {
                match is_success {
                    true => self.ledger.acknowledge((sequence, self.place.stream), &request),
                    false => self.doubt(&request, sequence, matches!(status, Status::Gone | Status::Timeout)),
                }
                self.writes[(position - self.first) as usize].1 = true;
                while self.writes.front().is_some_and(|(_, has_ended)| *has_ended) {
                    self.writes.pop_front();
                    self.first += 1;
                }
                let oldest = self.writes.front().map_or(u64::MAX, |(sequence, _)| *sequence);
                self.oldest.store(oldest, Ordering::SeqCst);
            }
        }
    }

    /// Nobody knows whether a write was carried out, nor, if it was cut off, whether it will be.
    fn doubt(&self, request: &Request, sequence: u64, is_cut_off: bool) {
        let (target, lbn, blocks) = (self.place.target, request.lbn, u64::from(request.blocks));
        if is_cut_off {
            match request.op {
                Operation::Write => self.shared.cut_off(target, sequence),
                _ => self.shared.cut_off_clear(target, lbn, blocks),
            }
        }
        // Last: then another write may take its blocks.
        self.ledger.doubt(lbn, blocks);
    }
}

impl Drop for Checker {
    /// Writes that were under way at the end of a phase stand in the way of none of the next.
    fn drop(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            let Some(request) = pending.request else { continue };
            if !matches!(request.op, Operation::Read | Operation::Flush) {
                self.doubt(&request, pending.sequence, true);
            }
        }
        self.oldest.store(u64::MAX, Ordering::SeqCst);
    }
}
