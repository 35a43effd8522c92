//! Workloads as named by users: a trace, a TOML file or a line, with the requested arrivals.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use seeklab_core::{ByteSize, Duration};
use seeklab_traces::schema::Column;
use seeklab_traces::{OpenTrace, ReadOptions, Setting};
use seeklab_workloads::application::{BuildSpec, DatabaseSpec, PostmarkSpec};
use seeklab_workloads::host::SystemSpec;
use seeklab_workloads::replay::{ArrivalMode, Beyond, Population, ReplaySpec};
use seeklab_workloads::synthetic::{ArrivalSpec, TimeDistribution};
use seeklab_workloads::{Retries, WorkloadSpec, registry};

use crate::failure::Failure;
use crate::fio_words::advice;
use crate::system::{SystemTrace, is_system_trace};
use crate::trace::STANDARD_INPUT;

/// Options beside the workload itself.
#[derive(Debug, Clone, Default)]
pub struct WorkloadOptions {
    /// Arrivals of requests [default: as the workload defines them].
    pub arrivals: Option<ArrivalMode>,
    /// Maximum number of requests.
    pub requests: Option<u64>,
    /// Attempts after a request failed.
    pub retries: Retries,
    /// Treatment of requests beyond the end of the device.
    pub beyond: Option<Beyond>,
    /// Part of a trace that is replayed.
    pub part: ReplayPart,
    /// Format of the trace; guessed if `None`.
    pub format: Option<String>,
    /// Block size of a trace that does not state its own.
    pub block_size: Option<ByteSize>,
    /// Options for properties that the format of the trace leaves open.
    pub settings: Vec<Setting>,
    /// The trace whose interarrival times a synthetic workload with `process = "shaped"` takes.
    pub shape: Option<PathBuf>,
    /// Settings of a host that override those of its description, such as `memory=40MiB,cpu_speed=2`.
    pub host: Option<String>,
    /// Process or program whose processes, with those that they start, are the task of a host.
    pub task: Option<String>,
    /// Require a system-level trace, whose processes run on a host.
    pub system: bool,
}

/// Part of a trace that is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayPart {
    /// Device of the trace whose requests are replayed [default: all].
    pub device: Option<u16>,
    /// Time in the trace at which the replay begins [default: its start].
    pub from: Option<Duration>,
    /// Replay only the requests that a fit takes: those with a completion time, of at least one block, that the recorder
    /// did not make itself.
    pub fitted_requests: bool,
    /// Requests arrive when the driver received them.
    pub at_issue: bool,
}

/// A workload, ready to be run.
#[derive(Debug, Clone)]
pub struct ResolvedWorkload {
    /// Name as given by the user.
    pub name: String,
    /// Specification of the workload.
    pub spec: WorkloadSpec,
    /// Format of the trace; guessed if `None`.
    pub format: Option<String>,
    /// Options for reading the trace.
    pub options: ReadOptions,
    /// The trace whose interarrival times a synthetic workload takes.
    pub shape: Option<PathBuf>,
    /// Attempts after a request failed.
    pub retries: Retries,
    /// Part of the trace that is replayed.
    pub part: ReplayPart,
    /// Reason why figures of it are void: the trace is incomplete.
    pub void: Option<String>,
}

/// The workload that `text` means: a file if there is one of that name, else a line.
///
/// # Errors
/// A file that cannot be read, a description that is wrong, arrivals that do not fit.
pub fn resolve_workload(text: &str, options: &WorkloadOptions) -> Result<ResolvedWorkload, Failure> {
    from_spec(text, describe(text, Path::new(""), "--workload")?, options)
}

