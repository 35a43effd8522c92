//! A host that sends failed requests again.
//!
//! ```text
//! Workload ──Request──▶ Retrying ──Request, a new number──▶ Device
//!     ▲                    │ ▲ └─ after a wait: again ─────────┘
//!     └── completed ───────┘ └───────── failed ────────────────
//! ```
//! The workload is notified of a request once: when the request was carried out, or when its last attempt failed. A
//! closed workload therefore waits until the host gives up. Every attempt is a request of the device, and a row of a
//! trace.
//!
//! # Scope and limits
//! A request that the device refuses ([`WriteProtected`](Status::WriteProtected), [`NoSpace`](Status::NoSpace)) is not
//! sent again: the device would refuse it again. A request that becomes more pressing stays so in the attempts that follow.

use std::collections::{BTreeMap, VecDeque};

use seeklab_core::{
    Arrival, Completion, Duration, Instant, Reclassification, Request, RequestId, Status, Workload,
};

/// Attempts of a host after a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retries {
    /// Attempts after the first one.
    pub count: u32,
    /// Time from a failure to the next attempt.
    pub after: Duration,
}

impl Retries {
    /// Longest time from a failure to the next attempt: a day.
    pub const AFTER_MAX: Duration = Duration::from_s(86_400);

    /// Returns true if a request that ended so is sent again after `attempts` attempts.
    pub const fn sends_again(&self, status: Status, attempts: u32) -> bool {
        let is_refused = matches!(status, Status::WriteProtected | Status::NoSpace);
        !status.is_success() && !is_refused && attempts <= self.count
    }
}

/// Counts of the retries of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetryCounts {
    /// Attempts after the first one of a request.
    pub retries: u64,
    /// Requests that a retry carried out.
    pub retried_requests: u64,
    /// Requests that were not carried out.
    pub abandoned_requests: u64,
}

/// A workload whose failed requests are sent again.
#[derive(Debug)]
pub struct Retrying<W> {
    workload: W,
    retries: Retries,
    /// Attempts so far; their numbers are those of the device's requests.
    sent: u64,
    outstanding: BTreeMap<RequestId, Attempt>,
    /// Failed requests in order of their next attempt, with its time.
    waiting: VecDeque<(Instant, Attempt)>,
    counts: RetryCounts,
}

#[derive(Debug, Clone, Copy)]
struct Attempt {
    /// The request, by the workload's number.
    request: Request,
    /// Number of this attempt, the first is 1.
    number: u32,
}

impl<W> Retrying<W> {
    /// Sends failed requests of `workload` again.
    pub const fn new(workload: W, retries: Retries) -> Self {
        Self {
            workload,
            retries,
            sent: 0,
            outstanding: BTreeMap::new(),
            waiting: VecDeque::new(),
            counts: RetryCounts { retries: 0, retried_requests: 0, abandoned_requests: 0 },
        }
    }

    /// Returns the counts so far.
    pub const fn counts(&self) -> RetryCounts {
        self.counts
    }

    fn send(&mut self, attempt: Attempt) -> Arrival {
        let id = RequestId(self.sent);
        self.sent += 1;
        self.outstanding.insert(id, attempt);
        Arrival::Request(Request { id, ..attempt.request })
    }

    /// Makes a request more pressing, in this attempt and in those that follow. Returns the change with the number of the
    /// attempt that is outstanding, `None` if there is none.
    fn reclassify(&mut self, change: Reclassification) -> Option<Reclassification> {
        let is_meant = |attempt: &Attempt| attempt.request.id == change.id;
        if let Some((_, attempt)) = self.waiting.iter_mut().find(|(_, attempt)| is_meant(attempt)) {
            attempt.request.reclassify(change.criticality);
            return None;
        }
        let (id, attempt) = self.outstanding.iter_mut().find(|(_, attempt)| is_meant(attempt))?;
        attempt.request.reclassify(change.criticality);
        Some(Reclassification { id: *id, ..change })
    }
}

