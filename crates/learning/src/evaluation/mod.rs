//! Predictions of fitted devices for the rest of a trace, beside the change between the fitted part and the
//! rest.
//!
//! ```text
//! before the boundary ─▶ fitted part: its times ────────────────┐
//! after it ─┬─▶ measured: profile ──────────────┬─▶ change ◀────┘
//!           └─▶ each device, by replay ─▶ its profile ┴─▶ demerit, densities, dependence, tails
//! ```
//! Memory holds profiles and outstanding requests.

mod figures;
mod operations;
mod pooled;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use schemars::JsonSchema;
use seeklab_analysis::prediction::ALIKE_PCT;
use seeklab_analysis::verdict::worst_class;
use seeklab_analysis::{
    Change, ClassError, ClassErrors, DensityAxis, Met, PartTimes, Prediction, ResponseProfile, TimeSummary,
    change, prediction,
};
use seeklab_core::number_words::numbered;
use seeklab_core::statistics::Distribution;
use seeklab_core::{Completion, Device, Duration, Instant, Operation, Ratio, Seed, TraceRecord};
use seeklab_devices::Description;
use seeklab_workloads::replay::{Following, Mode};
use serde::Serialize;
use toml::Table;

use crate::driven::Driven;
use crate::error::Error;
use crate::fit::{DeviceInfo, Fit, Model};
use figures::DENSITY_STEPS_MAX;
use operations::OperationParts;

pub use figures::{Figures, Lag, Quantile, QueueLength, RunLength, Slow};
pub use operations::{OperationChange, OperationEvaluation, OperationMeans};
pub use pooled::PooledPrediction;

/// Prediction of a device for the part of the trace that it was not fitted to.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Evaluation {
    /// The model.
    pub model: &'static str,
    /// Requests in the part that it was fitted to.
    pub fitted_requests: u64,
    /// Requests that it predicted.
    pub predicted_requests: u64,
    /// Response times as measured.
    pub measured: Times,
    /// Response times as predicted.
    pub predicted: Times,
    /// Demerits between the two.
    #[serde(flatten)]
    pub prediction: Prediction,
    /// Share of the requests outside the fitted range.
    pub out_of_fitted_range_pct: f64,
    /// The class with the greatest error of the mean, of those with 1 % of the requests or more.
    pub worst_class: Option<ClassError>,
    /// All classes with 1 % of the requests or more.
    pub classes: Vec<ClassError>,
    /// Prediction of each operation.
    pub operations: Vec<OperationEvaluation>,
    /// Means over the operations that decide, by which models are compared; null if no operation does.
    pub operation_means: Option<OperationMeans>,
    /// Figures of the predicted response times.
    pub figures: Figures,
    /// The same, to be drawn.
    #[serde(skip)]
    pub profile: ResponseProfile,
    /// Description of the device that predicted, in the state in which the fitted part left it.
    #[serde(skip)]
    pub description: Table,
}

/// Measured response times of the predicted part.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Measured {
    /// Difference between the times of the fitted part and of the rest.
    pub change: Change,
    /// Median demerit between the rest and resamples of whole parts of it, which keep slow requests together; none if
    /// the rest is too short.
    pub variation_between_parts: Option<Change>,
    /// True if the change is at most 2 %, or explained by a variation between parts of at most 5 %; false if it exceeds
    /// 2 % and twice that variation; null if that is unknown. All up to the 99th percentile.
    pub parts_alike: Option<bool>,
    /// The same of each operation.
    pub operations: Vec<OperationChange>,
    /// True if the recorded arrival times are kept, whatever the device does.
    pub is_open: bool,
    /// True if the arrivals of the fitted part are independent of the device: they meet it busy and idle, and at each time after
    /// a completion, as often as Poisson arrivals do. Recorded arrival times are kept then.
    pub arrivals_independent: bool,
    /// Time after a completion within which a request that waited for it arrives, estimated from the fitted part.
    pub follows_within_ms: Option<f64>,
    /// The same, exactly.
    #[serde(skip)]
    pub follows_within: Option<Duration>,
    /// Arrival of the first predicted request.
    #[serde(skip)]
    pub from: Instant,
    /// Failed requests of the rest, which are sent to the device and not counted.
    pub failed_requests: u64,
    /// Figures of the measured response times.
    pub figures: Figures,
    /// The same, to be drawn.
    #[serde(skip)]
    pub profile: ResponseProfile,
}

