//! The arrivals of a workload with their intended times, which never wait for the target.
//!
//! ```text
//! workload ─▶ [ arrived, not issued: queue ] ─▶ slots
//!    ▲ called at the times that it names itself, however late that is
//! ```
//! The workload is called as [`Simulation`](seeklab_core::Simulation) calls it: at the times that it announced and at
//! completions, in order of time, completions first at equal times. Whether a loop comes late therefore changes no
//! arrival of an open load.
//!
//! # Scope and limits
//! At most [`QUEUE_MAX`] arrivals wait in memory. More stay in the workload, with their intended times, until there is
//! room.

use std::collections::VecDeque;

use seeklab_core::{Arrival, Completion, Instant, Reclassification, Request, Workload};

use crate::records::NextRow;

/// A request that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// The request.
    pub(crate) request: Request,
    /// Its intended start.
    pub(crate) intended: Instant,
}

/// Next action of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It is called at this time.
    At(Instant),
    /// It waits for a completion.
    Completion,
    /// Nothing arrives any more.
    Finished,
}

/// Arrivals that wait in memory.
const QUEUE_MAX: usize = 1 << 16;

/// A workload and the requests that have arrived from it.
pub(crate) struct Arrivals {
    workload: Box<dyn Workload>,
    next: Next,
    /// Time that the workload has reached.
    reached: Instant,
    queue: VecDeque<Arrived>,
    /// Changes of class that the target has not heard of.
    changes: Vec<Reclassification>,
    rest: Rest,
}

/// The arrivals that the workload had still to make when it was stopped.
#[derive(Debug, Clone, Copy)]
struct Rest {
    next: Next,
    end: Instant,
}

impl Default for Rest {
    fn default() -> Self {
        Self { next: Next::Finished, end: Instant::ZERO }
    }
}

impl Arrivals {
    /// The arrivals of a workload from time zero on.
    pub(crate) fn new(workload: Box<dyn Workload>) -> Self {
        Self {
            workload,
            next: Next::At(Instant::ZERO),
            reached: Instant::ZERO,
            queue: VecDeque::with_capacity(1024),
            changes: Vec::new(),
            rest: Rest::default(),
        }
    }

    /// Takes the arrivals up to `time`, that included.
    pub(crate) fn advance(&mut self, time: Instant) {
        while let Next::At(at) = self.next {
            if at > time || self.queue.len() >= QUEUE_MAX {
                break;
            }
            self.ask(at);
        }
    }

    /// Takes the arrivals before `time`.
    pub(crate) fn advance_before(&mut self, time: Instant) {
        if let Some(before) = time.as_ns().checked_sub(1) {
            self.advance(Instant::from_ns(before));
        }
    }

    fn ask(&mut self, at: Instant) {
        self.reached = at;
        match self.workload.next_arrival(at) {
            Arrival::Request(request) => {
                self.queue.push_back(Arrived { request, intended: at });
            }
            Arrival::Reclassification(change) => self.changes.push(change),
            Arrival::At(next) => self.next = Next::At(next),
            Arrival::WaitForCompletion => self.next = Next::Completion,
            Arrival::Finished => self.next = Next::Finished,
        }
    }

    /// Notifies the workload that a request has ended.
    pub(crate) fn completed(&mut self, completion: &Completion) {
        self.workload.completed(completion);
    }

    /// Asks the workload anew after completions at `time`, which may have brought its next arrival forward.
    pub(crate) fn completed_at(&mut self, time: Instant) {
        match self.next {
            // Arrivals before this time are still to be taken.
            Next::At(at) if at <= time => {}
            Next::At(_) | Next::Completion => {
                let time = time.max(self.reached);
                self.next = Next::At(time);
                self.advance(time);
            }
            Next::Finished => {}
        }
    }

    /// The request that arrived first and was not taken.
    pub(crate) fn front(&self) -> Option<&Arrived> {
        self.queue.front()
    }

    /// Takes the request that arrived first.
    pub(crate) fn pop(&mut self) -> Option<Arrived> {
        self.queue.pop_front()
    }

    /// Requests that have arrived and were not taken.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The next time at which the workload is called, if it names one.
    pub(crate) const fn next_time(&self) -> Option<Instant> {
        match self.next {
            Next::At(at) => Some(at),
            Next::Completion | Next::Finished => None,
        }
    }

