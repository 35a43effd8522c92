//! Fits of a device to files: to a trace, or to results of fio. The results are the JSON documents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use seeklab_core::{Ratio, Seed};
use seeklab_devices::description::SCHEMA;
use seeklab_files::{check_apart, check_distinct};
use serde::Serialize;
use toml::Table;

use super::sweep::{FittedSweep, SweepReport, fit_sweep};
use super::{
    FitOptions, FitReport, Fitted, Requirement, RequirementCheck, Suitability, fit, notes, report,
    reproduction, sweep,
};
use crate::failure::Failure;
use crate::output::{VERSION, optional_path_text, path_text, path_texts};
use crate::session::Session;
use crate::trace::{STANDARD_INPUT, TraceOptions, check_read_twice};

/// Files of a fit to a trace.
#[derive(Debug, Clone)]
pub struct FitFiles {
    /// Trace with response times. It is read twice.
    pub trace: PathBuf,
    /// Options for reading the trace.
    pub reading: TraceOptions,
    /// Path that the caller writes the description to.
    pub output: PathBuf,
    /// Path that the caller writes the report to.
    pub report: Option<PathBuf>,
    /// Path that the caller writes the description of the device of the prediction to, which was fitted to the first part.
    pub evaluated: Option<PathBuf>,
    /// Bounds on the errors of the saved model that are checked.
    pub requirements: Vec<Requirement>,
}

/// Result of a fit to a trace. Its serialized form is the JSON document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FitResult {
    /// Program and version.
    pub version: &'static str,
    /// Command that makes the result again.
    pub command: Option<String>,
    /// Seed of the random draws of the prediction.
    pub seed: Seed,
    /// The trace.
    #[serde(serialize_with = "path_text")]
    pub trace: PathBuf,
    /// File of the device description.
    #[serde(serialize_with = "path_text")]
    pub output: PathBuf,
    /// File of the report, if one is written.
    #[serde(serialize_with = "optional_path_text")]
    pub report: Option<PathBuf>,
    /// File of the device of the prediction, if one is written.
    #[serde(serialize_with = "optional_path_text")]
    pub evaluated: Option<PathBuf>,
    /// Command that repeats the prediction of the saved model. Null if the device of the prediction is not written, or
    /// nothing was predicted.
    pub reproduction: Option<String>,
    /// Share of the trace's time that was fitted before the prediction.
    pub split: Ratio,
    /// True if the predicted part is like the fitted part. Null if that is unknown.
    pub parts_alike: Option<bool>,
    /// Arrival times of the predicted requests. Null if nothing was predicted.
    pub arrival_model: Option<report::ArrivalModel>,
    /// The model that predicted best, by the mean over the operations that decide. Null if nothing was predicted.
    pub best_model: Option<&'static str>,
    /// Loads for which the saved model stands in for the device. Null if too few requests were predicted.
    pub suitability: Option<Suitability>,
    /// Results of the required bounds on the errors of the saved model.
    pub requirements: Vec<RequirementCheck>,
    /// Statements on the prediction and notes on the fitted requests, for people.
    pub notes: Vec<String>,
    /// The fitted requests and the prediction in figures.
    pub fit: FitReport,
    /// The complete description of the device.
    #[serde(skip)]
    pub description: Table,
    /// The complete description of the device of the prediction; `None` if nothing was predicted.
    #[serde(skip)]
    pub evaluated_description: Option<Table>,
}

/// Files of a fit to results of fio.
#[derive(Debug, Clone)]
pub struct SweepFiles {
    /// Results of fio as JSON.
    pub results: Vec<PathBuf>,
    /// Path that the caller writes the description to.
    pub output: PathBuf,
}

/// Result of a fit to results of fio. Its serialized form is the JSON document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SweepResult {
    /// Program and version.
    pub version: &'static str,
    /// Command that makes the result again.
    pub command: Option<String>,
    /// Seed of the random draws.
    pub seed: Seed,
    /// Results of fio that the device was fitted to.
    #[serde(serialize_with = "path_texts")]
    pub files: Vec<PathBuf>,
    /// File of the device description.
    #[serde(serialize_with = "path_text")]
    pub output: PathBuf,
    /// The fitted results and the prediction in figures.
    pub sweep: SweepReport,
    /// The complete description of the device.
    #[serde(skip)]
    pub description: Table,
}

