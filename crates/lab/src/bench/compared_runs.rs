//! The runs of a comparison: documents of measurements, of which each repetition is a run.
//!
//! ```text
//! folder ─▶ run.json, *.json ─▶ phases by repetition ─▶ ComparedRun: figures by the names of figure_names
//! ```
//! # Scope and limits
//! A run of several phases has no figures of all phases together: percentiles of different loads would be blended.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::figure_names::document_figures;
use super::run_document::{RUN_FILE, RunState};
use crate::failure::Failure;

/// One run of all phases of a measurement.
#[derive(Debug)]
pub(super) struct ComparedRun {
    /// Figures by name.
    pub(super) figures: BTreeMap<String, f64>,
    /// Beginnings of the names of its parts: empty of a run of one phase, `phases.PHASE.` of each of several phases, and
    /// `phases.PHASE.streams.STREAM.` of each of several streams.
    pub(super) prefixes: Vec<String>,
    /// Nothing is known that distorts its figures.
    pub(super) is_trusted: bool,
    target: String,
    workload: String,
}

/// The runs of a side of a comparison.
#[derive(Debug, Default)]
pub(super) struct ComparedRuns {
    /// The runs; at least one.
    pub(super) runs: Vec<ComparedRun>,
    /// Repetitions that the caller stopped, which are left out.
    pub(super) stopped_repetitions: usize,
}

/// Reads the runs of a folder: its own `run.json`, those of the folders in it, and other JSON documents of measurements.
///
/// # Errors
/// A folder without runs, a document of something else, and a run without figures.
pub(super) fn read_runs(path: &Path) -> Result<ComparedRuns, Failure> {
    let context = |error: std::io::Error| Failure::from(error).context(path.display());
    let files = if path.join(RUN_FILE).is_file() {
        vec![path.join(RUN_FILE)]
    } else if path.is_dir() {
        let mut files = Vec::new();
        for entry in fs::read_dir(path).map_err(context)? {
            let entry = entry.map_err(context)?.path();
            let run = entry.join(RUN_FILE);
            if run.is_file() {
                files.push(run);
            } else if entry.extension().is_some_and(|suffix| suffix == "json") {
                files.push(entry);
            }
        }
        files.sort();
        files
    } else {
        vec![path.to_owned()]
    };
    let mut found = ComparedRuns::default();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|error| Failure::from(error).context(file.display()))?;
        let document: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::new(format!("{}: is no JSON document: {error}", file.display())))?;
        let state = state_of(&document);
        let is_without = matches!(state, Some(RunState::Running | RunState::Failed))
            || (state == Some(RunState::Stopped) && document.get("phases").is_none());
        if is_without {
            let problem = match state {
                Some(RunState::Running) => "goes on, or was killed",
                _ => "ended without figures",
            };
            return Err(Failure::new(format!("{}: the run {problem}", file.display()))
                .hint("wait for its end, or remove its folder"));
        }
        match document {
            Value::Object(document)
                if document.contains_key("target_kind") && document.contains_key("response_mean_ms") =>
            {
                found.add(document);
            }
            _ => {
                return Err(Failure::new(format!("{}: is no result of seeklab bench", file.display()))
                    .hint("write it with `seeklab bench … --json`, or `--folder FOLDER`"));
            }
        }
    }
    if found.runs.is_empty() {
        return Err(Failure::new(format!("{}: has no results of seeklab bench", path.display()))
            .hint("write them with `seeklab bench … --folder FOLDER/1`, FOLDER/2 and so on"));
    }
    Ok(found)
}

/// State of a run; `None` of a document of `--json`.
fn state_of(document: &Value) -> Option<RunState> {
    RunState::deserialize(document.get("run")?.get("state")?).ok()
}

impl ComparedRuns {
    /// Adds each repetition of a measurement.
    fn add(&mut self, mut document: Map<String, Value>) {
        let phases = match document.remove("phases") {
            Some(Value::Array(phases)) => phases,
            _ => Vec::new(),
        };
        let mut repetitions: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
        for phase in phases {
            repetitions.entry(phase["repetition"].as_u64().unwrap_or(1)).or_default().push(phase);
        }
        if repetitions.len() < 2 {
            let phases = repetitions.into_values().next().unwrap_or_default();
            self.runs.push(ComparedRun::new(Some(document), phases));
            return;
        }
        if document.get("stopped") == Some(&Value::Bool(true)) {
            repetitions.pop_last();
            self.stopped_repetitions += 1;
        }
        self.runs.extend(repetitions.into_values().map(|phases| ComparedRun::new(None, phases)));
    }
}

impl ComparedRun {
    /// A run of these phases, with the document of a measurement of one repetition.
    fn new(document: Option<Map<String, Value>>, phases: Vec<Value>) -> Self {
        let is_trusted = |of: &Value| of["trusted"] != false;
        let mut run = Self {
            figures: BTreeMap::new(),
            prefixes: prefixes(&phases),
            is_trusted: phases.iter().all(is_trusted),
            target: of_streams(&phases, "target"),
            workload: of_streams(&phases, "workload"),
        };
        let mut whole = match (phases.as_slice(), document) {
            ([] | [_], Some(document)) => document,
            ([phase], None) => figures_of_phase(phase),
            _ => Map::new(),
        };
        whole.remove("run");
        whole.insert("phases".to_owned(), Value::Array(phases));
        run.figures = document_figures(&Value::Object(whole));
        run
    }

