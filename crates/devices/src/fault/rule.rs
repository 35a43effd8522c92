//! A fault that was checked: which requests it strikes, when, and what it does to them.

use std::sync::Arc;

use schemars::JsonSchema;
use seeklab_core::{
    BlockSet, DataEffect, Duration, Effect, Hazards, Instant, NumberedStreams, Operation, Request, Status,
    Stream,
};
use serde::{Deserialize, Serialize};

use super::cap::Cap;
use super::data::DataFault;
use super::ladder::Ladder;
use super::remapped::Remapped;
use super::schedule::{Schedule, Window};
use super::throttle::{Heat, Throttle};

/// A fault that was checked.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Name of the fault.
    pub name: Arc<str>,
    /// Effect of the fault.
    pub action: Action,
    /// Requests that it can strike.
    pub selector: Selector,
    /// Times at which it can strike.
    pub schedule: Schedule,
    /// Time from the start of a window to full strength.
    pub ramp: Duration,
    /// Requests of the device that pass first.
    pub after: u64,
    /// Of the requests that it can strike, each so many-th.
    pub every: u64,
    /// Probability for each of those.
    pub probability: f64,
    /// Draws, by number of the request.
    pub streams: NumberedStreams,
}

/// Effect of a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action {
    /// The reply comes later; the device is free meanwhile.
    Delay(Length),
    /// The device is busy for longer.
    Busy(Length),
    /// The device stands still while the window lasts.
    Stall,
    /// Everything in the device takes longer by this factor while the window lasts.
    Slow(f64),
    /// The request is carried out with a correction, for which the device is busy.
    Recovered(Length),
    /// A block cannot be read or written; the device is busy for longer.
    MediumError {
        /// Time of the attempts.
        attempts: Length,
        /// End of the error.
        lasting: Lasting,
    },
    /// No more than so many bytes pass in a second.
    Cap(Cap),
    /// A read takes retries, and may fail at last.
    Retries(Ladder),
    /// Weak sectors are found and remapped.
    Remapped(Remapped),
    /// Everything takes longer after sustained load.
    Throttle(Throttle),
    /// The request is not carried out and answered with that status; the answer takes that long.
    Fail(Status, Length),
    /// The device receives the request without its force unit access.
    IgnoreFua,
    /// There is no answer for that long, or until the window ends.
    Hang(Duration),
    /// The device is not there while the window lasts; the answer to what arrives takes that long.
    Gone(Length),
    /// The device loses its power, and what is in no durable place, when the window begins; it is not there while the
    /// window lasts.
    PowerLoss(Length),
    /// Something else becomes of the data than the answer says.
    Data(DataFault),
}

/// A length of time, constant or drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Always this long.
    Constant(Duration),
    /// Uniform between these.
    Uniform(Duration, Duration),
    /// Exponential with this mean.
    Exponential(Duration),
}

/// End of a medium error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lasting {
    /// It is that of one request.
    Transient,
    /// The same blocks fail again.
    Sticky,
    /// The same blocks fail again until they are written.
    UntilRewritten,
}

/// Requests that a fault can strike.
#[derive(Debug, Clone)]
pub struct Selector {
    /// Operations, by number.
    pub operations: [bool; Operation::ALL.len()],
    /// Blocks of which a request touches one, from the first to before the end.
    pub blocks: (u64, u64),
    /// Blocks of a request, least and most.
    pub length: (u32, u32),
    /// Requests ahead of a request, least and most.
    pub queue_length: (u32, u32),
    /// The initiator.
    pub initiator: Option<u32>,
}

/// State of a fault in a device.
#[derive(Debug, Clone)]
pub struct RuleState {
    /// The window that lasts or comes.
    pub window: Window,
    /// Start of the last window that began for the device.
    begun: Option<Instant>,
    /// Requests that it could strike so far.
    matched: u64,
    /// Blocks that fail again, or that are remapped.
    pub(super) bad: BlockSet,
    /// Blocks that got new contents since the error could strike.
    rewritten: BlockSet,
    /// Time from which on the pipe of a cap is free.
    pub pipe: Instant,
    /// Load of a device that is throttled after so much.
    pub heat: Heat,
}

/// Strike on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strike {
    /// The delay drawn for the request.
    pub length: Duration,
    /// First bad block, from the first block of the request.
    pub bad_block: Option<u32>,
    /// Effect on the data of the request.
    pub effect: DataEffect,
}

