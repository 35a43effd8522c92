//! Contents of an experiment file.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use seeklab_core::description::schema::check_ranges;
use seeklab_core::names::near_matches;
use seeklab_core::{ByteSize, DescriptionError, Duration, Limits, Mistake, Seed, description};
use seeklab_devices::Description;
use seeklab_devices::scheduler::{SCHEDULERS, SchedulerSpec};
use seeklab_traces::Setting;
use seeklab_workloads::{Retries, WorkloadSpec};
use toml::{Table, Value};

use super::arrivals::Mode;
use super::file::{ExperimentFile, ParameterTable, RecordedOnTable, WORKLOAD_OPTIONS, WorkloadOptionsTable};
use super::targets::{self, NamedPlan, NamedTarget};
use super::values::Parameter;
use super::{figures, keys};
use crate::devices::Faults;
use crate::entry::Entry;
use crate::failure::Failure;
use crate::trace::STANDARD_INPUT;
use crate::workload::relative_to;
use crate::{devices, workload};

/// Bytes that an experiment file may have.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// An experiment, as its file describes it.
#[derive(Debug)]
pub(super) struct Spec {
    /// The file as it was named, for messages.
    pub label: String,
    /// The file's text.
    pub text: String,
    /// One line that names the experiment.
    pub title: String,
    /// Root seed of repetition 0.
    pub seed: Seed,
    /// Runs of each cell.
    pub repetitions: u64,
    /// Path of the results, without suffix.
    pub output: PathBuf,
    pub(super) requests: Option<u64>,
    pub(super) bare: bool,
    /// Faults of every device.
    pub(super) faults: Faults,
    pub(super) limits: Limits,
    /// Devices that are simulated; none of an experiment that measures.
    pub(super) devices: Vec<NamedDevice>,
    /// Targets that are measured; none if each plan has its own.
    pub(super) targets: Vec<NamedTarget>,
    pub(super) workloads: Vec<NamedWorkload>,
    pub(super) plans: Vec<NamedPlan>,
    /// Time that counts of a measurement.
    pub(super) duration: Option<Duration>,
    /// Time of a measurement before it.
    pub(super) ramp: Option<Duration>,
    pub(super) schedulers: Vec<Option<SchedulerSpec>>,
    pub(super) depth: usize,
    pub(super) arrivals: Vec<Mode>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) figures: Vec<String>,
    pub(super) axis: Option<Axis>,
}

/// A device under the name that it has in the table.
#[derive(Debug)]
pub(super) struct NamedDevice {
    pub(super) name: String,
    pub(super) description: Description,
}

/// A workload under the name that it has in the table.
#[derive(Debug)]
pub(super) struct NamedWorkload {
    pub(super) name: String,
    pub(super) spec: WorkloadSpec,
    /// Configuration on which its requests are recorded, which are replayed in its place.
    pub(super) recorded_on: Option<RecordedOn>,
    pub(super) format: Option<String>,
    pub(super) block_size: Option<ByteSize>,
    pub(super) settings: Vec<Setting>,
    pub(super) shape: Option<PathBuf>,
    pub(super) retries: Retries,
}

/// A device and a scheduler on which requests are recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordedOn {
    /// Index of the device.
    pub(super) device: usize,
    pub(super) scheduler: Option<SchedulerSpec>,
    /// Arrival mode of the replay, in place of those of the experiment.
    pub(super) arrivals: Option<Mode>,
}

/// The axis of the charts.
#[derive(Debug)]
pub(super) struct Axis {
    /// Index of the parameter.
    pub(super) parameter: usize,
    /// Its name with unit.
    pub(super) label: String,
    /// Position of each of its values.
    pub(super) places: Vec<f64>,
}

