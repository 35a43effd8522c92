//! The drive's electronics: command overheads, buffer and bus around the mechanism.
//!
//! One file for each architecture of controller; each serves one command at a time in closed form.
//! Background work (read-ahead, destaging) has no events: it is a function of time that a controller
//! brings up to date when the next command begins.
//!
//! | controller | buffer | drives |
//! | --- | --- | --- |
//! | `direct` | none | the mechanics alone |
//! | `segmented` | segments of contiguous blocks, read-ahead, write-through or write-back | most |
//! | `track_buffer` | whole tracks, write-back | Quantum Atlas 10K |
//! | `streaming` | one read stream and recent writes, write-back | Seagate, late 1990s |

mod account;
mod direct;
pub mod segmented;

use seeklab_core::{Breakdown, BufferOutcome, Instant, Operation, Request};
use serde::{Deserialize, Serialize};

use super::mechanism::{Arm, Mechanism};
use super::params::DiskParameters;
use crate::error::ParameterError;

pub(super) use account::Account;
use direct::Direct;
pub use direct::DirectParameters;
use segmented::Segmented;
pub use segmented::SegmentedParameters;

/// Which electronics a drive has, with their parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "controller", rename_all = "snake_case")]
pub enum ElectronicsParameters {
    /// No buffer; a constant overhead before each command.
    Direct(DirectParameters),
    /// Segments of contiguous blocks.
    Segmented(Box<SegmentedParameters>),
}

impl Default for ElectronicsParameters {
    fn default() -> Self {
        Self::Direct(DirectParameters::default())
    }
}

impl ElectronicsParameters {
    /// Whether completed writes can be lost before a flush.
    pub fn volatile_write_cache(&self) -> bool {
        match self {
            Self::Direct(_) => false,
            Self::Segmented(parameters) => parameters.write_back(),
        }
    }
}

/// What serving one command came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    /// When the command is complete.
    pub(super) completed: Instant,
    /// When the next command may begin.
    pub(super) free: Instant,
    /// Where the service time went; its queue time is zero.
    pub(super) breakdown: Breakdown,
    /// What the buffer did.
    pub(super) buffer: BufferOutcome,
    /// Cylinders to the first track accessed.
    pub(super) seek_cylinders: u32,
}

/// One architecture of controller.
trait Controller {
    /// Serves `request`, which begins at `now`, not before the last command let it.
    fn serve(&mut self, mechanism: &Mechanism, now: Instant, request: &Request) -> Served;

    /// When the arm would begin to move for a command that begins at `now` and misses the buffer.
    fn arm_moves_at(&self, now: Instant, op: Operation) -> Instant;

    /// Where the heads are, or will be when the work at hand is done.
    fn arm(&self) -> Arm;

    /// Whether the buffer holds the first block of `request`, or would answer it as a write.
    fn holds(&self, mechanism: &Mechanism, request: &Request) -> bool;
}

/// The electronics of one drive, with their state.
#[derive(Debug, Clone)]
pub(super) enum Electronics {
    Direct(Direct),
    Segmented(Box<Segmented>),
}

impl Electronics {
    pub(super) fn new(parameters: &DiskParameters) -> Result<Self, ParameterError> {
        let mechanics = &parameters.mechanics;
        match &parameters.electronics {
            ElectronicsParameters::Direct(direct) => Ok(Self::Direct(Direct::new(direct, mechanics))),
            ElectronicsParameters::Segmented(segmented) => {
                Ok(Self::Segmented(Box::new(Segmented::new(segmented, mechanics)?)))
            }
        }
    }

    fn controller(&self) -> &dyn Controller {
        match self {
            Self::Direct(controller) => controller,
            Self::Segmented(controller) => &**controller,
        }
    }

    pub(super) fn serve(&mut self, mechanism: &Mechanism, now: Instant, request: &Request) -> Served {
        match self {
            Self::Direct(controller) => controller.serve(mechanism, now, request),
            Self::Segmented(controller) => controller.serve(mechanism, now, request),
        }
    }

    pub(super) fn arm_moves_at(&self, now: Instant, op: Operation) -> Instant {
        self.controller().arm_moves_at(now, op)
    }

    pub(super) fn arm(&self) -> Arm {
        self.controller().arm()
    }

    pub(super) fn holds(&self, mechanism: &Mechanism, request: &Request) -> bool {
        self.controller().holds(mechanism, request)
    }
}
