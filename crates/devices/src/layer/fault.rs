//! A layer of faults: a device that answers late, wrongly or not at all.
//!
//! ```text
//! submit ─▶ rules strike ─┬─▶ device, on its own clock ─▶ completion, changed ─┐
//!                         ├─▶ hangs until the fault ends or the host gives up ─┼─▶ held until its time ─▶ poll
//!                         └─▶ fails at once ───────────────────────────────────┘
//! ```
//! The device beneath has a clock of its own ([`DeviceClock`]): while it stands still, nothing in the device moves, and
//! while it runs slow, everything takes longer, also a rotation. That is how a device is busy for longer whatever it is.
//!
//! # Scope and limits
//! A pause keeps the angle of the platters, as if it lasted whole turns. The layer decides about times, outcomes and what
//! becomes of the data; whoever keeps the bytes carries it out. A device that comes back after a loss of power begins as
//! it was at first, also its random draws.

mod arrivals;
mod completions;
mod copies;
mod failed;
mod fate;
mod heads;
mod lasting;
mod outstanding;
mod power;
mod quiet;
mod reclassification;
mod requests;
mod timing;
mod windows;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use seeklab_core::{
    Absence, Capabilities, Completion, Coverage, Criticality, Device, Event, FaultWindow, Hazards, Instant,
    Positioning, Reclassification, Rejected, Request, Status,
};

use crate::fault::{Action, DeviceClock, Gate, Rule, RuleState, Watch};
use failed::failed;
use fate::{Arrival, Fate, Hanging, Taken};
use outstanding::Copied;
use requests::{Inside, Requests};

/// Requests for which there is room from the start.
const ROOM: usize = 32;

/// A layer of faults over a device.
pub struct Fault {
    device: Box<dyn Device>,
    rules: Arc<[Rule]>,
    /// Number of the first of these faults: those of the device come before them.
    first_number: usize,
    states: Vec<RuleState>,
    clock: DeviceClock,
    /// Factor by which the device is slow at present.
    factor: f64,
    /// Requests that the device can hold at a time.
    depth: usize,
    /// Requests submitted so far.
    number: u64,
    /// The last time given to the layer.
    now: Instant,
    /// Time of the last change of a window.
    changed: Instant,
    /// Time of the last completion.
    idle_since: Instant,
    /// Bytes of a block.
    block_bytes: u64,
    inside: Requests,
    /// Time before which no window begins or ends.
    quiet_until: Instant,
    /// Time before which the layer is quiet; zero if it is not.
    passes_until: Instant,
    /// Gates of the rules that may strike while the layer is quiet.
    gates: Vec<Gate>,
    /// A rule acts at a time that depends on how long the device is busy.
    limits_busy_time: bool,
    /// Requests without an answer, in order of arrival.
    hanging: VecDeque<Hanging>,
    /// Completions that wait for their time, in order of it.
    held: VecDeque<Completion>,
    scratch: Vec<Completion>,
    /// The device as it is when its power comes back, if it may lose it.
    restarted: Option<Arc<Mutex<Box<dyn Device>>>>,
    /// Finds the requests that are outstanding when the device goes.
    copied: Arc<Copied>,
    /// The device has received nothing since it began.
    is_fresh: bool,
    /// Events, if the device is watched, or if the layer needs them itself.
    watch: Option<Box<Watch>>,
    /// Somebody takes the events.
    is_watched: bool,
}

/// Adds a completion to those that wait for their time.
fn hold(held: &mut VecDeque<Completion>, completion: Completion) {
    let place = held.partition_point(|other| other.completed <= completion.completed);
    held.insert(place, completion);
}