impl Spec {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// A file that cannot be read, and whatever is wrong in it: file and key, value, what is allowed.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        Self::parse(path, text_of(path)?)
    }

    /// Returns true if targets are measured, false if devices are simulated.
    pub(super) fn is_measured(&self) -> bool {
        self.devices.is_empty()
    }

    /// Returns the number of values in each dimension that every experiment has.
    pub(super) fn sizes(&self) -> [usize; 4] {
        // Plans with targets of their own stand for one.
        let places = if self.is_measured() { self.targets.len().max(1) } else { self.devices.len() };
        let loads = self.workloads.len() + self.plans.len();
        [places, loads, self.schedulers.len(), self.arrivals.len()]
    }

    /// Reads an experiment from the text of the file at `path`, beside which its files are looked for. Those of standard
    /// input are looked for in the current directory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(super) fn parse(path: &Path, text: String) -> Result<Self, Failure> {
        let label = path.display().to_string();
        let named = if path == Path::new(STANDARD_INPUT) { Path::new("experiment") } else { path };
        let folder = named.parent().unwrap_or(Path::new("")).to_owned();
        let stem = named.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let source = Source { label: &label, text: &text };
        let read = || -> Result<ExperimentFile, DescriptionError> {
            let file: ExperimentFile = description::read(&description::parse(&text)?)?;
            check_ranges(&file)?;
            keys::check(&file)?;
            Ok(file)
        };
        let file = read().map_err(|error| source.place(error))?;
        let targets = targets::read(file.targets.as_deref().unwrap_or_default(), &source, &folder)?;
        keys::check_models(&file, &targets).map_err(|error| source.place(error))?;
        let devices = read_devices(file.devices.unwrap_or_default(), &source, &folder)?;
        let mut workloads = read_workloads(file.workloads.unwrap_or_default(), &source, &folder, &devices)?;
        let plans = targets::read_plans(file.plans.unwrap_or_default(), &targets, &source, &folder)?;
        let is_measured = devices.is_empty();
        if file.arrivals.is_some()
            && let Some(index) = workloads
                .iter()
                .position(|workload| workload.recorded_on.is_some_and(|on| on.arrivals.is_some()))
        {
            let key = format!("workloads[{index}].recorded_on.arrivals");
            let error = DescriptionError::invalid(key, "stands beside `arrivals` of the experiment");
            return Err(source.place(error.hint("write it for each recorded workload, or for all workloads")));
        }
        if let Some(requests) = file.requests {
            workloads.iter_mut().for_each(|workload| workload.spec.limit_requests(requests));
        }
        if file.depth.is_some() && file.schedulers.is_none() {
            let error = DescriptionError::invalid("depth", "is for a host's queue");
            return Err(source.place(error.hint("name `schedulers`, too")));
        }
        let limits = file.max_outstanding.map_or_else(Limits::default, |outstanding_max| Limits {
            outstanding_max: outstanding_max as usize,
        });
        let read_lists = || -> Result<_, DescriptionError> {
            let schedulers = distinct("schedulers", file.schedulers, read_scheduler)?;
            let arrivals = distinct("arrivals", file.arrivals, Mode::parse)?;
            let names = if is_measured { figures::of_bench(&plans) } else { figures::of_simulation() };
            let figures = distinct("figures", file.figures, |name: &str| names.check(name))?;
            let parameters = read_parameters(file.parameters)?;
            let axis = read_axis(file.x.as_deref(), &parameters)?;
            Ok((schedulers, arrivals, figures, parameters, axis))
        };
        let (schedulers, arrivals, figures, parameters, axis) =
            read_lists().map_err(|error| source.place(error))?;
        let output = folder.join(file.output.as_deref().unwrap_or(&stem));
        Ok(Self {
            label: label.clone(),
            title: file.title.unwrap_or(stem),
            seed: Seed(file.seed),
            repetitions: file.repetitions,
            output,
            requests: file.requests,
            bare: file.bare,
            faults: Faults::default(),
            limits,
            devices,
            targets,
            workloads,
            plans,
            duration: file.duration,
            ramp: file.ramp,
            schedulers: schedulers.unwrap_or_else(|| vec![None]),
            depth: file.depth.unwrap_or(1) as usize,
            arrivals: arrivals.unwrap_or_else(|| vec![Mode(None)]),
            parameters,
            figures: figures.unwrap_or_else(|| figures::usual(is_measured).map(str::to_owned).to_vec()),
            axis,
            text,
        })
    }
}

/// Reads the text of the file at `path`.
///
/// # Errors
/// A file that cannot be read, or is too long.
pub(super) fn text_of(path: &Path) -> Result<String, Failure> {
    let label = path.display();
    let unreadable = |error: std::io::Error| Failure::from(error).context(format!("{label}: cannot be read"));
    let mut text = String::new();
    let mut file = File::open(path).map_err(unreadable)?.take(FILE_BYTES_MAX + 1);
    file.read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let problem = format!("{label}: has more than {FILE_BYTES_MAX} bytes, the most of an experiment");
        return Err(Failure::new(problem));
    }
    Ok(text)
}

/// The file, for messages.
pub(super) struct Source<'a> {
    label: &'a str,
    text: &'a str,
}

impl Source<'_> {
    /// Names file and line of a mistake.
    pub(super) fn place(&self, error: DescriptionError) -> Failure {
        error.located(self.text).within(self.label).into()
    }

    /// File and line of a key.
    pub(super) fn at(&self, key: &str) -> String {
        match description::line_of(self.text, key) {
            Some(line) => format!("{}, line {line}", self.label),
            None => self.label.to_owned(),
        }
    }

    /// Refuses a name that another entry of the list has.
    pub(super) fn twice(&self, key: &str, name: &str) -> Failure {
        self.place(
            DescriptionError::invalid(key, format!("`{name}` is there twice")).hint("remove one of them"),
        )
    }
}

