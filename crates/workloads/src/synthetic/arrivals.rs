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

use seeklab_core::Duration;
use serde::{Deserialize, Serialize};

use super::keys::{need, refuse};
use crate::rate::Rate;

/// Arrival process of a synthetic workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ArrivalFields", into = "ArrivalFields")]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeDistribution {
    /// Not at all.
    Constant,
    /// Exponentially.
    Exponential,
}

/// Variation of the length of a burst around its mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BurstDistribution {
    /// Not at all; the mean is a whole number.
    Constant,
    /// Geometrically, on 1, 2, 3, and so on.
    Geometric,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Process {
    Poisson,
    Constant,
    Bursty,
    Shaped,
    Closed,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table with a process, for example { process = \"poisson\", rate = \"100/s\" }"
)]
struct ArrivalFields {
    process: Process,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interarrival: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst_distribution: Option<BurstDistribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distribution: Option<TimeDistribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    population: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think_distribution: Option<TimeDistribution>,
}

impl ArrivalFields {
    const fn new(process: Process) -> Self {
        Self {
            process,
            rate: None,
            interarrival: None,
            burst: None,
            burst_distribution: None,
            within: None,
            gap: None,
            distribution: None,
            population: None,
            think: None,
            think_distribution: None,
        }
    }

    fn refuse_pace(&self, owner: &str, takes: &str) -> Result<(), String> {
        refuse(&[("rate", self.rate.is_some()), ("interarrival", self.interarrival.is_some())], owner, takes)
    }

    fn refuse_bursts(&self, owner: &str, takes: &str) -> Result<(), String> {
        let of_bursts = [
            ("burst", self.burst.is_some()),
            ("burst_distribution", self.burst_distribution.is_some()),
            ("within", self.within.is_some()),
            ("gap", self.gap.is_some()),
            ("distribution", self.distribution.is_some()),
        ];
        refuse(&of_bursts, owner, takes)
    }

    fn refuse_population(&self, owner: &str, takes: &str) -> Result<(), String> {
        let of_population = [
            ("population", self.population.is_some()),
            ("think", self.think.is_some()),
            ("think_distribution", self.think_distribution.is_some()),
        ];
        refuse(&of_population, owner, takes)
    }

    fn pace(&self, owner: &str) -> Result<Pace, String> {
        let takes = "`rate` or `interarrival`";
        self.refuse_bursts(owner, takes)?;
        self.refuse_population(owner, takes)?;
        match (self.rate, self.interarrival) {
            (Some(rate), None) => Ok(Pace::Rate(rate)),
            (None, Some(time)) if !time.is_zero() => Ok(Pace::Interarrival(time)),
            (None, Some(_)) => Err("an interarrival time of 0 (hint: write more than 0)".to_owned()),
            (Some(_), Some(_)) => {
                Err("`rate` and `interarrival` both set the pace (hint: keep one of them)".to_owned())
            }
            (None, None) => Err(format!(
                "`{owner}` needs a pace (hint: add `rate`, for example \"100/s\", or `interarrival`)"
            )),
        }
    }
}

impl TryFrom<ArrivalFields> for ArrivalSpec {
    type Error = String;

    fn try_from(fields: ArrivalFields) -> Result<Self, String> {
        match fields.process {
            Process::Poisson => fields.pace("poisson").map(Self::Poisson),
            Process::Constant => fields.pace("constant").map(Self::Constant),
            Process::Bursty => {
                let takes = "`burst`, `burst_distribution`, `within`, `gap` and `distribution`";
                fields.refuse_pace("bursty", takes)?;
                fields.refuse_population("bursty", takes)?;
                let burst = need(fields.burst, "burst", "bursty")?;
                let burst_distribution = fields.burst_distribution.unwrap_or(BurstDistribution::Geometric);
                if !(1.0..=1e9).contains(&burst) {
                    return Err(format!(
                        "`burst` is {burst} (hint: a burst has 1 to 1e9 requests on average)"
                    ));
                }
                if burst_distribution == BurstDistribution::Constant && burst.fract() != 0.0 {
                    return Err(format!(
                        "a constant `burst` of {burst} (hint: write a whole number, or let it be geometric)"
                    ));
                }
                let within = need(fields.within, "within", "bursty")?;
                let gap = need(fields.gap, "gap", "bursty")?;
                if within.is_zero() && gap.is_zero() {
                    return Err("`within` and `gap` are both 0 (hint: time must pass somewhere)".to_owned());
                }
                let distribution = fields.distribution.unwrap_or(TimeDistribution::Exponential);
                Ok(Self::Bursty { burst, burst_distribution, within, gap, distribution })
            }
            Process::Shaped => {
                let takes = "no other keys; the caller supplies the times";
                fields.refuse_pace("shaped", takes)?;
                fields.refuse_bursts("shaped", takes)?;
                fields.refuse_population("shaped", takes)?;
                Ok(Self::Shaped)
            }
            Process::Closed => {
                let takes = "`population`, `think` and `think_distribution`";
                fields.refuse_pace("closed", takes)?;
                fields.refuse_bursts("closed", takes)?;
                let population = need(fields.population, "population", "closed")?;
                if population == 0 {
                    return Err("a population of 0 (hint: at least 1 keeps the device busy)".to_owned());
                }
                let think = fields.think.unwrap_or(Duration::ZERO);
                let think_distribution = fields.think_distribution.unwrap_or(TimeDistribution::Constant);
                Ok(Self::Closed { population, think, think_distribution })
            }
        }
    }
}

impl From<ArrivalSpec> for ArrivalFields {
    fn from(spec: ArrivalSpec) -> Self {
        let paced = |process, pace| match pace {
            Pace::Rate(rate) => Self { rate: Some(rate), ..Self::new(process) },
            Pace::Interarrival(time) => Self { interarrival: Some(time), ..Self::new(process) },
        };
        match spec {
            ArrivalSpec::Poisson(pace) => paced(Process::Poisson, pace),
            ArrivalSpec::Constant(pace) => paced(Process::Constant, pace),
            ArrivalSpec::Bursty { burst, burst_distribution, within, gap, distribution } => Self {
                burst: Some(burst),
                burst_distribution: Some(burst_distribution),
                within: Some(within),
                gap: Some(gap),
                distribution: Some(distribution),
                ..Self::new(Process::Bursty)
            },
            ArrivalSpec::Shaped => Self::new(Process::Shaped),
            ArrivalSpec::Closed { population, think, think_distribution } => Self {
                population: Some(population),
                think: Some(think),
                think_distribution: Some(think_distribution),
                ..Self::new(Process::Closed)
            },
        }
    }
}
