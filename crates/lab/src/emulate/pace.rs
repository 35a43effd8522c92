//! Accuracy of an emulated device.

use seeklab_analysis::points::DEADLINE_LIMIT;
use seeklab_core::Duration;
use seeklab_emulator::calibration::FrontendKind;
use seeklab_emulator::clock::Pacing;
use seeklab_emulator::pacer::Mode;
use seeklab_traces::Metadata;

use super::Calibrated;
use crate::failure::Failure;
use crate::points::{FLOOR, LIMIT};
use crate::session::Session;

/// Options for the accuracy of an emulated device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaceOptions {
    /// Trade-off between processor time and accuracy.
    pub pacing: Pacing,
    /// Mode in which the model runs against the wall clock.
    pub mode: Mode,
    /// Lead of a synchronous model [default: the calibrated lookahead].
    pub lookahead: Option<Duration>,
    /// Lateness beyond which a deadline counts as missed.
    pub deadline_limit: Duration,
    /// Compensate with the saved calibration of this machine.
    pub is_calibrated: bool,
}

impl Default for PaceOptions {
    /// Balanced, with rollback, and compensated with the saved calibration.
    fn default() -> Self {
        Self {
            pacing: Pacing::Balanced,
            mode: Mode::default(),
            lookahead: None,
            deadline_limit: DEADLINE_LIMIT,
            is_calibrated: true,
        }
    }
}

impl PaceOptions {
    /// Loads the calibration for the frontend `kind`.
    ///
    /// # Errors
    /// If the options contradict each other, or the frontend cannot be served on this machine.
    pub fn load(&self, session: &Session, kind: FrontendKind) -> Result<Pace, Failure> {
        let Self { pacing, mode, lookahead, deadline_limit, is_calibrated } = *self;
        if lookahead.is_some() && mode != Mode::Synchronous {
            return Err(Failure::new("--lookahead: only a synchronous model runs ahead of the wall clock")
                .hint(
                    "add `--mode synchronous`, or leave it out: the other modes compute every answer ahead",
                ));
        }
        let calibrated =
            if is_calibrated { Calibrated::load(session, kind, pacing)? } else { Calibrated::default() };
        Ok(Pace { pacing, mode, lookahead, deadline_limit, calibrated })
    }
}

/// Accuracy of an emulated device.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Trade-off between processor time and accuracy.
    pub pacing: Pacing,
    /// Mode in which the model runs against the wall clock.
    pub mode: Mode,
    /// Lead of a synchronous model. `None`: as calibrated.
    pub lookahead: Option<Duration>,
    /// Lateness beyond which a deadline counts as missed.
    pub deadline_limit: Duration,
    /// Calibration of this machine, for compensation.
    pub calibrated: Calibrated,
}

impl Pace {
    /// Records the criteria for judging the requests in the metadata of a trace.
    pub fn describe(&self, metadata: &mut Metadata) {
        metadata.clock = Some("emulated".to_owned());
        metadata.other.insert(LIMIT.to_owned(), self.deadline_limit.to_string());
        if let Some(floor) = self.calibrated.floor() {
            metadata.other.insert(FLOOR.to_owned(), floor.to_string());
        }
    }
}

impl Default for Pace {
    /// Balanced, with rollback, and nothing compensated for.
    fn default() -> Self {
        Self {
            pacing: Pacing::Balanced,
            mode: Mode::default(),
            lookahead: None,
            deadline_limit: DEADLINE_LIMIT,
            calibrated: Calibrated::default(),
        }
    }
}
