//! Requests to a clone outside of the loads that it was fitted to, with the verdict that follows.

use schemars::JsonSchema;
use seeklab_analysis::TrustLevel;
use seeklab_analysis::points::range_trust;
use seeklab_core::{Coverage, RegionBound, RegionSide};
use serde::{Deserialize, Serialize};

/// Requests to a clone outside of the loads that it was fitted to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FittedRangeFigures {
    /// Requests that the clone answered.
    pub requests: u64,
    /// Requests outside the fitted range.
    pub outside_requests: u64,
    /// Share of the requests outside the fitted range.
    pub out_of_fitted_range_pct: f64,
    /// Trustworthiness of the clone for this load: `trusted` up to 5 % outside, `with_care` up to 50 %.
    #[serde(rename = "trust")]
    pub level: TrustLevel,
    /// Bounds of the fitted range with requests beyond them, the most frequent first. A request can lie beyond several.
    pub outside_of: Vec<OutsideFigures>,
}

/// Requests beyond a bound of the fitted range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutsideFigures {
    /// The property: `operation`, `length`, `queue_length`, `sequential_share`, `sequential_share_of_reads`, `rate`, `combination`, or `read_share` and
    /// the like.
    pub property: String,
    /// Side of the fitted range.
    pub side: OutsideSide,
    /// Requests beyond the bound, alone or in a window.
    pub requests: u64,
}

/// Side of the fitted range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutsideSide {
    /// Below the least that was fitted.
    Below,
    /// Above the most that was fitted.
    Above,
    /// No such request was fitted.
    Absent,
}

impl FittedRangeFigures {
    /// The figures of what a clone counted.
    pub fn of(coverage: &Coverage) -> Self {
        let outside_of = coverage.by_bound().into_iter().map(|(bound, requests)| OutsideFigures {
            property: bound.property().to_owned(),
            side: match bound.side() {
                RegionSide::Below => OutsideSide::Below,
                RegionSide::Above => OutsideSide::Above,
                RegionSide::Absent => OutsideSide::Absent,
            },
            requests,
        });
        Self {
            requests: coverage.requests,
            outside_requests: coverage.outside,
            out_of_fitted_range_pct: coverage.out_of_fitted_range_pct(),
            level: range_trust(coverage),
            outside_of: outside_of.collect(),
        }
    }

    /// The counts that these figures are of.
    pub fn coverage(&self) -> Coverage {
        let mut coverage =
            Coverage { requests: self.requests, outside: self.outside_requests, ..Coverage::default() };
        for OutsideFigures { property, side, requests } in &self.outside_of {
            let is_it = |bound: &RegionBound| {
                let is_side = match bound.side() {
                    RegionSide::Below => *side == OutsideSide::Below,
                    RegionSide::Above => *side == OutsideSide::Above,
                    RegionSide::Absent => *side == OutsideSide::Absent,
                };
                bound.property() == property && is_side
            };
            if let Some(bound) = RegionBound::ALL.into_iter().find(is_it) {
                coverage.beyond[bound as usize] += requests;
            }
        }
        coverage
    }
}

/// Returns a sentence on the requests outside, with what they lie outside of. `None` if the clone can be trusted.
pub fn outside_sentence(coverage: &Coverage) -> Option<String> {
    let level = range_trust(coverage);
    if level == TrustLevel::Trusted {
        return None;
    }
    let bounds: Vec<String> = coverage
        .by_bound()
        .into_iter()
        .map(|(bound, count)| format!("{} ({count})", bound.words()))
        .collect();
    let bounds = if bounds.is_empty() { String::new() } else { format!(": {}", bounds.join(", ")) };
    Some(format!(
        "{:.1} % of the requests ({} of {}) are outside the fitted range{bounds}. For this load the clone {}.",
        coverage.out_of_fitted_range_pct(),
        coverage.outside,
        coverage.requests,
        level.predicate()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coverage(outside: u64) -> Coverage {
        let mut coverage = Coverage { requests: 1_000, outside, ..Coverage::default() };
        coverage.beyond[RegionBound::QueueBelow as usize] = outside;
        coverage.beyond[RegionBound::Writes as usize] = outside / 2;
        coverage
    }

    #[test]
    fn share_outside_makes_the_verdict() {
        for (outside, level) in [
            (0, TrustLevel::Trusted),
            (50, TrustLevel::Trusted),
            (51, TrustLevel::WithCare),
            (500, TrustLevel::WithCare),
            (501, TrustLevel::NotTrusted),
        ] {
            let figures = FittedRangeFigures::of(&coverage(outside));
            assert_eq!(figures.level, level, "{outside}");
            assert_eq!(figures.coverage(), coverage(outside));
            assert_eq!(outside_sentence(&coverage(outside)).is_none(), level == TrustLevel::Trusted);
        }
        let sentence = outside_sentence(&coverage(600)).unwrap();
        assert_eq!(
            sentence,
            "60.0 % of the requests (600 of 1000) are outside the fitted range: queue length below (600), share of writes \
             above (300). For this load the clone cannot be trusted."
        );
    }
}
