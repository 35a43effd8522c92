//! A simulated stream of jobs beside its estimates: do they agree?

use schemars::JsonSchema;
use seeklab_core::Seed;
use seeklab_workloads::{JobsSpec, WorkloadSpec};
use serde::Serialize;

use super::check::{difference_pct, is_within, signed};
use super::jobs::{JobsMethodFigures, JobsPoint, estimate_simulated};
use super::jobs_range::used_slots;
use crate::devices::Resolved;
use crate::failure::Failure;
use crate::jobs::JobsSummary;
use crate::session::Session;
use crate::workload::ResolvedWorkload;

/// Estimates beside the simulation of the same stream of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobsEstimateCheck {
    /// True if elapsed time and calls of `job_slot`, the first method, differ by no more than such estimates did in the validation;
    /// null if these errors are unknown, or if the simulation ended before the stream.
    pub agrees: Option<bool>,
    /// Estimates by each method, beside the same simulation.
    pub methods: Vec<JobsMethodCheck>,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// Estimate by one method beside a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobsMethodCheck {
    /// The estimate.
    #[serde(flatten)]
    pub estimate: JobsMethodFigures,
    /// True if the differences of elapsed time and calls do not exceed the largest errors of such estimates; null if these errors
    /// are unknown, or if the simulation ended before the stream.
    pub agrees: Option<bool>,
    /// Difference of the estimated elapsed time from the simulated one.
    pub elapsed_difference_pct: Option<f64>,
    /// Difference of the estimated number of calls from the simulated one.
    pub calls_difference_pct: Option<f64>,
    /// Difference of the estimated time for which one job slot is blocked from the simulated one.
    pub blocked_difference_pct: Option<f64>,
}

/// Returns the stream of jobs of a workload, `None` of another kind of workload.
pub(crate) const fn jobs_of(workload: &ResolvedWorkload) -> Option<&JobsSpec> {
    match &workload.spec {
        WorkloadSpec::Jobs(spec) => Some(spec),
        _ => None,
    }
}

/// Compares a simulated stream of jobs with its estimates.
///
/// # Errors
/// A device that does not fit the stream, or a stop.
pub(crate) fn check_jobs(
    session: &Session,
    device: &Resolved,
    spec: &JobsSpec,
    seed: Seed,
    simulated: &JobsSummary,
) -> Result<JobsEstimateCheck, Failure> {
    let JobsPoint { estimates, mut notes, .. } = estimate_simulated(session, device, spec, seed)?;
    if !simulated.finished {
        notes.push(
            "the simulation ended before the stream, so its figures cannot be compared with the estimates"
                .to_owned(),
        );
    }
    let of_whole = |estimated: f64, simulated_figure: f64| {
        difference_pct(Some(estimated), Some(simulated_figure)).filter(|_| simulated.finished)
    };
    let blocked_of_one_slot_s = simulated.blocked_s / f64::from(used_slots(spec));
    let methods = estimates.into_iter().map(|estimate| {
        let elapsed = of_whole(estimate.elapsed_s, simulated.elapsed_s);
        let calls = of_whole(estimate.calls, simulated.calls as f64);
        JobsMethodCheck {
            agrees: both_within(&estimate, elapsed, calls),
            elapsed_difference_pct: elapsed,
            calls_difference_pct: calls,
            blocked_difference_pct: of_whole(estimate.blocked_s, blocked_of_one_slot_s),
            estimate,
        }
    });
    let methods: Vec<JobsMethodCheck> = methods.collect();
    Ok(JobsEstimateCheck { agrees: methods.first().and_then(|method| method.agrees), methods, notes })
}

/// True if the differences of elapsed time and calls are within the largest errors; `None` if one of them is unknown.
fn both_within(
    estimate: &JobsMethodFigures,
    elapsed_pct: Option<f64>,
    calls_pct: Option<f64>,
) -> Option<bool> {
    let of_elapsed = is_within(elapsed_pct, estimate.error_max_pct, None)?;
    let of_calls = is_within(calls_pct, estimate.calls_error_max_pct, None)?;
    Some(of_elapsed && of_calls)
}

impl JobsMethodCheck {
    /// The comparison in a sentence.
    fn sentence(&self) -> String {
        let JobsMethodFigures { method, elapsed_s, calls, error_max_pct, calls_error_max_pct, .. } =
            &self.estimate;
        let verdict = match (self.agrees, self.elapsed_difference_pct) {
            (Some(true), _) => "agrees with the simulation",
            (Some(false), _) => "disagrees with the simulation",
            (None, Some(_)) => "has no known error to compare with",
            (None, None) => "cannot be compared",
        };
        let error = error_max_pct.map_or_else(
            || "no error of such estimates is known".to_owned(),
            |pct| format!("error of such estimates up to {pct:.1} %"),
        );
        let calls_error = calls_error_max_pct.map_or_else(String::new, |pct| format!(" (up to {pct:.1} %)"));
        format!(
            "the estimate by `{method}` {verdict}: elapsed time {elapsed_s:.2} s, a difference of {} ({error}); {calls:.0} calls, \
             {}{calls_error}; blocked time of a job slot {}",
            signed(self.elapsed_difference_pct),
            signed(self.calls_difference_pct),
            signed(self.blocked_difference_pct),
        )
    }
}

impl JobsEstimateCheck {
    /// The comparison of each method in a sentence, and notes.
    pub(crate) fn sentences(&self) -> impl Iterator<Item = String> {
        self.methods.iter().map(JobsMethodCheck::sentence).chain(self.notes.iter().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_needs_elapsed_time_and_calls() {
        let estimate = JobsMethodFigures {
            method: "job_slot",
            elapsed_s: 100.0,
            blocked_s: 50.0,
            job_processor_s: 40.0,
            system_processor_s: 10.0,
            calls: 1000.0,
            processor_share_pct: 50.0,
            wait_mean_ms: 1.0,
            error_mean_pct: Some(2.0),
            error_max_pct: Some(9.0),
            calls_error_mean_pct: Some(1.0),
            calls_error_max_pct: Some(10.0),
        };
        assert_eq!(both_within(&estimate, Some(-8.0), Some(9.0)), Some(true));
        assert_eq!(both_within(&estimate, Some(-10.0), Some(9.0)), Some(false));
        assert_eq!(both_within(&estimate, Some(-8.0), Some(-11.0)), Some(false));
        assert_eq!(both_within(&estimate, None, Some(1.0)), None);
        let unknown = JobsMethodFigures { error_max_pct: None, calls_error_max_pct: None, ..estimate };
        assert_eq!(both_within(&unknown, Some(1.0), Some(1.0)), None);
    }
}
