//! Targets, workloads, and a listener that keeps everything, for all tests.

use std::collections::BTreeMap;
use std::ops::Range;

use seeklab_bench::target::{
    Ended, Opening, Polling, SharedEmulation, SharedModel, Target, TargetError, TargetFacts, TargetKind,
    TargetOptions, Transfer,
};
use seeklab_bench::{Interval, Lane, Listener, Measurement, Plan, Stream, StreamPlan, WriteData, measure};
use seeklab_core::{ByteSize, Device, Duration, Instant, Seed, Status, TraceRecord};
use seeklab_devices::layer::queue_before;
use seeklab_devices::scheduler::SchedulerSpec;
use seeklab_devices::{Description, catalog};
use seeklab_emulator::clock::{Clock, Pacing, Wait};
use seeklab_workloads::{AddressSpace, Supplied, Synthetic, SyntheticSpec};

/// Everything that a measurement says.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) rows: Vec<TraceRecord>,
    pub(crate) intervals: usize,
    pub(crate) stops_after_intervals: Option<usize>,
}

impl Listener for Heard {
    fn interval(&mut self, _: &Interval) {
        self.intervals += 1;
    }
    fn row(&mut self, record: &TraceRecord) {
        self.rows.push(*record);
    }
    fn is_stopped(&self) -> bool {
        self.stops_after_intervals.is_some_and(|intervals| self.intervals >= intervals)
    }
}

/// A plan in virtual time that records.
pub(crate) fn virtual_plan() -> Plan {
    Plan { record: true, is_virtual: true, ..Plan::default() }
}

/// A stream that takes any number of requests.
pub(crate) fn any_number() -> StreamPlan {
    StreamPlan { outstanding_max: 100_000, ..StreamPlan::default() }
}

/// A stream of at most so many requests at a time.
pub(crate) fn at_most(outstanding_max: u32) -> StreamPlan {
    StreamPlan { outstanding_max, ..StreamPlan::default() }
}

/// Options of a target that reads and writes.
pub(crate) fn options(outstanding_max: u32) -> TargetOptions {
    TargetOptions {
        outstanding_max,
        direct: true,
        polling: Polling::default(),
        prepared_bytes: 8 << 10,
        reads: true,
        writes: true,
        data: WriteData::default(),
        priority: None,
        seed: 1,
        pacing: Pacing::default(),
    }
}

/// Opens the target at `address`.
pub(crate) fn open(
    address: &str,
    clock: Clock,
    options: &TargetOptions,
) -> Result<Box<dyn Target>, TargetError> {
    let (kind, address) = TargetKind::of(address);
    (kind.open)(
        address,
        &Opening {
            clock,
            options,
            model: &|name| Err(format!("no {name}")),
            emulated: &|name| Err(format!("no {name}")),
            is_stopped: &|| false,
        },
    )
}

/// A device of the catalog with overrides, behind a queue that takes any number of requests.
pub(crate) fn device(name: &str, overrides: &[(&str, &str)]) -> Box<dyn Device> {
    let mut description = catalog::find(name).unwrap();
    overrides.iter().for_each(|(key, value)| description.set(key, value).unwrap());
    built(&description)
}

/// A described device behind a queue that takes any number of requests.
pub(crate) fn built(description: &Description) -> Box<dyn Device> {
    let device = description.build(Seed(1), "disk0").unwrap();
    match device.capabilities().queue_depth {
        u32::MAX => device,
        depth => Box::new(queue_before(device, &SchedulerSpec::FCFS, depth as usize).unwrap()),
    }
}

/// A model as a target.
pub(crate) fn model(device: Box<dyn Device>, options: &TargetOptions) -> Box<dyn Target> {
    join(&SharedModel::new("model:x".to_owned(), device), options)
}

/// A model as the target of one more thread.
pub(crate) fn join(model: &SharedModel, options: &TargetOptions) -> Box<dyn Target> {
    let kind = TargetKind::of("model:x").0;
    let opening = Opening {
        clock: Clock::start(),
        options,
        model: &|_| Ok(model.clone()),
        emulated: &|name| Err(format!("no {name}")),
        is_stopped: &|| false,
    };
    (kind.open)("x", &opening).unwrap()
}

/// An emulated device as the target of one more thread.
pub(crate) fn emulated(device: &SharedEmulation, options: &TargetOptions) -> Box<dyn Target> {
    let kind = TargetKind::of("emulate:x").0;
    let opening = Opening {
        clock: Clock::start(),
        options,
        model: &|name| Err(format!("no {name}")),
        emulated: &|_| Ok(device.clone()),
        is_stopped: &|| false,
    };
    (kind.open)("x", &opening).unwrap()
}

