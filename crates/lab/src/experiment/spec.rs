//! Contents of an experiment file.

use std::path::{Path, PathBuf};

use seeklab_core::{ByteSize, Limits, Seed};
use seeklab_devices::Description;
use seeklab_devices::scheduler::{SCHEDULERS, SchedulerSpec};
use seeklab_traces::Setting;
use seeklab_workloads::WorkloadSpec;
use toml::{Table, Value};

use super::arrivals::Mode;
use super::figures;
use super::reader::Reader;
use super::values::{self, Parameter};
use crate::failure::Failure;
use crate::workload::relative_to;
use crate::{devices, workload};

/// Bytes that an experiment file may have.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Repetitions of a cell at most.
const REPETITIONS_MAX: u64 = 100_000;

const KEYS: [&str; 15] = [
    "title",
    "seed",
    "repetitions",
    "requests",
    "bare",
    "max_outstanding",
    "devices",
    "workloads",
    "schedulers",
    "depth",
    "arrivals",
    "figures",
    "parameters",
    "x",
    "output",
];

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
    pub(super) limits: Limits,
    pub(super) devices: Vec<NamedDevice>,
    pub(super) workloads: Vec<NamedWorkload>,
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
    pub(super) format: Option<String>,
    pub(super) block_size: Option<ByteSize>,
    pub(super) settings: Vec<Setting>,
    pub(super) shape: Option<PathBuf>,
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
        let label = path.display().to_string();
        let unreadable =
            |error: std::io::Error| Failure::from(error).context(format!("{label}: cannot be read"));
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_BYTES_MAX {
            let problem = format!("{label}: has {size} bytes, an experiment has at most {FILE_BYTES_MAX}");
            return Err(Failure::new(problem));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(path, text)
    }

    /// Reads an experiment from the text of the file at `path`, beside which its files are looked for.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(super) fn parse(path: &Path, text: String) -> Result<Self, Failure> {
        let label = path.display().to_string();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let stem =
            path.file_stem().map_or_else(|| "experiment".into(), |stem| stem.to_string_lossy().into_owned());
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            Failure::new(format!("{label}: {}", error.to_string().trim()))
        })?;
        let mut reader = Reader::new(&label, "", table, &KEYS)?;
        let title = reader.text("title")?.unwrap_or_else(|| stem.clone());
        let seed = Seed(reader.count("seed", 0..=i64::MAX as u64)?.unwrap_or(1));
        let repetitions = reader.count("repetitions", 1..=REPETITIONS_MAX)?.unwrap_or(1);
        let requests = reader.count("requests", 1..=i64::MAX as u64)?;
        let bare = reader.flag("bare")?.unwrap_or(false);
        let outstanding_max = reader.count("max_outstanding", 1..=u64::from(u32::MAX))?;
        let limits = outstanding_max.map_or_else(Limits::default, |outstanding_max| Limits {
            outstanding_max: outstanding_max as usize,
        });
        let devices = read_devices(&mut reader, &label, &folder)?;
        let mut workloads = read_workloads(&mut reader, &label, &folder)?;
        if let Some(requests) = requests {
            workloads.iter_mut().for_each(|workload| workload.spec.limit_requests(requests));
        }
        let schedulers = reader.texts("schedulers", read_scheduler)?;
        let depth = reader.count("depth", 1..=u64::from(u32::MAX))?;
        if depth.is_some() && schedulers.is_none() {
            return Err(reader.wrong("depth", "is for a host's queue").hint("name `schedulers`, too"));
        }
        let arrivals = reader.texts("arrivals", Mode::parse)?.unwrap_or_else(|| vec![Mode(None)]);
        let figures = reader
            .texts("figures", figures::check)?
            .unwrap_or_else(|| figures::USUAL.map(str::to_owned).to_vec());
        let parameters = read_parameters(&mut reader, &label)?;
        let axis = read_axis(&mut reader, &parameters)?;
        let output = folder.join(reader.text("output")?.unwrap_or(stem));
        Ok(Self {
            label: label.clone(),
            text,
            title,
            seed,
            repetitions,
            output,
            requests,
            bare,
            limits,
            devices,
            workloads,
            schedulers: schedulers.unwrap_or_else(|| vec![None]),
            depth: depth.unwrap_or(1) as usize,
            arrivals,
            parameters,
            figures,
            axis,
        })
    }
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

fn read_devices(reader: &mut Reader, label: &str, folder: &Path) -> Result<Vec<NamedDevice>, Failure> {
    let mut devices: Vec<NamedDevice> = Vec::new();
    for (index, value) in reader.needed_list("devices", "[\"atlas10k\"]")?.into_iter().enumerate() {
        let key = format!("devices[{index}]");
        let device = match value {
            Value::String(name) => {
                let file = if name.ends_with(".toml") {
                    folder.join(&name).to_string_lossy().into_owned()
                } else {
                    name.clone()
                };
                let description =
                    devices::describe(&file).map_err(|failure| failure.context(format!("{label}: {key}")))?;
                NamedDevice { name, description }
            }
            Value::Table(mut table) => {
                let Some(Value::String(name)) = table.remove("name") else {
                    return Err(reader
                        .wrong(&key, "has no `name`")
                        .hint("write { name = \"fast\", base = \"atlas10k\", … }"));
                };
                let text = toml::to_string(&table).expect("what was read can be written");
                let description = Description::parse(&name, &format!("{label}: {key}"), &text)?;
                NamedDevice { name, description }
            }
            other => {
                return Err(reader
                    .wrong(&key, format_args!("{other} is not a device"))
                    .hint("name one of the catalog, a TOML file, or write a table"));
            }
        };
        if devices.iter().any(|other| other.name == device.name) {
            return Err(reader
                .wrong(&key, format_args!("`{}` is there twice", device.name))
                .hint("remove one of them"));
        }
        devices.push(device);
    }
    Ok(devices)
}

