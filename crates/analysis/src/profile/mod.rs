//! Profile of response times in order of arrival: distributions, by operation and by queue length, dependence
//! on earlier requests, runs of slow requests.
//!
//! # Scope and limits
//! One pass, a fixed number of steps for each request and bounded memory, whatever the length of the trace.
//! Two profiles are compared as distributions: requests are not paired.

mod autocorrelation;
mod slow_runs;

use seeklab_core::statistics::{Distribution, LogHistogram};
use seeklab_core::{Duration, Operation};

use autocorrelation::Autocorrelation;

pub use slow_runs::SlowRuns;

/// Classes of numbers of requests: 0 to 7 each, then four for each doubling.
type Classes = LogHistogram<2>;

/// The least number of a class of numbers of 32 bits.
fn least(class: usize) -> u32 {
    u32::try_from(Classes::least(class)).expect("only numbers of 32 bits are classified")
}

/// Accumulates what response times are like.
#[derive(Debug, Clone)]
pub struct ResponseProfile {
    operations: [Distribution; Operation::ALL.len()],
    times: Autocorrelation,
    logarithms: Autocorrelation,
    /// Requests and the sum of their times in nanoseconds, by the class of the queue length at arrival.
    by_queue_length: Vec<(u64, f64)>,
    slow: SlowRuns,
}

/// Requests that met a queue of that length, or longer up to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtQueueLength {
    /// The least queue length at arrival.
    pub least: u32,
    /// Number of requests.
    pub requests: u64,
    /// Their mean response time in milliseconds.
    pub mean_ms: f64,
}

/// Dependence of a series on the values `lag` requests before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtLag {
    /// Lag in requests, in order of arrival.
    pub lag: u32,
    /// Autocorrelation of the response times, from -1 to 1.
    pub times: f64,
    /// Autocorrelation of their logarithms, which heavy tails do not spoil.
    pub logarithms: f64,
}

impl ResponseProfile {
    /// Nothing so far; requests that take longer than `slow` count as slow.
    pub fn new(slow: Duration) -> Self {
        Self {
            operations: Default::default(),
            times: Autocorrelation::default(),
            logarithms: Autocorrelation::default(),
            by_queue_length: vec![(0, 0.0); Classes::bucket(u32::MAX as u64) + 1],
            slow: SlowRuns::beyond(slow),
        }
    }

    /// Takes the next request in order of arrival in, which met `queue_length` others.
    pub fn record(&mut self, op: Operation, queue_length: u32, response: Duration) {
        self.operations[op as usize].record(response);
        let ns = response.as_ns() as f64;
        self.times.record(ns);
        self.logarithms.record(ns.max(1.0).ln());
        let (requests, sum_ns) = &mut self.by_queue_length[Classes::bucket(queue_length.into())];
        *requests += 1;
        *sum_ns += ns;
        self.slow.record(response);
    }

    /// Takes less memory. The next request that is taken in undoes it.
    pub fn compact(&mut self) {
        self.operations.iter_mut().for_each(Distribution::compact);
        self.times.compact();
        self.logarithms.compact();
    }

    /// Response times of all requests.
    pub fn response(&self) -> Distribution {
        let mut all = Distribution::default();
        self.operations.iter().for_each(|operation| all.merge(operation));
        all
    }

    /// Response times of an operation.
    pub const fn of(&self, op: Operation) -> &Distribution {
        &self.operations[op as usize]
    }

    /// Mean response times by the queue length at arrival: 0 to 7 each, then four classes for each doubling.
    pub fn by_queue_length(&self) -> Vec<AtQueueLength> {
        let filled = self.by_queue_length.iter().enumerate().filter(|(_, (requests, _))| *requests > 0);
        filled
            .map(|(class, (requests, sum_ns))| AtQueueLength {
                least: least(class),
                requests: *requests,
                mean_ms: sum_ns / *requests as f64 / 1e6,
            })
            .collect()
    }

    /// Autocorrelation of the response times in order of arrival; empty if they do not differ or are too few.
    pub fn autocorrelation(&self) -> Vec<AtLag> {
        let pairs = self.times.coefficients().into_iter().zip(self.logarithms.coefficients());
        pairs.map(|((lag, times), (_, logarithms))| AtLag { lag, times, logarithms }).collect()
    }

    /// Runs of slow requests.
    pub const fn slow(&self) -> &SlowRuns {
        &self.slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(times_us: &[u64]) -> ResponseProfile {
        let mut profile = ResponseProfile::new(Duration::from_us(100));
        for (index, us) in times_us.iter().enumerate() {
            let op = if index % 2 == 0 { Operation::Read } else { Operation::Write };
            profile.record(op, index as u32 % 3, Duration::from_us(*us));
        }
        profile
    }

    #[test]
    fn runs_of_slow_requests_are_counted() {
        let profile = profile(&[50, 200, 300, 100, 101, 50, 200, 200, 200]);
        let slow = profile.slow();
        assert_eq!(slow.share(), Some(6.0 / 9.0));
        assert_eq!((slow.runs(), slow.mean(), slow.longest()), (3, Some(2.0), 3));
        assert_eq!(slow.at_least(), [(1, 3), (2, 2), (3, 1)]);
        assert_eq!(profile.response().moments().count(), 9);
        assert_eq!(profile.of(Operation::Write).moments().count(), 4);
    }

    #[test]
    fn mean_is_reported_by_queue_length() {
        let at = profile(&[10, 20, 30, 30, 40, 50]).by_queue_length();
        let expected = [(0, 0.02), (1, 0.03), (2, 0.04)];
        assert_eq!(at.len(), 3);
        for (at, (least, mean_ms)) in at.iter().zip(expected) {
            assert_eq!((at.least, at.requests), (least, 2));
            assert!((at.mean_ms - mean_ms).abs() < 1e-12);
        }
    }

    #[test]
    fn logarithms_show_dependence_despite_one_enormous_time() {
        let mut times: Vec<u64> =
            (0..2_000).map(|index| if index / 20 % 2 == 0 { 100 } else { 10_000 }).collect();
        times[777] = 1_000_000_000;
        let lag = profile(&times).autocorrelation()[0];
        assert!(lag.times < 0.01, "{lag:?}");
        assert!(lag.logarithms > 0.85, "{lag:?}");
    }

    #[test]
    fn empty_profile_gives_no_result() {
        let none = profile(&[]);
        assert!(none.autocorrelation().is_empty() && none.by_queue_length().is_empty());
        assert_eq!((none.slow().share(), none.slow().mean(), none.slow().at_least().len()), (None, None, 0));
    }
}
