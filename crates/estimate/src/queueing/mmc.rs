//! M/M/c: Poisson arrivals, several servers, exponential service times, order of arrival.
//!
//! A request waits with Erlang's probability C, `B / (1 − ρ (1 − B))`, where B follows from the recursion
//! `B(k) = a B(k−1) / (k + a B(k−1))` with `a = λ E[S]` [Kleinrock 1975, section 3.5; the recursion avoids factorials].

use crate::error::{EstimateError, check_positive};
use crate::queueing::{Steady, check_load};

/// Means of M/M/c.
///
/// # Errors
/// A service time that is not positive, no servers, no arrivals, or arrivals that exceed the rate of the servers.
pub fn mmc(arrivals_per_s: f64, service_mean_s: f64, servers: u32) -> Result<Steady, EstimateError> {
    check_positive("service_mean_s", service_mean_s)?;
    check_positive("servers", f64::from(servers))?;
    check_load(arrivals_per_s, service_mean_s, f64::from(servers))?;
    let offered = arrivals_per_s * service_mean_s;
    let utilisation = offered / f64::from(servers);
    let waits = waiting_probability(offered, servers);
    let queue_time_mean_s = waits * service_mean_s / (f64::from(servers) * (1.0 - utilisation));
    Ok(Steady::of_queue_time(arrivals_per_s, utilisation, queue_time_mean_s, service_mean_s))
}

/// Probability that a request waits in M/M/c (Erlang C), of an offered load `λ E[S]` below the number of servers.
pub fn waiting_probability(offered: f64, servers: u32) -> f64 {
    let blocked = (1..=servers).fold(1.0, |blocked, server| {
        let load = offered * blocked;
        load / (f64::from(server) + load)
    });
    let utilisation = offered / f64::from(servers);
    blocked / (1.0 - utilisation * (1.0 - blocked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::mm1;

    #[test]
    fn one_server_is_mm1() {
        let (one, several) = (mm1(3.0, 0.25).unwrap(), mmc(3.0, 0.25, 1).unwrap());
        assert!((one.response_mean_s - several.response_mean_s).abs() < 1e-12, "{several:?}");
    }

    #[test]
    fn two_servers_meet_the_closed_form() {
        // C = 2 ρ² / (1 + ρ) for two servers: with ρ = 0.6 it is 0.45.
        assert!((waiting_probability(1.2, 2) - 0.45).abs() < 1e-12);
    }

    #[test]
    fn overload_is_of_all_servers() {
        assert!(mmc(7.9, 0.25, 2).is_ok());
        assert_eq!(
            mmc(8.0, 0.25, 2).unwrap_err(),
            EstimateError::Overload { arrivals_per_s: 8.0, saturation_per_s: 8.0 }
        );
        assert!(mmc(1.0, 0.25, 0).is_err());
    }
}
