//! A workload decides when the next request arrives.

use crate::completion::Completion;
use crate::request::Request;
use crate::units::Instant;

/// Next arrival of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// This request arrives now.
    Request(Request),
    /// Nothing arrives before this time; ask again then.
    At(Instant),
    /// Nothing arrives before a completion; ask again after one.
    WaitForCompletion,
    /// Nothing arrives any more.
    Finished,
}

/// A source of requests. Open, closed and system-level workloads differ only in their reaction to a
/// completion: none, the next request, or waking a process that was waiting.
///
/// A workload is queried again after every completion, because a completion may bring the next
/// arrival forward. This is why [`Arrival::At`] names a time and no request.
pub trait Workload {
    /// Returns the arrival at `now`. Called again until the answer is not a request.
    fn next_arrival(&mut self, now: Instant) -> Arrival;

    /// Notifies the workload that one of its requests is complete.
    fn completed(&mut self, completion: &Completion);
}

impl<W: Workload + ?Sized> Workload for Box<W> {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        (**self).next_arrival(now)
    }
    fn completed(&mut self, completion: &Completion) {
        (**self).completed(completion);
    }
}
