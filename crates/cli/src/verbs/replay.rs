//! Options for a workload that is a trace, shared by the verbs that take one.

use std::convert::Infallible;

use clap::Args;
use clap_complete::ArgValueCompleter;
use seeklab_lab::crates::core::{ByteSize, Duration};
use seeklab_lab::crates::traces::Setting;
use seeklab_lab::crates::workloads::replay::Beyond;
use seeklab_lab::trace::STANDARD_INPUT;
use seeklab_lab::workload::{ReplayPart, WorkloadOptions};

use super::reading::TimesFromName;

use crate::completion;

/// Options for a workload that is a trace.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReplayFlags {
    /// Treatment of requests of a trace beyond the end of the device: error, wrap, scale or drop [default: error]
    #[arg(long, value_name = "WHAT", value_parser = parse_beyond)]
    beyond: Option<Beyond>,
    /// Format of the trace [default: guessed]
    #[arg(long, value_name = "FORMAT", add = ArgValueCompleter::new(completion::format))]
    format: Option<String>,
    /// Block size of a trace that does not record its own [default: 512B]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<ByteSize>,
    /// Set an option of the format of the trace. `seeklab trace formats` lists the options
    #[arg(long, value_name = "NAME=VALUE")]
    format_option: Vec<Setting>,
}

/// Options for the part of a trace that is simulated.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct PartFlags {
    /// Replay the requests of this device of the trace [default: all]
    #[arg(long, value_name = "N")]
    replay_device: Option<u16>,
    /// Replay the requests that arrive at this time of the trace or later [default: all]
    #[arg(long, value_name = "TIME")]
    replay_from: Option<Duration>,
    /// Replay only the requests that `seeklab fit` takes: those with a completion time that the recorder did not make itself
    #[arg(long)]
    fitted_requests: bool,
    /// Arrival of the requests: at the host's queue, or at the driver [default: arrival]
    #[arg(long, value_name = "WHEN")]
    times_from: Option<TimesFromName>,
}

impl PartFlags {
    /// The part for the laboratory.
    pub(crate) fn part(self) -> ReplayPart {
        ReplayPart {
            device: self.replay_device,
            from: self.replay_from,
            fitted_requests: self.fitted_requests,
            at_issue: matches!(self.times_from, Some(TimesFromName::Issue)),
        }
    }
}

impl ReplayFlags {
    /// Returns true if one of them is given.
    pub(crate) const fn is_given(&self) -> bool {
        self.beyond.is_some()
            || self.format.is_some()
            || self.block_size.is_some()
            || !self.format_option.is_empty()
    }

    /// Options for the laboratory, the others at their defaults.
    pub(crate) fn options(&self) -> WorkloadOptions {
        WorkloadOptions {
            beyond: self.beyond,
            format: self.format.clone(),
            block_size: self.block_size,
            settings: self.format_option.clone(),
            ..WorkloadOptions::default()
        }
    }
}

fn parse_beyond(text: &str) -> Result<Beyond, String> {
    match text {
        "error" => Ok(Beyond::Error),
        "wrap" => Ok(Beyond::Wrap),
        "scale" => Ok(Beyond::Scale),
        "drop" => Ok(Beyond::Drop),
        _ => Err("error, wrap, scale and drop are allowed".to_owned()),
    }
}

/// Parses a workload. `-` is standard input.
pub(crate) fn parse_workload(text: &str) -> Result<String, Infallible> {
    Ok(if text == "-" { STANDARD_INPUT } else { text }.to_owned())
}
