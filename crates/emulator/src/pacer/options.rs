//! Options of a pacer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Compensation;

/// Method of running the model against the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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

/// Options of a pacer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Method of running the model.
    pub mode: Mode,
    /// Compensation for the errors of arrival and completion.
    pub compensation: Compensation,
    /// Keep the arrivals as given to the model.
    pub record_arrivals: bool,
    /// Run a second instance of the model behind, without clamping.
    pub run_behind: bool,
}
