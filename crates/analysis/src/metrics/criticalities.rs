//! Requests by criticality, counted once a second class occurs.
//!
//! A request counts by its class at the arrival, as in the paper, so that the counts of two schedulers agree. If it became
//! time-critical while it was pending, a process waited from then to the completion.
//!
//! # References
//! \[Ganger & Patt 1998, table 6\]

use schemars::JsonSchema;
use seeklab_core::statistics::Distribution;
use seeklab_core::{Criticality, TraceRecord};
use serde::{Deserialize, Serialize};

use crate::rounding::six_decimals;

/// Requests that were carried out, by class.
#[derive(Debug, Clone, Default)]
pub(super) struct Criticalities {
    /// Class of the first request.
    first: Option<Criticality>,
    /// Figures of each class; `None` while all requests have the first.
    by_class: Option<Box<[Class; Criticality::ALL.len()]>>,
}

#[derive(Debug, Clone, Default)]
struct Class {
    requests: u64,
    response: Distribution,
    /// Requests that became time-critical, from then to their completion.
    waits: Distribution,
}

impl Criticalities {
    /// Takes in a request. `before` gives the number and the response times of the requests before it.
    #[inline]
    pub(super) fn record(&mut self, record: &TraceRecord, before: impl FnOnce() -> (u64, Distribution)) {
        let first = *self.first.get_or_insert(record.criticality);
        if self.by_class.is_none() && first == record.criticality && record.became.is_none() {
            return;
        }
        self.count(record, first, before);
    }

    fn count(
        &mut self,
        record: &TraceRecord,
        first: Criticality,
        before: impl FnOnce() -> (u64, Distribution),
    ) {
        let by_class = self.by_class.get_or_insert_with(|| {
            let mut by_class = Box::<[Class; Criticality::ALL.len()]>::default();
            let class = &mut by_class[first as usize];
            (class.requests, class.response) = before();
            by_class
        });
        let class = &mut by_class[record.criticality as usize];
        class.requests += 1;
        if let Some(response) = record.response_time() {
            class.response.record(response);
        }
        if let Some((need, completion)) = record.became.time_critical().zip(record.completion) {
            class.waits.record(completion.saturating_since(need));
        }
    }

    /// The figures, if requests of more than one class occurred, or the class of a request changed.
    pub(super) fn summary(&self) -> Option<CriticalitySummaries> {
        let [time_critical, time_limited, time_noncritical] = &**self.by_class.as_ref()?;
        Some(CriticalitySummaries {
            time_critical: time_critical.summary(),
            time_limited: time_limited.summary(),
            time_noncritical: time_noncritical.summary(),
        })
    }
}

impl Class {
    fn summary(&self) -> CriticalitySummary {
        let ms = |ns: f64| six_decimals(ns / 1e6);
        let (response, waits) = (self.response.moments(), self.waits.moments());
        CriticalitySummary {
            requests: self.requests,
            response_mean_ms: response.mean().map(ms),
            response_p99_ms: self.response.quantile(0.99).map(|time| six_decimals(time.as_ms())),
            response_max_ms: response.max().map(ms),
            became_time_critical: waits.count(),
            wait_mean_ms: waits.mean().map(ms),
            wait_max_ms: waits.max().map(ms),
        }
    }
}

/// Figures of requests by their class when they arrived.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CriticalitySummaries {
    /// Requests for which a process waited from the arrival on.
    pub time_critical: CriticalitySummary,
    /// Requests for which a process would wait after a time limit.
    pub time_limited: CriticalitySummary,
    /// Requests for which no process waited.
    pub time_noncritical: CriticalitySummary,
}

impl CriticalitySummaries {
    /// The figures with their classes, the most pressing first.
    pub const fn by_class(&self) -> [(Criticality, &CriticalitySummary); 3] {
        [
            (Criticality::TimeCritical, &self.time_critical),
            (Criticality::TimeLimited, &self.time_limited),
            (Criticality::TimeNoncritical, &self.time_noncritical),
        ]
    }
}

/// Figures of the requests of one class that were carried out.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct CriticalitySummary {
    /// Requests.
    pub requests: u64,
    /// Arrival to completion. Mean.
    pub response_mean_ms: Option<f64>,
    /// Arrival to completion. 99th percentile.
    pub response_p99_ms: Option<f64>,
    /// Arrival to completion. The longest.
    pub response_max_ms: Option<f64>,
    /// Requests that became time-critical while they were pending.
    pub became_time_critical: u64,
    /// Time from then to the completion, for which a process waited. Mean.
    pub wait_mean_ms: Option<f64>,
    /// Time from then to the completion, for which a process waited. The longest.
    pub wait_max_ms: Option<f64>,
}
