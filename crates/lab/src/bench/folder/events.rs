//! Notable events of a run, a line of JSON each, in the order in which they were noticed.

use seeklab_bench::{Draining, Interval, SteadyRule, SteadyTrack};
use seeklab_core::{Duration, Instant, Status};
use serde_json::{Map, Value, json};

use super::super::figures::six_decimals;
use super::super::options::PhaseOptions;
use super::super::phase::PhaseRun;

/// Pause without a completion from which an interval is notable.
const PAUSE: Duration = Duration::from_s(1);
/// Condition of requests of at least a second of age.
const HUNG: &str = "hung_requests";

/// Lines of events in the making. No event has an earlier time than the one before it.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    text: String,
    /// Time of the last event.
    last: Duration,
    /// Conditions of the last interval: they are events when they begin and end.
    conditions: Vec<&'static str>,
    /// Rounds of a phase that ends in its steady state.
    rounds: Option<(SteadyRule, SteadyTrack)>,
}

impl EventLog {
    /// Adds an event at a time from the begin of the run.
    pub(super) fn add(&mut self, at: Duration, event: &str, facts: Value) {
        self.last = self.last.max(at);
        let mut line = Map::new();
        line.insert("at_s".to_owned(), six_decimals(self.last.as_s()).into());
        line.insert("event".to_owned(), event.into());
        if let Value::Object(facts) = facts {
            line.extend(facts);
        }
        self.text += &format!("{}\n", Value::Object(line));
    }

    /// Adds the begin of a phase.
    pub(super) fn phase_begin(&mut self, at: Duration, phase: &PhaseOptions, repetition: u64) {
        self.rounds = phase.steady.map(|rule| (rule, SteadyTrack::default()));
        self.add(at, "phase_begin", json!({ "phase": phase.name, "repetition": repetition }));
    }

    /// Adds what an interval that ends at `until` shows.
    pub(super) fn interval(&mut self, phase: &str, until: Duration, interval: &Interval) {
        let part = &interval.part;
        let statuses = Status::ALL.iter().filter(|status| !status.is_success());
        let failed: Map<String, Value> = statuses
            .filter(|status| part.statuses[**status as usize] > 0)
            .map(|status| (status.name().to_owned(), part.statuses[*status as usize].into()))
            .collect();
        let conditions = [
            ("errors", part.errors() > 0, json!({ "errors": part.errors(), "statuses": failed })),
            (HUNG, part.hung > 0, hung(part.hung, part.oldest)),
            (
                "silent_threads",
                interval.silent_threads > 0,
                json!({ "silent_threads": interval.silent_threads }),
            ),
            ("dropped_requests", part.dropped > 0, json!({ "dropped_requests": part.dropped })),
            ("pause", part.pause >= PAUSE, json!({ "longest_pause_ms": six_decimals(part.pause.as_ms()) })),
        ];
        for (name, holds, mut facts) in conditions {
            facts["phase"] = phase.into();
            facts["interval"] = (interval.index + 1).into();
            self.condition(until, name, holds, facts);
        }
        self.round(phase, until, interval);
    }

    /// Adds what the last requests of a phase show, which are waited for.
    pub(super) fn draining(&mut self, phase: &str, at: Duration, draining: &Draining) {
        let mut facts = hung(draining.hung, draining.oldest);
        facts["phase"] = phase.into();
        self.condition(at, HUNG, draining.hung > 0, facts);
    }

    /// Adds the begin or the end of a condition, if it is one.
    fn condition(&mut self, at: Duration, name: &'static str, holds: bool, mut facts: Value) {
        if holds == self.conditions.contains(&name) {
            return;
        }
        if holds {
            self.conditions.push(name);
        } else {
            self.conditions.retain(|other| *other != name);
            if let Value::Object(facts) = &mut facts {
                facts.retain(|key, _| ["phase", "interval"].contains(&key.as_str()));
            }
        }
        self.add(at, &format!("{name}_{}", if holds { "begin" } else { "end" }), facts);
    }

    /// Takes a round, and adds the steady state that it reaches or leaves.
    fn round(&mut self, phase: &str, until: Duration, interval: &Interval) {
        let Some((rule, track)) = &mut self.rounds else { return };
        let part = &interval.part;
        if track.is_over(rule) || part.until.saturating_since(part.from) < rule.round {
            return;
        }
        let known = track.changes().len();
        track.push(rule.figure.of(part));
        if let Some(change) = track.changes().get(known) {
            let event = if change.is_reached { "steady_state_reached" } else { "steady_state_left" };
            let facts = json!({ "phase": phase, "round": change.round });
            self.add(until, event, facts);
        }
    }

    /// Adds the end of a phase: that of its last request, or of the wait for it.
    pub(super) fn phase_end(&mut self, phase: &str, run: &PhaseRun) {
        let measurement = &run.measurement;
        let last = measurement.intervals.last().map(|interval| interval.part.until);
        let end =
            run.from + measurement.totals.end.max(last.unwrap_or_default()).saturating_since(Instant::ZERO);
        let mut facts = json!({ "phase": phase, "repetition": run.repetition + 1 });
        if measurement.is_stopped {
            facts["stopped"] = true.into();
        }
        if let Some(failure) = &measurement.failure {
            facts["failure"] = failure.to_string().into();
        }
        if measurement.totals.reconnections > 0 {
            facts["reconnections"] = measurement.totals.reconnections.into();
        }
        self.conditions.clear();
        self.add(end, "phase_end", facts);
    }

    /// The lines since the last call.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

/// Facts of hung requests.
fn hung(requests: u64, oldest: Option<Duration>) -> Value {
    json!({ HUNG: requests, "oldest_ms": oldest.map(|age| six_decimals(age.as_ms())) })
}
