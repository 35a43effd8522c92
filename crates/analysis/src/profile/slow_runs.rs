//! Runs of slow requests: how many follow each other.
//!
//! Of independent draws a run has 1 / (1 − p) requests on average, where p is the share of slow ones.

use seeklab_core::Duration;

use super::Classes;

/// Runs of requests beyond a response time, in order of arrival.
#[derive(Debug, Clone)]
pub struct SlowRuns {
    threshold: Duration,
    requests: u64,
    slow: u64,
    /// Slow requests since the last that was not.
    current: u32,
    longest: u32,
    /// Lengths of the runs that ended.
    runs: Classes,
}

impl SlowRuns {
    /// Requests that take longer than `threshold` are slow.
    pub(super) fn beyond(threshold: Duration) -> Self {
        Self { threshold, requests: 0, slow: 0, current: 0, longest: 0, runs: Classes::default() }
    }

    pub(super) fn record(&mut self, response: Duration) {
        self.requests += 1;
        if response > self.threshold {
            self.slow += 1;
            self.current = self.current.saturating_add(1);
        } else if self.current > 0 {
            self.runs.record(self.current.into());
            self.longest = self.longest.max(self.current);
            self.current = 0;
        }
    }

    /// Returns the time that a slow request exceeds.
    pub const fn threshold(&self) -> Duration {
        self.threshold
    }

    /// Share of requests that are slow; `None` of nothing.
    pub fn share(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.slow as f64 / self.requests as f64)
    }

    /// Returns the number of runs, including a run that lasts to the end.
    pub fn runs(&self) -> u64 {
        self.runs.count() + u64::from(self.current > 0)
    }

    /// Requests of a run on average; `None` if there was none.
    pub fn mean(&self) -> Option<f64> {
        (self.slow > 0).then(|| self.slow as f64 / self.runs() as f64)
    }

    /// Requests of the longest.
    pub fn longest(&self) -> u32 {
        self.longest.max(self.current)
    }

    /// `(requests, runs)`: runs of at least as many requests, for every length class that ends any.
    pub fn at_least(&self) -> Vec<(u32, u64)> {
        let mut runs = self.runs.clone();
        if self.current > 0 {
            runs.record(self.current.into());
        }
        let mut left = runs.count();
        let mut at_least = Vec::new();
        let classes = runs.occupied().next_back().map_or(0..0, |(longest, _)| 1..longest + 1);
        for class in classes {
            at_least.push((super::least(class), left));
            left -= runs.count_in(class);
        }
        at_least
    }
}
