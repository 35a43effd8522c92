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

mod failed;
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
    Absence, Capabilities, Completion, Coverage, Criticality, DataEffect, Device, Duration, Event, FaultSet,
    FaultWindow, Hazards, Instant, Location, Operation, Outcome, Positioning, Reclassification, Rejected,
    Request, Status,
};

use crate::fault::{Action, DeviceClock, Gate, Rule, RuleState, Watch};
use failed::{failed, gone_within};
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
    /// The device has received nothing since it began.
    is_fresh: bool,
    /// Events, if the device is watched, or if the layer needs them itself.
    watch: Option<Box<Watch>>,
    /// Somebody takes the events.
    is_watched: bool,
}

/// A request as it was submitted here, and what becomes of it.
#[derive(Debug, Clone, Copy)]
struct Taken {
    request: Request,
    submitted: Instant,
    queue_length: u32,
    fate: Fate,
}

/// Fate of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Fate {
    /// The reply is later by this.
    delay: Duration,
    /// The device is busy for longer by this.
    busy: Duration,
    /// Outcome in place of the device's: the status and, of an error, the first bad block.
    status: Option<(Status, u32)>,
    /// The device does not learn that a write is to be on the media when it completes.
    ignores_fua: bool,
    /// Caps of the bandwidth that hold the request, one bit each.
    caps: u32,
    /// Effect on the data, if the request is carried out.
    effect: DataEffect,
    /// Faults of this layer that struck the request.
    faults: FaultSet,
}

impl Fate {
    /// The request is served as if there were no faults.
    const NONE: Self = Self {
        delay: Duration::ZERO,
        busy: Duration::ZERO,
        status: None,
        ignores_fua: false,
        caps: 0,
        effect: DataEffect::NONE,
        faults: FaultSet::NONE,
    };

    /// The request is carried out after a correction that takes `longer`.
    fn correct(&mut self, longer: Duration) {
        self.busy += longer;
        self.status.get_or_insert((Status::Recovered, 0));
    }

    /// The request fails at a block of it after attempts that take `longer`.
    fn spoil(&mut self, longer: Duration, bad_block: u32) {
        self.busy += longer;
        self.status = Some(match self.status {
            Some((Status::MediumError, before)) => (Status::MediumError, before.min(bad_block)),
            _ => (Status::MediumError, bad_block),
        });
    }
}

/// A request without an answer.
#[derive(Debug, Clone, Copy)]
struct Hanging {
    taken: Taken,
    gives_up: Instant,
    /// Time at which the fault ends and the device gets the request.
    ends: Instant,
    /// The device has no room for it: it goes when a request there ends.
    for_room: bool,
}

/// Reception of a request at its arrival.
enum Arrival {
    Device(Fate),
    Hangs { timeout: Duration, ends: Instant, fate: Fate },
    Fails(Status, Duration, FaultSet),
}

