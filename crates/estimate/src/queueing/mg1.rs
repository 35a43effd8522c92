//! M/G/1: Poisson arrivals, one server, any distribution of the service time, order of arrival.
//!
//! The mean queue time is that of Pollaczek and Khinchine, `λ E[S²] / (2 (1 − ρ))` with `ρ = λ E[S]`
//! [Kleinrock 1975, eq. 5.69 to 5.72].
//!
//! # Assumptions
//! Arrivals are a Poisson process. Service times are independent of each other and of the arrivals.

use crate::error::EstimateError;
use crate::moments::ServiceMoments;
use crate::queueing::{Steady, check_load};

/// Means of M/G/1.
///
/// # Errors
/// Moments that no service time has, no arrivals, or arrivals that exceed the rate of the server.
pub fn mg1(arrivals_per_s: f64, service: ServiceMoments) -> Result<Steady, EstimateError> {
    service.check()?;
    check_load(arrivals_per_s, service.mean_s, 1.0)?;
    let utilisation = arrivals_per_s * service.mean_s;
    let queue_time_mean_s = arrivals_per_s * service.second_moment_s2() / (2.0 * (1.0 - utilisation));
    Ok(Steady::of_queue_time(arrivals_per_s, utilisation, queue_time_mean_s, service.mean_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_service_gives_the_mean_of_mm1() {
        // M/M/1: 1 / (μ − λ) = 1 / (4 − 3).
        let steady = mg1(3.0, ServiceMoments::exponential(0.25)).unwrap();
        assert!((steady.response_mean_s - 1.0).abs() < 1e-12, "{steady:?}");
        assert!((steady.outstanding_mean - 3.0).abs() < 1e-12);
        assert!((steady.utilisation - 0.75).abs() < 1e-12);
    }

    #[test]
    fn constant_service_halves_the_queue_time() {
        let constant = mg1(3.0, ServiceMoments::constant(0.25)).unwrap();
        let exponential = mg1(3.0, ServiceMoments::exponential(0.25)).unwrap();
        assert!((constant.queue_time_mean_s * 2.0 - exponential.queue_time_mean_s).abs() < 1e-12);
    }

    #[test]
    fn overload_names_both_rates() {
        let error = mg1(4.0, ServiceMoments::constant(0.25)).unwrap_err();
        assert_eq!(error, EstimateError::Overload { arrivals_per_s: 4.0, saturation_per_s: 4.0 });
        assert!(mg1(0.0, ServiceMoments::constant(0.25)).is_err());
        assert!(mg1(f64::NAN, ServiceMoments::constant(0.25)).is_err());
    }
}
