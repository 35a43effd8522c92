//! Sentences on how far to trust a measurement.

use seeklab_bench::{
    Interval, Measurement, Plan, STEADY_RANGE_PCT, STEADY_ROUNDS, STEADY_SLOPE_PCT, SteadyFigure, SteadyRule,
    SteadyWindow, Totals,
};

use seeklab_core::statistics::Distribution;
use seeklab_workloads::WorkloadSpec;

use super::figures::LATE;
use super::load::Load;
use super::options::{PhaseOptions, StreamLoad};
use super::phase::StreamRun;
use super::phases::track;
use crate::run::in_whole_blocks;

/// Share of late issues, in percent, above which arrivals are not as intended.
const LATE_PCT_MAX: f64 = 1.0;
/// Share of a processor, in percent, from which a thread has no time left.
const BUSY_PCT: f64 = 95.0;
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

/// Examines a phase: each of its streams, then all together.
pub(super) fn notes(
    plan: &Plan,
    phase: &PhaseOptions,
    streams: &[StreamRun],
    loads: &[Load],
    measurement: &Measurement,
) -> Notes {
    let (mut facts, mut doubts) = (Vec::new(), Vec::new());
    for (index, (stream, load)) in streams.iter().zip(loads).enumerate() {
        let named = |note: String| match streams.len() {
            1 => note,
            _ => format!("stream `{}`: {note}", phase.streams[index].name),
        };
        facts.extend(stream.facts.notes.iter().cloned().map(named));
        facts.extend(rounding(&phase.streams[index].workload, stream).map(named));
        doubts.extend(of_stream(plan, stream, load, measurement, index).into_iter().map(named));
    }
    doubts.extend(busy(plan, loads, measurement));
    let mut remarks = Vec::new();
    match plan.steady {
        Some(rule) => doubts.extend(not_reached(rule, measurement)),
        None => doubts.extend(unsteady(&measurement.intervals)),
    }
    remarks.extend(changes(plan, measurement));
    let is_trusted = doubts.is_empty();
    if is_trusted && measurement.totals.part.requests() > 0 {
        doubts.push(if plan.is_virtual { EXACT } else { ALL_CLEAR }.to_owned());
    }
    Notes { is_trusted, sentences: facts.into_iter().chain(doubts).chain(remarks).collect() }
}

/// A sentence on how late an emulated device completed its requests. It limits the trust if more than [`LATE_PCT_MAX`] were
/// [`LATE`]. `None` if there were none.
pub(super) fn emulation(address: &str, lateness: &Distribution) -> Option<(bool, String)> {
    let (median, longest) = (lateness.quantile(0.5)?, lateness.quantile(1.0)?);
    let late: u64 = lateness.buckets().filter(|(upper, _)| *upper > LATE).map(|(_, count)| count).sum();
    let late_pct = 100.0 * late as f64 / lateness.moments().count() as f64;
    let sentence = format!(
        "`{address}`: half of the completions came more than {:.2} us after they were due, {late_pct:.2} % more than 50 us, the \
         latest {:.0} us",
        median.as_us(),
        longest.as_us(),
    );
    Some((late_pct > LATE_PCT_MAX, sentence))
}

/// A remark if the sizes of a workload are no whole blocks of the target.
fn rounding(workload: &StreamLoad, stream: &StreamRun) -> Option<String> {
    match &workload.workload()?.spec {
        WorkloadSpec::Synthetic(spec) => {
            in_whole_blocks(spec, stream.facts.space.block_size).1.map(|note| note.text().to_owned())
        }
        _ => None,
    }
}

