//! The protocol's state for one mount, without any I/O: one directory with one file, the device.
//!
//! ```text
//! a message as read from /dev/fuse ─▶ Connection ─▶ Command
//! messages to write to /dev/fuse   ◀─            ◀─ Reply
//! ```
//! # Scope and limits
//! - Reads and writes of any offset and length are served, like those of the page cache over a block device.
//!   For partial blocks, the blocks touched are read and, for a write, changed and written, one such write at
//!   a time. This is necessary: the kernel cuts even whole blocks anywhere where the client's memory is not
//!   aligned to pages. Both stop at the end of the device; a write that begins there fails with `ENOSPC`.
//! - A write through a descriptor opened with `O_DSYNC` or `O_SYNC` is FUA; `fsync` is a flush; `close` does
//!   nothing (it is answered as not implemented, so the kernel does not send it again).
//! - Punching a hole discards, zeroing a range writes zeroes, both in whole blocks; plain allocation is not
//!   supported, since a store that is capped cannot promise space. `SEEK_DATA` and `SEEK_HOLE` follow the
//!   store's allocation.
//! - The size cannot change: truncation (`O_TRUNC` too) is ignored, as a block device ignores it.
//! - A read with a bad block fails as a whole, as a direct read of a real device does. The good bytes before the bad
//!   block are for protocols that can carry them.
//! - Interrupts are ignored: the command completes at the model's time.

mod device;
mod names;

use std::fmt;

use seeklab_core::Instant;

use super::output::{Addressee, Output};
use super::patch::{Patches, Step};
use super::wire::{
    self, Allocation, Encoder, FILE_NODE, Fields, Header, Offer, Transfer, WRITE_HEADER_SIZE, init_flag,
    opcode,
};
use crate::frontend::error_code::ErrorReader;
use crate::frontend::nbd::Export;
use crate::frontend::slots::Slots;
use crate::frontend::{Action, Command, Content, ErrorCode, Reply, Tag};

/// The file's name where it has a place.
pub const FILE_NAME: &str = "disk";

/// The most bytes of one read or write: what block devices over this file see whole.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// A buffer of this size takes every message.
pub const MESSAGE_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + 4096;

/// Requests that the kernel sends ahead of answers. Its default, 12, caps the queue depth of direct I/O.
const BACKGROUND_MAX: u16 = 256;

/// A discard or a write of zeroes is done in pieces of at most this, since commands count in 32 bits.
const PIECE_BYTES_MAX: u64 = 1 << 30;

/// Memory of outstanding reads from which on no more messages are received.
const RESERVED_BYTES_MAX: u64 = 256 << 20;

/// Time in seconds for which the kernel may cache names and attributes. They never change.
const VALID_S: u64 = 86_400;

/// Owner of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// The numbers of the errors that are given back, equal on all architectures.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const ENOENT: i32 = 2;
    pub(super) const EIO: i32 = 5;
    pub(super) const ENXIO: i32 = 6;
    pub(super) const ENOTDIR: i32 = 20;
    pub(super) const EISDIR: i32 = 21;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const ENOSPC: i32 = 28;
    pub(super) const EROFS: i32 = 30;
    pub(super) const ENOSYS: i32 = rustix::io::Errno::NOSYS.raw_os_error();
    pub(super) const EOPNOTSUPP: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();
    pub(super) const EPROTO: i32 = rustix::io::Errno::PROTO.raw_os_error();
    pub(super) const ESHUTDOWN: i32 = rustix::io::Errno::SHUTDOWN.raw_os_error();
}

/// Whole blocks of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    offset: u64,
    length: u64,
}