/// The texts of a list, which differ, each read by `read`; an error of `read` is a problem and a hint.
fn distinct<T>(
    key: &str,
    texts: Option<Vec<String>>,
    read: impl Fn(&str) -> Result<T, (String, String)>,
) -> Result<Option<Vec<T>>, DescriptionError> {
    let Some(texts) = texts else { return Ok(None) };
    let mut items = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let wrong = |problem: String| DescriptionError::invalid(format!("{key}[{index}]"), problem);
        if texts[..index].contains(text) {
            return Err(wrong(format!("`{text}` is there twice")).hint("remove one of them"));
        }
        items.push(read(text).map_err(|(problem, hint)| match hint.as_str() {
            "" => wrong(problem),
            hint => wrong(problem).hint(hint),
        })?);
    }
    Ok(Some(items))
}

fn read_scheduler(text: &str) -> Result<Option<SchedulerSpec>, (String, String)> {
    if text == "none" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|problem| {
        let names: Vec<&str> = SCHEDULERS.iter().map(|kind| kind.name).collect();
        (problem, format!("allowed: none, {}; -cylinder orders by cylinder", names.join(", ")))
    })
}

fn read_devices(entries: Vec<Entry>, source: &Source, folder: &Path) -> Result<Vec<NamedDevice>, Failure> {
    let mut devices: Vec<NamedDevice> = Vec::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let key = format!("devices[{index}]");
        let device = match entry {
            Entry::Text(name) => {
                let file = if name.ends_with(".toml") {
                    folder.join(&name).to_string_lossy().into_owned()
                } else {
                    name.clone()
                };
                let description = devices::describe(&file)
                    .map_err(|failure| failure.context(format!("{}: {key}", source.at(&key))))?;
                NamedDevice { name, description }
            }
            Entry::Table(mut table) => {
                let Some(Value::String(name)) = table.remove("name") else {
                    let error = DescriptionError::new(Mistake::Missing, key, "has no `name`");
                    return Err(source.place(error.hint("write { name = \"fast\", base = \"atlas10k\", … }")));
                };
                let description = Description::from_table(&name, "", table)
                    .map_err(|error| source.place(error.under(&key)))?;
                NamedDevice { name, description }
            }
        };
        if devices.iter().any(|other| other.name == device.name) {
            return Err(source.twice(&key, &device.name));
        }
        devices.push(device);
    }
    Ok(devices)
}

fn read_workloads(
    entries: Vec<Entry>,
    source: &Source,
    folder: &Path,
    devices: &[NamedDevice],
) -> Result<Vec<NamedWorkload>, Failure> {
    let mut workloads: Vec<NamedWorkload> = Vec::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let key = format!("workloads[{index}]");
        let workload = match entry {
            Entry::Text(name) => {
                let spec = workload::describe(&name, folder, &key)
                    .map_err(|failure| failure.context(source.at(&key)))?;
                NamedWorkload {
                    name,
                    spec,
                    recorded_on: None,
                    format: None,
                    block_size: None,
                    settings: Vec::new(),
                    shape: None,
                    retries: Retries::default(),
                }
            }
            Entry::Table(mut table) => {
                let named = read_named_workload(&mut table, folder, &key)
                    .map_err(|failure| failure.context(source.at(&key)))?;
                read_workload(table, named, index, folder, devices)
                    .map_err(|error| source.place(error.under(&key)))?
            }
        };
        if workloads.iter().any(|other| other.name == workload.name) {
            return Err(source.twice(&key, &workload.name));
        }
        workloads.push(workload);
    }
    Ok(workloads)
}

/// Takes the workload out that a table names by its key `workload`, with that text.
fn read_named_workload(
    table: &mut Table,
    folder: &Path,
    key: &str,
) -> Result<Option<(String, WorkloadSpec)>, Failure> {
    match table.remove("workload") {
        Some(Value::String(text)) => {
            let spec = workload::describe(&text, folder, &format!("{key}.workload"))?;
            Ok(Some((text, spec)))
        }
        other => {
            table.extend(other.map(|value| ("workload".to_owned(), value)));
            Ok(None)
        }
    }
}

