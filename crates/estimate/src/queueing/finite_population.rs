//! Finite population with think time: each member thinks, sends one request and waits for its completion.
//!
//! With exponential think times and exponential service times, the number of requests at the device is a birth-death
//! process: births at `(N − n) / Z`, deaths at the rate `μ(n)` with n requests there. Its probabilities are products
//! of the rates [Kleinrock 1975, section 3.8]. Without think time all members are at the device.
//!
//! # Assumptions
//! Think times are exponential. The service time is exponential with a mean that depends on n alone.

use crate::error::{EstimateError, check_not_negative, check_positive};
use crate::queueing::Steady;

/// A population that thinks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Population {
    /// Number of members, at least one.
    pub members: u32,
    /// Mean time from a completion to the next request of the same member, in seconds.
    pub think_mean_s: f64,
}

/// Means of a population at a device that completes `completions_per_s(n)` requests per second while n are
/// outstanding. The utilisation is the share of the time in which at least one is.
///
/// # Errors
/// No members, a negative think time, or a rate that is not positive.
pub fn finite_population(
    population: Population,
    completions_per_s: impl Fn(u32) -> f64,
) -> Result<Steady, EstimateError> {
    let Population { members, think_mean_s } = population;
    check_positive("members", f64::from(members))?;
    check_not_negative("think_mean_s", think_mean_s)?;
    let rates: Vec<f64> = (1..=members).map(completions_per_s).collect();
    rates.iter().try_for_each(|rate| check_positive("completions_per_s", *rate))?;
    let mut idle = 0.0;
    let mut outstanding_mean = f64::from(members);
    let mut throughput_per_s = rates[rates.len() - 1];
    if think_mean_s > 0.0 {
        let shares = probabilities(members, think_mean_s, &rates);
        idle = shares[0];
        outstanding_mean = shares.iter().enumerate().map(|(n, share)| n as f64 * share).sum();
        throughput_per_s = shares[1..].iter().zip(&rates).map(|(share, rate)| share * rate).sum();
    }
    let response_mean_s = outstanding_mean / throughput_per_s;
    let alone_s = 1.0 / rates[0];
    Ok(Steady {
        throughput_per_s,
        utilisation: 1.0 - idle,
        queue_time_mean_s: (response_mean_s - alone_s).max(0.0),
        response_mean_s,
        outstanding_mean,
    })
}

/// Shares of the time in which 0, 1, … N requests are at the device. Logarithms keep products in range.
fn probabilities(members: u32, think_mean_s: f64, rates: &[f64]) -> Vec<f64> {
    let mut logarithm = 0.0;
    let mut logarithms = vec![0.0];
    for (n, rate) in rates.iter().enumerate() {
        let births_per_s = (f64::from(members) - n as f64) / think_mean_s;
        logarithm += (births_per_s / rate).ln();
        logarithms.push(logarithm);
    }
    let greatest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logarithms.into_iter().map(|logarithm| (logarithm - greatest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_member_never_waits() {
        let steady = finite_population(Population { members: 1, think_mean_s: 3.0 }, |_| 1.0).unwrap();
        assert!((steady.response_mean_s - 1.0).abs() < 1e-12, "{steady:?}");
        assert!((steady.utilisation - 0.25).abs() < 1e-12);
        assert!((steady.throughput_per_s - 0.25).abs() < 1e-12);
    }

    #[test]
    fn two_members_meet_the_hand_computed_shares() {
        // Z = 1, μ = 1: weights 1, 2, 2; X = 4/5, L = 6/5, R = 3/2.
        let steady = finite_population(Population { members: 2, think_mean_s: 1.0 }, |_| 1.0).unwrap();
        assert!((steady.throughput_per_s - 0.8).abs() < 1e-12, "{steady:?}");
        assert!((steady.response_mean_s - 1.5).abs() < 1e-12);
    }

    #[test]
    fn without_think_time_all_members_are_at_the_device() {
        let rate = |n: u32| 10.0 * f64::from(n).sqrt();
        let steady = finite_population(Population { members: 16, think_mean_s: 0.0 }, rate).unwrap();
        assert_eq!((steady.throughput_per_s, steady.outstanding_mean), (40.0, 16.0));
        assert!((steady.response_mean_s - 0.4).abs() < 1e-12);
    }

    #[test]
    fn many_members_stay_in_range() {
        let population = Population { members: 5_000, think_mean_s: 1.0 };
        let steady = finite_population(population, |_| 100.0).unwrap();
        assert!((steady.throughput_per_s - 100.0).abs() < 1e-6, "{steady:?}");
        assert!((steady.response_mean_s - 49.0).abs() < 1e-6);
    }

    #[test]
    fn impossible_populations_are_refused() {
        let population = |members, think_mean_s| Population { members, think_mean_s };
        assert!(finite_population(population(0, 1.0), |_| 1.0).is_err());
        assert!(finite_population(population(2, -1.0), |_| 1.0).is_err());
        assert!(finite_population(population(2, 1.0), |_| 0.0).is_err());
    }
}
