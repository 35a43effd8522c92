//! The figures of a run by name: the keys of `seeklab simulate --json` or `seeklab bench --json`, those of nested tables with
//! a dot.

use std::collections::BTreeMap;

use seeklab_analysis::{BreakdownSummary, CriticalitySummaries, HostSummary, Metrics, MetricsSummary};
use seeklab_core::names::near_matches;
use seeklab_core::{ByteSize, Operation};
use seeklab_workloads::host::HostFigures;
use serde_json::Value;

use super::targets::NamedPlan;
use crate::bench::figure_names;

/// Default figures of a cell, if the file names none.
pub(super) const fn usual(is_measured: bool) -> [&'static str; 4] {
    let last = if is_measured { "mib_per_second" } else { "utilisation_pct" };
    ["response_mean_ms", "response_p99_ms", "requests_per_second", last]
}

/// The figures of a run; what does not apply is not there.
pub(super) type Figures = BTreeMap<String, f64>;

/// All figures of a run that apply.
pub(super) fn of(summary: &MetricsSummary, host: Option<&HostSummary>) -> Figures {
    entries(summary, host).into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect()
}

/// Every name of a simulation, in the order of the JSON document.
fn names() -> Vec<String> {
    let nothing = BreakdownSummary {
        queue_mean_ms: 0.0,
        overhead_mean_ms: 0.0,
        seek_mean_ms: 0.0,
        settle_mean_ms: 0.0,
        head_switch_mean_ms: 0.0,
        rotation_mean_ms: 0.0,
        transfer_mean_ms: 0.0,
        bus_mean_ms: 0.0,
        internal_mean_ms: 0.0,
    };
    let mut summary = Metrics::new(ByteSize::from_bytes(512)).summary();
    summary.breakdown = Some(nothing);
    summary.by_criticality = Some(CriticalitySummaries::default());
    let host = crate::host::summary(&HostFigures::default());
    entries(&summary, Some(&host)).into_iter().map(|(name, _)| name).collect()
}

fn entries(summary: &MetricsSummary, host: Option<&HostSummary>) -> Vec<(String, Value)> {
    let Ok(Value::Object(mut object)) = serde_json::to_value(summary) else {
        unreachable!("a summary is an object")
    };
    if let Some(host) = host {
        object.insert("host".to_owned(), serde_json::to_value(host).expect("figures have text as keys"));
    }
    object.into_iter().flat_map(|(key, value)| leaves(key, value)).collect()
}

/// The values under a key, those of nested tables with a dot.
fn leaves(key: String, value: Value) -> Vec<(String, Value)> {
    match value {
        Value::Object(inner) => {
            inner.into_iter().flat_map(|(name, value)| leaves(format!("{key}.{name}"), value)).collect()
        }
        value => vec![(key, value)],
    }
}

/// Names that figures may have.
#[derive(Debug)]
pub(super) struct FigureNames {
    known: Vec<String>,
    hint: String,
}

/// The names of the figures of a simulation.
pub(super) fn of_simulation() -> FigureNames {
    let known = names();
    let hint = format!("the keys of `seeklab simulate --json` are allowed: {}", known.join(", "));
    FigureNames { known, hint }
}

/// The names of the figures of a measurement, those of the phases of plans included.
pub(super) fn of_bench(plans: &[NamedPlan]) -> FigureNames {
    let whole = figure_names(None);
    let is_of_operation = |name: &&String| {
        let first = name.split('.').next();
        Operation::ALL.into_iter().any(|op| first == Some(op.name()))
    };
    let listed: Vec<&str> = whole.iter().filter(|name| !is_of_operation(name)).map(String::as_str).collect();
    let hint = format!(
        "the keys of `seeklab bench --json` are allowed, those of an operation as read.KEY, and those of a plan's phases as \
         phases.PHASE.KEY and phases.PHASE.streams.STREAM.KEY: {}",
        listed.join(", ")
    );
    let known = match plans {
        [] => whole,
        plans => plans.iter().flat_map(|plan| figure_names(Some(&plan.options))).collect(),
    };
    FigureNames { known, hint }
}

impl FigureNames {
    /// Checks a name; an error is a problem and a hint.
    pub(super) fn check(&self, name: &str) -> Result<String, (String, String)> {
        if self.known.iter().any(|known| known == name) {
            return Ok(name.to_owned());
        }
        let near = near_matches(name, self.known.iter().map(String::as_str));
        Err((format!("there is no figure `{name}`{near}"), self.hint.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_figures_exist() {
        for name in usual(false).into_iter().chain([
            "queue_length_max",
            "breakdown.seek_mean_ms",
            "by_criticality.time_noncritical.response_mean_ms",
            "host.elapsed_s",
            "host.time_critical.response_mean_ms",
        ]) {
            assert_eq!(of_simulation().check(name), Ok(name.to_owned()));
        }
        for name in usual(true).into_iter().chain([
            "read.response_p99_ms",
            "write_zeroes.requests",
            "retries.retries",
            "statuses.timeout",
            "cost.cpu_us_per_request",
            "longest_pause_ms",
        ]) {
            assert_eq!(of_bench(&[]).check(name), Ok(name.to_owned()));
        }
    }

    #[test]
    fn wrong_name_suggests_similar_names() {
        for names in [of_simulation(), of_bench(&[])] {
            let (problem, hint) = names.check("response_mean").unwrap_err();
            assert!(problem.contains("did you mean `response_mean_ms`"), "{problem}");
            assert!(hint.contains("longest_pause_ms") || hint.contains("utilisation_pct"), "{hint}");
        }
        let (_, hint) = of_bench(&[]).check("trusted").unwrap_err();
        assert!(hint.contains("read.KEY") && !hint.contains("read.response_p99_ms"), "{hint}");
    }
}
