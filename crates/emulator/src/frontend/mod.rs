//! Frontends (communications manager): how clients reach the emulated device.
//!
//! ```text
//!            receive ──▶ Command ──▶ pacer + store
//!  client ◀▶ Frontend
//!            send   ◀── Reply   ◀── pacer + store
//! ```
//! A frontend speaks one protocol: it turns what clients send into [`Command`]s, and [`Reply`]s into
//! what clients expect. It knows neither model time nor where bytes live, and it never waits:
//! [`serve`] is the loop that waits and drives any of them, several at a time through [`Frontends`].

mod composite;
mod error_code;
pub mod loop_device;
mod protocol;
mod serving;
mod slots;
mod stop;

use std::io;
use std::os::fd::BorrowedFd;

use seeklab_core::{Instant, Operation};

pub use composite::Frontends;
pub use error_code::ErrorCode;
pub use protocol::{ClientLimits, Endpoint, OpenFrontend, Opening, Protocol, ProtocolValue};
pub use serving::{Backend, Next, serve};
pub use stop::Stop;

/// Declares the module of each protocol and lists the protocols in order.
macro_rules! protocols {
    ($($module:ident,)+) => {
        $(pub mod $module;)+

        /// THE list of protocols by which clients reach a device.
        pub static PROTOCOLS: &[Protocol] = &[$($module::PROTOCOL),+];
    };
}

protocols! {
    nbd,
    fuse,
}

/// Names one outstanding command of a frontend; it goes back with the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// Index in the [`Frontends`] that are served together; 0 for a single frontend.
    pub frontend: u16,
    /// Number of the client: unique over the life of the frontend.
    pub client: u64,
    /// Number of the command among the client's outstanding commands.
    pub command: u32,
}

/// Command of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command<'a> {
    /// Goes back with the reply.
    pub tag: Tag,
    /// Time at which the read that delivered the command returned: measurement point MP2.
    pub arrived: Instant,
    /// First byte addressed, a multiple of the block size; 0 for a flush.
    pub offset_bytes: u64,
    /// Length in bytes, a multiple of the block size; 0 for a flush.
    pub length_bytes: u32,
    /// Complete only when the written data are on the media.
    pub fua: bool,
    /// Action at this place.
    pub action: Action<'a>,
}

/// Action of a [`Command`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// Bring bytes: answered by [`Reply::Data`].
    Read,
    /// Take these bytes. They are borrowed from the frontend's receive buffer: copy what is kept.
    Write(&'a [u8]),
    /// Make every completed write durable.
    Flush,
    /// The bytes are no longer needed.
    Discard,
    /// Fill with zeroes.
    WriteZeroes {
        /// True if the space may be given back.
        may_discard: bool,
    },
    /// Report which parts are allocated: answered by [`Reply::Extents`]. It is no request to the device.
    BlockStatus {
        /// True if the client accepts only one extent.
        single: bool,
    },
}

impl Action<'_> {
    /// Returns the device's operation, or `None` if the action needs no device.
    pub const fn operation(&self) -> Option<Operation> {
        match self {
            Self::Read => Some(Operation::Read),
            Self::Write(_) => Some(Operation::Write),
            Self::Flush => Some(Operation::Flush),
            Self::Discard => Some(Operation::Discard),
            Self::WriteZeroes { .. } => Some(Operation::WriteZeroes),
            Self::BlockStatus { .. } => None,
        }
    }
}

/// Content produced by [`Reply::Data`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The buffer is filled.
    Data,
    /// Everything is zero and the buffer was not touched; fewer bytes travel where the protocol can.
    /// The timing-accurate path sends data, so that every read of a size costs the same to transport.
    Zeroes,
}

/// A range with one allocation state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its length, a multiple of the block size, at least one block.
    pub length_bytes: u32,
    /// True if space is allocated for the range.
    pub allocated: bool,
    /// True if the range reads as zeroes.
    pub zero: bool,
}

/// Writes a read's bytes into the frontend's send buffer.
pub type Fill<'a> = &'a mut dyn FnMut(&mut [u8]) -> Result<Content, ErrorCode>;

/// The answer to a [`Command`].
pub enum Reply<'a> {
    /// Done; for all but reads and block status.
    Done,
    /// Not done.
    Failed(ErrorCode),
    /// A read succeeded. The function is called once with a buffer of exactly the requested length, of
    /// unspecified content. If it fails, the read fails.
    Data(Fill<'a>),
    /// A read failed behind its first `good_bytes`, which are fewer than requested and may be none. The function fills a
    /// buffer of that length, as for `Data`. A frontend whose protocol cannot carry the bytes does not call it.
    Part {
        /// Reason for the failure.
        code: ErrorCode,
        /// Bytes before the first bad one, a multiple of the block size.
        good_bytes: u64,
        /// Writes the good bytes.
        fill: Fill<'a>,
    },
    /// The extents from the requested offset on, at least one. Extents are cut to the requested length.
    Extents(&'a [Extent]),
}

/// End of a prepared answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// The kernel took the whole answer; just before the write that took its last byte: measurement point MP2.
    Taken(Instant),
    /// The client had gone.
    Dropped,
}

/// Serves a device over a protocol.
pub trait Frontend {
    /// Becomes readable when [`receive`](Self::receive) has something to do.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Returns true if there is something to do that does not make the descriptor readable.
    fn is_busy(&self) -> bool;

    /// Hands over the commands that have arrived, without waiting for any. A client's misbehaviour ends
    /// that client, never this call.
    fn receive(&mut self, commands: &mut dyn FnMut(Command<'_>)) -> io::Result<()>;

    /// Prepares an answer; [`send`](Self::send) lets it leave.
    ///
    /// # Panics
    /// If the tag is not outstanding or the kind of answer does not fit the command: a bug of the caller.
    fn reply(&mut self, tag: Tag, reply: Reply<'_>);

    /// Lets everything prepared leave, as far as clients take it. `left` is called once for each answer, now or in a
    /// later call. Until then its tag stands for no other command.
    fn send(&mut self, left: &mut dyn FnMut(Tag, Departure)) -> io::Result<()>;

    /// The time at which [`receive`](Self::receive) has something to do even if nothing arrives.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// The device has gone, or is there again: while it is away, clients are closed once their answers have left, and new
    /// ones are refused. A protocol without connections passes on what the device answers.
    ///
    /// # Errors
    /// A failure after which the frontend cannot go on.
    fn set_away(&mut self, _away: bool) -> io::Result<()> {
        Ok(())
    }

    /// Begins to end: no new client, and commands that still arrive fail with
    /// [`ErrorCode::ShuttingDown`].
    fn shut_down(&mut self);

    /// Returns true if, after [`shut_down`](Self::shut_down), every answer has left.
    fn is_drained(&self) -> bool;
}
