//! The choice of the model that a fit saves, by the predictions of all models.

use schemars::JsonSchema;
use seeklab_analysis::Verdict;
use seeklab_core::ByteSize;
use seeklab_learning::evaluation::Evaluation;
use seeklab_learning::fit::Fit;
use serde::Serialize;

use crate::failure::Failure;

/// Reason for which a model is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SavedBecause {
    /// No other model was fitted.
    OnlyModel,
    /// Too few requests were predicted to compare the models, so the first is saved.
    NothingToCompare,
    /// It predicted best, or no later model predicted better by more than chance.
    PredictedBest,
    /// Its verdicts are better than those of a model that came closer to the distributions of all response times.
    BetterVerdicts,
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

/// Rank of a model by its verdicts on the operations that decide, the best first: the number of operations for which it is usable
/// with care. A model that is not usable for one of them is last, whatever it is for the others.
fn rank(evaluation: &Evaluation) -> usize {
    let of = |verdict| evaluation.operations.iter().filter(|of| of.decides && of.verdict == verdict).count();
    if of(Verdict::NotUsable) > 0 { usize::MAX } else { of(Verdict::WithCare) }
}

/// Returns the place of the model that predicted best. Models that are not usable for an operation count only if all are so. Of the others, one
/// counts if no earlier one has a better rank; the first of these is best whose error no other undercuts by more than a tenth.
pub(super) fn best(evaluations: &[Evaluation]) -> Option<usize> {
    let models: Vec<(usize, f64)> = evaluations.iter().map(|one| (rank(one), compared_error(one))).collect();
    best_of(&models)
}

fn best_of(models: &[(usize, f64)]) -> Option<usize> {
    // Earlier models know more of what makes a request slow, and stay right under more loads.
    let is_candidate = |place: usize, rank: usize| {
        let is_unusable = rank == usize::MAX && models.iter().any(|(other, _)| *other < usize::MAX);
        !is_unusable && models[..place].iter().all(|(earlier, _)| *earlier == usize::MAX || *earlier >= rank)
    };
    let candidates = || models.iter().enumerate().filter(|(place, (rank, _))| is_candidate(*place, *rank));
    let least = candidates().map(|(_, (_, error))| *error).fold(f64::INFINITY, f64::min);
    candidates().find(|(_, (_, error))| *error <= MUCH * least).map(|(place, _)| place)
}

/// Returns the place of the model to save, and why.
///
/// # Errors
/// If the fit was stopped.
pub(super) fn choose(
    evaluations: &[Evaluation],
    fits: &[Box<dyn Fit>],
    block_size: ByteSize,
) -> Result<(usize, SavedBecause), Failure> {
    if fits.len() == 1 {
        return Ok((0, SavedBecause::OnlyModel));
    }
    let best = match best(evaluations) {
        Some(best) if evaluations[best].is_judged() => best,
        _ => return Ok((0, SavedBecause::NothingToCompare)),
    };
    // A replay at recorded times says little about a limit, and without it the clone is wrong under any other load.
    for (place, fit) in fits[..best].iter().enumerate() {
        if fit.has_limits(block_size)? {
            return Ok((place, SavedBecause::HasLimits));
        }
    }
    let saved = &evaluations[best];
    let is_closer =
        |one: &Evaluation| MUCH * compared_error(one) < compared_error(saved) && rank(one) > rank(saved);
    Ok(match evaluations.iter().any(is_closer) {
        true => (best, SavedBecause::BetterVerdicts),
        false => (best, SavedBecause::PredictedBest),
    })
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
            let models: Vec<(usize, f64)> = errors.iter().map(|error| (1, *error)).collect();
            assert_eq!(best_of(&models), Some(expected), "{errors:?}");
        }
        assert_eq!(best_of(&[]), None);
    }

    #[test]
    fn later_model_needs_a_lower_error_and_verdicts_that_are_no_worse() {
        for (models, expected) in [
            ([(0, 5.0), (usize::MAX, 1.0)], 0),
            ([(usize::MAX, 1.0), (2, 5.0)], 1),
            ([(usize::MAX, 5.0), (usize::MAX, 1.0)], 1),
            ([(0, 5.0), (1, 1.0)], 0),
            ([(1, 5.0), (1, 1.0)], 1),
            ([(1, 5.0), (0, 1.0)], 1),
        ] {
            assert_eq!(best_of(&models), Some(expected), "{models:?}");
        }
        // A capture of PostMark and a build: station, plain, trivial. The station alone was right for SQLite.
        assert_eq!(best_of(&[(1, 8.87), (0, 8.85), (usize::MAX, 20.0)]), Some(0));
        // Tables are usable throughout, so `trivial` is not preferred for what it repeats.
        assert_eq!(best_of(&[(1, 9.0), (0, 8.0), (1, 5.0)]), Some(1));
    }
}
