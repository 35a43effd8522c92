//! Devices without mechanics, for theory and for bounds.

mod server;

pub use server::{Server, ServerParameters, ServiceTime};
