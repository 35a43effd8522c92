//! The post-processor: one pass over the events of a host in order of time.
//!
//! Each processor has a current thread and a stack of interrupts. Time between two events of a processor belongs to the
//! innermost interrupt, else to the current thread. A thread that has no processor is ready or waits.
//!
//! # Rules
//! - The current thread of a processor at the beginning is the thread of its first event.
//! - The kernel does not record every switch. If an event shows that a ready thread runs, the switch to it is taken to
//!   have happened with the last event of the processor, or when the thread became ready if that was later.
//! - An event that contradicts what is known (another current thread, an interrupt that never ended, a time before the
//!   last one) is believed, and counted as a repair.
//! - A wait ends with `Waking`. If that event came before the thread had left its processor, the wait ends with `Wakeup`.
//! - A call stack may arrive after the end of its wait, so the cause of a wait is decided when its thread runs again.

mod current;
mod interrupts;
mod life;
mod waiting;

use std::collections::BTreeMap;

use seeklab_core::{HostRequest, ProcessName};
use serde::{Deserialize, Serialize};

use super::calls;
use super::cost::RecordingCost;
use super::cpu::Cpu;
use super::event::{BlockStep, EventKind, FileRange, RunState, SystemEvent, Work, WritebackReason};
use super::fields;
use super::tables::{
    CachedRow, CommitRow, CpuRow, ExtentRow, InitialRow, InterruptRow, LossRow, OccupiedRow, OpenFileRow,
    ProcessRow, Role, StepEvent, StepRow, WaitRow, WritebackRow,
};
use super::thread::{Completion, Devices, State, Thread};
use crate::event::block_event::{Kind, Stamped, What};
use crate::event::pairing::{Captured, Pairing, SECTOR_BYTES};

/// The traced device, as the kernel's events name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedDevice {
    /// Device whose requests are recorded: the whole device, with the major number above 20 bits of minor.
    pub requests: u32,
    /// Device of the file system: the device itself, or a partition of it.
    pub file_system: u32,
    /// First sector of the partition and the sector behind its last. `None` for a whole device.
    pub partition: Option<(u64, u64)>,
}

/// Thread that existed at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialThread {
    /// Number of the thread.
    pub thread: u32,
    /// Number of its process.
    pub process: u32,
    /// Number of the process that made it.
    pub parent: u32,
    /// Name of its program.
    pub name: ProcessName,
    /// Role of the thread.
    pub role: Role,
}

/// Row that the post-processor hands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant carries a documented row")]
pub enum Output {
    Process(ProcessRow),
    Step(StepRow),
    Wait(WaitRow),
    Occupied(OccupiedRow),
    Interrupt(InterruptRow),
    Initial(InitialRow),
    Extent(ExtentRow),
    Commit(CommitRow),
    Writeback(WritebackRow),
    Cpu(CpuRow),
    Loss(LossRow),
    OpenFile(OpenFileRow),
    Cached(CachedRow),
    /// Request of the device, in order of completion.
    Request(HostRequest),
}

/// Counts of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Processed {
    /// Events, without losses.
    pub events: u64,
    /// Events that the kernel could not record.
    pub lost_events: u64,
    /// Events that contradicted what was known.
    pub repairs: Repairs,
    /// Events with a time before the previous event.
    pub clock_steps: u64,
    /// First thread of the task that was made within the trace.
    pub first_task: Option<u32>,
    /// Counts of the requests.
    pub requests: Captured,
}

/// Events that contradicted what was known, by what they contradicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repairs {
    /// A ready thread ran, and the switch to it was not recorded.
    pub unrecorded_switch: u64,
    /// A thread that was not known to be ready ran, and the switch to it was not recorded.
    pub current_thread: u64,
    /// A thread ran on two processors.
    pub two_processors: u64,
    /// A thread ran that had not been woken.
    pub not_woken: u64,
    /// An interrupt ended that had not begun, or the end of one was missing.
    pub interrupts: u64,
    /// A thread was made that existed.
    pub existing_thread: u64,
}

impl Repairs {
    /// Returns the number of all repairs.
    pub const fn total(&self) -> u64 {
        let threads = self.two_processors + self.not_woken + self.existing_thread;
        self.unrecorded_switch + self.current_thread + threads + self.interrupts
    }
}

