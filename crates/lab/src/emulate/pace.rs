//! How exactly a device is emulated.

use seeklab_analysis::points::DEADLINE_LIMIT;
use seeklab_core::Duration;
use seeklab_emulator::clock::Pacing;
use seeklab_emulator::pacer::Mode;

use seeklab_traces::Metadata;

use super::Calibrated;
use crate::points::{FLOOR, LIMIT};

/// How exactly a device is emulated.
#[derive(Debug, Clone)]
pub struct Pace {
    /// How much processor time exactness may cost.
    pub pacing: Pacing,
    /// How the model is run against the wall clock.
    pub mode: Mode,
    /// How far ahead a synchronous model runs; as calibrated if `None`.
    pub lookahead: Option<Duration>,
    /// How late a reply may leave before its deadline counts as missed.
    pub deadline_limit: Duration,
    /// What this machine adds to requests, to be compensated for.
    pub calibrated: Calibrated,
}

impl Pace {
    /// Says in the metadata of a trace what its requests are judged by.
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
