//! Experiments: devices × workloads × schedulers × arrivals × parameters, each cell repeated.
//!
//! ```text
//! FILE.toml ─▶ spec ─▶ cells ─▶ engine: one run for each cell and repetition, on all cores
//!                                 │  ▲
//!                                 ▼  │ existing results are not run again
//!                               journal ─▶ table (CSV, Parquet, JSON) and report
//! ```
//! An experiment file names the values to combine. Every quantity is text with its unit, and only `devices`
//! and `workloads` are required:
//! ```toml
//! title = "Schedulers on two drives"
//! devices = ["hp-c2247a", "my-disk.toml", { name = "fast", base = "atlas10k", set = { rpm = "15000rpm" } }]
//! workloads = ["random,poisson=60/s", "server.csv.gz", { name = "mail", kind = "replay", trace = "mail.csv", format = "msr" }]
//! schedulers = ["fcfs", "sptf"]       # the host's queue [default: "none"]
//! depth = 1                           # requests that the host lets the device hold at a time
//! arrivals = ["open", "closed 8"]     # "closed auto", "scale 1.5", "think"; "workload": as it defines them
//! figures = ["response_mean_ms", "response_p99_ms"]      # those of `seeklab simulate --json`
//! seed = 1                            # repetition i runs with Seed(seed).repetition(i)
//! repetitions = 3                     # [default: 1]
//! requests = 20000                    # at most, of every workload
//! bare = false                        # the mechanics alone, without overheads, buffer and bus
//! max_outstanding = 100000            # from which on an open load counts as not sustainable
//! x = "workload.arrivals.rate"        # axis of the charts [default: the last parameter with numbers]
//! output = "out/schedulers"           # .csv, .parquet and .results.jsonl; [default: the file's own name]
//!
//! [[parameters]]
//! name = "rpm"                        # of the devices, by name or path, as `--set` does
//! values = ["5400rpm", "7200rpm"]
//!
//! [[parameters]]
//! name = "workload.arrivals.rate"     # of the workloads: the path in their table after `workload.`
//! from = "20/s"                       # both ends belong to the range
//! to = "80/s"
//! steps = 4                           # number of values
//! scale = "linear"                    # or "logarithmic"
//! ```
//! Files are looked for beside the experiment file. A table among the devices is a device's description
//! with a `name`; one among the workloads is a workload's description, with `name`, `format`, `block_size`,
//! `shape`, `retries` and `retry_after` if needed. Cells come in the order of the file, the last parameter fastest.
//!
//! ```toml
//! workloads = ["copy.toml", { name = "open", workload = "copy.toml", recorded_on = { device = "hp-c2247a", arrivals = "open" } }]
//! ```
//! The second workload is a replay of the requests that the first sends on that device.
//!
//! **Dependencies of a result.** A run depends on its cell and the repetition's seed alone, so the figures
//! are the same on any number of cores. Its key in the journal is a hash of everything that determines it:
//! the complete device, the workload, size and time of its trace, scheduler, arrivals, seed, limits and the
//! program itself, whose every build is a different one.
//!
//! # Scope and limits
//! One machine. A cell has no figures if one of its repetitions saturates, since the mean over the others
//! would be too good. Two runs that share an `output` at the same time are refused.

mod arrivals;
mod cells;
mod engine;
mod figures;
mod file;
mod recorded;
pub mod reference;
mod report;
mod spec;
mod table;
mod values;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use recorded::Recordings;
use schemars::JsonSchema;
use seeklab_columnar::write_table;
use seeklab_report::Report;
use serde::Serialize;
use serde_json::Value;
use spec::Spec;
use table::ResultTable;

use crate::devices::Faults;
use crate::failure::Failure;
use crate::journal::Journal;
use crate::output::VERSION;
use crate::session::Session;
use seeklab_files::{check_apart, check_distinct};

/// Options of an experiment.
#[derive(Debug, Clone, Default)]
pub struct ExperimentOptions {
    /// TOML file that describes the experiment.
    pub file: PathBuf,
    /// Faults of every device.
    pub faults: Faults,
    /// Path of the result files, without suffix [default: as the file says].
    pub output: Option<PathBuf>,
    /// Number of simultaneous runs [default: the number of processors].
    pub jobs: Option<NonZero<usize>>,
    /// Run everything again and ignore the journal.
    pub fresh: bool,
    /// Path that the caller writes the report to.
    pub report: Option<PathBuf>,
}

