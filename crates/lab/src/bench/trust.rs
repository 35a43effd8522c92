//! Sentences on how far to trust a measurement.

use seeklab_bench::target::TargetFacts;
use seeklab_bench::{Interval, Measurement, Plan};

use super::figures::LATE;
use super::load::Load;

/// Share of late issues, in percent, above which arrivals are not as intended.
const LATE_PCT_MAX: f64 = 1.0;
/// Share of a processor, in percent, from which a thread has no time left.
const BUSY_PCT: f64 = 95.0;
/// Intervals of the test for a steady state \[SNIA PTS-E 2.0, section 7\].
const ROUNDS: usize = 5;
/// Range of the rates of these intervals at most, in percent of their mean.
const RANGE_PCT_MAX: f64 = 20.0;
/// Change of their fitted line from the first to the last at most, in percent of their mean.
const SLOPE_PCT_MAX: f64 = 10.0;

/// Sentence on a run that nothing distorted.
const ALL_CLEAR: &str = "no disturbance was found: requests were issued in time, none failed or is missing";
/// The same of a run in virtual time.
const EXACT: &str = "the times are those of the model, exactly";

/// Notes on a measurement.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// True if nothing is known that distorts the figures.
    pub(super) is_trusted: bool,
    /// The notes.
    pub(super) sentences: Vec<String>,
}

impl Notes {
    /// Adds a note, which may limit the trust.
    pub(super) fn add(&mut self, limits_trust: bool, note: String) {
        if limits_trust {
            self.is_trusted = false;
            self.sentences.retain(|sentence| ![ALL_CLEAR, EXACT].contains(&sentence.as_str()));
        }
        self.sentences.push(note);
    }
}

/// Examines a measurement.
pub(super) fn notes(plan: &Plan, load: &Load, facts: &TargetFacts, measurement: &Measurement) -> Notes {
    let totals = &measurement.totals;
    let part = &totals.part;
    let mut doubts = Vec::new();
    let late_pct = totals.late_pct(LATE).filter(|_| load.is_open && !plan.is_virtual);
    if let Some(late_pct) = late_pct.filter(|pct| *pct > LATE_PCT_MAX) {
        let switches = totals.cost.map_or(0, |cost| cost.preemptions);
        doubts.push(format!(
            "{late_pct:.1} % of the requests were issued more than 50 us late by this program itself, and the kernel took \
             its processor away {switches} times: response times include that, service times do not"
        ));
    }
    if totals.unissued > 0 {
        doubts.push(format!(
            "{} requests arrived and were never issued, because the target did not sustain the load: no time includes them",
            totals.unissued
        ));
    }
    if part.dropped > 0 {
        doubts.push(format!(
            "{} requests found no room and were left out: no time includes them",
            part.dropped
        ));
    }
    if !totals.unfinished.is_empty() || totals.silent_threads > 0 {
        let held = totals.unfinished.len();
        doubts.push(format!("the target never returned {held} requests: no time includes them"));
    }
    if part.failed > 0 {
        doubts.push(format!("{} requests failed: no time of successful requests includes them", part.failed));
    }
    doubts.extend(busy(plan, load, measurement));
    doubts.extend(unsteady(&measurement.intervals));
    if part.delayed > 0 && totals.unissued == 0 {
        doubts.push(format!(
            "{} arrivals waited because {} requests were under way: their response times include the wait",
            part.delayed, plan.outstanding_max
        ));
    }
    let one_at_a_time = load.population.filter(|population| *population > facts.outstanding_max.max(1));
    if let Some(population) = one_at_a_time.filter(|_| facts.outstanding_max == 1) {
        doubts.push(format!(
            "this target takes one request at a time from each thread, not the {population} of the load"
        ));
    }
    let is_trusted = doubts.is_empty();
    if is_trusted && part.requests() > 0 {
        doubts.push(if plan.is_virtual { EXACT } else { ALL_CLEAR }.to_owned());
    }
    let sentences = facts.notes.iter().cloned().chain(doubts).collect();
    Notes { is_trusted, sentences }
}

/// A doubt if the program used up its processors, so that a faster target would look the same.
fn busy(plan: &Plan, load: &Load, measurement: &Measurement) -> Option<String> {
    let cost = measurement.totals.cost?;
    let elapsed_s = measurement.totals.elapsed().as_s();
    // An open load spins before each arrival.
    if load.is_open || plan.is_virtual || elapsed_s <= 0.0 {
        return None;
    }
    let pct = 100.0 * cost.processor().as_s() / elapsed_s;
    (pct >= BUSY_PCT).then(|| {
        format!("this program used {pct:.0} % of a processor: with one thread per processor it may find more requests per second")
    })
}

/// A doubt if the rate of the last intervals still changed.
fn unsteady(intervals: &[Interval]) -> Option<String> {
    // The first and the last interval may be cut.
    let inner = intervals.get(..intervals.len().checked_sub(1)?)?;
    let last = inner.get(inner.len().checked_sub(ROUNDS)?..)?;
    let rates: Vec<f64> = last
        .iter()
        .map(|interval| {
            let length = interval.part.until.saturating_since(interval.part.from);
            interval.part.requests() as f64 / length.as_s().max(1e-9)
        })
        .collect();
    let mean = rates.iter().sum::<f64>() / ROUNDS as f64;
    if mean <= 0.0 {
        return Some("the target completed nothing in the last intervals".to_owned());
    }
    let (min, max) =
        rates.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), rate| (min.min(*rate), max.max(*rate)));
    let range_pct = 100.0 * (max - min) / mean;
    let middle = (ROUNDS - 1) as f64 / 2.0;
    let (mut products, mut squares) = (0.0, 0.0);
    for (index, rate) in rates.iter().enumerate() {
        let x = index as f64 - middle;
        products += x * (rate - mean);
        squares += x * x;
    }
    let slope_pct = 100.0 * (products / squares * (ROUNDS - 1) as f64).abs() / mean;
    (range_pct > RANGE_PCT_MAX || slope_pct > SLOPE_PCT_MAX).then(|| {
        format!(
            "no steady state: over the last {ROUNDS} intervals the rate had a range of {range_pct:.0} % of its mean \
             (allowed {RANGE_PCT_MAX:.0} %) and a trend of {slope_pct:.0} % (allowed {SLOPE_PCT_MAX:.0} %)"
        )
    })
}
