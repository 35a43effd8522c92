//! Operational laws of a trace alone: no device is known, nothing is assumed about distributions.
//!
//! Over the time T of a trace with C completions, the throughput is `X = C / T`, the utilisation the share of T in which
//! a request is outstanding, and `N = X R` (Little). A request that arrives while none is outstanding and is alone until
//! its completion has not waited, so its response time is a service time. With the mean D of these, one server gives
//! `X ≤ 1 / D` and `R ≥ D` [Denning & Buzen 1978].
//!
//! # Scope and limits
//! Requests that are alone may differ from the others: they found an idle device, so a scheduler had no choice and a
//! buffer had time to empty. The demand is that of a device without competition.

use crate::error::EstimateError;

/// Arrival and completion of a request, in nanoseconds from any origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    /// Arrival.
    pub arrival_ns: u64,
    /// Completion, not before the arrival.
    pub completion_ns: u64,
}

/// Figures of a trace that follow from arrivals and completions alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperationalLaws {
    /// Number of requests.
    pub requests: u64,
    /// Time from the first arrival to the last completion, in seconds.
    pub elapsed_s: f64,
    /// Requests per second.
    pub throughput_per_s: f64,
    /// Share of the time in which a request is outstanding.
    pub utilisation: f64,
    /// Mean response time, in seconds.
    pub response_mean_s: f64,
    /// Mean number outstanding.
    pub outstanding_mean: f64,
    /// Requests that were alone from arrival to completion.
    pub alone_requests: u64,
    /// Mean response time of the requests that were alone, in seconds: a service time. `None` if none was.
    pub alone_mean_s: Option<f64>,
    /// Busy time for each request, in seconds: the service demand if one server is busy whenever a request is outstanding.
    pub busy_time_mean_s: f64,
    /// Requests per second while a request is outstanding: a lower bound of the rate that the device sustains.
    pub busy_throughput_per_s: f64,
}

/// Operational laws of requests in order of arrival.
///
/// # Errors
/// No requests, a completion before its arrival, or no time between the first arrival and the last completion.
pub fn operational_laws(stays: impl IntoIterator<Item = Stay>) -> Result<OperationalLaws, EstimateError> {
    let mut pass = OperationalPass::default();
    for stay in stays {
        pass.push(stay)?;
    }
    pass.finish()
}

/// Operational laws over requests that come one by one, in order of arrival.
#[derive(Debug, Clone, Default)]
pub struct OperationalPass {
    requests: u64,
    first_ns: u64,
    /// Latest completion so far.
    last_ns: u64,
    busy_ns: u64,
    response_ns: u128,
    alone: u64,
    alone_ns: u128,
    /// The request that began the current busy period, if no other has joined it.
    lonely: Option<Stay>,
}

impl OperationalPass {
    /// Takes the next request.
    ///
    /// # Errors
    /// A completion before its arrival.
    pub fn push(&mut self, stay: Stay) -> Result<(), EstimateError> {
        let Some(response_ns) = stay.completion_ns.checked_sub(stay.arrival_ns) else {
            return Err(EstimateError::Parameter {
                parameter: "completion_ns",
                value: stay.completion_ns as f64,
                allowed: "a time that is not before the arrival",
            });
        };
        if self.requests == 0 {
            (self.first_ns, self.last_ns) = (stay.arrival_ns, stay.arrival_ns);
        }
        self.requests += 1;
        self.response_ns += u128::from(response_ns);
        let begins_period = self.requests == 1 || stay.arrival_ns >= self.last_ns;
        if let Some(lonely) = self.lonely.take()
            && begins_period
        {
            self.alone += 1;
            self.alone_ns += u128::from(lonely.completion_ns - lonely.arrival_ns);
        }
        self.lonely = begins_period.then_some(stay);
        let from = stay.arrival_ns.max(self.last_ns);
        self.busy_ns += stay.completion_ns.saturating_sub(from);
        self.last_ns = self.last_ns.max(stay.completion_ns);
        Ok(())
    }

    /// Number of requests so far.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// First arrival and last completion so far, in nanoseconds.
    pub const fn span_ns(&self) -> (u64, u64) {
        (self.first_ns, self.last_ns)
    }

    /// The laws of all requests.
    ///
    /// # Errors
    /// No time between the first arrival and the last completion.
    pub fn finish(mut self) -> Result<OperationalLaws, EstimateError> {
        if let Some(lonely) = self.lonely.take() {
            self.alone += 1;
            self.alone_ns += u128::from(lonely.completion_ns - lonely.arrival_ns);
        }
        let elapsed_s = (self.last_ns - self.first_ns) as f64 / 1e9;
        if elapsed_s <= 0.0 {
            return Err(EstimateError::Parameter {
                parameter: "elapsed_s",
                value: elapsed_s,
                allowed: "requests whose completions come after the first arrival",
            });
        }
        let requests = self.requests as f64;
        let (busy_s, response_mean_s) = (self.busy_ns as f64 / 1e9, self.response_ns as f64 / 1e9 / requests);
        let throughput_per_s = requests / elapsed_s;
        Ok(OperationalLaws {
            requests: self.requests,
            elapsed_s,
            throughput_per_s,
            utilisation: busy_s / elapsed_s,
            response_mean_s,
            outstanding_mean: throughput_per_s * response_mean_s,
            alone_requests: self.alone,
            alone_mean_s: (self.alone > 0).then(|| self.alone_ns as f64 / 1e9 / self.alone as f64),
            busy_time_mean_s: busy_s / requests,
            busy_throughput_per_s: requests / busy_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laws(stays: &[(u64, u64)]) -> Result<OperationalLaws, EstimateError> {
        operational_laws(stays.iter().map(|(arrival_ns, completion_ns)| Stay {
            arrival_ns: *arrival_ns,
            completion_ns: *completion_ns,
        }))
    }

    #[test]
    fn laws_of_a_small_trace_are_those_counted_by_hand() {
        // Alone 0 to 2 s; together 5 to 9 s; alone 20 to 21 s.
        let s = 1_000_000_000;
        let found = laws(&[(0, 2 * s), (5 * s, 7 * s), (6 * s, 9 * s), (20 * s, 21 * s)]).unwrap();
        assert_eq!(found.elapsed_s, 21.0);
        assert_eq!(found.utilisation, 7.0 / 21.0);
        assert_eq!(found.response_mean_s, 2.0);
        assert_eq!(found.outstanding_mean, 8.0 / 21.0);
        assert_eq!((found.alone_requests, found.alone_mean_s), (2, Some(1.5)));
        assert_eq!(found.busy_time_mean_s, 1.75);
        assert_eq!(found.busy_throughput_per_s, 4.0 / 7.0);
    }

    #[test]
    fn requests_within_another_leave_it_not_alone() {
        let found = laws(&[(0, 10), (2, 3), (4, 5)]).unwrap();
        assert_eq!((found.alone_requests, found.alone_mean_s), (0, None));
        assert_eq!(found.utilisation, 1.0);
    }

    #[test]
    fn traces_without_time_are_refused() {
        assert!(laws(&[]).is_err());
        assert!(laws(&[(5, 5)]).is_err());
        assert!(laws(&[(5, 4)]).is_err());
    }
}
