//! A real file or device behind a frontend: every command is passed on to it and recorded.
//!
//! ```text
//! Command ─▶ Passthrough ─▶ waiting ─▶ workers, each at one command of the backing ─▶ Reply
//!              arrival                    issue                           completion
//! ```
//! The module between the operating system and the driver of \[Thornock97, §2\]. It records three times of
//! each command: its arrival, its issue to the backing, and its completion by the backing. The arrival and
//! the leaving of the reply at MP2 stand beside these times, and include the work of the frontend and the
//! client.
//!
//! # Durability
//! A flush returns after `fdatasync` of the backing, and covers every write whose reply had left or was ready
//! to; a FUA write is followed by one. Commands that are outstanding together have no order, as with any
//! disk: overlapping ones may be done in either order.
//!
//! # Scope and limits
//! - The backing serves one command per worker at a time; the others wait in order of arrival.
//! - The page cache is bypassed (`O_DIRECT`) if the backing supports it. Otherwise the times are those of the
//!   cache; see [`Backing::is_direct`]. Discards, zeroes and unaligned requests go through the cache.
//! - Block status is answered as "all allocated".

mod backing;
mod workers;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use seeklab_core::statistics::Distribution;
use seeklab_core::{ArrivalOrder, Instant, MeasurementPoints, Status, TraceRecord};

use crate::clock::Clock;
use crate::emulation::Observe;
use crate::frontend::{
    Action, Backend, Command, Content, Departure, ErrorCode, Extent, Frontend, Next, Reply, Tag,
};
use workers::{Done, Job, Work, Workers};

pub use backing::{Backing, BackingError};

/// Statistics of the commands so far.
#[derive(Debug, Clone, Default)]
pub struct Passed {
    /// Commands that the backing did.
    pub requests: u64,
    /// Commands that it refused.
    pub errors: u64,
    /// From arrival until the backing had done it.
    pub response: Distribution,
}

/// The commands that pass.
pub struct Passthrough {
    workers: Workers,
    block_bytes: u64,
    observe: Option<Observe>,
    arrived: u64,
    outstanding: BTreeMap<u64, Outstanding>,
    /// Replies that are prepared and have not left.
    leaving: BTreeMap<Tag, (u64, TraceRecord)>,
    order: ArrivalOrder,
    at_once: Vec<(Tag, u32)>,
    passed: Passed,
}

struct Outstanding {
    tag: Tag,
    record: TraceRecord,
}

impl Passthrough {
    /// Passes everything on to `backing` by so many workers; `observe` is shown every command, in order of arrival.
    ///
    /// # Errors
    /// If the system refuses a thread or a descriptor.
    ///
    /// # Panics
    /// Without a worker.
    pub fn new(
        backing: Arc<Backing>,
        workers: usize,
        clock: Clock,
        observe: Option<Observe>,
    ) -> io::Result<Self> {
        let block_bytes = u64::from(backing.block_bytes());
        Ok(Self {
            workers: Workers::start(backing, workers, clock)?,
            block_bytes,
            observe,
            arrived: 0,
            outstanding: BTreeMap::new(),
            leaving: BTreeMap::new(),
            order: ArrivalOrder::default(),
            at_once: Vec::new(),
            passed: Passed::default(),
        })
    }

    /// Returns the statistics of the commands so far.
    pub const fn passed(&self) -> &Passed {
        &self.passed
    }

    /// Commands outstanding.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Waits for what is with the backing, shows the last commands; what passed.
    pub fn finish(mut self) -> Passed {
        // Nobody waits for these any more; the backing does them all the same.
        for done in self.workers.end() {
            if let Some((number, record)) = self.complete(&done) {
                self.show(number, record);
            }
        }
        for (_, (number, record)) in std::mem::take(&mut self.leaving) {
            self.show(number, record);
        }
        if let Some(observe) = &mut self.observe {
            self.order.finish(observe);
        }
        self.passed
    }

