//! Description of the arrivals of a synthetic workload.
//!
//! ```toml
//! arrivals = { process = "poisson", rate = "100/s" }            # or interarrival = "10ms"
//! arrivals = { process = "constant", interarrival = "10ms" }    # or rate
//! arrivals = { process = "bursty", burst = 20, within = "1ms", gap = "500ms" }
//! arrivals = { process = "shaped" }                             # the caller supplies interarrival times
//! arrivals = { process = "closed", population = 8, think = "10ms", think_distribution = "exponential" }
//! ```
//! The first four are open: arrivals ignore completions. The first request arrives one
//! interarrival time after the start.
//!
//! **Bursty**: bursts of `burst` requests on average (`burst_distribution` is `geometric`, or `constant` for
//! exactly that number), `within` from one to the next in a burst, `gap` from the last of a burst to the
//! first of the next; both are means (`distribution` is `exponential`, or `constant`). The mean rate is
//! `burst / (gap + (burst - 1) × within)`.
//! **Shaped**: the interarrival times of a list, in order, and again from its start.
//! **Closed**: `population` members. Each issues a request at the start, and its next one when the previous
//! one is complete and `think` has passed (`think_distribution` is `constant`, or `exponential` with that
//! mean).

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use seeklab_core::Duration;
use serde::{Deserialize, Serialize};

use crate::rate::Rate;

/// Arrival process of a synthetic workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ArrivalForm", into = "ArrivalForm")]
pub enum ArrivalSpec {
    /// Independent arrivals: exponential interarrival times.
    Poisson(Pace),
    /// Equal interarrival times.
    Constant(Pace),
    /// Bursts with gaps between them.
    Bursty {
        /// Mean number of requests in a burst, at least one.
        burst: f64,
        /// Distribution of the number of requests in a burst.
        burst_distribution: BurstDistribution,
        /// Mean time from one arrival to the next in a burst.
        within: Duration,
        /// Mean time from the last arrival of a burst to the first of the next.
        gap: Duration,
        /// Distribution of `within` and `gap`.
        distribution: TimeDistribution,
    },
    /// Interarrival times that the caller supplies.
    Shaped,
    /// A constant population, each with one request or thinking.
    Closed {
        /// Number of members, at least one.
        population: u32,
        /// Mean time from a completion to the next request of the same member.
        think: Duration,
        /// Distribution of the think time.
        think_distribution: TimeDistribution,
    },
}

impl ArrivalSpec {
    /// Mean rate of the arrivals per second; `None` of closed ones and of those that the caller supplies.
    pub fn rate_per_s(&self) -> Option<f64> {
        match self {
            Self::Poisson(pace) | Self::Constant(pace) => Some(1e9 / pace.interarrival_ns()),
            Self::Bursty { burst, within, gap, .. } => {
                Some(burst / (gap.as_s() + (burst - 1.0) * within.as_s()))
            }
            Self::Shaped | Self::Closed { .. } => None,
        }
    }

    /// The same process at another mean rate: all its times change by one factor. `None` as for
    /// [`rate_per_s`](Self::rate_per_s), and of a rate outside [`Rate::MIN`] to [`Rate::MAX`].
    #[must_use]
    pub fn with_rate(&self, per_s: f64) -> Option<Self> {
        let pace = Rate::from_per_s(per_s).map(Pace::Rate)?;
        let factor = self.rate_per_s()? / per_s;
        let stretched = |time: &Duration| Duration::from_ns_f64(time.as_ns() as f64 * factor);
        Some(match self {
            Self::Poisson(_) => Self::Poisson(pace),
            Self::Constant(_) => Self::Constant(pace),
            Self::Bursty { burst, burst_distribution, within, gap, distribution } => Self::Bursty {
                burst: *burst,
                burst_distribution: *burst_distribution,
                within: stretched(within),
                gap: stretched(gap),
                distribution: *distribution,
            },
            Self::Shaped | Self::Closed { .. } => return None,
        })
    }
}

/// The mean pace of arrivals, as it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Arrivals per time.
    Rate(Rate),
    /// Mean time from arrival to arrival, above zero.
    Interarrival(Duration),
}

impl Pace {
    /// The mean interarrival time in nanoseconds, unrounded.
    pub(super) fn interarrival_ns(self) -> f64 {
        match self {
            Self::Rate(rate) => rate.interval_ns(),
            Self::Interarrival(time) => time.as_ns() as f64,
        }
    }
}

/// Variation of a time around its mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeDistribution {
    /// Not at all.
    Constant,
    /// Exponentially.
    Exponential,
}

/// Variation of the length of a burst around its mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BurstDistribution {
    /// Not at all; the mean is a whole number.
    Constant,
    /// Geometrically, on 1, 2, 3, and so on.
    Geometric,
}

