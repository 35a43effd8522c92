//! Tests that every device keeps the contract of [`Device`].
//!
//! Every device of the catalog and its bare mechanics, a saved clone of every kind that the catalog has not, behind every scheduler, with every scheduler inside
//! the drive, two beside each other, a queue behind a queue, and limits before all; each under random mixes of all
//! operations, sizes and gaps.

use std::collections::BTreeMap;

use crate::clones::{clones, of_every_kind};
use crate::drives::{bare, device, disks, parameters};
use crate::durability;
use crate::layouts::sampled_disks;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use seeklab_core::{
    Arrival, Completion, Criticality, Device, Duration, Event, FaultSet, Instant, Limits, Operation,
    Rejected, Request, Seed, Workload, simulate,
};
use seeklab_devices::catalog;
use seeklab_devices::layer::queue_before;
use seeklab_devices::layer::{Bank, Limit, Queue};
use seeklab_devices::limit::{Buckets, Limited, TokenBucket};
use seeklab_devices::scheduler::SCHEDULERS;

// ---- Random loads.

/// A request before it is fitted to a device.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    gap: Duration,
    op: Operation,
    fua: bool,
    /// Place: a share of the device, or behind the end of the request before.
    place: Option<f64>,
    /// A share of two tracks.
    size: f64,
    device: u16,
    criticality: Criticality,
}

/// Requests, and the polls, the changes of class and the fork during the run.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    drafts: Vec<Draft>,
    /// Polls between the events, as gaps between them.
    pub(crate) polls: Vec<Duration>,
    /// Number of the arrival at which the device is forked.
    pub(crate) fork_at: usize,
    /// Number of a request, time after its arrival, and class from then on.
    pub(crate) changes: Vec<(usize, Duration, Criticality)>,
}

fn gap() -> impl Strategy<Value = Duration> {
    // Together, in a busy drive, and with pauses in which read-ahead and destaging end.
    prop_oneof![Just(0), 0..2_000_000u64, 0..50_000_000u64].prop_map(Duration::from_ns)
}

fn draft() -> impl Strategy<Value = Draft> {
    let op = prop_oneof![
        4 => Just(Operation::Read),
        4 => Just(Operation::Write),
        1 => Just(Operation::Flush),
        1 => Just(Operation::Discard),
        1 => Just(Operation::WriteZeroes),
    ];
    let place = prop_oneof![
        3 => Just(None),
        // A few places, for hits and overlaps.
        2 => (0..4u8).prop_map(|place| Some(f64::from(place) / 3.0)),
        3 => (0.0..1.0f64).prop_map(Some),
    ];
    let size = prop_oneof![Just(0.0), 0.0..0.1f64, 0.0..1.0f64];
    let criticality = prop::sample::select(Criticality::ALL.to_vec());
    (gap(), op, prop::bool::weighted(0.1), place, size, 0..2u16, criticality).prop_map(
        |(gap, op, fua, place, size, device, criticality)| Draft {
            gap,
            op,
            fua,
            place,
            size,
            device,
            criticality,
        },
    )
}

fn load() -> impl Strategy<Value = Load> {
    let change = (0..50usize, gap(), prop::sample::select(Criticality::ALL.to_vec()));
    (vec(draft(), 1..50), vec(gap(), 1..100), 0..50usize, vec(change, 0..60))
        .prop_map(|(drafts, polls, fork_at, changes)| Load { drafts, polls, fork_at, changes })
}

impl Load {
    fn arrivals(&self, capacity_blocks: u64, track_blocks: u32) -> Vec<(Instant, Request)> {
        let mut time = Instant::ZERO;
        let mut end = 0;
        let fit = |(id, draft): (usize, &Draft)| {
            time += draft.gap;
            let most = f64::from(2 * track_blocks - 1);
            let blocks = (1 + (draft.size * most) as u32).min(capacity_blocks as u32);
            let free = capacity_blocks - u64::from(blocks);
            let lbn = draft.place.map_or(end, |share| (share * free as f64) as u64).min(free);
            end = lbn + u64::from(blocks);
            let request = Request {
                fua: draft.fua,
                device: draft.device,
                criticality: draft.criticality,
                ..Request::new(id as u64, draft.op, lbn, blocks)
            };
            (time, request)
        };
        self.drafts.iter().enumerate().map(fit).collect()
    }
}

