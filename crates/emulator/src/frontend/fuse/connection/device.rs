//! Messages that are requests to the device: reads, writes, holes.

use super::{Connection, Decoded, Kind, Outstanding, Range, TRANSFER_BYTES_MAX, errno};
use crate::frontend::fuse::patch::Patch;
use crate::frontend::fuse::wire::{Allocation, DSYNC, SEEK_DATA, SEEK_HOLE, Transfer, fallocate_mode};
use crate::frontend::{Action, Extent};

impl Connection {
    pub(super) fn read(&self, Transfer { offset, size, .. }: Transfer) -> Decoded<'static> {
        let block = u64::from(self.export.block_size_bytes);
        let end = offset.saturating_add(size.min(TRANSFER_BYTES_MAX).into()).min(self.export.size_bytes);
        let length = end.saturating_sub(offset);
        if length == 0 {
            return Decoded::Status(0);
        }
        let (first, last) = (offset / block * block, end.next_multiple_of(block));
        let blocks_bytes = (last - first) as u32;
        let kind = Kind::Read { skip: (offset - first) as u32, length: length as u32, blocks_bytes };
        Decoded::Command { offset: first, length: blocks_bytes, fua: false, kind, action: Action::Read }
    }

    pub(super) fn write<'a>(
        &mut self,
        unique: u64,
        Transfer { offset, size, flags }: Transfer,
        data: &'a [u8],
    ) -> Decoded<'a> {
        let left = self.export.size_bytes.saturating_sub(offset);
        let length = u64::from(size).min(left) as u32;
        let (data, fua) = (&data[..length as usize], flags & DSYNC != 0);
        if self.export.read_only {
            Decoded::Status(errno::EROFS)
        } else if size == 0 {
            Decoded::Status(errno::EINVAL)
        } else if length == 0 {
            Decoded::Status(errno::ENOSPC)
        } else if self.is_whole(offset) && self.is_whole(length.into()) {
            Decoded::Command {
                offset,
                length,
                fua,
                kind: Kind::Write { length },
                action: Action::Write(data),
            }
        } else if self.shutting_down {
            Decoded::Status(errno::ESHUTDOWN)
        } else {
            let block = u64::from(self.export.block_size_bytes);
            let first = offset / block * block;
            let blocks_bytes = ((offset + u64::from(length)).next_multiple_of(block) - first) as u32;
            self.reserved_bytes += u64::from(blocks_bytes);
            let (skip, data, blocks) = ((offset - first) as usize, data.to_vec(), Vec::new());
            self.patches.push(Patch { unique, offset: first, skip, data, blocks_bytes, blocks, fua });
            Decoded::Settled
        }
    }

    pub(super) fn is_whole(&self, bytes: u64) -> bool {
        bytes.is_multiple_of(self.export.block_size_bytes.into())
    }

    pub(super) fn allocate(
        &mut self,
        unique: u64,
        Allocation { offset, length, mode }: Allocation,
    ) -> Decoded<'static> {
        use fallocate_mode::{KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE};
        let size = self.export.size_bytes;
        let Some(end) = offset.checked_add(length) else { return Decoded::Status(errno::EINVAL) };
        let rest = Range { offset: offset.min(size), length: end.min(size) - offset.min(size) };
        let punches = mode == PUNCH_HOLE | KEEP_SIZE && self.export.can_discard;
        let zeroes = mode & !KEEP_SIZE == ZERO_RANGE && self.export.can_write_zeroes;
        if !punches && !zeroes {
            return Decoded::Status(errno::EOPNOTSUPP);
        }
        if self.export.read_only {
            return Decoded::Status(errno::EROFS);
        }
        if mode == ZERO_RANGE && end > size {
            return Decoded::Status(errno::ENOSPC);
        }
        if !self.is_whole(rest.offset) || !self.is_whole(rest.length) {
            return Decoded::Status(errno::EINVAL);
        }
        if rest.length == 0 {
            return Decoded::Status(0);
        }
        if self.shutting_down {
            return Decoded::Status(errno::ESHUTDOWN);
        }
        let kind = if punches { Kind::Discard { rest } } else { Kind::WriteZeroes { rest } };
        self.pieces.push(Outstanding { unique, kind });
        Decoded::Settled
    }

    pub(super) fn seek(&mut self, unique: u64, offset: u64, whence: u32) -> Decoded<'static> {
        if whence != SEEK_DATA && whence != SEEK_HOLE {
            return Decoded::Status(errno::EINVAL);
        }
        if offset >= self.export.size_bytes {
            return Decoded::Status(errno::ENXIO);
        }
        if self.shutting_down {
            return Decoded::Status(errno::ESHUTDOWN);
        }
        let block = u64::from(self.export.block_size_bytes);
        let first = offset / block * block;
        let rest = Range { offset: first, length: self.export.size_bytes - first };
        let piece = Range { offset: first, length: 0 };
        let kind = Kind::Seek { from: offset, hole: whence == SEEK_HOLE, piece, rest };
        self.pieces.push(Outstanding { unique, kind });
        Decoded::Settled
    }
}

/// Returns the offset of the first hole, or of the first data, in a piece.
pub(super) fn seek(extents: &[Extent], piece: Range, hole: bool) -> Option<u64> {
    let mut at = piece.offset;
    for extent in extents {
        if extent.allocated != hole {
            return (at < piece.offset + piece.length).then_some(at);
        }
        at += u64::from(extent.length_bytes);
    }
    None
}
