//! Asking a stage to stop, from a signal handler's thread.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::wire::{Request, send};

/// Stops what a stage runs, from any thread; one serves any number of stages, one after the other.
///
/// What runs gets SIGTERM, and SIGKILL when the grace is over or when it is asked a second time. The device
/// is then synced and unmounted as ever, and the phase returns what it has, marked as stopped. Every later
/// step fails with [`Error::Stopped`](crate::Error::Stopped).
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
    /// Nothing asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks. Takes a lock for as long as a line is written: for a thread that handles signals, not for a
    /// handler itself.
    pub fn stop(&self) {
        let mut inner = self.inner();
        inner.asked_count += 1;
        if let Some(control) = inner.control.upgrade() {
            // If the process inside is gone, what it ran is gone too.
            let _ = control.send(&Request::Stop);
        }
    }

    /// Whether it was asked.
    pub fn is_asked(&self) -> bool {
        self.inner().asked_count > 0
    }

    /// Tells `control` of what is asked from now on.
    pub(crate) fn attach(&self, control: &Arc<Control>) {
        self.inner().control = Arc::downgrade(control);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