// ---- Ways to drive a device.

/// Run of a device from event to event according to the contract: the accepted requests, and the
/// completions.
///
/// Requests that are rejected because the queue is full are dropped. The rejections must be equal in
/// every run.
struct Run {
    accepted: Vec<(Instant, Request)>,
    completions: Vec<Completion>,
}

/// Polls of a run between arrivals.
#[derive(Debug, Clone, Copy)]
enum Steps<'a> {
    /// At every event, as `simulate()` does.
    Events,
    /// At every event, and in between as long as there are gaps.
    Small(&'a [Duration]),
    /// Once before every arrival, and once at the end of time.
    Big,
}

fn drive(device: &mut dyn Device, arrivals: &[(Instant, Request)], steps: Steps) -> Run {
    let mut run = Run { accepted: Vec::new(), completions: Vec::new() };
    let mut now = Instant::ZERO;
    let mut polls = match steps {
        Steps::Small(gaps) => gaps.iter(),
        Steps::Events | Steps::Big => [].iter(),
    };
    let mut arrivals = arrivals.iter().peekable();
    loop {
        let arrival = arrivals.peek().map(|(time, _)| *time);
        let event = device.next_event();
        assert!(event.is_none_or(|event| event >= now), "an event at {event:?} lies before {now}");
        let outstanding = run.accepted.len() > run.completions.len();
        let polled_late = matches!(steps, Steps::Big);
        assert!(polled_late || event.is_some() == outstanding, "{event:?}, outstanding: {outstanding}");
        let next = match (arrival, event, steps) {
            (None, None, _) => return run,
            (None, Some(_), Steps::Big) => Instant::from_ns(u64::MAX / 2),
            (Some(arrival), _, Steps::Big) => arrival,
            (arrival, event, _) => arrival.unwrap_or(Instant::MAX).min(event.unwrap_or(Instant::MAX)),
        };
        // Polls at other times than events change nothing.
        if let Some(gap) = polls.next() {
            let between = (now + *gap).min(next);
            device.poll(between, &mut run.completions);
            now = between;
            if between < next {
                continue;
            }
        }
        now = next;
        device.poll(now, &mut run.completions);
        let the_end = arrival.is_none() && polled_late;
        assert!(!the_end || device.next_event().is_none(), "polled to the end of time, it wants more");
        while let Some((_, request)) = arrivals.next_if(|(time, _)| *time == now) {
            match device.submit(now, *request) {
                Ok(()) => run.accepted.push((now, *request)),
                Err(Rejected::QueueFull { .. }) => {}
                Err(rejected) => panic!("{request:?}: {rejected}"),
            }
        }
    }
}

/// Polls at `time` unless that is done: requests of one time arrive together, as under `simulate()`.
fn poll_once(
    device: &mut dyn Device,
    time: Instant,
    now: &mut Option<Instant>,
    completions: &mut Vec<Completion>,
) {
    if *now != Some(time) {
        device.poll(time, completions);
        *now = Some(time);
    }
}

/// A workload that submits what a run accepted, when it did.
struct Replayed<'a> {
    requests: std::iter::Peekable<std::slice::Iter<'a, (Instant, Request)>>,
}

impl Workload for Replayed<'_> {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        match self.requests.peek() {
            None => Arrival::Finished,
            Some((time, _)) if *time > now => Arrival::At(*time),
            Some((_, request)) => {
                self.requests.next();
                Arrival::Request(*request)
            }
        }
    }
    fn completed(&mut self, _completion: &Completion) {}
}

