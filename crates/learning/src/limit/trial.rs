//! Test whether a token bucket explains the waiting in a trace.
//!
//! # Method
//! The arrivals are led through the bucket. If a measured completion shows that a request went before the
//! bucket allowed it, the bucket is corrected, and the tokens of the correction are counted as forgiven: a
//! real limit is obeyed. The rate is assumed slightly lower than measured. Otherwise the bucket of a trace in
//! which every request waited for the one before would never be empty.
//!
//! # Criteria
//! A limit is found if all of these hold:
//! 1. [`HELD`] requests at least wait for the bucket.
//! 2. The bucket explains [`EXPLAINED`] of the excess of their response times over those of the others.
//! 3. The limit is obeyed: forgiven tokens are at most [`FORGIVEN`] of the work.
//! 4. The device beneath is faster: [`FREE`] requests did not wait for the bucket; and the burst is at least
//!    [`BEYOND`] requests, and twice what is in service at that rate, beyond what a server of that speed would take
//!    at once.
//! 5. The limit matters: the mean wait is at least [`MATTERS`] of the response time of the others.
//! 6. The limit is steady: while it holds, the spread of work less `rate * time` over some number of requests
//!    is at most [`WANDERS`] times the spread over a [`APART`]th of them. For a device that draws service
//!    times, the ratio is the square root of [`APART`], 4.
//! 7. The burst is one number: what is used while requests wait keeps within [`LEVEL`] of it, or within [`PORTION`] requests and half
//!    of it.
//!
//! Limiters with several queues, or that release requests in portions, let single requests wait for other times than the bucket
//! does. If the bucket is sharp, its burst to [`LEVEL_SHARP`] and its rate to [`RATE_SHARP`] over [`HELD_SHARP`] held requests, and the mean wait is at least [`MATTERS_SHARP`]
//! times the response time of the others, criteria 2 and 3 have the bounds [`EXPLAINED_SHARP`] and [`FORGIVEN_SHARP`], and
//! criterion 6 does not apply. The demand of a load that limits itself waits no longer than its responses.
//!
//! A device that is merely busy fails the last two criteria and mostly the second: its completions wander from
//! any line of constant rate by the square root of their number, so that the bucket is hardly ever empty when
//! they wait. A device whose service time is constant fails the fourth: it was never faster.

use super::calibration::Calibrated;
use super::traffic::{Traffic, quantile};

/// Requests that are held up, at least.
const HELD: usize = 256;

/// Share of the waiting that a limit explains: where it lets requests go in portions, half of it is the portion's.
const EXPLAINED: f64 = 0.4;

/// Share of the work that may have gone in spite of the limit.
const FORGIVEN: f64 = 0.02;

/// Share by which the tested rate is lower than the found one.
const LOWER: f64 = 0.004;

/// Requests that do not wait, at least.
const FREE: usize = 64;

/// Requests of a burst, beyond twice those in service, at least.
const BEYOND: f64 = 4.0;

/// Lags of requests over which spreads are compared, and how many times they go into what was held.
const LAGS: [usize; 3] = [2_048, 512, 128];
const LAGS_HELD: usize = 8;
const APART: usize = 16;

/// Spread over a lag by that over a [`APART`]th of it, at most.
const WANDERS: f64 = 2.0;

/// Mean wait by the response elsewhere.
const MATTERS: f64 = 0.25;

/// Bounds of a burst that is so sharp that requests need not wait in order: held requests, widths of the
/// intervals of the rate and the burst, mean wait, explained share, and forgiven share.
const HELD_SHARP: usize = 1_024;
const RATE_SHARP: f64 = 0.01;
const LEVEL_SHARP: f64 = 0.05;
const MATTERS_SHARP: f64 = 2.0;
const EXPLAINED_SHARP: f64 = 0.1;
const FORGIVEN_SHARP: f64 = 0.1;

/// Width of the interval of the burst, by the burst, at most; and in requests, where limiters release them in portions.
const LEVEL: f64 = 0.2;
const PORTION: f64 = 64.0;

/// A token bucket; units as those of the traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Suspect {
    /// Cost in a nanosecond.
    pub(super) rate: f64,
    /// Cost that can go at once.
    pub(super) burst: f64,
}

