//! Models of the catalog or of files in real time: the pacer of the emulator in this process, for devices that are faster than
//! any frontend.
//!
//! ```text
//! thread 0 ─┐ submit      ┌───────┐ due
//! thread 1 ─┼────────────▶│ pacer │──────▶ the thread that submitted, at its next poll
//!           └─ poll: sleep to the margin before the next deadline, spin the rest
//! ```
//! # Scope and limits
//! There is no data, kernel or server between: the times are those of the model and of this process. Threads share one
//! pacer. A request that one thread makes complete earlier than another one expected (by the order of a scheduler) is found
//! when that other thread looks next, at most [`LOOK`] later. The device keeps its state from phase to phase.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use seeklab_core::statistics::Distribution;
use seeklab_core::{
    Capabilities, Coverage, Device, Duration, Instant, Reclassification, Rejected, Request, RequestId,
};
use seeklab_emulator::clock::{Clock, DEFAULT_MARGIN, Pacing, Wait, Waiter};
use seeklab_emulator::pacer::{Due, Options, Pacer};
use seeklab_workloads::AddressSpace;

use super::idle::idle;
use super::{Ended, Opening, Target, TargetError, TargetFacts, TargetKind, Transfer};

/// Its line in the list of targets.
pub(super) const KIND: TargetKind = TargetKind {
    name: "emulate",
    form: "emulate:DEVICE",
    meaning: "A device of the catalog or of a TOML file, in real time in this process",
    matches: |address| address.strip_prefix("emulate:"),
    holds_data: false,
    is_model: true,
    has_priorities: false,
    is_virtual: false,
    identify: super::unidentified,
    is_expendable: super::never_expendable,
    open,
};

/// Longest time for which a thread does not look, if several share the device.
const LOOK: Duration = Duration::from_us(50);

fn open(name: &str, opening: &Opening<'_>) -> Result<Box<dyn Target>, TargetError> {
    let address = format!("emulate:{name}");
    let device = (opening.emulated)(name).map_err(|problem| TargetError::unusable(&address, problem, ""))?;
    Ok(Box::new(device.join(opening.options.outstanding_max, opening.options.pacing, opening.clock)))
}

/// An emulated device that the threads of a run share. Every clone is the same device.
#[derive(Clone)]
pub struct SharedEmulation {
    address: String,
    capabilities: Capabilities,
    /// Time of the device.
    clock: Clock,
    state: Arc<Mutex<State>>,
}

struct State {
    pacer: Pacer,
    /// Requests that the device takes at a time.
    depth: usize,
    next_id: u64,
    /// Member and transfer of the requests in the device, by their numbers there.
    outstanding: BTreeMap<u64, (usize, Transfer)>,
    /// Transfers that find the device full, in order.
    held: VecDeque<(usize, Transfer)>,
    /// Transfers of each member that have ended and that it has not taken. Members of earlier phases stay, empty.
    ended: Vec<Vec<Ended>>,
    /// Members of this phase.
    present: usize,
    due: Vec<Due>,
    lateness: Distribution,
}

impl SharedEmulation {
    /// The device, whose time zero is now.
    pub fn new(address: String, device: Box<dyn Device>) -> Self {
        let capabilities = device.capabilities().clone();
        let state = State {
            pacer: Pacer::new(device, Options::default()),
            depth: capabilities.queue_depth as usize,
            next_id: 0,
            outstanding: BTreeMap::new(),
            held: VecDeque::new(),
            ended: Vec::new(),
            present: 0,
            due: Vec::new(),
            lateness: Distribution::default(),
        };
        Self { address, capabilities, clock: Clock::start(), state: Arc::new(Mutex::new(state)) }
    }

    /// Requests inside and outside of what the device was fitted to, since its begin. `None` if it was not fitted.
    pub fn coverage(&self) -> Option<Coverage> {
        self.state().pacer.coverage()
    }

    /// Time from the deadlines of requests to the polls that handed them out, of those handed out since the last call.
    pub fn take_lateness(&self) -> Distribution {
        std::mem::take(&mut self.state().lateness)
    }

    /// A target of one more thread.
    fn join(&self, outstanding_max: u32, pacing: Pacing, clock: Clock) -> Emulated {
        let outstanding_max = outstanding_max.min(self.capabilities.queue_depth);
        let facts = TargetFacts::new(AddressSpace::from(&self.capabilities), outstanding_max);
        let mut state = self.state();
        state.ended.push(Vec::new());
        state.present += 1;
        let member = state.ended.len() - 1;
        drop(state);
        let waiter = Waiter::new(self.clock, pacing, DEFAULT_MARGIN);
        Emulated { device: self.clone(), member, facts, clock, waiter, calls: 0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

impl std::fmt::Debug for SharedEmulation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SharedEmulation").field("address", &self.address).finish_non_exhaustive()
    }
}

impl State {
    fn submit(&mut self, now: Instant, member: usize, transfer: Transfer) -> Result<(), Rejected> {
        if self.outstanding.len() >= self.depth {
            self.held.push_back((member, transfer));
            return Ok(());
        }
        let id = self.next_id;
        self.pacer.arrive(now, Request { id: RequestId(id), ..transfer.request })?;
        self.next_id += 1;
        self.outstanding.insert(id, (member, transfer));
        Ok(())
    }

