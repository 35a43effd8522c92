//! The protocol's state for one mount, without any I/O: one directory with one file, the device.
//!
//! ```text
//! a message as read from /dev/fuse ─▶ Connection ─▶ Command
//! messages to write to /dev/fuse   ◀─            ◀─ Reply
//! ```
//! # Scope and limits
//! - Reads and writes of any offset and length are served, as the page cache over a block device does: what
//!   is not whole blocks is done by reading the blocks touched, and changing and writing them, one such write
//!   at a time. It must be: the kernel cuts even whole blocks anywhere where the client's memory is not
//!   aligned to pages. Both stop at the end of the device; a write that begins there fails with `ENOSPC`.
//! - A write through a descriptor opened with `O_DSYNC` or `O_SYNC` is FUA; `fsync` is a flush; `close` is
//!   nothing (it is answered as not implemented, so the kernel never asks again).
//! - Punching a hole discards, zeroing a range writes zeroes, both in whole blocks; plain allocation is not
//!   supported, since a store that is capped cannot promise space. `SEEK_DATA` and `SEEK_HOLE` follow the
//!   store's allocation.
//! - The size cannot change: truncation (`O_TRUNC` too) is ignored, as a block device ignores it.
//! - Interrupts are ignored: the command completes when the model says.

use std::fmt;

use seeklab_core::Instant;

use super::output::{Addressee, Output};
use super::patch::{Patch, Patches, Step};
use super::wire::{
    self, ACCESS_MODE, Allocation, Attributes, DSYNC, Encoder, FILE_NODE, Fields, Header, Offer, ROOT_NODE,
    SEEK_DATA, SEEK_HOLE, Transfer, WRITE_HEADER_SIZE, attribute, fallocate_mode, init_flag, opcode,
    open_flag,
};
use crate::frontend::nbd::Export;
use crate::frontend::slots::Slots;
use crate::frontend::{Action, Command, Content, ErrorCode, Extent, Reply, Tag};

/// The file's name.
pub const FILE_NAME: &str = "disk";

/// The most bytes of one read or write: what block devices over this file see whole.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// A buffer of this size takes every message.
pub const MESSAGE_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + 4096;

/// Requests that the kernel sends ahead of answers. Its default, 12, caps the queue depth of direct I/O.
const BACKGROUND_MAX: u16 = 256;

/// A discard or a write of zeroes is done in pieces of at most this, since commands count in 32 bits.
const PIECE_BYTES_MAX: u64 = 1 << 30;

/// What outstanding reads may need before nothing more is taken in.
const RESERVED_BYTES_MAX: u64 = 256 << 20;

/// How long the kernel may rely on names and attributes: they never change.
const VALID_S: u64 = 86_400;

/// Who owns the file.
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
    pub(super) const EOVERFLOW: i32 = rustix::io::Errno::OVERFLOW.raw_os_error();
    pub(super) const ESHUTDOWN: i32 = rustix::io::Errno::SHUTDOWN.raw_os_error();
    pub(super) const ENOMEM: i32 = 12;
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
    /// Of the blocks read, `length` bytes from `skip` on are asked for.
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

/// What becomes of a message.
enum Outcome<'a> {
    Command {
        offset: u64,
        length: u32,
        fua: bool,
        kind: Kind,
        action: Action<'a>,
    },
    /// It has been answered, or wants no answer.
    Settled,
    /// An answer without a result: an error number, or 0 for success.
    Status(i32),
}

