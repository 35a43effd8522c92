//! `seeklab experiment`: runs every combination listed in a file: simulations on all processors, measurements one after another.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;
use seeklab_lab::crates::core::number_words::{counted, in_number, numbered};
use seeklab_lab::crates::report::{render_html, render_terminal};
use seeklab_lab::experiment::{ExperimentOptions, ExperimentResult, can_be_held, experiment, reference};
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

use super::reading::input_path;
use super::setup::FaultFlags;

use crate::delivery::Delivery;
use crate::output::{print, print_json, print_schema};

const HELP: &str = r#"Format of the file (to simulate, only `devices` and `workloads` are required):
  title = "Schedulers on two drives"
  devices = ["hp-c2247a", "my-disk.toml"]          # catalog names, files, tables:
          # { name = "fast", base = "atlas10k", set = { rpm = "15000rpm" } }
  workloads = ["random,poisson=60/s", "a.csv.gz"]  # lines, files, tables:
          # { kind = "replay", trace = "a.csv", format = "msr" }
  schedulers = ["fcfs", "sptf"]    # the host's queue [default: "none"]
  depth = 1                        # requests that the device holds at a time
  arrivals = ["open", "closed 8"]  # "closed auto", "scaled 1.5", "think", "follow", "workload"
  figures = ["response_mean_ms"]   # the keys of `seeklab simulate --json`
  seed = 1
  repetitions = 3                  # of every cell, each with its own seed
  requests = 20000                 # maximum of each run
  bare = false                     # true: simulate only the mechanics
  max_outstanding = 100000         # a run stops here: the device cannot sustain the load
  x = "workload.arrivals.rate"     # axis of the charts
  output = "out/schedulers"        # .csv, .parquet and .results.jsonl

  [[parameters]]
  name = "rpm"                     # of the devices, by name or path
  values = ["5400rpm", "7200rpm"]

  [[parameters]]
  name = "workload.arrivals.rate"  # of the workloads, by path
  from = "20/s"
  to = "80/s"
  steps = 4                        # number of values, both ends included
  scale = "linear"                 # or "logarithmic"

To measure, name targets in place of devices, and plans beside or in place of workloads:
  targets = ["/dev/nvme0n1", "model:cheetah-36es"]  # as `seeklab bench` takes them, or tables:
          # { name = "slow", address = "emulate:hp-c2247a", set = { rpm = "3600rpm" } }
  workloads = ["random,size=4KiB,read=100%,closed=4"]
  plans = ["plan.toml"]            # as `seeklab bench` takes them
  duration = "10s"                 # of each run of a workload; a plan has its own
  ramp = "1s"                      # before it, not counted
  figures = ["response_p99_ms", "read.response_p99_ms", "phases.fill.requests_per_second"]

All keys: seeklab experiment --reference. Swept parameters are numbers in the results, with the unit
in the name of the column, such as workload.arrivals.rate_per_s.

Every combination is a cell, in the order of the file. Paths are relative to the file, those of
standard input to the current directory.
An interrupted experiment continues where it stopped. The figures of simulations do not depend on
the number of processors. Measurements are made one after another, each cell once before any is
measured a second time. One that fails is recorded, and the exit code is 1. A workload that writes to
a device, a file or an export needs its name a second time: --destroy.

Examples:
  seeklab experiment schedulers.toml --report schedulers.html
  seeklab experiment schedulers.toml --jobs 4 --json > cells.json
  seeklab experiment schedulers.toml --fresh --output /tmp/again
  seeklab experiment schedulers.toml --fault fail-slow-vibration --output slow
  seeklab experiment disks.toml --destroy /dev/sdb --destroy /dev/sdc"#;

/// Runs devices or real targets × workloads × schedulers × arrivals × parameters, and prints one table and one report.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// TOML file that describes the experiment. `-` is standard input
    #[arg(required_unless_present_any = ["schema", "reference"], value_parser = input_path())]
    file: Option<PathBuf>,
    /// Print the JSON schema of experiment files, for editors
    #[arg(long, exclusive = true)]
    schema: bool,
    /// Print the keys of experiment files as a page in Markdown
    #[arg(long, exclusive = true)]
    reference: bool,
    #[command(flatten)]
    faults: FaultFlags,
    /// Number of simultaneous simulations [default: the number of processors]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Run everything again and ignore saved results
    #[arg(long)]
    fresh: bool,
    /// Let workloads overwrite what a target holds: its name, typed again. Once for each target
    #[arg(long, value_name = "TARGET")]
    destroy: Vec<String>,
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

impl Arguments {
    /// Returns true if a target may be one of the kernel.
    pub(crate) fn can_be_held(&self) -> bool {
        self.file.as_deref().is_some_and(can_be_held)
    }

    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        if self.schema {
            return print_schema(&reference::document());
        }
        let Some(file) = self.file else { return print(&reference::page()) };
        let options = ExperimentOptions {
            file,
            faults: self.faults.faults(),
            output: self.output,
            jobs: self.jobs,
            fresh: self.fresh,
            destroy: self.destroy,
            report: self.report,
        };
        let mut result = experiment(session, &options)?;
        let failure = result.failure.take();
        let printed =
            if self.json { print_json(&result.figures) } else { print(&render_terminal(&result.report)) };
        print_remarks(session, &result);
        Delivery::of(session, printed)
            .file(options.report.as_deref(), || render_html(&result.report))
            .and(failure.map_or(Ok(()), Err))
            .finish()
    }
}

/// Prints which runs were reused and which files were written.
fn print_remarks(session: &Session, result: &ExperimentResult) {
    let files = &result.figures.files;
    let journal = files.journal.display();
    if result.damaged > 0 {
        session.warn(format!(
            "{journal}: {}",
            numbered(result.damaged, "line[|s] could not be read and [was|were] left out")
        ));
    }
    if result.reused > 0 {
        let (reused, runs) = (result.reused, result.runs);
        session.remark(format!(
            "{reused} of {} {} taken from {journal} (--fresh runs {} again)",
            counted(runs, "run"),
            in_number(reused, "[was|were]"),
            in_number(reused, "[it|them]")
        ));
    }
    let report = files.report.as_ref().map_or_else(String::new, |path| format!(", {}", path.display()));
    session.remark(format!("written: {}, {}{report}", files.csv.display(), files.parquet.display()));
}
