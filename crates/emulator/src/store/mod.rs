//! The store (data manager): keeps the bytes of an emulated device.
//!
//! ```text
//! frontend ─▶ Store ─┬▶ RamStore   pages in memory, up to a cap
//!                    └▶ FileStore  a sparse file or block device; Transfers: many operations on it at a time
//! ```
//! The models know when a request completes and nothing of its bytes; the store knows the bytes
//! and nothing of time. What was never written, was discarded or zeroed reads as zeroes, so
//! contents depend on the requests alone and not on the backend.
//!
//! Every operation takes `&self` and may come from any number of threads. Offsets and lengths are
//! bytes of any alignment; a range that leaves the device is refused whole.
//!
//! ```
//! use seeklab_core::units::ByteSize;
//! use seeklab_emulator::store::Store;
//!
//! let store = Store::in_ram(ByteSize::from_bytes(1 << 40), None)?;
//! store.write(1 << 39, b"superblock")?;
//! let mut buffer = [0xff; 12];
//! store.read((1 << 39) - 1, &mut buffer)?;
//! assert_eq!(&buffer, b"\0superblock\0");
//! assert!(store.allocated_bytes()?.as_bytes() < 64 << 10);
//! # Ok::<(), seeklab_emulator::store::StoreError>(())
//! ```
//! # References
//! J. L. Griffin, Timing-accurate storage emulation, CMU, 2004: section 3.3.3 (data manager).

mod budget;
mod chunk;
mod error;
mod extent;
mod file;
mod image;
mod lock;
mod memory;
mod ram;
mod ready;
mod rot;
mod sparse;
mod transfers;
mod zeroes;

use std::path::Path;
use std::sync::Arc;

use seeklab_core::units::ByteSize;

pub use error::StoreError;
pub use extent::{Allocation, Extent, Extents};
pub use file::{Access, FileStore};
pub use image::image_size;
pub use memory::{available_memory, default_cap};
pub use ram::RamStore;
pub use rot::rot;
pub use transfers::{Token, TransferResult, Transfers, Work};

/// The bytes of a device.
#[derive(Debug)]
pub enum Store {
    /// In memory, gone with the emulator.
    Ram(RamStore),
    /// In a file, kept.
    File(Arc<FileStore>),
}

impl Store {
    /// An empty store in memory that takes at most `cap`; by default [`default_cap`].
    pub fn in_ram(size: ByteSize, cap: Option<ByteSize>) -> Result<Self, StoreError> {
        RamStore::new(size, cap.unwrap_or_else(default_cap)).map(Self::Ram)
    }

    /// Keeps pages of a store in memory ready, see [`RamStore::with_pages_ready`].
    #[must_use]
    pub fn with_pages_ready(self) -> Self {
        match self {
            Self::Ram(ram) => Self::Ram(ram.with_pages_ready()),
            file @ Self::File(_) => file,
        }
    }

    /// Makes some pages ready in place of those that were used.
    pub(crate) fn refill(&self) {
        if let Self::Ram(ram) = self {
            ram.refill();
        }
    }

    /// Returns true if [`refill`](Self::refill) has something to do.
    pub(crate) fn is_short_of_pages(&self) -> bool {
        matches!(self, Self::Ram(ram) if ram.is_short_of_pages())
    }

    /// The store in the file at `path`, see [`FileStore::open`].
    pub fn in_file(path: &Path, size: ByteSize, access: Access) -> Result<Self, StoreError> {
        FileStore::open(path, size, access).map(|file| Self::File(Arc::new(file)))
    }

    /// The size of the device.
    pub fn size(&self) -> ByteSize {
        match self {
            Self::Ram(ram) => ram.size(),
            Self::File(file) => file.size(),
        }
    }

    /// Fills `buffer` from the bytes at `offset`.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        self.end_of(offset, buffer.len() as u64)?;
        match self {
            Self::Ram(ram) => {
                ram.read(offset, buffer);
                Ok(())
            }
            Self::File(file) => file.read(offset, buffer),
        }
    }

    /// Writes `bytes` at `offset`. If there is no space in memory nothing is changed; if there is
    /// none in a file, part of it may be written, as on a disk that fails.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.end_of(offset, bytes.len() as u64)?;
        match self {
            Self::Ram(ram) => ram.write(offset, bytes),
            Self::File(file) => file.write(offset, bytes),
        }
    }

    /// Writes like [`Store::write`], and returns when these bytes are as durable as after
    /// [`Store::flush`] (force unit access).
    pub fn write_fua(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.end_of(offset, bytes.len() as u64)?;
        match self {
            Self::Ram(ram) => ram.write(offset, bytes),
            Self::File(file) => file.write_fua(offset, bytes),
        }
    }

    /// Gives the space of `length` bytes at `offset` back; they read as zeroes from now on.
    pub fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        self.write_zeroes(offset, length, true)
    }

    /// Zeroes `length` bytes at `offset`. With `may_unmap` their space is given back; without, what
    /// takes space goes on to, and a file takes it for the holes too. (Memory does not: a guest that
    /// zeroes a terabyte has not used any.)
    pub fn write_zeroes(&self, offset: u64, length: u64, may_unmap: bool) -> Result<(), StoreError> {
        self.end_of(offset, length)?;
        match self {
            Self::Ram(ram) => {
                ram.zero(offset, length, may_unmap);
                Ok(())
            }
            Self::File(file) if may_unmap => file.discard(offset, length),
            Self::File(file) => file.zero(offset, length),
        }
    }

    /// Returns when everything whose operation returned before is where it should be: in memory it
    /// is already; for a file, on the medium.
    pub fn flush(&self) -> Result<(), StoreError> {
        match self {
            Self::Ram(_) => Ok(()),
            Self::File(file) => file.flush(),
        }
    }

    /// Returns the space that the store takes: memory with its tables, or space on the file system.
    pub fn allocated_bytes(&self) -> Result<ByteSize, StoreError> {
        match self {
            Self::Ram(ram) => Ok(ram.allocated_bytes()),
            Self::File(file) => file.allocated_bytes(),
        }
    }

    /// Returns the extents of the `length` bytes at `offset`, with their allocation states.
    pub fn extents(&self, offset: u64, length: u64) -> Result<Extents<'_>, StoreError> {
        let end = self.end_of(offset, length)?;
        Ok(Extents::new(self, offset, end))
    }

    /// Returns the extent that starts at `offset`, up to `end` at most, as far as one lookup shows.
    fn extent_at(&self, offset: u64, end: u64) -> Result<Extent, StoreError> {
        match self {
            Self::Ram(ram) => Ok(ram.extent_at(offset, end)),
            Self::File(file) => file.extent_at(offset, end),
        }
    }

    /// The end of a range, if that lies within the device.
    fn end_of(&self, offset: u64, length: u64) -> Result<u64, StoreError> {
        let size = self.size();
        offset.checked_add(length).filter(|end| *end <= size.as_bytes()).ok_or(StoreError::OutOfRange {
            offset,
            length,
            size,
        })
    }
}
