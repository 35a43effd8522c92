//! Finding the limits of a trace, one after the other.

use std::collections::BTreeMap;

use seeklab_core::number_words::counted;
use seeklab_core::{ByteSize, DataRate, Duration, Instant, Operation};
use seeklab_devices::DescriptionError;
use seeklab_devices::limit::{
    ByteBucket, LimitParameters, LimitSummary, Limited, RequestBucket, RequestRate, limit_summaries,
};
use toml::Table;

use super::calibration::{Calibrated, Calibration};
use super::envelope::{Line, lines};
use super::history::History;
use super::portions::Portions;
use super::traffic::{Lengths, Passed, Traffic, Unit};
use super::trial::{Evidence, Passage, Suspect, evidence};
use crate::error::Error;
use crate::stop::StopCheck;

/// Limits that are looked for.
const LIMITS_MAX: usize = 4;

/// Requests that reads or writes have, for limits of their own to be looked for: one in so many.
const SHARE_LEAST: usize = 10;

/// Length from which a limit counts as one of bytes, if all requests have the same length.
const LONG_BYTES: f64 = 32_768.0;

/// Factor by which limits of reads and of writes, or of requests and of bytes, must explain more than one limit, which is simpler.
const DISTINCT: f64 = 1.01;

/// Lines of requests and of bytes that are tried together: so many of each, the straightest.
const TOGETHER: usize = 4;

/// A limit that a trace shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) of: Limited,
    calibrated: Calibrated,
    /// Used part of the burst at the last arrival, and what waits for it then.
    used: f64,
    evidence: Evidence,
    /// Nanoseconds after which what the rate gives in them comes back at once; 0 if it comes back evenly.
    interval: f64,
    /// True if all requests cost the same, so that a limit of requests and one of bytes cannot be
    /// distinguished.
    is_even: bool,
}

/// Limits that hold requests together: one, or one of requests and one of bytes.
type Together = Vec<Found>;

/// The limits that a trace shows, and how long its requests waited for them.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) found: Vec<Found>,
    /// Of the requests of all runs; none if there is no limit.
    pub(crate) waits: Vec<Wait>,
}

/// Wait of a request for limits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wait {
    /// Duration of the wait.
    pub(crate) time: Duration,
    /// True if a limit held requests at that time, so that the response time may be the limit's as well
    /// as the device's.
    pub(crate) is_held: bool,
}

/// Looks for limits in runs of requests, each in order of arrival.
///
/// # Errors
/// If the fit was stopped.
pub(crate) fn find(
    mut past: Vec<Vec<Passed>>,
    history: &History,
    block_size: ByteSize,
    stop: &StopCheck,
) -> Result<Limits, Error> {
    // Arrivals of the requests, and true for those that a limit held.
    let mut came: Vec<Vec<(Instant, bool)>> = Vec::new();
    let mut found = in_portions(&mut past, &mut came, history, block_size, stop)?;
    while found.len() < LIMITS_MAX {
        let Some(next) = best(&past, history, block_size, &found, stop)? else { break };
        let Some(traffic) = Traffic::of(&past, history, next[0].of) else { break };
        if came.is_empty() {
            came = arrivals(&past);
        }
        let admitted = match next[..] {
            [one, other] => {
                Passage::of(&[one, other].map(|found| found.calibrated.suspect), &traffic).admitted
            }
            _ => Passage::of(&[next[0].calibrated.suspect], &traffic).admitted,
        };
        for ((run, came), (seen, times)) in
            past.iter_mut().zip(&mut came).zip(traffic.runs.iter().zip(&admitted))
        {
            for (charged, admission) in seen.requests.iter().zip(times) {
                let passed = &mut run[charged.place as usize];
                came[charged.place as usize].1 |= admission.held_by.is_some();
                passed.arrival = passed.arrival.max(seen.origin + Duration::from_ns_f64(admission.time));
            }
        }
        found.extend(next);
    }
    let waits = past.iter().flatten().zip(came.iter().flatten()).map(|(past, (came, is_held))| {
        let time = past.arrival.saturating_since(*came);
        Wait { time, is_held: *is_held || !time.is_zero() }
    });
    Ok(Limits { waits: waits.collect(), found })
}

