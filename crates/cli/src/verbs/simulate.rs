//! `seeklab simulate`: simulates a workload on one or more devices.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCompleter;
use seeklab_lab::crates::core::{Limits, Seed};
use seeklab_lab::crates::report::{render_html, render_terminal};
use seeklab_lab::events::Until;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use seeklab_lab::simulate::{SimulateOptions, simulate};
use seeklab_lab::workload::WorkloadOptions;

use super::arrivals::ArrivalFlags;
use super::reading::input_path;
use super::replay::{PartFlags, ReplayFlags, parse_workload};
use super::retries::RetryFlags;
use super::setup::SetupFlags;

use crate::completion;
use crate::delivery::Delivery;
use crate::output::{print, print_json};
use crate::standard_input::make_rereadable;

const EXAMPLES: &str = "\
Examples:
  seeklab simulate atlas10k --workload random,poisson=60/s,requests=100000
  seeklab simulate hp-c2247a barracuda --workload server.csv --closed 8 --scheduler sptf --report out.html
  seeklab simulate cheetah-36es nearline-7200 --workload db.sys --host memory=4GiB,cpu_speed=2
  seeklab simulate cheetah-36es --set rpm=50000rpm --set head_switch=0.2ms --workload oltp --json

A workload is a system-level trace (a .sys folder), a trace in any format that `seeklab trace formats` lists (.gz and .zst too), a TOML
file, or a line: random, sequential, oltp, fileserver, webserver, track-aligned, an
application (postmark, build, database), a host with processes, or
synthetic,size=8KiB,read=66%,poisson=80/s,requests=100000. Schedulers: fcfs, sstf, look, c-look, scan,
c-scan, vscan(0.2), sptf, aged-sptf(6ms), spctf, criticality-c-look; -cylinder orders by cylinder.";

/// Simulates a workload on one or more devices.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Catalog names or TOML files
    #[arg(required = true, add = ArgValueCompleter::new(completion::device))]
    device: Vec<String>,
    /// Workload: a trace, a TOML file, or a line that describes it. `-` is a trace or TOML on standard input
    #[arg(long, short, value_name = "W", value_parser = parse_workload)]
    workload: String,
    /// Run the processes of a system-level trace on a host [default: on for such a trace]
    #[arg(long, group = "arrivals")]
    system: bool,
    #[command(flatten)]
    arrivals: ArrivalFlags,
    #[command(flatten)]
    retries: RetryFlags,
    #[command(flatten)]
    setup: SetupFlags,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value = "1")]
    seed: Seed,
    /// Maximum number of requests [default: all of the workload]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    #[command(flatten)]
    replay: ReplayFlags,
    #[command(flatten)]
    part: PartFlags,
    /// Stop if an open load has this many requests outstanding: the device cannot sustain it
    #[arg(long, value_name = "N", default_value_t = Limits::default().outstanding_max as u64,
          value_parser = clap::value_parser!(u64).range(1..))]
    max_outstanding: u64,
    /// Trace with the interarrival times for a workload with `process = "shaped"`
    #[arg(long, value_name = "TRACE", value_parser = input_path())]
    shape: Option<PathBuf>,
    /// Override settings of the host of a system-level trace, an application or a workload of kind `host`, for example
    /// memory=40MiB,cpu_speed=2. `seeklab workloads --parameters host` lists the settings
    #[arg(long, value_name = "KEY=VALUE,...")]
    host: Option<String>,
    /// Program of a system-level trace, or process of a workload of kind `host`, that is the task, with the processes that it
    /// starts [default: the command, or the `task` of the workload]
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Print the times of each process of a host: computing, ready and each kind of wait, which add up to the elapsed time
    #[arg(long)]
    processes: bool,
    /// Write every request to a trace. `{device}` in the name is replaced by the name of the device
    #[arg(long, value_name = "TRACE")]
    out: Option<String>,
    /// Write the events inside the device, such as written blocks that became durable and faults that struck, to a CSV
    /// file. `{device}` in the name is replaced by the name of the device
    #[arg(long, value_name = "FILE.csv")]
    events: Option<String>,
    /// End of the events. Behind the last completion a device goes on by itself, for example with destages of its buffer:
    /// until nothing waits (`idle`), or up to that time of the simulation [default: the last completion]
    #[arg(long, value_name = "idle|TIME", requires = "events")]
    until: Option<Until>,
    /// Compare with the estimate of the same load, and name assumptions of it that do not hold
    #[arg(long)]
    estimate: bool,
    /// Write a report with plots
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let options = self.options();
        let shape = self.shape.as_deref();
        make_rereadable(session, [Path::new(&self.workload)].into_iter().chain(shape))?;
        let result = simulate(session, &options)?;
        let printed =
            if self.json { print_json(&result.figures) } else { print(&render_terminal(&result.report)) };
        let delivery =
            Delivery::of(session, printed).file(options.report.as_deref(), || render_html(&result.report));
        let failures = result.write_failures.into_iter();
        let delivered = failures.fold(delivery, |delivery, failure| delivery.and(Err(failure))).finish();
        match result.saturated {
            None => delivered,
            Some(failure) => delivered.and(Err(failure)),
        }
    }

    fn options(&self) -> SimulateOptions {
        SimulateOptions {
            devices: self.device.clone(),
            setup: self.setup.setup(),
            workload: self.workload.clone(),
            workload_options: self.workload_options(),
            seed: self.seed,
            limits: Limits { outstanding_max: usize::try_from(self.max_outstanding).unwrap_or(usize::MAX) },
            out: self.out.clone(),
            events: self.events.clone(),
            until: self.until.unwrap_or_default(),
            processes: self.processes,
            report: self.report.clone(),
            estimate: self.estimate,
        }
    }

    fn workload_options(&self) -> WorkloadOptions {
        WorkloadOptions {
            arrivals: self.arrivals.mode(),
            requests: self.requests,
            retries: self.retries.retries(),
            shape: self.shape.clone(),
            host: self.host.clone(),
            task: self.task.clone(),
            system: self.system,
            part: self.part.part(),
            ..self.replay.options()
        }
    }
}
