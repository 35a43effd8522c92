//! The cells of an experiment, a row each.

use super::{shortened, table};
use crate::document::ExperimentSection;
use crate::number::column;

/// Characters of all values of a cell together, if each can be shortened so far.
const VALUES_WIDTH: usize = 48;

/// Characters of a value at most, however few there are, and at least, however many.
const VALUE_WIDTH_MAX: usize = 24;
const VALUE_WIDTH_MIN: usize = 6;

pub(super) fn render(section: &ExperimentSection) -> String {
    let means: Vec<Vec<String>> = (0..section.figures.len())
        .map(|index| {
            let of = |pick: fn(&seeklab_analysis::Interval) -> Option<f64>| -> Vec<Option<f64>> {
                let figures = section.cells.iter().map(|cell| cell.figures.get(index).copied().flatten());
                figures.map(|figure| figure.as_ref().and_then(pick)).collect()
            };
            let (means, widths) = (of(|figure| Some(figure.mean)), of(|figure| figure.half_width_95));
            let widths: Vec<String> = column(&widths);
            let widest = widths.iter().filter(|width| *width != "–").map(|width| width.chars().count()).max();
            // All widths take the same room, so that the means stay in line.
            let join = |(mean, width): (String, String)| match widest {
                None => mean,
                Some(widest) if width == "–" => format!("{mean}{}", " ".repeat(widest + 2)),
                Some(widest) => format!("{mean} ±{width:>widest$}"),
            };
            column(&means).into_iter().zip(widths).map(join).collect()
        })
        .collect();
    let width = (VALUES_WIDTH / section.dimensions.len().max(1)).clamp(VALUE_WIDTH_MIN, VALUE_WIDTH_MAX);
    let rows: Vec<Vec<String>> = section
        .cells
        .iter()
        .enumerate()
        .map(|(row, cell)| {
            let values = cell.values.iter().map(|value| shortened(value, width));
            values.chain(means.iter().map(|figure| figure[row].clone())).collect()
        })
        .collect();
    let names = section.dimensions.iter().map(|name| shortened(name, width));
    let header: Vec<String> = names.chain(section.figures.iter().cloned()).collect();
    table(&header, &rows, section.dimensions.len())
}
