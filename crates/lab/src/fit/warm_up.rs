//! The start of a trace that is left out of a fit, because the device was still warming up.

use std::str::FromStr;

use schemars::JsonSchema;
use seeklab_core::{Duration, Instant, Operation};
use seeklab_learning::fit::Model;
use seeklab_learning::warm_up::WarmUp;
use serde::Serialize;

use super::suitability::plural;
use crate::failure::Failure;

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

/// Start of a trace that was left out.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LeftOutWarmUp {
    /// From the first arrival to the end of the warm-up.
    pub time_s: f64,
    /// Requests that arrived in it.
    pub requests: u64,
    /// Response times of the operations in it, as multiples of those after it with the same lengths, queue lengths and seek distances. Empty if
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

impl LeftOutWarmUp {
    /// The start that is left out by that choice of a trace whose first request arrives at `first`, and whose fitted part ends at
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
            WarmUpChoice::Time(Duration::ZERO) => return Ok(None),
            WarmUpChoice::Time(time) if first + time >= boundary => {
                return Err(Failure::new(format!(
                    "--warm-up {time}: nothing is left to fit, for the fitted part ends {} after the first request",
                    boundary.saturating_since(first)
                ))
                .hint("choose a shorter time, or fit more of the trace with --split"));
            }
            WarmUpChoice::Time(time) => (first + time, Vec::new()),
            WarmUpChoice::Auto => match found {
                Some(WarmUp { end, slower }) => (end, slower),
                None => return Ok(None),
            },
        };
        let slower = slower.into_iter().map(|(operation, factor)| Slower { operation, factor }).collect();
        Ok(Some(Self { time_s: (end - first).as_s(), requests: 0, slower, end }))
    }

    /// Returns true if a model leaves it out.
    pub(super) const fn is_of(&self, model: &Model) -> bool {
        self.slower.is_empty() || model.leaves_out_warm_up
    }

    /// Sentence on what was left out, and why.
    pub(super) fn note(&self) -> String {
        let left_out =
            format!("the first {:.1} s ({} requests) are left out of the fit", self.time_s, self.requests);
        if self.slower.is_empty() {
            return left_out + " (--warm-up)";
        }
        let slower: Vec<String> = self
            .slower
            .iter()
            .map(|Slower { operation, factor }| format!("{} {factor:.1} times", plural(*operation)))
            .collect();
        format!(
            "{left_out}, except of `trivial`: the device warmed up. Response times in it were longer than later with the same lengths, queue \
             lengths and seek distances: {} (--warm-up none includes it)",
            slower.join(", ")
        )
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
            LeftOutWarmUp::choose(choice.parse().unwrap(), found(), (at(100), at(200)))
                .map(|left_out| left_out.map(|left_out| (left_out.time_s, left_out.slower.len())))
        };
        assert_eq!(choose("auto").unwrap(), Some((30.0, 1)));
        assert_eq!(choose("none").unwrap(), None);
        assert_eq!(choose("99s").unwrap(), Some((99.0, 0)));
        let error = choose("100s").unwrap_err().to_string();
        assert!(error.contains("nothing is left to fit"), "{error}");
    }
}
