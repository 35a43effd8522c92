//! The real file or device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use seeklab_core::units::ByteSize;
use thiserror::Error;

use crate::frontend::ErrorCode;
use crate::store::{Access, Store, StoreError};

/// Bytes at a multiple of which buffers start: that of a page, which any device is content with.
const ALIGNMENT: usize = 4096;

/// Bytes in memory that a device can reach directly.
#[derive(Debug)]
pub(super) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    pub(super) fn zeroed(length: usize) -> Self {
        let memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { start, length, memory }
    }

    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut this = Self::zeroed(bytes.len());
        this.bytes_mut().copy_from_slice(bytes);
        this
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

/// Reason why a file or device cannot be a backing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BackingError {
    /// The file or device cannot be examined or opened.
    #[error("`{}` cannot be opened", path.display())]
    Open {
        /// The file or device.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The path is neither a file nor a block device, or is empty.
    #[error("`{}` is empty, or neither a file nor a block device", path.display())]
    Nothing {
        /// Path that was given.
        path: PathBuf,
    },
    /// The size is no whole number of blocks.
    #[error("`{}` holds {size}, which is no whole number of blocks of {block_bytes} bytes", path.display())]
    Blocks {
        /// The file.
        path: PathBuf,
        /// Size of the file or device.
        size: ByteSize,
        /// Bytes of a block.
        block_bytes: u32,
    },
    /// The file or device is in use, or cannot be locked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A real file or block device, open for as long as this lives and locked against other emulators.
#[derive(Debug)]
pub struct Backing {
    store: Store,
    /// Past the page cache.
    direct: Option<File>,
    block_bytes: u32,
}

impl Backing {
    /// Opens the file or block device at `path`, which has to be there.
    ///
    /// # Errors
    /// A path that cannot be opened, or is neither a file nor a block device of a size that can be served.
    pub fn open(path: &Path, access: Access) -> Result<Self, BackingError> {
        let failed = |source| BackingError::Open { path: path.to_owned(), source };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        let kind = metadata.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(BackingError::Nothing { path: path.to_owned() });
        }
        let size = if kind.is_file() {
            metadata.len()
        } else {
            io::Seek::seek(&mut File::open(path).map_err(failed)?, io::SeekFrom::End(0)).map_err(failed)?
        };
        if size == 0 {
            return Err(BackingError::Nothing { path: path.to_owned() });
        }
        let direct = OpenOptions::new()
            .read(true)
            .write(access == Access::ReadWrite)
            .custom_flags(i32::try_from(rustix::fs::OFlags::DIRECT.bits()).expect("it is a small number"))
            .open(path)
            .ok();
        // The smallest block that it reads directly is the block of the device.
        let reads = |file: &File, bytes: u32| {
            let mut buffer = Aligned::zeroed(bytes as usize);
            u64::from(bytes) <= size && file.read_exact_at(buffer.bytes_mut(), 0).is_ok()
        };
        let block = |file: &File| [512, 4096].into_iter().find(|bytes| reads(file, *bytes));
        let found = direct.as_ref().and_then(block);
        let direct = direct.filter(|_| found.is_some());
        let block_bytes = found.unwrap_or(512);
        if !size.is_multiple_of(u64::from(block_bytes)) {
            let size = ByteSize::from_bytes(size);
            return Err(BackingError::Blocks { path: path.to_owned(), size, block_bytes });
        }
        let store = Store::in_file(path, ByteSize::from_bytes(size), access)?;
        Ok(Self { store, direct, block_bytes })
    }

    /// Returns the size.
    pub fn size(&self) -> ByteSize {
        self.store.size()
    }

    /// Bytes of its logical blocks.
    pub const fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Returns true if requests bypass the page cache.
    pub const fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    pub(super) fn read(&self, offset: u64, length: u64) -> Result<Aligned, ErrorCode> {
        let length = usize::try_from(length).map_err(|_| ErrorCode::Invalid)?;
        let mut buffer = Aligned::zeroed(length);
        match &self.direct {
            Some(file) => file.read_exact_at(buffer.bytes_mut(), offset).map_err(|error| code(&error))?,
            None => self.store.read(offset, buffer.bytes_mut()).map_err(|error| code_of(&error))?,
        }
        Ok(buffer)
    }

    pub(super) fn write(&self, offset: u64, bytes: &Aligned, durably: bool) -> Result<(), ErrorCode> {
        let Some(file) = &self.direct else {
            let write = if durably { Store::write_fua } else { Store::write };
            return write(&self.store, offset, bytes.bytes()).map_err(|error| code_of(&error));
        };
        file.write_all_at(bytes.bytes(), offset).map_err(|error| code(&error))?;
        if durably { self.flush() } else { Ok(()) }
    }

    /// Brings everything written before to the medium.
    pub(super) fn flush(&self) -> Result<(), ErrorCode> {
        self.store.flush().map_err(|error| code_of(&error))
    }

    pub(super) fn discard(&self, offset: u64, length: u64) -> Result<(), ErrorCode> {
        self.store.discard(offset, length).map_err(|error| code_of(&error))
    }

    pub(super) fn write_zeroes(
        &self,
        offset: u64,
        length: u64,
        may_discard: bool,
        durably: bool,
    ) -> Result<(), ErrorCode> {
        self.store.write_zeroes(offset, length, may_discard).map_err(|error| code_of(&error))?;
        if durably { self.flush() } else { Ok(()) }
    }
}

fn code_of(error: &StoreError) -> ErrorCode {
    code(&io::Error::from_raw_os_error(error.errno()))
}

fn code(error: &io::Error) -> ErrorCode {
    match error.raw_os_error() {
        Some(1 | 13 | 30) => ErrorCode::Permission,
        Some(12) => ErrorCode::NoMemory,
        Some(22) => ErrorCode::Invalid,
        Some(28 | 122) => ErrorCode::NoSpace,
        Some(95) => ErrorCode::NotSupported,
        _ => ErrorCode::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_any_length_are_aligned() {
        for length in [0, 1, 511, 4096, 70_000] {
            let aligned = Aligned::of(&vec![7; length]);
            assert_eq!(aligned.bytes().len(), length);
            assert_eq!(aligned.bytes().as_ptr().align_offset(ALIGNMENT), 0);
            assert!(aligned.bytes().iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn unsuitable_backings_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| Backing::open(path, Access::ReadWrite).unwrap_err();
        assert!(matches!(open(&folder.path().join("none")), BackingError::Open { .. }));
        assert!(matches!(open(folder.path()), BackingError::Nothing { .. }));
        let path = folder.path().join("odd");
        std::fs::write(&path, b"").unwrap();
        assert!(matches!(open(&path), BackingError::Nothing { .. }));
        std::fs::write(&path, vec![1; 1000]).unwrap();
        assert!(matches!(open(&path), BackingError::Blocks { .. }), "1000 bytes are no blocks");
        assert_eq!(std::fs::read(&path).unwrap(), vec![1; 1000], "it stays as it was");
        std::fs::write(&path, vec![1; 8192]).unwrap();
        let _first = Backing::open(&path, Access::ReadWrite).unwrap();
        assert!(matches!(open(&path), BackingError::Store(StoreError::Locked { .. })));
    }
}
