//! Waits of threads: their ends and causes.

use super::super::cause::WaitCause;
use super::super::event::{Context, InterruptSource, SystemEvent, TIMER_SOFTIRQS};
use super::super::tables::{Role, StepEvent, StepRow, WaitRow, Waker};
use super::super::thread::{State, Wake};
use super::{Output, Processor};

impl Processor {
    /// Ends the wait of a thread: from now on it is ready.
    pub(super) fn end_wait(&mut self, number: u32, wake: Wake) {
        let Some(thread) = self.threads.get_mut(&number) else { return };
        thread.state = State::Ready;
        thread.since_ns = wake.time_ns;
        if let Some(wait) = &mut thread.wait {
            wait.wake = Some(wake);
        }
    }

    /// Decides the cause of the wait before the thread runs, and hands it on.
    pub(super) fn close_wait(&mut self, number: u32, sink: &mut impl FnMut(Output)) {
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

    pub(super) fn wake(&self, event: &SystemEvent) -> Wake {
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
            completed_here_ns: self.completed_here_ns,
            completed_elsewhere_ns: self.completed_elsewhere_ns,
        }
    }

    pub(super) fn waking(&mut self, event: &SystemEvent, number: u32) {
        let wake = self.wake(event);
        let Some(thread) = self.threads.get_mut(&number) else { return };
        match thread.state {
            State::Waiting => self.end_wait(number, wake),
            State::Running(_) => thread.early_wake = Some(wake),
            State::Ready => {}
        }
    }

    pub(super) fn wakeup(&mut self, event: &SystemEvent, number: u32) {
        let now_ns = self.now_ns;
        let wake = self.wake(event);
        let Some(thread) = self.threads.get_mut(&number) else { return };
        let early = thread.early_wake.take();
        if thread.state == State::Waiting {
            self.end_wait(number, Wake { time_ns: now_ns, ..early.unwrap_or(wake) });
        }
    }
}
