//! An emulated device: the pacer decides when, the store keeps what, a frontend brings the clients.
//!
//! ```text
//! Command ─▶ store ─▶ pacer ─ due less the lead ─▶ data of reads ─▶ Reply ─ due ─▶ the loop sends it
//!              └─▶ transfers under way, if the store is a file ─▶ their end ─▶┘
//! ```
//! The *lead* is what running the model to a completion and preparing its reply took lately. A completion
//! is taken from the model (and so is final) that long before it is due, its reply is prepared, and the
//! loop spins the rest of the lead away, so that neither the model nor the copying of data makes a reply late.
//!
//! # Scope and limits
//! - In memory, the data of a write is in the store before the model gets the request, that of a read is taken when its
//!   reply is made: a read sees every write that arrived before its reply. What the store refuses fails at once and
//!   takes no model time.
//! - In a file ([`over`](Emulation::over)), the model gets the request while the data is under way, and a reply leaves when
//!   both are there: no reply to a flush or FUA write leaves before the data is where it should be, and nobody waits for
//!   another's data. A read sees every write that arrived before it. What the file refuses fails in model time.
//!   A reply that waited for its data is a miss, `data_not_there`.
//! - Under a device that can fail ([`failing`](Emulation::failing)), the store takes a write when the model completes it,
//!   as the completion says; one that is a file does so synchronously. If the device can lose its power, the store is the
//!   media: it takes the blocks of a write when they are durable there. Blocks that it refuses then fail the next flush.
//! - Block status is answered at once: it is no request to the device. Of a device that can fail everything is allocated.
//! - A request that the model fails is answered with the [`ErrorCode`] of its status, a read with the good blocks before
//!   the first bad one.
//! - A reply that has not left is shown to the observer without its completion at MP2 once 65,536 later requests wait to
//!   be shown.

mod answer;
mod classes;
mod failing;
mod staging;
mod stalls;
#[cfg(test)]
mod tests;
mod witness;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;

use seeklab_core::statistics::Distribution;
use seeklab_core::{
    ArrivalOrder, Coverage, DataEffect, Duration, Instant, MeasurementPoints, MissCause, Operation, Request,
    RequestId, TraceRecord,
};

use crate::calibration::SendCost;
use crate::clock::{Clock, thread_cpu_time};
use crate::frontend::{Action, Backend, Command, Departure, ErrorCode, Frontend, Next, Tag};
use crate::pacer::{Changed, Clamped, Compensation, Deadlines, Due, Fixed, Pacer, Steps};
use crate::store::{Store, StoreError, Token, TransferResult, Transfers, Work};
use classes::Classes;
pub use classes::{ClassChange, ClassSource};
use failing::Failing;
pub use failing::TakeEvents;
use stalls::Stalls;

/// Function that receives every completed request, for traces and figures.
pub type Observe = Box<dyn FnMut(&TraceRecord) + Send>;

