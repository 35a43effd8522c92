//! State of a host at the beginning of a trace: open files, and what of the file system is in memory and dirty.
//!
//! ```text
//! /proc/PID/fd, fdinfo ────────────────────────────────────▶ open files
//! inode tables in memory ─▶ open by inode ─▶ cachestat(2) ─▶ pages of files ─▶ FIEMAP ─▶ their places
//! the device ──────────────────────────────▶ cachestat(2) ─▶ blocks of metadata
//! ```
//! Nothing is read from the device: the file system remembers the places of blocks that it has in memory. A part whose pages differ is halved
//! until they are alike, so the pages are known one by one. A place that is known before the first event is needed for what is
//! dirty: the file system looks it up once, when the block is changed.
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
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use self::inode_table::{Layout, SUPER_BLOCK};
use self::page_ranges::page_ranges;
use crate::system::Output;
use crate::system::fields::PAGE_BYTES;
use crate::system::tables::{CachedRow, ExtentRow, OpenFileRow};

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
    /// Places of the parts of files that are in memory.
    #[serde(default)]
    pub places: Vec<PartPlace>,
    /// True if `pages` is known.
    pub has_pages: bool,
}

/// Place of a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartPlace {
    /// Inode of the file.
    pub inode: u64,
    /// First block within the file.
    pub file_block: u64,
    /// First block within the file system.
    pub device_block: u64,
    /// Number of blocks.
    pub blocks: u32,
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
            Ok(Pages { parts, places, .. }) => Self { open_files, pages: parts, places, has_pages: true },
            Err(_) => Self { open_files, ..Self::default() },
        }
    }
}

impl StartState {
    /// Hands the state on as rows, at the time of the beginning.
    pub(super) fn rows(&self, time_ns: u64, sink: &mut impl FnMut(Output)) {
        for open in &self.open_files {
            let OpenFile { process, descriptor, inode, flags, offset_bytes } = *open;
            sink(Output::OpenFile(OpenFileRow { process, descriptor, inode, flags, offset_bytes }));
        }
        for part in &self.pages {
            let CachedPart { inode, offset_bytes, length_bytes, is_dirty } = *part;
            sink(Output::Cached(CachedRow { inode, offset_bytes, length_bytes, is_dirty }));
        }
        for place in &self.places {
            let PartPlace { inode, file_block, device_block, blocks } = *place;
            sink(Output::Extent(ExtentRow {
                time_ns,
                thread: None,
                inode,
                file_block,
                device_block,
                blocks,
            }));
        }
    }
}

/// Parts of all files and of the device that are in memory.
fn pages(device: &Path, point: &Path) -> io::Result<Pages> {
    let (device, folder) = (File::open(device)?, File::open(point)?);
    let size = rustix::fs::seek(&device, rustix::fs::SeekFrom::End(0))?;
    let unknown = || io::Error::from(io::ErrorKind::Unsupported);
    let block = read_cached(&device, SUPER_BLOCK)?;
    let layout = Layout::parse(&block).ok_or_else(unknown)?;
    let block_bytes = layout.block_bytes();
    let mut found = Pages { parts: Vec::new(), places: Vec::new(), block_bytes, left: RANGES_MAX };
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
    Ok(found)
}

/// Pages that were found.
struct Pages {
    parts: Vec<CachedPart>,
    places: Vec<PartPlace>,
    block_bytes: u64,
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
        for range in ranges {
            let (offset_bytes, length_bytes) = (range.first * PAGE_BYTES, range.pages * PAGE_BYTES);
            self.parts.push(CachedPart { inode, offset_bytes, length_bytes, is_dirty: range.is_dirty });
            if let Some(inode) = inode {
                self.add_places(file, inode, (offset_bytes, length_bytes));
            }
        }
        Ok(())
    }

    /// Adds the places of a part of a file. A file system that does not tell them leaves them unknown.
    fn add_places(&mut self, file: &File, inode: u64, part: (u64, u64)) {
        let (places, block_bytes) = (&mut self.places, self.block_bytes);
        let _ = os::places(file.as_fd(), part, |place| {
            if places.len() < RANGES_MAX {
                places.push(PartPlace {
                    inode,
                    file_block: place.offset / block_bytes,
                    device_block: place.address / block_bytes,
                    blocks: u32::try_from(place.length.div_ceil(block_bytes)).unwrap_or(u32::MAX),
                });
            }
        });
    }
}

/// Reads a part of the device if all of it is in memory.
///
/// A read with `RWF_NOWAIT` refuses pages that a file system filled block by block, as ext4 does with its metadata: their blocks are
/// in memory, and the page is not marked so. A usual read takes them as they are.
fn read_cached(device: &File, (offset, length): (u64, usize)) -> io::Result<Vec<u8>> {
    let first = offset / PAGE_BYTES * PAGE_BYTES;
    let last = (offset + length as u64).next_multiple_of(PAGE_BYTES);
    if os::count_pages(device.as_fd(), first, last - first)?.cached < (last - first) / PAGE_BYTES {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let mut bytes = vec![0; length];
    device.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}
