//! The file `run.json` of a run's folder: the run itself under `run`, and beside it the document of `--json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use seeklab_bench::target::TargetKind;
use seeklab_emulator::frontend::nbd::Uri;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::figures::BenchFigures;
use super::options::BenchOptions;
use super::saved_plan::{SavedPlan, absolute};
use super::targets::ReadyTarget;
use crate::failure::Failure;
use crate::output::{SCHEMA, VERSION};
use crate::session::Session;

/// Name of the file.
pub(super) const RUN_FILE: &str = "run.json";

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It goes on, or its process was killed. There are no figures, and the files that end in `.part` have the intervals so far.
    Running,
    /// It is over. A failed check, such as requests that never returned, stands in `failure`.
    Complete,
    /// The caller stopped it. The figures are those of the time until then; there are none if nothing was measured.
    Stopped,
    /// It ended without figures, for the reason in `failure`.
    Failed,
}

/// A run: everything but its figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunFacts {
    /// State of the run.
    pub state: RunState,
    /// Begin of the run, in seconds since 1970.
    pub begun_unix_s: f64,
    /// End of the run; null while it goes on.
    pub ended_unix_s: Option<f64>,
    /// Program and version.
    pub version: String,
    /// Seed of all random draws.
    pub seed: u64,
    /// Command that began the run.
    pub command: Option<String>,
    /// Folder in which it was begun, which relative paths start from.
    pub working_folder: PathBuf,
    /// Folder of the run that this one repeats.
    pub rerun_of: Option<PathBuf>,
    /// Machine of the run.
    pub host: RunHost,
    /// Targets, to which streams of the plan refer by their place.
    pub targets: Vec<RunTarget>,
    /// Plan as it was resolved, for `seeklab bench rerun`. Times and sizes are text with units.
    pub plan: Value,
    /// File of the plan or of the jobs, as it was; null of a workload on the command line.
    pub source: Option<RunSource>,
    /// Other files of the folder that are complete.
    pub files: Vec<String>,
    /// Reason of a failed check, or of a run without figures.
    pub failure: Option<String>,
}

/// Machine of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunHost {
    /// Name of the machine.
    pub name: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of the kernel: number of the build, options and date.
    pub kernel_version: String,
    /// Model of the processors.
    pub processor: Option<String>,
    /// Processors that this process may use.
    pub processors: usize,
    /// Memory.
    pub memory_bytes: Option<u64>,
}

/// Identity of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunTarget {
    /// Target as named by the user.
    pub target: String,
    /// Kind of the target.
    pub target_kind: String,
    /// Path of a file or block device, without links.
    pub path: Option<PathBuf>,
    /// True of a block device.
    pub block_device: bool,
    /// Size; null of an export or a model before the run has opened it.
    pub capacity_bytes: Option<u64>,
    /// Serial number of a block device or an iSCSI unit.
    pub serial: Option<String>,
    /// Model of a block device or an iSCSI unit.
    pub model: Option<String>,
    /// Name of the export of an NBD server.
    pub export: Option<String>,
    /// Description of a model in virtual time, in TOML.
    pub description: Option<String>,
}

/// File of a plan or of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSource {
    /// Path of the file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// The time of day, which a run and its figures are filed under.
#[expect(clippy::disallowed_methods, reason = "a run states when it was")]
pub(super) fn time_of_day() -> SystemTime {
    SystemTime::now()
}

/// Seconds since 1970.
pub(super) fn unix_s() -> f64 {
    let now = time_of_day().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_secs_f64() * 1e3).round() / 1e3
}

impl RunFacts {
    /// The facts of a run that begins.
    pub(super) fn new(session: &Session, options: &BenchOptions, targets: &[ReadyTarget]) -> Self {
        let is_source =
            |path: &&PathBuf| path.extension().is_some_and(|suffix| suffix == "toml" || suffix == "fio");
        let source = options.inputs.first().filter(is_source).and_then(|path| {
            let text = fs::read_to_string(path).ok()?;
            Some(RunSource { path: absolute(path), text })
        });
        Self {
            state: RunState::Running,
            begun_unix_s: unix_s(),
            ended_unix_s: None,
            version: VERSION.to_owned(),
            seed: options.seed.0,
            command: session.command(),
            working_folder: absolute(Path::new(".")),
            rerun_of: options.rerun_of.as_deref().map(absolute),
            host: RunHost::this(),
            targets: targets.iter().map(RunTarget::of).collect(),
            plan: serde_json::to_value(SavedPlan::from(options)).expect("a plan has text keys"),
            source,
            files: Vec::new(),
            failure: None,
        }
    }

    /// Reads the facts of the run in `folder`.
    ///
    /// # Errors
    /// A folder without a run, or a file that is none.
    pub(super) fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(RUN_FILE);
        let text = fs::read_to_string(&path).map_err(|error| {
            let failure = Failure::from(error).context(format!("{}: cannot be read", path.display()));
            failure.hint("name a folder that `seeklab bench --folder` has written")
        })?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::new(format!("{}: is no JSON document: {error}", path.display())))?;
        let Some(run) = value.get("run") else {
            return Err(Failure::new(format!("{}: has no `run`", path.display()))
                .hint("an earlier version of seeklab wrote it; run its command again"));
        };
        Self::deserialize(run).map_err(|error| Failure::new(format!("{}: run: {error}", path.display())))
    }

    /// The text of `run.json`.
    pub(super) fn document(&self, figures: Option<&BenchFigures>) -> String {
        let mut document = Map::new();
        document.insert("schema".to_owned(), SCHEMA.into());
        document.insert("run".to_owned(), serde_json::to_value(self).expect("facts have text keys"));
        if let Some(figures) = figures
            && let Value::Object(figures) = serde_json::to_value(figures).expect("figures have text keys")
        {
            document.extend(figures);
        }
        format!("{:#}\n", Value::Object(document))
    }
}

impl RunHost {
    /// This machine.
    fn this() -> Self {
        let line = |path: &str| {
            fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim().to_owned())
        };
        let value = |path: &str, key: &str| {
            let text = fs::read_to_string(path).ok()?;
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find_map(|(name, value)| (name.trim() == key).then(|| value.trim().to_owned()))
        };
        let kibibytes = value("/proc/meminfo", "MemTotal");
        let kibibytes = kibibytes.and_then(|text| text.strip_suffix("kB")?.trim().parse::<u64>().ok());
        Self {
            name: line("/proc/sys/kernel/hostname"),
            kernel: line("/proc/sys/kernel/osrelease"),
            kernel_version: line("/proc/sys/kernel/version"),
            processor: value("/proc/cpuinfo", "model name"),
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: kibibytes.map(|kibibytes| kibibytes << 10),
        }
    }
}

impl RunTarget {
    /// The identity of a target that can be opened.
    fn of(target: &ReadyTarget) -> Self {
        let (kind, inner) = TargetKind::of(&target.address);
        let identity = target.identity.clone();
        let uri = || inner.parse::<Uri>().ok();
        Self {
            target: target.address.clone(),
            target_kind: kind.name.to_owned(),
            path: identity.as_ref().map(|one| one.path.clone()).filter(|path| !path.as_os_str().is_empty()),
            block_device: identity.as_ref().is_some_and(|identity| identity.is_block_device),
            capacity_bytes: identity.as_ref().map(|identity| identity.capacity_bytes),
            serial: identity.as_ref().and_then(|identity| identity.serial.clone()),
            model: identity.and_then(|identity| identity.model),
            export: uri().map(|uri| uri.export().to_owned()),
            description: target.device.as_ref().map(|device| device.description.to_toml()),
        }
    }
}
