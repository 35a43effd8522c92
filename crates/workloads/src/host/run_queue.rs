//! The run queue: which process runs on which CPU.
//!
//! Ready processes stand in three queues: the syncer; processes that have waited since they last used up a time slice;
//! processes that have used up one. The first process of the first queue that is not empty runs next. The syncer of SVR4
//! preempts every other process. Threads of the kernel of Linux wait until the process sleeps or its time slice ends
//! (`RUN_TO_PARITY` of `kernel/sched/fair.c`), and stand in the third queue when they have used up one themselves. A process
//! of the second queue preempts one of the third, if the host has wake-up preemption. A preempted process stays the first of
//! its queue.

use super::Host;
use super::list::NONE;
use super::process::{Level, State, Wait};

impl Host {
    /// A process that runs waits from now on.
    pub(super) fn suspend(&mut self, pid: u32, wait: Wait) {
        let process = &mut self.processes[pid as usize];
        let State::Running(cpu) = process.state else { unreachable!("a process that waits has run") };
        process.state = State::Waiting(wait);
        self.cpus[cpu as usize].process = NONE;
        self.leave_cpu(pid);
        if wait.is_io() {
            self.waiting_for_io += 1;
        }
    }

    /// A process that waits is ready. It runs when [`place`](Self::place) finds a CPU.
    pub(super) fn wake(&mut self, pid: u32) {
        let process = &mut self.processes[pid as usize];
        let State::Waiting(wait) = process.state else { unreachable!("a process wakes up once") };
        if wait.is_io() {
            self.waiting_for_io -= 1;
            if process.is_task {
                self.accounts.io_waits += 1;
                let wait = self.now.saturating_since(process.since);
                self.accounts.io_wait = self.accounts.io_wait.saturating_add(wait);
            }
        }
        process.state = State::Ready;
        process.level = if process.is_system { Level::System } else { Level::Awakened };
        process.slice = self.settings.time_slice;
        self.links.push_back(&mut self.lists.ready[process.level as usize], pid);
        self.end_wait(pid, wait);
    }

    /// Gives ready processes to CPUs, as far as they are idle or may be taken from others.
    pub(super) fn place(&mut self) {
        while let Some(level) = Level::ALL.into_iter().find(|level| self.lists.ready[*level as usize].len > 0)
        {
            let cpu = match self.cpus.iter().position(|cpu| cpu.process == NONE) {
                Some(cpu) => cpu,
                None => match self.victim(level) {
                    Some(cpu) => {
                        self.preempt(cpu);
                        cpu
                    }
                    None => return,
                },
            };
            let first = self.links.pop_front(&mut self.lists.ready[level as usize]);
            let pid = first.expect("the queue is not empty");
            self.processes[pid as usize].state = State::Running(cpu as u32);
            self.take_cpu(pid);
            self.cpus[cpu].process = pid;
            self.cpus[cpu].switching = self.settings.context_switch;
            self.accounts.context_switches += 1;
            if self.cpus[cpu].stack.is_empty() {
                self.resume(cpu);
            }
        }
    }

    /// The CPU whose process gives way to one of that level.
    fn victim(&self, level: Level) -> Option<usize> {
        let preempts = match level {
            Level::System => self.linux.is_none(),
            _ => self.settings.wakeup_preemption,
        };
        let gives_way = |running: Level| running > level && preempts;
        let levels = self.cpus.iter().map(|cpu| self.processes[cpu.process as usize].level);
        let victims = levels.enumerate().filter(|(_, running)| gives_way(*running));
        victims.max_by_key(|(_, running)| *running).map(|(cpu, _)| cpu)
    }

    fn preempt(&mut self, index: usize) {
        if self.cpus[index].stack.is_empty() {
            self.stop(index);
        }
        self.release_plug_of(self.cpus[index].process);
        let cpu = &mut self.cpus[index];
        let pid = std::mem::replace(&mut cpu.process, NONE);
        cpu.switching = seeklab_core::Duration::ZERO;
        let process = &mut self.processes[pid as usize];
        process.state = State::Ready;
        self.links.push_front(&mut self.lists.ready[process.level as usize], pid);
        self.leave_cpu(pid);
    }
}
