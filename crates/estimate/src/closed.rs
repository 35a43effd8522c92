//! Closed load: a population on a device with a service law.
//!
//! Without think time all members are at the device, so it completes what the law gives for that number. With think
//! time, a law that does not depend on the queue is taken through mean value analysis with the residual service time
//! `E[S²] / (2 E[S])` of the request in service [Reiser 1979]; any other law through birth and death.
//!
//! # References
//! - [Reiser 1979] M. Reiser, *A queueing network analysis of computer communication networks with window flow control*,
//!   IEEE Transactions on Communications 27(8), 1979.

use seeklab_devices::service_law::ServiceLaw;

use crate::error::{EstimateError, check_not_negative, check_positive};
use crate::method::{Estimate, Method, Quantiles, SHARES};
use crate::moments::ServiceMoments;
use crate::open::moments;
use crate::queueing::{Population, Steady, finite_population};

/// Estimate of a closed population.
///
/// # Errors
/// No members, or a negative think time.
pub fn closed(population: Population, law: &ServiceLaw) -> Result<Estimate, EstimateError> {
    let Population { members, think_mean_s } = population;
    check_positive("members", f64::from(members))?;
    check_not_negative("think_mean_s", think_mean_s)?;
    let saturation = law.saturation_per_s();
    let members_f = f64::from(members);
    let alone = moments(&law.points[0].service);
    let is_constant = law.points.len() == 1 && law.servers <= 1.0;
    let rate = |n: u32| (1.0 / law.mean_s(f64::from(n))).min(saturation);
    let (method, steady) = if think_mean_s <= 0.0 {
        (Method::Closed, finite_population(population, rate)?)
    } else if is_constant && law.limits.is_empty() {
        (Method::FinitePopulation, with_residual_service(population, alone))
    } else {
        (Method::FinitePopulation, finite_population(population, rate)?)
    };
    let at = law.points.iter().find(|point| point.outstanding == members);
    let quantiles_s = match at.and_then(|point| point.response.as_ref()) {
        Some(times) if method == Method::Closed => {
            Some(SHARES.map(|share| times.quantile_s(share)) as Quantiles)
        }
        None if method == Method::Closed && members == 1 => {
            Some(SHARES.map(|share| law.points[0].service.quantile_s(share)))
        }
        _ => None,
    };
    let outstanding = steady.outstanding_mean.max(1.0).min(members_f);
    let service =
        ServiceMoments { mean_s: law.mean_s(outstanding), variance_s2: law.variance_s2(outstanding) };
    Ok(Estimate {
        quantiles_s,
        saturation_per_s: saturation.is_finite().then_some(saturation),
        ..Estimate::of_means(method, service, steady)
    })
}

/// Mean value analysis of one station in order of arrival whose service times are not exponential.
fn with_residual_service(population: Population, service: ServiceMoments) -> Steady {
    let residual_s = service.second_moment_s2() / (2.0 * service.mean_s);
    let (mut outstanding, mut utilisation) = (0.0, 0.0);
    let (mut response_s, mut throughput) = (service.mean_s, 0.0);
    for member in 1..=population.members {
        response_s = service.mean_s * (1.0 + outstanding - utilisation) + utilisation * residual_s;
        throughput = f64::from(member) / (population.think_mean_s + response_s);
        utilisation = (throughput * service.mean_s).min(1.0);
        outstanding = throughput * response_s;
    }
    Steady {
        throughput_per_s: throughput,
        utilisation,
        queue_time_mean_s: (response_s - service.mean_s).max(0.0),
        response_mean_s: response_s,
        outstanding_mean: outstanding,
    }
}

#[cfg(test)]
mod tests {
    use seeklab_devices::service_law::{LawOrigin, ServiceTimes};

    use super::*;

    fn law(service: ServiceTimes) -> ServiceLaw {
        ServiceLaw::of_server(LawOrigin::Exact, service)
    }

    #[test]
    fn population_without_think_time_keeps_the_device_busy() {
        let population = Population { members: 8, think_mean_s: 0.0 };
        let estimate = closed(population, &law(ServiceTimes::constant(0.01))).unwrap();
        assert!((estimate.steady.throughput_per_s - 100.0).abs() < 1e-9, "{estimate:?}");
        assert!((estimate.steady.response_mean_s - 0.08).abs() < 1e-12);
        assert_eq!((estimate.steady.utilisation, estimate.method), (1.0, Method::Closed));
    }

    #[test]
    fn exponential_service_gives_exact_mean_value_analysis() {
        let population = Population { members: 6, think_mean_s: 0.03 };
        let estimate = closed(population, &law(ServiceTimes::Exponential { mean_s: 0.01 })).unwrap();
        let exact = finite_population(population, |_| 100.0).unwrap();
        assert!((estimate.steady.response_mean_s / exact.response_mean_s - 1.0).abs() < 1e-9);
        let constant = closed(population, &law(ServiceTimes::constant(0.01))).unwrap();
        assert!(constant.steady.response_mean_s < 0.95 * exact.response_mean_s, "{constant:?}");
    }

    #[test]
    fn one_member_has_the_quantiles_of_the_service_time() {
        let population = Population { members: 1, think_mean_s: 0.0 };
        let estimate = closed(population, &law(ServiceTimes::Exponential { mean_s: 0.01 })).unwrap();
        assert!((estimate.quantiles_s.unwrap()[0] - 0.01 * 2.0_f64.ln()).abs() < 1e-9);
        assert!(closed(Population { members: 0, ..population }, &law(ServiceTimes::constant(0.01))).is_err());
    }
}