/// A wait that is shorter is the clock's.
pub(super) const CLOCK_NS: f64 = 1_000.0;

/// Result of leading a trace through a bucket.
#[derive(Debug)]
pub(super) struct Passage {
    /// Time at which each request of each run passes the bucket, in nanoseconds since the run's first
    /// arrival.
    pub(super) admitted: Vec<Vec<f64>>,
    /// Requests that wait for it.
    pub(super) waiting: usize,
    /// Cost that went although the bucket was empty.
    pub(super) forgiven: f64,
    /// Cost of what was held up.
    pub(super) held: f64,
    /// Used cost at the last arrival, with that of the requests that wait then: more than the burst if some do.
    pub(super) used: f64,
}

impl Suspect {
    /// Leads traffic through the bucket, which is full at the beginning.
    pub(super) fn passage(&self, traffic: &Traffic) -> Passage {
        let rate = self.rate * (1.0 - LOWER);
        let (mut used, mut forgiven, mut held) = (0.0_f64, 0.0, 0.0);
        let mut used_at_last = 0.0;
        let mut waiting = 0;
        let mut admitted = Vec::with_capacity(traffic.runs.len());
        for run in &traffic.runs {
            for (passed, cost) in &run.before {
                used = ((used - rate * passed).max(0.0) + cost).min(self.burst);
            }
            let mut since = 0.0_f64;
            let mut times = Vec::with_capacity(run.requests.len());
            for request in &run.requests {
                // Those before may have gone later than this one came.
                let mut at = request.arrival.max(since);
                used = (used - rate * (at - since)).max(0.0);
                since = at;
                let room = (self.burst - request.cost).max(0.0);
                if used > room {
                    let latest = (request.completion - traffic.response_min).max(request.arrival);
                    let ready = at + (used - room) / rate;
                    let went = ready.min(latest.max(at));
                    used -= rate * (went - at);
                    forgiven += (used - room).max(0.0);
                    used = used.min(room);
                    held += request.cost;
                    at = went;
                    since = at;
                }
                used += request.cost;
                let time = at.min(request.completion).max(request.arrival);
                waiting += usize::from(time - request.arrival > CLOCK_NS);
                times.push(time);
            }
            // Until the last has completed; the steps of the history go on from there.
            let last_arrival = run.requests.last().map_or(0.0, |last| last.arrival);
            used_at_last = used + rate * (since - last_arrival);
            let end = run.completed.last().map_or(0.0, |last| run.requests[*last as usize].completion);
            used = (used - rate * (end - since).max(0.0)).max(0.0);
            admitted.push(times);
        }
        Passage { admitted, waiting, forgiven, held, used: used_at_last }
    }
}

/// Evidence for a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evidence {
    /// Requests that it made wait.
    pub(super) held: usize,
    /// Share of the waiting that it explains, while it held.
    pub(super) explained: f64,
    /// Nanoseconds of waiting that it explains, less what it leaves.
    pub(super) score: f64,
    /// True if all criteria of a limit hold.
    pub(super) is_found: bool,
}

/// Returns the evidence that a bucket is a limit of the traffic.
pub(super) fn evidence(traffic: &Traffic, calibrated: &Calibrated, passage: &Passage) -> Evidence {
    let Calibrated { suspect, rates: [slow, fast], bursts: [low, high] } = calibrated;
    let mut inside: Vec<(f64, f64)> = Vec::new();
    let mut free: Vec<f64> = Vec::new();
    for (run, admitted) in traffic.runs.iter().zip(&passage.admitted) {
        for (request, admitted) in run.requests.iter().zip(admitted) {
            let wait = admitted - request.arrival;
            if wait > CLOCK_NS {
                inside.push((wait, request.response()));
            } else {
                free.push(request.response());
            }
        }
    }
    let held = inside.len();
    let frees = free.len();
    let elsewhere = if free.is_empty() { 0.0 } else { quantile(&mut free, 0.25) };
    let (mut waited, mut excess, mut explained) = (0.0, 0.0, 0.0);
    for (wait, response) in &inside {
        let beyond = (response - elsewhere).max(0.0);
        waited += wait;
        excess += beyond;
        explained += wait.min(beyond);
    }
    let share = if excess > 0.0 { explained / excess } else { 0.0 };
    let in_service = suspect.rate * elsewhere;
    let portion = (PORTION * traffic.cost_mean).min(0.5 * suspect.burst);
    let is_level = high - low <= portion.max(LEVEL * suspect.burst);
    let wait = waited / (elsewhere * held as f64).max(1.0);
    let is_sharp = held >= HELD_SHARP
        && fast - slow <= RATE_SHARP * suspect.rate
        && high - low <= LEVEL_SHARP * suspect.burst
        && wait >= MATTERS_SHARP;
    let is_obeyed =
        |explained: f64, forgiven: f64| share >= explained && passage.forgiven <= forgiven * passage.held;
    let is_found = held >= HELD
        && frees >= FREE
        && suspect.burst >= BEYOND * traffic.cost_mean + 2.0 * in_service
        && wait >= MATTERS
        && (is_sharp && is_obeyed(EXPLAINED_SHARP, FORGIVEN_SHARP)
            || is_level && is_obeyed(EXPLAINED, FORGIVEN) && is_steady(traffic, suspect, passage));
    Evidence { held, explained: share, score: explained - (excess - explained), is_found }
}

