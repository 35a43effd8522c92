//! The choice of the model that a fit saves, by the predictions of all models.

use schemars::JsonSchema;
use seeklab_analysis::Verdict;
use seeklab_core::ByteSize;
use seeklab_learning::MODELS;
use seeklab_learning::evaluation::Evaluation;
use seeklab_learning::fit::{Fit, has_waits};
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
    /// A later model came closer, by less than makes up for the loads that it knows less of.
    KnowsMore,
    /// It has rate and burst limits, which the model that predicted better does not know.
    HasLimits,
}

/// Factor by which the error of a model may exceed that of a later one and still be preferred: a smaller difference is
/// chance.
const MUCH: f64 = 1.1;

/// The same of a model before that is usable throughout, if the later one answers a lighter load with waits of the fitted one.
const MUCH_WITH_WAITS: f64 = 2.0;

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

/// Returns true if a model is usable for each operation that decides, be it with care.
pub(super) fn is_usable(evaluation: &Evaluation) -> bool {
    rank(evaluation) < usize::MAX
}

/// A model and its prediction, as far as the choice needs them.
#[derive(Debug, Clone, Copy)]
struct Judged {
    rank: usize,
    error: f64,
    /// True if a lighter load gets waits from it that only the fitted load had.
    carries_waits: bool,
}

/// Returns the place of the model that predicted best; requests of the trace wait for each other if it `has_waits`. Models that are not usable for an
/// operation count only if all are so. Of the others, each is best that undercuts the best one before it by enough, and has a rank that none before it surpasses.
pub(super) fn best(evaluations: &[Evaluation], has_waits: bool) -> Option<usize> {
    let judged = |one: &Evaluation| Judged {
        rank: rank(one),
        error: compared_error(one),
        carries_waits: has_waits && MODELS.iter().any(|model| model.name == one.model && model.carries_waits),
    };
    best_of(&evaluations.iter().map(judged).collect::<Vec<_>>())
}

fn best_of(models: &[Judged]) -> Option<usize> {
    let are_all_unusable = models.iter().all(|one| one.rank == usize::MAX);
    let mut least_rank = usize::MAX;
    let mut best: Option<usize> = None;
    for (place, one) in models.iter().enumerate() {
        if one.rank > least_rank || (one.rank == usize::MAX && !are_all_unusable) {
            continue;
        }
        least_rank = one.rank;
        let is_better = best.is_none_or(|best| {
            let before: &Judged = &models[best];
            let much = if before.rank == 0 && one.carries_waits { MUCH_WITH_WAITS } else { MUCH };
            one.error * much < before.error
        });
        if is_better {
            best = Some(place);
        }
    }
    best
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
    let has_waits = fits.iter().any(|fit| has_waits(fit.summary().queue_length_max));
    let best = match best(evaluations, has_waits) {
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
    let closer = || evaluations.iter().filter(|one| MUCH * compared_error(one) < compared_error(saved));
    Ok((
        best,
        match closer().next() {
            None => SavedBecause::PredictedBest,
            Some(_) if closer().any(|one| rank(one) > rank(saved)) => SavedBecause::BetterVerdicts,
            Some(_) => SavedBecause::KnowsMore,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(models: &[(usize, f64)]) -> Option<usize> {
        let judged =
            |(rank, error): &(usize, f64)| Judged { rank: *rank, error: *error, carries_waits: false };
        best_of(&models.iter().map(judged).collect::<Vec<_>>())
    }

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
            assert_eq!(best(&models), Some(expected), "{errors:?}");
        }
        assert_eq!(best(&[]), None);
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
            assert_eq!(best(&models), Some(expected), "{models:?}");
        }
        // A capture of PostMark and a build: station, plain, trivial. The station alone was right for SQLite.
        assert_eq!(best(&[(1, 8.87), (0, 8.85), (usize::MAX, 20.0)]), Some(0));
        // Tables are usable throughout, so `trivial` is not preferred for what it repeats.
        assert_eq!(best(&[(1, 9.0), (0, 8.0), (1, 5.0)]), Some(1));
    }

    #[test]
    fn tables_of_waits_replace_a_usable_station_only_if_they_are_twice_as_close() {
        let judged = |rank, error, carries_waits| Judged { rank, error, carries_waits };
        // A disk at 70 % load, whose tables were 50 % too slow at half that load.
        for (station, tables, expected) in [((0, 8.0), 4.5, 0), ((0, 10.0), 4.5, 1), ((1, 8.0), 4.5, 1)] {
            let models = [judged(station.0, station.1, false), judged(0, tables, true)];
            assert_eq!(best_of(&models), Some(expected), "{station:?}, {tables}");
        }
    }
}
