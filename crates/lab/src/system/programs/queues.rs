//! Queues in which asynchronous transfers past the page cache end: contexts of libaio, and rings of io_uring.
//!
//! ```text
//! libaio     submit ×8   io_getevents = 3                the program takes 3
//! io_uring   submit ×8   wait for at least 1, submit ×2, wait    it took 2: one for each that it submitted next
//! ```
//! A program takes completions of io_uring from memory that it shares with the kernel, so their number is not in a trace. A program
//! that keeps its depth submits as many as it has taken.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use seeklab_workloads::host::RecordedAction;

/// Queues of all processes.
#[derive(Debug, Default)]
pub(super) struct Queues {
    /// Numbers of the queues, by process and context or ring.
    numbers: BTreeMap<(u32, u64), NonZeroU32>,
    /// Queue that a process used last. Threads of the kernel submit for a ring outside of calls.
    last: BTreeMap<u32, NonZeroU32>,
    queues: Vec<Queue>,
    /// Steps whose actions are decided: thread, step, action.
    decided: Vec<(usize, usize, RecordedAction)>,
}

#[derive(Debug, Default)]
struct Queue {
    submitted: u64,
    taken: u64,
    /// Transfers for which the kernel waited, though they are asynchronous. They are complete, and the program takes them.
    complete: u64,
    /// A wait whose number of completions the next submissions tell.
    open: Option<OpenWait>,
}

#[derive(Debug, Clone, Copy)]
struct OpenWait {
    thread: usize,
    step: usize,
    at_least: u64,
    /// Transfers submitted before.
    submitted: u64,
}

impl Queues {
    /// The queue of a process. Without a context or ring, the last that it used.
    pub(super) fn number(&mut self, process: u32, ring: Option<u64>) -> NonZeroU32 {
        let last = self.last.get(&process).copied();
        let number = match (ring, last) {
            (None, Some(last)) => last,
            _ => *self.numbers.entry((process, ring.unwrap_or(u64::MAX))).or_insert_with(|| {
                self.queues.push(Queue::default());
                NonZeroU32::new(self.queues.len() as u32).expect("there is one at least")
            }),
        };
        self.last.insert(process, number);
        number
    }

    fn queue(&mut self, number: NonZeroU32) -> &mut Queue {
        &mut self.queues[number.get() as usize - 1]
    }

    /// A transfer is submitted.
    pub(super) fn submit(&mut self, number: NonZeroU32) {
        self.queue(number).submitted += 1;
    }

    /// A transfer is complete that the kernel waited for.
    pub(super) fn complete(&mut self, number: NonZeroU32) {
        self.queue(number).complete += 1;
    }

    /// A program takes so many completions. Returns the action.
    pub(super) fn take(&mut self, number: NonZeroU32, completions: u64) -> RecordedAction {
        let queue = self.queue(number);
        let complete = completions.min(queue.complete);
        queue.complete -= complete;
        let transfers = (completions - complete).min(queue.submitted - queue.taken);
        queue.taken += transfers;
        match u32::try_from(transfers) {
            Ok(transfers @ 1..) => RecordedAction::Reap { queue: number, transfers },
            _ => RecordedAction::None,
        }
    }

    /// A step waits for at least so many completions. Its action is decided when the program waits again.
    pub(super) fn wait(&mut self, number: NonZeroU32, at_least: u64, (thread, step): (usize, usize)) {
        self.decide(number);
        let queue = self.queue(number);
        queue.open = Some(OpenWait { thread, step, at_least, submitted: queue.submitted });
    }

    fn decide(&mut self, number: NonZeroU32) {
        let queue = self.queue(number);
        let Some(OpenWait { thread, step, at_least, submitted }) = queue.open.take() else { return };
        let next = queue.submitted - submitted;
        // The program may have taken some by another call.
        let outstanding = submitted.saturating_sub(queue.taken);
        let completions = at_least.max(next).min(outstanding + queue.complete);
        let action = self.take(number, completions);
        self.decided.push((thread, step, action));
    }

    /// Takes the actions that are decided: thread, step, action.
    pub(super) fn decided(&mut self) -> Vec<(usize, usize, RecordedAction)> {
        std::mem::take(&mut self.decided)
    }

    /// Actions that were open, and those that were not taken: thread, step, action.
    pub(super) fn finish(mut self) -> Vec<(usize, usize, RecordedAction)> {
        for number in 1..=self.queues.len() as u32 {
            self.decide(NonZeroU32::new(number).expect("it is above 0"));
        }
        self.decided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reap(queue: NonZeroU32, transfers: u32) -> RecordedAction {
        RecordedAction::Reap { queue, transfers }
    }

    #[test]
    fn program_takes_no_more_than_it_submitted() {
        let mut queues = Queues::default();
        let number = queues.number(7, Some(1));
        assert_eq!(queues.take(number, 3), RecordedAction::None);
        (0..4).for_each(|_| queues.submit(number));
        queues.complete(number);
        // One of the three was complete at once.
        assert_eq!(queues.take(number, 3), reap(number, 2));
        assert_eq!(queues.take(number, 9), reap(number, 2));
        // Another context is another queue. A thread without a call has the last one.
        let other = queues.number(7, Some(2));
        assert_ne!(other, number);
        assert_eq!([queues.number(7, None), queues.number(7, Some(1))], [other, number]);
        assert_ne!(queues.number(8, Some(1)), number);
    }

    #[test]
    fn completions_of_a_ring_are_as_many_as_are_submitted_next() {
        let mut queues = Queues::default();
        let ring = queues.number(7, Some(4));
        (0..8).for_each(|_| queues.submit(ring));
        for (step, next) in [(10, 1), (20, 3), (30, 0)] {
            queues.wait(ring, 1, (0, step));
            (0..next).for_each(|_| queues.submit(ring));
        }
        queues.wait(ring, 5, (0, 40));
        assert_eq!(
            queues.finish(),
            [(0, 10, reap(ring, 1)), (0, 20, reap(ring, 3)), (0, 30, reap(ring, 1)), (0, 40, reap(ring, 5))]
        );
    }
}