    /// Hands out what is due, stamped with `completed`, and gives the device what it had no place for.
    fn hand_out(&mut self, now: Instant, completed: Instant) -> Result<(), (u64, Rejected)> {
        let mut due = std::mem::take(&mut self.due);
        self.pacer.due(now, Duration::ZERO, &mut due);
        for due in due.drain(..) {
            let outcome = due.completion.outcome;
            let (member, transfer) =
                self.outstanding.remove(&due.completion.request.id.0).expect("a request completes once");
            self.lateness.record(now.saturating_since(due.due));
            let good_blocks = (!outcome.status.is_success()).then_some(outcome.good_blocks);
            self.ended[member].push(Ended {
                tag: transfer.tag,
                completed,
                status: outcome.status,
                good_blocks,
            });
        }
        self.due = due;
        while self.outstanding.len() < self.depth
            && let Some((member, transfer)) = self.held.pop_front()
        {
            self.submit(now, member, transfer).map_err(|rejected| (transfer.request.id.0, rejected))?;
        }
        Ok(())
    }
}

/// The device as the target of one thread.
struct Emulated {
    device: SharedEmulation,
    member: usize,
    facts: TargetFacts,
    clock: Clock,
    /// Waits for deadlines, on the clock of the device.
    waiter: Waiter,
    calls: u64,
}

impl Emulated {
    fn rejected(&self, request: u64, rejected: Rejected) -> TargetError {
        TargetError::Rejected { target: self.device.address.clone(), request, rejected }
    }

    /// Takes what has ended. Returns the next deadline of the device, and the longest time for which this thread may not
    /// look.
    fn collect(&self, ended: &mut Vec<Ended>) -> Result<(Option<Instant>, Option<Duration>), TargetError> {
        let mut state = self.device.state();
        state
            .hand_out(self.device.clock.now(), self.clock.now())
            .map_err(|(request, rejected)| self.rejected(request, rejected))?;
        ended.append(&mut state.ended[self.member]);
        let deadline = state.pacer.next_deadline();
        state.pacer.model_ended(self.device.clock.now());
        Ok((deadline, (state.present > 1).then_some(LOOK)))
    }
}

impl Target for Emulated {
    fn facts(&self) -> &TargetFacts {
        &self.facts
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    fn submit(&mut self, transfers: &[Transfer]) -> Result<(), TargetError> {
        let mut state = self.device.state();
        for transfer in transfers {
            // Each at its own time: the model takes some for each of them.
            let now = self.device.clock.now();
            let request = transfer.request.id.0;
            state.submit(now, self.member, *transfer).map_err(|rejected| self.rejected(request, rejected))?;
        }
        Ok(())
    }

    fn poll(&mut self, wait: Wait, at_least: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError> {
        let before = ended.len();
        let (deadline, longest) = self.collect(ended)?;
        if ended.len() - before >= at_least.max(1) as usize {
            return Ok(());
        }
        let now = self.device.clock.now();
        let until_deadline = self.waiter.plan(now, deadline, None).within(now, longest);
        let on_own_clock =
            |time: Instant| self.clock.at(self.device.clock.origin_ns().saturating_add(time.as_ns()));
        let wait = match (wait, until_deadline) {
            (Wait::Spin, _) | (_, Wait::Spin) => Wait::Spin,
            (wait, Wait::Forever) => wait,
            (Wait::Forever, Wait::Until(deadline)) => Wait::Until(on_own_clock(deadline)),
            (Wait::Until(until), Wait::Until(deadline)) => Wait::Until(until.min(on_own_clock(deadline))),
        };
        self.calls += idle(self.clock, wait);
        self.collect(ended).map(|_| ())
    }

    fn reclassify(&mut self, change: &Reclassification) {
        let mut state = self.device.state();
        let sent = |(_, (member, transfer)): &(&u64, &(usize, Transfer))| {
            *member == self.member && transfer.request.id == change.id
        };
        let Some((id, _)) = state.outstanding.iter().find(sent) else { return };
        let (id, now) = (RequestId(*id), self.device.clock.now());
        state.pacer.reclassify(now, now, &Reclassification { id, ..*change });
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let Ok(mut state) = self.device.state.lock() else { return };
        state.present -= 1;
        let member = self.member;
        state.held.retain(|(holder, _)| *holder != member);
    }
}
