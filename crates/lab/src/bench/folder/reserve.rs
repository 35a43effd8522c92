//! Space that is kept free for the end of a run, so that its results fit on a disk that becomes full.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use seeklab_core::ByteSize;

use crate::bench::free_space::free_space;
use crate::failure::Failure;

/// Name of the file that takes the space.
const FILE: &str = ".reserve";
/// Space at the begin.
const BYTES_MIN: u64 = 1 << 20;
/// Space for each byte that was appended so far: the results at the end have the same figures in other forms.
const PER_BYTE: u64 = 3;

/// A file without contents that takes space. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    appended: u64,
    is_full: bool,
}

impl Reserve {
    /// Takes the first space in `folder`. A file system that cannot reserve space has none.
    ///
    /// # Errors
    /// If so much space is not free.
    pub(super) fn take(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(FILE);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path).ok();
        let mut this = Self { path, file, bytes: 0, appended: 0, is_full: false };
        this.grow(BYTES_MIN);
        if !this.is_full {
            return Ok(this);
        }
        let free = free_space(folder).unwrap_or(ByteSize::from_bytes(0));
        let needed = ByteSize::from_bytes(BYTES_MIN);
        Err(Failure::new(format!(
            "{}: {free} are free on its disk, and the results of a run take at least {needed}",
            folder.display()
        ))
        .hint("free space there, or name a folder on another disk with --folder"))
    }

    /// Bytes were appended to the folder. Returns true if the disk became full just now.
    pub(super) fn appended(&mut self, bytes: usize) -> bool {
        self.appended += bytes as u64;
        if self.appended * PER_BYTE <= self.bytes || self.is_full {
            return false;
        }
        self.grow(self.bytes * 2);
        self.is_full
    }

    /// True if there is no space left beside this.
    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Bytes could not be appended.
    pub(super) const fn set_full(&mut self) {
        self.is_full = true;
    }

    fn grow(&mut self, bytes: u64) {
        let Some(file) = &self.file else { return };
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => self.bytes = bytes,
            Err(Errno::NOSPC | Errno::DQUOT) => self.is_full = true,
            // Not every file system can.
            Err(_) => self.file = None,
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // A file that stays says nothing wrong.
        let _ = fs::remove_file(&self.path);
    }
}
