//! A connected socket that blocks only on request.

use std::cell::Cell;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use rustix::time::Timespec;
use seeklab_core::Instant;

use super::connect::connected;
use super::limits::Limits;
use crate::client::ClientError;
use crate::clock::Clock;
use crate::frontend::nbd::Uri;

#[derive(Debug)]
pub(super) struct Socket {
    stream: OwnedFd,
    server: String,
    /// System calls to send, receive and wait.
    calls: Cell<u64>,
}

impl Socket {
    pub(super) fn connect(uri: &Uri, limits: &Limits<'_>) -> Result<Self, ClientError> {
        let stream = connected(uri, limits)?;
        Ok(Self { stream, server: uri.to_string(), calls: Cell::new(0) })
    }

    pub(super) fn server(&self) -> String {
        self.server.clone()
    }

    pub(super) fn protocol(&self, what: impl Into<String>) -> ClientError {
        ClientError::Protocol { server: self.server(), what: what.into() }
    }

    pub(super) fn closed(&self, outstanding: usize) -> ClientError {
        ClientError::Closed { server: self.server(), outstanding }
    }

    /// Returns the number of bytes received, never zero. `None` if no bytes are available, or if a signal came
    /// during a wait, which `blocks` requests.
    pub(super) fn receive(
        &self,
        buffer: &mut [u8],
        blocks: bool,
        outstanding: usize,
    ) -> Result<Option<usize>, ClientError> {
        let flags = if blocks { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        self.count();
        match recv(&self.stream, buffer, flags) {
            Ok((_, 0)) => Err(self.closed(outstanding)),
            Ok((_, count)) => Ok(Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(Errno::CONNRESET | Errno::PIPE) => Err(self.closed(outstanding)),
            Err(error) => Err(self.io("receive from", error)),
        }
    }

    /// Returns the number of bytes sent from the parts: zero if none fits now.
    pub(super) fn send(&self, parts: [&[u8]; 2], outstanding: usize) -> Result<usize, ClientError> {
        let slices = parts.map(IoSlice::new);
        let slices = if parts[1].is_empty() { &slices[..1] } else { &slices[..] };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        self.count();
        match sendmsg(&self.stream, slices, &mut SendAncillaryBuffer::default(), flags) {
            Ok(count) => Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(Errno::CONNRESET | Errno::PIPE) => Err(self.closed(outstanding)),
            Err(error) => Err(self.io("send to", error)),
        }
    }

    /// Sleeps until something can be received, or sent if `sending`, or `until`; may end sooner.
    pub(super) fn wait(&self, sending: bool, until: Option<(Instant, Clock)>) -> Result<(), ClientError> {
        let flags = if sending { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let timeout = until.map(|(until, clock)| {
            let ns = until.saturating_since(clock.now()).as_ns();
            Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
        });
        self.count();
        match poll(&mut [PollFd::new(&self.stream, flags)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(self.io("wait for", error)),
        }
    }

    /// Returns the number of system calls to send, receive and wait.
    pub(super) const fn system_calls(&self) -> u64 {
        self.calls.get()
    }

    fn count(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    fn io(&self, action: &'static str, error: Errno) -> ClientError {
        ClientError::Io { action, server: self.server(), source: error.into() }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
