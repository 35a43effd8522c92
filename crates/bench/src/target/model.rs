//! A model of the catalog or of a file, in virtual time: the clock goes to the next event at once.
//!
//! ```text
//! thread 0 ─┐ submit, poll   one at a time, in turn   ┌────────┐
//! thread 1 ─┼────────────────────────────────────────▶│ device │   time advances when all of them wait
//! thread 2 ─┘                                         └────────┘
//! ```
//! # Scope and limits
//! The model gets the arrivals that [`simulate`](seeklab_core::simulate()) gives it, at the same times, so the times
//! are the same to the nanosecond. Several threads that send to one model take turns: the order of what they do at one
//! time is that of their numbers, so a run is the same every time. The model keeps its state from phase to phase.

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
    is_virtual: true,
    open,
};

fn open(name: &str, opening: &Opening<'_>) -> Result<Box<dyn Target>, TargetError> {
    let address = format!("model:{name}");
    let model = (opening.model)(name).map_err(|problem| TargetError::unusable(&address, problem, ""))?;
    Ok(Box::new(model.join(opening.options.outstanding_max)))
}

/// A model that the threads of a run share. Every clone is the same model.
#[derive(Clone)]
pub struct SharedModel(Arc<Turns>);

impl SharedModel {
    /// The model of that address at its time zero.
    pub fn new(address: String, device: Box<dyn Device>) -> Self {
        let capabilities = device.capabilities().clone();
        let state = State {
            device,
            now: Instant::ZERO,
            origin: Instant::ZERO,
            members: Vec::new(),
            has_begun: false,
            running: None,
            last: None,
            problem: None,
            tags: BTreeMap::new(),
            held: VecDeque::new(),
            first_id: 0,
            highest_id: None,
            completions: Vec::new(),
        };
        Self(Arc::new(Turns { address, capabilities, state: Mutex::new(state) }))
    }

    /// The time on the clock of the model since its begin.
    pub fn time(&self) -> Instant {
        self.0.state().now
    }

    /// Requests inside and outside of what the model was fitted to, since its begin. `None` if it was not fitted.
    pub fn coverage(&self) -> Option<Coverage> {
        self.0.state().device.coverage()
    }

    /// A target of one more thread. If all threads before have gone, a phase begins: time zero of the new targets is now.
    fn join(&self, outstanding_max: u32) -> Model {
        let capabilities = &self.0.capabilities;
        let outstanding_max = outstanding_max.min(capabilities.queue_depth);
        let facts = TargetFacts::new(AddressSpace::from(capabilities), outstanding_max);
        let mut state = self.0.state();
        if state.members.iter().all(|member| member.is_gone) {
            state.begin_phase();
        }
        let index = state.members.len();
        let member = Member { wake: Some(state.origin), ..Member::default() };
        state.members.push(member);
        drop(state);
        Model { turns: Arc::clone(&self.0), index, facts, now: Instant::ZERO }
    }
}

impl std::fmt::Debug for SharedModel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SharedModel").field("address", &self.0.address).finish_non_exhaustive()
    }
}

/// The model, and whose turn it is.
struct Turns {
    address: String,
    capabilities: Capabilities,
    state: Mutex<State>,
}

struct State {
    device: Box<dyn Device>,
    now: Instant,
    /// Time of the model at which the phase began.
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
    /// Member and slot of the requests that the device has, by their numbers in the device.
    tags: BTreeMap<u64, (usize, u32)>,
    /// Transfers that find the device full, in order.
    held: VecDeque<(usize, Transfer)>,
    /// Numbers of requests in the device begin there in this phase.
    first_id: u64,
    highest_id: Option<u64>,
    completions: Vec<Completion>,
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
    /// The device refused a request of that number.
    Rejected(u64, Rejected),
}

impl State {
    fn begin_phase(&mut self) {
        self.members.clear();
        self.has_begun = false;
        self.held.clear();
        // Those that are left belong to nobody.
        self.tags.clear();
        (self.origin, self.running, self.last) = (self.now, None, None);
        self.first_id = self.highest_id.map_or(0, |highest| highest + 1);
    }

    /// Number of a member's request in the device: that of the request itself, if one member sends.
    fn id(&self, member: usize, id: RequestId) -> u64 {
        let members = self.members.len() as u64;
        self.first_id.wrapping_add(id.0.wrapping_mul(members)).wrapping_add(member as u64)
    }

    /// Gives the turn to the member that is to have it next: that which is due first, and of several the next in the circle.
    fn next_turn(&mut self, depth: usize) {
        while self.running.is_none() && self.problem.is_none() {
            let wakes = self.members.iter().filter_map(|member| member.wake);
            match wakes.chain(self.device.next_event()).min() {
                Some(next) => self.advance(next, depth),
                None => self.problem = Some(Problem::Idle),
            }
        }
        match self.running {
            Some(member) => self.members[member].called.notify_one(),
            None => self.members.iter().for_each(|member| member.called.notify_one()),
        }
    }

