//! MX/G/1: batches that arrive as a Poisson process, one server, order of arrival.
//!
//! A batch is served like one request that takes the sum of the service times of its members. The first member waits as in
//! [`mg1`](super::mg1) with that sum; a member at a random place of a batch also waits for those before it,
//! `E[S] (E[X²] / E[X] − 1) / 2` on average [Gross & Harris 1998, section 5.1.9].
//!
//! # Assumptions
//! Batches arrive as a Poisson process, their sizes are independent, and so are service times.

use crate::error::{EstimateError, check_positive};
use crate::moments::ServiceMoments;
use crate::queueing::{Steady, check_load};

/// Sizes of batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchSizes {
    /// Mean number of requests in a batch, at least one.
    pub mean: f64,
    /// Mean of the squared number, at least the square of the mean.
    pub square: f64,
}

impl BatchSizes {
    /// Batches of one size.
    pub const fn constant(size: f64) -> Self {
        Self { mean: size, square: size * size }
    }

    /// Geometrically distributed sizes of at least one.
    pub const fn geometric(mean: f64) -> Self {
        Self { mean, square: mean * (2.0 * mean - 1.0) }
    }
}

/// Means of MX/G/1, by the rate of the batches.
///
/// # Errors
/// Moments that no service time or size has, no batches, or batches that exceed the rate of the server.
pub fn mxg1(batches_per_s: f64, sizes: BatchSizes, service: ServiceMoments) -> Result<Steady, EstimateError> {
    service.check()?;
    check_positive("batches_per_s", batches_per_s)?;
    let BatchSizes { mean, square } = sizes;
    if !(mean >= 1.0 && square >= mean * mean) {
        return Err(EstimateError::Parameter {
            parameter: "batch_mean",
            value: mean,
            allowed: "at least 1, with a squared mean of at most the mean square",
        });
    }
    let arrivals_per_s = batches_per_s * mean;
    check_load(arrivals_per_s, service.mean_s, 1.0)?;
    let utilisation = arrivals_per_s * service.mean_s;
    let sum_square_s2 = mean * service.variance_s2 + square * service.mean_s * service.mean_s;
    let first_s = batches_per_s * sum_square_s2 / (2.0 * (1.0 - utilisation));
    let within_s = service.mean_s * (square / mean - 1.0) / 2.0;
    Ok(Steady::of_queue_time(arrivals_per_s, utilisation, first_s + within_s, service.mean_s))
}

#[cfg(test)]
mod tests {
    use seeklab_core::Seed;

    use super::*;
    use crate::queueing::{Lindley, ServedArrival, mg1};

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found} {expected}");
    }

    #[test]
    fn batches_of_one_are_mg1() {
        let service = ServiceMoments::with_deviation(0.01, 0.004);
        let exact = mg1(70.0, service).unwrap();
        near(
            mxg1(70.0, BatchSizes::constant(1.0), service).unwrap().response_mean_s,
            exact.response_mean_s,
            1e-12,
        );
    }

    #[test]
    fn exponential_service_has_the_number_of_theory() {
        // MX/M/1: L = ρ (1 + E[X²] / E[X]) / (2 (1 − ρ)) [Gross & Harris 1998, section 3.1].
        for sizes in [BatchSizes::constant(2.0), BatchSizes::constant(5.0), BatchSizes::geometric(4.0)] {
            let (rho, service_s) = (0.6, 0.01);
            let steady =
                mxg1(rho / service_s / sizes.mean, sizes, ServiceMoments::exponential(service_s)).unwrap();
            let expected = rho * (1.0 + sizes.square / sizes.mean) / (2.0 * (1.0 - rho));
            near(steady.outstanding_mean, expected, 1e-12);
        }
    }

    #[test]
    fn recursion_over_drawn_batches_has_the_same_mean() {
        let mut stream = Seed(5).stream("test");
        let (mut queue, mut now_s) = (Lindley::new(), 0.0);
        for _ in 0..200_000 {
            now_s -= (1.0 - stream.unit()).ln() / 20.0;
            for _ in 0..3 {
                let service_s = 0.005 + 0.01 * stream.unit();
                queue.push(ServedArrival { arrival_s: now_s, service_s });
            }
        }
        let service = ServiceMoments { mean_s: 0.01, variance_s2: 1e-4 / 12.0 };
        let steady = mxg1(20.0, BatchSizes::constant(3.0), service).unwrap();
        near(queue.response_mean_s(), steady.response_mean_s, 0.01);
    }

    #[test]
    fn sizes_that_no_batch_has_are_refused() {
        let service = ServiceMoments::constant(0.01);
        assert!(mxg1(10.0, BatchSizes::constant(0.5), service).is_err());
        assert!(mxg1(10.0, BatchSizes { mean: 3.0, square: 4.0 }, service).is_err());
        assert!(matches!(
            mxg1(40.0, BatchSizes::constant(3.0), service),
            Err(EstimateError::Overload { .. })
        ));
    }
}