/// Arrivals of requests that no limit is known to have held.
fn arrivals(past: &[Vec<Passed>]) -> Vec<Vec<(Instant, bool)>> {
    past.iter().map(|run| run.iter().map(|passed| (passed.arrival, false)).collect()).collect()
}

/// The limits that give back in portions: one of all, or one of reads and one of writes. Requests arrive when these let them go.
fn in_portions(
    past: &mut [Vec<Passed>],
    came: &mut Vec<Vec<(Instant, bool)>>,
    history: &History,
    block_size: ByteSize,
    stop: &StopCheck,
) -> Result<Vec<Found>, Error> {
    let mut found: Vec<Found> = Vec::new();
    for of in [Limited::All, Limited::Reads, Limited::Writes] {
        stop.check()?;
        if found.iter().any(|found| found.of == Limited::All) {
            break;
        }
        let Some(traffic) = Traffic::of(past, history, of) else { continue };
        let Some(lengths) = Lengths::of(past, of) else { continue };
        let portions = units(lengths, block_size).iter().filter_map(|unit| Portions::of(&traffic, *unit));
        let Some(portions) = portions.min_by(|one, other| one.spread.total_cmp(&other.spread)) else {
            continue;
        };
        if came.is_empty() {
            *came = arrivals(past);
        }
        for ((run, came), (seen, waits)) in
            past.iter_mut().zip(came.iter_mut()).zip(traffic.runs.iter().zip(&portions.waits))
        {
            for (charged, wait) in seen.requests.iter().zip(waits).filter(|(_, wait)| **wait > 0.0) {
                let passed = &mut run[charged.place as usize];
                came[charged.place as usize].1 = true;
                passed.arrival = seen.origin + Duration::from_ns_f64(charged.arrival + wait);
            }
        }
        found.push(Found::in_portions(of, &portions, portions.explained(&traffic), lengths.is_even));
    }
    Ok(found)
}

/// The units that a limit may count.
fn units(Lengths { mean, is_even }: Lengths, block_size: ByteSize) -> &'static [Unit] {
    match is_even {
        false => &[Unit::Requests, Unit::Blocks],
        true if mean * block_size.as_bytes() as f64 >= LONG_BYTES => &[Unit::Blocks],
        true => &[Unit::Requests],
    }
}

/// The limit that explains most of the waiting. One of reads and one of writes together also look like one of all operations while
/// a load reaches both, so a limit of all must explain as much as those two do.
fn best(
    runs: &[Vec<Passed>],
    history: &History,
    block_size: ByteSize,
    known: &[Found],
    stop: &StopCheck,
) -> Result<Option<Together>, Error> {
    let all: usize = runs.iter().map(Vec::len).sum();
    let reads = runs.iter().flatten().filter(|passed| passed.op == Operation::Read).count();
    let is_mixed = reads.min(all - reads) >= all / SHARE_LEAST;
    let of = |of| best_of(of, runs, history, block_size, known, stop);
    let joint = of(Limited::All)?;
    if !is_mixed {
        return Ok(joint);
    }
    let separate = [of(Limited::Reads)?, of(Limited::Writes)?];
    let explained: f64 = separate.iter().flatten().map(score).sum();
    // A limit of all under requests of one kind at a time.
    let is_joint = |joint: &Together| {
        let is_like = |other: &Found| joint.iter().any(|joint| joint.has_rate_of(other));
        separate.iter().flatten().flatten().any(is_like)
    };
    Ok(match joint {
        Some(joint) if score(&joint) * DISTINCT >= explained || is_joint(&joint) => Some(joint),
        _ => strongest(separate.into_iter().flatten()),
    })
}

