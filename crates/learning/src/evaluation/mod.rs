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
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use schemars::JsonSchema;
use seeklab_analysis::verdict::worst_class;
use seeklab_analysis::{
    Change, ClassError, ClassErrors, DensityAxis, PartTimes, Prediction, ResponseProfile, Verdict, change,
    prediction,
};
use seeklab_core::statistics::Distribution;
use seeklab_core::{Completion, Coverage, Device, Duration, Instant, Operation, Ratio, Seed, TraceRecord};
use seeklab_workloads::replay::{Following, Mode};
use serde::Serialize;

use crate::driven::Driven;
use crate::error::Error;
use crate::fit::{self, DeviceInfo, Fit, Model};
use figures::DENSITY_STEPS_MAX;

pub use figures::{Figures, Lag, Quantile, QueueLength, RunLength, Slow};

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
    /// Prediction of each operation.
    pub operations: Vec<OperationEvaluation>,
    /// Figures of the predicted response times.
    pub figures: Figures,
    /// The same, to be drawn.
    #[serde(skip)]
    pub profile: ResponseProfile,
}

/// Prediction of the response times of one operation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OperationEvaluation {
    /// The operation.
    pub operation: Operation,
    /// Requests predicted.
    pub requests: u64,
    /// Mean response time that was measured.
    pub measured_mean_ms: f64,
    /// Mean response time that was predicted.
    pub predicted_mean_ms: f64,
    /// Error of the predicted mean; negative if it is too short.
    pub mean_error_pct: f64,
    /// The class of this operation with the greatest error of the mean.
    pub worst_class: Option<ClassError>,
    /// Usability of the model for this operation.
    pub verdict: Verdict,
    /// Demerits between the two.
    #[serde(flatten)]
    pub prediction: Prediction,
}

/// Measured response times of the predicted part.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Measured {
    /// Difference between the times of the fitted part and of the rest.
    pub change: Change,
    /// Median demerit between the rest and resamples of whole parts of it, which keep slow requests together; none if
    /// the rest is too short.
    pub variation_between_parts: Option<Change>,
    /// The change is within twice that variation, or 2 %, up to the 99th percentile, and the variation below 50 %.
    pub parts_alike: bool,
    /// True if the recorded arrival times are kept, whatever the device does.
    pub is_open: bool,
    /// Time after a completion within which a request that waited for it arrives, estimated from the fitted part.
    pub follows_within_ms: Option<f64>,
    /// Figures of the measured response times.
    pub figures: Figures,
    /// The same, to be drawn.
    #[serde(skip)]
    pub profile: ResponseProfile,
}

/// A variation between parts up to the 99th percentile, in percent, above which a change between parts is not judged.
const TELLING_PCT: f64 = 50.0;

impl Measured {
    /// Returns true if the parts of the rest are similar enough to judge whether the fitted part is like the
    /// rest.
    pub fn is_telling(&self) -> bool {
        self.variation_between_parts.as_ref().is_some_and(is_telling)
    }
}

fn is_telling(variation: &Change) -> bool {
    variation.demerit_to_p99.ea_rms_pct.is_none_or(|pct| pct <= TELLING_PCT)
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
        let quantile = |share| distribution.quantile(share).map(Duration::as_ms);
        Some(Self {
            mean_ms: distribution.moments().mean()? / 1e6,
            p50_ms: quantile(0.5)?,
            p90_ms: quantile(0.9)?,
            p99_ms: quantile(0.99)?,
            p999_ms: quantile(0.999)?,
            p9999_ms: quantile(0.9999)?,
            max_ms: distribution.moments().max()? / 1e6,
        })
    }
}