/// Function that receives every command that becomes a request of the model, with the request's number in order of
/// arrival, while its bytes are there.
pub type Tape = Box<dyn FnMut(u64, &Command<'_>) + Send>;

/// Statistics of an emulation so far.
#[derive(Debug, Clone, Default)]
pub struct EmulationStatistics {
    /// Requests that the model answered.
    pub requests: u64,
    /// Requests that the store refused.
    pub refused: u64,
    /// Requests that the model failed.
    pub failed_requests: u64,
    /// Replies that never left, since the client had gone. They are not late.
    pub undelivered_replies: u64,
    /// Time from arrival to reply, both at MP2, of requests that the model did not fail.
    pub response: Distribution,
    /// Response time in the model.
    pub modelled: Distribution,
    /// Lateness of replies, and its causes.
    pub deadlines: Deadlines,
    /// Arrivals that the model received later than they came, known at the end.
    pub clamped: Clamped,
    /// Changes of class that came after the model had completed their request.
    pub missed_changes: u64,
    /// Effect of clamped arrivals, if a second instance of the model was run behind.
    pub changed: Option<Changed>,
    /// Reads and writes among the requests.
    pub transfers: u64,
    /// Number of requests in the region for which the model was fitted, if the model has one; known at the end.
    pub coverage: Option<Coverage>,
}

/// A device that is being emulated.
pub struct Emulation {
    pacer: Pacer,
    store: Store,
    /// Transfers under way in the store, if the store is asynchronous.
    transfers: Option<Transfers>,
    clock: Clock,
    block_bytes: u64,
    /// Blocks of each drive, if the model is a bank of drives; its drives lie one after the other.
    drive_blocks: u64,
    /// Outstanding requests by the number under which the model knows them.
    outstanding: Vec<Option<Outstanding>>,
    free: Vec<u64>,
    /// Answers that wait for no deadline.
    at_once: Vec<(Tag, Answer)>,
    /// Completions that are due or soon will be.
    due: VecDeque<Due>,
    taken: Vec<Due>,
    /// The pacer was called in this turn.
    asked: bool,
    /// Answers that are due and wait for their data.
    stalled: Vec<(Due, Outstanding)>,
    /// Transfers whose answers do not wait for them.
    orphans: Vec<Token>,
    /// Answers that are prepared and have not left.
    replied: BTreeMap<Tag, Replied>,
    /// Replies that were not yet offered to their clients.
    fresh: Vec<Tag>,
    /// Answers that have left and are not booked: that has time.
    gone: Vec<(Replied, Departure)>,
    stalls: Stalls,
    statistics: EmulationStatistics,
    observe: Option<Observe>,
    tape: Option<Tape>,
    failing: Failing,
    classes: Option<Classes>,
    /// Requests so far, and their records in order of arrival.
    arrived: u64,
    order: ArrivalOrder,
    /// Limit of waiting records; beyond it, unsent replies are recorded too.
    waiting_max: usize,
    /// Time at which the loop last began to wait.
    waiting_since: Instant,
    /// Time before their due at which completions are taken from the model; `None` if there is no spinning.
    lead: Option<Lead>,
    /// Keeps early completion to what the run sees.
    send_cost: Option<SendCost>,
}

/// Time to take a completion from the model and prepare its reply.
#[derive(Debug, Clone, Copy)]
struct Lead(Duration);

impl Lead {
    const MIN: Duration = Duration::from_us(2);
    const MAX: Duration = Duration::from_us(50);

    /// Moves towards `taken` and half as much again: up at once, down by an eighth of the way.
    fn observe(&mut self, taken: Duration) {
        let wanted = (taken + taken / 2).clamp(Self::MIN, Self::MAX);
        self.0 = if wanted > self.0 { wanted } else { self.0 - (self.0 - wanted) / 8 };
    }
}

#[derive(Debug, Clone, Copy)]
struct Outstanding {
    /// Its rank of arrival.
    number: u64,
    tag: Tag,
    answer: Answer,
    arrived: Instant,
    /// Time at which its data was in the store, or was read from it. Unknown while the transfer is under way.
    stored: Instant,
    /// Transfer under way in the store.
    transfer: Option<Token>,
}

#[derive(Debug, Clone, Copy)]
struct Replied {
    due: Due,
    outstanding: Outstanding,
    /// Time at which the loop found it due.
    woken: Instant,
    /// Time at which the reply was prepared, if before its due.
    ready: Option<Instant>,
    /// Time of the first offer of the reply, if the client did not take the reply at once.
    offered: Option<Instant>,
    /// The observer has been shown the request.
    shown: bool,
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Done,
    Failed(ErrorCode),
    Data { offset: u64, length: u64, effect: DataEffect },
    Part { offset: u64, good_bytes: u64, code: ErrorCode },
    Extents { offset: u64, length: u64, single: bool },
}

/// Time to the next deadline from which there is time for what can wait.
const LEISURE: Duration = Duration::from_us(500);

/// Longest sleep while the store is short of pages that are ready.
const REFILL_INTERVAL: Duration = Duration::from_ms(1);

/// Records that may wait to be shown behind replies that have not left.
const WAITING_MAX: usize = 1 << 16;

impl Emulation {
    /// An emulation that begins now, on `clock`.
    pub fn new(pacer: Pacer, store: Store, clock: Clock) -> Self {
        let block_bytes = pacer.capabilities().block_size.as_bytes();
        let stalls = Stalls::new(matches!(store, Store::File(_)), clock.now(), thread_cpu_time());
        Self {
            pacer,
            store,
            transfers: None,
            clock,
            block_bytes,
            drive_blocks: u64::MAX,
            outstanding: Vec::new(),
            free: Vec::new(),
            at_once: Vec::new(),
            due: VecDeque::new(),
            taken: Vec::new(),
            asked: false,
            stalled: Vec::new(),
            orphans: Vec::new(),
            replied: BTreeMap::new(),
            fresh: Vec::new(),
            gone: Vec::new(),
            stalls,
            statistics: EmulationStatistics::default(),
            observe: None,
            tape: None,
            failing: Failing::default(),
            classes: None,
            arrived: 0,
            order: ArrivalOrder::default(),
            waiting_max: WAITING_MAX,
            waiting_since: Instant::ZERO,
            lead: None,
            send_cost: None,
        }
    }

    /// Serves drives of that many blocks each, one after the other in the store. The model is a bank that has a device for
    /// each.
    #[must_use]
    pub fn of_drives(self, drive_blocks: u64) -> Self {
        Self { drive_blocks, ..self }
    }

    /// Transfers data by `transfers`, which go to the same file as its store.
    #[must_use]
    pub fn over(self, transfers: Option<Transfers>) -> Self {
        Self { transfers, ..self }
    }

    /// Compensates dynamically: early completion follows how late replies leave in this run.
    #[must_use]
    pub fn following(self, send_cost: SendCost) -> Self {
        Self { send_cost: Some(send_cost), ..self }
    }

    /// Counts lateness by the limit and the floor of `deadlines`.
    #[must_use]
    pub fn judged_by(mut self, deadlines: Deadlines) -> Self {
        self.statistics.deadlines = deadlines;
        self
    }

    /// Returns the present compensation.
    pub const fn compensation(&self) -> Compensation {
        self.pacer.compensation()
    }

    /// Compensates so from now on, as was found from the host's stamps.
    pub fn compensate(&mut self, fixed: Fixed) {
        let compensation = self.pacer.compensation().with(fixed);
        self.pacer.set_compensation(compensation);
    }

    /// Shows every completed request to `observe`, in order of arrival. Its times are the model's (MP3); its
    /// points hold the arrival at MP2, at the return of the read that delivered it, when its reply was due,
    /// and the completion at MP2, just before the write that took its reply.
    #[must_use]
    pub fn observed_by(self, observe: Observe) -> Self {
        Self { observe: Some(observe), ..self }
    }

    /// Shows every command that becomes a request to `tape`.
    #[must_use]
    pub fn taped_by(self, tape: Tape) -> Self {
        Self { tape: Some(tape), ..self }
    }

    /// Takes completions from the model a little before they are due, and spins until they are.
    #[must_use]
    pub fn prepares_ahead(self) -> Self {
        Self { lead: Some(Lead(Lead::MIN)), ..self }
    }

    /// Returns the statistics so far.
    pub const fn statistics(&self) -> &EmulationStatistics {
        &self.statistics
    }

    /// Requests outstanding.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len() - self.free.len()
    }

    /// The bytes.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Shows the last requests; returns what it amounted to, the bytes, and the first refusal of bytes that the store should
    /// have and has not.
    pub fn finish(mut self) -> (EmulationStatistics, Store, Result<(), StoreError>) {
        // What is still under way ends when the transfers are dropped; nobody waits for an answer any more.
        self.transfers = None;
        let unsent = std::mem::take(&mut self.replied).into_values();
        self.gone.extend(unsent.map(|replied| (replied, Departure::Dropped)));
        self.book_gone();
        let kept = self.finish_failing();
        if let Some(observe) = &mut self.observe {
            self.order.finish(observe);
        }
        self.statistics.clamped = self.pacer.clamped();
        self.statistics.coverage = self.pacer.coverage();
        self.statistics.changed = self.pacer.finish_behind();
        (self.statistics, self.store, kept)
    }

    fn accept(&mut self, command: &Command<'_>) {
        let (offset, length) = (command.offset_bytes, u64::from(command.length_bytes));
        if let Action::BlockStatus { single } = command.action {
            self.at_once.push((command.tag, Answer::Extents { offset, length, single }));
            return;
        }
        let first = self.stalls.wake(command.arrived);
        // The model took the command before.
        let before = if first { MissCause::Transport } else { MissCause::ModelTooSlow };
        self.stalls.spent(before, self.clock.now());
        let begun = match self.begin(command) {
            Ok(begun) => begun,
            Err(error) => return self.refuse(command.tag, code_of(&error)),
        };
        let answer = match command.action {
            Action::Read => Answer::Data { offset, length, effect: DataEffect::NONE },
            _ => Answer::Done,
        };
        let stored = self.clock.now();
        self.stalls.spent(MissCause::DataNotThere, stored);
        let id = self.free.pop().unwrap_or_else(|| {
            self.outstanding.push(None);
            self.outstanding.len() as u64 - 1
        });
        let op = command.action.operation().expect("block status was answered");
        let classes = self.classes.as_mut();
        let criticality = classes.map(|classes| classes.at_arrival(op, offset, length)).unwrap_or_default();
        let block = offset / self.block_bytes;
        let request = Request {
            id: RequestId(id),
            fua: command.fua,
            criticality,
            device: (block / self.drive_blocks) as u16,
            ..Request::new(id, op, block % self.drive_blocks, (length / self.block_bytes) as u32)
        };
        // A discard or flush of nothing takes no model time.
        if request.blocks == 0 && op != Operation::Flush {
            self.free.push(id);
            debug_assert!(begun.is_none(), "nothing needs no transfer");
            self.at_once.push((command.tag, answer));
            return;
        }
        let number = self.arrived;
        let outstanding = Outstanding {
            number,
            tag: command.tag,
            answer,
            arrived: command.arrived,
            stored,
            transfer: begun,
        };
        match self.pacer.arrive(command.arrived, request) {
            Ok(time) => {
                self.outstanding[id as usize] = Some(outstanding);
                self.arrived += 1;
                if let Some(classes) = &mut self.classes {
                    classes.arrive(id, criticality, (op, offset, length));
                }
                self.keep(number, time, request, command);
                if let Some(tape) = &mut self.tape {
                    tape(number, command);
                }
            }
            Err(_) => {
                self.free.push(id);
                self.orphans.extend(begun);
                self.refuse(command.tag, ErrorCode::Invalid);
            }
        }
    }

    /// Begins the transfer of a command, or does it at once if the store is not asynchronous.
    fn begin(&mut self, command: &Command<'_>) -> Result<Option<Token>, StoreError> {
        let (offset, length) = (command.offset_bytes, u64::from(command.length_bytes));
        if self.failing.staging.is_some() {
            return Ok(None);
        }
        let durably = command.fua;
        let (work, bytes) = match command.action {
            Action::Read => (Work::Read, &[][..]),
            Action::Write(bytes) => (Work::Write { durably }, bytes),
            Action::Flush => (Work::Flush, &[][..]),
            Action::Discard | Action::WriteZeroes { may_discard: true } => {
                (Work::Discard { durably }, &[][..])
            }
            Action::WriteZeroes { may_discard: false } => (Work::Zero { durably }, &[][..]),
            Action::BlockStatus { .. } => unreachable!("it is no request to the device"),
        };
        if let Some(transfers) = self.transfers.as_mut().filter(|_| length > 0 || work == Work::Flush) {
            if let Some(token) = transfers.begin(work, offset, length, bytes)? {
                return Ok(Some(token));
            }
            // More than may be held: what it overlaps ends first. A read is done when it is replied to.
            let settled =
                if work == Work::Flush { transfers.settle_all() } else { transfers.settle(offset, length) };
            settled?;
        }
        match work {
            Work::Read => Ok(()),
            Work::Write { durably: true } => self.store.write_fua(offset, bytes),
            Work::Write { durably: false } => self.store.write(offset, bytes),
            Work::Flush => self.store.flush(),
            Work::Discard { durably } => self
                .store
                .discard(offset, length)
                .and_then(|()| if durably { self.store.flush() } else { Ok(()) }),
            Work::Zero { durably } => self
                .store
                .write_zeroes(offset, length, false)
                .and_then(|()| if durably { self.store.flush() } else { Ok(()) }),
        }
        .map(|()| None)
    }

    fn refuse(&mut self, tag: Tag, code: ErrorCode) {
        self.statistics.refused += 1;
        self.at_once.push((tag, Answer::Failed(code)));
    }

    /// Prepares every reply that is due at `now`, or the next one that is due within the lead; returns when it is to
    /// leave, or nothing if there is none.
    fn prepare_due(&mut self, now: Instant, frontend: &mut dyn Frontend) -> io::Result<Option<Instant>> {
        let mut prepared = !self.at_once.is_empty();
        let mut at_once = std::mem::take(&mut self.at_once);
        for (tag, answer) in at_once.drain(..) {
            self.prepare(frontend, tag, answer, &[]);
        }
        self.at_once = at_once;
        prepared |= self.look_at_transfers(frontend)?;
        self.ask_pacer(now);
        while let Some(due) = self.due.front().copied() {
            let ahead = due.due > now;
            if ahead && prepared {
                // What is due already does not wait for what is not.
                break;
            }
            self.due.pop_front();
            let id = due.completion.request.id.0;
            let mut outstanding =
                self.outstanding[id as usize].take().expect("the model answers what it was given");
            self.free.push(id);
            if let Some(classes) = &mut self.classes {
                classes.complete(id);
            }
            if let Some(code) = ErrorCode::of(due.completion.outcome.status) {
                self.statistics.failed_requests += 1;
                let good_bytes = u64::from(due.completion.outcome.good_blocks) * self.block_bytes;
                outstanding.answer = outstanding.answer.failed(code, good_bytes);
            }
            if let Answer::Data { effect, .. } = &mut outstanding.answer {
                *effect = due.completion.outcome.effect;
            }
            if let Err(error) = self.carry_out(outstanding.number, &due.completion) {
                self.statistics.refused += 1;
                outstanding.answer = Answer::Failed(code_of(&error));
            }
            let outstanding = match self.prepare_transferred(frontend, outstanding) {
                Ok(outstanding) => outstanding,
                Err(outstanding) => {
                    self.stalled.push((due, outstanding));
                    continue;
                }
            };
            prepared = true;
            if matches!(self.store, Store::File(_)) {
                self.stalls.spent(MissCause::DataNotThere, self.clock.now());
            }
            let ready = ahead.then(|| self.clock.now());
            if let (Some(lead), Some(ready)) = (&mut self.lead, ready) {
                lead.observe(ready.saturating_since(now));
            }
            self.hold(due, outstanding, now, ready);
            if ahead {
                return Ok(Some(due.due));
            }
        }
        Ok(prepared.then_some(now))
    }

    /// Asks the pacer what is due, once in a turn.
    fn ask_pacer(&mut self, now: Instant) {
        if std::mem::replace(&mut self.asked, true) {
            return;
        }
        let lead = self.lead.map_or(Duration::ZERO, |lead| lead.0);
        self.pacer.due(now, lead, &mut self.taken);
        if self.taken.is_empty() {
            return;
        }
        let known = self.clock.now();
        self.stalls.spent(MissCause::ModelTooSlow, known);
        self.due.extend(self.taken.drain(..).map(|due| Due { known: due.known.min(known), ..due }));
    }

    /// Keeps a prepared reply until it has left.
    fn hold(&mut self, due: Due, outstanding: Outstanding, woken: Instant, ready: Option<Instant>) {
        let replied = Replied { due, outstanding, woken, ready, offered: None, shown: false };
        self.fresh.push(outstanding.tag);
        let before = self.replied.insert(outstanding.tag, replied);
        debug_assert!(before.is_none(), "a tag stands for one command until its reply has left");
    }

    /// Notes for the replies prepared before that their sending was attempted.
    fn note_offered(&mut self, now: Instant) {
        for tag in self.fresh.drain(..) {
            if let Some(replied) = self.replied.get_mut(&tag) {
                replied.offered = Some(now);
            }
        }
    }

    /// Prepares the replies that waited for their data, which is there; returns whether there were any.
    fn look_at_transfers(&mut self, frontend: &mut dyn Frontend) -> io::Result<bool> {
        let Some(transfers) = &mut self.transfers else { return Ok(false) };
        if !transfers.look()? {
            return Ok(false);
        }
        self.orphans.retain(|token| match transfers.take(*token) {
            Some(transferred) => {
                transferred.result.into_iter().for_each(|buffer| transfers.give_back(buffer));
                false
            }
            None => true,
        });
        let mut stalled = std::mem::take(&mut self.stalled);
        let (woken, waiting) = (self.clock.now(), stalled.len());
        stalled.retain(|(due, outstanding)| match self.prepare_transferred(frontend, *outstanding) {
            Ok(outstanding) => {
                self.hold(*due, outstanding, woken, None);
                false
            }
            Err(_) => true,
        });
        self.stalled = stalled;
        Ok(self.stalled.len() < waiting)
    }

    /// Prepares an answer whose data is there; gives it back while it is under way.
    fn prepare_transferred(
        &mut self,
        frontend: &mut dyn Frontend,
        mut outstanding: Outstanding,
    ) -> Result<Outstanding, Outstanding> {
        let Outstanding { tag, answer, transfer, .. } = outstanding;
        let Some(transfers) = &mut self.transfers else {
            self.prepare(frontend, tag, answer, &[]);
            return Ok(outstanding);
        };
        let Some(token) = transfer else {
            // It was done synchronously; a read is now.
            let settled = match answer.data() {
                Some((offset, length)) => transfers.settle(offset, length),
                None => Ok(()),
            };
            let answer = settled.map_or_else(|error| Answer::Failed(code_of(&error)), |()| answer);
            self.prepare(frontend, tag, answer, &[]);
            return Ok(outstanding);
        };
        let Some(TransferResult { ended, result }) = transfers.take(token) else { return Err(outstanding) };
        outstanding.stored = ended;
        match result {
            Ok(bytes) => {
                self.prepare(frontend, tag, answer, &bytes);
                if let Some(transfers) = &mut self.transfers {
                    transfers.give_back(bytes);
                }
            }
            Err(error) => {
                self.statistics.refused += 1;
                self.prepare(frontend, tag, Answer::Failed(code_of(&error)), &[]);
            }
        }
        Ok(outstanding)
    }

    /// Books what has left since the last time.
    fn book_gone(&mut self) {
        let mut gone = std::mem::take(&mut self.gone);
        for (replied, departure) in gone.drain(..) {
            self.book(&replied, departure);
        }
        self.gone = gone;
        self.show_unsent();
    }

    /// Shows the requests whose replies have not left, if too many others wait to be shown.
    fn show_unsent(&mut self) {
        let Some(observe) = self.observe.as_mut().filter(|_| self.order.waiting_count() > self.waiting_max)
        else {
            return;
        };
        for replied in self.replied.values_mut().filter(|replied| !replied.shown) {
            replied.shown = true;
            let record = record(&replied.due, replied.outstanding.arrived, None, None);
            self.order.push(replied.outstanding.number, record, &mut *observe);
        }
        // What waits still waits for the model.
        self.waiting_max = self.order.waiting_count() + WAITING_MAX;
    }

    /// Adapts the compensation to the lateness of a reply. Only replies without another cause of lateness count.
    fn follow(&mut self, Replied { due, outstanding, offered, .. }: &Replied, left: Instant) {
        let Some(send_cost) = &mut self.send_cost else { return };
        let waits = outstanding.arrived.max(outstanding.stored).max(due.known) <= due.due;
        if waits && offered.is_none() {
            let mut compensation = self.pacer.compensation();
            let op = due.completion.request.op;
            if send_cost.observe(op, left.saturating_since(due.due), &mut compensation) {
                self.pacer.set_compensation(compensation);
            }
        }
    }

    fn book(&mut self, replied: &Replied, departure: Departure) {
        let Replied { due, outstanding, woken, ready, offered, shown } = replied;
        self.statistics.requests += 1;
        let op = due.completion.request.op;
        self.statistics.transfers += u64::from(matches!(op, Operation::Read | Operation::Write));
        self.statistics.modelled.record(due.completion.response_time());
        let (left, miss_cause) = match departure {
            Departure::Taken(left) => {
                let steps = Steps {
                    arrived: outstanding.arrived,
                    known: due.known,
                    data: outstanding.stored,
                    free: self.waiting_since,
                    woken: *woken,
                    ready: ready.unwrap_or(left),
                    offered: offered.unwrap_or(left),
                    left,
                };
                if due.completion.outcome.status.is_success() {
                    self.statistics.response.record(left.saturating_since(outstanding.arrived));
                }
                let stall = self.stalls.cause(due.due);
                (Some(left), self.statistics.deadlines.record(due, &steps, stall))
            }
            Departure::Dropped => {
                self.statistics.undelivered_replies += 1;
                (None, None)
            }
        };
        if let Some(observe) = self.observe.as_mut().filter(|_| !shown) {
            self.order.push(outstanding.number, record(due, outstanding.arrived, left, miss_cause), observe);
        }
    }
}

