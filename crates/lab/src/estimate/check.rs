//! A simulation beside its estimate: do they agree?

use schemars::JsonSchema;
use seeklab_analysis::MetricsSummary;
use seeklab_core::Seed;
use seeklab_estimate::assumptions::{Assumption, AssumptionKind, exponential_think_times, writes_of_the_law};
use seeklab_estimate::{Estimate, Method};
use serde::Serialize;

use super::figures::{AssumptionFigures, ErrorFigures, MethodFigures, rounded};
use super::observed::{Observed, Variation};
use super::{Estimating, row};
use crate::devices::Resolved;
use crate::failure::Failure;
use crate::workload::ResolvedWorkload;

/// An estimate beside the simulation of the same load.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EstimateCheck {
    /// True if no difference of a response time, over all requests and of each class, exceeds the error of such estimates and the
    /// random variation of the run; null if that error is unknown.
    pub agrees: Option<bool>,
    /// The estimate.
    pub estimate: MethodFigures,
    /// Origin of the service law: `exact`, `integrated` or `sampled`.
    pub law_origin: &'static str,
    /// Difference of the estimated mean response time from the simulated one.
    pub response_mean_difference_pct: Option<f64>,
    /// Difference of the estimated 99th percentile of the response time from the simulated one.
    pub response_p99_difference_pct: Option<f64>,
    /// Difference of the estimated mean response time of the time-critical requests from the simulated one; null unless the method
    /// has classes.
    pub time_critical_difference_pct: Option<f64>,
    /// Difference of the estimated mean response time of the time-noncritical requests, likewise.
    pub time_noncritical_difference_pct: Option<f64>,
    /// Difference of the estimated mean service time from the simulated one.
    pub service_mean_difference_pct: Option<f64>,
    /// Random variation of the simulated mean: half of its 90 % interval. Null if estimate and simulation have the same
    /// arrivals, or with too few requests.
    pub response_mean_variation_pct: Option<f64>,
    /// Random variation of the simulated 99th percentile, likewise.
    pub response_p99_variation_pct: Option<f64>,
    /// Largest errors of such estimates against simulations where their assumptions hold, by the table of the validation; of
    /// laws of another origin if none was compared with this.
    pub error_pct: ErrorFigures,
    /// Assumptions of the method that do not hold in the simulation.
    pub broken_assumptions: Vec<AssumptionFigures>,
    /// Simpler methods beside the same simulation.
    pub beside: Vec<MethodCheck>,
}

/// A simpler method beside a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MethodCheck {
    /// The method: `mg1` or `allen_cunneen`.
    pub method: &'static str,
    /// True if the difference does not exceed the error of such estimates; null if that error is unknown.
    pub agrees: Option<bool>,
    /// Difference of the estimated mean response time from the simulated one.
    pub response_mean_difference_pct: Option<f64>,
    /// Largest error of the mean of such estimates against simulations, where their assumptions hold.
    pub error_mean_pct: Option<f64>,
    /// Assumptions of the method that do not hold in the simulation.
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
    observed: &Observed,
    is_saturated: bool,
) -> Result<EstimateCheck, Failure> {
    let estimating = Estimating::new(device, workload, seed)?;
    let (row, _) = row(device, &estimating)?;
    let (response, service) = (simulated.response.as_ref(), simulated.service.as_ref());
    let simulated_mean_ms = response.map(|times| times.mean_ms);
    let classes = simulated.by_criticality.as_ref();
    let differences = Differences {
        mean: difference_pct(row.estimate.response_mean_ms, simulated_mean_ms),
        p99: difference_pct(row.estimate.response_p99_ms, response.map(|times| times.p99_ms)),
        time_critical: difference_pct(
            row.estimate.time_critical_response_mean_ms,
            classes.and_then(|classes| classes.time_critical.response_mean_ms),
        ),
        time_noncritical: difference_pct(
            row.estimate.time_noncritical_response_mean_ms,
            classes.and_then(|classes| classes.time_noncritical.response_mean_ms),
        ),
    };
    let has_same_arrivals = estimating.load.has_same_arrivals;
    let variation = if has_same_arrivals { Variation::default() } else { observed.variation(simulated) };
    let main = estimating.at(1.0).ok();
    let error_pct =
        main.as_ref().map(|estimate| estimating.errors_with_assumptions(estimate)).unwrap_or_default();
    let agrees = if row.saturated || is_saturated {
        let share = estimating.law.saturating_share();
        let piles_up = is_saturated || observed.has_piled_up(row.estimate.saturation_per_s, share);
        Some(row.saturated == piles_up)
    } else {
        differences.agree(error_pct, variation)
    };
    let mut tests = observed.assumptions(&estimating.law, estimating.law_shape, has_same_arrivals);
    tests.push(writes_of_the_law(estimating.writes_without_law));
    tests.extend(estimating.load.think_variation.map(exponential_think_times));
    tests.extend(estimating.network_tests());
    let broken = |method: Option<Method>| broken(&tests, method);
    let beside = estimating.beside();
    let beside = beside.iter().map(|estimate| {
        beside_check(estimate, &estimating, simulated_mean_ms, variation, broken(Some(estimate.method)))
    });
    Ok(EstimateCheck {
        agrees,
        estimate: row.estimate,
        law_origin: row.law.origin,
        response_mean_difference_pct: differences.mean,
        response_p99_difference_pct: differences.p99,
        time_critical_difference_pct: differences.time_critical,
        time_noncritical_difference_pct: differences.time_noncritical,
        service_mean_difference_pct: difference_pct(
            row.estimate.service_mean_ms,
            service.map(|times| times.mean_ms),
        ),
        response_mean_variation_pct: variation.mean_pct.map(rounded),
        response_p99_variation_pct: variation.p99_pct.map(rounded),
        error_pct,
        broken_assumptions: broken(main.map(|estimate| estimate.method)),
        beside: beside.collect(),
    })
}

