//! Recorded arrivals on a device with a service law: Lindley's recursion.
//!
//! | law | recursion |
//! | --- | --- |
//! | one server, the same with any queue | [`Lindley`] |
//! | one server, depends on the queue | the recursion in the order of a run, each service time times the ratio of the means of the law with the number that waits now and with the number that waited in the run |
//! | several servers | each request takes the server that is free first [Kiefer & Wolfowitz 1955] |
//!
//! The service time of each request comes with it, from a run of the device over the same requests: one at a time, or with
//! the queue of the device if that changes the service times
//! ([`services_in_queue`](crate::services_in_queue)).
//!
//! # References
//! - [Kiefer & Wolfowitz 1955] J. Kiefer, J. Wolfowitz, *On the theory of queues with many servers*, Transactions of the
//!   American Mathematical Society 78(1), 1955.

use seeklab_core::{Instant, Request};
use seeklab_devices::service_law::ServiceLaw;

use crate::error::{EstimateError, check_positive};
use crate::method::{Estimate, Method};
use crate::moments::ServiceMoments;
use crate::quantiles::{SHARES, by_operation, quantiles_s};
use crate::queueing::{Lindley, ServedArrival, Steady, allen_cunneen, mg1};
use crate::recorded_service::{Order, RecordedService};

/// Arrivals of a trace with the services of a run.
#[derive(Debug, Clone, Copy)]
pub struct RecordedLoad<'a> {
    /// Arrivals in order.
    pub arrivals: &'a [Instant],
    /// Services in order of completion, one of each request.
    pub services: &'a [RecordedService],
    /// Factor by which the rate is multiplied: interarrival times are divided by it.
    pub growth: f64,
}

/// Least number of recorded requests.
const REQUESTS_MIN: u64 = 8;

impl RecordedLoad<'_> {
    fn check(&self) -> Result<(), EstimateError> {
        assert_eq!(self.arrivals.len(), self.services.len(), "every request has a service time");
        check_positive("growth", self.growth)?;
        let requests = self.arrivals.len() as u64;
        if requests < REQUESTS_MIN {
            return Err(EstimateError::TooFewRequests { requests, needed: REQUESTS_MIN });
        }
        if self.span_s() <= 0.0 {
            return Err(EstimateError::WithoutTimes { requests });
        }
        Ok(())
    }

    /// Time from the first arrival to the last, in seconds.
    fn span_s(&self) -> f64 {
        let (first, last) = (self.arrivals[0], self.arrivals[self.arrivals.len() - 1]);
        last.saturating_since(first).as_s() / self.growth
    }

    /// Arrivals per second.
    pub fn arrivals_per_s(&self) -> f64 {
        (self.arrivals.len() - 1) as f64 / self.span_s()
    }

    /// Arrivals in seconds after the first.
    fn arrivals_s(&self) -> impl Iterator<Item = f64> {
        let (first, growth) = (self.arrivals[0], self.growth);
        self.arrivals.iter().map(move |arrival| arrival.saturating_since(first).as_s() / growth)
    }

    /// Requests in order of arrival, of services in that order.
    fn requests(&self) -> impl Iterator<Item = ServedArrival> {
        let of = |(arrival_s, service): (f64, &RecordedService)| ServedArrival {
            arrival_s,
            service_s: service.service_s,
        };
        self.arrivals_s().zip(self.services).map(of)
    }

    /// Mean and variance of the service times of the run.
    pub fn service(&self) -> ServiceMoments {
        ServiceMoments::of(self.services.iter().map(|service| service.service_s))
    }

    /// Squared variation of the interarrival times.
    pub fn arrival_variation(&self) -> f64 {
        let times = self.arrivals.windows(2).map(|pair| pair[1].saturating_since(pair[0]).as_s());
        ServiceMoments::of(times).squared_variation()
    }
}

/// Response times of recorded arrivals by the recursion, in seconds and order of arrival.
///
/// # Errors
/// Too few requests, or requests that all arrive at once.
pub fn recorded_responses_s(load: RecordedLoad, law: &ServiceLaw) -> Result<Vec<f64>, EstimateError> {
    load.check()?;
    Ok(served(load, law).responses_s)
}

