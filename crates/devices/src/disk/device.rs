//! The disk as a device: its command queue in front of its electronics.

use std::any::Any;
use std::sync::Arc;

use seeklab_core::description::schema::check_ranges;
use seeklab_core::{
    Capabilities, Completion, Criticality, Device, Duration, Event, FaultSet, Hazards, Instant, Location,
    Operation, Outcome, Pending, Positioning, Ratio, Reclassification, Rejected, Request, RotationSpeed,
    Scheduler, Seed, Tearing,
};

use super::buffer_law;
use super::electronics::{Electronics, ElectronicsParameters, Served};
use super::law;
use super::layout::Layout;
use super::mechanics::Media;
use super::mechanism::{Arm, Mechanism};
use super::params::{DiskParameters, MechanicsParameters};
use super::watched::Watch;
use crate::durability::ByCompletion;
use crate::error::DescriptionError;
use crate::power_loss::{CacheProtection, FlushEffect};
use crate::scheduler::SchedulerSpec;
use crate::service_law::{Demand, ServiceLaw, WriteBuffer};

/// A rotating disk.
pub struct Disk {
    capabilities: Arc<Capabilities>,
    heads: Heads,
    queue: Box<dyn Scheduler>,
    /// Served commands whose completion has not been fetched, by completion time.
    serving: Vec<Completion>,
    /// Time at which the next command may begin.
    free: Instant,
    /// State of the written blocks, if the disk is watched.
    watch: Option<Box<Watch>>,
    /// Durability in a protected buffer, where completed writes are durable.
    buffered: ByCompletion,
    is_protected: bool,
    tearing: Tearing,
}

/// The mechanism and electronics that the drive's own scheduler consults.
#[derive(Clone)]
struct Heads {
    mechanism: Arc<Mechanism>,
    electronics: Electronics<Arm>,
    cylinders: u32,
    /// Flushes and force unit access have no effect.
    lies: bool,
}

/// The command that a disk carries out for a request if flushes and force unit access have no effect. Such a flush takes as
/// long as a discard of no blocks: the overhead of a command.
fn lying(request: &Request) -> Request {
    match request.op {
        Operation::Flush => Request { op: Operation::Discard, lbn: 0, blocks: 0, ..*request },
        _ => Request { fua: false, ..*request },
    }
}

/// The unchanging part of a disk, shared by all disks of one description.
#[derive(Debug)]
pub struct DiskBlueprint {
    capabilities: Arc<Capabilities>,
    mechanism: Arc<Mechanism>,
    /// Electronics that have served nothing yet.
    electronics: Electronics<Arm>,
    cylinders: u32,
    pub(super) scheduler: SchedulerSpec,
    electronics_parameters: ElectronicsParameters,
    rpm: RotationSpeed,
    rpm_error: Ratio,
    is_protected: bool,
    lies: bool,
    tearing: Tearing,
}

impl DiskBlueprint {
    /// Checks and prepares the parameters of a disk.
    ///
    /// # Errors
    /// Parameters that no disk can have.
    pub fn new(parameters: &DiskParameters) -> Result<Self, DescriptionError> {
        let layout = Layout::new(&parameters.geometry).map_err(|error| error.under("geometry"))?;
        let cylinders = parameters.geometry.cylinders();
        let MechanicsParameters { rpm, rpm_error, .. } = parameters.mechanics;
        let mechanism = Mechanism::new(layout, cylinders, &parameters.mechanics, rpm)?;
        check_ranges(&parameters.queue).map_err(|error| error.under("queue"))?;
        parameters.power_loss.check().map_err(|error| error.under("power_loss"))?;
        let is_protected = parameters.power_loss.cache == CacheProtection::Protected;
        let capabilities = Capabilities {
            capacity_blocks: parameters.geometry.capacity_blocks,
            block_size: parameters.geometry.block_size,
            queue_depth: parameters.queue.depth,
            volatile_write_cache: parameters.electronics.volatile_write_cache() && !is_protected,
            rotational: true,
        };
        Ok(Self {
            capabilities: Arc::new(capabilities),
            mechanism: Arc::new(mechanism),
            electronics: Electronics::new(parameters)?,
            cylinders,
            scheduler: parameters.queue.scheduler,
            electronics_parameters: parameters.electronics.clone(),
            rpm,
            rpm_error,
            is_protected,
            lies: parameters.power_loss.flush == FlushEffect::Lies,
            tearing: parameters.power_loss.tearing(parameters.geometry.block_size),
        })
    }

