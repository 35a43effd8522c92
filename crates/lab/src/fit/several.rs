//! Fit of all devices of a trace into one description, which is driven by the whole trace.
//!
//! A device waits for none of the others, so each is fitted and predicted for itself; their requests then count as those of one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use seeklab_analysis::ResponseProfile;
use seeklab_core::number_words::counted;
use seeklab_core::{Duration, Instant, Ratio, Seed};
use seeklab_files::{check_apart, check_distinct};
use seeklab_learning::station;
use serde::Serialize;
use toml::{Table, Value};

use super::device::{DeviceFit, fit_devices};
use super::passes::survey;
use super::result::completed;
use super::{
    FitOptions, FitReport, Fitted, PooledPrediction, PredictedPart, Suitability, Surveyed, input_name,
    passes, reproduction,
};
use crate::failure::Failure;
use crate::output::{VERSION, optional_path_text, path_text};
use crate::session::Session;
use crate::trace::{TraceOptions, check_read_twice};

/// Memory that the fits of one pass may hold. Fitting the last of them takes as much again.
const HELD_BYTES_MAX: u64 = 128 << 20;

/// Memory of the results of a device.
const RESULT_BYTES: u64 = 160 << 10;

/// Memory of the fit of a device without its requests: tables, and the profiles of the predictions.
const DEVICE_BYTES: u64 = 4 << 20;

/// Memory that a fit of a device with so many requests holds.
fn held_bytes_of(requests: u64, options: &FitOptions) -> u64 {
    let keeps_requests = options.models.iter().any(|model| model.name == "station");
    let kept = if keeps_requests { requests.min(station::SAMPLE_MAX as u64) } else { 0 };
    DEVICE_BYTES + kept * station::SAMPLE_REQUEST_BYTES as u64
}

/// Memory that the fits of a pass may hold behind those of so many devices, whose results are held, too.
fn held_bytes_behind(devices: usize) -> u64 {
    HELD_BYTES_MAX.saturating_sub(devices as u64 * RESULT_BYTES).max(HELD_BYTES_MAX / 2)
}

/// Files of a fit to all devices of a trace.
#[derive(Debug, Clone)]
pub struct SeveralFitFiles {
    /// Trace with response times. It is read several times.
    pub trace: PathBuf,
    /// Options for reading the trace.
    pub reading: TraceOptions,
    /// Path that the caller writes the description to.
    pub output: PathBuf,
    /// Path that the caller writes the description of the devices of the predictions to, which were fitted to the first part.
    pub evaluated: Option<PathBuf>,
}

/// Result of a fit to all devices of a trace. Its serialized form is the JSON document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SeveralFitResult {
    /// Program and version.
    pub version: &'static str,
    /// Command that makes the result again.
    pub command: Option<String>,
    /// Seed of the random draws of the prediction.
    pub seed: Seed,
    /// The trace.
    #[serde(serialize_with = "path_text")]
    pub trace: PathBuf,
    /// File of the description, of kind `bank`.
    #[serde(serialize_with = "path_text")]
    pub output: PathBuf,
    /// File of the devices of the predictions, if one is written.
    #[serde(serialize_with = "optional_path_text")]
    pub evaluated: Option<PathBuf>,
    /// Commands that repeat the predictions of the saved models: one for all devices if the whole trace was predicted with its
    /// recorded arrivals, otherwise one for each device. Empty if the devices of the predictions are not written.
    pub reproductions: Vec<String>,
    /// Share of the time of all devices that was fitted before the prediction.
    pub split: Ratio,
    /// Part of the trace that was predicted.
    pub predicted_part: PredictedPart,
    /// Predictions of the saved models for the requests of all devices: all operations together, then each. Empty if nothing
    /// was predicted.
    pub together: Vec<PooledPrediction>,
    /// The fitted requests and the prediction of each device.
    pub devices: Vec<FitReport>,
    /// Loads for which each device stands in for the measured one, in the order of the devices; null if it is not judged.
    pub suitabilities: Vec<Option<Suitability>>,
    /// The complete description.
    #[serde(skip)]
    pub description: Table,
    /// The complete description of the devices of the predictions; `None` if no file is wanted for it.
    #[serde(skip)]
    pub evaluated_description: Option<Table>,
}

