//! The chain embedded at departures of a finite population: exponential think times, one server whose service time depends on
//! its queue.
//!
//! A departure leaves n requests behind, and all other members think. The next service begins with n outstanding (or, after an
//! idle period, with the one that arrives) and takes S(n). Each thinking member sends its request meanwhile with probability
//! `1 − exp(−S(n) / Z)`, so the arrivals of one service time are binomial. As in
//! [`departure_chain`](super::departure_chain()), the flow over a cut between n and n + 1 has one term downwards, and no digits
//! are lost. The throughput is one request per mean time between departures.
//!
//! # Assumptions
//! Think times are exponential. Service times depend on the number outstanding at their beginning alone.

use crate::error::{EstimateError, check_positive};
use crate::queueing::{Population, Steady};

/// A share that grows beyond this is scaled to 1, and the others with it.
const SHARE_MAX: f64 = 1e50;

/// Probability of no arrivals below which all states with fewer requests count as never reached.
const NONE_MIN: f64 = 1e-200;

/// Means of a population at one server. `times_s(n)` are service times with equal shares of the request chosen while n requests
/// are outstanding, itself included; those of n = 0 follow an idle period.
///
/// Work grows with the square of the members and with the number of times.
///
/// # Errors
/// No members, a think time that is not positive, or service times with a mean that is not positive.
pub fn finite_departures(
    population: Population,
    times_s: impl Fn(u32) -> Vec<f64>,
) -> Result<Steady, EstimateError> {
    let Population { members, think_mean_s } = population;
    check_positive("members", f64::from(members))?;
    check_positive("think_mean_s", think_mean_s)?;
    let services: Vec<Service> = (0..members)
        .map(|left_behind| {
            let thinking = members - left_behind.max(1);
            Service::new(&times_s(left_behind), thinking, think_mean_s)
        })
        .collect();
    services.iter().try_for_each(|service| check_positive("service_mean_s", service.mean_s))?;
    let shares = shares(&services);
    let idle_s = shares[0] * think_mean_s / f64::from(members);
    let service_mean_s: f64 =
        shares.iter().zip(&services).map(|(share, service)| share * service.mean_s).sum();
    let throughput_per_s = 1.0 / (idle_s + service_mean_s);
    let response_mean_s =
        (f64::from(members) / throughput_per_s - think_mean_s).max(services[0].mean_s.min(service_mean_s));
    Ok(Steady {
        throughput_per_s,
        utilisation: throughput_per_s * service_mean_s,
        queue_time_mean_s: (response_mean_s - service_mean_s).max(0.0),
        response_mean_s,
        outstanding_mean: throughput_per_s * response_mean_s,
    })
}

/// Shares of the departures that leave 0, 1, … requests behind.
fn shares(services: &[Service]) -> Vec<f64> {
    let mut shares = vec![1.0];
    for n in 0..services.len() - 1 {
        if services[n + 1].none < NONE_MIN {
            shares.iter_mut().for_each(|share| *share = 0.0);
            shares.push(1.0);
            continue;
        }
        let idle = shares[0] * services[0].at_least(n + 1);
        let busy: f64 =
            shares.iter().enumerate().skip(1).map(|(i, share)| share * services[i].at_least(n + 2 - i)).sum();
        shares.push((idle + busy) / services[n + 1].none);
        let last = shares[n + 1];
        if last > SHARE_MAX {
            shares.iter_mut().for_each(|share| *share /= last);
        }
    }
    let sum: f64 = shares.iter().sum();
    shares.into_iter().map(|share| share / sum).collect()
}

/// One service and the arrivals during it.
struct Service {
    mean_s: f64,
    none: f64,
    /// Probabilities of at least 0, 1, … arrivals.
    at_least: Vec<f64>,
}

impl Service {
    fn new(times_s: &[f64], thinking: u32, think_mean_s: f64) -> Self {
        let count = times_s.len() as f64;
        let mut probabilities = vec![0.0; thinking as usize + 1];
        for time_s in times_s {
            add_binomial(&mut probabilities, -(-time_s / think_mean_s).exp_m1(), 1.0 / count);
        }
        let none = probabilities[0];
        // Sums from the small end keep their digits.
        let mut at_least = probabilities;
        for arrivals in (1..at_least.len()).rev() {
            at_least[arrivals - 1] += at_least[arrivals];
        }
        Self { mean_s: times_s.iter().sum::<f64>() / count, none, at_least }
    }

