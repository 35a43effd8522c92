//! The description of a replay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ArrivalMode, Beyond, FollowWindow, Mode, Population, Settings, Survey};
use seeklab_core::{DescriptionError, Duration, Instant, Mistake};

/// A replay, as it is described.
///
/// ```toml
/// kind = "replay"
/// trace = "server.csv"    # which file, for whoever opens it; optional
/// arrivals = "open"       # the default; or "scaled 2", "closed 8", "closed auto", "think", "follow"
/// beyond = "error"        # requests beyond the end of the device: error, wrap, scale, drop
/// requests = 100000       # at most so many; all if absent
/// device = 3              # the requests of one device of the trace; all if absent
/// from = "3.5s"           # the requests that arrive then or later; all if absent
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaySpec {
    /// File of the trace, beside the description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Rule by which requests arrive.
    #[serde(default)]
    pub arrivals: ArrivalMode,
    /// Treatment of requests beyond the end of the device.
    #[serde(default)]
    pub beyond: Beyond,
    /// Maximum number of requests [default: all].
    #[schemars(extend("x-unit" = "requests"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Number of the device of the trace whose requests are replayed [default: all].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u16>,
    /// Time in the trace at which the replay begins; requests that arrive before are left out [default: all].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Duration>,
}

impl ReplaySpec {
    /// Returns true if [`settings`](Self::settings) needs a survey of the trace.
    pub fn needs_survey(&self) -> bool {
        let inferred = ArrivalMode::Follow(FollowWindow::Inferred);
        matches!(self.arrivals, ArrivalMode::Closed(Population::Auto))
            || self.arrivals == inferred
            || self.beyond == Beyond::Scale
    }

    /// The settings of a replay on a device with that many blocks.
    ///
    /// # Errors
    /// [`DescriptionError`], if a survey is needed and not given, or it does not hold what is needed.
    pub fn settings(
        &self,
        capacity_blocks: u64,
        survey: Option<&Survey>,
    ) -> Result<Settings, DescriptionError> {
        let not_surveyed = |at: &str| {
            DescriptionError::new(Mistake::NotSupplied, at, "needs a survey of the trace beforehand")
                .hint("a trace that can be read only once cannot be surveyed; save it to a file")
        };
        let surveyed = || survey.ok_or_else(|| not_surveyed("arrivals"));
        let mode = match self.arrivals {
            ArrivalMode::Open => Mode::Open,
            ArrivalMode::Think => Mode::Think,
            ArrivalMode::Scaled(factor) => Mode::Scaled { factor },
            ArrivalMode::Closed(Population::Count(population)) => Mode::Closed { population },
            ArrivalMode::Closed(Population::Auto) => Mode::Closed { population: surveyed()?.population()? },
            ArrivalMode::Follow(FollowWindow::Within(within)) => Mode::Follow { within: Some(within) },
            ArrivalMode::Follow(FollowWindow::Idle) => Mode::Follow { within: None },
            ArrivalMode::Follow(FollowWindow::Inferred) => surveyed()?.following()?,
        };
        let address_range_blocks = match (self.beyond, survey) {
            (Beyond::Scale, None) => return Err(not_surveyed("beyond")),
            (_, Some(survey)) => survey.address_range_blocks(),
            (_, None) => 0,
        };
        Ok(Settings {
            mode,
            beyond: self.beyond,
            capacity_blocks,
            address_range_blocks,
            requests: self.requests,
            device: self.device,
            from: self.from.map_or(Instant::ZERO, |from| Instant::ZERO + from),
            devices: None,
        })
    }
}
