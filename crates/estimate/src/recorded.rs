//! Recorded arrivals on a device with a service law: Lindley's recursion.
//!
//! | law | recursion |
//! | --- | --- |
//! | one server, the same with any queue | [`Lindley`] |
//! | one server, depends on the queue | the positioning part of each service time times its [ratio](PositioningRatios); without such parts, each service time times the ratio of the means of the law |
//! | several servers | each request takes the server that is free first [Kiefer & Wolfowitz 1955] |
//!
//! The service time of each request comes with it: those of the run that sampled it one at a time keep what its
//! address, its length and the request before did to it.
//!
//! # References
//! - [Kiefer & Wolfowitz 1955] J. Kiefer, J. Wolfowitz, *On the theory of queues with many servers*, Transactions of the
//!   American Mathematical Society 78(1), 1955.

use seeklab_core::Instant;
use seeklab_devices::service_law::ServiceLaw;

use crate::error::{EstimateError, check_positive};
use crate::method::{Estimate, Method, SHARES};
use crate::moments::ServiceMoments;
use crate::positioning::{PositioningRatios, RecordedService};
use crate::queueing::{Lindley, ServedArrival, Steady, allen_cunneen, mg1};

/// Arrivals of a trace with the service time of each request alone.
#[derive(Debug, Clone, Copy)]
pub struct RecordedLoad<'a> {
    /// Arrivals in order.
    pub arrivals: &'a [Instant],
    /// Service time of each request.
    pub services: &'a [RecordedService],
    /// Effect of a queue on positioning times; empty if the device has none.
    pub ratios: &'a PositioningRatios,
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

    fn requests(&self) -> impl Iterator<Item = ServedArrival> {
        let (first, growth) = (self.arrivals[0], self.growth);
        self.arrivals.iter().zip(self.services).map(move |(arrival, service)| ServedArrival {
            arrival_s: arrival.saturating_since(first).as_s() / growth,
            service_s: service.service_s,
        })
    }

    /// Mean and variance of the service times.
    pub fn service(&self) -> ServiceMoments {
        let count = self.services.len() as f64;
        let mean_s = self.services.iter().map(|service| service.service_s).sum::<f64>() / count;
        let squares = self.services.iter().map(|service| (service.service_s - mean_s).powi(2));
        let variance_s2 = squares.sum::<f64>() / count;
        ServiceMoments { mean_s, variance_s2 }
    }

    /// Squared variation of the interarrival times.
    pub fn arrival_variation(&self) -> f64 {
        let times = self.arrivals.windows(2).map(|pair| pair[1].saturating_since(pair[0]).as_s());
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        for time in times {
            sum += time;
            squares += time * time;
            count += 1.0;
        }
        let mean = sum / count;
        (squares / count - mean * mean).max(0.0) / (mean * mean)
    }
}

/// Response times of recorded arrivals by the recursion, in seconds and order of arrival.
///
/// # Errors
/// Too few requests, or requests that all arrive at once.
pub fn recorded_responses_s(load: RecordedLoad, law: &ServiceLaw) -> Result<Vec<f64>, EstimateError> {
    load.check()?;
    let requests = load.requests();
    if law.servers > 1.0 {
        return Ok(several_servers(requests, law.servers.round().max(1.0) as usize));
    }
    if law.points.len() == 1 {
        let mut queue = Lindley::new();
        return Ok(requests.map(|request| queue.push(request)).collect());
    }
    Ok(queue_dependent(&requests.collect::<Vec<_>>(), load, law))
}