/// The limits of these operations that explain most of the waiting. Where requests and bytes are limited and the load often
/// meets both, no bucket is right by itself, or explains less than both together.
fn best_of(
    of: Limited,
    runs: &[Vec<Passed>],
    history: &History,
    block_size: ByteSize,
    known: &[Found],
    stop: &StopCheck,
) -> Result<Option<Together>, Error> {
    let Some(lengths) = Lengths::of(runs, of) else { return Ok(None) };
    let Some(traffic) = Traffic::of(runs, history, of) else { return Ok(None) };
    let is_even = lengths.is_even;
    let mut suspects: Vec<Vec<Suspect>> = Vec::new();
    for unit in units(lengths, block_size) {
        let suspect = |Line { rate, burst, .. }| Suspect { unit: *unit, rate, burst };
        suspects.push(lines(&traffic, *unit, stop)?.into_iter().map(suspect).collect());
    }
    let is_new = |found: &Together| known.iter().all(|known| found.iter().all(|found| !known.is_near(found)));
    let mut found = Vec::new();
    for suspect in suspects.iter().flatten() {
        found.extend(tried(&traffic, [*suspect], of, is_even, stop)?);
    }
    let single = strongest(found.into_iter().filter(is_new));
    let [mut requests, mut bytes] = match &suspects[..] {
        [requests, bytes] if known.is_empty() => {
            [requests, bytes].map(|lines| &lines[..lines.len().min(TOGETHER)])
        }
        _ => return Ok(single),
    };
    let known_suspect = single.as_ref().map(|single| [single[0].calibrated.suspect]);
    if let Some(suspect) = &known_suspect {
        let side = if suspect[0].unit == Unit::Requests { &mut requests } else { &mut bytes };
        *side = suspect;
    }
    let mut found = Vec::new();
    for one in requests {
        for other in bytes {
            found.extend(tried(&traffic, [*one, *other], of, is_even, stop)?);
        }
    }
    let together = strongest(found.into_iter().filter(is_new));
    Ok(match (single, together) {
        (Some(single), Some(together)) if score(&together) <= score(&single) * DISTINCT => Some(single),
        (single, together) => together.or(single),
    })
}

/// The ones that explain most, of equal ones the first.
fn strongest(found: impl Iterator<Item = Together>) -> Option<Together> {
    found.reduce(|best, next| if score(&next) > score(&best) { next } else { best })
}

/// Nanoseconds of waiting that limits explain together, less what they leave.
fn score(found: &Together) -> f64 {
    found.first().map_or(0.0, |found| found.evidence.score)
}

/// The limits of suspected buckets, if they are limits.
fn tried<const N: usize>(
    traffic: &Traffic,
    suspects: [Suspect; N],
    of: Limited,
    is_even: bool,
    stop: &StopCheck,
) -> Result<Option<Together>, Error> {
    let Some(calibration) = Calibration::of(traffic, suspects, stop)? else { return Ok(None) };
    let evidence = evidence(traffic, &calibration);
    let found = (0..N).map(|bucket| Found {
        of,
        calibrated: calibration.buckets[bucket],
        used: calibration.passage.used[bucket],
        evidence: evidence[bucket],
        interval: 0.0,
        is_even,
    });
    Ok(evidence[0].is_found.then(|| found.collect()))
}

impl Found {
    /// A limit that gives back in portions.
    fn in_portions(of: Limited, portions: &Portions, explained: f64, is_even: bool) -> Self {
        let Portions { unit, rate, portion, interval, rate_error, used, held, .. } = *portions;
        let width = 2.0 * rate_error * rate;
        Self {
            of,
            calibrated: Calibrated {
                suspect: Suspect { unit, rate, burst: portion },
                rates: [rate - width, rate + width],
                bursts: [1.0 - portions.spread, 1.0 + portions.spread].map(|share| share * portion),
            },
            used,
            evidence: Evidence { held, explained, score: 0.0, is_found: true },
            interval,
            is_even,
        }
    }

    /// Returns true if the rate of the other is within 5 % of this limit's rate, for the same operations and unit.
    fn is_near(&self, other: &Self) -> bool {
        self.of == other.of && self.has_rate_of(other)
    }

    /// Returns true if the rate of the other is within 5 % of this limit's rate, in the same unit.
    fn has_rate_of(&self, other: &Self) -> bool {
        const NEAR: f64 = 0.05;
        let [one, another] = [self, other].map(|found| found.calibrated.suspect);
        one.unit == another.unit && (one.rate / another.rate - 1.0).abs() < NEAR
    }
}

