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
//! 2. The bucket explains [`EXPLAINED`] of the excess of their response times over those of others of their [kind](RequestKind), or
//!    of any kind if there are few ([`FREE_OF_KIND`]). And where both are mixed in time, they take longer by [`LONGER`] of their wait:
//!    the pauses of a closed load make a bucket that is empty at any time, of which the response times know nothing.
//! 3. The limit is obeyed: forgiven tokens are at most [`FORGIVEN`] of the work.
//! 4. The device beneath is faster: [`FREE`] requests did not wait for the bucket; and the burst is at least
//!    [`BEYOND`] requests, and twice what is in service at that rate, beyond what a server of that speed would take
//!    at once.
//! 5. The limit matters: it explains [`MATTERS`] of the response time of the others, on average.
//! 6. The limit is steady: between requests that wait, the spread of work less `rate * time` over some number of requests
//!    is at most [`WANDERS`] times the spread over an [`APART`]th of them, or its growth by steps of four
//!    is not [`GROWS`] times at each. For a device that draws service times, the ratios are their roots, 4 and 2.
//! 7. The burst is one number: what is used while requests wait keeps within [`LEVEL`] of it, or within [`PORTION`] requests and
//!    [`PORTION_SHARE`] of it.
//!
//! Limiters with several queues, or that release requests in portions, let single requests wait for other times than the bucket
//! does. If the bucket is sharp, its burst to [`LEVEL_SHARP`] and its rate to [`RATE_SHARP`] over [`HELD_SHARP`] held requests, and the mean wait is at least [`MATTERS_SHARP`]
//! times the response time of the others, criteria 2 and 3 have the bounds [`EXPLAINED_SHARP`] and [`FORGIVEN_SHARP`], and
//! criterion 6 need not be shown, only not be failed. The demand of a load that limits itself waits no longer than its responses.
//!
//! A device that is merely busy fails the last two criteria and mostly the second: its completions wander from
//! any line of constant rate by the square root of their number, so that the bucket is hardly ever empty when
//! they wait. A device whose service time is constant fails the fourth: it was never faster.

use std::collections::BTreeMap;

use super::calibration::{Calibrated, Calibration, Held};
use super::traffic::{Costs, RequestKind, Traffic, Unit, quantile};

/// Requests that are held up, at least.
const HELD: usize = 256;

/// Share of the waiting that a limit explains: where it lets requests go in portions, half of it is the portion's.
const EXPLAINED: f64 = 0.4;

/// Share of the work that may have gone in spite of the limit.
const FORGIVEN: f64 = 0.02;

/// Share by which the tested rate is lower than the found one.
const LOWER: f64 = 0.004;

/// Requests that do not wait, at least.
pub(super) const FREE: usize = 64;

/// Requests of a burst, beyond twice those in service, at least.
const BEYOND: f64 = 4.0;

/// Requests of a kind that do not wait, for those of it that wait to be compared with them alone.
const FREE_OF_KIND: usize = 16;

/// Requests that are one time, requests of a kind in it that wait and that do not, at least, and requests that wait, at least, for
/// these to be compared; and by how much of their wait the former must take longer.
const NEARBY: usize = 256;
const BOTH_LEAST: f64 = 8.0;
const COMPARED: usize = 128;
const LONGER: f64 = 0.25;

/// Lags of completions over which spreads are compared, and how many times they go into the time from the first request that waits
/// to the last.
const LAGS: [usize; 3] = [2_048, 512, 128];
const LAGS_HELD: usize = 8;
const APART: usize = 16;
/// Pairs of requests that wait, at least; their lag is up to so many parts of it longer.
const PAIRS: usize = 256;
const NEARLY: usize = 8;

/// Spread over a lag by that over an [`APART`]th of it, at most, or growth from there to a quarter of the lag and on to the lag.
const WANDERS: f64 = 2.0;
const GROWS: f64 = 1.5;

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
const PORTION_SHARE: f64 = 0.25;