/// Likeness of the two parts of a trace, by their change and the variation between parts of the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// The change is small, or as small as a small variation explains.
    Alike,
    /// The change is greater than the variation explains.
    Different,
    /// The variation is so great that it explains a great change.
    Unknown,
}

/// A variation between parts up to the 99th percentile, in percent, above which it tells nothing about a change that it
/// explains: twice this is half the bound of [`Verdict::Usable`](seeklab_analysis::Verdict::Usable).
const TELLING_PCT: f64 = 5.0;

impl Likeness {
    /// Judges a change.
    pub fn of(change: &Change, variation: Option<&Change>) -> Self {
        let amount = change.demerit_to_p99.ea_rms_pct;
        match variation.map(|variation| variation.demerit_to_p99) {
            _ if amount.is_some_and(|pct| pct <= ALIKE_PCT) => Self::Alike,
            None => Self::Unknown,
            Some(variation) if !change.is_small(&variation) => Self::Different,
            Some(variation) if variation.ea_rms_pct.is_none_or(|pct| pct <= TELLING_PCT) => Self::Alike,
            Some(_) => Self::Unknown,
        }
    }

    /// True if the parts are alike, false if they differ, `None` if that is unknown.
    pub const fn parts_alike(self) -> Option<bool> {
        match self {
            Self::Alike => Some(true),
            Self::Different => Some(false),
            Self::Unknown => None,
        }
    }
}

impl Measured {
    /// Likeness of the two parts.
    pub fn likeness(&self) -> Likeness {
        Likeness::of(&self.change, self.variation_between_parts.as_ref())
    }
}

/// A distribution in a few figures.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Times {
    /// Mean response time.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// 99.99th percentile.
    pub p9999_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Times {
    fn of(distribution: &Distribution) -> Option<Self> {
        let TimeSummary { mean_ms, p50_ms, p90_ms, p99_ms, p999_ms, max_ms, .. } =
            TimeSummary::of(distribution)?;
        let p9999_ms = distribution.quantile(0.9999)?.as_ms();
        Some(Self { mean_ms, p50_ms, p90_ms, p99_ms, p999_ms, p9999_ms, max_ms })
    }
}

/// Requests from which on a prediction is judged: of the fitted and of the predicted ones.
pub const JUDGED_REQUESTS_MIN: u64 = 100;

impl Evaluation {
    /// Returns true if enough requests were fitted and predicted to judge the model.
    pub const fn is_judged(&self) -> bool {
        self.predicted_requests >= JUDGED_REQUESTS_MIN && self.fitted_requests >= JUDGED_REQUESTS_MIN
    }
}

/// Describes the quality of the prediction in one sentence, for the device's description.
pub fn sentence(evaluation: &Evaluation, split: Ratio, predicted: PredictedPart) -> String {
    if !evaluation.is_judged() {
        return format!(
            "not measured: {} fitted and {} left to predict, and {JUDGED_REQUESTS_MIN} of each are needed",
            numbered(evaluation.fitted_requests, "request[|s] [was|were]"),
            evaluation.predicted_requests
        );
    }
    let pct = |demerit: &seeklab_analysis::comparison::Demerit| {
        demerit.ea_rms_pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.2} %"))
    };
    let operations = evaluation.operations.iter().map(|of| {
        format!(
            "; {}: {} (mean {:+.1} %, p99 {:+.1} %, demerit up to p99 {})",
            of.operation.name(),
            of.verdict.text(),
            of.mean_error_pct,
            of.p99_error_pct,
            pct(&of.prediction.demerit_to_p99)
        )
    });
    let means = evaluation.operation_means.map_or_else(String::new, |means| {
        format!(
            "mean of the operations {:.2} % (random variation {:.2} %), ",
            means.demerit_to_p99_pct, means.resampled_demerit_to_p99_pct
        )
    });
    format!(
        "fitted to the first {:.0} % of the time; demerit of {} up to p99: {means}all requests {} ({}){}",
        100.0 * split.as_f64(),
        match predicted {
            PredictedPart::Rest => "the rest",
            PredictedPart::All => "the whole trace",
        },
        pct(&evaluation.prediction.demerit_to_p99),
        pct(&evaluation.prediction.resampled_demerit_to_p99),
        operations.collect::<String>()
    )
}

