//! Result of a series: the JSON document, and the report for people.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use seeklab_analysis::{Trust, interval};
use seeklab_core::{Duration, Seed};
use seeklab_emulator::clock::Pacing;
use seeklab_emulator::pacer::Mode;
use seeklab_report::Report;
use seeklab_stage::FileSystem;
use serde::Serialize;
use serde_json::Value;

use super::figures::Figures;
use super::limits::HostLimits;
use super::{Application, Series};
use crate::devices::Resolved;
use crate::output::{VERSION, optional_path_text};
use crate::session::Session;

/// A figure over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Statistics {
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the sample, zero of one repetition.
    pub sd: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

impl Statistics {
    fn of(values: &[f64]) -> Option<Self> {
        let interval = interval(values)?;
        let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sd = if values.len() > 1 { interval.sd } else { 0.0 };
        Some(Self { mean: interval.mean, sd, min: least(values), max: most(values) })
    }
}

/// Result of a series. Its serialized form is the JSON document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SeriesResult {
    /// Program and version.
    pub version: &'static str,
    /// Command that made the result.
    pub command: Option<String>,
    /// Root of all random draws.
    pub seed: Seed,
    /// Size of each device.
    pub size_bytes: u64,
    /// Passes before the first repetition that do not count.
    pub uncounted_passes: u64,
    /// Application that ran on the devices.
    pub application: ApplicationResult,
    /// Trade-off between processor time and accuracy.
    pub pacing: Pacing,
    /// Mode in which the model ran against the wall clock.
    pub mode: Mode,
    /// Lead of a synchronous model. `None`: as calibrated.
    pub lookahead_us: Option<f64>,
    /// Lateness beyond which a deadline counts as missed.
    pub deadline_limit_us: f64,
    /// Results by device, in the order of the series.
    pub devices: Vec<DeviceResult>,
    /// The same results as a report for people.
    #[serde(skip)]
    pub report: Report,
    /// True if every command succeeded.
    #[serde(skip)]
    pub succeeded: bool,
}

/// Application of a series, as the document names it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ApplicationResult {
    /// Commands of the host.
    Commands {
        /// File system of the device.
        file_system: FileSystem,
        /// Mount options.
        mount_options: String,
        /// Image with the initial contents of the device.
        #[serde(serialize_with = "optional_path_text")]
        image: Option<PathBuf>,
        /// Command that ran once before the measurement.
        setup: Option<String>,
        /// Commands before the last, each as a pair of name and command.
        phases: Vec<(String, String)>,
        /// The command that was timed.
        command: Vec<String>,
        /// True if the caches of the machine were dropped before each phase.
        drop_caches: bool,
        /// User who ran the commands, if named.
        user: Option<String>,
        /// Limits that made the host small.
        host: Box<HostLimits>,
    },
    /// A built-in application.
    Builtin {
        /// Application with its parameters.
        builtin: String,
    },
    /// A stream of jobs.
    Jobs {
        /// File or line that describes the stream.
        jobs: String,
        /// True if the stream used a block device past the page cache, false for NBD.
        block: bool,
    },
}

/// Results of one device.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeviceResult {
    /// Name of the device.
    pub device: String,
    /// Validation of its model.
    pub validated: String,
    /// Trustworthiness of all repetitions: that of the least accurate one.
    #[serde(flatten)]
    pub trust: Option<Trust>,
    /// Mean, standard deviation, minimum and maximum of every figure that is a number.
    pub statistics: BTreeMap<String, Statistics>,
    /// Figures of each repetition.
    pub repetitions: Vec<Figures>,
}

impl SeriesResult {
    pub(super) fn new(session: &Session, series: &Series, results: Vec<Vec<Figures>>) -> Self {
        let report = super::report::report(session, series, &results);
        let succeeded = results.iter().flatten().all(Figures::succeeded);
        let device = |(device, repetitions): (&Resolved, Vec<Figures>)| DeviceResult {
            device: device.label(),
            validated: device.description.header.validated.clone(),
            trust: super::trust::trust(&repetitions),
            statistics: statistics(&repetitions),
            repetitions,
        };
        Self {
            version: VERSION,
            command: session.command(),
            seed: series.seed,
            size_bytes: series.size.as_bytes(),
            uncounted_passes: u64::from(series.has_uncounted_pass()),
            application: ApplicationResult::of(&series.application),
            pacing: series.pace.pacing,
            mode: series.pace.mode,
            lookahead_us: series.pace.lookahead.map(Duration::as_us),
            deadline_limit_us: series.pace.deadline_limit.as_us(),
            devices: series.devices.iter().zip(results).map(device).collect(),
            report,
            succeeded,
        }
    }
}

impl ApplicationResult {
    fn of(application: &Application) -> Self {
        match application {
            Application::Commands(commands) => Self::Commands {
                file_system: commands.file_system,
                mount_options: commands.mount_options.to_string(),
                image: commands.image.clone(),
                setup: commands.setup.clone(),
                phases: commands.phases.clone(),
                command: commands.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
                drop_caches: commands.drop_caches,
                user: commands.user.clone(),
                host: Box::new(HostLimits::of(commands)),
            },
            Application::Builtin { line, .. } => Self::Builtin { builtin: line.clone() },
            Application::Jobs(jobs) => Self::Jobs { jobs: jobs.line.clone(), block: jobs.block.is_some() },
        }
    }
}

/// Mean, standard deviation, minimum and maximum of every figure that is a number.
fn statistics(repetitions: &[Figures]) -> BTreeMap<String, Statistics> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for repetition in repetitions {
        let Ok(Value::Object(figures)) = serde_json::to_value(repetition) else { continue };
        for (name, value) in figures.iter().filter(|(name, _)| *name != "exit_code") {
            if let Some(value) = value.as_f64() {
                values.entry(name.clone()).or_default().push(value);
            }
        }
    }
    values.into_iter().filter_map(|(name, values)| Some((name, Statistics::of(&values)?))).collect()
}
