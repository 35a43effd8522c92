//! Completed writes that wait for the media in the device behind a layer of faults, as far as the layer knows.
//!
//! A device takes a write in whole, and the write takes the place of what its blocks had in the buffer. Where a fault lets
//! a write fail, or tears or misdirects it, some of its blocks keep what they had: that data goes to the media in its place.
//!
//! # Scope and limits
//! Of two writes that are outstanding together, the one that the device began later counts as the newer.

use seeklab_core::{Instant, RequestId};

use crate::durability::Waiting;

/// Completed writes that wait for the media.
#[derive(Debug)]
pub(super) struct Buffered {
    /// By request and the time at which the device began it, by its clock.
    waiting: Waiting<(RequestId, Instant)>,
    /// Blocks of outstanding requests that are on the media already.
    early: Waiting<RequestId>,
    scratch: Vec<(u64, u64, (RequestId, Instant))>,
}

impl Buffered {
    pub(super) fn new() -> Self {
        Self { waiting: Waiting::new(), early: Waiting::new(), scratch: Vec::new() }
    }

    /// The device, which began the request at `started`, has completed its write of blocks `start..end`.
    pub(super) fn complete(&mut self, request: RequestId, started: Instant, (start, end): (u64, u64)) {
        if start >= end {
            return;
        }
        // What began later stays, and what is on the media waits no more.
        let newer = self.waiting.iter().filter(|(.., (_, other))| *other > started);
        self.scratch.clear();
        self.scratch.extend(newer.filter(|(from, to, _)| *from < end && start < *to));
        self.waiting.insert(start, end, (request, started));
        for (from, to, tag) in self.scratch.drain(..) {
            self.waiting.insert(from, to, tag);
        }
        for (from, to, _) in self.early.iter().filter(|(from, to, _)| *from < end && start < *to) {
            self.waiting.remove(from.max(start), to.min(end), |_, _, _| {});
        }
        self.early.retain(|_, _, early| early != request);
    }

    /// Blocks `start..end` of the request are on the media.
    pub(super) fn make_durable(
        &mut self,
        request: RequestId,
        is_outstanding: bool,
        (start, end): (u64, u64),
    ) {
        if is_outstanding {
            self.waiting.remove(start, end, |_, _, _| {});
            self.early.insert(start, end, request);
            return;
        }
        self.scratch.clear();
        // What came while they were written waits for another media write.
        let newer = |(_, _, (other, _)): &(u64, u64, (RequestId, Instant))| *other != request;
        let scratch = &mut self.scratch;
        self.waiting.remove(start, end, |from, to, tag| scratch.extend(Some((from, to, tag)).filter(newer)));
        for (from, to, tag) in self.scratch.drain(..) {
            self.waiting.insert(from, to, tag);
        }
    }

    /// Takes out what blocks `start..end` had before a request that the device began at `before`, and shows each part with
    /// its request. A request that is outstanding, `None`, is the newest.
    pub(super) fn take_older(
        &mut self,
        before: Option<Instant>,
        (start, end): (u64, u64),
        mut see: impl FnMut(u64, u64, RequestId),
    ) {
        if start >= end {
            return;
        }
        self.scratch.clear();
        let scratch = &mut self.scratch;
        self.waiting.remove(start, end, |from, to, (request, started)| {
            if before.is_none_or(|before| started < before) {
                see(from, to, request);
            } else {
                scratch.push((from, to, (request, started)));
            }
        });
        for (from, to, tag) in self.scratch.drain(..) {
            self.waiting.insert(from, to, tag);
        }
    }

    /// The buffer is empty, and nothing is outstanding.
    pub(super) fn clear(&mut self) {
        self.waiting.retain(|_, _, _| false);
        self.early.retain(|_, _, _| false);
    }
}

impl Clone for Buffered {
    fn clone(&self) -> Self {
        Self { waiting: self.waiting.clone(), early: self.early.clone(), scratch: Vec::new() }
    }

    fn clone_from(&mut self, source: &Self) {
        self.waiting.clone_from(&source.waiting);
        self.early.clone_from(&source.early);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    fn older(buffered: &mut Buffered, before: Option<Instant>, blocks: (u64, u64)) -> Vec<(u64, u64, u64)> {
        let mut older = Vec::new();
        buffered.take_older(before, blocks, |from, to, request| older.push((from, to, request.0)));
        older
    }

    #[test]
    fn older_data_is_that_of_completed_writes_that_wait() {
        let mut buffered = Buffered::new();
        buffered.complete(RequestId(1), us(10), (100, 110));
        buffered.complete(RequestId(2), us(20), (104, 106));
        // An earlier one that completes late does not come back.
        buffered.complete(RequestId(0), us(5), (102, 112));
        buffered.make_durable(RequestId(1), false, (108, 110));
        assert_eq!(
            older(&mut buffered.clone(), Some(us(15)), (100, 120)),
            [(100, 104, 1), (106, 108, 1), (110, 112, 0)]
        );
        assert_eq!(older(&mut buffered, None, (103, 107)), [(103, 104, 1), (104, 106, 2), (106, 107, 1)]);
        assert_eq!(older(&mut buffered, None, (101, 101)), []);
        assert_eq!(older(&mut buffered, None, (100, 120)), [(100, 103, 1), (107, 108, 1), (110, 112, 0)]);
    }

    #[test]
    fn blocks_on_the_media_before_their_request_completes_wait_no_more() {
        let mut buffered = Buffered::new();
        buffered.complete(RequestId(1), us(10), (100, 110));
        buffered.make_durable(RequestId(2), true, (100, 105));
        buffered.complete(RequestId(2), us(20), (100, 108));
        assert_eq!(older(&mut buffered, None, (0, 200)), [(105, 108, 2), (108, 110, 1)]);
        buffered.complete(RequestId(3), us(30), (100, 108));
        assert_eq!(older(&mut buffered, None, (0, 200)), [(100, 108, 3)], "the early blocks are forgotten");
    }
}
