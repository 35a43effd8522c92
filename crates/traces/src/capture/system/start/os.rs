//! System calls that no safe interface offers: `cachestat(2)`, `open_by_handle_at(2)`, and the ioctl `FS_IOC_FIEMAP`.
#![expect(unsafe_code, reason = "no safe crate offers these system calls")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::ioctl::{Opcode, Updater, ioctl};

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

/// `FS_IOC_FIEMAP`.
const FIEMAP: Opcode = 0xc020_660b;
/// Extents that one call returns at most.
const EXTENTS: usize = 32;
/// Flags of an extent without a place: `UNKNOWN`, `DELALLOC`, `ENCODED` and `DATA_INLINE`.
const WITHOUT_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x200;
/// Flag of the last extent of a file.
const LAST: u32 = 0x1;

/// `struct fiemap` with room for extents, and `struct fiemap_extent`.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [MapExtent; EXTENTS],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct MapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_words: [u32; 3],
}

/// A part of a file and its place on the device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) length: u64,
}

/// Hands on the places of a part of a file. Data that has none yet is left out.
pub(super) fn places(
    file: BorrowedFd<'_>,
    (offset, length): (u64, u64),
    mut found: impl FnMut(Placed),
) -> io::Result<()> {
    let (mut start, end) = (offset, offset.saturating_add(length));
    while start < end {
        let mut map = Map {
            start,
            length: end - start,
            flags: 0,
            mapped: 0,
            room: EXTENTS as u32,
            reserved: 0,
            extents: [MapExtent::default(); EXTENTS],
        };
        // SAFETY: the kernel reads a `struct fiemap` and writes up to `room` extents behind it, all of them in `map`.
        unsafe { ioctl(file, Updater::<FIEMAP, Map>::new(&mut map)) }?;
        let extents = &map.extents[..EXTENTS.min(map.mapped as usize)];
        for extent in extents.iter().filter(|extent| extent.flags & WITHOUT_PLACE == 0) {
            let (first, last) =
                (extent.logical.max(start), extent.logical.saturating_add(extent.length).min(end));
            if first < last {
                let address = extent.physical.saturating_add(first - extent.logical);
                found(Placed { offset: first, address, length: last - first });
            }
        }
        start = match extents.last() {
            Some(last) if last.flags & LAST == 0 => last.logical.saturating_add(last.length).max(start + 1),
            _ => end,
        };
    }
    Ok(())
}
