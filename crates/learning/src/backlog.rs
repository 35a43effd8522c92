//! Requests of a trace that are outstanding.
//!
//! # Scope and limits
//! At its best with a few dozen outstanding, as devices have; thousands cost a logarithm each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seeklab_core::Instant;

/// Completions that are looked at one by one.
const NEAR: usize = 32;

/// Counter of the outstanding requests of a trace, from their arrivals in order and their
/// completions.
#[derive(Debug, Clone)]
pub(crate) struct Backlog {
    /// Completions in no order; those beyond the count are over.
    near: [Instant; NEAR],
    count: usize,
    /// Completions for which `near` has no place.
    far: BinaryHeap<Reverse<Instant>>,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { near: [Instant::ZERO; NEAR], count: 0, far: BinaryHeap::new() }
    }
}

impl Backlog {
    /// Returns the number of requests outstanding at `now`, which must not lie before the previous call's
    /// `now`. A request that completes at `now` is not outstanding.
    pub(crate) fn at(&mut self, now: Instant) -> u32 {
        let mut kept = 0;
        for index in 0..self.count {
            let completion = self.near[index];
            self.near[kept] = completion;
            kept += usize::from(completion > now);
        }
        self.count = kept;
        while self.far.peek().is_some_and(|Reverse(completion)| *completion <= now) {
            self.far.pop();
        }
        u32::try_from(self.count + self.far.len()).unwrap_or(u32::MAX)
    }

    /// A request that will complete then.
    pub(crate) fn push(&mut self, completion: Instant) {
        if self.count < NEAR {
            self.near[self.count] = completion;
            self.count += 1;
        } else {
            self.far.push(Reverse(completion));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn outstanding_requests_are_counted_however_many(
            steps in prop::collection::vec((0_u64..20, 0_u64..2_000), 1..300)
        ) {
            let (mut backlog, mut all, mut now) = (Backlog::default(), Vec::new(), 0);
            for (passes, lasts) in steps {
                now += passes;
                let expected = all.iter().filter(|completion| **completion > now).count();
                prop_assert_eq!(backlog.at(Instant::from_ns(now)) as usize, expected);
                backlog.push(Instant::from_ns(now + lasts));
                all.push(now + lasts);
            }
        }
    }
}