/// What has gone wrong on a connection, never by a client's doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Oddities {
    /// Messages shorter than they say or than their operation needs.
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
    outstanding: Slots<Outstanding>,
    reserved_bytes: u64,
    /// What is to be done next for requests that take several commands.
    pieces: Vec<Outstanding>,
    patches: Patches,
    output: Output,
    negotiated: bool,
    destroyed: bool,
    shutting_down: bool,
    oddities: Oddities,
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outstanding = self.outstanding.len();
        formatter.debug_struct("Connection").field("outstanding", &outstanding).finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection on which nothing has been said yet.
    pub fn new(export: Export, owner: Owner) -> Self {
        Self {
            export,
            owner,
            outstanding: Slots::default(),
            reserved_bytes: 0,
            pieces: Vec::new(),
            patches: Patches::default(),
            output: Output::default(),
            negotiated: false,
            destroyed: false,
            shutting_down: false,
            oddities: Oddities::default(),
        }
    }

    /// Takes a message in, which arrived at `arrived`, and hands over what it asks of the device. Whatever
    /// needs no device is answered at once.
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
        let outcome = self.dispatch(header, arguments).unwrap_or_else(|| {
            self.oddities.malformed_count += 1;
            Outcome::Status(errno::EIO)
        });
        match outcome {
            Outcome::Settled => None,
            Outcome::Status(errno) => {
                self.answer(header.unique, 0, |_| Err(errno));
                None
            }
            Outcome::Command { .. } if self.shutting_down => {
                self.answer(header.unique, 0, |_| Err(errno::ESHUTDOWN));
                None
            }
            Outcome::Command { offset, length, fua, kind, action } => {
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

    /// Whether [`next_piece`](Self::next_piece) has something.
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
        let mut push = |length_max: usize, fill: &mut dyn FnMut(&mut [u8]) -> Result<usize, i32>| {
            self.output.push(Addressee::Command(command), unique, length_max, fill);
        };
        match (reply, kind) {
            (Reply::Failed(code), _) => push(0, &mut |_| Err(number(code))),
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
                let found = seek(extents, piece, hole).map(|at| at.max(from));
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
            Reply::Failed(code) => Err(code),
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
            result.map_err(number)?;
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

    /// Whether there are answers to write.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether more can be taken in; if not, replies must leave first.
    pub fn wants_input(&self) -> bool {
        self.reserved_bytes < RESERVED_BYTES_MAX
    }

    /// Commands handed out and not yet replied to, and those still to be handed out.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len() + self.pieces.len() + self.patches.waiting_count()
    }

    /// Whether the kernel has agreed on the protocol.
    pub fn is_negotiated(&self) -> bool {
        self.negotiated
    }

    /// Whether the kernel has said that it was the last.
    pub fn is_destroyed(&self) -> bool {
        self.destroyed
    }

    /// Refuses from now on what asks something of the device.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// What has gone wrong so far.
    pub fn oddities(&self) -> Oddities {
        self.oddities
    }

    /// How much memory answers hold.
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
    fn dispatch<'a>(&mut self, header: Header, mut arguments: Fields<'a>) -> Option<Outcome<'a>> {
        let Header { opcode, unique, node } = header;
        if opcode == opcode::INIT {
            return self.negotiate(unique, Offer::parse(&mut arguments)?);
        }
        if !self.negotiated {
            return Some(Outcome::Status(errno::EPROTO));
        }
        let on_file = node == FILE_NODE;
        let outcome = match opcode {
            opcode::READ if on_file => self.read(Transfer::parse(&mut arguments)?),
            opcode::WRITE if on_file => {
                let transfer = Transfer::parse(&mut arguments)?;
                self.write(unique, transfer, arguments.bytes(transfer.size as usize)?)
            }
            opcode::FSYNC if on_file && self.export.can_flush => Outcome::Command {
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
        Some(outcome)
    }

    fn negotiate(&mut self, unique: u64, offer: Offer) -> Option<Outcome<'static>> {
        if offer.major < wire::MAJOR || (offer.major == wire::MAJOR && offer.minor < wire::MINOR_MIN) {
            self.oddities.unsupported_protocol = Some((offer.major, offer.minor));
            return Some(Outcome::Status(errno::EPROTO));
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
        Some(Outcome::Settled)
    }

    fn read(&self, Transfer { offset, size, .. }: Transfer) -> Outcome<'static> {
        let block = u64::from(self.export.block_size_bytes);
        let end = offset.saturating_add(size.min(TRANSFER_BYTES_MAX).into()).min(self.export.size_bytes);
        let length = end.saturating_sub(offset);
        if length == 0 {
            return Outcome::Status(0);
        }
        let (first, last) = (offset / block * block, end.next_multiple_of(block));
        let blocks_bytes = (last - first) as u32;
        let kind = Kind::Read { skip: (offset - first) as u32, length: length as u32, blocks_bytes };
        Outcome::Command { offset: first, length: blocks_bytes, fua: false, kind, action: Action::Read }
    }

    fn write<'a>(
        &mut self,
        unique: u64,
        Transfer { offset, size, flags }: Transfer,
        data: &'a [u8],
    ) -> Outcome<'a> {
        let left = self.export.size_bytes.saturating_sub(offset);
        let length = u64::from(size).min(left) as u32;
        let (data, fua) = (&data[..length as usize], flags & DSYNC != 0);
        if self.export.read_only {
            Outcome::Status(errno::EROFS)
        } else if size == 0 {
            Outcome::Status(errno::EINVAL)
        } else if length == 0 {
            Outcome::Status(errno::ENOSPC)
        } else if self.is_whole(offset) && self.is_whole(length.into()) {
            Outcome::Command {
                offset,
                length,
                fua,
                kind: Kind::Write { length },
                action: Action::Write(data),
            }
        } else if self.shutting_down {
            Outcome::Status(errno::ESHUTDOWN)
        } else {
            let block = u64::from(self.export.block_size_bytes);
            let first = offset / block * block;
            let blocks_bytes = ((offset + u64::from(length)).next_multiple_of(block) - first) as u32;
            self.reserved_bytes += u64::from(blocks_bytes);
            let (skip, data, blocks) = ((offset - first) as usize, data.to_vec(), Vec::new());
            self.patches.push(Patch { unique, offset: first, skip, data, blocks_bytes, blocks, fua });
            Outcome::Settled
        }
    }

    fn is_whole(&self, bytes: u64) -> bool {
        bytes.is_multiple_of(self.export.block_size_bytes.into())
    }

    fn allocate(&mut self, unique: u64, Allocation { offset, length, mode }: Allocation) -> Outcome<'static> {
        use fallocate_mode::{KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE};
        let size = self.export.size_bytes;
        let Some(end) = offset.checked_add(length) else { return Outcome::Status(errno::EINVAL) };
        let rest = Range { offset: offset.min(size), length: end.min(size) - offset.min(size) };
        let punches = mode == PUNCH_HOLE | KEEP_SIZE && self.export.can_discard;
        let zeroes = mode & !KEEP_SIZE == ZERO_RANGE && self.export.can_write_zeroes;
        if !punches && !zeroes {
            return Outcome::Status(errno::EOPNOTSUPP);
        }
        if self.export.read_only {
            return Outcome::Status(errno::EROFS);
        }
        if mode == ZERO_RANGE && end > size {
            return Outcome::Status(errno::ENOSPC);
        }
        if !self.is_whole(rest.offset) || !self.is_whole(rest.length) {
            return Outcome::Status(errno::EINVAL);
        }
        if rest.length == 0 {
            return Outcome::Status(0);
        }
        if self.shutting_down {
            return Outcome::Status(errno::ESHUTDOWN);
        }
        let kind = if punches { Kind::Discard { rest } } else { Kind::WriteZeroes { rest } };
        self.pieces.push(Outstanding { unique, kind });
        Outcome::Settled
    }

    fn seek(&mut self, unique: u64, offset: u64, whence: u32) -> Outcome<'static> {
        if whence != SEEK_DATA && whence != SEEK_HOLE {
            return Outcome::Status(errno::EINVAL);
        }
        if offset >= self.export.size_bytes {
            return Outcome::Status(errno::ENXIO);
        }
        if self.shutting_down {
            return Outcome::Status(errno::ESHUTDOWN);
        }
        let block = u64::from(self.export.block_size_bytes);
        let first = offset / block * block;
        let rest = Range { offset: first, length: self.export.size_bytes - first };
        let piece = Range { offset: first, length: 0 };
        let kind = Kind::Seek { from: offset, hole: whence == SEEK_HOLE, piece, rest };
        self.pieces.push(Outstanding { unique, kind });
        Outcome::Settled
    }

    fn attributes(&self, node: u64) -> Attributes {
        const DIRECTORY: u32 = 0o040_000;
        const REGULAR: u32 = 0o100_000;
        let Owner { uid, gid } = self.owner;
        let is_file = node == FILE_NODE;
        let (mode, link_count) = match (is_file, self.export.read_only) {
            (false, _) => (DIRECTORY | 0o500, 2),
            (true, false) => (REGULAR | 0o600, 1),
            (true, true) => (REGULAR | 0o400, 1),
        };
        let size_bytes = if is_file { self.export.size_bytes } else { 0 };
        let block_size_bytes = self.export.block_size_bytes.max(4096);
        Attributes { node, size_bytes, mode, link_count, uid, gid, block_size_bytes }
    }

    fn answer_about_names(&mut self, header: Header, mut arguments: Fields<'_>) -> Option<Outcome<'static>> {
        let Header { opcode, unique, node } = header;
        let on_root = node == ROOT_NODE;
        if !on_root && node != FILE_NODE {
            return Some(Outcome::Status(errno::ENOENT));
        }
        let attributes = self.attributes(node);
        match opcode {
            opcode::LOOKUP => {
                if !on_root {
                    return Some(Outcome::Status(errno::ENOTDIR));
                }
                if arguments.name()? != FILE_NAME.as_bytes() {
                    return Some(Outcome::Status(errno::ENOENT));
                }
                let attributes = self.attributes(FILE_NODE);
                self.answer(unique, 128, |buffer| {
                    let mut encoder = Encoder::new(buffer);
                    encoder.u64(FILE_NODE).u64(0).u64(VALID_S).u64(VALID_S).u32(0).u32(0);
                    Ok(encoder.attributes(&attributes).used())
                });
            }
            opcode::SETATTR => {
                use attribute::{GID, MODE, UID};
                if arguments.u32()? & (MODE | UID | GID) != 0 {
                    return Some(Outcome::Status(errno::EPERM));
                }
                self.answer_attributes(unique, attributes);
            }
            opcode::GETATTR => self.answer_attributes(unique, attributes),
            opcode::OPEN => {
                let writes = arguments.u32()? & ACCESS_MODE != 0;
                if on_root {
                    return Some(Outcome::Status(errno::EISDIR));
                }
                if writes && self.export.read_only {
                    return Some(Outcome::Status(errno::EROFS));
                }
                use open_flag::{DIRECT_IO, NOFLUSH, PARALLEL_DIRECT_WRITES};
                self.answer_open(unique, DIRECT_IO | NOFLUSH | PARALLEL_DIRECT_WRITES);
            }
            opcode::OPENDIR if on_root => self.answer_open(unique, 0),
            opcode::READDIR if on_root => {
                let (_handle, from, size) = (arguments.u64()?, arguments.u64()?, arguments.u32()?);
                self.answer_entries(unique, from, size);
            }
            opcode::STATFS => self.answer_space(unique),
            opcode::RELEASE | opcode::RELEASEDIR | opcode::FSYNCDIR => self.answer(unique, 0, |_| Ok(0)),
            opcode::DESTROY => {
                self.destroyed = true;
                self.answer(unique, 0, |_| Ok(0));
            }
            opcode::SYMLINK
            | opcode::MKNOD
            | opcode::MKDIR
            | opcode::UNLINK
            | opcode::RMDIR
            | opcode::RENAME
            | opcode::RENAME2
            | opcode::LINK
            | opcode::CREATE => return Some(Outcome::Status(errno::EPERM)),
            _ => return Some(Outcome::Status(errno::ENOSYS)),
        }
        Some(Outcome::Settled)
    }

    fn answer_attributes(&mut self, unique: u64, attributes: Attributes) {
        self.answer(unique, 104, |buffer| {
            Ok(Encoder::new(buffer).u64(VALID_S).u32(0).u32(0).attributes(&attributes).used())
        });
    }

    fn answer_open(&mut self, unique: u64, flags: u32) {
        self.answer(unique, 16, |buffer| Ok(Encoder::new(buffer).u64(0).u32(flags).u32(0).used()));
    }

    fn answer_entries(&mut self, unique: u64, from: u64, size: u32) {
        const DIRECTORY: u32 = 4;
        const REGULAR: u32 = 8;
        let entries: [(u64, u32, &[u8]); 3] = [
            (ROOT_NODE, DIRECTORY, b"."),
            (ROOT_NODE, DIRECTORY, b".."),
            (FILE_NODE, REGULAR, FILE_NAME.as_bytes()),
        ];
        const ENTRY_SIZE: usize = 32;
        self.answer(unique, entries.len() * ENTRY_SIZE, |buffer| {
            let mut encoder = Encoder::new(buffer);
            let entries = (1..).zip(entries).skip(from.min(entries.len() as u64) as usize);
            for (next, (node, kind, name)) in entries.take(size as usize / ENTRY_SIZE) {
                encoder.directory_entry(node, next, kind, name);
            }
            Ok(encoder.used())
        });
    }

    fn answer_space(&mut self, unique: u64) {
        let block = self.export.block_size_bytes.max(512);
        let blocks = self.export.size_bytes / u64::from(block);
        self.answer(unique, 80, |buffer| {
            let mut encoder = Encoder::new(buffer);
            // Blocks: all, free, available; files: all, free.
            encoder.u64(blocks).u64(0).u64(0).u64(1).u64(0);
            encoder.u32(block).u32(255).u32(block).zeroes(28);
            Ok(encoder.used())
        });
    }
}

const _: () = assert!(MESSAGE_BYTES_MAX >= WRITE_HEADER_SIZE + TRANSFER_BYTES_MAX as usize);

/// One client: the kernel.
const fn tag(command: u32) -> Tag {
    Tag { frontend: 0, client: 0, command }
}

/// Where the first hole, or the first data, of a piece is.
fn seek(extents: &[Extent], piece: Range, hole: bool) -> Option<u64> {
    let mut at = piece.offset;
    for extent in extents {
        if extent.allocated != hole {
            return (at < piece.offset + piece.length).then_some(at);
        }
        at += u64::from(extent.length_bytes);
    }
    None
}

const fn number(code: ErrorCode) -> i32 {
    match code {
        ErrorCode::Permission => errno::EPERM,
        ErrorCode::Io => errno::EIO,
        ErrorCode::NoMemory => errno::ENOMEM,
        ErrorCode::Invalid => errno::EINVAL,
        ErrorCode::NoSpace => errno::ENOSPC,
        ErrorCode::Overflow => errno::EOVERFLOW,
        ErrorCode::NotSupported => errno::EOPNOTSUPP,
        ErrorCode::ShuttingDown => errno::ESHUTDOWN,
    }
}
