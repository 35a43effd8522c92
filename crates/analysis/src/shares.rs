//! Shares of the operations in the requests and in the response time, and the operations that decide.
//!
//! A figure over all requests lets errors of reads and writes cancel, and counts reads little where most requests are
//! writes. Models are therefore compared by the mean of a figure over the operations that *decide*: those that make at
//! least 1 % of the requests or of the sum of all response times. Each counts once.

use seeklab_core::statistics::Distribution;
use seeklab_core::{Duration, Operation};

use crate::profile::ResponseProfile;
use crate::rounding::percent;

/// Least share of the requests, or of the response time, of an operation that decides, in percent.
pub const DECIDING_PCT_MIN: f64 = 1.0;

/// Requests and response times by operation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OperationShares {
    requests: [u64; Operation::ALL.len()],
    time_ns: [f64; Operation::ALL.len()],
}

impl OperationShares {
    /// Returns the shares of a profile.
    pub fn of(profile: &ResponseProfile) -> Self {
        let mut shares = Self::default();
        for op in Operation::ALL {
            let times: &Distribution = profile.of(op);
            let requests = times.moments().count();
            shares.requests[op as usize] = requests;
            shares.time_ns[op as usize] = times.moments().mean().unwrap_or(0.0) * requests as f64;
        }
        shares
    }

    /// Takes one request in.
    pub fn record(&mut self, op: Operation, response: Duration) {
        self.requests[op as usize] += 1;
        self.time_ns[op as usize] += response.as_ns() as f64;
    }

    /// Share of an operation in the requests, in percent; 0 if there are none.
    pub fn requests_pct(&self, op: Operation) -> f64 {
        let all: u64 = self.requests.iter().sum();
        percent(self.requests[op as usize] as f64, all as f64).unwrap_or(0.0)
    }

    /// Share of an operation in the sum of all response times, in percent; 0 if that sum is 0.
    pub fn time_pct(&self, op: Operation) -> f64 {
        percent(self.time_ns[op as usize], self.time_ns.iter().sum()).unwrap_or(0.0)
    }

    /// Returns true if the operation makes at least 1 % of the requests or of the response time.
    pub fn decides(&self, op: Operation) -> bool {
        self.requests[op as usize] > 0 && self.requests_pct(op).max(self.time_pct(op)) >= DECIDING_PCT_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_decides_by_its_requests_or_by_its_time() {
        let mut shares = OperationShares::default();
        (0..9_900).for_each(|_| shares.record(Operation::Write, Duration::from_us(100)));
        (0..100).for_each(|_| shares.record(Operation::Read, Duration::from_us(1)));
        (0..9).for_each(|_| shares.record(Operation::Flush, Duration::from_ms(10)));
        (0..9).for_each(|_| shares.record(Operation::Discard, Duration::from_us(100)));
        // Reads are 1 % of the requests, flushes 8 % of the time, discards neither.
        assert!(shares.requests_pct(Operation::Read) < 1.0 && !shares.decides(Operation::Read));
        (0..2).for_each(|_| shares.record(Operation::Read, Duration::from_us(1)));
        let deciding = Operation::ALL.into_iter().filter(|op| shares.decides(*op));
        assert!(deciding.eq([Operation::Read, Operation::Write, Operation::Flush]));
        assert!(shares.time_pct(Operation::Flush) > 8.0);
    }
}
