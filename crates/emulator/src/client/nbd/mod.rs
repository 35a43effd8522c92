//! A network block device client: blocking calls, or many requests outstanding.
//!
//! ```text
//! submit ─▶ [ head | data ] ─▶ socket ─▶ replies in any order ─▶ collect
//! ```
//! # Scope and limits
//! Fixed newstyle negotiation of one export over a unix socket or TCP, with TLS if the URI names it; simple and
//! structured replies, in chunks of any number and order; flush, FUA, trim, write zeroes. TLS is with certificates and begins
//! before anything else is agreed. A URI with TLS gets no connection without it. No block status, no extended
//! headers. Every length that a server names is bounded before memory is taken for it; a server that breaks
//! the protocol or dies ends the connection with an error that gives the reason. Requests that do not fit into the
//! socket wait in memory and leave while replies are collected, so a server that reads nothing holds up no caller, and two
//! full sockets never wait for each other.
//!
//! # References
//! The NBD protocol, <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>. Its numbers
//! are those of the server, [`frontend::nbd`](crate::frontend::nbd); the tests of either use another codec
//! or other programs.

mod connect;
mod handshake;
mod limits;
mod outgoing;
mod replies;
mod socket;
mod tls;
mod transport;

use std::os::fd::{AsFd, BorrowedFd};

use seeklab_core::{HostRequest, Instant, Operation};

use self::handshake::Handshake;
use self::limits::Limits;
use self::outgoing::Outgoing;
use self::replies::Replies;
use self::tls::TlsSettings;
use self::transport::Transport;
use super::{ClientError, Command, Patience, Reply};
use crate::clock::Clock;
use crate::frontend::nbd::Uri;
use crate::frontend::nbd::wire::{REQUEST_MAGIC, REQUEST_SIZE, command, command_flag};

/// Properties of an export, as the server announces them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// Its size.
    pub size_bytes: u64,
    /// Offsets and lengths are multiples of it; a power of two.
    pub block_bytes_min: u32,
    /// Offsets and lengths best are multiples of it; a power of two.
    pub block_bytes_preferred: u32,
    /// The longest read or write, at most 32 MiB.
    pub payload_bytes_max: u32,
    /// True if the export refuses writes.
    pub read_only: bool,
    /// True if the export supports flushes.
    pub flush: bool,
    /// True if the export supports writes through to the media.
    pub fua: bool,
    /// True if the export supports discards.
    pub discard: bool,
    /// True if the export supports writes of zeroes.
    pub write_zeroes: bool,
    /// True if the export is a rotating disk.
    pub rotational: bool,
    /// True if a flush on one connection covers the writes of all connections.
    pub several_connections: bool,
    /// True if the server is a seeklab that keeps the bytes in memory, and says so.
    pub is_in_memory: bool,
}

/// A connection to an NBD server.
#[derive(Debug)]
pub struct Client {
    socket: Transport,
    /// Settings of TLS, if the URI has it.
    tls: Option<TlsSettings>,
    clock: Clock,
    export: Export,
    is_structured: bool,
    outgoing: Outgoing,
    replies: Replies,
    received: Box<[u8]>,
    /// Part of `received` that is not decoded yet.
    pending: std::ops::Range<usize>,
    /// The reply that was lent out last.
    lent: Option<usize>,
    /// System calls on connections that were replaced.
    former_calls: u64,
}

/// Makes connections to the export that a URI names.
#[derive(Debug, Clone)]
pub struct Connector {
    uri: Uri,
    tls: Option<TlsSettings>,
    clock: Clock,
}

impl Connector {
    /// Connects, and looks several times per second if the caller wants an end.
    ///
    /// # Errors
    /// As those of [`Client::connect_unless`].
    pub fn connect(self, is_stopped: &dyn Fn() -> bool) -> Result<Client, ClientError> {
        self.connect_or(is_stopped, |_, error| error)
    }

    /// Connects. A failure behind the connection of the socket is explained.
    fn connect_or(
        self,
        is_stopped: &dyn Fn() -> bool,
        explain: impl FnOnce(&Transport, ClientError) -> ClientError,
    ) -> Result<Client, ClientError> {
        let Self { uri, tls, clock } = self;
        let limits = Limits::begin(clock, is_stopped);
        let mut socket = Transport::connect(&uri, &limits)?;
        let chosen = Handshake::new(&mut socket, limits).negotiate(uri.export(), tls.as_ref());
        let (export, is_structured) = chosen.map_err(|error| explain(&socket, error))?;
        Ok(Client {
            socket,
            tls,
            clock,
            export,
            is_structured,
            outgoing: Outgoing::default(),
            replies: Replies::default(),
            received: vec![0; RECEIVE_BYTES].into(),
            pending: 0..0,
            lent: None,
            former_calls: 0,
        })
    }
}

