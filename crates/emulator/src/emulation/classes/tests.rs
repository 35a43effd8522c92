//! Classes of a scripted host, in virtual time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use seeklab_core::{
    ByteSize, ClassHistory, Device, Event, Limits, Seed, Simulation, Stream, TraceRecord, simulate,
};
use seeklab_devices::catalog;
use seeklab_devices::layer::queue_before;
use seeklab_workloads::replay::{Beyond, Mode as ReplayMode, Replay, Settings};

use super::super::tests::{BLOCK, Kept, tag};
use super::*;
use crate::clock::Clock;
use crate::frontend::{Action, Backend, Command, Frontend, Next};
use crate::pacer::{Mode, Options, Pacer};
use crate::store::Store;

const MODES: [Mode; 2] = [Mode::Rollback, Mode::Synchronous];

/// A host whose changes become known at given times.
#[derive(Clone, Default)]
struct Script {
    now: Arc<Mutex<Instant>>,
    /// Time from which a change is known, and the change.
    changes: Arc<Mutex<VecDeque<(Instant, ClassChange)>>>,
}

impl ClassSource for Script {
    fn poll(&mut self, changes: &mut Vec<ClassChange>) {
        let (now, mut waiting) = (*self.now.lock().unwrap(), self.changes.lock().unwrap());
        while waiting.front().is_some_and(|(known, _)| *known <= now) {
            changes.extend(waiting.pop_front().map(|(_, change)| change));
        }
    }

    fn class(&self, op: Operation, offset_bytes: u64, _: u64) -> Criticality {
        match op {
            Operation::Read if offset_bytes.is_multiple_of(3) => Criticality::TimeLimited,
            Operation::Flush => Criticality::TimeCritical,
            _ => Criticality::TimeNoncritical,
        }
    }
}

/// A disk that holds one request at a time, behind a queue that is ordered by class.
fn disk() -> Box<dyn Device> {
    let disk = catalog::find("hp-c2247a").unwrap().build(Seed(7), "disk0").unwrap();
    Box::new(queue_before(disk, &"criticality-c-look".parse().unwrap(), 1).unwrap())
}

