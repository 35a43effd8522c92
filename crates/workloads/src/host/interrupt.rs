//! Interrupts: handlers on the stack of a CPU, and what they do when they are complete.

use seeklab_core::Instant;

use super::cpu::{Handler, Work};
use super::list::NONE;
use super::process::{Level, Next, State};
use super::{HORIZON, Host};

/// The CPU that interrupts go to.
const INTERRUPT_CPU: usize = 0;

impl Host {
    /// An interrupt arrives: its handler runs before everything else of the CPU.
    pub(super) fn interrupt(&mut self, work: Work) {
        let remaining = match work {
            Work::Complete { .. } => self.settings.interrupt,
            Work::Clock => self.settings.clock_interrupt,
        };
        self.accounts.interrupts += 1;
        self.stop(INTERRUPT_CPU);
        self.cpus[INTERRUPT_CPU].stack.push(Handler { work, remaining });
        self.resume(INTERRUPT_CPU);
    }

    /// The computing time on a CPU is over.
    pub(super) fn end_of_work(&mut self, index: usize) {
        self.stop(index);
        let cpu = &mut self.cpus[index];
        if let Some(handler) = cpu.stack.last() {
            debug_assert!(handler.remaining.is_zero(), "the handler is complete");
            let work = handler.work;
            cpu.stack.pop();
            if let Work::Complete { request, is_ok } = work {
                self.complete_request(request, is_ok);
            }
        } else if cpu.process != NONE {
            let pid = cpu.process;
            let process = &mut self.processes[pid as usize];
            if process.remaining.is_zero() {
                self.go_on(pid);
            } else if process.slice.is_zero() {
                self.end_slice(pid);
            }
        }
        if self.cpus[index].due.is_none() {
            self.resume(index);
        }
        self.place();
    }

    /// Goes on with the process that a CPU runs.
    fn go_on(&mut self, pid: u32) {
        let held = std::mem::replace(&mut self.processes[pid as usize].held, NONE);
        match self.step(pid) {
            Next::Compute(time) => self.processes[pid as usize].remaining = time,
            Next::Wait(wait) => self.suspend(pid, wait),
            Next::End => self.end_process(pid),
            Next::Continue => unreachable!("a step goes on until it has a time"),
        }
        if held != NONE && self.cache.release(held) {
            self.wake_memory_waiters();
        }
    }

    /// The time slice of a process is over.
    fn end_slice(&mut self, pid: u32) {
        let process = &mut self.processes[pid as usize];
        process.slice = self.settings.time_slice;
        if process.is_system && self.linux.is_none() {
            return;
        }
        process.level = Level::Expired;
        let State::Running(cpu) = process.state else { unreachable!("the process runs") };
        if self.lists.ready.iter().any(|list| list.len > 0) {
            process.state = State::Ready;
            self.cpus[cpu as usize].process = NONE;
            self.release_plug_of(pid);
            self.links.push_back(&mut self.lists.ready[Level::Expired as usize], pid);
            self.leave_cpu(pid);
        }
    }

    /// Takes the time that a CPU has computed from what it executes.
    pub(super) fn stop(&mut self, index: usize) {
        let cpu = &mut self.cpus[index];
        if cpu.due.take().is_none() {
            return;
        }
        let time = self.now.saturating_since(cpu.since);
        if let Some(handler) = cpu.stack.last_mut() {
            handler.remaining = handler.remaining.saturating_sub(time);
        } else if !cpu.switching.is_zero() {
            cpu.switching = cpu.switching.saturating_sub(time);
        } else if cpu.process != NONE {
            let process = &mut self.processes[cpu.process as usize];
            process.remaining = process.remaining.saturating_sub(time);
            process.slice = process.slice.saturating_sub(time);
            process.computed += time;
        }
    }

    /// Lets a CPU go on with what it has.
    pub(super) fn resume(&mut self, index: usize) {
        let now: Instant = self.now;
        let cpu = &mut self.cpus[index];
        let time = if let Some(handler) = cpu.stack.last() {
            handler.remaining
        } else if !cpu.switching.is_zero() {
            cpu.switching
        } else if cpu.process != NONE {
            let process = &self.processes[cpu.process as usize];
            process.remaining.min(process.slice)
        } else {
            cpu.due = None;
            return;
        };
        self.begun += 1;
        (cpu.since, cpu.due, cpu.order) = (now, Some(now + time.min(HORIZON)), self.begun);
    }
}
