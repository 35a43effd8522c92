//! Operations of a store in a file that are under way, so that nobody waits for a disk.
//!
//! ```text
//!           begin ─▶ waits for earlier ones ─▶ Ring: reads, writes (io_uring)              ─▶ finished:
//! Emulation          that it overlaps;       └▶ Helpers: flushes, FUA, discards, zeroes ─▶ the descriptor
//!                    a flush for all writes                                                is readable
//! ```
//! Contents depend on the order of arrival alone, as with the synchronous calls of [`Store`](super::Store):
//! operations that overlap, where one of them changes bytes, run one after the other. A flush begins when
//! every earlier change has ended, and is an ordinary `fdatasync`.
//!
//! # Scope and limits
//! The memory of transfers is bounded. Beyond the bound [`Transfers::begin`] declines, and the caller transfers the data
//! synchronously after [`Transfers::settle`]. One thread drives it.

mod helpers;
mod ring;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use seeklab_core::Instant;

use super::{FileStore, StoreError};
use crate::clock::Clock;
use helpers::{Finished, Helpers, Job};
use ring::{Direction, Ended, Ring};

/// Kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Bring bytes.
    Read,
    /// Take bytes.
    Write {
        /// Complete only when the bytes are on the medium (force unit access).
        durably: bool,
    },
    /// Bring everything written before to the medium.
    Flush,
    /// Give space back; it reads as zeroes.
    Discard {
        /// Complete only when the change is on the medium.
        durably: bool,
    },
    /// Zero, and keep the space.
    Zero {
        /// Complete only when the change is on the medium.
        durably: bool,
    },
}

impl Work {
    /// Returns true if the operation changes bytes.
    const fn changes(self) -> bool {
        !matches!(self, Self::Read | Self::Flush)
    }

    /// Returns true if the operation ends with a flush. (A durable write is durable by the write itself.)
    const fn flushes(self) -> bool {
        matches!(self, Self::Flush | Self::Discard { durably: true } | Self::Zero { durably: true })
    }
}

/// Names an operation that was begun, until it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token(u32);

/// Result of an operation.
#[derive(Debug)]
pub struct TransferResult {
    /// Time at which the end of the operation was detected.
    pub ended: Instant,
    /// The bytes of a read, in a buffer to be [given back](Transfers::give_back); or why it failed.
    pub result: Result<Vec<u8>, StoreError>,
}

#[derive(Debug)]
struct Operation {
    work: Work,
    offset: u64,
    length: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Free,
    /// Begins when that many earlier operations have ended.
    Waiting {
        earlier: usize,
        buffer: Vec<u8>,
    },
    /// Begins when there is room in the ring.
    Ready(Vec<u8>),
    Running {
        done: usize,
    },
    Ended(TransferResult),
}

/// Operations of a store in a file that are under way.
#[derive(Debug)]
pub struct Transfers {
    file: Arc<FileStore>,
    clock: Clock,
    event: Arc<OwnedFd>,
    ring: Ring,
    helpers: Helpers,
    operations: Vec<Operation>,
    free: Vec<u32>,
    /// Operations that have not ended, in order of arrival.
    under_way: Vec<u32>,
    ready: VecDeque<u32>,
    /// With the helpers.
    helped: usize,
    /// Buffers that nobody uses.
    spare: Vec<Vec<u8>>,
    /// Bytes of operations that are not taken.
    held_bytes: u64,
}

/// Operations in the ring at a time.
const ENTRIES: u32 = 256;

/// Bytes of memory that operations may hold.
const HELD_BYTES_MAX: u64 = 64 << 20;

/// Operations under way at a time: each is compared with all.
const UNDER_WAY_MAX: usize = 1024;

/// Buffers that are kept, and how long they may be.
const SPARE: (usize, usize) = (64, 1 << 20);

impl Transfers {
    /// Operations on `file`, whose ends are stamped by `clock`.
    ///
    /// # Errors
    /// If the kernel has no io_uring, or not for this process.
    pub fn over(file: &Arc<FileStore>, clock: Clock) -> io::Result<Self> {
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let descriptor: File = file.descriptor()?;
        Ok(Self {
            ring: Ring::new(descriptor, ENTRIES, event.as_fd())?,
            helpers: Helpers::start(file, &event),
            file: Arc::clone(file),
            clock,
            event,
            operations: Vec::new(),
            free: Vec::new(),
            under_way: Vec::new(),
            ready: VecDeque::new(),
            helped: 0,
            spare: Vec::new(),
            held_bytes: 0,
        })
    }

