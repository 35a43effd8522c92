//! Experiments: devices or targets × workloads × schedulers × arrivals × parameters, each cell repeated.
//!
//! ```text
//! FILE.toml ─▶ keys, spec ─▶ cells ─▶ engine: one run for each cell and repetition: simulations on all cores,
//!                                 │  ▲         measurements one after another
//!                                 ▼  │ existing results are not run again
//!                               journal ─▶ table (CSV, Parquet, JSON) and report
//! ```
//! An experiment file names the values to combine. Every quantity is text with its unit. Of an experiment that simulates, only
//! `devices` and `workloads` are required:
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
//! An experiment that measures has targets in place of devices, and plans beside or in place of workloads:
//! ```toml
//! targets = ["/dev/nvme0n1", "model:cheetah-36es", { name = "slow", address = "emulate:hp-c2247a", set = { rpm = "3600rpm" } }]
//! workloads = ["random,size=4KiB,read=100%,closed=4"]
//! duration = "10s"
//! ```
//! Its cells are measured one after another, each once before any is measured a second time. A measurement that fails is recorded,
//! the others go on, and the result has a failed check. A stop ends the measurement under way, and keeps those before it.
//!
//! **Dependencies of a result.** A run depends on its cell and the repetition's seed alone, so the figures
//! are the same on any number of cores. Its key in the journal is a hash of everything that determines it:
//! the complete device, the workload, size and time of its trace, scheduler, arrivals, seed, limits and the
//! program itself, whose every build is a different one. That of a measurement has the whole plan and the addresses of its targets:
//! another device behind an address is the same target, unless it is bound to a serial number or a size.
//!
//! # Scope and limits
//! One machine. A cell has no figures if one of its repetitions saturates, since the mean over the others
//! would be too good. Two runs that share an `output` at the same time are refused.

mod arrivals;
mod cells;
mod engine;
mod figures;
mod file;
mod keys;
mod measurement;
mod recorded;
pub mod reference;
mod report;
mod spec;
mod table;
mod targets;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use engine::Results;
use recorded::Recordings;
use schemars::JsonSchema;
use seeklab_bench::target::TargetKind;
use seeklab_columnar::write_table;
use seeklab_report::Report;
use serde::Serialize;
use serde_json::Value;
use spec::{Spec, text_of};
use table::ResultTable;

use crate::devices::Faults;
use crate::failure::Failure;
use crate::journal::Journal;
use crate::output::VERSION;
use crate::session::Session;
use seeklab_core::number_words::counted;
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
    /// Number of simultaneous simulations [default: the number of processors].
    pub jobs: Option<NonZero<usize>>,
    /// Run everything again and ignore the journal.
    pub fresh: bool,
    /// Names of targets, typed again, to let the workloads overwrite them.
    pub destroy: Vec<String>,
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
    /// The failed check: runs that failed, or a stop before all measurements were made.
    pub failure: Option<Failure>,
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
    /// (repetitions that the device could not sustain) or, of measurements, `failed`, and for each figure `FIGURE_mean`,
    /// `FIGURE_sd` and `FIGURE_half_width_95`.
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

/// Returns true if the kernel may never return from a request of the experiment in that file: a target is a file or a block
/// device, or is in a plan. Pipes are not read for it.
pub fn can_be_held(file: &Path) -> bool {
    match std::fs::metadata(file) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return true,
        Err(_) => return false,
    }
    let Some(table) = text_of(file).ok().and_then(|text| text.parse::<toml::Table>().ok()) else {
        return false;
    };
    let targets = table.get("targets").and_then(toml::Value::as_array).into_iter().flatten();
    let mut addresses = targets.filter_map(|target| target.get("address").unwrap_or(target).as_str());
    table.contains_key("plans") || addresses.any(|address| TargetKind::of(address).0.is_of_kernel())
}

