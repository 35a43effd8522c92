//! The post-processor: one pass over the events of a host in order of time.
//!
//! Each processor has a current thread and a stack of interrupts. Time between two events of a processor belongs to the
//! innermost interrupt, else to the current thread. A thread that has no processor is ready or waits.
//!
//! # Rules
//! - The current thread of a processor at the beginning is the thread of its first event.
//! - The kernel does not record every switch from an idle processor to a thread. Such a switch is taken to have happened
//!   with the last event of the processor, or when the thread became ready if that was later.
//! - An event that contradicts what is known (another current thread, an interrupt that never ended, a time before the
//!   last one) is believed, and counted as a repair.
//! - A wait ends with `Waking`. If that event came before the thread had left its processor, the wait ends with `Wakeup`.
//! - A call stack may arrive after the end of its wait, so the cause of a wait is decided when its thread runs again.

use std::collections::BTreeMap;

use seeklab_core::{HostRequest, ProcessName};

use super::cause::WaitCause;
use super::cpu::{Cpu, FRAMES_MAX, Frame, Segment};
use super::event::{
    BlockStep, Context, EventKind, FileRange, InterruptSource, RunState, SystemEvent, TIMER_SOFTIRQS, Work,
};
use super::tables::{
    CommitRow, CpuRow, ExtentRow, InitialRow, InterruptRow, LossRow, OccupiedRow, ProcessRow, Role,
    StepEvent, StepRow, WaitRow, Waker,
};
use super::thread::{Completion, Devices, State, Thread, Wake};
use crate::event::block_event::{Kind, Stamped, What};
use crate::event::pairing::{Captured, Pairing, SECTOR_BYTES};

/// The traced device, as the kernel's events name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedDevice {
    /// Device whose requests are recorded: the whole device, with the major number above 20 bits of minor.
    pub requests: u32,
    /// Device of the file system: the device itself, or a partition of it.
    pub file_system: u32,
    /// First sector of the partition and the sector behind its last. `None` for a whole device.
    pub partition: Option<(u64, u64)>,
}

/// Thread that existed at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    Cpu(CpuRow),
    Loss(LossRow),
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
    /// Counts of the requests.
    pub requests: Captured,
}

/// Events that contradicted what was known, by what they contradicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repairs {
    /// A thread ran on a processor that had been idle, and the switch was not recorded.
    pub from_idle: u64,
    /// Another thread was current on the processor.
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
        self.from_idle + self.current_thread + threads + self.interrupts
    }
}

/// Post-processor of a system-level trace.
#[derive(Debug)]
pub struct Processor {
    begin_ns: u64,
    now_ns: u64,
    device: TracedDevice,
    roots: Vec<u32>,
    cpus: BTreeMap<u16, Cpu>,
    threads: BTreeMap<u32, Thread>,
    initial: Vec<InitialRow>,
    commits: BTreeMap<u32, u64>,
    pairing: Pairing,
    counts: Processed,
}

