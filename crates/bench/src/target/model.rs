//! Models of the catalog or of files, in virtual time: the clock goes to the next event at once.
//!
//! ```text
//! thread 0 ─┐ submit, poll   one at a time, in turn   ┌──────────┐
//! thread 1 ─┼────────────────────────────────────────▶│ device 0 │   time advances when all of them wait,
//! thread 2 ─┘                                         │ device 1 │   for all devices together
//!                                                     └──────────┘
//! ```
//! # Scope and limits
//! A model gets the arrivals that [`simulate`](seeklab_core::simulate()) gives it, at the same times, so the times
//! are the same to the nanosecond. All threads that send to models of one clock take turns: the order of what they do at one
//! time is that of their numbers, so a run is the same every time. The models keep their states from phase to phase.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use seeklab_core::{
    Capabilities, Completion, Coverage, Device, Instant, Reclassification, Rejected, Request, RequestId,
};
use seeklab_emulator::clock::{Clock, Wait};
use seeklab_workloads::AddressSpace;

use super::{Ended, Opening, Target, TargetError, TargetFacts, TargetKind, Transfer};

/// Its line in the list of targets.
pub(super) const KIND: TargetKind = TargetKind {
    name: "model",
    form: "model:DEVICE",
    meaning: "A device of the catalog or of a TOML file, in virtual time",
    matches: |address| address.strip_prefix("model:"),
    holds_data: false,
    is_model: true,
    has_priorities: false,
    is_virtual: true,
    identify: super::unidentified,
    is_expendable: super::never_expendable,
    open,
};

fn open(name: &str, opening: &Opening<'_>) -> Result<Box<dyn Target>, TargetError> {
    let address = format!("model:{name}");
    let model = (opening.model)(name).map_err(|problem| TargetError::unusable(&address, problem, ""))?;
    Ok(Box::new(model.join(opening.options.outstanding_max)))
}

/// A model that the threads of a run share. Every clone is the same model.
#[derive(Clone)]
pub struct SharedModel {
    turns: Arc<Turns>,
    /// Number of the model among those of its clock.
    number: usize,
    address: String,
    capabilities: Capabilities,
}

impl SharedModel {
    /// The model of that address at its time zero, on a clock of its own.
    pub fn new(address: String, device: Box<dyn Device>) -> Self {
        let state = State {
            shelf: Vec::new(),
            now: Instant::ZERO,
            origin: Instant::ZERO,
            members: Vec::new(),
            has_begun: false,
            running: None,
            last: None,
            problem: None,
            completions: Vec::new(),
        };
        Self::put(Arc::new(Turns { state: Mutex::new(state) }), address, device)
    }

    /// Another model of that address, on the clock of this one.
    #[must_use]
    pub fn beside(&self, address: String, device: Box<dyn Device>) -> Self {
        Self::put(Arc::clone(&self.turns), address, device)
    }

    fn put(turns: Arc<Turns>, address: String, device: Box<dyn Device>) -> Self {
        let capabilities = device.capabilities().clone();
        let depth = capabilities.queue_depth as usize;
        let mut state = turns.state();
        let number = state.shelf.len();
        let (tags, held) = (BTreeMap::new(), VecDeque::new());
        state.shelf.push(Shelved { device, depth, tags, held, first_id: 0, highest_id: None });
        drop(state);
        Self { turns, number, address, capabilities }
    }

    /// The time on the clock of the model since the begin.
    pub fn time(&self) -> Instant {
        self.turns.state().now
    }

    /// Requests inside and outside of what the model was fitted to, since its begin. `None` if it was not fitted.
    pub fn coverage(&self) -> Option<Coverage> {
        self.turns.state().shelf[self.number].device.coverage()
    }

    /// A target of one more thread. If all threads before have gone, a phase begins: time zero of the new targets is now.
    fn join(&self, outstanding_max: u32) -> Model {
        let outstanding_max = outstanding_max.min(self.capabilities.queue_depth);
        let facts = TargetFacts::new(AddressSpace::from(&self.capabilities), outstanding_max);
        let mut state = self.turns.state();
        if state.members.iter().all(|member| member.is_gone) {
            state.begin_phase();
        }
        let index = state.members.len();
        let member = Member { wake: Some(state.origin), ..Member::default() };
        state.members.push(member);
        drop(state);
        Model { model: self.clone(), index, facts, now: Instant::ZERO }
    }
}

