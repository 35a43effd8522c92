//! The summary on the terminal: legible without colour, within 100 columns.

mod application;
mod breakdown;
mod comparison;
mod experiment;
mod plot;
mod points;
mod summary;

use comfy_table::{CellAlignment, Table, presets};

use crate::document::Report;

pub use plot::{PLOT_COLUMNS, render_plot};

/// Columns of text at most.
const WIDTH: usize = 100;

/// The report as text for a terminal. It has no colour, so it honours `NO_COLOR` as it is.
pub fn render_terminal(report: &Report) -> String {
    let mut blocks = Vec::new();
    let heading: Vec<&str> = [report.title.as_str(), report.subtitle.as_str()]
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect();
    blocks.push(heading.join("\n"));
    if !report.devices.is_empty() {
        blocks.push(summary::render(&report.devices));
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

/// `key: text` over as many lines as it needs, later ones indented; a percent sign stays with its number.
fn wrapped(key: &str, text: &str) -> String {
    let mut lines = vec![format!("{key}:")];
    let together = text.replace(" %", "\u{a0}%");
    for word in together.split_ascii_whitespace().map(|word| word.replace('\u{a0}', " ")) {
        let last = lines.last_mut().expect("there is a first line");
        if last.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("  {word}"));
        } else {
            last.push(' ');
            last.push_str(&word);
        }
    }
    lines.join("\n")
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

/// A table whose first `texts` columns are text and the others numbers.
fn table(header: &[String], rows: &[Vec<String>], texts: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let rule: Vec<String> = header
        .iter()
        .enumerate()
        .map(|(index, title)| {
            let cells = rows.iter().filter_map(|row| row.get(index)).chain([title]);
            "─".repeat(cells.map(|cell| cell.chars().count()).max().unwrap_or(0))
        })
        .collect();
    table.add_row(header).add_row(rule);
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding(if index == 0 { (0, 0) } else { (2, 0) });
        if index >= texts {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    trimmed(&table.to_string())
}

/// Lines without blanks at their ends.
fn trimmed(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
