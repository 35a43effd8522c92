//! Trustworthiness of a run, in one sentence.
//!
//! | | trusted | with care | not |
//! | --- | --- | --- | --- |
//! | mean error in the host (EI_avg, MP1 against MP3), of the model's mean | ≤ 0.5 % | ≤ 5 % | more |
//! | requests later than the limit | ≤ 1 % | ≤ 10 % | more |
//! | requests without stamps of the host | ≤ 1 % | ≤ 10 % | more |
//! | requests below the floor | ≤ 1 % | ≤ 10 % | more |
//! | requests of a clone outside the fitted range | ≤ 5 % | ≤ 50 % | more |
//!
//! The worst row decides. Without MP1 the first row is the mean error where the emulator meets the host (MP2
//! against due), and the best verdict is *with care*, since the time added by the host is unknown. The
//! sentence names every row that is not *trusted* and every quantity that was not measured.

use std::fmt::Write as _;

use schemars::JsonSchema;
use seeklab_core::{Coverage, Duration};
use serde::{Deserialize, Serialize};

use super::{DEADLINE_LIMIT, MissCounts, Point, Stamps};
use crate::rounding::{percent, six_decimals};

/// Evidence for the exactness of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Requests that the emulator answered.
    pub requests: u64,
    /// Mean response time in the model, of the same requests as `host_error_ms`; of all if MP1 was not measured.
    pub model_mean_ms: f64,
    /// EI_avg at MP1 against the model, if MP1 was measured.
    pub host_error_ms: Option<f64>,
    /// EI_avg at MP2 against what was due there, if that was recorded.
    pub reply_error_ms: Option<f64>,
    /// Requests without stamps of the host, if MP1 was measured.
    pub unmatched: Option<u64>,
    /// Beyond what lateness a deadline is missed.
    pub limit: Duration,
    /// Share of the requests later than that.
    pub beyond_limit_pct: Option<f64>,
    /// Missed deadlines by cause.
    pub misses: MissCounts,
    /// Requests whose response time in the model is shorter than can be emulated, if the floor is known.
    pub below_floor: Option<u64>,
    /// Requests inside and outside the range that the model was fitted to, if it was fitted.
    pub coverage: Option<Coverage>,
}

/// Trustworthiness of a clone for a load, by the requests outside the range that it was fitted to.
pub fn range_trust(coverage: &Coverage) -> TrustLevel {
    TrustLevel::of(coverage.out_of_fitted_range_pct(), 5.0, 50.0)
}

/// Trustworthiness of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Trust {
    /// The verdict.
    #[serde(rename = "trust")]
    pub level: TrustLevel,
    /// One sentence with its reasons.
    #[serde(rename = "trust_sentence")]
    pub sentence: String,
}

/// A verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrustLevel {
    /// The times are the model's.
    Trusted,
    /// The times are near the model's; differences of this size mean nothing.
    WithCare,
    /// The times are those of the machine rather than of the model.
    #[default]
    NotTrusted,
}

impl TrustLevel {
    /// Returns the end of a sentence about a run.
    pub const fn predicate(self) -> &'static str {
        match self {
            Self::Trusted => "can be trusted",
            Self::WithCare => "can be trusted with care",
            Self::NotTrusted => "cannot be trusted",
        }
    }

    /// The verdict for what should be at most `good` and must be at most `fair`.
    fn of(value: f64, good: f64, fair: f64) -> Self {
        match value {
            value if value <= good => Self::Trusted,
            value if value <= fair => Self::WithCare,
            _ => Self::NotTrusted,
        }
    }
}

impl Stamps {
    /// Computes the evidence of the stamps about the run. Response times in the model below `floor` cannot be
    /// emulated.
    pub fn evidence(&self, limit: Duration, floor: Option<Duration>) -> Evidence {
        let error = |one, other| self.between(one, other).ok().map(|between| between.comparison().summary());
        let host = error(Point::Mp1, Point::Mp3);
        let reply = error(Point::Mp2, Point::Due);
        let model = self.rows.iter().filter_map(|row| row.at(Point::Mp3)).map(|(from, to)| to - from);
        let (requests, sum) =
            model.clone().fold((0_u64, 0_u128), |(n, sum), ns| (n + 1, sum + u128::from(ns)));
        Evidence {
            requests: self.requests(),
            model_mean_ms: host.map_or_else(
                || six_decimals(sum as f64 / requests as f64 / 1e6),
                |seen| seen.reference_mean_ms,
            ),
            host_error_ms: host.map(|summary| summary.ei_avg_ms),
            reply_error_ms: reply.map(|summary| summary.ei_avg_ms),
            unmatched: self.unmatched(),
            limit,
            beyond_limit_pct: self.beyond_limit_pct(limit, floor),
            misses: self.misses(),
            below_floor: floor.map(|floor| model.filter(|ns| *ns < floor.as_ns()).count() as u64),
            coverage: None,
        }
    }
}

impl Stamps {
    /// Share of the replies that left too late, of requests that can be emulated at all.
    fn beyond_limit_pct(&self, limit: Duration, floor: Option<Duration>) -> Option<f64> {
        let is_possible = |row: &&super::Row| {
            let response = row.at(Point::Mp3).map(|(from, to)| to - from);
            floor.is_none_or(|floor| response.is_some_and(|ns| ns >= floor.as_ns()))
        };
        let late = self.rows.iter().filter(is_possible).filter_map(|row| {
            let (_, due) = row.at(Point::Due)?;
            let (_, left) = row.at(Point::Mp2)?;
            Some(left.saturating_sub(due) > limit.as_ns())
        });
        let (count, beyond) = late.fold((0_u64, 0_u64), |(n, sum), late| (n + 1, sum + u64::from(late)));
        percent(beyond as f64, count as f64).map(six_decimals)
    }
}

