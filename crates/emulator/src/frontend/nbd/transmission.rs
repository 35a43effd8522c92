//! Requests taken apart and checked; replies put together.

use super::buffer::Buffer;
use super::export::Export;
use super::handshake::Agreement;
use super::wire::{
    CHUNK_SIZE, EXTENT_COUNT_MAX, PAYLOAD_BYTES_MAX, REQUEST_MAGIC, REQUEST_SIZE, SIMPLE_REPLY_MAGIC,
    SIMPLE_REPLY_SIZE, STRUCTURED_REPLY_MAGIC, Violation, allocation, chunk, command, command_flag, u16_at,
    u32_at, u64_at,
};
use crate::frontend::{Content, ErrorCode, Extent, Fill};

/// A request as it stands on the wire; a write's payload follows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestHeader {
    pub(super) flags: u16,
    pub(super) command: u16,
    pub(super) cookie: u64,
    pub(super) offset_bytes: u64,
    pub(super) length_bytes: u32,
}

/// Kind of a request, as far as its reply depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes { may_discard: bool },
    BlockStatus { single: bool },
}

/// Reason for the refusal of a request before it reaches the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: ErrorCode,
    pub(super) message: &'static str,
}

impl RequestHeader {
    /// Takes apart the first [`REQUEST_SIZE`] bytes.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Violation> {
        let bytes = &bytes[..REQUEST_SIZE];
        match u32_at(bytes, 0) {
            REQUEST_MAGIC => Ok(Self {
                flags: u16_at(bytes, 4),
                command: u16_at(bytes, 6),
                cookie: u64_at(bytes, 8),
                offset_bytes: u64_at(bytes, 16),
                length_bytes: u32_at(bytes, 24),
            }),
            magic => Err(Violation::RequestMagic(magic)),
        }
    }

    pub(super) fn is_fua(&self) -> bool {
        self.flags & command_flag::FUA != 0
    }

    /// Returns the number of bytes that follow on the wire.
    pub(super) fn payload_size(&self) -> usize {
        if self.command == command::WRITE { self.length_bytes as usize } else { 0 }
    }

    /// Checks that the export supports the request and its range, and returns its kind.
    pub(super) fn check(&self, export: &Export, agreement: Agreement) -> Result<Kind, Refusal> {
        let (kind, own_flags, offered) = match self.command {
            command::READ => {
                let df = if agreement.structured { command_flag::DF } else { 0 };
                (Kind::Read, df, true)
            }
            command::WRITE => (Kind::Write, 0, true),
            command::FLUSH => (Kind::Flush, 0, export.can_flush),
            command::TRIM => (Kind::Discard, 0, export.can_discard),
            command::WRITE_ZEROES => {
                let may_discard = self.flags & command_flag::NO_HOLE == 0;
                (Kind::WriteZeroes { may_discard }, command_flag::NO_HOLE, export.can_write_zeroes)
            }
            command::BLOCK_STATUS => {
                let single = self.flags & command_flag::REQ_ONE != 0;
                (Kind::BlockStatus { single }, command_flag::REQ_ONE, agreement.allocation)
            }
            _ => return invalid("the command is unknown or was not offered"),
        };
        let fua = if export.can_flush { command_flag::FUA } else { 0 };
        let writes = matches!(kind, Kind::Write | Kind::Discard | Kind::WriteZeroes { .. });
        if export.read_only && writes {
            return Err(Refusal { code: ErrorCode::Permission, message: "the device is read-only" });
        }
        if !offered {
            return invalid("the command is unknown or was not offered");
        }
        if self.flags & !(own_flags | fua) != 0 {
            return invalid("the command has flags that were not offered");
        }
        if kind == Kind::Flush {
            return match (self.offset_bytes, self.length_bytes) {
                (0, 0) => Ok(kind),
                _ => invalid("a flush takes neither offset nor length"),
            };
        }
        if self.length_bytes == 0 {
            return invalid("the length is zero");
        }
        if matches!(kind, Kind::Read | Kind::Write) && self.length_bytes > PAYLOAD_BYTES_MAX {
            return invalid("the length exceeds the maximum block size");
        }
        let mask = u64::from(export.block_size_bytes) - 1;
        if (self.offset_bytes | u64::from(self.length_bytes)) & mask != 0 {
            return invalid("offset or length is not a multiple of the minimum block size");
        }
        let end = self.offset_bytes.checked_add(self.length_bytes.into());
        if end.is_none_or(|end| end > export.size_bytes) {
            let message = "the range goes beyond the end of the device";
            let code = match kind {
                Kind::Write | Kind::WriteZeroes { .. } => ErrorCode::NoSpace,
                _ => ErrorCode::Invalid,
            };
            return Err(Refusal { code, message });
        }
        Ok(kind)
    }
}

fn invalid(message: &'static str) -> Result<Kind, Refusal> {
    Err(Refusal { code: ErrorCode::Invalid, message })
}

