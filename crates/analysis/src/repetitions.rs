//! Change of a figure from one set of repeated runs to another, with an interval by the bootstrap.
//!
//! ```text
//! change = exp(mean ln(after) - mean ln(before)) - 1
//! ```
//! Both sets are drawn anew, with replacement, [`RESAMPLES`] times. Few values vary less among themselves than the values
//! that they were drawn from, so the deviations of the drawn means are widened by `√(n / (n - 1))`, and by the ratio of the
//! quantiles of Student's and the normal distribution \[Hesterberg\]. The interval is that of the bootstrap or of Welch's test, whichever is wider.
//!
//! # Scope and limits
//! Figures above zero, from independent runs. Two runs of each side at least.
//!
//! # References
//! T. C. Hesterberg, *What Teachers Should Know About the Bootstrap*, The American Statistician 69(4), 2015, section 4.
//! B. L. Welch, Biometrika 34, 1947.

use seeklab_core::Seed;
use seeklab_core::statistics::Moments;

use crate::confidence::student_t_975;

/// Drawn sets.
pub const RESAMPLES: usize = 4_000;

/// The 97.5 % quantile of the normal distribution.
const NORMAL_975: f64 = 1.959_964;

/// Runs above which nobody repeats.
const RUNS_MAX: u64 = 1_000_000;

/// Change of a figure in percent of its value before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RepetitionChange {
    /// Change of the geometric mean.
    pub change_pct: f64,
    /// Lower end of its 95 % interval.
    pub low_pct: f64,
    /// Upper end of its 95 % interval.
    pub high_pct: f64,
    /// Logarithm of the ratio.
    log_ratio: f64,
    /// Sum of the variances of the logarithms of both sides.
    variance: f64,
}

/// Position of a change to a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThresholdVerdict {
    /// The whole interval is beyond the threshold.
    Exceeded,
    /// The whole interval is within the threshold.
    Kept,
    /// The threshold is inside the interval.
    Undecided,
}

impl RepetitionChange {
    /// The change from `before` to `after`. `None` unless each has two values at least and all are above zero.
    pub fn of(before: &[f64], after: &[f64], seed: Seed) -> Option<Self> {
        let (before, after) = (logarithms(before)?, logarithms(after)?);
        let (of_before, of_after) = (moments(&before), moments(&after));
        let log_ratio = of_after.mean()? - of_before.mean()?;
        let (sd_before, sd_after) = (of_before.standard_deviation()?, of_after.standard_deviation()?);
        let variance = sd_before * sd_before + sd_after * sd_after;
        let (n_before, n_after) = (before.len() as f64, after.len() as f64);
        let (part_before, part_after) = (sd_before * sd_before / n_before, sd_after * sd_after / n_after);
        let error = (part_before + part_after).sqrt();
        let squares =
            part_before * part_before / (n_before - 1.0) + part_after * part_after / (n_after - 1.0);
        // Welch's degrees of freedom, rounded down.
        let degrees =
            if squares > 0.0 { (error.powi(4) / squares).floor().max(1.0) } else { n_before + n_after - 2.0 };
        let student = student_t_975(degrees as u64);
        let widened = |n: f64| (n / (n - 1.0)).sqrt() * student / NORMAL_975;
        let mut stream = seed.stream("repetitions.bootstrap");
        let mut deviation = |values: &[f64], mean: f64| {
            let drawn: f64 = values.iter().map(|_| values[stream.below(values.len() as u64) as usize]).sum();
            drawn / values.len() as f64 - mean
        };
        let (mean_before, mean_after) = (of_before.mean()?, of_after.mean()?);
        let mut ratios: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let of_after = deviation(&after, mean_after) * widened(n_after);
                log_ratio + of_after - deviation(&before, mean_before) * widened(n_before)
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        let tail = RESAMPLES / 40;
        let low = ratios[tail].min(log_ratio - student * error);
        let high = ratios[RESAMPLES - 1 - tail].max(log_ratio + student * error);
        let pct = |log: f64| 100.0 * log.exp_m1();
        Some(Self { change_pct: pct(log_ratio), low_pct: pct(low), high_pct: pct(high), log_ratio, variance })
    }

    /// Compares the interval with a threshold: an increase by more than `threshold_pct` exceeds it if that is zero or above, otherwise a
    /// decrease by more.
    pub fn verdict(&self, threshold_pct: f64, is_upper: bool) -> ThresholdVerdict {
        let (beyond, within) = match is_upper {
            true => (self.low_pct > threshold_pct, self.high_pct <= threshold_pct),
            false => (self.high_pct < threshold_pct, self.low_pct >= threshold_pct),
        };
        match (beyond, within) {
            (true, _) => ThresholdVerdict::Exceeded,
            (_, true) => ThresholdVerdict::Kept,
            _ => ThresholdVerdict::Undecided,
        }
    }