impl Default for Evidence {
    /// Nothing was measured.
    fn default() -> Self {
        Self {
            requests: 0,
            model_mean_ms: 0.0,
            host_error_ms: None,
            reply_error_ms: None,
            unmatched: None,
            limit: DEADLINE_LIMIT,
            beyond_limit_pct: None,
            misses: MissCounts::default(),
            below_floor: None,
            coverage: None,
        }
    }
}

impl Evidence {
    /// The verdict and its reasons.
    pub fn trust(&self) -> Trust {
        let trust = |level, sentence| Trust { level, sentence };
        let Some((error, at)) = self.error() else {
            let sentence = "The accuracy of this run is unknown: no request was measured outside the model.";
            return trust(TrustLevel::NotTrusted, sentence.to_owned());
        };
        let Some(error_pct) = percent(error.abs(), self.model_mean_ms) else {
            let sentence = format!(
                "The model takes no time, so response times {at}, {error:.4} ms on average, are this machine's own."
            );
            return trust(TrustLevel::NotTrusted, sentence);
        };
        let of_error = TrustLevel::of(error_pct, 0.5, 5.0);
        let best = if self.host_error_ms.is_some() { TrustLevel::Trusted } else { TrustLevel::WithCare };
        let mut doubts = self.shares();
        doubts.retain(|(level, _)| *level > TrustLevel::Trusted);
        let level = doubts.iter().map(|(level, _)| *level).fold(best.max(of_error), Ord::max);
        let mut sentence = format!(
            "This run {}: on average response times {at} were {:.4} ms ({} %) {} than {}",
            level.predicate(),
            error.abs(),
            short(error_pct),
            if error < 0.0 { "shorter" } else { "longer" },
            if self.host_error_ms.is_some() { "the model's" } else { "what was due" },
        );
        let doubts: Vec<String> = doubts.into_iter().map(|(_, text)| text).collect();
        if !doubts.is_empty() {
            sentence += match (of_error, doubts.len()) {
                (TrustLevel::Trusted, _) => ", but ",
                (_, 1) => ", and ",
                _ => ", ",
            };
            sentence += &listed(&doubts);
        } else if let Some(late) = self.beyond_limit_pct {
            let (share, limit) = (short(100.0 - late), self.limit.as_us());
            let _ = write!(
                sentence,
                ", and {share} % of the replies left within {limit} us of when they were due"
            );
        }
        if self.host_error_ms.is_none() {
            sentence += "; what the host added was not measured";
        }
        sentence.push('.');
        trust(level, sentence)
    }

    /// Returns the doubtful shares of the requests, each with its verdict and text.
    fn shares(&self) -> Vec<(TrustLevel, String)> {
        let level = |share| TrustLevel::of(share, 1.0, 10.0);
        let share = |count: u64| percent(count as f64, self.requests as f64).unwrap_or(0.0);
        let late = self.beyond_limit_pct.map(|late| {
            let (limit, cause) = (self.limit.as_us(), self.cause());
            (level(late), format!("{} % of the replies left more than {limit} us late{cause}", short(late)))
        });
        let unmatched = self.unmatched.map(share).map(|share| {
            (level(share), format!("{} % of the requests have no stamps of the host", short(share)))
        });
        // What they are wrong by is at most the floor, and is in the mean error.
        let below = self.below_floor.map(share).map(|share| {
            (
                level(share).min(TrustLevel::WithCare),
                format!("{} % were due sooner than can be emulated here", short(share)),
            )
        });
        let outside = self.coverage.map(|coverage| {
            let mostly = coverage.by_bound().first().map(|(bound, _)| format!(" (mostly {})", bound.words()));
            let (share, mostly) = (short(coverage.out_of_fitted_range_pct()), mostly.unwrap_or_default());
            (
                range_trust(&coverage),
                format!(
                    "{share} % of the requests are outside the range that the clone was fitted to{mostly}"
                ),
            )
        });
        [late, unmatched, below, outside].into_iter().flatten().collect()
    }

    /// The mean error as far out as it was measured, and where.
    fn error(&self) -> Option<(f64, &'static str)> {
        let host = self.host_error_ms.map(|error| (error, "in the host"));
        host.or(self.reply_error_ms.map(|error| (error, "at the emulator")))
    }

    /// The most frequent cause of missed deadlines, in brackets.
    fn cause(&self) -> String {
        let ordered = self.misses.ordered();
        ordered.first().map_or_else(String::new, |(cause, count)| {
            let name = cause.name().replace('_', " ");
            let mostly = if *count < self.misses.total() { "mostly " } else { "" };
            format!(" ({mostly}{name})")
        })
    }
}

/// Two significant digits at least, so that neither 0.04 % nor 99.96 % looks whole.
fn short(percent: f64) -> String {
    let distance = percent.abs().min((100.0 - percent).abs());
    match distance {
        0.0 => format!("{percent:.0}"),
        distance if distance < 0.1 => format!("{percent:.3}"),
        distance if distance < 1.0 => format!("{percent:.2}"),
        _ => format!("{percent:.1}"),
    }
}

fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}
