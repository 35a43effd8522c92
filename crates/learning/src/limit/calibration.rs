//! Rate and burst of a suspected limit, from the times at which requests wait for it.
//!
//! # Method
//! Requests wait while the bucket is empty, and then its whole burst is used: work done beyond `rate * time`, reflected at zero,
//! where the bucket is full. So what is used is the same whenever requests wait. If it rises while they do, the rate is higher
//! by that slope; its median is the burst. Both are repeated from the line on the [envelope](super::envelope).

use super::traffic::{Traffic, quantile};
use super::trial::{Passage, Suspect};
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

/// Used cost at the completion of a request that waited.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    run: usize,
    /// Completions of the run before it.
    pub(super) index: usize,
    time: f64,
    pub(super) used: f64,
}

/// Buckets that were calibrated together.
#[derive(Debug)]
pub(super) struct Calibration<const N: usize> {
    pub(super) buckets: [Calibrated; N],
    /// The traffic led through them.
    pub(super) passage: Passage<N>,
    /// Used cost of each bucket in each run, while requests wait for it.
    pub(super) levels: [Vec<Vec<Held>>; N],
}

/// Used cost while requests wait, from one full bucket to the next.
#[derive(Debug, Default)]
struct Episode {
    held: Vec<Held>,
    /// True if the bucket was full before.
    was_full: bool,
}

impl<const N: usize> Calibration<N> {
    /// Calibrates buckets, and leads the traffic through them; `None` if no requests wait for one of them.
    ///
    /// # Errors
    /// If the fit was stopped.
    pub(super) fn of(
        traffic: &Traffic,
        mut suspects: [Suspect; N],
        stop: &StopCheck,
    ) -> Result<Option<Self>, Error> {
        let mut is_last = false;
        for round in 1.. {
            stop.check()?;
            let passage = Passage::of(&suspects, traffic);
            let least = if round < SETTLED { 1 } else { HELD_SETTLED };
            if passage.waiting.iter().any(|waiting| *waiting < least) {
                return Ok(None);
            }
            let mut buckets =
                suspects.map(|suspect| Calibrated { suspect, rates: [0.0; 2], bursts: [0.0; 2] });
            let mut levels = std::array::from_fn(|_| vec![Vec::new(); traffic.runs.len()]);
            let mut is_still = true;
            for (place, suspect) in suspects.iter_mut().enumerate() {
                let episodes = episodes(traffic, suspect, place as u8, &passage);
                let mut used = used(&episodes);
                let [low, high] = INTERVAL.map(|share| quantile(&mut used, share));
                if is_last {
                    // Both ends of the longest episode are as uncertain as the level.
                    let longest = episodes.iter().map(Episode::span).fold(0.0, f64::max);
                    let off = if longest > 0.0 { (high - low) / longest } else { suspect.rate };
                    let rates = [(suspect.rate - off).max(0.0), suspect.rate + off];
                    buckets[place] = Calibrated { suspect: *suspect, rates, bursts: [low, high] };
                    for held in episodes.into_iter().flat_map(|episode| episode.held) {
                        levels[place][held.run].push(held);
                    }
                    continue;
                }
                let next = Suspect {
                    rate: suspect.rate + slope(&episodes),
                    burst: quantile(&mut used, 0.5),
                    ..*suspect
                };
                // A level that wanders so far is no burst.
                let wanders = match round {
                    1 => f64::INFINITY,
                    round if round < SETTLED => WANDERS,
                    _ => WANDERS_SETTLED,
                };
                if next.rate <= 0.0 || high - low > wanders * next.burst {
                    return Ok(None);
                }
                is_still &= (next.rate / suspect.rate - 1.0).abs() <= STILL
                    && (next.burst / suspect.burst - 1.0).abs() <= STILL;
                *suspect = next;
            }
            if is_last {
                return Ok(Some(Self { buckets, passage, levels }));
            }
            is_last = is_still || round + 1 >= ROUNDS;
        }
        Ok(None)
    }
}

impl Episode {
    fn span(&self) -> f64 {
        self.held.first().zip(self.held.last()).map_or(0.0, |(first, last)| last.time - first.time)
    }
}

/// The used cost at completions of requests that waited for a bucket.
fn episodes<const N: usize>(
    traffic: &Traffic,
    suspect: &Suspect,
    place: u8,
    passage: &Passage<N>,
) -> Vec<Episode> {
    let Suspect { unit, rate, .. } = *suspect;
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
    for (number, (run, admitted)) in traffic.runs.iter().zip(&passage.admitted).enumerate() {
        for (passed, costs) in &run.before {
            go(&mut used, *passed, &mut episode);
            (used, now) = (used + costs[unit as usize], now + passed);
        }
        let mut last = 0.0;
        for (index, place_in_run) in run.completed.iter().enumerate() {
            let request = &run.requests[*place_in_run as usize];
            go(&mut used, request.completion - last, &mut episode);
            now += request.completion - last;
            last = request.completion;
            used += request.costs[unit as usize];
            if admitted[*place_in_run as usize].held_by == Some(place) {
                episode.held.push(Held { index, run: number, time: now, used });
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
        episodes.flat_map(|episode| &episode.held).map(|held| held.used).collect::<Vec<f64>>()
    };
    let after_full = known(true);
    if after_full.is_empty() { known(false) } else { after_full }
}

/// The slope of what is used, common to all episodes.
fn slope(episodes: &[Episode]) -> f64 {
    let (mut above, mut below) = (0.0, 0.0);
    for episode in episodes.iter().filter(|episode| episode.held.len() >= EPISODE_LEAST) {
        let held = &episode.held[(episode.held.len() as f64 * BEGINNING) as usize..];
        let mean = |of: fn(&Held) -> f64| held.iter().map(of).sum::<f64>() / held.len() as f64;
        let (time, used) = (mean(|held| held.time), mean(|held| held.used));
        for held in held {
            above += (held.time - time) * (held.used - used);
            below += (held.time - time).powi(2);
        }
    }
    if below > 0.0 { above / below } else { 0.0 }
}
