//! One open schedule for several threads: each takes the requests whose numbers are its own.

use seeklab_core::{Arrival, Completion, Instant, Workload};

/// The share of one thread of a workload that heeds no completions: request *n* goes to thread *n* modulo the number of
/// threads. Every thread draws the whole schedule, so no lock is needed, and the number of threads changes no request.
#[derive(Debug)]
pub struct Dealt<W> {
    workload: W,
    index: u64,
    threads: u64,
}

impl<W> Dealt<W> {
    /// The share of thread `index` of so many.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn new(workload: W, index: u32, threads: u32) -> Self {
        assert!(index < threads, "thread {index} of {threads}");
        Self { workload, index: index.into(), threads: threads.into() }
    }
}

impl<W: Workload> Workload for Dealt<W> {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        loop {
            match self.workload.next_arrival(now) {
                Arrival::Request(request) if request.id.0 % self.threads != self.index => {}
                Arrival::Reclassification(change) if change.id.0 % self.threads != self.index => {}
                next => return next,
            }
        }
    }

    fn completed(&mut self, completion: &Completion) {
        self.workload.completed(completion);
    }

    fn heeds_completions(&self) -> bool {
        self.workload.heeds_completions()
    }
}
