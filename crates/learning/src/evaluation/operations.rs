//! Evaluation by operation: each operation for itself, and the mean over those that decide.

use schemars::JsonSchema;
use seeklab_analysis::verdict::worst_class;
use seeklab_analysis::{
    Change, ClassError, ClassErrors, OperationShares, PartTimes, Prediction, ResponseProfile, Verdict,
    change, prediction,
};
use seeklab_core::statistics::Distribution;
use seeklab_core::{Duration, Operation, Seed};
use serde::Serialize;

use super::Likeness;

/// Prediction of the response times of one operation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OperationEvaluation {
    /// The operation.
    pub operation: Operation,
    /// Requests predicted.
    pub requests: u64,
    /// Share of all predicted requests.
    pub requests_pct: f64,
    /// Share of the sum of all measured response times.
    pub time_pct: f64,
    /// True if the operation makes at least 1 % of the requests or of the response time, so that it counts when models are
    /// compared.
    pub decides: bool,
    /// Mean response time that was measured.
    pub measured_mean_ms: f64,
    /// Mean response time that was predicted.
    pub predicted_mean_ms: f64,
    /// Error of the predicted mean; negative if it is too short.
    pub mean_error_pct: f64,
    /// 99th percentile of the response times that were measured.
    pub measured_p99_ms: f64,
    /// 99th percentile of the response times that were predicted.
    pub predicted_p99_ms: f64,
    /// Error of the predicted 99th percentile; negative if it is too short.
    pub p99_error_pct: f64,
    /// The class of this operation with the greatest error of the mean.
    pub worst_class: Option<ClassError>,
    /// Usability of the model for this operation.
    pub verdict: Verdict,
    /// Demerits between the two.
    #[serde(flatten)]
    pub prediction: Prediction,
}

/// Means of figures over the operations that decide: those with at least 1 % of the requests or of the response time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct OperationMeans {
    /// Demerit over everything.
    pub demerit_all_pct: f64,
    /// Demerit up to the 99th percentile. By this figure models are compared.
    pub demerit_to_p99_pct: f64,
    /// Demerit of resamples of the measured times, over everything.
    pub resampled_demerit_all_pct: f64,
    /// Demerit of resamples of the measured times, up to the 99th percentile.
    pub resampled_demerit_to_p99_pct: f64,
    /// Error of the predicted mean, without its sign.
    pub mean_error_pct: f64,
}

/// Change of the response times of one operation between the fitted and the predicted part.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct OperationChange {
    /// The operation.
    pub operation: Operation,
    /// Difference between the times of the fitted part and of the rest; null if the fitted part has no such requests.
    pub change: Option<Change>,
    /// Median demerit between the rest and resamples of whole parts of it; null if the rest is too short.
    pub variation_between_parts: Option<Change>,
    /// True if the parts are alike, false if they are not; null if that is unknown.
    pub parts_alike: Option<bool>,
}

/// Error of a predicted value in percent; 100 if it should be zero and is not.
pub(super) fn error_pct(measured: f64, predicted: f64) -> f64 {
    match measured > 0.0 {
        true => 100.0 * (predicted / measured - 1.0),
        false => 100.0 * f64::from(u8::from(predicted > 0.0)),
    }
}

impl OperationEvaluation {
    /// Evaluates a prediction of each operation that was measured and predicted.
    pub(super) fn each(
        measured: &ResponseProfile,
        predicted: &ResponseProfile,
        classes: &ClassErrors,
        seed: Seed,
    ) -> Vec<Self> {
        let shares = OperationShares::of(measured);
        let of = |operation: Operation| {
            let (measured, predicted) = (measured.of(operation), predicted.of(operation));
            let requests = measured.moments().count();
            let means_ms = [measured, predicted].map(|times| times.moments().mean().map(|ns| ns / 1e6));
            let p99s_ms = [measured, predicted].map(|times| times.quantile(0.99).map(Duration::as_ms));
            let (
                [Some(measured_mean_ms), Some(predicted_mean_ms)],
                [Some(measured_p99_ms), Some(predicted_p99_ms)],
            ) = (means_ms, p99s_ms)
            else {
                return None;
            };
            let mean_error_pct = error_pct(measured_mean_ms, predicted_mean_ms);
            let worst_class = worst_class(classes.classes().filter(|class| class.operation == operation));
            let prediction = prediction(measured, predicted, seed)?;
            Some(Self {
                operation,
                requests,
                requests_pct: shares.requests_pct(operation),
                time_pct: shares.time_pct(operation),
                decides: shares.decides(operation),
                measured_mean_ms,
                predicted_mean_ms,
                mean_error_pct,
                measured_p99_ms,
                predicted_p99_ms,
                p99_error_pct: error_pct(measured_p99_ms, predicted_p99_ms),
                worst_class,
                verdict: Verdict::of(requests, mean_error_pct, &prediction, worst_class.as_ref()),
                prediction,
            })
        };
        Operation::ALL.into_iter().filter_map(of).collect()
    }
}

impl OperationMeans {
    /// Returns the means; `None` if no operation decides, or a measured mean is zero.
    pub(super) fn of(operations: &[OperationEvaluation]) -> Option<Self> {
        let deciding: Vec<_> = operations.iter().filter(|of| of.decides).collect();
        let mean = |figure: &dyn Fn(&OperationEvaluation) -> Option<f64>| {
            let figures: Vec<f64> = deciding.iter().map(|of| figure(of)).collect::<Option<_>>()?;
            (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
        };
        Some(Self {
            demerit_all_pct: mean(&|of| of.prediction.demerit_all.ea_rms_pct)?,
            demerit_to_p99_pct: mean(&|of| of.prediction.demerit_to_p99.ea_rms_pct)?,
            resampled_demerit_all_pct: mean(&|of| of.prediction.resampled_demerit_all.ea_rms_pct)?,
            resampled_demerit_to_p99_pct: mean(&|of| of.prediction.resampled_demerit_to_p99.ea_rms_pct)?,
            mean_error_pct: mean(&|of| Some(of.mean_error_pct.abs()))?,
        })
    }
}

/// Response times of each operation, whole and in parts.
#[derive(Debug, Default)]
pub(super) struct OperationParts {
    parts: [PartTimes; Operation::ALL.len()],
}

impl OperationParts {
    pub(super) fn record(&mut self, op: Operation, response: Duration) {
        self.parts[op as usize].record(response);
    }

    /// The change of each operation that was measured in the rest.
    pub(super) fn changes(
        &self,
        measured: &ResponseProfile,
        fitted: &[Distribution; Operation::ALL.len()],
        seed: Seed,
    ) -> Vec<OperationChange> {
        let measured_of = |op: &Operation| measured.of(*op).moments().count() > 0;
        let of = |operation: Operation| {
            let change = change(measured.of(operation), &fitted[operation as usize]);
            let variation_between_parts = self.parts[operation as usize].variation(seed);
            let likeness =
                change.as_ref().map(|change| Likeness::of(change, variation_between_parts.as_ref()));
            let parts_alike = likeness.and_then(Likeness::parts_alike);
            OperationChange { operation, change, variation_between_parts, parts_alike }
        };
        Operation::ALL.into_iter().filter(measured_of).map(of).collect()
    }
}
