//! A client of a file or block device: positioned reads and writes past the page cache.
//!
//! ```text
//! stamp (issue) ─▶ pread, pwrite, fdatasync ─▶ stamp (completion): MP1 around the call
//! ```
//! # Scope and limits
//! Linux; one request at a time, by `O_DIRECT` where the file system has it. Offsets, lengths and the memory
//! of the data are then whole blocks: the client has a buffer of its own and copies outside of the stamps.
//! Discarding and writing zeroes are not for files.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, pread, pwrite};
use seeklab_core::Operation;

use super::HostRequest;
use crate::clock::Clock;

/// Blocks of no device are larger.
const ALIGNMENT_BYTES: usize = 64 << 10;

/// An open file or block device.
#[derive(Debug)]
pub struct Client {
    file: File,
    path: PathBuf,
    clock: Clock,
    is_direct: bool,
    /// With room to begin at an aligned address.
    memory: Vec<u8>,
}

impl Client {
    /// Opens `path` for reading and writing. Stamps will be on `clock`.
    ///
    /// # Errors
    /// What the system says; that it has no direct access is none, see [`is_direct`](Self::is_direct).
    pub fn open(path: &Path, clock: Clock) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let (descriptor, is_direct) = match open(path, flags | OFlags::DIRECT, Mode::empty()) {
            Ok(descriptor) => (descriptor, true),
            Err(Errno::INVAL) => (open(path, flags, Mode::empty())?, false),
            Err(error) => return Err(error.into()),
        };
        let (file, path) = (File::from(descriptor), path.to_owned());
        Ok(Self { file, path, clock, is_direct, memory: Vec::new() })
    }

    /// Whether the page cache is passed by.
    pub const fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Fills `buffer` from `offset_bytes` on.
    ///
    /// # Errors
    /// What the system says, and the end of the file before the buffer is full.
    pub fn read(&mut self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<HostRequest> {
        let (file, clock) = (self.file.try_clone()?, self.clock);
        let place = self.aligned(buffer.len());
        let issue = clock.now();
        let count = pread(file.as_fd(), &mut *place, offset_bytes)?;
        let completion = clock.now();
        self.check(Operation::Read, count, buffer.len())?;
        buffer.copy_from_slice(self.aligned(buffer.len()));
        let length_bytes = buffer.len() as u32;
        Ok(HostRequest { issue, completion, op: Operation::Read, fua: false, offset_bytes, length_bytes })
    }

    /// Writes `data` from `offset_bytes` on.
    ///
    /// # Errors
    /// What the system says, and if not all was taken.
    pub fn write(&mut self, offset_bytes: u64, data: &[u8]) -> io::Result<HostRequest> {
        let (file, clock) = (self.file.try_clone()?, self.clock);
        let place = self.aligned(data.len());
        place.copy_from_slice(data);
        let issue = clock.now();
        let count = pwrite(file.as_fd(), &*place, offset_bytes)?;
        let completion = clock.now();
        self.check(Operation::Write, count, data.len())?;
        let length_bytes = data.len() as u32;
        Ok(HostRequest { issue, completion, op: Operation::Write, fua: false, offset_bytes, length_bytes })
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// What the system says.
    pub fn flush(&mut self) -> io::Result<HostRequest> {
        let issue = self.clock.now();
        rustix::fs::fdatasync(&self.file)?;
        let completion = self.clock.now();
        let (offset_bytes, length_bytes) = (0, 0);
        Ok(HostRequest { issue, completion, op: Operation::Flush, fua: false, offset_bytes, length_bytes })
    }

    /// So many bytes of memory that begin at a multiple of the alignment.
    fn aligned(&mut self, length: usize) -> &mut [u8] {
        if self.memory.len() < length + ALIGNMENT_BYTES {
            self.memory.resize(length + ALIGNMENT_BYTES, 0);
        }
        let offset = self.memory.as_ptr().align_offset(ALIGNMENT_BYTES);
        &mut self.memory[offset..offset + length]
    }

    fn check(&self, op: Operation, count: usize, length: usize) -> io::Result<()> {
        if count == length {
            return Ok(());
        }
        let path = self.path.display();
        Err(io::Error::other(format!("{path}: {} of {length} bytes did {count}", op.name())))
    }
}
