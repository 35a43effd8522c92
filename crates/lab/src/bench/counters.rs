//! Counters of the machine, of this process and of watched processes, beside a measurement: figures, table and plots.
//!
//! ```text
//! CounterThread ─┬─▶ counters.parquet.part, CSV, as they come
//!                └─▶ Counters ─▶ CounterFigures, counters.parquet, plots
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use schemars::JsonSchema;
use seeklab_bench::counters::{
    COUNTERS, CounterOptions, CounterSample, CounterScope, CounterSeries, CounterThread, Counters,
    TakeSample, absent_names,
};
use seeklab_columnar::{ColumnValues, TableColumn, write_table};
use seeklab_files::PartFile;
use seeklab_report::{PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries};
use serde::Serialize;

use super::figures::six_decimals;
use crate::failure::Failure;
use crate::output::VERSION;
use crate::session::Session;

/// Name of the file of the table.
pub(super) const FILE: &str = "counters.parquet";
/// Name of the table.
const TABLE: &str = "counters";
/// Version of its columns. A column or counter may be added without another version.
const TABLE_VERSION: u32 = 1;
/// Columns of the table.
const COLUMNS: [&str; 6] = ["at_s", "length_s", "scope", "name", "counter", "value"];

/// Counters of the machine and of processes during a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CounterFigures {
    /// Length of a sample.
    pub interval_s: f64,
    /// Number of samples.
    pub samples: u64,
    /// Each counter of the machine, of this process, of watched processes, of interfaces and of disks.
    pub series: Vec<CounterSeriesFigures>,
    /// Files of `/proc` that could not be read, and names that no process had.
    pub missing: Vec<String>,
}

/// A counter over all samples.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CounterSeriesFigures {
    /// `machine`, `self`, `process`, `interface` or `disk`.
    pub scope: &'static str,
    /// Name of the process with its number, of the interface or of the disk; empty of the others.
    pub name: String,
    /// Name of the counter, which has the unit of its values.
    pub counter: &'static str,
    /// Mean over time.
    pub mean: f64,
    /// Least value of a sample.
    pub min: f64,
    /// Greatest value of a sample.
    pub max: f64,
}

impl CounterFigures {
    pub(super) fn of(options: &CounterOptions, counters: &Counters) -> Self {
        let series = counters.series.iter().enumerate().filter_map(|(place, series)| {
            let (mut weighted, mut length_s) = (0.0, 0.0);
            let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
            for (sample, value) in counters.values(place) {
                weighted += value * sample.length.as_s();
                length_s += sample.length.as_s();
                (min, max) = (min.min(value), max.max(value));
            }
            (length_s > 0.0).then(|| CounterSeriesFigures {
                scope: series.scope.name(),
                name: series.name.clone(),
                counter: series.counter,
                mean: six_decimals(weighted / length_s),
                min: six_decimals(min),
                max: six_decimals(max),
            })
        });
        Self {
            interval_s: six_decimals(options.interval.as_s()),
            samples: counters.samples.len() as u64,
            series: series.collect(),
            missing: counters.missing.clone(),
        }
    }
}

/// Begins to read the counters, to append them in the folder of the run, and to send each sample with all series so far.
///
/// # Errors
/// A watched number that is no process, or a file that cannot be made.
pub(super) fn begin(
    session: &Session,
    options: &CounterOptions,
    folder: Option<&Path>,
    samples: Sender<Counters>,
) -> Result<CounterThread, Failure> {
    for name in absent_names(&options.watch) {
        session.warn(format!(
            "--watch {name}: no process has this name. It is watched from the time on at which one begins"
        ));
    }
    let mut part = match folder {
        Some(folder) => PartFile::create(&folder.join(FILE))?,
        None => None,
    };
    if let Some(part) = &mut part {
        part.append(format!("{}\n", COLUMNS.join(",")).as_bytes())?;
    }
    let take: TakeSample = Box::new(move |sample, series| {
        // The samples stay in memory, too. Behind a failure, nothing more is appended.
        if let Some(of) = &mut part
            && of.append(csv(sample, series).as_bytes()).is_err()
        {
            part = None;
        }
        let (series, samples_so_far) = (series.to_vec(), vec![sample.clone()]);
        // Nobody takes them behind the end of the run.
        let _ = samples.send(Counters { series, samples: samples_so_far, missing: Vec::new() });
    });
    CounterThread::begin(options.clone(), take).map_err(|error| Failure::chain(&error))
}