/// Returns the name of an input for titles.
pub fn input_name(path: &Path) -> String {
    if path == Path::new(STANDARD_INPUT) {
        return "standard input".to_owned();
    }
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Fits models to a trace.
///
/// # Errors
/// As [`fit`]; a trace that can be read only once; an output that is the trace.
pub fn fit_file(session: &Session, files: &FitFiles, options: &FitOptions) -> Result<FitResult, Failure> {
    let FitFiles { trace, reading, output, report, evaluated, requirements } = files;
    [output].into_iter().chain(report).chain(evaluated).try_for_each(|path| check_distinct(path, [trace]))?;
    check_apart([output].into_iter().chain(report).chain(evaluated))?;
    check_read_twice(trace)?;
    let name = input_name(trace);
    let mut about = BTreeMap::from([
        ("trace".to_owned(), name.clone()),
        ("seed".to_owned(), options.seed.to_string()),
        ("version".to_owned(), VERSION.to_owned()),
    ]);
    if !options.left_out.features.is_empty() {
        let names: Vec<&str> = options.left_out.features.iter().map(|feature| feature.name()).collect();
        about.insert("without".to_owned(), names.join(", "));
    }
    let open = |columns| reading.open_columns(session, trace, columns);
    let Fitted { description, report: fitted, split } = fit(session, &open, options, about)?;
    let reproduction = evaluated
        .as_ref()
        .and_then(|evaluated| reproduction::command(trace, reading, evaluated, &fitted, options.seed));
    let predicting = fitted.saved().map(|saved| {
        let validated = "not measured: the device of the prediction, fitted to the first part".to_owned();
        completed(saved.description.clone(), &format!("clone of the first part of {name}"), validated)
    });
    if evaluated.is_some() && predicting.is_none() {
        return Err(Failure::new("--evaluated: nothing was predicted").hint("choose another --split"));
    }
    let validated = fitted.validated(split, options.predicted);
    Ok(FitResult {
        version: VERSION,
        command: session.command(),
        seed: options.seed,
        trace: trace.clone(),
        output: output.clone(),
        report: report.clone(),
        evaluated: evaluated.clone(),
        reproduction,
        evaluated_description: predicting,
        split,
        parts_alike: fitted.rest.as_ref().and_then(|rest| rest.parts_alike),
        arrival_model: report::ArrivalModel::of(&fitted),
        best_model: report::best_model(&fitted).map(|best| best.model),
        suitability: fitted.judged().and_then(Suitability::of),
        requirements: requirements.iter().map(|one| one.check(fitted.judged())).collect(),
        notes: [notes::statements(&fitted), notes::notes(&fitted)].concat(),
        description: completed(description, &format!("clone of {name}"), validated),
        fit: fitted,
    })
}

impl FitResult {
    /// Describes the required bounds that are exceeded or unknown, one sentence each.
    pub fn unmet(&self) -> impl Iterator<Item = String> + '_ {
        self.requirements.iter().filter(|check| !check.is_met).map(RequirementCheck::sentence)
    }
}

/// Fits a device to results of fio.
///
/// # Errors
/// As [`fit_sweep`]; results that can be read only once; an output that is among them.
pub fn fit_results(session: &Session, files: &SweepFiles, seed: Seed) -> Result<SweepResult, Failure> {
    let SweepFiles { results, output } = files;
    check_distinct(output, results)?;
    results.iter().try_for_each(|path| check_read_twice(path))?;
    let names = results.iter().map(|path| input_name(path)).collect::<Vec<_>>().join(", ");
    let about = BTreeMap::from([
        ("sweep".to_owned(), names.clone()),
        ("seed".to_owned(), seed.to_string()),
        ("version".to_owned(), VERSION.to_owned()),
    ]);
    let FittedSweep { description, report } = fit_sweep(session, results, seed, about)?;
    let validated = sweep::sentence(&report.in_sample, &report.left_out);
    Ok(SweepResult {
        version: VERSION,
        command: session.command(),
        seed,
        files: results.clone(),
        output: output.clone(),
        description: completed(description, &format!("clone by {names}"), validated),
        sweep: report,
    })
}

/// The description with the version of its schema, a title and its validation.
pub(super) fn completed(mut description: Table, title: &str, validated: String) -> Table {
    description.insert("schema".to_owned(), SCHEMA.into());
    description.insert("title".to_owned(), title.into());
    description.insert("validated".to_owned(), validated.into());
    description
}
