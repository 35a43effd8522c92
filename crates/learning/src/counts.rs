//! Counts of the requests that a model is fitted to.

use seeklab_core::{Duration, Operation, TraceRecord};
use seeklab_devices::region::RegionParameters;

use crate::backlog::Backlog;
use crate::fit::FitSummary;
use crate::region::RegionFit;

/// Counts of requests, taken in order of arrival; memory holds what is outstanding.
#[derive(Debug, Clone, Default)]
pub(crate) struct FitCounts {
    backlog: Backlog,
    summary: FitSummary,
    queue_length_max: [u32; Operation::ALL.len()],
    region: RegionFit,
}

impl FitCounts {
    /// Counts one request. Returns its response time and the number of other requests outstanding at its
    /// arrival, if its time is fitted.
    pub(crate) fn record(&mut self, record: &TraceRecord) -> Option<(Duration, u32)> {
        let queue_length = self.backlog.at(record.arrival);
        if record.op.addresses_blocks() {
            let end = record.lbn.saturating_add(u64::from(record.blocks));
            self.summary.end = self.summary.end.max(end);
        }
        let Some((completion, response)) = record.completion.zip(record.response_time()) else {
            self.summary.requests_without_response += 1;
            return None;
        };
        self.backlog.push(completion);
        self.region.record(record, queue_length, Some(response).filter(|_| record.status.is_success()));
        if !record.status.is_success() {
            self.summary.failed_requests += 1;
            return None;
        }
        self.summary.requests += 1;
        self.summary.queue_length_max = self.summary.queue_length_max.max(queue_length);
        let most = &mut self.queue_length_max[record.op as usize];
        *most = (*most).max(queue_length);
        Some((response, queue_length))
    }

    /// The region of the loads. `None` if no time was fitted.
    pub(crate) fn region(&self) -> Option<RegionParameters> {
        self.region.parameters()
    }

    /// The region of a model whose times do not depend on the load.
    pub(crate) fn region_of_one_load(&self) -> Option<RegionParameters> {
        self.region.parameters_of_one_load()
    }

    pub(crate) const fn summary(&self) -> FitSummary {
        self.summary
    }

    /// Most other requests that were outstanding when one of that operation arrived.
    pub(crate) const fn queue_length_max(&self, op: Operation) -> u32 {
        self.queue_length_max[op as usize]
    }
}
