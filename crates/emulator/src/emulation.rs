//! An emulated device: the pacer decides when, the store keeps what, a frontend brings the clients.
//!
//! ```text
//! Command ─▶ store (writes at once) ─▶ pacer ─ due ─▶ data of reads ─▶ Reply
//! ```
//! # Scope and limits
//! - The data of a write is in the store before the model is asked, that of a read is taken when its reply
//!   is made: a read sees every write that arrived before its reply.
//! - Flush and FUA writes wait for the store before the model is asked, so no reply to them leaves before
//!   the data is where it should be. A file store is written synchronously: while it waits, other replies
//!   do, which is counted as `data_not_there`.
//! - What the store refuses fails at once and takes no model time.
//! - Block status is answered at once: it is no request to the device.

use std::collections::VecDeque;

use seeklab_core::statistics::Distribution;
use seeklab_core::{
    ArrivalOrder, BufferOutcome, Completion, Duration, Instant, Operation, Request, RequestId, Status,
    TraceRecord,
};

use crate::calibration::SendCost;
use crate::clock::Clock;
use crate::frontend::{Action, Backend, Command, Content, ErrorCode, Extent, Frontend, Reply, Tag};
use crate::pacer::{Compensation, Deadlines, Due, Pacer, Steps};
use crate::store::{Allocation, Store, StoreError};

/// What becomes of every completed request, for traces and figures.
pub type Observe = Box<dyn FnMut(&TraceRecord) + Send>;

/// What an emulation amounted to so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Requests that the model answered.
    pub requests: u64,
    /// Requests that the store refused.
    pub refused: u64,
    /// Time from arrival to reply, both at MP2.
    pub response: Distribution,
    /// How late replies left, and why.
    pub deadlines: Deadlines,
}

/// A device that is being emulated.
pub struct Emulation {
    pacer: Pacer,
    store: Store,
    clock: Clock,
    block_bytes: u64,
    /// Outstanding requests by the number under which the model knows them.
    outstanding: Vec<Option<Outstanding>>,
    free: Vec<u64>,
    /// Answers that wait for no deadline.
    at_once: Vec<(Tag, Answer)>,
    due: Vec<Due>,
    /// Answers that are prepared and have not left.
    replied: VecDeque<Replied>,
    tally: Tally,
    observe: Option<Observe>,
    /// Requests so far, and their records in order of arrival.
    arrived: u64,
    order: ArrivalOrder,
    /// When the loop last began to wait.
    waiting_since: Instant,
    /// Keeps early completion to what the run sees.
    send_cost: Option<SendCost>,
}

#[derive(Debug, Clone, Copy)]
struct Outstanding {
    /// Its rank of arrival.
    number: u64,
    tag: Tag,
    answer: Answer,
    arrived: Instant,
    /// When its data was in the store.
    stored: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Replied {
    due: Due,
    outstanding: Outstanding,
    /// When the loop found it due.
    woken: Instant,
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Done,
    Failed(ErrorCode),
    Data { offset: u64 },
    Extents { offset: u64, length: u64, single: bool },
}

/// Extents in one answer at most.
const EXTENTS_MAX: usize = 1 << 12;

impl Emulation {
    /// An emulation that begins now, on `clock`.
    pub fn new(pacer: Pacer, store: Store, clock: Clock) -> Self {
        let block_bytes = pacer.capabilities().block_size.as_bytes();
        Self {
            pacer,
            store,
            clock,
            block_bytes,
            outstanding: Vec::new(),
            free: Vec::new(),
            at_once: Vec::new(),
            due: Vec::new(),
            replied: VecDeque::new(),
            tally: Tally::default(),
            observe: None,
            arrived: 0,
            order: ArrivalOrder::default(),
            waiting_since: Instant::ZERO,
            send_cost: None,
        }
    }

    /// Compensates dynamically: early completion follows how late replies leave in this run.
    #[must_use]
    pub fn following(self, send_cost: SendCost) -> Self {
        Self { send_cost: Some(send_cost), ..self }
    }

    /// What it compensates for now.
    pub const fn compensation(&self) -> Compensation {
        self.pacer.compensation()
    }

    /// Shows every completed request to `observe`, in order of arrival, times at MP2: arrival at the return of the read that
    /// delivered it, completion just before its reply is written; issue and start are the model's.
    #[must_use]
    pub fn observed_by(self, observe: Observe) -> Self {
        Self { observe: Some(observe), ..self }
    }

