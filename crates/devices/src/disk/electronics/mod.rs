//! The drive's electronics: command overheads, buffer and bus around the mechanism.
//!
//! One file for each architecture of controller, and one line in `controllers!`; each serves one command at a time in
//! closed form, and drives the mechanics beneath through `Mechanics`.
//! Background work (read-ahead, destaging) has no events: it is a function of time that a controller
//! brings up to date when the next command begins, and before the drive or the host chooses one by position.
//!
//! | controller | buffer | drives |
//! | --- | --- | --- |
//! | `direct` | none | the mechanics alone |
//! | `segmented` | segments of contiguous blocks, read-ahead, write-through or write-back | most |
//! | `track_buffer` | whole tracks, write-back | Quantum Atlas 10K |
//! | `streaming` | one read stream and recent writes, write-back | Seagate, late 1990s |

mod account;

use schemars::JsonSchema;
use seeklab_core::{Breakdown, BufferOutcome, Instant, Operation, Request};
use serde::{Deserialize, Serialize};

use super::mechanics::{Mechanics, Position};
use super::params::DiskParameters;
use crate::error::DescriptionError;

pub(super) use account::Account;

/// Result of serving one command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    /// Completion of the command.
    pub(crate) completed: Instant,
    /// Time from which the next command may begin.
    pub(crate) free: Instant,
    /// Breakdown of the service time. Its queue time is zero.
    pub(crate) breakdown: Breakdown,
    /// Part that the buffer had in the command.
    pub(crate) buffer: BufferOutcome,
    /// Cylinders to the first track accessed.
    pub(crate) seek_cylinders: u32,
}

/// Rules of a buffer that takes writes before they are on the media, as far as the service law needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferRules {
    /// Extents that are not on the media at most, the one being written included.
    pub(crate) extents: u32,
    /// Extents that still wait at most while the media serves a read.
    pub(crate) extents_beside_read: u32,
    /// Longest write that it takes.
    pub(crate) blocks_max: u32,
    /// True if a read waits until all extents are on the media.
    pub(crate) reads_wait_for_all: bool,
    /// True if the overhead of a read passes beside the end of a destage.
    pub(crate) read_overlaps: bool,
    /// True if the overhead of a write passes while it waits for room.
    pub(crate) write_overlaps: bool,
    /// True if the media begins to write an extent when its first block is in the buffer, before the write is complete.
    pub(crate) destages_at_first_block: bool,
    /// True if extents wait while the media reads ahead.
    pub(crate) waits_for_read_ahead: bool,
}

/// One architecture of controller over mechanics whose heads have a position of type `P`.
trait Controller<P: Position>: Clone {
    /// Its parameters.
    type Parameters;

    /// A controller that has served nothing yet.
    fn new(parameters: &Self::Parameters, disk: &DiskParameters) -> Result<Self, DescriptionError>;

    /// Returns `true` if completed writes can be lost before a flush.
    fn has_volatile_cache(parameters: &Self::Parameters) -> bool;

    /// Rules by which a controller with these parameters buffers writes; `None` if all go through to the media.
    fn buffer_rules(_parameters: &Self::Parameters) -> Option<BufferRules> {
        None
    }

