//! `seeklab bench`: measures a real target, or a model in virtual time.

mod compare;
mod rerun;
mod ui;
mod verify;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use seeklab_lab::bench::{
    BenchOptions, BenchResult, CounterOptions, ExpectedDevice, FioOptions, IoPriority, Late, OfferedRate,
    PhaseOptions, PlanOverrides, Polling, Ramp, StreamLoad, StreamOptions, TRACE_FILE, TargetChoice,
    VerificationOptions, Watch, WriteData, bench, plan_document, plan_page, read_fio, read_plan, with_rates,
};
use seeklab_lab::crates::bench::target::TargetKind;
use seeklab_lab::crates::core::{ByteSize, Duration, Seed};
use seeklab_lab::crates::emulator::clock::Pacing;
use seeklab_lab::crates::report::{Page, TextTable, folded, render_page_html};
use seeklab_lab::crates::workloads::WorkloadSpec;
use seeklab_lab::crates::workloads::replay::{ArrivalMode, Population};
use seeklab_lab::crates::workloads::synthetic::ArrivalSpec;
use seeklab_lab::estimate::Bound;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use seeklab_lab::workload::{WorkloadOptions, describe, from_spec};

use super::arrivals::ArrivalFlags;
use super::reading::input_path;
use super::replay::{ReplayFlags, parse_workload};
use super::retries::RetryFlags;
use super::setup::SetupFlags;
use crate::delivery::Delivery;
use crate::output::{print, print_json, print_schema};
use crate::standard_input::make_rereadable;

const EXAMPLES: &str = r#"Examples:
  seeklab bench /dev/nvme0n1 -w random,read=100%,size=4KiB,closed=32 --duration 60s
  seeklab bench disk.img --create 4GiB -w random,read=70%,size=8KiB,poisson=2000/s --duration 30s --live
  seeklab bench 'nbd+unix:///?socket=/tmp/hp.sock' -w random,read=100%,size=4KiB,closed=4 --duration 10s
  seeklab bench model:cheetah-36es -w oltp,poisson=60/s --requests 100000 --json
  seeklab bench null -w random,size=4KiB,poisson=10000/s --duration 5s --rates 10%,50%,100% --report curve.html
  seeklab bench model:exponential -w random,read=100%,size=4KiB,poisson=50/s --requests 100000 --find-rate 'response_p99_ms<=100'
  seeklab bench /dev/sdb -w random,read=50%,size=4KiB,closed=32 --destroy /dev/sdb --verify --state sdb.state
  seeklab bench verify sdb.state
  seeklab bench compare before/ after/ --fail-if 'response_p99_ms +5%'
  seeklab bench plan.toml --repeat 5 --report out.html
  seeklab bench rerun run1 --destroy /dev/sdb
  seeklab bench job.fio --skip-unknown --on model:cheetah-36es
  seeklab bench ui plan.toml

A plan is a TOML file with phases of several streams (all keys: seeklab bench --reference):
  target = "model:cheetah-36es"
  [[phases]]
  name = "fill"
  until = "steady"       # or duration = "60s", or requests = 10000
  round = "10s"
  [[phases.streams]]
  workload = "sequential,size=64KiB,read=0%,closed=4"
  [[phases.streams]]
  workload = "random,size=4KiB,read=100%,poisson=20/s"

Targets: a block device or a file (io_uring), psync:PATH (pread and pwrite), an NBD URI, iscsi://HOST[:PORT]/IQN/LUN,
vhost-user:PATH, model:DEVICE (in virtual time), emulate:DEVICE (the same in real time) and null, which measures this
program itself. A workload that writes needs the name of the target a second time: --destroy."#;

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
    /// Repeat the run of a folder: the same plan, seed and options on the same targets
    Rerun(rerun::Arguments),
    /// Check a target against the state that a run with --verify --state kept
    Verify(verify::Arguments),
    /// Compose, start, watch and compare measurements in a browser
    Ui(ui::Arguments),
}

