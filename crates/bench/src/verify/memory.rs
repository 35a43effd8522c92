//! Memory of words that all threads change, in RAM or in a file.
//!
//! # Scope and limits
//! A file is mapped: what was stored there is in the page cache, so it outlives a process that is killed, but not the
//! machine. Nobody else may make the file shorter meanwhile, which would end this process (SIGBUS); it is locked.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapMut, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Words, all zero at first.
#[derive(Debug)]
pub(super) struct Words {
    map: MmapRaw,
}

impl Words {
    /// Words in memory.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn in_ram(count: usize) -> io::Result<Self> {
        Ok(Self { map: MmapMut::map_anon(bytes_of(count)?)?.into() })
    }

    /// The words of a file, which is made long enough.
    ///
    /// # Errors
    /// If the file cannot be made so long, or not mapped.
    pub(super) fn in_file(file: &File, count: usize) -> io::Result<Self> {
        let length = bytes_of(count)?;
        // Memory that the file system could not give later would end the process.
        match fallocate(file, FallocateFlags::empty(), 0, length as u64) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP) => file.set_len(length as u64)?,
            Err(error) => return Err(error.into()),
        }
        Ok(Self { map: MmapRaw::map_raw(file)? })
    }

    /// The words.
    #[expect(unsafe_code, reason = "bytes are used as words")]
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page, so its words are aligned; every bit pattern is a word; it is written only
        // through these words, which are atomic, and lives as long as the reference.
        unsafe {
            std::slice::from_raw_parts(
                self.map.as_mut_ptr().cast::<AtomicU64>().cast_const(),
                self.map.len() / 8,
            )
        }
    }
}

fn bytes_of(count: usize) -> io::Result<usize> {
    count.checked_mul(8).filter(|bytes| *bytes > 0).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}
