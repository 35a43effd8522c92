//! A simulated stream of jobs beside its estimates: do they agree?

use schemars::JsonSchema;
use seeklab_core::Seed;
use seeklab_workloads::{JobsSpec, WorkloadSpec};
use serde::Serialize;

use super::check::{difference_pct, is_within, signed};
use super::jobs::{JobsMethodFigures, JobsPoint, estimate_simulated};
use crate::devices::Resolved;
use crate::failure::Failure;
use crate::jobs::JobsSummary;
use crate::session::Session;
use crate::workload::ResolvedWorkload;

/// Estimates beside the simulation of the same stream of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobsEstimateCheck {
    /// True if the elapsed time of `job_slot`, the first method, differs by no more than such estimates did in the validation; null
    /// if that error is unknown, or if the simulation ended before the stream.
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
    /// True if the difference of the elapsed time does not exceed the largest error of such estimates; null if that error is
    /// unknown, or if the simulation ended before the stream.
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
    let blocked_of_one_slot_s = simulated.blocked_s / f64::from(spec.multiprogramming);
    let methods = estimates.into_iter().map(|estimate| {
        let elapsed = of_whole(estimate.elapsed_s, simulated.elapsed_s);
        JobsMethodCheck {
            agrees: is_within(elapsed, estimate.error_max_pct, None),
            elapsed_difference_pct: elapsed,
            calls_difference_pct: of_whole(estimate.calls, simulated.calls as f64),
            blocked_difference_pct: of_whole(estimate.blocked_s, blocked_of_one_slot_s),
            estimate,
        }
    });
    let methods: Vec<JobsMethodCheck> = methods.collect();
    Ok(JobsEstimateCheck { agrees: methods.first().and_then(|method| method.agrees), methods, notes })
}

impl JobsMethodCheck {
    /// The comparison in a sentence.
    fn sentence(&self) -> String {
        let JobsMethodFigures { method, elapsed_s, calls, error_max_pct, .. } = &self.estimate;
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
        format!(
            "the estimate by `{method}` {verdict}: elapsed time {elapsed_s:.2} s, a difference of {} ({error}); {calls:.0} calls, {}; \
             blocked time of a job slot {}",
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
