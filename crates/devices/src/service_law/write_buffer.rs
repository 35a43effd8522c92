//! The write buffer of a device: writes that complete before they are on the media.

use std::sync::Arc;

use super::{ServiceLaw, ServiceTimes};

/// Buffer of writes in front of one server, and the times of its parts.
///
/// Written extents wait for the media in their order. The media writes one whenever it is free, and finishes what it has
/// begun. A write that finds no room waits for the oldest extent.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteBuffer {
    /// True if a queue of the disk or in front of it has another order than that of arrival: which request comes next then
    /// depends on those that destages have held up, and on the room in the buffer.
    pub is_reordered: bool,
    /// Extents at most that are not on the media, the one being written included. At least one.
    pub extents: u32,
    /// Extents at most that still wait while the media serves a read.
    pub extents_beside_read: u32,
    /// True if a read waits until all extents are on the media; false if only for the one being written.
    pub reads_wait_for_all: bool,
    /// Service times of reads that find the media free.
    pub read: ServiceTimes,
    /// Part of such a read that passes beside the end of a destage, in seconds.
    pub read_overlap_s: f64,
    /// Time before the next command can begin behind a read from which the media is free of it, in seconds. If it is 0, a
    /// command right behind the read goes before the extents that wait.
    pub read_lead_s: f64,
    /// Service times of writes that find room.
    pub write: ServiceTimes,
    /// Part of such a write that passes while it waits for room, in seconds.
    pub write_overlap_s: f64,
    /// Time before the completion of a write from which the media can begin to write its extent, in seconds. If it is 0, a
    /// read right behind the write goes first.
    pub destage_lead_s: f64,
    /// Times to write one extent to the media after another.
    pub destage: ServiceTimes,
    /// Time after a read in which the media reads ahead instead of writing what waits; none if read-ahead gives way.
    pub read_ahead: Option<ServiceTimes>,
}

/// A write buffer under a mixed demand.
#[derive(Debug, Clone, PartialEq)]
pub struct BufferedWrites {
    /// The buffer.
    pub buffer: WriteBuffer,
    /// Share of reads, 0 to 1; the rest are writes.
    pub reads: f64,
    /// Law of the reads alone. The times of the buffer's reads change with the number outstanding as those of this law.
    pub read_law: Arc<ServiceLaw>,
}
