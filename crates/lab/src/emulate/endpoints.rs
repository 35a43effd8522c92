//! Places where clients reach a served device.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use seeklab_emulator::frontend::fuse::FILE_NAME;
use seeklab_emulator::frontend::nbd::{Address, Uri};

use super::{FrontendOptions, Running};
use crate::failure::Failure;

/// Places where clients reach a served device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    /// The block device of the host.
    pub block: Option<PathBuf>,
    /// The file that FUSE serves.
    pub file: Option<PathBuf>,
    /// The NBD export.
    pub nbd: Option<Uri>,
}

impl Endpoints {
    pub(crate) fn of<O>(running: &Running<O>, frontends: &FrontendOptions) -> Self {
        Self {
            block: running.block().map(|block| block.path().to_owned()),
            file: frontends.fuse.as_ref().map(|folder| folder.join(FILE_NAME)),
            nbd: running.uri().cloned(),
        }
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let paths = self.block.iter().chain(&self.file).map(|path| path.display().to_string());
        let all: Vec<String> = paths.chain(self.nbd.iter().map(ToString::to_string)).collect();
        f.write_str(&all.join(", "))
    }
}

/// Sockets that this process has named.
static SOCKETS: AtomicU32 = AtomicU32::new(0);

impl FrontendOptions {
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