fn read_workloads(reader: &mut Reader, label: &str, folder: &Path) -> Result<Vec<NamedWorkload>, Failure> {
    let mut workloads: Vec<NamedWorkload> = Vec::new();
    for (index, value) in
        reader.needed_list("workloads", "[\"random,poisson=60/s\"]")?.into_iter().enumerate()
    {
        let key = format!("workloads[{index}]");
        let workload = match value {
            Value::String(name) => {
                let spec =
                    workload::describe(&name, folder, &key).map_err(|failure| failure.context(label))?;
                NamedWorkload {
                    name,
                    spec,
                    format: None,
                    block_size: None,
                    settings: Vec::new(),
                    shape: None,
                }
            }
            Value::Table(table) => read_workload(reader, table, index, label, folder)?,
            other => {
                return Err(reader
                    .wrong(&key, format_args!("{other} is not a workload"))
                    .hint("name a file, write a line such as \"random,poisson=60/s\", or a table"));
            }
        };
        if workloads.iter().any(|other| other.name == workload.name) {
            return Err(reader
                .wrong(&key, format_args!("`{}` is there twice", workload.name))
                .hint("remove one of them"));
        }
        workloads.push(workload);
    }
    Ok(workloads)
}

fn read_workload(
    reader: &Reader,
    mut table: Table,
    index: usize,
    label: &str,
    folder: &Path,
) -> Result<NamedWorkload, Failure> {
    let mut text = |key: &str| match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(reader
            .wrong(&format!("workloads[{index}].{key}"), format_args!("{other} is not text"))
            .hint("write it in quotes")),
    };
    let (name, format, shape) = (text("name")?, text("format")?, text("shape")?);
    let block_size = text("block_size")?
        .map(|size| {
            size.parse::<ByteSize>().map_err(|error| {
                reader
                    .wrong(
                        &format!("workloads[{index}].block_size"),
                        format_args!("\"{size}\" {}", error.problem),
                    )
                    .hint(error.hint)
            })
        })
        .transpose()?;
    let settings = format_options(reader, table.remove("format_options"), index)?;
    let kind = ["preset", "kind"].into_iter().find_map(|key| table.get(key)?.as_str()).unwrap_or("workload");
    let name = name.unwrap_or_else(|| format!("{kind} {}", index + 1));
    let spec = WorkloadSpec::from_table(table)
        .map_err(|error| Failure::from(error).context(format!("{label}: workloads[{index}]")))?;
    let spec = relative_to(spec, Some(folder));
    let shape = shape.map(|shape| folder.join(shape));
    Ok(NamedWorkload { name, spec, format, block_size, settings, shape })
}

/// Reads the format options of a trace: `format_options = { byte-order = "big" }`.
fn format_options(reader: &Reader, value: Option<Value>, index: usize) -> Result<Vec<Setting>, Failure> {
    let key = format!("workloads[{index}].format_options");
    let hint = "write a table of texts, for example { byte-order = \"big\" }";
    match value {
        None => Ok(Vec::new()),
        Some(Value::Table(table)) => table
            .into_iter()
            .map(|(name, value)| match value {
                Value::String(value) => Ok(Setting { name, value }),
                other => Err(reader
                    .wrong(&format!("{key}.{name}"), format_args!("{other} is not text"))
                    .hint("write it in quotes")),
            })
            .collect(),
        Some(other) => Err(reader.wrong(&key, format_args!("{other} is not a table")).hint(hint)),
    }
}

fn read_parameters(reader: &mut Reader, label: &str) -> Result<Vec<Parameter>, Failure> {
    let mut parameters: Vec<Parameter> = Vec::new();
    for (index, value) in reader.list("parameters")?.unwrap_or_default().into_iter().enumerate() {
        let place = format!("parameters[{index}]");
        let Value::Table(table) = value else {
            return Err(reader.wrong(&place, "is not a table").hint("write [[parameters]] above its keys"));
        };
        let parameter = Parameter::read(Reader::new(label, &place, table, &values::KEYS)?)?;
        if parameters.iter().any(|other| other.name == parameter.name) {
            let problem = format!("`{}` is there twice", parameter.name);
            return Err(reader.wrong(&format!("{place}.name"), problem).hint("write all values in one list"));
        }
        parameters.push(parameter);
    }
    Ok(parameters)
}

/// Returns the requested axis [default: the last parameter that can be an axis].
fn read_axis(reader: &mut Reader, parameters: &[Parameter]) -> Result<Option<Axis>, Failure> {
    let axis = |index: usize| {
        let (label, places) = parameters[index].axis()?;
        Some(Axis { parameter: index, label, places })
    };
    let Some(name) = reader.text("x")? else {
        return Ok((0..parameters.len()).rev().find_map(axis));
    };
    let index = parameters.iter().position(|parameter| parameter.name == name).ok_or_else(|| {
        let names = parameters.iter().map(|parameter| parameter.name.as_str());
        let near = seeklab_devices::names::near_matches(&name, names);
        reader
            .wrong("x", format_args!("there is no parameter `{name}`{near}"))
            .hint("the axis is one of [[parameters]]")
    })?;
    axis(index).map(Some).ok_or_else(|| {
        reader
            .wrong("x", format_args!("the values of `{name}` are not numbers of one kind"))
            .hint("choose another parameter, or leave `x` out")
    })
}