    /// The arrival of the next request, if no completion comes before.
    pub(crate) fn next_arrival(&self) -> NextRow {
        match (self.queue.front(), self.next) {
            (Some(arrived), _) => NextRow::At(arrived.intended),
            (None, Next::At(at)) if self.workload.announces_requests() => NextRow::At(at),
            (None, Next::At(at)) => NextRow::From(at),
            (None, Next::Completion | Next::Finished) => NextRow::Unknown,
        }
    }

    /// Returns true if nothing waits and nothing will arrive any more.
    pub(crate) fn is_finished(&self) -> bool {
        self.next == Next::Finished && self.queue.is_empty()
    }

    /// Changes of class since the last call.
    pub(crate) fn take_changes(&mut self) -> std::vec::Drain<'_, Reclassification> {
        self.changes.drain(..)
    }

    /// Leaves out the arrivals from `end` on that were taken.
    pub(crate) fn cut(&mut self, end: Instant) {
        self.queue.retain(|arrived| arrived.intended < end);
    }

    /// Ends the arrivals before `end`. Returns the number of those that wait.
    pub(crate) fn end_before(&mut self, end: Instant) -> u64 {
        self.rest = Rest { next: std::mem::replace(&mut self.next, Next::Finished), end };
        self.take_waiting(end)
    }

    /// Counts the arrivals before the end that the workload had still to make, but at most about `max` of them.
    pub(crate) fn count_rest(&mut self, max: u64) -> u64 {
        let Rest { next, end } = std::mem::take(&mut self.rest);
        self.next = next;
        let mut count = 0;
        while count < max {
            self.advance_before(end);
            match self.take_waiting(end) {
                0 => break,
                waiting => count += waiting,
            }
        }
        self.next = Next::Finished;
        count
    }

    /// Takes the arrivals that wait. Returns the number of those before `end`.
    fn take_waiting(&mut self, end: Instant) -> u64 {
        let waiting = self.queue.iter().filter(|arrived| arrived.intended < end).count() as u64;
        self.queue.clear();
        waiting
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Operation;

    use super::*;

    /// A request every 10 ns, so many.
    struct Regular {
        sent: u64,
        requests: u64,
    }

    impl Workload for Regular {
        fn next_arrival(&mut self, now: Instant) -> Arrival {
            let next = Instant::from_ns(self.sent * 10);
            match self.sent {
                sent if sent == self.requests => Arrival::Finished,
                _ if next > now => Arrival::At(next),
                sent => {
                    self.sent += 1;
                    Arrival::Request(Request::new(sent, Operation::Read, 0, 1))
                }
            }
        }
        fn completed(&mut self, _: &Completion) {}
    }

    fn arrivals(requests: u64) -> Arrivals {
        Arrivals::new(Box::new(Regular { sent: 0, requests }))
    }

    #[test]
    fn arrivals_keep_their_intended_times_however_late_they_are_taken() {
        let mut arrivals = arrivals(5);
        arrivals.advance(Instant::from_ns(29));
        // Completions in between change no arrival.
        arrivals.completed_at(Instant::from_ns(29));
        arrivals.advance(Instant::from_ns(1_000));
        let taken: Vec<u64> = std::iter::from_fn(|| arrivals.pop()).map(|one| one.intended.as_ns()).collect();
        assert_eq!(taken, [0, 10, 20, 30, 40]);
        assert!(arrivals.is_finished());
    }

    #[test]
    fn full_queue_holds_the_workload_back_and_loses_nothing() {
        let requests = QUEUE_MAX as u64 + 7;
        let mut arrivals = arrivals(requests);
        let late = Instant::from_ns(20 * requests);
        arrivals.advance(late);
        assert_eq!(arrivals.queued(), QUEUE_MAX);
        // A completion takes nothing that arrives behind those that wait.
        arrivals.completed_at(late);
        for number in 0..requests {
            let arrived = arrivals.pop().unwrap();
            assert_eq!(arrived.intended.as_ns(), 10 * number);
            arrivals.advance(late);
        }
        assert!(arrivals.is_finished());
    }

    #[test]
    fn arrivals_before_the_end_are_counted_though_they_were_never_taken() {
        let count = |max| {
            let mut arrivals = arrivals(1 << 20);
            arrivals.advance(Instant::from_ns(35));
            arrivals.pop();
            let waiting = arrivals.end_before(Instant::from_ns(10 * (QUEUE_MAX as u64 + 100)));
            assert!(arrivals.is_finished());
            (waiting, arrivals.count_rest(max))
        };
        assert_eq!(count(u64::MAX), (3, QUEUE_MAX as u64 + 96));
        assert_eq!(count(1), (3, QUEUE_MAX as u64), "no longer than that");
    }
}