/// Refuses options of a command that have no meaning for the experiment.
fn check_options(spec: &Spec, options: &ExperimentOptions) -> Result<(), Failure> {
    if !spec.is_measured() {
        return match options.destroy.first() {
            None => Ok(()),
            Some(name) => Err(Failure::new(format!("--destroy {name}: devices are simulated"))
                .hint("it is for `targets` that a workload overwrites")),
        };
    }
    if let Some(jobs) = options.jobs.filter(|jobs| jobs.get() > 1) {
        return Err(Failure::new(format!("--jobs {jobs}: measurements are made one after another"))
            .hint("leave it out; two at a time would measure each other"));
    }
    let Faults { file, lines } = &options.faults;
    match keys::other_than_models(&spec.targets) {
        Some(other) if file.is_some() || !lines.is_empty() => {
            Err(Failure::new(format!("--fault and --faults: are those of models, {other}"))
                .hint("name model:DEVICE or emulate:DEVICE in place of other targets"))
        }
        _ => Ok(()),
    }
}

/// The failed check of an experiment.
fn failure(spec: &Spec, cells: &[cells::Cell], runs: usize, results: &Results) -> Option<Failure> {
    if results.is_interrupted {
        return Some(Failure::interrupted().hint("the same command measures what is left"));
    }
    let failures = report::failures(cells, &results.of_cells, &cells::varied(spec));
    let first = failures.first()?;
    let problem =
        format!("{}: {} of {} failed, the first: {first}", spec.label, failures.len(), counted(runs, "run"));
    Some(Failure::check(problem).hint(match spec.is_measured() {
        true => "the same command measures those that failed again",
        false => "record their traces again with a larger --kernel-buffer",
    }))
}

/// Runs every combination that the file lists, except runs in the journal, and writes the table.
///
/// # Errors
/// If the file is wrong, a cell cannot be run, or a result cannot be written or is an input. A measurement that fails is part of
/// the result.
pub fn experiment(session: &Session, options: &ExperimentOptions) -> Result<ExperimentResult, Failure> {
    if let Some(path) = &options.report {
        check_distinct(path, [&options.file])?;
    }
    let spec = &Spec { faults: options.faults.clone(), ..Spec::open(&options.file)? };
    check_options(spec, options)?;
    let cores = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let jobs = if spec.is_measured() { NonZero::<usize>::MIN } else { options.jobs.unwrap_or_else(cores) };
    let mut recordings = Recordings::default();
    let mut cells = cells::expand(session, spec, &mut recordings)?;
    let runs = cells::runs(spec, &cells);
    let output = options.output.as_deref().unwrap_or(&spec.output);
    let files = Files::new(output, options.report.as_deref());
    if let Some(folder) = files.csv.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::from(error).context(format!("{}: cannot be made", folder.display())))?;
    }
    let inputs: BTreeSet<PathBuf> = cells.iter().flat_map(|cell| cell.work.inputs()).collect();
    for path in [&files.csv, &files.parquet, &files.journal] {
        check_distinct(path, &inputs)?;
    }
    check_apart([&files.csv, &files.parquet, &files.journal].into_iter().chain(&files.report))?;
    let mut journal = Journal::open(&files.journal, options.fresh)?;
    if spec.is_measured() {
        let mut is_pending = vec![false; cells.len()];
        for run in runs.iter().filter(|run| engine::kept(&journal, run).is_none()) {
            is_pending[run.cell] = true;
        }
        let pending = (cells.as_mut_slice(), is_pending.as_slice());
        measurement::take_leave(session, pending, &options.destroy)?;
    }
    let results = engine::run_all(session, spec, &cells, &runs, &mut journal, jobs)?;
    let table = ResultTable::new(spec, &cells, &results.of_cells);
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
    let failure = failure(spec, &cells, runs.len(), &results);
    let (reused, damaged) = (results.reused, journal.damaged());
    Ok(ExperimentResult { figures, report, reused, runs: runs.len(), damaged, failure })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_or_block_device_among_the_targets_can_hold_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("e.toml");
        let held = |text: &str| {
            std::fs::write(&path, text).unwrap();
            can_be_held(&path)
        };
        assert!(held("targets = ['null', '/dev/sdb']") && held("targets = [{ address = 'psync:disk.img' }]"));
        assert!(held("plans = ['plan.toml']"));
        assert!(!held("targets = ['null', 'model:constant', { address = 'emulate:constant' }]"));
        assert!(!held("devices = ['constant']") && !held("targets = ["));
        assert!(can_be_held(Path::new("/dev/null")) && !can_be_held(&folder.path().join("absent")));
    }
}
