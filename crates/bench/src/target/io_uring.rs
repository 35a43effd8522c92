//! Block devices and files by io_uring: registered file and buffers, many requests in one system call.
//!
//! # Scope and limits
//! With polled submission, a thread of the kernel takes requests from the ring, and this one looks for completions in memory:
//! no system calls in the steady state. With polled completion, the kernel looks for completions in a queue of the device
//! without interrupts. It has no flushes, discards and writes of zeroes.
//!
//! One ring for each thread. A write with force unit access is a write with `RWF_DSYNC`; a flush is `fdatasync`. On
//! tmpfs and other file systems that block, the kernel hands every request to a thread of its own, which costs more
//! than `psync` does.

use std::io;

use io_uring::types::Timespec;
use seeklab_core::{Instant, Operation, Request, Status};
use seeklab_emulator::clock::{Clock, Wait};

use super::buffers::Buffers;
use super::idle::idle;
use super::ring::Ring;
use crate::verify::Checker;

use super::polled_queue;
use super::{Ended, OpenFile, Opening, Target, TargetError, TargetFacts, TargetKind, Transfer, byte_range};

/// Its line in the list of targets.
pub(super) const KIND: TargetKind = TargetKind {
    name: "io_uring",
    form: "PATH",
    meaning: "A block device or file, many requests at a time by io_uring",
    matches: |address| Some(address.strip_prefix("io_uring:").unwrap_or(address)),
    holds_data: true,
    is_model: false,
    has_priorities: true,
    is_virtual: false,
    identify: super::file::identify,
    is_expendable: super::file::is_expendable,
    open,
};

/// Requests under way that one ring takes.
const ENTRIES_MAX: u32 = 1 << 14;

fn open(path: &str, opening: &Opening<'_>) -> Result<Box<dyn Target>, TargetError> {
    let options = opening.options;
    let opened = OpenFile::open(path, options)?;
    if options.polling.completion {
        polled_queue::check(path, &opened.file, options.direct)?;
    }
    let slots = options.outstanding_max.min(ENTRIES_MAX);
    let buffers = Buffers::new(slots as usize, options);
    let polling = options.polling;
    let ring = Ring::new(opened.file, buffers, slots, (options.priority, polling)).map_err(|error| match error.kind() {
        _ if polling.is_any() => TargetError::unusable(
            path,
            format!("the kernel gives this process no polled io_uring: {error}"),
            "leave out --poll; polled submission without privileges needs Linux 5.13",
        ),
        io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => TargetError::unusable(
            path,
            format!("the kernel gives this process no io_uring: {error}"),
            format!("write psync:{path}, or allow it in /proc/sys/kernel/io_uring_disabled or the container's profile"),
        ),
        _ => TargetError::io(path, "set up io_uring for", error),
    })?;
    let mut facts = TargetFacts::new(opened.space, slots);
    if polling.completion {
        facts.limits.refused = vec![Operation::Flush, Operation::Discard, Operation::WriteZeroes];
    }
    if !ring.has_fixed_buffers() {
        facts.notes.push(
            "buffers could not be registered: requests cost more processor time; raise `ulimit -l`"
                .to_owned(),
        );
    }
    Ok(Box::new(Uring {
        path: path.to_owned(),
        facts,
        clock: opening.clock,
        ring,
        requests: vec![None; slots as usize],
        idle_calls: 0,
    }))
}

#[derive(Debug)]
struct Uring {
    path: String,
    facts: TargetFacts,
    clock: Clock,
    ring: Ring,
    /// Requests under way, by slot.
    requests: Vec<Option<Request>>,
    idle_calls: u64,
}

impl Uring {
    fn enter(&mut self, at_least: usize, limit: Option<Timespec>) -> Result<(), TargetError> {
        self.ring
            .enter(at_least, limit)
            .map_err(|error| TargetError::io(&self.path, "submit requests to", error))
    }

    /// Looks for completions until so many are there, or as long as `wait` says. A wait in the kernel would be a system call,
    /// or could not be ended.
    fn look(&mut self, wait: Wait, at_least: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError> {
        let mut count = 0;
        loop {
            if self.ring.needs_enter() {
                self.enter(0, None)?;
            }
            count += self.reap(ended);
            let is_over = match wait {
                Wait::Spin => true,
                Wait::Until(until) => self.clock.now() >= until,
                Wait::Forever => false,
            };
            if count >= at_least || is_over {
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }

    /// Appends the completions that are there, all with the time of now, and returns their number.
    fn reap(&mut self, ended: &mut Vec<Ended>) -> u32 {
        let block_bytes = self.facts.space.block_size.as_bytes();
        let mut count = 0;
        let mut completed = None;
        while let Some(taken) = self.ring.take() {
            let completed = *completed.get_or_insert_with(|| self.clock.now());
            let request = self.requests[taken.tag as usize].take().expect("a request completes once");
            let (status, good_blocks) = outcome(taken.result, &request, block_bytes);
            if request.op == Operation::Read && status.is_success() {
                let (_, length) = byte_range(&request, block_bytes);
                self.ring.buffers().was_read(taken.tag, length, completed);
            }
            ended.push(Ended { tag: taken.tag, completed, status, good_blocks });
            count += 1;
        }
        count
    }
}

/// Status and good blocks of a request of which so many bytes were transferred, or which failed with that error number.
pub(super) fn outcome(
    result: Result<usize, u32>,
    request: &Request,
    block_bytes: u64,
) -> (Status, Option<u32>) {
    match result {
        Err(errno) => (Status::from_errno(errno), None),
        Ok(bytes) if matches!(request.op, Operation::Read | Operation::Write) => {
            let (_, length) = byte_range(request, block_bytes);
            // The file became shorter, or the device ends here.
            let is_whole = bytes == length;
            let good_blocks = (bytes as u64 / block_bytes) as u32;
            (if is_whole { Status::Ok } else { Status::Aborted }, (!is_whole).then_some(good_blocks))
        }
        Ok(_) => (Status::Ok, None),
    }
}

impl Target for Uring {
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
        let block_bytes = self.facts.space.block_size.as_bytes();
        for transfer in transfers {
            let Transfer { tag, request } = transfer;
            let (offset, length) = byte_range(request, block_bytes);
            self.requests[*tag as usize] = Some(*request);
            self.ring.push(transfer, offset, length);
        }
        Ok(())
    }

    fn poll(&mut self, wait: Wait, at_least: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError> {
        if self.ring.count() == 0 {
            self.idle_calls += idle(self.clock, wait);
            return Ok(());
        }
        let at_least = at_least.min(self.ring.count() as u32).max(1);
        if self.ring.is_polled() {
            return self.look(wait, at_least, ended);
        }
        let limit = match wait {
            Wait::Spin => {
                if self.ring.needs_enter() {
                    self.enter(0, None)?;
                }
                self.reap(ended);
                return Ok(());
            }
            Wait::Until(until) => {
                let left = until.saturating_since(self.clock.now()).as_ns();
                Some(Timespec::new().sec(left / 1_000_000_000).nsec((left % 1_000_000_000) as u32))
            }
            Wait::Forever => None,
        };
        self.enter(at_least as usize, limit)?;
        self.reap(ended);
        Ok(())
    }

    fn checker(&mut self) -> Option<&mut Option<Box<Checker>>> {
        Some(&mut self.ring.buffers().checker)
    }

    fn spins(&self) -> bool {
        self.ring.is_polled()
    }

    fn system_calls(&self) -> u64 {
        self.ring.calls() + self.idle_calls
    }
}