/// Replies of small requests come many at a time.
const RECEIVE_BYTES: usize = 64 << 10;
const _: () = assert!(RECEIVE_BYTES >= Replies::BUFFER_BYTES_MIN);

impl Client {
    /// Connects and chooses the export that the URI names. Stamps will be on `clock`.
    ///
    /// # Errors
    /// If nobody answers there, or no NBD server, or the export is refused. With TLS also, if certificates cannot be read, the
    /// server has no TLS, or one side refuses the certificate of the other.
    pub fn connect(uri: &Uri, clock: Clock) -> Result<Self, ClientError> {
        Self::connect_unless(uri, clock, &|| false)
    }

    /// As [`connect`](Self::connect), and looks several times per second if the caller wants an end while the server does not
    /// answer.
    ///
    /// # Errors
    /// As those of [`connect`](Self::connect), and [`ClientError::Stopped`].
    pub fn connect_unless(
        uri: &Uri,
        clock: Clock,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Self, ClientError> {
        let connector = Connector { uri: uri.clone(), tls: TlsSettings::of(uri)?, clock };
        connector.connect_or(is_stopped, Transport::first_failure)
    }

    /// Gives up a connection that has ended: outstanding requests come out of [`collect`](Self::collect) with the failure
    /// that a server sends for a device which is not there, `ESHUTDOWN`.
    pub fn abandon(&mut self) {
        const GONE: u32 = 108;
        self.pending = 0..0;
        self.outgoing.clear();
        self.replies.abandon(GONE, self.clock.now());
    }

    /// Connects again, to the same export, with the same certificates.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and if the export is another one. The client keeps its old connection.
    ///
    /// # Panics
    /// If requests are outstanding.
    pub fn reconnect(&mut self, uri: &Uri) -> Result<(), ClientError> {
        let fresh = self.connector(uri).connect(&|| false)?;
        self.take_over(fresh)
    }

    /// Returns a connector with the same certificates, which connects again on any thread.
    pub fn connector(&self, uri: &Uri) -> Connector {
        Connector { uri: uri.clone(), tls: self.tls.clone(), clock: self.clock }
    }

    /// Takes the connection of another client in place of the own one, which has ended.
    ///
    /// # Errors
    /// If the export is another one. The client keeps its old connection.
    ///
    /// # Panics
    /// If requests are outstanding.
    pub fn take_over(&mut self, fresh: Self) -> Result<(), ClientError> {
        assert_eq!(self.outstanding(), 0, "replies to outstanding requests come over the old connection");
        let Self { socket, export, is_structured, .. } = fresh;
        if export != self.export {
            return Err(socket.protocol("its export is not the one that it had before"));
        }
        self.former_calls = self.system_calls();
        self.outgoing.clear();
        (self.socket, self.is_structured, self.pending) = (socket, is_structured, 0..0);
        Ok(())
    }

    /// Returns the properties of the export, as the server announced them.
    pub const fn export(&self) -> &Export {
        &self.export
    }

    /// Returns true if the server sends structured replies.
    pub const fn is_structured(&self) -> bool {
        self.is_structured
    }

    /// The clock of the stamps.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Puts the stamps of requests to come on another clock.
    pub const fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Returns the number of system calls to send, to receive and to wait for replies.
    pub const fn system_calls(&self) -> u64 {
        self.former_calls + self.socket.system_calls()
    }

    /// Requests whose reply has not come.
    pub fn outstanding(&self) -> usize {
        self.replies.outstanding()
    }

    /// Returns true if requests wait for room in the socket. [`collect`](Self::collect) sends them when there is some.
    pub fn is_sending(&self) -> bool {
        !self.outgoing.is_empty(&self.socket)
    }

    /// Sends a request; its reply comes out of [`collect`](Self::collect). Does not wait: what the socket does not take is
    /// copied, and [`collect`](Self::collect) sends it.
    ///
    /// # Errors
    /// If the export cannot do that, or the connection ends. After the first two kinds of
    /// [`ClientError`] that keep the connection, nothing was sent.
    pub fn submit(&mut self, command: Command<'_>) -> Result<(), ClientError> {
        self.check(&command)?;
        let kind = match command.op {
            Operation::Read => command::READ,
            Operation::Write => command::WRITE,
            Operation::Flush => command::FLUSH,
            Operation::Discard => command::TRIM,
            Operation::WriteZeroes => command::WRITE_ZEROES,
        };
        let Command { tag, op, fua, offset_bytes, length_bytes, data } = command;
        let unsent = HostRequest::new(Instant::ZERO, Instant::ZERO, op, offset_bytes, length_bytes.into());
        let request = HostRequest { fua, ..unsent };
        let cookie = self.replies.expect(tag, request);
        let mut head = [0; REQUEST_SIZE];
        head[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        head[4..6].copy_from_slice(&(if fua { command_flag::FUA } else { 0 }).to_be_bytes());
        head[6..8].copy_from_slice(&kind.to_be_bytes());
        head[8..16].copy_from_slice(&cookie.to_be_bytes());
        head[16..24].copy_from_slice(&offset_bytes.to_be_bytes());
        head[24..].copy_from_slice(&length_bytes.to_be_bytes());
        // Behind all that takes time, such as room for what is read.
        self.replies.issued(cookie, self.clock.now());
        self.outgoing.send(&mut self.socket, [&head, data], self.replies.outstanding())
    }

    /// Returns the next reply, and waits for it up to the limit `patience`; `None` after that. Replies are in the
    /// order in which they were complete. If nothing is outstanding, returns `None` at once. Sends requests that wait for
    /// room in the socket.
    ///
    /// # Errors
    /// If the server ends the connection or breaks the protocol.
    pub fn collect(&mut self, patience: Patience) -> Result<Option<Reply<'_>>, ClientError> {
        if let Some(lent) = self.lent.take() {
            self.replies.release(lent);
        }
        loop {
            if let Some(index) = self.replies.next() {
                self.lent = Some(index);
                let slot = self.replies.slot_mut(index);
                let failure = slot.failure.clone();
                let (tag, request) = (slot.tag, slot.request);
                return Ok(Some(Reply { tag, request, data: self.replies.slot(index).data(), failure }));
            }
            if self.replies.outstanding() == 0 {
                return Ok(None);
            }
            // The server may itself be waiting for its replies to be taken.
            let is_sending = self.is_sending();
            if self.receive(patience == Patience::Unlimited && !is_sending)? {
                continue;
            }
            if is_sending && self.outgoing.go_on(&mut self.socket, self.replies.outstanding())? {
                continue;
            }
            match patience {
                Patience::None => return Ok(None),
                Patience::Until(until) if self.clock.now() >= until => return Ok(None),
                Patience::Until(until) => self.socket.wait(is_sending, Some((until, self.clock)))?,
                Patience::Unlimited if is_sending => self.socket.wait(true, None)?,
                Patience::Unlimited => {}
            }
        }
    }

    /// Reads and waits for it.
    ///
    /// # Errors
    /// As [`submit`](Self::submit) and [`collect`](Self::collect), and if the server fails it.
    ///
    /// # Panics
    /// If submitted requests have not been collected.
    pub fn read(&mut self, offset_bytes: u64, buffer: &mut [u8]) -> Result<HostRequest, ClientError> {
        let length = self.length(Operation::Read, offset_bytes, buffer.len() as u64)?;
        self.call(Command::read(0, offset_bytes, length), buffer)
    }

    /// Writes `data`, through to the media if `fua`, and waits for the reply.
    ///
    /// # Errors
    /// As [`read`](Self::read), which also documents the panics.
    pub fn write(&mut self, offset_bytes: u64, data: &[u8], fua: bool) -> Result<HostRequest, ClientError> {
        self.length(Operation::Write, offset_bytes, data.len() as u64)?;
        self.call(Command::write(0, offset_bytes, data).fua(fua), &mut [])
    }

    /// Makes every completed write durable, and waits for the reply.
    ///
    /// # Errors
    /// As [`read`](Self::read), which also documents the panics.
    pub fn flush(&mut self) -> Result<HostRequest, ClientError> {
        self.call(Command::flush(0), &mut [])
    }

    /// Marks bytes as no longer needed, and waits for the reply.
    ///
    /// # Errors
    /// As [`read`](Self::read), which also documents the panics.
    pub fn discard(&mut self, offset_bytes: u64, length_bytes: u32) -> Result<HostRequest, ClientError> {
        self.call(Command::discard(0, offset_bytes, length_bytes), &mut [])
    }

    /// Fills bytes with zeroes, and waits for the reply.
    ///
    /// # Errors
    /// As [`read`](Self::read), which also documents the panics.
    pub fn write_zeroes(&mut self, offset_bytes: u64, length_bytes: u32) -> Result<HostRequest, ClientError> {
        self.call(Command::write_zeroes(0, offset_bytes, length_bytes), &mut [])
    }

    /// Sends the request to disconnect. Requests outstanding get no reply. A server that reads nothing finds the connection
    /// closed instead.
    ///
    /// # Errors
    /// If the server has already gone.
    pub fn disconnect(mut self) -> Result<(), ClientError> {
        let mut head = [0; REQUEST_SIZE];
        head[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        head[6..8].copy_from_slice(&command::DISCONNECT.to_be_bytes());
        self.outgoing.send(&mut self.socket, [&head, &[]], self.replies.outstanding())?;
        self.socket.close();
        Ok(())
    }

    fn call(&mut self, command: Command<'_>, buffer: &mut [u8]) -> Result<HostRequest, ClientError> {
        assert!(self.replies.is_idle(), "a call that waits for its reply has the connection alone");
        self.submit(command)?;
        let reply = self.collect(Patience::Unlimited)?.expect("one request is outstanding");
        if let Some(failure) = reply.failure {
            let Command { op, offset_bytes, length_bytes, .. } = command;
            return Err(ClientError::Failed { op, offset_bytes, length_bytes: length_bytes.into(), failure });
        }
        buffer.copy_from_slice(reply.data);
        Ok(reply.request)
    }

    fn check(&self, command: &Command<'_>) -> Result<(), ClientError> {
        let Command { op, fua, offset_bytes, length_bytes, data, .. } = *command;
        let export = &self.export;
        let is_possible = match op {
            Operation::Read | Operation::Write => true,
            Operation::Flush => export.flush,
            Operation::Discard => export.discard,
            Operation::WriteZeroes => export.write_zeroes,
        };
        if !is_possible || (op != Operation::Read && op != Operation::Flush && export.read_only) {
            return Err(ClientError::Unsupported { server: self.socket.server(), op });
        }
        let invalid = |reason: String| {
            let length_bytes = u64::from(length_bytes);
            Err(ClientError::Invalid { op, offset_bytes, length_bytes, reason })
        };
        if op == Operation::Flush {
            let is_plain = offset_bytes == 0 && length_bytes == 0 && !fua;
            return if is_plain { Ok(()) } else { invalid("a flush addresses nothing".to_owned()) };
        }
        let unit = u64::from(export.block_bytes_min);
        if offset_bytes % unit != 0 || u64::from(length_bytes) % unit != 0 || length_bytes == 0 {
            return invalid(format!("requests are whole blocks of {unit} bytes, at least one"));
        }
        match offset_bytes.checked_add(u64::from(length_bytes)) {
            Some(end) if end <= export.size_bytes => {}
            _ => return invalid(format!("the export ends at {} bytes", export.size_bytes)),
        }
        if matches!(op, Operation::Read | Operation::Write) && length_bytes > export.payload_bytes_max {
            return invalid(format!("at most {} bytes go in one request", export.payload_bytes_max));
        }
        if (op == Operation::Write) != (data.len() == length_bytes as usize) {
            return invalid(format!("{} bytes of data", data.len()));
        }
        if fua && (op == Operation::Read || !export.fua) {
            return invalid("the export has no force unit access for it".to_owned());
        }
        Ok(())
    }

    /// A length as the protocol writes it.
    fn length(&self, op: Operation, offset_bytes: u64, length_bytes: u64) -> Result<u32, ClientError> {
        u32::try_from(length_bytes).map_err(|_| {
            let reason = format!("at most {} bytes go in one request", self.export.payload_bytes_max);
            ClientError::Invalid { op, offset_bytes, length_bytes, reason }
        })
    }

    /// Takes what has come, waiting for it if it `blocks`; whether anything had.
    fn receive(&mut self, blocks: bool) -> Result<bool, ClientError> {
        let outstanding = self.replies.outstanding();
        if let Some(place) = self.replies.direct() {
            let Some(count) = self.socket.receive(place, blocks, outstanding)? else { return Ok(false) };
            let now = self.clock.now();
            self.replies.advance(count, now).map_err(|what| self.socket.protocol(what))?;
            return Ok(true);
        }
        if self.pending.end == self.received.len() {
            self.received.copy_within(self.pending.clone(), 0);
            self.pending = 0..self.pending.len();
        }
        let free = &mut self.received[self.pending.end..];
        let Some(count) = self.socket.receive(free, blocks, outstanding)? else { return Ok(false) };
        let now = self.clock.now();
        self.pending.end += count;
        let taken = self.replies.take(&self.received[self.pending.clone()], now);
        self.pending.start += taken.map_err(|what| self.socket.protocol(what))?;
        if self.pending.is_empty() {
            self.pending = 0..0;
        }
        Ok(true)
    }
}

impl AsFd for Client {
    /// For waiting on several clients at once: readable when replies may have come, and writable when requests that wait may
    /// leave ([`is_sending`](Client::is_sending)).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
