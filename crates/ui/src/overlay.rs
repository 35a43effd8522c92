//! Figures and curves of saved runs: of one, or of two laid over each other.

use seeklab_lab::bench::{IntervalFigures, interval_plots};
use seeklab_lab::crates::report::{Plot, chart_data};
use seeklab_lab::failure::Failure;
use serde::Serialize;
use serde_json::Value;

use crate::archive::SavedRun;

/// Intervals whose points are drawn.
const INTERVALS_MAX: usize = 4000;

/// Rows of the table: name, unit, and the path of the key in the document of `seeklab bench --json`.
const ROWS: &[(&str, &str, &[&str])] = &[
    ("time that counts", "s", &["duration_s"]),
    ("requests carried out", "", &["requests"]),
    ("requests per second", "1/s", &["requests_per_second"]),
    ("throughput", "MiB/s", &["mib_per_second"]),
    ("response time, mean", "ms", &["response_mean_ms"]),
    ("response time, p50", "ms", &["response_p50_ms"]),
    ("response time, p99", "ms", &["response_p99_ms"]),
    ("response time, p99.9", "ms", &["response_p999_ms"]),
    ("response time, max", "ms", &["response_max_ms"]),
    ("service time, mean", "ms", &["service_mean_ms"]),
    ("service time, p99", "ms", &["service_p99_ms"]),
    ("outstanding, mean", "", &["outstanding_mean"]),
    ("longest pause", "ms", &["longest_pause_ms"]),
    ("attempts that failed", "", &["errors"]),
    ("requests that failed", "", &["failed_requests"]),
    ("arrivals left out", "", &["dropped_requests"]),
    ("requests never issued", "", &["unissued_requests"]),
    ("requests never returned", "", &["unfinished_requests"]),
    ("processor time per request", "us", &["cost", "cpu_us_per_request"]),
];

/// One saved run, or two.
#[derive(Debug, Serialize)]
pub(crate) struct Overlay {
    runs: Vec<OverlaidRun>,
    rows: Vec<Row>,
    /// As the script of charts reads them.
    charts: Value,
}

/// A run of an overlay.
#[derive(Debug, Serialize)]
struct OverlaidRun {
    id: String,
    /// Letter of its series; empty of a single run.
    letter: &'static str,
    title: Option<String>,
    plan: Option<String>,
    command: Option<String>,
    notes: Vec<String>,
}

/// A row of the table.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    unit: &'static str,
    /// One for each run.
    values: Vec<Option<f64>>,
    /// Change from the first to the second run.
    change_pct: Option<f64>,
}

impl Overlay {
    /// Lays runs over each other. The times of each count from its own begin.
    ///
    /// # Errors
    /// If the intervals of a run cannot be read.
    pub(crate) fn of(runs: &[SavedRun]) -> Result<Self, Failure> {
        let letters: &[&str] = if runs.len() > 1 { &["A", "B"] } else { &[""] };
        let mut plots: Vec<Plot> = Vec::new();
        let mut overlaid = Vec::new();
        for (run, letter) in runs.iter().zip(letters) {
            let mut notes: Vec<String> =
                serde_json::from_value(run.results["notes"].clone()).unwrap_or_default();
            let intervals = intervals(run)?;
            let every = intervals.len().div_ceil(INTERVALS_MAX).max(1);
            if every > 1 {
                notes.push(format!(
                    "The curves show one of {every} intervals, of {} in all.",
                    intervals.len()
                ));
            }
            let drawn: Vec<IntervalFigures> = intervals.into_iter().step_by(every).collect();
            for (index, plot) in interval_plots(&drawn).into_iter().enumerate() {
                let series = plot.series.iter().cloned().map(|mut series| {
                    if !letter.is_empty() {
                        series.name = format!("{letter} {}", series.name);
                    }
                    series
                });
                match plots.get_mut(index) {
                    Some(together) => together.series.extend(series),
                    None => {
                        let series = series.collect();
                        plots.push(Plot { series, ..plot });
                    }
                }
            }
            let text = |key: &str| run.results[key].as_str().map(str::to_owned);
            overlaid.push(OverlaidRun {
                id: run.id.clone(),
                letter,
                title: text("title"),
                plan: run.plan.clone(),
                command: text("command"),
                notes,
            });
        }
        let rows = ROWS.iter().filter_map(|row| self::row(row, runs));
        Ok(Self { runs: overlaid, rows: rows.collect(), charts: chart_data(&plots) })
    }
}

