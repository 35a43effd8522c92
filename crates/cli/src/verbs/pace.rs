//! The flags that say how exactly a device is emulated, the same for every verb that emulates one.

use clap::{Args, ValueEnum};
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
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PacingName {
    /// Spin for long before each deadline
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
