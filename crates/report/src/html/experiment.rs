//! An experiment on the page: a line chart per figure and a table of all cells.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use super::chart::{Axis, Chart, Mark, Series};
use crate::document::ExperimentSection;
use crate::number::{column, plotted};

/// Charts at most; the table has every figure.
const CHARTS_MAX: usize = 4;

pub(super) fn context(section: &ExperimentSection, charts: &mut Vec<Chart>) -> Value {
    let mut places = Vec::new();
    if let Some(parameter) = &section.parameter {
        for (index, figure) in section.figures.iter().enumerate().take(CHARTS_MAX) {
            let chart = chart(section, index, parameter);
            if chart.series.iter().any(|series| !series.points.is_empty()) {
                places.push(context! { id => chart.id.as_str(), title => figure.as_str(), caption => "Mean over repetitions; whiskers are 95 % intervals." });
                charts.push(chart);
            }
        }
    }
    let columns: Vec<Vec<String>> = (0..section.figures.len())
        .map(|index| {
            let figures = || section.cells.iter().map(|cell| cell.figures.get(index).copied().flatten());
            let means = column(&figures().map(|figure| figure.map(|f| f.mean)).collect::<Vec<_>>());
            let widths =
                column(&figures().map(|figure| figure.and_then(|f| f.half_width_95)).collect::<Vec<_>>());
            let widest = widths.iter().filter(|width| *width != "–").map(|width| width.chars().count()).max();
            let join = |(mean, width): (String, String)| match (mean.as_str(), width.as_str()) {
                // An interval's room is kept free where there is none, so that the means stay in line.
                ("–", "–") => format!("–{}", blank(widest.map_or(0, |widest| widest + 3))),
                (_, "–") => format!("{mean}{}", blank(widest.map_or(0, |widest| widest + 3))),
                _ => format!("{mean} ± {}{width}", blank(widest.unwrap_or(0) - width.chars().count())),
            };
            means.into_iter().zip(widths).map(join).collect()
        })
        .collect();
    let rows: Vec<Value> = section
        .cells
        .iter()
        .enumerate()
        .map(|(row, cell)| {
            let figures: Vec<String> = columns.iter().map(|column| column[row].clone()).collect();
            context! { values => cell.values.iter().map(|value| unbroken(value)).collect::<Vec<_>>(), figures }
        })
        .collect();
    context! { dimensions => section.dimensions.clone(), figures => section.figures.clone(), rows, charts => places }
}

/// Room for so many digits.
fn blank(digits: usize) -> String {
    "\u{2007}".repeat(digits)
}

/// A short value on one line.
fn unbroken(value: &str) -> String {
    const SHORT: usize = 32;
    if value.chars().count() <= SHORT { value.replace(' ', "\u{a0}") } else { value.to_owned() }
}

fn chart(section: &ExperimentSection, index: usize, parameter: &str) -> Chart {
    // Series in the order in which they first appear, so that colours follow the table.
    let mut order: BTreeMap<&str, usize> = BTreeMap::new();
    let mut series: Vec<Series> = Vec::new();
    for cell in &section.cells {
        let place = *order.entry(&cell.series).or_insert_with(|| {
            series.push(Series::new(&cell.series, Mark::LineAndPoints, series.len(), []));
            series.len() - 1
        });
        if let Some(Some(figure)) = cell.figures.get(index) {
            let half_width = figure.half_width_95.unwrap_or(0.0);
            series[place].points.push([cell.x, figure.mean, half_width].map(plotted).to_vec());
        }
    }
    for one in &mut series {
        one.points.sort_by(|a, b| a[0].total_cmp(&b[0]));
    }
    let of = |coordinate: usize| -> Vec<f64> {
        series.iter().flat_map(|one| one.points.iter().map(|point| point[coordinate])).collect()
    };
    let (x, y) = (of(0), of(1));
    let x = Axis::of_values(parameter, "", &x);
    let figure = &section.figures[index];
    let y = match figure.ends_with("_pct") {
        true => Axis::linear(figure, "").starting_at(0.0),
        false => Axis::of_values(figure, "", &y),
    };
    Chart::plot(&format!("experiment{index}"), x, y, series)
}
