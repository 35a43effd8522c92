//! The figures of a measurement by name: the keys of `seeklab bench --json`, with dots.
//!
//! | name | figure |
//! | --- | --- |
//! | `response_p99_ms`, `cost.cpu_s` | of the whole measurement |
//! | `read.response_p99_ms` | of an operation |
//! | `phases.PHASE.response_p99_ms`, `phases.PHASE.steady.mean` | of a phase |
//! | `phases.PHASE.streams.STREAM.write.requests` | of a stream, and of an operation in it |

use std::collections::BTreeMap;

use seeklab_bench::Totals;
use seeklab_core::{Coverage, Operation};
use serde::Serialize;
use serde_json::Value;

use super::figures::{
    BenchFigures, CostFigures, CountFigures, LoadFigures, OperationFigures, ResponseTimes, ServiceTimes,
};
use super::options::BenchOptions;
use super::phases::{PhaseFigures, SteadyFigures, StreamFigures};
use crate::fitted_range::FittedRangeFigures;

/// Figures of a whole measurement that have names.
#[derive(Serialize)]
struct NamedFigures<'a> {
    #[serde(flatten)]
    load: &'a LoadFigures,
    #[serde(flatten)]
    counts: &'a CountFigures,
    cost: &'a Option<CostFigures>,
    phases: &'a [PhaseFigures],
}

/// Lists whose entries are named, and the key with that name. Lists of operations have no name of their own.
const LISTS: [(&str, &str); 3] = [("operations", "op"), ("phases", "phase"), ("streams", "stream")];

/// The numbers of a measurement by name; null is left out. Those of its phases are only there on request.
pub(crate) fn named_figures(figures: &BenchFigures, with_phases: bool) -> BTreeMap<String, f64> {
    let named = NamedFigures {
        load: &figures.load,
        counts: &figures.counts,
        cost: &figures.cost,
        phases: if with_phases { &figures.phases } else { &[] },
    };
    leaves(&named).into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect()
}

/// The numbers of a document of a measurement by name; null is left out.
pub(super) fn document_figures(document: &Value) -> BTreeMap<String, f64> {
    let mut found = Vec::new();
    collect("", document, &mut found);
    found.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect()
}

/// The names that a measurement of one stream has, and with a plan those of its phases.
pub(crate) fn figure_names(plan: Option<&BenchOptions>) -> Vec<String> {
    let nothing = Totals { cost: Some(seeklab_bench::Cost::default()), ..Totals::default() };
    let load = LoadFigures::of(&nothing);
    let operation = |op| OperationFigures {
        op,
        requests: 0,
        requests_per_second: None,
        mib_per_second: None,
        response: ResponseTimes::default(),
        service: ServiceTimes::default(),
    };
    let counts = CountFigures {
        operations: Operation::ALL.into_iter().map(operation).collect(),
        ..CountFigures::of(&nothing)
    };
    let cost = CostFigures::of(&nothing);
    let steady = SteadyFigures {
        figure: "",
        round_s: 0.0,
        rounds: 0,
        reached_round: None,
        left_round: None,
        steady_at_end: false,
        mean: None,
        range_pct: None,
        slope_pct: None,
        changes: Vec::new(),
    };
    let stream = |name: &str| StreamFigures {
        stream: name.to_owned(),
        target: String::new(),
        target_kind: "",
        capacity_bytes: 0,
        block_size_bytes: 0,
        workload: String::new(),
        threads: 0,
        outstanding_max: 0,
        load: load.clone(),
        counts: counts.clone(),
        intervals: Vec::new(),
    };
    let phases = plan.into_iter().flat_map(|plan| &plan.phases).map(|phase| PhaseFigures {
        phase: phase.name.clone(),
        repetition: 0,
        from_s: 0.0,
        offered_per_second: None,
        load: load.clone(),
        cost: cost.clone(),
        steady: Some(steady.clone()),
        trusted: true,
        fitted_range: Some(FittedRangeFigures::of(&Coverage::default())),
        streams: phase.streams.iter().map(|of| stream(&of.name)).collect(),
    });
    let phases: Vec<PhaseFigures> = phases.collect();
    let named = NamedFigures { load: &load, counts: &counts, cost: &cost, phases: &phases };
    let is_number = |value: &Value| value.is_number() || value.is_null();
    leaves(&named).into_iter().filter(|(_, value)| is_number(value)).map(|(name, _)| name).collect()
}

/// Every value outside of lists without names, in the order of the document.
fn leaves(named: &NamedFigures<'_>) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let document = serde_json::to_value(named).expect("figures have text as keys");
    collect("", &document, &mut found);
    found
}

fn collect(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    let Value::Object(object) = value else {
        found.push((path.to_owned(), value.clone()));
        return;
    };
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    for (key, value) in object {
        let Value::Array(entries) = value else {
            collect(&join(key), value, found);
            continue;
        };
        let Some((list, of_name)) = LISTS.into_iter().find(|(list, _)| list == key) else { continue };
        for entry in entries {
            let Some(name) = entry[of_name].as_str() else { continue };
            let name = if list == "operations" { name.to_owned() } else { format!("{list}.{name}") };
            collect(&join(&name), entry, found);
        }
    }
}