/// One server whose service times shrink or grow with its queue.
fn queue_dependent(requests: &[ServedArrival], load: RecordedLoad, law: &ServiceLaw) -> Vec<f64> {
    let longest = law.constant_from() as usize;
    let alone_s = law.mean_s(1.0);
    // Of a request chosen among n; a closed run chooses among one less than it keeps outstanding.
    let is_whole = load.ratios.is_empty();
    let ratio =
        |n: usize| if is_whole { law.mean_s(n as f64 + 1.0) / alone_s } else { load.ratios.at(n as f64) };
    let ratios: Vec<f64> = (0..=longest).map(ratio).collect();
    let (mut free_s, mut arrived) = (f64::NEG_INFINITY, 0);
    let respond = |(index, request): (usize, &ServedArrival)| {
        let start_s = request.arrival_s.max(free_s);
        while requests.get(arrived).is_some_and(|other| other.arrival_s <= start_s) {
            arrived += 1;
        }
        let outstanding = (arrived - index).min(longest);
        let ratio = if request.arrival_s >= free_s { 1.0 } else { ratios[outstanding] };
        let positioning_s = load.services[index].positioning_s.min(request.service_s);
        let shortened_s = if is_whole { request.service_s } else { positioning_s };
        free_s = start_s + request.service_s + shortened_s * (ratio - 1.0);
        free_s - request.arrival_s
    };
    requests.iter().enumerate().map(respond).collect()
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

/// Estimate of recorded arrivals by the recursion.
///
/// # Errors
/// Too few requests, or requests that all arrive at once.
pub fn recorded(load: RecordedLoad, law: &ServiceLaw) -> Result<Estimate, EstimateError> {
    let mut responses_s = recorded_responses_s(load, law)?;
    let count = responses_s.len() as f64;
    let response_mean_s = responses_s.iter().sum::<f64>() / count;
    let service = load.service();
    let arrivals_per_s = load.arrivals_per_s();
    responses_s.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| responses_s[((share * count) as usize).min(responses_s.len() - 1)];
    let fastest_s = if load.ratios.is_empty() || law.points.len() == 1 {
        let ratios = law.points.iter().map(|point| point.service.mean_s() / law.mean_s(1.0));
        service.mean_s * ratios.fold(1.0, f64::min)
    } else {
        let positioning_s = load.services.iter().map(|service| service.positioning_s).sum::<f64>() / count;
        service.mean_s + positioning_s * (load.ratios.at(f64::INFINITY) - 1.0)
    };
    let saturation_per_s = 1.0 / fastest_s;
    let method =
        if law.points.len() > 1 && law.servers <= 1.0 { Method::LindleyReordered } else { Method::Lindley };
    let steady = Steady {
        throughput_per_s: arrivals_per_s,
        utilisation: (arrivals_per_s * service.mean_s / law.servers).min(1.0),
        queue_time_mean_s: (response_mean_s - service.mean_s).max(0.0),
        response_mean_s,
        outstanding_mean: arrivals_per_s * response_mean_s,
    };
    Ok(Estimate {
        quantiles_s: Some(SHARES.map(quantile)),
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

    /// Services without positioning times.
    fn of(times_s: &[f64]) -> Vec<RecordedService> {
        times_s.iter().map(|time| RecordedService { service_s: *time, positioning_s: 0.0 }).collect()
    }

    const NO_RATIOS: PositioningRatios = PositioningRatios::none();

    fn arrivals(times_s: &[u64]) -> Vec<Instant> {
        times_s.iter().map(|time| Instant::from_ns(time * 1_000_000_000)).collect()
    }

    #[test]
    fn recursion_is_that_of_a_hand_computed_queue() {
        let arrivals = arrivals(&[5, 5, 5, 6, 20, 21, 40, 50]);
        let services = [2.0, 2.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0];
        let load =
            RecordedLoad { arrivals: &arrivals, services: &of(&services), ratios: &NO_RATIOS, growth: 1.0 };
        let responses = recorded_responses_s(load, &law(&[(1, 1.0)])).unwrap();
        assert_eq!(responses, [2.0, 4.0, 5.0, 5.0, 3.0, 3.0, 1.0, 1.0]);
        // Twice the rate halves the interarrival times.
        let responses =
            recorded_responses_s(RecordedLoad { growth: 2.0, ..load }, &law(&[(1, 1.0)])).unwrap();
        assert_eq!(responses, [2.0, 4.0, 5.0, 5.5, 3.0, 3.5, 1.0, 1.0]);
        let estimate = recorded(load, &law(&[(1, 1.0)])).unwrap();
        assert_eq!(estimate.steady.response_mean_s, 3.0);
    }

    #[test]
    fn queue_shortens_the_services_of_a_dependent_law() {
        let arrivals = arrivals(&[0, 0, 0, 10, 20, 30, 40, 50]);
        let services = [2.0; 8];
        let load =
            RecordedLoad { arrivals: &arrivals, services: &of(&services), ratios: &NO_RATIOS, growth: 1.0 };
        // Alone 2 s, chosen among two 1 s, from a queue of one 1.5 s.
        let law = law(&[(1, 2.0), (2, 1.5), (3, 1.0)]);
        let responses = recorded_responses_s(load, &law).unwrap();
        assert_eq!(responses[..4], [2.0, 3.0, 4.5, 2.0]);
        // Of each 2 s, half is positioning, of which a choice among two leaves a half.
        let half: Vec<RecordedService> =
            services.iter().map(|time| RecordedService { service_s: *time, positioning_s: 1.0 }).collect();
        let ratios = PositioningRatios::of(vec![(1.0, 1.0), (2.0, 0.5)]);
        let load = RecordedLoad { services: &half, ratios: &ratios, ..load };
        assert_eq!(recorded_responses_s(load, &law).unwrap()[..4], [2.0, 3.5, 5.5, 2.0]);
        let estimate = recorded(load, &law).unwrap();
        assert_eq!(estimate.method, Method::LindleyReordered);
        let saturation = estimate.saturation_per_s.unwrap();
        assert!((saturation - 1.0 / 1.5).abs() < 1e-12, "{saturation}");
    }

    #[test]
    fn several_servers_serve_together() {
        let arrivals = arrivals(&[0, 0, 0, 10, 20, 30, 40, 50]);
        let load =
            RecordedLoad { arrivals: &arrivals, services: &of(&[2.0; 8]), ratios: &NO_RATIOS, growth: 1.0 };
        let two = ServiceLaw { servers: 2.0, ..law(&[(1, 2.0)]) };
        assert_eq!(recorded_responses_s(load, &two).unwrap()[..4], [2.0, 2.0, 4.0, 2.0]);
    }

    #[test]
    fn poisson_methods_know_nothing_of_bursts() {
        let burst: Vec<u64> = (0..20).flat_map(|i| [i * 100; 8]).collect();
        let arrivals = arrivals(&burst);
        let load =
            RecordedLoad { arrivals: &arrivals, services: &of(&[1.0; 160]), ratios: &NO_RATIOS, growth: 1.0 };
        let [poisson, two_moments] = recorded_moments(load).unwrap();
        let recursion = recorded(load, &law(&[(1, 1.0)])).unwrap();
        assert_eq!(recursion.steady.response_mean_s, 4.5);
        assert!(poisson.steady.response_mean_s < 1.1 && two_moments.steady.response_mean_s < 2.0);
    }

    #[test]
    fn traces_without_times_are_refused() {
        let arrivals = arrivals(&[3; 10]);
        let load =
            RecordedLoad { arrivals: &arrivals, services: &of(&[1.0; 10]), ratios: &NO_RATIOS, growth: 1.0 };
        assert_eq!(
            recorded(load, &law(&[(1, 1.0)])).unwrap_err(),
            EstimateError::WithoutTimes { requests: 10 }
        );
        let few = RecordedLoad { arrivals: &arrivals[..3], services: &load.services[..3], ..load };
        assert_eq!(
            recorded(few, &law(&[(1, 1.0)])).unwrap_err(),
            EstimateError::TooFewRequests { requests: 3, needed: 8 }
        );
    }
}
