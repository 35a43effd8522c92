//! Actions of a process of an application: what its operations do in the system, one after the other.

use std::collections::VecDeque;

use seeklab_core::{Criticality, Duration, Operation, Request};

use super::application::{ProcessId, System};
use super::criticality::Owner;
use super::file_system::Full;
use super::page_cache::FrameState;
use super::process::{Activity, Next, Wait};
use super::recorded::{RecordedAction, RecordedExtent};
use super::{Host, JOURNAL, PAGE_BYTES};

/// An action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Occupies a CPU.
    Compute(Duration),
    Sleep(Duration),
    /// An access to the page cache.
    Cache(RecordedAction),
    /// Opens a file.
    Open(u32),
    /// Writes what is dirty of a file, and waits.
    WriteFile(u32),
    /// Writes what is dirty of all files but metadata, and waits.
    WriteFiles,
    /// Writes everything that is dirty, and waits.
    WriteAll,
    /// Writes a block of metadata if it is dirty, and waits.
    WriteMetadata(u64),
    /// Lets the device make durable what it has, and waits.
    Flush,
    /// Sends a request past the page cache.
    Submit(Direct),
    /// Waits for all requests that the process has sent.
    Await,
    /// Waits for a commit of what has changed. If nothing has changed, `or_flush` flushes the device.
    Commit {
        or_flush: bool,
    },
    /// The transaction of the journal is durable.
    Committed,
    /// Blocks that the transaction freed can be used again.
    ReleaseCommitted,
    /// A deleted file has left the page cache.
    Release(u32),
    /// Empties the page cache.
    DropCaches,
    Fork {
        kind: u32,
        instance: u32,
    },
    /// Waits for children.
    Wait,
    Park,
    Unpark(u32),
    BeginPhase(&'static str),
    EndPhase,
    Unmounted,
    Operation,
    /// So many transactions of the application are durable.
    Transactions(u64),
}

/// A request past the page cache, in blocks of [`PAGE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Direct {
    pub(super) op: Operation,
    pub(super) address: u64,
    pub(super) pages: u64,
    pub(super) fua: bool,
    pub(super) class: Criticality,
}

impl Action {
    /// A request of a process that will wait for it.
    pub(super) const fn direct(op: Operation, extent: RecordedExtent) -> Self {
        let RecordedExtent { address, pages, .. } = extent;
        Self::Submit(Direct { op, address, pages, fua: false, class: Criticality::TimeCritical })
    }

    pub(super) const fn discard(extent: RecordedExtent, class: Criticality) -> Self {
        let RecordedExtent { address, pages, .. } = extent;
        Self::Submit(Direct { op: Operation::Discard, address, pages, fua: false, class })
    }
}

/// Actions that a process has yet to do.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan(VecDeque<Action>);

impl Plan {
    pub(super) const fn new() -> Self {
        Self(VecDeque::new())
    }

    pub(super) fn push(&mut self, action: Action) {
        self.0.push_back(action);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn next(&mut self) -> Option<Action> {
        self.0.pop_front()
    }

    /// Takes the request, together with those behind it that follow it on the device, as far as one request can hold them.
    fn join(&mut self, first: Direct, max_pages: u64) -> Direct {
        let mut joined = first;
        while let Some(Action::Submit(next)) = self.0.front() {
            let follows = joined.address + joined.pages == next.address;
            let is_alike = (next.op, next.fua, next.class) == (joined.op, joined.fua, joined.class);
            if !follows || !is_alike || joined.pages + next.pages > max_pages {
                break;
            }
            joined.pages += next.pages;
            self.0.pop_front();
        }
        joined
    }
}

/// An action in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Acting {
    action: Action,
    /// Progress within the action.
    position: u64,
}

impl Host {
    /// Begins the next action of a process. If none is left, asks its application for more.
    pub(super) fn fetch_action(&mut self, pid: u32) -> Next {
        self.instant_statements += 1;
        if self.instant_statements.is_multiple_of(super::system_call::INSTANT_STATEMENTS_MAX) {
            return Next::Compute(Duration::from_ns(1));
        }
        let now = self.now;
        let process = &mut self.processes[pid as usize];
        if let Some(action) = process.plan.next() {
            process.activity = Activity::Acting(Acting { action, position: 0 });
            return Next::Continue;
        }
        if pid == JOURNAL && self.has_journal {
            return self.next_commit();
        }
        let (Some(running), Some(linux)) = (&mut self.application, &mut self.linux) else { return Next::End };
        if process.is_ending || running.is_full {
            return Next::End;
        }
        let id = ProcessId { kind: process.definition, instance: process.instance, pid };
        let plan = &mut process.plan;
        let speed = self.settings.speed;
        let mut system = System { files: &mut running.files, linux, plan, now, speed };
        match running.application.step(id, &mut system) {
            Ok(goes_on) => process.is_ending = !goes_on,
            Err(Full) => running.is_full = true,
        }
        Next::Continue
    }

