//! The choice of the model that a fit saves, by the predictions of all models.

use schemars::JsonSchema;
use seeklab_core::ByteSize;
use seeklab_learning::evaluation::Evaluation;
use seeklab_learning::fit::Fit;
use serde::Serialize;

/// Reason for which a model is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SavedBecause {
    /// No other model was fitted.
    OnlyModel,
    /// Too few requests were predicted to compare the models, so the first is saved.
    NothingToCompare,
    /// It predicted best, or no later model predicted better by more than a tenth.
    PredictedBest,
    /// It has rate and burst limits, which the model that predicted better does not know.
    HasLimits,
}

/// Factor by which the error of a model may exceed that of a later one and still be preferred: a smaller difference is
/// chance.
const MUCH: f64 = 1.1;

/// Error by which models are compared: the mean over the operations that decide of the demerit up to p99, or the demerit of
/// all requests where that mean is unknown.
pub(super) fn compared_error(evaluation: &Evaluation) -> f64 {
    let pooled = || evaluation.prediction.demerit_to_p99.ea_rms_ms;
    evaluation.operation_means.map_or_else(pooled, |means| means.demerit_to_p99_pct)
}

/// Returns the place of the model that predicted best: the first whose error no later one undercuts by more than a tenth.
pub(super) fn best(evaluations: &[Evaluation]) -> Option<usize> {
    let errors: Vec<f64> = evaluations.iter().map(compared_error).collect();
    best_of(&errors)
}

fn best_of(errors: &[f64]) -> Option<usize> {
    let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
    errors.iter().position(|error| *error <= MUCH * least)
}

/// Returns the place of the model to save, and why.
pub(super) fn choose(
    evaluations: &[Evaluation],
    fits: &[Box<dyn Fit>],
    block_size: ByteSize,
) -> (usize, SavedBecause) {
    if fits.len() == 1 {
        return (0, SavedBecause::OnlyModel);
    }
    let best = match best(evaluations) {
        Some(best) if evaluations[best].is_judged() => best,
        _ => return (0, SavedBecause::NothingToCompare),
    };
    // A replay at recorded times says little about a limit, and without it the clone is wrong under any other load.
    match (0..best).find(|place| fits[*place].has_limits(block_size)) {
        Some(limited) => (limited, SavedBecause::HasLimits),
        None => (best, SavedBecause::PredictedBest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_model_is_preferred_unless_a_later_one_is_better_by_a_tenth() {
        for (errors, expected) in [
            (&[2.0, 1.9, 3.0][..], 0),
            (&[2.2, 2.0, 3.0], 0),
            (&[2.3, 2.0, 3.0], 1),
            (&[9.0, 2.1, 2.0], 1),
            (&[9.0, 5.0, 2.0], 2),
            (&[0.0, 0.0], 0),
        ] {
            assert_eq!(best_of(errors), Some(expected), "{errors:?}");
        }
        assert_eq!(best_of(&[]), None);
    }
}
