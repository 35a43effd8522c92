//! Faults that a device can have, as far as whoever keeps its bytes and brings its clients must know.

use crate::units::Instant;

/// Faults that a device can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hazards {
    /// Requests may fail, or something else may become of their data than the answer says.
    pub fails: bool,
    /// A read may bring what its blocks held before they were last written.
    pub reads_stale: bool,
    /// The power may be lost, and with it what is not durable.
    pub loses_power: bool,
    /// Effect of a power loss on the media write in progress. `None` of a device without media.
    pub tearing: Option<Tearing>,
}

/// Effect of a power loss on the media write in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tearing {
    /// Blocks that the media write as a whole, at least one. Units begin at multiples of it.
    pub unit_blocks: u64,
    /// Contents of the unit under the heads afterwards.
    pub contents: TornContents,
}

/// Contents of the unit that was being written when the power failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TornContents {
    /// The unit keeps what it held before.
    #[default]
    Old,
    /// The unit is written to its end.
    New,
    /// The unit cannot be read until it is written.
    Unreadable,
}

impl Default for Tearing {
    /// Single blocks that keep what they held.
    fn default() -> Self {
        Self { unit_blocks: 1, contents: TornContents::default() }
    }
}

impl Hazards {
    /// The faults that either of two devices can have.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            fails: self.fails || other.fails,
            reads_stale: self.reads_stale || other.reads_stale,
            loses_power: self.loses_power || other.loses_power,
            tearing: if self.tearing.is_some() { self.tearing } else { other.tearing },
        }
    }
}

/// Time for which a fault of a whole device lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultWindow {
    /// Number of the fault, as in [`FaultSet`](crate::FaultSet).
    pub number: usize,
    /// First instant of the fault.
    pub from: Instant,
    /// First instant behind the fault.
    pub until: Instant,
}

/// A time for which a whole device is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absence {
    /// First instant of it.
    pub from: Instant,
    /// First instant behind it.
    pub until: Instant,
    /// The device has lost its power.
    pub loses_power: bool,
}