/// Returns true if the deviation of the work from the line of the rate does not grow with the time
/// that the limit holds.
fn is_steady(traffic: &Traffic, suspect: &Suspect, passage: &Passage) -> bool {
    let mut segments: Vec<Vec<f64>> = Vec::new();
    for (run, admitted) in traffic.runs.iter().zip(&passage.admitted) {
        let (mut work, mut segment) = (0.0, Vec::new());
        for index in &run.completed {
            let request = &run.requests[*index as usize];
            work += request.cost;
            if admitted[*index as usize] - request.arrival > CLOCK_NS {
                segment.push(work - suspect.rate * request.completion);
            } else if !segment.is_empty() {
                segments.push(std::mem::take(&mut segment));
            }
        }
        segments.push(segment);
    }
    let lag = LAGS.into_iter().find(|lag| {
        let long = segments.iter().map(Vec::len).filter(|length| length > lag);
        long.sum::<usize>() >= LAGS_HELD * lag
    });
    lag.is_some_and(|lag| {
        let least = 0.5 * traffic.cost_mean;
        // Where requests go in portions, a lag of whole portions misses what they are apart.
        let shorter = (0..4).map(|less| spread(&segments, lag / APART - less, lag));
        spread(&segments, lag, lag) <= WANDERS * shorter.fold(least, f64::max)
    })
}

/// The median by which differences over a lag miss their median, in segments that are longer than `least`: a few segments in
/// which the bucket was wrongly empty do not count.
fn spread(segments: &[Vec<f64>], lag: usize, least: usize) -> f64 {
    let long = segments.iter().filter(|segment| segment.len() > least);
    let pairs = long.flat_map(|segment| segment.iter().zip(&segment[lag..]));
    let mut differences: Vec<f64> = pairs.map(|(one, other)| other - one).collect();
    let middle = quantile(&mut differences, 0.5);
    differences.iter_mut().for_each(|difference| *difference = (*difference - middle).abs());
    quantile(&mut differences, 0.5)
}

#[cfg(test)]
mod tests {
    use seeklab_core::Instant;

    use super::super::traffic::{Charged, Run, Unit};
    use super::*;

    #[test]
    fn cost_that_passes_an_empty_bucket_is_forgiven() {
        // Three requests of cost 2 at once, through a bucket of 2. The second is answered at once, the third after the
        // time of half of it.
        let requests: Vec<Charged> = [0.0, 0.0, 1e9 / (1.0 - LOWER)]
            .iter()
            .zip(0..)
            .map(|(completion, place)| Charged { arrival: 0.0, completion: *completion, cost: 2.0, place })
            .collect();
        let run = Run { origin: Instant::ZERO, before: Vec::new(), requests, completed: vec![0, 1, 2] };
        let traffic = Traffic { unit: Unit::Requests, runs: vec![run], cost_mean: 2.0, response_min: 0.0 };
        let passage = Suspect { rate: 1e-9, burst: 2.0 }.passage(&traffic);
        assert!((passage.forgiven - 3.0).abs() < 1e-6 && (passage.held - 4.0).abs() < 1e-6, "{passage:?}");
    }
}