// ---- The contract.

/// A device under test; forks of it are driven.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) device: Box<dyn Device>,
    track_blocks: u32,
    /// Devices beside each other, which share no order of service.
    devices: u16,
}

impl Subject {
    /// Faults by which a request that is answered well promises nothing.
    fn lies(&self) -> FaultSet {
        let names = self.device.faults().into_iter().enumerate();
        let lies = names.filter(|(_, name)| ["lost_flush", "ignored_fua"].contains(&&**name));
        lies.fold(FaultSet::NONE, |lies, (number, _)| lies.with(number))
    }

    fn arrivals(&self, load: &Load) -> Vec<(Instant, Request)> {
        let mut arrivals = load.arrivals(self.device.capabilities().capacity_blocks, self.track_blocks);
        arrivals.iter_mut().for_each(|(_, request)| request.device %= self.devices);
        arrivals
    }

    fn run(&self, arrivals: &[(Instant, Request)], steps: Steps) -> Run {
        drive(&mut *self.device.fork(), arrivals, steps)
    }

    fn check(&self, load: &Load) -> Result<(), TestCaseError> {
        let arrivals = self.arrivals(load);
        let run = self.run(&arrivals, Steps::Events);
        self.check_completions(&run)?;
        let same = |other: &[Completion], how: &str| {
            let differs = |index: &usize| run.completions.get(*index) != other.get(*index);
            let first = (0..run.completions.len().max(other.len())).find(differs).map(|index| {
                format!(
                    "completion {index}: {:?}\nagainst {:?}",
                    run.completions.get(index),
                    other.get(index)
                )
            });
            prop_assert!(first.is_none(), "{}: {how}: {}", self.name, first.unwrap_or_default());
            Ok(())
        };
        same(&self.run(&arrivals, Steps::Events).completions, "driven again")?;
        same(&self.run(&arrivals, Steps::Small(&load.polls)).completions, "in small steps")?;
        same(&self.run(&arrivals, Steps::Big).completions, "in big steps")?;
        same(&self.simulated(&run.accepted), "driven by simulate()")?;
        same(&self.run(&arrivals, Steps::Events).completions, "after others")?;
        same(&self.with_rejections(&arrivals), "with requests that are rejected between")?;
        for (into, how) in [(false, "forked"), (true, "forked into another")] {
            let (original, fork) = self.forked(&arrivals, load.fork_at, into);
            same(&original, &format!("{how}, the original"))?;
            same(&fork, &format!("{how}, the fork"))?;
        }
        self.check_reclassifications(load, &arrivals, &run.completions)?;
        self.check_events(load, &arrivals, &run, same)
    }

    /// Taking events changes no completion, when they are taken changes no event, and they keep what was promised.
    fn check_events(
        &self,
        load: &Load,
        arrivals: &[(Instant, Request)],
        run: &Run,
        same: impl Fn(&[Completion], &str) -> Result<(), TestCaseError>,
    ) -> Result<(), TestCaseError> {
        let (completions, at_once) = self.watched(arrivals, &[], load.fork_at, false);
        same(&completions, "watched")?;
        let name = &self.name;
        durability::check_but(self.device.capabilities(), &run.completions, &at_once, self.lies())
            .map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
        let (completions, little_by_little) = self.watched(arrivals, &load.polls, load.fork_at, false);
        same(&completions, "with its events taken in between")?;
        let (completions, forked) = self.watched(arrivals, &load.polls, load.fork_at, true);
        same(&completions, "watched and forked")?;
        for (other, how) in [(little_by_little, "taken in between"), (forked, "of a fork")] {
            let first = (0..at_once.len().max(other.len())).find(|at| at_once.get(*at) != other.get(*at));
            prop_assert!(
                first.is_none(),
                "{name}: events {how}: {:?} against {:?}",
                first.and_then(|first| at_once.get(first)),
                first.and_then(|first| other.get(first))
            );
        }
        Ok(())
    }

