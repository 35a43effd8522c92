//! The frontends that are calibrated: how each is served, and who measures at its other end.
//!
//! A frontend with a calibration of its own is a line in each function of [`FrontendKind`], a [`Way`], and a [`Host`] at
//! its end. Other protocols name the kind that is nearest to theirs.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use seeklab_core::{HostRequest, Operation};
use serde::{Deserialize, Serialize};

use super::file_host::FileHost;
use super::stream::BLOCK_BYTES;
use crate::client::{ClientError, nbd};
use crate::clock::Clock;
use crate::frontend::Frontend;
use crate::frontend::fuse::{self, DetachedFile};
use crate::frontend::loop_device::{LoopDevice, QueueOptions, Settings};
use crate::frontend::nbd::{Address, Export, Server, ServerOptions, Uri};

/// A way by which clients reach an emulated device. The kinds are in order: the last is the nearest to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FrontendKind {
    /// NBD over a unix socket.
    NbdUnix,
    /// NBD over TCP.
    NbdTcp,
    /// The file that FUSE serves.
    Fuse,
    /// A loop device over that file.
    Block,
}

impl FrontendKind {
    /// Every frontend that can be calibrated.
    pub const ALL: [Self; 4] = [Self::NbdUnix, Self::NbdTcp, Self::Fuse, Self::Block];

    /// The name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NbdUnix => "nbd-unix",
            Self::NbdTcp => "nbd-tcp",
            Self::Fuse => "fuse",
            Self::Block => "block",
        }
    }

    /// Serves `export` in this way, in a place of its own.
    pub(super) fn open(self, export: Export, clock: Clock) -> io::Result<(Box<dyn Frontend>, Way)> {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        match self {
            Self::NbdUnix => open_nbd(&Address::Unix(socket_path()), export, clock),
            Self::NbdTcp => open_nbd(&Address::Tcp(any_port), export, clock),
            Self::Fuse => open_fuse(export, clock, Way::Fuse),
            Self::Block => open_fuse(export, clock, Way::Block),
        }
    }
}

impl fmt::Display for FrontendKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for FrontendKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The unix socket is what `serve` takes by default.
        let name = if text == "nbd" { Self::NbdUnix.name() } else { text };
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("`{text}` is no frontend; allowed are nbd, {}", names()))
    }
}

fn open_nbd(address: &Address, export: Export, clock: Clock) -> io::Result<(Box<dyn Frontend>, Way)> {
    let server = Server::bind(address, export, ServerOptions::default(), Box::new(move || clock.now()))?;
    let way = Way::Nbd(server.uri());
    Ok((Box::new(server), way))
}

/// A mount without a place, which goes with this process.
fn open_fuse(
    export: Export,
    clock: Clock,
    way: fn(DetachedFile) -> Way,
) -> io::Result<(Box<dyn Frontend>, Way)> {
    let server = fuse::Server::mount(export, Box::new(move || clock.now()), &fuse::Place::Detached)?;
    let file = server.detached_file().expect("a mount without a place has one");
    Ok((Box::new(server), way(file)))
}

/// A path that no other calibration has.
fn socket_path() -> std::path::PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("seeklab-calibrate-{}-{count}.sock", std::process::id()))
}

/// The way to a frontend that is being served.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// An NBD server's URI.
    Nbd(Uri),
    /// The file of a FUSE mount.
    Fuse(DetachedFile),
    /// The same, for a block device over its file.
    Block(DetachedFile),
}

impl Way {
    /// A client at the other end.
    pub(super) fn reach(&self, clock: Clock) -> Result<Box<dyn Host>, ClientError> {
        match self {
            Self::Nbd(uri) => Ok(Box::new(nbd::Client::connect(uri, clock)?)),
            Self::Fuse(file) => Ok(Box::new(FileHost::start(file.clone(), None, clock)?)),
            Self::Block(file) => {
                let queue = QueueOptions::of_device(false);
                let settings = Settings { block_size_bytes: BLOCK_BYTES, read_only: false, queue };
                let device = LoopDevice::attach(file, &settings).map_err(|source| {
                    let server = "a loop device".to_owned();
                    ClientError::Io { action: "attach", server, source }
                })?;
                Ok(Box::new(FileHost::start(file.clone(), Some(device), clock)?))
            }
        }
    }
}

/// Client that makes requests and stamps them at MP1.
pub(super) trait Host {
    /// Makes one request at the beginning of the device and waits for its end.
    fn request(&mut self, op: Operation, memory: &mut [u8]) -> Result<HostRequest, ClientError>;
}

impl Host for nbd::Client {
    fn request(&mut self, op: Operation, memory: &mut [u8]) -> Result<HostRequest, ClientError> {
        match op {
            Operation::Read => self.read(0, memory),
            Operation::Write => self.write(0, memory, false),
            Operation::Flush => self.flush(),
            Operation::Discard => self.discard(0, memory.len() as u32),
            Operation::WriteZeroes => self.write_zeroes(0, memory.len() as u32),
        }
    }
}
