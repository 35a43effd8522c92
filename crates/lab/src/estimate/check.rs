//! A simulation beside its estimate: do they agree?

use schemars::JsonSchema;
use seeklab_analysis::MetricsSummary;
use seeklab_core::Seed;
use serde::Serialize;

use super::figures::{AssumptionFigures, ErrorFigures, MethodFigures, rounded};
use super::{Estimating, row};
use crate::devices::Resolved;
use crate::failure::Failure;
use crate::workload::ResolvedWorkload;

/// An estimate beside the simulation of the same load.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EstimateCheck {
    /// True if no difference exceeds the error of such estimates; null if that error is unknown.
    pub agrees: Option<bool>,
    /// The estimate.
    pub estimate: MethodFigures,
    /// Origin of the service law: `exact`, `integrated` or `sampled`.
    pub law_origin: &'static str,
    /// Difference of the estimated mean response time from the simulated one.
    pub response_mean_difference_pct: Option<f64>,
    /// Difference of the estimated 99th percentile of the response time from the simulated one.
    pub response_p99_difference_pct: Option<f64>,
    /// Difference of the estimated mean service time from the simulated one.
    pub service_mean_difference_pct: Option<f64>,
    /// Largest errors of such estimates against simulations, by the table of the validation.
    pub error_pct: ErrorFigures,
    /// Assumptions that do not hold.
    pub broken_assumptions: Vec<AssumptionFigures>,
}

/// Compares a simulation with the estimate of its load.
///
/// # Errors
/// A load without a method, or requests that the device refuses.
pub(crate) fn check(
    device: &Resolved,
    workload: &ResolvedWorkload,
    seed: Seed,
    simulated: &MetricsSummary,
    is_saturated: bool,
) -> Result<EstimateCheck, Failure> {
    let (row, _) = row(device, &Estimating::new(device, workload, seed)?, None)?;
    let difference_pct = |estimated: Option<f64>, simulated: Option<f64>| {
        let simulated = simulated.filter(|simulated| *simulated > 0.0)?;
        Some(rounded(100.0 * (estimated? / simulated - 1.0)))
    };
    let (response, service) = (simulated.response.as_ref(), simulated.service.as_ref());
    let mean = difference_pct(row.estimate.response_mean_ms, response.map(|times| times.mean_ms));
    let p99 = difference_pct(row.estimate.response_p99_ms, response.map(|times| times.p99_ms));
    let service = difference_pct(row.estimate.service_mean_ms, service.map(|times| times.mean_ms));
    let within = |difference: Option<f64>, error: Option<f64>| Some(difference?.abs() <= error?);
    let agrees = if row.saturated || is_saturated {
        Some(row.saturated == is_saturated)
    } else {
        let parts =
            [within(mean, row.error_pct.response_mean_pct), within(p99, row.error_pct.response_p99_pct)];
        parts.into_iter().flatten().reduce(|one, other| one && other)
    };
    Ok(EstimateCheck {
        agrees,
        estimate: row.estimate,
        law_origin: row.law.origin,
        response_mean_difference_pct: mean,
        response_p99_difference_pct: p99,
        service_mean_difference_pct: service,
        error_pct: row.error_pct,
        broken_assumptions: row.assumptions.into_iter().filter(|assumption| !assumption.holds).collect(),
    })
}

impl EstimateCheck {
    /// The comparison in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let pct =
            |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |pct| format!("{pct:+.1} %"));
        let Some(method) = self.estimate.method else {
            return match self.agrees {
                Some(true) => "the estimate agrees: the device cannot sustain this load".to_owned(),
                _ => "the estimate disagrees: by it, the device cannot sustain this load".to_owned(),
            };
        };
        let verdict = match self.agrees {
            Some(true) => "agrees with the simulation",
            Some(false) => "disagrees with the simulation",
            None => "has no known error to compare with",
        };
        let error =
            |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |pct| format!("{pct:.1} %"));
        let mut text = format!(
            "the estimate by `{method}` {verdict}: mean response time {} (error of such estimates {}), p99 {} ({}), \
             mean service time {}",
            pct(self.response_mean_difference_pct),
            error(self.error_pct.response_mean_pct),
            pct(self.response_p99_difference_pct),
            error(self.error_pct.response_p99_pct),
            pct(self.service_mean_difference_pct),
        );
        for broken in &self.broken_assumptions {
            text += &format!(
                "; the assumption `{}` does not hold: {} is {:.3}, allowed {:.3} to {:.3}",
                broken.name, broken.meaning, broken.figure, broken.figure_min, broken.figure_max
            );
        }
        text
    }
}
