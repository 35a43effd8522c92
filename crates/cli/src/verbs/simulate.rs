//! `seeklab simulate`: simulates a workload on one or more devices.

use std::path::{Path, PathBuf};

use clap::Args;
use seeklab_analysis::{MetricsSummary, TimeBin};
use seeklab_core::{ByteSize, Duration, Limits, Ratio, Seed};
use seeklab_files::check_distinct;
use seeklab_lab::devices::{Resolved, resolve};
use seeklab_lab::failure::Failure;
use seeklab_lab::output::{VERSION, command_line, print, print_json};
use seeklab_lab::run::{Followed, SimulationResult, metadata, run};
use seeklab_lab::session::Session;
use seeklab_lab::workload::{Chosen, WorkloadOptions, choose};
use seeklab_report::{DeviceSection, Note, Parameter, Report, render_html, render_terminal};
use seeklab_traces::{Setting, TraceWriter};
use seeklab_workloads::replay::{ArrivalMode, Beyond, Population};
use serde::Serialize;

use super::setup::SetupFlags;

use crate::delivery::Delivery;

const EXAMPLES: &str = "\
Examples:
  seeklab simulate atlas10k --workload random,poisson=60/s,requests=100000
  seeklab simulate hp-c2247a barracuda --workload server.csv --closed 8 --scheduler sptf --report out.html
  seeklab simulate cheetah-36es --set rpm=50000rpm --set head_switch=0.2ms --workload oltp --json

A workload is a trace in any format that `seeklab trace formats` lists (.gz and .zst too), a TOML
file, or a line: random, sequential, oltp, fileserver, webserver, track-aligned, an
application (postmark, build, database), or
synthetic,size=8KiB,read=66%,poisson=80/s,requests=100000. Schedulers: fcfs, sstf, look, c-look, scan,
c-scan, vscan(0.2), sptf, aged-sptf(6ms), spctf, criticality-c-look; -cylinder orders by cylinder.";

/// Simulates a workload on one or more devices.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Catalog names or TOML files
    #[arg(required = true)]
    device: Vec<String>,
    /// Workload: a trace, a TOML file, or a line that describes it
    #[arg(long, short, value_name = "W")]
    workload: String,
    /// Send requests at the arrival times of the trace or process [default: on, unless the workload defines other
    /// arrivals]
    #[arg(long, group = "arrivals")]
    open: bool,
    /// Keep N requests outstanding. `auto`: the mean number outstanding in the trace
    #[arg(long, value_name = "N", group = "arrivals", value_parser = parse_closed)]
    closed: Option<Population>,
    /// Send requests as with --open, with the interarrival times divided by F
    #[arg(long, value_name = "F", group = "arrivals", value_parser = parse_scaled)]
    scaled: Option<Ratio>,
    /// Send one request at a time, with the trace's think time from each completion to the next arrival
    #[arg(long, group = "arrivals")]
    think: bool,
    /// A request that followed a completion in the trace follows it in the simulation. Needs completion times
    #[arg(long, group = "arrivals")]
    follow: bool,
    #[command(flatten)]
    setup: SetupFlags,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value = "1")]
    seed: Seed,
    /// Maximum number of requests [default: all of the workload]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Treatment of requests of a trace beyond the end of the device: error, wrap, scale or drop [default: error]
    #[arg(long, value_name = "WHAT", value_parser = parse_beyond)]
    beyond: Option<Beyond>,
    /// Stop if an open load has this many requests outstanding: the device cannot sustain it
    #[arg(long, value_name = "N", default_value_t = Limits::default().outstanding_max as u64,
          value_parser = clap::value_parser!(u64).range(1..))]
    max_outstanding: u64,
    /// Format of the trace [default: guessed]
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Block size of a trace that does not record its own [default: 512B]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<ByteSize>,
    /// Set an option of the format of the trace. `seeklab trace formats` lists the options
    #[arg(long, value_name = "NAME=VALUE")]
    format_option: Vec<Setting>,
    /// Trace with the interarrival times for a workload with `process = "shaped"`
    #[arg(long, value_name = "TRACE")]
    shape: Option<PathBuf>,
    /// Write every request to a trace. `{device}` in the name is replaced by the name of the device
    #[arg(long, value_name = "TRACE")]
    out: Option<String>,
    /// Write a report with plots
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn parse_closed(text: &str) -> Result<Population, String> {
    text.parse().map_err(|_| "a population is 1 or more, or `auto`".to_owned())
}

