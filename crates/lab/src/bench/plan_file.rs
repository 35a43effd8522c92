//! Plans in TOML: targets, and phases with their streams.
//!
//! ```text
//! plan.toml ─▶ PlanFile (declared keys) ─▶ BenchOptions
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use seeklab_bench::counters::{CounterOptions, Watch};
use seeklab_bench::target::Polling;
use seeklab_bench::{IoPriority, Late, Ramp, SteadyFigure, SteadyRule, WriteData};
use seeklab_core::description::schema::{check_ranges, schema_of};
use seeklab_core::description::{self, reference, reference_tables};
use seeklab_core::{ByteSize, DescriptionError, Duration, Mistake, Seed};
use seeklab_devices::fault::FaultParameters;
use seeklab_devices::scheduler::SchedulerSpec;
use seeklab_emulator::clock::Pacing;
use seeklab_traces::Setting;
use seeklab_workloads::{Retries, WorkloadSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::options::{BenchOptions, ExpectedDevice, PhaseOptions, StreamLoad, StreamOptions, TargetChoice};
use super::rates::{self, OfferedRate};
use super::verification::VerificationOptions;
use crate::devices::{Faults, Setup};
use crate::entry::Entry;
use crate::estimate::Bound;
use crate::failure::Failure;
use crate::workload::{WorkloadOptions, describe, from_spec, relative_to};

/// Shortest and longest interval of the figures over time.
pub(super) const INTERVALS: [Duration; 2] = [Duration::from_ms(10), Duration::from_s(3600)];

/// A plan.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    /// Title of the report [default: workloads and targets].
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Target of the streams that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"model:cheetah-36es")]
    target: Option<String>,
    /// Targets by name, as tables. A stream may also name an address of no table.
    #[serde(default)]
    targets: BTreeMap<String, TargetTable>,
    /// Streams of the phases that have none of their own.
    #[serde(default)]
    streams: Vec<StreamTable>,
    /// Phases, one after another.
    #[schemars(length(min = 1), extend("x-unit" = "phases"))]
    phases: Vec<PhaseTable>,
    /// Seed of the random draws. Each repetition has a seed that follows from it.
    #[serde(default = "one")]
    seed: u64,
    /// Runs of all phases.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10_000), extend("x-unit" = "runs"))]
    repetitions: u64,
    /// Length of an interval of the figures over time. `0s`: one interval for each phase.
    #[serde(default = "interval")]
    interval: Duration,
    /// Trade of processor time for exact arrivals.
    #[serde(default)]
    pacing: PacingName,
    /// Length of a sample of the counters of the machine and of processes [default: no counters, with `watch` 1s].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "10ms"))]
    counters: Option<Duration>,
    /// Processes whose counters are read, too: their names, or their numbers as text.
    #[serde(default)]
    watch: Vec<String>,
    /// Check that every read returns what was written, and stamp every write for it, in all phases and on all targets.
    #[serde(default)]
    verify: bool,
    /// Memory for `verify`, which needs 8 bytes per block. Beyond it, a temporary file is used [default: 1GiB].
    #[serde(skip_serializing_if = "Option::is_none")]
    ram: Option<ByteSize>,
}

const fn one() -> u64 {
    1
}

const fn interval() -> Duration {
    Duration::from_s(1)
}

/// Trade of processor time for exact arrivals.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PacingName {
    /// Spin for a long time before each arrival.
    Exact,
    /// Spin for a short time before each arrival.
    #[default]
    Balanced,
    /// Never spin.
    Frugal,
}