    /// Targets of its streams.
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// Workloads of its streams.
    pub(super) fn workload(&self) -> &str {
        &self.workload
    }
}

/// Figures of a measurement of this phase alone. The counts are those of its stream, if it is the only one.
fn figures_of_phase(phase: &Value) -> Map<String, Value> {
    let mut whole = match streams(phase) {
        [Value::Object(stream)] => stream.clone(),
        _ => Map::new(),
    };
    whole.extend(phase.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
    whole.remove("streams");
    whole
}

fn streams(phase: &Value) -> &[Value] {
    phase["streams"].as_array().map_or(&[], Vec::as_slice)
}

fn prefixes(phases: &[Value]) -> Vec<String> {
    let mut prefixes = Vec::new();
    if phases.len() < 2 {
        prefixes.push(String::new());
    }
    for phase in phases {
        let name = phase["phase"].as_str().unwrap_or_default();
        if phases.len() > 1 {
            prefixes.push(format!("phases.{name}."));
        }
        let streams = streams(phase);
        let names =
            streams.iter().filter_map(|stream| stream["stream"].as_str()).filter(|_| streams.len() > 1);
        prefixes.extend(names.map(|stream| format!("phases.{name}.streams.{stream}.")));
    }
    prefixes
}

/// The different values of a key of all streams, in order.
fn of_streams(phases: &[Value], key: &str) -> String {
    let mut values: Vec<&str> = Vec::new();
    for value in phases.iter().flat_map(streams).filter_map(|stream| stream[key].as_str()) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A document of repetitions of the phases `idle` of one stream and `burst` of two.
    fn document(repetitions: u64, is_stopped: bool) -> Map<String, Value> {
        let stream = |name: &str, p99: f64| {
            let operations = json!([{"op": "read", "response_p99_ms": p99}]);
            json!({"stream": name, "target": "a", "workload": name, "response_p99_ms": p99, "operations": operations})
        };
        let phase = |name: &str, repetition: u64, p99: f64, streams: Vec<Value>| json!({"phase": name, "repetition": repetition, "response_p99_ms": p99, "trusted": p99 < 4.0, "streams": streams});
        let phases = (1..=repetitions).flat_map(|repetition| {
            let p99 = repetition as f64;
            let burst = vec![stream("x", p99 + 10.0), stream("y", p99 + 20.0)];
            [
                phase("idle", repetition, p99, vec![stream("x", p99)]),
                phase("burst", repetition, p99 + 0.5, burst),
            ]
        });
        let phases = phases.collect::<Vec<Value>>();
        let whole = json!({"phases": phases, "stopped": is_stopped, "response_p99_ms": 99.0});
        whole.as_object().unwrap().clone()
    }

    #[test]
    fn repetitions_of_several_phases_are_runs_with_the_figures_of_their_parts() {
        let mut found = ComparedRuns::default();
        found.add(document(4, false));
        assert_eq!((found.runs.len(), found.stopped_repetitions), (4, 0));
        let of = |run: usize, name: &str| found.runs[run].figures.get(name).copied();
        assert_eq!(of(2, "phases.idle.response_p99_ms"), Some(3.0));
        assert_eq!(of(2, "phases.burst.streams.y.response_p99_ms"), Some(23.0));
        assert_eq!(of(1, "phases.burst.streams.x.read.response_p99_ms"), Some(12.0));
        // That of all phases together would be a blend.
        assert_eq!(of(0, "response_p99_ms"), None);
        assert_eq!(
            found.runs[0].prefixes,
            ["phases.idle.", "phases.burst.", "phases.burst.streams.x.", "phases.burst.streams.y."]
        );
        assert_eq!(found.runs[0].workload(), "x, y");
        let trusted: Vec<bool> = found.runs.iter().map(|run| run.is_trusted).collect();
        assert_eq!(trusted, [true, true, true, false]);
        // One repetition of several phases is no blend either.
        let mut one = ComparedRuns::default();
        one.add(document(1, true));
        assert_eq!((one.runs.len(), one.stopped_repetitions), (1, 0));
        assert!(!one.runs[0].figures.contains_key("response_p99_ms"));
    }

    #[test]
    fn stopped_repetition_is_left_out() {
        let mut found = ComparedRuns::default();
        let mut document = document(3, true);
        // The caller stopped the first phase of the last repetition.
        document["phases"].as_array_mut().unwrap().pop();
        found.add(document);
        assert_eq!((found.runs.len(), found.stopped_repetitions), (2, 1));
    }

    #[test]
    fn repetition_of_one_phase_has_the_figures_of_a_measurement() {
        let mut document = document(2, false);
        document["phases"].as_array_mut().unwrap().retain(|phase| phase["phase"] == "idle");
        let mut found = ComparedRuns::default();
        found.add(document);
        let figures = |run: usize| &found.runs[run].figures;
        assert_eq!((figures(0)["response_p99_ms"], figures(1)["response_p99_ms"]), (1.0, 2.0));
        assert_eq!(
            (figures(1)["read.response_p99_ms"], figures(1)["phases.idle.response_p99_ms"]),
            (2.0, 2.0)
        );
        assert_eq!(found.runs[0].prefixes, [""]);
    }
}
