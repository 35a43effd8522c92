//! The size of a device that is fitted.

use schemars::JsonSchema;
use seeklab_core::ByteSize;
use serde::Serialize;

use crate::failure::Failure;
use seeklab_learning::survey::DeviceCounts;

/// Text in the description of a fitted device whose size is a lower bound.
pub const AT_LEAST: &str = "at least: the highest block that a request addressed";

/// The size of a device and where it is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capacity {
    pub(super) blocks: u64,
    pub(super) origin: CapacityOrigin,
}

/// Origin of the size of a fitted device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapacityOrigin {
    /// The option `--capacity`.
    Option,
    /// The metadata of the trace.
    Trace,
    /// The highest block that a request addressed: a lower bound.
    HighestBlock,
}

impl CapacityOrigin {
    /// The text in the description of a fitted device.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Option => "as given by --capacity",
            Self::Trace => "as the trace states",
            Self::HighestBlock => AT_LEAST,
        }
    }
}

impl Capacity {
    /// Takes the size that was given, else that of the trace, else the highest block addressed.
    ///
    /// # Errors
    /// If the size that was given is smaller than the blocks addressed, or no multiple of the block size.
    pub(super) fn choose(
        given: Option<ByteSize>,
        stated: Option<ByteSize>,
        seen: &DeviceCounts,
        block_size: ByteSize,
    ) -> Result<Self, Failure> {
        let block_bytes = block_size.as_bytes().max(1);
        if let Some(given) = given {
            let blocks = given.as_bytes() / block_bytes;
            if blocks < seen.end || !given.as_bytes().is_multiple_of(block_bytes) {
                return Err(Failure::new(format!(
                    "--capacity {given}: allowed is a multiple of the block size {block_size}, at least {}",
                    ByteSize::from_bytes(seen.end.saturating_mul(block_bytes))
                ))
                .hint("requests of the trace address all these blocks"));
            }
            return Ok(Self { blocks, origin: CapacityOrigin::Option });
        }
        let stated = stated.map(|stated| stated.as_bytes() / block_bytes);
        Ok(match stated.filter(|blocks| *blocks >= seen.end && *blocks > 0) {
            Some(blocks) => Self { blocks, origin: CapacityOrigin::Trace },
            None => Self { blocks: seen.end, origin: CapacityOrigin::HighestBlock },
        })
    }
}
