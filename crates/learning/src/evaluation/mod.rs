//! How fitted devices predict what they did not see, beside how much that differs from what they saw.
//!
//! ```text
//! before the boundary ─▶ fitted part: its times ────────────────┐
//! after it ─┬─▶ measured: profile ──────────────┬─▶ change ◀────┘
//!           └─▶ each device, by replay ─▶ its profile ┴─▶ demerit, densities, dependence, tails
//! ```
//! Memory holds profiles and what is outstanding.

mod figures;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use seeklab_analysis::{Change, DensityAxis, Prediction, ResponseProfile, Stretches, change, prediction};
use seeklab_core::statistics::Distribution;
use seeklab_core::{
    Completion, Coverage, Device, Duration, Instant, Operation, Ratio, Seed, Status, TraceRecord,
};
use seeklab_workloads::replay::{Following, Mode};
use serde::Serialize;

use crate::driven::Driven;
use crate::error::Error;
use crate::fit::{self, DeviceInfo, Fit, Model};
use figures::DENSITY_STEPS_MAX;

pub use figures::{Figures, Lag, Quantile, QueueLength, RunLength, Slow};

/// How a device predicts what it did not see.
#[derive(Debug, Serialize)]
pub struct Evaluation {
    /// The model.
    pub model: &'static str,
    /// Requests in the part that it was fitted to.
    pub fitted: u64,
    /// Requests that it predicted.
    pub predicted: u64,
    /// What was measured.
    pub measured: Times,
    /// What it said.
    pub said: Times,
    /// How far these are apart.
    #[serde(flatten)]
    pub prediction: Prediction,
    /// Share of the requests that were unlike all that it was fitted to.
    pub outside_pct: f64,
    /// The same for each operation.
    pub operations: Vec<OperationEvaluation>,
    /// What its times are like.
    pub figures: Figures,
    /// The same, to be drawn.
    #[serde(skip)]
    pub profile: ResponseProfile,
}

/// How a device predicts the times of one operation.
#[derive(Debug, Serialize)]
pub struct OperationEvaluation {
    /// The operation.
    pub operation: Operation,
    /// Requests predicted.
    pub requests: u64,
    /// Mean response time that was measured.
    pub measured_mean_ms: f64,
    /// Mean response time that was predicted.
    pub said_mean_ms: f64,
    /// How far these are apart.
    #[serde(flatten)]
    pub prediction: Prediction,
}

/// What was measured of the requests that were predicted.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// How far the times of the fitted part are from those of the rest.
    pub change: Change,
    /// What resamples of whole stretches of the rest have against it: the floor where requests are slow together; none
    /// if it is too short.
    pub floor_of_stretches: Option<Change>,
    /// Whether the change is within twice that floor, or 2 %, to the 99th percentile, and the floor below
    /// 50 %.
    pub is_alike: bool,
    /// Whether arrivals stayed where they were, whatever the device did.
    pub is_open: bool,
    /// How soon after a completion who waited for it arrives, as far as the fitted part shows it.
    pub follows_within_ms: Option<f64>,
    /// What the times are like.
    pub figures: Figures,
    /// The same, to be drawn.
    #[serde(skip)]
    pub profile: ResponseProfile,
}

/// A floor of stretches to the 99th percentile, in percent, beyond which no two parts can be told apart.
const TELLING_PCT: f64 = 50.0;

impl Measured {
    /// Whether stretches of the rest are enough alike to tell whether the fitted part was.
    pub fn is_telling(&self) -> bool {
        self.floor_of_stretches.as_ref().is_some_and(is_telling)
    }
}

fn is_telling(floor: &Change) -> bool {
    floor.to_p99.ea_rms_pct.is_none_or(|pct| pct <= TELLING_PCT)
}

/// A distribution in a few figures.
#[derive(Debug, Clone, Copy, Serialize)]
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
        let max_ms = distribution.moments().max()? / 1e6;
        // A quantile is known to the width of a bucket, the longest exactly.
        let quantile = |share| distribution.quantile(share).map(|time| time.as_ms().min(max_ms));
        Some(Self {
            mean_ms: distribution.moments().mean()? / 1e6,
            p50_ms: quantile(0.5)?,
            p90_ms: quantile(0.9)?,
            p99_ms: quantile(0.99)?,
            p999_ms: quantile(0.999)?,
            p9999_ms: quantile(0.9999)?,
            max_ms,
        })
    }
}

/// How well it predicts, in one sentence for its description.
pub fn sentence(evaluation: &Evaluation, split: Ratio) -> String {
    let pct = |demerit: &seeklab_analysis::comparison::Demerit| {
        demerit.ea_rms_pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.2} %"))
    };
    let Prediction { all, to_p99, floor_all, floor_to_p99 } = &evaluation.prediction;
    format!(
        "fitted to the first {:.0} % of the time, demerit over the rest {} (floor {}), to p99 {} (floor {})",
        100.0 * split.as_f64(),
        pct(all),
        pct(floor_all),
        pct(to_p99),
        pct(floor_to_p99)
    )
}

