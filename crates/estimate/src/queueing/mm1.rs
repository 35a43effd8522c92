//! M/M/1: Poisson arrivals, one server, exponential service times, order of arrival.
//!
//! The response time is exponential with the rate `μ − λ` [Kleinrock 1975, section 3.2 and eq. 5.118].

use crate::error::EstimateError;
use crate::moments::ServiceMoments;
use crate::queueing::{Steady, mg1};

/// Means of M/M/1.
///
/// # Errors
/// A service time that is not positive, no arrivals, or arrivals that exceed the rate of the server.
pub fn mm1(arrivals_per_s: f64, service_mean_s: f64) -> Result<Steady, EstimateError> {
    mg1(arrivals_per_s, ServiceMoments::exponential(service_mean_s))
}

/// Response time of M/M/1 that a share of the requests does not exceed, in seconds.
///
/// # Errors
/// As [`mm1`], and a share outside `[0, 1)`.
pub fn mm1_response_quantile_s(
    arrivals_per_s: f64,
    service_mean_s: f64,
    share: f64,
) -> Result<f64, EstimateError> {
    let steady = mm1(arrivals_per_s, service_mean_s)?;
    if !(0.0..1.0).contains(&share) {
        return Err(EstimateError::Parameter { parameter: "share", value: share, allowed: "0 to below 1" });
    }
    Ok(-steady.response_mean_s * (1.0 - share).ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_requests_are_within_the_median() {
        // λ = 3, μ = 4: exponential with mean 1 s.
        let median = mm1_response_quantile_s(3.0, 0.25, 0.5).unwrap();
        assert!((median - 2.0_f64.ln()).abs() < 1e-12, "{median}");
        assert_eq!(mm1_response_quantile_s(3.0, 0.25, 0.0).unwrap(), 0.0);
        assert!(mm1_response_quantile_s(3.0, 0.25, 1.0).is_err());
        assert!(mm1_response_quantile_s(5.0, 0.25, 0.5).is_err());
    }
}