/// A target.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetTable {
    /// Address: a block device, a file, an NBD URI, `iscsi://HOST/IQN/LUN`, `vhost-user:PATH`, `model:DEVICE`, `emulate:DEVICE`, `psync:PATH` or
    /// `null`.
    #[schemars(example = &"/dev/nvme0n1")]
    address: String,
    /// Parameters of a model that override those of its description, such as `{ rpm = "15000rpm" }`.
    #[serde(default)]
    set: BTreeMap<String, String>,
    /// Leave out everything but the mechanics of a disk model: overheads, buffer and bus. Before `set`.
    #[serde(default)]
    bare: bool,
    /// Scheduler of the host's queue in front of a model [default: fcfs, as deep as the model's own queue].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"sptf")]
    scheduler: Option<SchedulerSpec>,
    /// Requests that the host lets a model hold at a time, with `scheduler` [default: 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-unit" = "requests"))]
    depth: Option<u32>,
    /// Faults of a model, on one line each: a kind or preset, then its keys. `seeklab faults` lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-example" = "delay,add=20ms,probability=1%"))]
    fault: Vec<String>,
    /// TOML file with faults of a model as a list of tables `fault`, before those of the key `fault`.
    #[serde(skip_serializing_if = "Option::is_none")]
    faults: Option<String>,
    /// Go through the page cache of this machine.
    #[serde(default)]
    buffered: bool,
    /// Polling by io_uring in place of system calls and interrupts. `submission`: a thread of the kernel takes the requests.
    /// `completion`: of a device with queues for it, past the page cache.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    poll: Vec<PollName>,
    /// Make the target, a file of this size, fill it, and remove it at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    create: Option<ByteSize>,
    /// Serial number that the block device must have. Another device under the address is refused [default: any].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"S4EVNX0R112233")]
    serial: Option<String>,
    /// Size that the target must have [default: any].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"1000204886016B")]
    capacity: Option<ByteSize>,
}

/// A way of polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PollName {
    /// For submissions (SQPOLL).
    Submission,
    /// For completions (IOPOLL).
    Completion,
}

/// A phase.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table; write [[phases]] above its keys")]
struct PhaseTable {
    /// Name in the results [default: its number].
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Time that counts. Without `duration`, `requests` and `until`, the phase ends with its workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ms"))]
    duration: Option<Duration>,
    /// Maximum number of requests of each stream, those that do not count included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-unit" = "requests"))]
    requests: Option<u64>,
    /// End in the steady state.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Until>,
    /// Length of a round, which is also an interval of the figures over time [default: `interval` of the plan].
    #[serde(skip_serializing_if = "Option::is_none")]
    round: Option<Duration>,
    /// Rounds after which the phase ends without a steady state [default: 25].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 100_000), extend("x-unit" = "rounds"))]
    rounds_max: Option<u64>,
    /// Rounds that follow the one in which the steady state is reached. They show if it is left again [default: 0].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000), extend("x-unit" = "rounds"))]
    hold: Option<u64>,
    /// Figure of each round that must be steady [default: requests_per_second].
    #[serde(skip_serializing_if = "Option::is_none")]
    figure: Option<FigureName>,
    /// Time before the phase that does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    ramp: Option<Duration>,
    /// Number of requests before the phase that do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-unit" = "requests"))]
    ramp_requests: Option<u64>,
    /// Rates of the only stream, a phase for each: shares of its rate such as `50%`, or rates such as `500/s`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-example" = "50%"))]
    rates: Vec<String>,
    /// Find the highest rate of the only stream of the only phase at which a figure keeps a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"response_p99_ms<=20")]
    find_rate: Option<String>,
    /// Streams, which run at the same time [default: `streams` of the plan].
    #[serde(default)]
    streams: Vec<StreamTable>,
}

/// End of a phase.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Until {
    /// The steady state is reached.
    Steady,
}

/// Figure of a round.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FigureName {
    /// Requests per second.
    RequestsPerSecond,
    /// MiB per second.
    MibPerSecond,
    /// Mean response time.
    ResponseMeanMs,
}

/// Treatment of arrivals that find as many requests under way as are allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LateName {
    /// They wait.
    #[default]
    Queue,
    /// They are left out, and counted.
    Drop,
}

