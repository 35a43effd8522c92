//! State of a host at the beginning of a trace: open files, and what of the file system is in memory and dirty.
//!
//! ```text
//! /proc/PID/fd, fdinfo ────────────────────────────────────▶ open files
//! inode tables in memory ─▶ open by inode ─▶ cachestat(2) ─▶ pages of files
//! the device ──────────────────────────────▶ cachestat(2) ─▶ blocks of metadata
//! ```
//! Nothing is read from the device. A part whose pages differ is halved until they are alike, so the pages are known one by one.
//!
//! # Scope and limits
//! - Linux 6.5 and later. Before, the pages are not known ([`StartState::has_pages`]).
//! - At most [`RANGES_MAX`] parts. If there are more, or the file system has the feature `meta_bg`, the pages are not known.
//! - Opening a file by its inode brings the inode to the kernel's list of inodes, if only its block was in memory.
//! - A page that is being written counts as clean.

mod inode_table;
mod open_files;
mod os;
mod page_ranges;

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::io::{ReadWriteFlags, preadv2};
use serde::{Deserialize, Serialize};

use self::inode_table::{Layout, SUPER_BLOCK};
use self::page_ranges::page_ranges;
use crate::system::Output;
use crate::system::fields::PAGE_BYTES;
use crate::system::tables::{CachedRow, OpenFileRow};

/// Parts of files in memory that are recorded at most.
const RANGES_MAX: usize = 1 << 18;
/// Bytes of an inode table that are read at a time.
const TABLE_PART: u64 = 1 << 16;

/// State of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StartState {
    /// Open files of the file system.
    pub open_files: Vec<OpenFile>,
    /// Parts of files and of the device that are in memory.
    pub pages: Vec<CachedPart>,
    /// True if `pages` is known.
    pub has_pages: bool,
}

/// A file that a process has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    /// Number of the process.
    pub process: u32,
    /// Its descriptor.
    pub descriptor: u32,
    /// Inode of the file.
    pub inode: u64,
    /// Flags of open(2).
    pub flags: u64,
    /// Place at which the next transfer begins.
    pub offset_bytes: u64,
}

/// A part of a file, or of the device, that is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedPart {
    /// Inode of the file. `None` for the device: blocks of metadata.
    pub inode: Option<u64>,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes, in whole pages.
    pub length_bytes: u64,
    /// True if the part is dirty.
    pub is_dirty: bool,
}

impl StartState {
    /// Looks at the file system of the block device `device`, mounted at `point`.
    pub(super) fn collect(device: &Path, point: &Path) -> Self {
        let number = rustix::fs::stat(point).map_or(u64::MAX, |stat| stat.st_dev);
        let open_files = open_files::open_files(number);
        match pages(device, point) {
            Ok(pages) => Self { open_files, pages, has_pages: true },
            Err(_) => Self { open_files, ..Self::default() },
        }
    }
}

impl StartState {
    /// Hands the state on as rows.
    pub(super) fn rows(&self, sink: &mut impl FnMut(Output)) {
        for open in &self.open_files {
            let OpenFile { process, descriptor, inode, flags, offset_bytes } = *open;
            sink(Output::OpenFile(OpenFileRow { process, descriptor, inode, flags, offset_bytes }));
        }
        for part in &self.pages {
            let CachedPart { inode, offset_bytes, length_bytes, is_dirty } = *part;
            sink(Output::Cached(CachedRow { inode, offset_bytes, length_bytes, is_dirty }));
        }
    }
}

/// Parts of all files and of the device that are in memory.
fn pages(device: &Path, point: &Path) -> io::Result<Vec<CachedPart>> {
    let (device, folder) = (File::open(device)?, File::open(point)?);
    let mut found = Pages { parts: Vec::new(), left: RANGES_MAX };
    let size = rustix::fs::seek(&device, rustix::fs::SeekFrom::End(0))?;
    let unknown = || io::Error::from(io::ErrorKind::Unsupported);
    let block = read_cached(&device, SUPER_BLOCK)?;
    let layout = Layout::parse(&block).ok_or_else(unknown)?;
    for group in 0..layout.groups() {
        let Ok(descriptor) = read_cached(&device, layout.descriptor(group)) else { continue };
        let (table, length) = layout.table(&descriptor).ok_or_else(unknown)?;
        if os::count_pages(device.as_fd(), table, length)?.cached == 0 {
            continue;
        }
        for offset in (0..length).step_by(TABLE_PART as usize) {
            let part = TABLE_PART.min(length - offset);
            found.add_files(&device, &folder, &layout, group, (table, offset, part))?;
        }
    }
    found.add(&device, None, size.div_ceil(PAGE_BYTES))?;
    Ok(found.parts)
}

/// Pages that were found.
struct Pages {
    parts: Vec<CachedPart>,
    left: usize,
}

impl Pages {
    /// Adds the pages of the files whose inodes are in memory, in a part of an inode table: the table's place, and the offset and length of
    /// the part.
    fn add_files(
        &mut self,
        device: &File,
        folder: &File,
        layout: &Layout,
        group: u64,
        (table, offset, length): (u64, u64, u64),
    ) -> io::Result<()> {
        if os::count_pages(device.as_fd(), table + offset, length)?.cached == 0 {
            return Ok(());
        }
        // A page that is not in memory ends what can be read at a time.
        let end = offset + length;
        for offset in (offset..end).step_by(PAGE_BYTES as usize) {
            let bytes = PAGE_BYTES.min(end - offset) as usize;
            let Ok(page) = read_cached(device, (table + offset, bytes)) else { continue };
            for inode in layout.files(group, offset, &page) {
                let Ok(file) = os::open_inode(folder, inode.number, inode.generation) else { continue };
                let pages = file.metadata()?.len().div_ceil(PAGE_BYTES);
                self.add(&file, Some(inode.number.into()), pages)?;
            }
        }
        Ok(())
    }

    /// Adds the pages of a file that are in memory.
    fn add(&mut self, file: &File, inode: Option<u64>, pages: u64) -> io::Result<()> {
        let mut count = |first: u64, pages: u64| {
            os::count_pages(file.as_fd(), first * PAGE_BYTES, pages.saturating_mul(PAGE_BYTES))
        };
        let ranges = page_ranges(&mut count, 0, pages, &mut self.left)?;
        self.parts.extend(ranges.into_iter().map(|range| CachedPart {
            inode,
            offset_bytes: range.first * PAGE_BYTES,
            length_bytes: range.pages * PAGE_BYTES,
            is_dirty: range.is_dirty,
        }));
        Ok(())
    }
}

/// Reads a part of the device if all of it is in memory.
fn read_cached(device: &File, (offset, length): (u64, usize)) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let read = preadv2(device, &mut [IoSliceMut::new(&mut bytes)], offset, ReadWriteFlags::NOWAIT)?;
    if read < length {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Ok(bytes)
}
