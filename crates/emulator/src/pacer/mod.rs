//! The pacer (timing manager): any model of a device against model time that follows the wall clock.
//!
//! ```text
//!            arrive(now, request)                      due(now) ─▶ completions, final
//!                  │                                       ▲
//!                  ▼ latest of now - arrival error,        │ earliest due first:
//!                  │ previous arrival, last final          │ completion - early allowance
//!                  │ completion                            │
//!                model ──fork──▶ speculation ──▶ answers ──┘
//! ```
//! Like the models it takes time as an argument and never waits; model time is the time since the start
//! of the run, see [`clock`](crate::clock). A loop around it goes:
//! 1. hand in what has arrived ([`arrive`](Pacer::arrive)) and the changes of class that the host has reported
//!    ([`reclassify`](Pacer::reclassify)), before asking what is due;
//! 2. hand out what is due ([`due`](Pacer::due));
//! 3. wait until [`next_deadline`](Pacer::next_deadline) or the next arrival; asking for it runs the model.
//!
//! A deadline may lie in the past; only [`due`](Pacer::due) moves it on.
//!
//! # The three modes
//! - [`RunToCompletion`](Mode::RunToCompletion): each answer is fixed when the request arrives, by
//!   running a fork until the request completes. The model itself carries the request on, but later
//!   arrivals no longer change the answer. Exact where requests do not overlap.
//! - [`Rollback`](Mode::Rollback): answers are speculated on a fork. An arrival before a speculated
//!   completion returns to the model at the time of the arrival and withdraws the answers behind it. The
//!   fork runs only until it is certain what is due next, and becomes the model as soon as nothing can
//!   arrive before where it stands, so what no arrival withdraws is computed once.
//! - [`Synchronous`](Mode::Synchronous): one instance, whose clock follows the wall clock, ahead by the
//!   largest early-completion allowance outstanding and the lookahead. What the clock has passed is final,
//!   but is handed out only when due. No fork, the least work; the price is that an arrival within that
//!   window of an event of the model (a completion, or the choice of the next request) is clamped to
//!   it \[Griffin 2004, eq. 5.11\].
//!
//! # Scope and limits
//! The arrivals and changes of class as handed to the model, replayed through [`simulate`](seeklab_core::simulate()), give
//! the same completion times in the last two modes, to the nanosecond. Requests outstanding at the same time
//! have different ids. Completions leave in order of their due; where allowances differ between
//! operations, that is not always the order of completion. A model with less room than the host has
//! requests stands behind a queue layer, which whoever builds the device puts there.
//!
//! # References
//! \[Griffin 2004, §5.3\]

mod answers;
mod arrivals;
mod behind;
mod compensation;
mod deadline;
mod estimator;
mod options;
#[cfg(test)]
mod tests;

use std::mem;

use seeklab_core::{
    Absence, Capabilities, ClassHistory, ClassLedger, Completion, Coverage, Device, Duration, Instant,
    Reclassification, Rejected, Request,
};

use answers::Answers;
use behind::Behind;

pub use arrivals::{Clamped, Given};
pub use behind::Changed;
pub use compensation::{Allowance, Compensation, Fixed, PerOperation};
pub use deadline::{Deadlines, Steps};
pub use estimator::AllowanceEstimator;
pub use options::{Mode, Options};
pub use seeklab_core::MissCause;

/// Completions handed out of a speculation after which the model is brought up to them.
const BEHIND_MAX: usize = 32;

/// A completion to hand out. It is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Completion of the model.
    pub completion: Completion,
    /// Class of the request at its arrival, and the changes as they were given to the model.
    pub classes: ClassHistory,
    /// Due time at MP2: the model's completion less the early-completion allowance.
    pub due: Instant,
    /// The time given to the pacer before it ran the model for this answer.
    pub asked: Instant,
    /// Time at which the pacer knew the answer: the time passed to [`model_ended`](Pacer::model_ended) after the
    /// call that found it. If an answer was found and handed out in one call, it is the time passed to that call,
    /// which the caller may replace by its clock after the call.
    pub known: Instant,
}

