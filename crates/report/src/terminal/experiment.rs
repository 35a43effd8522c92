//! The cells of an experiment, a row each.

use super::{WIDTH, shortened, table, wrapped};
use crate::document::ExperimentSection;
use crate::number::column;

/// Characters of a value at most.
const VALUE_WIDTH: usize = 24;

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
    let rows: Vec<Vec<String>> = section
        .cells
        .iter()
        .enumerate()
        .map(|(row, cell)| {
            let values = cell.values.iter().map(|value| shortened(value, VALUE_WIDTH));
            values.chain(means.iter().map(|figure| figure[row].clone())).collect()
        })
        .collect();
    let header: Vec<String> = section.dimensions.iter().chain(&section.figures).cloned().collect();
    // Figures that do not fit are in the HTML report; a table that wraps can be read by nobody.
    let mut columns = header.len();
    loop {
        let cut = |row: &Vec<String>| row[..columns.min(row.len())].to_vec();
        let text = table(&cut(&header), &rows.iter().map(cut).collect::<Vec<_>>(), section.dimensions.len());
        if columns <= section.dimensions.len() + 1 || text.lines().all(|line| line.chars().count() <= WIDTH) {
            let left_out = header[columns..].join(", ");
            return if left_out.is_empty() {
                text
            } else {
                format!("{text}\n{}", wrapped("not shown here", &left_out))
            };
        }
        columns -= 1;
    }
}
