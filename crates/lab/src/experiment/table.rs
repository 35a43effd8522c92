//! The one table of an experiment: a row for each cell.

use seeklab_analysis::{Interval, interval};
use seeklab_columnar::{ColumnValues, TableColumn};
use serde_json::{Map, Value};

use super::cells::{self, COUNTS, Cell, DIMENSIONS};
use super::engine::RunResult;
use super::spec::Spec;

/// Dimensions (swept parameters as numbers), `n` repetitions of which so many are `saturated` or have `failed`, and for each figure
/// the mean over the repetitions, their standard deviation and half the width of the 95 % interval of the mean.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ResultTable {
    /// The columns.
    pub columns: Vec<TableColumn>,
}

/// The mean of a figure over the repetitions of a cell, `None` unless every one has it and none has failed.
pub(super) fn of_cell(results: &[RunResult], figure: &str) -> Option<Interval> {
    if failed(results) > 0 {
        return None;
    }
    let values: Option<Vec<f64>> = results.iter().map(|result| result.figures.get(figure).copied()).collect();
    interval(&values?)
}

/// Returns the number of repetitions that the device could not sustain.
pub(super) fn saturated(results: &[RunResult]) -> usize {
    results.iter().filter(|result| result.saturated.is_some()).count()
}

/// Returns the number of runs that failed.
pub(super) fn failed(results: &[RunResult]) -> usize {
    results.iter().filter(|result| result.failed.is_some()).count()
}

impl ResultTable {
    /// The table of the results of each cell.
    pub(super) fn new(spec: &Spec, cells: &[Cell], results: &[Vec<RunResult>]) -> Self {
        let column = |name: String, values: ColumnValues| TableColumn { name, values };
        let text =
            |index: usize| ColumnValues::Text(cells.iter().map(|cell| cell.values[index].clone()).collect());
        let dimension = |(index, name): (usize, String)| match index.checked_sub(DIMENSIONS.len()) {
            None => column(name, text(index)),
            Some(parameter) => {
                let steps = cells.iter().map(|cell| cell.steps[parameter]);
                spec.parameters[parameter].column(&name, steps)
            }
        };
        let mut columns: Vec<TableColumn> =
            cells::dimensions(spec).into_iter().enumerate().map(dimension).collect();
        let counts = |count: fn(&[RunResult]) -> usize| {
            ColumnValues::Counts(results.iter().map(|results| count(results) as u64).collect())
        };
        let [n, of_saturated, of_failed] = COUNTS;
        columns.push(column(n.to_owned(), counts(<[RunResult]>::len)));
        columns.push(match spec.is_measured() {
            true => column(of_failed.to_owned(), counts(failed)),
            false => column(of_saturated.to_owned(), counts(saturated)),
        });
        for figure in &spec.figures {
            let intervals: Vec<Option<Interval>> =
                results.iter().map(|results| of_cell(results, figure)).collect();
            let numbers = |value: fn(&Interval) -> Option<f64>| {
                ColumnValues::Numbers(
                    intervals.iter().map(|interval| interval.as_ref().and_then(value)).collect(),
                )
            };
            columns.push(column(format!("{figure}_mean"), numbers(|interval| Some(interval.mean))));
            let sd = numbers(|interval| (interval.n > 1).then_some(interval.sd));
            columns.push(column(format!("{figure}_sd"), sd));
            columns
                .push(column(format!("{figure}_half_width_95"), numbers(|interval| interval.half_width_95)));
        }
        Self { columns }
    }

    fn rows(&self) -> usize {
        self.columns[0].values.len()
    }

    /// The table as CSV (RFC 4180, lines end in a line feed); what is absent is empty.
    pub(super) fn to_csv(&self) -> String {
        let header: Vec<String> = self.columns.iter().map(|column| quoted(&column.name)).collect();
        let mut text = header.join(",") + "\n";
        for row in 0..self.rows() {
            let cells: Vec<String> = self
                .columns
                .iter()
                .map(|column| match &column.values {
                    ColumnValues::Text(values) => quoted(&values[row]),
                    ColumnValues::Counts(values) => values[row].to_string(),
                    ColumnValues::OptionalCounts(values) => {
                        values[row].map_or_else(String::new, |value| value.to_string())
                    }
                    // The shortest text that reads back as the same number.
                    ColumnValues::Numbers(values) => {
                        values[row].map_or_else(String::new, |value| value.to_string())
                    }
                })
                .collect();
            text += &(cells.join(",") + "\n");
        }
        text
    }

    /// An object for each row.
    pub(super) fn to_json(&self) -> Vec<Value> {
        let value = |column: &TableColumn, row: usize| match &column.values {
            ColumnValues::Text(values) => values[row].clone().into(),
            ColumnValues::Counts(values) => values[row].into(),
            ColumnValues::OptionalCounts(values) => values[row].into(),
            ColumnValues::Numbers(values) => values[row].into(),
        };
        (0..self.rows())
            .map(|row| {
                let entries = self.columns.iter().map(|column| (column.name.clone(), value(column, row)));
                Value::Object(entries.collect::<Map<_, _>>())
            })
            .collect()
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_where_necessary() {
        let columns = vec![
            TableColumn {
                name: "a".to_owned(),
                values: ColumnValues::Text(vec!["x,y=1".to_owned(), "say \"z\"".to_owned()]),
            },
            TableColumn { name: "n".to_owned(), values: ColumnValues::Counts(vec![3, 4]) },
            TableColumn { name: "t_ms".to_owned(), values: ColumnValues::Numbers(vec![Some(0.1), None]) },
        ];
        let table = ResultTable { columns };
        assert_eq!(table.to_csv(), "a,n,t_ms\n\"x,y=1\",3,0.1\n\"say \"\"z\"\"\",4,\n");
        assert_eq!(table.to_json()[1], serde_json::json!({"a": "say \"z\"", "n": 4, "t_ms": null}));
    }

    #[test]
    fn cell_has_a_mean_only_if_every_repetition_has_the_figure() {
        let result = |figures: &[(&str, f64)]| RunResult {
            saturated: None,
            failed: None,
            figures: figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            notes: Vec::new(),
        };
        let results = [result(&[("a", 1.0), ("b", 1.0)]), result(&[("a", 3.0)])];
        assert_eq!(of_cell(&results, "a").unwrap().mean, 2.0);
        assert_eq!(of_cell(&results, "b"), None);
        let failed = RunResult { failed: Some("gone".to_owned()), ..results[1].clone() };
        assert_eq!(of_cell(&[results[0].clone(), failed], "a"), None);
        assert_eq!(of_cell(&[], "a"), None);
    }
}
