//! Growth of a load until a figure reaches its bound.

use seeklab_estimate::queueing::Population;
use seeklab_estimate::{
    EstimateError, GrowthError, RecordedService, ResponseFigure, growth_error, growth_until,
};

use super::bound::Bound;
use super::figures::{UntilFigures, rounded};
use super::load::Times;
use super::{Estimating, errors, grown, law};
use crate::failure::Failure;

/// 95th percentile of the normal distribution.
const NORMAL: f64 = 1.645;

/// Least relative error of a mean service time.
const LAW_ERROR: f64 = 0.001;

/// Runs that give the services of recorded requests at most, each at the growth that the one before gave.
const SAMPLES_MAX: u32 = 24;

/// Relative change of the growth at which its service times fit it.
const SETTLED: f64 = 0.002;

impl UntilFigures {
    /// Figures of a bound that no load meets, or none reaches.
    fn unmet(bound: Bound, failure: &Failure) -> Self {
        Self {
            bound: bound.to_string(),
            growth: None,
            growth_unknown_because: Some(failure.to_string()),
            growth_min: None,
            growth_max: None,
            interval_coverage_pct: None,
            arrivals_per_s: None,
            members: None,
        }
    }
}

/// Result of a search for the growth.
pub(super) struct Until {
    pub(super) figures: UntilFigures,
    /// The failed check, if there is no growth.
    pub(super) unmet: Option<Failure>,
}

impl Estimating {
    /// Growth of the load until the bound; without one, the failure that says why.
    ///
    /// # Errors
    /// A load that has no estimate, or a figure that the method does not give.
    pub(super) fn until_or_unmet(&self, bound: Bound) -> Result<Until, Failure> {
        match self.until(bound) {
            Ok(figures) => Ok(Until { figures, unmet: None }),
            // A growth that is not there is a result; the other failures are none.
            Err(failure) if failure.exit_code() == 1 => {
                Ok(Until { figures: UntilFigures::unmet(bound, &failure), unmet: Some(failure) })
            }
            Err(failure) => Err(failure),
        }
    }

    /// Growth of the load until the bound, with its interval.
    fn until(&self, bound: Bound) -> Result<UntilFigures, Failure> {
        let (mut growth, services) = self.settled_growth(bound)?;
        if let Times::Closed(Population { members, .. }) = self.load.times {
            // Half a member is none.
            growth = (f64::from(members) * growth).round().max(1.0) / f64::from(members);
        }
        let error = self.error_of_estimates(bound, &services, growth);
        let sample = match &self.load.times {
            Times::Recorded(_) => self.error_of_sample(bound, &services, growth)?,
            _ => None,
        };
        let sampling = match &self.load.times {
            Times::Poisson { .. } | Times::Batches { .. } | Times::Prioritised { .. } => {
                self.error_of_law(bound, &services, growth)
            }
            Times::Recorded(_) => sample.map(|sample| (sample.down, sample.up)),
            Times::Closed(_) => None,
        };
        // Both errors are independent; each is that of the logarithm of the growth, downwards and upwards.
        let ends = match (error, sampling) {
            (Some(one), Some(other)) => Some((one.0.hypot(other.0), one.1.hypot(other.1))),
            (one, other) => one.or(other),
        };
        Ok(UntilFigures {
            bound: bound.to_string(),
            growth: Some(rounded(growth)),
            growth_unknown_because: None,
            growth_min: ends.map(|ends| rounded(growth * (-ends.0).exp())),
            // JSON has no infinity.
            growth_max: ends.map(|ends| rounded(growth * ends.1.exp())).filter(|growth| growth.is_finite()),
            interval_coverage_pct: sample
                .and_then(|sample| errors::coverage_pct(bound.figure(), sample.is_dependent)),
            arrivals_per_s: self.arrivals_per_s(growth).map(rounded),
            members: match self.load.times {
                Times::Closed(population) => Some(grown(population, growth).members),
                _ => None,
            },
        })
    }

    /// The growth, with the services of recorded requests at that growth: idle times shrink as a load grows, and on a device
    /// that works in idle times or reorders its queue the service times change with them.
    fn settled_growth(&self, bound: Bound) -> Result<(f64, Vec<RecordedService>), Failure> {
        let mut services = self.services.clone();
        // With the services of one growth, figures are only good near it: the search begins there.
        let growth_with = |services: &[RecordedService], start: f64| {
            let growth = growth_until(bound.value(), start, |growth| self.figure(bound, services, growth));
            growth.map_err(|error| self.explained(bound, error))
        };
        let mut growth = growth_with(&services, 1.0)?;
        if services.is_empty() {
            return Ok((growth, services));
        }
        // Growths at which a run of their own meets the bound, and exceeds it.
        let (mut low, mut high): (Option<f64>, Option<f64>) = (None, None);
        for sample in 0..SAMPLES_MAX {
            services = self.services_at(growth)?;
            let next = growth_with(&services, growth)?;
            if (next / growth - 1.0).abs() < SETTLED {
                return Ok((next, services));
            }
            *(if next > growth { &mut low } else { &mut high }) = Some(growth);
            growth = match (low, high) {
                (Some(low), Some(high)) if high / low < 1.0 + SETTLED => {
                    return Ok(((low * high).sqrt(), services));
                }
                // Halving ends where the figure is no smooth function of the growth.
                (Some(low), Some(high)) if sample % 2 == 1 || !(low..high).contains(&next) => {
                    (low * high).sqrt()
                }
                _ => next,
            };
        }
        Ok((growth, services))
    }