impl std::fmt::Debug for SharedModel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SharedModel").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The models of one clock, and whose turn it is.
struct Turns {
    state: Mutex<State>,
}

struct State {
    /// The models by their numbers.
    shelf: Vec<Shelved>,
    now: Instant,
    /// Time at which the phase began.
    origin: Instant,
    members: Vec<Member>,
    /// A member of the phase has had a turn.
    has_begun: bool,
    /// The member whose turn it is.
    running: Option<usize>,
    /// The member that had the last turn.
    last: Option<usize>,
    /// Reason for which no member will ever have a turn again.
    problem: Option<Problem>,
    completions: Vec<Completion>,
}

/// One of the models.
struct Shelved {
    device: Box<dyn Device>,
    /// Requests that it takes at a time.
    depth: usize,
    /// Member and slot of the requests that the device has, by their numbers in the device.
    tags: BTreeMap<u64, (usize, u32)>,
    /// Transfers that find the device full, in order.
    held: VecDeque<(usize, Transfer)>,
    /// Numbers of requests in the device begin there in this phase.
    first_id: u64,
    highest_id: Option<u64>,
}

/// A thread that sends to the model.
#[derive(Default)]
struct Member {
    is_gone: bool,
    /// Next time at which it wants a turn, beside completions.
    wake: Option<Instant>,
    /// Its transfers that have ended since its last turn.
    ended: Vec<Ended>,
    /// Its turn has come.
    called: Arc<Condvar>,
}

/// Reason for which a model does not go on.
#[derive(Clone)]
enum Problem {
    /// No thread will send anything any more, and the device does nothing.
    Idle,
    /// A model refused a request of that number.
    Rejected { model: usize, request: u64, rejected: Rejected },
}

impl State {
    fn begin_phase(&mut self) {
        self.members.clear();
        self.has_begun = false;
        (self.origin, self.running, self.last) = (self.now, None, None);
        for model in &mut self.shelf {
            model.held.clear();
            // Those that are left belong to nobody.
            model.tags.clear();
            model.first_id = model.highest_id.map_or(0, |highest| highest + 1);
        }
    }

    /// Number of a member's request in its device: that of the request itself, if one member sends.
    fn id(&self, model: usize, member: usize, id: RequestId) -> u64 {
        let members = self.members.len() as u64;
        self.shelf[model].first_id.wrapping_add(id.0.wrapping_mul(members)).wrapping_add(member as u64)
    }

    /// Gives the turn to the member that is to have it next: that which is due first, and of several the next in the circle.
    fn next_turn(&mut self) {
        while self.running.is_none() && self.problem.is_none() {
            let wakes = self.members.iter().filter_map(|member| member.wake);
            let events = self.shelf.iter().filter_map(|model| model.device.next_event());
            match wakes.chain(events).min() {
                Some(next) => self.advance(next),
                None => self.problem = Some(Problem::Idle),
            }
        }
        match self.running {
            Some(member) => self.members[member].called.notify_one(),
            None => self.members.iter().for_each(|member| member.called.notify_one()),
        }
    }

    /// Goes to the time of the next event, and chooses a member that is due then.
    fn advance(&mut self, next: Instant) {
        self.now = self.now.max(next);
        for model in 0..self.shelf.len() {
            if let Err((request, rejected)) = self.poll(model) {
                self.problem = Some(Problem::Rejected { model, request, rejected });
                return;
            }
        }
        let count = self.members.len();
        let first = self.last.map_or(0, |last| last + 1);
        let due = (first..first + count).map(|index| index % count).find(|index| {
            let member = &self.members[*index];
            let is_due = member.wake.is_some_and(|wake| wake <= self.now) || !member.ended.is_empty();
            is_due && !member.is_gone
        });
        if due.is_some() {
            (self.running, self.last, self.has_begun) = (due, due, true);
        }
    }

    /// Takes what a model has completed, and gives it what it had no place for.
    fn poll(&mut self, number: usize) -> Result<(), (u64, Rejected)> {
        let mut completions = std::mem::take(&mut self.completions);
        let model = &mut self.shelf[number];
        model.device.poll(self.now, &mut completions);
        for completion in completions.drain(..) {
            let Some((member, tag)) = model.tags.remove(&completion.request.id.0) else { continue };
            let status = completion.outcome.status;
            let completed = Instant::ZERO + completion.completed.saturating_since(self.origin);
            let good_blocks = (!status.is_success()).then_some(completion.outcome.good_blocks);
            self.members[member].ended.push(Ended { tag, completed, status, good_blocks });
        }
        self.completions = completions;
        while self.shelf[number].tags.len() < self.shelf[number].depth
            && let Some((member, transfer)) = self.shelf[number].held.pop_front()
        {
            self.submit(number, member, transfer).map_err(|rejected| (transfer.request.id.0, rejected))?;
        }
        Ok(())
    }