    /// Becomes readable when operations have ended.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Begins an operation on `length` bytes at `offset`, which are those of `bytes` for a write; they are copied.
    /// `None` where more would have to be held than is allowed: then nothing has begun.
    ///
    /// # Errors
    /// As those of [`Store`](super::Store), as far as they are known before.
    pub fn begin(
        &mut self,
        work: Work,
        offset: u64,
        length: u64,
        bytes: &[u8],
    ) -> Result<Option<Token>, StoreError> {
        self.file.admits(offset, length, work.changes())?;
        let held = if matches!(work, Work::Read | Work::Write { .. }) { length } else { 0 };
        if self.held_bytes + held > HELD_BYTES_MAX || self.under_way.len() >= UNDER_WAY_MAX {
            return Ok(None);
        }
        self.held_bytes += held;
        let mut buffer = if held > 0 { self.spare.pop().unwrap_or_default() } else { Vec::new() };
        buffer.clear();
        match work {
            Work::Read => buffer.resize(length as usize, 0),
            _ => buffer.extend_from_slice(bytes),
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            let state = State::Free;
            self.operations.push(Operation { work, offset, length, state });
            self.operations.len() as u32 - 1
        });
        let operation = Operation { work, offset, length, state: State::Free };
        let earlier = self
            .under_way
            .iter()
            .filter(|other| self.operations[**other as usize].precedes(&operation))
            .count();
        self.under_way.push(slot);
        let place = &mut self.operations[slot as usize];
        *place = operation;
        if earlier > 0 {
            place.state = State::Waiting { earlier, buffer };
        } else {
            place.state = State::Ready(buffer);
            self.ready.push_back(slot);
            self.start_ready();
        }
        Ok(Some(Token(slot)))
    }

    /// Hands to the kernel what began, and looks what has ended; returns whether anything has.
    ///
    /// # Errors
    /// If the kernel no longer takes operations.
    pub fn look(&mut self) -> io::Result<bool> {
        self.ring.submit()?;
        let mut any = false;
        loop {
            let mut found = false;
            while let Some(Ended { slot, buffer, result }) = self.ring.take() {
                found = true;
                self.transferred(slot, buffer, result);
            }
            while self.helped > 0
                && let Some(Finished { slot, buffer, result }) = self.helpers.take()
            {
                found = true;
                self.helped -= 1;
                self.ended(slot, result.map(|()| buffer));
            }
            if !found {
                return Ok(any);
            }
            any = true;
            // An operation that ends after this is found in the next turn, or makes the descriptor readable again.
            match rustix::io::read(&*self.event, &mut [0; 8]) {
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.start_ready();
            self.ring.submit()?;
        }
    }

    /// Returns true if the operation has ended and can be taken.
    pub fn has_ended(&self, token: Token) -> bool {
        matches!(self.operations[token.0 as usize].state, State::Ended(_))
    }

    /// Returns the result of an operation, if it has ended. Its token is void then.
    pub fn take(&mut self, token: Token) -> Option<TransferResult> {
        if !self.has_ended(token) {
            return None;
        }
        let operation = &mut self.operations[token.0 as usize];
        if matches!(operation.work, Work::Read | Work::Write { .. }) {
            self.held_bytes -= operation.length;
        }
        self.free.push(token.0);
        match std::mem::replace(&mut operation.state, State::Free) {
            State::Ended(transferred) => Some(transferred),
            _ => unreachable!("it has ended"),
        }
    }

    /// Returns the buffer of a result to the pool, for another operation.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE.0 && (1..=SPARE.1).contains(&buffer.capacity()) {
            self.spare.push(buffer);
        }
    }

    /// Returns when nothing is under way that touches those bytes.
    ///
    /// # Errors
    /// If the kernel no longer takes operations.
    pub fn settle(&mut self, offset: u64, length: u64) -> Result<(), StoreError> {
        let whole = Operation { work: Work::Zero { durably: false }, offset, length, state: State::Free };
        self.wait_while(|this| {
            this.under_way.iter().any(|slot| this.operations[*slot as usize].precedes(&whole))
        })
    }

    /// Returns when nothing is under way.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub fn settle_all(&mut self) -> Result<(), StoreError> {
        self.wait_while(|this| !this.under_way.is_empty())
    }

    fn wait_while(&mut self, goes_on: impl Fn(&Self) -> bool) -> Result<(), StoreError> {
        let waited = self.try_wait_while(goes_on);
        waited.map_err(|error| StoreError::io("wait for", self.file.path(), error))
    }

    fn try_wait_while(&mut self, goes_on: impl Fn(&Self) -> bool) -> io::Result<()> {
        loop {
            self.look()?;
            if !goes_on(self) {
                return Ok(());
            }
            match poll(&mut [PollFd::new(&*self.event, PollFlags::IN)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Begins what nothing keeps from it, as far as the ring has room.
    fn start_ready(&mut self) {
        while let Some(slot) = self.ready.front().copied() {
            let operation = &mut self.operations[slot as usize];
            let direction = match operation.work {
                Work::Read => Some(Direction::Read),
                Work::Write { durably: false } => Some(Direction::Write),
                _ => None,
            };
            if direction.is_some() && self.ring.count() == ENTRIES as usize {
                return;
            }
            self.ready.pop_front();
            let State::Ready(buffer) = std::mem::replace(&mut operation.state, State::Running { done: 0 })
            else {
                unreachable!("it is ready");
            };
            let Operation { work, offset, length, .. } = *operation;
            match direction {
                // The kernel takes no transfer of nothing.
                Some(_) if length == 0 => self.ended(slot, Ok(buffer)),
                Some(direction) => self.ring.start(slot, direction, offset, buffer, 0),
                None => {
                    self.helped += 1;
                    self.helpers.give(Job { slot, work, offset, length, buffer });
                }
            }
        }
    }

    /// The ring is done with some of an operation, or all of it.
    fn transferred(&mut self, slot: u32, buffer: Vec<u8>, result: io::Result<usize>) {
        let operation = &mut self.operations[slot as usize];
        let State::Running { done } = &mut operation.state else { unreachable!("it runs") };
        let direction = if operation.work == Work::Read { Direction::Read } else { Direction::Write };
        let (what, at_end) = match direction {
            Direction::Read => ("read", io::ErrorKind::UnexpectedEof),
            Direction::Write => ("write", io::ErrorKind::WriteZero),
        };
        let failed = match result {
            Ok(0) => Some(at_end.into()),
            Ok(bytes) => {
                *done += bytes;
                None
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                None
            }
            Err(error) => Some(error),
        };
        let done = *done;
        if let Some(error) = failed {
            let error = StoreError::io(what, self.file.path(), error);
            self.ended(slot, Err(error));
        } else if done < buffer.len() {
            let offset = operation.offset;
            self.ring.start(slot, direction, offset, buffer, done);
        } else {
            self.ended(slot, Ok(buffer));
        }
    }

    /// An operation has ended: those that waited for it may begin.
    fn ended(&mut self, slot: u32, result: Result<Vec<u8>, StoreError>) {
        let transferred = TransferResult { ended: self.clock.now(), result };
        let place = self.under_way.iter().position(|other| *other == slot).expect("it was under way");
        self.under_way.remove(place);
        let ended = std::mem::replace(&mut self.operations[slot as usize].state, State::Ended(transferred));
        debug_assert!(matches!(ended, State::Running { .. }), "{ended:?}");
        for later in &self.under_way[place..] {
            if !self.operations[slot as usize].precedes(&self.operations[*later as usize]) {
                continue;
            }
            let operation = &mut self.operations[*later as usize];
            let State::Waiting { earlier, buffer } = &mut operation.state else {
                unreachable!("it waits for what is under way before it");
            };
            *earlier -= 1;
            if *earlier == 0 {
                operation.state = State::Ready(std::mem::take(buffer));
                self.ready.push_back(*later);
            }
        }
    }
}

impl Operation {
    /// Returns true if `later` may begin only when this operation has ended.
    const fn precedes(&self, later: &Self) -> bool {
        if matches!(later.work, Work::Flush) {
            return self.work.changes();
        }
        let overlaps = self.offset < later.offset + later.length && later.offset < self.offset + self.length;
        overlaps && (self.work.changes() || later.work.changes())
    }
}

#[cfg(test)]
mod tests;
