//! A target that does nothing: every transfer ends at the next poll. It measures the load generator itself.

use seeklab_core::{ByteSize, Instant, Status};
use seeklab_emulator::clock::{Clock, Wait};
use seeklab_workloads::AddressSpace;

use super::{Ended, Target, TargetError, TargetFacts, TargetKind, Transfer};

/// Its line in the list of targets.
pub(super) const KIND: TargetKind = TargetKind {
    name: "null",
    form: "null",
    meaning: "Ends every request at once: measures the load generator itself",
    matches: |address| (address == "null").then_some(""),
    holds_data: false,
    is_model: false,
    has_priorities: false,
    is_virtual: false,
    identify: super::unidentified,
    is_expendable: super::never_expendable,
    open: |_, opening| Ok(Box::new(Null::new(opening.clock, opening.options.outstanding_max))),
};

/// Blocks that it claims to have: 1 TiB in blocks of 512 B.
const CAPACITY_BLOCKS: u64 = 1 << 31;

#[derive(Debug)]
struct Null {
    facts: TargetFacts,
    clock: Clock,
    submitted: Vec<u32>,
    /// System calls for waiting while nothing was under way.
    idle_calls: u64,
}

impl Null {
    fn new(clock: Clock, outstanding_max: u32) -> Self {
        let space = AddressSpace { capacity_blocks: CAPACITY_BLOCKS, block_size: ByteSize::from_bytes(512) };
        let facts = TargetFacts::new(space, outstanding_max);
        Self { facts, clock, submitted: Vec::with_capacity(outstanding_max as usize), idle_calls: 0 }
    }
}

impl Target for Null {
    fn facts(&self) -> &TargetFacts {
        &self.facts
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    fn submit(&mut self, transfers: &[Transfer]) -> Result<(), TargetError> {
        self.submitted.extend(transfers.iter().map(|transfer| transfer.tag));
        Ok(())
    }

    fn poll(&mut self, wait: Wait, _: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError> {
        if self.submitted.is_empty() {
            self.idle_calls += super::idle::idle(self.clock, wait);
            return Ok(());
        }
        let completed = self.clock.now();
        let end = |tag| Ended { tag, completed, status: Status::Ok, good_blocks: None };
        ended.extend(self.submitted.drain(..).map(end));
        Ok(())
    }

    fn system_calls(&self) -> u64 {
        self.idle_calls
    }
}
