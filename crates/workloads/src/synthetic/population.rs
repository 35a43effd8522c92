//! A closed population: each member has one request outstanding, or thinks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seeklab_core::{Duration, Instant, Stream};

use super::arrivals::TimeDistribution;

/// Members and when those who think will be done; at equal times, who began first.
#[derive(Debug, Clone)]
pub(super) struct Population {
    thinking: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    began: u64,
    think: Duration,
    distribution: TimeDistribution,
}

impl Population {
    /// A population that is ready at the start.
    pub(super) fn new(members: u32, think: Duration, distribution: TimeDistribution) -> Self {
        let mut population =
            Self { thinking: BinaryHeap::with_capacity(members as usize), began: 0, think, distribution };
        for member in 0..members {
            population.ready_at(Instant::ZERO, member);
        }
        population
    }

    /// Keeps the members that are `wanted`, and leaves the others out.
    pub(super) fn keep(&mut self, wanted: impl Fn(u32) -> bool) {
        self.thinking.retain(|Reverse((.., member))| wanted(*member));
    }

    fn ready_at(&mut self, time: Instant, member: u32) {
        self.thinking.push(Reverse((time, self.began, member)));
        self.began += 1;
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
        self.thinking.peek().map(|Reverse((time, ..))| *time)
    }

    /// Takes the member that is ready next.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.thinking.pop().map(|Reverse((.., member))| member)
    }
}
