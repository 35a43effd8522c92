//! Tests that the class of a pending request can change in every device and behind every layer.
//!
//! [`Subject::check_reclassifications`] belongs to the contract, which every stack of [`contract`](crate::contract) and
//! [`fault_contract`](crate::fault_contract) is held to.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use seeklab_core::{
    Arrival, ClassHistory, ClassTimes, Completion, Criticality, Device, Instant, Limits, Operation,
    Reclassification, Rejected, Request, RequestId, Seed, Simulation, Workload,
};
use seeklab_devices::Children;
use seeklab_devices::fault::{FaultParameters, FaultTable};
use seeklab_devices::layer::{Bank, Fault};
use seeklab_devices::limit::Limited;
use seeklab_devices::registry::KINDS;

use crate::contract::{Load, Subject, built, limited, queue};

/// An input of a device.
#[derive(Debug, Clone, Copy)]
enum Input {
    Request(Request),
    Change(Reclassification),
}

/// Polls of a run between inputs.
#[derive(Debug, Clone, Copy)]
enum Steps<'a> {
    /// At every event.
    Events,
    /// At every event, and in between as long as there are gaps.
    Small(&'a Load),
    /// Once before every input, and once at the end of time.
    Big,
}

/// A device that is driven, and what the contract says of the classes of its requests.
struct Driven {
    device: Box<dyn Device>,
    now: Option<Instant>,
    /// Class at arrival, changes and present class of the outstanding requests.
    outstanding: BTreeMap<RequestId, (u16, Criticality, ClassHistory)>,
    completions: Vec<Completion>,
    histories: Vec<ClassHistory>,
    /// Changes that had an effect.
    effective: usize,
}

impl Driven {
    fn new(device: Box<dyn Device>) -> Self {
        Self {
            device,
            now: None,
            outstanding: BTreeMap::new(),
            completions: Vec::new(),
            histories: Vec::new(),
            effective: 0,
        }
    }

    fn poll(&mut self, now: Instant) {
        let before = self.completions.len();
        self.device.poll(now, &mut self.completions);
        self.now = Some(now);
        for completion in &self.completions[before..] {
            let id = completion.request.id;
            let (_, class, history) = self.outstanding.remove(&id).expect("a request completes once");
            assert_eq!(completion.request.criticality, class, "the class at completion: {completion:?}");
            self.histories.push(history);
        }
    }

    /// Goes to `time`, at which something arrives; inputs of one time come together, as under `simulate()`.
    fn go_to(&mut self, time: Instant, steps: Steps) {
        if self.now == Some(time) {
            return;
        }
        if !matches!(steps, Steps::Big) {
            self.step_to(time, steps);
        }
        self.poll(time);
    }

    /// Polls at every event before `time`, and in the gaps.
    fn step_to(&mut self, time: Instant, steps: Steps) {
        let gaps = match steps {
            Steps::Small(load) => &load.polls[..],
            Steps::Events | Steps::Big => &[],
        };
        let mut gaps = gaps.iter();
        loop {
            let event = self.device.next_event().filter(|event| *event < time);
            let between = gaps.next().map(|gap| self.now.unwrap_or(Instant::ZERO) + *gap);
            let between = between.filter(|between| *between < time);
            let Some(next) = event.into_iter().chain(between).min() else { return };
            self.poll(next);
        }
    }

    fn take(&mut self, time: Instant, input: &Input, steps: Steps) {
        self.go_to(time, steps);
        match input {
            Input::Request(request) => match self.device.submit(time, *request) {
                Ok(()) => {
                    let class = request.criticality;
                    let state = (request.device, class, ClassHistory::constant(class));
                    self.outstanding.insert(request.id, state);
                }
                Err(Rejected::QueueFull { .. }) => {}
                Err(rejected) => panic!("{request:?}: {rejected}"),
            },
            Input::Change(change) => {
                let answer = self.device.reclassify(time, change);
                let state = self.outstanding.get_mut(&change.id);
                let state = state
                    .filter(|(device, class, _)| *device == change.device && change.criticality < *class);
                let expected = state.map(|(_, class, history)| {
                    let became = &mut history.became;
                    *became = match change.criticality {
                        Criticality::TimeLimited => ClassTimes::new(Some(time), None),
                        _ => ClassTimes::new(became.time_limited(), Some(time)),
                    };
                    std::mem::replace(class, change.criticality)
                });
                assert_eq!(answer, expected, "{change:?} at {time}");
                self.effective += usize::from(expected.is_some());
            }
        }
    }

