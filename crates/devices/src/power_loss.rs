//! Effects of a power loss on a device: what its buffer keeps, and what the unit under the head holds afterwards.
//!
//! # Scope and limits
//! A unit is torn only in a media write that is under way, so only disks tear. Devices without media change at the
//! completions of requests (`durability`).

use schemars::JsonSchema;
use seeklab_core::{ByteSize, Tearing, TornContents};
use serde::{Deserialize, Serialize};

use crate::error::DescriptionError;

/// Effects of a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PowerLossParameters {
    /// Contents of the unit under the head afterwards.
    pub torn_sector: TornSector,
    /// Smallest unit that the media write as a whole; at least a block. Units begin at multiples of their size.
    #[schemars(extend("x-minimum" = "512B", "x-maximum" = "1MiB"))]
    pub atomic_unit: ByteSize,
    /// Fate of the data in the write buffer.
    pub cache: CacheProtection,
    /// Effect of flushes and of force unit access.
    pub flush: FlushEffect,
}

/// Effect of flushes and of writes with force unit access.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlushEffect {
    /// Completed flushes and writes with force unit access are on the media.
    #[default]
    Honest,
    /// A flush takes the overhead of a command and writes nothing. Force unit access is ignored.
    Lies,
}

/// Contents of the unit that was being written when the power failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TornSector {
    /// The unit keeps what it held before.
    #[default]
    Old,
    /// The unit is written to its end with the energy that is left.
    New,
    /// The unit cannot be read until it is written.
    Unreadable,
}

/// Fate of the data in a write buffer at a power loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheProtection {
    /// They are lost.
    #[default]
    Volatile,
    /// They are kept, by a capacitor or a battery, and written later. The device reports no volatile cache, so hosts send
    /// no flushes.
    Protected,
}

impl From<TornSector> for TornContents {
    fn from(torn_sector: TornSector) -> Self {
        match torn_sector {
            TornSector::Old => Self::Old,
            TornSector::New => Self::New,
            TornSector::Unreadable => Self::Unreadable,
        }
    }
}

impl Default for PowerLossParameters {
    fn default() -> Self {
        Self {
            torn_sector: TornSector::default(),
            atomic_unit: ByteSize::from_bytes(512),
            cache: CacheProtection::default(),
            flush: FlushEffect::default(),
        }
    }
}

impl PowerLossParameters {
    /// Checks the unit of a device with blocks of `block_size`.
    ///
    /// # Errors
    /// A unit that is not a power of two. A unit smaller than a block counts as a block.
    pub(crate) fn check(&self) -> Result<(), DescriptionError> {
        if self.atomic_unit.as_bytes().is_power_of_two() {
            return Ok(());
        }
        Err(DescriptionError::refused(
            "atomic_unit",
            self.atomic_unit.to_string(),
            "a power of two, such as 4KiB",
        ))
    }

    /// Returns the effect on the media write in progress, of a device with blocks of `block_size`.
    pub fn tearing(&self, block_size: ByteSize) -> Tearing {
        Tearing { unit_blocks: self.unit_blocks(block_size), contents: self.torn_sector.into() }
    }

    /// Returns the blocks of a unit, at least one.
    pub fn unit_blocks(&self, block_size: ByteSize) -> u64 {
        (self.atomic_unit.as_bytes() / block_size.as_bytes()).max(1)
    }
}
