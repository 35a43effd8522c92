//! Errors of the store.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use seeklab_core::units::ByteSize;

/// Reason why the store refused or failed an operation: the variant is the kind, its fields give place and
/// size.
///
/// After any error the store remains usable, and keeps its contents. The one exception is a failed flush, see
/// [`StoreError::FlushFailedBefore`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The range does not lie within the device.
    #[error("{length} bytes at byte {offset} reach beyond the device's {size}")]
    OutOfRange {
        /// Start of the range, in bytes.
        offset: u64,
        /// Its length, in bytes.
        length: u64,
        /// The size of the device.
        size: ByteSize,
    },
    /// Memory is used up to the cap.
    #[error("store is full: it may keep {cap} in memory")]
    NoSpace {
        /// Memory limit of the store.
        cap: ByteSize,
    },
    /// The allocator had nothing more to give, although the cap would have allowed it.
    #[error("no memory for another {needed}, below the store's cap")]
    NoMemory {
        /// Requested memory.
        needed: ByteSize,
    },
    /// The file system under the file or image is full.
    #[error("no space left for `{path}`")]
    FileSystemFull {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The operating system refused or failed an operation on a file.
    #[error("cannot {operation} `{path}`")]
    Io {
        /// Operation that failed, as a verb.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// An earlier flush failed, so what was written before it may be lost, and the operating
    /// system reports that only once; no later flush of this store can promise it any more.
    #[error("an earlier flush of `{path}` failed; what was written before it may be lost")]
    FlushFailedBefore {
        /// The file.
        path: PathBuf,
    },
    /// The file or image does not fit the device.
    #[error("`{path}` holds {found}, but the device {expected}")]
    SizeMismatch {
        /// The file or image.
        path: PathBuf,
        /// Its size.
        found: ByteSize,
        /// The size of the device.
        expected: ByteSize,
    },
    /// Another emulator uses the file.
    #[error("`{path}` is in use by another emulator")]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A write to a store that was opened for reading only.
    #[error("`{path}` was opened for reading only")]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The path names something that cannot hold a device: a directory, a pipe, a terminal.
    #[error("`{path}` is neither a regular file nor a block device")]
    Unsuitable {
        /// The path.
        path: PathBuf,
    },
}

impl StoreError {
    /// The failure of `operation` (a verb) on the file at `path`.
    pub(super) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::FileSystemFull { path, source }
            }
            _ => Self::Io { operation, path, source },
        }
    }

    /// The error number that a block device answers with; NBD uses the same ones.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Self::OutOfRange { .. } => Errno::INVAL,
            Self::NoSpace { .. } | Self::NoMemory { .. } | Self::FileSystemFull { .. } => Errno::NOSPC,
            Self::ReadOnly { .. } => Errno::PERM,
            _ => Errno::IO,
        };
        errno.raw_os_error()
    }

    /// Returns the remedy, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoSpace { .. } => {
                Some("raise the cap, or keep the data in a file with `--store file:PATH`".to_owned())
            }
            Self::NoMemory { .. } => Some("keep the data in a file with `--store file:PATH`".to_owned()),
            Self::SizeMismatch { found, .. } => {
                Some(format!("choose a file made for this device, or give the device `--size {found}`"))
            }
            Self::Locked { .. } => Some("stop the other emulator, or give each its own file".to_owned()),
            _ => None,
        }
    }
}
