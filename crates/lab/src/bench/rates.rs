//! Offered rates of an open load: a list of them, one phase each, or the highest that a bound allows.
//!
//! ```text
//! rates 10%, 50%, 90%     phase "10%" ─▶ phase "50%" ─▶ phase "90%" ─▶ response curve
//! find_rate BOUND         rate holds: × 2 … until it does not ─▶ halve the interval ─▶ FoundRate
//! ```
//! # Scope and limits
//! Every trial draws from the same seed and begins with a model at rest, so trials of a model differ by their rate alone. A
//! real target keeps the state of the trials before.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use seeklab_bench::Totals;
use seeklab_core::statistics::Distribution;
use seeklab_workloads::{Rate, WorkloadSpec};
use serde::Serialize;

use super::figures::{LoadFigures, six_decimals};
use super::options::{BenchOptions, PhaseOptions, StreamLoad, StreamOptions};
use super::trust;
use crate::estimate::Bound;
use crate::failure::Failure;
use seeklab_core::number_words::counted;

/// Width of the interval that holds the highest rate, in percent of the rate.
const WIDTH_PCT: f64 = 0.5;
/// Trials at most.
const TRIALS_MAX: usize = 40;
/// Requests under way, in the mean, with which a target counts as idle: one in fifty finds it busy. Lower rates change its response
/// times little.
const IDLE_OUTSTANDING: f64 = 0.02;

/// A rate at which requests are to arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OfferedRate {
    /// Share of the rate of the workload.
    Share(f64),
    /// Requests per second.
    PerSecond(f64),
}

impl OfferedRate {
    fn per_s(self, of_workload: f64) -> f64 {
        match self {
            Self::Share(share) => share * of_workload,
            Self::PerSecond(rate) => rate,
        }
    }
}

impl FromStr for OfferedRate {
    type Err = String;

    /// Reads a share such as `50%` or a rate such as `500/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.strip_suffix('%') {
            Some(share) => match share.trim().parse::<f64>() {
                Ok(share) if share.is_finite() && share > 0.0 => Ok(Self::Share(share / 100.0)),
                _ => Err(format!("`{text}` is no share above 0 (hint: write for example 50%)")),
            },
            None => text.parse::<Rate>().map(|rate| Self::PerSecond(rate.as_per_s())).map_err(|_| {
                format!("`{text}` is no rate (hint: write a share of the workload's rate such as 50%, or a rate such as 500/s)")
            }),
        }
    }
}

impl fmt::Display for OfferedRate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Share(share) => write!(f, "{}%", six_decimals(share * 100.0)),
            Self::PerSecond(rate) => write!(f, "{}/s", six_decimals(*rate)),
        }
    }
}

/// Side that keeps a bound from holding at a higher rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateLimit {
    /// The target takes too long, or leaves requests out.
    Target,
    /// This program has no time left, or issues its requests late.
    Generator,
}

impl RateLimit {
    /// Its name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Generator => "generator",
        }
    }
}

/// Highest rate at which a bound holds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FoundRateFigures {
    /// Bound as requested.
    pub bound: String,
    /// Highest rate at which the bound held, per second.
    pub arrivals_per_s: f64,
    /// Lowest rate at which it did not hold, per second.
    pub exceeded_arrivals_per_s: f64,
    /// Value of the figure at the highest rate.
    pub value: Option<f64>,
    /// Side that broke the bound at the lowest rate at which it did not hold. If it is the generator, the target may keep the
    /// bound at higher rates.
    pub limited_by: RateLimit,
    /// True if the search came to its end. Otherwise the rates are those of the trials until then, zero where none is known.
    pub complete: bool,
    /// Trials in order.
    pub trials: Vec<TrialFigures>,
}

impl FoundRateFigures {
    /// A doubt if the rate is that of this program.
    pub(super) fn doubt(&self) -> Option<String> {
        (self.limited_by == RateLimit::Generator).then(|| {
            format!(
                "this program, not the target, broke the bound at {} requests per second: the target may keep it at higher rates than {}",
                self.exceeded_arrivals_per_s, self.arrivals_per_s
            )
        })
    }
}

/// A trial at a rate.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrialFigures {
    /// Rate at which requests arrived, per second.
    pub arrivals_per_s: f64,
    /// Value of the figure; null if nothing was carried out.
    pub value: Option<f64>,
    /// Requests that arrived and were not carried out: never issued, left out or failed.
    pub missing_requests: u64,
    /// True if the bound held and no request is missing.
    pub holds: bool,
    /// Side that broke the bound; null if it held.
    pub limited_by: Option<RateLimit>,
}

