//! Tests that a replay issues the changes of class of its trace, and that retries keep them.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use seeklab_core::{
    Arrival, ClassHistory, ClassTimes, Completion, Criticality, Device, Duration, Instant, Limits, Operation,
    Outcome, Ratio, Reclassification, Request, RequestId, Simulation, Status, TraceRecord, Workload,
};
use seeklab_workloads::replay::{Beyond, FedReplay, Mode, Replay, Settings};
use seeklab_workloads::{Retries, Retrying};

use crate::common::{Server, Service, TARGET};

const SERVICE: Duration = Duration::from_ms(4);

fn settings(mode: Mode) -> Settings {
    Settings {
        mode,
        beyond: Beyond::Error,
        capacity_blocks: TARGET.capacity_blocks,
        address_range_blocks: 0,
        requests: None,
        device: None,
        from: Instant::ZERO,
        devices: None,
    }
}

fn us(us: u64) -> Instant {
    Instant::from_ns(us * 1_000)
}

/// Reads of a server, each of which becomes time-limited 1 ms after its arrival, and time-critical 2.5 ms after it.
fn trace(arrivals_ms: &[u64]) -> Vec<TraceRecord> {
    let mut free = Instant::ZERO;
    let record = |(index, ms): (usize, &u64)| {
        let arrival = us(ms * 1_000);
        free = free.max(arrival) + SERVICE;
        let (limited, critical) = (arrival + Duration::from_us(1_000), arrival + Duration::from_us(2_500));
        TraceRecord {
            completion: Some(free),
            think: Some(Duration::from_ms(1)),
            criticality: Criticality::TimeNoncritical,
            became: ClassTimes::new(Some(limited), Some(critical)),
            ..TraceRecord::new(arrival, Operation::Read, 100 * index as u64, 8)
        }
    };
    arrivals_ms.iter().enumerate().map(record).collect()
}

/// Submission and changes of each request.
fn replayed(records: &[TraceRecord], mode: Mode) -> Vec<(Instant, ClassHistory)> {
    let records: Vec<Result<TraceRecord, Infallible>> = records.iter().copied().map(Ok).collect();
    let mut replay = Replay::new(records.into_iter(), settings(mode));
    let mut server = Server::new(Service::Constant(SERVICE));
    let mut all = Vec::new();
    Simulation::new(Limits::default())
        .run_with_classes(&mut replay, &mut server, |completion, classes| {
            assert_eq!(completion.request.criticality, Criticality::TimeCritical);
            all.push((completion.submitted, classes));
        })
        .unwrap();
    all
}

#[test]
fn changes_keep_their_distance_from_the_arrival_in_every_mode() {
    let records = trace(&[3, 4, 5, 20, 21, 40]);
    let modes = [
        (Mode::Open, 1.0),
        (Mode::Scaled { factor: Ratio::from_const(2.0) }, 2.0),
        (Mode::Closed { population: 2 }, 1.0),
        (Mode::Think, 1.0),
        (Mode::Follow { within: None }, 1.0),
        (Mode::Follow { within: Some(Duration::from_ms(1)) }, 1.0),
    ];
    for (mode, factor) in modes {
        let replayed = replayed(&records, mode);
        assert_eq!(replayed.len(), records.len(), "{mode:?}");
        for (submitted, classes) in replayed {
            let after = |us: f64| Some(submitted + Duration::from_ns_f64(us * 1_000.0 / factor));
            assert_eq!(classes.at_arrival, Criticality::TimeNoncritical, "{mode:?}");
            let ClassHistory { became, .. } = classes;
            assert_eq!(
                (became.time_limited(), became.time_critical()),
                (after(1_000.0), after(2_500.0)),
                "{mode:?}"
            );
        }
    }
}

#[test]
fn changes_move_no_arrival() {
    let with = trace(&[3, 4, 5, 20, 21, 40]);
    let without: Vec<_> = with
        .iter()
        .map(|record| TraceRecord {
            became: ClassTimes::NONE,
            criticality: Criticality::TimeCritical,
            ..*record
        })
        .collect();
    for mode in [Mode::Open, Mode::Think, Mode::Follow { within: Some(Duration::from_ms(1)) }] {
        let submitted = |records: &[TraceRecord]| {
            replayed(records, mode).into_iter().map(|(submitted, _)| submitted).collect::<Vec<_>>()
        };
        assert_eq!(submitted(&with), submitted(&without), "{mode:?}");
    }
}

