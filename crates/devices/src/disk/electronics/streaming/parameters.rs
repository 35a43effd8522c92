//! Parameters of a `streaming` controller, as they stand in a catalog file.

use schemars::JsonSchema;
use seeklab_core::Duration;
use seeklab_core::description::schema::check_ranges;
use serde::{Deserialize, Serialize};

use super::ranges::{DIRTY_MAX, KEPT_MAX};
use crate::error::DescriptionError;

/// Electronics with one read stream and recent writes, write-back.
///
/// Overheads and bus times are at most one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamingParameters {
    /// Time of one block between the buffer and the host, for reads from the buffer and for writes.
    #[schemars(extend("x-maximum" = "1s"))]
    pub bus_per_block: Duration,
    /// Overhead of a command that moves no data: flush and discard.
    #[serde(default)]
    #[schemars(extend("x-maximum" = "1s"))]
    pub without_data: Duration,
    /// The read stream and its read-ahead.
    pub stream: StreamParameters,
    /// Reads that the buffer answers.
    pub read_hit: ReadHitParameters,
    /// Reads that need the media.
    pub read_miss: ReadMissParameters,
    /// Writes.
    pub write: WriteParameters,
}

/// The read stream: what follows the last read from the media.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamParameters {
    /// Blocks that the drive reads on after a read.
    #[schemars(range(max = 1_000_000), extend("x-unit" = "blocks"))]
    pub read_ahead: u32,
    /// Writes that the stream survives since its read from the media, 0 to 255; the next one ends it.
    #[schemars(extend("x-unit" = "writes"))]
    pub survives_writes: u8,
    /// Condition under which a hit consumes what it read and what lies before it, and lets the read-ahead
    /// go on.
    pub consumed: Consumption,
    /// Condition under which the stream stays live. A write always ends its life.
    pub live: LiveRule,
}

/// Hits that consume the blocks they read, so that the read-ahead continues to its full length after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Consumption {
    /// By every hit.
    Always,
    /// By hits while the stream is live; a stream that is not keeps what it holds.
    WhileLive,
}

/// Time for which a stream stays live: the drive has not left it yet and answers with lower overheads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum LiveRule {
    /// Until the drive has been idle for longer than this.
    IdleTimer {
        /// Time from the completion of a command to the next one; above zero in any real drive.
        #[schemars(extend("x-maximum" = "1s"))]
        idle: Duration,
    },
    /// As long as the heads read ahead.
    ReadingAhead {
        /// Longest time after the end of the read-ahead at which a read still finds the stream live; zero for
        /// writes.
        #[serde(default)]
        #[schemars(extend("x-maximum" = "1s"))]
        margin: Duration,
    },
}

/// Overheads of reads that the buffer answers, before the bus time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadHitParameters {
    /// Live stream, the block after the last one read.
    #[schemars(extend("x-maximum" = "1s"))]
    pub live_sequential: Duration,
    /// Live stream, a block further on.
    #[schemars(extend("x-maximum" = "1s"))]
    pub live_skip: Duration,
    /// The same directly after a sequential hit of the live stream.
    #[schemars(extend("x-maximum" = "1s"))]
    pub live_skip_after_sequential: Duration,
    /// Stream no longer live, the block after the last one read.
    #[schemars(extend("x-maximum" = "1s"))]
    pub sequential: Duration,
    /// Stream no longer live, another block.
    #[schemars(extend("x-maximum" = "1s"))]
    pub skip: Duration,
    /// Stream no longer live, directly after a sequential hit of the live stream.
    #[schemars(extend("x-maximum" = "1s"))]
    pub after_sequential: Duration,
    /// Stream no longer live, directly after a write.
    #[schemars(extend("x-maximum" = "1s"))]
    pub after_write: Duration,
    /// Data written before.
    #[schemars(extend("x-maximum" = "1s"))]
    pub written: Duration,
}

/// Overheads of reads that need the media.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadMissParameters {
    /// Before the head moves, within the cylinder under the arm.
    #[schemars(extend("x-maximum" = "1s"))]
    pub same_cylinder: Duration,
    /// Before the arm moves to another cylinder.
    #[schemars(extend("x-maximum" = "1s"))]
    pub other_cylinder: Duration,
    /// Time of one block to the host while it comes from the media.
    #[schemars(extend("x-maximum" = "1s"))]
    pub bus_per_block: Duration,
    /// After the last block.
    #[serde(default)]
    #[schemars(extend("x-maximum" = "1s"))]
    pub completion: Duration,
}

/// Overheads of writes, before the bus time, and the buffer for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteParameters {
    /// To the track under the heads.
    #[schemars(extend("x-maximum" = "1s"))]
    pub same_track: Duration,
    /// The same directly after a write.
    #[schemars(extend("x-maximum" = "1s"))]
    pub same_track_after_write: Duration,
    /// To another track of the cylinder under the arm.
    #[schemars(extend("x-maximum" = "1s"))]
    pub same_cylinder: Duration,
    /// To another cylinder of the zone under the arm.
    #[schemars(extend("x-maximum" = "1s"))]
    pub same_zone: Duration,
    /// To another zone.
    #[schemars(extend("x-maximum" = "1s"))]
    pub other_zone: Duration,
    /// Overhead that a write to another track saves directly after a write.
    #[serde(default)]
    #[schemars(extend("x-maximum" = "1s"))]
    pub saved_after_write: Duration,
    /// Extra while the read stream is live.
    #[serde(default)]
    #[schemars(extend("x-maximum" = "1s"))]
    pub live: Duration,
    /// The same directly after a sequential hit of the live stream.
    #[serde(default)]
    #[schemars(extend("x-maximum" = "1s"))]
    pub live_after_sequential: Duration,
    /// Extra directly after a sequential hit of a stream that is no longer live.
    #[serde(default)]
    #[schemars(extend("x-maximum" = "1s"))]
    pub after_sequential: Duration,
    /// Extents that wait to be written to the media; contiguous writes share one.
    #[schemars(range(min = 1, max = DIRTY_MAX), extend("x-unit" = "extents"))]
    pub segments: u32,
    /// Blocks of one such extent; a longer write goes through to the media.
    #[schemars(range(min = 1), extend("x-unit" = "blocks"))]
    pub segment_blocks: u32,
    /// Written extents that later reads find in the buffer.
    #[schemars(range(max = KEPT_MAX), extend("x-unit" = "extents"))]
    pub kept: u32,
}

impl StreamingParameters {
    /// Checks that electronics can behave like this.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub(super) fn check(&self) -> Result<(), DescriptionError> {
        check_ranges(self).map_err(|error| error.under("electronics"))
    }
}
