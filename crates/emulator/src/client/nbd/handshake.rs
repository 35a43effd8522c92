//! Up to the first request: fixed newstyle negotiation of one export, over TLS if the URI names it.

use super::Export;
use super::limits::{Expired, Limits};
use super::tls::{Progress, TlsSettings};
use super::transport::Transport;
use crate::client::ClientError;
use crate::frontend::nbd::wire::{
    IN_MEMORY, NBD_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX,
    handshake_flag, info, option, option_reply, transmission_flag, u16_at, u32_at, u64_at,
};

/// Magic numbers and flags that the server sends first.
const GREETING_SIZE: usize = 18;
/// Head of an answer to an option.
const OPTION_REPLY_SIZE: usize = 20;
/// The longest answer to an option that is looked at: a description and its head.
const OPTION_REPLY_BYTES_MAX: usize = STRING_BYTES_MAX as usize + 64;
/// The most answers to one option: an export has few properties.
const OPTION_REPLY_COUNT_MAX: usize = 64;

pub(super) struct Handshake<'a> {
    socket: &'a mut Transport,
    limits: Limits<'a>,
}

impl<'a> Handshake<'a> {
    pub(super) fn new(socket: &'a mut Transport, limits: Limits<'a>) -> Self {
        Self { socket, limits }
    }

    /// Begins TLS if there are settings for it, and chooses the export; also whether the server replies in structure.
    pub(super) fn negotiate(
        &mut self,
        name: &str,
        tls: Option<&TlsSettings>,
    ) -> Result<(Export, bool), ClientError> {
        self.greet()?;
        if let Some(tls) = tls {
            self.start_tls(tls)?;
        }
        self.choose(name)
    }

