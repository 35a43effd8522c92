//! Finite source: members with exponential think times at one server with any service times [Takács 1962].
//!
//! A member that thinks sends a request at the rate 1 / Z. Chances that a member goes on thinking throughout service times are
//! moments of the Laplace transform H of the service time at i / Z. With `B(k) = Π (1 / H(i / Z) − 1)` over i from 1 to k, and the
//! mean service time S, the server is busy for `N (S / Z) Σ C(N − 1, k) B(k)` times as long as it is idle, with k from 0 to N − 1
//! [Takács 1962, chapter 5]. With exponential service times, these are the probabilities of
//! [`finite_population`](super::finite_population()).
//!
//! # Assumptions
//! Think times are exponential. Service times are independent of each other and of the queue.

use crate::error::{EstimateError, check_positive};
use crate::queueing::{Population, Steady};

/// Busy times over idle times from which on the server counts as always busy; the idle share is below the precision of a `f64`.
const BUSY_OVER_IDLE_MAX: f64 = 1e17;

/// Means of a population at one server in any order that does not look at service times. `complement(s)` is the mean of
/// `1 − exp(−s S)` over the service times S, with s per second, between 0 and 1.
///
/// # Errors
/// No members, a think time or a mean service time that is not positive.
pub fn finite_source(
    population: Population,
    service_mean_s: f64,
    complement: impl Fn(f64) -> f64,
) -> Result<Steady, EstimateError> {
    let Population { members, think_mean_s } = population;
    check_positive("members", f64::from(members))?;
    check_positive("think_mean_s", think_mean_s)?;
    check_positive("service_mean_s", service_mean_s)?;
    let members_f = f64::from(members);
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..members {
        let place = f64::from(k);
        let sends = complement(place / think_mean_s);
        term *= (members_f - place) / place * sends / (1.0 - sends);
        sum += term;
        // Terms rise and then fall; an infinite one keeps the server busy.
        if sum > BUSY_OVER_IDLE_MAX || term < sum * f64::EPSILON * 1e-3 {
            break;
        }
    }
    let busy_over_idle = members_f * service_mean_s / think_mean_s * sum;
    let utilisation = if busy_over_idle.is_finite() { busy_over_idle / (1.0 + busy_over_idle) } else { 1.0 };
    let throughput_per_s = utilisation / service_mean_s;
    // Few requests wait in a long think time: this difference has the digits of the quotient only.
    let response_mean_s = (members_f / throughput_per_s - think_mean_s).max(service_mean_s);
    Ok(Steady {
        throughput_per_s,
        utilisation,
        queue_time_mean_s: response_mean_s - service_mean_s,
        response_mean_s,
        outstanding_mean: throughput_per_s * response_mean_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::finite_population;

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found} {expected}");
    }

    #[test]
    fn exponential_service_is_birth_and_death() {
        for (members, think_mean_s) in [(1, 0.02), (4, 0.01), (24, 0.05), (64, 0.5), (400, 5.0)] {
            let population = Population { members, think_mean_s };
            let source = finite_source(population, 0.01, |s| 0.01 * s / (1.0 + 0.01 * s)).unwrap();
            let exact = finite_population(population, |_| 100.0).unwrap();
            near(source.response_mean_s, exact.response_mean_s, 1e-9);
            near(source.utilisation, exact.utilisation, 1e-9);
        }
    }

    #[test]
    fn many_members_that_seldom_send_are_an_open_load() {
        // 70 requests per second of 10 ms each: Pollaczek-Khinchine.
        let population = Population { members: 1_000_000, think_mean_s: 1e6 / 70.0 };
        let source = finite_source(population, 0.01, |s| -(-0.01 * s).exp_m1()).unwrap();
        near(source.utilisation, 0.7, 1e-4);
        near(source.response_mean_s, 0.01 * (1.0 + 0.7 / (2.0 * 0.3)), 1e-3);
    }

    #[test]
    fn server_is_always_busy_with_members_that_hardly_think() {
        for members in [3, 64, 1_000_000] {
            let population = Population { members, think_mean_s: 1e-6 };
            let source = finite_source(population, 0.01, |s| -(-0.01 * s).exp_m1()).unwrap();
            near(source.throughput_per_s, 100.0, 1e-9);
            near(source.response_mean_s, 0.01 * f64::from(members), 1e-4);
        }
    }

    #[test]
    fn populations_need_members_a_think_time_and_a_service_time() {
        let population = |members, think_mean_s| Population { members, think_mean_s };
        let complement = |s: f64| -(-s).exp_m1();
        assert!(finite_source(population(0, 1.0), 1.0, complement).is_err());
        assert!(finite_source(population(2, 0.0), 1.0, complement).is_err());
        assert!(finite_source(population(2, 1.0), 0.0, complement).is_err());
    }
}
