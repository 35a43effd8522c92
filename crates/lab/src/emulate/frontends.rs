//! Frontends of an emulation: their options, and opening them.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use seeklab_emulator::calibration::FrontendKind;
use seeklab_emulator::clock::Clock;
use seeklab_emulator::frontend::Frontend;
use seeklab_emulator::frontend::fuse::{self, DetachedFile, Place};
use seeklab_emulator::frontend::loop_device::QueueOptions;
use seeklab_emulator::frontend::nbd::{Address, Export, Server, ServerOptions, Uri};

use crate::failure::Failure;

/// Frontends that clients connect to.
#[derive(Debug, Clone, Default)]
pub struct FrontendOptions {
    /// Address that NBD clients connect to, if enabled.
    pub nbd: Option<Address>,
    /// The directory in which the device is a file, if it is to be one.
    pub fuse: Option<PathBuf>,
    /// Options of the host's queue, if the device is to be a block device of the host.
    pub block: Option<QueueOptions>,
    /// NBD connections at a time.
    pub connections: Option<NonZeroUsize>,
}

/// Opened frontends.
pub(super) struct Open {
    pub(super) frontends: Vec<Box<dyn Frontend>>,
    pub(super) uri: Option<Uri>,
    pub(super) file: Option<DetachedFile>,
}

/// Sockets that this process has named.
static SOCKETS: AtomicU32 = AtomicU32::new(0);

impl FrontendOptions {
    /// Returns the frontend that selects the calibration: if there are several, the frontend nearest to the
    /// kernel.
    pub const fn kind(&self) -> FrontendKind {
        match self {
            Self { block: Some(_), .. } => FrontendKind::Block,
            Self { fuse: Some(_), .. } => FrontendKind::Fuse,
            Self { nbd: Some(Address::Tcp { .. }), .. } => FrontendKind::NbdTcp,
            _ => FrontendKind::NbdUnix,
        }
    }

    /// Opens them for `export`.
    pub(super) fn open(&self, export: Export, clock: Clock) -> Result<Open, Failure> {
        let mut frontends: Vec<Box<dyn Frontend>> = Vec::new();
        let (mut uri, mut file) = (None, None);
        if let Some(path) = &self.fuse {
            let server =
                fuse::Server::mount(export.clone(), Box::new(move || clock.now()), &Place::At(path.clone()))
                    .map_err(|error| Failure::from(error).context("--fuse"))?;
            frontends.push(Box::new(server));
        }
        if self.block.is_some() {
            let server = fuse::Server::mount(export.clone(), Box::new(move || clock.now()), &Place::Detached)
                .map_err(|error| Failure::from(error).context("no block device can be made"))?;
            file = server.detached_file();
            frontends.push(Box::new(server));
        }
        if let Some(address) = &self.nbd {
            let default = ServerOptions::default();
            let connection_count_max =
                self.connections.map_or(default.connection_count_max, NonZeroUsize::get);
            let options = ServerOptions { connection_count_max, ..default };
            let server = Server::bind(address, export, options, Box::new(move || clock.now()))
                .map_err(|error| Failure::from(error).context(format!("--nbd {address}")))?;
            uri = Some(server.uri());
            frontends.push(Box::new(server));
        }
        Ok(Open { frontends, uri, file })
    }

    /// Adds an NBD socket in the temporary folder if no frontend is given. Each call names another socket.
    ///
    /// # Errors
    /// If the path of the temporary folder is too long for a socket.
    pub(crate) fn or_own_socket(self) -> Result<Self, Failure> {
        if self.nbd.is_some() || self.fuse.is_some() || self.block.is_some() {
            return Ok(self);
        }
        let (process, number) = (std::process::id(), SOCKETS.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("seeklab-{process}-{number}.sock"));
        let address: Address = format!("unix:{}", path.display())
            .parse()
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(Self { nbd: Some(address), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_default_socket_has_a_name_of_its_own() {
        let default = || FrontendOptions::default().or_own_socket().unwrap().nbd.unwrap().to_string();
        assert_ne!(default(), default());
        let folder = FrontendOptions { fuse: Some("/folder".into()), ..FrontendOptions::default() };
        assert!(folder.or_own_socket().unwrap().nbd.is_none());
    }
}
