//! Frontends (communications manager): how clients reach the emulated device.
//!
//! ```text
//!            receive ──▶ Command ──▶ pacer + store
//!  client ◀▶ Frontend
//!            send   ◀── Reply   ◀── pacer + store
//! ```
//! A frontend speaks one protocol: it turns what clients send into [`Command`]s, and [`Reply`]s into
//! what clients expect. It knows neither model time nor where bytes live. [`serve`] is the loop that
//! drives any of them.

pub mod fuse;
pub mod loop_device;
pub mod nbd;
mod slots;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use seeklab_core::{Duration, Instant, Operation};

/// Names one outstanding command of a frontend; it goes back with the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// Which client it came from: unique over the life of the frontend.
    pub client: u64,
    /// Which of the client's outstanding commands.
    pub command: u32,
}

/// What a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command<'a> {
    /// Goes back with the reply.
    pub tag: Tag,
    /// When the read that delivered it returned: measurement point MP2.
    pub arrived: Instant,
    /// First byte addressed, a multiple of the block size; 0 for a flush.
    pub offset_bytes: u64,
    /// How many bytes are addressed, a multiple of the block size; 0 for a flush.
    pub length_bytes: u32,
    /// Whether what it writes must be on the media when it completes.
    pub fua: bool,
    /// What to do there.
    pub action: Action<'a>,
}

/// What a [`Command`] does.
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
        /// Whether the space may be given back.
        may_discard: bool,
    },
    /// Say which parts are allocated: answered by [`Reply::Extents`]. It is no request to the device.
    BlockStatus {
        /// Whether one extent is all that the client takes.
        single: bool,
    },
}

impl Action<'_> {
    /// The device's operation, or `None` where the device is not asked.
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

/// Why a command failed, as every block protocol can say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// The device is read-only (`EPERM`).
    Permission = 1,
    /// The media failed (`EIO`).
    Io = 5,
    /// No memory to serve it (`ENOMEM`).
    NoMemory = 12,
    /// The command makes no sense: out of range, unaligned, unknown (`EINVAL`).
    Invalid = 22,
    /// Beyond the end of the device, or the store is full (`ENOSPC`).
    NoSpace = 28,
    /// The answer does not fit in one piece as asked (`EOVERFLOW`).
    Overflow = 75,
    /// Not supported (`ENOTSUP`).
    NotSupported = 95,
    /// The server is going away (`ESHUTDOWN`).
    ShuttingDown = 108,
}

/// What [`Reply::Data`] produced.
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
    /// Whether space is allocated for it.
    pub allocated: bool,
    /// Whether it reads as zeroes.
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
    /// A read succeeded: called once with a buffer of exactly the length asked for, of unspecified
    /// content. If it fails, the read does.
    Data(Fill<'a>),
    /// The extents from the offset asked for on; at least one. What exceeds the length asked for is cut.
    Extents(&'a [Extent]),
}

/// How long [`Frontend::receive`] may wait when nothing has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: the caller spins.
    Poll,
    /// Sleep until then at most.
    Until(Instant),
    /// Sleep until something arrives or the frontend is woken.
    Forever,
}