    fn at_least(&self, arrivals: usize) -> f64 {
        self.at_least.get(arrivals).copied().unwrap_or(0.0)
    }
}

/// Adds a binomial distribution with a weight. Its greatest probability comes first, so that none of those that matter underflows.
fn add_binomial(probabilities: &mut [f64], success: f64, weight: f64) {
    let trials = probabilities.len() - 1;
    if success <= 0.0 || trials == 0 {
        probabilities[0] += weight;
        return;
    }
    if success >= 1.0 {
        probabilities[trials] += weight;
        return;
    }
    let odds = success / (1.0 - success);
    let mode = (((trials + 1) as f64 * success) as usize).min(trials);
    let mut relative = vec![0.0; trials + 1];
    relative[mode] = 1.0;
    for k in mode + 1..=trials {
        relative[k] = relative[k - 1] * odds * (trials - k + 1) as f64 / k as f64;
    }
    for k in (0..mode).rev() {
        relative[k] = relative[k + 1] / odds * (k + 1) as f64 / (trials - k) as f64;
    }
    let sum: f64 = relative.iter().sum();
    probabilities
        .iter_mut()
        .zip(relative)
        .for_each(|(probability, share)| *probability += weight * share / sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::{finite_population, finite_source};

    /// Midpoints of an exponential distribution.
    fn exponential_times(mean_s: f64) -> Vec<f64> {
        (0..4_000).map(|place| -mean_s * (1.0 - (f64::from(place) + 0.5) / 4_000.0).ln()).collect()
    }

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found} {expected}");
    }

    #[test]
    fn exponential_service_is_birth_and_death_whether_or_not_it_depends_on_the_queue() {
        for (members, think_mean_s) in [(1, 0.02), (4, 0.01), (12, 0.2)] {
            let population = Population { members, think_mean_s };
            let fixed = finite_departures(population, |_| exponential_times(0.01)).unwrap();
            let exact = finite_population(population, |_| 100.0).unwrap();
            near(fixed.response_mean_s, exact.response_mean_s, 2e-3);
            near(fixed.utilisation, exact.utilisation, 1e-3);
        }
    }

    #[test]
    fn constant_service_has_the_figures_of_a_finite_source() {
        for (members, think_mean_s) in [(2, 0.05), (4, 0.01), (8, 0.05), (24, 0.05), (200, 1.9), (300, 0.001)]
        {
            let population = Population { members, think_mean_s };
            let chain = finite_departures(population, |_| vec![0.01]).unwrap();
            let source = finite_source(population, 0.01, |s| -(-s * 0.01).exp_m1()).unwrap();
            near(chain.response_mean_s, source.response_mean_s, 1e-9);
            near(chain.utilisation, source.utilisation, 1e-9);
            near(chain.throughput_per_s, source.throughput_per_s, 1e-9);
        }
    }

    #[test]
    fn longer_queues_are_served_at_their_own_rate() {
        // Two members: 10 ms after an idle time and 2 ms otherwise. The other member sends its request during a service with
        // probability 1 - exp(-10 / 10) or 1 - exp(-2 / 10).
        let population = Population { members: 2, think_mean_s: 0.01 };
        let steady = finite_departures(population, |n| vec![if n < 1 { 0.01 } else { 0.002 }]).unwrap();
        let left_alone = 1.0 - (-1.0_f64).exp();
        let stays = 1.0 - (-0.2_f64).exp();
        let busy = left_alone / (1.0 - stays + left_alone);
        let interval_s = (1.0 - busy) * (0.005 + 0.01) + busy * 0.002;
        near(steady.throughput_per_s, 1.0 / interval_s, 1e-12);
    }

    #[test]
    fn populations_need_members_a_think_time_and_service_times() {
        let population = |members, think_mean_s| Population { members, think_mean_s };
        assert!(finite_departures(population(0, 1.0), |_| vec![1.0]).is_err());
        assert!(finite_departures(population(2, 0.0), |_| vec![1.0]).is_err());
        assert!(finite_departures(population(2, 1.0), |_| vec![0.0]).is_err());
    }
}
