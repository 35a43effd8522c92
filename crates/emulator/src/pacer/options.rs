//! How a pacer works.

use serde::{Deserialize, Serialize};

use super::Compensation;

/// How the model is run against the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Each answer is fixed when the request arrives.
    RunToCompletion,
    /// Answers are speculated and recomputed when a request arrives before them.
    #[default]
    Rollback,
    /// The model's clock follows the wall clock, ahead by the lookahead.
    Synchronous,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::RunToCompletion, Self::Rollback, Self::Synchronous];
}

/// How a pacer works.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// How the model is run.
    pub mode: Mode,
    /// What is done against the errors of arrival and completion.
    pub compensation: Compensation,
    /// Whether to keep the arrivals as handed to the model.
    pub record_arrivals: bool,
    /// Whether a second instance of the model runs behind, unclamped.
    pub run_behind: bool,
}
