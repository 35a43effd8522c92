//! Requests outstanding in a model.
//!
//! # Scope and limits
//! At its best with a few dozen outstanding, as devices have; thousands cost a logarithm each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seeklab_core::Instant;

/// Things that happen later, in order of time; of two at once the first pushed comes first.
///
/// Sorting moves small entries only; the things themselves stay in their place.
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

    /// An outstanding thing that is wanted.
    pub(crate) fn find_mut(&mut self, is_wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let mut places = self.order.iter().map(|Reverse((.., place))| *place as usize);
        let place = places.find(|place| is_wanted(&self.things[*place]))?;
        Some(&mut self.things[place])
    }

    /// Becomes as `other`; allocates only where that holds more than this ever did.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.order.clone_from(&other.order);
        self.things.clone_from(&other.things);
        self.free.clone_from(&other.free);
        self.pushed = other.pushed;
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
                prop_assert_eq!(outstanding.find_mut(|other| *other == number), Some(&mut { number }));
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
            prop_assert_eq!(outstanding.find_mut(|_| true), None, "what has happened is not found");
            prop_assert_eq!(outstanding.len(), 0);
            prop_assert_eq!(seen, expected);
        }
    }
}
