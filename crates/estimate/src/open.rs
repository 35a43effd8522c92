//! Open load with Poisson arrivals on a device with a service law.
//!
//! | law | method |
//! | --- | --- |
//! | the same with any queue, one server in order | M/G/1, with the whole distribution |
//! | depends on the queue, one server | the chain embedded at departures |
//! | several servers | birth and death with the rates of the law |
//! | reads, and writes that a buffer takes | the recursion with a write buffer |
//! | limits that hold requests, before one server in order | the recursion with token buckets |
//!
//! The chain gives the number that an arrival finds. In order of arrival, the response times are those of M/G/1 with the
//! service times of a queue; in another order, those of a request that is followed through the chain. Both are scaled to
//! the mean that Little's law gives. Of several servers, the distribution is a mixture of the response times that closed
//! runs with that number had.

use std::sync::Arc;

use seeklab_devices::service_law::{BufferedWrites, RateLimit, ServiceLaw, ServiceTimes, WriteBuffer};

use crate::error::EstimateError;
use crate::method::{Estimate, Method};
use crate::moments::ServiceMoments;
use crate::quantiles::{Quantiles, SHARES};
use crate::queueing::{
    DepartureChain, Held, QueueDependentService, Steady, Unlimited, buffered_saturation_per_s,
    buffered_writes, departure_chain, drawn_held, limited_queue, mg1_response_times,
    reordered_response_times,
};

/// States of birth and death at most.
const STATES_MAX: usize = 1 << 16;

/// Probability that stays beyond the last state.
const TAIL: f64 = 1e-9;

/// Bisections of a quantile.
const BISECTIONS: u32 = 40;

/// Response time of a mixture that bisection begins with, in means.
const MEANS_MAX: f64 = 1_000.0;

/// Estimate of Poisson arrivals.
///
/// # Errors
/// No arrivals, or arrivals that exceed the sustained rate of the device.
pub fn open_poisson(arrivals_per_s: f64, law: &ServiceLaw) -> Result<Estimate, EstimateError> {
    let saturation_per_s = law.saturation_per_s();
    if arrivals_per_s >= saturation_per_s {
        return Err(EstimateError::Overload { arrivals_per_s, saturation_per_s });
    }
    let mut estimate = served(arrivals_per_s, law)?;
    estimate.saturation_per_s = saturation_per_s.is_finite().then_some(saturation_per_s);
    let Held { mean_s: held_s, share } = held(arrivals_per_s, law);
    if share > HELD_SHARE_MAX
        && let Some(limited) = limited(arrivals_per_s, law, &estimate)?
    {
        return Ok(Estimate { saturation_per_s: estimate.saturation_per_s, ..limited });
    }
    if held_s > 0.0 {
        let Steady { queue_time_mean_s, response_mean_s, .. } = estimate.steady;
        // Requests that a limit holds reach the device less bunched than they arrived, so the sum is an upper bound.
        estimate.steady.queue_time_mean_s = queue_time_mean_s + held_s;
        estimate.steady.response_mean_s = response_mean_s + held_s;
        estimate.steady.outstanding_mean = arrivals_per_s * (response_mean_s + held_s);
        if share > HELD_SHARE_MAX {
            estimate.quantiles_s = None;
        }
    }
    Ok(estimate)
}

/// Share of the requests that limits hold, up to which the percentiles are those of the device: a hundredth of the requests that
/// exceed the highest percentile. The mean says too little: a burst that is seldom used up holds few requests, and these for long.
pub const HELD_SHARE_MAX: f64 = 0.01 * (1.0 - SHARES[SHARES.len() - 1]);

/// Requests of Poisson arrivals that the limits of a law hold, as if each limit were alone.
pub fn held(arrivals_per_s: f64, law: &ServiceLaw) -> Held {
    let of = law.limits.iter().map(|limit| held_by(arrivals_per_s, limit));
    of.fold(Held { mean_s: 0.0, share: 0.0 }, |sum, one| Held {
        mean_s: sum.mean_s + one.mean_s,
        share: (sum.share + one.share).min(1.0),
    })
}