impl Fault {
    /// Puts faults before `device`.
    pub fn new(device: Box<dyn Device>, rules: Vec<Rule>) -> Self {
        let depth = device.capabilities().queue_depth as usize;
        let block_bytes = device.capabilities().block_size.as_bytes();
        let limits_busy_time = quiet::limits_busy_time(&rules);
        let states = rules.iter().map(Rule::state).collect();
        let gates = Vec::with_capacity(rules.len());
        let loses_power = rules.iter().any(|rule| matches!(rule.action, Action::PowerLoss(_)));
        let first_number = device.faults().len();
        let mut fault = Self {
            restarted: loses_power.then(|| Arc::new(Mutex::new(device.fork()))),
            copied: Arc::new(Copied::new()),
            is_fresh: true,
            device,
            rules: rules.into(),
            first_number,
            states,
            clock: DeviceClock::default(),
            factor: 1.0,
            depth,
            number: 0,
            now: Instant::ZERO,
            changed: Instant::ZERO,
            idle_since: Instant::ZERO,
            block_bytes,
            inside: Requests::new(),
            quiet_until: Instant::ZERO,
            passes_until: Instant::ZERO,
            gates,
            limits_busy_time,
            hanging: VecDeque::with_capacity(ROOM),
            held: VecDeque::with_capacity(ROOM),
            scratch: Vec::with_capacity(ROOM),
            watch: None,
            is_watched: false,
        };
        fault.watch_torn_units();
        fault.begin(Instant::ZERO);
        fault.quiet_until = fault.next_window();
        fault.settle();
        fault
    }

    /// Requests that were accepted and whose completion was not handed out.
    fn outstanding(&self) -> usize {
        self.inside.len() - self.inside.answered() + self.hanging.len() + self.held.len()
    }

    /// The next change of a window, or the time at which a busy device is throttled.
    fn next_change(&self) -> Option<Instant> {
        let windows = self.states.iter().filter_map(|state| state.window.change_after(self.changed)).min();
        let throttled = self.rules.iter().zip(&self.states).filter_map(|(rule, state)| match &rule.action {
            Action::Throttle(throttle) => state.heat.crossing(throttle),
            _ => None,
        });
        windows.into_iter().chain(throttled).min()
    }

    fn next_hanging(&self) -> Option<Instant> {
        self.hanging.iter().map(|hanging| hanging.gives_up.min(hanging.ends)).min()
    }

    fn next_inside(&self) -> Option<Instant> {
        self.device.next_event().map(|event| self.clock.outside(event).max(self.now))
    }

    /// Returns true if there is anything behind `time` that a fault can strike.
    fn is_busy_behind(&self, time: Instant) -> bool {
        self.device.next_event().is_some()
            || !self.hanging.is_empty()
            || self.held.back().is_some_and(|completion| completion.completed > time)
    }

