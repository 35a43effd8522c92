//! A closed load over several devices: a network of stations.
//!
//! A request goes to each device with the share of the requests that the load has there. Where no service time depends on the queue,
//! [`mean_value_analysis`] gives the means. Otherwise, up to 512 members, the shares of all states are those of stations whose rates
//! are the ones of their laws: the product of `D_k(1) … D_k(n)` over the devices, with the demand `D_k(n)` of device k with n
//! outstanding, summed by convolution [Buzen 1973]. Larger populations have the rates of the greatest number of each law.
//!
//! # Assumptions
//! The assumptions of [`mean_value_analysis`] hold, and the next device does not depend on the one before.
//!
//! # References
//! - [Buzen 1973] J. P. Buzen, *Computational algorithms for closed queueing networks with exponential servers*, Communications of
//!   the ACM 16(9), 1973.

use seeklab_devices::service_law::ServiceLaw;

use crate::error::{EstimateError, check_positive};
use crate::method::{Estimate, Method};
use crate::moments::ServiceMoments;
use crate::queueing::{
    NetworkMeans, Population, Station, StationMeans, Steady, ThroughputBounds, asymptotic_bounds,
    balanced_bounds, mean_value_analysis,
};

/// Members whose states are summed, at most.
const MEMBERS_MAX: u32 = 512;

/// A device of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkStation {
    /// Share of the requests that go to the device.
    pub share: f64,
    /// Service times of these requests.
    pub law: ServiceLaw,
}

/// Estimate of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkEstimate {
    /// Means over all devices. The utilisation is that of the busiest.
    pub estimate: Estimate,
    /// Service demand of each device, in seconds.
    pub demands_s: Vec<f64>,
    /// Means of each device.
    pub means: NetworkMeans,
    /// Asymptotic and balanced bounds. `None` if service times depend on the queue.
    pub bounds: Option<[ThroughputBounds; 2]>,
}

/// Estimate of a closed population without think time over several devices.
///
/// # Errors
/// No members, no stations, or no service times.
pub fn closed_network(members: u32, stations: &[NetworkStation]) -> Result<NetworkEstimate, EstimateError> {
    check_positive("members", f64::from(members))?;
    let population = Population { members, think_mean_s: 0.0 };
    let is_constant = stations.iter().all(|station| station.law.points.len() == 1);
    let means = if is_constant || members > MEMBERS_MAX {
        let demand = |station: &NetworkStation| Station::Queueing { demand_s: station.demand_s(members) };
        mean_value_analysis(population, &stations.iter().map(demand).collect::<Vec<_>>())?
    } else {
        summed_states(members as usize, stations)?
    };
    let demands_s: Vec<f64> =
        means.stations.iter().map(|station| station.utilisation / means.throughput_per_s).collect();
    let service_mean_s: f64 = demands_s.iter().sum();
    let second_s2 = |(station, demand_s): (&NetworkStation, &f64)| {
        let mean_s = demand_s / station.share;
        // As many deviations from the mean as with one outstanding.
        station.share * mean_s * mean_s * (1.0 + station.variation().powi(2))
    };
    let second_s2: f64 = stations.iter().zip(&demands_s).map(second_s2).sum();
    let variance_s2 = (second_s2 - service_mean_s.powi(2)).max(0.0);
    let steady = Steady {
        throughput_per_s: means.throughput_per_s,
        utilisation: means.stations.iter().map(|station| station.utilisation).fold(0.0, f64::max).min(1.0),
        queue_time_mean_s: means.response_mean_s - service_mean_s,
        response_mean_s: means.response_mean_s,
        outstanding_mean: f64::from(members),
    };
    let limits_per_s = stations.iter().map(|station| station.law.saturation_per_s() / station.share);
    let service = ServiceMoments { mean_s: service_mean_s, variance_s2 };
    Ok(NetworkEstimate {
        estimate: Estimate {
            saturation_per_s: Some(limits_per_s.fold(f64::INFINITY, f64::min)),
            ..Estimate::of_means(Method::MeanValueAnalysis, service, steady)
        },
        bounds: match is_constant {
            true => {
                Some([asymptotic_bounds(population, &demands_s)?, balanced_bounds(population, &demands_s)?])
            }
            false => None,
        },
        demands_s,
        means,
    })
}

/// Means from the shares of all states.
fn summed_states(members: usize, stations: &[NetworkStation]) -> Result<NetworkMeans, EstimateError> {
    // In units of the greatest demand with all members outstanding, so that the products stay in range.
    let unit_s = stations.iter().map(|station| station.demand_s(members as u32)).fold(0.0, f64::max);
    check_positive("demand_s", unit_s)?;
    let products = |station: &NetworkStation| {
        let demands = (1..=members as u32).map(|outstanding| station.demand_s(outstanding) / unit_s);
        let products = demands.scan(1.0, |product, demand| {
            *product *= demand;
            Some(*product)
        });
        [1.0].into_iter().chain(products).collect::<Vec<f64>>()
    };
    let products: Vec<Vec<f64>> = stations.iter().map(products).collect();
    let nobody = || [1.0].into_iter().chain(std::iter::repeat_n(0.0, members)).collect::<Vec<f64>>();
    // Sums over the states of the devices before and behind each.
    let mut before = vec![nobody()];
    for own in &products {
        before.push(joined(&before[before.len() - 1], own));
    }
    let mut behind = vec![nobody()];
    for own in products.iter().rev() {
        behind.push(joined(&behind[behind.len() - 1], own));
    }
    let whole = &before[products.len()];
    let throughput_per_s = whole[members - 1] / whole[members] / unit_s;
    let means = products.iter().enumerate().map(|(place, own)| {
        let others = joined(&before[place], &behind[products.len() - 1 - place]);
        let share = |number: usize| own[number] * others[members - number] / whole[members];
        let outstanding_mean = (1..=members).map(|number| number as f64 * share(number)).sum::<f64>();
        StationMeans {
            response_mean_s: outstanding_mean / throughput_per_s,
            outstanding_mean,
            utilisation: 1.0 - share(0),
        }
    });
    Ok(NetworkMeans {
        throughput_per_s,
        response_mean_s: members as f64 / throughput_per_s,
        stations: means.collect(),
    })
}

