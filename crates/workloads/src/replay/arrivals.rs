//! The rule by which the requests of a trace arrive, as people write it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use seeklab_core::names::{near, quoted};
use seeklab_core::{Duration, Ratio};
use serde::{Deserialize, Serialize};

/// Rule by which requests arrive: `open`, `scaled 2`, `closed 8`, `closed auto`, `think`, `follow`, `follow 0.4ms` or
/// `follow idle`.
///
/// Command line, workload lines, TOML and experiments share this spelling.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ArrivalMode {
    /// The arrival times of the trace, or the arrival process of a synthetic workload.
    #[default]
    Open,
    /// Recorded arrivals, with interarrival times divided by a factor above zero.
    Scaled(Ratio),
    /// Completions: a constant number of requests is outstanding.
    Closed(Population),
    /// Completions and think times: one request at a time.
    Think,
    /// A request that followed a completion in the trace follows it here.
    Follow(FollowWindow),
}

/// Longest time from a completion to a request that had waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowWindow {
    /// Inferred from the trace.
    Inferred,
    /// A fixed time.
    Within(Duration),
    /// No request had waited for a completion; those that arrived at an idle device had waited for that.
    Idle,
}

/// Requests that a closed replay keeps outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Population {
    /// A fixed number, at least one.
    Count(u32),
    /// The mean of the trace, rounded, at least one.
    Auto,
}

/// A text that is no [`ArrivalMode`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ArrivalModeError {
    problem: String,
    hint: String,
}

impl ArrivalModeError {
    fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { problem: problem.into(), hint: hint.into() }
    }

    /// Advice.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

/// Every mode, as it is written.
pub const ARRIVAL_MODES: &str = "\"open\", \"scaled 2\", \"closed 8\", \"closed auto\", \"think\", \"follow\", \"follow 0.4ms\" or \"follow idle\"";

/// Largest population: each member takes memory.
const POPULATION_MAX: u32 = 1_000_000;

impl FromStr for Population {
    type Err = ArrivalModeError;

    fn from_str(text: &str) -> Result<Self, ArrivalModeError> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Self::Auto),
            (_, Ok(count)) if (1..=POPULATION_MAX).contains(&count) => Ok(Self::Count(count)),
            _ => Err(ArrivalModeError::new(
                format!("`{text}` is not a population of 1 to {POPULATION_MAX}, or `auto`"),
                "write for example \"closed 8\", or \"closed auto\" for the mean of the trace",
            )),
        }
    }
}

impl FromStr for FollowWindow {
    type Err = ArrivalModeError;

    fn from_str(text: &str) -> Result<Self, ArrivalModeError> {
        match (text, text.parse()) {
            ("idle", _) => Ok(Self::Idle),
            (_, Ok(within)) => Ok(Self::Within(within)),
            _ => Err(ArrivalModeError::new(
                format!("`{text}` is not a time, or `idle`"),
                "write for example \"follow 0.4ms\", or \"follow\" to infer the time from the trace",
            )),
        }
    }
}

impl FromStr for ArrivalMode {
    type Err = ArrivalModeError;

    fn from_str(text: &str) -> Result<Self, ArrivalModeError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["open"] => Ok(Self::Open),
            ["think"] => Ok(Self::Think),
            ["follow"] => Ok(Self::Follow(FollowWindow::Inferred)),
            ["follow", window] => window.parse().map(Self::Follow),
            ["closed", population] => population.parse().map(Self::Closed),
            ["scaled", factor] => match factor.parse::<Ratio>() {
                Ok(factor) if factor > Ratio::ZERO => Ok(Self::Scaled(factor)),
                _ => Err(ArrivalModeError::new(
                    format!("`{factor}` is not a factor above 0"),
                    "write for example \"scaled 2\" for twice the rate",
                )),
            },
            ["closed"] => {
                Err(ArrivalModeError::new("`closed` needs a population", "write for example \"closed 8\""))
            }
            ["scaled"] => {
                Err(ArrivalModeError::new("`scaled` needs a factor", "write for example \"scaled 2\""))
            }
            _ => {
                let names = ["open", "scaled", "closed", "think", "follow"];
                let near = near(words.first().copied().unwrap_or_default(), names);
                let hint = match near.is_empty() {
                    true => format!("write {ARRIVAL_MODES}"),
                    false => format!("did you mean {}?", quoted(near)),
                };
                Err(ArrivalModeError::new(format!("`{text}` is no arrival mode"), hint))
            }
        }
    }
}

impl TryFrom<String> for ArrivalMode {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|error: ArrivalModeError| format!("{error} (hint: {})", error.hint()))
    }
}

impl JsonSchema for ArrivalMode {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "ArrivalMode".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "x-quantity": "arrival mode",
            "examples": ["open", "scaled 2", "closed 8", "closed auto", "think", "follow", "follow 0.4ms"],
        })
    }
}

impl From<ArrivalMode> for String {
    fn from(mode: ArrivalMode) -> Self {
        mode.to_string()
    }
}

impl fmt::Display for Population {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl fmt::Display for FollowWindow {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Inferred => f.write_str("inferred"),
            Self::Within(within) => write!(f, "{within}"),
            Self::Idle => f.write_str("idle"),
        }
    }
}

impl fmt::Display for ArrivalMode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Scaled(factor) => write!(f, "scaled {factor}"),
            Self::Closed(population) => write!(f, "closed {population}"),
            Self::Think => f.write_str("think"),
            Self::Follow(FollowWindow::Inferred) => f.write_str("follow"),
            Self::Follow(window) => write!(f, "follow {window}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_mode_reads_back() {
        for text in [
            "open",
            "scaled 1.5",
            "closed 8",
            "closed auto",
            "think",
            "follow",
            "follow 0.4ms",
            "follow idle",
        ] {
            assert_eq!(text.parse::<ArrivalMode>().unwrap().to_string(), text);
        }
        assert_eq!(" scaled  150% ".parse::<ArrivalMode>().unwrap().to_string(), "scaled 1.5");
    }

    #[test]
    fn error_names_the_value_and_a_way_on() {
        for (text, problem, hint) in [
            ("closed 0", "`0` is not a population of 1 to 1000000, or `auto`", "closed 8"),
            ("scaled 0", "`0` is not a factor above 0", "scaled 2"),
            ("closed", "`closed` needs a population", "closed 8"),
            ("scaled", "`scaled` needs a factor", "scaled 2"),
            ("follow 0.4", "`0.4` is not a time, or `idle`", "follow 0.4ms"),
            ("opne", "`opne` is no arrival mode", "did you mean `open`?"),
            ("", "`` is no arrival mode", "follow"),
            ("open 3", "`open 3` is no arrival mode", "did you mean `open`?"),
        ] {
            let error = text.parse::<ArrivalMode>().unwrap_err();
            assert_eq!(error.to_string(), problem);
            assert!(error.hint().contains(hint), "{text}: {}", error.hint());
        }
    }
}