/// Makes `target` as `source`, with as much room, so that a fork grows only when its source has.
fn copy_queue<T: Copy>(target: &mut VecDeque<T>, source: &VecDeque<T>) {
    target.clear();
    target.reserve(source.capacity());
    target.extend(source);
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

    /// Takes what the device completes at `now`.
    fn poll_device(&mut self, now: Instant) {
        let mut scratch = std::mem::take(&mut self.scratch);
        self.device.poll(self.clock.inside(now), &mut scratch);
        if let Some(watch) = &mut self.watch {
            scratch.iter().for_each(|completion| watch.note_completed(completion));
        }
        self.take_events(now, &scratch);
        let mut busy = Duration::ZERO;
        for mut completion in scratch.drain(..) {
            let Inside { taken, answered, .. } = self.inside.remove(completion.request.id);
            if answered {
                continue;
            }
            self.translate(&mut completion, now, &taken);
            let Fate { delay, busy: longer, status, caps, faults, .. } = taken.fate;
            completion.faults = completion.faults.and(faults);
            let mut late = Duration::ZERO;
            if !longer.is_zero() {
                // The device is busy with one after the other.
                busy += longer;
                late = busy;
            }
            if caps != 0 {
                late = self.leave(caps, &completion, late);
            }
            completion.completed += late + delay;
            completion.breakdown.internal += late + delay;
            if let Some((status, good_blocks)) = status {
                let good_blocks = if status.is_success() { completion.request.blocks } else { good_blocks };
                completion.outcome = Outcome { status, good_blocks, ..completion.outcome };
            }
            let outcome = &mut completion.outcome;
            if !outcome.status.is_success() {
                outcome.effect = DataEffect::NONE;
            } else if outcome.effect.is_none() {
                outcome.effect = taken.fate.effect;
            }
            self.hold(completion);
        }
        self.scratch = scratch;
        if !busy.is_zero() {
            self.clock.pause(now, busy);
        }
        while self.inside.len() < self.depth
            && let Some(place) = self.hanging.iter().position(|hanging| hanging.for_room)
        {
            let waited = self.hanging.remove(place).expect("the position was found");
            self.issue(now, waited.taken);
        }
        if self.clock.is_long() {
            let oldest = self.inside.oldest();
            self.clock.forget_before(oldest.unwrap_or_else(|| self.clock.inside(now)));
        }
    }

    /// Takes the events of the device up to `now`, as far as its clock says that they have happened. The device has just
    /// handed out `completed`.
    fn take_events(&mut self, now: Instant, completed: &[Completion]) {
        if let Some(watch) = &mut self.watch {
            let is_completed = |id| completed.iter().any(|completion| completion.request.id == id);
            let is_outstanding = |id| self.inside.holds(id) && !is_completed(id);
            watch.take(&mut *self.device, &self.clock, now, is_outstanding);
            if !self.is_watched {
                watch.forget(now);
            }
        }
    }

    /// Turns a completion that the device hands out at `now` into one outside.
    fn translate(&self, completion: &mut Completion, now: Instant, taken: &Taken) {
        let within = completion.completed - completion.submitted;
        let queued = completion.started - completion.submitted;
        let outside = |time: Instant| self.clock.outside(time).max(taken.submitted);
        completion.request = taken.request;
        completion.submitted = taken.submitted;
        completion.issued = outside(completion.issued);
        completion.started = outside(completion.started).min(now);
        // A slow clock rounds to whole nanoseconds; nothing completes before it was looked for.
        completion.completed = now;
        completion.queue_length = taken.queue_length;
        let longer = (completion.completed - completion.submitted) - within;
        let waited = (completion.started - completion.submitted).saturating_sub(queued);
        let waited = if waited < longer { waited } else { longer };
        completion.breakdown.queue += waited;
        completion.breakdown.internal += longer - waited;
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

    /// Changes what lasts for a window: pauses, speed and presence.
    fn change(&mut self, now: Instant) {
        for (rule, state) in self.rules.iter().zip(&mut self.states) {
            state.window = rule.schedule.advance(state.window, now);
            if let Action::Throttle(throttle) = rule.action
                && state.heat.crossing(&throttle).is_some_and(|crossing| crossing <= now)
            {
                state.heat.cross();
                if let Some(watch) = &mut self.watch {
                    watch.note_begun(now, rule);
                }
            }
        }
        self.changed = now;
        self.quiet_until = self.next_window();
        self.begin(now);
    }

    /// Begins what lasts at `now` and has not begun.
    fn begin(&mut self, now: Instant) {
        self.take_events(now, &[]);
        let (mut factor, mut gone, mut loses_power) = (1.0, FaultSet::NONE, false);
        for (number, (rule, state)) in self.rules.iter().zip(&mut self.states).enumerate() {
            match rule.action {
                Action::Stall if state.begins(now) => {
                    self.clock.pause(now, state.window.end.saturating_since(now));
                }
                Action::Slow(of) if state.window.holds(now) => factor *= of,
                Action::Throttle(throttle) if state.heat.is_hot() && state.window.holds(now) => {
                    factor *= throttle.factor();
                }
                Action::Gone(_) if state.begins(now) => gone = gone.with(self.first_number + number),
                Action::PowerLoss(_) if state.begins(now) => {
                    gone = gone.with(self.first_number + number);
                    loses_power = true;
                }
                _ => {}
            }
        }
        if factor != self.factor {
            self.clock.slow(now, factor);
            self.factor = factor;
        }
        if !gone.is_empty() {
            self.go(now, gone);
        }
        if loses_power {
            self.restart(now);
        }
    }

    /// The device goes because of these faults: everything outstanding fails.
    fn go(&mut self, now: Instant, gone: FaultSet) {
        let struck = |taken: Taken| {
            let faults = taken.fate.faults.and(gone);
            Taken { fate: Fate { faults, ..taken.fate }, ..taken }
        };
        for completion in self.held.iter_mut().filter(|completion| completion.completed > now) {
            let Completion { request, submitted, queue_length, faults, outcome, .. } = *completion;
            let fate = Fate { faults, effect: outcome.effect, ..Fate::default() };
            let taken = Taken { request, submitted, queue_length, fate };
            *completion = gone_within(now, &struck(taken));
        }
        let held = &mut self.held;
        self.inside.answer(|taken| hold(held, gone_within(now, &struck(taken))));
        while let Some(hanging) = self.hanging.pop_front() {
            self.hold(failed(now, &struck(hanging.taken), Status::Gone));
        }
    }

    /// Hands the device a request, now or when it has room.
    fn issue(&mut self, now: Instant, taken: Taken) {
        if self.inside.len() >= self.depth {
            let waits = Hanging { taken, gives_up: Instant::MAX, ends: Instant::MAX, for_room: true };
            return self.hanging.push_back(waits);
        }
        let received = self.clock.inside(now);
        let is_plain = taken.submitted == now
            && received == now
            && taken.fate == Fate::NONE
            && taken.queue_length as usize == self.inside.len();
        self.inside.insert(Inside { taken, received, answered: false, is_plain });
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

    /// Reception of a request that arrives at `now`.
    fn meet(&mut self, now: Instant, request: &Request, queue_length: u32) -> Arrival {
        let mut fate = self.meet_torn_units(now, request);
        let mut hangs: Option<(Duration, Instant)> = None;
        let mut fails = None;
        let mut throttles = false;
        for (number, (rule, state)) in self.rules.iter().zip(&mut self.states).enumerate() {
            let detour = rule.detour(state, self.number, request);
            let strike = rule.strike(state, now, self.number, request, queue_length);
            fate.busy += detour.unwrap_or_default();
            if strike.is_some() || detour.is_some() {
                fate.faults = fate.faults.with(self.first_number + number);
            }
            // What strikes the whole device is an event when it begins.
            let lasts =
                matches!(rule.action, Action::Cap(_) | Action::Throttle(_) | Action::Stall | Action::Slow(_));
            if let Some(watch) =
                self.watch.as_mut().filter(|_| (strike.is_some() || detour.is_some()) && !lasts)
            {
                watch.note_strike(now, rule, request);
            }
            let Some(strike) = strike else { continue };
            match rule.action {
                Action::Delay(_) => fate.delay += strike.length,
                Action::Busy(_) => fate.busy += strike.length,
                Action::Recovered(_) | Action::Remapped(_) => fate.correct(strike.length),
                Action::MediumError { .. } => fate.spoil(strike.length, strike.bad_block.unwrap_or(0)),
                Action::Retries(_) => match strike.bad_block {
                    Some(bad_block) => fate.spoil(strike.length, bad_block),
                    None => fate.correct(strike.length),
                },
                Action::Cap(cap) => fate.caps |= cap.bit(),
                Action::Throttle(throttle) => {
                    let bytes = u64::from(request.blocks) * self.block_bytes;
                    if state.heat.add(&throttle, bytes) {
                        throttles = true;
                        if let Some(watch) = &mut self.watch {
                            watch.note_strike(now, rule, request);
                        }
                    }
                }
                Action::Fail(status, _) => {
                    fails.get_or_insert((status, strike.length));
                }
                Action::Gone(_) | Action::PowerLoss(_) => {
                    fails.get_or_insert((Status::Gone, strike.length));
                }
                Action::Hang(timeout) => drop(hangs.get_or_insert((timeout, state.window.end))),
                Action::IgnoreFua => fate.ignores_fua = true,
                // Of several, the first applies.
                Action::Data(_) if fate.effect.is_none() => fate.effect = strike.effect,
                Action::Data(_) => {}
                Action::Stall | Action::Slow(_) => {}
            }
        }
        if throttles {
            self.begin(now);
        }
        match (fails, hangs) {
            (Some((status, takes)), _) => Arrival::Fails(status, takes, fate.faults),
            (None, Some((timeout, ends))) => Arrival::Hangs { timeout, ends, fate },
            (None, None) => Arrival::Device(fate),
        }
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

impl Fault {
    /// Copies the state of `other`, which has the same faults, apart from that of its device.
    fn copy_state(&mut self, other: &Self) {
        self.states.iter_mut().zip(&other.states).for_each(|(state, other)| state.copy_from(other));
        self.clock.copy_from(&other.clock);
        self.factor = other.factor;
        self.number = other.number;
        self.restarted.clone_from(&other.restarted);
        self.is_fresh = other.is_fresh;
        self.now = other.now;
        self.changed = other.changed;
        self.idle_since = other.idle_since;
        self.quiet_until = other.quiet_until;
        self.limits_busy_time = other.limits_busy_time;
        self.passes_until = other.passes_until;
        self.gates.clone_from(&other.gates);
        self.inside.copy_from(&other.inside);
        copy_queue(&mut self.hanging, &other.hanging);
        copy_queue(&mut self.held, &other.held);
        self.watch.clone_from(&other.watch);
        self.is_watched = other.is_watched;
    }

    /// The device's knowledge of where its heads are.
    fn heads(&self) -> &dyn Positioning {
        self.device.positioning().expect("the caller has checked that there is one")
    }
}

/// The device's own answers, at the time by its clock.
impl Positioning for Fault {
    fn locate(&self, request: &Request) -> Location {
        self.heads().locate(request)
    }

    fn positioning_time(&self, now: Instant, op: Operation, location: &Location) -> Duration {
        self.heads().positioning_time(self.clock.inside(now), op, location)
    }

    fn buffer_holds(&self, request: &Request) -> bool {
        self.heads().buffer_holds(request)
    }

    fn positioning_min(&self, cylinders: u32) -> Duration {
        self.heads().positioning_min(cylinders)
    }

    fn cylinders(&self) -> u32 {
        self.heads().cylinders()
    }

    fn cylinder(&self) -> u32 {
        self.heads().cylinder()
    }

    fn turn(&self) -> Option<Duration> {
        self.heads().turn()
    }
}
