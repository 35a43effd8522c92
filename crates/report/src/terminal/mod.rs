//! The summary on the terminal: legible without colour, within 80 columns.

mod application;
mod breakdown;
mod comparison;
mod experiment;
mod host;
mod plot;
mod points;
mod summary;

use crate::document::Report;
use crate::text::{TextTable, folded};

pub use plot::{PLOT_COLUMNS, render_plot};

/// The report as text for a terminal. It has no colour, so it honours `NO_COLOR` as it is.
pub fn render_terminal(report: &Report) -> String {
    let mut blocks = Vec::new();
    let heading: Vec<String> = [report.title.as_str(), report.subtitle.as_str()]
        .into_iter()
        .filter(|line| !line.is_empty())
        .map(|line| folded(line, 2))
        .collect();
    blocks.push(heading.join("\n"));
    if !report.hosts.is_empty() {
        blocks.push(host::render(&report.hosts));
    }
    if !report.devices.is_empty() {
        blocks.push(summary::render(&report.devices, report.hosts.is_empty()));
        blocks.push(breakdown::render(&report.devices));
    }
    blocks.extend(report.application.iter().map(application::render));
    blocks.extend(report.comparisons.iter().map(comparison::render));
    // Beside an application they would hide it; the page has them.
    if report.application.is_none() {
        blocks.extend(report.points.iter().map(points::render));
    }
    blocks.extend(report.experiment.iter().map(experiment::render));
    let notes = report.ordered_notes().map(|note| wrapped(note.kind(), note.text()));
    blocks.push(notes.collect::<Vec<_>>().join("\n"));
    let mut origin = Vec::new();
    origin.extend(report.seed.map(|seed| wrapped("seed", &seed.to_string())));
    origin.extend(report.command.iter().map(|command| format!("repeat: {command}")));
    blocks.push(origin.join("\n"));
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n") + "\n"
}

/// `key: text` over as many lines as it needs, later ones indented.
fn wrapped(key: &str, text: &str) -> String {
    folded(&format!("{key}: {}", text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")), 2)
}

/// `text` in at most `width` characters, cut in the middle so that both ends still tell names apart.
fn shortened(text: &str, width: usize) -> String {
    let characters: Vec<char> = text.chars().filter(|c| !c.is_control()).collect();
    if characters.len() <= width {
        return characters.into_iter().collect();
    }
    let head = width / 2;
    let tail = width - head - 1;
    let (head, tail) = (&characters[..head], &characters[characters.len() - tail..]);
    head.iter().chain(&['…']).chain(tail).collect()
}

/// A table whose first `texts` columns are text and name the rows; the others are numbers.
fn table(header: &[String], rows: &[Vec<String>], texts: usize) -> String {
    let mut table = TextTable::new(header).with_keys(texts).with_texts(texts).with_rule();
    rows.iter().for_each(|row| table.push(row));
    table.render()
}
