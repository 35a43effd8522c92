//! G/G/c by Allen and Cunneen: any interarrival and service times, several servers, order of arrival.
//!
//! The mean queue time is that of M/M/c times `(Ca² + Cs²) / 2`, the mean of the squared variations of interarrival and
//! service time [Allen 1990, section 5.3]. It is exact for M/M/c and M/G/1, and an approximation otherwise. Correlated
//! arrivals, such as those of most traces, break it.

use crate::error::{EstimateError, check_not_negative};
use crate::moments::ServiceMoments;
use crate::queueing::{Steady, mmc};

/// Means of G/G/c. `arrival_variation` is the squared variation of the interarrival times: 1 for Poisson arrivals.
///
/// # Errors
/// As [`mmc`], and a negative variation.
pub fn allen_cunneen(
    arrivals_per_s: f64,
    arrival_variation: f64,
    service: ServiceMoments,
    servers: u32,
) -> Result<Steady, EstimateError> {
    service.check()?;
    check_not_negative("arrival_variation", arrival_variation)?;
    let exponential = mmc(arrivals_per_s, service.mean_s, servers)?;
    let factor = (arrival_variation + service.squared_variation()) / 2.0;
    let queue_time_mean_s = exponential.queue_time_mean_s * factor;
    Ok(Steady::of_queue_time(arrivals_per_s, exponential.utilisation, queue_time_mean_s, service.mean_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::mg1;

    #[test]
    fn poisson_arrivals_at_one_server_give_mg1() {
        let service = ServiceMoments::with_deviation(0.25, 0.1);
        let (exact, approximate) = (mg1(3.0, service).unwrap(), allen_cunneen(3.0, 1.0, service, 1).unwrap());
        assert!((exact.response_mean_s - approximate.response_mean_s).abs() < 1e-12, "{approximate:?}");
    }

    #[test]
    fn constant_arrivals_and_service_do_not_wait() {
        let steady = allen_cunneen(3.0, 0.0, ServiceMoments::constant(0.25), 1).unwrap();
        assert_eq!(steady.queue_time_mean_s, 0.0);
        assert!(allen_cunneen(3.0, -1.0, ServiceMoments::constant(0.25), 1).is_err());
    }
}