    fn greet(&mut self) -> Result<(), ClientError> {
        let greeting = self.receive(GREETING_SIZE)?;
        if u64_at(&greeting, 0) != NBD_MAGIC || u64_at(&greeting, 8) != OPTION_MAGIC {
            return Err(self.socket.protocol("it does not greet as a newstyle NBD server"));
        }
        let flags = u16_at(&greeting, 16);
        if flags & handshake_flag::FIXED_NEWSTYLE == 0 {
            return Err(self.socket.protocol("it does not speak fixed newstyle"));
        }
        let flags = flags & (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
        self.send(&u32::from(flags).to_be_bytes())
    }

    /// Everything that was agreed before TLS is forgotten, so nothing but the flags comes before it. Without TLS there is
    /// no connection.
    fn start_tls(&mut self, settings: &TlsSettings) -> Result<(), ClientError> {
        self.option(option::START_TLS, &[])?;
        let (kind, data) = self.answer(option::START_TLS)?;
        match kind {
            option_reply::ACK => {}
            kind if kind >> 31 == 1 => {
                let reason = match kind {
                    option_reply::ERROR_SHUTDOWN => "it is shutting down",
                    _ => {
                        "it has no TLS; write nbd:// in place of nbds:// for a connection without encryption"
                    }
                };
                let message = String::from_utf8_lossy(&data);
                let reason =
                    if message.is_empty() { reason.to_owned() } else { format!("{reason} ({message})") };
                return Err(ClientError::Refused { server: self.socket.server(), reason });
            }
            kind => return Err(self.socket.protocol(format!("answer {kind} to NBD_OPT_STARTTLS"))),
        }
        self.socket.begin_tls(settings)?;
        loop {
            match self.socket.continue_tls()? {
                Progress::Complete => return Ok(()),
                Progress::Receive => self.wait(false)?,
                Progress::Send => self.wait(true)?,
            }
        }
    }

    fn choose(&mut self, name: &str) -> Result<(Export, bool), ClientError> {
        self.option(option::STRUCTURED_REPLY, &[])?;
        let (kind, _) = self.answer(option::STRUCTURED_REPLY)?;
        let structured = kind == option_reply::ACK;
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend(name.as_bytes());
        data.extend(2u16.to_be_bytes());
        data.extend(info::BLOCK_SIZE.to_be_bytes());
        data.extend(info::DESCRIPTION.to_be_bytes());
        self.option(option::GO, &data)?;
        let mut export = None;
        let mut sizes = None;
        let mut is_in_memory = false;
        for _ in 0..OPTION_REPLY_COUNT_MAX {
            let (kind, data) = self.answer(option::GO)?;
            match kind {
                option_reply::INFO if data.len() == 12 && u16_at(&data, 0) == info::EXPORT => {
                    export = Some((u64_at(&data, 2), u16_at(&data, 10)));
                }
                option_reply::INFO if data.len() == 14 && u16_at(&data, 0) == info::BLOCK_SIZE => {
                    sizes = Some([u32_at(&data, 2), u32_at(&data, 6), u32_at(&data, 10)]);
                }
                option_reply::INFO if data.len() >= 2 && u16_at(&data, 0) == info::DESCRIPTION => {
                    is_in_memory = data.ends_with(IN_MEMORY.as_bytes());
                }
                option_reply::INFO => {}
                option_reply::ACK => {
                    let export = export.ok_or_else(|| self.socket.protocol("it gives no export size"))?;
                    let export = Export { is_in_memory, ..self.export(export, sizes)? };
                    return Ok((export, structured));
                }
                kind => return Err(self.refused(kind, &data, name)),
            }
        }
        Err(self.socket.protocol(format!("more than {OPTION_REPLY_COUNT_MAX} answers to one option")))
    }

    fn export(&self, (size, flags): (u64, u16), sizes: Option<[u32; 3]>) -> Result<Export, ClientError> {
        let [minimum, preferred, maximum] = sizes.unwrap_or([1, 4096, PAYLOAD_BYTES_MAX]);
        let is_sane = minimum.is_power_of_two() && preferred.is_power_of_two() && minimum <= preferred;
        if !is_sane || maximum < preferred {
            let what = format!("block sizes {minimum}, {preferred}, {maximum}");
            return Err(self.socket.protocol(what));
        }
        let has = |flag| flags & flag != 0;
        Ok(Export {
            size_bytes: size,
            block_bytes_min: minimum,
            block_bytes_preferred: preferred,
            payload_bytes_max: maximum.min(PAYLOAD_BYTES_MAX),
            read_only: has(transmission_flag::READ_ONLY),
            flush: has(transmission_flag::SEND_FLUSH),
            fua: has(transmission_flag::SEND_FUA),
            discard: has(transmission_flag::SEND_TRIM),
            write_zeroes: has(transmission_flag::SEND_WRITE_ZEROES),
            rotational: has(transmission_flag::ROTATIONAL),
            several_connections: has(transmission_flag::CAN_MULTI_CONN),
            is_in_memory: false,
        })
    }

    fn refused(&self, kind: u32, data: &[u8], name: &str) -> ClientError {
        let message = String::from_utf8_lossy(data);
        let reason = match kind {
            option_reply::ERROR_UNKNOWN => format!("it has no export `{name}`"),
            option_reply::ERROR_TLS_REQUIRED => {
                "it requires TLS; write nbds:// in place of nbd://, with tls-certificates=FOLDER".to_owned()
            }
            option_reply::ERROR_UNSUPPORTED => "it is too old: it does not know NBD_OPT_GO".to_owned(),
            option_reply::ERROR_SHUTDOWN => "it is shutting down".to_owned(),
            kind if kind >> 31 == 1 => format!("error {}", kind & 0x7fff_ffff),
            kind => return self.socket.protocol(format!("answer {kind} to NBD_OPT_GO")),
        };
        let reason = if message.is_empty() { reason } else { format!("{reason} ({message})") };
        ClientError::Refused { server: self.socket.server(), reason }
    }

    fn option(&mut self, kind: u32, data: &[u8]) -> Result<(), ClientError> {
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.send(&bytes)
    }

    fn answer(&mut self, option: u32) -> Result<(u32, Vec<u8>), ClientError> {
        let head = self.receive(OPTION_REPLY_SIZE)?;
        if u64_at(&head, 0) != OPTION_REPLY_MAGIC || u32_at(&head, 8) != option {
            return Err(self.socket.protocol(format!("no answer to option {option}")));
        }
        let (kind, length) = (u32_at(&head, 12), u32_at(&head, 16) as usize);
        if length > OPTION_REPLY_BYTES_MAX {
            let what =
                format!("an answer of {length} bytes to option {option}, more than {OPTION_REPLY_BYTES_MAX}");
            return Err(self.socket.protocol(what));
        }
        Ok((kind, self.receive(length)?))
    }

    fn receive(&mut self, count: usize) -> Result<Vec<u8>, ClientError> {
        let mut bytes = vec![0; count];
        let mut filled = 0;
        while filled < count {
            match self.socket.receive(&mut bytes[filled..], false, 0)? {
                Some(more) => filled += more,
                None => self.wait(false)?,
            }
        }
        Ok(bytes)
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<(), ClientError> {
        loop {
            let count = self.socket.send([bytes, &[]], 0)?;
            bytes = &bytes[count..];
            if bytes.is_empty() && self.socket.is_sent() {
                return Ok(());
            }
            if count == 0 {
                self.wait(true)?;
            }
        }
    }

    fn wait(&self, sending: bool) -> Result<(), ClientError> {
        match self.limits.look() {
            Ok(until) => self.socket.wait(sending, Some((until, self.limits.clock()))),
            Err(Expired::Stopped) => Err(ClientError::Stopped { outstanding: 0 }),
            Err(Expired::Late) => {
                let (server, seconds) = (self.socket.server(), Limits::seconds());
                Err(ClientError::Silent { server, seconds, outstanding: 0 })
            }
        }
    }
}
