//! MX/G/1: batches that arrive as a Poisson process, one server, order of arrival.
//!
//! A batch is served like one request that takes the sum of the service times of its members. The first member waits as in
//! [`mg1`](super::mg1) with that sum; a member at a random place of a batch also waits for those before it,
//! `E[S] (E[X²] / E[X] − 1) / 2` on average [Gross & Harris 1998, section 5.1.9].
//!
//! The distribution of the response time stands on a grid, as that of [`mg1_response_times`](super::mg1_response_times): the first
//! member waits for a geometric number of residual batches, and each member for the sum of the services up to its own.
//!
//! # Assumptions
//! Batches arrive as a Poisson process, their sizes are independent, and so are service times.

use seeklab_devices::service_law::ServiceTimes;

use crate::error::{EstimateError, check_positive};
use crate::moments::ServiceMoments;
use crate::queueing::response_times::{
    NO_MASS, STEPS_IN_LONGEST, STEPS_IN_MEAN, STEPS_MAX, convolved, queue_masses, service_masses,
};
use crate::queueing::{ResponseTimes, Steady, check_load};

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

/// Distribution of the number of requests in a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Batch {
    /// Always the same number, at least one.
    Constant(u32),
    /// Geometric, at least one, with this mean.
    Geometric(f64),
}

impl Batch {
    /// The moments of the number.
    pub fn sizes(self) -> BatchSizes {
        match self {
            Self::Constant(size) => BatchSizes::constant(f64::from(size)),
            Self::Geometric(mean) => BatchSizes::geometric(mean),
        }
    }

    /// Shares, at the points of a grid, of the service time of a batch, and of that of its members up to one at a random place.
    fn masses(self, own: &[f64]) -> (Vec<f64>, Vec<f64>) {
        match self {
            Self::Constant(size) => {
                let (mut sum, mut up_to_own) = (vec![1.0], Vec::new());
                for _ in 0..size {
                    sum = convolved(&sum, own);
                    sum.truncate(sum.iter().rposition(|mass| *mass > NO_MASS).map_or(1, |last| last + 1));
                    up_to_own.resize(sum.len().max(up_to_own.len()), 0.0);
                    for (target, mass) in up_to_own.iter_mut().zip(&sum) {
                        *target += mass / f64::from(size);
                    }
                }
                (sum, up_to_own)
            }
            Self::Geometric(mean) => {
                // A geometric number has no memory: the members up to a random one are as many as a batch has.
                let (last, more) = (1.0 / mean, 1.0 - 1.0 / mean);
                let at = |masses: &[f64], place: usize| masses.get(place).copied().unwrap_or(0.0);
                let (mut sum, mut covered) = (Vec::new(), 0.0);
                while covered < 1.0 - NO_MASS && sum.len() < STEPS_MAX {
                    let before = own.iter().skip(1).zip(sum.iter().rev()).map(|(share, mass)| share * mass);
                    let next = last * at(own, sum.len()) + more * before.sum::<f64>();
                    let next = next / (1.0 - more * at(own, 0));
                    sum.push(next);
                    covered += next;
                }
                (sum.clone(), sum)
            }
        }
    }
}

/// Shares of the rest of a time, at a random moment within it, at the points of a grid.
fn residual(masses: &[f64]) -> Vec<f64> {
    let mut longer: Vec<f64> = masses.to_vec();
    let mut beyond = 0.0;
    for share in longer.iter_mut().rev() {
        let mass = *share;
        *share = beyond;
        beyond += mass;
    }
    // The rest is uniform within a step; half of it belongs to each end.
    let total: f64 = longer.iter().sum();
    let before = [0.0].into_iter().chain(longer.iter().copied());
    before.zip(&longer).map(|(before, after)| (before + after) / (2.0 * total)).collect()
}

/// Means and distribution of the response time of MX/G/1, by the rate of the batches.
///
/// # Errors
/// As [`mxg1`].
pub fn mxg1_response_times(
    batches_per_s: f64,
    batch: Batch,
    service: &ServiceTimes,
) -> Result<(Steady, ResponseTimes), EstimateError> {
    let moments = ServiceMoments { mean_s: service.mean_s(), variance_s2: service.variance_s2() };
    let steady = mxg1(batches_per_s, batch.sizes(), moments)?;
    let of_batch_s = batch.sizes().mean * moments.mean_s;
    let step_s = (of_batch_s / STEPS_IN_MEAN).max(service.longest_s() / STEPS_IN_LONGEST);
    let (sum, up_to_own) = batch.masses(&service_masses(service, step_s));
    let queue = queue_masses(steady.utilisation, &residual(&sum));
    let mut masses = convolved(&queue, &up_to_own);
    if queue.len() == STEPS_MAX {
        masses.truncate(STEPS_MAX);
    }
    Ok((steady, ResponseTimes::of(step_s, &masses)))
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
    use crate::queueing::{Lindley, ServedArrival, mg1, mg1_response_times};

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
    fn distribution_over_drawn_batches_is_that_of_the_grid() {
        for (batch, exponential) in
            [(Batch::Constant(5), true), (Batch::Geometric(5.0), true), (Batch::Geometric(20.0), false)]
        {
            let mut stream = Seed(7).stream("test");
            let (mut queue, mut now_s, mut times_s) = (Lindley::new(), 0.0, Vec::new());
            let (service_s, utilisation) = (0.01, 0.6);
            let batches_per_s = utilisation / service_s / batch.sizes().mean;
            while times_s.len() < 3_000_000 {
                now_s -= (1.0 - stream.unit()).ln() / batches_per_s;
                let size = match batch {
                    Batch::Constant(size) => size,
                    Batch::Geometric(mean) => {
                        1 + ((1.0 - stream.unit()).ln() / (1.0 - 1.0 / mean).ln()) as u32
                    }
                };
                for _ in 0..size {
                    let drawn_s =
                        if exponential { -(1.0 - stream.unit()).ln() * service_s } else { service_s };
                    times_s.push(queue.push(ServedArrival { arrival_s: now_s, service_s: drawn_s }));
                }
            }
            times_s.sort_unstable_by(f64::total_cmp);
            let service = match exponential {
                true => ServiceTimes::Exponential { mean_s: service_s },
                false => ServiceTimes::constant(service_s),
            };
            let (steady, found) = mxg1_response_times(batches_per_s, batch, &service).unwrap();
            near(times_s.iter().sum::<f64>() / times_s.len() as f64, steady.response_mean_s, 0.03);
            for share in [0.5, 0.9, 0.99] {
                let drawn_s = times_s[(share * times_s.len() as f64) as usize];
                near(found.quantile_s(share), drawn_s, 0.04);
            }
        }
    }

    #[test]
    fn distribution_of_batches_of_one_is_that_of_mg1() {
        let service = ServiceTimes::Exponential { mean_s: 0.01 };
        let (_, exact) = mg1_response_times(70.0, &service).unwrap();
        for batch in [Batch::Constant(1), Batch::Geometric(1.0)] {
            let (_, found) = mxg1_response_times(70.0, batch, &service).unwrap();
            for share in [0.5, 0.9, 0.99, 0.999] {
                near(found.quantile_s(share), exact.quantile_s(share), 2e-3);
            }
        }
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