/// Reads a workload's table. `named` is the workload that it names instead of describing one.
fn read_workload(
    mut table: Table,
    named: Option<(String, WorkloadSpec)>,
    index: usize,
    folder: &Path,
    devices: &[NamedDevice],
) -> Result<NamedWorkload, DescriptionError> {
    let beside = WORKLOAD_OPTIONS.into_iter().filter_map(|key| Some((key.to_owned(), table.remove(key)?)));
    let options: WorkloadOptionsTable = description::read(&beside.collect())?;
    if options.retries == 0 && !options.retry_after.is_zero() {
        return Err(DescriptionError::invalid("retry_after", "there are no retries")
            .hint("write for example `retries = 3`"));
    }
    if options.retry_after > Retries::AFTER_MAX {
        let problem = format!("at most \"{}\" is allowed", Retries::AFTER_MAX);
        return Err(DescriptionError::invalid("retry_after", problem));
    }
    let kind = ["preset", "kind"].into_iter().find_map(|key| table.get(key)?.as_str()).unwrap_or("workload");
    let name = options.name.unwrap_or_else(|| match &named {
        Some((text, _)) => text.clone(),
        None => format!("{kind} {}", index + 1),
    });
    let spec = match named {
        None => relative_to(WorkloadSpec::from_table(table)?, Some(folder)),
        Some((text, spec)) => match table.keys().next() {
            None => spec,
            Some(key) => {
                let problem = format!("stands beside `workload = \"{text}\"`, which describes it");
                return Err(DescriptionError::invalid(key, problem).hint("remove one of them"));
            }
        },
    };
    let recorded_on = options.recorded_on.map(|on| read_recorded_on(on, &spec, devices)).transpose()?;
    let settings = options.format_options.into_iter().map(|(name, value)| Setting { name, value });
    Ok(NamedWorkload {
        name,
        spec,
        recorded_on,
        format: options.format,
        block_size: options.block_size,
        settings: settings.collect(),
        shape: options.shape.map(|shape| folder.join(shape)),
        retries: Retries { count: options.retries, after: options.retry_after },
    })
}

/// Reads the text of a key; an error of `read` is a problem and a hint.
fn read_under<T>(
    key: &str,
    text: &str,
    read: impl FnOnce(&str) -> Result<T, (String, String)>,
) -> Result<T, DescriptionError> {
    read(text).map_err(|(problem, hint)| DescriptionError::invalid(key, problem).hint(hint))
}

fn read_recorded_on(
    table: RecordedOnTable,
    spec: &WorkloadSpec,
    devices: &[NamedDevice],
) -> Result<RecordedOn, DescriptionError> {
    if devices.is_empty() {
        return Err(DescriptionError::invalid("recorded_on", "is for experiments with `devices`")
            .hint("record a trace with `seeklab simulate --out`, and name it among the workloads"));
    }
    if matches!(spec, WorkloadSpec::Replay(_)) {
        return Err(DescriptionError::invalid("recorded_on", "the workload is a trace already")
            .hint("name a host, an application or a synthetic workload"));
    }
    let device = devices.iter().position(|device| device.name == table.device).ok_or_else(|| {
        let names = devices.iter().map(|device| device.name.as_str());
        DescriptionError::unknown(Mistake::UnknownName, "device", &table.device, names)
            .under("recorded_on.device")
    })?;
    let scheduler = table.scheduler.map(|text| read_under("recorded_on.scheduler", &text, read_scheduler));
    let arrivals = table.arrivals.map(|text| read_under("recorded_on.arrivals", &text, Mode::parse));
    Ok(RecordedOn { device, scheduler: scheduler.transpose()?.flatten(), arrivals: arrivals.transpose()? })
}

fn read_parameters(tables: Vec<ParameterTable>) -> Result<Vec<Parameter>, DescriptionError> {
    let mut parameters: Vec<Parameter> = Vec::new();
    for (index, table) in tables.into_iter().enumerate() {
        let place = format!("parameters[{index}]");
        let parameter = Parameter::read(table).map_err(|error| error.under(&place))?;
        if parameters.iter().any(|other| other.name == parameter.name) {
            let problem = format!("`{}` is there twice", parameter.name);
            return Err(DescriptionError::invalid(format!("{place}.name"), problem)
                .hint("write all values in one list"));
        }
        parameters.push(parameter);
    }
    Ok(parameters)
}

/// Returns the requested axis [default: the last parameter that can be an axis].
fn read_axis(name: Option<&str>, parameters: &[Parameter]) -> Result<Option<Axis>, DescriptionError> {
    let axis = |index: usize| {
        let (label, places) = parameters[index].axis()?;
        Some(Axis { parameter: index, label, places })
    };
    let Some(name) = name else {
        return Ok((0..parameters.len()).rev().find_map(axis));
    };
    let index = parameters.iter().position(|parameter| parameter.name == name).ok_or_else(|| {
        let near = near_matches(name, parameters.iter().map(|parameter| parameter.name.as_str()));
        DescriptionError::invalid("x", format!("there is no parameter `{name}`{near}"))
            .hint("the axis is one of [[parameters]]")
    })?;
    axis(index).map(Some).ok_or_else(|| {
        DescriptionError::invalid("x", format!("the values of `{name}` are not numbers of one kind"))
            .hint("choose another parameter, or leave `x` out")
    })
}