/// A synthetic workload for a space.
pub(crate) fn synthetic(line: &str, space: AddressSpace, seed: u64) -> Synthetic {
    let spec = SyntheticSpec::parse(line).unwrap();
    Synthetic::new(&spec, space, Seed(seed), Supplied::default()).unwrap()
}

/// Measures one target under a synthetic load.
pub(crate) fn run(
    plans: (&Plan, &StreamPlan),
    target: Box<dyn Target>,
    line: &str,
    seed: u64,
) -> (Measurement, Heard) {
    run_until(plans, target, line, seed, Heard::default())
}

/// As [`run`], with a listener.
pub(crate) fn run_until(
    (plan, stream): (&Plan, &StreamPlan),
    target: Box<dyn Target>,
    line: &str,
    seed: u64,
    mut heard: Heard,
) -> (Measurement, Heard) {
    let workload = synthetic(line, target.facts().space, seed);
    let streams = vec![Stream::new(stream.clone(), vec![Lane::new(target, workload)])];
    let measurement = measure(plan, Clock::start(), streams, &mut heard).unwrap();
    (measurement, heard)
}

/// A target in virtual time whose requests take a fixed time and end with the status that a rule gives them; those of
/// which the rule gives none never end.
pub(crate) struct Ruled<R> {
    facts: TargetFacts,
    now: Instant,
    service: Duration,
    /// Time by which it returns late from every wait.
    lag: Duration,
    rule: R,
    attempts: u64,
    attempts_max: u64,
    /// Time during which it takes no requests.
    away: Range<Instant>,
    under_way: BTreeMap<(Instant, u64), (u32, Status)>,
}

impl<R: FnMut(u64) -> Option<Status> + Send> Ruled<R> {
    /// The rule gets the number of each attempt, from zero.
    pub(crate) fn new(service: Duration, rule: R) -> Self {
        let space = AddressSpace { capacity_blocks: 1 << 20, block_size: ByteSize::from_bytes(512) };
        let facts = TargetFacts::new(space, 1 << 14);
        let under_way = BTreeMap::new();
        Self {
            facts,
            now: Instant::ZERO,
            service,
            lag: Duration::ZERO,
            rule,
            attempts: 0,
            attempts_max: u64::MAX,
            away: Instant::ZERO..Instant::ZERO,
            under_way,
        }
    }

    /// Every wait ends that much later than it should, as that of a thread without a processor.
    pub(crate) fn lagging(self, lag: Duration) -> Self {
        Self { lag, ..self }
    }

    /// It takes no requests during that time.
    pub(crate) fn away(self, away: Range<Instant>) -> Self {
        Self { away, ..self }
    }

    /// It takes no more requests after that many attempts.
    pub(crate) fn leaving_after(self, attempts: u64) -> Self {
        Self { attempts_max: attempts, ..self }
    }
}

impl<R: FnMut(u64) -> Option<Status> + Send> Target for Ruled<R> {
    fn facts(&self) -> &TargetFacts {
        &self.facts
    }
    fn now(&self) -> Instant {
        self.now
    }
    fn set_clock(&mut self, _: Clock) {}
    fn submit(&mut self, transfers: &[Transfer]) -> Result<(), TargetError> {
        for transfer in transfers {
            let number = self.attempts;
            self.attempts += 1;
            if let Some(status) = (self.rule)(number) {
                self.under_way.insert((self.now + self.service, number), (transfer.tag, status));
            }
        }
        Ok(())
    }
    fn poll(&mut self, wait: Wait, _: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError> {
        let event = self.under_way.keys().next().map(|(time, _)| *time);
        let (until, lag) = match wait {
            Wait::Until(until) => (until, self.lag),
            // Outside of virtual time. A look takes some time.
            Wait::Spin => (self.now + Duration::from_us(1), Duration::ZERO),
            Wait::Forever => panic!("there is always a next event"),
        };
        let until = if self.away.contains(&self.now) { until.min(self.away.end) } else { until };
        self.now = self.now.max(event.map_or(until, |event| event.min(until)) + lag);
        while let Some(first) = self.under_way.first_entry().filter(|first| first.key().0 <= self.now) {
            let completed = first.key().0;
            let (tag, status) = first.remove();
            ended.push(Ended { tag, completed, status, good_blocks: None });
        }
        Ok(())
    }
    fn is_ready(&self) -> bool {
        self.attempts < self.attempts_max && !self.away.contains(&self.now)
    }
}