    /// Capabilities of the disk.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Whole tracks of the disk as `(first block, blocks)`.
    pub fn tracks(&self) -> Vec<(u64, u32)> {
        self.mechanism.layout().tracks(self.capabilities.capacity_blocks)
    }

    /// Service law for a demand; `None` if it has no formula.
    pub(crate) fn service_law(&self, demand: &Demand) -> Option<ServiceLaw> {
        law::service_law(self, demand)
    }

    /// Buffer of the writes of a demand; `None` if they go through to the media.
    pub(crate) fn write_buffer(&self, demand: &Demand) -> Option<WriteBuffer> {
        buffer_law::write_buffer(self, demand)
    }

    /// Parameters of the electronics.
    pub(super) const fn electronics_parameters(&self) -> &ElectronicsParameters {
        &self.electronics_parameters
    }

    /// Electronics that have served nothing yet, and the mechanism at its nominal speed.
    pub(super) fn idle(&self) -> (Electronics<Arm>, &Mechanism) {
        (self.electronics.clone(), &self.mechanism)
    }

    /// A disk; `name` begins the names of its random streams.
    pub fn build(&self, seed: Seed, name: &str) -> Disk {
        let speed = self.drawn_speed(seed, name);
        let mechanism = if speed == self.rpm {
            Arc::clone(&self.mechanism)
        } else {
            Arc::new(self.mechanism.at_speed(speed))
        };
        let blocks = self.capabilities.capacity_blocks;
        Disk {
            capabilities: Arc::clone(&self.capabilities),
            heads: Heads {
                mechanism,
                electronics: self.electronics.clone(),
                cylinders: self.cylinders,
                lies: self.lies,
            },
            queue: self.scheduler.build(blocks, u64::from(self.cylinders)),
            serving: Vec::new(),
            free: Instant::ZERO,
            watch: None,
            buffered: ByCompletion::new(),
            is_protected: self.is_protected,
            tearing: self.tearing,
        }
    }

    /// The speed of one drive: the nominal one, off by up to its error.
    fn drawn_speed(&self, seed: Seed, name: &str) -> RotationSpeed {
        let error = self.rpm_error.as_f64();
        if error == 0.0 {
            return self.rpm;
        }
        let draw = seed.stream(&format!("{name}.rpm_error")).unit() * 2.0 - 1.0;
        let micro_rpm = self.rpm.as_micro_rpm() as f64 * (1.0 + draw * error);
        RotationSpeed::from_micro_rpm(micro_rpm.round() as u64)
    }
}

impl Disk {
    /// A disk with those parameters; `name` begins the names of its random streams.
    ///
    /// # Errors
    /// Parameters that no disk can have.
    pub fn new(parameters: &DiskParameters, seed: Seed, name: &str) -> Result<Self, DescriptionError> {
        Ok(DiskBlueprint::new(parameters)?.build(seed, name))
    }

    /// The mechanics of the disk.
    pub fn mechanism(&self) -> &Mechanism {
        &self.heads.mechanism
    }

    fn serve_next(&mut self, now: Instant) {
        if self.queue.needs_positioning() {
            self.advance_heads(now);
        }
        let Some(pending) = self.queue.choose(now, Some(&self.heads)) else { return };
        let Pending { request, submitted, queue_length, .. } = pending;
        let lying = self.heads.lies.then(|| lying(&request));
        let command = lying.as_ref().unwrap_or(&request);
        let Heads { mechanism, electronics, .. } = &mut self.heads;
        let served = match &mut self.watch {
            None => electronics.serve(&**mechanism, now, command),
            Some(watch) => watch.serve(electronics, mechanism, now, command),
        };
        let Served { completed, free, mut breakdown, buffer, seek_cylinders } = served;
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
            outcome: Outcome::ok(&request),
            buffer,
            seek_cylinders,
            queue_length,
            faults: FaultSet::NONE,
        };
        let place = self.serving.partition_point(|other| other.completed <= completed);
        self.serving.insert(place, completion);
    }
}