/// Post-processor of a system-level trace.
#[derive(Debug)]
pub struct Processor {
    begin_ns: u64,
    now_ns: u64,
    device: TracedDevice,
    roots: Vec<u32>,
    /// Thread whose children are the task.
    starter: Option<u32>,
    cost: Option<RecordingCost>,
    /// System calls that write a file.
    write_calls: [u16; 5],
    cpus: BTreeMap<u16, Cpu>,
    threads: BTreeMap<u32, Thread>,
    initial: Vec<InitialRow>,
    commits: BTreeMap<u32, u64>,
    /// Rounds of writeback that are open, by thread: the beginning, and the pages left to write.
    rounds: BTreeMap<u32, (u64, i64)>,
    pairing: Pairing,
    /// Times at which a request of the traced device, and of another device, completed last.
    completed_here_ns: Option<u64>,
    completed_elsewhere_ns: Option<u64>,
    counts: Processed,
}

/// Commits, and rounds of writeback, that may be open.
const COMMITS_MAX: usize = 64;

impl Processor {
    /// Begins a pass at `begin_ns` of the clock of the events. The threads `roots` and their descendants are the task.
    pub fn new(
        begin_ns: u64,
        cpus: impl IntoIterator<Item = u16>,
        device: TracedDevice,
        roots: &[u32],
        initial: &[InitialThread],
    ) -> Self {
        let row = |known: &InitialThread| InitialRow {
            thread: known.thread,
            process: known.process,
            parent: known.parent,
            name: known.name,
            role: known.role,
            cpu: None,
        };
        let thread = |known: &InitialThread| {
            let mut thread =
                Thread::new(known.thread, known.process, known.parent, known.role, begin_ns, begin_ns);
            thread.row.name = known.name;
            thread.begin_wait(begin_ns, RunState::Interruptible);
            (known.thread, thread)
        };
        Self {
            begin_ns,
            now_ns: begin_ns,
            device,
            roots: roots.to_vec(),
            starter: None,
            cost: None,
            write_calls: calls::writes_of("x86_64"),
            cpus: cpus.into_iter().map(|cpu| (cpu, Cpu::new(cpu, begin_ns))).collect(),
            threads: initial.iter().map(thread).collect(),
            initial: initial.iter().map(row).collect(),
            commits: BTreeMap::new(),
            rounds: BTreeMap::new(),
            pairing: Pairing::new(begin_ns),
            completed_here_ns: None,
            completed_elsewhere_ns: None,
            counts: Processed::default(),
        }
    }

    /// Counts the children of a thread, and their descendants, as the task too.
    #[must_use]
    pub fn with_starter(self, thread: u32) -> Self {
        Self { starter: Some(thread), ..self }
    }

    /// Takes the numbers of system calls for those of a machine, as `uname -m` names it [default: x86_64].
    #[must_use]
    pub fn with_machine(self, machine: &str) -> Self {
        Self { write_calls: calls::writes_of(machine), ..self }
    }

    /// Takes the cost of recording out of the computing times of the task.
    #[must_use]
    pub fn with_cost(self, cost: RecordingCost) -> Self {
        Self { cost: Some(cost), ..self }
    }

