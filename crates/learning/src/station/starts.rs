//! Starts of services, from arrivals and completions alone.
//!
//! # Rule
//! The station has a number of servers, and none idles while a request waits. Requests start in order of
//! arrival, until a request completes that should still wait. That request had then been taken in place of
//! the request that started last, which waits on, first in line. So with one server, requests were served in
//! the order in which they completed.

use std::collections::VecDeque;

use seeklab_core::Instant;

use super::sample::RecordedRequest;
use crate::error::Error;
use crate::stop::StopCheck;

/// Event of a request. At equal times, events happen in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The request completes.
    Completion,
    /// The request arrives.
    Arrival,
    /// Its service starts.
    Start,
}

/// Start of each service of a run.
#[derive(Debug, Clone)]
pub(super) struct Starts {
    pub(super) starts: Vec<Instant>,
    /// The order in which requests complete.
    completions: Vec<u32>,
    /// Requests taken in place of earlier ones.
    pub(super) overtaking: u64,
}

/// The order in which requests complete.
pub(super) fn in_order_of_completion(run: &[RecordedRequest]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..run.len() as u32).collect();
    order.sort_by_key(|index| run[*index as usize].completion);
    order
}

impl Starts {
    /// The starts at a station of `servers`.
    pub(super) fn of(run: &[RecordedRequest], servers: usize, stop: &StopCheck) -> Result<Self, Error> {
        let mut starts: Vec<Instant> = run.iter().map(|seen| seen.arrival).collect();
        let mut overtaking = 0;
        let mut waiting: VecDeque<u32> = VecDeque::new();
        let mut served: Vec<u32> = Vec::new();
        let mut arrived = 0;
        let completions = in_order_of_completion(run);
        for (step, index) in completions.iter().copied().enumerate() {
            stop.check_at(step)?;
            let now = run[index as usize].completion;
            while arrived < run.len() && run[arrived].arrival < now {
                if served.len() < servers {
                    served.push(arrived as u32);
                } else {
                    waiting.push_back(arrived as u32);
                }
                arrived += 1;
            }
            let place = served.iter().position(|served| *served == index).unwrap_or_else(|| {
                let place = waiting.iter().position(|waits| *waits == index).expect("it has arrived");
                waiting.remove(place);
                let last = served.pop().expect("no server idles while a request waits");
                let since = starts[last as usize];
                starts[index as usize] = since.max(run[index as usize].arrival);
                waiting.push_front(last);
                served.push(index);
                overtaking += 1;
                served.len() - 1
            });
            served.remove(place);
            if let Some(next) = waiting.pop_front() {
                starts[next as usize] = now;
                served.push(next);
            }
        }
        // A service takes time, however short.
        for (start, seen) in starts.iter_mut().zip(run) {
            *start = (*start).min(Instant::from_ns(seen.completion.as_ns() - 1));
        }
        Ok(Self { starts, completions, overtaking })
    }

    /// Returns the events of a run, in order: those of each kind, merged.
    pub(super) fn events(&self, run: &[RecordedRequest]) -> impl Iterator<Item = (Instant, Event, u32)> {
        let mut starts: Vec<u32> = (0..run.len() as u32).collect();
        starts.sort_by_key(|index| self.starts[*index as usize]);
        let mut next = [0; 3];
        std::iter::from_fn(move || {
            let completion = self.completions.get(next[0]).copied();
            let arrival = Some(next[1] as u32).filter(|_| next[1] < run.len());
            let start = starts.get(next[2]).copied();
            let first = [
                completion.map(|index| (run[index as usize].completion, Event::Completion, index)),
                arrival.map(|index| (run[index as usize].arrival, Event::Arrival, index)),
                start.map(|index| (self.starts[index as usize], Event::Start, index)),
            ];
            let first = first.into_iter().flatten().min()?;
            next[first.1 as usize] += 1;
            Some(first)
        })
    }
}
