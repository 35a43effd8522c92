//! Limits whose requests or bytes come back in portions, as those of Linux' cgroups do: so much at once after each interval.
//!
//! # Method
//! While such a limit holds requests, nothing completes until an interval ends, and then a portion does. A *pause* is a time in which no
//! request completed, and one was outstanding. From the first completion behind a pause to the first behind the
//! next, the interval passes and the portion completes.
//!
//! # Criteria
//! 1. [`STEPS`] times at least, and [`TYPICAL`] of all, the time from pause to pause is the same to [`INTERVAL`], and the cost that completes in it to
//!    [`PORTION`] and the cost of one request: of [`PORTION_LEAST`] requests at least.
//! 2. The device beneath is faster: [`FREE`] requests take at most [`SHORT`] of the interval. A device that serves many at once, each for the
//!    same time, has no such requests.
//! 3. The limit is obeyed: of the work, at most [`BEYOND`] completes in intervals that have more than two portions.

use super::traffic::{Traffic, Unit, quantile};
use super::trial::{CLOCK_NS, FREE};

/// Times from pause to pause that are alike, at least, and their share.
const STEPS: usize = 32;
const TYPICAL: f64 = 0.7;

/// Differences of these times and of the costs, at most.
const INTERVAL: f64 = 0.1;
const PORTION: f64 = 0.02;

/// Requests of a portion, at least.
const PORTION_LEAST: f64 = 4.0;

/// Response time of a request that did not wait, at most, by the interval.
const SHORT: f64 = 0.25;

/// Share of the work that may complete beyond two portions in an interval.
const BEYOND: f64 = 0.02;

/// Quantile of the costs of portions that is a whole one.
const FULL: f64 = 0.98;

/// Shares of the time of all pauses, the longest first, at which the length of one may be that of a limit: a limit may hold requests for a
/// part of the trace only.
const SHARES: [f64; 4] = [0.5, 0.2, 0.05, 0.01];

/// Factor by which one of these lengths exceeds the one before, at least, to be tried, too.
const OTHER: f64 = 1.25;

/// A limit whose units come back in portions.
#[derive(Debug)]
pub(super) struct Portions {
    pub(super) unit: Unit,
    /// Cost in a nanosecond.
    pub(super) rate: f64,
    /// Cost that comes back at once.
    pub(super) portion: f64,
    /// Nanoseconds after which it does.
    pub(super) interval: f64,
    /// Median difference of portions, as a share of a portion.
    pub(super) spread: f64,
    /// Relative standard error of the rate.
    pub(super) rate_error: f64,
    /// Cost of the last portion that was used at the last arrival.
    pub(super) used: f64,
    /// Requests that waited.
    pub(super) held: usize,
    /// Nanoseconds that each request of each run waited.
    pub(super) waits: Vec<Vec<f64>>,
}

/// Time from the first completion behind a pause to that behind the next.
#[derive(Debug, Clone, Copy)]
struct Step {
    time: f64,
    cost: f64,
}

impl Portions {
    /// The portions of a unit that traffic shows.
    pub(super) fn of(traffic: &Traffic, unit: Unit) -> Option<Self> {
        let mut pauses: Vec<f64> =
            (0..traffic.runs.len()).flat_map(|run| pauses(traffic, run)).map(|(_, length)| length).collect();
        pauses.sort_by(|one, other| other.total_cmp(one));
        let all: f64 = pauses.iter().sum();
        let mut least = SHARES.map(|share| {
            let mut sum = 0.0;
            let middle = pauses.iter().find(|length| {
                sum += **length;
                sum >= share * all
            });
            0.5 * middle.copied().unwrap_or_default()
        });
        least.sort_by(f64::total_cmp);
        // Lengths that are nearly the same divide the trace in the same way.
        let apart = |place: usize| place == 0 || least[place] > OTHER * least[place - 1];
        (0..SHARES.len())
            .filter(|place| apart(*place))
            .find_map(|place| Self::behind(traffic, unit, least[place]))
    }

    /// The portions behind pauses of at least that length.
    fn behind(traffic: &Traffic, unit: Unit, pause_least: f64) -> Option<Self> {
        // Of each run, the completions behind pauses, and what completes from one to the next.
        let mut ends: Vec<Vec<usize>> = Vec::new();
        let mut steps: Vec<Step> = Vec::new();
        for (index, run) in traffic.runs.iter().enumerate() {
            let long = pauses(traffic, index).filter(|(_, length)| *length >= pause_least);
            let own: Vec<usize> = long.map(|(end, _)| end).collect();
            steps.extend(own.windows(2).map(|pair| {
                let completed = &run.completed[pair[0]..pair[1]];
                let cost = completed.iter().map(|place| run.requests[*place as usize].costs[unit as usize]);
                Step { time: run.completion(pair[1]) - run.completion(pair[0]), cost: cost.sum() }
            }));
            ends.push(own);
        }
        if steps.len() < STEPS {
            return None;
        }
        let interval = quantile(&mut steps.iter().map(|step| step.time).collect::<Vec<_>>(), 0.5);
        steps.retain(|step| step.time <= 1.5 * interval);
        let portion = quantile(&mut steps.iter().map(|step| step.cost).collect::<Vec<_>>(), 0.5);
        let cost_max = traffic.requests().map(|request| request.costs[unit as usize]).fold(0.0, f64::max);
        let apart = PORTION * portion + if unit == Unit::Requests { 1.0 } else { cost_max };
        let all = steps.len() as f64;
        steps.retain(|step| {
            (step.time - interval).abs() <= INTERVAL * interval && (step.cost - portion).abs() <= apart
        });
        let is_regular = steps.len() >= STEPS
            && steps.len() as f64 >= TYPICAL * all
            && portion >= PORTION_LEAST * traffic.costs_mean[unit as usize];
        let free = traffic.requests().filter(|request| request.response() <= SHORT * interval).count();
        if !is_regular || free < FREE || beyond(traffic, unit, interval, 2.0 * portion) > BEYOND {
            return None;
        }
        Some(Self::waited(traffic, unit, &ends, &steps, interval, portion))
    }