    /// Takes the next event and hands on the rows that it completes.
    pub fn push(&mut self, event: &SystemEvent, sink: &mut impl FnMut(Output)) {
        self.counts.clock_steps += u64::from(event.time_ns < self.now_ns && event.time_ns >= self.begin_ns);
        self.now_ns = self.now_ns.max(event.time_ns);
        let begin_ns = self.begin_ns;
        self.cpus.entry(event.cpu).or_insert_with(|| Cpu::new(event.cpu, begin_ns));
        if let EventKind::Lost { events } = event.kind {
            self.lose(event.cpu, events, sink);
            return;
        }
        self.counts.events += 1;
        self.cpu(event.cpu).row.events += 1;
        if let EventKind::Stack(cause) = event.kind {
            self.charge(event);
            // The stack of the thread that leaves the processor, before or after the switch.
            if let Some(thread) = self.threads.get_mut(&event.thread) {
                match &mut thread.wait {
                    Some(wait) => wait.stack = Some(cause),
                    None => thread.stack = Some(cause),
                }
            }
            return;
        }
        let current = match event.kind {
            EventKind::Switch { previous, .. } => previous,
            _ => event.thread,
        };
        self.confirm_current(event.cpu, current, sink);
        self.advance(event.cpu);
        self.charge(event);
        match event.kind {
            EventKind::Switch { previous, state, next, next_name } => {
                self.leave(event.cpu, previous, state, sink);
                self.enter(event.cpu, next, Some(next_name), sink);
            }
            EventKind::Waking { thread } => self.waking(event, thread),
            EventKind::Wakeup { thread } => self.wakeup(event, thread),
            EventKind::Fork { child, is_thread } => self.fork(event, child, is_thread, sink),
            EventKind::Exec { name } => {
                if let Some(thread) = self.threads.get_mut(&event.thread) {
                    thread.row.name = name;
                }
                self.step(event.thread, StepEvent::Exec, |_| (), sink);
            }
            EventKind::CallEnter { call, arguments } => {
                let fill = |row: &mut StepRow| {
                    row.call = Some(call);
                    [row.argument_0, row.argument_1, row.argument_2, row.argument_3] = arguments.map(Some);
                };
                self.step(event.thread, StepEvent::CallEnter, fill, sink);
                if let Some(thread) = self.threads.get_mut(&event.thread) {
                    thread.call = Some(call);
                }
            }
            EventKind::CallExit { call, result } => {
                let fill = |row: &mut StepRow| (row.call, row.result) = (Some(call), Some(result));
                self.step(event.thread, StepEvent::CallExit, fill, sink);
                if let Some(thread) = self.threads.get_mut(&event.thread) {
                    thread.call = None;
                    thread.is_throttled = false;
                }
            }
            EventKind::InterruptEnter { source, number } => {
                self.enter_interrupt(event.cpu, source, number, sink)
            }
            EventKind::InterruptExit { source, number } => {
                self.exit_interrupt(event.cpu, source, number, sink)
            }
            EventKind::FileRead(range) => self.access(event.thread, StepEvent::FileRead, range, sink),
            EventKind::FileFault(range) => self.access(event.thread, StepEvent::FileFault, range, sink),
            EventKind::FileWrite(range) => self.access(event.thread, StepEvent::FileWrite, range, sink),
            EventKind::Direct { range, file_bytes, writes, is_async } => {
                self.used(event.thread, range.device);
                let mut writes = writes;
                if let Some(thread) = self.threads.get_mut(&event.thread) {
                    writes |= thread.call.is_some_and(|call| self.write_calls.contains(&call));
                    thread.direct_writes = Some(writes);
                }
                let step = if writes { StepEvent::DirectWrite } else { StepEvent::DirectRead };
                let part = if writes { Some(range) } else { fields::readable(range, file_bytes) };
                if let Some(range) = part {
                    let fill = |row: &mut StepRow| {
                        row.is_async = Some(is_async);
                        fill_range(row, range);
                    };
                    self.step(event.thread, step, fill, sink);
                }
            }
            EventKind::FileDelete { device, inode } => {
                let fill = |row: &mut StepRow| (row.device, row.inode) = (Some(device), Some(inode));
                self.step(event.thread, StepEvent::FileDelete, fill, sink);
            }
            EventKind::FileSync { device, inode } => {
                self.used(event.thread, device);
                let fill = |row: &mut StepRow| (row.device, row.inode) = (Some(device), Some(inode));
                self.step(event.thread, StepEvent::FileSync, fill, sink);
            }
            EventKind::Submit { device, sector, bytes, writes } => {
                let TracedDevice { requests, file_system, partition } = self.device;
                let is_within = partition.is_none_or(|(first, end)| (first..end).contains(&sector));
                if is_within && (device == requests || device == file_system) {
                    let first = partition.map_or(0, |(first, _)| first);
                    let fill = |row: &mut StepRow| {
                        row.device = Some(file_system);
                        row.offset_bytes = Some((sector - first).saturating_mul(SECTOR_BYTES));
                        row.length_bytes = Some(bytes);
                    };
                    let step = if writes { StepEvent::DeviceWrite } else { StepEvent::DeviceRead };
                    self.step(event.thread, step, fill, sink);
                }
            }
            EventKind::Buffer { device, sector, bytes, is_dirtied } => {
                let step = if is_dirtied { StepEvent::BufferWrite } else { StepEvent::BufferRead };
                self.used(event.thread, device);
                let fill = |row: &mut StepRow| {
                    row.device = Some(device);
                    row.offset_bytes = Some(sector.saturating_mul(SECTOR_BYTES));
                    row.length_bytes = Some(u64::from(bytes));
                };
                self.step(event.thread, step, fill, sink);
            }
            EventKind::Commit { device, transaction, begins } if device == self.device.file_system => {
                self.commit(transaction, begins, sink);
            }
            EventKind::Writeback { device, reason, pages, begins } if device == self.device.requests => {
                self.writeback(event.thread, (reason, pages), begins, sink);
            }
            EventKind::Change { device, blocks } if device == self.device.file_system => {
                let fill = |row: &mut StepRow| {
                    row.device = Some(device);
                    row.length_bytes = Some(u64::from(blocks) * fields::PAGE_BYTES);
                };
                self.step(event.thread, StepEvent::JournalChange, fill, sink);
            }
            EventKind::Extent(extent) if extent.device == self.device.file_system => {
                sink(Output::Extent(ExtentRow {
                    time_ns: self.time(),
                    thread: self.threads.contains_key(&event.thread).then_some(event.thread),
                    inode: extent.inode,
                    file_block: extent.file_block,
                    device_block: extent.device_block,
                    blocks: extent.blocks,
                }));
            }
            EventKind::WorkStart(work) => self.work(event, work == Work::LoopDevice, sink),
            EventKind::WorkEnd => self.work(event, false, sink),
            EventKind::Block(step) => self.block(event.cpu, &step, sink),
            EventKind::Throttle => {
                if let Some(thread) = self.threads.get_mut(&event.thread) {
                    thread.is_throttled = true;
                }
            }
            EventKind::Commit { .. }
            | EventKind::Writeback { .. }
            | EventKind::Change { .. }
            | EventKind::Extent(_) => {}
            EventKind::Stack(_) | EventKind::Lost { .. } => unreachable!("they were handled above"),
        }
    }