/// Results of a split trace.
#[derive(Debug, Default)]
pub struct Evaluated {
    /// Evaluations of the models by the second part.
    pub evaluations: Vec<Evaluation>,
    /// The second part as it was measured.
    pub measured: Option<Measured>,
}

/// Part of a trace that models predict after they were fitted to its first part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PredictedPart {
    /// The requests behind the fitted part.
    #[default]
    Rest,
    /// All requests, those of the fitted part among them, as in \[Thornock97, 3.2\].
    All,
}

/// A trace that is split: times of the first part, then models that predict the rest, or all of it.
pub struct Evaluating {
    boundary: Instant,
    predicted: PredictedPart,
    /// Requests of the fitted part that the models know and that come once more, to be predicted.
    repeated: u64,
    seed: Seed,
    /// Name of the device, which its random streams begin with.
    name: String,
    is_open: bool,
    following: Following,
    /// Times of the fitted part, by operation.
    fitted: [Distribution; Operation::ALL.len()],
    rest: Option<Rest>,
}

/// Returns the arrivals of a prediction: as recorded if that is asked, otherwise with what they had depended on.
fn arrivals(is_open: bool, following: &Following) -> Mode {
    if is_open { Mode::Open } else { following.mode() }
}

/// All times of several distributions.
fn merged(distributions: &[Distribution]) -> Distribution {
    let mut all = Distribution::default();
    distributions.iter().for_each(|times| all.merge(times));
    all
}

/// Returns the response time of a request that succeeded.
fn measured(record: &TraceRecord) -> Option<Duration> {
    record.successful_response_time()
}

/// The part that is predicted.
struct Rest {
    measured: ResponseProfile,
    parts: PartTimes,
    operation_parts: OperationParts,
    /// Measured completions of the outstanding requests.
    outstanding: BinaryHeap<Reverse<Instant>>,
    /// Arrival of its first request.
    from: Instant,
    requests: u64,
    failed_requests: u64,
    predicting: Vec<Predicting>,
}

/// Slow is what exceeds this quantile of the times measured in the fitted part.
const SLOW: f64 = 0.95;

impl Evaluating {
    /// Requests from `boundary` on, or all, are predicted by draws from `seed`; open, or after what they waited for. The
    /// device has that number, and so have its random streams, as in a simulation. To predict [all](PredictedPart::All), the
    /// trace is read once by [`fit_first_part`](Self::fit_first_part) and once more by [`take`](Self::take).
    pub fn from(boundary: Instant, predicted: PredictedPart, device: u16, seed: Seed, is_open: bool) -> Self {
        let name = format!("disk{device}");
        let (following, fitted) = (Following::default(), Default::default());
        Self { boundary, predicted, repeated: 0, seed, name, is_open, following, fitted, rest: None }
    }

    /// Fits the models to those of the requests, in order of arrival, that belong to the fitted part.
    pub fn fit_first_part(&mut self, records: &[TraceRecord], fits: &mut [Box<dyn Fit>]) {
        let fitted = &records[..self.fitted_of(records)];
        fits.iter_mut().for_each(|fit| fit.record_all(fitted));
        self.repeated += fitted.len() as u64;
    }

    /// Returns true if the first prediction begins with these requests, for which models are fitted: that takes a while.
    pub fn begins_with(&self, records: &[TraceRecord]) -> bool {
        let is_there = |record: &TraceRecord| self.predicts_all() || record.arrival >= self.boundary;
        self.rest.is_none() && records.last().is_some_and(is_there)
    }