/// A token bucket; units as those of the traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Suspect {
    pub(super) unit: Unit,
    /// Cost in a nanosecond.
    pub(super) rate: f64,
    /// Cost that can go at once.
    pub(super) burst: f64,
}

/// A wait that is shorter is the clock's.
pub(super) const CLOCK_NS: f64 = 1_000.0;

/// Passing of a request through buckets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admission {
    /// Nanoseconds since the run's first arrival.
    pub(super) time: f64,
    /// Place of the bucket that was the last to let it go; `None` if it did not wait.
    pub(super) held_by: Option<u8>,
}

/// Result of leading a trace through buckets.
#[derive(Debug)]
pub(super) struct Passage<const N: usize> {
    /// Of each request of each run.
    pub(super) admitted: Vec<Vec<Admission>>,
    /// Requests that wait for each bucket.
    pub(super) waiting: [usize; N],
    /// Cost that went although the bucket was empty.
    pub(super) forgiven: [f64; N],
    /// Cost of what was held up, by any bucket.
    pub(super) held: [f64; N],
    /// Used cost at the last arrival, with that of the requests that wait then: more than the burst if some do.
    pub(super) used: [f64; N],
}

impl<const N: usize> Passage<N> {
    /// Leads traffic through buckets, which are full at the beginning. A request goes when each of them has room for it.
    pub(super) fn of(suspects: &[Suspect; N], traffic: &Traffic) -> Self {
        let rates = suspects.map(|suspect| suspect.rate * (1.0 - LOWER));
        let costs = |costs: &Costs| suspects.map(|suspect| costs[suspect.unit as usize]);
        let mut used = [0.0_f64; N];
        let mut this = Self {
            admitted: Vec::with_capacity(traffic.runs.len()),
            waiting: [0; N],
            forgiven: [0.0; N],
            held: [0.0; N],
            used: [0.0; N],
        };
        for run in &traffic.runs {
            for (passed, before) in &run.before {
                let before = costs(before);
                for bucket in 0..N {
                    let left = (used[bucket] - rates[bucket] * passed).max(0.0);
                    used[bucket] = (left + before[bucket]).min(suspects[bucket].burst);
                }
            }
            let mut since = 0.0_f64;
            let mut times = Vec::with_capacity(run.requests.len());
            for request in &run.requests {
                // Those before may have gone later than this one came.
                let mut at = request.arrival.max(since);
                let cost = costs(&request.costs);
                let mut rooms = [0.0; N];
                let (mut longest, mut last) = (0.0, 0);
                for bucket in 0..N {
                    used[bucket] = (used[bucket] - rates[bucket] * (at - since)).max(0.0);
                    rooms[bucket] = (suspects[bucket].burst - cost[bucket]).max(0.0);
                    let wait = (used[bucket] - rooms[bucket]) / rates[bucket];
                    if wait > longest {
                        (longest, last) = (wait, bucket);
                    }
                }
                since = at;
                if longest > 0.0 {
                    let latest = (request.completion - traffic.response_min).max(request.arrival);
                    let went = (at + longest).min(latest.max(at));
                    for bucket in 0..N {
                        used[bucket] = (used[bucket] - rates[bucket] * (went - at)).max(0.0);
                        this.forgiven[bucket] += (used[bucket] - rooms[bucket]).max(0.0);
                        used[bucket] = used[bucket].min(rooms[bucket]);
                        this.held[bucket] += cost[bucket];
                    }
                    at = went;
                    since = at;
                }
                for bucket in 0..N {
                    used[bucket] += cost[bucket];
                }
                let time = at.min(request.completion).max(request.arrival);
                let held_by = (time - request.arrival > CLOCK_NS).then_some(last as u8);
                if held_by.is_some() {
                    this.waiting[last] += 1;
                }
                times.push(Admission { time, held_by });
            }
            // Until the last has completed; the steps of the history go on from there.
            let last_arrival = run.requests.last().map_or(0.0, |last| last.arrival);
            let end = run.completed.last().map_or(0.0, |last| run.requests[*last as usize].completion);
            for bucket in 0..N {
                this.used[bucket] = used[bucket] + rates[bucket] * (since - last_arrival);
                used[bucket] = (used[bucket] - rates[bucket] * (end - since).max(0.0)).max(0.0);
            }
            this.admitted.push(times);
        }
        this
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

/// Returns the evidence that buckets together are limits of the traffic, for each of them.
pub(super) fn evidence<const N: usize>(traffic: &Traffic, calibration: &Calibration<N>) -> [Evidence; N] {
    let Calibration { buckets, passage, levels } = calibration;
    let mut free: Vec<f64> = Vec::new();
    let mut kinds: BTreeMap<RequestKind, Kind> = BTreeMap::new();
    for (run, admitted) in traffic.runs.iter().zip(&passage.admitted) {
        for (request, admitted) in run.requests.iter().zip(admitted) {
            let kind = kinds.entry(request.kind).or_default();
            if admitted.held_by.is_some() {
                kind.held.push((admitted.time - request.arrival, request.response()));
            } else {
                free.push(request.response());
                kind.free.push(request.response());
            }
        }
    }
    let frees = free.len();
    let elsewhere = if free.is_empty() { 0.0 } else { quantile(&mut free, 0.25) };
    let (mut unheld, mut excess, mut explained) = (0.0, 0.0, 0.0);
    for kind in kinds.values_mut() {
        let has_others = kind.free.len() >= FREE_OF_KIND;
        let elsewhere = if has_others { quantile(&mut kind.free, 0.25) } else { elsewhere };
        unheld += elsewhere * kind.held.len() as f64;
        for (wait, response) in &kind.held {
            let beyond = (response - elsewhere).max(0.0);
            excess += beyond;
            explained += wait.min(beyond);
        }
    }
    let share = if excess > 0.0 { explained / excess } else { 0.0 };
    let wait = explained / unheld.max(1.0);
    let is_longer = is_longer_nearby(traffic, passage) != Some(false);
    let is_held_by = |bucket: usize| {
        let Calibrated { suspect, rates: [slow, fast], bursts: [low, high] } = buckets[bucket];
        let cost_mean = traffic.costs_mean[suspect.unit as usize];
        let held = passage.waiting[bucket];
        let in_service = suspect.rate * elsewhere;
        let portion = (PORTION * cost_mean).min(PORTION_SHARE * suspect.burst);
        let is_level = high - low <= portion.max(LEVEL * suspect.burst);
        let is_sharp = held >= HELD_SHARP
            && fast - slow <= RATE_SHARP * suspect.rate
            && high - low <= LEVEL_SHARP * suspect.burst
            && wait >= MATTERS_SHARP;
        let is_obeyed = |explained: f64, forgiven: f64| {
            share >= explained && passage.forgiven[bucket] <= forgiven * passage.held[bucket]
        };
        let is_steady = is_steady(&levels[bucket], cost_mean);
        held >= HELD
            && suspect.burst >= BEYOND * cost_mean + 2.0 * in_service
            && (is_sharp && is_obeyed(EXPLAINED_SHARP, FORGIVEN_SHARP) && is_steady != Some(false)
                || is_level && is_obeyed(EXPLAINED, FORGIVEN) && is_steady == Some(true))
    };
    let is_found = frees >= FREE && wait >= MATTERS && is_longer && (0..N).all(is_held_by);
    let score = explained - (excess - explained);
    passage.waiting.map(|held| Evidence { held, explained: share, score, is_found })
}

/// Requests of a kind.
#[derive(Debug, Default)]
struct Kind {
    /// Waits and response times of the requests that waited.
    held: Vec<(f64, f64)>,
    /// Response times of the others.
    free: Vec<f64>,
}

/// Returns true if requests that wait take longer than those of their kind and time that do not, by a share of their wait; `None` if
/// there are few times with both. Whether a request waits follows from those before it, so that without a limit neither takes longer.
fn is_longer_nearby<const N: usize>(traffic: &Traffic, passage: &Passage<N>) -> Option<bool> {
    let (mut compared, mut longer, mut waited) = (0, 0.0, 0.0);
    for (run, admitted) in traffic.runs.iter().zip(&passage.admitted) {
        for (requests, admitted) in run.requests.chunks(NEARBY).zip(admitted.chunks(NEARBY)) {
            let mut kinds: BTreeMap<RequestKind, [(f64, f64, f64); 2]> = BTreeMap::new();
            for (request, admitted) in requests.iter().zip(admitted) {
                let is_held = usize::from(admitted.held_by.is_some());
                let (count, response, wait) = &mut kinds.entry(request.kind).or_default()[is_held];
                *count += 1.0;
                *response += request.response();
                *wait += admitted.time - request.arrival;
            }
            for [free, held] in kinds.into_values().filter(|both| both.iter().all(|one| one.0 >= BOTH_LEAST))
            {
                compared += held.0 as usize;
                longer += held.1 - free.1 / free.0 * held.0;
                waited += held.2;
            }
        }
    }
    (compared >= COMPARED).then_some(longer >= LONGER * waited)
}

/// Returns true if what is used while requests wait does not wander the further, the more work is between them; `None` if
/// there is too little of it.
fn is_steady(levels: &[Vec<Held>], cost_mean: f64) -> Option<bool> {
    let lag = LAGS.into_iter().find(|lag| {
        let long = levels
            .iter()
            .map(|run| run.first().zip(run.last()).map_or(0, |(first, last)| last.index - first.index));
        long.filter(|length| length > lag).sum::<usize>() >= LAGS_HELD * lag
    })?;
    let far = spread(levels, lag)?;
    // Where requests go in portions, a lag of whole portions misses what they are apart.
    let near = (0..4).filter_map(|less| spread(levels, lag / APART - less));
    let near = near.fold(0.5 * cost_mean, f64::max);
    // What is in service of a slow device moves the level from one time to the next: that is no growth at every lag.
    let grows = |middle: f64| far > GROWS * middle && middle > GROWS * near;
    let grows = spread(levels, lag / 4).is_none_or(grows);
    Some(far <= WANDERS * near || !grows)
}

/// The median by which differences over a lag miss their median: a few times at which the bucket was wrongly empty do not count.
/// `None` if there are too few.
fn spread(levels: &[Vec<Held>], lag: usize) -> Option<f64> {
    let mut differences = Vec::new();
    for run in levels {
        let mut later = run.iter().peekable();
        for held in run {
            while later.next_if(|other| other.index < held.index + lag).is_some() {}
            match later.peek() {
                Some(other) if other.index <= held.index + lag + lag / NEARLY => {
                    differences.push(other.used - held.used);
                }
                _ => {}
            }
        }
    }
    (differences.len() >= PAIRS).then(|| {
        let middle = quantile(&mut differences, 0.5);
        differences.iter_mut().for_each(|difference| *difference = (*difference - middle).abs());
        quantile(&mut differences, 0.5)
    })
}

#[cfg(test)]
mod tests {
    use seeklab_core::Instant;

    use super::super::traffic::{Charged, Run};
    use super::*;

    #[test]
    fn cost_that_passes_an_empty_bucket_is_forgiven() {
        // Three requests of cost 2 at once, through a bucket of 2. The second is answered at once, the third after the
        // time of half of it.
        let requests: Vec<Charged> = [0.0, 0.0, 1e9 / (1.0 - LOWER)]
            .iter()
            .zip(0..)
            .map(|(completion, place)| Charged::read([0.0, *completion], [2.0; 2], place))
            .collect();
        let run = Run { origin: Instant::ZERO, before: Vec::new(), requests, completed: vec![0, 1, 2] };
        let traffic = Traffic { runs: vec![run], costs_mean: [2.0; 2], response_min: 0.0 };
        let passage = Passage::of(&[Suspect { unit: Unit::Requests, rate: 1e-9, burst: 2.0 }], &traffic);
        assert!(
            (passage.forgiven[0] - 3.0).abs() < 1e-6 && (passage.held[0] - 4.0).abs() < 1e-6,
            "{passage:?}"
        );
    }
}