/// The description of the workload that `text` means, its files looked for in `folder`; `key` is what
/// messages call the place where it was written.
///
/// # Errors
/// A file that cannot be read, a description that is wrong.
pub fn describe(text: &str, folder: &Path, key: &str) -> Result<WorkloadSpec, Failure> {
    let path = folder.join(text);
    if path.is_file() {
        if let Some(content) = description_in(&path)
            .map_err(|error| Failure::from(error).context(format!("{text}: cannot be read")))?
        {
            let spec = WorkloadSpec::from_toml(&content)
                .map_err(|error| Failure::from(error).context(text.to_owned()))?;
            let is_standard_input = path == Path::new(STANDARD_INPUT);
            return Ok(relative_to(spec, if is_standard_input { Some(folder) } else { path.parent() }));
        }
        let trace = Some(path.to_string_lossy().into_owned());
        return Ok(WorkloadSpec::Replay(ReplaySpec { trace, ..ReplaySpec::default() }));
    }
    if is_system_trace(&path) && !text.is_empty() {
        let trace = Some(path.to_string_lossy().into_owned());
        return Ok(WorkloadSpec::System(Box::new(SystemSpec { trace, ..SystemSpec::default() })));
    }
    // No folder but a system-level trace is a workload, so one with the name of a preset hides nothing.
    if path.is_dir() && !text.is_empty() && !registry::names().any(|name| name == text) {
        return Err(
            Failure::new(format!("{key} `{text}`: is a folder")).hint("name a trace or a TOML file in it")
        );
    }
    let looks_like_file = !text.contains(['=', ',']) && text.contains(['.', '/']);
    if looks_like_file {
        return Err(Failure::new(format!("{key} `{text}`: there is no such file"))
            .hint("name a trace, a TOML file, or write a line such as random,poisson=60/s"));
    }
    let spec = WorkloadSpec::parse(text).map_err(|error| {
        let names: Vec<&str> = registry::names().collect();
        let is_near = error.problem().contains("did you mean");
        let of_fio = unknown_word(error.problem()).and_then(advice);
        let failure = Failure::from(error).context(format!("{key} `{text}`"));
        if let Some(advice) = of_fio {
            return failure.hint(advice);
        }
        if is_near || registry::names().any(|name| text.starts_with(name)) || text.contains('=') {
            failure
        } else {
            failure.hint(format!("name a file, or begin a line with one of {}", names.join(", ")))
        }
    })?;
    Ok(relative_to(spec, Some(folder)))
}

/// The word that a problem names as unknown.
fn unknown_word(problem: &str) -> Option<&str> {
    let (_, named) =
        problem.split_once("unknown key `").or_else(|| problem.split_once("unknown workload `"))?;
    named.split('`').next()
}

/// Largest description that a file without suffix may hold.
const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;

/// Returns the text of a file that describes a workload: a file with the suffix `toml`, or standard input that holds a
/// table of TOML. `None` for a trace.
fn description_in(path: &Path) -> io::Result<Option<String>> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        return fs::read_to_string(path).map(Some);
    }
    if path != Path::new(STANDARD_INPUT) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(DESCRIPTION_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let is_whole = bytes.len() as u64 <= DESCRIPTION_BYTES_MAX;
    let text = String::from_utf8(bytes).ok().filter(|text| is_whole && text.parse::<toml::Table>().is_ok());
    Ok(text.filter(|text| !text.trim().is_empty()))
}

