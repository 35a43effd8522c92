//! The kernel's side of FUSE: requests decoded from bytes, answers encoded to bytes.
//!
//! ```text
//! request  length u32 │ operation u32 │ unique u64 │ node u64 │ uid, gid, pid u32 │ extensions u16, u16 │ arguments
//! answer   length u32 │ −errno i32    │ unique u64 │ result
//! ```
//! Everything is in the machine's byte order. Nothing here trusts a length.
//!
//! # References
//! The kernel's `include/uapi/linux/fuse.h`, protocol 7.28 to 7.45; its names are kept.

/// The protocol spoken.
pub(super) const MAJOR: u32 = 7;
/// The first minor version with everything that is needed here (`max_pages`; Linux 4.20).
pub(super) const MINOR_MIN: u32 = 28;
/// The minor version whose structures are used here.
pub(super) const MINOR: u32 = 38;

pub(super) const IN_HEADER_SIZE: usize = 40;
pub(super) const OUT_HEADER_SIZE: usize = 16;
/// The header and the arguments of a write: what precedes its data.
pub(super) const WRITE_HEADER_SIZE: usize = IN_HEADER_SIZE + 40;

pub(super) const ROOT_NODE: u64 = 1;
pub(super) const FILE_NODE: u64 = 2;

/// Operations, as in `enum fuse_opcode`.
pub(super) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const NOTIFY_REPLY: u32 = 41;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
}

/// Flags that INIT negotiates.
pub(super) mod init_flag {
    pub(crate) const ASYNC_READ: u32 = 1 << 0;
    pub(crate) const BIG_WRITES: u32 = 1 << 5;
    pub(crate) const ASYNC_DIO: u32 = 1 << 15;
    pub(crate) const PARALLEL_DIROPS: u32 = 1 << 18;
    pub(crate) const MAX_PAGES: u32 = 1 << 22;
}

/// Flags of a file in the answer to OPEN.
pub(super) mod open_flag {
    pub(crate) const DIRECT_IO: u32 = 1 << 0;
    pub(crate) const NOFLUSH: u32 = 1 << 5;
    pub(crate) const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Modes of FALLOCATE.
pub(super) mod fallocate_mode {
    pub(crate) const KEEP_SIZE: u32 = 0x01;
    pub(crate) const PUNCH_HOLE: u32 = 0x02;
    pub(crate) const ZERO_RANGE: u32 = 0x10;
}

/// Attributes that SETATTR sets.
pub(super) mod attribute {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
}

pub(super) const SEEK_DATA: u32 = 3;
pub(super) const SEEK_HOLE: u32 = 4;
/// `O_ACCMODE`, `O_DSYNC`; the same on every architecture with FUSE that Rust runs on but MIPS, SPARC, Alpha
/// and PA-RISC, where a synchronous write would only be taken for an ordinary one.
pub(super) const ACCESS_MODE: u32 = 0o3;
pub(super) const DSYNC: u32 = 0o10000;

/// Takes numbers and bytes from the front of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    /// A string up to its NUL.
    pub(super) fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        self.bytes(end)
    }
}

/// The beginning of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) opcode: u32,
    pub(super) unique: u64,
    pub(super) node: u64,
}

impl Header {
    /// Returns the header of a message and its arguments, if the message has the length stated in its header.
    pub(super) fn parse(message: &[u8]) -> Option<(Self, Fields<'_>)> {
        let mut fields = Fields(message);
        let length = fields.u32()?;
        if length as usize != message.len() {
            return None;
        }
        let header = Self { opcode: fields.u32()?, unique: fields.u64()?, node: fields.u64()? };
        fields.bytes(16)?;
        Some((header, fields))
    }
}

/// Offset, length and flags of a READ or WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) offset: u64,
    pub(super) size: u32,
    /// The flags of the open file: with `O_DSYNC`, a write is to be durable.
    pub(super) flags: u32,
}

impl Transfer {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Option<Self> {
        let _handle = fields.u64()?;
        let (offset, size) = (fields.u64()?, fields.u32()?);
        let (_transfer_flags, _lock_owner) = (fields.u32()?, fields.u64()?);
        let (flags, _padding) = (fields.u32()?, fields.u32()?);
        Some(Self { offset, size, flags })
    }
}

/// A FALLOCATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allocation {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) mode: u32,
}

impl Allocation {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Option<Self> {
        let _handle = fields.u64()?;
        Some(Self { offset: fields.u64()?, length: fields.u64()?, mode: fields.u32()? })
    }
}

/// Versions and flags that the kernel offers in INIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) max_readahead: u32,
    pub(super) flags: u32,
}

impl Offer {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Option<Self> {
        let (major, minor) = (fields.u32()?, fields.u32()?);
        // A kernel of another major version sends no more that could be understood.
        let (max_readahead, flags) = (fields.u32().unwrap_or(0), fields.u32().unwrap_or(0));
        Some(Self { major, minor, max_readahead, flags })
    }
}

/// The attributes of the directory or the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) node: u64,
    pub(super) size_bytes: u64,
    /// Type and permissions.
    pub(super) mode: u32,
    pub(super) link_count: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) block_size_bytes: u32,
}

/// Puts numbers behind each other into a buffer that is large enough.
#[derive(Debug)]
pub(super) struct Encoder<'a> {
    buffer: &'a mut [u8],
    used: usize,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, used: 0 }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer[self.used..][..bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
        self
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(super) fn zeroes(&mut self, count: usize) -> &mut Self {
        self.buffer[self.used..][..count].fill(0);
        self.used += count;
        self
    }

    /// `struct fuse_attr`, 88 bytes.
    pub(super) fn attributes(&mut self, attributes: &Attributes) -> &mut Self {
        let Attributes { node, size_bytes, mode, link_count, uid, gid, block_size_bytes } = *attributes;
        self.u64(node).u64(size_bytes).u64(size_bytes.div_ceil(512));
        // No times: the device has none.
        self.zeroes(3 * 8 + 3 * 4);
        self.u32(mode).u32(link_count).u32(uid).u32(gid).u32(0).u32(block_size_bytes).u32(0)
    }

    /// `struct fuse_dirent`, padded.
    pub(super) fn directory_entry(&mut self, node: u64, next: u64, kind: u32, name: &[u8]) -> &mut Self {
        self.u64(node).u64(next).u32(name.len() as u32).u32(kind).bytes(name);
        self.zeroes(name.len().next_multiple_of(8) - name.len())
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }
}

/// `struct fuse_out_header` in front of an answer of `length` bytes, header included.
pub(super) fn out_header(length: usize, errno: i32, unique: u64) -> [u8; OUT_HEADER_SIZE] {
    let mut header = [0; OUT_HEADER_SIZE];
    Encoder::new(&mut header).u32(length as u32).u32((-errno) as u32).u64(unique);
    header
}