/// Fits models to each device of a trace, one description for all.
///
/// # Errors
/// As [`fit`](super::fit), with the number of the device; a trace that can be read only once; an output that is the trace.
pub fn fit_several(
    session: &Session,
    files: &SeveralFitFiles,
    options: &FitOptions,
) -> Result<SeveralFitResult, Failure> {
    let SeveralFitFiles { trace, reading, output, evaluated } = files;
    [output].into_iter().chain(evaluated).try_for_each(|path| check_distinct(path, [trace]))?;
    check_apart([output].into_iter().chain(evaluated))?;
    check_read_twice(trace)?;
    let name = input_name(trace);
    let open = |columns| reading.open_columns(session, trace, columns);
    let (survey, metadata) = survey(session, open(&passes::LOOKED_AT)?, &name, options)?;
    let surveyed = Surveyed { survey, metadata };
    let numbers: Vec<u16> = surveyed.survey.devices().collect();
    if numbers.is_empty() {
        return Err(Failure::new("the trace has no requests"));
    }
    let spans = numbers.iter().map(|number| surveyed.survey.counts(*number).span);
    let span = spans.reduce(joined).expect("there is a device");
    let context = |device: u16, failure: Failure| {
        session.check().err().unwrap_or_else(|| failure.context(format!("device {device}")))
    };
    let mut fitted: Vec<Fitted> = Vec::new();
    let mut numbers = numbers.into_iter().peekable();
    // As many devices in a pass as memory may hold, at least one.
    while numbers.peek().is_some() {
        let (mut fits, mut held_bytes): (Vec<DeviceFit>, u64) = (Vec::new(), 0);
        while let Some(number) = numbers.peek().copied() {
            held_bytes += held_bytes_of(surveyed.survey.counts(number).requests, options);
            if !fits.is_empty() && held_bytes > held_bytes_behind(fitted.len()) {
                break;
            }
            let about = BTreeMap::from([
                ("trace".to_owned(), name.clone()),
                ("seed".to_owned(), options.seed.to_string()),
                ("version".to_owned(), VERSION.to_owned()),
            ]);
            let fit = DeviceFit::begin(session, options, &surveyed, number, span, about)
                .map_err(|failure| context(number, failure))?;
            if fits.first().is_some_and(|first| first.times_from() != fit.times_from()) {
                break;
            }
            fits.push(fit);
            numbers.next();
        }
        fitted.extend(fit_devices(session, &open, fits, &context)?.into_iter().map(with_saved_alone));
    }
    let split = options.split.share(span);
    let description = bank(&mut fitted, &name, split, options.predicted);
    let evaluated_description = match evaluated {
        Some(_) => bank_of_predictions(&fitted, &name),
        None => None,
    };
    if evaluated.is_some() && evaluated_description.is_none() {
        return Err(Failure::new("--evaluated: nothing was predicted").hint("choose another --split"));
    }
    let devices: Vec<FitReport> = fitted.into_iter().map(|fitted| fitted.report).collect();
    let profiles: Vec<(&ResponseProfile, &ResponseProfile)> = devices
        .iter()
        .filter_map(|device| Some((&device.rest.as_ref()?.profile, &device.saved()?.profile)))
        .collect();
    let reproductions = evaluated.as_ref().map_or_else(Vec::new, |evaluated| {
        reproduction::commands(trace, reading, evaluated, &devices, options.seed)
    });
    Ok(SeveralFitResult {
        version: VERSION,
        command: session.command(),
        seed: options.seed,
        trace: trace.clone(),
        output: output.clone(),
        evaluated: evaluated.clone(),
        reproductions,
        evaluated_description,
        split,
        predicted_part: options.predicted,
        together: PooledPrediction::each(&profiles, options.seed),
        suitabilities: devices.iter().map(|device| device.judged().and_then(Suitability::of)).collect(),
        description,
        devices,
    })
}

/// The device without what is drawn and described of models that were not saved: results of hundreds of devices are held together.
fn with_saved_alone(mut fitted: Fitted) -> Fitted {
    let saved = fitted.report.saved_model;
    for evaluation in fitted.report.evaluations.iter_mut().filter(|evaluation| evaluation.model != saved) {
        evaluation.profile = ResponseProfile::new(Duration::ZERO);
        evaluation.description = Table::new();
    }
    fitted
}

fn joined(one: (Instant, Instant), other: (Instant, Instant)) -> (Instant, Instant) {
    (one.0.min(other.0), one.1.max(other.1))
}

/// The description of all fitted devices, which takes theirs.
fn bank(fitted: &mut [Fitted], name: &str, split: Ratio, predicted: PredictedPart) -> Table {
    let numbers: Vec<u16> = fitted.iter().map(|one| one.report.device).collect();
    let title = format!("clones of {} of {name}", counted(fitted.len(), "device"));
    let devices = fitted.iter_mut().map(|Fitted { description, report, .. }| {
        let validated = report.validated(split, predicted);
        let title = format!("clone of device {} of {name}", report.device);
        let mut one = completed(std::mem::take(description), &title, validated);
        one.remove("schema");
        one.insert("name".to_owned(), report.device.to_string().into());
        Value::Table(one)
    });
    completed(bank_of(numbers.into_iter(), devices), &title, "each device: see `validated` there".to_owned())
}

