//! Verification: every sector that is written says which write it belongs to, and every read is checked.
//!
//! ```text
//! Verified (a Target) ─▶ admit, snapshot ─▶ inner Target ─▶ Buffers ─▶ Checker: stamps writes, judges reads
//!      │                                                                 │
//!      └── ended: acknowledged or in doubt ─▶ Ledger (one word per block, all threads) ◀── read: it is the last
//! ```
//! A block holds what it should if it holds the last acknowledged write, or a later one that is under way, failed, exceeded
//! its time limit or was cut off. Once such a one was read, it is the last. All else is a [`Finding`].
//!
//! # Scope and limits
//! - Writes to a block that has a write under way wait until that one has ended, so the last one is known. No lock: a bit
//!   in the word of the block.
//! - A block with a write under way while it is read may be torn: targets need not carry out a block at once. Such a
//!   block is counted as undecided.
//! - A write whose connection was cut may be carried out later than one that was acknowledged over the next connection:
//!   nothing in NBD prevents it. Such blocks are counted as overtaken, and are no findings; a pass over a state names them.
//! - A discarded block may hold anything until it is written again.
//! - The checksum has 32 bits (CRC-32), so one of 4 × 10⁹ corruptions of a sector passes.

mod checker;
mod finding;
mod judge;
mod ledger;
mod memory;
mod pass;
mod stamp;
mod state;
mod target;
mod word;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seeklab_core::ByteSize;

pub use checker::Checker;
use finding::Shared;
pub use finding::{Finding, Findings, FoundStamp, Kind};
pub use ledger::LedgerError;
use ledger::{Ledger, Shape};
pub use pass::{Pass, PassOptions, RunState, verify_pass};
pub use state::{StateError, StateFacts};

use crate::target::{Target, TargetError};

/// Options of a verification.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// Memory for the ledger. A longer one is kept in a file.
    pub ram: ByteSize,
    /// File that keeps the ledger, also if this process is killed.
    pub state: Option<PathBuf>,
    /// Number of the run, which no other run has. Its stamps carry it.
    pub run: u64,
}

impl VerifyOptions {
    /// Memory for the ledger unless another amount is given: 2^27 blocks.
    pub const RAM: ByteSize = ByteSize::from_bytes(1 << 30);

    /// A number that no other run has.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new_run() -> std::io::Result<u64> {
        let mut bytes = [0; 8];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes) | 1)
    }
}

/// The verification of one target, shared by the threads that send requests to it.
#[derive(Debug)]
pub struct Verification {
    ledger: Arc<Ledger>,
    shared: Arc<Shared>,
}

impl Verification {
    /// Verifies the blocks of a target from now on, for so many threads.
    ///
    /// # Errors
    /// If there is no memory or file for the ledger.
    pub fn new(
        options: &VerifyOptions,
        target: &dyn Target,
        address: &str,
        lanes: u32,
    ) -> Result<Self, LedgerError> {
        let space = target.facts().space;
        let shape = Shape {
            run: options.run,
            blocks: space.capacity_blocks,
            block_bytes: space.block_size.as_bytes(),
            lanes,
        };
        let ledger = match &options.state {
            Some(path) => Ledger::in_state(path, shape, address)?,
            None => Ledger::new(shape, options.ram)?,
        };
        // A flush on one connection says nothing about the writes of the others, unless the server promises that.
        let flushes_count = lanes == 1 || target.flush_covers_all();
        ledger.heed_flushes(flushes_count);
        Ok(Self { ledger: Arc::new(ledger), shared: Arc::new(Shared::new(lanes)) })
    }

    /// The target of thread `lane` with checks. Its stamps name `stream`.
    ///
    /// # Errors
    /// If the target carries no data.
    pub fn attach(
        &self,
        target: Box<dyn Target>,
        lane: u32,
        stream: u32,
    ) -> Result<Box<dyn Target>, TargetError> {
        let checker = Checker::new(Arc::clone(&self.ledger), Arc::clone(&self.shared), lane, stream);
        target::attach(target, checker)
    }

    /// Returns the results so far.
    pub fn findings(&self) -> Findings {
        let mut findings = self.shared.findings();
        findings.memory_bytes = self.ledger.memory_bytes();
        findings.memory_in_file = self.ledger.is_in_file();
        findings.writes = self.ledger.sequence.load(Ordering::Relaxed);
        findings
    }
}
