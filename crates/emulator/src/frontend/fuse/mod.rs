//! The device as a file, served through FUSE.
//!
//! ```text
//! /dev/fuse ─ read ─▶ Connection ─▶ Command      one thread reads, waits for deadlines and replies
//! /dev/fuse ◀─ write  (no I/O, no clock)  ◀─ Reply
//! ```
//! [`Server`] mounts a directory with one file, `disk`, at a place that the user names or nowhere. A mount
//! without a place is reached by its descriptor only and is gone with it.
//! [`LoopDevice`](crate::frontend::loop_device::LoopDevice) makes a block device of such a mount.
//!
//! # Scope and limits
//! - The `connection` module documents the operations of the file. Settings without which it is serial or ten
//!   times slower (`feasibility.md`, section 1): asynchronous direct I/O, 256 requests in the background
//!   where the kernel's default is 12, direct I/O and parallel direct writes at open, a mebibyte per request.
//! - Linux 4.20 (the protocol's 7.28); a mount without a place needs 5.2 and the privilege to mount.
//! - A process must not use a file that it serves itself, except from a thread with descriptors of its own
//!   (as the loop device's). Otherwise, if the process is killed, the thread waits for an answer that cannot
//!   come, and thereby keeps `/dev/fuse` open. Only closing `/dev/fuse` would end the waiting.
//!
//! # References
//! The kernel's `Documentation/filesystems/fuse/` and `include/uapi/linux/fuse.h`.

mod connection;
mod fusermount;
mod guard;
mod mount;
mod output;
mod patch;
mod protocol;
mod server;
mod wire;

pub use connection::{Connection, FILE_NAME, MESSAGE_BYTES_MAX, Oddities, Owner, TRANSFER_BYTES_MAX};
pub use mount::{Place, unavailability};
pub use protocol::PROTOCOL;
pub use server::{DetachedFile, IN_MEMORY_PREFIX, Server, Statistics};
