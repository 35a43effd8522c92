//! A pass over a target: reads every block that the state of a run requires, or that streams of the run wrote, and checks it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seeklab_core::{Duration, Operation, Request, Status};
use seeklab_emulator::clock::Wait;

use super::checker::{Checker, CheckerPlace};
use super::finding::{Findings, Shared};
use super::ledger::{Ledger, Required};
use super::state::{self, StateError, StateFacts, StatePart};
use super::target;
use crate::target::{Target, TargetError, Transfer};

/// Options of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassOptions {
    /// Require all acknowledged writes, not only those that a completed flush covers.
    pub acknowledged: bool,
    /// Reads under way at a time at most.
    pub outstanding: u32,
    /// Length of a read at most.
    pub read_bytes: u32,
    /// Time that the target may be away.
    pub patience: Duration,
}

impl Default for PassOptions {
    fn default() -> Self {
        Self { acknowledged: false, outstanding: 32, read_bytes: 128 << 10, patience: Duration::from_s(10) }
    }
}

/// Result of a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pass {
    /// Findings.
    pub findings: Findings,
    /// Blocks that the state requires.
    pub required_blocks: u64,
    /// Blocks of these that could not be read.
    pub unreadable_blocks: u64,
    /// The first of them.
    pub first_unreadable: Option<u64>,
    /// The caller stopped it.
    pub is_stopped: bool,
}

/// Results of a pass so far, which can be read although its target does not return. Clones share them.
#[derive(Debug, Clone)]
pub struct PassResults {
    shared: Arc<Shared>,
    pass: Arc<Mutex<Pass>>,
}

impl PassResults {
    /// Results of a pass over a target of that run, before it begins.
    pub fn new(state: &RunState) -> Self {
        Self { shared: Arc::new(Shared::new(state.streams.len())), pass: Arc::default() }
    }

    /// Results of a pass within a run, whose findings are those of the run.
    pub(super) fn of_run(shared: Arc<Shared>) -> Self {
        Self { shared, pass: Arc::default() }
    }

    /// The results so far. Reads under way count among the required blocks.
    pub fn pass(&self) -> Pass {
        Pass { findings: self.shared.findings(), ..self.counts().clone() }
    }

    /// Everything but the findings.
    fn counts(&self) -> MutexGuard<'_, Pass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of a run, open to be checked.
#[derive(Debug)]
pub struct RunState {
    targets: Vec<(StateFacts, Arc<Ledger>)>,
    streams: Vec<String>,
}

impl RunState {
    /// Opens the state of a run.
    ///
    /// # Errors
    /// If the file is no state, or a run uses it.
    pub fn open(path: &Path, acknowledged: bool) -> Result<Self, StateError> {
        let (parts, streams) = state::open(path)?;
        let required = if acknowledged { Required::Acknowledged } else { Required::Flushed };
        let target = |part: StatePart| (part.facts(), Arc::new(Ledger::audit(part, required)));
        Ok(Self { targets: parts.into_iter().map(target).collect(), streams })
    }

    /// Facts about the targets of the run.
    pub fn targets(&self) -> impl ExactSizeIterator<Item = &StateFacts> {
        self.targets.iter().map(|(facts, _)| facts)
    }

    /// Names of the streams of the run.
    pub fn streams(&self) -> &[String] {
        &self.streams
    }
}

/// Reads and checks every block of target `number` that `state` requires, and adds to `results`. `step` hears of blocks that were passed,
/// also while the target does not answer, and returns false to stop.
///
/// # Errors
/// If the target is not that of the run, or fails as a whole.
///
/// # Panics
/// If the state has no such target.
pub fn verify_pass(
    (state, number): (&RunState, usize),
    (target, address): (Box<dyn Target>, &str),
    options: &PassOptions,
    results: &PassResults,
    step: &mut dyn FnMut(u64) -> bool,
) -> Result<Pass, TargetError> {
    let ledger = &state.targets[number].1;
    let place = CheckerPlace { target: number, ..CheckerPlace::default() };
    pass((ledger, place, None), (target, address), options, results, step)
}

/// A pass over the blocks that streams of a run wrote, while the run waits. Clones share its results.
#[derive(Debug, Clone)]
pub struct ReadBack {
    ledger: Arc<Ledger>,
    place: CheckerPlace,
    streams: Vec<u32>,
    results: PassResults,
}

impl ReadBack {
    pub(super) const fn new(
        ledger: Arc<Ledger>,
        place: CheckerPlace,
        streams: Vec<u32>,
        results: PassResults,
    ) -> Self {
        Self { ledger, place, streams, results }
    }