    /// What it amounted to so far.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Requests outstanding.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len() - self.free.len()
    }

    /// The bytes.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Shows the last requests, and gives the bytes back when all is over.
    pub fn into_store(mut self) -> Store {
        if let Some(observe) = &mut self.observe {
            self.order.finish(observe);
        }
        self.store
    }

    fn accept(&mut self, command: &Command<'_>) {
        let (offset, length) = (command.offset_bytes, u64::from(command.length_bytes));
        let applied = match command.action {
            Action::Read => Ok(Answer::Data { offset }),
            Action::BlockStatus { single } => {
                self.at_once.push((command.tag, Answer::Extents { offset, length, single }));
                return;
            }
            Action::Write(bytes) if command.fua => self.store.write_fua(offset, bytes).map(|()| Answer::Done),
            Action::Write(bytes) => self.store.write(offset, bytes).map(|()| Answer::Done),
            Action::Flush => self.store.flush().map(|()| Answer::Done),
            Action::Discard => self.store.discard(offset, length).map(|()| Answer::Done),
            Action::WriteZeroes { may_discard } => self
                .store
                .write_zeroes(offset, length, may_discard)
                .and_then(|()| if command.fua { self.store.flush() } else { Ok(()) })
                .map(|()| Answer::Done),
        };
        let answer = match applied {
            Ok(answer) => answer,
            Err(error) => return self.refuse(command.tag, code_of(&error)),
        };
        let stored = self.clock.now();
        let id = self.free.pop().unwrap_or_else(|| {
            self.outstanding.push(None);
            self.outstanding.len() as u64 - 1
        });
        let op = command.action.operation().expect("block status was answered");
        let request = Request {
            id: RequestId(id),
            fua: command.fua,
            ..Request::new(id, op, offset / self.block_bytes, (length / self.block_bytes) as u32)
        };
        // A discard or flush of nothing takes no model time.
        if request.blocks == 0 && op != Operation::Flush {
            self.free.push(id);
            self.at_once.push((command.tag, answer));
            return;
        }
        let number = self.arrived;
        let outstanding = Outstanding { number, tag: command.tag, answer, arrived: command.arrived, stored };
        match self.pacer.arrive(command.arrived, request) {
            Ok(()) => {
                self.outstanding[id as usize] = Some(outstanding);
                self.arrived += 1;
            }
            Err(_) => {
                self.free.push(id);
                self.refuse(command.tag, ErrorCode::Invalid);
            }
        }
    }

    fn refuse(&mut self, tag: Tag, code: ErrorCode) {
        self.tally.refused += 1;
        self.at_once.push((tag, Answer::Failed(code)));
    }

    /// Replies to everything that is due at `now`.
    fn answer(&mut self, now: Instant, frontend: &mut dyn Frontend) {
        let mut at_once = std::mem::take(&mut self.at_once);
        for (tag, answer) in at_once.drain(..) {
            self.prepare(frontend, tag, answer);
        }
        self.at_once = at_once;
        let mut due = std::mem::take(&mut self.due);
        self.pacer.due(now, &mut due);
        for due in due.drain(..) {
            let id = due.completion.request.id.0;
            let outstanding =
                self.outstanding[id as usize].take().expect("the model answers what it was given");
            self.free.push(id);
            self.prepare(frontend, outstanding.tag, outstanding.answer);
            self.replied.push_back(Replied { due, outstanding, woken: now });
        }
        self.due = due;
    }

    fn prepare(&self, frontend: &mut dyn Frontend, tag: Tag, answer: Answer) {
        match answer {
            Answer::Done => frontend.reply(tag, Reply::Done),
            Answer::Failed(code) => frontend.reply(tag, Reply::Failed(code)),
            Answer::Data { offset } => {
                let mut fill = |buffer: &mut [u8]| {
                    self.store.read(offset, buffer).map(|()| Content::Data).map_err(|error| code_of(&error))
                };
                frontend.reply(tag, Reply::Data(&mut fill));
            }
            Answer::Extents { offset, length, single } => match self.extents(offset, length, single) {
                Ok(extents) => frontend.reply(tag, Reply::Extents(&extents)),
                Err(error) => frontend.reply(tag, Reply::Failed(code_of(&error))),
            },
        }
    }

