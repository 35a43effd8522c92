//! Options for the arrivals of a workload, shared by the verbs that send its requests.

use clap::Args;
use seeklab_lab::crates::core::Ratio;
use seeklab_lab::crates::workloads::replay::{ArrivalMode, Population};

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
    /// A request that followed a completion in the trace follows it in the run. Needs completion times
    #[arg(long, group = "arrivals")]
    follow: bool,
}

impl ArrivalFlags {
    /// The arrivals that were chosen, if any.
    pub(crate) const fn mode(self) -> Option<ArrivalMode> {
        match (self.closed, self.scaled) {
            (Some(population), _) => Some(ArrivalMode::Closed(population)),
            (_, Some(factor)) => Some(ArrivalMode::Scaled(factor)),
            _ if self.open => Some(ArrivalMode::Open),
            _ if self.think => Some(ArrivalMode::Think),
            _ if self.follow => Some(ArrivalMode::Follow),
            _ => None,
        }
    }
}

/// Parses a number of requests to keep outstanding.
pub(crate) fn parse_closed(text: &str) -> Result<Population, String> {
    text.parse().map_err(|_| "a population is 1 or more, or `auto`".to_owned())
}

/// Parses a factor of arrival rates.
pub(crate) fn parse_scaled(text: &str) -> Result<Ratio, String> {
    match text.parse() {
        Ok(factor) if factor > Ratio::ZERO => Ok(factor),
        Ok(_) => Err("a factor is above 0".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}
