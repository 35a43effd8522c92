//! The network block device protocol, served.
//!
//! ```text
//! socket bytes ─▶ Connection { handshake ▸ transmission } ─▶ Event
//! socket bytes ◀─     (no I/O, no clock, bounded)         ◀─ Reply
//! ```
//! [`Connection`] is a state machine from bytes to events and back, so that it can be fuzzed and driven by
//! any event loop; [`Server`] drives many of them over one listening socket with one thread.
//!
//! # Scope and limits
//! Fixed newstyle negotiation with one export; structured replies, `base:allocation`, flush, FUA, trim,
//! write zeroes, several connections. No TLS (refused), no extended headers, no resize, no cache command,
//! no fast zero. Every length that a client names is bounded before anything is allocated for it.
//!
//! # References
//! The NBD protocol, <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>; its names are
//! kept in the `wire` module.

mod address;
mod buffer;
mod connection;
mod export;
mod handshake;
mod listener;
mod protocol;
mod server;
mod supervisor;
mod tls_parameters;
mod transmission;
mod uri;
pub(crate) mod wire;

pub use address::{Address, AddressError, DEFAULT_PORT};
pub use connection::{Connection, Event, Limits};
pub use export::Export;
pub use protocol::PROTOCOL;
pub use server::{Server, ServerOptions, Statistics};
pub use supervisor::Expulsion;
pub use tls_parameters::TlsParameters;
pub use uri::{Uri, UriError};
pub use wire::Violation;