    /// Extents in whole blocks: a block that is allocated in part is allocated.
    fn extents(&self, offset: u64, length: u64, single: bool) -> Result<Vec<Extent>, StoreError> {
        let mut extents: Vec<Extent> = Vec::new();
        let (mut at, mut told) = (offset, offset);
        for extent in self.store.extents(offset, length)? {
            let extent = extent?;
            at += extent.length;
            let allocated = extent.allocation == Allocation::Allocated;
            let last = at == offset + length;
            let end = match (allocated, last) {
                (_, true) => at,
                (true, _) => at.next_multiple_of(self.block_bytes),
                (false, _) => at / self.block_bytes * self.block_bytes,
            };
            if end <= told {
                continue;
            }
            let length_bytes = u32::try_from(end - told).unwrap_or(u32::MAX);
            match extents.last_mut() {
                Some(before) if before.allocated == allocated => {
                    before.length_bytes = before.length_bytes.saturating_add(length_bytes);
                }
                _ => extents.push(Extent { length_bytes, allocated, zero: !allocated }),
            }
            told = end;
            if (single && extents.len() > 1) || extents.len() == EXTENTS_MAX {
                break;
            }
        }
        if single {
            extents.truncate(1);
        }
        Ok(extents)
    }

    /// Learns from a reply that only had to be waited for: any other is late for another reason.
    fn follow(&mut self, Replied { due, outstanding, .. }: &Replied, left: Instant) {
        let Some(send_cost) = &mut self.send_cost else { return };
        if outstanding.arrived.max(outstanding.stored).max(due.known) <= due.due {
            let mut compensation = self.pacer.compensation();
            let op = due.completion.request.op;
            if send_cost.observe(op, left.saturating_since(due.due), &mut compensation) {
                self.pacer.set_compensation(compensation);
            }
        }
    }

    fn book(&mut self, Replied { due, outstanding, woken }: &Replied, left: Instant) {
        let steps = Steps {
            arrived: outstanding.arrived,
            known: due.known,
            data: outstanding.stored,
            free: self.waiting_since,
            woken: *woken,
            left,
        };
        self.tally.requests += 1;
        self.tally.response.record(left.saturating_since(outstanding.arrived));
        self.tally.deadlines.record(due, &steps);
        if let Some(observe) = &mut self.observe {
            self.order.push(outstanding.number, record(&due.completion, outstanding.arrived, left), observe);
        }
    }
}

impl Backend for Emulation {
    fn take(&mut self, command: Command<'_>) {
        self.accept(&command);
    }

    fn reply(&mut self, now: Instant, frontend: &mut dyn Frontend) -> Option<Instant> {
        // Answers to clients that have gone leave here.
        while let Some(replied) = self.replied.pop_front() {
            self.book(&replied, now);
        }
        self.answer(now, frontend);
        let deadline = self.pacer.next_deadline();
        let after = self.clock.now();
        self.pacer.model_ended(after);
        self.waiting_since = after;
        deadline
    }

    fn left(&mut self, tag: Tag, now: Instant) {
        // Answers leave in the order in which they were prepared, but for several clients.
        let place = self.replied.iter().position(|replied| replied.outstanding.tag == tag);
        if let Some(replied) = place.and_then(|place| self.replied.remove(place)) {
            self.follow(&replied, now);
            self.book(&replied, now);
        }
    }
}

/// The request as it was seen at MP2. The model's own times stay in issue and start; a breakdown is only
/// kept where it sums to the response time at MP2.
fn record(completion: &Completion, arrived: Instant, left: Instant) -> TraceRecord {
    let response: Duration = left.saturating_since(arrived);
    let breakdown = Some(completion.breakdown).filter(|breakdown| breakdown.total() == response);
    TraceRecord {
        arrival: arrived,
        issue: None,
        start: None,
        completion: Some(left.max(arrived)),
        breakdown,
        status: Status::Ok,
        buffer: if completion.buffer == BufferOutcome::None {
            BufferOutcome::None
        } else {
            completion.buffer
        },
        ..TraceRecord::from(completion)
    }
}

/// What a client is told of a failure of the store.
fn code_of(error: &StoreError) -> ErrorCode {
    match error {
        StoreError::NoSpace { .. } | StoreError::FileSystemFull { .. } => ErrorCode::NoSpace,
        StoreError::NoMemory { .. } => ErrorCode::NoSpace,
        StoreError::OutOfRange { .. } => ErrorCode::Invalid,
        StoreError::ReadOnly { .. } => ErrorCode::Permission,
        _ => ErrorCode::Io,
    }
}
