//! Promises of an application: the blocks that it relies on after each of its commits, and the check of a device.
//!
//! ```text
//! write ─▶ complete ─▶ flush sent … flush complete ─▶ durable          commit: everything durable by now is promised
//! write with force unit access ─▶ complete ─────────▶ durable
//! ```
//! A commit promises its log record. It relies on everything that was complete before its flush, for a log record is of
//! use only if the pages of earlier checkpoints are there. So a commit promises all of that.
//!
//! # Scope and limits
//! Blocks that were discarded, or whose write failed, are promised no more.

use std::collections::BTreeMap;

use seeklab_core::{Instant, Operation};

use super::content::{Mismatch, is_version_from};

/// Promises of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Promises {
    seed: u64,
    block_bytes: u64,
    /// Blocks that became durable, in order.
    durable: Vec<Extent>,
    /// Time of each promise and the number of extents that were durable then.
    commits: Vec<(Instant, usize)>,
    /// Commits so far.
    count: u64,
    /// By tag: changes that are outstanding.
    outstanding: BTreeMap<u64, Extent>,
    /// Changes that are complete and not durable, in order of completion.
    complete: Vec<Extent>,
    /// By tag: number of the changes that were complete when the flush was sent.
    flushes: BTreeMap<u64, usize>,
    /// Changes that have left `complete`.
    gone: usize,
}

/// Blocks with one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    offset: u64,
    length: u64,
    /// `None` if they were discarded.
    version: Option<u64>,
    fua: bool,
}

impl Promises {
    pub(super) const fn new(seed: u64, block_bytes: u64) -> Self {
        Self {
            seed,
            block_bytes,
            durable: Vec::new(),
            commits: Vec::new(),
            count: 0,
            outstanding: BTreeMap::new(),
            complete: Vec::new(),
            flushes: BTreeMap::new(),
            gone: 0,
        }
    }

    /// Notes a request that is sent; a write gives its blocks `version`.
    pub(super) fn submitted(&mut self, tag: u64, op: Operation, range: (u64, u64), version: u64, fua: bool) {
        let (offset, length) = range;
        let extent = |version| Extent { offset, length, version, fua };
        match op {
            Operation::Read => {}
            Operation::Flush => drop(self.flushes.insert(tag, self.gone + self.complete.len())),
            Operation::Write => drop(self.outstanding.insert(tag, extent(Some(version)))),
            Operation::Discard | Operation::WriteZeroes => {
                self.outstanding.insert(tag, extent(None));
            }
        }
    }

    /// Notes that a request is complete.
    pub(super) fn completed(&mut self, tag: u64) {
        if let Some(complete) = self.flushes.remove(&tag) {
            let covered = complete.saturating_sub(self.gone);
            self.durable.extend(self.complete.drain(..covered));
            self.gone += covered;
        }
        match self.outstanding.remove(&tag) {
            Some(extent) if extent.fua => self.durable.push(extent),
            Some(extent) => self.complete.push(extent),
            None => {}
        }
    }

    /// Notes that a request has failed for good: the blocks of a write may hold anything.
    pub(super) fn failed(&mut self, tag: u64) {
        self.flushes.remove(&tag);
        if let Some(extent) = self.outstanding.remove(&tag) {
            self.durable.push(Extent { version: None, ..extent });
        }
    }

    /// Notes that there have been `count` commits at `now`.
    pub(super) fn committed(&mut self, count: u64, now: Instant) {
        while self.count < count {
            self.count += 1;
            self.commits.push((now, self.durable.len()));
        }
    }

    /// Times of the commits, in order.
    pub fn commits(&self) -> impl Iterator<Item = Instant> {
        self.commits.iter().map(|(at, _)| *at)
    }