/// A stream.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table; write [[streams]] above its keys")]
struct StreamTable {
    /// Name in the results [default: its number].
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Name of a target in `targets`, or an address [default: `target` of the plan].
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Workload: a line, a trace, a TOML file, or a description as a table.
    #[schemars(example = &"random,size=4KiB,read=100%,closed=32")]
    workload: Entry,
    /// Maximum number of requests, those that do not count included [default: all of the workload, in a phase with a time any number of a synthetic one].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-unit" = "requests"))]
    requests: Option<u64>,
    /// Threads, each with a connection or ring of its own.
    #[serde(default = "one_thread")]
    #[schemars(range(min = 1, max = 256), extend("x-unit" = "threads"))]
    threads: u32,
    /// Requests of an open load under way at a time at most [default: 1024, fewer if they are long].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_384), extend("x-unit" = "requests"))]
    outstanding_max: Option<u32>,
    /// Treatment of arrivals that find as many requests under way.
    #[serde(default)]
    late: LateName,
    /// Completions to wait for at a time. For closed loads.
    #[serde(default = "one_thread")]
    #[schemars(range(min = 1), extend("x-unit" = "requests"))]
    batch: u32,
    /// Content of the data of writes: `random`, `zeroes`, `pattern=HEX`, or shares that compression and deduplication save.
    #[serde(default)]
    #[schemars(example = &"compressible=50%,duplicates=20%")]
    data: WriteData,
    /// I/O priority: `realtime:0` to `realtime:7`, `best-effort:0` to `best-effort:7` or `idle`. For block devices and files by
    /// io_uring [default: that of this process].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"realtime:0")]
    priority: Option<IoPriority>,
    /// Read all blocks that the stream wrote behind its phase, and check them. With `verify` of the plan.
    #[serde(default)]
    read_back: bool,
    /// Count a request as failed after this time [default: never].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ms"))]
    timeout: Option<Duration>,
    /// Times that a request is sent again when it fails.
    #[serde(default)]
    #[schemars(extend("x-unit" = "attempts"))]
    retries: u32,
    /// Time from a failure to the next attempt.
    #[serde(default)]
    retry_after: Duration,
    /// Format of the trace [default: guessed].
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    /// Block size of a trace that does not state its own [default: 512B].
    #[serde(skip_serializing_if = "Option::is_none")]
    block_size: Option<ByteSize>,
    /// Options of the format of the trace.
    #[serde(default)]
    format_options: BTreeMap<String, String>,
    /// Trace whose interarrival times a synthetic workload with `process = "shaped"` takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<String>,
}

const fn one_thread() -> u32 {
    1
}

/// Options of a command that take the place of keys of a plan.
#[derive(Debug, Clone, Default)]
pub struct PlanOverrides {
    /// Seed.
    pub seed: Option<Seed>,
    /// Runs of all phases.
    pub repetitions: Option<u64>,
    /// Length of an interval of the figures over time.
    pub interval: Option<Duration>,
    /// Trade of processor time for exact arrivals.
    pub pacing: Option<Pacing>,
    /// Target of all streams, none of which may then name its own. `target` and `targets` of the plan are left aside.
    pub target: Option<TargetChoice>,
}

/// Reads the plan at `path`. Files that it names are looked for beside it.
///
/// # Errors
/// A file that cannot be read, and whatever is wrong in it: file, line and key, value, what is allowed.
pub fn read(path: &Path, overrides: &PlanOverrides) -> Result<BenchOptions, Failure> {
    let label = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::from(error).context(format!("{label}: cannot be read")))?;
    let reading = Reading { label: &label, text: &text, folder: path.parent().unwrap_or(Path::new("")) };
    reading.plan(overrides, vec![path.to_owned()])
}

/// Reads a plan that is no file, such as one that is being written. Errors call it `label`, and files that it names are
/// looked for in `folder`.
///
/// # Errors
/// As those of [`read`]. [`Failure::line`] has the line.
pub fn read_text(
    label: &str,
    text: &str,
    folder: &Path,
    overrides: &PlanOverrides,
) -> Result<BenchOptions, Failure> {
    Reading { label, text, folder }.plan(overrides, Vec::new())
}

/// A plan that is being read.
struct Reading<'a> {
    label: &'a str,
    text: &'a str,
    folder: &'a Path,
}