fn csv(sample: &CounterSample, series: &[CounterSeries]) -> String {
    let (at_s, length_s) = (six_decimals(sample.at.as_s()), six_decimals(sample.length.as_s()));
    let row = |(place, value): &(usize, f64)| {
        let CounterSeries { scope, name, counter } = &series[*place];
        let name = name.replace('"', "\"\"");
        format!("{at_s},{length_s},{},\"{name}\",{counter},{}\n", scope.name(), six_decimals(*value))
    };
    sample.values.iter().map(row).collect()
}

/// Writes the table, and removes what was appended so far.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(folder: &Path, counters: &Counters) -> Result<(), Failure> {
    let rows = || {
        counters
            .samples
            .iter()
            .flat_map(|sample| sample.values.iter().map(move |(place, value)| (sample, *place, *value)))
    };
    let text = |of: &dyn Fn(&CounterSeries) -> String| {
        ColumnValues::Text(rows().map(|(_, place, _)| of(&counters.series[place])).collect())
    };
    let values = [
        ColumnValues::Numbers(rows().map(|(sample, ..)| Some(six_decimals(sample.at.as_s()))).collect()),
        ColumnValues::Numbers(rows().map(|(sample, ..)| Some(six_decimals(sample.length.as_s()))).collect()),
        text(&|series| series.scope.name().to_owned()),
        text(&|series| series.name.clone()),
        text(&|series| series.counter.to_owned()),
        ColumnValues::Numbers(rows().map(|(.., value)| Some(six_decimals(value))).collect()),
    ];
    let columns: Vec<TableColumn> = COLUMNS
        .iter()
        .zip(values)
        .map(|(name, values)| TableColumn { name: (*name).to_owned(), values })
        .collect();
    let mut metadata = vec![
        ("table".to_owned(), TABLE.to_owned()),
        ("table_version".to_owned(), TABLE_VERSION.to_string()),
        ("version".to_owned(), VERSION.to_owned()),
    ];
    let is_there = |name: &str| counters.series.iter().any(|series| series.counter == name);
    let present = COUNTERS.iter().filter(|counter| is_there(counter.name));
    metadata.extend(present.map(|of| (format!("counter.{}", of.name), of.meaning.to_owned())));
    let metadata: Vec<(&str, String)> =
        metadata.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    let path = folder.join(FILE);
    write_table(&path, &columns, &metadata)?;
    let part: Option<PathBuf> = PartFile::path_of(&path)?;
    if let Some(part) = part {
        // It is gone if nothing could be appended.
        let _ = std::fs::remove_file(part);
    }
    Ok(())
}

/// The summary in a terminal: processors, interrupts, memory, this process and watched ones.
pub(super) fn table(figures: &CounterFigures) -> PlainTable {
    const SHOWN: &[&str] = &[
        "cpu_utilisation_pct",
        "cpu_iowait_pct",
        "cpu_softirq_pct",
        "cpu_steal_pct",
        "interrupts_per_second",
        "context_switches_per_second",
        "memory_available_bytes",
        "swap_used_bytes",
        "io_pressure_some_pct",
        "user_processors",
        "system_processors",
        "resident_bytes",
    ];
    let is_idle = |series: &CounterSeriesFigures| {
        let of = |other: &&CounterSeriesFigures| {
            other.scope == "process" && other.name == series.name && other.counter.ends_with("_processors")
        };
        series.scope == "process" && figures.series.iter().filter(of).all(|other| other.max == 0.0)
    };
    // Many processes may have the name that is watched.
    let idle: BTreeSet<&str> =
        figures.series.iter().filter(|series| is_idle(series)).map(|series| series.name.as_str()).collect();
    let shows_idle = idle.len() <= IDLE_SHOWN_MAX;
    let mut table =
        rows(figures, |series| SHOWN.contains(&series.counter) && (shows_idle || !is_idle(series)));
    if !shows_idle {
        table.caption += &format!(" {} watched processes that never ran are left out.", idle.len());
    }
    table
}

/// Watched processes that never ran, up to which each has rows in a terminal.
const IDLE_SHOWN_MAX: usize = 4;

