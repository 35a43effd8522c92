//! Reasons for the failure of a command.

use seeklab_core::Status;

/// Reason for the failure of a command, in the common terms of block protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// The device is read-only (`EPERM`).
    Permission = 1,
    /// The media failed (`EIO`).
    Io = 5,
    /// No memory to serve it (`ENOMEM`).
    NoMemory = 12,
    /// The command makes no sense: out of range, unaligned, unknown (`EINVAL`).
    Invalid = 22,
    /// Beyond the end of the device, or the store is full (`ENOSPC`).
    NoSpace = 28,
    /// The answer does not fit in one piece as requested (`EOVERFLOW`).
    Overflow = 75,
    /// Not supported (`ENOTSUP`).
    NotSupported = 95,
    /// The server is going away (`ESHUTDOWN`).
    ShuttingDown = 108,
}

impl ErrorCode {
    /// Returns the error that clients get for that status of a completion, or `None` if the request was carried out.
    pub const fn of(status: Status) -> Option<Self> {
        match status {
            Status::Ok | Status::Recovered => None,
            Status::MediumError | Status::Aborted | Status::Timeout => Some(Self::Io),
            Status::WriteProtected => Some(Self::Permission),
            Status::NoSpace => Some(Self::NoSpace),
            Status::Gone => Some(Self::ShuttingDown),
        }
    }
}
