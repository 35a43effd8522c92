//! TLS over the socket of a client.
//!
//! ```text
//! send ─▶ [ head | data ] ─▶ records ─▶ socket ─▶ incoming ─▶ decrypted where they lie ─▶ receive
//! ```
//! # Scope and limits
//! TLS 1.2 and 1.3 by rustls, in its form without buffers, so that many records are sent and received by one system call.
//! The head of a request and the begin of its data are one record. rustls takes memory for each record, once in each
//! direction; all other memory is reused. Received bytes that are not decrypted yet, and records that the socket has not
//! taken, have limits.
//!
//! # References
//! RFC 8446, RFC 5246; the option `NBD_OPT_STARTTLS` of the
//! [NBD protocol](https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md).

mod reasons;
mod settings;

use std::fmt;
use std::ops::Range;

use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};

pub(super) use self::settings::TlsSettings;
use super::socket::Socket;
use crate::client::ClientError;

/// The most content of a record.
const RECORD_BYTES: usize = 16 << 10;
/// The most that encryption adds to a record, and to the first of several the message that changes the keys.
const OVERHEAD_BYTES: usize = 512;
/// Records that are encrypted at a time.
const RECORDS_PER_SEND: usize = 4;
/// Handshake messages have at most 64 KiB and stay until they are complete, and one record more is on the way.
const INCOMING_BYTES: usize = (64 << 10) + RECORD_BYTES + OVERHEAD_BYTES;

/// Next thing that a TLS handshake needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing: it is complete.
    Complete,
    /// Bytes of the server.
    Receive,
    /// Room in the socket.
    Send,
}

/// A TLS connection, and the bytes on both of its sides.
pub(super) struct TlsStream {
    connection: UnbufferedClientConnection,
    settings: TlsSettings,
    /// Bytes from the socket; those in `arrived` are not decrypted yet.
    incoming: Box<[u8]>,
    arrived: Range<usize>,
    /// Decrypted bytes that were not taken yet, from `taken` on.
    plain: Vec<u8>,
    taken: usize,
    /// Encrypted bytes; those in `unsent` go to the socket.
    outgoing: Vec<u8>,
    unsent: Range<usize>,
    /// Content of the record that is encrypted.
    joined: Vec<u8>,
    /// The server sends no more.
    is_closed: bool,
}

/// State after all that has arrived was processed.
enum State {
    Handshaking,
    /// With the number of bytes that were encrypted.
    Established(usize),
    Closed,
}

impl TlsStream {
    pub(super) fn new(settings: &TlsSettings, socket: &Socket) -> Result<Self, ClientError> {
        let connection = settings.begin().map_err(|error| settings.error(socket.server(), &error))?;
        Ok(Self {
            connection,
            settings: settings.clone(),
            incoming: vec![0; INCOMING_BYTES].into(),
            arrived: 0..0,
            plain: Vec::new(),
            taken: 0,
            outgoing: vec![0; RECORDS_PER_SEND * (RECORD_BYTES + OVERHEAD_BYTES)],
            unsent: 0..0,
            joined: Vec::with_capacity(RECORD_BYTES),
            is_closed: false,
        })
    }

    /// Goes on with the handshake as far as that is possible without a wait. Receives at most once, so that the caller looks
    /// at its time limit.
    pub(super) fn handshake(&mut self, socket: &Socket) -> Result<Progress, ClientError> {
        self.fill(socket, false, 0)?;
        let (_, state) = self.process(socket, &mut [], [&[], &[]])?;
        let is_sent = self.flush(socket, 0)?;
        match state {
            State::Closed => Err(socket.closed(0)),
            _ if !is_sent => Ok(Progress::Send),
            State::Established(_) => Ok(Progress::Complete),
            State::Handshaking => Ok(Progress::Receive),
        }
    }