impl Reading<'_> {
    fn place(&self, error: DescriptionError) -> Failure {
        error.located(self.text).within(self.label).into()
    }

    /// The failure with the line of `key`, which it is about.
    fn at(&self, key: &str, failure: Failure) -> Failure {
        let failure = failure.with_keys();
        match description::line_of(self.text, key) {
            Some(line) => failure.context(format!("{}, line {line}", self.label)).at_line(Some(line)),
            None => failure.context(self.label),
        }
    }

    fn plan(&self, overrides: &PlanOverrides, inputs: Vec<PathBuf>) -> Result<BenchOptions, Failure> {
        let read = || -> Result<PlanFile, DescriptionError> {
            let file: PlanFile = description::read(&description::parse(self.text)?)?;
            check_ranges(&file)?;
            check_interval("interval", file.interval)?;
            Ok(file)
        };
        let file = read().map_err(|error| self.place(error))?;
        let mut targets = Targets { is_given: overrides.target.is_some(), ..Targets::default() };
        let target = match &overrides.target {
            Some(choice) => {
                targets.add(choice.address.clone(), choice.clone());
                Some(choice.address.clone())
            }
            None => {
                for (name, table) in file.targets {
                    let choice = table.choice(self.folder);
                    let choice =
                        choice.map_err(|error| self.place(error.under(&format!("targets.{name}"))))?;
                    targets.add(name, choice);
                }
                file.target
            }
        };
        let interval = overrides.interval.unwrap_or(file.interval);
        if file.counters.is_some_and(|length| length < INTERVALS[0]) {
            let error = DescriptionError::invalid("counters", "a sample is too short");
            return Err(self.place(error.hint(format!("write at least \"{}\"", INTERVALS[0]))));
        }
        let mut watch = Vec::new();
        for (index, text) in file.watch.iter().enumerate() {
            let error = |problem: String| DescriptionError::invalid(format!("watch[{index}]"), problem);
            watch.push(text.parse::<Watch>().map_err(|problem| self.place(error(problem)))?);
        }
        let counters = (file.counters.is_some() || !watch.is_empty())
            .then(|| CounterOptions { interval: file.counters.unwrap_or(Duration::from_s(1)), watch });
        let verification = file.verify.then_some(VerificationOptions { ram: file.ram, state: None });
        if file.ram.is_some() && !file.verify {
            let error = DescriptionError::invalid("ram", "is the memory for `verify`, which is not set");
            return Err(self.place(error.hint("write verify = true, or remove the key")));
        }
        let phase_count = file.phases.len();
        let (mut phases, mut find_rate) = (Vec::new(), None);
        for (index, mut table) in file.phases.into_iter().enumerate() {
            let key = format!("phases[{index}]");
            let (streams_key, streams) = match std::mem::take(&mut table.streams) {
                own if own.is_empty() => ("streams".to_owned(), file.streams.clone()),
                own => (format!("{key}.streams"), own),
            };
            if streams.is_empty() {
                let error = DescriptionError::new(Mistake::Missing, key, "has no streams");
                return Err(self
                    .place(error.hint("write [[phases.streams]] below it, or [[streams]] for all phases")));
            }
            let mut read = Vec::new();
            for (number, stream) in streams.into_iter().enumerate() {
                let key = format!("{streams_key}[{number}]");
                if stream.read_back && verification.is_none() {
                    let key = format!("{key}.read_back");
                    let error = DescriptionError::invalid(key, "goes with `verify`, which is not set");
                    return Err(self.place(error.hint("write verify = true, or remove the key")));
                }
                read.push(self.stream(stream, &key, number, &table, target.as_deref(), &mut targets)?);
            }
            check_names(&streams_key, "stream", read.iter().map(|stream| stream.name.as_str()))
                .map_err(|error| self.place(error))?;
            let (rates, bound) = (std::mem::take(&mut table.rates), table.find_rate.take());
            let is_named = table.name.is_some();
            let phase = phase(table, index, read, interval).map_err(|error| self.place(error.under(&key)))?;
            if let Some(bound) = bound {
                let at = format!("{key}.find_rate");
                let error = |problem: String| self.place(DescriptionError::invalid(at.as_str(), problem));
                if !rates.is_empty() {
                    return Err(error("stands beside `rates`".to_owned()).hint("remove one of them"));
                }
                if phase_count > 1 {
                    let problem = format!("is for a plan of one phase, and this one has {phase_count}");
                    return Err(error(problem).hint(
                        "write a plan of this phase alone, and measure the others by a plan of their own before or behind it",
                    ));
                }
                let is_repeated = overrides.repetitions.unwrap_or(file.repetitions) > 1;
                if is_repeated {
                    return Err(error("a search is not repeated".to_owned())
                        .hint("remove `repetitions`, and repeat a plan at the rate that is found"));
                }
                find_rate = Some(bound.parse::<Bound>().map_err(error)?);
                rates::rate_of(&phase).map_err(|failure| self.at(&at, failure.context(&at)))?;
            }
            if rates.is_empty() {
                phases.push(phase);
                continue;
            }
            let at = format!("{key}.rates");
            let read = |(number, text): (usize, &String)| {
                text.parse::<OfferedRate>().map_err(|problem| {
                    self.place(DescriptionError::invalid(format!("{at}[{number}]"), problem))
                })
            };
            let rates = rates.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
            let prefix = (is_named || phase_count > 1).then(|| phase.name.clone());
            let curve = rates::curve(&phase, &rates, prefix.as_deref());
            phases.extend(curve.map_err(|failure| self.at(&at, failure.context(&at)))?);
        }
        check_names("phases", "phase", phases.iter().map(|phase: &PhaseOptions| phase.name.as_str()))
            .map_err(|error| self.place(error))?;
        if let Some(name) = targets.unused() {
            let error = DescriptionError::invalid(format!("targets.{name}"), "no stream names it");
            return Err(
                self.place(error.hint(format!("write target = \"{name}\" in a stream, or remove the table")))
            );
        }
        Ok(BenchOptions {
            title: file.title,
            targets: targets.choices,
            phases,
            repetitions: overrides.repetitions.unwrap_or(file.repetitions),
            find_rate,
            verification,
            seed: overrides.seed.unwrap_or(Seed(file.seed)),
            pacing: overrides.pacing.unwrap_or(match file.pacing {
                PacingName::Exact => Pacing::Exact,
                PacingName::Balanced => Pacing::Balanced,
                PacingName::Frugal => Pacing::Frugal,
            }),
            counters,
            inputs,
            is_plan: true,
            ..BenchOptions::default()
        })
    }

    fn stream(
        &self,
        table: StreamTable,
        key: &str,
        number: usize,
        phase: &PhaseTable,
        target: Option<&str>,
        targets: &mut Targets,
    ) -> Result<StreamOptions, Failure> {
        let wrong = |name: &str, problem: &str, hint: &str| {
            let error = DescriptionError::invalid(format!("{key}.{name}"), problem);
            self.place(error.hint(hint))
        };
        if let Some(own) = table.target.as_deref().filter(|_| targets.is_given) {
            let problem = format!("names `{own}`, but all streams of this plan go to another target");
            return Err(wrong("target", &problem, "leave it out, so that the stream goes to any target"));
        }
        let Some(target) = table.target.as_deref().or(target) else {
            let error = DescriptionError::new(Mistake::Missing, format!("{key}.target"), "is missing");
            return Err(self.place(
                error.hint("name a target here, or `target` for all streams at the begin of the plan"),
            ));
        };
        if table.retries == 0 && !table.retry_after.is_zero() {
            return Err(wrong("retry_after", "there are no retries", "write for example `retries = 3`"));
        }
        if table.retry_after > Retries::AFTER_MAX {
            let problem = format!("at most \"{}\" is allowed", Retries::AFTER_MAX);
            return Err(wrong("retry_after", &problem, "write for example \"10ms\""));
        }
        let at = format!("{key}.workload");
        let located = |failure: Failure| self.at(&at, failure);
        let (name, spec) = match table.workload {
            Entry::Text(text) => {
                let spec = describe(&text, self.folder, &at).map_err(located)?;
                (text, spec)
            }
            Entry::Table(description) => {
                let named = |key: &str| description.get(key).and_then(toml::Value::as_str).map(str::to_owned);
                let name = named("preset").or_else(|| named("kind")).unwrap_or_else(|| "workload".to_owned());
                let spec =
                    WorkloadSpec::from_table(description).map_err(|error| self.place(error.under(&at)))?;
                (name, relative_to(spec, Some(self.folder)))
            }
        };
        if table.requests.is_some() && phase.until.is_some() {
            return Err(wrong(
                "requests",
                "stands in a phase with `until`, which ends in its steady state",
                "remove one of them",
            ));
        }
        let requests = [table.requests, phase.requests].into_iter().flatten().min();
        let settings = table.format_options.into_iter().map(|(name, value)| Setting { name, value });
        let options = WorkloadOptions {
            requests,
            retries: Retries { count: table.retries, after: table.retry_after },
            format: table.format,
            block_size: table.block_size,
            settings: settings.collect(),
            shape: table.shape.map(|shape| self.folder.join(shape)),
            ..WorkloadOptions::default()
        };
        Ok(StreamOptions {
            name: table.name.unwrap_or_else(|| (number + 1).to_string()),
            target: targets.find(target),
            workload: StreamLoad::Workload(Box::new(from_spec(&name, spec, &options).map_err(located)?)),
            is_counted: requests.is_some(),
            outstanding_max: table.outstanding_max,
            late: match table.late {
                LateName::Queue => Late::Queue,
                LateName::Drop => Late::Drop,
            },
            timeout: table.timeout,
            batch: table.batch,
            threads: table.threads,
            data: table.data,
            priority: table.priority,
            read_back: table.read_back,
        })
    }
}

