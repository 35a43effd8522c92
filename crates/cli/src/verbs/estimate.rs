//! `seeklab estimate`: estimates response times by arithmetic.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCompleter;
use seeklab_lab::crates::core::{Ratio, Seed};
use seeklab_lab::crates::report::{Page, TextTable, folded, render_page_html};
use seeklab_lab::crates::workloads::JobsSpec;
use seeklab_lab::crates::workloads::replay::{ArrivalMode, Population};
use seeklab_lab::estimate::{
    Bound, EstimateOptions, JobsEstimateOptions, TraceEstimateOptions, Vary, estimate, estimate_jobs,
    estimate_trace, stream_of_jobs,
};
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use seeklab_lab::workload::WorkloadOptions;

use super::arrivals::{parse_closed, parse_scaled};
use super::replay::{ReplayFlags, parse_workload};
use super::setup::SetupFlags;
use crate::completion;
use crate::delivery::Delivery;
use crate::output::{print, print_json};
use crate::standard_input::make_rereadable;

const EXAMPLES: &str = "\
Examples:
  seeklab estimate cheetah-36es nearline-7200 -w random,size=8KiB,read=100%,poisson=60/s
  seeklab estimate atlas10k -w prod.parquet --until 'response_p99_ms<=20'
  seeklab estimate cheetah-36es -w oltp,poisson=90/s --scheduler sptf --report out.html
  seeklab estimate berkeley-1975 -w mix.toml --vary buffer=8..64
  seeklab estimate -w recorded.parquet

Without a device, the operational laws of a trace with completion times are printed: utilisation, demands, bottleneck, bounds.

Figures of --until: response_mean_ms, response_p50_ms, response_p90_ms, response_p95_ms, response_p99_ms, response_p999_ms,
outstanding_mean, utilisation_pct.";

/// Estimates the response times of a workload, or the elapsed time of a stream of jobs, on one or more devices.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Catalog names or TOML files [default: none, for the operational laws of a trace alone]
    #[arg(add = ArgValueCompleter::new(completion::device))]
    device: Vec<String>,
    /// Workload: a trace, a TOML file, or a line that describes it. `-` is a trace or TOML on standard input
    #[arg(long, short, value_name = "W", value_parser = parse_workload)]
    workload: String,
    /// Take the arrival times of the trace or process [default: on, unless the workload defines other arrivals]
    #[arg(long, group = "arrivals")]
    open: bool,
    /// Keep N requests outstanding. `auto`: the mean number outstanding in the trace
    #[arg(long, value_name = "N", group = "arrivals", value_parser = parse_closed)]
    closed: Option<Population>,
    /// Take the arrival times with the interarrival times divided by F
    #[arg(long, value_name = "F", group = "arrivals", value_parser = parse_scaled)]
    scaled: Option<Ratio>,
    /// Look for the load at which a figure reaches a bound, for example 'response_p99_ms<=20'
    #[arg(long, value_name = "FIGURE<=VALUE")]
    until: Option<Bound>,
    /// Estimate a stream of jobs (kind `jobs`) for both ends of a range and values between them, for example buffer=8..64.
    /// Parameters: buffer, threshold, multiprogramming
    #[arg(long, value_name = "KEY=A..B", conflicts_with = "until")]
    vary: Option<Vary>,
    #[command(flatten)]
    setup: SetupFlags,
    /// Seed of the draws of the samples, and of the jobs of a stream
    #[arg(long, value_name = "N", default_value = "1")]
    seed: Seed,
    /// Maximum number of requests of a trace [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    #[command(flatten)]
    replay: ReplayFlags,
    /// Write a report with the response curve
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        make_rereadable(session, [Path::new(&self.workload)])?;
        let options = self.options();
        if self.device.is_empty() {
            return self.run_trace(session, options);
        }
        if let Some(spec) = stream_of_jobs(&options.workload, &options.workload_options)? {
            return self.run_jobs(session, options, spec);
        }
        if self.vary.is_some() {
            return Err(Failure::new(format!("--vary: `{}` is no stream of jobs", self.workload))
                .hint("name a file with `kind = \"jobs\"`, or write a line that begins with `jobs,`"));
        }
        let result = estimate(session, &options)?;
        let printed = if self.json { print_json(&result.figures) } else { print(&text(&result.page)) };
        let delivery =
            Delivery::of(session, printed).file(options.report.as_deref(), || render_page_html(&result.page));
        let delivered = delivery.finish();
        match result.missed {
            None => delivered,
            Some(failure) => delivered.and(Err(failure)),
        }
    }

    fn run_trace(self, session: &Session, options: EstimateOptions) -> Result<(), Failure> {
        let is_given = [
            ("--until", self.until.is_some()),
            ("--vary", self.vary.is_some()),
            ("--open, --closed and --scaled", options.workload_options.arrivals.is_some()),
            ("--beyond", options.workload_options.beyond.is_some()),
            ("--scheduler, --bare, --set, --fault and --faults", self.setup.is_given()),
        ];
        if let Some((option, _)) = is_given.into_iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::new(format!("{option}: no device is named"))
                .hint("name one before the options, for example `seeklab estimate cheetah-36es -w W`"));
        }
        let EstimateOptions { workload, workload_options, report, .. } = options;
        let options = TraceEstimateOptions { workload, workload_options, report };
        let result = estimate_trace(session, &options)?;
        let printed = if self.json { print_json(&result.figures) } else { print(&text(&result.page)) };
        let html = || render_page_html(&result.page);
        Delivery::of(session, printed).file(options.report.as_deref(), html).finish()
    }

    fn run_jobs(self, session: &Session, options: EstimateOptions, spec: JobsSpec) -> Result<(), Failure> {
        if self.until.is_some() {
            return Err(Failure::new(format!("--until: `{}` is a stream of jobs", self.workload))
                .hint("a stream of jobs has no rate that could grow; vary its parameters with --vary"));
        }
        let EstimateOptions { devices, setup, workload, seed, report, .. } = options;
        let options = JobsEstimateOptions { devices, setup, workload, spec, seed, vary: self.vary, report };
        let result = estimate_jobs(session, &options)?;
        let printed = if self.json { print_json(&result.figures) } else { print(&text(&result.page)) };
        let html = || render_page_html(&result.page);
        Delivery::of(session, printed).file(options.report.as_deref(), html).finish()
    }

    fn options(&self) -> EstimateOptions {
        let arrivals = match (self.closed, self.scaled) {
            (Some(population), _) => Some(ArrivalMode::Closed(population)),
            (_, Some(factor)) => Some(ArrivalMode::Scaled(factor)),
            _ => self.open.then_some(ArrivalMode::Open),
        };
        EstimateOptions {
            devices: self.device.clone(),
            setup: self.setup.setup(),
            workload: self.workload.clone(),
            workload_options: WorkloadOptions { arrivals, requests: self.requests, ..self.replay.options() },
            seed: self.seed,
            until: self.until,
            report: self.report.clone(),
        }
    }
}

/// The tables and notes of the page, in characters.
fn text(page: &Page) -> String {
    let mut text = folded(&page.title, 2) + "\n";
    for table in page.sections.iter().take(1).flat_map(|section| &section.tables) {
        let mut of = TextTable::new(table.columns.iter().map(String::as_str)).with_texts(2).with_rule();
        table.rows.iter().for_each(|row| of.push(row.iter().map(String::as_str)));
        text += &format!("\n{}\n", of.render().trim_end());
    }
    for note in &page.notes {
        text += &format!("\n{}\n", folded(&format!("note: {note}"), 2).trim_end());
    }
    text
}
