//! Beginning and end of threads.

use super::super::event::{RunState, SystemEvent};
use super::super::tables::{ProcessRow, Role, StepEvent};
use super::super::thread::{State, Thread, Wake};
use super::{Output, Processor};

impl Processor {
    pub(super) fn fork(
        &mut self,
        event: &SystemEvent,
        child: u32,
        is_thread: bool,
        sink: &mut impl FnMut(Output),
    ) {
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
            _ if self.roots.contains(&child) || self.starter == Some(parent) => Role::Task,
            Role::Recorder if !is_thread => Role::Other,
            Role::Other if parent == 2 => Role::Kernel,
            role => role,
        };
        if role == Role::Task {
            self.counts.first_task.get_or_insert(child);
        }
        let process = if is_thread { process } else { child };
        let mut thread = Thread::new(child, process, parent, role, self.now_ns, self.begin_ns);
        if let Some(parent) = self.threads.get(&parent) {
            thread.row.name = parent.row.name;
        }
        self.threads.insert(child, thread);
        self.step(parent, StepEvent::Fork, |row| row.other_thread = Some(child), sink);
    }

    /// Ends a thread whose end was not recorded.
    pub(super) fn forget(&mut self, number: u32, sink: &mut impl FnMut(Output)) {
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
                let wake = Wake::unknown(now_ns);
                self.end_wait(number, wake);
                self.close_wait(number, sink);
                self.end(number, sink);
            }
        }
    }

    /// Ends a thread.
    pub(super) fn end(&mut self, number: u32, sink: &mut impl FnMut(Output)) {
        self.step(number, StepEvent::Exit, |_| (), sink);
        let elapsed_ns = self.time();
        if let Some(thread) = self.threads.remove(&number)
            && thread.is_task()
        {
            let elapsed_ns = elapsed_ns - thread.row.begin_ns;
            sink(Output::Process(ProcessRow { elapsed_ns, has_ended: true, ..thread.row }));
        }
    }
}