/// Result of a recursion.
struct Served {
    /// Response times in order of arrival, in seconds.
    responses_s: Vec<f64>,
    /// Service times at this rate.
    service: ServiceMoments,
}

/// Returns true if the services of a run over recorded arrivals have to be those with the queue of the device.
pub fn depends_on_queue(law: &ServiceLaw) -> bool {
    law.servers <= 1.0 && law.points.len() > 1
}

fn served(load: RecordedLoad, law: &ServiceLaw) -> Served {
    if depends_on_queue(law) {
        return reordered(load, law);
    }
    let responses_s = if law.servers > 1.0 {
        several_servers(load.requests(), law.servers.round().max(1.0) as usize)
    } else {
        let mut queue = Lindley::new();
        load.requests().map(|request| queue.push(request)).collect()
    };
    Served { responses_s, service: load.service() }
}

/// One server that reorders its queue and whose service times depend on it.
fn reordered(load: RecordedLoad, law: &ServiceLaw) -> Served {
    let arrivals_s: Vec<f64> = load.arrivals_s().collect();
    let means_s = means_by_waiting_s(law);
    let longest = means_s.len() - 1;
    let mut responses_s = vec![0.0; arrivals_s.len()];
    let mut order = Order::new(load.services);
    let (mut free_s, mut arrived) = (f64::NEG_INFINITY, 0);
    let services_s: Vec<f64> = (0..arrivals_s.len())
        .map(|served| {
            let is_idle = arrivals_s[served] >= free_s;
            let start_s = free_s.max(arrivals_s[served]);
            while arrivals_s.get(arrived).is_some_and(|arrival_s| *arrival_s <= start_s) {
                arrived += 1;
            }
            let waiting = if is_idle { 0 } else { (arrived - served).min(longest) };
            let service = order.next(arrived);
            let of_run = means_s[(service.waiting as usize).min(longest)];
            let ratio = if of_run > 0.0 { means_s[waiting] / of_run } else { 1.0 };
            let service_s = service.service_s * ratio;
            free_s = start_s + service_s;
            let request = service.request as usize;
            responses_s[request] = free_s - arrivals_s[request];
            service_s
        })
        .collect();
    Served { responses_s, service: ServiceMoments::of(services_s) }
}

/// Mean service times of a law by the number waiting when a request is chosen, itself included, in seconds; with 0, the
/// request finds the device idle.
fn means_by_waiting_s(law: &ServiceLaw) -> Vec<f64> {
    // A closed run chooses among one less than it keeps outstanding.
    (0..=law.constant_from()).map(|waiting| law.mean_s(f64::from(waiting + 1))).collect()
}

/// Several servers: each request takes the one that is free first.
fn several_servers(requests: impl Iterator<Item = ServedArrival>, servers: usize) -> Vec<f64> {
    // Times at which servers are free, the earliest last.
    let mut free = vec![f64::NEG_INFINITY; servers];
    let respond = |request: ServedArrival| {
        let start_s = free.pop().expect("there is a server").max(request.arrival_s);
        let end_s = start_s + request.service_s;
        let place = free.partition_point(|other| *other > end_s);
        free.insert(place, end_s);
        end_s - request.arrival_s
    };
    requests.map(respond).collect()
}

