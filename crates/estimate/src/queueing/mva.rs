//! Exact mean value analysis of closed networks with one class of requests.
//!
//! A request that arrives at a station finds the means of the network with one member less, so
//! `R_k(N) = D_k (1 + Q_k(N − 1))` at a queueing station and `R_k = D_k` at a delay station; `X = N / (Z + Σ R_k)`
//! and `Q_k = X R_k` [Reiser & Lavenberg 1980; Lazowska et al. 1984, section 6.4].
//!
//! # Assumptions
//! Service times are exponential at stations that serve in order of arrival; members are alike.

use crate::error::{EstimateError, check_not_negative, check_positive};
use crate::queueing::finite_population::Population;

/// A station of a closed network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Station {
    /// One server with a queue; requests need its service demand, in seconds.
    Queueing {
        /// Visits times mean service time, in seconds.
        demand_s: f64,
    },
    /// Time without a queue, such as a think time.
    Delay {
        /// Visits times mean time, in seconds.
        demand_s: f64,
    },
}

/// Means of one station.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StationMeans {
    /// Mean time that a request spends at the station over all its visits, in seconds.
    pub response_mean_s: f64,
    /// Mean number of requests at the station.
    pub outstanding_mean: f64,
    /// Share of the time in which its server is busy; at a delay station, the mean number there.
    pub utilisation: f64,
}

/// Means of a closed network.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkMeans {
    /// Cycles per second.
    pub throughput_per_s: f64,
    /// Mean time of a cycle without the think time, in seconds.
    pub response_mean_s: f64,
    /// Means of each station, in the order of the stations.
    pub stations: Vec<StationMeans>,
}

impl Station {
    const fn demand_s(self) -> f64 {
        match self {
            Self::Queueing { demand_s } | Self::Delay { demand_s } => demand_s,
        }
    }
}

/// Exact means of a closed network.
///
/// # Errors
/// No members, a negative think time or demand, or no demand at all.
pub fn mean_value_analysis(
    population: Population,
    stations: &[Station],
) -> Result<NetworkMeans, EstimateError> {
    let Population { members, think_mean_s } = population;
    check_positive("members", f64::from(members))?;
    check_not_negative("think_mean_s", think_mean_s)?;
    stations.iter().try_for_each(|station| check_not_negative("demand_s", station.demand_s()))?;
    check_positive(
        "demand_s",
        stations.iter().map(|station| station.demand_s()).sum::<f64>() + think_mean_s,
    )?;
    let mut outstanding = vec![0.0; stations.len()];
    let mut times = vec![0.0; stations.len()];
    let mut throughput_per_s = 0.0;
    for member in 1..=members {
        for ((time, station), found) in times.iter_mut().zip(stations).zip(&outstanding) {
            *time = match station {
                Station::Queueing { demand_s } => demand_s * (1.0 + found),
                Station::Delay { demand_s } => *demand_s,
            };
        }
        throughput_per_s = f64::from(member) / (think_mean_s + times.iter().sum::<f64>());
        for (number, time) in outstanding.iter_mut().zip(&times) {
            *number = throughput_per_s * time;
        }
    }
    let means = stations.iter().zip(times.iter().zip(&outstanding));
    Ok(NetworkMeans {
        throughput_per_s,
        response_mean_s: times.iter().sum(),
        stations: means
            .map(|(station, (time, number))| StationMeans {
                response_mean_s: *time,
                outstanding_mean: *number,
                utilisation: throughput_per_s * station.demand_s(),
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::finite_population;

    #[test]
    fn one_station_with_think_time_is_a_finite_population() {
        for members in [1, 2, 7, 30] {
            let population = Population { members, think_mean_s: 0.05 };
            let network = mean_value_analysis(population, &[Station::Queueing { demand_s: 0.01 }]).unwrap();
            let exact = finite_population(population, |_| 100.0).unwrap();
            assert!((network.throughput_per_s - exact.throughput_per_s).abs() < 1e-9, "{members}");
            assert!((network.response_mean_s - exact.response_mean_s).abs() < 1e-9, "{members}");
        }
    }

    #[test]
    fn delay_station_is_a_think_time() {
        let stations = [Station::Queueing { demand_s: 0.01 }, Station::Delay { demand_s: 0.05 }];
        let with_station =
            mean_value_analysis(Population { members: 5, think_mean_s: 0.0 }, &stations).unwrap();
        let with_think =
            mean_value_analysis(Population { members: 5, think_mean_s: 0.05 }, &stations[..1]).unwrap();
        assert!((with_station.throughput_per_s - with_think.throughput_per_s).abs() < 1e-9);
    }

    #[test]
    fn balanced_stations_share_the_members() {
        // K equal stations: X(N) = N / (D (N + K − 1)) per station demand D.
        let stations = [Station::Queueing { demand_s: 0.2 }; 3];
        let network = mean_value_analysis(Population { members: 4, think_mean_s: 0.0 }, &stations).unwrap();
        assert!((network.throughput_per_s - 4.0 / (0.2 * 6.0)).abs() < 1e-9, "{network:?}");
        assert!((network.stations[1].outstanding_mean - 4.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn impossible_networks_are_refused() {
        let population = Population { members: 2, think_mean_s: 0.0 };
        assert!(mean_value_analysis(population, &[Station::Queueing { demand_s: -1.0 }]).is_err());
        assert!(mean_value_analysis(population, &[]).is_err());
        let nobody = Population { members: 0, think_mean_s: 1.0 };
        assert!(mean_value_analysis(nobody, &[Station::Queueing { demand_s: 1.0 }]).is_err());
    }
}