/// Rows of the series that `shown` takes.
fn rows(figures: &CounterFigures, shown: impl Fn(&CounterSeriesFigures) -> bool) -> PlainTable {
    let row = |series: &CounterSeriesFigures| {
        let of = if series.name.is_empty() { series.scope.to_owned() } else { series.name.clone() };
        let [mean, min, max] = [series.mean, series.min, series.max].map(number);
        vec![series.counter.to_owned(), of, mean, min, max]
    };
    PlainTable {
        columns: ["counter", "of", "mean", "min", "max"].map(str::to_owned).to_vec(),
        rows: figures.series.iter().filter(|series| shown(series)).map(row).collect(),
        caption: format!(
            "Counters of /proc every {} s, {}.",
            figures.interval_s,
            seeklab_core::number_words::counted(figures.samples, "sample")
        ),
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        of if of >= 1000.0 => format!("{value:.0}"),
        of if of >= 10.0 || of == 0.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// The section of the page: all counters, and the most important ones over time.
pub(super) fn section(figures: &CounterFigures, counters: &Counters) -> PageSection {
    PageSection {
        title: "Counters".to_owned(),
        text: figures.missing.iter().map(|missing| format!("Not available: {missing}.")).collect(),
        tables: vec![rows(figures, |_| true)],
        plots: counter_plots(counters),
        ..PageSection::default()
    }
}

/// The most important counters over time.
pub fn counter_plots(counters: &Counters) -> Vec<Plot> {
    const PROCESSORS: &[&str] =
        &["cpu_user_pct", "cpu_system_pct", "cpu_softirq_pct", "cpu_iowait_pct", "cpu_steal_pct"];
    const SWITCHES: &[&str] = &["interrupts_per_second", "context_switches_per_second"];
    const MEMORY: &[&str] =
        &["memory_free_bytes", "memory_available_bytes", "memory_dirty_bytes", "swap_used_bytes"];
    const PRESSURE: &[&str] = &["cpu_pressure_some_pct", "memory_pressure_some_pct", "io_pressure_some_pct"];
    const OF_PROCESSES: &[&str] = &["user_processors", "system_processors"];
    const NETWORK: &[&str] = &["received_bytes_per_second", "sent_bytes_per_second"];
    const DISKS: &[&str] = &["read_bytes_per_second", "written_bytes_per_second"];
    let machine: &[CounterScope] = &[CounterScope::Machine];
    let processes: &[CounterScope] = &[CounterScope::Own, CounterScope::Process];
    let plots = [
        ("Processors", "share of the time", "%", 1.0, machine, PROCESSORS),
        ("Interrupts and context switches", "events", "1/s", 1.0, machine, SWITCHES),
        ("Processes", "processors", "", 1.0, processes, OF_PROCESSES),
        ("Memory", "memory", "MiB", MIB, machine, MEMORY),
        ("Network", "transfer rate", "MiB/s", MIB, &[CounterScope::Interface], NETWORK),
        ("Disks", "transfer rate", "MiB/s", MIB, &[CounterScope::Disk], DISKS),
        ("Pressure", "share of the time", "%", 1.0, machine, PRESSURE),
    ];
    plots
        .into_iter()
        .map(|(title, label, unit, divisor, scopes, names)| Plot {
            title: title.to_owned(),
            caption: "Means of the samples; memory is that at their ends.".to_owned(),
            x: PlotAxis::new("time", "s", PlotScale::Linear),
            y: PlotAxis::new(label, unit, PlotScale::Linear).from_zero(),
            series: series(counters, scopes, names, divisor),
        })
        .collect()
}

const MIB: f64 = 1_048_576.0;

fn series(counters: &Counters, scopes: &[CounterScope], names: &[&str], divisor: f64) -> Vec<PlotSeries> {
    let is_shown = |of: &CounterSeries| scopes.contains(&of.scope) && names.contains(&of.counter);
    let shown = counters.series.iter().enumerate().filter(|(_, series)| is_shown(series));
    shown
        .map(|(place, series)| {
            // The unit stands at the axis.
            let name = ["_pct", "_per_second", "_bytes"]
                .iter()
                .fold(series.counter, |name, unit| name.strip_suffix(unit).unwrap_or(name))
                .replace('_', " ");
            let name = match (series.scope, series.name.as_str()) {
                (CounterScope::Machine, _) => name,
                (CounterScope::Own, _) => format!("seeklab {name}"),
                (_, of) => format!("{of} {name}"),
            };
            let points = counters.values(place).map(|(sample, value)| (sample.at.as_s(), value / divisor));
            PlotSeries::new(name, PlotMark::Line, points.collect::<Vec<_>>())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_idle_processes_have_rows_and_many_are_counted() {
        let of = |watched: usize| {
            let series = (0..watched).map(|number| CounterSeriesFigures {
                scope: "process",
                name: format!("sleep {number}"),
                counter: "user_processors",
                mean: 0.0,
                min: 0.0,
                max: 0.0,
            });
            table(&CounterFigures {
                interval_s: 1.0,
                samples: 3,
                series: series.collect(),
                missing: Vec::new(),
            })
        };
        let few = of(IDLE_SHOWN_MAX);
        assert_eq!(few.rows.len(), IDLE_SHOWN_MAX);
        assert!(!few.caption.contains("left out"), "{}", few.caption);
        let many = of(IDLE_SHOWN_MAX + 1);
        assert!(many.rows.is_empty() && many.caption.contains("5 watched processes"), "{}", many.caption);
    }
}