/// The estimate of one server in order of arrival behind limits that count the same requests; `None` of other laws.
fn limited(
    arrivals_per_s: f64,
    law: &ServiceLaw,
    served: &Estimate,
) -> Result<Option<Estimate>, EstimateError> {
    let first = &law.points[0].service;
    let is_in_order = law.servers <= 1.0 && law.in_order && law.points.len() == 1;
    let count_the_same = law.limits.windows(2).all(|pair| pair[0].share == pair[1].share);
    if !is_in_order || !count_the_same || law.buffered_writes.is_some() {
        return Ok(None);
    }
    let Some(quantiles_s) = served.quantiles_s else { return Ok(None) };
    let unlimited = Unlimited { mean_s: served.steady.response_mean_s, quantiles_s };
    let after_idle = law.after_idle.as_ref().unwrap_or(first);
    let found = limited_queue(arrivals_per_s, &law.limits, first, after_idle, &unlimited)?;
    Ok(Some(Estimate {
        quantiles_s: Some(found.quantiles_s),
        ..Estimate::of_means(Method::LimitedQueue, found.service, found.steady)
    }))
}

/// The estimate without limits.
fn served(arrivals_per_s: f64, law: &ServiceLaw) -> Result<Estimate, EstimateError> {
    if let Some(writes) = &law.buffered_writes {
        return buffered(arrivals_per_s, writes);
    }
    let first = &law.points[0];
    if law.points.iter().all(|point| point.service.mean_s() <= 0.0) {
        return Ok(without_service(arrivals_per_s));
    }
    if law.servers > 1.0 {
        return birth_death(arrivals_per_s, law);
    }
    if law.points.len() == 1 && law.after_idle.is_none() && law.in_order {
        let (steady, times) = mg1_response_times(arrivals_per_s, &first.service)?;
        return Ok(Estimate {
            quantiles_s: Some(SHARES.map(|share| times.quantile_s(share))),
            ..Estimate::of_means(Method::Mg1, moments(&first.service), steady)
        });
    }
    let chain = departure_chain(arrivals_per_s, &LawService(law))?;
    let quantiles_s = if law.in_order {
        in_order_quantiles(law, &chain.steady)
    } else {
        let idle = law.after_idle.as_ref().unwrap_or(&first.service);
        let times = reordered_response_times(arrivals_per_s, &LawService(law), &chain, &law.order, idle);
        let times = times.with_mean(chain.steady.response_mean_s);
        (!law.order.is_empty()).then(|| SHARES.map(|share| times.quantile_s(share)))
    };
    let DepartureChain { steady, shares } = chain;
    let service = mixed_service(law, &shares);
    Ok(Estimate { quantiles_s, ..Estimate::of_means(Method::DepartureChain, service, steady) })
}

/// Estimate of a mix of reads and writes at a device with a write buffer.
fn buffered(arrivals_per_s: f64, writes: &BufferedWrites) -> Result<Estimate, EstimateError> {
    let found = buffered_writes(arrivals_per_s, writes)?;
    Ok(Estimate {
        quantiles_s: Some(found.quantiles_s),
        reads: found.reads,
        writes: found.writes,
        ..Estimate::of_means(Method::BufferedWrites, found.service, found.steady)
    })
}

/// A law of the reads of a demand joined with the buffer that takes its writes. Commands are served in order of arrival.
pub fn with_write_buffer(read_law: ServiceLaw, buffer: WriteBuffer, reads: f64) -> ServiceLaw {
    let (limits, origin) = (read_law.limits.clone(), read_law.origin);
    let writes = BufferedWrites { buffer, reads, read_law: Arc::new(read_law) };
    let full = ServiceTimes::constant(1.0 / buffered_saturation_per_s(&writes));
    ServiceLaw { limits, buffered_writes: Some(Box::new(writes)), ..ServiceLaw::of_server(origin, full) }
}

/// A device that answers at once.
fn without_service(arrivals_per_s: f64) -> Estimate {
    let steady = Steady::of_queue_time(arrivals_per_s, 0.0, 0.0, 0.0);
    Estimate {
        quantiles_s: Some([0.0; SHARES.len()]),
        ..Estimate::of_means(Method::Mg1, ServiceMoments::constant(0.0), steady)
    }
}

/// Mean and variance of a time.
pub(crate) fn moments(times: &ServiceTimes) -> ServiceMoments {
    ServiceMoments { mean_s: times.mean_s(), variance_s2: times.variance_s2() }
}

/// Mean and variance of the service time with a number outstanding.
fn at(law: &ServiceLaw, outstanding: f64) -> ServiceMoments {
    ServiceMoments { mean_s: law.mean_s(outstanding), variance_s2: law.variance_s2(outstanding) }
}

/// A law as the service of a chain.
struct LawService<'a>(&'a ServiceLaw);