    /// Serves `request`, which begins at `now`, not before the last command let it.
    fn serve(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> Served;

    /// Does the background work that begins before `now`.
    fn work_until(&mut self, mechanism: &impl Mechanics<P>, now: Instant);

    /// The time at which the arm would begin to move for a command that begins at `now` and misses the buffer.
    fn arm_moves_at(&self, now: Instant, op: Operation) -> Instant;

    /// Position of the heads when the work at hand is done.
    fn arm(&self) -> P;

    /// Returns `true` if the buffer holds the first block of `request`, or would answer it as a write.
    fn holds(&self, mechanism: &impl Mechanics<P>, request: &Request) -> bool;

    /// Returns the first block of what the media writes next, if the buffer takes `request`, a write, but has no room for it at `now`.
    /// `None` of controllers that do not say.
    fn lacks_room(&self, _now: Instant, _request: &Request) -> Option<u64> {
        None
    }
}

/// Declares the module of each controller, its parameters as a variant of the description, and its state as a variant
/// of the electronics.
macro_rules! controllers {
    ($($(#[doc = $doc:literal])+ $visibility:vis $module:ident: $name:ident($parameters:ident),)+) => {
        $($visibility mod $module;)+
        $(pub use $module::$parameters;)+

        /// Electronics of a drive, with their parameters.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "controller", rename_all = "snake_case")]
        pub enum ElectronicsParameters {
            $($(#[doc = $doc])+ $name(Box<$parameters>),)+
        }

        impl ElectronicsParameters {
            /// Returns `true` if completed writes can be lost before a flush.
            pub fn volatile_write_cache(&self) -> bool {
                match self {
                    $(Self::$name(parameters) => {
                        <$module::$name<super::Arm> as Controller<super::Arm>>::has_volatile_cache(parameters)
                    })+
                }
            }

            /// Rules by which such electronics buffer writes; `None` if all go through to the media.
            pub(crate) fn buffer_rules(&self) -> Option<BufferRules> {
                match self {
                    $(Self::$name(parameters) => {
                        <$module::$name<super::Arm> as Controller<super::Arm>>::buffer_rules(parameters)
                    })+
                }
            }
        }

        /// The electronics of one drive, with their state.
        #[derive(Debug)]
        pub(crate) enum Electronics<P> {
            $($name(Box<$module::$name<P>>),)+
        }

        impl<P: Position> Clone for Electronics<P> {
            fn clone(&self) -> Self {
                match self {
                    $(Self::$name(controller) => Self::$name(controller.clone()),)+
                }
            }

            fn clone_from(&mut self, source: &Self) {
                match (self, source) {
                    $((Self::$name(target), Self::$name(source)) => target.clone_from(source),)+
                    (target, source) => *target = source.clone(),
                }
            }
        }

        impl<P: Position> Electronics<P> {
            pub(crate) fn new(disk: &DiskParameters) -> Result<Self, DescriptionError> {
                match &disk.electronics {
                    $(ElectronicsParameters::$name(parameters) => {
                        Ok(Self::$name(Box::new($module::$name::new(parameters, disk)?)))
                    })+
                }
            }

            pub(crate) fn serve(
                &mut self,
                mechanism: &impl Mechanics<P>,
                now: Instant,
                request: &Request,
            ) -> Served {
                match self {
                    $(Self::$name(controller) => controller.serve(mechanism, now, request),)+
                }
            }

            pub(crate) fn work_until(&mut self, mechanism: &impl Mechanics<P>, now: Instant) {
                match self {
                    $(Self::$name(controller) => controller.work_until(mechanism, now),)+
                }
            }

            pub(crate) fn arm_moves_at(&self, now: Instant, op: Operation) -> Instant {
                match self {
                    $(Self::$name(controller) => controller.arm_moves_at(now, op),)+
                }
            }

            pub(crate) fn arm(&self) -> P {
                match self {
                    $(Self::$name(controller) => controller.arm(),)+
                }
            }

            pub(crate) fn holds(&self, mechanism: &impl Mechanics<P>, request: &Request) -> bool {
                match self {
                    $(Self::$name(controller) => controller.holds(mechanism, request),)+
                }
            }

            pub(crate) fn lacks_room(&self, now: Instant, request: &Request) -> Option<u64> {
                match self {
                    $(Self::$name(controller) => controller.lacks_room(now, request),)+
                }
            }
        }
    };
}

controllers! {
    /// No buffer; a constant overhead before each command.
    direct: Direct(DirectParameters),
    /// Segments of contiguous blocks.
    pub segmented: Segmented(SegmentedParameters),
    /// One read stream and recent writes.
    pub streaming: Streaming(StreamingParameters),
    /// Whole tracks.
    track_buffer: TrackBuffer(TrackBufferParameters),
}

impl Default for ElectronicsParameters {
    fn default() -> Self {
        Self::Direct(Box::default())
    }
}

#[cfg(test)]
mod contents;
#[cfg(test)]
mod tests;
