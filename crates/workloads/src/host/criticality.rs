//! Classes of requests: their class at issue, and when a process first needs them.
//!
//! A demand read or a synchronous write is time-critical. A read-ahead or an asynchronous write is time-limited. A write
//! of the syncer is time-noncritical \[Ganger & Patt 1998, section 2\]. The *time limit* of a read-ahead is the time from
//! its issue to the first access to its block. The limit is met if the read was complete by then. A pending request that
//! a process comes to wait for becomes time-critical. The device gets this as a
//! [reclassification](seeklab_core::Reclassification); the figures keep the class at issue.

use std::collections::VecDeque;
use std::ops::Range;

use seeklab_core::{Criticality, Duration, Instant, Operation};

/// Owner of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A frame of the page cache.
    Frame(u32),
    /// A process that waits for requests past the page cache.
    Process(u32),
    /// An asynchronous transfer past the page cache.
    Transfer(u32),
    /// Nobody waits.
    Nobody,
}

/// A request that the device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outstanding {
    pub(super) owner: Owner,
    /// Class at issue.
    pub(super) class: Criticality,
    pub(super) op: Operation,
    /// Process that issued it.
    pub(super) initiator: u32,
    pub(super) issued: Instant,
    /// True if a process waits that did not at issue.
    pub(super) is_awaited: bool,
    /// True if the device has completed the request, and its interrupt has not been handled.
    pub(super) is_complete: bool,
}

impl Outstanding {
    /// A request that is issued now.
    pub(super) const fn new(
        owner: Owner,
        class: Criticality,
        op: Operation,
        initiator: u32,
        issued: Instant,
    ) -> Self {
        Self { owner, class, op, initiator, issued, is_awaited: false, is_complete: false }
    }
}

/// Requests that the device has, by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Requests {
    /// Number of the first request in the queue.
    first: u64,
    queue: VecDeque<Option<Outstanding>>,
    count: usize,
}

impl Requests {
    /// Number of the next request.
    pub(super) fn next(&self) -> u64 {
        self.first + self.queue.len() as u64
    }

    /// Numbers of the requests that the device may have.
    pub(super) fn numbers(&self) -> Range<u64> {
        self.first..self.next()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of requests whose completion has not been handled.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn add(&mut self, request: Outstanding) -> u64 {
        let number = self.next();
        self.queue.push_back(Some(request));
        self.count += 1;
        number
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Outstanding> {
        self.queue.get_mut(number.checked_sub(self.first)? as usize)?.as_mut()
    }

    /// Takes a request that is complete.
    ///
    /// # Panics
    /// If the request is not outstanding.
    pub(super) fn remove(&mut self, number: u64) -> Outstanding {
        let index = number.checked_sub(self.first).map(|index| index as usize);
        let slot = index.and_then(|index| self.queue.get_mut(index));
        let request = slot.and_then(Option::take).expect("an outstanding request completes");
        self.count -= 1;
        while let Some(None) = self.queue.front() {
            self.queue.pop_front();
            self.first += 1;
        }
        request
    }
}

/// Figures of the requests of one class at issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassFigures {
    /// Requests that completed.
    pub requests: u64,
    /// Sum of their response times.
    pub response_sum: Duration,
    /// Longest response time.
    pub response_max: Duration,
    /// Requests that a process needed after their issue, so that they had a time limit.
    pub limits: u64,
    /// Sum of the time limits.
    pub limit_sum: Duration,
    /// Time limits that were met.
    pub limits_met: u64,
}

impl ClassFigures {
    /// Mean response time.
    pub fn response_mean(&self) -> Option<Duration> {
        (self.requests > 0).then(|| self.response_sum / self.requests)
    }

    /// Mean time limit.
    pub fn limit_mean(&self) -> Option<Duration> {
        (self.limits > 0).then(|| self.limit_sum / self.limits)
    }

    /// Share of time limits that were met.
    pub fn met(&self) -> Option<f64> {
        (self.limits > 0).then(|| self.limits_met as f64 / self.limits as f64)
    }

    pub(super) fn complete(&mut self, response: Duration) {
        self.requests += 1;
        self.response_sum += response;
        self.response_max = self.response_max.max(response);
    }

    pub(super) fn need(&mut self, limit: Duration, is_met: bool) {
        self.limits += 1;
        self.limit_sum += limit;
        self.limits_met += u64::from(is_met);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_complete_in_any_order() {
        let request =
            Outstanding::new(Owner::Nobody, Criticality::TimeCritical, Operation::Read, 1, Instant::ZERO);
        let mut requests = Requests::default();
        for number in 0..4 {
            assert_eq!(requests.add(request), number);
        }
        for number in [2, 0, 3, 1] {
            assert!(requests.get_mut(number).is_some() && !requests.is_empty());
            assert_eq!(requests.remove(number), request);
            assert!(requests.get_mut(number).is_none());
        }
        assert!(requests.is_empty() && requests.queue.is_empty() && requests.next() == 4);
    }
}
