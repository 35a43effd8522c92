//! A trace as the input of a limit: costs, arrivals and completions.

use std::collections::VecDeque;

use seeklab_core::{Instant, Operation};
use seeklab_devices::limit::Limited;

use super::history::History;

/// Unit that a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Requests.
    Requests,
    /// Blocks of what reads and writes move.
    Blocks,
}

/// Costs of a request in each [`Unit`].
pub(super) type Costs = [f64; 2];

/// Sequential streams that are distinguished.
const STREAMS: usize = 16;

/// A request that completed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed {
    /// Time of arrival, or of passing the limits that are already known.
    pub(crate) arrival: Instant,
    /// After its arrival.
    pub(crate) completion: Instant,
    pub(crate) op: Operation,
    pub(crate) lbn: u64,
    pub(crate) blocks: u32,
}

/// Kind of a request, by which a device without limits may differ: operation, length by powers of four, and sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestKind {
    op: Operation,
    length: u8,
    is_sequential: bool,
}

/// Requests that a limit is of, and what each costs.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) runs: Vec<Run>,
    /// Mean costs of a request.
    pub(super) costs_mean: Costs,
    /// A response time that nearly all exceed, in nanoseconds: half of the percent that is shortest.
    pub(super) response_min: f64,
}

/// A part of the trace without gaps, in nanoseconds since its first arrival.
#[derive(Debug)]
pub(super) struct Run {
    /// Its first arrival.
    pub(super) origin: Instant,
    /// Completions since the run before: nanoseconds, and costs.
    pub(super) before: Vec<(f64, Costs)>,
    /// In order of arrival.
    pub(super) requests: Vec<Charged>,
    /// The same by completion, as places in `requests`.
    pub(super) completed: Vec<u32>,
}

impl Run {
    /// Time of a completion, by its number.
    pub(super) fn completion(&self, number: usize) -> f64 {
        self.requests[self.completed[number] as usize].completion
    }
}

/// A request with what it costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Charged {
    pub(super) arrival: f64,
    pub(super) completion: f64,
    pub(super) costs: Costs,
    /// Its place among all requests of the run.
    pub(super) place: u32,
    pub(super) kind: RequestKind,
}

impl Charged {
    pub(super) fn response(&self) -> f64 {
        self.completion - self.arrival
    }

    #[cfg(test)]
    pub(super) fn read([arrival, completion]: [f64; 2], costs: Costs, place: u32) -> Self {
        let kind = RequestKind { op: Operation::Read, length: 1, is_sequential: false };
        Self { arrival, completion, costs, place, kind }
    }
}

impl Traffic {
    /// Returns the traffic of the limited operations; `None` if there are no such requests.
    pub(super) fn of(runs: &[Vec<Passed>], history: &History, of: Limited) -> Option<Self> {
        let mut all = Vec::new();
        let mut until = None;
        for run in runs {
            let origin = run.iter().map(|passed| passed.arrival).min().unwrap_or_default();
            let before = until.map_or_else(Vec::new, |until| {
                let steps = history.between(until, origin, of);
                steps.collect()
            });
            let mut streams = Streams::default();
            let mut requests: Vec<Charged> = (0..)
                .zip(run)
                .map(|(place, passed)| (place, passed, streams.kind(passed)))
                .filter(|(_, passed, _)| of.holds(passed.op))
                .map(|(place, passed, kind)| Charged {
                    arrival: passed.arrival.saturating_since(origin).as_ns() as f64,
                    completion: passed.completion.saturating_since(origin).as_ns() as f64,
                    costs: costs(passed),
                    place,
                    kind,
                })
                .collect();
            // A limit that is known holds up some, and others go past them.
            requests.sort_by(|one, other| one.arrival.total_cmp(&other.arrival));
            let mut completed: Vec<u32> = (0..requests.len() as u32).collect();
            completed.sort_by(|one, other| {
                let [one, other] = [one, other].map(|place| requests[*place as usize].completion);
                one.total_cmp(&other)
            });
            until = run.iter().map(|passed| passed.completion).max().or(until);
            all.push(Run { origin, before, requests, completed });
        }
        let count: usize = all.iter().map(|run| run.requests.len()).sum();
        if count == 0 {
            return None;
        }
        let requests = || all.iter().flat_map(|run| &run.requests);
        let mean = |unit: usize| requests().map(|request| request.costs[unit]).sum::<f64>() / count as f64;
        let costs_mean = [0, 1].map(mean);
        let mut responses: Vec<f64> = requests().map(Charged::response).collect();
        let response_min = 0.5 * quantile(&mut responses, 0.01);
        Some(Self { runs: all, costs_mean, response_min })
    }

    /// All its requests.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Charged> {
        self.runs.iter().flat_map(|run| &run.requests)
    }
}

/// Ends of the streams, the last one first.
#[derive(Debug, Default)]
struct Streams {
    ends: VecDeque<u64>,
}

impl Streams {
    /// The kind of the next request.
    fn kind(&mut self, passed: &Passed) -> RequestKind {
        let found = self.ends.iter().position(|end| *end == passed.lbn);
        if let Some(place) = found {
            self.ends.remove(place);
        } else if self.ends.len() >= STREAMS {
            self.ends.pop_back();
        }
        self.ends.push_front(passed.lbn.saturating_add(u64::from(passed.blocks)));
        let length = (passed.blocks.max(1).ilog2() / 2) as u8;
        RequestKind { op: passed.op, length, is_sequential: found.is_some() }
    }
}

/// Lengths of requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lengths {
    /// Mean, in blocks.
    pub(super) mean: f64,
    /// True if all are the same, up to a standard deviation of 1 % of the mean.
    pub(super) is_even: bool,
}

impl Lengths {
    /// Returns the lengths of the limited operations; `None` if there are no such requests.
    pub(super) fn of(runs: &[Vec<Passed>], of: Limited) -> Option<Self> {
        let costs = || {
            let limited = runs.iter().flatten().filter(|passed| of.holds(passed.op));
            limited.map(|passed| costs(passed)[Unit::Blocks as usize])
        };
        let count = costs().count() as f64;
        let mean = costs().sum::<f64>() / count;
        let beyond = costs().map(|cost| (cost - mean).powi(2)).sum::<f64>() / count;
        (count > 0.0).then(|| Self { mean, is_even: beyond.sqrt() <= 0.01 * mean })
    }
}

/// Returns the costs of a request.
fn costs(passed: &Passed) -> Costs {
    let blocks = match passed.op {
        Operation::Read | Operation::Write => f64::from(passed.blocks),
        _ => 0.0,
    };
    [1.0, blocks]
}

/// A quantile of values, of which there is at least one.
pub(super) fn quantile(values: &mut [f64], share: f64) -> f64 {
    let place = ((values.len() as f64 * share) as usize).min(values.len() - 1);
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}