    /// Advances the device, what hangs, and the windows as far as they can strike, to `now`.
    fn advance(&mut self, now: Instant) {
        loop {
            let inside = self.next_inside();
            let change = self.next_change().filter(|change| self.is_busy_behind(*change));
            // What is in a buffer is lost also while nothing is outstanding.
            let change = change.or_else(|| self.next_power_change());
            let hanging = self.next_hanging();
            let next = [inside, change, hanging].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= now) else { break };
            self.now = next;
            if inside == Some(next) {
                self.poll_device(next);
            } else if hanging == Some(next) {
                self.end_hanging(next);
            } else {
                self.change(next);
            }
        }
        self.now = now;
    }

    /// Keeps a completion until its time.
    fn hold(&mut self, completion: Completion) {
        hold(&mut self.held, completion);
    }

    /// Answers what has hung for too long, and hands the device what no longer hangs.
    fn end_hanging(&mut self, now: Instant) {
        let due = |hanging: &Hanging| hanging.gives_up.min(hanging.ends) <= now;
        while let Some(place) = self.hanging.iter().position(due) {
            let hanging = self.hanging.remove(place).expect("the position was found");
            if hanging.ends <= now {
                self.issue(now, hanging.taken);
            } else {
                self.hold(failed(now, &hanging.taken, Status::Timeout));
            }
        }
    }

    /// Hands the device a request, now or when it has room.
    fn issue(&mut self, now: Instant, taken: Taken) {
        if self.inside.len() >= self.depth {
            let waits = Hanging { taken, gives_up: Instant::MAX, ends: Instant::MAX, for_room: true };
            return self.hanging.push_back(waits);
        }
        let received = self.clock.inside(now);
        // A watch asks for requests by number.
        let is_plain = self.watch.is_none()
            && self.clock.is_even()
            && taken.submitted == now
            && taken.fate == Fate::NONE
            && taken.queue_length as usize == self.inside.len();
        if is_plain {
            self.inside.add_plain();
        } else {
            self.inside.insert(Inside { taken, received, answered: false });
        }
        // What comes behind belongs to later than now, though a slow clock may stand where it stood before.
        self.take_events(now, &[]);
        if let Some(watch) = &mut self.watch {
            let fails = taken.fate.status.filter(|(status, _)| !status.is_success());
            let good_blocks = fails.map(|(_, good_blocks)| good_blocks);
            watch.note_issued(now, &taken.request, good_blocks, taken.fate.effect);
        }
        let request = Request { fua: taken.request.fua && !taken.fate.ignores_fua, ..taken.request };
        self.is_fresh = false;
        self.device.submit(received, request).expect("the request was checked, and there is room");
        // What happens at once belongs to now, though a device that stands still stamps it with an earlier time.
        self.take_events(now, &[]);
    }

    /// Takes a request that a fault may strike. Apart from the short way, which is to save no registers for it.
    #[inline(never)]
    fn receive(&mut self, now: Instant, request: Request, is_quiet: bool) -> Result<(), Rejected> {
        self.device.capabilities().check(&request)?;
        let outstanding = self.outstanding();
        if outstanding >= self.depth {
            return Err(Rejected::QueueFull { queue_depth: self.device.capabilities().queue_depth });
        }
        if is_quiet {
            self.now = now;
        } else {
            self.advance(now);
        }
        self.count_load(now, outstanding);
        if !is_quiet {
            // Windows that began while nothing was there.
            self.change(now);
        }
        let queue_length = u32::try_from(outstanding).unwrap_or(u32::MAX);
        let arrival = self.meet(now, &request, queue_length);
        self.number += 1;
        let taken = |fate| Taken { request, submitted: now, queue_length, fate };
        match arrival {
            Arrival::Device(fate) => self.issue(now, taken(fate)),
            Arrival::Fails(status, takes, faults) => {
                let fate = Fate { faults, ..Fate::default() };
                self.hold(failed(now + takes, &taken(fate), status));
            }
            Arrival::Hangs { timeout, ends, fate } => {
                let hanging = Hanging { taken: taken(fate), gives_up: now + timeout, ends, for_room: false };
                self.hanging.push_back(hanging);
            }
        }
        self.settle();
        Ok(())
    }

    /// Takes what completes in the device, hangs or is held.
    #[inline(never)]
    fn hand_out(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.advance(now);
        while self.held.front().is_some_and(|completion| completion.completed <= now) {
            let Some(completion) = self.held.pop_front() else { break };
            self.idle_since = completion.completed;
            completions.push(completion);
        }
        self.settle();
    }

    /// The next event of a layer that is not quiet.
    #[inline(never)]
    fn next_of_all(&self) -> Option<Instant> {
        if self.outstanding() == 0 {
            return None;
        }
        let held = self.held.front().map(|completion| completion.completed);
        let all = [held, self.next_inside(), self.next_change(), self.next_hanging()];
        all.into_iter().flatten().min().map(|event| event.max(self.now))
    }
}