/// Serves a device over a protocol.
pub trait Frontend {
    /// Hands over the commands that arrived, waiting for the first as `wait` says; may return without
    /// any. A client's misbehaviour ends that client, never this call.
    fn receive(&mut self, wait: Wait, commands: &mut dyn FnMut(Command<'_>)) -> io::Result<()>;

    /// Prepares an answer; it leaves with the next [`send`](Self::send). A client that has gone takes no
    /// answer, silently.
    ///
    /// # Panics
    /// If the tag is not outstanding or the kind of answer does not fit the command: a bug of the caller.
    fn reply(&mut self, tag: Tag, reply: Reply<'_>);

    /// Lets everything prepared leave, as far as clients take it.
    fn send(&mut self) -> io::Result<()>;

    /// Begins to end: no new client, and commands that still arrive fail with
    /// [`ErrorCode::ShuttingDown`].
    fn shut_down(&mut self);

    /// Whether, after [`shut_down`](Self::shut_down), every answer has left.
    fn is_drained(&self) -> bool;
}

/// How [`serve`] waits for the next deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Sleep until this long before the deadline; and look for more for as long after a command, since who
    /// asked once asks again soon and waking takes tens of microseconds.
    pub margin: Duration,
    /// Spin for the rest; without it, sleep to the deadline and ignore the margin.
    pub spin: bool,
}

impl Waiting {
    /// The wait for `deadline`, if there is one, seen from `now`; the last command came at `last`.
    fn plan(self, now: Instant, deadline: Option<Instant>, last: Option<Instant>) -> Wait {
        let lingers = last.is_some_and(|last| now.saturating_since(last) < self.margin);
        if self.spin && lingers {
            return Wait::Poll;
        }
        deadline.map_or(Wait::Forever, |deadline| self.until(now, deadline))
    }

    /// The wait for `deadline`, seen from `now`.
    pub fn until(self, now: Instant, deadline: Instant) -> Wait {
        if deadline <= now {
            return Wait::Poll;
        }
        if !self.spin {
            return Wait::Until(deadline);
        }
        match deadline.as_ns().saturating_sub(self.margin.as_ns()) {
            wake_ns if wake_ns <= now.as_ns() => Wait::Poll,
            wake_ns => Wait::Until(Instant::from_ns(wake_ns)),
        }
    }
}

/// What [`serve`] wants from its backend.
pub enum Turn<'a> {
    /// A command arrived.
    Command(Command<'a>),
    /// Reply to what is due.
    Reply {
        /// The time.
        now: Instant,
        /// Takes the replies.
        frontend: &'a mut dyn Frontend,
    },
}

/// How long clients have to take the last answers once serving ends.
const GRACE: Duration = Duration::from_s(5);

/// Drives `frontend` until `stop` is set and every answer has left (or the clients have had five seconds
/// to take them).
///
/// The backend is one closure: it takes commands, replies when asked to, and returns the next deadline
/// at which it wants to be asked again. Only the return value of [`Turn::Reply`] counts.
pub fn serve(
    frontend: &mut dyn Frontend,
    clock: &dyn Fn() -> Instant,
    waiting: Waiting,
    stop: &AtomicBool,
    backend: &mut dyn FnMut(Turn<'_>) -> Option<Instant>,
) -> io::Result<()> {
    let (mut deadline, mut last) = (None, None);
    let mut give_up = None;
    loop {
        if give_up.is_none() && stop.load(Ordering::Acquire) {
            frontend.shut_down();
            frontend.send()?;
            give_up = Some(clock() + GRACE);
        }
        if give_up.is_some_and(|give_up| frontend.is_drained() || clock() >= give_up) {
            return Ok(());
        }
        let next: Option<Instant> = deadline.into_iter().chain(give_up).min();
        let wait = waiting.plan(clock(), next, last);
        frontend.receive(wait, &mut |command| {
            last = Some(command.arrived);
            backend(Turn::Command(command));
        })?;
        deadline = backend(Turn::Reply { now: clock(), frontend });
        frontend.send()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_spun_and_the_rest_slept() {
        let spin = Waiting { margin: Duration::from_us(60), spin: true };
        let at = Instant::from_ns;
        assert_eq!(spin.until(at(0), at(1_000_000)), Wait::Until(at(940_000)));
        assert_eq!(spin.until(at(950_000), at(1_000_000)), Wait::Poll);
        assert_eq!(spin.until(at(1_000_001), at(1_000_000)), Wait::Poll);
        assert_eq!(spin.plan(at(70_000), None, Some(at(20_000))), Wait::Poll, "more may come");
        assert_eq!(spin.plan(at(80_001), None, Some(at(20_000))), Wait::Forever);
        let frugal = Waiting { spin: false, ..spin };
        assert_eq!(frugal.plan(at(70_000), None, Some(at(20_000))), Wait::Forever);
        assert_eq!(frugal.until(at(950_000), at(1_000_000)), Wait::Until(at(1_000_000)));
    }
}
