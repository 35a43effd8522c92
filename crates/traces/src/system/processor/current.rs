//! The current thread of each processor, and the division of the time of processors.

use seeklab_core::ProcessName;

use super::super::cpu::Segment;
use super::super::event::{RunState, SystemEvent};
use super::super::tables::{OccupiedRow, Role};
use super::super::thread::{State, Wake};
use super::{Output, Processor};

impl Processor {
    /// Gives the time since the last event of the processor to what ran.
    pub(super) fn advance(&mut self, cpu: u16) {
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
        // Recording an event takes time after its stamp.
        let recording_ns = thread.recording_debt_ns.min(elapsed_ns);
        thread.recording_debt_ns -= recording_ns;
        if recording_ns > 0 {
            *thread.row.recording_ns.get_or_insert(0) += recording_ns;
            cpu.row.recorder_ns += recording_ns;
        }
        let elapsed_ns = elapsed_ns - recording_ns;
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
    pub(super) fn confirm_current(&mut self, cpu: u16, current: u32, sink: &mut impl FnMut(Output)) {
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
        if let Some(before) = before
            && self.threads.get(&current).is_some_and(|thread| thread.state == State::Ready)
        {
            // A processor switches soon after the event that makes it, which is often its last.
            self.counts.repairs.unrecorded_switch += 1;
            let ready_ns = self.threads[&current].since_ns;
            let start_ns = ready_ns.max(self.cpu(cpu).since_ns);
            let now_ns = std::mem::replace(&mut self.now_ns, start_ns);
            self.advance(cpu);
            self.leave(cpu, before, RunState::Runnable, sink);
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
    pub(super) fn leave(&mut self, cpu: u16, number: u32, state: RunState, sink: &mut impl FnMut(Output)) {
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
    pub(super) fn enter(
        &mut self,
        cpu: u16,
        number: u32,
        name: Option<ProcessName>,
        sink: &mut impl FnMut(Output),
    ) {
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
                    let wake = Wake::unknown(now_ns);
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
    pub(super) fn close_segment(&mut self, cpu: u16, sink: &mut impl FnMut(Output)) {
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

    pub(super) fn work(&mut self, event: &SystemEvent, emulates: bool, sink: &mut impl FnMut(Output)) {
        if self.threads.get(&event.thread).is_some_and(|thread| thread.emulates != emulates) {
            self.close_segment(event.cpu, sink);
            self.thread(event.thread).emulates = emulates;
        }
    }
}
