//! Devices without mechanics, for theory and for bounds.

mod kind;
mod server;

pub(crate) use kind::ServerKind;
pub use server::{Access, AccessParameters, Server, ServerParameters, ServiceTime};
