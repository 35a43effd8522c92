//! One server with a service time: `immediate`, `constant`, `exponential` and `access`.
//!
//! Requests are served one at a time in order of arrival, so under Poisson arrivals `exponential` is an
//! M/M/1 queue and `constant` an M/D/1 queue. Requests of `access` that begin where the last one ended pay their
//! blocks only.

use std::any::Any;
use std::collections::VecDeque;

use schemars::JsonSchema;
use seeklab_core::{
    Breakdown, BufferOutcome, ByteSize, Capabilities, Completion, Criticality, Device, Duration, Event,
    FaultSet, Instant, Operation, Outcome, Reclassification, Rejected, Request, Seed, Stream,
};
use serde::{Deserialize, Serialize};

use crate::durability::ByCompletion;
use crate::error::{DescriptionError, check, check_size};

/// Parameters of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerParameters {
    /// Blocks that can be addressed.
    #[schemars(range(min = 1), extend("x-unit" = "blocks"))]
    pub capacity_blocks: u64,
    /// Bytes in a block.
    #[schemars(extend("x-minimum" = "1B"))]
    pub block_size: ByteSize,
    /// Mean service time; `immediate` has none.
    #[serde(default)]
    pub service_time: Duration,
}

impl ServerParameters {
    /// Checks that a device can have this size.
    pub(crate) fn check(&self) -> Result<(), DescriptionError> {
        check_size(self.capacity_blocks, self.block_size)
    }

    /// Capabilities of a server of these parameters.
    pub(crate) const fn capabilities(&self) -> Capabilities {
        Capabilities {
            capacity_blocks: self.capacity_blocks,
            block_size: self.block_size,
            queue_depth: u32::MAX,
            volatile_write_cache: false,
            rotational: false,
        }
    }
}

/// Parameters of a server with an access time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessParameters {
    /// Blocks that can be addressed.
    #[schemars(range(min = 1), extend("x-unit" = "blocks"))]
    pub capacity_blocks: u64,
    /// Bytes in a block.
    #[schemars(extend("x-minimum" = "1B"))]
    pub block_size: ByteSize,
    /// Time before the first block of a request, unless the request begins where the last one ended.
    pub access_time: Duration,
    /// Transfer time of each block.
    #[schemars(extend("x-maximum" = "1s"))]
    pub block_time: Duration,
}

impl AccessParameters {
    /// Checks that a device can have this size.
    pub(crate) fn check(&self) -> Result<(), DescriptionError> {
        check_size(self.capacity_blocks, self.block_size)
    }

    /// Capabilities of a server of these parameters.
    pub(crate) const fn capabilities(&self) -> Capabilities {
        Capabilities {
            capacity_blocks: self.capacity_blocks,
            block_size: self.block_size,
            queue_depth: u32::MAX,
            volatile_write_cache: false,
            rotational: true,
        }
    }
}

/// Service time of a request.
#[derive(Debug)]
pub enum ServiceTime {
    /// Always this long, zero included.
    Constant(Duration),
    /// Exponential with this mean, drawn from the stream.
    Exponential(Duration, Box<Stream>),
    /// An access, and a transfer of each block.
    Access(Access),
}

/// Service by an access time and a time of each block.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    access_time: Duration,
    block_time: Duration,
    /// The block after the last one that was transferred.
    next_lbn: Option<u64>,
}

impl Access {
    /// Access and transfer of a request, which is served now. What transfers nothing takes no time.
    fn serve(&mut self, request: &Request) -> (Duration, Duration) {
        match request.op {
            Operation::Flush | Operation::Discard => (Duration::ZERO, Duration::ZERO),
            Operation::Read | Operation::Write | Operation::WriteZeroes => {
                let is_continued = self.next_lbn == Some(request.lbn);
                self.next_lbn = Some(request.lbn + u64::from(request.blocks));
                let access = if is_continued { Duration::ZERO } else { self.access_time };
                (access, self.block_time * u64::from(request.blocks))
            }
        }
    }
}

impl Clone for ServiceTime {
    fn clone(&self) -> Self {
        match self {
            Self::Constant(time) => Self::Constant(*time),
            Self::Exponential(mean, stream) => Self::Exponential(*mean, stream.clone()),
            Self::Access(access) => Self::Access(*access),
        }
    }

    /// Reuses the memory of a stream.
    fn clone_from(&mut self, source: &Self) {
        match (self, source) {
            (Self::Exponential(mean, stream), Self::Exponential(source_mean, source_stream)) => {
                *mean = *source_mean;
                stream.clone_from(source_stream);
            }
            (target, source) => *target = source.clone(),
        }
    }
}

