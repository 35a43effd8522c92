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
pub mod streaming;
mod track_buffer;

use schemars::JsonSchema;
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
use streaming::Streaming;
pub use streaming::StreamingParameters;
use track_buffer::TrackBuffer;
pub use track_buffer::TrackBufferParameters;

/// Which electronics a drive has, with their parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "controller", rename_all = "snake_case")]
pub enum ElectronicsParameters {
    /// No buffer; a constant overhead before each command.
    Direct(DirectParameters),
    /// Segments of contiguous blocks.
    Segmented(Box<SegmentedParameters>),
    /// One read stream and recent writes.
    Streaming(Box<StreamingParameters>),
    /// Whole tracks.
    TrackBuffer(Box<TrackBufferParameters>),
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
            Self::Streaming(_) | Self::TrackBuffer(_) => true,
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
#[derive(Debug)]
pub(super) enum Electronics {
    Direct(Direct),
    Segmented(Box<Segmented>),
    Streaming(Box<Streaming>),
    TrackBuffer(Box<TrackBuffer>),
}

impl Clone for Electronics {
    fn clone(&self) -> Self {
        match self {
            Self::Direct(controller) => Self::Direct(controller.clone()),
            Self::Segmented(controller) => Self::Segmented(controller.clone()),
            Self::Streaming(controller) => Self::Streaming(controller.clone()),
            Self::TrackBuffer(controller) => Self::TrackBuffer(controller.clone()),
        }
    }

    fn clone_from(&mut self, source: &Self) {
        match (self, source) {
            (Self::Direct(target), Self::Direct(source)) => target.clone_from(source),
            (Self::Segmented(target), Self::Segmented(source)) => target.clone_from(source),
            (Self::Streaming(target), Self::Streaming(source)) => target.clone_from(source),
            (Self::TrackBuffer(target), Self::TrackBuffer(source)) => target.clone_from(source),
            (target, source) => *target = source.clone(),
        }
    }
}

impl Electronics {
    pub(super) fn new(parameters: &DiskParameters) -> Result<Self, ParameterError> {
        let mechanics = &parameters.mechanics;
        match &parameters.electronics {
            ElectronicsParameters::Direct(direct) => Ok(Self::Direct(Direct::new(direct, mechanics))),
            ElectronicsParameters::Segmented(segmented) => {
                Ok(Self::Segmented(Box::new(Segmented::new(segmented, mechanics)?)))
            }
            ElectronicsParameters::Streaming(streaming) => {
                Ok(Self::Streaming(Box::new(Streaming::new(streaming, mechanics)?)))
            }
            ElectronicsParameters::TrackBuffer(track_buffer) => {
                Ok(Self::TrackBuffer(Box::new(TrackBuffer::new(track_buffer, parameters)?)))
            }
        }
    }

    fn controller(&self) -> &dyn Controller {
        match self {
            Self::Direct(controller) => controller,
            Self::Segmented(controller) => &**controller,
            Self::Streaming(controller) => &**controller,
            Self::TrackBuffer(controller) => &**controller,
        }
    }

    pub(super) fn serve(&mut self, mechanism: &Mechanism, now: Instant, request: &Request) -> Served {
        match self {
            Self::Direct(controller) => controller.serve(mechanism, now, request),
            Self::Segmented(controller) => controller.serve(mechanism, now, request),
            Self::Streaming(controller) => controller.serve(mechanism, now, request),
            Self::TrackBuffer(controller) => controller.serve(mechanism, now, request),
        }
    }

    pub(super) fn arm_moves_at(&self, now: Instant, op: Operation) -> Instant {
        match self {
            Self::Direct(controller) => controller.arm_moves_at(now, op),
            _ => self.controller().arm_moves_at(now, op),
        }
    }

    pub(super) fn arm(&self) -> Arm {
        match self {
            Self::Direct(controller) => controller.arm(),
            _ => self.controller().arm(),
        }
    }

    pub(super) fn holds(&self, mechanism: &Mechanism, request: &Request) -> bool {
        self.controller().holds(mechanism, request)
    }
}