fn parse_scaled(text: &str) -> Result<Ratio, String> {
    match text.parse() {
        Ok(factor) if factor > Ratio::ZERO => Ok(factor),
        Ok(_) => Err("a factor is above 0".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

fn parse_beyond(text: &str) -> Result<Beyond, String> {
    match text {
        "error" => Ok(Beyond::Error),
        "wrap" => Ok(Beyond::Wrap),
        "scale" => Ok(Beyond::Scale),
        "drop" => Ok(Beyond::Drop),
        _ => Err("error, wrap, scale and drop are allowed".to_owned()),
    }
}

/// One device of the JSON document.
#[derive(Debug, Serialize)]
struct DeviceDocument<'a> {
    device: &'a str,
    bare: bool,
    validated: &'a str,
    #[serde(flatten)]
    summary: MetricsSummary,
    requests_per_cpu_s: f64,
    cpu_s: f64,
    wall_s: f64,
    saturated: bool,
    out_of_validated_range: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    followed: Option<FollowedDocument>,
    notes: Vec<&'a str>,
    throughput: Throughput,
}

/// Dependencies that were inferred from the trace.
#[derive(Debug, Serialize)]
struct FollowedDocument {
    /// Longest time from a completion to the request that had waited for it; null if none had.
    follows_within_ms: Option<f64>,
    after_idle_requests: u64,
    after_completion_requests: u64,
    independent_requests: u64,
}

impl From<Followed> for FollowedDocument {
    fn from(Followed { within, counts }: Followed) -> Self {
        Self {
            follows_within_ms: within.map(Duration::as_ms),
            after_idle_requests: counts.after_idle,
            after_completion_requests: counts.after_completion,
            independent_requests: counts.independent,
        }
    }
}

/// Throughput over time, in intervals of equal length from the first arrival.
#[derive(Debug, Serialize)]
struct Throughput {
    stretch_s: f64,
    requests_per_second: Vec<f64>,
    mib_per_second: Vec<f64>,
}

impl Throughput {
    fn of(timeline: &[TimeBin]) -> Self {
        let per_second = |value: fn(&TimeBin) -> f64| {
            timeline.iter().map(|bin| (value(bin) / bin.width_s * 1e3).round() / 1e3).collect()
        };
        Self {
            stretch_s: timeline.first().map_or(0.0, |bin| bin.width_s),
            requests_per_second: per_second(|bin| bin.requests as f64),
            mib_per_second: per_second(|bin| bin.bytes as f64 / f64::from(1 << 20)),
        }
    }
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    seed: u64,
    workload: &'a str,
    version: &'a str,
    command: String,
    devices: Vec<DeviceDocument<'a>>,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let devices = self.resolve_devices()?;
        let workload = choose(&self.workload, &self.workload_options())?;
        let outputs = self.outputs(&devices)?;
        for path in self.report.iter().chain(outputs.iter().flatten()) {
            check_distinct(path, self.inputs(&workload))?;
        }
        let mut outcomes = Vec::with_capacity(devices.len());
        for (device, out) in devices.iter().zip(&outputs) {
            let outcome = self.simulate(session, device, &workload, out.as_deref())?;
            let stop = outcome.saturated.is_some();
            outcomes.push(outcome);
            if stop {
                break;
            }
        }
        let delivered = self.tell(&devices, &workload, &mut outcomes);
        match outcomes
            .iter()
            .zip(&devices)
            .find_map(|(outcome, device)| Some((outcome.saturated.as_ref()?, device)))
        {
            None => delivered,
            Some((saturated, device)) => {
                delivered.and(Err(Failure::check(format!("{}: {saturated}", device.name))
                    .hint("lower the rate, replay closed (--closed N), or raise --max-outstanding")))
            }
        }
    }

    fn resolve_devices(&self) -> Result<Vec<Resolved>, Failure> {
        let setup = self.setup.setup();
        self.device.iter().map(|name| resolve(name, &setup)).collect()
    }

    fn workload_options(&self) -> WorkloadOptions {
        let arrivals = match (self.closed, self.scaled) {
            (Some(population), _) => Some(ArrivalMode::Closed(population)),
            (_, Some(factor)) => Some(ArrivalMode::Scaled(factor)),
            _ if self.open => Some(ArrivalMode::Open),
            _ if self.think => Some(ArrivalMode::Think),
            _ if self.follow => Some(ArrivalMode::Follow),
            _ => None,
        };
        WorkloadOptions {
            arrivals,
            requests: self.requests,
            beyond: self.beyond,
            format: self.format.clone(),
            block_size: self.block_size,
            settings: self.format_option.clone(),
            shape: self.shape.clone(),
        }
    }

    /// Returns all arguments that may name an input file.
    fn inputs(&self, workload: &Chosen) -> Vec<PathBuf> {
        let named = self.device.iter().chain([&self.workload]).map(PathBuf::from);
        named.chain(workload.trace().map(PathBuf::from)).chain(self.shape.clone()).collect()
    }

    /// Returns the trace file for each device.
    fn outputs(&self, devices: &[Resolved]) -> Result<Vec<Option<PathBuf>>, Failure> {
        let Some(out) = &self.out else { return Ok(vec![None; devices.len()]) };
        if devices.len() > 1 && !out.contains("{device}") {
            return Err(Failure::new(format!("--out `{out}`: is one file for {} devices", devices.len()))
                .hint("write {device} where the device's name belongs, for example out-{device}.parquet"));
        }
        let file_name = |device: &Resolved| {
            let name = device.name.replace(['/', ' ', '(', ')'], "-");
            Some(PathBuf::from(out.replace("{device}", name.trim_matches('-'))))
        };
        let files: Vec<Option<PathBuf>> = devices.iter().map(file_name).collect();
        match (1..files.len()).find(|index| files[..*index].contains(&files[*index])) {
            None => Ok(files),
            Some(index) => Err(Failure::new(format!("--out `{out}`: is one file for two devices"))
                .hint(format!("name `{}` once", devices[index].name))),
        }
    }

    fn simulate(
        &self,
        session: &Session,
        device: &Resolved,
        workload: &Chosen,
        out: Option<&Path>,
    ) -> Result<SimulationResult, Failure> {
        let limits = Limits { outstanding_max: usize::try_from(self.max_outstanding).unwrap_or(usize::MAX) };
        let Some(path) = out else {
            return run(device, workload, self.seed, limits, None, session);
        };
        let metadata = metadata(device, device.build(self.seed, "disk0")?.capabilities(), self.seed);
        let mut writer: Box<dyn TraceWriter> = seeklab_columnar::create(path, None, &metadata)?;
        let mut outcome = run(device, workload, self.seed, limits, Some(&mut *writer), session)?;
        if outcome.write_error.is_none() {
            outcome.write_error = writer.finish().err().map(Failure::from);
        }
        Ok(outcome)
    }

    fn tell(
        &self,
        devices: &[Resolved],
        workload: &Chosen,
        outcomes: &mut [SimulationResult],
    ) -> Result<(), Failure> {
        let report = self.make_report(devices, workload, outcomes);
        let printed = if self.json {
            self.print_document(devices, workload, outcomes)
        } else {
            print(&render_terminal(&report))
        };
        let mut delivery = Delivery::of(printed).file(self.report.as_deref(), || render_html(&report));
        for outcome in outcomes {
            delivery = delivery.and(outcome.write_error.take().map_or(Ok(()), Err));
        }
        delivery.finish()
    }

    fn print_document(
        &self,
        devices: &[Resolved],
        workload: &Chosen,
        outcomes: &[SimulationResult],
    ) -> Result<(), Failure> {
        let devices = outcomes
            .iter()
            .zip(devices)
            .map(|(outcome, device)| (outcome, device, outcome.metrics.summary()))
            .map(|(outcome, device, summary)| DeviceDocument {
                device: &device.name,
                bare: device.bare,
                validated: device.description.validated(),
                out_of_validated_range: device.out_of_validated_range(
                    outcome.coverage,
                    summary.requests,
                    summary.reads + summary.writes,
                ),
                summary,
                requests_per_cpu_s: outcome.requests_per_cpu_s().round(),
                cpu_s: outcome.cpu_s,
                wall_s: outcome.wall_s,
                saturated: outcome.saturated.is_some(),
                followed: outcome.followed.map(FollowedDocument::from),
                notes: outcome.notes.iter().map(Note::text).collect(),
                throughput: Throughput::of(&outcome.metrics.timeline()),
            })
            .collect();
        print_json(&Document {
            seed: self.seed.0,
            workload: &workload.name,
            version: VERSION,
            command: command_line(),
            devices,
        })
    }

    fn make_report(&self, devices: &[Resolved], workload: &Chosen, outcomes: &[SimulationResult]) -> Report {
        let mut notes: Vec<Note> = Vec::new();
        for (outcome, device) in outcomes.iter().zip(devices) {
            notes
                .extend(outcome.saturated.iter().map(|why| Note::Warning(format!("{}: {why}", device.name))));
            for note in &outcome.notes {
                if !notes.contains(note) {
                    notes.push(note.clone());
                }
            }
        }
        let speed: Vec<String> = outcomes
            .iter()
            .zip(devices)
            .map(|(outcome, device)| format!("{} {:.2} M", device.name, outcome.requests_per_cpu_s() / 1e6))
            .collect();
        notes.push(Note::Remark(format!("simulated requests per CPU-second: {}", speed.join(", "))));
        let spec = toml::to_string(&workload.spec).unwrap_or_default();
        let parameters = spec
            .lines()
            .filter_map(|line| line.split_once(" = "))
            .map(|(name, value)| Parameter {
                name: format!("workload.{name}"),
                value: value.trim_matches('"').to_owned(),
                source: None,
            })
            .collect();
        Report {
            title: format!("{} on {}", workload.name, names(devices)),
            subtitle: String::new(),
            command: Some(command_line()),
            seed: Some(self.seed),
            generated_by: VERSION.to_owned(),
            parameters,
            devices: outcomes
                .iter()
                .zip(devices)
                .map(|(outcome, device)| {
                    DeviceSection::new(device.label(), device.about(), &outcome.metrics)
                        .with_parameters(device.parameters())
                })
                .collect(),
            notes,
            ..Report::default()
        }
    }
}

fn names(devices: &[Resolved]) -> String {
    devices.iter().map(Resolved::label).collect::<Vec<_>>().join(", ")
}
