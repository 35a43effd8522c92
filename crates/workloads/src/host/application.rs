//! Applications: programs that choose their operations while they run.
//!
//! ```text
//!               step: what next?            actions, one after the other
//! application ◀──────────────────  process ──────────────────────────────▶ page cache, device, other processes
//!      └──── operations ─▶ System ─▶ plan ─┘
//! ```
//! An [`Application`] states its next operations whenever the plan of one of its processes is empty. Operations on
//! files change the layout of the file system at once, and become actions of the process.
//!
//! # Scope and limits
//! - An application has one state for all of its processes, so that a copy of a host has a copy of it.
//! - If the device is full, every process ends when its plan is done.
//! - Costs of system calls are part of the computing times that the application states.

use std::fmt;

use seeklab_core::{Duration, Instant, Operation, Request};

use super::action::{Action, Plan};
use super::file_system::{FileSystem, Full, Mount};
use super::linux::Linux;
use super::profile::scaled;

/// A program of one or more processes. The first process exists from the start; others are forked.
pub trait Application: fmt::Debug + Send {
    /// Names of the kinds of processes. The first process is of the first kind.
    fn kinds(&self) -> &'static [&'static str];

    /// Adds the next operations of a process to its plan. Returns false if the process ends after them.
    ///
    /// # Errors
    /// The device is full.
    fn step(&mut self, process: ProcessId, system: &mut System) -> Result<bool, Full>;

    /// A copy that goes on as this one does.
    fn fork(&self) -> Box<dyn Application>;
}

impl Clone for Box<dyn Application> {
    fn clone(&self) -> Self {
        self.fork()
    }
}

/// A process of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessId {
    /// Number of its kind.
    pub kind: u32,
    /// Number that it was forked with, zero for the first process.
    pub instance: u32,
    /// Number among the processes of the host. The number of a process that has ended is used again.
    pub pid: u32,
}

/// Settings of the file system of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileSystemSettings {
    /// Time at which changes go to the device.
    pub mount: Mount,
    /// True if deleting a file discards its blocks.
    pub discards: bool,
}

/// A part of an application's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// Start of the phase.
    pub start: Instant,
    /// Time at which the last process of the phase was done.
    pub end: Option<Instant>,
    /// Time at which everything was written back, if the phase ends with an unmount.
    pub unmounted: Option<Instant>,
    /// Operations done: transactions, files, or what else the phase is about.
    pub operations: u64,
    /// Requests made, those of write-back included.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Phase {
    const fn new(name: &'static str, start: Instant) -> Self {
        Self {
            name,
            start,
            end: None,
            unmounted: None,
            operations: 0,
            requests: 0,
            read_bytes: 0,
            written_bytes: 0,
        }
    }

    /// From its start to the end of its last process, without the unmount.
    pub fn elapsed(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_since(self.start))
    }
}

/// An application on a host.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) application: Box<dyn Application>,
    pub(super) files: FileSystem,
    pub(super) phases: Vec<Phase>,
    /// Transactions that the application has committed.
    pub(super) commits: u64,
    pub(super) is_full: bool,
}

impl Running {
    pub(super) const fn new(application: Box<dyn Application>, files: FileSystem) -> Self {
        Self { application, files, phases: Vec::new(), commits: 0, is_full: false }
    }

    pub(super) fn begin_phase(&mut self, name: &'static str, now: Instant) {
        self.phases.push(Phase::new(name, now));
    }

    /// The current phase, if one has begun.
    pub(super) fn phase(&mut self) -> Option<&mut Phase> {
        self.phases.last_mut()
    }

    /// A request is made.
    pub(super) fn count(&mut self, request: &Request, block_bytes: u64) {
        let Some(phase) = self.phases.last_mut() else { return };
        phase.requests += 1;
        let bytes = u64::from(request.blocks) * block_bytes;
        match request.op {
            Operation::Read => phase.read_bytes += bytes,
            Operation::Write => phase.written_bytes += bytes,
            _ => {}
        }
    }
}

/// The system as an application sees it: what a process does is added to its plan. The operations on files are in
/// `file_system`.
#[derive(Debug)]
pub struct System<'a> {
    pub(super) files: &'a mut FileSystem,
    pub(super) linux: &'a mut Linux,
    pub(super) plan: &'a mut Plan,
    pub(super) now: Instant,
    /// Speed of the CPUs.
    pub(super) speed: f64,
}

impl System<'_> {
    /// Occupies a CPU.
    pub fn compute(&mut self, time: Duration) {
        self.plan.push(Action::Compute(scaled(time, self.speed)));
    }

    /// Waits for that time.
    pub fn sleep(&mut self, time: Duration) {
        self.plan.push(Action::Sleep(time));
    }

    /// Starts a child of that kind.
    pub fn fork(&mut self, kind: u32, instance: u32) {
        self.plan.push(Action::Fork { kind, instance });
    }

    /// Waits until all children have ended.
    pub fn wait(&mut self) {
        self.plan.push(Action::Wait);
    }

    /// Waits until another process has [unparked](Self::unpark) this one, which may have happened before.
    pub fn park(&mut self) {
        self.plan.push(Action::Park);
    }

    /// Lets the process of that number go on.
    pub fn unpark(&mut self, pid: u32) {
        self.plan.push(Action::Unpark(pid));
    }

    /// Waits for all requests that this process has sent past the page cache.
    pub fn await_direct(&mut self) {
        self.plan.push(Action::Await);
    }

    /// Lets the device make durable what it has, and waits.
    pub fn flush(&mut self) {
        self.plan.push(Action::Flush);
    }

    /// Begins a phase.
    pub fn begin_phase(&mut self, name: &'static str) {
        self.plan.push(Action::BeginPhase(name));
    }

    /// Ends the phase. Requests until the next one count to it.
    pub fn end_phase(&mut self) {
        self.plan.push(Action::EndPhase);
    }

    /// One operation of the application, a transaction for example, is done.
    pub fn operation(&mut self) {
        self.plan.push(Action::Operation);
    }

    /// So many transactions are durable.
    pub fn commit(&mut self, transactions: u64) {
        self.plan.push(Action::Transactions(transactions));
    }
}