    /// Ends the pass at `end_ns`, or at the last event if that is later.
    pub fn finish(mut self, end_ns: u64, sink: &mut impl FnMut(Output)) -> Processed {
        self.now_ns = self.now_ns.max(end_ns);
        let now_ns = self.now_ns;
        for cpu in self.cpus.keys().copied().collect::<Vec<_>>() {
            self.advance(cpu);
            self.close_segment(cpu, sink);
        }
        for (_, mut thread) in std::mem::take(&mut self.threads) {
            if !thread.is_task() {
                continue;
            }
            match thread.state {
                State::Running(_) | State::Waiting => {}
                State::Ready => thread.settle_ready(now_ns),
            }
            // A wait that goes on, or after which the thread has not run.
            if let Some(wait) = thread.wait {
                let end_ns = wait.wake.map_or(now_ns, |wake| wake.time_ns);
                let cause = wait.cause(thread.device, self.devices());
                *thread.row.wait_ns_mut(cause) += end_ns - wait.begin_ns;
                thread.row.waits += 1;
            }
            thread.row.elapsed_ns = self.time() - thread.row.begin_ns;
            sink(Output::Process(thread.row));
        }
        for row in std::mem::take(&mut self.initial) {
            sink(Output::Initial(row));
        }
        let elapsed_ns = self.time();
        for cpu in self.cpus.values() {
            sink(Output::Cpu(CpuRow { elapsed_ns, ..cpu.row }));
        }
        Processed { requests: self.pairing.finish(), ..self.counts }
    }

    /// Takes note of what recording the event costs its thread.
    fn charge(&mut self, event: &SystemEvent) {
        let Some(cost) = self.cost else { return };
        if let Some(thread) = self.threads.get_mut(&event.thread).filter(|thread| thread.is_task()) {
            thread.row.recording_ns.get_or_insert(0);
            thread.recording_debt_ns += cost.of(event);
        }
    }

    /// Time since the beginning.
    fn time(&self) -> u64 {
        self.now_ns - self.begin_ns
    }

    fn devices(&self) -> Devices {
        Devices { requests: self.device.requests, file_system: self.device.file_system }
    }

    fn cpu(&mut self, cpu: u16) -> &mut Cpu {
        self.cpus.get_mut(&cpu).expect("a processor is known from its first event on")
    }

    /// The thread, made on its first appearance if it existed before the trace.
    fn thread(&mut self, number: u32) -> &mut Thread {
        let (now_ns, begin_ns) = (self.now_ns, self.begin_ns);
        let role = if self.roots.contains(&number) { Role::Task } else { Role::Other };
        self.threads.entry(number).or_insert_with(|| Thread::new(number, number, 0, role, now_ns, begin_ns))
    }

    /// Takes note of the device whose files the thread uses.
    fn used(&mut self, thread: u32, device: u32) {
        if let Some(thread) = self.threads.get_mut(&thread) {
            thread.device = Some(device);
        }
    }