/// What comes of a split trace.
#[derive(Debug, Default)]
pub struct Evaluated {
    /// How each model predicted the second part.
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

/// How soon arrivals follow what they waited for; open, they wait for nothing.
fn soon(is_open: bool, following: &Following) -> Option<Duration> {
    if is_open { None } else { following.soon() }
}

/// The response time of a request that did what was asked.
fn measured(record: &TraceRecord) -> Option<Duration> {
    record.response_time().filter(|_| record.status == Status::Ok)
}

/// The part that is predicted.
struct Rest {
    measured: ResponseProfile,
    stretches: Stretches,
    /// When the requests outstanding complete, as measured.
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
    /// If a model learnt nothing, or a fitted device refuses a request.
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

    /// How many of these requests belong to the fitted part, whose times are taken in; at least one that was measured.
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

    /// How they did, when all is over; empty if nothing was left to predict.
    pub fn finish(self) -> Option<Evaluated> {
        let Rest { measured, stretches, mut predicting, .. } = self.rest?;
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
            .map(|(predicting, said)| predicting.evaluate(&measured, &times, &said, &axis, self.seed))
            .collect();
        let evaluations = evaluations?;
        let change = change(&times, &self.fitted)?;
        let floor_of_stretches = stretches.floor(self.seed);
        let is_alike = |floor: &Change| change.is_small(&floor.to_p99) && is_telling(floor);
        let is_alike = floor_of_stretches.as_ref().is_some_and(is_alike);
        let measured = Measured {
            change,
            floor_of_stretches,
            is_open: self.is_open,
            follows_within_ms: soon(self.is_open, &self.following).map(Duration::as_ms),
            is_alike,
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
            stretches: Stretches::default(),
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
        for predicting in &mut self.predicting {
            predicting.take(record, response.is_some())?;
        }
        while self.outstanding.peek().is_some_and(|Reverse(completion)| *completion <= record.arrival) {
            self.outstanding.pop();
        }
        if let Some(response) = response {
            let queue_length = u32::try_from(self.outstanding.len()).unwrap_or(u32::MAX);
            self.measured.record(record.op, queue_length, response);
            self.stretches.record(response);
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
    /// The requests from this number on, which wait for those before.
    next: u64,
    waiting: VecDeque<Predicted>,
}

/// A request that is predicted.
#[derive(Debug, Clone, Copy)]
struct Predicted {
    /// Whether its response time was measured.
    is_measured: bool,
    /// The others in the device at its arrival, and its response time.
    answer: Option<(Operation, u32, Duration)>,
}

impl Answers {
    fn record(&mut self, completion: &Completion) {
        let number = completion.request.id.0;
        self.waiting[(number - self.next) as usize].answer =
            Some((completion.request.op, completion.queue_length, completion.response_time()));
        while let Some(Predicted { is_measured, answer: Some((op, queue_length, response)) }) =
            self.waiting.front()
        {
            if *is_measured {
                self.profile.record(*op, *queue_length, *response);
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
        let answers = Answers { profile: ResponseProfile::new(slow), next: 0, waiting: VecDeque::new() };
        Ok(Self {
            model,
            driven: Driven::new(fit::build(fit, about, seed, "disk0")?, mode),
            fitted: fit.summary().requests,
            answers,
        })
    }

    /// One request more, in order of arrival.
    fn take(&mut self, record: &TraceRecord, is_measured: bool) -> Result<(), Error> {
        self.answers.waiting.push_back(Predicted { is_measured, answer: None });
        self.driven.take(record, |completion| self.answers.record(completion))
    }

    fn run_to_the_end(&mut self) {
        self.driven.finish(|completion| self.answers.record(completion));
    }

    fn evaluate(
        self,
        measured: &ResponseProfile,
        times: &Distribution,
        said: &Distribution,
        axis: &DensityAxis,
        seed: Seed,
    ) -> Option<Evaluation> {
        let Coverage { requests, outside } = self.driven.device().coverage().unwrap_or_default();
        let operations = Operation::ALL.into_iter().filter_map(|operation| {
            let (measured, said) = (measured.of(operation), self.answers.profile.of(operation));
            Some(OperationEvaluation {
                operation,
                requests: measured.moments().count(),
                measured_mean_ms: measured.moments().mean()? / 1e6,
                said_mean_ms: said.moments().mean()? / 1e6,
                prediction: prediction(measured, said, seed)?,
            })
        });
        Some(Evaluation {
            model: self.model,
            fitted: self.fitted,
            predicted: times.moments().count(),
            measured: Times::of(times)?,
            said: Times::of(said)?,
            prediction: prediction(times, said, seed)?,
            outside_pct: 100.0 * outside as f64 / requests.max(1) as f64,
            operations: operations.collect(),
            figures: Figures::of(&self.answers.profile, said, axis),
            profile: self.answers.profile,
        })
    }
}