    fn submit(&mut self, model: usize, member: usize, transfer: Transfer) -> Result<(), Rejected> {
        let id = self.id(model, member, transfer.request.id);
        let request = Request { id: RequestId(id), ..transfer.request };
        let model = &mut self.shelf[model];
        model.device.submit(self.now, request)?;
        model.highest_id = model.highest_id.max(Some(id));
        model.tags.insert(id, (member, transfer.tag));
        Ok(())
    }
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Waits until it is the turn of a member.
    fn turn(&self, index: usize) -> Result<MutexGuard<'_, State>, Problem> {
        let mut state = self.state();
        if state.running.is_none() {
            state.next_turn();
        }
        while state.running != Some(index) {
            if let Some(problem) = &state.problem {
                return Err(problem.clone());
            }
            let called = Arc::clone(&state.members[index].called);
            state = called.wait(state).expect("no holder panics");
        }
        Ok(state)
    }
}

/// The model as the target of one thread.
struct Model {
    model: SharedModel,
    index: usize,
    facts: TargetFacts,
    /// Time since the begin of the phase.
    now: Instant,
}

impl Model {
    /// Waits until it is the turn of this thread.
    fn turn(&self) -> Result<MutexGuard<'_, State>, TargetError> {
        let SharedModel { turns, number, address, .. } = &self.model;
        turns.turn(self.index).map_err(|problem| match problem {
            Problem::Rejected { model, request, rejected } if model == *number => {
                TargetError::Rejected { target: address.clone(), request, rejected }
            }
            Problem::Rejected { .. } => TargetError::unusable(address, "another model has failed", ""),
            Problem::Idle => {
                TargetError::unusable(address, "nothing is outstanding, and nothing arrives", "")
            }
        })
    }
}

impl Target for Model {
    fn facts(&self) -> &TargetFacts {
        &self.facts
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn set_clock(&mut self, _: Clock) {}

    fn submit(&mut self, transfers: &[Transfer]) -> Result<(), TargetError> {
        let (number, index) = (self.model.number, self.index);
        let mut state = self.turn()?;
        for transfer in transfers {
            let model = &mut state.shelf[number];
            let is_full = model.tags.len() >= model.depth;
            if is_full && state.members.len() > 1 {
                state.shelf[number].held.push_back((index, *transfer));
                continue;
            }
            state.submit(number, index, *transfer).map_err(|rejected| TargetError::Rejected {
                target: self.model.address.clone(),
                request: transfer.request.id.0,
                rejected,
            })?;
        }
        Ok(())
    }

    fn poll(&mut self, wait: Wait, _: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError> {
        let mut state = self.turn()?;
        state.members[self.index].wake = match wait {
            Wait::Spin => Some(state.now),
            Wait::Until(until) => Some(state.origin + until.saturating_since(Instant::ZERO)),
            Wait::Forever => None,
        };
        state.running = None;
        state.next_turn();
        drop(state);
        let mut state = self.turn()?;
        let now = Instant::ZERO + state.now.saturating_since(state.origin);
        ended.append(&mut state.members[self.index].ended);
        drop(state);
        self.now = now;
        Ok(())
    }

    fn reclassify(&mut self, change: &Reclassification) {
        // A model that failed is past classes.
        let Ok(mut state) = self.turn() else { return };
        let (number, now) = (self.model.number, state.now);
        let id = RequestId(state.id(number, self.index, change.id));
        state.shelf[number].device.reclassify(now, &Reclassification { id, ..*change });
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let Ok(mut state) = self.model.turns.state.lock() else { return };
        // Those of an earlier phase have no place in this one.
        let Some(member) = state.members.get_mut(self.index) else { return };
        (member.is_gone, member.wake) = (true, None);
        if state.running == Some(self.index) {
            state.running = None;
        }
        if state.running.is_none() && state.has_begun && state.members.iter().any(|member| !member.is_gone) {
            state.next_turn();
        }
    }
}