    fn access(&mut self, thread: u32, step: StepEvent, range: FileRange, sink: &mut impl FnMut(Output)) {
        self.used(thread, range.device);
        self.step(thread, step, |row| fill_range(row, range), sink);
    }

    /// Hands on a step of a task thread, with the computing time since its last.
    fn step(
        &mut self,
        number: u32,
        event: StepEvent,
        fill: impl FnOnce(&mut StepRow),
        sink: &mut impl FnMut(Output),
    ) {
        let time_ns = self.time();
        let Some(thread) = self.threads.get_mut(&number).filter(|thread| thread.is_task()) else { return };
        let mut row = StepRow {
            thread: number,
            time_ns,
            computing_ns: std::mem::take(&mut thread.step_ns),
            event,
            call: None,
            argument_0: None,
            argument_1: None,
            argument_2: None,
            argument_3: None,
            result: None,
            device: None,
            inode: None,
            offset_bytes: None,
            length_bytes: None,
            other_thread: None,
            wait_ns: None,
            cause: None,
            is_async: None,
        };
        fill(&mut row);
        sink(Output::Step(row));
    }

    fn commit(&mut self, transaction: u32, begins: bool, sink: &mut impl FnMut(Output)) {
        let time_ns = self.time();
        if begins {
            if self.commits.len() >= COMMITS_MAX {
                self.commits.pop_first();
            }
            self.commits.insert(transaction, time_ns);
        } else if let Some(begin_ns) = self.commits.remove(&transaction) {
            sink(Output::Commit(CommitRow { transaction, begin_ns, commit_ns: time_ns - begin_ns }));
        }
    }

    fn writeback(
        &mut self,
        thread: u32,
        (reason, left): (WritebackReason, i64),
        begins: bool,
        sink: &mut impl FnMut(Output),
    ) {
        let time_ns = self.time();
        if begins {
            if self.rounds.len() >= COMMITS_MAX {
                self.rounds.pop_first();
            }
            self.rounds.insert(thread, (time_ns, left));
        } else if let Some((begin_ns, before)) = self.rounds.remove(&thread) {
            let pages = u64::try_from(before.saturating_sub(left)).unwrap_or(0);
            let write_ns = time_ns - begin_ns;
            sink(Output::Writeback(WritebackRow { thread, begin_ns, write_ns, reason, pages }));
        }
    }

    fn block(&mut self, cpu: u16, step: &BlockStep, sink: &mut impl FnMut(Output)) {
        let event = step.event;
        if event.kind == Kind::Complete {
            let completion = Completion { device: step.device, op: event.op, sector: event.sector };
            self.cpu(cpu).completion = Some(completion);
            let last_ns = match step.device == self.device.requests {
                true => &mut self.completed_here_ns,
                false => &mut self.completed_elsewhere_ns,
            };
            *last_ns = Some(self.now_ns);
        }
        let TracedDevice { requests, partition, .. } = self.device;
        let is_within =
            partition.is_none_or(|(first, end)| event.sectors == 0 || (first..end).contains(&event.sector));
        if step.device != requests || !is_within {
            return;
        }
        let stamped = Stamped { time_ns: self.now_ns, what: What::Event(event) };
        if let Some((_, mut request)) = self.pairing.push(&stamped) {
            let start_bytes = partition.map_or(0, |(first, _)| first * SECTOR_BYTES);
            request.offset_bytes = request.offset_bytes.saturating_sub(start_bytes);
            sink(Output::Request(request));
        }
    }

    fn lose(&mut self, cpu: u16, events: u64, sink: &mut impl FnMut(Output)) {
        let events = events.max(1);
        self.counts.lost_events = self.counts.lost_events.saturating_add(events);
        let time_ns = self.time();
        let now_ns = self.now_ns;
        let row = &mut self.cpu(cpu).row;
        row.lost_events = row.lost_events.saturating_add(events);
        sink(Output::Loss(LossRow { cpu, time_ns, events }));
        self.pairing.push(&Stamped { time_ns: now_ns, what: What::Lost(Kind::Complete, events) });
    }
}

fn fill_range(row: &mut StepRow, range: FileRange) {
    row.device = Some(range.device);
    row.inode = Some(range.inode);
    row.offset_bytes = Some(range.offset_bytes);
    row.length_bytes = Some(range.length_bytes);
}
