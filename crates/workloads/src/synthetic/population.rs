//! A closed population: each member has one request outstanding, or thinks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use seeklab_core::{Duration, Instant, Stream};

use super::arrivals::TimeDistribution;

/// Time at which a member is done with thinking, the number of those that began to think before it, and its number.
type Ready = (Instant, u64, u32);

/// Members and the times at which those who think will be done; at equal times, who began first.
#[derive(Debug, Clone)]
pub(super) struct Population {
    /// Members who are done in the order in which they began: all, unless think times are drawn. They need no heap.
    in_order: VecDeque<Ready>,
    /// Members who are done before one of those.
    earlier: BinaryHeap<Reverse<Ready>>,
    began: u64,
    think: Duration,
    distribution: TimeDistribution,
}

impl Population {
    /// A population that is ready at the start.
    pub(super) fn new(members: u32, think: Duration, distribution: TimeDistribution) -> Self {
        let mut population = Self {
            in_order: VecDeque::with_capacity(members as usize),
            earlier: BinaryHeap::with_capacity(members as usize),
            began: 0,
            think,
            distribution,
        };
        for member in 0..members {
            population.ready_at(Instant::ZERO, member);
        }
        population
    }

    /// Keeps the members that are `wanted`, and leaves the others out.
    pub(super) fn keep(&mut self, wanted: impl Fn(u32) -> bool) {
        self.in_order.retain(|(.., member)| wanted(*member));
        self.earlier.retain(|Reverse((.., member))| wanted(*member));
    }

    fn ready_at(&mut self, time: Instant, member: u32) {
        let ready = (time, self.began, member);
        self.began += 1;
        match self.in_order.back() {
            Some((last, ..)) if *last > time => self.earlier.push(Reverse(ready)),
            _ => self.in_order.push_back(ready),
        }
    }

    /// The member's request completed at `completed`; it begins to think.
    pub(super) fn completed(&mut self, completed: Instant, member: u32, stream: &mut Stream) {
        let think = match self.distribution {
            TimeDistribution::Constant => self.think,
            TimeDistribution::Exponential => stream.exponential(self.think),
        };
        self.ready_at(completed + think, member);
    }

    /// Returns the time at which the next member is ready, `None` while all wait for completions.
    pub(super) fn next_ready(&self) -> Option<Instant> {
        let earlier = self.earlier.peek().map(|Reverse((time, ..))| *time);
        let in_order = self.in_order.front().map(|(time, ..)| *time);
        earlier.into_iter().chain(in_order).min()
    }

    /// Takes the member that is ready next.
    pub(super) fn take(&mut self) -> Option<u32> {
        let ready = match (self.earlier.peek(), self.in_order.front()) {
            (Some(Reverse(earlier)), in_order) if in_order.is_none_or(|in_order| earlier < in_order) => {
                self.earlier.pop().map(|Reverse(earlier)| earlier)
            }
            _ => self.in_order.pop_front(),
        };
        ready.map(|(.., member)| member)
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Seed;

    use super::*;

    #[test]
    fn members_are_ready_in_order_of_time_and_of_their_begin() {
        let mut stream = Seed(1).stream("workload.think");
        for distribution in [TimeDistribution::Constant, TimeDistribution::Exponential] {
            let mut population = Population::new(8, Duration::from_us(50), distribution);
            // The members with the times at which they are done, in the order in which they began.
            let mut expected: Vec<(Instant, u32)> = (0..8).map(|member| (Instant::ZERO, member)).collect();
            for step in 0..2_000 {
                let first = (0..expected.len()).min_by_key(|place| expected[*place].0).unwrap();
                let (time, member) = expected.remove(first);
                assert_eq!(population.next_ready(), Some(time), "{distribution:?}, step {step}");
                assert_eq!(population.take(), Some(member), "{distribution:?}, step {step}");
                let completed = time + Duration::from_us(step % 3);
                let mut drawn = stream.clone();
                population.completed(completed, member, &mut stream);
                let think = match distribution {
                    TimeDistribution::Constant => population.think,
                    TimeDistribution::Exponential => drawn.exponential(population.think),
                };
                expected.push((completed + think, member));
            }
            let is_drawn = distribution == TimeDistribution::Exponential;
            assert!(population.earlier.is_empty() || is_drawn, "a constant think time needs no heap");
        }
    }
}
