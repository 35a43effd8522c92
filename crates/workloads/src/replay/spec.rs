//! The description of a replay.

use std::fmt;

use seeklab_core::Ratio;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Beyond, Mode, Settings, Survey};
use crate::error::{Error, ErrorKind};

/// Description of a replay.
///
/// ```toml
/// kind = "replay"
/// trace = "server.csv"    # the file, for the caller to open; optional
/// mode = "open"           # the default; or scaled, closed, think
/// factor = "2"            # scaled only: interarrival times are divided by it
/// population = 8          # closed only: requests outstanding; "auto": the mean number in the trace
/// beyond = "error"        # requests beyond the end of the device: error, wrap, scale, drop
/// requests = 100000       # maximum number of requests [default: all]
/// device = 3              # replay the requests of this device of the trace [default: all devices]
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaySpec {
    /// File of the trace. This crate does not open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Rule that arrivals follow.
    #[serde(default)]
    pub mode: ModeName,
    /// Divisor of the interarrival times, for [`ModeName::Scaled`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<Ratio>,
    /// Number of outstanding requests, for [`ModeName::Closed`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<PopulationSpec>,
    /// Treatment of requests beyond the end of the device.
    #[serde(default)]
    pub beyond: Beyond,
    /// Maximum number of requests to issue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// The device of the trace whose requests are replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u16>,
}

/// Name of the rule that the arrivals of a replay follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModeName {
    /// The arrival times of the trace.
    #[default]
    Open,
    /// The arrival times of the trace, with interarrival times divided by a factor.
    Scaled,
    /// Completions: a constant number is outstanding.
    Closed,
    /// Completions and think times: one request at a time.
    Think,
}

/// The population of a closed replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PopulationSpec {
    /// A fixed number, at least one.
    Count(u32),
    /// The mean number of requests outstanding in the trace, at least one.
    Auto,
}

impl Serialize for PopulationSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u32(*count),
            Self::Auto => serializer.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for PopulationSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl de::Visitor<'_> for Form {
            type Value = PopulationSpec;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a population of 1 or more, or \"auto\"")
            }
            fn visit_u64<E: de::Error>(self, count: u64) -> Result<PopulationSpec, E> {
                match u32::try_from(count) {
                    Ok(count) if count > 0 => Ok(PopulationSpec::Count(count)),
                    _ => Err(E::invalid_value(de::Unexpected::Unsigned(count), &self)),
                }
            }
            fn visit_i64<E: de::Error>(self, count: i64) -> Result<PopulationSpec, E> {
                match u64::try_from(count) {
                    Ok(count) => self.visit_u64(count),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(count), &self)),
                }
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<PopulationSpec, E> {
                if text == "auto" {
                    return Ok(PopulationSpec::Auto);
                }
                match text.parse() {
                    Ok(count) => self.visit_u64(count),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl ReplaySpec {
    /// Returns true if [`settings`](Self::settings) needs a survey of the trace.
    pub fn needs_survey(&self) -> bool {
        self.population == Some(PopulationSpec::Auto) || self.beyond == Beyond::Scale
    }

    /// The settings of a replay on a device with that many blocks.
    ///
    /// # Errors
    /// [`Error`], if keys contradict each other, or a survey is needed and not given, or it does not
    /// hold what is needed.
    pub fn settings(&self, capacity_blocks: u64, survey: Option<&Survey>) -> Result<Settings, Error> {
        let not_surveyed = |at: &str| {
            Error::new(ErrorKind::NotSupplied, at, "needs a survey of the trace beforehand")
                .with_hint("a trace that can be read only once cannot be surveyed; save it to a file")
        };
        if self.factor.is_some() && self.mode != ModeName::Scaled {
            return Err(Error::invalid("factor", "is for `mode = \"scaled\"` only")
                .with_hint("choose that mode, or remove `factor`"));
        }
        if self.population.is_some() && self.mode != ModeName::Closed {
            return Err(Error::invalid("population", "is for `mode = \"closed\"` only")
                .with_hint("choose that mode, or remove `population`"));
        }
        let mode = match self.mode {
            ModeName::Open => Mode::Open,
            ModeName::Think => Mode::Think,
            ModeName::Scaled => {
                let factor = self.factor.ok_or_else(|| {
                    Error::new(ErrorKind::Missing, "factor", "is missing, but the mode is `scaled`")
                        .with_hint("write for example `factor = \"2\"` for twice the rate")
                })?;
                if factor == Ratio::ZERO {
                    return Err(Error::invalid("factor", "is 0")
                        .with_hint("a factor lies above 0; 2 doubles the rate, 1/2 halves it"));
                }
                Mode::Scaled { factor }
            }
            ModeName::Closed => match self.population {
                None => {
                    return Err(Error::new(
                        ErrorKind::Missing,
                        "population",
                        "is missing, but the mode is `closed`",
                    )
                    .with_hint("write for example `population = 8`, or \"auto\""));
                }
                Some(PopulationSpec::Count(0)) => {
                    return Err(Error::invalid("population", "is 0, but at least 1 is needed"));
                }
                Some(PopulationSpec::Count(population)) => Mode::Closed { population },
                Some(PopulationSpec::Auto) => Mode::Closed {
                    population: survey.ok_or_else(|| not_surveyed("population"))?.population()?,
                },
            },
        };
        let extent_blocks = match (self.beyond, survey) {
            (Beyond::Scale, None) => return Err(not_surveyed("beyond")),
            (_, Some(survey)) => survey.extent_blocks(),
            (_, None) => 0,
        };
        Ok(Settings {
            mode,
            beyond: self.beyond,
            capacity_blocks,
            extent_blocks,
            requests: self.requests,
            device: self.device,
            devices: None,
        })
    }
}