    /// Compares a device with what was promised until `cut`. `read` fills a block from an offset of the device, and returns
    /// false if it cannot be read. Mismatches come in order of blocks.
    ///
    /// # Errors
    /// The first error of `read`.
    pub fn check<E>(
        &self,
        cut: Instant,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<bool, E>,
    ) -> Result<Vec<Mismatch>, E> {
        let made = self.commits.partition_point(|(at, _)| *at <= cut);
        let Some((_, durable)) = made.checked_sub(1).map(|last| self.commits[last]) else {
            return Ok(Vec::new());
        };
        let mut promised: BTreeMap<u64, u64> = BTreeMap::new();
        for extent in &self.durable[..durable] {
            for offset in (extent.offset..extent.offset + extent.length).step_by(self.block_bytes as usize) {
                match extent.version {
                    Some(version) => {
                        let newest = promised.entry(offset).or_default();
                        *newest = version.max(*newest);
                    }
                    None => drop(promised.remove(&offset)),
                }
            }
        }
        let mut block = vec![0; self.block_bytes as usize];
        let mut mismatches = Vec::new();
        for (offset, version) in promised {
            if !read(offset, &mut block)? {
                block.fill(0);
            }
            if !is_version_from(self.seed, offset, version, &block) {
                mismatches.push(Mismatch::of(offset, version, &block));
            }
        }
        Ok(mismatches)
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::Content;
    use super::*;

    const BLOCK: usize = 512;

    const fn us(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    /// A device of four blocks, and what was promised about it.
    struct Bench {
        content: Content,
        promises: Promises,
        device: Vec<u8>,
        tag: u64,
    }

    impl Bench {
        fn new() -> Self {
            let (content, promises) = (Content::new(7, 512), Promises::new(7, 512));
            Self { content, promises, device: vec![0; 4 * BLOCK], tag: 0 }
        }

        /// Sends a request; its tag, and the bytes of a write.
        fn send(&mut self, op: Operation, block: usize, fua: bool) -> (u64, Vec<u8>) {
            self.tag += 1;
            let mut bytes = vec![0; BLOCK];
            let offset = (block * BLOCK) as u64;
            let version = if op == Operation::Write { self.content.write(offset, &mut bytes) } else { 0 };
            self.promises.submitted(self.tag, op, (offset, 512), version, fua);
            (self.tag, bytes)
        }

        /// Writes a block and waits for it.
        fn write(&mut self, block: usize, fua: bool) -> Vec<u8> {
            let (tag, bytes) = self.send(Operation::Write, block, fua);
            self.device[block * BLOCK..(block + 1) * BLOCK].copy_from_slice(&bytes);
            self.promises.completed(tag);
            bytes
        }

        fn flush(&mut self) {
            let (tag, _) = self.send(Operation::Flush, 0, false);
            self.promises.completed(tag);
        }

        /// Offsets of the blocks that are not as promised before the cut, with the version that was expected.
        fn broken(&self, cut: Instant) -> Vec<(u64, u64)> {
            let read = |offset: u64, block: &mut [u8]| {
                block.copy_from_slice(&self.device[offset as usize..][..BLOCK]);
                Ok::<bool, ()>(true)
            };
            let mismatches = self.promises.check(cut, read).unwrap();
            mismatches.iter().map(|mismatch| (mismatch.offset_bytes, mismatch.expected_version)).collect()
        }
    }

    #[test]
    fn commit_promises_what_was_complete_before_its_flush() {
        let mut bench = Bench::new();
        bench.write(0, false);
        let (late, _) = bench.send(Operation::Write, 1, false);
        let (flush, _) = bench.send(Operation::Flush, 0, false);
        bench.promises.completed(late);
        bench.promises.completed(flush);
        bench.promises.committed(1, us(10));
        // The write that was outstanding when the flush was sent is not promised.
        assert_eq!(bench.broken(us(10)), []);
        bench.device[..BLOCK].fill(0);
        assert_eq!(bench.broken(us(10)), [(0, 1)]);
        assert_eq!(bench.broken(us(9)), [], "nothing was promised before");
        bench.flush();
        bench.promises.committed(2, us(20));
        assert_eq!(bench.broken(us(20)), [(0, 1), (512, 2)]);
        assert_eq!(bench.promises.commits().collect::<Vec<_>>(), [us(10), us(20)]);
    }

    #[test]
    fn newer_version_keeps_a_promise_and_an_older_or_torn_one_breaks_it() {
        let mut bench = Bench::new();
        let old = bench.write(0, false);
        bench.write(0, true);
        bench.promises.committed(1, us(10));
        assert_eq!(bench.broken(us(10)), []);
        bench.write(0, false);
        assert_eq!(bench.broken(us(10)), [], "the write behind it may be on the media");
        bench.device[BLOCK - 1] ^= 1;
        assert_eq!(bench.broken(us(10)), [(0, 2)]);
        bench.device[..BLOCK].copy_from_slice(&old);
        assert_eq!(bench.broken(us(10)), [(0, 2)]);
    }

    #[test]
    fn discarded_and_unreadable_blocks() {
        let mut bench = Bench::new();
        bench.write(0, true);
        bench.promises.committed(1, us(10));
        let unreadable = bench.promises.check(us(10), |_, _| Ok::<bool, ()>(false)).unwrap();
        assert_eq!(unreadable.len(), 1);
        let (tag, _) = bench.send(Operation::Discard, 0, true);
        bench.promises.completed(tag);
        bench.promises.committed(2, us(20));
        bench.device[..BLOCK].fill(0);
        assert_eq!(bench.broken(us(20)), []);
    }

    #[test]
    fn request_that_failed_promises_nothing() {
        let mut bench = Bench::new();
        bench.write(0, true);
        bench.write(1, false);
        let (write, _) = bench.send(Operation::Write, 0, false);
        bench.promises.failed(write);
        let (flush, _) = bench.send(Operation::Flush, 0, false);
        bench.promises.failed(flush);
        bench.promises.committed(1, us(10));
        bench.device.fill(0);
        assert_eq!(bench.broken(us(10)), []);
    }
}
