//! Runs of slow requests: how many follow each other.
//!
//! Of independent draws a run has 1 / (1 − p) requests on average, where p is the share of slow ones.

use seeklab_core::Duration;

use super::steps::{CLASSES, class, least};

/// Runs of requests beyond a response time, in order of arrival.
#[derive(Debug, Clone)]
pub struct SlowRuns {
    threshold: Duration,
    requests: u64,
    slow: u64,
    /// Slow requests since the last that was not.
    current: u32,
    longest: u32,
    /// Runs by the class of their length.
    runs: Vec<u64>,
}

impl SlowRuns {
    /// Requests that take longer than `threshold` are slow.
    pub(super) fn beyond(threshold: Duration) -> Self {
        Self { threshold, requests: 0, slow: 0, current: 0, longest: 0, runs: vec![0; CLASSES] }
    }

    pub(super) fn record(&mut self, response: Duration) {
        self.requests += 1;
        if response > self.threshold {
            self.slow += 1;
            self.current = self.current.saturating_add(1);
        } else if self.current > 0 {
            self.runs[class(self.current)] += 1;
            self.longest = self.longest.max(self.current);
            self.current = 0;
        }
    }

    /// What a slow request exceeds.
    pub const fn threshold(&self) -> Duration {
        self.threshold
    }

    /// Share of requests that are slow; `None` of nothing.
    pub fn share(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.slow as f64 / self.requests as f64)
    }

    /// How many runs there were, one that lasts to the end included.
    pub fn runs(&self) -> u64 {
        self.runs.iter().sum::<u64>() + u64::from(self.current > 0)
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
            runs[class(self.current)] += 1;
        }
        let mut left = runs.iter().sum();
        let mut at_least = Vec::new();
        for (length, count) in runs.iter().enumerate().skip(1) {
            if left == 0 {
                break;
            }
            at_least.push((least(length), left));
            left -= count;
        }
        at_least
    }
}
