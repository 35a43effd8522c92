//! A device to test against, and ways to draw from a workload without one.

use std::any::Any;
use std::collections::VecDeque;

use seeklab_core::{
    Arrival, Breakdown, BufferOutcome, ByteSize, Capabilities, Completion, Criticality, Device, Duration,
    FaultSet, Instant, Outcome, Reclassification, Rejected, Request, Seed, Stream, Workload,
};
use seeklab_workloads::{AddressSpace, Supplied, Synthetic, SyntheticSpec};

/// A disk of 8 GiB with blocks of 512 B.
pub(crate) const TARGET: AddressSpace =
    AddressSpace { capacity_blocks: 1 << 24, block_size: ByteSize::from_bytes(512) };

/// The workload that a line describes, on the test disk.
pub(crate) fn workload(line: &str) -> Synthetic {
    with_seed(line, 1)
}

pub(crate) fn with_seed(line: &str, seed: u64) -> Synthetic {
    let spec = SyntheticSpec::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    Synthetic::new(&spec, TARGET, Seed(seed), Supplied::default())
        .unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// All requests of an open workload, with their arrival times.
pub(crate) fn arrivals(workload: &mut dyn Workload) -> Vec<(Instant, Request)> {
    let mut now = Instant::ZERO;
    let mut arrivals = Vec::new();
    loop {
        match workload.next_arrival(now) {
            Arrival::Request(request) => arrivals.push((now, request)),
            Arrival::At(time) => {
                assert!(time > now, "{time} is not after {now}");
                now = time;
            }
            Arrival::Reclassification(change) => panic!("a synthetic workload changes no class: {change:?}"),
            Arrival::WaitForCompletion => panic!("an open workload waits"),
            Arrival::Finished => return arrivals,
        }
    }
}

/// All requests of an open workload that a line describes.
pub(crate) fn requests(line: &str) -> Vec<Request> {
    arrivals(&mut workload(line)).into_iter().map(|(_, request)| request).collect()
}

/// Service time of a request on the test device.
#[derive(Debug, Clone)]
pub(crate) enum Service {
    Constant(Duration),
    /// At least a nanosecond, so that no two completions are at one time.
    Exponential(Duration, Stream),
    /// The given time for every other request and none for those between: two completions at a time.
    Pairs(Duration, bool),
}

/// A device that serves one request at a time, first come, first served.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    capabilities: Capabilities,
    service: Service,
    /// Request, submission, start and completion.
    queue: VecDeque<(Request, Instant, Instant, Instant)>,
    free_at: Instant,
    pub(crate) outstanding_max: usize,
}

impl Server {
    pub(crate) fn new(service: Service) -> Self {
        let capabilities = Capabilities {
            capacity_blocks: TARGET.capacity_blocks,
            block_size: TARGET.block_size,
            queue_depth: u32::MAX,
            volatile_write_cache: false,
            rotational: false,
        };
        Self { capabilities, service, queue: VecDeque::new(), free_at: Instant::ZERO, outstanding_max: 0 }
    }
}

impl Device for Server {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        self.capabilities.check(&request)?;
        let service = match &mut self.service {
            Service::Constant(time) => *time,
            Service::Exponential(mean, stream) => stream.exponential(*mean).max(Duration::from_ns(1)),
            Service::Pairs(time, is_second) => {
                *is_second = !*is_second;
                if *is_second { *time } else { Duration::ZERO }
            }
        };
        let start = self.free_at.max(now);
        self.free_at = start + service;
        self.queue.push_back((request, now, start, self.free_at));
        self.outstanding_max = self.outstanding_max.max(self.queue.len());
        Ok(())
    }

    fn reclassify(&mut self, _: Instant, change: &Reclassification) -> Option<Criticality> {
        let mut requests = self.queue.iter_mut().map(|(request, ..)| request);
        requests.find(|request| request.id == change.id)?.reclassify(change.criticality)
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        while let Some((request, submitted, started, completed)) = self.queue.front().copied() {
            if completed > now {
                break;
            }
            self.queue.pop_front();
            completions.push(Completion {
                request,
                submitted,
                issued: submitted,
                started,
                completed,
                breakdown: Breakdown {
                    queue: started - submitted,
                    transfer: completed - started,
                    ..Breakdown::default()
                },
                outcome: Outcome::ok(&request),
                buffer: BufferOutcome::None,
                seek_cylinders: 0,
                queue_length: 0,
                faults: FaultSet::NONE,
            });
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.queue.front().map(|(.., completed)| *completed)
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn fork(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
