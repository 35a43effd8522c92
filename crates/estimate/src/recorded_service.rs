//! Service times of recorded requests on a device that reorders its queue.
//!
//! On such a device the service time of a request depends on the request that was chosen before it, which depends on the
//! requests that waited. Neighbours in a trace are often neighbours on the disk, a buffer writes in the order in which it took
//! the writes, and a flush that is chosen early finds less to write. No law of independent requests has these effects. So
//! the service times are those of one run of the device with its own queue over the arrivals of the trace. Each comes with the
//! number that waited when the request was chosen.
//!
//! ```text
//!   completions:  c(0)          c(1)   c(2)                     c(3)
//!   service k:  ├──────────────┼──────┼────────┤   idle  ├─────┤     from max(c(k − 1), arrival k) to c(k)
//! ```
//! # Scope and limits
//! At the rate of the run, the recursion over these service times gives the completions of the run. At another rate it is a
//! prediction: each service time is multiplied by the ratio of the mean service times of the law with the other number
//! waiting, and the requests keep the order of the run as far as they have arrived. What idle times do to a write buffer
//! stays as in the run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use seeklab_core::{Arrival, Completion, Device, Instant, Limits, Request, RequestId, Workload, simulate};

use crate::error::EstimateError;

/// Service of a recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RecordedService {
    /// Place of the request in order of arrival.
    pub request: u32,
    /// Requests that waited when the request was chosen, itself included; 0 if it arrived at an idle device.
    pub waiting: u32,
    /// Time by which the request prolonged the busy period, in seconds.
    pub service_s: f64,
}

/// Services in order of completion, of one run of the device that `build` makes over these arrivals, with its own queue.
///
/// # Errors
/// Requests that the device refuses.
pub fn services_in_queue(
    build: &dyn Fn() -> Box<dyn Device>,
    requests: &Arc<[Request]>,
    arrivals: &[Instant],
) -> Result<Vec<RecordedService>, EstimateError> {
    assert_eq!(requests.len(), arrivals.len(), "every request has an arrival");
    let mut workload = Recorded { requests, arrivals, next: 0 };
    let mut completions: Vec<(Instant, u32)> = Vec::with_capacity(requests.len());
    let mut device = build();
    // A trace may be grown far beyond what the device sustains; no more than its requests are outstanding.
    let limits = Limits { outstanding_max: usize::MAX };
    let observe = |completion: &Completion| {
        completions.push((completion.completed, completion.request.id.0 as u32));
    };
    simulate(&mut workload, &mut *device, limits, observe)
        .map_err(|error| EstimateError::Refused(error.to_string()))?;
    let (mut free, mut arrived) = (None, 0);
    let service = |(served, (completed, request)): (usize, &(Instant, u32))| {
        let arrival = arrivals[served];
        let busy_until = free.replace(*completed).filter(|free| *free > arrival);
        let start = busy_until.unwrap_or(arrival);
        while arrivals.get(arrived).is_some_and(|other| *other <= start) {
            arrived += 1;
        }
        let waiting = if busy_until.is_some() { (arrived - served) as u32 } else { 0 };
        RecordedService { request: *request, waiting, service_s: completed.saturating_since(start).as_s() }
    };
    Ok(completions.iter().enumerate().map(service).collect())
}

/// Recorded requests at their arrivals.
struct Recorded<'a> {
    requests: &'a [Request],
    arrivals: &'a [Instant],
    next: usize,
}

impl Workload for Recorded<'_> {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        match self.arrivals.get(self.next) {
            None => Arrival::Finished,
            Some(arrival) if *arrival > now => Arrival::At(*arrival),
            Some(_) => {
                let id = RequestId(self.next as u64);
                self.next += 1;
                Arrival::Request(Request { id, ..self.requests[self.next - 1] })
            }
        }
    }

    fn completed(&mut self, _completion: &Completion) {}
}

/// The order of a run, as far as requests have arrived at another rate.
pub(crate) struct Order<'a> {
    services: &'a [RecordedService],
    /// Place in the order from which on nothing was looked at.
    place: usize,
    /// Requests that had not arrived at their turn, by their number in order of arrival, with their places.
    late: BinaryHeap<Reverse<(u32, usize)>>,
    /// Places of the requests that have arrived after their turn.
    due: BinaryHeap<Reverse<usize>>,
}

impl<'a> Order<'a> {
    pub(crate) const fn new(services: &'a [RecordedService]) -> Self {
        Self { services, place: 0, late: BinaryHeap::new(), due: BinaryHeap::new() }
    }

