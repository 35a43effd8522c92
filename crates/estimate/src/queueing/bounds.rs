//! Bounds of closed networks from their demands alone.
//!
//! With N members, think time Z, the sum of demands D, the greatest demand `Dmax` and the mean demand `Dave`:
//!
//! | | lower bound of the throughput | upper bound |
//! | --- | --- | --- |
//! | asymptotic | `N / (N D + Z)` | `min(1 / Dmax, N / (D + Z))` |
//! | balanced | `N / (D + Z + (N−1) Dmax / (1 + Z / (N D)))` | `min(1 / Dmax, N / (D + Z + (N−1) Dave / (1 + Z / D)))` |
//!
//! [Lazowska et al. 1984, tables 5.1 and 5.3]. Bounds of the response time follow from `R = N / X − Z`.

use crate::error::{EstimateError, check_not_negative, check_positive};
use crate::queueing::finite_population::Population;

/// Range of a throughput and of the response time that goes with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThroughputBounds {
    /// Least throughput, per second.
    pub throughput_min_per_s: f64,
    /// Greatest throughput, per second.
    pub throughput_max_per_s: f64,
    /// Least mean response time, in seconds.
    pub response_min_s: f64,
    /// Greatest mean response time, in seconds.
    pub response_max_s: f64,
}

impl ThroughputBounds {
    fn of(population: Population, throughput_min_per_s: f64, throughput_max_per_s: f64) -> Self {
        let response_s = |throughput| f64::from(population.members) / throughput - population.think_mean_s;
        Self {
            throughput_min_per_s,
            throughput_max_per_s,
            response_min_s: response_s(throughput_max_per_s),
            response_max_s: response_s(throughput_min_per_s),
        }
    }
}

/// Sum, greatest and mean of the demands.
fn totals(population: Population, demands_s: &[f64]) -> Result<(f64, f64, f64), EstimateError> {
    check_positive("members", f64::from(population.members))?;
    check_not_negative("think_mean_s", population.think_mean_s)?;
    demands_s.iter().try_for_each(|demand| check_not_negative("demand_s", *demand))?;
    let sum: f64 = demands_s.iter().sum();
    check_positive("demand_s", sum)?;
    let greatest = demands_s.iter().copied().fold(0.0, f64::max);
    Ok((sum, greatest, sum / demands_s.len() as f64))
}

/// Asymptotic bounds.
///
/// # Errors
/// No members, a negative think time or demand, or no demand at all.
pub fn asymptotic_bounds(
    population: Population,
    demands_s: &[f64],
) -> Result<ThroughputBounds, EstimateError> {
    let (sum, greatest, _) = totals(population, demands_s)?;
    let (members, think) = (f64::from(population.members), population.think_mean_s);
    let least = members / (members * sum + think);
    let most = (1.0 / greatest).min(members / (sum + think));
    Ok(ThroughputBounds::of(population, least, most))
}

/// Balanced bounds, which lie within the asymptotic ones.
///
/// # Errors
/// As [`asymptotic_bounds`].
pub fn balanced_bounds(population: Population, demands_s: &[f64]) -> Result<ThroughputBounds, EstimateError> {
    let (sum, greatest, mean) = totals(population, demands_s)?;
    let (members, think) = (f64::from(population.members), population.think_mean_s);
    let others = members - 1.0;
    let least = members / (sum + think + others * greatest / (1.0 + think / (members * sum)));
    let most = members / (sum + think + others * mean / (1.0 + think / sum));
    Ok(ThroughputBounds::of(population, least, most.min(1.0 / greatest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::{Station, mean_value_analysis};

    #[test]
    fn exact_throughput_lies_within_both_bounds() {
        let demands = [0.03, 0.01, 0.025];
        let stations = demands.map(|demand_s| Station::Queueing { demand_s });
        for members in [1, 2, 5, 20, 100] {
            for think_mean_s in [0.0, 0.1, 1.0] {
                let population = Population { members, think_mean_s };
                let exact = mean_value_analysis(population, &stations).unwrap().throughput_per_s;
                let wide = asymptotic_bounds(population, &demands).unwrap();
                let tight = balanced_bounds(population, &demands).unwrap();
                let inside = |bounds: ThroughputBounds| {
                    bounds.throughput_min_per_s <= exact * (1.0 + 1e-12)
                        && exact <= bounds.throughput_max_per_s * (1.0 + 1e-12)
                };
                assert!(inside(wide) && inside(tight), "{population:?} {exact} {wide:?} {tight:?}");
                assert!(wide.throughput_min_per_s <= tight.throughput_min_per_s * (1.0 + 1e-12));
                assert!(tight.throughput_max_per_s <= wide.throughput_max_per_s * (1.0 + 1e-12));
            }
        }
    }

    #[test]
    fn balanced_networks_meet_the_upper_bound() {
        let population = Population { members: 6, think_mean_s: 0.0 };
        let exact = mean_value_analysis(population, &[Station::Queueing { demand_s: 0.02 }; 4]).unwrap();
        let bounds = balanced_bounds(population, &[0.02; 4]).unwrap();
        assert!((bounds.throughput_max_per_s - exact.throughput_per_s).abs() < 1e-9, "{bounds:?}");
        assert!((bounds.throughput_min_per_s - exact.throughput_per_s).abs() < 1e-9);
    }

    #[test]
    fn networks_without_demand_are_refused() {
        let population = Population { members: 1, think_mean_s: 0.0 };
        assert!(asymptotic_bounds(population, &[0.0]).is_err());
        assert!(balanced_bounds(population, &[-0.1, 0.2]).is_err());
    }
}