/// Drives a device against the wall clock.
pub struct Pacer {
    options: Options,
    /// The device with every arrival so far.
    model: Box<dyn Device>,
    /// Time of the last arrival or event in the model.
    model_clock: Instant,
    /// Runs ahead of the model; of use while `ahead` is its clock.
    fork: Box<dyn Device>,
    /// Time that the speculation has reached; `None` while there is none.
    ahead: Option<Instant>,
    answers: Answers,
    behind: Option<Behind>,
    last_arrival: Instant,
    last_final: Instant,
    now: Instant,
    outstanding: usize,
    /// Of the requests since none was outstanding: the largest size, allowance and arrival error.
    blocks_max: u32,
    early_max: Duration,
    arrival_error_max: Duration,
    clamped: Clamped,
    given: Vec<Given>,
    /// Changes of class of what is outstanding.
    classes: ClassLedger,
    scratch: Vec<Completion>,
}

impl Pacer {
    /// A pacer of `device` at time zero.
    pub fn new(device: Box<dyn Device>, options: Options) -> Self {
        Self {
            options,
            fork: device.fork(),
            behind: options.run_behind.then(|| Behind::new(device.fork())),
            model: device,
            model_clock: Instant::ZERO,
            ahead: None,
            answers: Answers::default(),
            last_arrival: Instant::ZERO,
            last_final: Instant::ZERO,
            now: Instant::ZERO,
            outstanding: 0,
            blocks_max: 0,
            early_max: Duration::ZERO,
            arrival_error_max: Duration::ZERO,
            clamped: Clamped::default(),
            given: Vec::new(),
            classes: ClassLedger::new(),
            scratch: Vec::new(),
        }
    }

    /// `request` arrived at MP2 at `now`. Returns the time at which the model receives it.
    ///
    /// # Errors
    /// A request that the model refuses. No completion follows it.
    pub fn arrive(&mut self, now: Instant, request: Request) -> Result<Instant, Rejected> {
        self.model.capabilities().check(&request)?;
        self.now = self.now.max(now);
        let wanted = before(self.now, self.options.compensation.arrival_error(&request));
        let time = wanted.max(self.last_arrival).max(self.last_final).max(self.model_clock);
        self.advance_model_to(time);
        self.model.submit(time, request)?;
        self.accepted(&request, wanted, time);
        if self.options.mode == Mode::RunToCompletion {
            self.run_to_completion(&request);
        }
        Ok(time)
    }

    /// The class of an outstanding request changed in the host at `at`, which is known at `now`. Like an arrival, the
    /// change withdraws what was speculated behind it. Returns the time at which the model receives the change: `at`, or
    /// the [settled](Self::settled) time if that is later. `None` if the change has no effect: the request completes before
    /// that time, or is as pressing already.
    ///
    /// In the mode [`RunToCompletion`](Mode::RunToCompletion) answers are fixed, so the change shows in the class of the
    /// completion alone.
    pub fn reclassify(&mut self, now: Instant, at: Instant, change: &Reclassification) -> Option<Instant> {
        self.now = self.now.max(now);
        let wanted = at.min(self.now);
        let time = wanted.max(self.settled());
        self.advance_model_to(time);
        let in_model = self.model.reclassify(time, change);
        let before = match self.options.mode {
            Mode::RunToCompletion => self.answers.reclassify(time, change),
            Mode::Rollback | Mode::Synchronous => in_model,
        }?;
        self.last_arrival = time;
        self.classes.note(time, change, before);
        if let Some(behind) = &mut self.behind {
            behind.reclassify(wanted, *change);
        }
        Some(time)
    }

    /// Time before which the model receives no further request.
    pub fn settled(&self) -> Instant {
        self.last_arrival.max(self.last_final).max(self.model_clock)
    }

    /// The model, which has received nothing yet.
    ///
    /// # Panics
    /// If a request has arrived.
    pub fn model(&self) -> &dyn Device {
        assert!(self.last_arrival == Instant::ZERO && self.outstanding == 0, "the model has begun");
        &*self.model
    }