impl Strike {
    pub(super) const fn of(length: Duration) -> Self {
        Self { length, bad_block: None, effect: DataEffect::NONE }
    }
}

impl Length {
    pub(super) fn draw(self, stream: &mut Stream) -> Duration {
        match self {
            Self::Constant(length) => length,
            Self::Uniform(from, to) => from + Duration::from_ns(stream.below((to - from).as_ns() + 1)),
            Self::Exponential(mean) => stream.exponential(mean),
        }
    }
}

impl Action {
    /// Faults that a device with this effect can have.
    pub const fn hazards(&self) -> Hazards {
        let is_of_time = matches!(
            self,
            Self::Delay(_)
                | Self::Busy(_)
                | Self::Stall
                | Self::Slow(_)
                | Self::Recovered(_)
                | Self::Cap(_)
                | Self::Remapped(_)
                | Self::Throttle(_)
        );
        Hazards {
            fails: !is_of_time,
            reads_stale: matches!(self, Self::Data(DataFault::Stale)),
            loses_power: matches!(self, Self::PowerLoss(_)),
            tearing: None,
        }
    }

    const fn length(&self) -> Length {
        match self {
            Self::Delay(length)
            | Self::Busy(length)
            | Self::Recovered(length)
            | Self::Fail(_, length)
            | Self::Gone(length)
            | Self::PowerLoss(length)
            | Self::MediumError { attempts: length, .. } => *length,
            _ => Length::Constant(Duration::ZERO),
        }
    }
}

impl Selector {
    fn matches(&self, request: &Request, queue_length: u32) -> bool {
        let touches =
            !request.op.addresses_blocks() || (request.lbn < self.blocks.1 && request.end() > self.blocks.0);
        self.operations[request.op as usize]
            && touches
            && (self.length.0..=self.length.1).contains(&request.blocks)
            && (self.queue_length.0..=self.queue_length.1).contains(&queue_length)
            && self.initiator.is_none_or(|initiator| initiator == request.initiator)
    }

    /// The blocks of a request that it can strike, from the first to before the end.
    fn part(&self, request: &Request) -> (u64, u64) {
        (request.lbn.max(self.blocks.0), request.end().min(self.blocks.1))
    }
}

impl Rule {
    /// Returns the fault's own name, without the device before it, as traces have it.
    pub fn own_name(&self) -> Arc<str> {
        let name = self.name.rsplit(".fault.").next().unwrap_or_default();
        let letter = |letter: char| if ",+\"\r\n".contains(letter) { '_' } else { letter };
        name.chars().map(letter).collect::<String>().into()
    }

    /// Its state in a device that has just been made.
    pub fn state(&self) -> RuleState {
        RuleState {
            window: self.schedule.first(),
            begun: None,
            matched: 0,
            bad: BlockSet::default(),
            rewritten: BlockSet::default(),
            pipe: Instant::ZERO,
            heat: Heat::default(),
        }
    }

    /// The strike on the request of that number, which arrives at `now`, if it strikes.
    pub fn strike(
        &self,
        state: &mut RuleState,
        now: Instant,
        number: u64,
        request: &Request,
        queue_length: u32,
    ) -> Option<Strike> {
        if let Action::MediumError { lasting, .. } = self.action
            && lasting != Lasting::Transient
        {
            if lasting == Lasting::UntilRewritten && is_rewriting(request.op) {
                state.bad.remove(request.lbn, request.end());
                if self.probability >= 1.0 && now >= state.window.start {
                    let (start, end) = self.selector.part(request);
                    state.rewritten.insert(start, end);
                }
                return None;
            }
            if self.selector.operations[request.op as usize]
                && let Some(block) = state.bad.first_within(request.lbn, request.end())
            {
                let length = self.action.length().draw(&mut self.streams.stream(number));
                return Some(Strike { bad_block: Some((block - request.lbn) as u32), ..Strike::of(length) });
            }
        }
        if self.action == Action::Data(DataFault::Rot) {
            if is_rewriting(request.op) {
                state.bad.remove(request.lbn, request.end());
                return None;
            }
            let rotten = || {
                let block = state.bad.first_within(request.lbn, request.end())?;
                let effect = DataEffect::new(Effect::Rotten((block - request.lbn) as u32));
                Some(Strike { effect, ..Strike::of(Duration::ZERO) })
            };
            let rotten = rotten();
            return self.strike_anew(state, now, number, request, queue_length).or(rotten);
        }
        self.strike_anew(state, now, number, request, queue_length)
    }