/// The phase of a table.
fn phase(
    table: PhaseTable,
    index: usize,
    streams: Vec<StreamOptions>,
    interval: Duration,
) -> Result<PhaseOptions, DescriptionError> {
    let together = |key: &str, other: &str| {
        DescriptionError::invalid(key, format!("stands beside `{other}`")).hint("remove one of them")
    };
    let steady = match table.until {
        Some(Until::Steady) => {
            if table.duration.is_some() {
                return Err(together("duration", "until"));
            }
            if table.requests.is_some() {
                return Err(together("requests", "until"));
            }
            let round = table.round.unwrap_or(interval);
            check_interval("round", round)?;
            if round.is_zero() {
                return Err(DescriptionError::invalid("round", "a round has a length")
                    .hint("write for example \"60s\""));
            }
            Some(SteadyRule {
                figure: match table.figure {
                    None | Some(FigureName::RequestsPerSecond) => SteadyFigure::RequestsPerSecond,
                    Some(FigureName::MibPerSecond) => SteadyFigure::MibPerSecond,
                    Some(FigureName::ResponseMeanMs) => SteadyFigure::ResponseMeanMs,
                },
                round,
                rounds_max: table.rounds_max.unwrap_or(25),
                hold: table.hold.unwrap_or(0),
            })
        }
        None => {
            let given = [
                ("round", table.round.is_some()),
                ("rounds_max", table.rounds_max.is_some()),
                ("hold", table.hold.is_some()),
                ("figure", table.figure.is_some()),
            ];
            if let Some((key, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
                return Err(DescriptionError::invalid(key, "is for a phase that ends in its steady state")
                    .hint("write until = \"steady\""));
            }
            None
        }
    };
    let ramp = match (table.ramp, table.ramp_requests) {
        (Some(_), Some(_)) => return Err(together("ramp_requests", "ramp")),
        (Some(time), None) if !time.is_zero() => Ramp::Time(time),
        (None, Some(requests)) => Ramp::Requests(requests),
        _ => Ramp::None,
    };
    let name = table.name.unwrap_or_else(|| (index + 1).to_string());
    Ok(PhaseOptions { name, duration: table.duration, steady, ramp, interval, streams })
}

fn check_interval(key: &str, time: Duration) -> Result<(), DescriptionError> {
    let [min, max] = INTERVALS;
    if time.is_zero() || (min..=max).contains(&time) {
        return Ok(());
    }
    Err(DescriptionError::refused(key, format!("{time} is out of range"), format!("0s and {min} to {max}")))
}

/// Refuses two phases or streams of one name.
fn check_names<'a>(
    key: &str,
    what: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), DescriptionError> {
    let names: Vec<&str> = names.collect();
    match names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        None => Ok(()),
        Some((index, name)) => {
            let problem = format!("another {what} has the name `{name}`");
            Err(DescriptionError::invalid(format!("{key}[{index}].name"), problem).hint("write another name"))
        }
    }
}

