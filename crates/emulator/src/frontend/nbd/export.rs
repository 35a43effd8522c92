//! The export: the device as clients see it.

use std::borrow::Cow;

use super::wire::{IN_MEMORY, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX, transmission_flag};

/// The device as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its name, at most 4096 bytes; clients reach it by that and by the empty name.
    pub name: String,
    /// A line for people.
    pub description: String,
    /// Its capacity, a multiple of the block size.
    pub size_bytes: u64,
    /// The device's block size, a power of two up to 64 KiB: what every request is aligned to.
    pub block_size_bytes: u32,
    /// Refuse writes.
    pub read_only: bool,
    /// The device keeps the bytes of outstanding writes: they count as bytes owed to the client.
    pub keeps_writes: bool,
    /// The bytes are in memory and gone with the server. NBD clients read so in the description.
    pub is_in_memory: bool,
    /// Announce a rotating disk.
    pub rotational: bool,
    /// Offer flush and FUA.
    pub can_flush: bool,
    /// Offer discard.
    pub can_discard: bool,
    /// Offer writes of zeroes.
    pub can_write_zeroes: bool,
}

impl Export {
    /// A writable export that offers everything and does not turn.
    pub fn new(name: &str, size_bytes: u64, block_size_bytes: u32) -> Self {
        let export = Self {
            name: name.to_owned(),
            description: String::new(),
            size_bytes,
            block_size_bytes,
            read_only: false,
            keeps_writes: false,
            is_in_memory: false,
            rotational: false,
            can_flush: true,
            can_discard: true,
            can_write_zeroes: true,
        };
        export.check();
        export
    }

    /// Checks the fields.
    ///
    /// # Panics
    /// If a field violates its documentation.
    pub(super) fn check(&self) {
        assert!(
            self.block_size_bytes.is_power_of_two() && self.block_size_bytes <= 64 << 10,
            "the protocol's smallest block is a power of two up to 64 KiB"
        );
        assert!(self.size_bytes.is_multiple_of(self.block_size_bytes.into()), "capacities are whole blocks");
        assert!(self.size_bytes <= i64::MAX as u64, "clients count in signed 64 bits");
        assert!(self.name.len() <= 4096 && self.description.len() <= 4096, "strings have at most 4096 bytes");
    }

    /// The description that clients get.
    pub(super) fn announced_description(&self) -> Cow<'_, str> {
        let mark = if self.is_in_memory { IN_MEMORY } else { "" };
        // A string of the protocol has at most 4096 bytes.
        if mark.is_empty() || self.description.len() + mark.len() > STRING_BYTES_MAX as usize {
            return Cow::Borrowed(&self.description);
        }
        Cow::Owned(self.description.clone() + mark)
    }

    /// The smallest, preferred and largest block.
    pub(super) fn block_sizes(&self) -> [u32; 3] {
        [self.block_size_bytes, self.block_size_bytes.max(4096), PAYLOAD_BYTES_MAX]
    }

    pub(super) fn flags(&self, structured: bool) -> u16 {
        use transmission_flag as flag;
        let writable = !self.read_only;
        // Several connections see one store, and a flush on one covers completed writes of all.
        [
            (flag::READ_ONLY, self.read_only),
            (flag::ROTATIONAL, self.rotational),
            (flag::SEND_FLUSH | flag::SEND_FUA, self.can_flush),
            (flag::SEND_TRIM, self.can_discard && writable),
            (flag::SEND_WRITE_ZEROES, self.can_write_zeroes && writable),
            (flag::SEND_DF, structured),
            (flag::CAN_MULTI_CONN, true),
        ]
        .into_iter()
        .filter(|(_, set)| *set)
        .fold(flag::HAS_FLAGS, |flags, (flag, _)| flags | flag)
    }

    pub(super) fn answers_to(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }
}
