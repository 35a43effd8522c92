//! Errors that end a replay early.

use seeklab_core::number_words::{counted, in_number};

/// Error that ended a replay early. Records are counted from one, in the order of their source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError<E> {
    /// The trace could not be read any further.
    #[error("record {row} of the trace cannot be read")]
    Trace {
        /// The record that could not be read.
        row: u64,
        /// Error of the source.
        source: E,
    },
    /// A request lies beyond the end of the device.
    #[error(
        "record {row} of the trace: {} at lbn {lbn} {} beyond the end of the device, which has {capacity_blocks} blocks",
        counted(*blocks, "block"),
        in_number(*blocks, "[lies|lie]")
    )]
    Beyond {
        /// The record.
        row: u64,
        /// First block of the request.
        lbn: u64,
        /// Number of blocks.
        blocks: u32,
        /// Blocks that the device has.
        capacity_blocks: u64,
    },
    /// A replay with think times met a record without one.
    #[error("record {row} of the trace has no think time, which a replay with think times needs")]
    NoThinkTime {
        /// The record.
        row: u64,
    },
    /// A request addresses no blocks.
    #[error("record {row} of the trace addresses no blocks")]
    Empty {
        /// The record.
        row: u64,
    },
    /// A request names a device that is not in the map.
    #[error("record {row} of the trace names device {device}, which is not among those surveyed")]
    NoSuchDevice {
        /// The record.
        row: u64,
        /// The device that it names.
        device: u16,
    },
}

impl<E> ReplayError<E> {
    /// Returns advice on how to avoid the error, if there is any.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Beyond { .. } => {
                Some("choose a larger device, or select their treatment: wrap, scale or drop")
            }
            Self::NoThinkTime { .. } => Some("replay the trace open, scaled or closed"),
            Self::Trace { .. } | Self::Empty { .. } | Self::NoSuchDevice { .. } => None,
        }
    }
}