    fn finish(&mut self, steps: Steps) {
        if matches!(steps, Steps::Big) {
            self.poll(Instant::from_ns(u64::MAX / 2));
        }
        while let Some(event) = self.device.next_event() {
            self.poll(event);
        }
        assert!(self.outstanding.is_empty(), "{:?}", self.outstanding);
    }

    fn run(device: Box<dyn Device>, inputs: &[(Instant, Input)], steps: Steps) -> Self {
        let mut driven = Self::new(device);
        inputs.iter().for_each(|(time, input)| driven.take(*time, input, steps));
        driven.finish(steps);
        driven
    }
}

/// A workload of inputs that a device accepts.
struct Inputs<'a>(std::slice::Iter<'a, (Instant, Input)>);

impl Workload for Inputs<'_> {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        match self.0.as_slice().first() {
            None => Arrival::Finished,
            Some((time, _)) if *time > now => Arrival::At(*time),
            Some((_, input)) => {
                self.0.next();
                match input {
                    Input::Request(request) => Arrival::Request(*request),
                    Input::Change(change) => Arrival::Reclassification(*change),
                }
            }
        }
    }
    fn completed(&mut self, _: &Completion) {}
}

/// Arrivals and changes in order of time; at one time arrivals come first.
fn inputs(load: &Load, arrivals: &[(Instant, Request)]) -> Vec<(Instant, Input)> {
    let mut inputs: Vec<_> =
        arrivals.iter().map(|(time, request)| (*time, Input::Request(*request))).collect();
    for (index, gap, criticality) in &load.changes {
        let Some((time, request)) = arrivals.get(*index) else { continue };
        let change = Reclassification { id: request.id, device: request.device, criticality: *criticality };
        inputs.push((*time + *gap, Input::Change(change)));
    }
    inputs.sort_by_key(|(time, input)| (*time, matches!(input, Input::Change(_))));
    inputs
}

/// The completions without the classes.
fn unclassed(completions: &[Completion]) -> Vec<Completion> {
    let unclassed = |completion: &Completion| {
        let request = Request { criticality: Criticality::default(), ..completion.request };
        Completion { request, ..*completion }
    };
    completions.iter().map(unclassed).collect()
}