impl TargetTable {
    /// The target, whose file of faults is looked for in `folder`.
    ///
    /// # Errors
    /// A fault that is none, or a depth without a scheduler.
    pub(crate) fn choice(self, folder: &Path) -> Result<TargetChoice, DescriptionError> {
        let Self {
            address,
            set,
            bare,
            scheduler,
            depth,
            fault,
            faults,
            buffered,
            poll,
            create,
            serial,
            capacity,
        } = self;
        if depth.is_some() && scheduler.is_none() {
            return Err(DescriptionError::invalid(
                "depth",
                "is of the queue of a scheduler, and there is none",
            )
            .hint("write for example scheduler = \"fcfs\""));
        }
        for (index, line) in fault.iter().enumerate() {
            FaultParameters::from_line(line).map_err(|error| error.under(&format!("fault[{index}]")))?;
        }
        let setup = Setup {
            bare,
            overrides: set.into_iter().map(|(key, value)| format!("{key}={value}")).collect(),
            faults: Faults { file: faults.map(|file| folder.join(file)), lines: fault },
            queue: scheduler.map(|scheduler| (scheduler, depth.unwrap_or(1) as usize)),
        };
        let polling = Polling {
            submission: poll.contains(&PollName::Submission),
            completion: poll.contains(&PollName::Completion),
        };
        let expected = ExpectedDevice { serial, capacity };
        Ok(TargetChoice { address, setup, buffered, drops_pages: false, polling, create, expected })
    }
}

