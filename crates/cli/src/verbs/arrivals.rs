//! Options for the arrivals of a workload, shared by the verbs that send its requests.

use clap::Args;
use seeklab_lab::crates::core::Ratio;
use seeklab_lab::crates::workloads::replay::{ArrivalMode, FollowWindow, Population};

/// Options for the arrivals of a workload. At most one is given.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ArrivalFlags {
    /// Send requests at the arrival times of the trace or process [default: on, unless the workload defines other
    /// arrivals]
    #[arg(long, group = "arrivals")]
    open: bool,
    /// Keep N requests outstanding. `auto`: the mean number outstanding in the trace
    #[arg(long, value_name = "N", group = "arrivals", value_parser = parse_closed)]
    closed: Option<Population>,
    /// Send requests as with --open, with the interarrival times divided by F
    #[arg(long, value_name = "F", group = "arrivals", value_parser = parse_scaled)]
    scaled: Option<Ratio>,
    /// Send one request at a time, with the trace's think time from each completion to the next arrival
    #[arg(long, group = "arrivals")]
    think: bool,
    /// A request that followed a completion in the trace follows it in the run. Needs completion times. TIME: the longest
    /// time from a completion to the request that had waited for it [default: inferred from the trace]. `idle`: no request
    /// had waited for a completion, only for an idle device
    #[arg(
        long,
        value_name = "TIME|idle",
        group = "arrivals",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = parse_follow
    )]
    follow: Option<FollowWindow>,
}

impl ArrivalFlags {
    /// The arrivals that were chosen, if any.
    pub(crate) const fn mode(self) -> Option<ArrivalMode> {
        match (self.closed, self.scaled, self.follow) {
            (Some(population), ..) => Some(ArrivalMode::Closed(population)),
            (_, Some(factor), _) => Some(ArrivalMode::Scaled(factor)),
            (.., Some(window)) => Some(ArrivalMode::Follow(window)),
            _ if self.open => Some(ArrivalMode::Open),
            _ if self.think => Some(ArrivalMode::Think),
            _ => None,
        }
    }
}

/// Parses a number of requests to keep outstanding.
pub(crate) fn parse_closed(text: &str) -> Result<Population, String> {
    text.parse().map_err(|_| "a population is 1 to 1000000, or `auto`".to_owned())
}

/// Parses a factor of arrival rates.
pub(crate) fn parse_scaled(text: &str) -> Result<Ratio, String> {
    match text.parse() {
        Ok(factor) if factor > Ratio::ZERO => Ok(factor),
        Ok(_) => Err("a factor is above 0".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

/// Parses the longest time from a completion to a request that had waited for it.
fn parse_follow(text: &str) -> Result<FollowWindow, String> {
    if text.is_empty() {
        return Ok(FollowWindow::Inferred);
    }
    text.parse().map_err(|error| format!("{error}"))
}
