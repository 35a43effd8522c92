//! Distributions of the queue time and the response time of M/G/1, on a grid.
//!
//! The queue time is a sum of a geometric number of residual service times: with probability `(1 − ρ) ρᵏ` of k of them
//! [Kleinrock 1975, eq. 5.107 and its inversion]. On a grid of steps h the sum obeys Panjer's recursion,
//! `w(j) = ρ / (1 − ρ f(0)) Σ f(i) w(j − i)` with `w(0) = (1 − ρ) / (1 − ρ f(0))` [Panjer 1981]. The response time adds
//! one service time. Each time between two points of the grid is shared between them in the ratio of the distances, so
//! the means of the grid are exact.
//!
//! # Assumptions
//! The assumptions of [`mg1`](super::mg1) hold, and requests complete in order of arrival.

use seeklab_devices::service_law::ServiceTimes;

use crate::error::EstimateError;
use crate::moments::ServiceMoments;
use crate::queueing::{Steady, mg1};

/// Steps of the grid in a mean service time.
pub(super) const STEPS_IN_MEAN: f64 = 128.0;

/// Steps of the grid in the longest service time at most.
pub(super) const STEPS_IN_LONGEST: f64 = 4_096.0;

/// Steps of the grid at most.
pub(super) const STEPS_MAX: usize = 1 << 18;

/// Share of the requests beyond the grid.
const TAIL: f64 = 1e-5;

/// Distribution of a response time, or of a queue time, on a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseTimes {
    step_s: f64,
    /// Shares of the requests up to 0, h, 2 h, …; each share lies within half a step around its point.
    cumulative: Vec<f64>,
}

impl ResponseTimes {
    /// Time that a share of the requests does not exceed, in seconds. Beyond the grid the tail is exponential, as that
    /// of M/G/1 is.
    pub fn quantile_s(&self, share: f64) -> f64 {
        let place = self.cumulative.partition_point(|cumulative| *cumulative < share);
        let Some(up_to) = self.cumulative.get(place) else {
            return self.step_s * ((self.cumulative.len() - 1) as f64 + self.steps_beyond(share));
        };
        let before = place.checked_sub(1).map_or(0.0, |before| self.cumulative[before]);
        let part = if *up_to > before { (share - before) / (up_to - before) } else { 1.0 };
        (self.step_s * (place as f64 - 0.5 + part)).max(0.0)
    }

    /// Steps behind the grid at which a share is reached, by the decay of the tail over the last quarter of the grid.
    fn steps_beyond(&self, share: f64) -> f64 {
        let last = self.cumulative.len() - 1;
        let quarter = last / 4;
        let left = |place: usize| 1.0 - self.cumulative[place];
        let decay = (left(last - quarter) / left(last)).ln() / quarter as f64;
        let steps = (left(last) / (1.0 - share)).ln() / decay;
        if steps.is_finite() { steps } else { 0.0 }
    }

    /// A grid with these masses.
    pub(super) fn of(step_s: f64, masses: &[f64]) -> Self {
        let mut sum = 0.0;
        let cumulative = masses.iter().map(|mass| {
            sum += mass;
            sum
        });
        Self { step_s, cumulative: cumulative.collect() }
    }
}

/// Means and distribution of the response time of M/G/1.
///
/// # Errors
/// As [`mg1`].
pub fn mg1_response_times(
    arrivals_per_s: f64,
    service: &ServiceTimes,
) -> Result<(Steady, ResponseTimes), EstimateError> {
    let (steady, step_s, queue) = queue_on_grid(arrivals_per_s, service)?;
    let mut masses = convolved(&queue, &service_masses(service, step_s));
    if queue.len() == STEPS_MAX {
        // The sums behind lack the queue times that are beyond the grid.
        masses.truncate(STEPS_MAX);
    }
    Ok((steady, ResponseTimes::of(step_s, &masses)))
}

/// Distribution of the queue time of M/G/1.
///
/// # Errors
/// As [`mg1`].
pub fn mg1_queue_times(arrivals_per_s: f64, service: &ServiceTimes) -> Result<ResponseTimes, EstimateError> {
    let (_, step_s, queue) = queue_on_grid(arrivals_per_s, service)?;
    Ok(ResponseTimes::of(step_s, &queue))
}

