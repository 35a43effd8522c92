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
use std::os::fd::{AsFd, OwnedFd};
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
    /// Errors of the operating system. A file without direct access is no error, see
    /// [`is_direct`](Self::is_direct).
    pub fn open(path: &Path, clock: Clock) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let (descriptor, is_direct) = match open(path, flags | OFlags::DIRECT, Mode::empty()) {
            Ok(descriptor) => (descriptor, true),
            Err(Errno::INVAL) => (open(path, flags, Mode::empty())?, false),
            Err(error) => return Err(error.into()),
        };
        Ok(Self { is_direct, ..Self::of(descriptor, path, clock) })
    }

    /// A client of what is open for direct access already, and goes by `path` in messages.
    pub fn of(descriptor: OwnedFd, path: &Path, clock: Clock) -> Self {
        let (file, path) = (File::from(descriptor), path.to_owned());
        Self { file, path, clock, is_direct: true, memory: Vec::new() }
    }

    /// The clock of the stamps.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns true if requests bypass the page cache.
    pub const fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Fills `buffer` from `offset_bytes` on.
    ///
    /// # Errors
    /// Errors of the operating system, and if the file ends before the buffer is full.
    pub fn read(&mut self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<HostRequest> {
        let place = aligned(&mut self.memory, buffer.len());
        let issue = self.clock.now();
        let count = pread(self.file.as_fd(), &mut *place, offset_bytes)?;
        let completion = self.clock.now();
        buffer.copy_from_slice(place);
        self.check(Operation::Read, count, buffer.len())?;
        let length_bytes = buffer.len() as u64;
        Ok(HostRequest::new(issue, completion, Operation::Read, offset_bytes, length_bytes))
    }

    /// Writes `data` from `offset_bytes` on.
    ///
    /// # Errors
    /// Errors of the operating system, and if only a part was written.
    pub fn write(&mut self, offset_bytes: u64, data: &[u8]) -> io::Result<HostRequest> {
        let place = aligned(&mut self.memory, data.len());
        place.copy_from_slice(data);
        let issue = self.clock.now();
        let count = pwrite(self.file.as_fd(), &*place, offset_bytes)?;
        let completion = self.clock.now();
        self.check(Operation::Write, count, data.len())?;
        let length_bytes = data.len() as u64;
        Ok(HostRequest::new(issue, completion, Operation::Write, offset_bytes, length_bytes))
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn flush(&mut self) -> io::Result<HostRequest> {
        let issue = self.clock.now();
        rustix::fs::fdatasync(&self.file)?;
        let completion = self.clock.now();
        Ok(HostRequest::new(issue, completion, Operation::Flush, 0, 0))
    }

    fn check(&self, op: Operation, count: usize, length: usize) -> io::Result<()> {
        if count == length {
            return Ok(());
        }
        let path = self.path.display();
        Err(io::Error::other(format!("{path}: {} of {length} bytes did {count}", op.name())))
    }
}

/// Returns `length` bytes of `memory` that begin at a multiple of the alignment.
fn aligned(memory: &mut Vec<u8>, length: usize) -> &mut [u8] {
    if memory.len() < length + ALIGNMENT_BYTES {
        memory.resize(length + ALIGNMENT_BYTES, 0);
    }
    let offset = memory.as_ptr().align_offset(ALIGNMENT_BYTES);
    &mut memory[offset..offset + length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_returns_the_written_data() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let clock = Clock::start();
        let mut client = Client::open(file.path(), clock).unwrap();
        let data: Vec<u8> = (0..64 << 10_u32).map(|index| (index % 251) as u8).collect();
        let before = clock.now();
        let written = client.write(128 << 10, &data).unwrap();
        let flushed = client.flush().unwrap();
        let mut back = vec![0; data.len()];
        let read = client.read(128 << 10, &mut back).unwrap();
        assert_eq!(back, data);
        let stamps = [
            before,
            written.issue,
            written.completion,
            flushed.issue,
            flushed.completion,
            read.issue,
            read.completion,
        ];
        assert!(stamps.is_sorted(), "{stamps:?}");
        let beyond = client.read((1 << 20) - 4_096, &mut back).unwrap_err();
        assert!(beyond.to_string().contains("4096"), "{beyond}");
    }
}
