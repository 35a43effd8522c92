//! Waits of a thread for others, for a time and for the world outside.

use seeklab_core::Duration;
use seeklab_traces::system::WaitCause;
use seeklab_traces::system::tables::StepRow;
use seeklab_workloads::host::RecordedAction;

use super::Loader;

impl Loader {
    /// A thread ends. The first one of a process ends it.
    pub(super) fn exit(&mut self, number: usize) -> RecordedAction {
        let process = self.threads[number].process;
        if self.numbers.get(&process) == Some(&number)
            && let Some(parent) = self.descriptors.parents.get(&process)
        {
            self.ended_children.push(*parent, number as u32);
        }
        RecordedAction::None
    }

    /// A call that looks for an ended child returns.
    pub(super) fn find_child(&mut self, number: usize, result: i64) {
        let thread = &mut self.threads[number];
        if result == 0 {
            thread.polls.look();
        } else if result > 0
            && let Some(child) = self.ended_children.pop(thread.process)
        {
            thread.polls.find(&mut thread.steps, child);
        }
    }

    pub(super) fn explicit_wait(&mut self, number: usize, step: usize, row: &StepRow) -> RecordedAction {
        let wait_ns = row.wait_ns.unwrap_or(0);
        let other = row.other_thread.and_then(|other| self.numbers.get(&other)).copied();
        match (row.cause, other) {
            (Some(WaitCause::Process), Some(on)) if on != number => {
                let thread = &mut self.threads[number];
                thread.has_dependencies = true;
                thread.polls.wake(step, thread.call.map(|(call, arguments)| (call, arguments[0])));
                RecordedAction::Await { thread: on as u32, steps: 0 }
            }
            (cause, _) => {
                let thread = &mut self.threads[number];
                if cause == Some(WaitCause::Timer) {
                    thread.polls.sleep(
                        step,
                        thread.call.map(|(call, arguments)| (call, arguments[0])),
                        wait_ns,
                    );
                } else {
                    thread.polls.end();
                    self.kept.waits += 1;
                    self.kept.wait_ns = self.kept.wait_ns.saturating_add(wait_ns);
                }
                RecordedAction::Sleep { time: Duration::from_ns(wait_ns) }
            }
        }
    }

    /// Decides how many steps of another thread each wait of a thread needs: those that had ended when the wait did.
    pub(super) fn decide_dependencies(&mut self, number: usize) {
        for part in 0..self.threads[number].steps.parts() {
            for (step, taken, end_ns) in self.threads[number].steps.part(part) {
                let RecordedAction::Await { thread, .. } = taken.action else { continue };
                let steps = self.threads[thread as usize].steps.ended_by(end_ns) as u32;
                let action = RecordedAction::Await { thread, steps };
                self.threads[number].steps.set_action(step, action);
            }
        }
    }
}