    /// Returns the number of bytes received, never zero. `None` if no complete record is available.
    pub(super) fn receive(
        &mut self,
        socket: &Socket,
        buffer: &mut [u8],
        blocks: bool,
        outstanding: usize,
    ) -> Result<Option<usize>, ClientError> {
        let mut filled = self.take_plain(buffer);
        if filled == 0 && !self.arrived.is_empty() {
            filled = self.process(socket, buffer, [&[], &[]])?.0;
        }
        if filled == 0 && !self.is_closed && self.fill(socket, blocks, outstanding)? {
            filled = self.process(socket, buffer, [&[], &[]])?.0;
        }
        match filled {
            0 if self.is_closed => Err(socket.closed(outstanding)),
            0 => Ok(None),
            filled => Ok(Some(filled)),
        }
    }

    /// Returns the number of bytes that were encrypted: zero if the socket has not taken those before.
    pub(super) fn send(
        &mut self,
        socket: &Socket,
        parts: [&[u8]; 2],
        outstanding: usize,
    ) -> Result<usize, ClientError> {
        if self.is_closed {
            return Err(socket.closed(outstanding));
        }
        if !self.flush(socket, outstanding)? || parts.iter().all(|part| part.is_empty()) {
            return Ok(0);
        }
        // What has arrived is kept: keys may have changed in it.
        match self.process(socket, &mut [], parts)?.1 {
            State::Established(count) => {
                self.flush(socket, outstanding)?;
                Ok(count)
            }
            State::Closed | State::Handshaking => Err(socket.closed(outstanding)),
        }
    }

    pub(super) fn is_sent(&self) -> bool {
        self.unsent.is_empty()
    }

    pub(super) fn close(&mut self, socket: &Socket) {
        let status = self.connection.process_tls_records(&mut self.incoming[self.arrived.clone()]);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state
            && let Ok(count) = traffic.queue_close_notify(&mut self.outgoing[self.unsent.end..])
        {
            self.unsent.end += count;
            // The server may have gone: then it needs no farewell.
            let _ = self.flush(socket, 0);
        }
    }

    /// Moves bytes that were decrypted before; their number.
    fn take_plain(&mut self, buffer: &mut [u8]) -> usize {
        let rest = &self.plain[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        if self.taken == self.plain.len() {
            self.plain.clear();
            self.taken = 0;
        }
        count
    }

    /// Receives bytes once; false if none have come.
    fn fill(&mut self, socket: &Socket, blocks: bool, outstanding: usize) -> Result<bool, ClientError> {
        if self.arrived.is_empty() {
            self.arrived = 0..0;
        }
        if self.arrived.end == self.incoming.len() {
            if self.arrived.start == 0 {
                let what = format!("a TLS handshake message is longer than {INCOMING_BYTES} bytes");
                return Err(socket.protocol(what));
            }
            self.incoming.copy_within(self.arrived.clone(), 0);
            self.arrived = 0..self.arrived.len();
        }
        let free = &mut self.incoming[self.arrived.end..];
        let Some(count) = socket.receive(free, blocks, outstanding)? else { return Ok(false) };
        self.arrived.end += count;
        Ok(true)
    }

    /// Decrypts complete records into `place` until that is full, and encrypts `parts` if there are any. Without a place, all
    /// records are decrypted and kept. Returns the number of bytes in `place`, and the state.
    fn process(
        &mut self,
        socket: &Socket,
        place: &mut [u8],
        parts: [&[u8]; 2],
    ) -> Result<(usize, State), ClientError> {
        let mut filled = 0;
        loop {
            let UnbufferedStatus { mut discard, state, .. } =
                self.connection.process_tls_records(&mut self.incoming[self.arrived.clone()]);
            let mut reached = None;
            let mut failure = None;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let Ok(record) = record.map_err(|error| failure = Some(error)) else { break };
                        discard += record.discard;
                        let count = record.payload.len().min(place.len() - filled);
                        place[filled..filled + count].copy_from_slice(&record.payload[..count]);
                        self.plain.extend_from_slice(&record.payload[count..]);
                        filled += count;
                    }
                    if !place.is_empty() && filled == place.len() {
                        reached = Some(State::Established(0));
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => loop {
                    match data.encode(&mut self.outgoing[self.unsent.end..]) {
                        Ok(count) => break self.unsent.end += count,
                        Err(EncodeError::InsufficientSize(size)) => {
                            self.outgoing.resize(self.unsent.end + size.required_size, 0);
                        }
                        Err(EncodeError::AlreadyEncoded) => break,
                    }
                },
                // It is in `outgoing`, and leaves in order.
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::BlockedHandshake) => reached = Some(State::Handshaking),
                Ok(ConnectionState::WriteTraffic(traffic)) => {
                    let outgoing = (&mut self.outgoing[..], &mut self.unsent, &mut self.joined);
                    match encrypt(traffic, outgoing, parts) {
                        Ok(count) => reached = Some(State::Established(count)),
                        // TLS 1.2 changes no keys: after so many records, the connection ends.
                        Err(_) => reached = Some(State::Closed),
                    }
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => reached = Some(State::Closed),
                Ok(other) => {
                    let what = format!("TLS is in the state {other:?}");
                    return Err(socket.protocol(what));
                }
                Err(error) => failure = Some(error),
            }
            self.arrived.start += discard;
            if let Some(error) = failure {
                self.send_alert(socket);
                return Err(self.settings.error(socket.server(), &error));
            }
            if let Some(state) = reached {
                self.is_closed |= matches!(state, State::Closed);
                return Ok((filled, state));
            }
        }
    }

