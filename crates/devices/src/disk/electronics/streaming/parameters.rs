//! Parameters of a `streaming` controller, as they stand in a catalog file.

use seeklab_core::Duration;
use serde::{Deserialize, Serialize};

use super::ranges::{DIRTY_MAX, KEPT_MAX};
use crate::error::{ParameterError, check};

/// Electronics with one read stream and recent writes, write-back.
///
/// Overheads and bus times are at most one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamingParameters {
    /// Time of one block between the buffer and the host, for reads from the buffer and for writes.
    pub bus_per_block: Duration,
    /// Overhead of a command that moves no data: flush and discard.
    #[serde(default)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamParameters {
    /// Blocks that the drive reads on after a read; at most 1,000,000.
    pub read_ahead: u32,
    /// Writes that the stream survives since its read from the media, 0 to 255; the next one ends it.
    pub survives_writes: u8,
    /// Condition under which a hit consumes what it read and what lies before it, and lets the read-ahead
    /// go on.
    pub consumed: Consumption,
    /// Condition under which the stream stays live. A write always ends its life.
    pub live: LiveRule,
}

/// Consumption of the stream by hits. The read-ahead goes on to its full length after the consumed
/// blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consumption {
    /// By every hit.
    Always,
    /// By hits while the stream is live; a stream that is not keeps what it holds.
    WhileLive,
}

/// Rule for the life of a stream. While a stream is live, the drive has not yet left it and answers
/// with lower overheads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum LiveRule {
    /// Until the drive has been idle for longer than this.
    IdleTimer {
        /// Time from the completion of a command to the next one; above zero in any real drive.
        idle: Duration,
    },
    /// As long as the heads read ahead.
    ReadingAhead {
        /// Longest time after the end of the read-ahead at which a read still finds the stream live; zero for
        /// writes.
        #[serde(default)]
        margin: Duration,
    },
}

/// Overheads of reads that the buffer answers, before the bus time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadHitParameters {
    /// Live stream, the block after the last one read.
    pub live_sequential: Duration,
    /// Live stream, a block further on.
    pub live_skip: Duration,
    /// The same directly after a sequential hit of the live stream.
    pub live_skip_after_sequential: Duration,
    /// Stream no longer live, the block after the last one read.
    pub sequential: Duration,
    /// Stream no longer live, another block.
    pub skip: Duration,
    /// Stream no longer live, directly after a sequential hit of the live stream.
    pub after_sequential: Duration,
    /// Stream no longer live, directly after a write.
    pub after_write: Duration,
    /// Data written before.
    pub written: Duration,
}

/// Overheads of reads that need the media.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadMissParameters {
    /// Before the head moves, within the cylinder under the arm.
    pub same_cylinder: Duration,
    /// Before the arm moves to another cylinder.
    pub other_cylinder: Duration,
    /// Time of one block to the host while it comes from the media.
    pub bus_per_block: Duration,
    /// After the last block.
    #[serde(default)]
    pub completion: Duration,
}

/// Overheads of writes, before the bus time, and the buffer for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteParameters {
    /// To the track under the heads.
    pub same_track: Duration,
    /// The same directly after a write.
    pub same_track_after_write: Duration,
    /// To another track of the cylinder under the arm.
    pub same_cylinder: Duration,
    /// To another cylinder of the zone under the arm.
    pub same_zone: Duration,
    /// To another zone.
    pub other_zone: Duration,
    /// Overhead that a write to another track saves directly after a write.
    #[serde(default)]
    pub saved_after_write: Duration,
    /// Extra while the read stream is live.
    #[serde(default)]
    pub live: Duration,
    /// The same directly after a sequential hit of the live stream.
    #[serde(default)]
    pub live_after_sequential: Duration,
    /// Extra directly after a sequential hit of a stream that is no longer live.
    #[serde(default)]
    pub after_sequential: Duration,
    /// Extents that wait to be written to the media, 1 to 8; contiguous writes share one.
    pub segments: u32,
    /// Blocks of one such extent, at least 1; a longer write goes through to the media.
    pub segment_blocks: u32,
    /// Written extents that later reads find in the buffer until the next read from the media, 0 to 4.
    pub kept: u32,
}

impl StreamingParameters {
    /// Checks that electronics can behave like this.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub(super) fn check(&self) -> Result<(), ParameterError> {
        let (hit, miss, write) = (&self.read_hit, &self.read_miss, &self.write);
        let live = match self.stream.live {
            LiveRule::IdleTimer { idle } => ("stream.live.idle", idle),
            LiveRule::ReadingAhead { margin } => ("stream.live.margin", margin),
        };
        for (name, duration) in [
            ("bus_per_block", self.bus_per_block),
            ("without_data", self.without_data),
            live,
            ("read_hit.live_sequential", hit.live_sequential),
            ("read_hit.live_skip", hit.live_skip),
            ("read_hit.live_skip_after_sequential", hit.live_skip_after_sequential),
            ("read_hit.sequential", hit.sequential),
            ("read_hit.skip", hit.skip),
            ("read_hit.after_sequential", hit.after_sequential),
            ("read_hit.after_write", hit.after_write),
            ("read_hit.written", hit.written),
            ("read_miss.same_cylinder", miss.same_cylinder),
            ("read_miss.other_cylinder", miss.other_cylinder),
            ("read_miss.bus_per_block", miss.bus_per_block),
            ("read_miss.completion", miss.completion),
            ("write.same_track", write.same_track),
            ("write.same_track_after_write", write.same_track_after_write),
            ("write.same_cylinder", write.same_cylinder),
            ("write.same_zone", write.same_zone),
            ("write.other_zone", write.other_zone),
            ("write.saved_after_write", write.saved_after_write),
            ("write.live", write.live),
            ("write.live_after_sequential", write.live_after_sequential),
            ("write.after_sequential", write.after_sequential),
        ] {
            let path = format!("electronics.{name}");
            check(duration <= Duration::from_s(1), path, duration.to_string(), "at most 1s")?;
        }
        for (name, value, least, most) in [
            ("stream.read_ahead", self.stream.read_ahead, 0, 1_000_000),
            ("write.segments", write.segments, 1, DIRTY_MAX as u32),
            ("write.segment_blocks", write.segment_blocks, 1, u32::MAX),
            ("write.kept", write.kept, 0, KEPT_MAX as u32),
        ] {
            let path = format!("electronics.{name}");
            check((least..=most).contains(&value), path, value.to_string(), format!("{least} to {most}"))?;
        }
        Ok(())
    }
}