fn intervals(run: &SavedRun) -> Result<Vec<IntervalFigures>, Failure> {
    serde_json::from_value(run.results["intervals"].clone())
        .map_err(|error| Failure::new(format!("run `{}`: its intervals cannot be read: {error}", run.id)))
}

/// A row, unless no run has a value for it, or all have zero.
fn row(&(name, unit, path): &(&'static str, &'static str, &[&str]), runs: &[SavedRun]) -> Option<Row> {
    let value = |run: &SavedRun| path.iter().fold(&run.results, |value, key| &value[*key]).as_f64();
    let values: Vec<Option<f64>> = runs.iter().map(value).collect();
    let has_value = values.iter().flatten().any(|value| *value != 0.0);
    let change_pct = match values[..] {
        [Some(before), Some(after)] if before != 0.0 => Some(100.0 * (after - before) / before),
        _ => None,
    };
    has_value.then_some(Row { name, unit, values, change_pct })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(id: &str, rate: f64, count: usize) -> SavedRun {
        let interval = |index: usize| {
            json!({
                "from_s": index as f64, "length_s": 1.0, "requests": 10, "requests_per_second": rate,
                "mib_per_second": 0.1, "errors": 0,
                "statuses": { "recovered": 0, "medium_error": 0, "aborted": 0, "timeout": 0, "write_protected": 0, "no_space": 0, "gone": 0 },
                "retries": 0, "delayed_requests": 0, "dropped_requests": 0, "outstanding": 1, "queued_requests": 0,
                "oldest_ms": null, "hung_requests": 0, "longest_pause_ms": 1.5, "silent_threads": 0,
                "response_p50_ms": 2.0, "response_p99_ms": 4.0, "service_p50_ms": 2.0,
            })
        };
        let intervals: Vec<Value> = (0..count).map(interval).collect();
        let results =
            json!({ "requests_per_second": rate, "errors": 0, "intervals": intervals, "notes": ["n"] });
        SavedRun { id: id.to_owned(), plan: None, results }
    }

    #[test]
    fn two_runs_share_the_charts_and_the_table_has_the_change() {
        let overlay = Overlay::of(&[run("a", 100.0, 3), run("b", 125.0, 2)]).unwrap();
        let row = overlay.rows.iter().find(|row| row.name == "requests per second").unwrap();
        assert_eq!(row.values, [Some(100.0), Some(125.0)]);
        assert_eq!(row.change_pct, Some(25.0));
        assert!(!overlay.rows.iter().any(|row| row.name == "attempts that failed"), "none failed");
        let series = overlay.charts[0]["chart"]["series"].as_array().unwrap();
        let names: Vec<&str> = series.iter().map(|series| series["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["A carried out", "A failed", "B carried out", "B failed"]);
        let points = |at: usize| series[at]["points"].as_array().unwrap().clone();
        assert_eq!(points(0), [json!([0.5, 100.0]), json!([1.5, 100.0]), json!([2.5, 100.0])]);
        assert_eq!(points(2).len(), 2);
        let alone = Overlay::of(&[run("a", 100.0, 3)]).unwrap();
        assert_eq!(alone.charts[0]["chart"]["series"][0]["name"], "carried out");
        assert_eq!(alone.rows[0].change_pct, None);
    }

    #[test]
    fn curves_of_many_intervals_are_thinned_with_a_note() {
        let overlay = Overlay::of(&[run("a", 100.0, 2 * INTERVALS_MAX + 1)]).unwrap();
        let points = overlay.charts[0]["chart"]["series"][0]["points"].as_array().unwrap();
        assert_eq!(points.len(), 2667);
        assert_eq!(overlay.runs[0].notes, ["n", "The curves show one of 3 intervals, of 8001 in all."]);
    }
}
