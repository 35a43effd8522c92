//! Rate and burst of a suspected limit, from the times at which requests wait for it.
//!
//! # Method
//! Requests wait while the bucket is empty, and then its whole burst is used: work done beyond `rate * time`, reflected at zero,
//! where the bucket is full. So what is used is the same whenever requests wait. If it rises while they do, the rate is higher
//! by that slope; its median is the burst. Both are repeated from the line on the [envelope](super::envelope).

use super::traffic::{Traffic, quantile};
use super::trial::{CLOCK_NS, Passage, Suspect};
use crate::error::Error;
use crate::stop::StopCheck;

/// Repetitions at most, and the relative change that ends them.
const ROUNDS: usize = 6;
const STILL: f64 = 1e-5;
/// Width of the interval of the burst, by the burst, beyond which it is none: from the second round on, and from that on from
/// which rate and burst change little. [Evidence](super::trial) demands less than the latter, and twice as many requests.
const WANDERS: f64 = 1.0;
const SETTLED: usize = 3;
const WANDERS_SETTLED: f64 = 0.5;
const HELD_SETTLED: usize = 128;
/// Requests of an episode that count for the slope, at least.
const EPISODE_LEAST: usize = 16;
/// Share of an episode at its beginning that does not count for the slope: the burst may have been not quite used.
const BEGINNING: f64 = 0.2;
/// Quantiles of what is used that bound the interval of the burst.
const INTERVAL: [f64; 2] = [0.05, 0.95];

/// A suspected limit with what is known of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Calibrated {
    pub(super) suspect: Suspect,
    /// Interval of its rate, in cost per nanosecond.
    pub(super) rates: [f64; 2],
    /// Interval of its burst.
    pub(super) bursts: [f64; 2],
}

/// Used cost while requests wait, from one full bucket to the next.
#[derive(Debug, Default)]
struct Episode {
    /// Times, and the used cost.
    held: Vec<(f64, f64)>,
    /// True if the bucket was full before.
    was_full: bool,
}

impl Calibrated {
    /// Calibrates a bucket, and leads the traffic through it; `None` if no requests wait for it.
    ///
    /// # Errors
    /// If the fit was stopped.
    pub(super) fn of(
        traffic: &Traffic,
        mut suspect: Suspect,
        stop: &StopCheck,
    ) -> Result<Option<(Self, Passage)>, Error> {
        let mut is_last = false;
        for round in 1.. {
            stop.check()?;
            let passage = suspect.passage(traffic);
            if passage.waiting < if round < SETTLED { 1 } else { HELD_SETTLED } {
                return Ok(None);
            }
            let episodes = episodes(traffic, suspect.rate, &passage);
            let mut used = used(&episodes);
            let [low, high] = INTERVAL.map(|share| quantile(&mut used, share));
            if is_last {
                // Both ends of the longest episode are as uncertain as the level.
                let longest = episodes.iter().map(Episode::span).fold(0.0, f64::max);
                let off = if longest > 0.0 { (high - low) / longest } else { suspect.rate };
                let rates = [(suspect.rate - off).max(0.0), suspect.rate + off];
                return Ok(Some((Self { suspect, rates, bursts: [low, high] }, passage)));
            }
            let next = Suspect { rate: suspect.rate + slope(&episodes), burst: quantile(&mut used, 0.5) };
            // A level that wanders so far is no burst.
            let wanders = match round {
                1 => f64::INFINITY,
                round if round < SETTLED => WANDERS,
                _ => WANDERS_SETTLED,
            };
            if next.rate <= 0.0 || high - low > wanders * next.burst {
                return Ok(None);
            }
            let is_still = (next.rate / suspect.rate - 1.0).abs() <= STILL
                && (next.burst / suspect.burst - 1.0).abs() <= STILL;
            suspect = next;
            is_last = is_still || round + 1 >= ROUNDS;
        }
        Ok(None)
    }
}

impl Episode {
    fn span(&self) -> f64 {
        self.held.first().zip(self.held.last()).map_or(0.0, |(first, last)| last.0 - first.0)
    }
}

/// The used cost at completions of requests that waited.
fn episodes(traffic: &Traffic, rate: f64, passage: &Passage) -> Vec<Episode> {
    let mut episodes = Vec::new();
    let mut episode = Episode::default();
    let (mut used, mut now) = (0.0_f64, 0.0);
    let mut go = |used: &mut f64, passed: f64, episode: &mut Episode| {
        // Most buckets are full every few requests, and hardly any request is held: only that is a branch.
        let left = *used - rate * passed;
        let is_full = left <= 0.0;
        *used = left.max(0.0);
        if !episode.held.is_empty() && is_full {
            episodes.push(std::mem::take(episode));
        }
        episode.was_full |= is_full;
    };
    for (run, admitted) in traffic.runs.iter().zip(&passage.admitted) {
        for (passed, cost) in &run.before {
            go(&mut used, *passed, &mut episode);
            (used, now) = (used + cost, now + passed);
        }
        let mut last = 0.0;
        for index in &run.completed {
            let request = &run.requests[*index as usize];
            go(&mut used, request.completion - last, &mut episode);
            now += request.completion - last;
            last = request.completion;
            used += request.cost;
            if admitted[*index as usize] - request.arrival > CLOCK_NS {
                episode.held.push((now, used));
            }
        }
    }
    episodes.push(episode);
    episodes
}

/// Used costs, in episodes before which the bucket had been full if there are any.
fn used(episodes: &[Episode]) -> Vec<f64> {
    let known = |was_full: bool| {
        let episodes = episodes.iter().filter(move |episode| episode.was_full || !was_full);
        episodes.flat_map(|episode| &episode.held).map(|held| held.1).collect::<Vec<f64>>()
    };
    let after_full = known(true);
    if after_full.is_empty() { known(false) } else { after_full }
}

/// The slope of what is used, common to all episodes.
fn slope(episodes: &[Episode]) -> f64 {
    let (mut above, mut below) = (0.0, 0.0);
    for episode in episodes.iter().filter(|episode| episode.held.len() >= EPISODE_LEAST) {
        let held = &episode.held[(episode.held.len() as f64 * BEGINNING) as usize..];
        let mean = |of: fn(&(f64, f64)) -> f64| held.iter().map(of).sum::<f64>() / held.len() as f64;
        let (time, used) = (mean(|held| held.0), mean(|held| held.1));
        for held in held {
            above += (held.0 - time) * (held.1 - used);
            below += (held.0 - time).powi(2);
        }
    }
    if below > 0.0 { above / below } else { 0.0 }
}
