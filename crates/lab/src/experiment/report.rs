//! The report of an experiment: its table, its charts, and what a reader has to know.

use std::collections::BTreeMap;

use seeklab_report::{ExperimentCell, ExperimentSection, Note, Parameter, Report};

use super::cells::{self, Cell, DIMENSIONS, Run};
use super::engine::{Results, RunResult};
use super::spec::Spec;
use super::table::{of_cell, saturated};
use crate::output::VERSION;
use crate::session::Session;
use seeklab_core::number_words::{counted, numbered};

/// Cells that a note names.
const NAMED_MAX: usize = 4;
/// Notes of measurements that are shown.
const NOTES_MAX: usize = 12;

pub(super) fn report(
    session: &Session,
    spec: &Spec,
    cells: &[Cell],
    runs: &[Run],
    results: &Results,
) -> Report {
    let shown = cells::varied(spec);
    Report {
        title: spec.title.clone(),
        subtitle: format!(
            "{} × {}, mean ± half the width of its 95 % interval",
            counted(cells.len(), "cell"),
            counted(spec.repetitions, "repetition"),
        ),
        command: session.command(),
        seed: Some(spec.seed),
        generated_by: VERSION.to_owned(),
        parameters: parameters(spec, cells, &shown),
        experiment: Some(section(spec, cells, &results.of_cells, &shown)),
        notes: notes(spec, cells, runs, results, &shown),
        ..Report::default()
    }
}

fn section(spec: &Spec, cells: &[Cell], results: &[Vec<RunResult>], shown: &[usize]) -> ExperimentSection {
    let names = cells::dimensions(spec);
    let axis_dimension = spec.axis.as_ref().map(|axis| DIMENSIONS.len() + axis.parameter);
    let lines: Vec<usize> =
        shown.iter().copied().filter(|dimension| Some(*dimension) != axis_dimension).collect();
    let cell = |(cell, results): (&Cell, &Vec<RunResult>)| ExperimentCell {
        values: shown.iter().map(|dimension| cell.values[*dimension].clone()).collect(),
        series: if lines.is_empty() { cell.values[0].clone() } else { series(&names, cell, &lines) },
        x: spec.axis.as_ref().map_or(0.0, |axis| axis.places[cell.steps[axis.parameter]]),
        figures: spec.figures.iter().map(|figure| of_cell(results, figure)).collect(),
    };
    ExperimentSection {
        dimensions: shown.iter().map(|dimension| names[*dimension].clone()).collect(),
        figures: spec.figures.clone(),
        parameter: spec.axis.as_ref().map(|axis| axis.label.clone()),
        cells: cells.iter().zip(results).map(cell).collect(),
    }
}

/// The name of a line in the charts: values, those that do not speak for themselves with their names.
fn series(names: &[String], cell: &Cell, lines: &[usize]) -> String {
    let label = |dimension: &usize| {
        let value = &cell.values[*dimension];
        let is_bare = value.parse::<f64>().is_ok() || value.parse::<bool>().is_ok();
        match names[*dimension].rsplit('.').next().filter(|_| is_bare) {
            Some(name) => format!("{name} {value}"),
            None => value.clone(),
        }
    };
    lines.iter().map(label).collect::<Vec<_>>().join(", ")
}

/// Returns the parameters that are the same in all cells.
fn parameters(spec: &Spec, cells: &[Cell], shown: &[usize]) -> Vec<Parameter> {
    let parameter = |name: String, value: String| Parameter { name, value, source: None };
    let mut parameters: Vec<Parameter> = cells::dimensions(spec)
        .into_iter()
        .enumerate()
        .filter(|(index, _)| !shown.contains(index))
        // Recorded workloads may have arrivals of their own.
        .filter(|(index, _)| cells.iter().all(|cell| cell.values[*index] == cells[0].values[*index]))
        .map(|(index, name)| parameter(name, cells[0].values[index].clone()))
        .collect();
    if spec.schedulers.iter().any(Option::is_some) {
        parameters.push(parameter("requests at the device".to_owned(), format!("at most {}", spec.depth)));
    }
    parameters.extend(
        spec.requests.map(|requests| parameter("requests".to_owned(), format!("at most {requests}"))),
    );
    parameters.extend(spec.duration.map(|time| parameter("duration".to_owned(), time.to_string())));
    parameters.extend(spec.ramp.map(|time| parameter("ramp".to_owned(), time.to_string())));
    parameters.push(parameter("repetitions".to_owned(), spec.repetitions.to_string()));
    parameters
}