impl Limits {
    /// Their summaries.
    pub(crate) fn limit_summaries(&self, block_size: ByteSize) -> Vec<LimitSummary> {
        // Of layers around nothing: summaries do not look at the device.
        self.around(Table::new(), block_size, false)
            .map_or_else(|_| Vec::new(), |table| limit_summaries(&table))
    }

    /// The layers of these limits around a device; their buckets as the trace left them if it `with_state`, else full.
    pub(crate) fn around(
        &self,
        device: Table,
        block_size: ByteSize,
        with_state: bool,
    ) -> Result<Table, DescriptionError> {
        let mut table = device;
        for of in [Limited::Writes, Limited::Reads, Limited::All] {
            let found: Vec<&Found> = self.found.iter().filter(|found| found.of == of).collect();
            if found.is_empty() {
                continue;
            }
            let mut layer =
                LimitParameters { of, requests: Vec::new(), bytes: Vec::new(), fit: BTreeMap::new() };
            for found in found {
                found.put(&mut layer, block_size, with_state);
            }
            table = layer.description(table)?;
        }
        Ok(table)
    }
}

impl Found {
    /// Puts its bucket into a layer, with what speaks for it.
    fn put(&self, layer: &mut LimitParameters, block_size: ByteSize, with_state: bool) {
        let Calibrated { suspect, rates, bursts } = self.calibrated;
        let scale = match suspect.unit {
            Unit::Requests => 1.0,
            Unit::Blocks => block_size.as_bytes() as f64,
        };
        let burst = ((suspect.burst * scale).round() as u64).max(1);
        let used = if with_state { (self.used * scale).round() as u64 } else { 0 };
        let per_s = five_digits(suspect.rate * scale * 1e9);
        let interval = match self.interval > 0.0 {
            true => Duration::from_ns_f64(five_digits(self.interval)),
            false => Duration::ZERO,
        };
        // All of a portion has room.
        let burst = burst.max((per_s * interval.as_s()).ceil() as u64);
        let key = match suspect.unit {
            Unit::Requests => {
                let Some(rate) = RequestRate::from_per_s(per_s) else { return };
                layer.requests.push(RequestBucket { rate, burst, interval, used });
                format!("requests[{}]", layer.requests.len() - 1)
            }
            Unit::Blocks => {
                let rate = DataRate::from_bytes_per_s((per_s as u64).max(1));
                let [burst, used] = [burst, used].map(ByteSize::from_bytes);
                layer.bytes.push(ByteBucket { rate, burst, interval, used });
                format!("bytes[{}]", layer.bytes.len() - 1)
            }
        };
        let even = match (self.is_even, suspect.unit) {
            (false, _) => "",
            (true, Unit::Requests) => "; all requests have one length, so it may be a limit of bytes",
            (true, Unit::Blocks) => "; all requests have one length, so it may be a limit of requests",
        };
        let Evidence { held, explained, .. } = self.evidence;
        let between = |ends: [f64; 2], scale: f64| {
            let [low, high] = ends.map(|end| five_digits(end * scale));
            format!("{low} to {high}")
        };
        let (rates, bursts) = match suspect.unit {
            Unit::Requests => (between(rates, 1e9) + " requests/s", between(bursts, 1.0) + " requests"),
            Unit::Blocks => (between(rates, scale * 1e3) + " MB/s", between(bursts, scale / 1e6) + " MB"),
        };
        let text = format!(
            "rate {rates}, burst {bursts}; delayed {} and explains {:.0} % of their additional time{even}",
            counted(held, "request"),
            100.0 * explained
        );
        layer.fit.insert(key, text);
    }
}

/// Rounds to five digits, which is more than is known.
fn five_digits(value: f64) -> f64 {
    let places = 4 - value.abs().log10().floor() as i32;
    if places >= 0 {
        let scale = 10_f64.powi(places);
        (value * scale).round() / scale
    } else {
        let scale = 10_f64.powi(-places);
        (value / scale).round() * scale
    }
}
