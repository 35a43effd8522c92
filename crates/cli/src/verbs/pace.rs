//! The flags that say how exactly a device is emulated, the same for every verb that emulates one.

use clap::{Args, ValueEnum};
use seeklab::emulate::Calibrated;
use seeklab::failure::Failure;
use seeklab_emulator::calibration::FrontendKind;
use seeklab_emulator::clock::Pacing;
use seeklab_emulator::pacer::Mode;

/// How exactly a device is emulated.
#[derive(Debug, Args)]
pub(crate) struct PaceFlags {
    /// How much processor time exactness may cost
    #[arg(long, value_enum, default_value = "balanced")]
    pacing: PacingName,
    /// How the model is run against the wall clock
    #[arg(long, value_enum, default_value = "rollback")]
    mode: ModeName,
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
    /// What this machine adds by that door.
    pub(crate) fn calibrated(&self, kind: FrontendKind) -> Result<Calibrated, Failure> {
        if self.uncalibrated { Ok(Calibrated::default()) } else { Calibrated::load(kind, self.pacing()) }
    }

    pub(crate) const fn pacing(&self) -> Pacing {
        match self.pacing {
            PacingName::Exact => Pacing::Exact,
            PacingName::Balanced => Pacing::Balanced,
            PacingName::Frugal => Pacing::Frugal,
        }
    }

    pub(crate) const fn mode(&self) -> Mode {
        match self.mode {
            ModeName::RunToCompletion => Mode::RunToCompletion,
            ModeName::Rollback => Mode::Rollback,
            ModeName::Synchronous => Mode::Synchronous,
        }
    }
}
