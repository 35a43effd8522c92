//! Requests that failed, counted apart from those that were carried out.

use schemars::JsonSchema;
use seeklab_core::statistics::Distribution;
use seeklab_core::{Status, TraceRecord};
use serde::{Deserialize, Serialize};

/// Failed requests, and requests that were carried out after a correction.
#[derive(Debug, Clone, Default)]
pub(super) struct Errors {
    counts: [u64; Status::ALL.len()],
    response: Distribution,
}

impl Errors {
    /// Counts the status of a request; of a failed one also its response time.
    pub(super) fn record(&mut self, record: &TraceRecord) {
        self.counts[record.status as usize] += 1;
        if !record.status.is_success()
            && let Some(response) = record.response_time()
        {
            self.response.record(response);
        }
    }

    /// Requests that failed.
    pub(super) fn failed(&self) -> u64 {
        let of = |status: &Status| self.counts[*status as usize];
        Status::ALL.iter().filter(|status| !status.is_success()).map(of).sum()
    }

    /// Arrival to the completion of failed requests.
    pub(super) const fn response(&self) -> &Distribution {
        &self.response
    }

    /// The counts with names.
    pub(super) const fn summary(&self) -> StatusCounts {
        let [_, recovered, medium_error, aborted, timeout, write_protected, no_space, gone] = self.counts;
        StatusCounts { recovered, medium_error, aborted, timeout, write_protected, no_space, gone }
    }
}

/// Requests by status, but for `ok`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusCounts {
    /// Requests that were carried out after the device had corrected an error. They count among all that were.
    pub recovered: u64,
    /// Requests that failed because a block cannot be read or written.
    pub medium_error: u64,
    /// Requests that the device ended, or that failed for an unknown cause.
    pub aborted: u64,
    /// Requests without an answer in time.
    pub timeout: u64,
    /// Requests refused because the device refuses writes.
    pub write_protected: u64,
    /// Requests that failed because the device has no space.
    pub no_space: u64,
    /// Requests that failed because the device was not there.
    pub gone: u64,
}

impl StatusCounts {
    /// The counts with the names of their statuses in the trace schema, in order.
    pub const fn by_name(&self) -> [(&'static str, u64); 7] {
        [
            (Status::Recovered.name(), self.recovered),
            (Status::MediumError.name(), self.medium_error),
            (Status::Aborted.name(), self.aborted),
            (Status::Timeout.name(), self.timeout),
            (Status::WriteProtected.name(), self.write_protected),
            (Status::NoSpace.name(), self.no_space),
            (Status::Gone.name(), self.gone),
        ]
    }
}
