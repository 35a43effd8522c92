//! Verification: every sector that is written says which write it belongs to, and every read is checked.
//!
//! ```text
//! Verified (a Target) ─▶ admit, snapshot ─▶ inner Target ─▶ Buffers ─▶ Checker: stamps writes, judges reads
//!      │                                                                 │
//!      └── ended: acknowledged or in doubt ─▶ Ledger (one word per block) ◀── read: it is the last
//! ```
//! A target has one ledger for all streams, threads and phases of a run. The word of a block has the number of its last
//! write and of the stream that wrote it, so every stream checks what any of them wrote, and a finding names the owner.
//!
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

use seeklab_core::{ByteSize, Duration};
use seeklab_workloads::AddressSpace;

pub use checker::Checker;
use checker::CheckerPlace;
use finding::Shared;
pub use finding::{Finding, Findings, FoundStamp, Kind};
pub use ledger::LedgerError;
use ledger::{Ledger, Shape};
pub use pass::{Pass, PassOptions, PassResults, ReadBack, RunState, verify_pass};
pub use state::{StateError, StateFacts};
use word::STREAMS_MAX;

use crate::target::{Target, TargetError};

/// Options of a verification.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// Memory for the ledger. A longer one is kept in a file.
    pub ram: ByteSize,
    /// File that keeps the ledger, also if this process is killed.
    pub state: Option<PathBuf>,
    /// Number of the run, which no other run has. Its stamps carry it; those of each target another one that follows from it.
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

/// A target whose blocks are verified.
#[derive(Debug, Clone)]
pub struct VerifiedTarget {
    /// Its address.
    pub address: String,
    /// Its blocks.
    pub space: AddressSpace,
}

/// A thread that sends requests to a verified target.
#[derive(Debug, Clone, Copy, Default)]
pub struct VerifiedLane {
    /// Number of the target in the verification.
    pub target: usize,
    /// Number of the stream in the verification. Stamps and findings name it.
    pub stream: u32,
    /// Other threads may write to the same blocks.
    pub is_shared: bool,
    /// It may write.
    pub writes: bool,
    /// Begin of its phase, from the begin of the run.
    pub begin: Duration,
}

/// The verification of the targets of a run, shared by all threads of all streams and phases.
#[derive(Debug)]
pub struct Verification {
    targets: Vec<(VerifiedTarget, Arc<Ledger>)>,
    shared: Arc<Shared>,
}

impl Verification {
    /// Verifies the blocks of these targets from now on. `streams` are the names of the streams of all phases.
    ///
    /// # Errors
    /// If there is no memory or file for the ledgers, or there are too many streams.
    pub fn new(
        options: &VerifyOptions,
        targets: Vec<VerifiedTarget>,
        streams: &[String],
    ) -> Result<Self, LedgerError> {
        if streams.len() > STREAMS_MAX {
            return Err(LedgerError::Streams { count: streams.len() });
        }
        let shape = |(number, target): (usize, &VerifiedTarget)| Shape {
            run: options.run.wrapping_add(number as u64),
            blocks: target.space.capacity_blocks,
            block_bytes: target.space.block_size.as_bytes(),
        };
        let shapes: Vec<Shape> = targets.iter().enumerate().map(shape).collect();
        let ledgers: Vec<Ledger> = match &options.state {
            Some(path) => {
                let addresses = targets.iter().map(|target| target.address.as_str());
                let of_targets: Vec<_> = shapes.into_iter().zip(addresses).collect();
                state::create(path, &of_targets, streams)?.into_iter().map(Ledger::in_state).collect()
            }
            None => in_ram(&shapes, options.ram)?,
        };
        let targets = targets.into_iter().zip(ledgers.into_iter().map(Arc::new)).collect();
        Ok(Self { targets, shared: Arc::new(Shared::new(streams.len())) })
    }

    /// The target of a thread with checks.
    ///
    /// # Errors
    /// If the target carries no data, or its blocks are others than at the begin.
    ///
    /// # Panics
    /// If the verification has no such target.
    pub fn attach(
        &self,
        target: Box<dyn Target>,
        lane: &VerifiedLane,
    ) -> Result<Box<dyn Target>, TargetError> {
        let (verified, ledger) = &self.targets[lane.target];
        let (space, at_begin) = (target.facts().space, verified.space);
        if space != at_begin {
            let problem = format!(
                "has {} blocks of {} now, and had {} of {} when the run began",
                space.capacity_blocks, space.block_size, at_begin.capacity_blocks, at_begin.block_size
            );
            return Err(TargetError::unusable(
                &verified.address,
                problem,
                "another target has this address now",
            ));
        }
        if lane.writes {
            ledger.add_writer(target.flush_covers_all());
        }
        let VerifiedLane { target: number, stream, begin, .. } = *lane;
        let place = CheckerPlace { target: number, stream, begin };
        let checker = Checker::new(Arc::clone(ledger), Arc::clone(&self.shared), place);
        target::attach(target, checker, lane.is_shared)
    }

    /// A pass over the blocks of a target whose last write is of one of these streams. Its findings are those of the run.
    ///
    /// # Panics
    /// If the verification has no such target.
    pub fn read_back(&self, target: usize, streams: Vec<u32>, begin: Duration) -> ReadBack {
        let ledger = Arc::clone(&self.targets[target].1);
        let place = CheckerPlace { target, begin, ..CheckerPlace::default() };
        ReadBack::new(ledger, place, streams, PassResults::of_run(Arc::clone(&self.shared)))
    }

    /// Returns the results so far.
    pub fn findings(&self) -> Findings {
        let mut findings = self.shared.findings();
        for (_, ledger) in &self.targets {
            findings.memory_bytes += ledger.memory_bytes();
            findings.memory_in_file |= ledger.is_in_file();
            findings.writes += ledger.sequence.load(Ordering::Relaxed);
        }
        findings
    }
}

/// Ledgers that end with the process: those that `ram` has no room for are in files without names.
fn in_ram(shapes: &[Shape], ram: ByteSize) -> Result<Vec<Ledger>, LedgerError> {
    let mut left = ram.as_bytes();
    let mut ledgers = Vec::new();
    for shape in shapes {
        let ledger = Ledger::new(*shape, ByteSize::from_bytes(left))?;
        if !ledger.is_in_file() {
            left -= ledger.memory_bytes();
        }
        ledgers.push(ledger);
    }
    Ok(ledgers)
}