impl Subject {
    /// Completions carry the class that was stated last and most pressing; polls, forks and drivers change nothing; unknown
    /// and completed requests and less pressing classes are harmless; and only schedulers by class serve otherwise.
    pub(crate) fn check_reclassifications(
        &self,
        load: &Load,
        arrivals: &[(Instant, Request)],
        without: &[Completion],
    ) -> Result<(), TestCaseError> {
        let name = &self.name;
        let inputs = inputs(load, arrivals);
        let run = Driven::run(self.device.fork(), &inputs, Steps::Events);
        for (steps, how) in [(Steps::Small(load), "small steps"), (Steps::Big, "big steps")] {
            let other = Driven::run(self.device.fork(), &inputs, steps);
            prop_assert_eq!(&run.completions, &other.completions, "{}: reclassified in {}", name, how);
            prop_assert_eq!(run.effective, other.effective, "{}: {}", name, how);
        }
        for into in [false, true] {
            for (which, forked) in
                ["original", "fork"].into_iter().zip(self.reclassified_and_forked(load, &inputs, into))
            {
                prop_assert_eq!(
                    &run.completions,
                    &forked.completions,
                    "{}: reclassified {}, {}",
                    name,
                    which,
                    into
                );
                prop_assert_eq!(
                    &run.histories,
                    &forked.histories,
                    "{}: reclassified {}, {}",
                    name,
                    which,
                    into
                );
            }
        }
        let (completions, histories) = self.simulated_with_changes(&inputs, &run);
        prop_assert_eq!(&run.completions, &completions, "{}: reclassified by simulate()", name);
        prop_assert_eq!(&run.histories, &histories, "{}: reclassified by simulate()", name);
        if !name.contains("criticality") {
            let (with, without) = (unclassed(&run.completions), unclassed(without));
            prop_assert_eq!(with, without, "{}: a class changes no more than itself", name);
        }
        let harmless = |(time, input): &(Instant, Input)| match input {
            Input::Change(change) if change.id.0 % 2 == 0 => {
                (*time, Input::Change(Reclassification { id: RequestId(1_000_000 + change.id.0), ..*change }))
            }
            Input::Change(change) => (
                *time,
                Input::Change(Reclassification { criticality: Criticality::TimeNoncritical, ..*change }),
            ),
            Input::Request(_) => (*time, *input),
        };
        let harmless: Vec<_> = inputs.iter().map(harmless).collect();
        let unchanged = Driven::run(self.device.fork(), &harmless, Steps::Events);
        prop_assert_eq!(&unchanged.completions[..], without, "{}: harmless changes", name);
        prop_assert_eq!(unchanged.effective, 0);
        Ok(())
    }

    /// The original and a fork that was made on the way, each with what came before.
    fn reclassified_and_forked(&self, load: &Load, inputs: &[(Instant, Input)], into: bool) -> [Driven; 2] {
        let (before, after) = inputs.split_at(load.fork_at.min(inputs.len() - 1));
        let mut original = Driven::new(self.device.fork());
        before.iter().for_each(|(time, input)| original.take(*time, input, Steps::Big));
        let device = if into {
            // A fork with a past of its own, which must leave no trace.
            let mut fork = Driven::run(self.device.fork(), inputs, Steps::Events).device;
            original.device.fork_into(&mut fork);
            fork
        } else {
            original.device.fork()
        };
        let fork = Driven {
            device,
            now: original.now,
            outstanding: original.outstanding.clone(),
            completions: original.completions.clone(),
            histories: original.histories.clone(),
            effective: original.effective,
        };
        [original, fork].map(|mut driven| {
            after.iter().for_each(|(time, input)| driven.take(*time, input, Steps::Events));
            driven.finish(Steps::Events);
            driven
        })
    }

    fn simulated_with_changes(
        &self,
        inputs: &[(Instant, Input)],
        run: &Driven,
    ) -> (Vec<Completion>, Vec<ClassHistory>) {
        let accepted: BTreeSet<RequestId> =
            run.completions.iter().map(|completion| completion.request.id).collect();
        let is_taken = |input: &Input| match input {
            Input::Request(request) => accepted.contains(&request.id),
            Input::Change(_) => true,
        };
        let inputs: Vec<_> = inputs.iter().copied().filter(|(_, input)| is_taken(input)).collect();
        let (mut completions, mut histories) = (Vec::new(), Vec::new());
        Simulation::new(Limits::default())
            .run_with_classes(&mut Inputs(inputs.iter()), &mut *self.device.fork(), |completion, history| {
                completions.push(*completion);
                histories.push(history);
            })
            .unwrap();
        (completions, histories)
    }
}

// ---- A layer passes the change on to what decides beneath.