/// Result of an experiment.
#[derive(Debug)]
pub struct ExperimentResult {
    /// Figures, as one JSON document.
    pub figures: ExperimentFigures,
    /// The table, charts and notes.
    pub report: Report,
    /// Runs whose result was in the journal.
    pub reused: usize,
    /// Number of runs.
    pub runs: usize,
    /// Lines of the journal that could not be read.
    pub damaged: usize,
}

/// Figures of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExperimentFigures {
    /// Title of the experiment.
    pub title: String,
    /// Seed of the random draws.
    pub seed: u64,
    /// Repetitions of every cell.
    pub repetitions: u64,
    /// Program and version.
    pub version: &'static str,
    /// Command that makes the figures again.
    pub command: Option<String>,
    /// Table of results, one object per cell. Its keys are the varied dimensions, `n` (repetitions), `saturated`
    /// (repetitions that the device could not sustain), and for each figure `FIGURE_mean`, `FIGURE_sd` and
    /// `FIGURE_half_width_95`.
    #[schemars(with = "Vec<BTreeMap<String, CellValue>>")]
    pub cells: Vec<Value>,
    /// Notes for people.
    pub notes: Vec<String>,
    /// Files of the experiment.
    pub files: Files,
}

/// A value of a cell, in the schema of the document.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "it is only described")]
enum CellValue {
    /// A value of a dimension.
    Text(String),
    /// A count or a figure; null if the figure does not apply.
    Number(Option<f64>),
}

/// The files of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Files {
    /// The table as CSV.
    pub csv: PathBuf,
    /// The table as Parquet.
    pub parquet: PathBuf,
    /// A line for each run, from which an interrupted experiment goes on.
    pub journal: PathBuf,
    /// The report, if the caller writes one.
    pub report: Option<PathBuf>,
}

impl Files {
    fn new(output: &Path, report: Option<&Path>) -> Self {
        let with = |suffix: &str| {
            let mut name = output.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        Self {
            csv: with(".csv"),
            parquet: with(".parquet"),
            journal: with(".results.jsonl"),
            report: report.map(Path::to_owned),
        }
    }
}

/// Runs every combination that the file lists, except runs in the journal, and writes the table.
///
/// # Errors
/// If the file is wrong, a cell cannot be run, or a result cannot be written or is an input.
pub fn experiment(session: &Session, options: &ExperimentOptions) -> Result<ExperimentResult, Failure> {
    if let Some(path) = &options.report {
        check_distinct(path, [&options.file])?;
    }
    let spec = &Spec { faults: options.faults.clone(), ..Spec::open(&options.file)? };
    let cores = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let jobs = options.jobs.unwrap_or_else(cores);
    let mut recordings = Recordings::default();
    let cells = cells::expand(session, spec, &mut recordings)?;
    let runs = cells::runs(spec, &cells);
    let output = options.output.as_deref().unwrap_or(&spec.output);
    let files = Files::new(output, options.report.as_deref());
    if let Some(folder) = files.csv.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::from(error).context(format!("{}: cannot be made", folder.display())))?;
    }
    for path in [&files.csv, &files.parquet, &files.journal] {
        let workloads = cells.iter().map(|cell| &cell.workload);
        let read =
            workloads.flat_map(|one| one.trace().map(Path::new).into_iter().chain(one.shape.as_deref()));
        check_distinct(path, read)?;
    }
    check_apart([&files.csv, &files.parquet, &files.journal].into_iter().chain(&files.report))?;
    let mut journal = Journal::open(&files.journal, options.fresh)?;
    let (results, reused) = engine::run_all(session, spec, &cells, &runs, &mut journal, jobs)?;
    let table = ResultTable::new(spec, &cells, &results);
    let awaited = session.await_reader(&files.csv)?;
    seeklab_files::write(&files.csv, table.to_csv().as_bytes())?;
    drop(awaited);
    let metadata =
        [("version", VERSION.to_owned()), ("seed", spec.seed.to_string()), ("experiment", spec.text.clone())];
    let awaited = session.await_reader(&files.parquet)?;
    write_table(&files.parquet, &table.columns, &metadata)?;
    drop(awaited);
    let report = report::report(session, spec, &cells, &runs, &results);
    let figures = ExperimentFigures {
        title: spec.title.clone(),
        seed: spec.seed.0,
        repetitions: spec.repetitions,
        version: VERSION,
        command: session.command(),
        cells: table.to_json(),
        notes: report.notes.iter().map(|note| note.text().to_owned()).collect(),
        files,
    };
    Ok(ExperimentResult { figures, report, reused, runs: runs.len(), damaged: journal.damaged() })
}