    /// Share of the additional time of those that waited, compared with the others, that they waited for the limit.
    pub(super) fn explained(&self, traffic: &Traffic) -> f64 {
        let mut others: Vec<f64> = Vec::new();
        let (mut beyond, mut explained) = (0.0, 0.0);
        let waited =
            || traffic.runs.iter().zip(&self.waits).flat_map(|(run, waits)| run.requests.iter().zip(waits));
        others.extend(waited().filter(|(_, wait)| **wait == 0.0).map(|(request, _)| request.response()));
        let elsewhere = if others.is_empty() { 0.0 } else { quantile(&mut others, 0.25) };
        for (request, wait) in waited().filter(|(_, wait)| **wait > 0.0) {
            let more = (request.response() - elsewhere).max(0.0);
            beyond += more;
            explained += wait.min(more);
        }
        explained / f64::max(beyond, 1.0)
    }

    /// The limit, and how long each request waited for the end of the pause before its completion.
    fn waited(
        traffic: &Traffic,
        unit: Unit,
        ends: &[Vec<usize>],
        steps: &[Step],
        interval: f64,
        portion: f64,
    ) -> Self {
        let (mut held, mut used) = (0, 0.0);
        let mut all = Vec::with_capacity(traffic.runs.len());
        for (run, ends) in traffic.runs.iter().zip(ends) {
            let mut waits = vec![0.0; run.requests.len()];
            for (place, end) in ends.iter().enumerate() {
                let next = ends.get(place + 1).map_or(run.completed.len(), |next| *next);
                let released = run.completion(*end) - traffic.response_min;
                for completed in &run.completed[*end..next] {
                    let wait = released - run.requests[*completed as usize].arrival;
                    if wait > CLOCK_NS {
                        waits[*completed as usize] = wait;
                        held += 1;
                    }
                }
            }
            used = ends.last().map_or(0.0, |end| {
                let recent = run.completed[*end..].iter().map(|place| &run.requests[*place as usize]);
                let last = run.requests.last().map_or(0.0, |last| last.arrival);
                let cost: f64 = recent.map(|request| request.costs[unit as usize]).sum();
                if last - run.completion(*end) < interval { cost.min(portion) } else { 0.0 }
            });
            all.push(waits);
        }
        let count = steps.len() as f64;
        let interval = steps.iter().map(|step| step.time).sum::<f64>() / count;
        let mut apart: Vec<f64> = steps.iter().map(|step| (step.cost - portion).abs() / portion).collect();
        // A request that does not fit waits for the next portion, and the rest of this one is lost.
        let portion = quantile(&mut steps.iter().map(|step| step.cost).collect::<Vec<_>>(), FULL);
        let deviation = steps.iter().map(|step| (step.time / interval - 1.0).powi(2)).sum::<f64>() / count;
        Self {
            unit,
            rate: portion / interval,
            portion,
            interval,
            spread: quantile(&mut apart, 0.5),
            rate_error: deviation.sqrt() / count.sqrt(),
            used,
            held,
            waits: all,
        }
    }
}

/// The pauses of a run: the completion behind each, by its number, and its length.
fn pauses(traffic: &Traffic, run: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
    let run = &traffic.runs[run];
    (1..run.completed.len()).filter_map(move |place| {
        let (before, after) = (run.completion(place - 1), run.completion(place));
        let length = after - before.max(run.requests[run.completed[place] as usize].arrival);
        (length > 0.0).then_some((place, length))
    })
}

/// Share of the work that completes although so much has completed in an interval that ends with it.
fn beyond(traffic: &Traffic, unit: Unit, interval: f64, most: f64) -> f64 {
    let (mut all, mut over) = (0.0, 0.0);
    for run in &traffic.runs {
        let (mut first, mut within) = (0, 0.0);
        for (place, completed) in run.completed.iter().enumerate() {
            let cost = run.requests[*completed as usize].costs[unit as usize];
            within += cost;
            while run.completion(first) < run.completion(place) - (1.0 - INTERVAL) * interval {
                within -= run.requests[run.completed[first] as usize].costs[unit as usize];
                first += 1;
            }
            all += cost;
            if within > most + cost {
                over += cost;
            }
        }
    }
    over / f64::max(all, 1.0)
}
