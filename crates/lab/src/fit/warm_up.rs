//! A slow start of a device, which a fit reports and can leave out.

use std::str::FromStr;

use schemars::JsonSchema;
use seeklab_core::number_words::counted;
use seeklab_core::{Duration, Instant, Operation};
use seeklab_learning::fit::Model;
use seeklab_learning::warm_up::WarmUp;
use serde::Serialize;

use super::suitability::plural;
use crate::failure::Failure;

/// Hint if nothing is left to fit.
const SHORTER: &str = "choose a shorter time, or fit more of the trace with --split";

/// Start of a trace that is left out of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WarmUpChoice {
    /// The [warm-up](seeklab_learning::warm_up) that the fitted part shows, if any; the model `trivial` keeps it.
    #[default]
    Auto,
    /// Time from the first arrival on, left out of all models.
    Time(Duration),
}

impl FromStr for WarmUpChoice {
    type Err = String;

    /// Reads `auto`, `none` or a time such as `30s`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::Time(Duration::ZERO)),
            _ => text
                .parse()
                .map(Self::Time)
                .map_err(|error| format!("{error}; `auto`, `none` and times are allowed, for example 30s")),
        }
    }
}

/// Slow start of a trace, or a start that was left out by hand.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FoundWarmUp {
    /// From the first arrival to its end.
    pub time_s: f64,
    /// Requests with response times that arrived in it.
    pub requests: u64,
    /// True if the models were fitted without it. `trivial` leaves out only what was chosen by hand.
    pub is_left_out: bool,
    /// Response times of the operations in it, as multiples of those after it with similar places, lengths, queue lengths and seek distances. Empty if
    /// the time was chosen by hand.
    pub slower: Vec<Slower>,
    /// Its end.
    #[serde(skip)]
    pub(super) end: Instant,
}

/// Operation that was slower during the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Slower {
    /// The operation.
    pub operation: Operation,
    /// Geometric mean of the ratios of its response times.
    pub factor: f64,
}

impl FoundWarmUp {
    /// The slow start, or what is left out by that choice, of a trace whose first request arrives at `first`, and whose fitted part ends at
    /// `boundary`. `found` is its warm-up.
    ///
    /// # Errors
    /// If nothing would be left to fit.
    pub(super) fn choose(
        choice: WarmUpChoice,
        found: Option<WarmUp>,
        (first, boundary): (Instant, Instant),
    ) -> Result<Option<Self>, Failure> {
        let (end, slower) = match choice {
            WarmUpChoice::Time(time) if !time.is_zero() && first + time >= boundary => {
                return Err(Failure::new(format!(
                    "--warm-up {time}: nothing is left to fit, for the fitted part ends {} after the first request",
                    boundary.saturating_since(first)
                ))
                .hint(SHORTER));
            }
            WarmUpChoice::Time(time) if !time.is_zero() => (first + time, Vec::new()),
            WarmUpChoice::Time(_) | WarmUpChoice::Auto => match found {
                Some(WarmUp { end, slower }) => (end, slower),
                None => return Ok(None),
            },
        };
        let slower = slower.into_iter().map(|(operation, factor)| Slower { operation, factor }).collect();
        let is_left_out = choice != WarmUpChoice::Time(Duration::ZERO);
        Ok(Some(Self { time_s: (end - first).as_s(), requests: 0, is_left_out, slower, end }))
    }

    /// The failure if no request is left to fit behind it.
    pub(super) fn nothing_behind(&self) -> Failure {
        Failure::new(format!(
            "--warm-up: no request is left to fit: those of the fitted part arrive in the first {:.1} s",
            self.time_s
        ))
        .hint(SHORTER)
    }

    /// Returns true if a model leaves it out.
    pub(super) const fn is_of(&self, model: &Model) -> bool {
        self.is_left_out && (self.slower.is_empty() || model.leaves_out_warm_up)
    }

    /// Sentence on it.
    pub(super) fn note(&self) -> String {
        let (time_s, requests) = (self.time_s, counted(self.requests, "request"));
        if self.slower.is_empty() {
            return format!("the first {time_s:.1} s ({requests}) are left out of the fit (--warm-up)");
        }
        let slower: Vec<String> = self
            .slower
            .iter()
            .map(|Slower { operation, factor }| {
                format!("{} took {factor:.1} times as long", plural(*operation))
            })
            .collect();
        let found = format!(
            "the device was slower in the first {time_s:.1} s ({requests}): with similar places, lengths, queue lengths and seek distances, {}",
            slower.join(", ")
        );
        match self.is_left_out {
            true => format!(
                "{found}. These requests are left out of the fit, except of `trivial`; if the device is always so, --warm-up none keeps them"
            ),
            false => format!("{found} (--warm-up auto leaves these requests out)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::from_ns(s * 1_000_000_000)
    }

    #[test]
    fn choices_are_read() {
        assert_eq!("auto".parse(), Ok(WarmUpChoice::Auto));
        assert_eq!("none".parse(), Ok(WarmUpChoice::Time(Duration::ZERO)));
        assert_eq!("30s".parse(), Ok(WarmUpChoice::Time(Duration::from_ms(30_000))));
        let error = "some".parse::<WarmUpChoice>().unwrap_err();
        assert!(error.contains("`auto`, `none`"), "{error}");
    }

    #[test]
    fn time_counts_from_the_first_request_and_leaves_something_to_fit() {
        let found = || Some(WarmUp { end: at(130), slower: vec![(Operation::Read, 2.0)] });
        let choose = |choice: &str| {
            FoundWarmUp::choose(choice.parse().unwrap(), found(), (at(100), at(200)))
                .map(|found| found.map(|found| (found.time_s, found.slower.len(), found.is_left_out)))
        };
        assert_eq!(choose("auto").unwrap(), Some((30.0, 1, true)));
        assert_eq!(choose("none").unwrap(), Some((30.0, 1, false)), "it is reported");
        assert_eq!(choose("99s").unwrap(), Some((99.0, 0, true)));
        let error = choose("100s").unwrap_err().to_string();
        assert!(error.contains("nothing is left to fit"), "{error}");
    }
}
