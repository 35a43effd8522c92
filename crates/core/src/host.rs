//! One request as the host measured it (measurement point MP1): its block layer, or a client of a protocol.
//!
//! Live captures and clients produce these requests. The matching of measurement points consumes them. The
//! modules that record events of the block layer document how a request is identified from those events.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::completion::Status;
use crate::request::Operation;
use crate::units::{Duration, Instant};

/// A request of the host, complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRequest {
    /// Time at which the block layer made the request, before any wait in its own queues; `None` if not
    /// measured.
    pub queued: Option<Instant>,
    /// Time at which the request was first given to the device's driver. At a client: its first byte to
    /// the kernel.
    pub issue: Instant,
    /// Time at which the last byte was complete. At a client: the last byte of the reply had arrived.
    pub completion: Instant,
    /// Operation of the request.
    pub op: Operation,
    /// True if a write was issued as one that forces the media.
    pub fua: bool,
    /// First byte on the device, a multiple of 512; zero for a flush.
    pub offset_bytes: u64,
    /// Length in bytes, a multiple of 512; zero for a flush.
    pub length_bytes: u64,
    /// Process (thread group) that was running when the request was queued or, if that time was not
    /// measured, issued. For write-back, flushes and the like: a thread of the kernel.
    pub process: u32,
    /// Name of that process.
    pub command: ProcessName,
    /// The error number that the driver gave, positive, if it failed.
    pub error: Option<u32>,
}

impl HostRequest {
    /// A request of which nothing else is known.
    pub const fn new(
        issue: Instant,
        completion: Instant,
        op: Operation,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Self {
        Self {
            queued: None,
            issue,
            completion,
            op,
            fua: false,
            offset_bytes,
            length_bytes,
            process: 0,
            command: ProcessName([0; 16]),
            error: None,
        }
    }

    /// Status of the request, from its error number.
    pub const fn status(&self) -> Status {
        match self.error {
            Some(errno) => Status::from_errno(errno),
            None => Status::Ok,
        }
    }

    /// From issue to completion.
    pub fn response_time(&self) -> Duration {
        self.completion.saturating_since(self.issue)
    }
}

/// Name of a process as the kernel keeps it: up to 15 bytes, then zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct ProcessName(pub [u8; 16]);

impl fmt::Display for ProcessName {
    /// The bytes before the first zero; those that are not UTF-8 become U+FFFD.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        f.pad(&String::from_utf8_lossy(&self.0[..length]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_ends_at_the_first_zero() {
        assert_eq!(ProcessName(*b"fio\0\0\0left over\0").to_string(), "fio");
        assert_eq!(ProcessName(*b"sixteen bytes ok").to_string(), "sixteen bytes ok");
        assert_eq!(ProcessName([0; 16]).to_string(), "");
    }
}