    /// Growth with hardly any load: so few arrivals that they do not meet, or one member.
    fn least_growth(&self) -> f64 {
        match self.load.times {
            Times::Closed(Population { members, .. }) => 1.0 / f64::from(members),
            _ => 1e-4,
        }
    }

    /// Value of the bounded figure under the load multiplied by a factor.
    fn figure(&self, bound: Bound, services: &[RecordedService], growth: f64) -> Result<f64, EstimateError> {
        let estimate = self.at_with(services, growth)?;
        let (method, figure) = (estimate.method.name(), bound.figure());
        bound.value_in(&estimate).ok_or(EstimateError::WithoutFigure { method, figure })
    }

    /// Errors of the logarithm of the growth that follow from the errors of such estimates in the validation.
    fn error_of_estimates(
        &self,
        bound: Bound,
        services: &[RecordedService],
        growth: f64,
    ) -> Option<(f64, f64)> {
        let estimate = self.at_with(services, growth).ok()?;
        let table = self.errors_of(&estimate);
        let error = match bound.share() {
            Some(_) => table.response_p99_pct,
            None if bound.figure() == "utilisation_pct" => return None,
            None => table.response_mean_pct,
        };
        let error = error? / 100.0;
        if error >= 1.0 {
            return None;
        }
        let of = |factor: f64| {
            growth_until(bound.value() * factor, growth, |growth| self.figure(bound, services, growth)).ok()
        };
        errors_around(growth, of(1.0 - error), of(1.0 + error)?)
    }

    /// A failure to find the growth, with what is allowed. Bounds that no load meets or none reaches are failed checks.
    fn explained(&self, bound: Bound, error: EstimateError) -> Failure {
        let failure = law::failure(error.clone()).context(format!("--until {bound}"));
        match error {
            EstimateError::AlwaysExceeded { .. } => {
                let (services, least) = (&self.services, self.least_growth());
                match self.figure(bound, services, least) {
                    Ok(value) => failure.into_check().hint(format!(
                        "`{}` is {value:.3} under the least load; allow more than that",
                        bound.figure()
                    )),
                    Err(_) => failure.into_check(),
                }
            }
            EstimateError::WithoutFigure { .. } => {
                failure.hint("bound `response_mean_ms`, or simulate the load")
            }
            EstimateError::NeverReached { .. } => {
                failure.into_check().hint("lower the bound, or bound another figure")
            }
            _ => failure,
        }
    }

    /// Errors of the logarithm of the growth with service times that are longer, and shorter, by the error of the law.
    fn error_of_law(&self, bound: Bound, services: &[RecordedService], growth: f64) -> Option<(f64, f64)> {
        let first = &self.law.points[0].service;
        let count = first.sorted_s().len().max(1) as f64;
        let of_sample = if first.sorted_s().is_empty() { 0.0 } else { first.deviation_s() / count.sqrt() };
        let error = (NORMAL * of_sample / first.mean_s()).max(LAW_ERROR);
        // Longer services are a shorter clock: times in units of the service time, so the rate and the bound scale.
        let of = |factor: f64| {
            let figure = |growth: f64| {
                let value = self.figure(bound, services, growth * factor)?;
                Ok(if bound.figure().ends_with("_ms") { value * factor } else { value })
            };
            growth_until(bound.value(), growth, figure).ok()
        };
        errors_around(growth, of(1.0 + error), of(1.0 - error)?)
    }

    /// Random error of the growth of a recorded load, which is a sample. `None` of other figures than response times, and of
    /// few requests.
    fn error_of_sample(
        &self,
        bound: Bound,
        services: &[RecordedService],
        growth: f64,
    ) -> Result<Option<GrowthError>, Failure> {
        let figure = match bound.share() {
            Some(share) => ResponseFigure::Quantile(share),
            None if bound.figure() == "response_mean_ms" => ResponseFigure::Mean,
            None => return Ok(None),
        };
        let load = self.recorded_with(services, growth).expect("the load is recorded");
        growth_error(load, &self.law, figure, bound.value() / 1e3, self.seed).map_err(law::failure)
    }
}

/// Errors of the logarithm of a growth, downwards and upwards, from growths on both sides. Without a lower one, no load may
/// meet the bound, and the error is infinite.
fn errors_around(growth: f64, low: Option<f64>, high: f64) -> Option<(f64, f64)> {
    let down = low.map_or(f64::INFINITY, |low| (growth / low).ln().max(0.0));
    let up = (high / growth).ln().max(0.0);
    up.is_finite().then_some((down, up))
}
