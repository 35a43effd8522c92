//! Drives: the calls that wait for one, and the call that holds it.

use std::collections::VecDeque;

use super::file::Direction;

/// A call of a job: transfer what the buffer of a file holds, or what it has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) slot: usize,
    pub(super) direction: Direction,
}

/// A drive, which serves one call at a time.
#[derive(Debug, Clone)]
pub(super) struct Drive {
    /// Calls that wait, in order of arrival.
    pub(super) queue: VecDeque<Call>,
    /// The call that holds the drive.
    pub(super) current: Option<Call>,
    /// Sectors of the request that is outstanding.
    pub(super) sent: u32,
    /// The sector after the last one that was sent.
    pub(super) next_sector: Option<u64>,
}

impl Drive {
    pub(super) const fn new() -> Self {
        Self { queue: VecDeque::new(), current: None, sent: 0, next_sector: None }
    }
}
