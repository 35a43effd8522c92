//! Images: raw files or other stores to start a device from, and raw files to save one to.
//!
//! Only what is not zero is copied, so an image costs what is in it, not the size of its device.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use seeklab_core::units::ByteSize;
use seeklab_files::OutputFile;

use super::zeroes::is_zero;
use super::{Allocation, Store, StoreError, sparse};

/// Bytes copied at a time; pieces of zeroes are omitted.
const PIECE_BYTES: usize = 64 << 10;

impl Store {
    /// Fills the device from the raw image at `path`, and returns when that is as durable as after
    /// [`Store::flush`]. What was on the device is gone; what lies behind a smaller image is zero.
    ///
    /// An image larger than the device is refused, before anything is changed.
    pub fn load_image(&self, path: &Path) -> Result<(), StoreError> {
        let image = File::open(path).map_err(|error| StoreError::io("open", path, error))?;
        let found = sparse::size_of(&image, path)?;
        if found > self.size() {
            return Err(StoreError::SizeMismatch { path: path.to_owned(), found, expected: self.size() });
        }
        refuse_if_in_use(&image, path)?;
        self.discard(0, self.size().as_bytes())?;
        let mut buffer = vec![0; PIECE_BYTES];
        let mut position = 0;
        while position < found.as_bytes() {
            let extent = sparse::extent_at(&image, position, found.as_bytes())
                .map_err(|error| StoreError::io("find the holes of", path, error))?;
            if extent.allocation == Allocation::Allocated {
                for_each_piece(position, extent.length, |offset, count| {
                    let piece = &mut buffer[..count];
                    image
                        .read_exact_at(piece, offset)
                        .map_err(|error| StoreError::io("read", path, error))?;
                    if is_zero(piece) { Ok(()) } else { self.write(offset, piece) }
                })?;
            }
            position += extent.length;
        }
        self.flush()
    }

    /// Fills the device with what is on `other`, which is no larger. What was on it is gone.
    pub fn copy_from(&self, other: &Self) -> Result<(), StoreError> {
        if other.size() > self.size() {
            return Err(StoreError::OutOfRange {
                offset: 0,
                length: other.size().as_bytes(),
                size: self.size(),
            });
        }
        self.discard(0, self.size().as_bytes())?;
        let mut buffer = vec![0; PIECE_BYTES];
        let mut position = 0;
        for extent in other.extents(0, other.size().as_bytes())? {
            let extent = extent?;
            if extent.allocation == Allocation::Allocated {
                for_each_piece(position, extent.length, |offset, count| {
                    let piece = &mut buffer[..count];
                    other.read(offset, piece)?;
                    if is_zero(piece) { Ok(()) } else { self.write(offset, piece) }
                })?;
            }
            position += extent.length;
        }
        Ok(())
    }

    /// Saves the device as a raw image at `path`, in place of a file there, and returns when the
    /// image is on the medium.
    ///
    /// At every moment `path` names the old file or the whole new one. Writes during saving may be
    /// in the image in part: whoever wants one point in time keeps the device still meanwhile.
    pub fn save_image(&self, path: &Path) -> Result<(), StoreError> {
        // Opening a FIFO would wait for a writer.
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(StoreError::Unsuitable { path: path.to_owned() });
        }
        match File::open(path) {
            Ok(existing) => refuse_if_in_use(&existing, path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io("replace", path, error)),
        }
        let failed = |error| StoreError::io("save", path, error);
        let image = OutputFile::create(path).map_err(|error| failed(error.into()))?;
        image.file().set_len(self.size().as_bytes()).map_err(failed)?;
        let mut buffer = vec![0; PIECE_BYTES];
        let mut position = 0;
        for extent in self.extents(0, self.size().as_bytes())? {
            let extent = extent?;
            if extent.allocation == Allocation::Allocated {
                for_each_piece(position, extent.length, |offset, count| {
                    let piece = &mut buffer[..count];
                    self.read(offset, piece)?;
                    if is_zero(piece) {
                        Ok(())
                    } else {
                        image.file().write_all_at(piece, offset).map_err(failed)
                    }
                })?;
            }
            position += extent.length;
        }
        image.finish_durably().map_err(|error| failed(error.into()))
    }
}

/// Refuses an image that is somebody's device now: its contents move, or are our own.
fn refuse_if_in_use(image: &File, path: &Path) -> Result<(), StoreError> {
    match image.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.to_owned() }),
        // A file system without locks has no emulators to be kept apart either.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

fn for_each_piece(
    offset: u64,
    length: u64,
    mut act: impl FnMut(u64, usize) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let end = offset + length;
    let mut position = offset;
    while position < end {
        let count = (end - position).min(PIECE_BYTES as u64);
        act(position, count as usize)?;
        position += count;
    }
    Ok(())
}

/// The size of the raw image at `path`, for a device that takes its size from it.
pub fn image_size(path: &Path) -> Result<ByteSize, StoreError> {
    let image = File::open(path).map_err(|error| StoreError::io("open", path, error))?;
    sparse::size_of(&image, path)
}