/// Arrival process of a synthetic workload.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "process",
    rename_all = "snake_case",
    deny_unknown_fields,
    expecting = "a table with a process, for example { process = \"poisson\", rate = \"100/s\" }"
)]
enum ArrivalForm {
    Poisson {
        /// Mean rate of arrivals. Either `rate` or `interarrival` is required.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<Rate>,
        /// Mean time from one arrival to the next, above 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interarrival: Option<Duration>,
    },
    Constant {
        /// Rate of arrivals. Either `rate` or `interarrival` is required.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<Rate>,
        /// Time from one arrival to the next, above 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interarrival: Option<Duration>,
    },
    Bursty {
        /// Mean number of requests in a burst. A whole number if `burst_distribution` is `constant`.
        #[schemars(range(min = 1.0, max = 1e9), extend("x-unit" = "requests"))]
        burst: f64,
        /// Distribution of the number of requests in a burst.
        #[serde(default = "geometric")]
        burst_distribution: BurstDistribution,
        /// Mean time from one arrival to the next in a burst.
        within: Duration,
        /// Mean time from the last arrival of a burst to the first of the next.
        gap: Duration,
        /// Distribution of `within` and `gap`.
        #[serde(default = "exponential")]
        distribution: TimeDistribution,
    },
    Shaped {},
    Closed {
        /// Members of the population. Each has one request outstanding, or thinks.
        #[schemars(range(min = 1, max = 1_000_000), extend("x-unit" = "members"))]
        population: u32,
        /// Mean time from a completion to the next request of the same member.
        #[serde(default)]
        think: Duration,
        /// Distribution of the think time.
        #[serde(default = "constant")]
        think_distribution: TimeDistribution,
    },
}

const fn geometric() -> BurstDistribution {
    BurstDistribution::Geometric
}

const fn exponential() -> TimeDistribution {
    TimeDistribution::Exponential
}

const fn constant() -> TimeDistribution {
    TimeDistribution::Constant
}

/// The pace of a process, of which one form is given.
fn pace(process: &str, rate: Option<Rate>, interarrival: Option<Duration>) -> Result<Pace, String> {
    match (rate, interarrival) {
        (Some(rate), None) => Ok(Pace::Rate(rate)),
        (None, Some(time)) if !time.is_zero() => Ok(Pace::Interarrival(time)),
        (None, Some(_)) => Err("an interarrival time of 0 (hint: write more than 0)".to_owned()),
        (Some(_), Some(_)) => {
            Err("`rate` and `interarrival` both set the pace (hint: keep one of them)".to_owned())
        }
        (None, None) => Err(format!(
            "`{process}` needs a pace (hint: add `rate`, for example \"100/s\", or `interarrival`)"
        )),
    }
}

impl TryFrom<ArrivalForm> for ArrivalSpec {
    type Error = String;

    fn try_from(form: ArrivalForm) -> Result<Self, String> {
        match form {
            ArrivalForm::Poisson { rate, interarrival } => {
                pace("poisson", rate, interarrival).map(Self::Poisson)
            }
            ArrivalForm::Constant { rate, interarrival } => {
                pace("constant", rate, interarrival).map(Self::Constant)
            }
            ArrivalForm::Bursty { burst, burst_distribution, within, gap, distribution } => {
                if burst_distribution == BurstDistribution::Constant && burst.fract() != 0.0 {
                    return Err(format!(
                        "a constant `burst` of {burst} (hint: write a whole number, or let it be geometric)"
                    ));
                }
                if within.is_zero() && gap.is_zero() {
                    return Err("`within` and `gap` are both 0 (hint: time must pass somewhere)".to_owned());
                }
                Ok(Self::Bursty { burst, burst_distribution, within, gap, distribution })
            }
            ArrivalForm::Shaped {} => Ok(Self::Shaped),
            ArrivalForm::Closed { population, think, think_distribution } => {
                Ok(Self::Closed { population, think, think_distribution })
            }
        }
    }
}

impl From<ArrivalSpec> for ArrivalForm {
    fn from(spec: ArrivalSpec) -> Self {
        let forms = |pace| match pace {
            Pace::Rate(rate) => (Some(rate), None),
            Pace::Interarrival(time) => (None, Some(time)),
        };
        match spec {
            ArrivalSpec::Poisson(pace) => {
                let (rate, interarrival) = forms(pace);
                Self::Poisson { rate, interarrival }
            }
            ArrivalSpec::Constant(pace) => {
                let (rate, interarrival) = forms(pace);
                Self::Constant { rate, interarrival }
            }
            ArrivalSpec::Bursty { burst, burst_distribution, within, gap, distribution } => {
                Self::Bursty { burst, burst_distribution, within, gap, distribution }
            }
            ArrivalSpec::Shaped => Self::Shaped {},
            ArrivalSpec::Closed { population, think, think_distribution } => {
                Self::Closed { population, think, think_distribution }
            }
        }
    }
}

impl JsonSchema for ArrivalSpec {
    fn inline_schema() -> bool {
        ArrivalForm::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        ArrivalForm::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ArrivalForm::json_schema(generator)
    }
}
