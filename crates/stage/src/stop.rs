//! Asking a stage to stop, from a signal handler's thread.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::wire::{Request, send};

/// Stops the commands of a stage, from any thread. One value serves any number of stages, one after the
/// other.
///
/// Processes inside get SIGTERM, and SIGKILL when the grace is over or at a second request to stop. The
/// device is then synced and unmounted as usual, and the phase returns its result so far, marked as stopped.
/// Every later step fails with [`Error::Stopped`](crate::Error::Stopped).
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    asked_count: u32,
    control: Weak<Control>,
}

/// The caller's end of the control socket, for writing; one message at a time.
#[derive(Debug)]
pub(crate) struct Control(pub(crate) Mutex<UnixStream>);

impl Control {
    pub(crate) fn send(&self, request: &Request) -> std::io::Result<()> {
        send(&self.0.lock().unwrap_or_else(PoisonError::into_inner), request)
    }
}

impl Stop {
    /// Returns a value without a request to stop.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests a stop. Takes a lock while a line is written, so call it from a thread that handles signals, not
    /// from a signal handler.
    pub fn stop(&self) {
        let mut inner = self.inner();
        inner.asked_count += 1;
        if let Some(control) = inner.control.upgrade() {
            // If the process inside is gone, what it ran is gone too.
            let _ = control.send(&Request::Stop);
        }
    }

    /// Returns true if a stop was requested.
    pub fn is_asked(&self) -> bool {
        self.inner().asked_count > 0
    }

    /// Sends all later stop requests to `control`.
    pub(crate) fn attach(&self, control: &Arc<Control>) {
        self.inner().control = Arc::downgrade(control);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