    /// Runs of each side after which the threshold is expected to be outside the interval, if change and spread stay as they are.
    /// `None` of more than a million.
    pub fn runs_needed(&self, threshold_pct: f64) -> Option<u64> {
        let distance = (self.log_ratio - (threshold_pct / 100.0).ln_1p()).abs();
        let is_enough =
            |runs: u64| student_t_975(2 * runs - 2) * (self.variance / runs as f64).sqrt() < distance;
        let (mut few, mut many) = (1, 2);
        while !is_enough(many) {
            (few, many) = (many, 2 * many);
            if many > RUNS_MAX {
                return None;
            }
        }
        while many - few > 1 {
            let middle = u64::midpoint(few, many);
            if is_enough(middle) { many = middle } else { few = middle }
        }
        Some(many)
    }
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    let logarithms: Option<Vec<f64>> =
        values.iter().map(|value| (*value > 0.0 && value.is_finite()).then(|| value.ln())).collect();
    logarithms.filter(|values| values.len() >= 2)
}

fn moments(values: &[f64]) -> Moments {
    let mut moments = Moments::default();
    values.iter().for_each(|value| moments.record(*value));
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values about `mean` with a relative spread, as many trials as are asked for.
    fn drawn(seed: u64, name: &str, runs: usize, mean: f64, spread: f64) -> Vec<f64> {
        let mut stream = Seed(seed).stream(name);
        // A sum of twelve uniform draws is nearly normal.
        let mut unit =
            || (0..12).map(|_| stream.below(1 << 30) as f64 / f64::from(1 << 30)).sum::<f64>() - 6.0;
        (0..runs).map(|_| mean * (spread * unit()).exp()).collect()
    }

    /// Share of 400 trials whose interval is wholly above the threshold.
    fn exceeded(runs: usize, factor: f64, threshold_pct: f64) -> f64 {
        let trials = 400;
        let count = (0..trials).filter(|seed| {
            let before = drawn(*seed, "before", runs, 10.0, 0.05);
            let after = drawn(*seed, "after", runs, 10.0 * factor, 0.05);
            let change = RepetitionChange::of(&before, &after, Seed(*seed)).unwrap();
            change.verdict(threshold_pct, true) == ThresholdVerdict::Exceeded
        });
        count.count() as f64 / trials as f64
    }

    #[test]
    fn change_at_the_threshold_is_beyond_it_at_most_one_time_in_forty() {
        for runs in [2, 3, 5, 10] {
            for (factor, threshold_pct) in [(1.0, 0.0), (1.05, 5.0)] {
                let share = exceeded(runs, factor, threshold_pct);
                // 0.025, and four standard deviations of 400 trials.
                assert!(share <= 0.056, "{runs} runs, {threshold_pct} %: {share}");
            }
        }
    }

    #[test]
    fn interval_is_not_too_wide_to_find_a_change() {
        assert!(exceeded(5, 1.2, 0.0) > 0.95, "{}", exceeded(5, 1.2, 0.0));
        assert!(exceeded(10, 1.1, 0.0) > 0.95);
    }

    #[test]
    fn runs_that_are_needed_suffice() {
        let change = RepetitionChange::of(&[9.7, 10.0, 10.4], &[10.0, 10.2, 10.7], Seed(1)).unwrap();
        assert_eq!(change.verdict(0.0, true), ThresholdVerdict::Undecided, "{change:?}");
        let runs = change.runs_needed(0.0).unwrap();
        let width = |runs: u64| student_t_975(2 * runs - 2) * (change.variance / runs as f64).sqrt();
        assert!(width(runs) < change.log_ratio.abs() && width(runs - 1) >= change.log_ratio.abs(), "{runs}");
        assert_eq!(change.runs_needed(change.change_pct), None, "no number separates equal values");
    }

    #[test]
    fn thresholds_have_two_directions() {
        let slower = RepetitionChange::of(&[10.0, 10.1, 9.9], &[12.0, 12.1, 11.9], Seed(1)).unwrap();
        assert!((slower.change_pct - 20.0).abs() < 0.1, "{slower:?}");
        assert_eq!(slower.verdict(5.0, true), ThresholdVerdict::Exceeded);
        assert_eq!(slower.verdict(40.0, true), ThresholdVerdict::Kept);
        assert_eq!(slower.verdict(-5.0, false), ThresholdVerdict::Kept);
        let faster = RepetitionChange::of(&[12.0, 12.1, 11.9], &[10.0, 10.1, 9.9], Seed(1)).unwrap();
        assert_eq!(faster.verdict(-5.0, false), ThresholdVerdict::Exceeded);
        assert_eq!(RepetitionChange::of(&[1.0], &[1.0, 2.0], Seed(1)), None);
        assert_eq!(RepetitionChange::of(&[0.0, 1.0], &[1.0, 2.0], Seed(1)), None);
        let same = RepetitionChange::of(&[5.0, 5.0], &[5.0, 5.0], Seed(1)).unwrap();
        assert_eq!(
            (same.low_pct, same.high_pct, same.verdict(0.0, true)),
            (0.0, 0.0, ThresholdVerdict::Kept)
        );
    }
}