impl QueueDependentService for LawService<'_> {
    fn after_idle(&self) -> ServiceMoments {
        match &self.0.after_idle {
            Some(times) => moments(times),
            None => at(self.0, 1.0),
        }
    }

    /// A closed run chooses among one less than it keeps outstanding.
    fn with_outstanding(&self, outstanding: usize) -> ServiceMoments {
        at(self.0, outstanding as f64 + 1.0)
    }

    fn constant_from(&self) -> usize {
        self.0.constant_from() as usize
    }
}

/// Birth and death: arrivals at one rate, completions at the rate of the law with that number outstanding.
fn birth_death(arrivals_per_s: f64, law: &ServiceLaw) -> Result<Estimate, EstimateError> {
    let ratio = arrivals_per_s * law.mean_s(f64::from(law.constant_from()));
    if ratio >= 1.0 {
        return Err(EstimateError::Overload { arrivals_per_s, saturation_per_s: arrivals_per_s / ratio });
    }
    let mut shares = vec![1.0];
    let mut sum = 1.0;
    while shares.len() < STATES_MAX {
        let n = shares.len();
        let share = shares[n - 1] * arrivals_per_s * law.mean_s(n as f64);
        shares.push(share);
        sum += share;
        if n > law.constant_from() as usize && share / sum < TAIL * (1.0 - ratio) {
            break;
        }
    }
    shares.iter_mut().for_each(|share| *share /= sum);
    let outstanding_mean: f64 = shares.iter().enumerate().map(|(n, share)| n as f64 * share).sum();
    let response_mean_s = outstanding_mean / arrivals_per_s;
    let alone_s = law.points[0].service.mean_s();
    let steady = Steady {
        throughput_per_s: arrivals_per_s,
        utilisation: 1.0 - shares[0],
        queue_time_mean_s: (response_mean_s - alone_s).max(0.0),
        response_mean_s,
        outstanding_mean,
    };
    // The time between completions of several servers is no service time.
    let service = moments(&law.points[0].service);
    let quantiles_s = mixture_quantiles(law, &shares, response_mean_s);
    Ok(Estimate { quantiles_s, ..Estimate::of_means(Method::BirthDeath, service, steady) })
}

/// Quantiles of M/G/1 with the service times of a queue, scaled to the mean of the chain.
fn in_order_quantiles(law: &ServiceLaw, steady: &Steady) -> Option<Quantiles> {
    let queued = &law.points[law.points.len() - 1].service;
    let (plain, times) = mg1_response_times(steady.throughput_per_s, queued).ok()?;
    let scale = steady.response_mean_s / plain.response_mean_s;
    Some(SHARES.map(|share| scale * times.quantile_s(share)))
}

/// Mean and variance of the service times over the numbers that departures leave behind.
fn mixed_service(law: &ServiceLaw, shares: &[f64]) -> ServiceMoments {
    let service = LawService(law);
    let (mut mean_s, mut square_s2) = (0.0, 0.0);
    for (n, share) in shares.iter().enumerate() {
        let of = if n == 0 { service.after_idle() } else { service.with_outstanding(n) };
        mean_s += share * of.mean_s;
        square_s2 += share * of.second_moment_s2();
    }
    ServiceMoments { mean_s, variance_s2: (square_s2 - mean_s * mean_s).max(0.0) }
}

/// Quantiles of the mixture of response times over the numbers that requests find, scaled to a mean. `None` of a law
/// without response times.
fn mixture_quantiles(law: &ServiceLaw, shares: &[f64], response_mean_s: f64) -> Option<Quantiles> {
    // Of requests that find n others: the response times of the nearest point, scaled to the mean of n + 1 outstanding.
    let mut parts: Vec<(f64, f64, &ServiceTimes)> = Vec::new();
    let least = 1e-7;
    for (n, share) in shares.iter().enumerate().filter(|(_, share)| **share > least) {
        let outstanding = n as f64 + 1.0;
        let times = match (&law.after_idle, n) {
            (Some(times), 0) => times,
            _ => nearest_response(law, outstanding)?,
        };
        let mean_s = match (&law.after_idle, n) {
            (Some(times), 0) => times.mean_s(),
            _ => outstanding * law.mean_s(outstanding),
        };
        parts.push((*share, mean_s / times.mean_s(), times));
    }
    let weight: f64 = parts.iter().map(|(share, ..)| share).sum();
    let mean_s: f64 = parts.iter().map(|(share, factor, times)| share * factor * times.mean_s()).sum();
    let scale = response_mean_s / (mean_s / weight);
    let share_up_to = |time_s: f64| {
        let of =
            parts.iter().map(|(share, factor, times)| share * times.share_up_to(time_s / (factor * scale)));
        of.sum::<f64>() / weight
    };
    Some(SHARES.map(|share| {
        let (mut low, mut high) = (0.0, response_mean_s * MEANS_MAX);
        for _ in 0..BISECTIONS {
            let middle = (low + high) / 2.0;
            if share_up_to(middle) < share { low = middle } else { high = middle }
        }
        high
    }))
}

