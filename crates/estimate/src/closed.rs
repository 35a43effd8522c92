//! Closed load: a population on a device with a service law.
//!
//! Without think time all members are at the device, so it completes what the law gives for that number. With exponential think
//! times, one server whose law does not depend on the queue is a finite source [Takács 1962]; one whose law does is followed from
//! departure to departure, up to 512 members. Several servers, larger populations and limits are birth and death with the
//! rates of the law, as if service times were exponential.
//!
//! Percentiles with think times are those of requests that are drawn and followed from departure to departure, as the means are of
//! constant think times. Populations that birth and death stand for have none.
//!
//! # References
//! - [Takács 1962] L. Takács, *Introduction to the Theory of Queues*, Oxford University Press, 1962.

use seeklab_devices::service_law::ServiceLaw;

use crate::error::{EstimateError, check_not_negative, check_positive};
use crate::method::{Estimate, Method};
use crate::moments::ServiceMoments;
use crate::quantiles::{Quantiles, SHARES};
use crate::queueing::{
    Population, ServiceOrder, Steady, ThinkingSteady, constant_think_times, finite_departures,
    finite_population, finite_source, sum_quantiles_s, thinking_quantiles_s,
};

/// Estimate of a closed population.
///
/// # Errors
/// No members, a negative think time, or neither think times nor service times.
pub fn closed(population: Population, law: &ServiceLaw) -> Result<Estimate, EstimateError> {
    let Population { members, think_mean_s } = population;
    check_positive("members", f64::from(members))?;
    check_not_negative("think_mean_s", think_mean_s)?;
    if think_mean_s <= 0.0 && law.points.iter().all(|point| point.service.mean_s() <= 0.0) {
        return Err(EstimateError::WithoutService);
    }
    let saturation = law.saturation_per_s();
    let members_f = f64::from(members);
    let rate = |n: u32| (1.0 / law.mean_s(f64::from(n))).min(saturation);
    let (method, steady) = if think_mean_s <= 0.0 {
        (Method::Closed, finite_population(population, rate)?)
    } else {
        (Method::FinitePopulation, thinking(population, law, rate)?)
    };
    let at = law.points.iter().find(|point| point.outstanding == members);
    let quantiles_s = match at.and_then(|point| point.response.as_ref()) {
        // A limit that holds requests spreads their times otherwise.
        Some(times) if method == Method::Closed && law.limits.is_empty() => {
            Some(SHARES.map(|share| times.quantile_s(share)) as Quantiles)
        }
        None if method == Method::Closed && is_one_server_in_order(law) => match members {
            1 => Some(SHARES.map(|share| law.points[0].service.quantile_s(share))),
            // A request waits for those of all other members, of which the first begins when it arrives.
            _ => Some(sum_quantiles_s(&law.points[law.points.len() - 1].service, members, SHARES)),
        },
        _ if method == Method::FinitePopulation => thinking_quantiles(population, law, &steady),
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

/// Estimate of a closed population with constant think times. `None` of several servers, limits, an order that was not sampled, and
/// populations of which too few requests are followed: as if their think times were exponential, [`closed`] estimates them.
///
/// # Errors
/// No members, or a think time that is not positive.
pub fn closed_with_constant_think_times(
    population: Population,
    law: &ServiceLaw,
) -> Result<Option<Estimate>, EstimateError> {
    check_positive("members", f64::from(population.members))?;
    check_positive("think_mean_s", population.think_mean_s)?;
    let Some(order) = service_order(population, law) else { return Ok(None) };
    let of = |outstanding, share| service_s(law, outstanding, share);
    let found = constant_think_times(population, order, of, SHARES);
    Ok(found.map(|ThinkingSteady { steady, service, quantiles_s }| Estimate {
        quantiles_s: Some(quantiles_s),
        saturation_per_s: Some(law.saturation_per_s()).filter(|rate| rate.is_finite()),
        ..Estimate::of_means(Method::ConstantThinkTimes, service, steady)
    }))
}

/// Least mean response time of a population, in seconds: that of one request alone, and that of all members at the highest
/// sustained rate, less the think time. These are the asymptotic bounds of operational analysis.
pub fn response_min_s(population: Population, law: &ServiceLaw) -> f64 {
    let all_s = f64::from(population.members) / law.saturation_per_s() - population.think_mean_s;
    law.mean_s(1.0).max(all_s)
}

/// Returns true if each request waits for those that arrived before, and nothing else holds it.
fn is_one_server_in_order(law: &ServiceLaw) -> bool {
    law.servers <= 1.0 && law.in_order && law.limits.is_empty() && law.buffered_writes.is_none()
}

/// Members that are followed from departure to departure, at most.
const FOLLOWED_MEMBERS_MAX: u32 = 512;

/// Service times of a law that stand for a distribution.
const TIMES: u32 = 64;

/// Means of a population that thinks.
fn thinking(
    population: Population,
    law: &ServiceLaw,
    rate: impl Fn(u32) -> f64,
) -> Result<Steady, EstimateError> {
    if is_one_server(law) && is_constant(law) {
        let service = &law.points[0].service;
        finite_source(population, service.mean_s(), |rate_per_s| service.transform_complement(rate_per_s))
    } else if is_one_server(law) && population.members <= FOLLOWED_MEMBERS_MAX {
        finite_departures(population, |outstanding| midpoints(|share| service_s(law, outstanding, share)))
    } else {
        finite_population(population, rate)
    }
}

/// Returns true if one request is in service at a time, and nothing else holds requests.
fn is_one_server(law: &ServiceLaw) -> bool {
    law.servers <= 1.0 && law.limits.is_empty() && law.mean_s(1.0) > 0.0
}

/// Returns true if service times do not depend on the queue.
fn is_constant(law: &ServiceLaw) -> bool {
    law.points.len() == 1 && law.after_idle.is_none()
}

/// Service time that a share does not exceed of the request chosen while so many are outstanding; 0 after an idle period.
fn service_s(law: &ServiceLaw, outstanding: u32, share: f64) -> f64 {
    match &law.after_idle {
        Some(service) if outstanding == 0 => service.quantile_s(share),
        // A closed run chooses among one less than it keeps outstanding.
        _ => law.quantile_s(f64::from(outstanding) + 1.0, share),
    }
}

/// Order in which requests of a population are followed; `None` of several servers, limits, and an order that was not sampled.
fn service_order(population: Population, law: &ServiceLaw) -> Option<ServiceOrder<'_>> {
    if !is_one_server(law) || population.members > FOLLOWED_MEMBERS_MAX && !is_constant(law) {
        return None;
    }
    match (law.in_order, law.order.is_empty()) {
        (true, _) => Some(ServiceOrder::Arrival),
        (false, false) => Some(ServiceOrder::Sampled(&law.order)),
        (false, true) => None,
    }
}

/// Percentiles of a population that thinks; `None` without an order, and of long queues.
fn thinking_quantiles(population: Population, law: &ServiceLaw, steady: &Steady) -> Option<Quantiles> {
    let of = |outstanding, share| service_s(law, outstanding, share);
    thinking_quantiles_s(population, service_order(population, law)?, of, steady, SHARES)
}

/// Times with equal shares.
fn midpoints(quantile_s: impl Fn(f64) -> f64) -> Vec<f64> {
    (0..TIMES).map(|place| quantile_s((f64::from(place) + 0.5) / f64::from(TIMES))).collect()
}

#[cfg(test)]
mod tests {
    use seeklab_devices::service_law::{LawOrigin, LawPoint, ServiceTimes};

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
    fn throughput_keeps_the_asymptotic_bound() {
        for (members, think_mean_s) in [(2, 0.001), (4, 0.01), (3, 0.02), (24, 0.1), (64, 0.5)] {
            let population = Population { members, think_mean_s };
            let steady = closed(population, &law(ServiceTimes::constant(0.01))).unwrap().steady;
            let bound = (f64::from(members) / (think_mean_s + 0.01)).min(100.0);
            assert!(steady.throughput_per_s <= bound + 1e-9, "{members}: {steady:?}");
        }
    }

    #[test]
    fn service_that_grows_with_the_queue_is_followed_from_departure_to_departure() {
        let point = |outstanding, time_s| LawPoint {
            outstanding,
            service: ServiceTimes::constant(time_s),
            response: None,
        };
        let base = law(ServiceTimes::constant(0.01));
        let law = |last_s| ServiceLaw { points: vec![point(1, 0.01), point(8, last_s)], ..base.clone() };
        let population = Population { members: 8, think_mean_s: 0.05 };
        let constant = closed(population, &base).unwrap().steady;
        let same = closed(population, &law(0.01)).unwrap().steady;
        assert!(
            (same.response_mean_s / constant.response_mean_s - 1.0).abs() < 1e-9,
            "{same:?} {constant:?}"
        );
        // Of two members, the second is chosen as one of two that a closed run keeps outstanding: 2 ms, and 10 ms after idle times.
        let pair = ServiceLaw { points: vec![point(1, 0.01), point(2, 0.002)], ..base.clone() };
        let found = closed(Population { members: 2, think_mean_s: 0.01 }, &pair).unwrap().steady;
        let (after_idle, after_busy) = (1.0 - (-1.0_f64).exp(), 1.0 - (-0.2_f64).exp());
        let busy = after_idle / (1.0 - after_busy + after_idle);
        let interval_s = (1.0 - busy) * (0.005 + 0.01) + busy * 0.002;
        assert!((found.throughput_per_s * interval_s - 1.0).abs() < 1e-9, "{found:?}");
        let faster = closed(population, &law(0.005)).unwrap().steady;
        assert!(faster.response_mean_s < 0.8 * constant.response_mean_s, "{faster:?} {constant:?}");
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