/// Returns the workload of a description, with the options applied.
///
/// # Errors
/// Arrivals that do not fit the kind of workload.
pub fn from_spec(
    name: &str,
    mut spec: WorkloadSpec,
    options: &WorkloadOptions,
) -> Result<ResolvedWorkload, Failure> {
    if let Some(requests) = options.requests {
        spec.limit_requests(requests);
    }
    if options.system && !matches!(spec, WorkloadSpec::System(_)) {
        return Err(Failure::new(format!("--system: `{name}` is no system-level trace"))
            .hint("record one with `seeklab capture --system DEVICE -o TRACE.sys -- COMMAND`"));
    }
    let mut void = None;
    if let WorkloadSpec::System(system) = &spec
        && options.arrivals.is_some()
    {
        (spec, void) = requests_of(name, system, options)?;
    }
    match &mut spec {
        WorkloadSpec::Synthetic(synthetic) => {
            if options.beyond.is_some() {
                return Err(Failure::new("--beyond: a synthetic workload never leaves the device"));
            }
            if options.format.is_some() && options.shape.is_none() {
                return Err(Failure::new("--format: a synthetic workload reads no trace"));
            }
            if !options.settings.is_empty() && options.shape.is_none() {
                return Err(Failure::new("--format-option: a synthetic workload reads no trace"));
            }
            if options.block_size.is_some() && options.shape.is_none() {
                return Err(Failure::new("--block-size: a synthetic workload reads no trace")
                    .hint("write the size of its requests in the workload, for example size=4KiB"));
            }
            match options.arrivals {
                Some(ArrivalMode::Open) if matches!(synthetic.arrivals, ArrivalSpec::Closed { .. }) => {
                    return Err(Failure::new(format!(
                        "--open: `{name}` is a closed load, whose requests have no arrival times"
                    ))
                    .hint(
                        "write open arrivals in the workload, for example poisson=120/s, or leave out --open",
                    ));
                }
                None | Some(ArrivalMode::Open) => {}
                Some(ArrivalMode::Closed(Population::Count(population))) => {
                    synthetic.arrivals = closed(&synthetic.arrivals, population)
                }
                Some(ArrivalMode::Closed(Population::Auto)) => {
                    return Err(Failure::new("--closed auto: is for traces with completion times")
                        .hint("give a number, for example --closed 8"));
                }
                Some(ArrivalMode::Scaled(_) | ArrivalMode::Think | ArrivalMode::Follow(_)) => {
                    return Err(Failure::new("--scaled, --think and --follow are for traces")
                        .hint("give the rate or the think time in the workload, for example poisson=120/s"));
                }
            }
        }
        WorkloadSpec::Replay(replay) => {
            if let Some(beyond) = options.beyond {
                replay.beyond = beyond;
            }
            if let Some(arrivals) = options.arrivals {
                replay.arrivals = arrivals;
            }
            replay.device = options.part.device.or(replay.device);
            replay.from = options.part.from.or(replay.from);
            if replay.trace.is_none() {
                return Err(Failure::new(format!("--workload `{name}`: names no trace"))
                    .hint("write for example replay,trace=server.csv"));
            }
        }
        WorkloadSpec::Host(host) => {
            host.task = options.task.clone().or(host.task.take());
            if let Some(settings) = &options.host {
                host.override_settings(settings)
                    .map_err(|error| Failure::from(error).context(format!("--host `{settings}`")))?;
            }
        }
        WorkloadSpec::System(system) => {
            if system.trace.is_none() {
                return Err(Failure::new(format!("--workload `{name}`: names no trace"))
                    .hint("write for example system,trace=db.sys"));
            }
            system.task = options.task.clone().or(system.task.take());
            if let Some(settings) = &options.host {
                system
                    .host
                    .override_with(settings)
                    .map_err(|error| Failure::from(error).context(format!("--host `{settings}`")))?;
            }
        }
        WorkloadSpec::Postmark(PostmarkSpec { host, .. })
        | WorkloadSpec::Build(BuildSpec { host, .. })
        | WorkloadSpec::Database(DatabaseSpec { host, .. }) => {
            if let Some(settings) = &options.host {
                host.override_with(settings)
                    .map_err(|error| Failure::from(error).context(format!("--host `{settings}`")))?;
            }
        }
        WorkloadSpec::Jobs(_) => {}
    }
    if options.part != ReplayPart::default() && !matches!(spec, WorkloadSpec::Replay(_)) {
        return Err(Failure::new(format!(
            "--replay-device, --replay-from, --fitted-requests and --times-from: `{name}` is no trace that is replayed"
        )));
    }
    let is_host = matches!(spec, WorkloadSpec::Host(_) | WorkloadSpec::System(_));
    let is_application = spec.builtin().is_some();
    if options.task.is_some() && !is_host {
        return Err(Failure::new(format!("--task: `{name}` has no processes")).hint(
            "name a file with `kind = \"host\"` or a system-level trace, without --open, --closed or --think",
        ));
    }
    if options.host.is_some() && !is_host && !is_application {
        return Err(Failure::new(format!("--host: `{name}` runs on no host")).hint(
            "name a file with `kind = \"host\"`, a system-level trace or an application, without --open, --closed or --think",
        ));
    }
    let is_shaped =
        matches!(&spec, WorkloadSpec::Synthetic(synthetic) if synthetic.arrivals == ArrivalSpec::Shaped);
    if let Some(shape) = options.shape.as_ref().filter(|_| !is_shaped) {
        return Err(Failure::new(format!(
            "--shape {}: `{name}` takes no interarrival times from a trace",
            shape.display()
        ))
        .hint("write arrivals.process=shaped in a synthetic workload, or leave out --shape"));
    }
    let is_jobs = matches!(spec, WorkloadSpec::Jobs(_));
    if is_application || is_host || is_jobs {
        let unusable = [
            (
                "--requests",
                options.requests.is_some(),
                if is_jobs {
                    "the number of requests follows from its jobs; jobs=2 makes that smaller"
                } else if is_host {
                    "the number of requests follows from its programs"
                } else {
                    "the number of requests follows from its work; scale=0.1 makes that smaller"
                },
            ),
            ("--beyond", options.beyond.is_some(), "it never leaves the device"),
            ("--format", options.format.is_some(), "it reads no trace"),
            ("--format-option", !options.settings.is_empty(), "it reads no trace"),
            (
                options.arrivals.map_or("", option_of),
                options.arrivals.is_some(),
                "its processes define the arrivals",
            ),
        ];
        if let Some((option, _, why)) = unusable.into_iter().find(|(_, is_given, _)| *is_given) {
            let what = match (is_jobs, is_host) {
                (true, _) => "a stream of jobs",
                (false, true) => "a host",
                (false, false) => "an application",
            };
            return Err(Failure::new(format!("{option}: `{name}` is {what}: {why}")));
        }
    }
    let settings = options.settings.clone();
    let reading = ReadOptions { block_size: options.block_size, settings, ..ReadOptions::default() };
    Ok(ResolvedWorkload {
        name: name.to_owned(),
        spec,
        format: options.format.clone(),
        options: reading,
        shape: options.shape.clone(),
        retries: options.retries,
        part: options.part,
        void,
    })
}

