//! Growth of a load until a figure reaches its bound.

use seeklab_estimate::{EstimateError, growth_until, recorded_responses_s};

use super::bound::Bound;
use super::figures::{UntilFigures, rounded};
use super::load::Times;
use super::{Estimating, law};
use crate::failure::Failure;

/// Parts of a recorded load for the interval of its growth.
const PARTS: usize = 10;

/// 95th percentile of Student's distribution with 9 degrees of freedom, for intervals of 90 %.
const STUDENT: f64 = 1.833;

/// 95th percentile of the normal distribution.
const NORMAL: f64 = 1.645;

/// Least relative error of a mean service time.
const LAW_ERROR: f64 = 0.001;

impl Estimating {
    /// Growth of the load until the bound, with its interval.
    pub(super) fn until(&self, bound: Bound) -> Result<UntilFigures, Failure> {
        let growth = self.growth(bound, |growth| self.figure(bound, growth));
        let growth = growth.map_err(|error| self.explained(bound, error))?;
        let ends = match &self.load.times {
            Times::Poisson { .. } => self.interval_of_law(bound),
            Times::Recorded(_) => self.interval_of_parts(bound, growth),
            Times::Closed(_) => None,
        };
        Ok(UntilFigures {
            bound: bound.to_string(),
            growth: rounded(growth),
            growth_min: ends.map(|ends| rounded(ends.0.min(growth))),
            growth_max: ends.map(|ends| rounded(ends.1.max(growth))),
            arrivals_per_s: rounded(self.arrivals_per_s(growth).unwrap_or_default()),
        })
    }

    fn growth(
        &self,
        bound: Bound,
        figure: impl FnMut(f64) -> Result<f64, EstimateError>,
    ) -> Result<f64, EstimateError> {
        growth_until(bound.value(), figure)
    }

    /// Value of the bounded figure under the load multiplied by a factor.
    fn figure(&self, bound: Bound, growth: f64) -> Result<f64, EstimateError> {
        let estimate = self.at(growth)?;
        let refused =
            EstimateError::Refused(format!("{} gives no {}", estimate.method.name(), bound.figure()));
        bound.value_in(&estimate).ok_or(refused)
    }

    /// A failure to find the growth, with what is allowed.
    fn explained(&self, bound: Bound, error: EstimateError) -> Failure {
        let failure = law::failure(error.clone()).context(format!("--until {bound}"));
        match error {
            EstimateError::AlwaysExceeded { .. } => {
                let alone_ms = self.law.mean_s(1.0) * 1e3;
                failure.hint(format!(
                    "one request alone takes {alone_ms:.3} ms on average; allow more than that"
                ))
            }
            EstimateError::NeverReached { .. } => failure.hint("lower the bound, or bound another figure"),
            _ => failure,
        }
    }

    /// Growth with service times that are longer, and shorter, by the error of the law.
    fn interval_of_law(&self, bound: Bound) -> Option<(f64, f64)> {
        let first = &self.law.points[0].service;
        let count = first.sorted_s().len().max(1) as f64;
        let of_sample = if first.sorted_s().is_empty() { 0.0 } else { first.deviation_s() / count.sqrt() };
        let error = (NORMAL * of_sample / first.mean_s()).max(LAW_ERROR);
        // Longer services are a shorter clock: times in units of the service time, so the rate and the bound scale.
        let of = |factor: f64| {
            let figure = |growth: f64| {
                let value = self.figure(bound, growth * factor)?;
                Ok(if bound.figure().ends_with("_ms") { value * factor } else { value })
            };
            self.growth(bound, figure).ok()
        };
        Some((of(1.0 + error)?, of(1.0 - error)?))
    }

    /// Growth without one part of the time after the other: the jackknife of [Efron & Tibshirani 1993, section 11.3].
    fn interval_of_parts(&self, bound: Bound, growth: f64) -> Option<(f64, f64)> {
        let load = self.recorded(1.0)?;
        let count = load.arrivals.len();
        if count < 100 * PARTS {
            return None;
        }
        let share = bound.share();
        if share.is_none() && bound.figure() != "response_mean_ms" {
            return None;
        }
        let without = |part: usize| {
            let left_out = part * count / PARTS..(part + 1) * count / PARTS;
            let figure = |growth: f64| {
                let responses =
                    recorded_responses_s(self.recorded(growth).expect("it is recorded"), &self.law)?;
                let kept = responses.iter().enumerate().filter(|(index, _)| !left_out.contains(index));
                let mut kept: Vec<f64> = kept.map(|(_, response_s)| response_s * 1e3).collect();
                Ok(match share {
                    None => kept.iter().sum::<f64>() / kept.len() as f64,
                    Some(share) => {
                        let rank = ((share * kept.len() as f64) as usize).min(kept.len() - 1);
                        *kept.select_nth_unstable_by(rank, f64::total_cmp).1
                    }
                })
            };
            self.growth(bound, figure).ok().map(f64::ln)
        };
        let logarithms: Vec<f64> = (0..PARTS).map(without).collect::<Option<_>>()?;
        let mean = logarithms.iter().sum::<f64>() / PARTS as f64;
        let squares: f64 = logarithms.iter().map(|logarithm| (logarithm - mean).powi(2)).sum();
        let error = ((PARTS - 1) as f64 / PARTS as f64 * squares).sqrt();
        Some((growth * (-STUDENT * error).exp(), growth * (STUDENT * error).exp()))
    }
}
