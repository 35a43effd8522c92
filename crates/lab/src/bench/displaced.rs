//! A workload on a part of a target.

use seeklab_core::{Arrival, Completion, Instant, Request, Workload};

/// A workload whose block zero is another block of the target.
pub(super) struct Displaced {
    workload: Box<dyn Workload>,
    first: u64,
}

impl Displaced {
    /// Moves the requests of a workload, so that those to its block zero go to the block `first`.
    pub(super) fn new(workload: Box<dyn Workload>, first: u64) -> Self {
        Self { workload, first }
    }
}

impl Workload for Displaced {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        match self.workload.next_arrival(now) {
            Arrival::Request(request) if request.op.addresses_blocks() => {
                Arrival::Request(Request { lbn: request.lbn + self.first, ..request })
            }
            next => next,
        }
    }

    fn completed(&mut self, completion: &Completion) {
        let mut completion = *completion;
        if completion.request.op.addresses_blocks() {
            completion.request.lbn -= self.first;
        }
        self.workload.completed(&completion);
    }

    fn heeds_completions(&self) -> bool {
        self.workload.heeds_completions()
    }

    fn announces_requests(&self) -> bool {
        self.workload.announces_requests()
    }
}