/// Response times of the point nearest to a number outstanding on a logarithmic scale.
fn nearest_response(law: &ServiceLaw, outstanding: f64) -> Option<&ServiceTimes> {
    let distance = |point: u32| (f64::from(point).ln() - outstanding.ln()).abs();
    let nearest = law
        .points
        .iter()
        .min_by(|one, other| distance(one.outstanding).total_cmp(&distance(other.outstanding)))?;
    nearest.response.as_ref()
}

/// Requests of Poisson arrivals that a token bucket holds.
///
/// The tokens missing are the virtual queue time of M/G/1 with the time of a request's tokens as service. A request waits for
/// what exceeds the burst less its own tokens. The tail of that queue time is taken as exponential with Cramér's exponent, the
/// positive root of `λ (E e^{θ d} − 1) = θ` with the time d of the tokens of a request. Of a limit whose tokens return in
/// portions, both figures are those of drawn requests. They are over all requests, those that do not count included.
pub(crate) fn held_by(arrivals_per_s: f64, limit: &RateLimit) -> Held {
    let token_s = 1.0 / (limit.requests_per_s * limit.share);
    let held_per_s = arrivals_per_s * limit.share;
    let utilisation = held_per_s * token_s;
    if utilisation >= 1.0 {
        return Held { mean_s: f64::INFINITY, share: 1.0 };
    }
    if limit.interval_s > 0.0 {
        return drawn_held(arrivals_per_s, limit);
    }
    let over = |of: &dyn Fn(f64) -> f64| {
        limit.tokens.iter().map(|taken| taken.share * of(taken.tokens)).sum::<f64>()
    };
    let square = over(&|tokens| tokens * tokens);
    let mean_s = held_per_s * token_s * token_s * square / (2.0 * (1.0 - utilisation));
    let excess =
        |exponent: f64| held_per_s * over(&|tokens| (exponent * tokens * token_s).exp_m1()) - exponent;
    let (mut low, mut high) = (0.0, 1.0 / token_s);
    while excess(high) < 0.0 {
        high *= 2.0;
    }
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if excess(middle) < 0.0 { low = middle } else { high = middle }
    }
    let burst = limit.burst_requests * limit.share;
    let held_s = limit.share * mean_s * over(&|tokens| (-high * (burst - tokens).max(0.0) * token_s).exp());
    // Of an exponential tail, the time beyond the burst is 1/θ on average.
    Held { mean_s: held_s, share: (high * held_s).min(1.0) }
}

#[cfg(test)]
mod tests {
    use seeklab_devices::service_law::{LawOrigin, LawPoint};

