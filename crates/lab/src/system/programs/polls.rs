//! Waits of a thread that look again and again whether another thread has got somewhere.
//!
//! ```text
//! wait4(child, WNOHANG) = 0, sleep, wait4(…) = 0, sleep, wait4(…) = child     sleeps until the child has ended
//! poll(…, timeout) = 0, …, poll(…, timeout) = 0, poll(…, timeout) = 1         timed waits until another thread writes
//! ```
//! Their number is an effect: a child that needs less time on another device is waited for less often.

use std::collections::BTreeMap;

use seeklab_core::Duration;
use seeklab_workloads::host::RecordedAction;

use super::steps::Steps;

/// Shortest sleep between two looks, in nanoseconds: no timer of the kernel is faster.
const SLEEP_MIN_NS: u64 = 1000;

/// Timed waits of a thread with nothing between them but system calls.
#[derive(Debug, Default)]
pub(super) struct Polls {
    /// Step of each wait.
    sleeps: Vec<usize>,
    /// Call of the waits with its first argument, if they are the same.
    call: Option<(u16, u64)>,
    /// Looks for an ended child without success.
    looks: usize,
    /// Steps of a first timed wait, and of the wait for another thread that followed.
    woken: Vec<(usize, usize)>,
}

impl Polls {
    /// The thread does something else.
    pub(super) fn end(&mut self) {
        self.sleeps.clear();
        self.looks = 0;
    }

    /// The thread waits for a time, within a call.
    pub(super) fn sleep(&mut self, step: usize, call: Option<(u16, u64)>, wait_ns: u64) {
        if wait_ns < SLEEP_MIN_NS {
            return self.end();
        }
        if self.sleeps.is_empty() {
            self.call = call;
        } else if self.call != call {
            self.call = None;
        }
        self.sleeps.push(step);
    }

    /// The thread looks for an ended child, and there is none.
    pub(super) fn look(&mut self) {
        self.looks += 1;
    }

    /// The thread finds that a child has ended: the sleeps before were polls if it looked before each of them.
    pub(super) fn find(&mut self, steps: &mut Steps, child: u32) {
        if self.looks >= self.sleeps.len()
            && let Some(last) = self.sleeps.last()
        {
            let before = self.sleeps.len().checked_sub(2).map_or(last - 1, |before| self.sleeps[before]);
            for step in &self.sleeps {
                let RecordedAction::Sleep { time } = steps.action(*step) else { continue };
                let back = if step == last { u16::try_from(last - before).unwrap_or(1) } else { 0 };
                let end = *last as u32 + 1;
                steps.set_action(
                    *step,
                    RecordedAction::Poll { time, thread: child, steps: u32::MAX, end, back },
                );
            }
        }
        self.end();
    }

    /// The thread waits for another one, within a call: that one could have ended the timed waits of the same call for the same object before.
    pub(super) fn wake(&mut self, step: usize, call: Option<(u16, u64)>) {
        if let Some(first) = self.sleeps.first().filter(|_| call.is_some() && self.call == call) {
            self.woken.push((*first, step));
        }
        self.end();
    }

    /// Decides about the timed waits, once the waits for other threads know how far those had got.
    pub(super) fn decide(&mut self, thread_steps: &mut Steps) {
        for (first, end) in self.woken.drain(..) {
            if let RecordedAction::Await { thread, steps } = thread_steps.action(end) {
                let action =
                    RecordedAction::Poll { time: Duration::ZERO, thread, steps, end: end as u32, back: 0 };
                thread_steps.set_action(first, action);
            }
        }
    }
}

/// Children that have ended and were not found yet, by their process.
#[derive(Debug, Default)]
pub(super) struct EndedChildren(BTreeMap<u32, Vec<u32>>);

impl EndedChildren {
    /// The first thread of a child of a process ends.
    pub(super) fn push(&mut self, parent: u32, thread: u32) {
        self.0.entry(parent).or_default().push(thread);
    }

    /// A process finds an ended child: the last one.
    pub(super) fn pop(&mut self, parent: u32) -> Option<u32> {
        self.0.get_mut(&parent)?.pop()
    }
}

#[cfg(test)]
mod tests {
    use seeklab_traces::system::tables::StepRow;
    use seeklab_traces::system::{StepEvent, WaitCause};

    use super::*;
    use crate::system::programs::loader::Loader;
    use crate::system::programs::tests::{access, actions, metadata, process, step};

    const WAIT4: u16 = 61;
    const NANOSLEEP: u16 = 230;
    const POLL: u16 = 7;

