//! Locks and pipes between processes. A wait for one ends with the progress of another process.
//!
//! ```text
//! lock     held by one process; the others wait in the order in which they came
//! pipe     holds some bytes: who sends waits while it is full, who receives waits while it is empty
//! ```
//! # Scope and limits
//! - A process that ends gives its locks back.
//! - A pipe is at its end when every process that could send has ended: a receiver takes what is there and goes on. A process
//!   can send if its program does, or that of a descendant; a process that receives does not count for its descendants.
//! - Processes that wait for each other in a circle end the run, and the task does not end.

use super::Host;
use super::list::{List, NONE};
use super::process::{Activity, Next, State, Wait};
use super::program::Instruction;

/// A lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lock {
    /// The process that holds it, or [`NONE`].
    holder: u32,
    waiting: List,
}

impl Lock {
    pub(super) const FREE: Self = Self { holder: NONE, waiting: List::EMPTY };
}

/// A pipe.
#[derive(Debug, Clone)]
pub(super) struct Pipe {
    capacity_bytes: u64,
    held_bytes: u64,
    /// For each definition, true if its processes or their descendants send.
    can_send: Vec<bool>,
    /// Processes that exist and can send.
    senders: u64,
    /// Processes that wait for bytes, and those that wait for room.
    receiving: List,
    sending: List,
}

/// A transfer through a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piped {
    pub(super) pipe: u32,
    pub(super) sends: bool,
    /// Bytes that are left.
    pub(super) left: u64,
}

impl Pipe {
    /// An empty pipe between processes of these programs. `children` has the definitions that each one forks, at whatever
    /// distance.
    pub(super) fn new(
        number: u32,
        capacity_bytes: u64,
        programs: &[&[Instruction]],
        children: &[Vec<usize>],
    ) -> Self {
        let has = |program: &[Instruction], sends: bool| {
            program.iter().any(
                |one| matches!(one, Instruction::Pipe(piped) if piped.pipe == number && piped.sends == sends),
            )
        };
        let sends: Vec<bool> = programs.iter().map(|program| has(program, true)).collect();
        let can_send = programs.iter().zip(children).zip(&sends).map(|((program, children), is_own)| {
            *is_own || (children.iter().any(|child| sends[*child]) && !has(program, false))
        });
        Self {
            capacity_bytes,
            held_bytes: 0,
            can_send: can_send.collect(),
            senders: 0,
            receiving: List::EMPTY,
            sending: List::EMPTY,
        }
    }
}

impl Host {
    /// A step towards a lock.
    pub(super) fn lock(&mut self, pid: u32, number: u32) -> Next {
        let lock = &mut self.locks[number as usize];
        if lock.holder == NONE {
            lock.holder = pid;
        }
        if lock.holder == pid {
            self.processes[pid as usize].activity = Activity::Fetch;
            return Next::Continue;
        }
        self.links.push_back(&mut lock.waiting, pid);
        Next::Wait(Wait::Process)
    }

    /// Gives a lock to the process that has waited longest, if this process holds it.
    pub(super) fn unlock(&mut self, pid: u32, number: u32) {
        let lock = &mut self.locks[number as usize];
        if lock.holder != pid {
            return;
        }
        let next = self.links.pop_front(&mut lock.waiting);
        lock.holder = next.unwrap_or(NONE);
        if let Some(next) = next {
            self.wake(next);
        }
    }

    /// A step of a transfer through a pipe.
    pub(super) fn transfer(&mut self, pid: u32, state: Piped) -> Next {
        let pipe = &mut self.pipes[state.pipe as usize];
        let (possible, others) = if state.sends {
            (pipe.capacity_bytes - pipe.held_bytes, &mut pipe.receiving)
        } else {
            (pipe.held_bytes, &mut pipe.sending)
        };
        let bytes = state.left.min(possible);
        let mut woken = if bytes > 0 { std::mem::replace(others, List::EMPTY) } else { List::EMPTY };
        pipe.held_bytes = if state.sends { pipe.held_bytes + bytes } else { pipe.held_bytes - bytes };
        let left = state.left - bytes;
        let is_at_end = !state.sends && pipe.senders == 0;
        let is_done = left == 0 || is_at_end;
        if !is_done {
            let own = if state.sends { &mut pipe.sending } else { &mut pipe.receiving };
            self.links.push_back(own, pid);
        }
        while let Some(other) = self.links.pop_front(&mut woken) {
            self.wake(other);
        }
        self.processes[pid as usize].activity =
            if is_done { Activity::Fetch } else { Activity::Pipe(Piped { left, ..state }) };
        if is_done { Next::Continue } else { Next::Wait(Wait::Process) }
    }

    /// A process exists from now on.
    pub(super) fn open_pipes(&mut self, definition: u32) {
        for pipe in &mut self.pipes {
            pipe.senders += u64::from(pipe.can_send[definition as usize]);
        }
    }

    /// A process has ended: others get its locks, and who receives learns of the end of pipes.
    pub(super) fn close(&mut self, pid: u32, definition: u32) {
        for number in 0..self.locks.len() as u32 {
            self.unlock(pid, number);
        }
        for number in 0..self.pipes.len() {
            let pipe = &mut self.pipes[number];
            if !pipe.can_send[definition as usize] {
                continue;
            }
            pipe.senders -= 1;
            if pipe.senders == 0 {
                while let Some(other) = self.links.pop_front(&mut self.pipes[number].receiving) {
                    self.wake(other);
                }
            }
        }
    }

    /// Returns true if every process that exists waits for another one, or looks again and again for another one, so that none will go
    /// on.
    pub(super) fn is_deadlocked(&self) -> bool {
        if self.alive == 0 || !self.requests.is_empty() || self.cpus.iter().any(|cpu| cpu.due.is_some()) {
            return false;
        }
        let is_waiting =
            |state| matches!(state, State::Waiting(Wait::Process | Wait::Children) | State::Ended);
        let mut of_programs = self.processes.iter().filter(|process| !process.is_system);
        of_programs.all(|process| is_waiting(process.state) || self.repeats_a_poll(process))
    }
}
