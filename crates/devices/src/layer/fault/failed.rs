//! Answers to requests that the device never served.

use seeklab_core::{Breakdown, BufferOutcome, Completion, Instant, Operation, Outcome, Status};

use super::fate::Taken;

/// The completion of a request that fails at `now` without having been served.
pub(super) fn failed(now: Instant, taken: &Taken, status: Status) -> Completion {
    Completion {
        request: taken.request,
        submitted: taken.submitted,
        issued: taken.submitted,
        started: taken.submitted,
        completed: now,
        breakdown: Breakdown { internal: now - taken.submitted, ..Breakdown::default() },
        outcome: Outcome::failed(status),
        buffer: BufferOutcome::None,
        seek_cylinders: 0,
        queue_length: taken.queue_length,
        faults: taken.fate.faults,
    }
}

/// The completion of a request that the device had when it went at `now`. The effect on a write says where the blocks are that
/// are on the media already.
pub(super) fn gone_within(now: Instant, taken: &Taken) -> Completion {
    let mut completion = failed(now, taken, Status::Gone);
    if taken.request.op == Operation::Write {
        completion.outcome.effect = taken.fate.effect;
    }
    completion
}
