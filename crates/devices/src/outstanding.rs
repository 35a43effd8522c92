//! Requests outstanding in a model, and the number outstanding in a trace, for every model that is fitted to
//! traces.
//!
//! # Scope and limits
//! Both are fastest with a few dozen outstanding requests, as devices have. With thousands, each costs a
//! logarithm.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seeklab_core::Instant;

/// Things that happen later, in order of time; of two at once the first pushed comes first.
///
/// What is moved about is small; the things themselves stay in their place.
#[derive(Debug, Clone)]
pub(crate) struct Outstanding<T> {
    /// Time, ascending number, and place of each entry.
    order: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    things: Vec<T>,
    /// Places that hold nothing any more.
    free: Vec<u32>,
    pushed: u64,
}

impl<T> Default for Outstanding<T> {
    fn default() -> Self {
        Self { order: BinaryHeap::new(), things: Vec::new(), free: Vec::new(), pushed: 0 }
    }
}

impl<T: Copy> Outstanding<T> {
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns the time of the next entry.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.peek().map(|Reverse((at, ..))| *at)
    }

    /// Adds `thing`, to happen at `at`.
    ///
    /// # Panics
    /// If there are 2^32 entries already.
    pub(crate) fn push(&mut self, at: Instant, thing: T) {
        let place = match self.free.pop() {
            Some(place) => {
                self.things[place as usize] = thing;
                place
            }
            None => {
                self.things.push(thing);
                u32::try_from(self.things.len() - 1).expect("there is memory for fewer than 2^32")
            }
        };
        self.order.push(Reverse((at, self.pushed, place)));
        self.pushed += 1;
    }

    /// The next that happens until then, and when.
    pub(crate) fn pop(&mut self, until: Instant) -> Option<(Instant, T)> {
        let &Reverse((at, _, place)) = self.order.peek()?;
        if at > until {
            return None;
        }
        self.order.pop();
        self.free.push(place);
        Some((at, self.things[place as usize]))
    }

    /// Becomes as `other`; allocates only where that holds more than this ever did.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.order.clone_from(&other.order);
        self.things.clone_from(&other.things);
        self.free.clone_from(&other.free);
        self.pushed = other.pushed;
    }
}

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
        fn entries_come_in_order_of_time_then_of_arrival(
            steps in prop::collection::vec((0_u64..20, 0_u64..100), 1..300)
        ) {
            let (mut outstanding, mut expected) = (Outstanding::default(), Vec::new());
            let (mut copy, mut seen, mut now) = (Outstanding::default(), Vec::new(), 0);
            for (number, (passes, lasts)) in steps.into_iter().enumerate() {
                now += passes;
                while let Some((at, number)) = outstanding.pop(Instant::from_ns(now)) {
                    seen.push((at.as_ns(), number));
                }
                outstanding.push(Instant::from_ns(now + lasts), number);
                expected.push((now + lasts, number));
                copy.copy_from(&outstanding);
                prop_assert_eq!(copy.next(), outstanding.next());
                std::mem::swap(&mut copy, &mut outstanding);
            }
            while let Some(next) = outstanding.next() {
                let (at, number) = outstanding.pop(next).unwrap();
                prop_assert_eq!(at, next);
                seen.push((at.as_ns(), number));
            }
            expected.sort_unstable();
            prop_assert_eq!(outstanding.len(), 0);
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn any_number_of_outstanding_requests_is_counted(
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
