//! `seeklab experiment`: runs every combination listed in a file, on all processors.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;
use seeklab_files::check_distinct;
use seeklab_lab::experiment::{Files, Finished, Settings, Spec, run};
use seeklab_lab::failure::Failure;
use seeklab_lab::output::{VERSION, command_line, print, print_json};
use seeklab_lab::session::Session;
use seeklab_report::{render_html, render_terminal};
use serde::Serialize;
use serde_json::Value;

use crate::delivery::Delivery;

const HELP: &str = r#"The file, of which only `devices` and `workloads` are needed:
  title = "Schedulers on two drives"
  devices = ["hp-c2247a", "my-disk.toml"]          # catalog names, files, tables:
          # { name = "fast", base = "atlas10k", set = { rpm = "15000rpm" } }
  workloads = ["random,poisson=60/s", "a.csv.gz"]  # lines, files, tables:
          # { kind = "replay", trace = "a.csv", format = "msr" }
  schedulers = ["fcfs", "sptf"]    # the host's queue; "none" if absent
  depth = 1                        # requests that the device holds at a time
  arrivals = ["open", "closed 8"]  # "closed auto", "scale 1.5", "think", "workload"
  figures = ["response_mean_ms"]   # the keys of `seeklab simulate --json`
  seed = 1
  repetitions = 3                  # of every cell, each with a seed of its own
  requests = 20000                 # at most
  bare = false                     # the mechanics alone
  max_outstanding = 100000         # from there on a load cannot be sustained
  x = "workload.arrivals.rate"     # axis of the charts
  output = "out/schedulers"        # .csv, .parquet and .results.jsonl

  [[parameters]]
  name = "rpm"                     # of the devices, by name or path
  values = ["5400rpm", "7200rpm"]

  [[parameters]]
  name = "workload.arrivals.rate"  # of the workloads, by path
  from = "20/s"
  to = "80/s"
  steps = 4                        # how many values, both ends included
  scale = "linear"                 # or "logarithmic"

Every combination is a cell, in the order of the file, beside which other files are
looked for. An interrupted experiment goes on where it was; the figures are the same on
any number of cores.

Examples:
  seeklab experiment schedulers.toml --report schedulers.html
  seeklab experiment schedulers.toml --jobs 4 --json > cells.json
  seeklab experiment schedulers.toml --fresh --output /tmp/again"#;

/// Runs devices × workloads × schedulers × arrivals × parameters, and prints one table and one report.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// TOML file that describes the experiment
    file: PathBuf,
    /// Number of simultaneous runs [default: the number of processors]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Run everything again and ignore saved results
    #[arg(long)]
    fresh: bool,
    /// Path of the result files, without suffix [default: `output` in FILE]
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Write a report with plots
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    title: &'a str,
    seed: u64,
    repetitions: u64,
    version: &'a str,
    command: String,
    cells: Vec<Value>,
    notes: Vec<&'a str>,
    files: FilesDocument<'a>,
}

#[derive(Debug, Serialize)]
struct FilesDocument<'a> {
    csv: &'a PathBuf,
    parquet: &'a PathBuf,
    journal: &'a PathBuf,
    report: Option<&'a PathBuf>,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        if let Some(path) = &self.report {
            check_distinct(path, [&self.file])?;
        }
        let mut spec = Spec::open(&self.file)?;
        if let Some(output) = &self.output {
            spec.output.clone_from(output);
        }
        let cores = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let settings = Settings { jobs: self.jobs.unwrap_or_else(cores), fresh: self.fresh };
        let finished = run(session, &spec, &settings)?;
        let printed = if self.json {
            self.print_document(&spec, &finished)
        } else {
            print(&render_terminal(&finished.report))
        };
        self.tell(session, &finished);
        Delivery::of(printed).file(self.report.as_deref(), || render_html(&finished.report)).finish()
    }

    fn print_document(&self, spec: &Spec, finished: &Finished) -> Result<(), Failure> {
        let Files { csv, parquet, journal } = &finished.files;
        print_json(&Document {
            title: &spec.title,
            seed: spec.seed.0,
            repetitions: spec.repetitions,
            version: VERSION,
            command: command_line(),
            cells: finished.cells_json(),
            notes: finished.report.notes.iter().map(seeklab_report::Note::text).collect(),
            files: FilesDocument { csv, parquet, journal, report: self.report.as_ref() },
        })
    }

    fn tell(&self, session: &Session, finished: &Finished) {
        let Files { csv, parquet, journal } = &finished.files;
        if finished.damaged > 0 {
            session.warn(format!(
                "{}: {} lines could not be read and were left out",
                journal.display(),
                finished.damaged
            ));
        }
        if finished.reused > 0 {
            let (reused, runs) = (finished.reused, finished.runs);
            session.remark(format!(
                "{reused} of {runs} runs were taken from {} (--fresh runs them again)",
                journal.display()
            ));
        }
        let report = self.report.as_ref().map_or_else(String::new, |path| format!(", {}", path.display()));
        session.remark(format!("written: {}, {}{report}", csv.display(), parquet.display()));
    }
}