    /// The next service of the order whose request is among the first `arrived`.
    ///
    /// # Panics
    /// If all of these were taken before.
    pub(crate) fn next(&mut self, arrived: usize) -> RecordedService {
        while let Some(Reverse((_, place))) =
            self.late.peek().copied().filter(|Reverse((request, _))| (*request as usize) < arrived)
        {
            self.late.pop();
            self.due.push(Reverse(place));
        }
        if let Some(Reverse(place)) = self.due.pop() {
            return self.services[place];
        }
        loop {
            let service = self.services[self.place];
            self.place += 1;
            if (service.request as usize) < arrived {
                return service;
            }
            self.late.push(Reverse((service.request, self.place - 1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Operation, Seed};
    use seeklab_devices::catalog;
    use seeklab_devices::layer::queue_before;
    use seeklab_devices::scheduler::SchedulerSpec;

    use super::*;
    use crate::sampling::services_one_at_a_time;

    fn service(request: u32) -> RecordedService {
        RecordedService { request, waiting: 1, service_s: f64::from(request) }
    }

    #[test]
    fn order_of_the_run_is_kept_as_far_as_requests_have_arrived() {
        let services = [3, 0, 2, 1].map(service);
        let requests = |arrived: [usize; 4]| {
            let mut order = Order::new(&services);
            arrived.map(|arrived| order.next(arrived).request)
        };
        assert_eq!(requests([4, 4, 4, 4]), [3, 0, 2, 1]);
        // Each arrives when the one before is served.
        assert_eq!(requests([1, 2, 3, 4]), [0, 1, 2, 3]);
        // The last one is chosen as soon as it is there.
        assert_eq!(requests([2, 4, 4, 4]), [0, 3, 2, 1]);
    }

    /// Reads of 8 blocks in bursts of 40 at one time.
    fn bursts(name: &str) -> (Arc<[Request]>, Vec<Instant>) {
        let blocks = catalog::find(name).unwrap().capabilities().unwrap().capacity_blocks;
        let mut stream = Seed(7).stream("test");
        let read = |id| Request::new(id, Operation::Read, stream.below(blocks - 8), 8);
        let requests: Arc<[Request]> = (0..2_000).map(read).collect();
        (requests, (0..2_000).map(|id| Instant::from_ns(id / 40 * 4_000_000_000)).collect())
    }

    fn device(name: &str) -> Box<dyn Device> {
        let device = catalog::find(name).unwrap().build(Seed(1), "disk0").unwrap();
        let depth = device.capabilities().queue_depth;
        if depth == u32::MAX {
            return device;
        }
        Box::new(queue_before(device, &SchedulerSpec::FCFS, depth as usize).unwrap())
    }

    #[test]
    fn services_of_a_queue_in_order_of_arrival_are_those_one_at_a_time() {
        let (requests, arrivals) = bursts("hp-c2247a");
        let build = || device("hp-c2247a");
        let alone = services_one_at_a_time(&build, &requests, &arrivals).unwrap();
        let queued = services_in_queue(&build, &requests, &arrivals).unwrap();
        assert_eq!(queued.len(), 2_000);
        for (place, (queued, alone)) in queued.iter().zip(&alone).enumerate() {
            assert_eq!((queued.request as usize, alone.request), (place, place as u32));
            assert!((queued.service_s - alone.service_s).abs() < 2e-9, "{place} {queued:?} {alone:?}");
        }
        // Of a burst of 40 the first finds an idle device, and 39 wait when it has left.
        assert_eq!([0, 1, 2, 39, 40].map(|place| queued[place].waiting), [0, 39, 38, 1, 0]);
    }

    #[test]
    fn queue_of_sptf_shortens_the_services_of_a_burst() {
        let (requests, arrivals) = bursts("nearline-7200");
        let build = || device("nearline-7200");
        let mean_s = |services: &[RecordedService]| {
            services.iter().map(|service| service.service_s).sum::<f64>() / services.len() as f64
        };
        let alone_s = mean_s(&services_one_at_a_time(&build, &requests, &arrivals).unwrap());
        let queued = services_in_queue(&build, &requests, &arrivals).unwrap();
        assert!(mean_s(&queued) < 0.75 * alone_s, "{} {alone_s}", mean_s(&queued));
        assert!(queued.iter().enumerate().any(|(place, service)| service.request as usize != place));
    }
}