    /// Goes to the time of the next event, and chooses a member that is due then.
    fn advance(&mut self, next: Instant, depth: usize) {
        self.now = self.now.max(next);
        let mut completions = std::mem::take(&mut self.completions);
        self.device.poll(self.now, &mut completions);
        for completion in completions.drain(..) {
            let Some((member, tag)) = self.tags.remove(&completion.request.id.0) else { continue };
            let status = completion.outcome.status;
            let completed = Instant::ZERO + completion.completed.saturating_since(self.origin);
            let good_blocks = (!status.is_success()).then_some(completion.outcome.good_blocks);
            self.members[member].ended.push(Ended { tag, completed, status, good_blocks });
        }
        self.completions = completions;
        while self.tags.len() < depth
            && let Some((member, transfer)) = self.held.pop_front()
        {
            if let Err(rejected) = self.submit(member, transfer) {
                self.problem = Some(Problem::Rejected(transfer.request.id.0, rejected));
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

    fn submit(&mut self, member: usize, transfer: Transfer) -> Result<(), Rejected> {
        let id = self.id(member, transfer.request.id);
        let request = Request { id: RequestId(id), ..transfer.request };
        self.device.submit(self.now, request)?;
        self.highest_id = self.highest_id.max(Some(id));
        self.tags.insert(id, (member, transfer.tag));
        Ok(())
    }
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn depth(&self) -> usize {
        self.capabilities.queue_depth as usize
    }

    /// Waits until it is the turn of a member.
    fn turn(&self, index: usize) -> Result<MutexGuard<'_, State>, TargetError> {
        let mut state = self.state();
        if state.running.is_none() {
            state.next_turn(self.depth());
        }
        while state.running != Some(index) {
            if let Some(problem) = &state.problem {
                return Err(match problem.clone() {
                    Problem::Rejected(request, rejected) => self.rejected(request, rejected),
                    Problem::Idle => {
                        let problem = "nothing is outstanding, and nothing arrives";
                        TargetError::unusable(&self.address, problem, "")
                    }
                });
            }
            let called = Arc::clone(&state.members[index].called);
            state = called.wait(state).expect("no holder panics");
        }
        Ok(state)
    }

    fn rejected(&self, request: u64, rejected: Rejected) -> TargetError {
        TargetError::Rejected { target: self.address.clone(), request, rejected }
    }
}

/// The model as the target of one thread.
struct Model {
    turns: Arc<Turns>,
    index: usize,
    facts: TargetFacts,
    /// Time since the begin of the phase.
    now: Instant,
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
        let (turns, index) = (Arc::clone(&self.turns), self.index);
        let depth = turns.depth();
        let mut state = turns.turn(index)?;
        for transfer in transfers {
            if state.members.len() > 1 && state.tags.len() >= depth {
                state.held.push_back((index, *transfer));
                continue;
            }
            state
                .submit(index, *transfer)
                .map_err(|rejected| turns.rejected(transfer.request.id.0, rejected))?;
        }
        Ok(())
    }

    fn poll(&mut self, wait: Wait, _: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError> {
        let (turns, index) = (Arc::clone(&self.turns), self.index);
        let mut state = turns.turn(index)?;
        state.members[index].wake = match wait {
            Wait::Spin => Some(state.now),
            Wait::Until(until) => Some(state.origin + until.saturating_since(Instant::ZERO)),
            Wait::Forever => None,
        };
        state.running = None;
        state.next_turn(turns.depth());
        drop(state);
        let mut state = turns.turn(index)?;
        self.now = Instant::ZERO + state.now.saturating_since(state.origin);
        ended.append(&mut state.members[index].ended);
        Ok(())
    }

    fn reclassify(&mut self, change: &Reclassification) {
        let index = self.index;
        // A model that failed is past classes.
        let Ok(mut state) = self.turns.turn(index) else { return };
        let now = state.now;
        let id = RequestId(state.id(index, change.id));
        state.device.reclassify(now, &Reclassification { id, ..*change });
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let Ok(mut state) = self.turns.state.lock() else { return };
        // Those of an earlier phase have no place in this one.
        let Some(member) = state.members.get_mut(self.index) else { return };
        (member.is_gone, member.wake) = (true, None);
        if state.running == Some(self.index) {
            state.running = None;
        }
        if state.running.is_none() && state.has_begun && state.members.iter().any(|member| !member.is_gone) {
            state.next_turn(self.turns.depth());
        }
    }
}