    /// A step of an action.
    pub(super) fn act(&mut self, pid: u32, state: Acting) -> Next {
        let Acting { action, mut position } = state;
        if let Action::Cache(access) = action {
            self.processes[pid as usize].activity = Activity::linux(access);
            return Next::Continue;
        }
        // Most actions are over with their first step.
        self.processes[pid as usize].activity = Activity::Fetch;
        let next = match action {
            Action::Cache(_) => unreachable!("it was handled"),
            Action::Compute(time) => return Next::Compute(time),
            Action::Sleep(time) => {
                self.set_timer(time, pid);
                return Next::Wait(Wait::Time);
            }
            Action::WriteFile(file) => {
                let pages = self.linux.as_ref().map_or(0..0, |linux| linux.pages_of(file));
                self.write_until_clean(pid, pages, &mut position)
            }
            Action::WriteFiles => {
                let pages = self.linux.as_ref().map_or(0..0, |linux| linux.data_pages());
                self.write_until_clean(pid, pages, &mut position)
            }
            Action::WriteAll => self.write_until_clean(pid, 0..u64::MAX - 1, &mut position),
            Action::WriteMetadata(address) => self.write_metadata(pid, address, &mut position),
            Action::Flush if self.settings.has_write_cache => return self.issue_flush(pid),
            Action::Submit(direct) => {
                let max_pages = self.settings.max_pages;
                let direct = self.processes[pid as usize].plan.join(direct, max_pages);
                self.submit(pid, direct);
                Next::Continue
            }
            Action::Await => match self.processes[pid as usize].outstanding {
                0 => Next::Continue,
                _ if self.processes[pid as usize].reads => return Next::Wait(Wait::Read),
                _ => return Next::Wait(Wait::Write),
            },
            Action::Commit { or_flush } => {
                return match (self.await_commit(pid), or_flush && self.settings.has_write_cache) {
                    (false, _) => Next::Wait(Wait::Write),
                    (true, true) => self.issue_flush(pid),
                    (true, false) => Next::Continue,
                };
            }
            Action::DropCaches => match self.cache.find_reading() {
                Some(frame) => self.wait_for_frame(pid, frame),
                None => {
                    self.cache.drop_clean();
                    Next::Continue
                }
            },
            Action::Fork { kind, instance } => {
                if let Some(child) = self.fork_process(pid, kind) {
                    self.processes[child as usize].instance = instance;
                }
                Next::Continue
            }
            Action::Wait => {
                self.processes[pid as usize].activity = Activity::Wait;
                return Next::Continue;
            }
            Action::Park => return self.park(pid),
            Action::Unpark(other) => {
                self.unpark(other);
                Next::Continue
            }
            other => {
                self.note(other);
                Next::Continue
            }
        };
        if next != Next::Continue {
            self.processes[pid as usize].activity = Activity::Acting(Acting { action, position });
        }
        next
    }

    /// Does an action that neither takes time nor waits.
    fn note(&mut self, action: Action) {
        let now = self.now;
        match action {
            Action::Release(file) => return self.release_file(file),
            Action::Committed => return self.end_commit(),
            Action::ReleaseCommitted => return self.release_committed(),
            _ => {}
        }
        let (Some(running), Some(linux)) = (&mut self.application, &mut self.linux) else { return };
        match action {
            Action::Open(file) => linux.open_file(file),
            Action::BeginPhase(name) => running.begin_phase(name, now),
            Action::Transactions(count) => running.commits += count,
            _ => {}
        }
        let Some(phase) = running.phase() else { return };
        match action {
            Action::EndPhase => phase.end = Some(now),
            Action::Unmounted => phase.unmounted = Some(now),
            Action::Operation => phase.operations += 1,
            _ => {}
        }
    }

    /// Writes what is dirty in a part of all blocks until nothing is, also what becomes dirty meanwhile.
    pub(super) fn write_until_clean(
        &mut self,
        pid: u32,
        pages: std::ops::Range<u64>,
        position: &mut u64,
    ) -> Next {
        loop {
            let next = self.write_out(pid, pages.clone(), position);
            let is_clean = self.linux.as_ref().is_none_or(|linux| !linux.is_dirty(pages.clone()));
            if next != Next::Continue || is_clean {
                return next;
            }
            *position = pages.start;
        }
    }

    /// Writes a block of metadata. `position` is one if the process has done so.
    fn write_metadata(&mut self, pid: u32, address: u64, position: &mut u64) -> Next {
        let Some(frame) = self.cache.find(address) else { return Next::Continue };
        match (self.cache.frame(frame).state, *position) {
            (FrameState::Dirty, 0) => {
                *position = 1;
                self.write_out(pid, address..address + 1, &mut { address })
            }
            (FrameState::Writing, _) => self.wait_for_frame(pid, frame),
            _ => Next::Continue,
        }
    }

    /// Sends a request past the page cache.
    fn submit(&mut self, pid: u32, direct: Direct) {
        let Direct { op, address, pages, fua, class } = direct;
        let per_page = PAGE_BYTES / self.block_bytes;
        let request = Request::new(0, op, address * per_page, (pages * per_page) as u32);
        let fua = fua && self.settings.has_write_cache && self.settings.has_fua;
        self.processes[pid as usize].reads = op == Operation::Read;
        self.issue(pid, Owner::Process(pid), class, Request { fua, ..request });
    }

    /// Waits for another process, unless it has been here.
    fn park(&mut self, pid: u32) -> Next {
        if std::mem::take(&mut self.processes[pid as usize].is_unparked) {
            return Next::Continue;
        }
        self.processes[pid as usize].is_parked = true;
        Next::Wait(Wait::Process)
    }

    /// Lets a process go on that is parked, or will be.
    fn unpark(&mut self, pid: u32) {
        let process = &mut self.processes[pid as usize];
        if std::mem::take(&mut process.is_parked) {
            self.wake(pid);
        } else {
            process.is_unparked = true;
        }
    }
}
