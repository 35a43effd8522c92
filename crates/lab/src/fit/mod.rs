//! A device fitted to its trace, and how well it predicts what it did not see.
//!
//! ```text
//! trace ─▶ first pass: span, size ─▶ second pass ─┬─ before the split ─▶ fits ─▶ devices
//!                                                 └─ after ─▶ devices, open, beside what was measured
//!                                                           └▶ fits go on: the saved device is of all
//! ```
//! To predict all of the trace, the part before the split is read once more, before the second pass.

mod capacity;
mod choice;
mod device;
pub mod fio;
mod jobs;
pub mod notes;
mod passes;
pub mod report;
mod reproduction;
mod requirement;
mod result;
mod several;
mod split;
mod suitability;
pub mod sweep;
mod warm_up;

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use seeklab_core::{ByteSize, Duration, Ratio, Seed, TraceRecord};
use seeklab_devices::Description;
use seeklab_devices::limit::{LimitSummary, limit_summaries};
use seeklab_devices::table::Classes;
use seeklab_learning::MODELS;
use seeklab_learning::fit::{DeviceInfo, LeftOut, Model};
use seeklab_traces::schema::Column;
use seeklab_traces::{Metadata, OpenTrace, ReadOptions};
use serde::Serialize;
use toml::Table;

use crate::devices::{Resolved, Setup, customise};
use crate::failure::Failure;
use crate::output::VERSION;
use crate::session::Session;
use device::DeviceFit;
use passes::{choose_device, survey};
use seeklab_learning::survey::{DeviceCounts, Survey};

pub use capacity::{AT_LEAST, CapacityOrigin};
pub use choice::SavedBecause;
pub use jobs::{
    ComparedRates, JobsFitFiles, JobsFitResult, RateDistances, RateFigures, RateStateFigures, fit_jobs,
};
pub use requirement::{Requirement, RequirementCheck};
pub use result::{FitFiles, FitResult, SweepFiles, SweepResult, fit_file, fit_results, input_name};
pub use seeklab_learning::evaluation::{
    Evaluation, Figures, Lag, Likeness, Measured, OperationChange, OperationEvaluation, OperationMeans,
    PooledPrediction, PredictedPart, Quantile, QueueLength, RunLength, Slow, Times, sentence,
};
pub use several::{SeveralFitFiles, SeveralFitResult, fit_several};
pub use split::Split;
pub use suitability::{Exception, Suitability, clone_verdict};
pub use warm_up::{FoundWarmUp, WarmUpChoice};

/// Options of a fit.
#[derive(Debug, Clone)]
pub struct FitOptions {
    /// The models, at least one. The one that predicts best is saved; of models that predict alike, the first.
    pub models: Vec<&'static Model>,
    /// Device of the trace [default: the only device].
    pub device: Option<u16>,
    /// Size of the device; as the trace states it if `None`.
    pub capacity: Option<ByteSize>,
    /// Part that is fitted before the rest, or all, is predicted.
    pub split: Split,
    /// Part that is predicted.
    pub predicted: PredictedPart,
    /// Predict with the recorded arrival times.
    pub is_open: bool,
    /// Fit a trace with rows that are far from all others, see [`arrival_gaps`](seeklab_analysis::arrival_gaps).
    pub allow_gaps: bool,
    /// Start of the trace that is left out.
    pub warm_up: WarmUpChoice,
    /// Start of the response times [default: chosen by the origin of the trace, see [`TimesFrom`]].
    pub times_from: Option<TimesFrom>,
    /// Classes that distinguish requests.
    pub classes: Classes,
    /// Features and limits that the models omit.
    pub left_out: LeftOut,
    /// Root of the draws of the prediction.
    pub seed: Seed,
}

impl Default for FitOptions {
    /// All models, fitted to the first half of the trace; seed 1.
    fn default() -> Self {
        Self {
            models: MODELS.iter().collect(),
            device: None,
            capacity: None,
            split: Split::default(),
            predicted: PredictedPart::Rest,
            is_open: false,
            allow_gaps: false,
            warm_up: WarmUpChoice::default(),
            times_from: None,
            classes: Classes::default(),
            left_out: LeftOut::default(),
            seed: Seed(1),
        }
    }
}

/// Start of the response times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TimesFrom {
    /// Arrival at the queue of the host: time in that queue belongs to the device. Default, unless seeklab captured the trace.
    Arrival,
    /// Issue to the driver. Default if seeklab captured the trace: a host in front of the clone has a queue of its own.
    Issue,
}