/// The description of the devices that predicted; `None` if nothing was predicted. A device without a prediction is left out.
fn bank_of_predictions(fitted: &[Fitted], name: &str) -> Option<Table> {
    const VALIDATED: &str = "not measured: the devices of the predictions, fitted to the first part";
    let saved = || fitted.iter().filter_map(|Fitted { report, .. }| Some((report.device, report.saved()?)));
    saved().next()?;
    let devices = saved().map(|(number, saved)| {
        let title = format!("clone of device {number} of the first part of {name}");
        let mut one = completed(saved.description.clone(), &title, VALIDATED.to_owned());
        one.remove("schema");
        one.insert("name".to_owned(), number.to_string().into());
        Value::Table(one)
    });
    let table = bank_of(saved().map(|(number, _)| number), devices);
    Some(completed(table, &format!("clones of the first part of {name}"), VALIDATED.to_owned()))
}

fn bank_of(numbers: impl Iterator<Item = u16>, devices: impl Iterator<Item = Value>) -> Table {
    Table::from_iter([
        ("kind".to_owned(), "bank".into()),
        ("numbers".to_owned(), Value::Array(numbers.map(|number| i64::from(number).into()).collect())),
        ("devices".to_owned(), Value::Array(devices.collect())),
    ])
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::listener::{Listener, Measure, Task, TaskListener, Unheard};
    use crate::stop::Stop;

    /// The passes over a trace.
    #[derive(Default)]
    struct Tasks(Mutex<Vec<String>>);

    impl Listener for Tasks {
        fn begin(&self, task: &Task) -> Box<dyn TaskListener> {
            if task.name != "opening" && !matches!(task.measure, Measure::Time) {
                self.0.lock().unwrap().push(task.name.clone());
            }
            Box::new(Unheard)
        }
    }

    #[test]
    fn devices_that_memory_holds_share_the_passes_over_their_trace() {
        let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        writeln!(file, "arrival_ns,completion_ns,device,op,lbn,blocks").unwrap();
        for index in 0..900_u64 {
            let arrival_ns = 1_000_000 * index;
            let completion_ns = arrival_ns + 100_000 * (1 + index % 7);
            let (device, lbn) = (index % 3, 8 * (index * 7_919 % 10_007));
            writeln!(file, "{arrival_ns},{completion_ns},{device},read,{lbn},8").unwrap();
        }
        let tasks = Arc::new(Tasks::default());
        let session = Session::new(Arc::<Tasks>::clone(&tasks), Stop::new());
        let folder = tempfile::tempdir().unwrap();
        let files = SeveralFitFiles {
            trace: file.path().to_owned(),
            reading: TraceOptions::default(),
            output: folder.path().join("clones.toml"),
            evaluated: None,
        };
        for (predicted, passes) in [
            (PredictedPart::Rest, &["reading the trace", "fitting"][..]),
            (PredictedPart::All, &["reading the trace", "fitting the first part", "fitting"]),
        ] {
            let options = FitOptions { predicted, ..FitOptions::default() };
            let result = fit_several(&session, &files, &options).unwrap();
            let requests: Vec<(u16, u64)> =
                result.devices.iter().map(|one| (one.device, one.requests)).collect();
            assert_eq!(requests, [(0, 300), (1, 300), (2, 300)]);
            assert_eq!(std::mem::take(&mut *tasks.0.lock().unwrap()), passes);
        }
    }

    #[test]
    fn pass_holds_as_many_devices_as_memory_allows() {
        let of = |requests| held_bytes_of(requests, &FitOptions::default());
        assert!(3 * of(1_000_000) <= HELD_BYTES_MAX + DEVICE_BYTES && 4 * of(1_000_000) > HELD_BYTES_MAX);
        assert_eq!(of(u64::MAX), of(station::SAMPLE_MAX as u64), "a long trace is sampled");
        let tables = FitOptions {
            models: vec![seeklab_learning::fit::find("plain").unwrap()],
            ..FitOptions::default()
        };
        assert_eq!(held_bytes_of(1_000_000, &tables), DEVICE_BYTES);
        let behind = [0, 300, 65_535].map(|devices| held_bytes_behind(devices) / DEVICE_BYTES);
        assert_eq!(behind, [32, 20, 16], "results leave less for the fits, but never less than half");
    }
}
