//! The published iteration (figure 5), with its damping of `q`.
//!
//! ```text
//! guess d, U
//! repeat:  r_e (12),  N and u (figure 3 or 4),  X, U,  C_s (A.1),  R (6),  q (20) halfway to the new value,  d (22)
//! ```
//! It need not converge: some parameters end in a cycle, and near `(X A + T)/R = 1` the new `q` has no value. There the
//! load is taken as just below 1. [`solve`](super::solve) always ends.

use super::parameters::Parameters;
use super::queue::file_use;
use super::solution::{Evaluation, OperatingPoint};
use crate::error::EstimateError;

/// Result of [`iterate`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Iteration {
    /// Values after the last step.
    pub point: OperatingPoint,
    /// Steps taken.
    pub steps: u32,
    /// True if the elapsed time changed by less than the tolerance in the last steps.
    pub is_converged: bool,
}

/// Load above which (20) has no value, less a trace.
const LOAD_MAX: f64 = 1.0 - 1e-9;

/// Steps in a row without a change that count as convergence. One alone may be the turn of a cycle.
const QUIET_STEPS: u32 = 3;

/// Repeats figure 5 at most `steps_max` times, until the elapsed time changes by less than `tolerance` of itself.
///
/// # Errors
/// A parameter out of range.
pub fn iterate(parameters: &Parameters, steps_max: u32, tolerance: f64) -> Result<Iteration, EstimateError> {
    parameters.check()?;
    let (mut wait_s, mut file_in_use) = (0.0, 0.0);
    // The guess: no wait, and a processor that every ready job has to itself as far as it goes.
    let mut processor_share = 1.0 / parameters.multiprogramming;
    let mut last_s = f64::INFINITY;
    let mut quiet_steps = 0;
    let mut steps = 0;
    let point = loop {
        steps += 1;
        let evaluation = Evaluation::new(parameters, processor_share, wait_s);
        let traffic = evaluation.traffic(parameters);
        let load = traffic.load();
        file_in_use += (file_use(load.min(LOAD_MAX), parameters.files_per_drive) - file_in_use) / 2.0;
        let files = parameters.files_per_drive;
        let busy = 1.0 - (1.0 - file_in_use).powf(files);
        let point = OperatingPoint {
            elapsed_s: evaluation.elapsed_s,
            blocked_s: evaluation.blocked_s,
            system_processor_s: evaluation.system_processor_s,
            requests_per_drive: evaluation.requests_per_drive,
            processor_share,
            wait_s,
            file_use: file_in_use,
            load,
        };
        wait_s = evaluation.elapsed_s / evaluation.requests_per_drive * (file_in_use * files - busy).max(0.0);
        processor_share = evaluation.processor_share;
        let is_quiet = (evaluation.elapsed_s - last_s).abs() <= tolerance * evaluation.elapsed_s;
        quiet_steps = if is_quiet { quiet_steps + 1 } else { 0 };
        last_s = evaluation.elapsed_s;
        if quiet_steps == QUIET_STEPS || steps >= steps_max {
            break point;
        }
    };
    Ok(Iteration { point, steps, is_converged: quiet_steps == QUIET_STEPS })
}

#[cfg(test)]
mod tests {
    use super::super::parameters::Reactivation;
    use super::super::parameters::tests::figure_7;
    use super::super::solve;
    use super::*;

    #[test]
    fn iteration_converges_to_the_bracketed_solution() {
        for slots in [2.0, 3.0, 3.5] {
            for buffer in [8.0, 16.0] {
                for reactivation in [Reactivation::AtEnd, Reactivation::PerSector] {
                    let parameters = Parameters { reactivation, ..figure_7(slots, buffer) };
                    let iteration = iterate(&parameters, 1000, 1e-12).unwrap();
                    assert!(iteration.is_converged, "{iteration:?}");
                    let solved = solve(&parameters).unwrap().point;
                    assert!(
                        (iteration.point.elapsed_s / solved.elapsed_s - 1.0).abs() < 1e-9,
                        "{parameters:?}"
                    );
                    assert!((iteration.point.wait_s - solved.wait_s).abs() < 1e-9, "{parameters:?}");
                }
            }
        }
    }

    #[test]
    fn halving_is_not_enough_near_the_singularity() {
        let mut parameters = figure_7(4.0, 8.0);
        parameters.access_s = 0.15;
        let elapsed_s = |steps| iterate(&parameters, steps, 1e-12).unwrap().point.elapsed_s;
        assert!(!iterate(&parameters, 10_000, 1e-12).unwrap().is_converged);
        // The cycle of the notes: 586, 519, 472.
        let mut cycle = [9_998, 9_999, 10_000].map(elapsed_s);
        cycle.sort_by(f64::total_cmp);
        for (found, noted) in cycle.into_iter().zip([472.0, 519.0, 586.0]) {
            assert!((found - noted).abs() < 1.0, "{cycle:?}");
        }
    }
}