    /// Requests more, in order of arrival: what was fitted so far predicts them, if their turn has come, and then learns
    /// from them.
    ///
    /// # Errors
    /// If a model has no requests, or a fitted device refuses a request.
    pub fn take(
        &mut self,
        records: &[TraceRecord],
        about: &DeviceInfo,
        models: &[&'static Model],
        fits: &mut [Box<dyn Fit>],
    ) -> Result<(), Error> {
        let (fitted, rest) = match self.predicts_all() {
            true => records.split_at(0),
            false => records.split_at(self.fitted_of(records)),
        };
        fits.iter_mut().for_each(|fit| fit.record_all(fitted));
        if rest.is_empty() {
            return Ok(());
        }
        let predicted = match &mut self.rest {
            Some(predicted) => predicted,
            none => {
                self.fitted.iter_mut().for_each(Distribution::compact);
                let mode = arrivals(self.is_open, &self.following);
                none.insert(Rest::begin(
                    &merged(&self.fitted),
                    rest[0].arrival,
                    about,
                    (self.seed, &self.name, mode),
                    models,
                    fits,
                )?)
            }
        };
        rest.iter().try_for_each(|record| predicted.take(record))?;
        let known = usize::try_from(self.repeated).unwrap_or(usize::MAX).min(rest.len());
        self.repeated -= known as u64;
        fits.iter_mut().for_each(|fit| fit.record_all(&rest[known..]));
        Ok(())
    }

    const fn predicts_all(&self) -> bool {
        matches!(self.predicted, PredictedPart::All)
    }

    /// Returns how many of these requests belong to the fitted part, and records their times. The fitted part has
    /// at least one measured request.
    fn fitted_of(&mut self, records: &[TraceRecord]) -> usize {
        if self.rest.is_some() {
            return 0;
        }
        let is_measured = |fitted: &[Distribution]| fitted.iter().any(|times| times.moments().count() > 0);
        for (index, record) in records.iter().enumerate() {
            if record.arrival >= self.boundary && is_measured(&self.fitted) {
                return index;
            }
            if let Some(completion) = record.completion {
                self.following.record(record.arrival, completion);
            }
            if let Some(response) = measured(record) {
                self.fitted[record.op as usize].record(response);
            }
        }
        records.len()
    }

    /// Returns the results when all requests are taken. `None` if there was nothing left to predict.
    pub fn finish(self) -> Option<Evaluated> {
        let Rest { mut measured, parts, operation_parts, from, failed_requests, mut predicting, .. } =
            self.rest?;
        measured.compact();
        predicting.iter_mut().for_each(Predicting::run_to_the_end);
        let times = measured.response();
        let modelled: Vec<Distribution> =
            predicting.iter().map(|predicting| predicting.answers.profile.response()).collect();
        // As many steps as the requests can fill.
        let steps = 2.5 * (times.moments().count() as f64).powf(0.4);
        let steps = (steps as usize).clamp(16, DENSITY_STEPS_MAX);
        let axis = DensityAxis::over([&times].into_iter().chain(&modelled), steps)?;
        let of_models = predicting.into_iter().zip(modelled);
        let evaluations: Option<Vec<_>> = of_models
            .map(|(predicting, predicted)| {
                predicting.evaluate(&measured, &times, &predicted, &axis, self.seed)
            })
            .collect();
        let evaluations = evaluations?;
        let change = change(&times, &merged(&self.fitted))?;
        let variation_between_parts = parts.variation(self.seed);
        let parts_alike = Likeness::of(&change, variation_between_parts.as_ref()).parts_alike();
        let operations = operation_parts.changes(&measured, &self.fitted, self.seed);
        let mode = arrivals(self.is_open, &self.following);
        let follows_within = if let Mode::Follow { within } = mode { within } else { None };
        let arrivals_independent = self.following.mode() == Mode::Open;
        let measured = Measured {
            change,
            variation_between_parts,
            is_open: mode == Mode::Open,
            arrivals_independent,
            follows_within_ms: follows_within.map(Duration::as_ms),
            follows_within,
            from,
            failed_requests,
            parts_alike,
            operations,
            figures: Figures::of(&measured, &times, &axis),
            profile: measured,
        };
        Some(Evaluated { evaluations, measured: Some(measured) })
    }
}

impl Rest {
    fn begin(
        fitted: &Distribution,
        from: Instant,
        about: &DeviceInfo,
        draws: (Seed, &str, Mode),
        models: &[&'static Model],
        fits: &[Box<dyn Fit>],
    ) -> Result<Self, Error> {
        let slow = fitted.quantile(SLOW).unwrap_or_default();
        let fits = models.iter().zip(fits);
        let begun: Result<_, Error> = fits
            .map(|(model, fit)| Predicting::by(model.name, fit.as_ref(), about.clone(), draws, slow))
            .collect();
        Ok(Self {
            measured: ResponseProfile::new(slow),
            parts: PartTimes::default(),
            operation_parts: OperationParts::default(),
            outstanding: BinaryHeap::new(),
            from,
            requests: 0,
            failed_requests: 0,
            predicting: begun?,
        })
    }

    fn take(&mut self, record: &TraceRecord) -> Result<(), Error> {
        let response = measured(record);
        let request = record.request(self.requests);
        let takes =
            |predicting: &Predicting| predicting.driven.device().capabilities().check(&request).is_ok();
        if !self.predicting.iter().all(takes) {
            // A transfer of nothing; the trace says so, and no device takes it.
            return Ok(());
        }
        while self.outstanding.peek().is_some_and(|Reverse(completion)| *completion <= record.arrival) {
            self.outstanding.pop();
        }
        let queue_length = u32::try_from(self.outstanding.len()).unwrap_or(u32::MAX);
        if let Some(response) = response {
            self.measured.record(record.op, queue_length, response);
            self.parts.record(response);
            self.operation_parts.record(record.op, response);
        }
        let measured = response.map(|response| Met { queue_length, response });
        for predicting in &mut self.predicting {
            predicting.take(record, measured)?;
        }
        self.requests += 1;
        self.failed_requests += u64::from(!record.status.is_success());
        self.outstanding.extend(record.completion.map(Reverse));
        Ok(())
    }
}

/// A device that predicts what follows, request by request.
struct Predicting {
    model: &'static str,
    description: Table,
    driven: Driven<Box<dyn Device>>,
    fitted: u64,
    answers: Answers,
}

/// Predicted times, taken into a profile in order of arrival.
struct Answers {
    profile: ResponseProfile,
    classes: ClassErrors,
    /// The requests from this number on, which wait for those before.
    next: u64,
    waiting: VecDeque<Predicted>,
}

/// A request that is predicted.
#[derive(Debug, Clone, Copy)]
struct Predicted {
    /// Queue length and response time as measured, if the response time was.
    measured: Option<Met>,
    /// Its operation, and what it met in the predicting device.
    answer: Option<(Operation, Met)>,
}

impl Answers {
    fn record(&mut self, completion: &Completion) {
        let number = completion.request.id.0;
        let predicted = Met { queue_length: completion.queue_length, response: completion.response_time() };
        self.waiting[(number - self.next) as usize].answer = Some((completion.request.op, predicted));
        while let Some(Predicted { measured, answer: Some((op, predicted)) }) = self.waiting.front() {
            if let Some(measured) = measured {
                self.profile.record(*op, predicted.queue_length, predicted.response);
                self.classes.record(*op, *measured, *predicted);
            }
            self.waiting.pop_front();
            self.next += 1;
        }
    }
}

impl Predicting {
    /// By the device that was fitted so far.
    fn by(
        model: &'static str,
        fit: &dyn Fit,
        about: DeviceInfo,
        (seed, name, mode): (Seed, &str, Mode),
        slow: Duration,
    ) -> Result<Self, Error> {
        let answers = Answers {
            profile: ResponseProfile::new(slow),
            classes: ClassErrors::default(),
            next: 0,
            waiting: VecDeque::new(),
        };
        let description = fit.description_with_state(about)?;
        let device = Description::from_table(name, name, description.clone())?.build(seed, name)?;
        Ok(Self {
            model,
            description,
            driven: Driven::new(device, mode),
            fitted: fit.summary().requests,
            answers,
        })
    }