/// A fitted device.
#[derive(Debug)]
pub struct Fitted {
    /// Its description.
    pub description: Table,
    /// Report on the fitted requests and the prediction.
    pub report: FitReport,
    /// Share of the time that was fitted before the prediction.
    pub split: Ratio,
}

impl Fitted {
    /// Returns the fitted device under that name, ready to be simulated or emulated.
    ///
    /// # Errors
    /// If the description is wrong.
    pub fn device(&self, name: &str) -> Result<Resolved, Failure> {
        let description = Description::from_table(name, name, self.description.clone())?;
        customise(name, description, &Setup::default())
    }
}

/// Report on the fitted requests and the prediction.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FitReport {
    /// Number of the device in the trace.
    pub device: u16,
    /// Part of the trace that was predicted.
    pub predicted_part: PredictedPart,
    /// The model that is saved.
    pub saved_model: &'static str,
    /// Reason for which it is saved.
    pub saved_because: SavedBecause,
    /// Requests that the saved device was fitted to.
    pub requests: u64,
    /// Requests without a response time.
    pub requests_without_response: u64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Requests of the recorder itself, which were left out.
    pub recorder_requests: u64,
    /// Most requests that were outstanding when another arrived.
    pub queue_length_max: u32,
    /// From the first arrival to the last.
    pub span_s: f64,
    /// Size of the saved device.
    pub capacity_bytes: u64,
    /// Origin of that size.
    pub capacity_origin: CapacityOrigin,
    /// Start of the response times.
    pub times_from: TimesFrom,
    /// Mean time from arrival to issue; none if no request says when it was issued.
    pub host_queue_mean_ms: Option<f64>,
    /// Requests without an issue time.
    pub requests_without_issue: u64,
    /// Slow start of the trace, left out if that was chosen; none if there is none.
    pub warm_up: Option<FoundWarmUp>,
    /// Notes on reading the trace: the format if guessed, values that were assumed, changes to the rows.
    pub notes: Vec<String>,
    /// Rate and burst limits of the saved device.
    pub limits: Vec<LimitSummary>,
    /// Predictions of the rest by each model, fitted to the first part. Empty if either part has no requests.
    pub evaluations: Vec<Evaluation>,
    /// The rest as it was measured; none if either part has no requests.
    pub rest: Option<Measured>,
}

impl FitReport {
    /// Returns the evaluation of the saved model; `None` if nothing was predicted.
    pub fn saved(&self) -> Option<&Evaluation> {
        self.evaluations.iter().find(|one| one.model == self.saved_model)
    }

    /// Returns the evaluation of the saved model, if it judges the saved device; `None` if nothing was predicted, or the prediction lacked a
    /// limit of the device.
    pub fn judged(&self) -> Option<&Evaluation> {
        self.saved().filter(|_| !self.has_unjudged_limit())
    }

    /// Returns the sentence on the validation of the saved device; `split` and `predicted` say what was predicted.
    fn validated(&self, split: Ratio, predicted: PredictedPart) -> String {
        match self.saved() {
            None => "not measured: there was nothing to predict".to_owned(),
            Some(_) if self.has_unjudged_limit() => {
                "not judged: its limit shows in the whole trace only, and the prediction lacked it".to_owned()
            }
            Some(evaluation) => {
                let evidence = sentence(evaluation, split, predicted);
                match Suitability::of(evaluation) {
                    Some(suitability) => suitability.with_evidence(self.saved_model, &evidence),
                    None => evidence,
                }
            }
        }
    }

    /// True if the saved device has a limit that the model of the prediction lacked, because the first part does not show it.
    pub fn has_unjudged_limit(&self) -> bool {
        self.saved().is_some_and(|saved| limit_summaries(&saved.description).len() < self.limits.len())
    }
}

/// Columns used for fitting and prediction. A model that needs more columns must add them here. The last
/// column is used only for times [from the issue](TimesFrom::Issue).
const FIT_COLUMNS: [Column; 10] = [
    Column::ArrivalNs,
    Column::CompletionNs,
    Column::Device,
    Column::Initiator,
    Column::Op,
    Column::Fua,
    Column::Lbn,
    Column::Blocks,
    Column::Status,
    Column::IssueNs,
];