    /// Completions and events of a watched device. Events are taken that long after some of the arrivals, if no other
    /// arrival comes before.
    fn watched(
        &self,
        arrivals: &[(Instant, Request)],
        taken: &[Duration],
        fork_at: usize,
        forks: bool,
    ) -> (Vec<Completion>, Vec<Event>) {
        let (mut completions, mut events) = (Vec::new(), Vec::new());
        let mut device = self.device.fork();
        device.watch();
        let mut now = None;
        for (index, (time, request)) in arrivals.iter().enumerate() {
            poll_once(&mut *device, *time, &mut now, &mut completions);
            let _ = device.submit(*time, *request);
            let next = arrivals.get(index + 1).map_or(Instant::MAX, |(next, _)| *next);
            if let Some(wait) = taken.get(index).filter(|wait| *time + **wait < next) {
                device.poll(*time + *wait, &mut completions);
                device.events(*time + *wait, &mut events);
            }
            if forks && index == fork_at {
                device = device.fork();
            }
        }
        while let Some(event) = device.next_event() {
            device.poll(event, &mut completions);
        }
        // Time to write what waits.
        let end = completions.last().map_or(Instant::ZERO, |last| last.completed);
        device.events(end + Duration::from_s(10), &mut events);
        (completions, events)
    }

    fn check_completions(&self, run: &Run) -> Result<(), TestCaseError> {
        let name = &self.name;
        prop_assert_eq!(run.accepted.len(), run.completions.len(), "{}: each completes once", name);
        let mut accepted: BTreeMap<u64, (Instant, Request)> =
            run.accepted.iter().map(|(time, request)| (request.id.0, (*time, *request))).collect();
        let mut last = Instant::ZERO;
        for completion in &run.completions {
            let (submitted, request) = accepted.remove(&completion.request.id.0).ok_or_else(|| {
                TestCaseError::fail(format!("{name}: completed again or never asked: {completion:?}"))
            })?;
            prop_assert_eq!(completion.request, request, "{}", name);
            prop_assert_eq!(completion.submitted, submitted, "{}", name);
            let times = [completion.submitted, completion.issued, completion.started, completion.completed];
            prop_assert!(times.is_sorted(), "{name}: {completion:?}");
            prop_assert_eq!(completion.breakdown.total(), completion.response_time(), "{}", name);
            prop_assert_eq!(completion.breakdown.queue, completion.started - submitted, "{}", name);
            prop_assert!(completion.completed >= last, "{name}: out of order: {completion:?}");
            last = completion.completed;
        }
        Ok(())
    }

    fn simulated(&self, accepted: &[(Instant, Request)]) -> Vec<Completion> {
        let mut completions = Vec::new();
        let mut workload = Replayed { requests: accepted.iter().peekable() };
        simulate(&mut workload, &mut *self.device.fork(), Limits::default(), |completion| {
            completions.push(*completion);
        })
        .unwrap();
        completions
    }

