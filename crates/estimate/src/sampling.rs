//! The sampled service law: short closed runs of the simulator.
//!
//! A closed run keeps a number of requests outstanding. A request that completes is replaced after the next has been
//! chosen, so the choice is among one less. The time between two completions is the time by which a request prolongs a
//! busy period, overlaps of several servers included. One more run thinks between requests, for those that arrive at an
//! idle device.
//!
//! # Scope and limits
//! A closed run never leaves the device idle. A device that works in idle times, such as one that destages a write
//! buffer, therefore has another law under open load; [`ServiceLaw::after_idle`] shows the difference.

use std::sync::Arc;

use seeklab_core::{
    Arrival, Completion, Device, Duration, Instant, Limits, Request, RequestId, Seed, Stream, Workload,
    simulate,
};
use seeklab_devices::service_law::{LawOrigin, LawPoint, OrderPoint, ServiceLaw, ServiceTimes};

use crate::error::EstimateError;
use crate::recorded_service::RecordedService;

/// Numbers outstanding at which laws are sampled.
pub const OUTSTANDING: [u32; 9] = [1, 2, 3, 4, 8, 16, 32, 64, 128];

/// Numbers outstanding up to which a law is sampled at most, if the rate grows with them.
const OUTSTANDING_MAX: u32 = 4_096;

/// Growth of the rate with twice as many outstanding from which on it counts as growing.
const GROWING: f64 = 1.8;

/// Part of a run that fills buffers and queues and is left out: a quarter.
const WARM_UP: usize = 4;

/// Difference of mean service times that counts as none: four standard errors of a run of 16 thousand requests whose
/// service times vary by a half.
const EQUAL: f64 = 0.016;

/// Share of the requests that may complete before an earlier one while the order counts as that of arrival.
const OVERTAKEN: f64 = 0.01;

/// Think time of the run that leaves the device idle, in mean service times.
const IDLE_SERVICES: f64 = 3.0;

/// Samples the service law of the devices that `build` makes, for these requests in their order, at the numbers
/// outstanding of [`OUTSTANDING`] and `also`, and at twice as many again while the rate grows with them.
///
/// # Errors
/// Fewer than 8 requests, or requests that the device refuses.
pub fn sample_law(
    build: &dyn Fn() -> Box<dyn Device>,
    requests: &Arc<[Request]>,
    also: Option<u32>,
) -> Result<ServiceLaw, EstimateError> {
    let mut levels: Vec<u32> = OUTSTANDING.into_iter().chain(also).collect();
    levels.sort_unstable();
    levels.dedup();
    let most = (requests.len() / 2).max(1) as u32;
    levels.retain(|level| *level <= most);
    if requests.len() < 8 {
        return Err(EstimateError::TooFewRequests { requests: requests.len() as u64, needed: 8 });
    }
    let mut runs = Vec::with_capacity(levels.len());
    for level in &levels {
        runs.push(Run::closed(build, requests, *level)?);
    }
    // A device that still takes more at a time, such as a delay, has no highest rate among these.
    while let (Some(deepest), [.., before, last]) = (levels.last().copied(), &runs[..])
        && levels[levels.len() - 2] * 2 == deepest
        && mean(&before.between_s) >= GROWING * mean(&last.between_s)
        && deepest * 2 <= most.min(OUTSTANDING_MAX)
    {
        runs.push(Run::closed(build, requests, deepest * 2)?);
        levels.push(deepest * 2);
    }
    let alone_s = mean(&runs[0].between_s);
    let idle = Run::thinking(build, requests, Duration::from_ms_f64(alone_s * 1e3 * IDLE_SERVICES))?;
    let deepest = &runs[runs.len() - 1];
    let servers = if deepest.concurrency > 1.5 { deepest.concurrency } else { 1.0 };
    let in_order = runs.iter().all(|run| run.overtaken <= OVERTAKEN);
    let idle_s = mean(&idle.response_s);
    let after_idle =
        ((idle_s - alone_s).abs() > EQUAL * alone_s).then(|| ServiceTimes::sample(idle.response_s));
    let pooled_s = runs.iter().map(|run| mean(&run.between_s)).sum::<f64>() / runs.len() as f64;
    let orders = levels.iter().zip(&runs).skip_while(|(level, _)| **level < 2);
    let order: Vec<OrderPoint> = if in_order {
        Vec::new()
    } else {
        orders
            .map(|(level, run)| OrderPoint { waiting: level - 1, passed_over: shares(&run.passed_over) })
            .collect()
    };
    let is_constant = runs.iter().all(|run| (mean(&run.between_s) - pooled_s).abs() <= EQUAL * pooled_s);
    let points = if is_constant && in_order && servers <= 1.0 {
        let all = runs.into_iter().flat_map(|run| run.between_s).collect();
        vec![LawPoint { outstanding: 1, service: ServiceTimes::sample(all), response: None }]
    } else {
        let points = levels.iter().zip(runs).map(|(outstanding, run)| LawPoint {
            outstanding: *outstanding,
            service: ServiceTimes::sample(run.between_s),
            response: Some(ServiceTimes::sample(run.response_s)),
        });
        points.collect()
    };
    let base = ServiceLaw::of_server(LawOrigin::Sampled, ServiceTimes::constant(0.0));
    Ok(ServiceLaw { points, after_idle, servers, in_order, order, ..base })
}

