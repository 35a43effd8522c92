//! Failed requests that a host sent again, in figures.

use schemars::JsonSchema;
use seeklab_core::number_words::{in_number, numbered};
use seeklab_workloads::RetryCounts;
use serde::{Deserialize, Serialize};

/// Failed requests that the host sent again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryFigures {
    /// Requests that were sent again, counted at each attempt.
    pub retries: u64,
    /// Requests that one of these attempts carried out.
    pub retried_requests: u64,
    /// Requests that were not carried out.
    pub abandoned_requests: u64,
}

impl RetryFigures {
    /// Returns a sentence for people; `None` if no request failed.
    pub fn sentence(&self) -> Option<String> {
        let Self { retries, retried_requests, abandoned_requests } = self;
        (retries + abandoned_requests > 0).then(|| {
            format!(
                "{}; {} carried out by a retry, {abandoned_requests} {} not carried out",
                numbered(*retries, "retr[y|ies]"),
                numbered(*retried_requests, "request[|s] [was|were]"),
                in_number(*abandoned_requests, "[was|were]")
            )
        })
    }
}

impl From<RetryCounts> for RetryFigures {
    fn from(RetryCounts { retries, retried_requests, abandoned_requests }: RetryCounts) -> Self {
        Self { retries, retried_requests, abandoned_requests }
    }
}
