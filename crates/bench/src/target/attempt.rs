//! An attempt to connect again to an NBD server, on a thread of its own: a server may take the connection and never answer.
//!
//! # Scope and limits
//! The thread looks several times per second if the attempt was given up, and has a limit of its own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;

use seeklab_core::Instant;
use seeklab_emulator::client::ClientError;
use seeklab_emulator::client::nbd::{Client, Connector};
use seeklab_emulator::clock::{Clock, Wait};

/// Longest wait without a deadline, after which the caller looks around.
const LONGEST: std::time::Duration = std::time::Duration::from_millis(100);

/// An attempt that is under way. It is given up when this is dropped.
#[derive(Debug)]
pub(super) struct Attempt {
    result: Receiver<Result<Client, ClientError>>,
    is_given_up: Arc<AtomicBool>,
}

impl Attempt {
    /// Begins to connect.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn begin(connector: Connector) -> io::Result<Self> {
        let is_given_up = Arc::new(AtomicBool::new(false));
        let (sender, result) = sync_channel(1);
        let of_thread = Arc::clone(&is_given_up);
        let connect = move || {
            let connected = connector.connect(&|| of_thread.load(Ordering::Relaxed));
            // Nobody listens any more if the attempt was given up.
            let _ = sender.send(connected);
        };
        thread::Builder::new().name("nbd".to_owned()).spawn(connect)?;
        Ok(Self { result, is_given_up })
    }

    /// Waits for the end of the attempt as `wait` says. `None` if it is still under way.
    pub(super) fn wait(&self, wait: Wait, clock: Clock) -> Option<Result<Client, ClientError>> {
        let limit = match wait {
            Wait::Spin => std::time::Duration::ZERO,
            Wait::Until(until) => left(until, clock),
            Wait::Forever => LONGEST,
        };
        match self.result.recv_timeout(limit) {
            Ok(result) => Some(result),
            Err(RecvTimeoutError::Timeout) => None,
            // The thread has panicked, which is as good as a server that closes the connection.
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(ClientError::Closed { server: "the server".to_owned(), outstanding: 0 }))
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }
}

fn left(until: Instant, clock: Clock) -> std::time::Duration {
    std::time::Duration::from_nanos(until.saturating_since(clock.now()).as_ns())
}