/// Rate of the only stream of a phase, per second.
///
/// # Errors
/// Several streams, or a load without a rate.
pub(super) fn rate_of(phase: &PhaseOptions) -> Result<f64, Failure> {
    let [stream] = phase.streams.as_slice() else {
        return Err(Failure::new(format!(
            "the phase has {} streams, and a rate is of one",
            phase.streams.len()
        ))
        .hint("write the other streams into a phase of their own"));
    };
    offered_per_s(stream).ok_or_else(|| {
        Failure::new(format!("`{}` has no rate of arrivals", stream.workload.name()))
            .hint("choose a synthetic open load, for example poisson=100/s")
    })
}

/// Mean rate of the arrivals of a stream per second; `None` of a load whose requests wait for completions, or of a trace.
pub(super) fn offered_per_s(stream: &StreamOptions) -> Option<f64> {
    match &stream.workload {
        StreamLoad::Workload(workload) => match &workload.spec {
            WorkloadSpec::Synthetic(spec) => spec.arrivals.rate_per_s(),
            _ => None,
        },
        StreamLoad::Job(job, _) => job.rate_per_s(),
    }
}

/// The only phase with another rate.
fn at_rate(phase: &PhaseOptions, name: String, per_s: f64) -> Option<PhaseOptions> {
    let mut phase = PhaseOptions { name, ..phase.clone() };
    set_rate(&mut phase.streams[0].workload, per_s)?;
    Some(phase)
}

/// Changes the rate of a load; `None` if it has none, or the rate is out of range.
pub(super) fn set_rate(load: &mut StreamLoad, per_s: f64) -> Option<()> {
    match load {
        StreamLoad::Workload(workload) => {
            let WorkloadSpec::Synthetic(spec) = &mut workload.spec else { return None };
            spec.arrivals = spec.arrivals.with_rate(per_s)?;
            Some(())
        }
        StreamLoad::Job(job, _) => job.set_rate(per_s).then_some(()),
    }
}

/// A phase for each rate, named by the rate behind `prefix`.
///
/// # Errors
/// Several streams, a load without a rate, or rates that are there twice or out of range.
pub(super) fn curve(
    phase: &PhaseOptions,
    rates: &[OfferedRate],
    prefix: Option<&str>,
) -> Result<Vec<PhaseOptions>, Failure> {
    let of_workload = rate_of(phase)?;
    let mut phases: Vec<PhaseOptions> = Vec::new();
    for rate in rates {
        let name = prefix.map_or_else(|| rate.to_string(), |prefix| format!("{prefix} {rate}"));
        if phases.iter().any(|phase| phase.name == name) {
            return Err(Failure::new(format!("{rate} is there twice")).hint("remove one of them"));
        }
        phases.push(at_rate(phase, name, rate.per_s(of_workload)).ok_or_else(|| {
            let [min, max] = [Rate::MIN, Rate::MAX].map(Rate::as_per_s);
            Failure::new(format!("{rate} is out of range")).hint(format!("{min}/s to {max}/s are allowed"))
        })?);
    }
    Ok(phases)
}

/// The only phase of a plan.
fn only_phase(options: &BenchOptions) -> Result<&PhaseOptions, Failure> {
    match options.phases.as_slice() {
        [phase] => Ok(phase),
        phases => Err(Failure::new(format!("is for one phase, and there are {}", phases.len()))
            .hint("measure the other phases in a plan of their own")),
    }
}

/// The options of one phase with a phase for each rate in its place.
///
/// # Errors
/// Several phases or streams, a load without a rate, or rates that are there twice or out of range.
pub fn with_rates(options: BenchOptions, rates: &[OfferedRate]) -> Result<BenchOptions, Failure> {
    let phases = only_phase(&options).and_then(|phase| curve(phase, rates, None));
    let phases = phases.map_err(|failure| failure.context("--rates"))?;
    Ok(BenchOptions { phases, ..options })
}

/// Value of the figure of a bound in a distribution, in milliseconds; `None` of `outstanding_mean`, and if there are no times.
fn value_of(bound: Bound, times: &Distribution) -> Option<f64> {
    let ms = |quantile| times.quantile(quantile).map(|time| time.as_ms());
    match bound.figure() {
        "response_mean_ms" => times.moments().mean().map(|ns| ns / 1e6),
        "response_p50_ms" => ms(0.5),
        "response_p90_ms" => ms(0.9),
        "response_p95_ms" => ms(0.95),
        "response_p99_ms" => ms(0.99),
        "response_p999_ms" => ms(0.999),
        _ => None,
    }
}