    /// With requests between that no device takes: beyond its end, of no blocks, too many at a time.
    fn with_rejections(&self, arrivals: &[(Instant, Request)]) -> Vec<Completion> {
        let mut device = self.device.fork();
        let capabilities = device.capabilities().clone();
        let capacity_blocks = capabilities.capacity_blocks;
        let mut run = Run { accepted: Vec::new(), completions: Vec::new() };
        let mut now = None;
        for (time, request) in arrivals {
            poll_once(&mut *device, *time, &mut now, &mut run.completions);
            let number = 1_000_000 + request.id.0;
            let beyond = Request {
                device: request.device,
                ..Request::new(number, Operation::Read, capacity_blocks, 1)
            };
            let across = Request { lbn: capacity_blocks - 1, blocks: 2, op: Operation::Write, ..beyond };
            let overflowing = Request { lbn: u64::MAX, blocks: u32::MAX, ..beyond };
            let empty = Request { lbn: 0, blocks: 0, ..beyond };
            for wrong in [beyond, across, overflowing] {
                let rejected = device.submit(*time, wrong);
                assert!(matches!(rejected, Err(Rejected::OutOfRange { .. })), "{}: {rejected:?}", self.name);
            }
            let rejected = device.submit(*time, empty);
            assert!(matches!(rejected, Err(Rejected::Empty { .. })), "{}: {rejected:?}", self.name);
            match device.submit(*time, *request) {
                Ok(()) => run.accepted.push((*time, *request)),
                Err(Rejected::QueueFull { queue_depth }) => {
                    let held = run.accepted.iter().filter(|(_, held)| held.device == request.device).count()
                        - run.completions.iter().filter(|c| c.request.device == request.device).count();
                    assert_eq!(held, queue_depth as usize, "{}: full with {held}", self.name);
                }
                Err(rejected) => panic!("{}: {request:?}: {rejected}", self.name),
            }
        }
        while let Some(event) = device.next_event() {
            device.poll(event, &mut run.completions);
        }
        run.completions
    }

    /// Forks before one arrival; what the original and the fork complete, each with what came before.
    fn forked(
        &self,
        arrivals: &[(Instant, Request)],
        fork_at: usize,
        into: bool,
    ) -> (Vec<Completion>, Vec<Completion>) {
        let fork_at = fork_at.min(arrivals.len() - 1);
        let (before, after) = arrivals.split_at(fork_at);
        let mut device = self.device.fork();
        let mut original = Vec::new();
        let mut now = None;
        for (time, request) in before {
            poll_once(&mut *device, *time, &mut now, &mut original);
            let _ = device.submit(*time, *request);
        }
        let mut fork = if into {
            // A fork with a past of its own, which must leave no trace.
            let mut fork = self.device.fork();
            drive(&mut *fork, after, Steps::Events);
            let (time, request) = after[0];
            let _ = fork.submit(time + Duration::from_s(100), request);
            device.fork_into(&mut fork);
            fork
        } else {
            device.fork()
        };
        let mut forked = original.clone();
        for (device, completions) in [(&mut device, &mut original), (&mut fork, &mut forked)] {
            let mut now = now;
            for (time, request) in after {
                poll_once(&mut **device, *time, &mut now, completions);
                let _ = device.submit(*time, *request);
            }
            while let Some(event) = device.next_event() {
                device.poll(event, completions);
            }
        }
        (original, forked)
    }
}

pub(crate) fn check_all(subjects: impl IntoIterator<Item = Subject>, cases: u32) {
    let mut count = 0;
    for subject in subjects {
        // One seed for every subject: a failure is repeated by running the test again.
        let config = Config {
            cases,
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(19_710 + count),
            ..Config::default()
        };
        TestRunner::new(config)
            .run(&load(), |load| subject.check(&load))
            .unwrap_or_else(|error| panic!("{}: {error}", subject.name));
        count += 1;
    }
    println!("{count} devices, {cases} loads each");
    assert!(count > 0);
}

// ---- The subjects.

pub(crate) fn subject(name: String, device: Box<dyn Device>, track_blocks: u32) -> Subject {
    Subject { name, device, track_blocks, devices: 1 }
}

pub(crate) fn built(name: &str, overrides: &[(&str, &str)]) -> Box<dyn Device> {
    device(name, overrides).build(Seed(1), "disk0").unwrap()
}

/// Sectors on the longest track, or some number for what has none.
pub(crate) fn track_blocks(name: &str) -> u32 {
    if !disks().any(|disk| disk == name) {
        return 100;
    }
    let zones = parameters(&device(name, &[])).geometry.zones;
    zones.iter().map(|zone| zone.sectors_per_track).max().unwrap()
}

/// Every scheduler, and its form ordered by cylinder.
pub(crate) fn schedulers() -> Vec<String> {
    SCHEDULERS
        .iter()
        .flat_map(|kind| {
            let by_cylinder = kind.by_cylinder.then(|| format!("{}-cylinder", kind.name));
            std::iter::once(kind.name.to_owned()).chain(by_cylinder)
        })
        .collect()
}

