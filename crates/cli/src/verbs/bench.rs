//! `seeklab bench`: measures a real target, or a model in virtual time.

mod compare;
mod verify;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use seeklab_lab::bench::{BenchOptions, BenchResult, Late, Ramp, VerificationOptions, bench};
use seeklab_lab::crates::core::{ByteSize, Duration, Seed};
use seeklab_lab::crates::emulator::clock::Pacing;
use seeklab_lab::crates::report::{Page, TextTable, folded, render_page_html};
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use seeklab_lab::workload::WorkloadOptions;

use super::arrivals::ArrivalFlags;
use super::reading::input_path;
use super::replay::{ReplayFlags, parse_workload};
use super::retries::RetryFlags;
use super::setup::SetupFlags;
use crate::delivery::Delivery;
use crate::output::{json_text, print, print_json};
use crate::standard_input::make_rereadable;

const EXAMPLES: &str = "\
Examples:
  seeklab bench /dev/nvme0n1 -w random,read=100%,size=4KiB,closed=32 --duration 60s
  seeklab bench disk.img --create 4GiB -w random,read=70%,size=8KiB,poisson=2000/s --duration 30s --live
  seeklab bench 'nbd+unix:///?socket=/tmp/hp.sock' -w random,read=100%,size=4KiB,closed=4 --duration 10s
  seeklab bench model:cheetah-36es -w oltp,poisson=60/s --requests 100000 --json
  seeklab bench /dev/sdb -w random,read=50%,size=4KiB,closed=32 --destroy /dev/sdb --verify --state sdb.state
  seeklab bench verify sdb.state
  seeklab bench compare before/ after/ --fail-if 'response_p99_ms +5%'

Targets: a block device or a file (io_uring), psync:PATH (pread and pwrite), an NBD URI, model:DEVICE (in virtual time) and
null, which measures this program itself. A workload that writes needs the name of the target a second time: --destroy.";

/// Measures a target under a workload, with the response time of each request from its intended start.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Compare two sets of repeated runs, and fail if a figure has changed too much
    Compare(compare::Arguments),
    /// Check a target against the state that a run with --verify --state kept
    Verify(verify::Arguments),
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        match self.command {
            Some(BenchCommand::Compare(arguments)) => arguments.run(session),
            Some(BenchCommand::Verify(arguments)) => arguments.run(session),
            None => self.run.run(session),
        }
    }
}