    use super::*;
    use crate::queueing::{mg1, mmc};

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found} {expected}");
    }

    /// The law of `servers` exponential servers with a mean of 10 ms.
    fn servers(servers: u32) -> ServiceLaw {
        let point = |outstanding: u32| LawPoint {
            outstanding,
            service: ServiceTimes::Exponential { mean_s: 0.01 / f64::from(outstanding.min(servers)) },
            response: Some(ServiceTimes::Exponential {
                mean_s: 0.01 * f64::from(outstanding.max(servers)) / f64::from(servers),
            }),
        };
        ServiceLaw {
            points: (1..=servers).map(point).collect(),
            servers: f64::from(servers),
            ..ServiceLaw::of_server(LawOrigin::Sampled, ServiceTimes::constant(0.01))
        }
    }

    #[test]
    fn constant_law_is_mg1() {
        let law = ServiceLaw::of_server(LawOrigin::Exact, ServiceTimes::constant(0.01));
        let estimate = open_poisson(80.0, &law).unwrap();
        let exact = mg1(80.0, ServiceMoments::constant(0.01)).unwrap();
        assert_eq!((estimate.method, estimate.steady), (Method::Mg1, exact));
        assert!(estimate.quantiles_s.unwrap().is_sorted());
        assert_eq!(estimate.saturation_per_s, Some(100.0));
    }

    #[test]
    fn several_exponential_servers_are_mmc() {
        for utilisation in [0.2, 0.7, 0.95] {
            let arrivals_per_s = utilisation * 400.0;
            let estimate = open_poisson(arrivals_per_s, &servers(4)).unwrap();
            let exact = mmc(arrivals_per_s, 0.01, 4).unwrap();
            assert_eq!(estimate.method, Method::BirthDeath);
            close(estimate.steady.response_mean_s, exact.response_mean_s, 1e-5);
            // At least one of four servers is busy, as in a simulation.
            let terms = [1.0, 4.0, 8.0, 32.0 / 3.0].into_iter().zip(0..);
            let below: f64 = terms.map(|(factor, n)| factor * utilisation.powi(n)).sum();
            let idle = 1.0 / (below + 32.0 / 3.0 * utilisation.powi(4) / (1.0 - utilisation));
            close(estimate.steady.utilisation, 1.0 - idle, 1e-6);
        }
        // Hardly loaded, the response time is one service time: exponential.
        let quantiles = open_poisson(1.0, &servers(4)).unwrap().quantiles_s.unwrap();
        close(quantiles[3], 0.01 * 100.0_f64.ln(), 1e-3);
    }

    #[test]
    fn device_without_service_answers_at_once() {
        let law = ServiceLaw::of_server(LawOrigin::Exact, ServiceTimes::constant(0.0));
        let estimate = open_poisson(1e6, &law).unwrap();
        assert_eq!((estimate.steady.response_mean_s, estimate.saturation_per_s), (0.0, None));
    }

    #[test]
    fn idle_services_count_only_after_idle_times() {
        let law = ServiceLaw {
            after_idle: Some(ServiceTimes::constant(0.002)),
            ..ServiceLaw::of_server(LawOrigin::Sampled, ServiceTimes::constant(0.01))
        };
        let light = open_poisson(1.0, &law).unwrap();
        close(light.steady.response_mean_s, 0.002, 0.01);
        let heavy = open_poisson(95.0, &law).unwrap();
        let without = mg1(95.0, ServiceMoments::constant(0.01)).unwrap();
        assert!(heavy.steady.response_mean_s < without.response_mean_s);
        assert!(heavy.steady.response_mean_s > 0.8 * without.response_mean_s);
    }

    #[test]
    fn limit_of_some_requests_holds_those_alone() {
        // Half of 60 requests per second take one of 40 tokens, up to two at once: as 30 requests per second behind that limit.
        let of_half = RateLimit::of_requests(80.0, 4.0, 0.5);
        let of_all = RateLimit::of_requests(40.0, 2.0, 1.0);
        let (found, drawn) = (held_by(60.0, &of_half), drawn_held(60.0, &of_half));
        close(found.mean_s, 0.5 * held_by(30.0, &of_all).mean_s, 1e-9);
        close(found.mean_s, drawn.mean_s, 0.05);
        close(found.share, drawn.share, 0.3);
    }

    #[test]
    fn limits_bound_the_load_and_hold_requests_up() {
        let mut law = ServiceLaw::of_server(LawOrigin::Exact, ServiceTimes::constant(0.001));
        law.limits.push(RateLimit::of_requests(100.0, 1.0, 1.0));
        assert_eq!(
            open_poisson(100.0, &law).unwrap_err(),
            EstimateError::Overload { arrivals_per_s: 100.0, saturation_per_s: 100.0 }
        );
        let held = open_poisson(80.0, &law).unwrap();
        let queue = mg1(80.0, ServiceMoments::constant(0.01)).unwrap().queue_time_mean_s;
        let device = mg1(80.0, ServiceMoments::constant(0.001)).unwrap().response_mean_s;
        // Behind the limit a request never waits for another.
        close(held.steady.response_mean_s, queue + 0.001, 0.01);
        assert!(held.steady.response_mean_s < queue + device);
        assert_eq!(held.method, Method::LimitedQueue);
        assert!(held.quantiles_s.is_some_and(|quantiles_s| quantiles_s[3] > 0.08), "{held:?}");
        // A hundredth of a thousandth of the requests is held: the tail says so, the mean does not.
        law.limits[0].burst_requests = 20.0;
        let seldom = open_poisson(80.0, &law).unwrap();
        assert_eq!(seldom.method, Method::LimitedQueue);
        close(seldom.steady.response_mean_s, device, 0.01);
        // Of a law without a recursion, the percentiles are unknown then.
        let two = ServiceLaw { limits: law.limits.clone(), ..servers(2) };
        assert!(open_poisson(80.0, &two).unwrap().quantiles_s.is_none());
        law.limits[0].burst_requests = 10_000.0;
        assert_eq!(open_poisson(80.0, &law).unwrap().method, Method::Mg1);
        close(open_poisson(80.0, &law).unwrap().steady.response_mean_s, device, 1e-9);
    }
}
