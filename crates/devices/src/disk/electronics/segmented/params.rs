//! Parameters of a segmented buffer and the electronics around it.

use schemars::JsonSchema;
use seeklab_core::description::schema::check_ranges;
use seeklab_core::{Duration, Ratio};
use serde::{Deserialize, Serialize};

use crate::error::{DescriptionError, check};

/// A controller with a buffer of segments of contiguous blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SegmentedParameters {
    /// Time of the electronics for each command.
    #[serde(default)]
    pub overheads: Overheads,
    /// The bus to the host.
    #[serde(default)]
    pub bus: Bus,
    /// The buffer.
    pub buffer: Buffer,
}

/// Time of the electronics for each command. `after_read` and `after_write` tell the command before.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Overheads {
    /// From the command to the bus, read hit.
    pub read_hit_after_read: Duration,
    /// From the command to the bus, read hit.
    pub read_hit_after_write: Duration,
    /// From the command to the arm's motion, read miss.
    pub read_miss_after_read: Duration,
    /// From the command to the arm's motion, read miss.
    pub read_miss_after_write: Duration,
    /// From the command to the bus, write into the buffer.
    pub write_hit_after_read: Duration,
    /// From the command to the bus, write into the buffer.
    pub write_hit_after_write: Duration,
    /// From the command to the arm's motion, write to the media.
    pub write_miss_after_read: Duration,
    /// From the command to the arm's motion, write to the media.
    pub write_miss_after_write: Duration,
    /// From the command to the arm's readiness, write that continues the one before; zero: as others.
    pub sequential_write: Duration,
    /// From the command to the bus, write to the media; zero: when the arm begins to move.
    pub write_data_after_read: Duration,
    /// From the command to the bus, write to the media; zero: when the arm begins to move.
    pub write_data_after_write: Duration,
    /// More, for a read hit while read-ahead is still running.
    pub busy_hit: Duration,
    /// From the command to the arm's motion where a read continues a stopped read-ahead; zero: as a miss.
    pub partial_hit: Duration,
    /// Least time from command to completion of a read hit.
    pub hit_min: Duration,
    /// Third and later sequential hits: from the command to the bus; zero: no stream mode.
    pub stream_hit: Duration,
    /// More, for the second sequential hit, in which the drive arms its stream mode.
    pub stream_start: Duration,
    /// Before data moves over the bus.
    pub data_preparation: Duration,
    /// After the last data of a read.
    pub read_completion: Duration,
    /// After the last data of a write.
    pub write_completion: Duration,
    /// Least time between command overhead and rotational latency of a write.
    pub minimum_write_seek: Duration,
}

/// The bus to the host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Bus {
    /// Time of a block to the host.
    pub read_block: Duration,
    /// Time of a block to the host where the buffer held all of them; zero: as any block.
    pub hit_block: Duration,
    /// Time of a block to the host in stream mode; zero: as any block.
    pub stream_block: Duration,
    /// Time of a block from the host.
    pub write_block: Duration,
    /// True if the drive keeps the bus from command to completion.
    pub never_disconnect: bool,
    /// Time to let go of the bus after a read command that follows a read.
    pub read_disconnect_after_read: Duration,
    /// Time to let go of the bus after a read command that follows a write.
    pub read_disconnect_after_write: Duration,
    /// Time to let go of the bus after the data of a write.
    pub write_disconnect: Duration,
    /// Time to take the bus again.
    pub first_reselect: Duration,
    /// Time to take the bus a second time.
    pub other_reselect: Duration,
    /// Share of a read that is in the buffer when the drive takes the bus again, 0 to 1; one block at least.
    #[schemars(extend("x-maximum" = "1"))]
    pub read_watermark: Ratio,
    /// Order in which a zero-latency read goes over the bus.
    pub delivery: Delivery,
    /// Blocks of each portion in which a read goes over the bus; zero: as they come.
    #[schemars(extend("x-unit" = "blocks"))]
    pub portion_blocks: u32,
    /// Before each portion.
    pub portion_overhead: Duration,
    /// Between portions.
    pub portion_gap: Duration,
    /// Time of a block after the first portion once all are in the buffer.
    pub portion_tail_block: Duration,
    /// The second disconnection of a write that follows, but does not continue, another write.
    pub extra_write_disconnect: ExtraWriteDisconnect,
}