/// Arguments of a measurement.
#[derive(Debug, Args)]
struct RunArguments {
    /// Block device, file, NBD URI, model:DEVICE, psync:PATH or null
    #[arg(required = true)]
    target: Option<String>,
    /// Workload: a trace, a TOML file, or a line that describes it. `-` is a trace or TOML on standard input
    #[arg(long, short, value_name = "W", value_parser = parse_workload, required = true)]
    workload: Option<String>,
    /// Time that counts [default: until the workload ends]
    #[arg(long, value_name = "TIME")]
    duration: Option<Duration>,
    /// Time or number of requests before it that does not count, such as 10s or 5000 [default: 0s]
    #[arg(long, value_name = "TIME|N", value_parser = parse_ramp)]
    ramp: Option<Ramp>,
    /// Maximum number of requests [default: all of the workload, with --duration any number of a synthetic one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Length of an interval of the figures over time, up to 1h. 0s: one interval of the whole
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    /// Requests of an open load under way at a time at most. Later arrivals wait [default: 1024, fewer if they are long]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16384))]
    outstanding_max: Option<u32>,
    /// Treatment of arrivals that find as many requests under way
    #[arg(long, value_name = "WHAT", value_enum, default_value = "queue")]
    late: LateName,
    /// Count a request as failed after this time [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    timeout: Option<Duration>,
    #[command(flatten)]
    retries: RetryFlags,
    /// Threads, each with a connection or ring of its own on a processor of its own. The requests are the same for any number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Wait for N completions at a time, which costs less processor time. For closed loads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Trade processor time for exact arrivals
    #[arg(long, value_enum, default_value = "balanced")]
    pacing: PacingName,
    /// Go through the page cache of this machine [default: pass it by (O_DIRECT)]
    #[arg(long)]
    buffered: bool,
    /// Make the target, a file of this size, fill it, and remove it at the end
    #[arg(long, value_name = "SIZE")]
    create: Option<ByteSize>,
    /// Let the workload overwrite what the target holds: its name, typed again
    #[arg(long, value_name = "TARGET")]
    destroy: Option<String>,
    /// Check that every read returns what was written, and stamp every write for it
    #[arg(long)]
    verify: bool,
    /// Memory for --verify, which needs 8 bytes per block. Beyond it, a temporary file is used [default: 1GiB]
    #[arg(long, value_name = "SIZE", requires = "verify")]
    ram: Option<ByteSize>,
    /// Keep the state of --verify in a new file, for `seeklab bench verify FILE`, also if this process is killed
    #[arg(long, value_name = "FILE", requires = "verify", conflicts_with = "ram")]
    state: Option<PathBuf>,
    #[command(flatten)]
    arrivals: ArrivalFlags,
    #[command(flatten)]
    replay: ReplayFlags,
    /// Trace with the interarrival times for a workload with `process = "shaped"`
    #[arg(long, value_name = "TRACE", value_parser = input_path())]
    shape: Option<PathBuf>,
    #[command(flatten)]
    setup: SetupFlags,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value = "1")]
    seed: Seed,
    /// Write every attempt at a request to a trace
    #[arg(long, value_name = "TRACE")]
    record: Option<PathBuf>,
    /// Write a report with plots
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the results to a folder: run.json and report.html
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print a line of figures to stderr at the end of every interval
    #[arg(long)]
    live: bool,
    /// Print one JSON document: our own, or fio 3's (JSON+) for programs that read fio's
    #[arg(long, value_name = "FORMAT", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "seeklab")]
    json: Option<JsonFormat>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum JsonFormat {
    /// The document of `seeklab schema bench`
    Seeklab,
    /// The document of `fio --output-format=json+`
    Fio,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LateName {
    /// They wait, and their response time includes the wait
    Queue,
    /// They are left out, and counted
    Drop,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PacingName {
    /// Spin for a long time before each arrival
    Exact,
    /// Spin for a short time before each arrival
    Balanced,
    /// Never spin. Arrivals are as late as the kernel's wake-ups
    Frugal,
}

fn parse_ramp(text: &str) -> Result<Ramp, String> {
    if let Ok(requests) = text.parse() {
        return Ok(if requests == 0 { Ramp::None } else { Ramp::Requests(requests) });
    }
    match text.parse::<Duration>() {
        Ok(time) if time.is_zero() => Ok(Ramp::None),
        Ok(time) => Ok(Ramp::Time(time)),
        Err(_) => {
            Err("write a time with its unit, such as 10s, or a number of requests, such as 5000".to_owned())
        }
    }
}

/// Longest interval of the figures over time.
const INTERVAL_MAX: Duration = Duration::from_s(3600);
/// Shortest interval of the figures over time.
const INTERVAL_MIN: Duration = Duration::from_ms(10);

fn parse_interval(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(time) if time.is_zero() || (INTERVAL_MIN..=INTERVAL_MAX).contains(&time) => Ok(time),
        Ok(_) => Err(format!("0s and {INTERVAL_MIN} to {INTERVAL_MAX} are allowed")),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(time) if time >= Duration::from_ms(1) => Ok(time),
        Ok(_) => Err("a time limit is at least 1ms".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Arguments that a subcommand does without.
const REQUIRED: &str = "it is required where there is no subcommand";

impl RunArguments {
    fn run(self, session: &Session) -> Result<(), Failure> {
        let shape = self.shape.as_deref();
        let workload = self.workload.as_deref().map(Path::new);
        make_rereadable(session, workload.into_iter().chain(shape))?;
        let options = self.options();
        let BenchResult { figures, page, fio, write_failure, failure } = bench(session, &options)?;
        let printed = match self.json {
            None => print(&text(&page)),
            Some(JsonFormat::Seeklab) => print_json(&figures),
            // It has a schema of its own, without our version.
            Some(JsonFormat::Fio) => print(&format!("{fio:#}\n")),
        };
        let in_folder = |name: &str| options.folder.as_ref().map(|folder| folder.join(name));
        Delivery::of(session, printed)
            .file(options.report.as_deref(), || render_page_html(&page))
            .file(in_folder("run.json").as_deref(), || json_text(&figures))
            .file(in_folder("report.html").as_deref(), || render_page_html(&page))
            .and(write_failure.map_or(Ok(()), Err))
            .and(failure.map_or(Ok(()), Err))
            .finish()
    }

    fn options(&self) -> BenchOptions {
        BenchOptions {
            target: self.target.clone().expect(REQUIRED),
            setup: self.setup.setup(),
            workload: self.workload.clone().expect(REQUIRED),
            workload_options: WorkloadOptions {
                arrivals: self.arrivals.mode(),
                requests: self.requests,
                retries: self.retries.retries(),
                shape: self.shape.clone(),
                ..self.replay.options()
            },
            seed: self.seed,
            duration: self.duration,
            ramp: self.ramp.unwrap_or_default(),
            interval: self.interval,
            outstanding_max: self.outstanding_max,
            late: match self.late {
                LateName::Queue => Late::Queue,
                LateName::Drop => Late::Drop,
            },
            timeout: self.timeout,
            batch: self.batch,
            threads: self.threads,
            pacing: match self.pacing {
                PacingName::Exact => Pacing::Exact,
                PacingName::Balanced => Pacing::Balanced,
                PacingName::Frugal => Pacing::Frugal,
            },
            buffered: self.buffered,
            create: self.create,
            destroy: self.destroy.clone(),
            verification: self
                .verify
                .then(|| VerificationOptions { ram: self.ram, state: self.state.clone() }),
            record: self.record.clone(),
            report: self.report.clone(),
            folder: self.folder.clone(),
            live: self.live,
        }
    }
}

/// The tables and notes of the page, in characters.
pub(super) fn text(page: &Page) -> String {
    let mut text = folded(&page.title, 2) + "\n";
    for table in page.sections.iter().take(1).flat_map(|section| &section.tables) {
        let mut of = TextTable::new(table.columns.iter().map(String::as_str)).with_rule();
        table.rows.iter().for_each(|row| of.push(row.iter().map(String::as_str)));
        text += &format!("\n{}\n{}\n", of.render().trim_end(), folded(&table.caption, 2).trim_end());
    }
    for note in &page.notes {
        text += &format!("\n{}\n", folded(&format!("note: {note}"), 2).trim_end());
    }
    text
}