impl<W: Workload> Workload for Retrying<W> {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        let again = self.waiting.front().map(|(time, _)| *time);
        if again.is_some_and(|time| time <= now) {
            let (_, attempt) = self.waiting.pop_front().expect("the first is there");
            self.counts.retries += 1;
            return self.send(Attempt { number: attempt.number + 1, ..attempt });
        }
        let next = loop {
            match self.workload.next_arrival(now) {
                Arrival::Reclassification(change) => {
                    if let Some(change) = self.reclassify(change) {
                        return Arrival::Reclassification(change);
                    }
                }
                next => break next,
            }
        };
        match (next, again) {
            (Arrival::Request(request), _) => self.send(Attempt { request, number: 1 }),
            (Arrival::At(time), Some(again)) => Arrival::At(time.min(again)),
            (Arrival::WaitForCompletion | Arrival::Finished, Some(again)) => Arrival::At(again),
            // An outstanding request may fail and be sent again.
            (Arrival::Finished, None) if !self.outstanding.is_empty() => Arrival::WaitForCompletion,
            (next, None) | (next @ Arrival::Reclassification(_), _) => next,
        }
    }

    fn completed(&mut self, completion: &Completion) {
        let id = completion.request.id;
        let attempt = self.outstanding.remove(&id).expect("an outstanding request completes");
        let status = completion.outcome.status;
        if self.retries.sends_again(status, attempt.number) {
            // All wait for the same time, so they stay in order.
            self.waiting.push_back((completion.completed + self.retries.after, attempt));
            return;
        }
        self.counts.abandoned_requests += u64::from(!status.is_success());
        self.counts.retried_requests += u64::from(status.is_success() && attempt.number > 1);
        self.workload.completed(&Completion { request: attempt.request, ..*completion });
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Breakdown, BufferOutcome, FaultSet, Operation, Outcome};

    use super::*;

    /// Two requests, the second when the first is complete.
    #[derive(Default)]
    struct Pair {
        sent: u64,
        completed: Vec<(u64, Status)>,
    }

    impl Workload for Pair {
        fn next_arrival(&mut self, _: Instant) -> Arrival {
            match (self.sent, self.completed.len()) {
                (0, _) | (1, 1) => {
                    self.sent += 1;
                    Arrival::Request(Request::new(self.sent - 1, Operation::Read, 8, 8))
                }
                (1, _) => Arrival::WaitForCompletion,
                _ => Arrival::Finished,
            }
        }

        fn completed(&mut self, completion: &Completion) {
            self.completed.push((completion.request.id.0, completion.outcome.status));
        }
    }

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn completion(request: Request, at: Instant, status: Status) -> Completion {
        Completion {
            request,
            submitted: at,
            issued: at,
            started: at,
            completed: at,
            breakdown: Breakdown::default(),
            outcome: Outcome { status, ..Outcome::default() },
            buffer: BufferOutcome::None,
            seek_cylinders: 0,
            queue_length: 0,
            faults: FaultSet::NONE,
        }
    }

    #[test]
    fn failed_request_is_sent_again_and_the_workload_waits() {
        let mut retrying = Retrying::new(Pair::default(), Retries { count: 2, after: Duration::from_ms(5) });
        let send = |retrying: &mut Retrying<Pair>, now| match retrying.next_arrival(now) {
            Arrival::Request(request) => request,
            other => panic!("{other:?}"),
        };
        let first = send(&mut retrying, ms(0));
        assert_eq!(retrying.next_arrival(ms(0)), Arrival::WaitForCompletion);
        retrying.completed(&completion(first, ms(1), Status::MediumError));
        assert_eq!(retrying.next_arrival(ms(1)), Arrival::At(ms(6)));
        let second = send(&mut retrying, ms(6));
        assert_eq!((second.id, second.lbn, second.blocks), (RequestId(1), first.lbn, first.blocks));
        retrying.completed(&completion(second, ms(7), Status::Recovered));
        assert_eq!(retrying.workload.completed, [(0, Status::Recovered)]);
        // The next fails three times: the host gives up.
        for attempt in 0..3 {
            let now = ms(10 + 10 * attempt);
            let request = send(&mut retrying, now);
            assert_eq!(request.id.0, 2 + attempt);
            retrying.completed(&completion(request, now, Status::Aborted));
        }
        assert_eq!(retrying.next_arrival(ms(100)), Arrival::Finished);
        assert_eq!(retrying.workload.completed[1], (1, Status::Aborted));
        let counts = RetryCounts { retries: 3, retried_requests: 1, abandoned_requests: 1 };
        assert_eq!(retrying.counts(), counts);
    }

    #[test]
    fn refused_request_is_not_sent_again() {
        let retries = Retries { count: 9, after: Duration::ZERO };
        for status in Status::ALL {
            let expected =
                matches!(status, Status::MediumError | Status::Aborted | Status::Timeout | Status::Gone);
            assert_eq!(retries.sends_again(status, 9), expected, "{status:?}");
            assert!(!retries.sends_again(status, 10), "{status:?}");
        }
    }
}
