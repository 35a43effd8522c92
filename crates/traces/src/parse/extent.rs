//! Byte addresses as blocks: the rules that all formats which count in bytes share.
//!
//! - An offset must be a multiple of the block size ([`Blocks::aligned`]) and a size rounds up ([`Blocks::count`]),
//!   where the addresses are those of a block device. A note says how many bytes that adds.
//! - Addresses within files and objects need not be aligned: the request takes every block that it
//!   touches ([`covering`]).

use std::borrow::Cow;

use seeklab_core::ByteSize;

use crate::error::{Problem, TraceError};
use crate::parse::number::integer;
use crate::parse::rounding::Rounding;
use crate::trace_format::Note;

/// The blocks that a format's bytes are turned into, and how many requests were rounded to them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocks {
    size: u64,
    rounding: Rounding,
}

impl Blocks {
    /// Blocks of so many bytes, at least one.
    pub(crate) const fn of(size: u64) -> Self {
        Self { size, rounding: Rounding::NONE }
    }

    /// Returns the block at the byte offset `bytes`. The field `field` holds the offset as `text`.
    #[inline]
    pub(crate) fn aligned(&self, field: &'static str, text: &[u8], bytes: u64) -> Result<u64, Box<Problem>> {
        if !bytes.is_multiple_of(self.size) {
            return Err(unaligned(field, text, u128::from(bytes), self.size));
        }
        Ok(bytes / self.size)
    }

    /// Returns the number of blocks for `bytes`, rounded up. The field `field` holds the size as `text`.
    #[inline]
    pub(crate) fn count(
        &mut self,
        field: &'static str,
        text: &[u8],
        bytes: u64,
    ) -> Result<u32, Box<Problem>> {
        let blocks = u32::try_from(bytes.div_ceil(self.size)).map_err(|_| {
            Problem::new(field, text, format!("more than 4294967295 blocks of {} bytes", self.size))
        })?;
        self.rounding.count(bytes, blocks, self.size);
        Ok(blocks)
    }

    /// The same of the bytes that `text` states.
    #[inline]
    pub(crate) fn count_text(&mut self, field: &'static str, text: &[u8]) -> Result<u32, Box<Problem>> {
        self.count(field, text, integer(field, text, u64::MAX)?)
    }

    /// First block and number of blocks of `size` bytes at the aligned `offset`, in fields of these names.
    #[inline]
    pub(crate) fn byte_extent(
        &mut self,
        names: [&'static str; 2],
        offset: &[u8],
        size: &[u8],
    ) -> Result<(u64, u32), Box<Problem>> {
        let lbn = self.aligned(names[0], offset, integer(names[0], offset, u64::MAX)?)?;
        Ok((lbn, self.count_text(names[1], size)?))
    }

    /// Returns the block at the address `text`, which counts units of `unit` bytes.
    #[inline]
    pub(crate) fn address(&self, field: &'static str, text: &[u8], unit: u64) -> Result<u64, Box<Problem>> {
        self.aligned(field, text, integer(field, text, u64::MAX / unit)? * unit)
    }

    /// First block and number of blocks of `sectors` sectors of 512 bytes at the sector `sector`, in fields of these
    /// names.
    #[inline]
    pub(crate) fn sector_extent(
        &mut self,
        names: [&'static str; 2],
        sector: &[u8],
        sectors: &[u8],
    ) -> Result<(u64, u32), Box<Problem>> {
        const SECTOR: u64 = 512;
        let lbn = self.address(names[0], sector, SECTOR)?;
        let bytes = integer(names[1], sectors, u64::MAX / SECTOR)? * SECTOR;
        Ok((lbn, self.count(names[1], sectors, bytes)?))
    }

    /// Appends a note of the requests that were rounded.
    pub(crate) fn notes(&self, notes: &mut Vec<Note>) {
        self.rounding.notes(self.size, notes);
    }
}

/// The error of the byte offset `bytes`, which lies within a block of `block_size` bytes. The field `field` holds it as
/// `text`. The hint states a power of two that divides the offset: of blocks beyond the usual 512 bytes those, as later rows may
/// need them.
#[cold]
pub(crate) fn unaligned(
    field: impl Into<Cow<'static, str>>,
    text: &[u8],
    bytes: u128,
    block_size: u64,
) -> Box<Problem> {
    let smaller = (bytes & bytes.wrapping_neg()).min(512);
    let problem = format!("an address at a multiple of the block size of {block_size} bytes is allowed");
    Problem::new(field, text, problem)
        .hint(format!("read the trace in smaller blocks: `--block-size {smaller}B` divides this offset"))
}

/// First block and number of blocks that `size` bytes at `offset` touch, at least one where there is
/// a byte; `None` where they lie beyond what can be addressed.
#[inline]
pub(crate) fn covering(offset: u64, size: u64, block_size: u64) -> Option<(u64, u32)> {
    let end = offset.checked_add(size)?.div_ceil(block_size);
    let lbn = offset / block_size;
    let blocks = if size == 0 { 0 } else { end - lbn };
    Some((lbn, u32::try_from(blocks).ok()?))
}

/// The bytes of a block, of which there is at least one.
pub(crate) fn checked_block_size(size: ByteSize) -> Result<u64, TraceError> {
    match size.as_bytes() {
        0 => Err(TraceError::invalid(Problem::new("block size", b"0B", "at least 1B is allowed"))),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_of_bytes_takes_every_block_that_it_touches() {
        assert_eq!(covering(0, 512, 512), Some((0, 1)));
        assert_eq!(covering(511, 2, 512), Some((0, 2)));
        assert_eq!(covering(512, 1, 512), Some((1, 1)));
        assert_eq!(covering(700, 0, 512), Some((1, 0)));
        assert_eq!(covering(u64::MAX, 1, 512), None);
        assert_eq!(covering(0, u64::from(u32::MAX) * 512 + 1, 512), None);
    }

    #[test]
    fn unaligned_offsets_are_refused_with_a_hint() {
        let names = ["offset", "size"];
        assert_eq!(Blocks::of(512).byte_extent(names, b"1024", b"513").unwrap(), (2, 2));
        let problem = Blocks::of(512).byte_extent(names, b"100", b"512").unwrap_err();
        assert!(problem.to_string().contains("offset is `100`: an address at a multiple"), "{problem}");
        assert!(problem.hint.unwrap().contains("`--block-size 4B` divides"), "100 is a multiple of 4");
        let hint = Blocks::of(4096).byte_extent(names, b"2048", b"512").unwrap_err().hint.unwrap();
        assert!(hint.contains("`--block-size 512B` divides"), "{hint}");
        assert_eq!(Blocks::of(4096).sector_extent(names, b"8", b"1").unwrap(), (1, 1));
        assert!(Blocks::of(4096).sector_extent(names, b"9", b"1").is_err());
        assert!(Blocks::of(512).sector_extent(names, b"36028797018963968", b"1").is_err());
    }
}