    /// Returns the time for the next call of [`due`](Self::due), `None` while nothing is outstanding: the due of
    /// the next completion, or the time at which the synchronous model's clock must move. Runs the model to find
    /// it.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        match self.options.mode {
            Mode::RunToCompletion => self.answers.earliest(self.early_max),
            Mode::Rollback => {
                self.catch_up();
                self.speculate(Instant::MAX);
                self.answers.earliest(self.early_max)
            }
            Mode::Synchronous => {
                let known = self.answers.earliest(self.early_max);
                let event = self.model.next_event().map(|event| before(event, self.window()));
                known.into_iter().chain(event).min()
            }
        }
    }

    /// Appends the completions that are due by `now` or within the `lead` behind it, in order of their
    /// due. They are final.
    pub fn due(&mut self, now: Instant, lead: Duration, out: &mut Vec<Due>) {
        self.now = self.now.max(now);
        let until = self.now + lead;
        if self.options.mode == Mode::Synchronous {
            self.follow_clock(until);
        }
        loop {
            if self.options.mode == Mode::Rollback {
                self.speculate(until);
            }
            let Some(mut due) = self.answers.hand_out(until, self.early_max) else { break };
            let request = &due.completion.request;
            due.classes = self.classes.complete(request.id, request.criticality);
            self.last_final = self.last_final.max(due.completion.completed);
            self.adopt_fork(self.last_final);
            self.outstanding -= 1;
            if let Some(behind) = &mut self.behind {
                behind.answered(&due.completion);
            }
            out.push(due);
        }
    }

    /// The model stopped running at `now`: the caller's clock after [`next_deadline`](Self::next_deadline)
    /// or [`due`](Self::due). It stamps the answers that were found since the last call of this, see
    /// [`Due::known`].
    pub fn model_ended(&mut self, now: Instant) {
        self.answers.stamp(now);
    }

    /// Runs the second instance, which lags by the largest arrival error; to be called when there is time.
    pub fn run_behind(&mut self) {
        let until = before(self.now, self.arrival_error_max);
        if let Some(behind) = &mut self.behind {
            behind.run(until);
        }
    }

    /// Returns the differences that the second instance found, after it has answered every arrival; `None` if
    /// there is none.
    pub fn finish_behind(&mut self) -> Option<Changed> {
        let behind = self.behind.as_mut()?;
        behind.finish();
        Some(behind.changed())
    }

    /// Returns the present compensation.
    pub const fn compensation(&self) -> Compensation {
        self.options.compensation
    }

    /// Compensates so from now on: the hook of dynamic compensation, such as by an [`AllowanceEstimator`].
    /// Answers that are known keep their due.
    pub fn set_compensation(&mut self, compensation: Compensation) {
        self.options.compensation = compensation;
        self.early_max = self.early_max.max(compensation.early_max(self.blocks_max));
    }

    /// The arrivals as handed to the model, in order, if they are recorded.
    pub fn arrivals_given(&self) -> &[Given] {
        &self.given
    }

    /// As [`arrivals_given`](Self::arrivals_given), and forgets them.
    pub fn take_arrivals_given(&mut self) -> Vec<Given> {
        mem::take(&mut self.given)
    }

    /// The arrivals that were clamped so far.
    pub const fn clamped(&self) -> Clamped {
        self.clamped
    }

    /// Requests that arrived and were not handed out.
    pub const fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Returns the capabilities of the model.
    pub fn capabilities(&self) -> &Capabilities {
        self.model.capabilities()
    }

    /// The first absence of the device that ends behind `after`.
    pub fn next_absence(&self, after: Instant) -> Option<Absence> {
        self.model.next_absence(after)
    }

    /// Returns the number of arrivals in the region for which the model was fitted, if the model has one.
    pub fn coverage(&self) -> Option<Coverage> {
        self.model.coverage()
    }

    /// Advances the model to an arrival at `time`, as [`simulate`](seeklab_core::simulate()) would: completions
    /// until then are fixed, and arrivals at the same time are not distinguished.
    fn advance_model_to(&mut self, time: Instant) {
        if time > self.model_clock || self.answers.handed_ahead() > 0 {
            self.adopt_fork(time);
            self.poll_model(time);
        }
        self.ahead = None;
        self.answers.withdraw();
    }

    /// The speculation becomes the model, if it has not gone past `time`, before which nothing arrives
    /// any more.
    fn adopt_fork(&mut self, time: Instant) {
        if let Some(ahead) = self.ahead.take_if(|ahead| *ahead <= time) {
            mem::swap(&mut self.model, &mut self.fork);
            self.model_clock = ahead;
            self.answers.confirm_all();
        }
    }

    /// Keeps what the next arrival must recompute short, where speculation never stops between
    /// completions and so is never adopted.
    fn catch_up(&mut self) {
        if self.answers.handed_ahead() >= BEHIND_MAX {
            self.poll_model(self.last_final);
        }
    }

    fn poll_model(&mut self, time: Instant) {
        let mut scratch = mem::take(&mut self.scratch);
        self.model.poll(time, &mut scratch);
        self.model_clock = time;
        for completion in scratch.drain(..) {
            // Under run to completion the answer was given long ago.
            if self.options.mode != Mode::RunToCompletion && !self.answers.confirm(&completion) {
                self.answers.insert_fixed(self.answer(completion));
            }
        }
        self.scratch = scratch;
    }

    /// Books an arrival that the model took.
    fn accepted(&mut self, request: &Request, wanted: Instant, time: Instant) {
        if time > wanted {
            let moved = time - wanted;
            let culprit = match time {
                time if time == self.last_final => &mut self.clamped.by_completion,
                time if time == self.last_arrival => &mut self.clamped.by_arrival,
                _ => &mut self.clamped.by_model_clock,
            };
            *culprit += 1;
            self.clamped.moved_max = self.clamped.moved_max.max(moved);
            self.clamped.moved_total += moved;
        }
        if self.outstanding == 0 {
            (self.blocks_max, self.early_max) = (0, Duration::ZERO);
        }
        self.outstanding += 1;
        self.last_arrival = time;
        self.blocks_max = self.blocks_max.max(request.blocks);
        let compensation = &self.options.compensation;
        self.early_max = self.early_max.max(compensation.early_max(self.blocks_max));
        self.arrival_error_max = self.arrival_error_max.max(compensation.arrival_error(request));
        if self.options.record_arrivals {
            self.given.push(Given { request: *request, arrived: self.now, given: time });
        }
        if let Some(behind) = &mut self.behind {
            behind.arrive(wanted, *request);
        }
    }

    /// Runs a fork until `request` completes and fixes that answer.
    fn run_to_completion(&mut self, request: &Request) {
        self.model.fork_into(&mut self.fork);
        let mut scratch = mem::take(&mut self.scratch);
        let completion = loop {
            if let Some(completion) = scratch.iter().find(|completion| completion.request.id == request.id) {
                break *completion;
            }
            scratch.clear();
            let event = self.fork.next_event().expect("the model completes what it took");
            self.fork.poll(event, &mut scratch);
        };
        scratch.clear();
        self.scratch = scratch;
        self.answers.insert_fixed(self.answer(completion));
    }

    /// Runs the fork until it is certain what is due next, or that nothing unknown is due by `until`.
    fn speculate(&mut self, until: Instant) {
        let mut scratch = mem::take(&mut self.scratch);
        loop {
            let source = if self.ahead.is_some() { &self.fork } else { &self.model };
            let Some(event) = source.next_event() else { break };
            // What is not known yet completes at the event or later.
            let due = before(event, self.early_max);
            if due > until || self.answers.earliest(self.early_max).is_some_and(|known| due >= known) {
                break;
            }
            if self.ahead.is_none() {
                self.model.fork_into(&mut self.fork);
            }
            self.fork.poll(event, &mut scratch);
            self.ahead = Some(event);
            for completion in scratch.drain(..) {
                self.answers.push_speculated(self.answer(completion));
            }
        }
        self.scratch = scratch;
    }

    /// Moves the synchronous model's clock, event by event, to the end of its window from `until` on.
    fn follow_clock(&mut self, until: Instant) {
        let horizon = until + self.window();
        let mut scratch = mem::take(&mut self.scratch);
        while let Some(event) = self.model.next_event().filter(|event| *event <= horizon) {
            self.model.poll(event, &mut scratch);
            self.model_clock = event;
            for completion in scratch.drain(..) {
                self.answers.insert_fixed(self.answer(completion));
            }
        }
        self.scratch = scratch;
    }

    /// Returns the lead of the synchronous model's clock over the wall clock.
    fn window(&self) -> Duration {
        self.early_max + self.options.compensation.lookahead
    }

    fn answer(&self, completion: Completion) -> Due {
        let early = self.options.compensation.early_allowance(&completion.request);
        let (due, classes) = (before(completion.completed, early), constant_class(&completion));
        Due { completion, classes, due, asked: self.now, known: self.now }
    }
}

/// The history of a request whose class has not changed.
const fn constant_class(completion: &Completion) -> ClassHistory {
    ClassHistory::constant(completion.request.criticality)
}

/// The point `duration` before `instant`, zero if that lies before the start.
fn before(instant: Instant, duration: Duration) -> Instant {
    Instant::from_ns(instant.as_ns().saturating_sub(duration.as_ns()))
}
