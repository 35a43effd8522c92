//! The way to a server: a socket, and TLS over it if the URI names it.

use std::os::fd::{AsFd, BorrowedFd};

use seeklab_core::Instant;

use super::limits::Limits;
use super::socket::Socket;
use super::tls::{Progress, TlsSettings, TlsStream};
use crate::client::ClientError;
use crate::clock::Clock;
use crate::frontend::nbd::Uri;

#[derive(Debug)]
pub(super) struct Transport {
    socket: Socket,
    tls: Option<Box<TlsStream>>,
}

impl Transport {
    /// A connected socket, without TLS so far.
    pub(super) fn connect(uri: &Uri, limits: &Limits<'_>) -> Result<Self, ClientError> {
        Ok(Self { socket: Socket::connect(uri, limits)?, tls: None })
    }

    /// From now on, all bytes are those of a TLS handshake and then of its records.
    pub(super) fn begin_tls(&mut self, settings: &TlsSettings) -> Result<(), ClientError> {
        self.tls = Some(Box::new(TlsStream::new(settings, &self.socket)?));
        Ok(())
    }

    /// Goes on with the TLS handshake as far as that is possible without a wait.
    ///
    /// # Panics
    /// If TLS was not begun.
    pub(super) fn continue_tls(&mut self) -> Result<Progress, ClientError> {
        self.tls.as_mut().expect("TLS was begun").handshake(&self.socket)
    }

    /// As [`Socket::receive`]. After a wait, nothing may be there yet, because a record is not complete.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        blocks: bool,
        outstanding: usize,
    ) -> Result<Option<usize>, ClientError> {
        match &mut self.tls {
            None => self.socket.receive(buffer, blocks, outstanding),
            Some(tls) => tls.receive(&self.socket, buffer, blocks, outstanding),
        }
    }

    /// As [`Socket::send`]. Bytes that count as sent may not have left yet, see [`is_sent`](Self::is_sent).
    pub(super) fn send(&mut self, parts: [&[u8]; 2], outstanding: usize) -> Result<usize, ClientError> {
        match &mut self.tls {
            None => self.socket.send(parts, outstanding),
            Some(tls) => tls.send(&self.socket, parts, outstanding),
        }
    }

    /// Returns true if the socket has taken everything. If not, [`send`](Self::send) goes on with that first.
    pub(super) fn is_sent(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.is_sent())
    }

    /// As [`Socket::wait`].
    pub(super) fn wait(&self, sending: bool, until: Option<(Instant, Clock)>) -> Result<(), ClientError> {
        self.socket.wait(sending, until)
    }

    /// Tells the server that nothing more comes. Does not wait, and a failure changes nothing.
    pub(super) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&self.socket);
        }
    }

    /// The failure of a first connection. Servers that demand a certificate of the client close the connection without an
    /// alert, some of them only after the handshake.
    pub(super) fn first_failure(&self, error: ClientError) -> ClientError {
        match error {
            ClientError::Closed { server, .. } if self.tls.is_some() => {
                let reason = "it closed the connection during or after the TLS handshake; it may demand a certificate of the \
                              client that it trusts, client-cert.pem and client-key.pem in the folder of tls-certificates";
                ClientError::Tls { server, reason: reason.to_owned() }
            }
            error => error,
        }
    }

    pub(super) fn server(&self) -> String {
        self.socket.server()
    }

    pub(super) fn protocol(&self, what: impl Into<String>) -> ClientError {
        self.socket.protocol(what)
    }

    pub(super) const fn system_calls(&self) -> u64 {
        self.socket.system_calls()
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
