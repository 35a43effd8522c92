//! The service law of a resolved device: a formula of its kind, or a sample.

use std::sync::Arc;

use seeklab_core::{Device, Operation, Request, Seed};
use seeklab_devices::Description;
use seeklab_devices::layer::queue_before;
use seeklab_devices::scheduler::SchedulerSpec;
use seeklab_devices::service_law::{
    Addresses, Demand, LawOrigin, LawPoint, ServiceLaw, ServiceTimes, WriteBuffer,
};
use seeklab_estimate::{EstimateError, is_one_server, sample_law, with_write_buffer};

use super::load::{Load, Times, may_be_buffered};
use crate::devices::Resolved;
use crate::failure::Failure;

/// Requests of a trace with which laws are sampled at several numbers outstanding.
const SAMPLE_REQUESTS_MAX: usize = 40_000;

/// Stretches of consecutive requests in which these are taken from a longer trace.
const SAMPLE_STRETCHES: usize = 8;

/// The requests with which laws are sampled: all of a short trace; of a longer one, stretches at equal distances from its
/// beginning to its end.
pub(super) fn sample(requests: &Arc<[Request]>) -> Arc<[Request]> {
    if requests.len() <= SAMPLE_REQUESTS_MAX {
        return Arc::clone(requests);
    }
    let length = SAMPLE_REQUESTS_MAX / SAMPLE_STRETCHES;
    let begin = |stretch: usize| stretch * (requests.len() - length) / (SAMPLE_STRETCHES - 1);
    (0..SAMPLE_STRETCHES)
        .flat_map(|stretch| &requests[begin(stretch)..begin(stretch) + length])
        .copied()
        .collect()
}

/// Returns the law of a device under a load, sampled with these requests where it has no formula. Closed runs keep a buffer of
/// writes full: [`with_buffered_writes`] has the law of one that empties between arrivals.
pub(super) fn law(
    device: &Resolved,
    load: &Load,
    requests: &Arc<[Request]>,
    seed: Seed,
) -> Result<ServiceLaw, Failure> {
    let also = match &load.times {
        Times::Closed(population) => Some(population.members),
        _ => None,
    };
    let build = || device.build(seed, "disk0").expect("the device was built when it was resolved");
    let description = &device.description;
    let whole = || sampled(description, &load.demand, &build, requests, also).map_err(failure);
    match device.queue() {
        None => formula(description, &load.demand, requests, also, seed).map_or_else(whole, Ok),
        Some((scheduler, depth)) => match under_queue(description, &load.demand, scheduler, depth) {
            Some(law) if law.in_order => Ok(law),
            // A formula of the service times alone; their order spreads the response times.
            Some(law) => whole().map(|sampled| with_responses(law, &sampled)),
            None => whole(),
        },
    }
}

/// The law and the times of a Poisson load of two classes behind a queue that serves one class first. `None` of other loads, other
/// queues, and devices whose service times depend on the order.
pub(super) fn with_priorities(device: &Resolved, load: &Load) -> Option<(ServiceLaw, Times)> {
    let Times::Poisson { arrivals_per_s } = load.times else { return None };
    let (_, depth) = device.queue()?;
    if !serves_one_class_first(device, load) || depth > 1 {
        return None;
    }
    let law = device.description.service_law(&load.demand, &|_| None)?;
    let times = Times::Prioritised { arrivals_per_s, noncritical: load.noncritical };
    (law.origin == LawOrigin::Exact && is_one_server(&law)).then_some((law, times))
}

/// Returns true of two classes of priority behind a queue that serves one class first.
pub(super) fn serves_one_class_first(device: &Resolved, load: &Load) -> bool {
    let has_classes = 0.0 < load.noncritical && load.noncritical < 1.0;
    has_classes && device.queue().is_some_and(|(scheduler, _)| scheduler.kind().name == CRITICALITY_C_LOOK)
}

/// Name of the scheduler that serves time-noncritical requests only while no other waits.
const CRITICALITY_C_LOOK: &str = "criticality-c-look";

/// The law of reads, and of writes that a buffer of the device takes. `None` without such a buffer, and of loads for which
/// closed runs show what arrivals meet.
pub(super) fn with_buffered_writes(
    device: &Resolved,
    load: &Load,
    requests: &Arc<[Request]>,
    seed: Seed,
) -> Result<Option<ServiceLaw>, Failure> {
    if !matches!(load.times, Times::Poisson { .. }) {
        return Ok(None);
    }
    // A queue of the host's that gives the device one request at a time leaves the device nothing to begin early.
    let one_at_a_time = device.queue().is_some_and(|(_, depth)| depth <= 1);
    let demand = Demand { one_at_a_time, ..load.demand.clone() };
    let buffer = device.description.write_buffer(&demand).filter(|buffer| !is_reordered(device, buffer));
    let Some(buffer) = buffer else { return Ok(None) };
    let reads = Load { demand: Demand { reads: 1.0, ..load.demand.clone() }, ..load.clone() };
    let read_requests = requests.iter().map(|request| Request { op: Operation::Read, ..*request }).collect();
    let read_law = law(device, &reads, &read_requests, seed)?;
    if read_law.servers > 1.0 {
        return Ok(None);
    }
    let law = with_write_buffer(read_law, buffer, load.demand.reads);
    // Limits count the requests of the whole demand.
    let beneath =
        |_: &Description| Some(ServiceLaw::of_server(LawOrigin::Exact, ServiceTimes::constant(0.0)));
    let limits =
        device.description.service_law(&load.demand, &beneath).map_or_else(Vec::new, |law| law.limits);
    Ok(Some(ServiceLaw { limits, ..law }))
}

