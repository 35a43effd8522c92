//! The choice of the model that a fit saves, by the predictions of all models.

use schemars::JsonSchema;
use seeklab_analysis::Verdict;
use seeklab_core::ByteSize;
use seeklab_learning::evaluation::{Evaluation, Measured};
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
    /// It predicted best, or no later model predicted better by more than chance.
    PredictedBest,
    /// Its verdicts are better than those of a model that came closer to the distributions of all response times.
    BetterVerdicts,
    /// It has rate and burst limits, which the model that predicted better does not know.
    HasLimits,
}

/// Factor by which the error of a model may exceed that of another one and still be preferred: a smaller difference is
/// chance.
const MUCH: f64 = 1.1;

/// Error by which models are compared: the mean over the operations that decide of the demerit up to p99, or the demerit of
/// all requests where that mean is unknown.
pub(super) fn compared_error(evaluation: &Evaluation) -> f64 {
    let pooled = || evaluation.prediction.demerit_to_p99.ea_rms_ms;
    evaluation.operation_means.map_or_else(pooled, |means| means.demerit_to_p99_pct)
}

/// Numbers of the deciding operations for which a model is not usable, and usable with care; the fewer, the better.
type Shortcomings = (usize, usize);

fn shortcomings(evaluation: &Evaluation) -> Shortcomings {
    let of = |verdict| evaluation.operations.iter().filter(|of| of.decides && of.verdict == verdict).count();
    (of(Verdict::NotUsable), of(Verdict::WithCare))
}

/// Mean over the operations that decide of the demerit up to p99 between parts of the measured times themselves, in percent: no
/// prediction comes closer but by chance. Zero if it is unknown.
fn chance_pct(evaluation: &Evaluation, measured: &Measured) -> f64 {
    let decides = |operation| evaluation.operations.iter().any(|of| of.operation == operation && of.decides);
    let deciding = measured.operations.iter().filter(|of| decides(of.operation));
    let pcts: Option<Vec<f64>> = deciding
        .map(|of| {
            of.variation_between_parts.as_ref().and_then(|variation| variation.demerit_to_p99.ea_rms_pct)
        })
        .collect();
    pcts.filter(|pcts| !pcts.is_empty()).map_or(0.0, |pcts| pcts.iter().sum::<f64>() / pcts.len() as f64)
}

/// Returns the place of the model that predicted best: the first with the best verdicts whose error exceeds the least one with such
/// verdicts by no more than chance.
pub(super) fn best(evaluations: &[Evaluation], measured: Option<&Measured>) -> Option<usize> {
    let chance = match (evaluations.first(), measured) {
        (Some(first), Some(measured)) if first.operation_means.is_some() => chance_pct(first, measured),
        _ => 0.0,
    };
    let models: Vec<(Shortcomings, f64)> =
        evaluations.iter().map(|one| (shortcomings(one), compared_error(one))).collect();
    best_of(&models, chance)
}

fn best_of(models: &[(Shortcomings, f64)], chance: f64) -> Option<usize> {
    let fewest = models.iter().map(|(shortcomings, _)| *shortcomings).min()?;
    let alike = || models.iter().filter(|(shortcomings, _)| *shortcomings == fewest);
    let least = alike().map(|(_, error)| *error).fold(f64::INFINITY, f64::min);
    let bound = (MUCH * least).max(chance);
    models.iter().position(|(shortcomings, error)| *shortcomings == fewest && *error <= bound)
}

/// Returns the place of the model to save, and why.
pub(super) fn choose(
    evaluations: &[Evaluation],
    measured: Option<&Measured>,
    fits: &[Box<dyn Fit>],
    block_size: ByteSize,
) -> (usize, SavedBecause) {
    if fits.len() == 1 {
        return (0, SavedBecause::OnlyModel);
    }
    let best = match best(evaluations, measured) {
        Some(best) if evaluations[best].is_judged() => best,
        _ => return (0, SavedBecause::NothingToCompare),
    };
    // A replay at recorded times says little about a limit, and without it the clone is wrong under any other load.
    if let Some(limited) = (0..best).find(|place| fits[*place].has_limits(block_size)) {
        return (limited, SavedBecause::HasLimits);
    }
    let saved = &evaluations[best];
    let is_closer = |one: &Evaluation| {
        MUCH * compared_error(one) < compared_error(saved) && shortcomings(one) > shortcomings(saved)
    };
    match evaluations.iter().any(is_closer) {
        true => (best, SavedBecause::BetterVerdicts),
        false => (best, SavedBecause::PredictedBest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_model_is_preferred_unless_a_later_one_is_better_by_more_than_chance() {
        for (errors, chance, expected) in [
            (&[2.0, 1.9, 3.0][..], 0.0, 0),
            (&[2.2, 2.0, 3.0], 0.0, 0),
            (&[2.3, 2.0, 3.0], 0.0, 1),
            (&[2.3, 2.0, 3.0], 2.3, 0),
            (&[9.0, 2.1, 2.0], 2.3, 1),
            (&[9.0, 5.0, 2.0], 2.3, 2),
            (&[0.0, 0.0], 0.0, 0),
        ] {
            let models: Vec<(Shortcomings, f64)> = errors.iter().map(|error| ((1, 0), *error)).collect();
            assert_eq!(best_of(&models, chance), Some(expected), "{errors:?}");
        }
        assert_eq!(best_of(&[], 0.0), None);
    }

    #[test]
    fn model_with_better_verdicts_is_preferred() {
        for (models, expected) in [
            ([((0, 0), 5.0), ((1, 0), 1.0)], 0),
            ([((0, 1), 1.0), ((0, 0), 5.0)], 1),
            ([((1, 0), 1.0), ((0, 2), 5.0)], 1),
            ([((0, 1), 5.0), ((0, 1), 1.0)], 1),
        ] {
            assert_eq!(best_of(&models, 0.0), Some(expected), "{models:?}");
        }
    }
}
