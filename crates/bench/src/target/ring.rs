//! The kernel's ring of submissions and completions (io_uring), with the buffers that it works on.
//!
//! # Scope and limits
//! Requests of one file. The buffer of a slot belongs to the kernel from [`Ring::push`] until its completion is taken.
//! If requests are under way when the ring is dropped, its memory stays: the kernel may still write there. All
//! `unsafe` code for files and block devices is here.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;

use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};
use nix::libc;
use seeklab_core::Operation;

use super::buffers::Buffers;
use super::{Polling, Transfer};
use crate::priority::IoPriority;

/// Time without submissions after which the thread that looks for them sleeps.
const POLLED_IDLE_MS: u32 = 1000;
/// Entries of a ring whose submissions are polled, for each request: completions of a group of submissions are there before
/// the kernel says that it has taken them from the ring.
const SPARE: u32 = 2;
/// Data of a write are on the media when it completes (`RWF_DSYNC`).
const WRITE_THROUGH: i32 = libc::RWF_DSYNC;
/// Blocks read as zeroes and their space is given back; the size stays.
const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
/// Blocks read as zeroes; the size stays.
const ZERO_RANGE: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;

/// The ring, its file and its buffers.
pub(super) struct Ring {
    ring: ManuallyDrop<IoUring>,
    buffers: ManuallyDrop<Buffers>,
    /// The file stays open as long as the ring knows it.
    _file: File,
    has_fixed_buffers: bool,
    /// The thread that uses the ring has begun to.
    is_enabled: bool,
    is_deferred: bool,
    /// Priority of each read and write, as the kernel numbers it.
    priority: u16,
    polling: Polling,
    alarm: Alarm,
    /// Entries that the kernel has not been given.
    pushed: usize,
    /// Requests in the kernel or about to be.
    count: usize,
    calls: u64,
}

/// Result of a request: its slot, and the bytes that were transferred or the error number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) tag: u32,
    pub(super) result: Result<usize, u32>,
}

/// Wakes the thread that looks for submissions. It says that it sleeps until it has a processor again: more calls would not wake
/// it earlier, so their distance doubles.
#[derive(Debug, Default)]
struct Alarm {
    /// Looks that found it asleep since the last call.
    looks: u32,
    /// Looks until the next call; zero if it was awake.
    distance: u32,
}

impl Alarm {
    /// Looks between the first two calls, some microseconds.
    const FIRST: u32 = 1 << 10;
    /// Looks between two calls at most, some milliseconds.
    const LAST: u32 = 1 << 20;

    /// Returns true if a call should wake the thread, which sleeps or not.
    fn rings(&mut self, sleeps: bool) -> bool {
        if !sleeps {
            *self = Self::default();
            return false;
        }
        self.looks += 1;
        if self.looks < self.distance {
            return false;
        }
        let distance = (self.distance * 2).clamp(Self::FIRST, Self::LAST);
        *self = Self { looks: 0, distance };
        true
    }
}