impl Backend for Emulation {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.transfers.as_ref().map(Transfers::descriptor)
    }

    fn interval(&self) -> Option<Duration> {
        let refill = self.store.is_short_of_pages().then_some(REFILL_INTERVAL);
        self.classes.as_ref().map(Classes::interval).into_iter().chain(refill).min()
    }

    fn take(&mut self, command: Command<'_>) {
        self.accept(&command);
    }

    fn reply(&mut self, now: Instant, frontend: &mut dyn Frontend) -> io::Result<Next> {
        self.stalls.wake(now);
        self.stalls.spent(if self.asked { MissCause::Transport } else { MissCause::ModelTooSlow }, now);
        self.note_offered(now);
        if !self.asked && self.follow_classes(now) {
            self.stalls.spent(MissCause::ModelTooSlow, self.clock.now());
        }
        if let Some(at) = self.prepare_due(now, frontend)? {
            // What the loop spins away until then is no step.
            let mark = self.clock.now();
            self.stalls.spent(MissCause::Transport, mark);
            self.stalls.wait(mark, at);
            return Ok(Next::SendAt(at));
        }
        for at in 0..self.gone.len() {
            let (replied, departure) = self.gone[at];
            if let Departure::Taken(left) = departure {
                self.follow(&replied, left);
            }
        }
        let deadline = self.pacer.next_deadline();
        let after = self.clock.now();
        self.pacer.model_ended(after);
        self.stalls.spent(MissCause::ModelTooSlow, after);
        self.stalls.end_turn(after, thread_cpu_time);
        self.book_gone();
        let absence = self.follow_absence(after, frontend)?;
        self.waiting_since = after;
        let mut idle = after;
        if deadline.is_none_or(|deadline| deadline.saturating_since(after) > LEISURE) {
            self.pacer.run_behind();
            self.take_settled_events(after);
            self.store.refill();
            idle = self.clock.now();
            self.stalls.spent(MissCause::ModelTooSlow, idle);
        }
        self.asked = false;
        let lead = self.lead.map_or(Duration::ZERO, |lead| lead.0);
        let until = deadline.map(|deadline| Instant::from_ns(deadline.as_ns().saturating_sub(lead.as_ns())));
        let until = until.into_iter().chain(absence).min();
        self.stalls.wait(idle, until.unwrap_or(Instant::MAX));
        Ok(Next::WaitUntil(until))
    }

    fn left(&mut self, tag: Tag, departure: Departure) {
        if let Some(replied) = self.replied.remove(&tag) {
            self.gone.push((replied, departure));
        }
    }
}

/// Returns the request with its times in the model (MP3) and its stamps at MP2.
fn record(due: &Due, arrived: Instant, left: Option<Instant>, miss_cause: Option<MissCause>) -> TraceRecord {
    let points = MeasurementPoints {
        mp2_arrival: Some(arrived),
        mp2_due: Some(due.due),
        mp2_completion: left.map(|left| left.max(arrived)),
        miss_cause,
        ..MeasurementPoints::NONE
    };
    TraceRecord { points, ..TraceRecord::of(&due.completion, due.classes) }
}

/// Returns the error code for a client after a failure of the store.
fn code_of(error: &StoreError) -> ErrorCode {
    match error {
        StoreError::NoSpace { .. } | StoreError::FileSystemFull { .. } => ErrorCode::NoSpace,
        StoreError::NoMemory { .. } => ErrorCode::NoSpace,
        StoreError::OutOfRange { .. } => ErrorCode::Invalid,
        StoreError::ReadOnly { .. } => ErrorCode::Permission,
        _ => ErrorCode::Io,
    }
}