/// Side that broke a bound in a trial: this program if it had no time left, or if the bound holds from the issue on and more than
/// half of the value is the lateness of its issues.
fn limited_by(bound: Bound, totals: &Totals, value: Option<f64>) -> RateLimit {
    let is_late = || {
        let service = value_of(bound, &totals.part.service())?;
        let lateness = value_of(bound, &totals.part.lateness)?;
        Some(service <= bound.value() && lateness > value? / 2.0)
    };
    match trust::is_generator_limit(totals) || is_late() == Some(true) {
        true => RateLimit::Generator,
        false => RateLimit::Target,
    }
}

/// Requests that arrived and were not carried out.
fn missing(totals: &Totals) -> u64 {
    totals.unissued + totals.part.dropped + totals.part.failed + totals.unfinished.len() as u64
}

/// Value of the figure of a bound; `None` if nothing was carried out.
fn value_in(bound: Bound, load: &LoadFigures) -> Option<f64> {
    let times = &load.response;
    match bound.figure() {
        "response_mean_ms" => times.response_mean_ms,
        "response_p50_ms" => times.response_p50_ms,
        "response_p90_ms" => times.response_p90_ms,
        "response_p95_ms" => times.response_p95_ms,
        "response_p99_ms" => times.response_p99_ms,
        "response_p999_ms" => times.response_p999_ms,
        _ => load.outstanding_mean,
    }
}

/// Reason for which a search ends without a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchEnd {
    /// The trial did not hold although the target was idle nearly always.
    Idle,
    /// Requests arrived, and none was carried out.
    NoSuccess,
    /// No request arrived.
    NoArrival,
}

/// Looks for the highest rate at which a bound holds.
pub(super) struct RateSearch {
    bound: Bound,
    next: f64,
    holds: Option<f64>,
    exceeded: Option<f64>,
    /// Reason for which no lower rate than that of the last trial holds.
    end: Option<SearchEnd>,
    trials: Vec<TrialFigures>,
}