/// Doubts on a stream.
fn of_stream(
    plan: &Plan,
    stream: &StreamRun,
    load: &Load,
    measurement: &Measurement,
    index: usize,
) -> Vec<String> {
    let totals = &measurement.streams[index];
    let part = &totals.part;
    let mut doubts = Vec::new();
    let late_pct = totals.late_pct(LATE).filter(|_| load.is_open && !plan.is_virtual);
    if let Some(late_pct) = late_pct.filter(|pct| *pct > LATE_PCT_MAX) {
        let switches = measurement.totals.cost.map_or(0, |cost| cost.preemptions);
        doubts.push(format!(
            "{late_pct:.1} % of the requests were issued more than 50 us late by this program itself, and the kernel took \
             its processor away {switches} times: response times include that, service times do not"
        ));
    }
    if totals.unissued > 0 {
        let at_least = if totals.has_more_unissued { "at least " } else { "" };
        doubts.push(format!(
            "{at_least}{} requests arrived and were never issued, because the target did not sustain the load: no time includes them",
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
        doubts.push(format!("{}: no time includes them", unreturned(totals)));
    }
    if let Some(away) = totals.away {
        doubts.push(format!("there was no connection in the last {:.1} s", away.as_s()));
    }
    if part.pause >= Plan::HUNG && !plan.is_virtual {
        let pause_s = part.pause.as_s();
        doubts.push(format!("for {pause_s:.1} s no request ended, although some were under way or waited"));
    }
    if let Some(refusal) = &totals.refusal {
        doubts.push(format!("requests were not sent, because the target refuses them: {refusal}"));
    }
    if part.failed > 0 {
        let failed = crate::output::counted(part.failed as usize, "request");
        doubts.push(format!("{failed} failed: no time of successful requests includes them"));
    }
    if part.delayed > 0 && totals.unissued == 0 {
        doubts.push(format!(
            "{} arrivals waited because {} requests were under way: their response times include the wait",
            part.delayed,
            stream.room()
        ));
    }
    let takes = stream.facts.outstanding_max;
    if let Some(population) = load.population.filter(|population| takes == 1 && *population > 1) {
        doubts.push(format!(
            "this target takes one request at a time from each thread, not the {population} of the load"
        ));
    }
    doubts
}

/// The requests that a target has not returned, in words.
pub(super) fn unreturned(totals: &Totals) -> String {
    let threads = crate::output::counted(totals.silent_threads as usize, "thread");
    match totals.unfinished.len() {
        0 => format!("{threads} did not end in time, and figures of the last interval are missing"),
        held if totals.silent_threads > 0 => format!(
            "the target never returned {}, and {threads} with it: what arrived there since is in no count",
            crate::output::counted(held, "request")
        ),
        held => format!("the target never returned {}", crate::output::counted(held, "request")),
    }
}

/// A doubt if the program used up its processors, so that a faster target would look the same.
fn busy(plan: &Plan, loads: &[Load], measurement: &Measurement) -> Option<String> {
    let cost = measurement.totals.cost?;
    let elapsed_s = measurement.totals.elapsed().as_s();
    // An open load spins before each arrival.
    if loads.iter().any(|load| load.is_open) || plan.is_virtual || elapsed_s <= 0.0 {
        return None;
    }
    let pct = 100.0 * cost.processor().as_s() / elapsed_s;
    (pct >= BUSY_PCT).then(|| {
        format!("this program used {pct:.0} % of a processor: with one thread per processor it may find more requests per second")
    })
}

/// A doubt if the rate of the last intervals still changed.
fn unsteady(intervals: &[Interval]) -> Option<String> {
    // The last interval may be cut.
    let inner = intervals.get(..intervals.len().checked_sub(1)?)?;
    let last = inner.get(inner.len().checked_sub(STEADY_ROUNDS)?..)?;
    let rates: Vec<f64> =
        last.iter().map(|interval| SteadyFigure::RequestsPerSecond.of(&interval.part)).collect();
    let Some(window) = SteadyWindow::of_last(&rates) else {
        return Some("the target completed nothing in the last intervals".to_owned());
    };
    (!window.is_steady()).then(|| {
        format!("no steady state: over the last {STEADY_ROUNDS} intervals the rate had {}", in_words(window))
    })
}

/// Range and trend of a window in words.
fn in_words(window: SteadyWindow) -> String {
    format!(
        "a range of {:.0} % of its mean (allowed {STEADY_RANGE_PCT:.0} %) and a trend of {:.0} % (allowed \
         {STEADY_SLOPE_PCT:.0} %)",
        window.range_pct,
        window.slope_pct.abs()
    )
}

/// A doubt if a phase that was to end in its steady state did not reach it.
fn not_reached(rule: SteadyRule, measurement: &Measurement) -> Option<String> {
    let track = measurement.steady.as_ref().filter(|track| track.changes().is_empty())?;
    let rounds = track.figures().len();
    let name = rule.figure.name();
    Some(match track.window() {
        Some(window) => format!(
            "no steady state in {rounds} rounds: over the last {STEADY_ROUNDS} of them {name} had {}",
            in_words(window)
        ),
        None => format!("no steady state in {rounds} rounds of {name}: the test takes {STEADY_ROUNDS}"),
    })
}

/// A remark if the steady state was left again.
fn changes(plan: &Plan, measurement: &Measurement) -> Option<String> {
    let (figure, track) = track(plan, measurement)?;
    let [reached, left, rest @ ..] = track.changes() else { return None };
    let round_s = plan.interval?.as_s();
    let values = track.figures();
    let again = match rest.first() {
        Some(again) => format!("; it was reached again with interval {}", again.round),
        None => String::new(),
    };
    Some(format!(
        "the steady state of interval {} was left with interval {}, {:.1} s after the begin of the phase: {} went from {:.3} \
         to {:.3}{again}",
        reached.round,
        left.round,
        left.round as f64 * round_s,
        figure.name(),
        values[left.round as usize - 2],
        values[left.round as usize - 1],
    ))
}