impl Arguments {
    /// Returns true if a target may be one of the kernel. Plans, job files and folders are not read for it.
    pub(crate) fn can_be_held(&self) -> bool {
        match &self.command {
            Some(BenchCommand::Compare(_)) => false,
            Some(_) => true,
            None => {
                let is_of_kernel = |target: &String| TargetKind::of(target).0.is_of_kernel();
                self.run.target.as_ref().is_some_and(|target| match self.run.workload {
                    Some(_) => is_of_kernel(target),
                    None => self.run.on.as_ref().is_none_or(is_of_kernel),
                })
            }
        }
    }

    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        match self.command {
            Some(BenchCommand::Compare(arguments)) => arguments.run(session),
            Some(BenchCommand::Rerun(arguments)) => arguments.run(session),
            Some(BenchCommand::Verify(arguments)) => arguments.run(session),
            Some(BenchCommand::Ui(arguments)) => arguments.run(session),
            None => self.run.run(session),
        }
    }
}

/// Arguments of a measurement.
#[derive(Debug, Args)]
struct RunArguments {
    /// Block device, file, NBD URI, iscsi://HOST/IQN/LUN, vhost-user:PATH, model:DEVICE, emulate:DEVICE, psync:PATH or null; without --workload, a plan in TOML or a fio job file
    #[arg(value_name = "TARGET|PLAN|JOBS", required_unless_present_any = ["schema", "reference"])]
    target: Option<String>,
    /// Workload: a trace, a TOML file, or a line that describes it. `-` is a trace or TOML on standard input
    #[arg(long, short, value_name = "W", value_parser = parse_workload)]
    workload: Option<String>,
    /// Print the JSON schema of plans, for editors
    #[arg(long, exclusive = true)]
    schema: bool,
    /// Print the keys of plans as a page in Markdown
    #[arg(long, exclusive = true)]
    reference: bool,
    /// Measure an open load at these rates, one phase each: shares of its rate such as 50%, or rates such as 500/s
    #[arg(long, value_name = "RATE,…", value_delimiter = ',', conflicts_with = "find_rate")]
    rates: Vec<OfferedRate>,
    /// Find the highest rate of an open load at which a figure keeps a bound, for example 'response_p99_ms<=20'
    #[arg(long, value_name = "FIGURE<=VALUE")]
    find_rate: Option<Bound>,
    /// Leave out options of a fio job file that cannot be honoured, and list them
    #[arg(long)]
    skip_unknown: bool,
    /// Send the requests of a fio job file to this target in place of its files
    #[arg(long, value_name = "TARGET")]
    on: Option<String>,
    /// Run everything so many times, each time with a seed of its own [default: 1, or as the plan says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    repeat: Option<u64>,
    /// Time that counts [default: until the workload ends]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Time or number of requests at the begin that does not count, such as 10s or 5000. --duration follows it, --requests
    /// include it [default: 0s]
    #[arg(long, value_name = "TIME|N", value_parser = parse_ramp)]
    ramp: Option<Ramp>,
    /// Maximum number of requests, those of --ramp included [default: all of the workload, with --duration any number of a synthetic one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Length of an interval of the figures over time, up to 1h. 0s: one interval of the whole [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    interval: Option<Duration>,
    /// Requests of an open load under way at a time at most. Later arrivals wait [default: 1024, fewer if they are long]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16384))]
    outstanding_max: Option<u32>,
    /// Treatment of arrivals that find as many requests under way [default: queue]
    #[arg(long, value_name = "WHAT", value_enum)]
    late: Option<LateName>,
    /// Count a request as failed after this time [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    timeout: Option<Duration>,
    #[command(flatten)]
    retries: RetryFlags,
    /// Threads, each with a connection or ring of its own on a processor of its own. The requests are the same for any number
    /// [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Option<u32>,
    /// Wait for N completions at a time, which costs less processor time. For closed loads [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// Content of the data of writes: random, zeroes, pattern=HEX, or compressible=50%,duplicates=20% [default: random]
    #[arg(long, value_name = "CONTENT")]
    data: Option<WriteData>,
    /// I/O priority of the requests: realtime:0 to realtime:7, best-effort:0 to best-effort:7 or idle. For block devices and
    /// files by io_uring [default: that of this process]
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<IoPriority>,
    /// Trade processor time for exact arrivals. exact: spin four times as long before each, and keep idle processors awake,
    /// if permitted [default: balanced]
    #[arg(long, value_enum)]
    pacing: Option<PacingName>,
    /// Go through the page cache of this machine [default: pass it by (O_DIRECT)]
    #[arg(long)]
    buffered: bool,
    /// Poll in place of system calls and interrupts, by io_uring. submission: a thread of the kernel takes the requests.
    /// completion: of devices with queues for it
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    poll: Vec<PollName>,
    /// Make the target, a file of this size, fill it, and remove it at the end
    #[arg(long, value_name = "SIZE")]
    create: Option<ByteSize>,
    /// Let the workload overwrite what the target holds: its name, typed again. Once for each target of a plan
    #[arg(long, value_name = "TARGET")]
    destroy: Vec<String>,
    /// Check that every read returns what was written, and stamp every write for it
    #[arg(long)]
    verify: bool,
    /// With --verify, read all blocks that the workload wrote when it has ended, and check them
    #[arg(long, requires = "verify")]
    read_back: bool,
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
    /// Seed of all random draws [default: 1, or as the plan says]
    #[arg(long, value_name = "N")]
    seed: Option<Seed>,
    /// Write every attempt at a request to a trace [default: trace.parquet in the folder]
    #[arg(long, value_name = "TRACE", num_args = 0..=1)]
    record: Option<Option<PathBuf>>,
    /// Write a report with plots
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Keep the run in a folder: plan, results, intervals, histograms and report. It is written as the run goes on
    #[arg(long, short = 'o', value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Replace the run that the folder holds
    #[arg(long, requires = "folder")]
    fresh: bool,
    /// Read counters of the machine, of seeklab and of watched processes at this interval [default: none, with --watch 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_counters)]
    counters: Option<Duration>,
    /// Read the counters of this process, too, or of all processes of this name. Repeatable
    #[arg(long, value_name = "NAME|PID")]
    watch: Vec<Watch>,
    /// Print a line of figures to stderr at the end of every interval (not with --quiet)
    #[arg(long)]
    live: bool,
    /// Print one JSON document: our own, or fio 3's (JSON+) for programs that read fio's
    #[arg(long, value_name = "FORMAT", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "seeklab")]
    json: Option<JsonFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PollName {
    /// Of submissions (SQPOLL)
    Submission,
    /// Of completions (IOPOLL)
    Completion,
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

/// Name of the report in the folder of a run.
const REPORT_FILE: &str = "report.html";
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

fn parse_counters(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(time) if (INTERVAL_MIN..=INTERVAL_MAX).contains(&time) => Ok(time),
        Ok(_) => Err(format!("{INTERVAL_MIN} to {INTERVAL_MAX} are allowed")),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(time) if time >= Duration::from_ms(1) => Ok(time),
        Ok(_) => Err("a measurement takes at least 1ms".to_owned()),
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

impl RunArguments {
    fn run(self, session: &Session) -> Result<(), Failure> {
        if self.schema {
            return print_schema(&plan_document());
        }
        let Some(target) = self.target.clone() else { return print(&plan_page()) };
        // Beside --workload, such a file would be the target, and its text would be read as a disk. With a scheme (model:FILE,
        // psync:FILE) it is meant.
        let is_file = self.create.is_none() && !target.contains(':');
        let is_plan = is_file && (target.ends_with(".toml") || target.ends_with(".fio"));
        let options = match &self.workload {
            Some(_) if is_plan => self.plan(&target)?,
            Some(_) if self.skip_unknown || self.on.is_some() => {
                return Err(Failure::new("--skip-unknown and --on are for fio job files")
                    .hint("leave out --workload"));
            }
            Some(workload) => {
                make_rereadable(session, [Path::new(workload)].into_iter().chain(self.shape.as_deref()))?;
                let options = self.one_stream(target, workload)?;
                if self.rates.is_empty() { options } else { with_rates(options, &self.rates)? }
            }
            None => self.plan(&target)?,
        };
        let result = bench(session, &options)?;
        deliver(session, &options, result, self.json)
    }

    /// The plan of one phase and one stream that the options describe.
    fn one_stream(&self, address: String, workload: &str) -> Result<BenchOptions, Failure> {
        let workload_options = WorkloadOptions {
            arrivals: self.arrivals.mode(),
            requests: self.requests,
            retries: self.retries.retries(),
            shape: self.shape.clone(),
            ..self.replay.options()
        };
        let spec = describe(workload, Path::new(""), "--workload")?;
        let notes = replaced_population(&spec, workload, workload_options.arrivals).into_iter().collect();
        let stream = StreamOptions {
            name: "1".to_owned(),
            target: 0,
            workload: StreamLoad::Workload(Box::new(from_spec(workload, spec, &workload_options)?)),
            is_counted: self.requests.is_some(),
            outstanding_max: self.outstanding_max,
            late: match self.late {
                None | Some(LateName::Queue) => Late::Queue,
                Some(LateName::Drop) => Late::Drop,
            },
            timeout: self.timeout,
            batch: self.batch.unwrap_or(1),
            threads: self.threads.unwrap_or(1),
            data: self.data.clone().unwrap_or_default(),
            priority: self.priority,
            read_back: self.read_back,
        };
        let phase = PhaseOptions {
            name: "1".to_owned(),
            duration: self.duration,
            steady: None,
            ramp: self.ramp.unwrap_or_default(),
            interval: self.interval.unwrap_or(Duration::from_s(1)),
            streams: vec![stream],
        };
        let target = TargetChoice {
            address,
            setup: self.setup.setup(),
            buffered: self.buffered,
            drops_pages: false,
            polling: Polling {
                submission: self.poll.contains(&PollName::Submission),
                completion: self.poll.contains(&PollName::Completion),
            },
            create: self.create,
            expected: ExpectedDevice::default(),
        };
        self.beside(BenchOptions {
            targets: vec![target],
            phases: vec![phase],
            repetitions: self.repeat.unwrap_or(1),
            find_rate: self.find_rate,
            seed: self.seed.unwrap_or(Seed(1)),
            pacing: self.pacing().unwrap_or(Pacing::Balanced),
            notes,
            ..BenchOptions::default()
        })
    }

    /// The plan of a file.
    fn plan(&self, path: &str) -> Result<BenchOptions, Failure> {
        let is_plan = path.ends_with(".toml");
        if !is_plan && !path.ends_with(".fio") {
            return Err(Failure::new(format!("`{path}`: has no workload")).hint(
                "add --workload, or name a plan (a file that ends in .toml) or a fio job file (.fio)",
            ));
        }
        if is_plan && (self.skip_unknown || self.on.is_some()) {
            let option = if self.skip_unknown { "--skip-unknown" } else { "--on" };
            return Err(Failure::new(format!("{option}: is for fio job files"))
                .hint("a plan names its targets itself"));
        }
        // Keys of plans stand for all of them.
        let in_plan = [
            ("--workload", self.workload.is_some()),
            ("--duration", self.duration.is_some()),
            ("--rates", !self.rates.is_empty()),
            ("--find-rate", self.find_rate.is_some()),
            ("--ramp", self.ramp.is_some()),
            ("--requests", self.requests.is_some()),
            ("--outstanding-max", self.outstanding_max.is_some()),
            ("--late", self.late.is_some()),
            ("--timeout", self.timeout.is_some()),
            ("--retries", self.retries.is_given()),
            ("--threads", self.threads.is_some()),
            ("--batch", self.batch.is_some()),
            ("--data", self.data.is_some()),
            ("--priority", self.priority.is_some()),
            ("--buffered", self.buffered),
            ("--poll", !self.poll.is_empty()),
            ("--create", self.create.is_some()),
            ("--read-back", self.read_back),
            ("--shape", self.shape.is_some()),
            ("--open, --closed, --scaled, --think and --follow", self.arrivals.mode().is_some()),
            ("--beyond, --format, --format-option and --block-size", self.replay.is_given()),
            ("--set, --bare, --scheduler, --fault and --faults", self.setup.is_given()),
        ];
        if let Some((option, _)) = in_plan.into_iter().find(|(_, is_given)| *is_given) {
            let problem = if is_plan { "is a plan, which states it itself" } else { "is a job file" };
            let hint = if is_plan {
                "write it as a key of the plan (seeklab bench --reference), or name a target and its --workload (a description of a device is \
                 model:FILE)"
            } else {
                "write it as fio's option if there is one, or measure a plan, or a target and its --workload"
            };
            return Err(Failure::new(format!("{option}: `{path}` {problem}")).hint(hint));
        }
        let overrides = PlanOverrides {
            seed: self.seed,
            repetitions: self.repeat,
            interval: self.interval,
            pacing: self.pacing(),
            target: None,
        };
        let fio = FioOptions { skip_unknown: self.skip_unknown, target: self.on.as_deref() };
        let options = match is_plan {
            true => read_plan(Path::new(path), &overrides)?,
            false => read_fio(Path::new(path), fio, &overrides)?,
        };
        self.beside(options)
    }

    /// The options with those of the outputs.
    ///
    /// # Errors
    /// A trace without a place.
    fn beside(&self, options: BenchOptions) -> Result<BenchOptions, Failure> {
        let record = match (&self.record, &self.folder) {
            (None, _) => None,
            (Some(Some(path)), _) => Some(path.clone()),
            (Some(None), Some(folder)) => Some(folder.join(TRACE_FILE)),
            (Some(None), None) => {
                return Err(
                    Failure::new("--record: has no file").hint("name a trace, or add --folder FOLDER")
                );
            }
        };
        let counters = match &options.counters {
            of_plan if self.counters.is_none() && self.watch.is_empty() => of_plan.clone(),
            of_plan => {
                let (interval, watch) =
                    of_plan.clone().map_or((None, Vec::new()), |of| (Some(of.interval), of.watch));
                Some(CounterOptions {
                    interval: self.counters.or(interval).unwrap_or(Duration::from_s(1)),
                    watch: if self.watch.is_empty() { watch } else { self.watch.clone() },
                })
            }
        };
        Ok(BenchOptions {
            destroy: self.destroy.clone(),
            verification: self.verification(options.verification),
            record,
            report: self.report.clone(),
            folder: self.folder.clone(),
            fresh: self.fresh,
            counters,
            live: self.live,
            ..options
        })
    }

    /// The verification of the options, which complete that of a plan.
    fn verification(&self, of_plan: Option<VerificationOptions>) -> Option<VerificationOptions> {
        if !self.verify {
            return of_plan;
        }
        // A state takes the place of the memory.
        let ram = self.ram.or(of_plan.and_then(|of_plan| of_plan.ram)).filter(|_| self.state.is_none());
        Some(VerificationOptions { ram, state: self.state.clone() })
    }

    fn pacing(&self) -> Option<Pacing> {
        Some(match self.pacing? {
            PacingName::Exact => Pacing::Exact,
            PacingName::Balanced => Pacing::Balanced,
            PacingName::Frugal => Pacing::Frugal,
        })
    }
}

/// Note on a closed workload, with `name`, whose population --closed replaces.
fn replaced_population(spec: &WorkloadSpec, name: &str, arrivals: Option<ArrivalMode>) -> Option<String> {
    let WorkloadSpec::Synthetic(synthetic) = spec else { return None };
    match (&synthetic.arrivals, arrivals) {
        (ArrivalSpec::Closed { population, .. }, Some(ArrivalMode::Closed(Population::Count(count))))
            if *population != count =>
        {
            Some(format!(
                "--closed {count} took the place of the {population} outstanding requests of `{name}`"
            ))
        }
        _ => None,
    }
}

/// Prints the results and writes the report.
fn deliver(
    session: &Session,
    options: &BenchOptions,
    result: BenchResult,
    json: Option<JsonFormat>,
) -> Result<(), Failure> {
    let BenchResult { figures, page, fio, write_failure, failure, targets } = result;
    // Closing a target can wait for it, and must not keep the report back.
    session.keep_to_end(targets);
    let printed = match json {
        None => print(&text(&page)),
        Some(JsonFormat::Seeklab) => print_json(&figures),
        // It has a schema of its own, without our version.
        Some(JsonFormat::Fio) => print(&format!("{fio:#}\n")),
    };
    let in_folder = options.folder.as_ref().map(|folder| folder.join(REPORT_FILE));
    Delivery::of(session, printed)
        .file(options.report.as_deref(), || render_page_html(&page))
        .file(in_folder.as_deref(), || render_page_html(&page))
        .and(write_failure.map_or(Ok(()), Err))
        .and(failure.map_or(Ok(()), Err))
        .finish()
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
