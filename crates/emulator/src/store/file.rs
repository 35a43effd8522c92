//! The store in a file: for data larger than memory, and for devices that are kept.
//!
//! The file is the device, byte by byte, and sparse: any tool that reads raw images reads it. A
//! block device serves as well, if it is large enough.
//!
//! # Durability
//! [`FileStore::flush`] returns when `fdatasync` has. A write alone survives the death of the
//! emulator, for the page cache is the system's, but not the system's.
//!
//! # Scope and limits
//! - Reads and writes of this type are synchronous (`pread`, `pwrite`): they go through the page cache, and what
//!   is not in it makes the caller wait. [`Transfers`](super::Transfers) is the asynchronous path over it.
//! - The lock is advisory and keeps emulators from each other, not other programs from the file.
//! - Discarding is exact, to the byte, and what was discarded reads as zeroes. Where the file
//!   system has no holes this is done by reading and writing, and takes as long as that.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use seeklab_core::units::ByteSize;

use super::{Extent, StoreError, lock, sparse};

/// Access of a store to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only; any number of readers share the file.
    ReadOnly,
    /// Read and write, alone; the file is made if there is none.
    ReadWrite,
}

/// Keeps what was written in a sparse file or a block device.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    path: PathBuf,
    size: ByteSize,
    access: Access,
    flush_failed: AtomicBool,
}

impl FileStore {
    /// Opens the file at `path` for a device of `size`, and keeps others from it until dropped.
    ///
    /// A file that is new or empty becomes a hole of that size; another size is refused. A block
    /// device may be larger.
    pub fn open(path: &Path, size: ByteSize, access: Access) -> Result<Self, StoreError> {
        let failed = |operation| move |error| StoreError::io(operation, path, error);
        let (file, is_ours) = open_or_make(path, access).map_err(failed("open"))?;
        lock::take(&file, path, access)?;
        let mut found = sparse::size_of(&file, path)?;
        let is_file = file.metadata().map_err(failed("look at"))?.is_file();
        if is_file && found.as_bytes() == 0 && access == Access::ReadWrite {
            let made = file.set_len(size.as_bytes()).and_then(|()| file.sync_all());
            if let Err(error) = made.and_then(|()| sync_folder_of(path)) {
                if is_ours {
                    // Nobody else's, for it is locked; and that it stays is the smaller trouble.
                    let _ = fs::remove_file(path);
                }
                return Err(StoreError::io("make", path, error));
            }
            found = size;
        }
        let fits = if is_file { found == size } else { found >= size };
        if !fits {
            return Err(StoreError::SizeMismatch { path: path.to_owned(), found, expected: size });
        }
        Ok(Self { file, path: path.to_owned(), size, access, flush_failed: AtomicBool::new(false) })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn size(&self) -> ByteSize {
        self.size
    }

    /// Returns the space that the file takes, as its file system reports it. A block device takes its own size.
    pub(super) fn allocated_bytes(&self) -> Result<ByteSize, StoreError> {
        // POSIX leaves the unit of `st_blocks` open; on Linux it is 512 bytes everywhere.
        const STAT_BLOCK_BYTES: u64 = 512;
        let metadata = self.file.metadata().map_err(self.failed("look at"))?;
        let is_file = metadata.is_file();
        Ok(if is_file { ByteSize::from_bytes(metadata.blocks() * STAT_BLOCK_BYTES) } else { self.size })
    }

    fn failed(&self, operation: &'static str) -> impl Fn(io::Error) -> StoreError {
        move |error| StoreError::io(operation, &self.path, error)
    }

    fn writable(&self) -> Result<&File, StoreError> {
        match self.access {
            Access::ReadWrite => Ok(&self.file),
            Access::ReadOnly => Err(StoreError::ReadOnly { path: self.path.clone() }),
        }
    }

    /// Another descriptor of the same open file.
    pub(super) fn descriptor(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Checks that an operation on the range would be attempted at all.
    pub(super) fn admits(&self, offset: u64, length: u64, changes: bool) -> Result<(), StoreError> {
        if changes {
            self.writable()?;
        }
        let end = offset.checked_add(length).filter(|end| *end <= self.size.as_bytes());
        end.map(drop).ok_or(StoreError::OutOfRange { offset, length, size: self.size })
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        self.file.read_exact_at(buffer, offset).map_err(self.failed("read"))
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.writable()?.write_all_at(bytes, offset).map_err(self.failed("write"))
    }

    /// Writes, and returns when the bytes are where [`FileStore::flush`] puts them; what was
    /// written before need not be.
    pub(super) fn write_fua(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let file = self.writable()?;
        let mut done = 0;
        while done < bytes.len() {
            let rest = [IoSlice::new(&bytes[done..])];
            match pwritev2(file, &rest, offset + done as u64, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(self.failed("write")(io::ErrorKind::WriteZero.into())),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    self.write(offset + done as u64, &bytes[done..])?;
                    return self.flush();
                }
                Err(error) => {
                    // Space is found or not before anything is written. Another failure may be one
                    // of writing back, of earlier writes too, which the system tells only once.
                    if !matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::FBIG) {
                        self.flush_failed.store(true, Ordering::Release);
                    }
                    return Err(self.failed("write")(error.into()));
                }
            }
        }
        Ok(())
    }

    pub(super) fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        sparse::punch(self.writable()?, offset, length).map_err(self.failed("discard in"))
    }

    pub(super) fn zero(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        sparse::zero(self.writable()?, offset, length).map_err(self.failed("zero in"))
    }

    /// Returns when everything written before is on the medium, as far as the system knows.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        if self.flush_failed.load(Ordering::Acquire) {
            return Err(StoreError::FlushFailedBefore { path: self.path.clone() });
        }
        self.file.sync_data().map_err(|error| {
            self.flush_failed.store(true, Ordering::Release);
            self.failed("flush")(error)
        })
    }

    /// Returns the extent that starts at `offset`, up to `end` at most, as far as one lookup shows.
    pub(super) fn extent_at(&self, offset: u64, end: u64) -> Result<Extent, StoreError> {
        sparse::extent_at(&self.file, offset, end).map_err(self.failed("find the holes of"))
    }
}

/// The file at `path`, and whether it was made just now.
fn open_or_make(path: &Path, access: Access) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true);
    if access == Access::ReadWrite {
        match options.write(true).create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok((made?, true)),
        }
    }
    Ok((options.create_new(false).open(path)?, false))
}

/// Makes the name of a new file as durable as the file.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// The folder that `path` is in.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