/// Means of M/G/1, the step of the grid, and the shares of the queue time at its points.
fn queue_on_grid(
    arrivals_per_s: f64,
    service: &ServiceTimes,
) -> Result<(Steady, f64, Vec<f64>), EstimateError> {
    let moments = ServiceMoments { mean_s: service.mean_s(), variance_s2: service.variance_s2() };
    let steady = mg1(arrivals_per_s, moments)?;
    let step_s = (moments.mean_s / STEPS_IN_MEAN).max(service.longest_s() / STEPS_IN_LONGEST);
    let queue = queue_masses(steady.utilisation, &residual_masses(service, step_s));
    Ok((steady, step_s, queue))
}

/// Steps of the grid of a sum in its mean.
const STEPS_IN_SUM: f64 = 512.0;

/// Terms of a sum on the grid at most. Deviations of a sum of more from its mean are those of this sum, scaled.
const TERMS_MAX: u32 = 128;

/// Time that a share of the sums of `terms` independent service times does not exceed, in seconds, for each share.
pub fn sum_quantiles_s<const N: usize>(service: &ServiceTimes, terms: u32, shares: [f64; N]) -> [f64; N] {
    let mean_of = |terms: u32| f64::from(terms) * service.mean_s();
    if service.variance_s2() <= 0.0 {
        return [mean_of(terms); N];
    }
    let on_grid = terms.min(TERMS_MAX);
    let step_s = mean_of(on_grid) / STEPS_IN_SUM;
    let (mut sum, mut power) = (vec![1.0], service_masses(service, step_s));
    let mut left = on_grid;
    loop {
        if left % 2 == 1 {
            sum = convolved(&sum, &power);
        }
        left /= 2;
        if left == 0 {
            break;
        }
        power = convolved(&power, &power);
        let used = power.iter().rposition(|mass| *mass > NO_MASS).map_or(1, |last| last + 1);
        power.truncate(used);
    }
    let times = ResponseTimes::of(step_s, &sum);
    let scale = (f64::from(terms) / f64::from(on_grid)).sqrt();
    shares.map(|share| mean_of(terms) + scale * (times.quantile_s(share) - mean_of(on_grid)))
}

/// Share that counts as none.
pub(super) const NO_MASS: f64 = 1e-12;

/// Shares of a service time at the points of a grid.
pub(super) fn service_masses(service: &ServiceTimes, step_s: f64) -> Vec<f64> {
    let points = (service.longest_s() / step_s) as usize + 3;
    let shortfall = |j: f64| service.mean_shortfall_s(j * step_s);
    let mass = |j: usize| {
        let j = j as f64;
        // The share of a time exactly 0 lies at the first point.
        let before = if j == 0.0 { 0.0 } else { shortfall(j - 1.0) };
        ((shortfall(j + 1.0) - 2.0 * shortfall(j) + before) / step_s).max(0.0)
    };
    (0..points).map(mass).collect()
}

/// Shares of a residual service time, whose density is `P(S > t) / E[S]`, at the points of a grid.
fn residual_masses(service: &ServiceTimes, step_s: f64) -> Vec<f64> {
    let points = (service.longest_s() / step_s) as usize + 2;
    // The integral of E[min(S, u)] over u is u² / 2 less that of the shortfall.
    let integral = |j: f64| service.shortfall_integral_s2(j * step_s);
    let scale = step_s * service.mean_s();
    let mass = |j: usize| {
        let j = j as f64;
        let covered = if j == 0.0 {
            step_s * step_s / 2.0 - integral(1.0)
        } else {
            step_s * step_s - (integral(j + 1.0) - 2.0 * integral(j) + integral(j - 1.0))
        };
        (covered / scale).max(0.0)
    };
    (0..points).map(mass).collect()
}

/// Shares of the queue time at the points of a grid, by Panjer's recursion.
pub(super) fn queue_masses(utilisation: f64, residual: &[f64]) -> Vec<f64> {
    let denominator = 1.0 - utilisation * residual[0];
    let mut masses = vec![(1.0 - utilisation) / denominator];
    let mut sum = masses[0];
    let factor = utilisation / denominator;
    while sum < 1.0 - TAIL && masses.len() < STEPS_MAX {
        let terms = residual[1..].iter().zip(masses.iter().rev());
        let next = factor * terms.map(|(share, mass)| share * mass).sum::<f64>();
        masses.push(next);
        sum += next;
    }
    masses
}

