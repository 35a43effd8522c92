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

/// Event of a request. At equal times, events happen in this order, as at a [`Station`](seeklab_devices::station::Station): when a
/// request completes, its server takes one of those that wait, before others arrive, be it in answer to that completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The request completes.
    Completion,
    /// Its service starts, after its arrival.
    Start,
    /// The request arrives.
    Arrival,
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
            let arrival = Some(next[2] as u32).filter(|_| next[2] < run.len());
            let start = starts.get(next[1]).copied().filter(|index| (*index as usize) < next[2]);
            let first = [
                completion.map(|index| (run[index as usize].completion, Event::Completion, index)),
                start.map(|index| (self.starts[index as usize], Event::Start, index)),
                arrival.map(|index| (run[index as usize].arrival, Event::Arrival, index)),
            ];
            let first = first.into_iter().flatten().min()?;
            next[first.1 as usize] += 1;
            Some(first)
        })
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Operation;
    use seeklab_devices::station::parts::StationRequest;

    use super::*;

    /// The events from 10 ns on of three requests, the last of which arrives as the first completes.
    fn events_from_10(completions: [u64; 3]) -> Vec<(u64, Event, u32)> {
        let asked = StationRequest { op: Operation::Read, lbn: 0, blocks: 8, fua: false };
        let requests = [0, 1, 10].into_iter().zip(completions).map(|(arrival, completion)| RecordedRequest {
            arrival: Instant::from_ns(arrival),
            completion: Instant::from_ns(completion),
            asked,
            counts: true,
            is_seen: true,
        });
        let run: Vec<RecordedRequest> = requests.collect();
        let starts = Starts::of(&run, 1, &StopCheck::default()).unwrap();
        let events = starts.events(&run).map(|(time, event, index)| (time.as_ns(), event, index));
        events.skip_while(|(time, ..)| *time < 10).collect()
    }

    #[test]
    fn request_that_arrives_as_another_completes_comes_after_the_start_of_the_next() {
        let (completion, start, arrival) = (Event::Completion, Event::Start, Event::Arrival);
        let in_order = [(10, completion, 0), (10, start, 1), (10, arrival, 2), (20, completion, 1)];
        assert_eq!(events_from_10([10, 20, 30])[..4], in_order);
        // It was taken itself.
        let overtakes = [(10, completion, 0), (10, arrival, 2), (10, start, 2), (20, completion, 2)];
        assert_eq!(events_from_10([10, 30, 20])[..4], overtakes);
    }
}