fn notes(spec: &Spec, cells: &[Cell], runs: &[Run], results: &Results, shown: &[usize]) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    let of_cells = &results.of_cells;
    if results.is_interrupted {
        let made: usize = of_cells.iter().map(Vec::len).sum();
        notes.push(Note::Warning(format!(
            "interrupted: {made} of {} were made",
            counted(runs.len(), "measurement")
        )));
    }
    let failures = failures(cells, of_cells, shown);
    if !failures.is_empty() {
        let few = failures.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
        let more = match failures.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        notes.push(Note::Warning(format!(
            "{} failed, so their cells have no figures: {few}{more}",
            counted(failures.len(), if spec.is_measured() { "measurement" } else { "prediction" })
        )));
    }
    let overloaded: Vec<&Cell> = cells
        .iter()
        .zip(of_cells)
        .filter(|(_, results)| saturated(results) > 0)
        .map(|(cell, _)| cell)
        .collect();
    if !overloaded.is_empty() {
        notes.push(Note::Warning(format!(
            "the device cannot sustain the load in {} of {}, which have no figures: {}",
            overloaded.len(),
            counted(cells.len(), "cell"),
            named(&overloaded, shown)
        )));
    }
    if let Some((first, second)) = same_run(runs) {
        notes.push(Note::Warning(format!(
            "some cells differ only in their names, such as {} and {}",
            cells[first].describe(shown),
            cells[second].describe(shown)
        )));
    }
    if spec.is_measured() {
        notes.extend(notes_of_measurements(cells, of_cells, shown));
        return notes;
    }
    // In the order of the cells, so that the notes are the same on any number of cores.
    for note in of_cells.iter().flatten().flat_map(|result| &result.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes
}

/// Each run that failed, with the reason.
pub(super) fn failures(cells: &[Cell], results: &[Vec<RunResult>], shown: &[usize]) -> Vec<String> {
    let mut failures = Vec::new();
    for (cell, results) in cells.iter().zip(results) {
        for reason in results.iter().filter_map(|result| result.failed.as_ref()) {
            failures.push(format!("{}: {reason}", cell.describe(shown)));
        }
    }
    failures
}

/// Notes of measurements, each with the cells that have it. The first repetition with notes stands for the others, which differ
/// in numbers.
fn notes_of_measurements(cells: &[Cell], results: &[Vec<RunResult>], shown: &[usize]) -> Vec<Note> {
    let mut groups: Vec<(&Note, Vec<&Cell>)> = Vec::new();
    for (cell, results) in cells.iter().zip(results) {
        let first = results.iter().map(|result| &result.notes).find(|notes| !notes.is_empty());
        for note in first.into_iter().flatten() {
            match groups.iter_mut().find(|(known, _)| *known == note) {
                Some((_, cells)) => cells.push(cell),
                None => groups.push((note, vec![cell])),
            }
        }
    }
    let placed = |(note, of): &(&Note, Vec<&Cell>)| {
        if of.len() == cells.len() {
            return (*note).clone();
        }
        let text = format!("{}: {}", named(of, shown), note.text());
        match note {
            Note::Warning(_) => Note::Warning(text),
            Note::Remark(_) => Note::Remark(text),
        }
    };
    let mut notes: Vec<Note> = groups.iter().take(NOTES_MAX).map(placed).collect();
    if groups.len() > NOTES_MAX {
        let more = groups.len() - NOTES_MAX;
        notes.push(Note::Remark(numbered(more, "more note[|s] on single cells [is|are] in the journal")));
    }
    notes
}

fn named(cells: &[&Cell], shown: &[usize]) -> String {
    let mut names: Vec<String> = cells.iter().take(NAMED_MAX).map(|cell| cell.describe(shown)).collect();
    if cells.len() > NAMED_MAX {
        names.push(format!("and {} more", cells.len() - NAMED_MAX));
    }
    names.join("; ")
}

/// Two cells that are the same run: a parameter that has no effect.
fn same_run(runs: &[Run]) -> Option<(usize, usize)> {
    let mut seen = BTreeMap::new();
    runs.iter().find_map(|run| {
        let first = *seen.entry(run.key).or_insert(run.cell);
        (first != run.cell).then_some((first, run.cell))
    })
}
