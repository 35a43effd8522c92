//! Poisson arrivals in batches, or of two classes, at one server whose service times do not depend on the queue.

use seeklab_devices::service_law::ServiceLaw;

use crate::error::EstimateError;
use crate::method::{ClassMeans, Estimate, Method};
use crate::open::moments;
use crate::quantiles::SHARES;
use crate::queueing::{Batch, PriorityClass, Steady, mg1_priorities, mxg1_response_times};

/// Returns true of one server in order of arrival whose service times depend on nothing, and of nothing that holds requests.
pub fn is_one_server(law: &ServiceLaw) -> bool {
    law.servers <= 1.0
        && law.in_order
        && law.limits.is_empty()
        && law.buffered_writes.is_none()
        && law.points.len() == 1
        && law.after_idle.is_none()
        && law.points[0].service.mean_s() > 0.0
}

/// Estimate of batches that arrive as a Poisson process at [one server](is_one_server).
///
/// # Errors
/// No arrivals, or arrivals that exceed the rate of the server.
pub fn open_batches(batches_per_s: f64, batch: Batch, law: &ServiceLaw) -> Result<Estimate, EstimateError> {
    let service = &law.points[0].service;
    let (steady, times) = mxg1_response_times(batches_per_s, batch, service)?;
    Ok(Estimate {
        quantiles_s: Some(SHARES.map(|share| times.quantile_s(share))),
        saturation_per_s: Some(law.saturation_per_s()),
        ..Estimate::of_means(Method::Mxg1, moments(service), steady)
    })
}

/// Estimate of Poisson arrivals at [one server](is_one_server) that serves time-noncritical requests, a share of all above 0
/// and below 1, only while no other waits. It gives no percentiles.
///
/// # Errors
/// As [`open_batches`].
pub fn open_priorities(
    arrivals_per_s: f64,
    noncritical: f64,
    law: &ServiceLaw,
) -> Result<Estimate, EstimateError> {
    let service = moments(&law.points[0].service);
    let class = |share: f64| PriorityClass { arrivals_per_s: arrivals_per_s * share, service };
    let classes = mg1_priorities(&[class(1.0 - noncritical), class(noncritical)])?;
    let queue_s = |class: &Steady| class.queue_time_mean_s;
    let queue_mean_s = (1.0 - noncritical) * queue_s(&classes[0]) + noncritical * queue_s(&classes[1]);
    let utilisation = arrivals_per_s * service.mean_s;
    let steady = Steady::of_queue_time(arrivals_per_s, utilisation, queue_mean_s, service.mean_s);
    Ok(Estimate {
        classes: Some(ClassMeans {
            time_critical_s: classes[0].response_mean_s,
            time_noncritical_s: classes[1].response_mean_s,
        }),
        saturation_per_s: Some(law.saturation_per_s()),
        ..Estimate::of_means(Method::Mg1Priorities, service, steady)
    })
}

#[cfg(test)]
mod tests {
    use seeklab_devices::service_law::{LawOrigin, LawPoint, ServiceTimes};

    use super::*;
    use crate::open_poisson;

    #[test]
    fn priorities_move_time_from_one_class_to_the_other() {
        let law = ServiceLaw::of_server(LawOrigin::Exact, ServiceTimes::Exponential { mean_s: 0.01 });
        let alike = open_poisson(80.0, &law).unwrap().steady;
        let found = open_priorities(80.0, 0.25, &law).unwrap();
        // All services are alike, so the mean over both classes stays.
        assert!((found.steady.response_mean_s / alike.response_mean_s - 1.0).abs() < 1e-12, "{found:?}");
        let ClassMeans { time_critical_s, time_noncritical_s } = found.classes.unwrap();
        assert!(time_critical_s < alike.response_mean_s && alike.response_mean_s < time_noncritical_s);
        assert!(matches!(open_priorities(100.0, 0.25, &law), Err(EstimateError::Overload { .. })));
    }

    #[test]
    fn laws_that_depend_on_the_queue_are_no_single_server() {
        let law = ServiceLaw::of_server(LawOrigin::Exact, ServiceTimes::constant(0.01));
        assert!(is_one_server(&law));
        let mut slower = law.clone();
        slower.points.push(LawPoint {
            outstanding: 4,
            service: ServiceTimes::constant(0.02),
            response: None,
        });
        assert!(!is_one_server(&slower));
        assert!(!is_one_server(&ServiceLaw { in_order: false, ..law.clone() }));
        assert!(!is_one_server(&ServiceLaw { after_idle: Some(ServiceTimes::constant(0.02)), ..law }));
    }
}