/// The targets of a plan: those of its tables, and those that streams name by address.
#[derive(Default)]
struct Targets {
    names: Vec<String>,
    choices: Vec<TargetChoice>,
    is_used: Vec<bool>,
    /// There is one target for all streams.
    is_given: bool,
}

impl Targets {
    fn add(&mut self, name: String, choice: TargetChoice) {
        self.names.push(name);
        self.choices.push(choice);
        self.is_used.push(false);
    }

    /// Place of a target by its name or address.
    fn find(&mut self, name: &str) -> usize {
        let place = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.add(name.to_owned(), TargetChoice::at(name));
            self.names.len() - 1
        });
        self.is_used[place] = true;
        place
    }

    fn unused(&self) -> Option<&str> {
        self.names.iter().zip(&self.is_used).find_map(|(name, is_used)| (!is_used).then_some(name.as_str()))
    }
}

/// The JSON schema of a plan, for editors.
pub fn document() -> Value {
    let mut schema = schema_of::<PlanFile>();
    schema["title"] = "A plan of measurements".into();
    schema
}

/// The page `docs/reference/plans.md`: every key of a plan, in Markdown.
pub fn page() -> String {
    let mut text = "# Keys of a plan of measurements\n\n\
                    Generated by `seeklab bench --reference`; do not edit. A plan is a TOML file for `seeklab bench`. Only \
                    `phases` is required, and each phase has streams, its own or those of the plan. Paths are relative to \
                    the file, those of targets to the current directory. `[]` stands for each entry of a list of tables.\n"
        .to_owned();
    text += &reference_tables(&reference(&schema_of::<PlanFile>()));
    text += "\nA workload as a table is a [description of a workload](workloads.md).\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_messages_call_keys_are_keys_of_a_plan() {
        let page = page();
        for option in crate::failure::OPTIONS_WITH_KEYS {
            let key = crate::failure::key_of(option).unwrap();
            assert!(page.contains(&format!("{key}`")), "{option}: {key}");
        }
    }

    #[test]
    fn reference_page_of_plan_keys_is_current() {
        let page = page();
        let kept = include_str!("../../../../docs/reference/plans.md");
        assert!(kept == page, "write `seeklab bench --reference` to docs/reference/plans.md:\n{page}");
    }
}
