//! Options for the accuracy of emulation, shared by all verbs that emulate a device.

use clap::{Args, ValueEnum};
use seeklab_lab::crates::analysis::points::DEADLINE_LIMIT;
use seeklab_lab::crates::core::Duration;
use seeklab_lab::crates::emulator::clock::Pacing;
use seeklab_lab::crates::emulator::pacer::Mode;
use seeklab_lab::emulate::PaceOptions;

/// Options for the accuracy of emulation.
#[derive(Debug, Args)]
pub(crate) struct PaceFlags {
    /// Trade processor time for accuracy
    #[arg(long, value_enum, default_value = "balanced")]
    pacing: PacingName,
    /// Method to run the model against the wall clock
    #[arg(long, value_enum, default_value = "rollback")]
    mode: ModeName,
    /// Time that a synchronous model runs ahead of the wall clock, for example 20us [default: the calibrated
    /// lookahead]
    #[arg(long, value_name = "TIME")]
    lookahead: Option<Duration>,
    /// Lateness above which a reply counts as a missed deadline
    #[arg(long, value_name = "TIME", default_value_t = DEADLINE_LIMIT)]
    deadline_limit: Duration,
    /// Ignore the saved calibration
    #[arg(long)]
    uncalibrated: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PacingName {
    /// Spin for a long time before each deadline and, if permitted, keep idle processors awake
    Exact,
    /// Spin for a short time before each deadline
    Balanced,
    /// Never spin. Replies are as late as the kernel's wake-ups
    Frugal,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeName {
    /// Fix each completion time when the request arrives
    RunToCompletion,
    /// Predict completion times, and recompute them if a request arrives earlier
    Rollback,
    /// Let the model's clock follow the wall clock
    Synchronous,
}

impl PaceFlags {
    /// Returns the options that were given.
    pub(crate) fn options(&self) -> PaceOptions {
        PaceOptions {
            pacing: self.pacing(),
            mode: self.mode(),
            lookahead: self.lookahead,
            deadline_limit: self.deadline_limit,
            is_calibrated: !self.uncalibrated,
        }
    }

    const fn pacing(&self) -> Pacing {
        match self.pacing {
            PacingName::Exact => Pacing::Exact,
            PacingName::Balanced => Pacing::Balanced,
            PacingName::Frugal => Pacing::Frugal,
        }
    }

    const fn mode(&self) -> Mode {
        match self.mode {
            ModeName::RunToCompletion => Mode::RunToCompletion,
            ModeName::Rollback => Mode::Rollback,
            ModeName::Synchronous => Mode::Synchronous,
        }
    }
}
