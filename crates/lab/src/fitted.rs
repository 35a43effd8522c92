//! Output of a cloned device's fitted model: as text, as a page, and as figures.

use seeklab_devices::FittedModel;
use seeklab_devices::fitted::{FittedAxis, FittedCurves, FittedTable};
use seeklab_report::{
    PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries, TextTable, render_plot,
};
use serde_json::{Map, Value};

/// Tables, and curves as pictures in characters.
pub fn text(fitted: &FittedModel) -> String {
    let tables = fitted.tables.iter().map(|table| aligned(&plain(table)));
    let plots = fitted.curves.iter().map(|curves| render_plot(&plot(curves)));
    tables.chain(plots).collect::<Vec<_>>().join("\n")
}

/// A table of text in aligned columns, the first to the left.
pub fn aligned(table: &PlainTable) -> String {
    let mut drawn = TextTable::new(&table.columns);
    table.rows.iter().for_each(|row| drawn.push(row));
    drawn.render() + "\n"
}

/// A section of a page.
pub fn section(fitted: &FittedModel) -> PageSection {
    PageSection {
        title: "Fitted model".to_owned(),
        tables: fitted.tables.iter().map(plain).collect(),
        plots: fitted.curves.iter().map(plot).collect(),
        ..PageSection::default()
    }
}

/// One JSON object: rows of tables and points of curves, units in the names.
pub fn document(fitted: &FittedModel) -> Value {
    let tables = fitted.tables.iter().map(|table| (table.key.to_owned(), rows(table)));
    let curves = fitted.curves.iter().map(|curves| (curves.key.to_owned(), points(curves)));
    Value::Object(tables.chain(curves).collect())
}

fn plain(table: &FittedTable) -> PlainTable {
    let heading = |column: &str| {
        let (name, unit) = column.rsplit_once('_').unwrap_or((column, ""));
        match unit {
            "pct" => format!("{name} %"),
            "ms" => format!("{name} ms"),
            _ => column.replace('_', " "),
        }
    };
    let figure = |column: &str, value: f64| match column.rsplit_once('_') {
        Some((_, "pct")) => format!("{value:.2}"),
        Some((_, "ms")) => format!("{value:.3}"),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    };
    let columns = table.columns.iter().map(|column| heading(column));
    PlainTable {
        columns: [table.rows_are.to_owned()].into_iter().chain(columns).collect(),
        rows: table
            .rows
            .iter()
            .map(|(name, values)| {
                let values = table.columns.iter().zip(values).map(|(column, value)| figure(column, *value));
                [name.clone()].into_iter().chain(values).collect()
            })
            .collect(),
        caption: String::new(),
    }
}

fn plot(curves: &FittedCurves) -> Plot {
    let axis = |axis: &FittedAxis, linear: PlotScale| {
        PlotAxis::new(axis.label, axis.unit, if axis.is_log { PlotScale::Log } else { linear })
    };
    let series = curves.series.iter().map(|series| {
        let points = series.points.iter().map(|point| (point.x, point.y));
        PlotSeries::new(series.name.clone(), PlotMark::LineAndPoints, points)
    });
    Plot {
        title: curves.title.to_owned(),
        caption: curves.caption.clone(),
        x: axis(&curves.x, PlotScale::Linear),
        // Shares are read along an even scale.
        y: axis(&curves.y, if curves.y.unit == "%" { PlotScale::Linear } else { PlotScale::ByValues }),
        series: series.collect(),
    }
}

fn rows(table: &FittedTable) -> Value {
    let rows = table.rows.iter().map(|(name, values)| {
        let figures =
            table.columns.iter().zip(values).map(|(column, value)| ((*column).to_owned(), (*value).into()));
        let name = (table.rows_are.to_owned(), name.clone().into());
        Value::Object([name].into_iter().chain(figures).collect())
    });
    rows.collect()
}

fn points(curves: &FittedCurves) -> Value {
    let of = |series: &seeklab_devices::fitted::FittedSeries| {
        let points = series.points.iter().map(|point| {
            Value::Object(Map::from_iter([
                (curves.x.key.to_owned(), point.x.into()),
                (curves.y.key.to_owned(), point.y.into()),
                ("requests".to_owned(), point.requests.into()),
            ]))
        });
        Value::Object(Map::from_iter([
            ("series".to_owned(), series.name.clone().into()),
            ("points".to_owned(), points.collect()),
        ]))
    };
    curves.series.iter().map(of).collect()
}