/// Describes the quality of the prediction in one sentence, for the device's description.
pub fn sentence(evaluation: &Evaluation, split: Ratio) -> String {
    let pct = |demerit: &seeklab_analysis::comparison::Demerit| {
        demerit.ea_rms_pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.2} %"))
    };
    let prediction = &evaluation.prediction;
    let verdicts = evaluation.operations.iter();
    let verdicts: String =
        verdicts.map(|of| format!("; {}: {}", of.operation.name(), of.verdict.text())).collect();
    format!(
        "fitted to the first {:.0} % of the time; demerit over the rest {} (random variation {}), up to p99 {} ({}){}",
        100.0 * split.as_f64(),
        pct(&prediction.demerit_all),
        pct(&prediction.resampled_demerit_all),
        pct(&prediction.demerit_to_p99),
        pct(&prediction.resampled_demerit_to_p99),
        verdicts
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

/// A trace that is split: times of the first part, then models that predict the rest.
pub struct Evaluating {
    boundary: Instant,
    seed: Seed,
    is_open: bool,
    following: Following,
    fitted: Distribution,
    rest: Option<Rest>,
}

/// Returns the time within which arrivals follow the completion that they waited for. `None` if open:
/// arrivals then wait for nothing.
fn soon(is_open: bool, following: &Following) -> Option<Duration> {
    if is_open { None } else { following.soon() }
}

/// Returns the response time of a request that succeeded.
fn measured(record: &TraceRecord) -> Option<Duration> {
    record.successful_response_time()
}

/// The part that is predicted.
struct Rest {
    measured: ResponseProfile,
    parts: PartTimes,
    /// Measured completions of the outstanding requests.
    outstanding: BinaryHeap<Reverse<Instant>>,
    requests: u64,
    predicting: Vec<Predicting>,
}

/// Slow is what exceeds this quantile of the times measured in the fitted part.
const SLOW: f64 = 0.95;

impl Evaluating {
    /// Requests from `boundary` on are predicted by draws from `seed`; open, or after what they waited for.
    pub fn from(boundary: Instant, seed: Seed, is_open: bool) -> Self {
        let (following, fitted) = (Following::default(), Distribution::default());
        Self { boundary, seed, is_open, following, fitted, rest: None }
    }

    /// Returns true if the first prediction begins with these requests, for which models are fitted: that takes a while.
    pub fn begins_with(&self, records: &[TraceRecord]) -> bool {
        self.rest.is_none() && records.last().is_some_and(|record| record.arrival >= self.boundary)
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
        let (fitted, rest) = records.split_at(self.fitted_of(records));
        fits.iter_mut().for_each(|fit| fit.record_all(fitted));
        if rest.is_empty() {
            return Ok(());
        }
        let predicted = match &mut self.rest {
            Some(predicted) => predicted,
            none => {
                let soon = soon(self.is_open, &self.following);
                let mode = if self.is_open { Mode::Open } else { Mode::Follow { within: soon } };
                none.insert(Rest::begin(&self.fitted, about, (self.seed, mode), models, fits)?)
            }
        };
        rest.iter().try_for_each(|record| predicted.take(record))?;
        fits.iter_mut().for_each(|fit| fit.record_all(rest));
        Ok(())
    }

    /// Returns how many of these requests belong to the fitted part, and records their times. The fitted part has
    /// at least one measured request.
    fn fitted_of(&mut self, records: &[TraceRecord]) -> usize {
        if self.rest.is_some() {
            return 0;
        }
        let is_rest = |record: &TraceRecord, fitted: &Distribution| {
            record.arrival >= self.boundary && fitted.moments().count() > 0
        };
        for (index, record) in records.iter().enumerate() {
            if is_rest(record, &self.fitted) {
                return index;
            }
            if let Some(completion) = record.completion {
                self.following.record(record.arrival, completion);
            }
            if let Some(response) = measured(record) {
                self.fitted.record(response);
            }
        }
        records.len()
    }

    /// Returns the results when all requests are taken. `None` if there was nothing left to predict.
    pub fn finish(self) -> Option<Evaluated> {
        let Rest { measured, parts, mut predicting, .. } = self.rest?;
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
        let change = change(&times, &self.fitted)?;
        let variation_between_parts = parts.variation(self.seed);
        let alike = |variation: &Change| change.is_small(&variation.demerit_to_p99) && is_telling(variation);
        let parts_alike = variation_between_parts.as_ref().is_some_and(alike);
        let measured = Measured {
            change,
            variation_between_parts,
            is_open: self.is_open,
            follows_within_ms: soon(self.is_open, &self.following).map(Duration::as_ms),
            parts_alike,
            figures: Figures::of(&measured, &times, &axis),
            profile: measured,
        };
        Some(Evaluated { evaluations, measured: Some(measured) })
    }
}

impl Rest {
    fn begin(
        fitted: &Distribution,
        about: &DeviceInfo,
        draws: (Seed, Mode),
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
            outstanding: BinaryHeap::new(),
            requests: 0,
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
        }
        let measured = response.map(|response| AsMeasured { queue_length, response });
        for predicting in &mut self.predicting {
            predicting.take(record, measured)?;
        }
        self.requests += 1;
        self.outstanding.extend(record.completion.map(Reverse));
        Ok(())
    }
}

