//! System calls that no safe interface offers: `cachestat(2)`, and `open_by_handle_at(2)`.
#![expect(unsafe_code, reason = "no safe crate offers these system calls")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Number of cachestat(2), the same on all architectures.
const CACHESTAT: libc::c_long = 451;
/// Type of a file handle of inode and generation: `FILEID_INO32_GEN`.
const INODE_AND_GENERATION: i32 = 1;

/// `struct cachestat_range`, and `struct cachestat`.
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writing: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageCounts {
    /// Pages in memory, and those of them that are dirty.
    pub(super) cached: u64,
    pub(super) dirty: u64,
}

/// Counts the pages of a part of a file that are in memory. Reads nothing, and changes nothing.
pub(super) fn count_pages(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<PageCounts> {
    let range = Range { offset, length };
    let mut counts = Counts::default();
    // SAFETY: the kernel reads a `struct cachestat_range` and writes a `struct cachestat`, both of which live until it returns.
    let result = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0 as libc::c_uint)
    };
    match result {
        0 => Ok(PageCounts { cached: counts.cached, dirty: counts.dirty }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct file_handle` with its data.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    inode: u32,
    generation: u32,
}

/// Opens a file of the file system of `folder` by its inode, to read.
pub(super) fn open_inode(folder: &File, inode: u32, generation: u32) -> io::Result<File> {
    let mut handle = Handle { bytes: 8, kind: INODE_AND_GENERATION, inode, generation };
    let flags = libc::O_RDONLY | libc::O_NOATIME | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the kernel reads a `struct file_handle` with 8 bytes of data, which lives until it returns.
    let descriptor =
        unsafe { libc::syscall(libc::SYS_open_by_handle_at, folder.as_raw_fd(), &raw mut handle, flags) };
    match i32::try_from(descriptor) {
        // SAFETY: the descriptor is new, and belongs to nothing else.
        Ok(descriptor @ 0..) => Ok(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) })),
        _ => Err(io::Error::last_os_error()),
    }
}
