//! Places where clients reach a served device.

use std::fmt;
use std::path::PathBuf;

use seeklab_emulator::frontend::fuse::FILE_NAME;
use seeklab_emulator::frontend::nbd::Uri;

use super::{FrontendOptions, Running};

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