/// Shares of a sum of two times.
pub(super) fn convolved(long: &[f64], short: &[f64]) -> Vec<f64> {
    let mut masses = vec![0.0; long.len() + short.len() - 1];
    for (offset, share) in short.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        for (target, mass) in masses[offset..].iter_mut().zip(long) {
            *target += share * mass;
        }
    }
    masses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::mm1_response_quantile_s;

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found} {expected}");
    }

    #[test]
    fn sums_of_exponential_times_have_the_quantiles_of_erlang() {
        // Erlang with 4 and 16 stages of mean 1: half of chi-squared with 8 and 32 degrees of freedom.
        let exponential = ServiceTimes::Exponential { mean_s: 1.0 };
        for (terms, median, p99) in [(4, 7.344, 20.090), (16, 31.336, 53.486)] {
            let found = sum_quantiles_s(&exponential, terms, [0.5, 0.99]);
            close(found[0], median / 2.0, 2e-3);
            close(found[1], p99 / 2.0, 2e-3);
        }
        // 1,024 stages are nearly normal, with a deviation of 32.
        let [median, p99] = sum_quantiles_s(&exponential, 1_024, [0.5, 0.99]);
        close(median, 1_024.0, 3e-3);
        close(p99, 1_024.0 + 2.326 * 32.0, 1e-2);
        assert_eq!(sum_quantiles_s(&ServiceTimes::constant(0.5), 3, [0.1]), [1.5]);
    }

    #[test]
    fn tails_beyond_the_grid_are_exponential() {
        // M/M/1 at 99.9 %: the grid ends at some 2,048 mean service times, before the 90th percentile.
        let service = ServiceTimes::Exponential { mean_s: 0.01 };
        let (_, times) = mg1_response_times(99.9, &service).unwrap();
        for share in [0.5, 0.9, 0.99, 0.999] {
            close(times.quantile_s(share), mm1_response_quantile_s(99.9, 0.01, share).unwrap(), 0.01);
        }
    }

    #[test]
    fn exponential_service_gives_the_quantiles_of_mm1() {
        let service = ServiceTimes::Exponential { mean_s: 0.01 };
        for arrivals_per_s in [5.0, 50.0, 90.0] {
            let (_, times) = mg1_response_times(arrivals_per_s, &service).unwrap();
            for share in [0.5, 0.9, 0.99, 0.999] {
                let exact = mm1_response_quantile_s(arrivals_per_s, 0.01, share).unwrap();
                close(times.quantile_s(share), exact, 2e-3);
            }
        }
    }

    #[test]
    fn constant_service_gives_the_distribution_of_md1() {
        // Of the queue time of M/D/1, P(W ≤ t) = (1 − ρ) e^{λ t} for t within one service time [Erlang 1909].
        let (arrivals_per_s, service_s) = (60.0, 0.01);
        let service = ServiceTimes::constant(service_s);
        let (steady, times) = mg1_response_times(arrivals_per_s, &service).unwrap();
        for share in [0.45, 0.55, 0.7] {
            let queue_s = (share / (1.0 - steady.utilisation)).ln() / arrivals_per_s;
            assert!(queue_s < service_s);
            close(times.quantile_s(share), service_s + queue_s, 4e-3);
        }
        // Without load all response times are the service time, within a step.
        let (_, times) = mg1_response_times(1e-6, &service).unwrap();
        close(times.quantile_s(0.9), service_s, 5e-3);
    }

    #[test]
    fn mean_of_the_grid_is_that_of_pollaczek_and_khinchine() {
        let service = ServiceTimes::sample((1..=1_000).map(|i| 0.004 + 1e-5 * f64::from(i)).collect());
        for utilisation in [0.1, 0.6, 0.95] {
            let (steady, times) = mg1_response_times(utilisation / service.mean_s(), &service).unwrap();
            let shares = 200_000;
            let sum: f64 =
                (0..shares).map(|i| times.quantile_s((f64::from(i) + 0.5) / f64::from(shares))).sum();
            close(sum / f64::from(shares), steady.response_mean_s, 2e-3);
        }
    }

    #[test]
    fn quantiles_ascend() {
        let (_, times) = mg1_response_times(80.0, &ServiceTimes::Exponential { mean_s: 0.01 }).unwrap();
        let quantiles: Vec<f64> = (0..1_000).map(|i| times.quantile_s(f64::from(i) / 1_000.0)).collect();
        assert!(quantiles.is_sorted());
    }
}