impl Ring {
    /// A ring over `file` for so many requests at a time.
    ///
    /// # Errors
    /// If the kernel has no ring, or none for this process.
    #[expect(unsafe_code, reason = "the kernel is given addresses of buffers")]
    pub(super) fn new(
        file: File,
        mut buffers: Buffers,
        entries: u32,
        (priority, polling): (Option<IoPriority>, Polling),
    ) -> io::Result<Self> {
        let mut entries = entries.max(1).next_power_of_two();
        // Completions are prepared when this thread asks for them, not when they come: Linux 6.1.
        let mut deferred = IoUring::builder();
        deferred.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_r_disabled();
        let mut plain = IoUring::builder();
        if polling.completion {
            deferred.setup_iopoll();
            plain.setup_iopoll();
        }
        let deferred = if polling.submission {
            // The thread of the kernel has no such work to defer.
            plain.setup_sqpoll(POLLED_IDLE_MS);
            entries *= SPARE;
            None
        } else {
            deferred.build(entries).ok()
        };
        let is_deferred = deferred.is_some();
        let ring = deferred.map_or_else(|| plain.build(entries), Ok)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !(probe.is_supported(opcode::Read::CODE) && probe.is_supported(opcode::Fallocate::CODE)) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "its reads and writes need Linux 5.6"));
        }
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let region = buffers.region();
        let vector = libc::iovec { iov_base: region.as_mut_ptr().cast(), iov_len: region.len() };
        // SAFETY: the region is neither moved nor freed before the ring is gone: both are dropped together, the ring first.
        let registered = unsafe { ring.submitter().register_buffers(&[vector]) };
        // Without the right to lock so much memory, the kernel finds the pages at every request.
        let has_fixed_buffers = !region.is_empty() && registered.is_ok();
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            buffers: ManuallyDrop::new(buffers),
            _file: file,
            has_fixed_buffers,
            is_enabled: !is_deferred,
            is_deferred,
            // 0 is the priority of the process.
            priority: priority.map_or(0, IoPriority::number),
            polling,
            alarm: Alarm::default(),
            pushed: 0,
            count: 0,
            calls: 0,
        })
    }

    /// Returns true if submissions or completions are polled.
    pub(super) const fn is_polled(&self) -> bool {
        self.polling.is_any()
    }

    /// Returns true if the kernel keeps the pages of the buffers.
    pub(super) const fn has_fixed_buffers(&self) -> bool {
        self.has_fixed_buffers
    }

    /// The buffers. That of a slot is the kernel's while its request is under way.
    pub(super) fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    /// Requests in the kernel or about to be.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// System calls so far.
    pub(super) const fn calls(&self) -> u64 {
        self.calls
    }

    /// Prepares a request in a slot that is free. The kernel gets it with the next [`enter`](Self::enter).
    ///
    /// # Panics
    /// If more are under way than the ring has entries.
    #[expect(unsafe_code, reason = "the kernel is given addresses of buffers")]
    pub(super) fn push(&mut self, transfer: &Transfer, offset: u64, length: usize) {
        let Transfer { tag, request } = *transfer;
        let file = Fixed(0);
        let bytes = u32::try_from(length).expect("requests are shorter than 4 GiB");
        let (fixed, priority) = (self.has_fixed_buffers, self.priority);
        let flags = if request.fua { WRITE_THROUGH } else { 0 };
        let entry: squeue::Entry = match request.op {
            Operation::Read => {
                let buffer = self.buffers.for_read(tag, length);
                let address = buffer.bytes.as_mut_ptr();
                match fixed && buffer.is_in_region {
                    true => opcode::ReadFixed::new(file, address, bytes, 0)
                        .offset(offset)
                        .ioprio(priority)
                        .build(),
                    false => opcode::Read::new(file, address, bytes).offset(offset).ioprio(priority).build(),
                }
            }
            Operation::Write => {
                let buffer = self.buffers.for_write(tag, length, transfer);
                let address = buffer.bytes.as_ptr();
                match fixed && buffer.is_in_region {
                    true => opcode::WriteFixed::new(file, address, bytes, 0)
                        .offset(offset)
                        .ioprio(priority)
                        .rw_flags(flags)
                        .build(),
                    false => opcode::Write::new(file, address, bytes)
                        .offset(offset)
                        .ioprio(priority)
                        .rw_flags(flags)
                        .build(),
                }
            }
            Operation::Flush => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            Operation::Discard => {
                opcode::Fallocate::new(file, length as u64).offset(offset).mode(PUNCH_HOLE).build()
            }
            Operation::WriteZeroes => {
                opcode::Fallocate::new(file, length as u64).offset(offset).mode(ZERO_RANGE).build()
            }
        };
        let entry = entry.user_data(u64::from(tag));
        // SAFETY: the buffer of the slot is not touched until its completion is taken, and it neither moves nor is freed
        // before: if requests are under way when the ring is dropped, the buffers stay.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("no more requests are under way than there are entries");
        self.pushed += 1;
        self.count += 1;
    }

    /// Gives the kernel what was pushed, and waits for so many completions, at most for `limit`.
    ///
    /// # Errors
    /// A failure of the kernel other than an interruption or a lack of resources.
    pub(super) fn enter(&mut self, at_least: usize, limit: Option<Timespec>) -> io::Result<()> {
        if !self.is_enabled {
            self.ring.submitter().register_enable_rings()?;
            self.is_enabled = true;
        }
        self.calls += 1;
        let entered = match limit {
            Some(limit) => {
                self.ring.submitter().submit_with_args(at_least, &SubmitArgs::new().timespec(&limit))
            }
            None => self.ring.submit_and_wait(at_least),
        };
        self.pushed = self.ring.submission().len();
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Returns true if the kernel must be entered: for what was pushed, for completions that wait to be prepared or that only it
    /// can look for, or to wake the thread that looks for submissions.
    pub(super) fn needs_enter(&mut self) -> bool {
        if self.polling.submission {
            let sleeps = self.ring.submission().need_wakeup();
            return self.alarm.rings(sleeps);
        }
        if self.polling.completion && self.count > 0 {
            return true;
        }
        self.pushed > 0 || (self.is_deferred && self.ring.submission().taskrun())
    }

    /// Takes one completion, if there is one.
    pub(super) fn take(&mut self) -> Option<Taken> {
        let entry = self.ring.completion().next()?;
        self.count -= 1;
        let result = usize::try_from(entry.result()).map_err(|_| entry.result().unsigned_abs());
        Some(Taken { tag: entry.user_data() as u32, result })
    }
}

impl Drop for Ring {
    #[expect(unsafe_code, reason = "memory stays while the kernel uses it")]
    fn drop(&mut self) {
        if self.count > 0 {
            // The kernel may still write there: better lost than overwritten. The process that ends gives it back.
            return;
        }
        // SAFETY: each is dropped once, here, and not used any more.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.buffers);
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ring").field("count", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_thread_is_woken_at_doubling_distances() {
        let mut alarm = Alarm::default();
        let calls = |alarm: &mut Alarm, looks| (0..looks).filter(|_| alarm.rings(true)).count();
        assert_eq!((calls(&mut alarm, 1), calls(&mut alarm, 1_023), calls(&mut alarm, 1)), (1, 0, 1));
        assert!(!alarm.rings(false));
        assert_eq!(calls(&mut alarm, 1), 1, "it slept again");
        assert_eq!(calls(&mut alarm, 1 << 20), 10);
        assert_eq!(calls(&mut alarm, 8 << 20), 8, "the distance is bounded");
    }
}
