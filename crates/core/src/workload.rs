//! A workload decides when the next request arrives.

use crate::completion::Completion;
use crate::reclassification::Reclassification;
use crate::request::Request;
use crate::units::Instant;

/// Next arrival of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// This request arrives now.
    Request(Request),
    /// A pending request is more pressing from now on; ask again. It has no effect if the request is complete.
    Reclassification(Reclassification),
    /// Nothing arrives before this time; ask again then.
    At(Instant),
    /// Nothing arrives before a completion; ask again after one.
    WaitForCompletion,
    /// Nothing arrives any more.
    Finished,
}

/// A source of requests. Open, closed and system-level workloads differ only in what they do with
/// completions: nothing, issue the next, or wake a process that was waiting.
///
/// The event loop calls a workload again after every completion, for that may bring the next arrival forward;
/// this is why [`Arrival::At`] names a time and no request. One that
/// [heeds no completions](Workload::heeds_completions) by then is called at that time.
pub trait Workload {
    /// Returns the arrival at `now`. Called again until the answer is neither a request nor a reclassification.
    fn next_arrival(&mut self, now: Instant) -> Arrival;

    /// Notifies the workload that one of its requests is complete.
    fn completed(&mut self, completion: &Completion);

    /// Returns false if no completion brings an arrival forward that was announced as [`Arrival::At`]. The event loop then
    /// advances the device to it in one step, and the workload hears of the completions before it all at once.
    fn heeds_completions(&self) -> bool {
        true
    }

    /// Returns true if a request arrives at each time that was announced as [`Arrival::At`], unless a completion comes before. An
    /// announced time is otherwise the earliest at which one can arrive.
    fn announces_requests(&self) -> bool {
        false
    }
}

impl<W: Workload + ?Sized> Workload for &mut W {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        (**self).next_arrival(now)
    }
    fn completed(&mut self, completion: &Completion) {
        (**self).completed(completion);
    }
    fn heeds_completions(&self) -> bool {
        (**self).heeds_completions()
    }
    fn announces_requests(&self) -> bool {
        (**self).announces_requests()
    }
}

impl<W: Workload + ?Sized> Workload for Box<W> {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        (**self).next_arrival(now)
    }
    fn completed(&mut self, completion: &Completion) {
        (**self).completed(completion);
    }
    fn heeds_completions(&self) -> bool {
        (**self).heeds_completions()
    }
    fn announces_requests(&self) -> bool {
        (**self).announces_requests()
    }
}