/// An emulation in virtual time, with its records and, if they are wanted, the events of the model.
struct Bench {
    emulation: Emulation,
    frontend: Kept,
    script: Script,
    now: Instant,
    records: Arc<Mutex<Vec<TraceRecord>>>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Bench {
    fn new(mode: Mode, is_watched: bool) -> Self {
        let clock = Clock::start();
        let device = disk();
        let size = ByteSize::from_bytes(device.capabilities().capacity().as_bytes());
        let pacer = Pacer::new(device, Options { mode, ..Options::default() });
        let script = Script::default();
        let records = Arc::<Mutex<Vec<TraceRecord>>>::default();
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let (seen, shown) = (Arc::clone(&records), Arc::clone(&events));
        let mut emulation = Emulation::new(pacer, Store::in_ram(size, None).unwrap(), clock)
            .classified_by(Box::new(script.clone()))
            .observed_by(Box::new(move |record| seen.lock().unwrap().push(*record)));
        if is_watched {
            emulation = emulation.telling(Box::new(move |event| shown.lock().unwrap().push(event.clone())));
        }
        Self { emulation, frontend: Kept::new(clock), script, now: Instant::ZERO, records, events }
    }

    /// Goes to `until` as the loop does, and no further than the last reply.
    fn go(&mut self, until: Instant) {
        loop {
            *self.script.now.lock().unwrap() = self.now;
            let next = self.emulation.reply(self.now, &mut self.frontend).unwrap();
            let (emulation, now) = (&mut self.emulation, self.now);
            self.frontend
                .send(&mut |tag, _| emulation.left(tag, crate::frontend::Departure::Taken(now)))
                .unwrap();
            let next = match next {
                Next::SendAt(at) => at,
                Next::WaitUntil(None) if self.emulation.outstanding() == 0 => break,
                Next::WaitUntil(next) => {
                    // The loop sleeps no longer than the source wants.
                    let look = self.emulation.interval().map(|interval| self.now + interval);
                    next.into_iter().chain(look).min().expect("something is outstanding")
                }
            };
            if next > until {
                break;
            }
            self.now = self.now.max(next);
        }
        if until < Instant::MAX {
            self.now = self.now.max(until);
        }
    }

    fn arrive(&mut self, command: u32, op: Operation, block: u64, blocks: u32) {
        let data = vec![1; blocks as usize * BLOCK as usize];
        let action = match op {
            Operation::Read => Action::Read,
            Operation::Write => Action::Write(&data),
            _ => Action::Flush,
        };
        let (offset_bytes, length_bytes) = (block * BLOCK, blocks * BLOCK as u32);
        let arrived = self.now;
        *self.script.now.lock().unwrap() = arrived;
        self.emulation.take(Command {
            tag: tag(command),
            arrived,
            offset_bytes,
            length_bytes,
            fua: false,
            action,
        });
    }

    fn change(&self, known: Instant, at: Instant, op: Operation, block: u64, criticality: Criticality) {
        let change = ClassChange { at, op, offset_bytes: block * BLOCK, length_bytes: BLOCK, criticality };
        self.script.changes.lock().unwrap().push_back((known, change));
    }

    /// Records in order of arrival, changes that came too late, and events.
    fn finish(self) -> (Vec<TraceRecord>, u64, Vec<Event>) {
        let (statistics, ..) = self.emulation.finish();
        let records = self.records.lock().unwrap().clone();
        let events = self.events.lock().unwrap().clone();
        (records, statistics.missed_changes, events)
    }
}

fn us(us: u64) -> Instant {
    Instant::from_ns(us * 1_000)
}

/// Replays records on the same disk.
fn replayed(records: &[TraceRecord]) -> Vec<(Instant, Instant, ClassHistory)> {
    let settings = Settings {
        mode: ReplayMode::Open,
        beyond: Beyond::Error,
        capacity_blocks: disk().capabilities().capacity_blocks,
        address_range_blocks: 0,
        requests: None,
        device: None,
        from: Instant::ZERO,
        devices: None,
    };
    let records: Vec<Result<TraceRecord, Infallible>> = records.iter().copied().map(Ok).collect();
    let mut replay = Replay::new(records.into_iter(), settings);
    let mut all = Vec::new();
    Simulation::new(Limits::default())
        .run_with_classes(&mut replay, &mut disk(), |completion, classes| {
            all.push((completion.request.id, completion.submitted, completion.completed, classes));
        })
        .unwrap();
    all.sort_by_key(|(id, ..)| *id);
    all.into_iter().map(|(_, submitted, completed, classes)| (submitted, completed, classes)).collect()
}

fn random_run(seed: u64, mode: Mode) -> (Vec<TraceRecord>, u64) {
    let mut bench = Bench::new(mode, false);
    let mut stream: Stream = Seed(seed).stream("host");
    let mut arrival = Instant::ZERO;
    for command in 0..80 {
        arrival += stream.exponential(Duration::from_ms(8));
        bench.go(arrival);
        let block = stream.below(500_000);
        match stream.below(12) {
            0 => bench.arrive(command, Operation::Flush, 0, 0),
            1..7 => bench.arrive(command, Operation::Write, block, 8),
            _ => bench.arrive(command, Operation::Read, block, 8),
        }
        // Somebody comes to wait for it, which is known some time later.
        let at = bench.now + stream.exponential(Duration::from_ms(20));
        let known = at + stream.exponential(Duration::from_ms(3));
        let op = if stream.chance(0.5) { Operation::Write } else { Operation::Read };
        let criticality = Criticality::ALL[stream.below(2) as usize];
        bench.change(known, at, op, block + 1, criticality);
        bench
            .script
            .changes
            .lock()
            .unwrap()
            .make_contiguous()
            .sort_by_key(|(known, change)| (*known, change.at));
    }
    bench.go(Instant::MAX);
    let (records, missed, _) = bench.finish();
    (records, missed)
}

#[test]
fn emulated_classes_are_those_of_the_replay_to_the_nanosecond() {
    for mode in MODES {
        let mut changed = 0;
        for seed in 0..6 {
            let (records, _) = random_run(seed, mode);
            assert_eq!(records.len(), 80);
            let emulated: Vec<_> = records
                .iter()
                .map(|record| {
                    let classes = ClassHistory { at_arrival: record.criticality, became: record.became };
                    (record.arrival, record.completion.unwrap(), classes)
                })
                .collect();
            changed += records.iter().filter(|record| !record.became.is_none()).count();
            assert_eq!(replayed(&records), emulated, "{mode:?}, seed {seed}");
        }
        assert!(changed > 60, "{changed} requests changed their class");
    }
}

#[test]
fn change_moves_a_request_to_the_front_at_the_time_at_which_it_happened() {
    let order = |change: Option<(u64, u64)>| {
        let mut bench = Bench::new(Mode::Rollback, false);
        for command in 0..4 {
            bench.now = us(u64::from(command));
            bench.arrive(command, Operation::Write, 100_000 * u64::from(command), 8);
        }
        if let Some((at, known)) = change {
            bench.change(us(known), us(at), Operation::Write, 300_001, Criticality::TimeCritical);
        }
        bench.go(Instant::MAX);
        let (records, missed, _) = bench.finish();
        let mut order: Vec<_> =
            (0..4).map(|request| (records[request].completion.unwrap(), request)).collect();
        order.sort_unstable();
        let became = records[3].became.time_critical();
        (order.into_iter().map(|(_, request)| request).collect::<Vec<_>>(), became, missed)
    };
    assert_eq!(order(None), (vec![0, 1, 2, 3], None, 0));
    assert_eq!(order(Some((500, 900))), (vec![0, 3, 1, 2], Some(us(500)), 0));
    // The request was never pending.
    assert_eq!(order(Some((900_000, 900_000))).0, [0, 1, 2, 3]);
}

#[test]
fn change_of_a_request_that_is_complete_is_counted() {
    let mut bench = Bench::new(Mode::RunToCompletion, false);
    bench.arrive(0, Operation::Read, 1, 8);
    let (limited, critical) = (Criticality::TimeLimited, Criticality::TimeCritical);
    bench.change(us(1), us(1), Operation::Read, 1, limited);
    bench.change(us(2), us(2), Operation::Read, 1, limited);
    *bench.script.now.lock().unwrap() = us(3);
    assert!(bench.emulation.follow_classes(us(3)));
    // The model completed it in a time that is not over here.
    let completed = bench.emulation.pacer.next_deadline().unwrap();
    bench.change(us(4), completed + Duration::from_us(1), Operation::Read, 1, critical);
    *bench.script.now.lock().unwrap() = us(4);
    assert!(!bench.emulation.follow_classes(completed + Duration::from_us(2)));
    bench.go(Instant::MAX);
    let (records, missed, _) = bench.finish();
    assert_eq!((records[0].criticality, missed), (Criticality::TimeNoncritical, 1));
    assert_eq!((records[0].became.time_limited(), records[0].became.time_critical()), (Some(us(1)), None));
}

/// The model that tells events receives the changes, too.
#[test]
fn events_are_those_of_the_model_with_its_changes() {
    let mut bench = Bench::new(Mode::Rollback, true);
    for command in 0..12 {
        bench.now = us(u64::from(command));
        bench.arrive(command, Operation::Write, 40_000 * u64::from(command), 8);
    }
    bench.change(us(300), us(300), Operation::Write, 440_001, Criticality::TimeCritical);
    bench.go(Instant::MAX);
    let (records, _, events) = bench.finish();
    let mut device = disk();
    device.watch();
    let records: Vec<Result<TraceRecord, Infallible>> = records.into_iter().map(Ok).collect();
    let settings = Settings {
        mode: ReplayMode::Open,
        beyond: Beyond::Error,
        capacity_blocks: device.capabilities().capacity_blocks,
        address_range_blocks: 0,
        requests: None,
        device: None,
        from: Instant::ZERO,
        devices: None,
    };
    let mut replay = Replay::new(records.into_iter(), settings);
    let end = simulate(&mut replay, &mut device, Limits::default(), |_| ()).unwrap().end;
    let mut expected = Vec::new();
    device.events(end, &mut expected);
    assert!(!expected.is_empty());
    assert_eq!(events[..expected.len().min(events.len())], expected[..expected.len().min(events.len())]);
}
