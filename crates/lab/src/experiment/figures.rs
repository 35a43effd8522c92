//! The figures of a run by name: the keys of `seeklab simulate --json`, those of nested tables with a dot.

use std::collections::BTreeMap;

use seeklab_analysis::{BreakdownSummary, CriticalitySummaries, HostSummary, Metrics, MetricsSummary};
use seeklab_core::ByteSize;
use seeklab_core::names::near_matches;
use seeklab_workloads::host::HostFigures;
use serde_json::Value;

/// Default figures of a cell, if the file names none.
pub(super) const USUAL: [&str; 4] =
    ["response_mean_ms", "response_p99_ms", "requests_per_second", "utilisation_pct"];

/// The figures of a run; what does not apply is not there.
pub(super) type Figures = BTreeMap<String, f64>;

/// All figures of a run that apply.
pub(super) fn of(summary: &MetricsSummary, host: Option<&HostSummary>) -> Figures {
    entries(summary, host).into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect()
}

/// Every name, in the order of the JSON document.
pub(super) fn names() -> Vec<String> {
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

/// Checks a name; an error is a problem and a hint.
pub(super) fn check(name: &str) -> Result<String, (String, String)> {
    let names = names();
    if names.iter().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    let near = near_matches(name, names.iter().map(String::as_str));
    let hint = format!("the keys of `seeklab simulate --json` are allowed: {}", names.join(", "));
    Err((format!("there is no figure `{name}`{near}"), hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_figures_exist() {
        for name in USUAL.into_iter().chain([
            "queue_length_max",
            "breakdown.seek_mean_ms",
            "by_criticality.time_noncritical.response_mean_ms",
            "host.elapsed_s",
            "host.time_critical.response_mean_ms",
        ]) {
            assert_eq!(check(name), Ok(name.to_owned()));
        }
    }

    #[test]
    fn wrong_name_suggests_similar_names() {
        let (problem, _) = check("response_mean").unwrap_err();
        assert!(problem.contains("did you mean `response_mean_ms`"), "{problem}");
    }
}
