//! A page of plain tables and plots.

use minijinja::{Value, context};

use super::chart::{Axis, Chart, Mark, Series};
use super::{SCRIPT, STYLE, environment, json};
use crate::page::{Page, PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale};

/// The page as one self-contained HTML file; the same page gives the same bytes.
pub fn render_page_html(page: &Page) -> String {
    let mut charts = Vec::new();
    let sections = page.sections.iter().filter_map(|section| self::section(section, &mut charts));
    let sections: Vec<Value> = sections.collect();
    let environment = environment();
    let template = environment.get_template("page.html").expect("the template is part of the program");
    template
        .render(context! {
            title => page.title.as_str(),
            subtitle => page.subtitle.as_str(),
            generated_by => page.generated_by.as_str(),
            command => page.command.as_deref(),
            notes => page.notes.clone(),
            sections,
            style => STYLE,
            script => SCRIPT,
            data => json::embedded(&charts),
        })
        .expect("every value of the template is given")
}

/// Returns the parts of a section that have something to show.
fn section(section: &PageSection, charts: &mut Vec<Chart>) -> Option<Value> {
    let tables = section.tables.iter().filter(|table| !table.rows.is_empty());
    let tables: Vec<Value> = tables.map(table).collect();
    let mut places = Vec::new();
    for plot in section.plots.iter().filter(|plot| !plot.is_empty()) {
        let id = format!("plot-{}", charts.len());
        charts.push(chart(&id, plot));
        places.push(context! { id, title => plot.title.as_str(), caption => plot.caption.as_str() });
    }
    let has_parts = !tables.is_empty() || !places.is_empty() || !section.text.is_empty();
    has_parts.then(|| {
        context! {
            title => section.title.as_str(),
            text => section.text.clone(),
            command => section.command.as_deref(),
            tables,
            charts => places,
        }
    })
}

/// Characters from which on a cell holds text, which begins at the left and is folded.
const TEXT_MIN: usize = 24;

fn table(table: &PlainTable) -> Value {
    let is_text = |column: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(column));
        cells.any(|cell| cell.chars().count() >= TEXT_MIN)
    };
    let classes: Vec<&str> =
        (0..table.columns.len()).map(|column| if is_text(column) { "" } else { "n" }).collect();
    context! {
        columns => table.columns.clone(),
        classes,
        rows => table.rows.clone(),
        caption => table.caption.as_str(),
    }
}

fn chart(id: &str, plot: &Plot) -> Chart {
    let (x, y) = (axis(&plot.x, &plot.values(|point| point.0)), axis(&plot.y, &plot.values(|point| point.1)));
    let has_place = |axis: &Axis, value: f64| !axis.is_log || value > 0.0;
    let series = plot.series.iter().filter(|series| !series.points.is_empty()).enumerate();
    let series = series.map(|(style, series)| {
        let points = series.points.iter().copied();
        let points = points.filter(|(at, value)| has_place(&x, *at) && has_place(&y, *value));
        Series::new(&series.name, mark(series.mark), style, points)
    });
    let series = series.collect();
    Chart::plot(id, x, y, series)
}

const fn mark(mark: PlotMark) -> Mark {
    match mark {
        PlotMark::Line => Mark::Line,
        PlotMark::LineAndPoints => Mark::LineAndPoints,
        PlotMark::Step => Mark::Step,
        PlotMark::Area => Mark::Area,
        PlotMark::Points => Mark::Points,
        PlotMark::Guide => Mark::Guide,
    }
}

/// The chart of a plot that grows: with all its series and points.
pub(super) fn growing_chart(id: &str, plot: &Plot) -> Chart {
    let (x, y) = (axis(&plot.x, &plot.values(|point| point.0)), axis(&plot.y, &plot.values(|point| point.1)));
    let growing = |axis: Axis, scale| if scale == PlotScale::ByValues { axis.growing() } else { axis };
    let (x, y) = (growing(x, plot.x.scale), growing(y, plot.y.scale));
    let series = plot.series.iter().enumerate();
    let series = series.map(|(style, series)| {
        Series::new(&series.name, mark(series.mark), style, series.points.iter().copied())
    });
    Chart::plot(id, x, y, series.collect())
}

fn axis(axis: &PlotAxis, values: &[f64]) -> Axis {
    let mut drawn = match axis.scale {
        PlotScale::Linear => Axis::linear(&axis.label, &axis.unit),
        PlotScale::Log => Axis::log(&axis.label, &axis.unit),
        PlotScale::ByValues => Axis::of_values(&axis.label, &axis.unit, values),
    };
    if let Some(min) = axis.min {
        drawn = drawn.starting_at(min);
    }
    if let Some(max) = axis.max {
        drawn = drawn.ending_at(max);
    }
    drawn
}
