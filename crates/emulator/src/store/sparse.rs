//! Sparse files: finding, making and filling their holes.
//!
//! Where the file system cannot do it, the same contents come about by reading and writing.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, SeekFrom as Whence, fallocate, seek};
use rustix::io::Errno;
use seeklab_core::units::ByteSize;

use super::zeroes::is_zero;
use super::{Extent, StoreError};

/// Bytes read or written at a time while zeroing without support of the file system.
const PIECE_BYTES: usize = 64 << 10;

/// The size of a regular file or block device.
pub(super) fn size_of(mut file: &File, path: &Path) -> Result<ByteSize, StoreError> {
    let metadata = file.metadata().map_err(|error| StoreError::io("look at", path, error))?;
    let size = if metadata.is_file() {
        metadata.len()
    } else if metadata.file_type().is_block_device() {
        file.seek(SeekFrom::End(0)).map_err(|error| StoreError::io("find the size of", path, error))?
    } else {
        return Err(StoreError::Unsuitable { path: path.to_owned() });
    };
    Ok(ByteSize::from_bytes(size))
}

/// Returns the extent that starts at `offset`, up to `end` at most, as far as one lookup shows.
///
/// Seeking moves the file's own position, which nothing here depends on.
pub(super) fn extent_at(file: &File, offset: u64, end: u64) -> io::Result<Extent> {
    let data = match seek(file, Whence::Data(offset)) {
        Ok(data) => data,
        Err(Errno::NXIO) => return Ok(Extent::hole(end - offset)),
        // No knowledge of holes, as on a block device: everything may be data.
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Extent::allocated(end - offset)),
        Err(error) => return Err(error.into()),
    };
    if data > offset {
        return Ok(Extent::hole(data.min(end) - offset));
    }
    let hole = seek(file, Whence::Hole(offset))?;
    if hole <= offset {
        // Punched between the two looks: here a hole begins, of at least one byte.
        return Ok(Extent::hole(1));
    }
    Ok(Extent::allocated(hole.min(end) - offset))
}

/// Zeroes a range and gives its space back.
pub(super) fn punch(file: &File, offset: u64, length: u64) -> io::Result<()> {
    if allocate(file, FallocateFlags::PUNCH_HOLE, offset, length)? {
        return Ok(());
    }
    punch_by_writing(file, offset, length)
}

/// Writes zeroes where the data is not zero already, so that holes stay holes.
fn punch_by_writing(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    for_each_piece(offset, length, |offset, count| {
        file.read_exact_at(&mut buffer[..count], offset)?;
        if is_zero(&buffer[..count]) { Ok(()) } else { file.write_all_at(&[0; PIECE_BYTES][..count], offset) }
    })
}

/// Zeroes a range and keeps or takes space for it, so that a later write there finds some.
pub(super) fn zero(file: &File, offset: u64, length: u64) -> io::Result<()> {
    if allocate(file, FallocateFlags::ZERO_RANGE, offset, length)? {
        return Ok(());
    }
    zero_by_writing(file, offset, length)
}

fn zero_by_writing(file: &File, offset: u64, length: u64) -> io::Result<()> {
    for_each_piece(offset, length, |offset, count| file.write_all_at(&[0; PIECE_BYTES][..count], offset))
}

/// Calls `fallocate`. Returns false if the file system does not support it, or not at this alignment.
fn allocate(file: &File, what: FallocateFlags, offset: u64, length: u64) -> io::Result<bool> {
    if length == 0 {
        return Ok(true);
    }
    loop {
        match fallocate(file, what | FallocateFlags::KEEP_SIZE, offset, length) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

fn for_each_piece(
    offset: u64,
    length: u64,
    mut act: impl FnMut(u64, usize) -> io::Result<()>,
) -> io::Result<()> {
    let end = offset + length;
    let mut position = offset;
    while position < end {
        let count = (end - position).min(PIECE_BYTES as u64);
        act(position, count as usize)?;
        position += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// Every way of zeroing gives the same contents, at ends that no file system is aligned to.
    fn check(zero: fn(&File, u64, u64) -> io::Result<()>) {
        const BYTES: usize = 300_000;
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; BYTES], 0).unwrap();
        zero(&file, 1_001, 200_000).unwrap();
        zero(&file, 5, 0).unwrap();
        let mut bytes = [1; BYTES];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let mut expected = [7; BYTES];
        expected[1_001..201_001].fill(0);
        assert!(bytes == expected);
        assert_eq!(file.metadata().unwrap().len(), BYTES as u64);
    }

    #[test]
    fn all_ways_of_zeroing_agree() {
        check(punch);
        check(zero);
        check(punch_by_writing);
        check(zero_by_writing);
    }

    #[test]
    fn holes_stay_holes_without_support_of_the_file_system() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        punch_by_writing(&file, 0, 64 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().blocks(), 0);
    }
}
