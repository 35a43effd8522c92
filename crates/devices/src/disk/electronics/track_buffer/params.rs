//! Parameters of a drive that buffers whole tracks.

use schemars::JsonSchema;
use seeklab_core::Duration;
use seeklab_core::description::schema::check_ranges;
use serde::{Deserialize, Serialize};

use crate::error::DescriptionError;

/// Parameters of a drive that buffers whole tracks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrackBufferParameters {
    /// Segments of the buffer, each of one track. All but one can hold unwritten data.
    #[schemars(range(min = 2, max = 256), extend("x-unit" = "segments"))]
    pub segments: u32,
    /// Moving one block over the bus.
    pub bus_per_block: Duration,
    /// Processing of a read that the buffer answers.
    pub read_hit: Duration,
    /// Sequential reads in a row, not counting the first of the run, that arm the stream: from then on
    /// the next track is fetched ahead; at least 1.
    #[schemars(range(min = 1), extend("x-unit" = "sequential reads"))]
    pub stream_after: u32,
    /// Processing of a read that continues an armed stream and that the buffer answers.
    pub stream_hit: Duration,
    /// Additional overhead of the first command that does not continue an armed stream.
    pub stream_end: Duration,
    /// Setting up a read of the media after another read; runs beside the seek.
    pub read_setup: Duration,
    /// Setting up a read of the media after any other command; runs beside the seek.
    pub read_setup_after_write: Duration,
    /// Processing of a write into the buffer in zone 0, and of flushes and discards.
    pub write_hit: Duration,
    /// Additional overhead of a write for each zone before its own (the zone table is searched).
    pub write_per_zone: Duration,
    /// Additional overhead of a write whose track has no segment yet.
    pub write_new_segment: Duration,
    /// Additional overhead of a write whose track is in the buffer because it was read.
    pub write_into_read_segment: Duration,
    /// Additional overhead of a write if the last write was to the same track and lies a whole track off,
    /// in proportion to the gap between the two. Adjoining writes have no additional overhead.
    pub write_gap: Duration,
    /// From the start of a write's transfer until a further track of it can be taken, if its first track
    /// had a segment.
    pub write_next_track: Duration,
    /// From the start of a write's transfer until a further track of it can be taken, if its first track
    /// had none.
    pub write_next_track_new: Duration,
}

impl TrackBufferParameters {
    /// Checks that a drive can be like this.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn check(&self) -> Result<(), DescriptionError> {
        check_ranges(self).map_err(|error| error.under("electronics"))
    }
}
