//! Steady state of a load, by the test of SNIA's PTS: the last five rounds differ little and have no trend.
//!
//! ```text
//! rounds   3000 2990 3010 3000 2995 │ 3000 … 1400  100 …
//!          └─ range ≤ 20 %, trend ≤ 10 % of the mean: reached ─┘    └─ left: the last five no longer pass
//! ```
//! # Scope and limits
//! The test sees one figure per round. A figure that repeats with a period of five rounds or more may pass it.
//!
//! # References
//! SNIA, Solid State Storage Performance Test Specification Enterprise 2.0, section 7: range of at most 20 % and a
//! fitted line that changes by at most 10 % of the mean over the five rounds.

use seeklab_core::Duration;

use crate::part::Part;

/// Rounds that the test looks at.
pub const STEADY_ROUNDS: usize = 5;
/// Range of the figures of these rounds at most, in percent of their mean.
pub const STEADY_RANGE_PCT: f64 = 20.0;
/// Change of their fitted line from the first to the last at most, in percent of their mean.
pub const STEADY_SLOPE_PCT: f64 = 10.0;

/// Figure of a round that the test compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SteadyFigure {
    /// Requests that were carried out per second.
    #[default]
    RequestsPerSecond,
    /// Bytes per second, in MiB.
    MibPerSecond,
    /// Mean response time, in milliseconds.
    ResponseMeanMs,
}

impl SteadyFigure {
    /// All figures.
    pub const ALL: [Self; 3] = [Self::RequestsPerSecond, Self::MibPerSecond, Self::ResponseMeanMs];

    /// Key of the figure in JSON and in plans.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestsPerSecond => "requests_per_second",
            Self::MibPerSecond => "mib_per_second",
            Self::ResponseMeanMs => "response_mean_ms",
        }
    }

    /// The figure of a round. It is zero if nothing was carried out.
    pub fn of(self, part: &Part) -> f64 {
        let length_s = part.until.saturating_since(part.from).as_s().max(1e-9);
        match self {
            Self::RequestsPerSecond => part.requests() as f64 / length_s,
            Self::MibPerSecond => part.bytes() as f64 / f64::from(1 << 20) / length_s,
            Self::ResponseMeanMs => part.response().moments().mean().unwrap_or(0.0) / 1e6,
        }
    }
}

/// End of a phase in its steady state. A round is an interval of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SteadyRule {
    /// Figure of the test.
    pub figure: SteadyFigure,
    /// Length of a round.
    pub round: Duration,
    /// Rounds after which the phase ends without a steady state.
    pub rounds_max: u64,
    /// Rounds that follow the one in which the steady state is reached.
    pub hold: u64,
}

impl SteadyRule {
    /// The longest time that a phase takes.
    pub fn duration_max(&self) -> Duration {
        self.round * (self.rounds_max + self.hold)
    }
}

/// Figures of the last five rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyWindow {
    /// Their mean.
    pub mean: f64,
    /// Difference of largest and smallest, in percent of the mean.
    pub range_pct: f64,
    /// Change of the fitted line from the first round to the last, in percent of the mean; below zero if it falls.
    pub slope_pct: f64,
}

impl SteadyWindow {
    /// The window of the last rounds; `None` of fewer than five, or if nothing happened in them.
    pub fn of_last(figures: &[f64]) -> Option<Self> {
        let last = figures.get(figures.len().checked_sub(STEADY_ROUNDS)?..)?;
        let mean = last.iter().sum::<f64>() / STEADY_ROUNDS as f64;
        if !mean.is_finite() || mean <= 0.0 {
            return None;
        }
        let (min, max) = last
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(min, max), value| (min.min(*value), max.max(*value)));
        let middle = (STEADY_ROUNDS - 1) as f64 / 2.0;
        let (mut products, mut squares) = (0.0, 0.0);
        for (index, value) in last.iter().enumerate() {
            let x = index as f64 - middle;
            products += x * (value - mean);
            squares += x * x;
        }
        let slope_pct = 100.0 * products / squares * (STEADY_ROUNDS - 1) as f64 / mean;
        Some(Self { mean, range_pct: 100.0 * (max - min) / mean, slope_pct })
    }

    /// Returns true if the rounds pass the test.
    pub fn is_steady(&self) -> bool {
        self.range_pct <= STEADY_RANGE_PCT && self.slope_pct.abs() <= STEADY_SLOPE_PCT
    }
}