impl Device for Fault {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        let is_quiet = self.is_quiet(now);
        if is_quiet && self.lets_pass(&request) {
            return self.pass_request(now, request);
        }
        self.receive(now, request, is_quiet)
    }

    fn reclassify(&mut self, now: Instant, change: &Reclassification) -> Option<Criticality> {
        self.reclassify_outstanding(now, change)
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        if self.is_quiet(now) {
            return self.pass_completions(now, completions);
        }
        self.hand_out(now, completions);
    }

    fn next_event(&self) -> Option<Instant> {
        if self.is_quiet(self.now) {
            return Some(self.device.next_event()?.min(self.quiet_until));
        }
        self.next_of_all()
    }

    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        self.device.positioning().map(|_| self as &dyn Positioning)
    }

    fn advance_heads(&mut self, now: Instant) {
        // The clock is right up to its next change.
        let known = self.next_change().map_or(now, |change| change.min(now));
        self.device.advance_heads(self.clock.inside(known));
    }

    fn coverage(&self) -> Option<Coverage> {
        self.device.coverage()
    }

    fn faults(&self) -> Vec<Arc<str>> {
        let mut names = self.device.faults();
        names.extend(self.rules.iter().map(|rule| rule.own_name()));
        names
    }

    fn hazards(&self) -> Hazards {
        self.rules.iter().fold(self.device.hazards(), |all, rule| all.or(rule.action.hazards()))
    }

    fn next_absence(&self, after: Instant) -> Option<Absence> {
        let inner = self.device.next_absence(self.clock.inside(after)).map(|absence| Absence {
            from: self.clock.outside(absence.from),
            until: self.clock.outside(absence.until),
            ..absence
        });
        let own = self.rules.iter().zip(&self.states).filter_map(|(rule, state)| {
            let loses_power = match rule.action {
                Action::Gone(_) => false,
                Action::PowerLoss(_) => true,
                _ => return None,
            };
            let window = rule.schedule.advance(state.window, after);
            (window.end > after).then_some(Absence { from: window.start, until: window.end, loses_power })
        });
        own.chain(inner).min_by_key(|absence| absence.from)
    }

    fn fault_windows(&self, end: Instant) -> Vec<FaultWindow> {
        self.windows_before(end)
    }

    fn watch(&mut self) {
        assert!(self.number == 0, "a device is watched from the start");
        if self.watch.is_none() {
            self.watch_device(self.device.hazards().tearing);
        }
        self.is_watched = true;
        self.settle();
    }

    fn events(&mut self, now: Instant, events: &mut Vec<Event>) {
        // What went on in a device that was gone.
        self.advance(now);
        self.take_events(now, &[]);
        if let Some(watch) = &mut self.watch {
            watch.hand_out(&self.rules, now, events);
        }
        self.settle();
    }

    fn work_ends(&self) -> Option<Instant> {
        self.device.work_ends().map(|end| self.clock.outside(end))
    }

    fn fork(&self) -> Box<dyn Device> {
        let mut fork = Self {
            device: self.device.fork(),
            rules: Arc::clone(&self.rules),
            first_number: self.first_number,
            states: self.states.clone(),
            clock: DeviceClock::default(),
            factor: 1.0,
            depth: self.depth,
            number: 0,
            now: Instant::ZERO,
            changed: Instant::ZERO,
            idle_since: Instant::ZERO,
            block_bytes: self.block_bytes,
            inside: Requests::new(),
            quiet_until: Instant::ZERO,
            passes_until: Instant::ZERO,
            gates: Vec::with_capacity(self.rules.len()),
            limits_busy_time: false,
            hanging: VecDeque::new(),
            held: VecDeque::new(),
            scratch: Vec::new(),
            restarted: self.restarted.clone(),
            copied: Arc::clone(&self.copied),
            is_fresh: true,
            watch: None,
            is_watched: false,
        };
        fork.copy_state(self);
        Box::new(fork)
    }

    fn fork_into(&self, target: &mut Box<dyn Device>) {
        let like = target.as_any_mut().downcast_mut::<Self>();
        match like.filter(|target| target.rules.len() == self.rules.len()) {
            Some(target) => {
                self.device.fork_into(&mut target.device);
                target.rules = Arc::clone(&self.rules);
                target.first_number = self.first_number;
                target.depth = self.depth;
                target.block_bytes = self.block_bytes;
                target.copy_state(self);
            }
            None => *target = self.fork(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