pub(crate) fn queue(device: Box<dyn Device>, scheduler: &str, depth: usize) -> Queue {
    queue_before(device, &scheduler.parse().unwrap(), depth).unwrap()
}

#[test]
fn every_device_keeps_the_contract() {
    check_all(
        catalog::names().flat_map(|name| {
            let track_blocks = track_blocks(name);
            let bare = bare(name, &[]).build(Seed(1), "disk0").unwrap();
            [
                subject(name.to_owned(), built(name, &[]), track_blocks),
                subject(format!("{name} (bare)"), bare, track_blocks),
            ]
        }),
        200,
    );
}

#[test]
fn disks_of_random_layouts_keep_the_contract() {
    // One drive for each controller with a buffer.
    let disks = ["hp-c2247a", "atlas10k", "cheetah9lp"].into_iter().flat_map(sampled_disks);
    check_all(disks.map(|(name, disk)| subject(name, Box::new(disk), 25)), 12);
}

#[test]
fn saved_clones_keep_the_contract() {
    check_all(
        clones().into_iter().map(|description| {
            subject(description.name.clone(), description.build(Seed(1), "disk0").unwrap(), 100)
        }),
        200,
    );
}

/// A layer tells how many requests it held at an arrival, not how many the device beneath it did.
#[test]
fn queue_length_counts_the_requests_of_the_whole_stack() {
    for description in of_every_kind() {
        let mut device = queue(description.build(Seed(1), "disk0").unwrap(), "fcfs", 1);
        let mut completions = Vec::new();
        for id in 0..20 {
            device.submit(Instant::ZERO, Request::new(id, Operation::Read, 100 * id, 8)).unwrap();
        }
        while let Some(event) = device.next_event() {
            device.poll(event, &mut completions);
        }
        completions.sort_by_key(|completion| completion.request.id);
        let lengths: Vec<u32> = completions.iter().map(|completion| completion.queue_length).collect();
        assert_eq!(lengths, (0..20).collect::<Vec<u32>>(), "{}", description.name);
    }
}

#[test]
fn every_host_queue_keeps_the_contract() {
    check_all(
        catalog::names().flat_map(|name| {
            let knows_heads = built(name, &[]).positioning().is_some();
            let track_blocks = track_blocks(name);
            schedulers().into_iter().filter(move |scheduler| knows_heads || !needs_heads(scheduler)).flat_map(
                move |scheduler| {
                    let device = built(name, &[]);
                    let most = device.capabilities().queue_depth.min(4) as usize;
                    let deep = (most > 1).then(|| {
                        let device = queue(device.fork(), &scheduler, most);
                        subject(
                            format!("{name} behind {scheduler}, depth {most}"),
                            Box::new(device),
                            track_blocks,
                        )
                    });
                    let device = queue(device, &scheduler, 1);
                    let shallow =
                        subject(format!("{name} behind {scheduler}"), Box::new(device), track_blocks);
                    std::iter::once(shallow).chain(deep)
                },
            )
        }),
        20,
    );
}

fn needs_heads(scheduler: &str) -> bool {
    scheduler.contains("sptf") || scheduler.contains("spctf") || scheduler.contains("cylinder")
}

#[test]
fn every_queue_inside_a_drive_keeps_the_contract() {
    check_all(
        disks().flat_map(|name| {
            let track_blocks = track_blocks(name);
            schedulers().into_iter().map(move |scheduler| {
                let device = built(name, &[("queue.depth", "8"), ("queue.scheduler", &scheduler)]);
                subject(format!("{name} with {scheduler} inside, depth 8"), device, track_blocks)
            })
        }),
        20,
    );
}