impl Device for Disk {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        self.capabilities.check(&request)?;
        let held = self.serving.len() + self.queue.len();
        let queue_depth = self.capabilities.queue_depth;
        if held >= queue_depth as usize {
            return Err(Rejected::QueueFull { queue_depth });
        }
        let location = if self.queue.needs_positioning() {
            self.advance_heads_for_place(now, &request);
            self.heads.locate(&request)
        } else {
            Location::default()
        };
        self.queue.push(Pending { request, submitted: now, queue_length: held as u32, location });
        if self.free <= now {
            self.serve_next(now);
        }
        Ok(())
    }

    /// Changes the class of a request. Requests wait here for a command that is served, so a change brings none forward at once.
    fn reclassify(&mut self, _now: Instant, change: &Reclassification) -> Option<Criticality> {
        let mut serving = self.serving.iter_mut().map(|completion| &mut completion.request);
        match serving.find(|request| request.id == change.id) {
            Some(request) => request.reclassify(change.criticality),
            None => self.queue.reclassify(change.id, change.criticality),
        }
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let before = completions.len();
        while let Some(event) = self.next_event().filter(|event| *event <= now) {
            if self.serving.first().is_some_and(|first| first.completed <= event) {
                completions.push(self.serving.remove(0));
            } else {
                self.serve_next(event);
            }
        }
        self.buffered.note(&completions[before..]);
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

    fn advance_heads(&mut self, now: Instant) {
        let begin = now.max(self.free);
        let Heads { mechanism, electronics, .. } = &mut self.heads;
        match &mut self.watch {
            None => electronics.work_until(&**mechanism, begin),
            Some(watch) => watch.work_until(electronics, mechanism, begin),
        }
    }

    fn hazards(&self) -> Hazards {
        // A protected buffer has the whole write.
        Hazards { tearing: (!self.is_protected).then_some(self.tearing), ..Hazards::default() }
    }

    fn watch(&mut self) {
        assert!(self.free == Instant::ZERO, "a device is watched from the start");
        if self.is_protected {
            self.buffered.watch(&self.capabilities);
        } else {
            self.watch = Some(Box::new(Watch::new(&self.heads.electronics)));
        }
    }

    fn events(&mut self, now: Instant, events: &mut Vec<Event>) {
        if let Some(watch) = &mut self.watch {
            watch.hand_out(&self.heads.electronics, &self.heads.mechanism, now, events);
        }
        self.buffered.hand_out(now, events);
    }

    fn work_ends(&self) -> Option<Instant> {
        self.watch.as_ref()?.work_ends(&self.heads.electronics, &self.heads.mechanism)
    }

    fn fork(&self) -> Box<dyn Device> {
        Box::new(Self {
            capabilities: Arc::clone(&self.capabilities),
            heads: self.heads.clone(),
            queue: self.queue.fork(),
            serving: self.serving.clone(),
            free: self.free,
            watch: self.watch.clone(),
            buffered: self.buffered.clone(),
            is_protected: self.is_protected,
            tearing: self.tearing,
        })
    }

    fn fork_into(&self, target: &mut Box<dyn Device>) {
        match target.as_any_mut().downcast_mut::<Self>() {
            Some(target) => {
                target.capabilities.clone_from(&self.capabilities);
                target.heads.mechanism.clone_from(&self.heads.mechanism);
                target.heads.electronics.clone_from(&self.heads.electronics);
                target.heads.cylinders = self.heads.cylinders;
                target.heads.lies = self.heads.lies;
                self.queue.fork_into(&mut target.queue);
                target.serving.clone_from(&self.serving);
                target.free = self.free;
                target.watch.clone_from(&self.watch);
                target.buffered.clone_from(&self.buffered);
                target.is_protected = self.is_protected;
                target.tearing = self.tearing;
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
        let lying = self.lies.then(|| lying(request));
        self.electronics.holds(&*self.mechanism, lying.as_ref().unwrap_or(request))
    }

    fn buffer_lacks_room(&self, now: Instant, request: &Request) -> Option<Location> {
        let lying = self.lies.then(|| lying(request));
        let oldest = self.electronics.lacks_room(now, lying.as_ref().unwrap_or(request))?;
        Some(self.mechanism.locate(oldest))
    }

    fn positioning_min(&self, cylinders: u32) -> Duration {
        self.mechanism.positioning_min(cylinders)
    }

    fn cylinders(&self) -> u32 {
        self.cylinders
    }

    fn cylinder(&self) -> u32 {
        self.electronics.arm().cylinder
    }

    fn turn(&self) -> Option<Duration> {
        Some(self.mechanism.period())
    }
}