    /// Reads and checks the blocks. `step` hears of blocks that were passed, also while the target does not answer, and returns false
    /// to stop.
    ///
    /// # Errors
    /// If the target is not that of the run, or fails as a whole.
    pub fn run(
        &self,
        (target, address): (Box<dyn Target>, &str),
        options: &PassOptions,
        step: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Pass, TargetError> {
        let streams = Some(self.streams.as_slice());
        pass((&self.ledger, self.place, streams), (target, address), options, &self.results, step)
    }

    /// The results so far.
    pub fn pass(&self) -> Pass {
        self.results.pass()
    }
}

/// Reads and checks the blocks of a ledger that have a write, of these streams if there are some.
fn pass(
    (ledger, place, streams): (&Arc<Ledger>, CheckerPlace, Option<&[u32]>),
    (target, address): (Box<dyn Target>, &str),
    options: &PassOptions,
    results: &PassResults,
    step: &mut dyn FnMut(u64) -> bool,
) -> Result<Pass, TargetError> {
    let shape = ledger.shape();
    let space = target.facts().space;
    if space.block_size.as_bytes() != shape.block_bytes || space.capacity_blocks < shape.blocks {
        return Err(TargetError::unusable(
            address,
            format!(
                "has {} blocks of {}, and the run had {} of {} B",
                space.capacity_blocks, space.block_size, shape.blocks, shape.block_bytes
            ),
            "open it as in the run, with or without --buffered",
        ));
    }
    let outstanding = options.outstanding.min(target.facts().outstanding_max).max(1);
    let checker = Checker::new(Arc::clone(ledger), Arc::clone(&results.shared), place);
    let target = target::attach(target, checker, false)?;
    let blocks_max = (u64::from(options.read_bytes) / shape.block_bytes).max(1);
    let mut reading = Reading {
        target,
        ranges: Ranges { ledger, streams, next: 0, blocks_max, step, is_stopped: false },
        address,
        again: VecDeque::new(),
        free: (0..outstanding).rev().collect(),
        under_way: vec![None; outstanding as usize],
        results,
        patience: options.patience,
    };
    reading.run()?;
    let is_stopped = reading.ranges.is_stopped;
    Ok(Pass { is_stopped, ..results.pass() })
}

/// Consecutive blocks.
#[derive(Debug, Clone, Copy)]
struct Extent {
    lbn: u64,
    blocks: u64,
}

/// The required blocks, in order.
struct Ranges<'a> {
    ledger: &'a Ledger,
    /// Streams whose blocks are read [default: all].
    streams: Option<&'a [u32]>,
    next: u64,
    blocks_max: u64,
    step: &'a mut dyn FnMut(u64) -> bool,
    is_stopped: bool,
}

impl Ranges<'_> {
    /// Asks the caller whether to go on.
    fn look(&mut self) -> bool {
        self.is_stopped = self.is_stopped || !(self.step)(self.next);
        !self.is_stopped
    }
}

/// Blocks between two calls of the caller.
const STEP_BLOCKS: u64 = 1 << 16;

impl Iterator for Ranges<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let (ledger, streams) = (self.ledger, self.streams);
        let is_required = |lbn: u64| {
            let writer = ledger.word(lbn).stream();
            writer.is_some_and(|writer| streams.is_none_or(|streams| streams.contains(&writer)))
        };
        let end = self.ledger.shape().blocks;
        while self.next < end && !self.is_stopped && !is_required(self.next) {
            self.next += 1;
            if self.next.is_multiple_of(STEP_BLOCKS) {
                self.is_stopped = !(self.step)(self.next);
            }
        }
        if self.next >= end || self.is_stopped {
            return None;
        }
        let lbn = self.next;
        let last = end.min(lbn + self.blocks_max);
        self.next = (lbn..last).find(|lbn| !is_required(*lbn)).unwrap_or(last);
        self.is_stopped = !(self.step)(self.next);
        Some(Extent { lbn, blocks: self.next - lbn })
    }
}

struct Reading<'a> {
    target: Box<dyn Target>,
    ranges: Ranges<'a>,
    address: &'a str,
    /// Single blocks of reads that failed.
    again: VecDeque<Extent>,
    free: Vec<u32>,
    under_way: Vec<Option<Extent>>,
    results: &'a PassResults,
    patience: Duration,
}

impl Reading<'_> {
    fn run(&mut self) -> Result<(), TargetError> {
        let (mut transfers, mut ended) = (Vec::new(), Vec::new());
        let mut seen = self.target.now();
        let mut number = 0;
        loop {
            while !self.free.is_empty() && self.target.is_ready() {
                let next = self.again.pop_front();
                let Some(extent) = next.or_else(|| self.fresh()) else { break };
                let tag = self.free.pop().expect("one is free");
                self.under_way[tag as usize] = Some(extent);
                let request = Request::new(number, Operation::Read, extent.lbn, extent.blocks as u32);
                number += 1;
                transfers.push(Transfer { tag, request });
            }
            self.target.submit(&transfers)?;
            transfers.clear();
            if self.free.len() == self.under_way.len() && self.again.is_empty() && self.target.is_ready() {
                return Ok(());
            }
            let now = self.target.now();
            if now.saturating_since(seen) > self.patience {
                return Err(TargetError::unusable(
                    self.address,
                    format!("the target returned nothing for {}", self.patience),
                    "",
                ));
            }
            self.target.poll(Wait::Until(now + Duration::from_ms(50)), 1, &mut ended)?;
            // Without an answer, no block passes, and the caller may want an end.
            if ended.is_empty() && !self.ranges.look() {
                return Ok(());
            }
            for end in ended.drain(..) {
                let extent = self.under_way[end.tag as usize].take().expect("a read ends once");
                self.free.push(end.tag);
                if end.status != Status::Gone {
                    seen = end.completed;
                }
                if !end.status.is_success() {
                    self.failed(extent, end.status);
                }
            }
        }
    }

    fn fresh(&mut self) -> Option<Extent> {
        let extent = self.ranges.next()?;
        self.results.counts().required_blocks += extent.blocks;
        Some(extent)
    }

    /// Blocks of a read that failed are read one by one.
    fn failed(&mut self, extent: Extent, status: Status) {
        let Extent { lbn, blocks } = extent;
        if status == Status::Gone {
            self.again.push_back(extent);
        } else if blocks > 1 {
            self.again.extend((lbn..lbn + blocks).map(|lbn| Extent { lbn, blocks: 1 }));
        } else {
            let mut pass = self.results.counts();
            pass.unreadable_blocks += 1;
            pass.first_unreadable = Some(pass.first_unreadable.map_or(lbn, |first| first.min(lbn)));
        }
    }
}