/// Differences of the estimated response times from the simulated ones, in percent.
#[derive(Debug, Clone, Copy, Default)]
struct Differences {
    mean: Option<f64>,
    p99: Option<f64>,
    time_critical: Option<f64>,
    time_noncritical: Option<f64>,
}

impl Differences {
    /// Returns true if none exceeds its error and its random variation; `None` if no error is known. The error of a mean is that of
    /// the means of the classes, too.
    fn agree(&self, error: ErrorFigures, variation: Variation) -> Option<bool> {
        let parts = [
            is_within(self.mean, error.response_mean_pct, variation.mean_pct),
            is_within(self.p99, error.response_p99_pct, variation.p99_pct),
            is_within(self.time_critical, error.response_mean_pct, variation.time_critical_mean_pct),
            is_within(self.time_noncritical, error.response_mean_pct, variation.time_noncritical_mean_pct),
        ];
        parts.into_iter().flatten().reduce(|one, other| one && other)
    }
}

/// Difference of an estimated figure from the simulated one, in percent.
pub(super) fn difference_pct(estimated: Option<f64>, simulated: Option<f64>) -> Option<f64> {
    let simulated = simulated.filter(|simulated| *simulated > 0.0)?;
    Some(rounded(100.0 * (estimated? / simulated - 1.0)))
}

/// Difference that counts as none, in percent: the percentiles of a simulation are those of a histogram.
const RESOLUTION_PCT: f64 = 0.5;

/// Returns true if a difference exceeds neither the error of estimates nor what random variation adds.
pub(super) fn is_within(
    difference_pct: Option<f64>,
    error_pct: Option<f64>,
    variation_pct: Option<f64>,
) -> Option<bool> {
    Some(difference_pct?.abs() <= error_pct? + variation_pct.unwrap_or_default() + RESOLUTION_PCT)
}

/// Assumptions that do not hold and that a method relies on. Without a method, for an overload, those about the device and
/// the requests.
fn broken(tests: &[Assumption], method: Option<Method>) -> Vec<AssumptionFigures> {
    let is_about_requests = |kind: AssumptionKind| {
        matches!(
            kind,
            AssumptionKind::AddressesOfTheLaw
                | AssumptionKind::SizesOfTheLaw
                | AssumptionKind::OperationsOfTheLaw
                | AssumptionKind::WritesOfTheLaw
                | AssumptionKind::NoFaults
                | AssumptionKind::LimitsInSteadyState
        )
    };
    let is_needed =
        |kind| method.map_or_else(|| is_about_requests(kind), |method: Method| method.relies_on(kind));
    let broken = tests.iter().filter(|test| !test.holds() && is_needed(test.kind));
    broken.map(|test| AssumptionFigures::of(test, true)).collect()
}

fn beside_check(
    estimate: &Estimate,
    estimating: &Estimating,
    simulated_mean_ms: Option<f64>,
    variation: Variation,
    broken_assumptions: Vec<AssumptionFigures>,
) -> MethodCheck {
    let error = estimating.errors_with_assumptions(estimate);
    let mean = difference_pct(Some(estimate.steady.response_mean_s * 1e3), simulated_mean_ms);
    MethodCheck {
        method: estimate.method.name(),
        agrees: is_within(mean, error.response_mean_pct, variation.mean_pct),
        response_mean_difference_pct: mean,
        error_mean_pct: error.response_mean_pct,
        broken_assumptions,
    }
}

