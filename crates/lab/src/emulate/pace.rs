//! Accuracy of an emulated device.

use seeklab_analysis::points::DEADLINE_LIMIT;
use seeklab_core::Duration;
use seeklab_emulator::clock::Pacing;
use seeklab_emulator::pacer::Mode;

use seeklab_traces::Metadata;

use super::Calibrated;
use crate::points::{FLOOR, LIMIT};

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
