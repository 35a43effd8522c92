//! A protocol: the option by which the user chooses it, and the frontend that this option opens.
//!
//! ```text
//! --nbd unix:/tmp/disk.sock ─▶ Protocol ─▶ Opening ─ open(Export) ─▶ OpenFrontend: Frontend, Endpoint
//! ```
//! The module of a protocol has the constant `PROTOCOL`, and [`PROTOCOLS`](super::PROTOCOLS) lists it. The laboratory
//! and the command line know protocols by this list alone.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Frontend;
use super::nbd::Export;
use crate::calibration::FrontendKind;
use crate::clock::Clock;

/// Protocol by which clients reach a device.
#[derive(Debug)]
pub struct Protocol {
    /// Its name, which is also its option on the command line.
    pub name: &'static str,
    /// Name of the option's value in the help.
    pub value_name: &'static str,
    /// Help of the option.
    pub help: &'static str,
    /// Reader of the option's value.
    pub value: ProtocolValue,
}

/// Reader of the value of a protocol's option.
#[derive(Debug, Clone, Copy)]
pub enum ProtocolValue {
    /// Reads a text. The error names the mistake and a correct example.
    Text(fn(&str) -> Result<Arc<dyn Opening>, String>),
    /// Takes a path. The shell can complete it.
    Path(fn(PathBuf) -> Arc<dyn Opening>),
}

/// A frontend that is not open yet: a protocol at a place.
pub trait Opening: fmt::Debug + Send + Sync {
    /// Returns the option that errors of [`open`](Self::open) are about, for example `--nbd unix:/tmp/disk.sock`. The
    /// value is omitted if the errors name it.
    fn option(&self) -> String;

    /// Returns the kind of frontend whose calibration applies.
    fn kind(&self) -> FrontendKind;

    /// Returns the directory that the frontend hides behind a mount of its own.
    fn mount_point(&self) -> Option<&Path> {
        None
    }

    /// Returns the path of the file or socket that [`open`](Self::open) makes.
    fn created_path(&self) -> Option<&Path> {
        None
    }

    /// Opens the frontend for `export`. Arrival times are those of `clock`.
    ///
    /// # Errors
    /// Resources that cannot be opened or bound, with a remedy.
    fn open(&self, export: Export, clock: Clock, limits: ClientLimits) -> io::Result<OpenFrontend>;
}

/// Limits on the clients of a frontend. A protocol ignores limits that it has no use for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientLimits {
    /// Connections at a time [default: the protocol's].
    pub connection_count_max: Option<NonZeroUsize>,
}

/// A frontend that is open, and the place where clients reach it.
pub struct OpenFrontend {
    /// The frontend.
    pub frontend: Box<dyn Frontend>,
    /// Its endpoint.
    pub endpoint: Endpoint,
}

/// Place where clients reach a served device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the protocol, or `block` for a block device of the host.
    pub protocol: &'static str,
    /// Path or URI that clients use.
    pub address: String,
    /// Command to try it with.
    pub trial: String,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::frontend::PROTOCOLS;

    #[test]
    fn names_of_protocols_differ_and_are_options() {
        let names: BTreeSet<&str> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
        assert_eq!(names.len(), PROTOCOLS.len(), "{names:?}");
        for protocol in PROTOCOLS {
            let is_option = protocol.name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            assert!(is_option && protocol.name != "block", "{protocol:?}");
            assert!(!protocol.help.is_empty() && !protocol.help.ends_with('.'), "{protocol:?}");
        }
    }
}