impl RateSearch {
    /// A search that begins with the rate of the workload.
    ///
    /// # Errors
    /// Options that do not go with it.
    pub(super) fn new(options: &BenchOptions, bound: Bound) -> Result<Self, Failure> {
        let next = only_phase(options).and_then(rate_of);
        let next = next.map_err(|failure| failure.context("--find-rate"))?;
        if bound.figure() == "utilisation_pct" {
            return Err(Failure::new(format!("--find-rate {bound}: a measurement has no utilisation"))
                .hint("bound a response time or outstanding_mean"));
        }
        let not_beside = [("--record", options.record.is_some()), ("--repeat", options.repetitions > 1)];
        if let Some((option, _)) = not_beside.into_iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::new(format!(
                "{option}: does not go with --find-rate, which measures at many rates"
            ))
            .hint("measure again at the rate that it finds"));
        }
        Ok(Self { bound, next, holds: None, exceeded: None, end: None, trials: Vec::new() })
    }

    /// The options of the next trial, or of the rate that was found.
    pub(super) fn options(&self, options: &BenchOptions) -> Result<BenchOptions, Failure> {
        let out_of_range = || {
            let problem =
                format!("--find-rate {}: no rate in range decides it{}", self.bound, self.trial_lines());
            Failure::check(problem)
                .hint("check the bound, or let more requests arrive with --duration or --requests")
        };
        if let Some((trial, end)) = self.trials.last().zip(self.end) {
            return Err(self.ended(trial, end));
        }
        let name = options.phases[0].name.clone();
        let phase = at_rate(&options.phases[0], name, self.next).ok_or_else(out_of_range)?;
        if self.trials.len() > TRIALS_MAX {
            return Err(out_of_range());
        }
        Ok(BenchOptions { phases: vec![phase], ..options.clone() })
    }

    /// The failure of a search without a rate.
    fn ended(&self, trial: &TrialFigures, end: SearchEnd) -> Failure {
        let missing = counted(trial.missing_requests, "request");
        let errors = "errors do not depend on the rate";
        let (found, hint) = match (end, trial.value) {
            (SearchEnd::NoSuccess, _) => (
                format!("{missing} failed or never came, and none succeeded"),
                format!("{errors}: mend the target, or give requests more time (--timeout)"),
            ),
            (SearchEnd::NoArrival, _) => (
                "no request arrived".to_owned(),
                "let more requests arrive: begin with a higher rate, or with a longer --duration".to_owned(),
            ),
            (SearchEnd::Idle, Some(value)) if trial.missing_requests == 0 => {
                let found = format!("{} is {value:.3}", self.bound.figure());
                match trial.limited_by {
                    Some(RateLimit::Generator) => (
                        format!("{found}, because this program issued its requests late,"),
                        "a lower rate changes little: end other work on this machine, or choose a wider bound".to_owned(),
                    ),
                    _ => (found, "a lower rate changes little: choose a wider bound".to_owned()),
                }
            }
            (SearchEnd::Idle, _) => (
                format!("{missing} failed or never came"),
                format!("{errors}: send failed requests again (--retries), or mend the target"),
            ),
        };
        let (bound, rate) = (self.bound, trial.arrivals_per_s);
        let idle = if end == SearchEnd::Idle { ", and the target is idle then" } else { "" };
        let problem =
            format!("--find-rate {bound}: {found} at {rate} requests per second{idle}{}", self.trial_lines());
        Failure::check(problem).hint(hint)
    }

    /// A line for each trial, behind the message of a search that found no rate.
    fn trial_lines(&self) -> String {
        let line = |trial: &TrialFigures| {
            let value = trial.value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.3}"));
            let missing = counted(trial.missing_requests, "request");
            let (rate, figure) = (six_decimals(trial.arrivals_per_s), self.bound.figure());
            let by = match trial.limited_by {
                Some(RateLimit::Generator) => ", broken by this program",
                _ => "",
            };
            format!("\n  trial at {rate} requests per second: {figure} {value}, {missing} missing{by}")
        };
        self.trials.iter().map(line).collect()
    }

    /// Takes the figures of a trial. Returns true if the rate is found; the last trial is then that of the highest rate
    /// that holds, or one follows at that rate.
    pub(super) fn take(&mut self, totals: &Totals) -> bool {
        let (load, missing) = (&LoadFigures::of(totals), missing(totals));
        let value = value_in(self.bound, load);
        let holds = missing == 0 && value.is_some_and(|value| value <= self.bound.value());
        let arrivals_per_s = six_decimals(self.next);
        let busy_s = totals.part.service().moments().mean().unwrap_or(0.0) * load.requests as f64 / 1e9;
        let limited_by = (!holds).then(|| limited_by(self.bound, totals, value));
        self.trials.push(TrialFigures {
            arrivals_per_s,
            value,
            missing_requests: missing,
            holds,
            limited_by,
        });
        if holds {
            self.holds = Some(self.next);
        } else {
            self.exceeded = Some(self.next);
        }
        // What this program is late with, the target does not have.
        let with_target = match limited_by {
            Some(RateLimit::Generator) => Some(busy_s / load.duration_s),
            _ => load.outstanding_mean,
        };
        let is_idle = with_target.is_some_and(|mean| mean <= IDLE_OUTSTANDING);
        let is_exceeded = value.is_some() && self.bound.figure() != "outstanding_mean";
        self.end = match (self.holds, load.requests) {
            (None, 0) if missing > 0 => Some(SearchEnd::NoSuccess),
            (None, 0) => Some(SearchEnd::NoArrival),
            _ if is_idle && !holds && (missing > 0 || is_exceeded) => Some(SearchEnd::Idle),
            _ => None,
        };
        match (self.holds, self.exceeded) {
            (Some(low), Some(high)) if 100.0 * (high - low) <= WIDTH_PCT * low => {
                self.next = low;
                return true;
            }
            (Some(low), Some(high)) => self.next = (low * high).sqrt(),
            (Some(low), None) => self.next = 2.0 * low,
            (None, _) => self.next /= 2.0,
        }
        false
    }

    /// Returns true if the last trial was at the rate that was found.
    pub(super) fn is_last_found(&self) -> bool {
        self.trials.last().is_some_and(|trial| trial.holds)
    }

    /// The state of a search that was broken off in its next trial, or before it.
    pub(super) fn unfinished(&self, in_trial: bool) -> String {
        let rate = |per_s: f64| format!("{:.4} requests per second", per_s);
        let known = match (self.holds, self.exceeded) {
            (Some(low), _) => format!("it held at {}", rate(low)),
            (None, Some(high)) => format!("it did not hold at {}", rate(high)),
            (None, None) => "no trial was complete".to_owned(),
        };
        let of = match self.trials.last().filter(|_| !in_trial) {
            Some(last) => format!("the trial at {}", rate(last.arrivals_per_s)),
            None => format!("the part of a trial at {}", rate(self.next)),
        };
        format!("the search for {} was broken off: {known}, and all figures are those of {of}", self.bound)
    }

    /// The figures of a search that was broken off; `None` without a trial.
    pub(super) fn figures_so_far(&self) -> Option<FoundRateFigures> {
        let has_trials = !self.trials.is_empty();
        has_trials.then(|| FoundRateFigures { complete: false, ..self.figures() })
    }

    /// The figures of the search.
    pub(super) fn figures(&self) -> FoundRateFigures {
        let found = self.trials.iter().filter(|trial| trial.holds);
        let found = found.max_by(|one, other| one.arrivals_per_s.total_cmp(&other.arrivals_per_s));
        let exceeded = self.trials.iter().filter(|trial| !trial.holds);
        let exceeded = exceeded.min_by(|one, other| one.arrivals_per_s.total_cmp(&other.arrivals_per_s));
        FoundRateFigures {
            bound: self.bound.to_string(),
            arrivals_per_s: six_decimals(self.holds.unwrap_or(0.0)),
            exceeded_arrivals_per_s: six_decimals(self.exceeded.unwrap_or(0.0)),
            value: found.and_then(|trial| trial.value),
            limited_by: exceeded.and_then(|trial| trial.limited_by).unwrap_or(RateLimit::Target),
            complete: true,
            trials: self.trials.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use seeklab_bench::Cost;
    use seeklab_core::{Duration, Instant};

    use super::*;

    /// A second of reads with these times, on threads that were busy for that share.
    fn totals(busy_pct: u64, service_ms: u64, lateness_ms: u64) -> Totals {
        let mut totals = Totals { end: Instant::ZERO + Duration::from_s(1), ..Totals::default() };
        let loop_time = Duration::from_s(1);
        totals.cost = Some(Cost { busy: loop_time * busy_pct / 100, loop_time, ..Cost::default() });
        let read = &mut totals.part.operations[0];
        (0..100).for_each(|_| {
            read.requests += 1;
            read.service.record(Duration::from_ms(service_ms));
            read.response.record(Duration::from_ms(service_ms + lateness_ms));
            totals.part.lateness.record(Duration::from_ms(lateness_ms));
        });
        totals
    }

    #[test]
    fn broken_bound_is_of_the_generator_if_it_was_busy_or_late() {
        for bound in ["response_mean_ms<=10", "response_p50_ms<=10", "response_p999_ms<=10"] {
            let bound: Bound = bound.parse().unwrap();
            let of = |totals: &Totals| limited_by(bound, totals, value_in(bound, &LoadFigures::of(totals)));
            assert_eq!(of(&totals(10, 11, 0)), RateLimit::Target);
            assert_eq!(of(&totals(99, 11, 0)), RateLimit::Generator);
            assert_eq!(of(&totals(10, 4, 8)), RateLimit::Generator);
            assert_eq!(of(&totals(10, 8, 4)), RateLimit::Target, "most of the time is of the target");
            assert_eq!(of(&totals(10, 11, 12)), RateLimit::Target, "it breaks the bound alone");
        }
        let bound: Bound = "outstanding_mean<=1".parse().unwrap();
        assert_eq!(limited_by(bound, &totals(10, 4, 8), Some(2.0)), RateLimit::Target);
        assert_eq!(limited_by(bound, &totals(99, 4, 8), Some(2.0)), RateLimit::Generator);
    }

    #[test]
    fn search_names_the_side_that_broke_the_bound_at_the_lowest_rate() {
        let bound: Bound = "response_p99_ms<=10".parse().unwrap();
        let mut search =
            RateSearch { bound, next: 1.0, holds: None, exceeded: None, end: None, trials: Vec::new() };
        assert!(!search.take(&totals(10, 5, 0)));
        assert!(!search.take(&totals(10, 11, 0)));
        let figures = search.figures();
        assert_eq!((figures.limited_by, figures.doubt()), (RateLimit::Target, None));
        assert!(!search.take(&totals(99, 11, 0)), "at a lower rate");
        let figures = search.figures();
        assert_eq!(figures.limited_by, RateLimit::Generator);
        assert!(figures.doubt().unwrap().contains("this program, not the target"));
        let limits: Vec<_> = figures.trials.iter().map(|trial| trial.limited_by).collect();
        assert_eq!(limits, [None, Some(RateLimit::Target), Some(RateLimit::Generator)]);
    }
}