/// Order in which a zero-latency read goes over the bus \[Griffin 2004, appendix B.3\].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// First block first, as all SCSI and ATA controllers do.
    #[default]
    InOrder,
    /// As the blocks come from the media.
    OutOfOrder,
}

/// Some drives let the bus go once more during a write that follows another write elsewhere.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExtraWriteDisconnect {
    /// True if the drive makes the extra disconnection.
    pub enabled: bool,
    /// From the command to the disconnection.
    pub command: Duration,
    /// The disconnection.
    pub disconnect: Duration,
    /// Between disconnection and reselection.
    pub pause: Duration,
    /// The disconnection after the data.
    pub second_disconnect: Duration,
    /// From the end of the command to the arm's motion.
    pub seek_delay: Duration,
}

/// The buffer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Segments; at least 2 if one of them serves writes alone.
    #[schemars(range(min = 1, max = 256), extend("x-unit" = "segments"))]
    pub segments: u32,
    /// Blocks in each segment.
    #[schemars(range(min = 1), extend("x-unit" = "blocks"))]
    pub segment_blocks: u32,
    /// True if one segment serves writes alone. Otherwise written data answers reads.
    #[serde(default)]
    pub separate_write_segment: bool,
    /// Segments that can hold unwritten data at a time; zero: all, or the one that serves writes alone.
    #[serde(default)]
    #[schemars(range(max = 256), extend("x-unit" = "segments"))]
    pub write_segments: u32,
    /// Reading on of the drive after a read.
    #[serde(default)]
    pub read_ahead: ReadAhead,
    /// Most blocks that it reads on.
    #[serde(default)]
    #[schemars(extend("x-unit" = "blocks"))]
    pub read_ahead_blocks: u32,
    /// True if `read_ahead_blocks` counts from the end of the request, false if it counts from its start.
    #[serde(default)]
    pub read_ahead_beyond_request: bool,
    /// True if a hit makes a stopped read-ahead go on.
    #[serde(default)]
    pub read_ahead_on_hit: bool,
    /// Writes that are reported complete when they are in the buffer.
    #[serde(default)]
    pub write_back: WriteBack,
    /// `[request blocks, buffered blocks]`: a write of at least so many blocks begins on the media when so
    /// many (or all) are in the buffer; none: when the first is.
    #[serde(default)]
    pub write_start: Vec<(u32, u32)>,
}

/// Extent of the read-ahead after a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadAhead {
    /// Not at all.
    #[default]
    None,
    /// To the end of the track.
    ToTrackEnd,
    /// Until the segment is full.
    FillSegment,
    /// To the end of the track; after a sequential read to the end of the next.
    NextTrackIfSequential,
    /// To the end of the track; after a read that reached the track's end until the segment is full.
    FillSegmentIfCrossing,
}

/// Writes that are reported complete when they are in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteBack {
    /// No writes: write-through.
    #[default]
    None,
    /// Writes that continue the waiting data. Other writes wait until that data is written.
    Sequential,
    /// All, as long as there is room.
    All,
}

impl SegmentedParameters {
    /// Returns true if completed writes can be lost before a flush.
    pub fn write_back(&self) -> bool {
        self.buffer.write_back != WriteBack::None
    }

    /// Segments that can hold unwritten data at a time.
    pub(super) fn unwritten_segments_max(&self) -> u32 {
        let buffer = &self.buffer;
        match (buffer.separate_write_segment, buffer.write_segments) {
            (true, _) => 1,
            (false, 0) => buffer.segments,
            (false, some) => some,
        }
    }

    /// Checks that a controller can have these parameters.
    ///
    /// # Errors
    /// The first that is out of range.
    pub fn check(&self) -> Result<(), DescriptionError> {
        check_ranges(self).map_err(|error| error.under("electronics"))?;
        let buffer = &self.buffer;
        let least = 1 + u32::from(buffer.separate_write_segment);
        check(
            (least..=256).contains(&buffer.segments),
            "electronics.buffer.segments",
            buffer.segments.to_string(),
            format!("{least} to 256 segments"),
        )?;
        check(
            buffer.write_start.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "electronics.buffer.write_start",
            "is not in ascending order",
            "pairs with ascending request blocks",
        )
    }
}