/// A device that predicts what follows, request by request.
struct Predicting {
    model: &'static str,
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

/// A request as measured.
#[derive(Debug, Clone, Copy)]
struct AsMeasured {
    /// Requests outstanding when it arrived.
    queue_length: u32,
    response: Duration,
}

/// A request that is predicted.
#[derive(Debug, Clone, Copy)]
struct Predicted {
    /// Queue length and response time as measured, if the response time was.
    measured: Option<AsMeasured>,
    /// The others in the device at its arrival, and its response time.
    answer: Option<(Operation, u32, Duration)>,
}

impl Answers {
    fn record(&mut self, completion: &Completion) {
        let number = completion.request.id.0;
        self.waiting[(number - self.next) as usize].answer =
            Some((completion.request.op, completion.queue_length, completion.response_time()));
        while let Some(Predicted { measured, answer: Some((op, queue_length, response)) }) =
            self.waiting.front()
        {
            if let Some(measured) = measured {
                self.profile.record(*op, *queue_length, *response);
                self.classes.record(*op, measured.queue_length, measured.response, *response);
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
        (seed, mode): (Seed, Mode),
        slow: Duration,
    ) -> Result<Self, Error> {
        let answers = Answers {
            profile: ResponseProfile::new(slow),
            classes: ClassErrors::default(),
            next: 0,
            waiting: VecDeque::new(),
        };
        Ok(Self {
            model,
            driven: Driven::new(fit::build(fit, about, seed, "disk0")?, mode),
            fitted: fit.summary().requests,
            answers,
        })
    }

    /// One request more, in order of arrival.
    fn take(&mut self, record: &TraceRecord, measured: Option<AsMeasured>) -> Result<(), Error> {
        self.answers.waiting.push_back(Predicted { measured, answer: None });
        self.driven.take(record, |completion| self.answers.record(completion))
    }

    fn run_to_the_end(&mut self) {
        self.driven.finish(|completion| self.answers.record(completion));
    }

    fn evaluate(
        self,
        measured: &ResponseProfile,
        times: &Distribution,
        predicted: &Distribution,
        axis: &DensityAxis,
        seed: Seed,
    ) -> Option<Evaluation> {
        let Coverage { requests, outside } = self.driven.device().coverage().unwrap_or_default();
        let operations = Operation::ALL.into_iter().filter_map(|operation| {
            let (measured, predicted) = (measured.of(operation), self.answers.profile.of(operation));
            let requests = measured.moments().count();
            let measured_mean_ms = measured.moments().mean()? / 1e6;
            let predicted_mean_ms = predicted.moments().mean()? / 1e6;
            let mean_error_pct = match measured_mean_ms > 0.0 {
                true => 100.0 * (predicted_mean_ms / measured_mean_ms - 1.0),
                false => 100.0 * f64::from(u8::from(predicted_mean_ms > 0.0)),
            };
            let worst_class =
                worst_class(self.answers.classes.classes().filter(|class| class.operation == operation));
            let prediction = prediction(measured, predicted, seed)?;
            Some(OperationEvaluation {
                operation,
                requests,
                measured_mean_ms,
                predicted_mean_ms,
                mean_error_pct,
                worst_class,
                verdict: Verdict::of(requests, mean_error_pct, &prediction, worst_class.as_ref()),
                prediction,
            })
        });
        Some(Evaluation {
            model: self.model,
            fitted_requests: self.fitted,
            predicted_requests: times.moments().count(),
            measured: Times::of(times)?,
            predicted: Times::of(predicted)?,
            prediction: prediction(times, predicted, seed)?,
            out_of_fitted_range_pct: 100.0 * outside as f64 / requests.max(1) as f64,
            worst_class: worst_class(self.answers.classes.classes()),
            operations: operations.collect(),
            figures: Figures::of(&self.answers.profile, predicted, axis),
            profile: self.answers.profile,
        })
    }
}
