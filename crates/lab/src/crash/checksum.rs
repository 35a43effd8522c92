//! Checksums of the files of a record, which say whether it is as it was written.

use std::fs::File;
use std::io::{self, Read, Write};

use crc32fast::Hasher;
use seeklab_emulator::store::{Allocation, Store};

use crate::failure::Failure;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of the contents of a store that count together: zeroes do not count.
const UNIT_BYTES: usize = 4 << 10;

/// CRC-32 of the contents of a store. Holes and zeroes are alike.
///
/// # Errors
/// A failure of the store.
pub(super) fn of_store(store: &Store) -> Result<u32, Failure> {
    let size = store.size().as_bytes();
    let (mut hasher, mut buffer) = (Hasher::new(), vec![0; PIECE_BYTES]);
    let (mut position, mut done) = (0, 0);
    for extent in store.extents(0, size)? {
        let extent = extent?;
        let end = position + extent.length;
        if extent.allocation == Allocation::Allocated {
            // Whole units, wherever the extent begins and ends.
            let mut offset = done.max(position / UNIT_BYTES as u64 * UNIT_BYTES as u64);
            let stop = end.next_multiple_of(UNIT_BYTES as u64).min(size);
            while offset < stop {
                let length = (stop - offset).min(PIECE_BYTES as u64) as usize;
                store.read(offset, &mut buffer[..length])?;
                for unit in buffer[..length].chunks(UNIT_BYTES) {
                    if unit.iter().any(|byte| *byte != 0) {
                        hasher.update(&offset.to_le_bytes());
                        hasher.update(unit);
                    }
                    offset += unit.len() as u64;
                }
            }
            done = stop;
        }
        position = end;
    }
    Ok(hasher.finalize())
}

/// CRC-32 of a file.
///
/// # Errors
/// If it cannot be read.
pub(super) fn of_file(mut file: &File) -> io::Result<u32> {
    let (mut hasher, mut buffer) = (Hasher::new(), vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            length => hasher.update(&buffer[..length]),
        }
    }
}

/// A writer that keeps the CRC-32 of what it has written.
pub(super) struct Summing<W> {
    writer: W,
    hasher: Hasher,
}

impl<W: Write> Summing<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { writer, hasher: Hasher::new() }
    }

    /// Writes what is buffered. Returns the checksum of everything.
    pub(super) fn finish(mut self) -> io::Result<u32> {
        self.writer.flush()?;
        Ok(self.hasher.finalize())
    }
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::ByteSize;

    use super::*;

    #[test]
    fn checksum_of_a_store_is_that_of_its_contents_wherever_it_is_allocated() {
        let store = || Store::in_ram(ByteSize::from_bytes(8 << 20), None).unwrap();
        let (one, other) = (store(), store());
        one.write(70_000, &[7; 30_000]).unwrap();
        one.write((8 << 20) - 5, &[1; 5]).unwrap();
        other.write(0, &[0; 1 << 20]).unwrap();
        other.write((8 << 20) - 5, &[1; 5]).unwrap();
        other.write(70_000, &[7; 30_000]).unwrap();
        assert_eq!(of_store(&one).unwrap(), of_store(&other).unwrap());
        other.write(99_999, &[6]).unwrap();
        assert_ne!(of_store(&one).unwrap(), of_store(&other).unwrap());
        other.write(99_999, &[7]).unwrap();
        assert_eq!(of_store(&one).unwrap(), of_store(&other).unwrap());
        // The same bytes at another place.
        let moved = store();
        moved.write(70_000 + 4096, &[7; 30_000]).unwrap();
        moved.write((8 << 20) - 5, &[1; 5]).unwrap();
        assert_ne!(of_store(&one).unwrap(), of_store(&moved).unwrap());
    }
}