impl Range {
    /// Takes the first piece off.
    fn piece(&mut self) -> Self {
        let length = self.length.min(PIECE_BYTES_MAX);
        let piece = Self { offset: self.offset, length };
        self.offset += length;
        self.length -= length;
        piece
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Read of the `length` bytes from `skip` on in the blocks read.
    Read {
        skip: u32,
        length: u32,
        blocks_bytes: u32,
    },
    Write {
        length: u32,
    },
    /// Of the first of the patches.
    PatchRead,
    PatchWrite,
    Flush,
    /// `rest` is done when this piece is.
    Discard {
        rest: Range,
    },
    WriteZeroes {
        rest: Range,
    },
    /// Looks in `piece`, then in `rest`.
    Seek {
        from: u64,
        hole: bool,
        piece: Range,
        rest: Range,
    },
}

#[derive(Debug, Clone, Copy)]
struct Outstanding {
    unique: u64,
    kind: Kind,
}

/// Result of decoding a message.
enum Decoded<'a> {
    Command {
        offset: u64,
        length: u32,
        fua: bool,
        kind: Kind,
        action: Action<'a>,
    },
    /// The message was answered, or needs no answer.
    Settled,
    /// An answer without a result: an error number, or 0 for success.
    Status(i32),
}

/// Protocol errors on a connection. Clients cannot cause them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Oddities {
    /// Messages shorter than their header states or their operation needs.
    pub malformed_count: u64,
    /// The kernel's protocol where it is too old, as major and minor version.
    pub unsupported_protocol: Option<(u32, u32)>,
}

/// The protocol's state for one mount, without any I/O.
///
/// Give messages to [`receive`](Self::receive), take [`next_piece`](Self::next_piece) until there is none,
/// reply to commands in any order, write the [`messages`](Self::messages) and [`clear`](Self::clear) them.
pub struct Connection {
    export: Export,
    owner: Owner,
    name: String,
    outstanding: Slots<Outstanding>,
    reserved_bytes: u64,
    /// Next commands of requests that take several commands.
    pieces: Vec<Outstanding>,
    patches: Patches,
    output: Output,
    negotiated: bool,
    destroyed: bool,
    shutting_down: bool,
    oddities: Oddities,
    error_reader: ErrorReader,
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outstanding = self.outstanding.len();
        formatter.debug_struct("Connection").field("outstanding", &outstanding).finish_non_exhaustive()
    }
}

impl Connection {
    /// Returns a connection before its negotiation.
    pub fn new(export: Export, owner: Owner) -> Self {
        Self {
            export,
            owner,
            name: FILE_NAME.to_owned(),
            outstanding: Slots::default(),
            reserved_bytes: 0,
            pieces: Vec::new(),
            patches: Patches::default(),
            output: Output::default(),
            negotiated: false,
            destroyed: false,
            shutting_down: false,
            oddities: Oddities::default(),
            error_reader: ErrorReader::Program,
        }
    }

    /// Gives the file another name than [`FILE_NAME`], at most 255 bytes.
    #[must_use]
    pub fn named(self, name: String) -> Self {
        assert!((1..=255).contains(&name.len()), "the kernel takes names of 1 to 255 bytes");
        Self { name, ..self }
    }

    /// Fails requests with the error numbers of which the kernel's block layer makes the same errors. Use it if the kernel
    /// makes a block device of the file.
    #[must_use]
    pub fn for_block_layer(self) -> Self {
        Self { error_reader: ErrorReader::BlockLayer, ..self }
    }

