//! Schedulers under random arrivals, changes of class and choices, against exhaustive models.

use proptest::collection::vec;
use proptest::prelude::*;
use seeklab_core::{
    Criticality, Device, Instant, Operation, Pending, Positioning, Request, RequestId, Scheduler,
};
use seeklab_devices::scheduler::SchedulerSpec;

use crate::contract::{built, schedulers};

/// A step of a scheduler's life.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A request to that block arrives.
    Push(u64, Criticality),
    /// The pending request of that rank among all pushed so far gets that class, if it is pending.
    Change(usize, Criticality),
    Choose,
}

fn steps(blocks: u64) -> impl Strategy<Value = Vec<Step>> {
    let class = || prop::sample::select(Criticality::ALL.to_vec());
    let step = prop_oneof![
        // Few addresses, so that ties are common.
        3 => (0..12u64, class()).prop_map(move |(place, class)| Step::Push(place * blocks / 12, class)),
        2 => (0..80usize, class()).prop_map(|(rank, class)| Step::Change(rank, class)),
        2 => Just(Step::Choose),
    ];
    vec(step, 1..120)
}

/// Applies steps to a scheduler. Returns the answers to the changes, and the choices.
fn play(
    scheduler: &mut dyn Scheduler,
    steps: &[Step],
    positioning: &dyn Positioning,
) -> (Vec<Option<Criticality>>, Vec<Option<Request>>) {
    let (mut answers, mut choices, mut pushed) = (Vec::new(), Vec::new(), 0);
    for step in steps {
        match *step {
            Step::Push(lbn, criticality) => {
                let request = Request { criticality, ..Request::new(pushed, Operation::Read, lbn, 1) };
                let location = positioning.locate(&request);
                scheduler.push(Pending { request, submitted: Instant::ZERO, queue_length: 0, location });
                pushed += 1;
            }
            Step::Change(rank, criticality) => {
                answers.push(scheduler.reclassify(RequestId(rank as u64), criticality));
            }
            Step::Choose => {
                let chosen = scheduler.choose(Instant::ZERO, Some(positioning));
                choices.push(chosen.map(|pending| pending.request));
            }
        }
    }
    while let Some(pending) = scheduler.choose(Instant::ZERO, Some(positioning)) {
        choices.push(Some(pending.request));
    }
    assert!(scheduler.is_empty());
    (answers, choices)
}

fn scheduler(text: &str, disk: &dyn Device) -> Box<dyn Scheduler> {
    let cylinders = disk.positioning().unwrap().cylinders();
    text.parse::<SchedulerSpec>().unwrap().build(disk.capabilities().capacity_blocks, u64::from(cylinders))
}

/// The classes of pending requests, kept in a plain list.
#[derive(Default)]
struct Classes(Vec<Request>);

impl Classes {
    fn change(&mut self, rank: usize, criticality: Criticality) -> Option<Criticality> {
        let request = self.0.iter_mut().find(|request| request.id.0 == rank as u64)?;
        let before = request.criticality;
        request.criticality = before.min(criticality);
        (request.criticality != before).then_some(before)
    }
}

/// Exhaustive C-LOOK over the two lists, of addresses that `address` gives.
fn exhaustive(
    steps: &[Step],
    address: impl Fn(&Request) -> u64,
) -> (Vec<Option<Criticality>>, Vec<Option<Request>>) {
    let (mut pending, mut last, mut pushed) = (Classes::default(), 0, 0);
    let (mut answers, mut choices) = (Vec::new(), Vec::new());
    let mut choose = |pending: &mut Classes| {
        let is_pressing = |request: &Request| request.criticality != Criticality::TimeNoncritical;
        let any_pressing = pending.0.iter().any(is_pressing);
        let list = pending.0.iter().filter(|request| is_pressing(request) == any_pressing);
        // Ahead of the sweep first, then from the lowest address; of one address the first that came.
        let next = list.min_by_key(|request| (address(request) < last, address(request), request.id));
        let next = *next?;
        pending.0.retain(|request| request.id != next.id);
        last = address(&next);
        Some(next)
    };
    for step in steps {
        match *step {
            Step::Push(lbn, criticality) => {
                pending.0.push(Request { criticality, ..Request::new(pushed, Operation::Read, lbn, 1) });
                pushed += 1;
            }
            Step::Change(rank, criticality) => answers.push(pending.change(rank, criticality)),
            Step::Choose => choices.push(choose(&mut pending)),
        }
    }
    while let Some(request) = choose(&mut pending) {
        choices.push(Some(request));
    }
    (answers, choices)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn criticality_c_look_chooses_as_an_exhaustive_search(steps in steps(4_000_000)) {
        let disk = built("atlas10k", &[]);
        let positioning = disk.positioning().unwrap();
        let expected = exhaustive(&steps, |request| request.lbn);
        prop_assert_eq!(play(&mut *scheduler("criticality-c-look", &*disk), &steps, positioning), expected);
        let by_cylinder = exhaustive(&steps, |request| u64::from(positioning.locate(request).cylinder));
        let mut scheduler = scheduler("criticality-c-look-cylinder", &*disk);
        prop_assert_eq!(play(&mut *scheduler, &steps, positioning), by_cylinder);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn other_schedulers_keep_their_order_and_hand_on_the_class(steps in steps(4_000_000)) {
        let disk = built("atlas10k", &[]);
        let positioning = disk.positioning().unwrap();
        let without: Vec<Step> = steps.iter().copied().filter(|step| !matches!(step, Step::Change(..))).collect();
        for name in schedulers().into_iter().filter(|name| !name.starts_with("criticality")) {
            let (answers, choices) = play(&mut *scheduler(&name, &*disk), &steps, positioning);
            let (_, unchanged) = play(&mut *scheduler(&name, &*disk), &without, positioning);
            let ids = |choices: &[Option<Request>]| {
                choices.iter().map(|request| request.map(|request| request.id)).collect::<Vec<_>>()
            };
            prop_assert_eq!(ids(&choices), ids(&unchanged), "{}", name);
            // The classes, by the choices that the scheduler made.
            let (mut pending, mut pushed) = (Classes::default(), 0);
            let (mut answers, mut choices) = (answers.into_iter(), choices.into_iter());
            let check = |pending: &mut Classes, chosen: Option<Request>| {
                let Some(chosen) = chosen else { return Ok(()) };
                let place = pending.0.iter().position(|request| request.id == chosen.id).unwrap();
                prop_assert_eq!(pending.0.remove(place), chosen, "{}", name);
                Ok(())
            };
            for step in &steps {
                match *step {
                    Step::Push(lbn, criticality) => {
                        pending.0.push(Request { criticality, ..Request::new(pushed, Operation::Read, lbn, 1) });
                        pushed += 1;
                    }
                    Step::Change(rank, criticality) => {
                        prop_assert_eq!(answers.next().unwrap(), pending.change(rank, criticality), "{}", name);
                    }
                    Step::Choose => check(&mut pending, choices.next().unwrap())?,
                }
            }
            choices.try_for_each(|chosen| check(&mut pending, chosen))?;
        }
    }
}