/// Commits that may be open.
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
            cpus: cpus.into_iter().map(|cpu| (cpu, Cpu::new(cpu, begin_ns))).collect(),
            threads: initial.iter().map(thread).collect(),
            initial: initial.iter().map(row).collect(),
            commits: BTreeMap::new(),
            pairing: Pairing::new(begin_ns),
            counts: Processed::default(),
        }
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
                    [row.argument_0, row.argument_1, row.argument_2] = arguments.map(Some);
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
            EventKind::Extent(extent) if extent.device == self.device.file_system => {
                sink(Output::Extent(ExtentRow {
                    time_ns: self.time(),
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
            EventKind::Commit { .. } | EventKind::Extent(_) => {}
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

    /// Gives the time since the last event of the processor to what ran.
    fn advance(&mut self, cpu: u16) {
        let now_ns = self.now_ns;
        let Self { cpus, threads, .. } = self;
        let cpu = cpus.get_mut(&cpu).expect("a processor is known from its first event on");
        let elapsed_ns = now_ns - cpu.since_ns;
        cpu.since_ns = now_ns;
        let thread =
            cpu.current.filter(|current| *current != 0).and_then(|current| threads.get_mut(&current));
        if let Some(frame) = cpu.frames.last_mut() {
            frame.computing_ns += elapsed_ns;
            cpu.row.interrupt_ns += elapsed_ns;
            if let Some(thread) = thread {
                thread.row.interrupted_ns += elapsed_ns;
            }
            return;
        }
        let Some(thread) = thread else {
            match cpu.current {
                Some(0) => cpu.row.idle_ns += elapsed_ns,
                _ => cpu.row.unknown_ns += elapsed_ns,
            }
            return;
        };
        match thread.current_role() {
            Role::Task => cpu.row.task_ns += elapsed_ns,
            Role::Kernel => cpu.row.kernel_ns += elapsed_ns,
            Role::Emulator => cpu.row.emulator_ns += elapsed_ns,
            Role::Recorder => cpu.row.recorder_ns += elapsed_ns,
            Role::Other => cpu.row.other_ns += elapsed_ns,
        }
        cpu.segment.computing_ns += elapsed_ns;
        thread.row.computing_ns += elapsed_ns;
        thread.step_ns += elapsed_ns;
    }

    /// Makes `current` the current thread of the processor if it is not yet.
    fn confirm_current(&mut self, cpu: u16, current: u32, sink: &mut impl FnMut(Output)) {
        let before = self.cpu(cpu).current;
        if before == Some(current) {
            return;
        }
        let is_first = before.is_none() && self.cpu(cpu).since_ns == self.begin_ns;
        if is_first && current == 0 {
            self.cpu(cpu).current = Some(0);
            return;
        }
        // A thread that has never run has run here since the beginning.
        let begin_ns = self.begin_ns;
        let has_run_here = is_first
            && self.threads.get(&current).is_none_or(|thread| {
                thread.row.begin_ns == 0 && thread.state == State::Waiting && thread.since_ns == begin_ns
            });
        if has_run_here {
            let thread = self.thread(current);
            thread.row.begin_ns = 0;
            thread.wait = None;
            thread.state = State::Running(cpu);
            self.cpu(cpu).current = Some(current);
            if let Some(row) = self.initial.iter_mut().find(|row| row.thread == current) {
                row.cpu = Some(cpu);
            }
            return;
        }
        if before == Some(0) && self.threads.get(&current).is_some_and(|thread| thread.state == State::Ready)
        {
            // An idle processor switches at once: with its last event, or when the thread became ready.
            self.counts.repairs.from_idle += 1;
            let ready_ns = self.threads[&current].since_ns;
            let start_ns = ready_ns.max(self.cpu(cpu).since_ns);
            let now_ns = std::mem::replace(&mut self.now_ns, start_ns);
            self.advance(cpu);
            self.leave(cpu, 0, RunState::Runnable, sink);
            self.enter(cpu, current, None, sink);
            self.now_ns = now_ns;
            return;
        }
        self.counts.repairs.current_thread += u64::from(!is_first);
        self.advance(cpu);
        if let Some(before) = before {
            self.leave(cpu, before, RunState::Runnable, sink);
        }
        self.enter(cpu, current, None, sink);
    }

    /// Takes the processor from a thread.
    fn leave(&mut self, cpu: u16, number: u32, state: RunState, sink: &mut impl FnMut(Output)) {
        self.close_segment(cpu, sink);
        let now_ns = self.now_ns;
        let cpu = self.cpu(cpu);
        let number_of_cpu = cpu.row.cpu;
        if !cpu.frames.is_empty() {
            cpu.frames.clear();
            self.counts.repairs.interrupts += 1;
        }
        let cpu = self.cpu(number_of_cpu);
        cpu.row.switches += 1;
        cpu.completion = None;
        cpu.current = None;
        if number == 0 {
            return;
        }
        let thread = self.thread(number);
        if thread.state != State::Running(number_of_cpu) {
            return;
        }
        thread.row.switches += 1;
        thread.since_ns = now_ns;
        match state {
            RunState::Runnable => {
                thread.state = State::Ready;
                thread.stack = None;
            }
            RunState::Ended => self.end(number, sink),
            _ => thread.begin_wait(now_ns, state),
        }
    }

    /// Gives the processor to a thread.
    fn enter(&mut self, cpu: u16, number: u32, name: Option<ProcessName>, sink: &mut impl FnMut(Output)) {
        let now_ns = self.now_ns;
        let this = self.cpu(cpu);
        this.current = Some(number);
        this.segment = Segment { begin_ns: now_ns, computing_ns: 0 };
        if number == 0 {
            return;
        }
        let thread = self.thread(number);
        if let Some(name) = name {
            thread.row.name = name;
        }
        match thread.state {
            State::Running(other) if other != cpu => {
                // It left the other processor unrecorded; what it did there since the last event is unknown.
                self.counts.repairs.two_processors += 1;
                self.advance(other);
                if self.cpu(other).current == Some(number) {
                    self.cpu(other).current = None;
                    self.cpu(other).frames.clear();
                }
            }
            State::Running(_) => {}
            State::Ready => {
                thread.settle_ready(now_ns);
                self.close_wait(number, sink);
            }
            State::Waiting => {
                if thread.is_task() {
                    self.counts.repairs.not_woken += 1;
                    let wake = Wake {
                        time_ns: now_ns,
                        waker: Waker::Unknown,
                        thread: None,
                        is_within: false,
                        completion: None,
                    };
                    self.end_wait(number, wake);
                    self.close_wait(number, sink);
                }
            }
        }
        let thread = self.thread(number);
        thread.state = State::Running(cpu);
        thread.early_wake = None;
        thread.since_ns = now_ns;
    }

    /// Hands on the time of a thread that does not belong to the task.
    fn close_segment(&mut self, cpu: u16, sink: &mut impl FnMut(Output)) {
        let (now_ns, begin_ns) = (self.now_ns, self.begin_ns);
        let this = self.cpu(cpu);
        let (current, segment) = (this.current, this.segment);
        this.segment = Segment { begin_ns: now_ns, computing_ns: 0 };
        let Some(number) = current.filter(|current| *current != 0) else { return };
        let Some(thread) = self.threads.get(&number) else { return };
        if thread.is_task() || segment.computing_ns == 0 {
            return;
        }
        sink(Output::Occupied(OccupiedRow {
            thread: number,
            role: thread.current_role(),
            cpu,
            begin_ns: segment.begin_ns - begin_ns,
            computing_ns: segment.computing_ns,
        }));
    }

    /// Ends the wait of a thread: from now on it is ready.
    fn end_wait(&mut self, number: u32, wake: Wake) {
        let Some(thread) = self.threads.get_mut(&number) else { return };
        thread.state = State::Ready;
        thread.since_ns = wake.time_ns;
        if let Some(wait) = &mut thread.wait {
            wait.wake = Some(wake);
        }
    }

    /// Decides the cause of the wait before the thread runs, and hands it on.
    fn close_wait(&mut self, number: u32, sink: &mut impl FnMut(Output)) {
        let (now_ns, begin_ns, devices) = (self.now_ns, self.begin_ns, self.devices());
        let Some(thread) = self.threads.get_mut(&number) else { return };
        let Some(wait) = thread.wait.take() else { return };
        if !thread.is_task() {
            return;
        }
        let woken_ns = wait.wake.map_or(now_ns, |wake| wake.time_ns);
        let wait_ns = woken_ns - wait.begin_ns;
        let cause = wait.cause(thread.device, devices);
        *thread.row.wait_ns_mut(cause) += wait_ns;
        thread.row.waits += 1;
        let waker_thread = wait.wake.and_then(|wake| wake.thread);
        let completion = wait.wake.and_then(|wake| wake.completion);
        sink(Output::Wait(WaitRow {
            thread: number,
            begin_ns: wait.begin_ns - begin_ns,
            wait_ns,
            ready_ns: now_ns - woken_ns,
            cause,
            call: wait.call,
            waker: wait.wake.map_or(Waker::Unknown, |wake| wake.waker),
            waker_thread,
            device: completion.map(|completion| completion.device),
            sector: completion.map(|completion| completion.sector),
        }));
        let is_cause = matches!(
            cause,
            WaitCause::Process | WaitCause::Timer | WaitCause::OtherDevice | WaitCause::Outside
        );
        if is_cause {
            let fill = |row: &mut StepRow| {
                row.time_ns = wait.begin_ns - begin_ns;
                row.wait_ns = Some(wait_ns);
                row.cause = Some(cause);
                row.other_thread = waker_thread;
            };
            self.step(number, StepEvent::Wait, fill, sink);
        }
    }

    /// Ends a thread.
    fn end(&mut self, number: u32, sink: &mut impl FnMut(Output)) {
        self.step(number, StepEvent::Exit, |_| (), sink);
        let elapsed_ns = self.time();
        if let Some(thread) = self.threads.remove(&number)
            && thread.is_task()
        {
            let elapsed_ns = elapsed_ns - thread.row.begin_ns;
            sink(Output::Process(ProcessRow { elapsed_ns, has_ended: true, ..thread.row }));
        }
    }

    fn wake(&self, event: &SystemEvent) -> Wake {
        let cpu = &self.cpus[&event.cpu];
        let top = cpu.frames.last();
        let is_timer = top.is_some_and(|frame| match frame.source {
            InterruptSource::LocalTimer => true,
            InterruptSource::Softirq => TIMER_SOFTIRQS.contains(&frame.number),
            _ => false,
        });
        let waker = match (event.context, cpu.completion) {
            (_, Some(_)) => Waker::Completion,
            (Context::Process, None) if event.thread == 0 => Waker::Unknown,
            (Context::Process, None) => Waker::Thread,
            (_, None) if is_timer => Waker::Timer,
            (_, None) => Waker::Interrupt,
        };
        let thread = (waker == Waker::Thread).then_some(event.thread);
        let role = thread.and_then(|thread| self.threads.get(&thread)).map(|thread| thread.role);
        Wake {
            time_ns: self.now_ns,
            waker,
            thread,
            is_within: role == Some(Role::Task),
            completion: cpu.completion,
        }
    }

    fn waking(&mut self, event: &SystemEvent, number: u32) {
        let wake = self.wake(event);
        let Some(thread) = self.threads.get_mut(&number).filter(|thread| thread.is_task()) else { return };
        match thread.state {
            State::Waiting => self.end_wait(number, wake),
            State::Running(_) => thread.early_wake = Some(wake),
            State::Ready => {}
        }
    }

    fn wakeup(&mut self, event: &SystemEvent, number: u32) {
        let now_ns = self.now_ns;
        let wake = self.wake(event);
        let Some(thread) = self.threads.get_mut(&number).filter(|thread| thread.is_task()) else { return };
        let early = thread.early_wake.take();
        if thread.state == State::Waiting {
            self.end_wait(number, Wake { time_ns: now_ns, ..early.unwrap_or(wake) });
        }
    }

    fn fork(&mut self, event: &SystemEvent, child: u32, is_thread: bool, sink: &mut impl FnMut(Output)) {
        if child == 0 {
            self.counts.repairs.existing_thread += 1;
            return;
        }
        if self.threads.contains_key(&child) {
            // The number is used again, and the end of its first thread was not recorded.
            self.counts.repairs.existing_thread += 1;
            self.forget(child, sink);
        }
        let parent = event.thread;
        let (process, role) = match self.threads.get(&parent) {
            Some(thread) => (thread.row.process, thread.role),
            None => (parent, Role::Other),
        };
        // A thread of the kernel is made by its thread 2.
        let role = match role {
            _ if self.roots.contains(&child) => Role::Task,
            Role::Recorder if !is_thread => Role::Other,
            Role::Other if parent == 2 => Role::Kernel,
            role => role,
        };
        let process = if is_thread { process } else { child };
        let mut thread = Thread::new(child, process, parent, role, self.now_ns, self.begin_ns);
        if let Some(parent) = self.threads.get(&parent) {
            thread.row.name = parent.row.name;
        }
        self.threads.insert(child, thread);
        self.step(parent, StepEvent::Fork, |row| row.other_thread = Some(child), sink);
    }

    /// Ends a thread whose end was not recorded.
    fn forget(&mut self, number: u32, sink: &mut impl FnMut(Output)) {
        let now_ns = self.now_ns;
        let Some(thread) = self.threads.get_mut(&number) else { return };
        match thread.state {
            State::Running(cpu) => {
                self.advance(cpu);
                self.leave(cpu, number, RunState::Ended, sink);
            }
            State::Ready => {
                thread.settle_ready(now_ns);
                self.close_wait(number, sink);
                self.end(number, sink);
            }
            State::Waiting => {
                let wake = Wake {
                    time_ns: now_ns,
                    waker: Waker::Unknown,
                    thread: None,
                    is_within: false,
                    completion: None,
                };
                self.end_wait(number, wake);
                self.close_wait(number, sink);
                self.end(number, sink);
            }
        }
    }

    fn enter_interrupt(
        &mut self,
        cpu: u16,
        source: InterruptSource,
        number: u16,
        sink: &mut impl FnMut(Output),
    ) {
        let begin_ns = self.now_ns;
        if self.cpu(cpu).frames.len() >= FRAMES_MAX {
            self.counts.repairs.interrupts += 1;
            self.pop_frame(cpu, sink);
        }
        let this = self.cpu(cpu);
        if this.frames.is_empty() {
            this.completion = None;
        }
        this.frames.push(Frame { source, number, begin_ns, computing_ns: 0 });
        match source {
            InterruptSource::Softirq => this.row.softirqs += 1,
            _ => this.row.interrupts += 1,
        }
    }

    fn exit_interrupt(
        &mut self,
        cpu: u16,
        source: InterruptSource,
        number: u16,
        sink: &mut impl FnMut(Output),
    ) {
        let same = |frame: &Frame| frame.source == source && frame.number == number;
        let Some(place) = self.cpu(cpu).frames.iter().rposition(same) else {
            self.counts.repairs.interrupts += 1;
            return;
        };
        // Interrupts within it whose ends were not recorded.
        while self.cpu(cpu).frames.len() > place + 1 {
            self.counts.repairs.interrupts += 1;
            self.pop_frame(cpu, sink);
        }
        self.pop_frame(cpu, sink);
        let this = self.cpu(cpu);
        if this.frames.is_empty() {
            this.completion = None;
        }
    }

    fn pop_frame(&mut self, cpu: u16, sink: &mut impl FnMut(Output)) {
        let begin_ns = self.begin_ns;
        let this = self.cpu(cpu);
        let Some(frame) = this.frames.pop() else { return };
        sink(Output::Interrupt(InterruptRow {
            cpu,
            begin_ns: frame.begin_ns - begin_ns,
            source: frame.source,
            number: frame.number,
            computing_ns: frame.computing_ns,
            interrupted: this.current.unwrap_or(0),
        }));
    }

    /// Takes note of the device whose files the thread uses.
    fn used(&mut self, thread: u32, device: u32) {
        if let Some(thread) = self.threads.get_mut(&thread) {
            thread.device = Some(device);
        }
    }

    fn access(&mut self, thread: u32, step: StepEvent, range: FileRange, sink: &mut impl FnMut(Output)) {
        self.used(thread, range.device);
        let fill = |row: &mut StepRow| {
            row.device = Some(range.device);
            row.inode = Some(range.inode);
            row.offset_bytes = Some(range.offset_bytes);
            row.length_bytes = Some(range.length_bytes);
        };
        self.step(thread, step, fill, sink);
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
            result: None,
            device: None,
            inode: None,
            offset_bytes: None,
            length_bytes: None,
            other_thread: None,
            wait_ns: None,
            cause: None,
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

    fn work(&mut self, event: &SystemEvent, emulates: bool, sink: &mut impl FnMut(Output)) {
        if self.threads.get(&event.thread).is_some_and(|thread| thread.emulates != emulates) {
            self.close_segment(event.cpu, sink);
            self.thread(event.thread).emulates = emulates;
        }
    }

    fn block(&mut self, cpu: u16, step: &BlockStep, sink: &mut impl FnMut(Output)) {
        let event = step.event;
        if event.kind == Kind::Complete {
            let completion = Completion { device: step.device, op: event.op, sector: event.sector };
            self.cpu(cpu).completion = Some(completion);
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
