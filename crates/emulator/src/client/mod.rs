//! The other end of the wire: clients of ours, for calibration, measurement and built-in workloads.
//!
//! ```text
//! submit ─▶ first byte sent (issue) ──── MP1 ──── last byte received (completion) ─▶ collect
//! ```
//! A client stamps every request at measurement point MP1, what a host's driver would see, on the clock it
//! is given: with [`Clock::from_origin_ns`](crate::clock::Clock::from_origin_ns) the stamps of several
//! processes compare.
//!
//! # Scope and limits
//! One thread, one connection per client; no privilege. Clients of other frontends would go beside
//! [`nbd`] and share [`Command`], [`Reply`] and [`HostRequest`].

mod content;
mod error;
pub mod file;
pub mod jobs;
pub mod nbd;
mod promised;
pub mod runner;
mod volatile;

use seeklab_core::{HostRequest, Instant, Operation};

pub use error::{ClientError, Failure};
pub use promised::Promises;
pub use runner::{BuiltinResult, Progress, RunnerOptions, run_builtin, run_builtin_with};

/// A request to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command<'a> {
    /// The caller's name for it; it comes back with the [`Reply`].
    pub tag: u64,
    /// Operation.
    pub op: Operation,
    /// Complete only when the written data are on the media.
    pub fua: bool,
    /// First byte addressed; 0 for a flush.
    pub offset_bytes: u64,
    /// Length in bytes, at least one except for a flush.
    pub length_bytes: u32,
    /// A write's bytes, exactly `length_bytes`; empty for all else.
    pub data: &'a [u8],
}

impl<'a> Command<'a> {
    const fn new(tag: u64, op: Operation, offset_bytes: u64, length_bytes: u32) -> Self {
        Self { tag, op, fua: false, offset_bytes, length_bytes, data: &[] }
    }

    /// Brings bytes.
    pub const fn read(tag: u64, offset_bytes: u64, length_bytes: u32) -> Self {
        Self::new(tag, Operation::Read, offset_bytes, length_bytes)
    }

    /// Takes bytes.
    ///
    /// # Panics
    /// If there are 4 GiB or more of them.
    pub const fn write(tag: u64, offset_bytes: u64, data: &'a [u8]) -> Self {
        assert!(data.len() <= u32::MAX as usize, "a write's length has 32 bits");
        Self { data, ..Self::new(tag, Operation::Write, offset_bytes, data.len() as u32) }
    }

    /// Makes every completed write durable.
    pub const fn flush(tag: u64) -> Self {
        Self::new(tag, Operation::Flush, 0, 0)
    }

    /// Returns a command that marks bytes as no longer needed.
    pub const fn discard(tag: u64, offset_bytes: u64, length_bytes: u32) -> Self {
        Self::new(tag, Operation::Discard, offset_bytes, length_bytes)
    }

    /// Fills with zeroes.
    pub const fn write_zeroes(tag: u64, offset_bytes: u64, length_bytes: u32) -> Self {
        Self::new(tag, Operation::WriteZeroes, offset_bytes, length_bytes)
    }

    /// With force unit access, where `fua`.
    #[must_use]
    pub const fn fua(self, fua: bool) -> Self {
        Self { fua, ..self }
    }
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The command's tag.
    pub tag: u64,
    /// The request, with its times.
    pub request: HostRequest,
    /// Data of a read, exactly the requested length; empty for other operations and for failures.
    pub data: &'a [u8],
    /// Reason for the failure, if the request failed.
    pub failure: Option<Failure>,
}

/// Limit of the time to wait for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Not at all: take what is there. A loop around it spins.
    None,
    /// Asleep, until then at most, on the client's clock.
    Until(Instant),
    /// Asleep, until a reply comes or the server goes.
    Unlimited,
}