#[test]
fn fed_replay_changes_classes_as_one_that_reads() {
    // The last changes lie behind the last arrival.
    let records = trace(&[3, 4, 5, 20, 21]);
    let mut replay = FedReplay::fed(settings(Mode::Open));
    let mut server = Server::new(Service::Constant(SERVICE));
    let mut simulation = Simulation::new(Limits::default());
    let mut fed = Vec::new();
    for record in &records {
        replay.push(record).unwrap();
        simulation
            .run_until_finished_with_classes(&mut replay, &mut server, |completion, classes| {
                fed.push((completion.submitted, classes));
            })
            .unwrap();
    }
    replay.end();
    simulation
        .run_with_classes(&mut replay, &mut server, |completion, classes| {
            fed.push((completion.submitted, classes));
        })
        .unwrap();
    assert_eq!(fed, replayed(&records, Mode::Open));
}

/// One time-noncritical request, and a change whenever the test puts one in.
#[derive(Default)]
struct Changing {
    sent: bool,
    change: Option<Reclassification>,
    completed: Vec<Criticality>,
}

/// A workload that the test keeps a hand on.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Changing>>);

impl Shared {
    fn change(&self, criticality: Criticality) -> Reclassification {
        let change = Reclassification { id: RequestId(70), device: 0, criticality };
        self.0.borrow_mut().change = Some(change);
        change
    }
}

impl Workload for Shared {
    fn next_arrival(&mut self, _: Instant) -> Arrival {
        let mut state = self.0.borrow_mut();
        if !std::mem::replace(&mut state.sent, true) {
            let criticality = Criticality::TimeNoncritical;
            return Arrival::Request(Request { criticality, ..Request::new(70, Operation::Read, 0, 8) });
        }
        match state.change.take() {
            Some(change) => Arrival::Reclassification(change),
            None if state.completed.is_empty() => Arrival::WaitForCompletion,
            None => Arrival::Finished,
        }
    }
    fn completed(&mut self, completion: &Completion) {
        self.0.borrow_mut().completed.push(completion.request.criticality);
    }
}

fn sent(retrying: &mut Retrying<Shared>, now: Instant) -> Request {
    match retrying.next_arrival(now) {
        Arrival::Request(request) => request,
        other => panic!("{other:?}"),
    }
}

/// Serves `request` from `now` on, with that status. Returns the time of completion.
fn complete(retrying: &mut Retrying<Shared>, request: Request, now: Instant, status: Status) -> Instant {
    let mut server = Server::new(Service::Constant(SERVICE));
    server.submit(now, request).unwrap();
    let mut completions = Vec::new();
    server.poll(now + SERVICE, &mut completions);
    let outcome = Outcome { status, ..Outcome::default() };
    retrying.completed(&Completion { outcome, ..completions[0] });
    now + SERVICE
}

#[test]
fn retry_has_the_class_that_the_request_became() {
    use Criticality::{TimeCritical, TimeLimited};
    let workload = Shared::default();
    let wait = Duration::from_ms(5);
    let mut retrying = Retrying::new(workload.clone(), Retries { count: 9, after: wait });
    let first = sent(&mut retrying, us(0));
    assert_eq!(retrying.next_arrival(us(0)), Arrival::WaitForCompletion);
    // While an attempt is outstanding, the change carries its number.
    let stated = workload.change(TimeLimited);
    let passed_on = Reclassification { id: first.id, ..stated };
    assert_eq!(retrying.next_arrival(us(0)), Arrival::Reclassification(passed_on));
    let failed = complete(&mut retrying, first, us(0), Status::MediumError);
    // While the request waits to be sent again, the change is for the next attempt.
    workload.change(TimeCritical);
    assert_eq!(retrying.next_arrival(failed), Arrival::At(failed + wait));
    let second = sent(&mut retrying, failed + wait);
    assert_eq!((second.id == first.id, second.criticality), (false, TimeCritical));
    let end = complete(&mut retrying, second, failed + wait, Status::Ok);
    assert_eq!(workload.0.borrow().completed, [TimeCritical]);
    // Nothing is left to change.
    workload.change(TimeCritical);
    assert_eq!(retrying.next_arrival(end), Arrival::Finished);
}
