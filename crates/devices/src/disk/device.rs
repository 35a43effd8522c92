//! The disk as a device: its command queue in front of its electronics.

use std::any::Any;
use std::sync::Arc;

use seeklab_core::{
    Capabilities, Completion, Device, Duration, Instant, Location, Operation, Pending, Positioning, Rejected,
    Request, RotationSpeed, Scheduler, Seed, Status,
};

use super::electronics::{Electronics, Served};
use super::layout::Layout;
use super::mechanism::Mechanism;
use super::params::DiskParameters;
use crate::error::{ParameterError, check};

/// A rotating disk.
pub struct Disk {
    capabilities: Arc<Capabilities>,
    heads: Heads,
    queue: Box<dyn Scheduler>,
    /// Served commands whose completion has not been fetched, by completion time.
    serving: Vec<Completion>,
    /// Time at which the next command may begin.
    free: Instant,
}

/// The mechanism and electronics that the drive's own scheduler consults.
#[derive(Clone)]
struct Heads {
    mechanism: Arc<Mechanism>,
    electronics: Electronics,
    cylinders: u32,
}

impl Disk {
    /// A disk with those parameters; `name` begins the names of its random streams.
    ///
    /// # Errors
    /// Parameters that no disk can have.
    pub fn new(parameters: &DiskParameters, seed: Seed, name: &str) -> Result<Self, ParameterError> {
        let layout = Layout::new(&parameters.geometry).map_err(|error| error.within("geometry"))?;
        let cylinders = parameters.geometry.cylinders();
        parameters.mechanics.check()?;
        let speed = drawn_speed(parameters, seed, name);
        let mechanism = Mechanism::new(layout, cylinders, &parameters.mechanics, speed)?;
        check(parameters.queue.depth >= 1, "queue.depth", "0", "at least 1 command")?;
        let capabilities = Capabilities {
            capacity_blocks: parameters.geometry.capacity_blocks,
            block_size: parameters.geometry.block_size,
            queue_depth: parameters.queue.depth,
            volatile_write_cache: parameters.electronics.volatile_write_cache(),
            rotational: true,
        };
        let electronics = Electronics::new(parameters)?;
        let queue = parameters.queue.scheduler.build(capabilities.capacity_blocks, u64::from(cylinders));
        Ok(Self {
            capabilities: Arc::new(capabilities),
            heads: Heads { mechanism: Arc::new(mechanism), electronics, cylinders },
            queue,
            serving: Vec::with_capacity(4),
            free: Instant::ZERO,
        })
    }

    /// The mechanics of the disk.
    pub fn mechanism(&self) -> &Mechanism {
        &self.heads.mechanism
    }

    fn serve_next(&mut self, now: Instant) {
        let Some(pending) = self.queue.choose(now, Some(&self.heads)) else { return };
        let Pending { request, submitted, queue_length, .. } = pending;
        let Served { completed, free, mut breakdown, buffer, seek_cylinders } =
            self.heads.electronics.serve(&self.heads.mechanism, now, &request);
        debug_assert_eq!(breakdown.service(), completed - now, "{request:?} {breakdown:?}");
        breakdown.queue = now - submitted;
        self.free = free;
        let completion = Completion {
            request,
            submitted,
            issued: submitted,
            started: now,
            completed,
            breakdown,
            status: Status::Ok,
            buffer,
            seek_cylinders,
            queue_length,
        };
        let place = self.serving.partition_point(|other| other.completed <= completed);
        self.serving.insert(place, completion);
    }
}

/// The speed of this drive: the nominal one, off by up to its error.
fn drawn_speed(parameters: &DiskParameters, seed: Seed, name: &str) -> RotationSpeed {
    let error = parameters.mechanics.rpm_error.as_f64();
    if error == 0.0 {
        return parameters.mechanics.rpm;
    }
    let draw = seed.stream(&format!("{name}.rpm_error")).unit() * 2.0 - 1.0;
    let micro_rpm = parameters.mechanics.rpm.as_micro_rpm() as f64 * (1.0 + draw * error);
    RotationSpeed::from_micro_rpm(micro_rpm.round() as u64)
}

impl Device for Disk {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        self.capabilities.check(&request)?;
        let held = self.serving.len() + self.queue.len();
        let queue_depth = self.capabilities.queue_depth;
        if held >= queue_depth as usize {
            return Err(Rejected::QueueFull { queue_depth });
        }
        let location =
            if self.queue.needs_positioning() { self.heads.locate(&request) } else { Location::default() };
        self.queue.push(Pending { request, submitted: now, queue_length: held as u32, location });
        if self.free <= now {
            self.serve_next(now);
        }
        Ok(())
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        while let Some(event) = self.next_event().filter(|event| *event <= now) {
            if self.serving.first().is_some_and(|first| first.completed <= event) {
                completions.push(self.serving.remove(0));
            } else {
                self.serve_next(event);
            }
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let completion = self.serving.first().map(|first| first.completed);
        if self.queue.is_empty() {
            return completion;
        }
        Some(completion.map_or(self.free, |completion| completion.min(self.free)))
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        Some(&self.heads)
    }

    fn fork(&self) -> Box<dyn Device> {
        Box::new(Self {
            capabilities: Arc::clone(&self.capabilities),
            heads: self.heads.clone(),
            queue: self.queue.fork(),
            serving: self.serving.clone(),
            free: self.free,
        })
    }

    fn fork_into(&self, target: &mut Box<dyn Device>) {
        match target.as_any_mut().downcast_mut::<Self>() {
            Some(target) => {
                target.capabilities.clone_from(&self.capabilities);
                target.heads.mechanism.clone_from(&self.heads.mechanism);
                target.heads.electronics.clone_from(&self.heads.electronics);
                target.heads.cylinders = self.heads.cylinders;
                self.queue.fork_into(&mut target.queue);
                target.serving.clone_from(&self.serving);
                target.free = self.free;
            }
            None => *target = self.fork(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Positioning for Heads {
    fn locate(&self, request: &Request) -> Location {
        if request.op.addresses_blocks() {
            self.mechanism.locate(request.lbn)
        } else {
            Location { cylinder: self.cylinder(), ..Location::default() }
        }
    }

    fn positioning_time(&self, now: Instant, op: Operation, location: &Location) -> Duration {
        let begin = self.electronics.arm_moves_at(now, op);
        self.mechanism.positioning(self.electronics.arm(), begin, location, op != Operation::Read)
    }

    fn buffer_holds(&self, request: &Request) -> bool {
        self.electronics.holds(&self.mechanism, request)
    }

    fn positioning_floor(&self, cylinders: u32) -> Duration {
        self.mechanism.positioning_floor(cylinders)
    }

    fn cylinders(&self) -> u32 {
        self.cylinders
    }

    fn cylinder(&self) -> u32 {
        self.electronics.arm().cylinder
    }
}