type Layer = (&'static str, fn(Box<dyn Device>) -> Box<dyn Device>);

fn fault(device: Box<dyn Device>, line: &str) -> Box<dyn Device> {
    let faults = FaultParameters { fault: vec![FaultTable::from_line(line).unwrap()] };
    let rules = faults.rules(device.capabilities(), None, Seed(1), "disk0").unwrap();
    Box::new(Fault::new(device, rules))
}

const LAYERS: [Layer; 7] = [
    ("none", |device| device),
    ("queue", |device| Box::new(queue(device, "fcfs", 8))),
    ("limit", |device| limited(device, Limited::Writes)),
    ("fault", |device| fault(device, "delay,add=1us,op=write")),
    ("fault that strikes", |device| fault(device, "delay,add=1us,every=1")),
    ("fault that stops the clock", |device| fault(device, "stall,at=1ms,for=3ms")),
    ("bank", |device| Box::new(Bank::new(vec![device]))),
];

#[test]
fn every_layer_hands_a_change_to_the_scheduler_beneath() {
    let names: BTreeSet<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    for kind in KINDS.iter().filter(|kind| kind.children == Children::One) {
        assert!(names.contains(kind.name), "the layer `{}` is not tested", kind.name);
    }
    for (outer, wrap_outer) in LAYERS {
        for (inner, wrap_inner) in LAYERS {
            use Criticality::{TimeCritical, TimeLimited, TimeNoncritical};
            let order = |change: Option<(u64, Criticality)>| {
                let beneath = Box::new(queue(built("constant", &[]), "criticality-c-look", 1));
                let mut device = wrap_outer(wrap_inner(beneath));
                for id in 0..4 {
                    let request = Request::new(id, Operation::Read, 100 * id, 8);
                    let criticality = TimeNoncritical;
                    device.submit(Instant::ZERO, Request { criticality, ..request }).unwrap();
                }
                if let Some((id, criticality)) = change {
                    let change = Reclassification { id: RequestId(id), device: 0, criticality };
                    let before = device.reclassify(Instant::ZERO, &change);
                    assert_eq!(before, Some(TimeNoncritical), "{outer} over {inner}");
                    assert_eq!(
                        device.reclassify(Instant::ZERO, &change),
                        None,
                        "{outer} over {inner}: again"
                    );
                    let elsewhere = Reclassification { id: RequestId(id + 90), ..change };
                    assert_eq!(
                        device.reclassify(Instant::ZERO, &elsewhere),
                        None,
                        "{outer} over {inner}: unknown"
                    );
                }
                let mut completions = Vec::new();
                while let Some(event) = device.next_event() {
                    device.poll(event, &mut completions);
                }
                completions
                    .iter()
                    .map(|completion| (completion.request.id.0, completion.request.criticality))
                    .collect::<Vec<_>>()
            };
            let noncritical = |ids: [u64; 4]| ids.map(|id| (id, TimeNoncritical));
            assert_eq!(order(None), noncritical([0, 1, 2, 3]), "{outer} over {inner}");
            for class in [TimeCritical, TimeLimited] {
                // 0 is being served. 3 goes first of the others; then the sweep begins again.
                let mut expected = noncritical([0, 3, 1, 2]);
                expected[1].1 = class;
                assert_eq!(order(Some((3, class))), expected, "{outer} over {inner}");
                let mut expected = noncritical([0, 1, 2, 3]);
                expected[0].1 = class;
                assert_eq!(order(Some((0, class))), expected, "{outer} over {inner}: in service");
            }
        }
    }
}

#[test]
fn change_goes_to_the_device_that_it_names() {
    let mut bank = Bank::new(vec![built("constant", &[]), built("constant", &[])]);
    let request = Request {
        device: 1,
        criticality: Criticality::TimeLimited,
        ..Request::new(4, Operation::Read, 0, 1)
    };
    bank.submit(Instant::ZERO, request).unwrap();
    let change =
        |device| Reclassification { id: RequestId(4), device, criticality: Criticality::TimeCritical };
    for other in [0, 2, u16::MAX] {
        assert_eq!(bank.reclassify(Instant::ZERO, &change(other)), None, "device {other}");
    }
    assert_eq!(bank.reclassify(Instant::ZERO, &change(1)), Some(Criticality::TimeLimited));
}