    /// Rows of a call of thread 10, with what it waits for.
    fn call(time_ns: u64, call: u16, result: i64, wait: Option<(WaitCause, Option<u32>)>) -> Vec<StepRow> {
        let row = |time_ns, event| StepRow { device: None, ..step(10, time_ns, event) };
        let wait = wait.map(|(cause, other_thread)| StepRow {
            wait_ns: Some(10_000),
            cause: Some(cause),
            other_thread,
            ..row(time_ns + 1, StepEvent::Wait)
        });
        let enter = StepRow { call: Some(call), ..row(time_ns, StepEvent::CallEnter) };
        let exit =
            StepRow { call: Some(call), result: Some(result), ..row(time_ns + 20_000, StepEvent::CallExit) };
        [Some(enter), wait, Some(exit)].into_iter().flatten().collect()
    }

    fn sleep(time_ns: u64, number: u16) -> Vec<StepRow> {
        call(time_ns, number, 0, Some((WaitCause::Timer, None)))
    }

    fn child_ends(time_ns: u64) -> Vec<StepRow> {
        vec![StepRow { device: None, ..step(11, time_ns, StepEvent::Exit) }]
    }

    /// The timed waits of thread 10 with their steps. Thread 11 is its child, the last one of the recording.
    fn waits(rows: &[Vec<StepRow>]) -> Vec<(usize, RecordedAction)> {
        let mut loader = Loader::new(&metadata(), &[process(10, 1, 0), process(11, 10, 5)]);
        rows.iter().flatten().for_each(|row| loader.step(row).expect("the row is right"));
        let recording = loader.finish(1 << 30).expect("the file can be used").recording;
        let all = actions(&recording, 0).into_iter().enumerate();
        all.filter(|(_, action)| matches!(action, RecordedAction::Sleep { .. } | RecordedAction::Poll { .. }))
            .collect()
    }

    const SLEEP: RecordedAction = RecordedAction::Sleep { time: Duration::from_ns(10_000) };

    #[test]
    fn sleeps_between_looks_for_a_child_are_polls_of_it() {
        let poll = |end, back| {
            let time = Duration::from_ns(10_000);
            RecordedAction::Poll { time, thread: 1, steps: u32::MAX, end, back }
        };
        let look = |time_ns, result| call(time_ns, WAIT4, result, None);
        let rows = [
            look(100_000, 0),
            sleep(200_000, NANOSLEEP),
            look(300_000, 0),
            sleep(400_000, NANOSLEEP),
            child_ends(405_000),
            look(500_000, 7),
            sleep(600_000, NANOSLEEP),
        ];
        assert_eq!(waits(&rows), [(3, poll(9, 0)), (8, poll(9, 5)), (13, SLEEP)]);
        // One sleep repeats itself.
        let once = [look(100_000, 0), sleep(200_000, NANOSLEEP), child_ends(205_000), look(300_000, 7)];
        assert_eq!(waits(&once), [(3, poll(4, 1))]);
        // Sleeps without looks between them keep their time, as do those of a thread that does something else meanwhile.
        let other =
            [sleep(200_000, NANOSLEEP), sleep(300_000, NANOSLEEP), child_ends(305_000), look(400_000, 7)];
        assert_eq!(waits(&other), [(1, SLEEP), (4, SLEEP)]);
        let work = vec![access(250_000, StepEvent::FileRead, 5, 0, 4096)];
        let busy = [&rows[..2], &[work], &once[3..]].concat();
        assert_eq!(waits(&busy), [(3, SLEEP)]);
    }

    #[test]
    fn timed_waits_are_those_for_another_thread_if_the_same_call_waits_for_it() {
        let woken = |number| call(500_000, number, 1, Some((WaitCause::Process, Some(11))));
        let other = vec![StepRow { device: None, ..step(11, 400_000, StepEvent::CallEnter) }];
        let rows = |number| [sleep(100_000, POLL), sleep(200_000, POLL), other.clone(), woken(number)];
        let poll = RecordedAction::Poll { time: Duration::ZERO, thread: 1, steps: 1, end: 7, back: 0 };
        assert_eq!(waits(&rows(POLL)), [(1, poll), (4, SLEEP)]);
        assert_eq!(waits(&rows(NANOSLEEP)), [(1, SLEEP), (4, SLEEP)]);
        // The same call for another object, such as a lock, is another wait.
        let mut of_another = rows(POLL);
        of_another[3][0].argument_0 = Some(9);
        assert_eq!(waits(&of_another), [(1, SLEEP), (4, SLEEP)]);
        of_another = rows(POLL);
        of_another[1][0].argument_0 = Some(9);
        assert_eq!(waits(&of_another), [(1, SLEEP), (4, SLEEP)]);
        // What was waited for before has nothing to do with the next wait.
        let again = [rows(POLL).to_vec(), vec![call(600_000, POLL, 1, Some((WaitCause::Process, Some(11))))]]
            .concat();
        assert_eq!(waits(&again), [(1, poll), (4, SLEEP)]);
    }
}
