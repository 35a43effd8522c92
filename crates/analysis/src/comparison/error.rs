//! Errors of comparing two traces.

use std::error::Error;
use std::fmt;

use seeklab_core::Operation;
use seeklab_core::number_words::counted;

/// One of the two traces of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The trace that is taken to be right.
    Reference,
    /// The trace that is compared with it.
    Other,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Self::Reference => "the reference",
            Self::Other => "the other trace",
        })
    }
}

/// Device, blocks and operation, which identify a request in both traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Number of the device.
    pub device: u16,
    /// First logical block.
    pub lbn: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Operation of the request.
    pub op: Operation,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{} of {} at {} of device {}",
            self.op.name(),
            counted(self.blocks, "block"),
            self.lbn,
            self.device
        )
    }
}

/// Reason why two traces cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComparisonError {
    /// A row could not be read.
    #[error("row {row} of {side} cannot be read")]
    Read {
        /// Trace with the error.
        side: Side,
        /// The row, counted from one.
        row: u64,
        /// Error that occurred while reading.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A row has no completion.
    #[error("row {row} of {side} has no completion, so its response time is unknown")]
    NoResponseTime {
        /// Trace with the error.
        side: Side,
        /// The row, counted from one.
        row: u64,
    },
    /// The traces hold different numbers of requests.
    #[error(
        "the reference has {}, the other trace {other}: per-request errors need the same requests in both",
        counted(*reference, "request")
    )]
    DifferentLengths {
        /// Requests in the reference.
        reference: u64,
        /// Requests in the other trace.
        other: u64,
    },
    /// The traces hold different requests.
    #[error(
        "request {index} in order of arrival is a {reference} in the reference, but a {other} in the other trace"
    )]
    DifferentRequests {
        /// The request, counted from zero in order of arrival.
        index: u64,
        /// The request in the reference.
        reference: Address,
        /// The request in the other trace.
        other: Address,
    },
    /// There is nothing to compare.
    #[error("no requests to compare")]
    Empty,
}