    /// Sends the alert about the error that ended the connection. The server may have gone: then nobody misses it.
    fn send_alert(&mut self, socket: &Socket) {
        let status = self.connection.process_tls_records(&mut self.incoming[self.arrived.clone()]);
        if let Ok(ConnectionState::EncodeTlsData(mut data)) = status.state
            && let Ok(count) = data.encode(&mut self.outgoing[self.unsent.end..])
        {
            self.unsent.end += count;
            let _ = self.flush(socket, 0);
        }
    }

    /// Hands encrypted bytes to the socket; true if it has taken all.
    fn flush(&mut self, socket: &Socket, outstanding: usize) -> Result<bool, ClientError> {
        while !self.unsent.is_empty() {
            let count = socket.send([&self.outgoing[self.unsent.clone()], &[]], outstanding)?;
            if count == 0 {
                return Ok(false);
            }
            self.unsent.start += count;
        }
        self.unsent = 0..0;
        Ok(true)
    }
}

/// Encrypts the begin of `parts` as one record, and what follows as further ones; the number of bytes of `parts`.
fn encrypt<Data>(
    mut traffic: WriteTraffic<'_, Data>,
    (outgoing, unsent, joined): (&mut [u8], &mut Range<usize>, &mut Vec<u8>),
    [head, data]: [&[u8]; 2],
) -> Result<usize, EncryptError> {
    let mut sealed = 0;
    let mut seal = |content: &[u8]| {
        unsent.end += traffic.encrypt(content, &mut outgoing[unsent.end..])?;
        sealed += content.len();
        Ok::<_, EncryptError>(())
    };
    let mut records_left = RECORDS_PER_SEND;
    let mut rest = head;
    if !data.is_empty() && head.len() < RECORD_BYTES {
        joined.clear();
        joined.extend_from_slice(head);
        let count = data.len().min(RECORD_BYTES - head.len());
        joined.extend_from_slice(&data[..count]);
        seal(joined)?;
        records_left -= 1;
        rest = &data[count..];
    }
    for content in rest.chunks(RECORD_BYTES).take(records_left) {
        seal(content)?;
    }
    Ok(sealed)
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsStream").field("settings", &self.settings).finish_non_exhaustive()
    }
}
