//! The protocol's numbers, big-endian encoding, and what a client can do wrong.

pub(crate) const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(crate) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

pub(crate) const REQUEST_SIZE: usize = 28;
pub(crate) const OPTION_SIZE: usize = 16;
pub(crate) const SIMPLE_REPLY_SIZE: usize = 16;
pub(crate) const CHUNK_SIZE: usize = 20;

/// Handshake flags, the same in both directions.
pub(crate) mod handshake_flag {
    pub(crate) const FIXED_NEWSTYLE: u16 = 1 << 0;
    pub(crate) const NO_ZEROES: u16 = 1 << 1;
}

/// Options a client haggles with.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const START_TLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Answers to options.
pub(crate) mod option_reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    pub(crate) const ERROR_UNSUPPORTED: u32 = (1 << 31) | 1;
    pub(crate) const ERROR_INVALID: u32 = (1 << 31) | 3;
    pub(crate) const ERROR_TLS_REQUIRED: u32 = (1 << 31) | 5;
    pub(crate) const ERROR_UNKNOWN: u32 = (1 << 31) | 6;
    pub(crate) const ERROR_SHUTDOWN: u32 = (1 << 31) | 7;
    pub(crate) const ERROR_TOO_BIG: u32 = (1 << 31) | 9;
}

/// Pieces of information about an export.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what the export can do.
pub(crate) mod transmission_flag {
    pub(crate) const HAS_FLAGS: u16 = 1 << 0;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const ROTATIONAL: u16 = 1 << 4;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const SEND_DF: u16 = 1 << 7;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Requests.
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISCONNECT: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub(crate) mod command_flag {
    pub(crate) const FUA: u16 = 1 << 0;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
    pub(crate) const REQ_ONE: u16 = 1 << 3;
}

/// Structured reply chunks.
pub(crate) mod chunk {
    /// More chunks follow.
    pub(crate) const FLAGS_NONE: u16 = 0;
    pub(crate) const FLAG_DONE: u16 = 1;
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const OFFSET_HOLE: u16 = 2;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    /// The bit that every kind of error has.
    pub(crate) const IS_ERROR: u16 = 1 << 15;
    pub(crate) const ERROR: u16 = IS_ERROR | 1;
    pub(crate) const ERROR_OFFSET: u16 = IS_ERROR | 2;
}

/// States of the `base:allocation` context.
pub(crate) mod allocation {
    pub(crate) const CONTEXT: &str = "base:allocation";
    pub(crate) const CONTEXT_ID: u32 = 1;
    pub(crate) const HOLE: u32 = 1;
    pub(crate) const ZERO: u32 = 2;
}

/// The longest payload of a read or write, announced to clients as the maximum block size.
pub(crate) const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// The longest data of an option that is looked at.
pub(crate) const OPTION_BYTES_MAX: u32 = 64 << 10;
/// The longest data of an option that is read past; a longer one ends the connection.
pub(crate) const OPTION_SKIP_BYTES_MAX: u32 = 16 << 20;
/// End of the description of an export of seeklab whose bytes are in memory.
pub(crate) const IN_MEMORY: &str = " (emulated by seeklab, in memory)";
/// The longest string of the protocol.
pub(crate) const STRING_BYTES_MAX: u32 = 4096;
/// Maximum number of options in the negotiation of a client.
pub(crate) const OPTION_COUNT_MAX: u32 = 1024;
/// The most extents in one reply.
pub(crate) const EXTENT_COUNT_MAX: usize = 1 << 14;

/// Violation of the protocol by a client that ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Unknown handshake flags.
    #[error("client flags {0:#x} have unknown bits")]
    ClientFlags(u32),
    /// An option that does not begin with its magic number.
    #[error("an option begins with {0:#018x} instead of the magic number")]
    OptionMagic(u64),
    /// More option data than is even read past.
    #[error("option {option} announces {length_bytes} bytes of data, more than {OPTION_SKIP_BYTES_MAX}")]
    OptionLength {
        /// Number of the option.
        option: u32,
        /// Announced length of its data.
        length_bytes: u32,
    },
    /// Too many options.
    #[error("more than {OPTION_COUNT_MAX} options without choosing an export")]
    OptionCount,
    /// `NBD_OPT_EXPORT_NAME`, which has no error reply, names no export of this server.
    #[error("the client requested an export that does not exist, by an option without error reply")]
    ExportName,
    /// An option unknown to the server from a client that takes no error reply.
    #[error("option {0} from a client that does not speak fixed newstyle")]
    OptionWithoutReply(u32),
    /// A request that does not begin with its magic number.
    #[error("a request begins with {0:#010x} instead of the magic number")]
    RequestMagic(u32),
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("two bytes are two bytes"))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes are four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes are eight bytes"))
}

/// Takes a message's data apart; `None` where it ends too early.
pub(crate) struct WireReader<'a>(pub(crate) &'a [u8]);

impl<'a> WireReader<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.bytes(2).map(|bytes| u16_at(bytes, 0))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes(4).map(|bytes| u32_at(bytes, 0))
    }

    /// A string with its length before it.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        if length > STRING_BYTES_MAX {
            return None;
        }
        self.bytes(length as usize)
    }
}