    /// Receives a message, which arrived at `arrived`, and returns its command for the device, if any. Messages
    /// that need no device are answered at once.
    pub fn receive<'a>(&mut self, message: &'a [u8], arrived: Instant) -> Option<Command<'a>> {
        let Some((header, arguments)) = Header::parse(message) else {
            // Without a number, it cannot even be refused.
            self.oddities.malformed_count += 1;
            return None;
        };
        let wants_answer = !matches!(
            header.opcode,
            opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT | opcode::NOTIFY_REPLY
        );
        if !wants_answer {
            return None;
        }
        let decoded = self.dispatch(header, arguments).unwrap_or_else(|| {
            self.oddities.malformed_count += 1;
            Decoded::Status(errno::EIO)
        });
        match decoded {
            Decoded::Settled => None,
            Decoded::Status(errno) => {
                self.answer(header.unique, 0, |_| Err(errno));
                None
            }
            Decoded::Command { .. } if self.shutting_down => {
                self.answer(header.unique, 0, |_| Err(errno::ESHUTDOWN));
                None
            }
            Decoded::Command { offset, length, fua, kind, action } => {
                let tag = self.hand_out(Outstanding { unique: header.unique, kind });
                Some(Command { tag, arrived, offset_bytes: offset, length_bytes: length, fua, action })
            }
        }
    }

    /// The next command of a request that takes several. Ask for all there are before anything else that
    /// arrived is taken in.
    pub fn next_piece(&mut self, arrived: Instant) -> Option<Command<'_>> {
        if self.patches.has_next() {
            return self.next_patch(arrived);
        }
        let Outstanding { unique, kind } = self.pieces.pop()?;
        let (range, kind, action) = match kind {
            Kind::Discard { mut rest } => (rest.piece(), Kind::Discard { rest }, Action::Discard),
            Kind::WriteZeroes { mut rest } => {
                (rest.piece(), Kind::WriteZeroes { rest }, Action::WriteZeroes { may_discard: false })
            }
            Kind::Seek { from, hole, mut rest, .. } => {
                let piece = rest.piece();
                (piece, Kind::Seek { from, hole, piece, rest }, Action::BlockStatus { single: false })
            }
            _ => {
                unreachable!("only requests of any length are done in pieces")
            }
        };
        let tag = self.hand_out(Outstanding { unique, kind });
        let (offset_bytes, length_bytes) = (range.offset, range.length as u32);
        Some(Command { tag, arrived, offset_bytes, length_bytes, fua: false, action })
    }

    fn next_patch(&mut self, arrived: Instant) -> Option<Command<'_>> {
        let (unique, kind) = match self.patches.next()? {
            Step::Read(patch) => (patch.unique, Kind::PatchRead),
            Step::Write(patch) => (patch.unique, Kind::PatchWrite),
        };
        let tag = self.hand_out(Outstanding { unique, kind });
        let patch = self.patches.first();
        let (action, fua) = match kind {
            Kind::PatchWrite => (Action::Write(&patch.blocks), patch.fua),
            _ => (Action::Read, false),
        };
        let (offset_bytes, length_bytes) = (patch.offset, patch.blocks_bytes);
        Some(Command { tag, arrived, offset_bytes, length_bytes, fua, action })
    }

    /// Returns true if [`next_piece`](Self::next_piece) has a command.
    pub fn has_piece(&self) -> bool {
        !self.pieces.is_empty() || self.patches.has_next()
    }

    /// Encodes the answer to an outstanding command.
    ///
    /// # Panics
    /// If the command is not outstanding, or the answer is of the wrong kind.
    pub fn reply(&mut self, command: u32, reply: Reply<'_>) {
        let Some(Outstanding { unique, kind }) = self.outstanding.remove(command) else {
            panic!("command {command} is not outstanding")
        };
        if let Kind::Read { blocks_bytes, .. } = kind {
            self.reserved_bytes -= u64::from(blocks_bytes);
        }
        if matches!(kind, Kind::PatchRead | Kind::PatchWrite) {
            return self.reply_to_patch(command, reply);
        }
        let number = |code: ErrorCode| code.file_number(self.error_reader);
        let mut push = |length_max: usize, fill: &mut dyn FnMut(&mut [u8]) -> Result<usize, i32>| {
            self.output.push(Addressee::Command(command), unique, length_max, fill);
        };
        match (reply, kind) {
            (Reply::Failed(code) | Reply::Part { code, .. }, _) => push(0, &mut |_| Err(number(code))),
            (Reply::Data(fill), Kind::Read { skip, length, blocks_bytes }) => {
                push(blocks_bytes as usize, &mut |buffer| {
                    match fill(buffer).map_err(number)? {
                        Content::Data => {}
                        Content::Zeroes => buffer.fill(0),
                    }
                    let (skip, length) = (skip as usize, length as usize);
                    if skip > 0 {
                        buffer.copy_within(skip..skip + length, 0);
                    }
                    Ok(length)
                });
            }
            (Reply::Done, Kind::Write { length }) => push(8, &mut |buffer| {
                Encoder::new(buffer).u32(length).u32(0);
                Ok(8)
            }),
            (Reply::Done, Kind::Discard { rest } | Kind::WriteZeroes { rest }) if rest.length > 0 => {
                self.output.push_nothing(Addressee::Command(command));
                self.pieces.push(Outstanding { unique, kind });
            }
            (Reply::Done, Kind::Flush | Kind::Discard { .. } | Kind::WriteZeroes { .. }) => {
                push(0, &mut |_| Ok(0));
            }
            (Reply::Extents(extents), Kind::Seek { from, hole, piece, rest }) => {
                let found = device::seek(extents, piece, hole).map(|at| at.max(from));
                let at = match found {
                    None if rest.length > 0 => {
                        self.output.push_nothing(Addressee::Command(command));
                        self.pieces.push(Outstanding { unique, kind });
                        return;
                    }
                    None if hole => Some(self.export.size_bytes),
                    found => found,
                };
                push(8, &mut |buffer| {
                    Encoder::new(buffer).u64(at.ok_or(errno::ENXIO)?);
                    Ok(8)
                });
            }
            (_, kind) => panic!("the answer does not fit a command of kind {kind:?}"),
        }
    }

    fn reply_to_patch(&mut self, command: u32, reply: Reply<'_>) {
        let addressee = Addressee::Command(command);
        let result = match reply {
            Reply::Failed(code) | Reply::Part { code, .. } => Err(code),
            Reply::Done => Ok(()),
            Reply::Data(fill) => {
                let read = self.patches.change(|blocks| {
                    if fill(blocks)? == Content::Zeroes {
                        blocks.fill(0);
                    }
                    Ok(())
                });
                match read {
                    Ok(()) => return self.output.push_nothing(addressee),
                    Err(code) => Err(code),
                }
            }
            Reply::Extents(_) => panic!("the answer does not fit a read or a write"),
        };
        let patch = self.patches.pop();
        self.reserved_bytes -= u64::from(patch.blocks_bytes);
        self.output.push(addressee, patch.unique, 8, |buffer| {
            result.map_err(|code| code.file_number(self.error_reader))?;
            Encoder::new(buffer).u32(patch.data.len() as u32).u32(0);
            Ok(8)
        });
    }

    /// The prepared answers in order: the command whose answer it is, if it is one's, and the bytes, which
    /// are one `write(2)`; none where the command was a piece of a request that goes on.
    pub fn messages(&self) -> impl Iterator<Item = (Option<Tag>, &[u8])> {
        self.output.messages().map(|(addressee, bytes)| match addressee {
            Addressee::Kernel => (None, bytes),
            Addressee::Command(command) => (Some(tag(command)), bytes),
        })
    }

    /// Forgets the prepared answers: they have left.
    pub fn clear(&mut self) {
        self.output.clear();
    }

    /// Returns true if there are answers to write.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns true if more messages can be received. If not, replies must leave first.
    pub fn wants_input(&self) -> bool {
        self.reserved_bytes < RESERVED_BYTES_MAX
    }

    /// Commands handed out and not yet replied to, and those still to be handed out.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len() + self.pieces.len() + self.patches.waiting_count()
    }

    /// Returns true if the kernel has agreed on the protocol.
    pub fn is_negotiated(&self) -> bool {
        self.negotiated
    }

    /// Returns true if the kernel has announced the end of the connection.
    pub fn is_destroyed(&self) -> bool {
        self.destroyed
    }

    /// Refuses all later requests to the device.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// Returns the protocol errors so far.
    pub fn oddities(&self) -> Oddities {
        self.oddities
    }

    /// Returns the bytes of memory that answers hold.
    pub fn buffered_bytes(&self) -> usize {
        self.output.capacity()
    }

    fn hand_out(&mut self, outstanding: Outstanding) -> Tag {
        if let Kind::Read { blocks_bytes, .. } = outstanding.kind {
            self.reserved_bytes += u64::from(blocks_bytes);
        }
        tag(self.outstanding.insert(outstanding))
    }

    fn answer(&mut self, unique: u64, length_max: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, i32>) {
        self.output.push(Addressee::Kernel, unique, length_max, fill);
    }

    /// `None` if the message lacks arguments.
    fn dispatch<'a>(&mut self, header: Header, mut arguments: Fields<'a>) -> Option<Decoded<'a>> {
        let Header { opcode, unique, node } = header;
        if opcode == opcode::INIT {
            return self.negotiate(unique, Offer::parse(&mut arguments)?);
        }
        if !self.negotiated {
            return Some(Decoded::Status(errno::EPROTO));
        }
        let on_file = node == FILE_NODE;
        let decoded = match opcode {
            opcode::READ if on_file => self.read(Transfer::parse(&mut arguments)?),
            opcode::WRITE if on_file => {
                let transfer = Transfer::parse(&mut arguments)?;
                self.write(unique, transfer, arguments.bytes(transfer.size as usize)?)
            }
            opcode::FSYNC if on_file && self.export.can_flush => Decoded::Command {
                offset: 0,
                length: 0,
                fua: false,
                kind: Kind::Flush,
                action: Action::Flush,
            },
            opcode::FALLOCATE if on_file => self.allocate(unique, Allocation::parse(&mut arguments)?),
            opcode::LSEEK if on_file => {
                let (_handle, offset, whence) = (arguments.u64()?, arguments.u64()?, arguments.u32()?);
                self.seek(unique, offset, whence)
            }
            _ => return self.answer_about_names(header, arguments),
        };
        Some(decoded)
    }

    fn negotiate(&mut self, unique: u64, offer: Offer) -> Option<Decoded<'static>> {
        if offer.major < wire::MAJOR || (offer.major == wire::MAJOR && offer.minor < wire::MINOR_MIN) {
            self.oddities.unsupported_protocol = Some((offer.major, offer.minor));
            return Some(Decoded::Status(errno::EPROTO));
        }
        // A newer kernel takes the hint and asks again.
        self.negotiated = offer.major == wire::MAJOR;
        let wanted = init_flag::ASYNC_READ
            | init_flag::BIG_WRITES
            | init_flag::ASYNC_DIO
            | init_flag::PARALLEL_DIROPS
            | init_flag::MAX_PAGES;
        let pages = TRANSFER_BYTES_MAX.div_ceil(4096) as u16;
        self.answer(unique, 64, |buffer| {
            let mut encoder = Encoder::new(buffer);
            encoder.u32(wire::MAJOR).u32(wire::MINOR).u32(offer.max_readahead).u32(offer.flags & wanted);
            encoder.u16(BACKGROUND_MAX).u16(BACKGROUND_MAX).u32(TRANSFER_BYTES_MAX);
            // Granularity of times, pages per request, alignment of mappings, flags.
            encoder.u32(1).u16(pages).u16(0).u32(0).zeroes(28);
            Ok(encoder.used())
        });
        Some(Decoded::Settled)
    }
}

const _: () = assert!(MESSAGE_BYTES_MAX >= WRITE_HEADER_SIZE + TRANSFER_BYTES_MAX as usize);

/// One client: the kernel.
const fn tag(command: u32) -> Tag {
    Tag { frontend: 0, client: 0, command }
}
