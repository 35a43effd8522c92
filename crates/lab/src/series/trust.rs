//! Trustworthiness of a device's repetitions together: the least accurate one decides.

use seeklab_analysis::{Trust, TrustLevel};

use super::figures::Figures;

/// Returns the trust in all repetitions of a device. `None` if there is no repetition.
pub(super) fn trust(repetitions: &[Figures]) -> Option<Trust> {
    let worst = least_accurate(repetitions)?;
    let Figures { trust_level: level, trust: sentence, .. } = &repetitions[worst];
    let count = repetitions.len();
    if count == 1 {
        return Some(Trust { level: *level, sentence: sentence.clone() });
    }
    let mut text =
        format!("The least accurate of {count} repetitions was repetition {}. {sentence}", worst + 1);
    let levels = [TrustLevel::Trusted, TrustLevel::WithCare, TrustLevel::NotTrusted];
    let counts: Vec<String> = levels
        .map(|level| (level, repetitions.iter().filter(|one| one.trust_level == level).count()))
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(level, count)| format!("{count} {}", level.predicate()))
        .collect();
    if counts.len() > 1 {
        text += &format!(" Of all {count}, {}.", counts.join(", "));
    }
    Some(Trust { level: *level, sentence: text })
}

/// Returns the index of the repetition with the worst level and, among these, the greatest mean error in the host. An
/// unknown error counts as the greatest.
pub(super) fn least_accurate(repetitions: &[Figures]) -> Option<usize> {
    let error = |figures: &Figures| {
        let error = figures.exactness.ei_avg_pct.or(figures.exactness.ei_avg_ms);
        error.map_or(f64::INFINITY, f64::abs)
    };
    let order = |a: &Figures, b: &Figures| {
        a.trust_level.cmp(&b.trust_level).then_with(|| error(a).total_cmp(&error(b)))
    };
    (0..repetitions.len()).rev().max_by(|a, b| order(&repetitions[*a], &repetitions[*b]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::exactness::Exactness;

    /// Returns a repetition with that level and that mean error in the host.
    fn repetition(trust_level: TrustLevel, ei_avg_pct: Option<f64>) -> Figures {
        let exactness = Exactness { ei_avg_pct, ..Exactness::default() };
        let trust = format!("This run {}.", trust_level.predicate());
        Figures { exactness, trust_level, trust, ..Figures::default() }
    }

    fn sentence(repetitions: &[Figures]) -> String {
        trust(repetitions).unwrap().sentence
    }

    #[test]
    fn worst_repetition_decides_wherever_it_stands() {
        let good = repetition(TrustLevel::Trusted, Some(0.1));
        let bad = repetition(TrustLevel::NotTrusted, Some(0.2));
        for (place, number) in [(0, 1), (1, 2), (2, 3)] {
            let mut repetitions = vec![good.clone(), good.clone()];
            repetitions.insert(place, bad.clone());
            assert_eq!(trust(&repetitions).unwrap().level, TrustLevel::NotTrusted);
            assert_eq!(
                sentence(&repetitions),
                format!(
                    "The least accurate of 3 repetitions was repetition {number}. This run cannot be trusted. \
                     Of all 3, 2 can be trusted, 1 cannot be trusted."
                )
            );
        }
    }

    #[test]
    fn greatest_error_decides_among_equal_levels() {
        let with_care = |error| repetition(TrustLevel::WithCare, error);
        let repetitions = [with_care(Some(1.0)), with_care(Some(-3.0)), with_care(Some(2.0))];
        assert_eq!(
            sentence(&repetitions),
            "The least accurate of 3 repetitions was repetition 2. This run can be trusted with care."
        );
        assert_eq!(least_accurate(&[with_care(Some(9.0)), with_care(None), with_care(Some(9.0))]), Some(1));
        assert_eq!(
            least_accurate(&[with_care(Some(1.0)), with_care(Some(1.0))]),
            Some(0),
            "the first of equals"
        );
    }

    #[test]
    fn single_repetition_speaks_for_itself() {
        let one = [repetition(TrustLevel::Trusted, Some(0.1))];
        assert_eq!(sentence(&one), "This run can be trusted.");
        assert_eq!(trust(&[]), None);
    }
}
