//! Notable events of a run, a line of JSON each, in the order in which they were noticed.

use seeklab_bench::Interval;
use seeklab_core::{Duration, Status};
use serde_json::{Map, Value, json};

use super::super::figures::six_decimals;
use super::super::phase::PhaseRun;

/// Pause without a completion from which an interval is notable.
const PAUSE: Duration = Duration::from_s(1);

/// Lines of events in the making.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    text: String,
    /// Conditions of the last interval: they are events when they begin and end.
    conditions: Vec<&'static str>,
}

impl EventLog {
    /// Adds an event at a time from the begin of the run.
    pub(super) fn add(&mut self, at: Duration, event: &str, facts: Value) {
        let mut line = Map::new();
        line.insert("at_s".to_owned(), six_decimals(at.as_s()).into());
        line.insert("event".to_owned(), event.into());
        if let Value::Object(facts) = facts {
            line.extend(facts);
        }
        self.text += &format!("{}\n", Value::Object(line));
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
            (
                "hung_requests",
                part.hung > 0,
                json!({ "hung_requests": part.hung, "oldest_ms": part.oldest.map(|age| six_decimals(age.as_ms())) }),
            ),
            (
                "silent_threads",
                interval.silent_threads > 0,
                json!({ "silent_threads": interval.silent_threads }),
            ),
            ("dropped_requests", part.dropped > 0, json!({ "dropped_requests": part.dropped })),
            ("pause", part.pause >= PAUSE, json!({ "longest_pause_ms": six_decimals(part.pause.as_ms()) })),
        ];
        let before = std::mem::take(&mut self.conditions);
        for (name, holds, mut facts) in conditions {
            if holds {
                self.conditions.push(name);
            }
            if holds == before.contains(&name) {
                continue;
            }
            if !holds {
                facts = json!({});
            }
            facts["phase"] = phase.into();
            facts["interval"] = (interval.index + 1).into();
            self.add(until, &format!("{name}_{}", if holds { "begin" } else { "end" }), facts);
        }
    }

    /// Adds the end of a phase, with the rounds at which its steady state was reached and left.
    pub(super) fn phase_end(&mut self, phase: &str, run: &PhaseRun) {
        let measurement = &run.measurement;
        let begin = measurement.intervals.first().map_or(Duration::ZERO, |first| {
            run.from + first.part.from.saturating_since(seeklab_core::Instant::ZERO)
        });
        if let (Some(track), Some(length)) = (&measurement.steady, run.plan.interval) {
            for change in track.changes() {
                let event = if change.is_reached { "steady_state_reached" } else { "steady_state_left" };
                let facts = json!({ "phase": phase, "round": change.round });
                self.add(begin + length * change.round, event, facts);
            }
        }
        let end = run.from + measurement.totals.end.saturating_since(seeklab_core::Instant::ZERO);
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