/// Estimate of recorded arrivals by the recursion. `requests` are those of the load, in order of arrival.
///
/// # Errors
/// Too few requests, or requests that all arrive at once.
pub fn recorded(
    load: RecordedLoad,
    requests: &[Request],
    law: &ServiceLaw,
) -> Result<Estimate, EstimateError> {
    load.check()?;
    assert_eq!(load.arrivals.len(), requests.len(), "every request has an arrival");
    let Served { mut responses_s, service } = served(load, law);
    let count = responses_s.len() as f64;
    let response_mean_s = responses_s.iter().sum::<f64>() / count;
    let arrivals_per_s = load.arrivals_per_s();
    let (reads, writes) =
        by_operation(requests.iter().map(|request| request.op).zip(responses_s.iter().copied()));
    let method = if depends_on_queue(law) { Method::LindleyReordered } else { Method::Lindley };
    // Services of the run may have idle times between them, in which a buffer empties.
    let saturation_per_s = law.saturation_per_s();
    let steady = Steady {
        throughput_per_s: arrivals_per_s,
        utilisation: (arrivals_per_s * service.mean_s / law.servers).min(1.0),
        queue_time_mean_s: (response_mean_s - service.mean_s).max(0.0),
        response_mean_s,
        outstanding_mean: arrivals_per_s * response_mean_s,
    };
    Ok(Estimate {
        quantiles_s: Some(quantiles_s(&mut responses_s, SHARES)),
        reads,
        writes,
        saturation_per_s: saturation_per_s.is_finite().then_some(saturation_per_s),
        ..Estimate::of_means(method, service, steady)
    })
}

/// Estimates that a trace's rate and moments alone give: M/G/1 and Allen-Cunneen, for comparison.
///
/// # Errors
/// Too few requests, requests that all arrive at once, or a rate that exceeds that of the device.
pub fn recorded_moments(load: RecordedLoad) -> Result<[Estimate; 2], EstimateError> {
    load.check()?;
    let (arrivals_per_s, service) = (load.arrivals_per_s(), load.service());
    let of = |method, steady| Estimate {
        saturation_per_s: Some(1.0 / service.mean_s),
        ..Estimate::of_means(method, service, steady)
    };
    Ok([
        of(Method::Mg1, mg1(arrivals_per_s, service)?),
        of(Method::AllenCunneen, allen_cunneen(arrivals_per_s, load.arrival_variation(), service, 1)?),
    ])
}

#[cfg(test)]
mod tests {
    use seeklab_core::Operation;
    use seeklab_devices::service_law::{LawOrigin, LawPoint, ServiceTimes};

    use super::*;

    fn law(points: &[(u32, f64)]) -> ServiceLaw {
        let point = |(outstanding, time_s): &(u32, f64)| LawPoint {
            outstanding: *outstanding,
            service: ServiceTimes::constant(*time_s),
            response: None,
        };
        ServiceLaw {
            points: points.iter().map(point).collect(),
            ..ServiceLaw::of_server(LawOrigin::Sampled, ServiceTimes::constant(1.0))
        }
    }

    /// Services in order of arrival, each of a request that finds the device idle.
    fn of(times_s: &[f64]) -> Vec<RecordedService> {
        let service = |(request, service_s): (usize, &f64)| RecordedService {
            request: request as u32,
            waiting: 0,
            service_s: *service_s,
        };
        times_s.iter().enumerate().map(service).collect()
    }

    fn arrivals(times_s: &[u64]) -> Vec<Instant> {
        times_s.iter().map(|time| Instant::from_ns(time * 1_000_000_000)).collect()
    }

    fn reads(count: usize) -> Vec<Request> {
        (0..count as u64).map(|id| Request::new(id, Operation::Read, 0, 1)).collect()
    }

    #[test]
    fn recursion_is_that_of_a_hand_computed_queue() {
        let arrivals = arrivals(&[5, 5, 5, 6, 20, 21, 40, 50]);
        let services = [2.0, 2.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0];
        let load = RecordedLoad { arrivals: &arrivals, services: &of(&services), growth: 1.0 };
        let responses = recorded_responses_s(load, &law(&[(1, 1.0)])).unwrap();
        assert_eq!(responses, [2.0, 4.0, 5.0, 5.0, 3.0, 3.0, 1.0, 1.0]);
        // Twice the rate halves the interarrival times.
        let responses =
            recorded_responses_s(RecordedLoad { growth: 2.0, ..load }, &law(&[(1, 1.0)])).unwrap();
        assert_eq!(responses, [2.0, 4.0, 5.0, 5.5, 3.0, 3.5, 1.0, 1.0]);
        let estimate = recorded(load, &reads(load.arrivals.len()), &law(&[(1, 1.0)])).unwrap();
        assert_eq!(estimate.steady.response_mean_s, 3.0);
    }

