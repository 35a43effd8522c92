//! The flags that say how exactly a device is emulated, the same for every verb that emulates one.

use clap::{Args, ValueEnum};
use seeklab_analysis::points::DEADLINE_LIMIT;
use seeklab_core::Duration;
use seeklab_emulator::calibration::FrontendKind;
use seeklab_emulator::clock::Pacing;
use seeklab_emulator::pacer::Mode;
use seeklab_lab::emulate::{Calibrated, Pace};
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

/// How exactly a device is emulated.
#[derive(Debug, Args)]
pub(crate) struct PaceFlags {
    /// How much processor time exactness may cost
    #[arg(long, value_enum, default_value = "balanced")]
    pacing: PacingName,
    /// How the model is run against the wall clock
    #[arg(long, value_enum, default_value = "rollback")]
    mode: ModeName,
    /// How far ahead of the wall clock a synchronous model runs, such as 20us; as calibrated unless said
    #[arg(long, value_name = "TIME")]
    lookahead: Option<Duration>,
    /// How late a reply may leave before its deadline counts as missed
    #[arg(long, value_name = "TIME", default_value_t = DEADLINE_LIMIT)]
    deadline_limit: Duration,
    /// Compensate for nothing, whatever `seeklab calibrate` found
    #[arg(long)]
    uncalibrated: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PacingName {
    /// Spin for long before each deadline, and keep idle processors awake where that may be asked for
    Exact,
    /// Spin shortly before each deadline
    Balanced,
    /// Never spin: as late as the kernel wakes
    Frugal,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeName {
    /// Each answer is fixed when the request arrives
    RunToCompletion,
    /// Answers are speculated and recomputed when a request arrives before them
    Rollback,
    /// The model's clock follows the wall clock
    Synchronous,
}

impl PaceFlags {
    /// How exactly a device is emulated that clients reach by that door.
    ///
    /// # Errors
    /// If the flags contradict each other, or the door cannot be served here.
    pub(crate) fn pace(&self, session: &Session, kind: FrontendKind) -> Result<Pace, Failure> {
        let (pacing, mode) = (self.pacing(), self.mode());
        if self.lookahead.is_some() && mode != Mode::Synchronous {
            return Err(Failure::new("--lookahead: is how far ahead a synchronous model runs")
                .hint("add `--mode synchronous`, or leave it out: the other modes know every answer ahead"));
        }
        let calibrated =
            if self.uncalibrated { Calibrated::default() } else { Calibrated::load(session, kind, pacing)? };
        Ok(Pace { pacing, mode, lookahead: self.lookahead, deadline_limit: self.deadline_limit, calibrated })
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