    /// The record of a command that the backing has done or refused.
    fn complete(&mut self, done: &Done) -> Option<(u64, TraceRecord)> {
        let outstanding = self.outstanding.remove(&done.number)?;
        let mut record = outstanding.record;
        record.issue = Some(done.issued);
        record.completion = Some(done.completed.max(done.issued));
        if let Err(code) = &done.result {
            record.status = Status::from_errno(*code as u32);
            self.passed.errors += 1;
        }
        self.passed.requests += 1;
        self.passed.response.record(done.completed.saturating_since(record.arrival));
        Some((done.number, record))
    }

    fn show(&mut self, number: u64, record: TraceRecord) {
        if let Some(observe) = &mut self.observe {
            self.order.push(number, record, observe);
        }
    }
}

impl Backend for Passthrough {
    fn take(&mut self, command: Command<'_>) {
        let work = match command.action {
            Action::BlockStatus { .. } => return self.at_once.push((command.tag, command.length_bytes)),
            Action::Read => Work::Read,
            Action::Write(bytes) => Work::Write { bytes: backing::Aligned::of(bytes), durably: command.fua },
            Action::Flush => Work::Flush,
            Action::Discard => Work::Discard,
            Action::WriteZeroes { may_discard } => Work::WriteZeroes { may_discard, durably: command.fua },
        };
        let op = command.action.operation().expect("block status was answered");
        let (lbn, blocks) =
            (command.offset_bytes / self.block_bytes, u64::from(command.length_bytes) / self.block_bytes);
        let blocks = u32::try_from(blocks).expect("a length has 32 bits");
        let number = self.arrived;
        self.arrived += 1;
        let record = TraceRecord {
            queue_length: Some(u32::try_from(self.outstanding.len()).unwrap_or(u32::MAX)),
            initiator: u32::try_from(command.tag.client).unwrap_or(u32::MAX),
            fua: command.fua,
            points: MeasurementPoints { mp2_arrival: Some(command.arrived), ..MeasurementPoints::NONE },
            ..TraceRecord::new(command.arrived, op, lbn, blocks)
        };
        self.outstanding.insert(number, Outstanding { tag: command.tag, record });
        self.workers.give(Job {
            number,
            work,
            offset: command.offset_bytes,
            length: u64::from(command.length_bytes),
        });
    }

    fn reply(&mut self, _: Instant, frontend: &mut dyn Frontend) -> io::Result<Next> {
        for (tag, length_bytes) in self.at_once.drain(..) {
            let all = [Extent { length_bytes, allocated: true, zero: false }];
            frontend.reply(tag, Reply::Extents(&all));
        }
        for done in self.workers.take() {
            let tag = self.outstanding[&done.number].tag;
            if let Some(completed) = self.complete(&done) {
                self.leaving.insert(tag, completed);
            }
            match &done.result {
                Ok(Some(bytes)) => {
                    let mut fill = |buffer: &mut [u8]| -> Result<Content, ErrorCode> {
                        buffer.copy_from_slice(bytes.bytes());
                        Ok(Content::Data)
                    };
                    frontend.reply(tag, Reply::Data(&mut fill));
                }
                Ok(None) => frontend.reply(tag, Reply::Done),
                Err(error) => frontend.reply(tag, Reply::Failed(*error)),
            }
        }
        // Replies that have not left hold up what arrived later: without them, if more have piled up than any
        // frontend keeps outstanding.
        while self.leaving.len() > LEAVING_MAX {
            if let Some((_, (number, record))) = self.leaving.pop_first() {
                self.show(number, record);
            }
        }
        Ok(Next::WaitUntil(None))
    }

    fn left(&mut self, tag: Tag, departure: Departure) {
        if let Some((number, mut record)) = self.leaving.remove(&tag) {
            if let Departure::Taken(now) = departure {
                record.points.mp2_completion = Some(now.max(record.arrival));
            }
            self.show(number, record);
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.workers.descriptor())
    }
}

/// Replies that may be waiting to leave.
const LEAVING_MAX: usize = 1 << 16;