/// A device that serves one request at a time.
#[derive(Debug, Clone)]
pub struct Server {
    capabilities: Capabilities,
    service_time: ServiceTime,
    queue: VecDeque<(Instant, Request, u32)>,
    serving: Option<Completion>,
    durability: ByCompletion,
}

impl Server {
    /// Returns a server whose service time is always that of the parameters.
    ///
    /// # Errors
    /// Parameters that no device can have.
    pub fn constant(parameters: &ServerParameters) -> Result<Self, DescriptionError> {
        Self::new(parameters, ServiceTime::Constant(parameters.service_time))
    }

    /// A server whose service time is exponential, drawn from the stream `NAME.service_time`.
    ///
    /// # Errors
    /// Parameters that no device can have.
    pub fn exponential(
        parameters: &ServerParameters,
        seed: Seed,
        name: &str,
    ) -> Result<Self, DescriptionError> {
        check(!parameters.service_time.is_zero(), "service_time", "0s", "a mean above zero")?;
        let stream = Box::new(seed.stream(&format!("{name}.service_time")));
        Self::new(parameters, ServiceTime::Exponential(parameters.service_time, stream))
    }

    /// Returns a server with an access time, which a request that begins where the last one ended does not pay.
    ///
    /// # Errors
    /// Parameters that no device can have.
    pub fn access(parameters: &AccessParameters) -> Result<Self, DescriptionError> {
        parameters.check()?;
        let AccessParameters { access_time, block_time, .. } = *parameters;
        let access = Access { access_time, block_time, next_lbn: None };
        Ok(Self::serving(parameters.capabilities(), ServiceTime::Access(access)))
    }

    fn new(parameters: &ServerParameters, service_time: ServiceTime) -> Result<Self, DescriptionError> {
        parameters.check()?;
        Ok(Self::serving(parameters.capabilities(), service_time))
    }

    fn serving(capabilities: Capabilities, service_time: ServiceTime) -> Self {
        let (queue, durability) = (VecDeque::new(), ByCompletion::new());
        Self { capabilities, service_time, queue, serving: None, durability }
    }

    fn start_next(&mut self, now: Instant) {
        let Some((submitted, request, queue_length)) = self.queue.pop_front() else { return };
        let (internal, transfer) = match &mut self.service_time {
            ServiceTime::Constant(time) => (*time, Duration::ZERO),
            ServiceTime::Exponential(mean, stream) => (stream.exponential(*mean), Duration::ZERO),
            ServiceTime::Access(access) => access.serve(&request),
        };
        self.serving = Some(Completion {
            request,
            submitted,
            issued: submitted,
            started: now,
            completed: now + internal + transfer,
            breakdown: Breakdown { queue: now - submitted, internal, transfer, ..Breakdown::default() },
            outcome: Outcome::ok(&request),
            buffer: BufferOutcome::None,
            seek_cylinders: 0,
            queue_length,
            faults: FaultSet::NONE,
        });
    }
}

impl Device for Server {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        self.capabilities.check(&request)?;
        let ahead = self.queue.len() + usize::from(self.serving.is_some());
        self.queue.push_back((now, request, u32::try_from(ahead).unwrap_or(u32::MAX)));
        if self.serving.is_none() {
            self.start_next(now);
        }
        Ok(())
    }

    fn reclassify(&mut self, _now: Instant, change: &Reclassification) -> Option<Criticality> {
        let serving = self.serving.as_mut().map(|serving| &mut serving.request);
        let waiting = self.queue.iter_mut().map(|(_, request, _)| request);
        let mut requests = serving.into_iter().chain(waiting);
        requests.find(|request| request.id == change.id)?.reclassify(change.criticality)
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let before = completions.len();
        while let Some(completion) = self.serving.take_if(|serving| serving.completed <= now) {
            completions.push(completion);
            self.start_next(completion.completed);
        }
        self.durability.note(&completions[before..]);
    }

    fn next_event(&self) -> Option<Instant> {
        self.serving.as_ref().map(|serving| serving.completed)
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn watch(&mut self) {
        self.durability.watch(&self.capabilities);
    }

    fn events(&mut self, now: Instant, events: &mut Vec<Event>) {
        self.durability.hand_out(now, events);
    }

    fn fork(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }

    fn fork_into(&self, target: &mut Box<dyn Device>) {
        match target.as_any_mut().downcast_mut::<Self>() {
            Some(target) => {
                target.capabilities.clone_from(&self.capabilities);
                target.service_time.clone_from(&self.service_time);
                // With as much room, so that a fork grows only when its source has.
                target.queue.clear();
                target.queue.reserve(self.queue.capacity());
                target.queue.extend(&self.queue);
                target.durability.clone_from(&self.durability);
                target.serving = self.serving;
            }
            None => *target = self.fork(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