/// Sums over the states of two groups of devices, by the number of members.
fn joined(one: &[f64], other: &[f64]) -> Vec<f64> {
    let sum = |members: usize| (0..=members).map(|number| one[number] * other[members - number]).sum();
    (0..one.len()).map(sum).collect()
}

impl NetworkStation {
    /// Service demand with a number outstanding, at least the time between completions at the limits of the device, in seconds.
    fn demand_s(&self, outstanding: u32) -> f64 {
        self.share * self.law.mean_s(f64::from(outstanding)).max(1.0 / self.law.saturation_per_s())
    }

    /// Standard deviation of the service time over its mean, with one outstanding: 1 of exponential times.
    pub fn variation(&self) -> f64 {
        self.law.points[0].service.deviation_s() / self.law.mean_s(1.0)
    }
}

#[cfg(test)]
mod tests {
    use seeklab_devices::service_law::{LawOrigin, LawPoint, ServiceTimes};

    use super::*;

    fn station(share: f64, mean_s: f64) -> NetworkStation {
        let law = ServiceLaw::of_server(LawOrigin::Exact, ServiceTimes::Exponential { mean_s });
        NetworkStation { share, law }
    }

    #[test]
    fn balanced_devices_share_the_members() {
        // K alike: X(N) = N / (D (N + K − 1)), with the demand D of each.
        let stations = [station(0.25, 0.02), station(0.25, 0.02), station(0.5, 0.01)];
        let found = closed_network(6, &stations).unwrap();
        let steady = found.estimate.steady;
        assert!((steady.throughput_per_s - 6.0 / (0.005 * 8.0)).abs() < 1e-9, "{found:?}");
        assert!((found.estimate.saturation_per_s.unwrap() - 200.0).abs() < 1e-9);
        assert!((steady.utilisation - 0.75).abs() < 1e-9 && (steady.outstanding_mean - 6.0).abs() < 1e-9);
        assert!((found.estimate.service.mean_s - 0.015).abs() < 1e-12);
        // Balanced networks meet the upper bound.
        let [asymptotic, balanced] = found.bounds.unwrap();
        assert!((balanced.throughput_max_per_s - steady.throughput_per_s).abs() < 1e-9);
        assert!(asymptotic.throughput_max_per_s > steady.throughput_per_s);
    }

    /// A device whose service times with several outstanding are these.
    fn dependent(share: f64, mean_s: f64, at_four_s: f64) -> NetworkStation {
        let mut station = station(share, mean_s);
        let service = ServiceTimes::Exponential { mean_s: at_four_s };
        station.law.points.push(LawPoint { outstanding: 4, service, response: None });
        station
    }

    #[test]
    fn sums_of_states_are_mean_value_analysis_where_nothing_depends_on_the_queue() {
        for members in [1, 2, 7, 40, 500] {
            let exact = closed_network(members, &[station(0.5, 0.01), station(0.3, 0.02)]).unwrap();
            let found = closed_network(members, &[dependent(0.5, 0.01, 0.01), station(0.3, 0.02)]).unwrap();
            assert!(exact.bounds.is_some() && found.bounds.is_none());
            let pairs = exact.means.stations.iter().zip(&found.means.stations);
            for (exact, found) in pairs {
                assert!((found.outstanding_mean / exact.outstanding_mean - 1.0).abs() < 1e-9, "{members}");
                assert!((found.utilisation / exact.utilisation - 1.0).abs() < 1e-9, "{members}");
            }
            let throughput = |of: &NetworkEstimate| of.estimate.steady.throughput_per_s;
            assert!((throughput(&found) / throughput(&exact) - 1.0).abs() < 1e-9, "{members}");
        }
    }

    #[test]
    fn faster_service_of_a_queue_is_counted_by_hand() {
        // Two members and one device that takes 20 ms alone and 10 ms for two: states (2, 0), (1, 1), (0, 2) have the weights
        // 10 · 5, 10 · 10 and 10 · 10 of the demands in milliseconds.
        let mut faster = dependent(0.5, 0.02, 0.01);
        faster.law.points[1].outstanding = 2;
        let found = closed_network(2, &[faster, station(0.5, 0.02)]).unwrap();
        let means = &found.means;
        assert!((means.stations[0].outstanding_mean - 0.8).abs() < 1e-9, "{means:?}");
        assert!((means.stations[1].outstanding_mean - 1.2).abs() < 1e-9, "{means:?}");
        // One completion at a time: 20 of 250 in milliseconds.
        assert!((means.throughput_per_s - 80.0).abs() < 1e-9, "{means:?}");
    }
}
