//! Ending an emulation from elsewhere.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Ends [`serve`](super::serve) from another thread or a signal handler.
#[derive(Debug, Clone)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
}

impl Stop {
    /// Returns a value without a request to stop.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { flag: Arc::default(), wake: Arc::new(wake) })
    }

    /// Requests the end, and wakes the waiting thread. Only an atomic store and a `write(2)`: safe in a signal
    /// handler.
    pub fn stop(&self) {
        self.flag.store(true, Ordering::Release);
        // The counter can only be full if it was written 2^64 - 1 times.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Returns true if [`stop`](Self::stop) was called.
    pub fn is_asked(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Readable from then on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