fn simple(output: &mut Buffer, cookie: u64, error: u32) {
    let header = output.append(SIMPLE_REPLY_SIZE);
    header[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    header[4..8].copy_from_slice(&error.to_be_bytes());
    header[8..16].copy_from_slice(&cookie.to_be_bytes());
}

/// The header of a chunk that is also the last of its reply.
fn chunk_header(header: &mut [u8], cookie: u64, kind: u16, length: u32) {
    header[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    header[4..6].copy_from_slice(&chunk::FLAG_DONE.to_be_bytes());
    header[6..8].copy_from_slice(&kind.to_be_bytes());
    header[8..16].copy_from_slice(&cookie.to_be_bytes());
    header[16..20].copy_from_slice(&length.to_be_bytes());
}

/// Success without content. A simple reply is allowed for it even where structured ones were agreed.
pub(super) fn done(output: &mut Buffer, cookie: u64) {
    simple(output, cookie, 0);
}

/// Failure, with a message where the client can take one.
pub(super) fn failed(
    output: &mut Buffer,
    structured: bool,
    cookie: u64,
    code: ErrorCode,
    message: &'static str,
) {
    if !structured {
        return simple(output, cookie, code.nbd_number());
    }
    let length = 6 + message.len();
    let bytes = output.append(CHUNK_SIZE + length);
    chunk_header(bytes, cookie, chunk::ERROR, length as u32);
    bytes[20..24].copy_from_slice(&code.nbd_number().to_be_bytes());
    bytes[24..26].copy_from_slice(&(message.len() as u16).to_be_bytes());
    bytes[26..].copy_from_slice(message.as_bytes());
}

/// Good bytes of a read that failed behind them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Good {
    /// First byte of the read.
    pub(super) offset_bytes: u64,
    /// Bytes from there on that are good.
    pub(super) good_bytes: usize,
}

/// A read that failed, in a structured reply: the good bytes, and the offset of the first bad one.
pub(super) fn part(
    output: &mut Buffer,
    cookie: u64,
    good: Good,
    code: ErrorCode,
    fill: Fill<'_>,
) -> Result<(), ErrorCode> {
    let Good { offset_bytes, good_bytes } = good;
    if good_bytes > 0 {
        let head = CHUNK_SIZE + 8;
        let bytes = output.append(head + good_bytes);
        match fill(&mut bytes[head..]) {
            Ok(Content::Data) => {}
            Ok(Content::Zeroes) => bytes[head..].fill(0),
            Err(error) => {
                output.retract(head + good_bytes);
                return Err(error);
            }
        }
        chunk_header(bytes, cookie, chunk::OFFSET_DATA, good_bytes as u32 + 8);
        bytes[4..6].copy_from_slice(&chunk::FLAGS_NONE.to_be_bytes());
        bytes[20..28].copy_from_slice(&offset_bytes.to_be_bytes());
    }
    let message = code.message();
    let length = 6 + message.len() + 8;
    let bytes = output.append(CHUNK_SIZE + length);
    chunk_header(bytes, cookie, chunk::ERROR_OFFSET, length as u32);
    bytes[20..24].copy_from_slice(&code.nbd_number().to_be_bytes());
    bytes[24..26].copy_from_slice(&(message.len() as u16).to_be_bytes());
    bytes[26..26 + message.len()].copy_from_slice(message.as_bytes());
    bytes[26 + message.len()..].copy_from_slice(&(offset_bytes + good_bytes as u64).to_be_bytes());
    Ok(())
}

/// A read's content, written by `fill` straight into the output.
pub(super) fn data(
    output: &mut Buffer,
    structured: bool,
    cookie: u64,
    offset_bytes: u64,
    length_bytes: u32,
    fill: Fill<'_>,
) -> Result<(), ErrorCode> {
    let length = length_bytes as usize;
    let head = if structured { CHUNK_SIZE + 8 } else { SIMPLE_REPLY_SIZE };
    let bytes = output.append(head + length);
    let content = match fill(&mut bytes[head..]) {
        Ok(content) => content,
        Err(error) => {
            output.retract(head + length);
            return Err(error);
        }
    };
    if !structured {
        if content == Content::Zeroes {
            bytes[head..].fill(0);
        }
        bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        bytes[4..8].fill(0);
        bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
        return Ok(());
    }
    bytes[20..28].copy_from_slice(&offset_bytes.to_be_bytes());
    match content {
        Content::Data => chunk_header(bytes, cookie, chunk::OFFSET_DATA, length_bytes + 8),
        Content::Zeroes => {
            chunk_header(bytes, cookie, chunk::OFFSET_HOLE, 12);
            output.retract(length);
            output.put(&length_bytes.to_be_bytes());
        }
    }
    Ok(())
}

/// Encodes the extents of `base:allocation`, cut to the requested length.
///
/// # Panics
/// If there is none, or one is no whole number of blocks.
pub(super) fn extents(
    output: &mut Buffer,
    cookie: u64,
    block_size_bytes: u32,
    length_bytes: u32,
    single: bool,
    extents: &[Extent],
) {
    let most = if single { 1 } else { EXTENT_COUNT_MAX };
    let header = output.append(CHUNK_SIZE + 4);
    header[20..24].copy_from_slice(&allocation::CONTEXT_ID.to_be_bytes());
    let (mut remaining, mut count) = (length_bytes, 0);
    for extent in extents.iter().take(most) {
        assert!(
            extent.length_bytes > 0 && extent.length_bytes.is_multiple_of(block_size_bytes),
            "extents are whole blocks, at least one"
        );
        let length = extent.length_bytes.min(remaining);
        let hole = if extent.allocated { 0 } else { allocation::HOLE };
        let zero = if extent.zero { allocation::ZERO } else { 0 };
        output.put(&length.to_be_bytes());
        output.put(&(hole | zero).to_be_bytes());
        remaining -= length;
        count += 1;
        if remaining == 0 {
            break;
        }
    }
    assert!(count > 0, "block status has at least one extent");
    let total = CHUNK_SIZE + 4 + 8 * count;
    let header = output.last(total);
    chunk_header(header, cookie, chunk::BLOCK_STATUS, (total - CHUNK_SIZE) as u32);
}