    /// As [`strike`](Self::strike), whatever it struck before.
    fn strike_anew(
        &self,
        state: &mut RuleState,
        now: Instant,
        number: u64,
        request: &Request,
        queue_length: u32,
    ) -> Option<Strike> {
        let is_able = match self.action {
            Action::IgnoreFua => request.fua,
            Action::Data(fault) => fault.is_able(request),
            _ => true,
        };
        if number < self.after
            || !is_able
            || !state.window.holds(now)
            || !self.selector.matches(request, queue_length)
        {
            return None;
        }
        state.matched += 1;
        if !state.matched.is_multiple_of(self.every) {
            return None;
        }
        let mut stream = self.streams.stream(number);
        let strength = self.strength(now, &state.window);
        let is_graded = matches!(self.action, Action::Delay(_) | Action::Busy(_));
        let probability = if is_graded { self.probability } else { self.probability * strength };
        if !stream.chance(probability) {
            return None;
        }
        match self.action {
            Action::Retries(ladder) => {
                let (length, is_read) = ladder.climb(&mut stream);
                let (start, end) = self.selector.part(request);
                let bad_block = || (start + stream.below(end - start) - request.lbn) as u32;
                return Some(Strike { bad_block: (!is_read).then(bad_block), ..Strike::of(length) });
            }
            Action::Remapped(remapped) => {
                let is_certain = self.probability >= 1.0;
                return remapped.find(state, is_certain, self.selector.part(request), &mut stream);
            }
            _ => {}
        }
        let mut length = self.action.length().draw(&mut stream);
        if is_graded && strength < 1.0 {
            length = Duration::from_ns_f64(length.as_ns() as f64 * strength);
        }
        let bad_block = match self.action {
            Action::MediumError { lasting, .. } if request.op.addresses_blocks() => {
                let (start, end) = self.selector.part(request);
                // All blocks are bad if the fault is certain, but for those that were rewritten.
                let block = if self.probability >= 1.0 {
                    state.rewritten.first_missing(start, end)?
                } else {
                    start + stream.below(end - start)
                };
                if lasting != Lasting::Transient {
                    state.bad.insert(block, block + 1);
                }
                Some((block - request.lbn) as u32)
            }
            _ => None,
        };
        let mut effect = DataEffect::NONE;
        if let Action::Data(fault) = self.action {
            effect = fault.effect(request, self.selector.part(request), &mut stream);
            if let Effect::Rotten(block) = effect.effect() {
                let block = request.lbn + u64::from(block);
                state.bad.insert(block, block + 1);
            }
            if effect.is_none() {
                return None;
            }
        }
        Some(Strike { length, bad_block, effect })
    }

    /// Share of the full strength at `now`.
    fn strength(&self, now: Instant, window: &Window) -> f64 {
        if self.ramp.is_zero() {
            return 1.0;
        }
        (now.saturating_since(window.start).as_ns() as f64 / self.ramp.as_ns() as f64).min(1.0)
    }
}

/// Returns true if the operation gives its blocks new contents.
const fn is_rewriting(op: Operation) -> bool {
    matches!(op, Operation::Write | Operation::WriteZeroes | Operation::Discard)
}

impl RuleState {
    /// Returns true if blocks fail again or are remapped.
    pub(super) const fn remembers_blocks(&self) -> bool {
        !self.bad.is_empty()
    }

    /// Returns true if the window lasts at `now` and has not begun for the device; then it has.
    pub fn begins(&mut self, now: Instant) -> bool {
        let begins = self.window.holds(now) && self.begun != Some(self.window.start);
        if begins {
            self.begun = Some(self.window.start);
        }
        begins
    }

    /// Becomes as `other`; allocates only where that holds more than this ever did.
    pub fn copy_from(&mut self, other: &Self) {
        self.window = other.window;
        self.begun = other.begun;
        self.matched = other.matched;
        self.bad.copy_from(&other.bad);
        self.rewritten.copy_from(&other.rewritten);
        self.pipe = other.pipe;
        self.heat = other.heat;
    }
}