/// A round with which the steady state began or ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyChange {
    /// Number of the round, the first is 1.
    pub round: u64,
    /// True if the steady state was reached, false if it was left.
    pub is_reached: bool,
    /// The last five rounds then; `None` if nothing happened in them.
    pub window: Option<SteadyWindow>,
}

/// Follows the rounds of a phase.
#[derive(Debug, Clone, Default)]
pub struct SteadyTrack {
    figures: Vec<f64>,
    changes: Vec<SteadyChange>,
}

impl SteadyTrack {
    /// Takes the figure of the next round.
    pub fn push(&mut self, figure: f64) {
        self.figures.push(figure);
        let window = SteadyWindow::of_last(&self.figures);
        let is_steady = window.is_some_and(|window| window.is_steady());
        if is_steady != self.is_steady() {
            let round = self.figures.len() as u64;
            self.changes.push(SteadyChange { round, is_reached: is_steady, window });
        }
    }

    /// Returns true if the last five rounds pass the test.
    pub fn is_steady(&self) -> bool {
        self.changes.last().is_some_and(|change| change.is_reached)
    }

    /// The rounds with which the steady state began or ended, in order.
    pub fn changes(&self) -> &[SteadyChange] {
        &self.changes
    }

    /// The figures of all rounds.
    pub fn figures(&self) -> &[f64] {
        &self.figures
    }

    /// The window of the last five rounds.
    pub fn window(&self) -> Option<SteadyWindow> {
        SteadyWindow::of_last(&self.figures)
    }

    /// Returns true if a phase with that rule is over: steady for as long as it says.
    pub fn is_over(&self, rule: &SteadyRule) -> bool {
        let rounds = self.figures.len() as u64;
        self.changes.first().is_some_and(|first| rounds >= first.round + rule.hold)
            || (self.changes.is_empty() && rounds >= rule.rounds_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(figures: &[f64]) -> SteadyTrack {
        let mut track = SteadyTrack::default();
        figures.iter().for_each(|figure| track.push(*figure));
        track
    }

    #[test]
    fn five_rounds_within_range_and_slope_are_steady() {
        // A range of exactly 20 % without a trend, and a trend of exactly 10 %.
        assert!(track(&[90.0, 110.0, 100.0, 110.0, 90.0]).is_steady());
        assert!(track(&[95.0, 97.5, 100.0, 102.5, 105.0]).is_steady());
        assert!(!track(&[89.0, 110.0, 100.0, 111.0, 90.0]).is_steady());
        assert!(!track(&[94.0, 97.0, 100.0, 103.0, 106.0]).is_steady());
        assert!(!track(&[106.0, 103.0, 100.0, 97.0, 94.0]).is_steady());
        assert!(!track(&[100.0; 4]).is_steady(), "four rounds are too few");
        assert!(!track(&[0.0; 8]).is_steady(), "a target that does nothing is in no steady state");
    }

    #[test]
    fn changes_name_the_rounds_of_begin_and_end() {
        let mut figures = vec![500.0, 400.0, 300.0];
        figures.extend([100.0; 8]);
        figures.extend([10.0; 6]);
        let changes: Vec<_> =
            track(&figures).changes().iter().map(|change| (change.round, change.is_reached)).collect();
        assert_eq!(changes, [(8, true), (12, false), (16, true)]);
    }

    #[test]
    fn phase_ends_when_the_state_was_held_or_the_rounds_are_over() {
        let rule = |hold, rounds_max| SteadyRule {
            figure: SteadyFigure::RequestsPerSecond,
            round: Duration::from_s(1),
            rounds_max,
            hold,
        };
        assert!(!track(&[100.0; 4]).is_over(&rule(0, 25)));
        assert!(track(&[100.0; 5]).is_over(&rule(0, 25)));
        assert!(!track(&[100.0; 7]).is_over(&rule(3, 25)));
        assert!(track(&[100.0; 8]).is_over(&rule(3, 25)));
        let rising: Vec<f64> = (1..=6).map(|round| f64::from(1 << round)).collect();
        assert!(!track(&rising[..5]).is_over(&rule(3, 6)));
        assert!(track(&rising).is_over(&rule(3, 6)));
    }
}
