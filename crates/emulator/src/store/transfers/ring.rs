//! The kernel's ring of submissions and completions (io_uring), with the buffers that it works on.
//!
//! # Scope and limits
//! Reads and writes of one file at given offsets. A buffer belongs to the ring from [`Ring::start`] until its
//! completion is taken, so it can neither move nor be freed while the kernel uses it; dropping the ring waits for
//! the kernel to be done. All `unsafe` of the store is here.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, Probe, cqueue, opcode, types};

/// Direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// Submissions and completions.
pub(super) struct Ring {
    ring: IoUring,
    file: File,
    /// Buffers of the operations in the kernel, by slot.
    running: Vec<Option<Vec<u8>>>,
    count: usize,
}

/// Operation that the kernel has finished.
pub(super) struct Ended {
    pub(super) slot: u32,
    pub(super) buffer: Vec<u8>,
    /// Bytes done, or why not.
    pub(super) result: io::Result<usize>,
}

impl Ring {
    /// A ring over `file` for `entries` operations at a time; `event` becomes readable with each completion.
    ///
    /// # Errors
    /// If the kernel has none, or none for us.
    pub(super) fn new(file: File, entries: u32, event: BorrowedFd<'_>) -> io::Result<Self> {
        let ring = IoUring::new(entries)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !(probe.is_supported(opcode::Read::CODE) && probe.is_supported(opcode::Write::CODE)) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "its reads and writes need Linux 5.6"));
        }
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        Ok(Self { ring, file, running: Vec::new(), count: 0 })
    }

    /// Operations that the kernel works on.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Begins to read into, or write from, what `buffer` holds from byte `done` on; the first byte of `buffer`
    /// is at `offset` of the file. It is submitted by the next [`submit`](Self::submit).
    ///
    /// # Panics
    /// If the slot is taken, or more begin than there are entries: a bug of the caller.
    #[expect(unsafe_code, reason = "the kernel is given an address")]
    pub(super) fn start(
        &mut self,
        slot: u32,
        direction: Direction,
        offset: u64,
        mut buffer: Vec<u8>,
        done: usize,
    ) {
        let file = types::Fd(self.file.as_raw_fd());
        let rest = &mut buffer[done..];
        let length = u32::try_from(rest.len()).expect("requests are shorter than 4 GiB");
        let at = offset + done as u64;
        let entry = match direction {
            Direction::Read => opcode::Read::new(file, rest.as_mut_ptr(), length).offset(at).build(),
            Direction::Write => opcode::Write::new(file, rest.as_ptr(), length).offset(at).build(),
        };
        let entry = entry.user_data(u64::from(slot));
        let place = slot as usize;
        if self.running.len() <= place {
            self.running.resize_with(place + 1, || None);
        }
        assert!(self.running[place].is_none(), "a slot has one operation");
        // Moving the vector does not move its bytes.
        self.running[place] = Some(buffer);
        self.count += 1;
        // SAFETY: the bytes and the file stay where they are until the completion is taken: the vector lies in
        // `running` and is not touched there, the file lives as long as the ring, and dropping waits.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("no more operations begin than there are entries");
    }

    /// Hands what began to the kernel.
    ///
    /// # Errors
    /// A failure of the kernel, except a lack of resources: the next call tries again.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        match self.ring.submit() {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN | rustix::io::Errno::BUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Takes one completion, if there is one.
    pub(super) fn take(&mut self) -> Option<Ended> {
        let entry: cqueue::Entry = self.ring.completion().next()?;
        let slot = entry.user_data() as u32;
        let buffer = self.running[slot as usize].take().expect("an operation completes once");
        self.count -= 1;
        let result = match usize::try_from(entry.result()) {
            Ok(bytes) => Ok(bytes),
            Err(_) => Err(io::Error::from_raw_os_error(-entry.result())),
        };
        Some(Ended { slot, buffer, result })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.count > 0 {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    // The kernel may still write there: better lost than overwritten.
                    std::mem::forget(std::mem::take(&mut self.running));
                    return;
                }
                _ => while self.take().is_some() {},
            }
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ring").field("count", &self.count).finish_non_exhaustive()
    }
}
