//! Synthetic workloads: requests drawn from distributions.
//!
//! Every aspect of a request is drawn from its own random stream, so that
//! changing one leaves the draws of the others as they were:
//!
//! | stream | what it draws |
//! | --- | --- |
//! | `workload.op` | read or write |
//! | `workload.kind` | discard, write of zeroes or write, of what is no read |
//! | `workload.fua` | force unit access, of writes |
//! | `workload.criticality` | time-critical or time-noncritical |
//! | `workload.size` | number of blocks |
//! | `workload.pattern` | sequential, local or elsewhere |
//! | `workload.address` | where, if not sequential |
//! | `workload.arrival` | interarrival times and burst lengths |
//! | `workload.think` | think times of a closed population |
//!
//! # Scope and limits
//! Successive requests are independent but for `sequential` and `local`, which look one request
//! back; there is no correlation between size, operation and place, and arrivals have no memory
//! beyond a burst. Where that matters, replay a trace [Ganger 1995: "an unsolved problem"].
//!
//! # References
//! Shares of sequential and local requests as in DiskSim's generator [Bucy et al. 2008];
//! Zipf's law by rejection sampling as in `rand_distr`.

mod address;
mod address_space;
mod arrivals;
mod geometric;
mod operations;
mod places;
mod population;
mod process;
mod size;
mod source;
mod space;
mod spec;

use std::sync::Arc;

use seeklab_core::{
    Arrival, Completion, Criticality, DescriptionError, Duration, Instant, Operation, Request, Seed, Stream,
    Workload,
};

pub use address::{AddressDistribution, AddressSpec, Extent, HotZone, RankOrder};
pub use address_space::AddressSpace;
pub use arrivals::{ArrivalSpec, BurstDistribution, Pace, TimeDistribution};
pub use size::{SizeSpec, WeightedSize};
pub use spec::SyntheticSpec;

use operations::Operations;
use places::Places;
use population::Population;
use process::OpenProcess;

/// Data that a description only names and that the caller supplies.
#[derive(Debug, Clone, Default)]
pub struct Supplied {
    /// The extents of `address = { distribution = "extents" }`, such as the tracks of a disk.
    pub extents: Option<Arc<[Extent]>>,
    /// The interarrival times of `arrivals = { process = "shaped" }`.
    pub interarrival_times: Option<Arc<[Duration]>>,
}

/// A workload drawn from distributions; a clone continues identically.
#[derive(Debug, Clone)]
pub struct Synthetic {
    requests: u64,
    issued: u64,
    timing: Timing,
    places: Places,
    operations: Operations,
    classes: Option<Classes>,
    share: Share,
}

/// Draws the class of each request.
#[derive(Debug, Clone)]
struct Classes {
    noncritical: f64,
    stream: Stream,
}

impl Classes {
    /// `None` if all requests are time-critical.
    fn new(spec: &SyntheticSpec, seed: Seed) -> Option<Self> {
        let noncritical = spec.noncritical.as_f64();
        (noncritical > 0.0).then(|| Self { noncritical, stream: seed.stream("workload.criticality") })
    }

    fn draw(&mut self) -> Criticality {
        if self.stream.chance(self.noncritical) {
            Criticality::TimeNoncritical
        } else {
            Criticality::TimeCritical
        }
    }
}

/// The requests of one thread of several that send the same workload together.
#[derive(Debug, Clone, Copy)]
struct Share {
    index: u64,
    threads: u64,
}

impl Share {
    const fn has(self, number: u64) -> bool {
        number % self.threads == self.index
    }
}

#[derive(Debug, Clone)]
enum Timing {
    Open { process: OpenProcess, stream: Stream, next: Instant },
    Closed { population: Population, stream: Stream },
}

impl Synthetic {
    /// The workload of that description for that device.
    ///
    /// # Errors
    /// [`DescriptionError`], if a quantity is out of range, does not fit the device, or was not supplied.
    pub fn new(
        spec: &SyntheticSpec,
        target: AddressSpace,
        seed: Seed,
        supplied: Supplied,
    ) -> Result<Self, DescriptionError> {
        let timing = match OpenProcess::new(&spec.arrivals, supplied.interarrival_times)? {
            Some(mut process) => {
                let mut stream = seed.stream("workload.arrival");
                let next = Instant::ZERO + process.interarrival(&mut stream);
                Timing::Open { process, stream, next }
            }
            None => {
                let ArrivalSpec::Closed { population, think, think_distribution } = spec.arrivals else {
                    unreachable!("only a closed workload has no open process");
                };
                let population = Population::new(population, think, think_distribution);
                Timing::Closed { population, stream: seed.stream("workload.think") }
            }
        };
        Ok(Self {
            requests: spec.requests,
            issued: 0,
            timing,
            places: Places::new(spec, target, seed, supplied.extents)?,
            operations: Operations::new(spec, seed)?,
            classes: Classes::new(spec, seed),
            share: Share { index: 0, threads: 1 },
        })
    }

    /// Keeps the share of thread `index` of so many: the requests and the members of a closed population whose numbers leave that rest. All
    /// shares together are the workload, whatever their number, but for the think times of a closed population.
    ///
    /// # Panics
    /// If there is no such thread, or requests were issued.
    #[must_use]
    pub fn share(mut self, index: u32, threads: u32) -> Self {
        assert!(
            index < threads && self.issued == 0,
            "thread {index} of {threads} after {} requests",
            self.issued
        );
        self.share = Share { index: index.into(), threads: threads.into() };
        if let Timing::Closed { population, .. } = &mut self.timing {
            population.keep(|member| self.share.has(member.into()));
        }
        self.skip();
        self
    }

    /// Draws the requests of other threads, up to the next of this one.
    fn skip(&mut self) {
        while !self.share.has(self.issued) && self.issued < self.requests {
            if let Timing::Open { process, stream, next } = &mut self.timing {
                *next = next.saturating_add(process.interarrival(stream));
            }
            self.draw();
        }
    }

    /// Requests issued so far.
    pub const fn issued(&self) -> u64 {
        self.issued
    }

    fn draw(&mut self) -> Request {
        let (op, fua) = self.operations.draw();
        let request = match op {
            Operation::Flush => Request::new(self.issued, op, 0, 0),
            _ => {
                let (lbn, blocks) = self.places.draw();
                Request { fua, ..Request::new(self.issued, op, lbn, blocks) }
            }
        };
        self.issued += 1;
        match &mut self.classes {
            None => request,
            Some(classes) => Request { criticality: classes.draw(), ..request },
        }
    }
}

impl Workload for Synthetic {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        if self.issued >= self.requests {
            return Arrival::Finished;
        }
        match &mut self.timing {
            Timing::Open { process, stream, next } => {
                if *next > now {
                    return Arrival::At(*next);
                }
                *next = next.saturating_add(process.interarrival(stream));
                let request = self.draw();
                self.skip();
                Arrival::Request(request)
            }
            Timing::Closed { population, .. } => match population.next_ready() {
                None => Arrival::WaitForCompletion,
                Some(time) if time > now => Arrival::At(time),
                Some(_) => {
                    let member = population.take().expect("a member is ready");
                    let request = Request { initiator: member, ..self.draw() };
                    self.skip();
                    Arrival::Request(request)
                }
            },
        }
    }

    fn completed(&mut self, completion: &Completion) {
        if let Timing::Closed { population, stream } = &mut self.timing {
            population.completed(completion.completed, completion.request.initiator, stream);
        }
    }

    fn announces_requests(&self) -> bool {
        true
    }
}