    #[test]
    fn queue_shortens_the_services_of_a_dependent_law() {
        let arrivals = arrivals(&[0, 0, 0, 10, 20, 30, 40, 50]);
        let load = RecordedLoad { arrivals: &arrivals, services: &of(&[2.0; 8]), growth: 1.0 };
        // Alone 2 s, chosen among two 1 s, from a queue of one 1.5 s.
        let law = law(&[(1, 2.0), (2, 1.5), (3, 1.0)]);
        let responses = recorded_responses_s(load, &law).unwrap();
        assert_eq!(responses[..4], [2.0, 3.0, 4.5, 2.0]);
        let estimate = recorded(load, &reads(load.arrivals.len()), &law).unwrap();
        assert_eq!(estimate.method, Method::LindleyReordered);
        assert_eq!(estimate.saturation_per_s, Some(1.0));
        // Of 8 service times, 6 are 2 s, one 1 s, one 1.5 s.
        assert_eq!(estimate.service.mean_s, 14.5 / 8.0);
    }

    #[test]
    fn order_of_the_run_gives_its_response_times() {
        let arrivals = arrivals(&[0, 0, 0, 0, 30, 60, 90, 120]);
        // In the run, the last of the burst was served before the others that waited.
        let mut services = of(&[2.0, 1.0, 1.5, 2.0, 2.0, 2.0, 2.0, 2.0]);
        for (place, (request, waiting)) in [(0, 0), (3, 3), (1, 2), (2, 1)].into_iter().enumerate() {
            services[place] = RecordedService { request, waiting, ..services[place] };
        }
        let law = law(&[(1, 2.0), (2, 2.0), (3, 1.5), (4, 1.0)]);
        let load = RecordedLoad { arrivals: &arrivals, services: &services, growth: 1.0 };
        let responses = recorded_responses_s(load, &law).unwrap();
        assert_eq!(responses, [2.0, 4.5, 6.5, 3.0, 2.0, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn several_servers_serve_together() {
        let arrivals = arrivals(&[0, 0, 0, 10, 20, 30, 40, 50]);
        let load = RecordedLoad { arrivals: &arrivals, services: &of(&[2.0; 8]), growth: 1.0 };
        let two = ServiceLaw { servers: 2.0, ..law(&[(1, 2.0)]) };
        assert_eq!(recorded_responses_s(load, &two).unwrap()[..4], [2.0, 2.0, 4.0, 2.0]);
    }

    #[test]
    fn poisson_methods_know_nothing_of_bursts() {
        let burst: Vec<u64> = (0..20).flat_map(|i| [i * 100; 8]).collect();
        let arrivals = arrivals(&burst);
        let load = RecordedLoad { arrivals: &arrivals, services: &of(&[1.0; 160]), growth: 1.0 };
        let [poisson, two_moments] = recorded_moments(load).unwrap();
        let recursion = recorded(load, &reads(load.arrivals.len()), &law(&[(1, 1.0)])).unwrap();
        assert_eq!(recursion.steady.response_mean_s, 4.5);
        assert!(poisson.steady.response_mean_s < 1.1 && two_moments.steady.response_mean_s < 2.0);
    }

    #[test]
    fn traces_without_times_are_refused() {
        let arrivals = arrivals(&[3; 10]);
        let load = RecordedLoad { arrivals: &arrivals, services: &of(&[1.0; 10]), growth: 1.0 };
        assert_eq!(
            recorded(load, &reads(load.arrivals.len()), &law(&[(1, 1.0)])).unwrap_err(),
            EstimateError::WithoutTimes { requests: 10 }
        );
        let few = RecordedLoad { arrivals: &arrivals[..3], services: &load.services[..3], ..load };
        assert_eq!(
            recorded(few, &reads(few.arrivals.len()), &law(&[(1, 1.0)])).unwrap_err(),
            EstimateError::TooFewRequests { requests: 3, needed: 8 }
        );
    }
}