#[test]
fn host_queue_before_a_drive_queue_keeps_the_contract() {
    check_all(
        disks().map(|name| {
            let device = built(name, &[("queue.depth", "8"), ("queue.scheduler", "sptf")]);
            let device = queue(device, "c-look", 5);
            subject(format!("{name} with sptf inside, behind c-look"), Box::new(device), track_blocks(name))
        }),
        60,
    );
}

#[test]
fn two_devices_side_by_side_keep_the_contract() {
    check_all(
        catalog::names().map(|name| {
            let one = || Box::new(queue(built(name, &[]), "fcfs", 1)) as Box<dyn Device>;
            let bank = Bank::new(vec![one(), one()]);
            let subject = subject(format!("two {name}"), Box::new(bank), track_blocks(name));
            Subject { devices: 2, ..subject }
        }),
        60,
    );
}

#[test]
fn queue_behind_a_queue_keeps_the_contract() {
    check_all(
        catalog::names().map(|name| {
            let inner = queue(built(name, &[]), "c-look", 1);
            let outer = queue(Box::new(inner), "fcfs", 3);
            subject(format!("{name} behind c-look behind fcfs"), Box::new(outer), track_blocks(name))
        }),
        60,
    );
}

/// Tight enough that most of a load waits, and that some of it finds the buckets full.
pub(crate) fn limited(device: Box<dyn Device>, of: Limited) -> Box<dyn Device> {
    let buckets = Buckets {
        requests: vec![
            TokenBucket::of_requests("300/s".parse().unwrap(), 3),
            TokenBucket::of_requests("100/s".parse().unwrap(), 20).with_used(5),
        ],
        bytes: vec![TokenBucket::of_bytes("4MB/s".parse().unwrap(), 50_000)],
    };
    Box::new(Limit::new(device, of, buckets))
}

#[test]
fn limits_before_a_device_keep_the_contract() {
    check_all(
        catalog::names().flat_map(|name| {
            let track_blocks = track_blocks(name);
            let each_apart = limited(limited(built(name, &[]), Limited::Reads), Limited::Writes);
            [
                subject(format!("{name} limited"), limited(built(name, &[]), Limited::All), track_blocks),
                subject(format!("{name} limited in reads and in writes"), each_apart, track_blocks),
            ]
        }),
        60,
    );
}

/// A device that does not exist is rejected, and nothing changes.
#[test]
fn request_to_a_missing_device_is_rejected() {
    let mut bank = Bank::new(vec![built("constant", &[]), built("constant", &[])]);
    let request = Request { device: 2, ..Request::new(0, Operation::Read, 0, 1) };
    let rejected = bank.submit(Instant::ZERO, request).unwrap_err();
    assert_eq!(rejected, Rejected::NoSuchDevice { device: 2, devices: 2 });
    assert_eq!(bank.next_event(), None);
}

/// Equal seeds give equal devices, built anew from the text, and other seeds others where chance plays.
#[test]
fn same_seed_gives_the_same_completions() {
    for description in of_every_kind() {
        let name = &description.name;
        let capacity_blocks = description.build(Seed(1), "disk0").unwrap().capabilities().capacity_blocks;
        let completions = |seed| {
            let device = description.build(Seed(seed), "disk0").unwrap();
            let mut device = queue(device, "fcfs", 1);
            let mut stream = Seed(5).stream("contract.address");
            let arrivals: Vec<(Instant, Request)> = (0..200)
                .map(|id| {
                    let op = if id % 3 == 0 { Operation::Write } else { Operation::Read };
                    let request = Request::new(id, op, stream.below(capacity_blocks - 8), 8);
                    (Instant::from_ns(id * 10_000_000), request)
                })
                .collect();
            drive(&mut device, &arrivals, Steps::Events).completions
        };
        assert_eq!(completions(1), completions(1), "{name}");
        if ["exponential", "station", "servers", "table", "limited station"].contains(&name.as_str()) {
            assert_ne!(completions(1), completions(2), "{name}");
        }
    }
}