/// Returns true if a disk with this buffer, or a queue in front of it, has another order than that of arrival.
fn is_reordered(device: &Resolved, buffer: &WriteBuffer) -> bool {
    buffer.is_reordered || device.queue().is_some_and(|(scheduler, _)| scheduler != SchedulerSpec::FCFS)
}

/// Share of the requests that are writes into a buffer which the device works off in idle times, if the law has no idle times:
/// it is that of closed runs. Otherwise 0.
pub(super) fn writes_without_law(device: &Resolved, load: &Load, law: &ServiceLaw) -> f64 {
    if law.buffered_writes.is_some() { 0.0 } else { writes_until_idle(device, load) }
}

/// Share of the requests that are writes into a buffer which the device works off in idle times; 0 of loads that leave none.
pub(super) fn writes_until_idle(device: &Resolved, load: &Load) -> f64 {
    let leaves_idle = match &load.times {
        Times::Poisson { .. } | Times::Batches { .. } | Times::Prioritised { .. } => true,
        Times::Closed(population) => population.think_mean_s > 0.0,
        // Their services are those of a run over the arrivals.
        Times::Recorded(_) => false,
    };
    let is_buffered = |request: &&Request| request.op == Operation::Write && may_be_buffered(request);
    let writes = load.requests.iter().filter(is_buffered).count();
    if !leaves_idle || writes == 0 {
        return 0.0;
    }
    let Ok(built) = device.build(Seed(0), "disk0") else { return 0.0 };
    let capacity_blocks = built.capabilities().capacity_blocks;
    let anywhere = Addresses { begin: 0, end: capacity_blocks, align_blocks: 1 };
    let demand = Demand { addresses: Some(anywhere), ..load.demand.clone() };
    match device.description.write_buffer(&demand) {
        Some(_) => writes as f64 / load.requests.len() as f64,
        None => 0.0,
    }
}

/// The sampled law of a device. Where one request at a time has a formula, the law with one outstanding is that, which no
/// random variation touches.
fn sampled(
    description: &Description,
    demand: &Demand,
    build: &dyn Fn() -> Box<dyn Device>,
    requests: &Arc<[Request]>,
    also: Option<u32>,
) -> Result<ServiceLaw, EstimateError> {
    let mut law = sample_law(build, requests, also)?;
    let alone = Demand { one_at_a_time: true, ..demand.clone() };
    if let Some(formula) = description.service_law(&alone, &|_| None) {
        let service = formula.points[0].service.clone();
        law.points[0] = LawPoint { outstanding: 1, response: Some(service.clone()), service };
        law.after_idle = formula.after_idle;
    }
    Ok(law)
}

/// A law with the response times that were sampled with about as many requests outstanding.
fn with_responses(mut law: ServiceLaw, sampled: &ServiceLaw) -> ServiceLaw {
    for point in &mut law.points {
        let before = sampled.points.partition_point(|other| other.outstanding <= point.outstanding);
        point.response = sampled.points[before.saturating_sub(1)].response.clone();
    }
    law.order.clone_from(&sampled.order);
    law
}

/// The law of a device without a queue of the host's: a formula, or formulas of layers over a sample of the device
/// beneath. `None` if the whole device has to be sampled.
fn formula(
    description: &Description,
    demand: &Demand,
    requests: &Arc<[Request]>,
    also: Option<u32>,
    seed: Seed,
) -> Option<ServiceLaw> {
    let sample = |node: &Description| {
        if std::ptr::eq(node, description) {
            return None;
        }
        built(node, seed)?;
        let build = || built(node, seed).expect("the device was built just now");
        sampled(node, demand, &build, requests, also).ok()
    };
    description.service_law(demand, &sample)
}

/// A device with a queue in order of arrival that takes any number of requests.
fn built(description: &Description, seed: Seed) -> Option<Box<dyn Device>> {
    let device = description.build(seed, "disk0").ok()?;
    match device.capabilities().queue_depth {
        u32::MAX => Some(device),
        depth => Some(Box::new(queue_before(device, &SchedulerSpec::FCFS, depth as usize).ok()?)),
    }
}

/// The formula of a device behind a queue of the host's.
fn under_queue(
    description: &Description,
    demand: &Demand,
    scheduler: SchedulerSpec,
    depth: usize,
) -> Option<ServiceLaw> {
    if scheduler == SchedulerSpec::FCFS {
        let law = description.service_law(demand, &|_| None)?;
        return (law.servers <= 1.0 && law.in_order).then_some(law);
    }
    if depth > 1 {
        return None;
    }
    description.service_law(&Demand { order: Some(scheduler), ..demand.clone() }, &|_| None)
}

/// A failure to estimate as that of a verb.
pub(super) fn failure(error: EstimateError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        EstimateError::Overload { .. } => Failure::check(error.to_string())
            .hint("lower the rate, or look for the rate that the device sustains with --until"),
        EstimateError::WithoutTimes { .. } => {
            failure.hint("estimate the trace closed (--closed N), or add arrival times to it")
        }
        EstimateError::WithoutService => failure.hint("give a rate or a think time"),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Operation;

    use super::*;

    #[test]
    fn sample_of_a_long_trace_spreads_from_its_beginning_to_its_end() {
        let requests: Arc<[Request]> =
            (0..100_000).map(|id| Request::new(id, Operation::Read, id * 8, 8)).collect();
        let sample = sample(&requests);
        assert_eq!(sample.len(), SAMPLE_REQUESTS_MAX);
        assert_eq!((sample[0].lbn, sample[39_999].lbn), (0, 99_999 * 8));
        // Within a stretch the requests are consecutive.
        assert_eq!(sample[4_999].lbn, 4_999 * 8);
        assert_eq!(sample[5_000].lbn, 95_000 / 7 * 8);
        assert!(Arc::ptr_eq(&super::sample(&sample), &sample));
    }
}