    /// One request more, in order of arrival.
    fn take(&mut self, record: &TraceRecord, measured: Option<Met>) -> Result<(), Error> {
        self.answers.waiting.push_back(Predicted { measured, answer: None });
        self.driven.take(record, |completion| self.answers.record(completion))
    }

    fn run_to_the_end(&mut self) {
        self.driven.finish(|completion| self.answers.record(completion));
        self.answers.profile.compact();
    }

    fn evaluate(
        self,
        measured: &ResponseProfile,
        times: &Distribution,
        predicted: &Distribution,
        axis: &DensityAxis,
        seed: Seed,
    ) -> Option<Evaluation> {
        let coverage = self.driven.device().coverage().unwrap_or_default();
        let Answers { profile, classes, .. } = &self.answers;
        let operations = OperationEvaluation::each(measured, profile, classes, seed);
        Some(Evaluation {
            model: self.model,
            description: self.description,
            fitted_requests: self.fitted,
            predicted_requests: times.moments().count(),
            measured: Times::of(times)?,
            predicted: Times::of(predicted)?,
            prediction: prediction(times, predicted, seed)?,
            out_of_fitted_range_pct: coverage.out_of_fitted_range_pct(),
            worst_class: worst_class(classes.classes()),
            classes: classes.classes().collect(),
            operation_means: OperationMeans::of(&operations),
            operations,
            figures: Figures::of(&self.answers.profile, predicted, axis),
            profile: self.answers.profile,
        })
    }
}