/// Opens the trace with its times from there.
fn opened(
    open: &dyn Fn(&'static [Column]) -> Result<OpenTrace, Failure>,
    times_from: TimesFrom,
) -> Result<OpenTrace, Failure> {
    match times_from {
        TimesFrom::Arrival => open(&FIT_COLUMNS[..FIT_COLUMNS.len() - 1]),
        TimesFrom::Issue => Ok(open(&FIT_COLUMNS)?.at_issue()),
    }
}

impl TimesFrom {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Issue => "issue",
        }
    }

    /// Returns the requested start of the times, or the default for this trace.
    ///
    /// # Errors
    /// If the trace has no issue times but they were requested.
    fn choose(requested: Option<Self>, is_captured: bool, seen: &DeviceCounts) -> Result<Self, Failure> {
        if requested == Some(Self::Issue) && seen.issued == 0 {
            let message = "--times-from issue: no request of the trace has an issue time";
            return Err(
                Failure::new(message).hint("record with `seeklab capture`, or use --times-from arrival")
            );
        }
        let usual = if is_captured && seen.issued > 0 { Self::Issue } else { Self::Arrival };
        Ok(requested.unwrap_or(usual))
    }
}

/// Checks that a device can be so large as the requests of the trace reach.
fn check_end(place: &DeviceInfo, trace: Option<&String>) -> Result<(), Failure> {
    let blocks_max = (1 << 63) / place.block_size.as_bytes().max(1);
    if place.capacity_blocks <= blocks_max {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{}requests reach to `lbn` + `blocks` = {}, and a device has 1 to {blocks_max} blocks of {}, which is 8EiB",
        trace.map(|name| format!("{name}: ")).unwrap_or_default(),
        place.capacity_blocks,
        place.block_size
    ))
    .hint("the addresses may have been read in a wrong unit; `seeklab trace head` shows them"))
}

/// Longest response time, as the tables of models hold it: about 417 days.
const RESPONSE_MAX: Duration = Duration::from_ns(1 << 55);

/// Checks that response times are none of a clock that was set meanwhile.
fn check_response_times<'a>(mut requests: impl Iterator<Item = &'a TraceRecord>) -> Result<(), Failure> {
    let is_too_long = |record: &&TraceRecord| record.response_time().is_some_and(|time| time >= RESPONSE_MAX);
    let Some(record) = requests.find(is_too_long) else { return Ok(()) };
    let days = record.response_time().unwrap_or_default().as_s() / 86_400.0;
    let arrival_ns = record.arrival.as_ns();
    Err(Failure::new(format!(
        "the request with arrival_ns {arrival_ns} has a response time of {days:.0} days, and a model holds at most 417"
    ))
    .hint("its times are of clocks that differ: correct or remove the row"))
}

/// Fits models to the trace at `path`, whose format is guessed.
///
/// # Errors
/// As [`fit`].
pub fn fit_trace(session: &Session, path: &Path, options: &FitOptions) -> Result<Fitted, Failure> {
    let open = |columns| {
        let options = ReadOptions { columns, ..ReadOptions::default() };
        Ok(seeklab_columnar::open(path, None, &options)?)
    };
    let about = BTreeMap::from([
        ("trace".to_owned(), path.display().to_string()),
        ("version".to_owned(), VERSION.to_owned()),
    ]);
    fit(session, &open, options, about)
}

/// Fits models to the trace, which `open` opens twice with the given columns. `about` becomes part of the
/// description and states the origin of the trace.
///
/// # Errors
/// A trace that cannot be read, has no such device, or no response times.
pub fn fit(
    session: &Session,
    open: &dyn Fn(&'static [Column]) -> Result<OpenTrace, Failure>,
    options: &FitOptions,
    about: BTreeMap<String, String>,
) -> Result<Fitted, Failure> {
    let name = about.get("trace").map_or("trace", String::as_str);
    let (survey, metadata) = survey(session, open(&passes::LOOKED_AT)?, name, options)?;
    let device = choose_device(&survey, options.device)?;
    let span = survey.counts(device).span;
    let surveyed = Surveyed { survey, metadata };
    let fit = DeviceFit::begin(session, options, &surveyed, device, span, about)?;
    let fitted = device::fit_devices(session, open, vec![fit], &|_, failure| failure)?;
    Ok(fitted.into_iter().next().expect("one was begun"))
}

/// A trace that was looked at.
#[derive(Debug)]
struct Surveyed {
    survey: Survey,
    metadata: Metadata,
}