/// A percentage with its sign.
pub(super) fn signed(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |pct| format!("{pct:+.1} %"))
}

/// A percentage that is an error.
fn plain(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |pct| format!("{pct:.1} %"))
}

impl EstimateCheck {
    /// The comparison in sentences.
    pub(crate) fn sentences(&self) -> String {
        let mut text = self.verdict();
        for broken in &self.broken_assumptions {
            text += &format!(". {}", broken.sentence());
        }
        if self.agrees == Some(false) && self.broken_assumptions.is_empty() {
            text += ". No tested assumption is broken";
        }
        let disagreeing = self.beside.iter().filter(|check| check.agrees == Some(false));
        for check in disagreeing.filter(|check| !check.broken_assumptions.is_empty()) {
            let names: Vec<String> =
                check.broken_assumptions.iter().map(|broken| format!("`{}`", broken.name)).collect();
            text += &format!(
                ". The simpler method `{}` would be off by {} (error of such estimates {}), for {} not hold: {}",
                check.method,
                signed(check.response_mean_difference_pct),
                plain(check.error_mean_pct),
                if names.len() == 1 { "this assumption does" } else { "these assumptions do" },
                names.join(", ")
            );
        }
        text
    }

    fn verdict(&self) -> String {
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
        let classes = self.time_critical_difference_pct.or(self.time_noncritical_difference_pct).map_or_else(
            String::new,
            |_| {
                format!(
                    ", of time-critical requests {}, of time-noncritical ones {}",
                    signed(self.time_critical_difference_pct),
                    signed(self.time_noncritical_difference_pct)
                )
            },
        );
        let variation = self.response_mean_variation_pct.map_or_else(String::new, |pct| {
            format!(
                ". Random variation of the run: {pct:.1} % of the mean, {} of p99",
                plain(self.response_p99_variation_pct)
            )
        });
        format!(
            "the estimate by `{method}` {verdict}: mean response time {} (error of such estimates {}){classes}, p99 {} ({}), \
             mean service time {}{variation}",
            signed(self.response_mean_difference_pct),
            plain(self.error_pct.response_mean_pct),
            signed(self.response_p99_difference_pct),
            plain(self.error_pct.response_p99_pct),
            signed(self.service_mean_difference_pct),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_may_be_as_large_as_error_and_variation() {
        assert_eq!(is_within(Some(-4.9), Some(3.0), Some(2.0)), Some(true));
        assert_eq!(is_within(Some(-5.6), Some(3.0), Some(2.0)), Some(false));
        assert_eq!(is_within(Some(3.6), Some(3.0), None), Some(false));
        assert_eq!(is_within(Some(0.0), None, Some(2.0)), None);
        assert_eq!(difference_pct(Some(3.0), Some(2.0)), Some(50.0));
        assert_eq!(difference_pct(Some(3.0), Some(0.0)), None);
    }

    #[test]
    fn class_that_is_off_disagrees_though_the_mean_over_all_is_right() {
        let error = ErrorFigures { response_mean_pct: Some(0.6), response_p99_pct: None };
        let variation = Variation {
            mean_pct: Some(1.0),
            time_critical_mean_pct: Some(1.0),
            time_noncritical_mean_pct: Some(3.0),
            ..Variation::default()
        };
        let near = Differences {
            mean: Some(0.2),
            time_critical: Some(-1.0),
            time_noncritical: Some(4.0),
            ..Differences::default()
        };
        assert_eq!(near.agree(error, variation), Some(true), "each class has its own variation");
        let critical = Differences { time_critical: Some(-2.5), ..near };
        let noncritical = Differences { time_noncritical: Some(4.5), ..near };
        assert_eq!(critical.agree(error, variation), Some(false));
        assert_eq!(noncritical.agree(error, variation), Some(false));
        assert_eq!(near.agree(ErrorFigures::default(), variation), None);
    }

    #[test]
    fn overload_relies_on_the_requests_alone() {
        let of = |kind| Assumption { kind, figure: 2.0, min: 0.0, max: 1.0 };
        let tests = [of(AssumptionKind::PoissonArrivals), of(AssumptionKind::LimitsInSteadyState)];
        let names = |method| broken(&tests, method).iter().map(|broken| broken.name).collect::<Vec<_>>();
        assert_eq!(names(None), ["limits_in_steady_state"]);
        assert_eq!(names(Some(Method::Mg1)), ["poisson_arrivals", "limits_in_steady_state"]);
        assert_eq!(names(Some(Method::Lindley)), ["limits_in_steady_state"]);
    }
}
