//! Reasons for the failure of a command, and the error numbers by which clients learn of them.
//!
//! | reason | NBD | file | block layer |
//! | --- | --- | --- | --- |
//! | `Medium` | `EIO` | `EIO` | `ENODATA`: medium error |
//! | `Timeout` | `EIO` | `ETIMEDOUT` | `ETIMEDOUT`: timeout |
//! | `Gone` | `ESHUTDOWN` | `ESHUTDOWN` | `ENOLINK`: transport error |
//! | `Permission` | `EPERM` | `EROFS` | `EREMOTEIO`: target error |
//! | `NoSpace` | `ENOSPC` | `ENOSPC` | `ENOSPC`: no space |
//!
//! NBD has no error number for a timeout. The numbers for the block layer are those that Linux turns into the status
//! by which a SCSI disk fails in the same way. The other reasons have the same number everywhere.
//!
//! # References
//! Linux, `block/blk-core.c` (`errno_to_blk_status`) and `drivers/scsi/scsi_lib.c` (`scsi_result_to_blk_status`).
//! The NBD protocol, "Error values".

use rustix::io::Errno;
use seeklab_core::Status;

/// Reason for the failure of a command, in the common terms of block protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// The device refuses writes.
    Permission,
    /// The device failed.
    Io,
    /// A block cannot be read or written on the media.
    Medium,
    /// No answer came in time.
    Timeout,
    /// No memory to serve it.
    NoMemory,
    /// The command makes no sense: out of range, unaligned, unknown.
    Invalid,
    /// Beyond the end of the device, or no space for the data.
    NoSpace,
    /// The answer does not fit in one piece as requested.
    Overflow,
    /// Not supported.
    NotSupported,
    /// The device is not there.
    Gone,
    /// The server is going away.
    ShuttingDown,
}

/// Reader of the error numbers of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorReader {
    /// A program that uses the file.
    Program,
    /// The kernel, which makes a block device of the file.
    BlockLayer,
}

impl ErrorCode {
    /// Returns the error that clients get for that status of a completion, or `None` if the request was carried out.
    pub const fn of(status: Status) -> Option<Self> {
        match status {
            Status::Ok | Status::Recovered => None,
            Status::MediumError => Some(Self::Medium),
            Status::Aborted => Some(Self::Io),
            Status::Timeout => Some(Self::Timeout),
            Status::WriteProtected => Some(Self::Permission),
            Status::NoSpace => Some(Self::NoSpace),
            Status::Gone => Some(Self::Gone),
        }
    }

    /// Returns the error number of the NBD protocol, equal on all architectures.
    pub(super) const fn nbd_number(self) -> u32 {
        match self {
            Self::Permission => 1,
            Self::Io | Self::Medium | Self::Timeout => 5,
            Self::NoMemory => 12,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Overflow => 75,
            Self::NotSupported => 95,
            Self::Gone | Self::ShuttingDown => 108,
        }
    }

    /// Returns the error number of this machine for a request to a file.
    pub(super) const fn file_number(self, reader: ErrorReader) -> i32 {
        let number = match (self, reader) {
            (Self::Permission, ErrorReader::Program) => Errno::ROFS,
            (Self::Permission, ErrorReader::BlockLayer) => Errno::REMOTEIO,
            (Self::Medium, ErrorReader::BlockLayer) => Errno::NODATA,
            (Self::Gone, ErrorReader::BlockLayer) => Errno::NOLINK,
            (Self::Io | Self::Medium, _) => Errno::IO,
            (Self::Timeout, _) => Errno::TIMEDOUT,
            (Self::NoMemory, _) => Errno::NOMEM,
            (Self::Invalid, _) => Errno::INVAL,
            (Self::NoSpace, _) => Errno::NOSPC,
            (Self::Overflow, _) => Errno::OVERFLOW,
            (Self::NotSupported, _) => Errno::OPNOTSUPP,
            (Self::Gone | Self::ShuttingDown, _) => Errno::SHUTDOWN,
        };
        number.raw_os_error()
    }

    /// Returns the message for clients that can take one.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::Permission => "the device is read-only",
            Self::Io => "the device failed",
            Self::Medium => "medium error",
            Self::Timeout => "the device did not answer in time",
            Self::NoMemory => "the server has no memory for it",
            Self::Invalid => "the request makes no sense",
            Self::NoSpace => "no space left",
            Self::Overflow => "the answer does not fit in one piece",
            Self::NotSupported => "not supported",
            Self::Gone => "the device is gone",
            Self::ShuttingDown => "the server is shutting down",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_error_numbers() {
        for (status, numbers) in [
            (Status::Ok, None),
            (Status::Recovered, None),
            (Status::MediumError, Some((5, 5, 61))),
            (Status::Aborted, Some((5, 5, 5))),
            (Status::Timeout, Some((5, 110, 110))),
            (Status::WriteProtected, Some((1, 30, 121))),
            (Status::NoSpace, Some((28, 28, 28))),
            (Status::Gone, Some((108, 108, 67))),
        ] {
            let found = ErrorCode::of(status).map(|code| {
                let file = |reader| code.file_number(reader);
                (code.nbd_number(), file(ErrorReader::Program), file(ErrorReader::BlockLayer))
            });
            assert_eq!(found, numbers, "{status:?}");
        }
    }

    #[test]
    fn block_layer_makes_the_same_status_of_the_error_number() {
        for status in [Status::MediumError, Status::Aborted, Status::Timeout, Status::NoSpace, Status::Gone] {
            let number = ErrorCode::of(status).unwrap().file_number(ErrorReader::BlockLayer);
            assert_eq!(Status::from_errno(number.unsigned_abs()), status);
        }
    }
}