/// The disk requests of a system-level trace, for a replay with other arrivals than those of its processes; and the reason why
/// figures of that replay are void, if there is one.
fn requests_of(
    name: &str,
    system: &SystemSpec,
    options: &WorkloadOptions,
) -> Result<(WorkloadSpec, Option<String>), Failure> {
    let Some(folder) = &system.trace else {
        return Err(Failure::new(format!("--workload `{name}`: names no trace"))
            .hint("write for example system,trace=db.sys"));
    };
    let trace = SystemTrace::open(Path::new(folder))?;
    trace.check_tables()?;
    let gap = trace.metadata().events.gap();
    let replay = ReplaySpec {
        trace: Some(trace.requests().to_string_lossy().into_owned()),
        requests: options.requests,
        ..ReplaySpec::default()
    };
    let void = gap.map(|gap| format!("{gap}, so requests may be missing and the figures are void"));
    Ok((WorkloadSpec::Replay(replay), void))
}

/// The option that gives these arrivals.
const fn option_of(arrivals: ArrivalMode) -> &'static str {
    match arrivals {
        ArrivalMode::Open => "--open",
        ArrivalMode::Closed(_) => "--closed",
        ArrivalMode::Scaled(_) => "--scaled",
        ArrivalMode::Think => "--think",
        ArrivalMode::Follow(_) => "--follow",
    }
}

/// A closed population; think times of a closed workload are kept.
fn closed(arrivals: &ArrivalSpec, population: u32) -> ArrivalSpec {
    let (think, think_distribution) = match arrivals {
        ArrivalSpec::Closed { think, think_distribution, .. } => (*think, *think_distribution),
        _ => (Duration::ZERO, TimeDistribution::Constant),
    };
    ArrivalSpec::Closed { population, think, think_distribution }
}

/// A trace that a TOML file names is looked for beside that file.
pub(crate) fn relative_to(spec: WorkloadSpec, folder: Option<&Path>) -> WorkloadSpec {
    match (spec, folder) {
        (WorkloadSpec::Replay(mut replay), Some(folder)) => {
            replay.trace = replay.trace.map(|trace| folder.join(trace).to_string_lossy().into_owned());
            WorkloadSpec::Replay(replay)
        }
        (WorkloadSpec::System(mut system), Some(folder)) => {
            system.trace = system.trace.map(|trace| folder.join(trace).to_string_lossy().into_owned());
            WorkloadSpec::System(system)
        }
        (spec, _) => spec,
    }
}

impl ResolvedWorkload {
    /// Returns the number of requests, if known beforehand.
    pub const fn requests(&self) -> Option<u64> {
        match &self.spec {
            WorkloadSpec::Synthetic(spec) => Some(spec.requests),
            WorkloadSpec::Replay(spec) => spec.requests,
            _ => None,
        }
    }

    /// Returns true if processes run it on a host.
    pub(crate) fn has_processes(&self) -> bool {
        matches!(self.spec, WorkloadSpec::Host(_) | WorkloadSpec::System(_)) || self.spec.builtin().is_some()
    }

    /// The trace of a replay.
    pub fn trace(&self) -> Option<&str> {
        match &self.spec {
            WorkloadSpec::Replay(spec) => spec.trace.as_deref(),
            _ => None,
        }
    }

    /// Opens the trace of a replay for those columns; see [`ReadOptions::columns`].
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn open_trace(&self, columns: &'static [Column]) -> Result<OpenTrace, Failure> {
        match self.trace() {
            Some(trace) => {
                let options = ReadOptions { columns, ..self.options.clone() };
                let trace = seeklab_columnar::open(Path::new(trace), self.format.as_deref(), &options)?;
                Ok(if self.part.at_issue { trace.at_issue() } else { trace })
            }
            None => Err(Failure::new(format!("workload `{}` has no trace", self.name))),
        }
    }
}