/// Shares of the requests that were passed over at least 0, 1, … times, from the numbers of those with each count.
fn shares(counts: &[u64]) -> Vec<f64> {
    let total: u64 = counts.iter().sum();
    let left = counts.iter().scan(total, |left, count| Some(std::mem::replace(left, *left - count)));
    left.chain([0]).map(|left| left as f64 / total.max(1) as f64).collect()
}

/// Service times of requests that are served one at a time, each at its arrival or when the one before has completed.
/// Idle times between them are those of the arrivals.
///
/// # Errors
/// Requests that the device refuses.
pub fn services_one_at_a_time(
    build: &dyn Fn() -> Box<dyn Device>,
    requests: &Arc<[Request]>,
    arrivals: &[Instant],
) -> Result<Vec<RecordedService>, EstimateError> {
    assert_eq!(requests.len(), arrivals.len(), "every request has an arrival");
    let mut services = Vec::with_capacity(requests.len());
    let pace = |index: usize, free: Instant| arrivals[index].max(free);
    let mut workload = Members::new(requests, 1, pace);
    let mut device = build();
    let observe = |completion: &Completion| {
        let service_s = (completion.completed - completion.submitted).as_s();
        services.push(RecordedService { request: services.len() as u32, waiting: 0, service_s });
    };
    let run = simulate(&mut workload, &mut *device, Limits::default(), observe);
    run.map_err(|error| EstimateError::Refused(error.to_string()))?;
    Ok(services)
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

/// Times of one run.
struct Run {
    between_s: Vec<f64>,
    response_s: Vec<f64>,
    /// Share of the requests that completed after a later one.
    overtaken: f64,
    /// Mean number in service.
    concurrency: f64,
    /// Numbers of requests that were passed over 0, 1, … times. The service at work when a request arrives does not count.
    passed_over: Vec<u64>,
}

impl Run {
    fn closed(
        build: &dyn Fn() -> Box<dyn Device>,
        requests: &Arc<[Request]>,
        members: u32,
    ) -> Result<Self, EstimateError> {
        Self::of(build, requests, members, |_, free| free)
    }

    fn thinking(
        build: &dyn Fn() -> Box<dyn Device>,
        requests: &Arc<[Request]>,
        mean: Duration,
    ) -> Result<Self, EstimateError> {
        let mut stream: Stream = Seed(0).stream("estimate.think");
        Self::of(build, requests, 1, move |_, free| free + stream.exponential(mean))
    }

    fn of(
        build: &dyn Fn() -> Box<dyn Device>,
        requests: &Arc<[Request]>,
        members: u32,
        pace: impl FnMut(usize, Instant) -> Instant,
    ) -> Result<Self, EstimateError> {
        let mut device = build();
        let mut workload = Members::new(requests, members, pace);
        let (first, last) = (requests.len() / WARM_UP, requests.len() - members as usize);
        let mut run = Self {
            between_s: Vec::new(),
            response_s: Vec::new(),
            overtaken: 0.0,
            concurrency: 0.0,
            passed_over: Vec::new(),
        };
        let (mut completions, mut before, mut newest, mut overtaken) = (0, Instant::ZERO, 0, 0_u64);
        let (mut in_service_s, mut elapsed_s) = (0.0, 0.0);
        let observe = |completion: &Completion| {
            // While the last requests complete, fewer are outstanding.
            if (first..=last).contains(&completions) {
                let between_s = completion.completed.saturating_since(before).as_s();
                run.between_s.push(between_s);
                run.response_s.push((completion.completed - completion.submitted).as_s());
                elapsed_s += between_s;
                in_service_s += completion.completed.saturating_since(completion.started).as_s();
                overtaken += u64::from(completion.request.id.0 < newest);
                // Request `members` was sent at the first completion, and so on.
                let sent_after = (completion.request.id.0 + 1).saturating_sub(u64::from(members));
                let passed_over = (completions as u64 + 1 - sent_after).saturating_sub(2) as usize;
                if run.passed_over.len() <= passed_over {
                    run.passed_over.resize(passed_over + 1, 0);
                }
                run.passed_over[passed_over] += 1;
            }
            newest = newest.max(completion.request.id.0);
            before = completion.completed;
            completions += 1;
        };
        let result = simulate(&mut workload, &mut *device, Limits::default(), observe);
        result.map_err(|error| EstimateError::Refused(error.to_string()))?;
        run.overtaken = overtaken as f64 / run.between_s.len() as f64;
        run.concurrency = if elapsed_s > 0.0 { in_service_s / elapsed_s } else { 1.0 };
        Ok(run)
    }
}

/// Members who send the requests of a list in its order. `pace` names the time of a request from its place in the list
/// and the time at which its member became free.
pub(crate) struct Members<F> {
    requests: Arc<[Request]>,
    next: usize,
    /// Times at which the members that are free send, the earliest last.
    free: Vec<Instant>,
    pace: F,
}

impl<F: FnMut(usize, Instant) -> Instant> Members<F> {
    pub(crate) fn new(requests: &Arc<[Request]>, members: u32, pace: F) -> Self {
        let free = vec![Instant::ZERO; members as usize];
        let mut workload = Self { requests: Arc::clone(requests), next: 0, free: Vec::new(), pace };
        free.into_iter().enumerate().for_each(|(index, free)| workload.release(index, free));
        workload
    }

    /// The member that sends request `index` is free.
    fn release(&mut self, index: usize, free: Instant) {
        if index < self.requests.len() {
            let time = (self.pace)(index, free);
            let place = self.free.partition_point(|other| *other > time);
            self.free.insert(place, time);
        }
    }
}

impl<F: FnMut(usize, Instant) -> Instant> Workload for Members<F> {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        let Some(request) = self.requests.get(self.next) else { return Arrival::Finished };
        match self.free.last() {
            None => Arrival::WaitForCompletion,
            Some(time) if *time > now => Arrival::At(*time),
            Some(_) => {
                self.free.pop();
                let id = RequestId(self.next as u64);
                self.next += 1;
                Arrival::Request(Request { id, ..*request })
            }
        }
    }

    fn completed(&mut self, completion: &Completion) {
        let index = self.next + self.free.len();
        self.release(index, completion.completed);
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Operation;
    use seeklab_devices::catalog;

    use super::*;

    fn reads(count: u64, blocks: u64) -> Arc<[Request]> {
        let mut stream = Seed(7).stream("test");
        let read = |id| Request::new(id, Operation::Read, stream.below(blocks), 1);
        (0..count).map(read).collect()
    }

    fn device(name: &str) -> impl Fn() -> Box<dyn Device> + '_ {
        move || catalog::find(name).unwrap().build(Seed(1), "disk0").unwrap()
    }

    #[test]
    fn constant_server_is_sampled_exactly() {
        let build = device("constant");
        let law = sample_law(&build, &reads(2_000, 1_000), None).unwrap();
        let exact = catalog::find("constant").unwrap();
        let demand = seeklab_devices::service_law::Demand::random_reads(&exact.capabilities().unwrap(), 1);
        let exact = exact.service_law(&demand, &|_| None).unwrap();
        assert_eq!((law.points.len(), law.servers, law.in_order), (1, 1.0, true));
        assert!((law.mean_s(1.0) / exact.mean_s(1.0) - 1.0).abs() < 1e-9);
        assert!(law.points[0].service.deviation_s() < 1e-12 && law.after_idle.is_none());
    }

    #[test]
    fn sampled_exponential_server_meets_its_law() {
        let build = device("exponential");
        let law = sample_law(&build, &reads(20_000, 1_000), Some(3)).unwrap();
        let exact = catalog::find("exponential").unwrap();
        let demand = seeklab_devices::service_law::Demand::random_reads(&exact.capabilities().unwrap(), 1);
        let exact = exact.service_law(&demand, &|_| None).unwrap();
        assert!((law.mean_s(1.0) / exact.mean_s(1.0) - 1.0).abs() < 0.02, "{}", law.mean_s(1.0));
        let deviation = law.variance_s2(1.0).sqrt() / law.mean_s(1.0);
        assert!((deviation - 1.0).abs() < 0.03, "{deviation}");
    }

    #[test]
    fn requests_are_served_in_the_order_of_the_list() {
        let requests = reads(50, 1_000);
        let arrivals: Vec<Instant> = (0..50).map(|i| Instant::from_ns(i * 1_000_000)).collect();
        let services = services_one_at_a_time(&device("constant"), &requests, &arrivals).unwrap();
        assert_eq!(services.len(), 50);
        assert!(services.windows(2).all(|pair| (pair[0].service_s - pair[1].service_s).abs() < 1e-12));
    }

    #[test]
    fn too_few_requests_are_refused() {
        let error = sample_law(&device("constant"), &reads(7, 1_000), None).unwrap_err();
        assert_eq!(error, EstimateError::TooFewRequests { requests: 7, needed: 8 });
    }
}
