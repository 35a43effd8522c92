//! FUSE in the list of protocols: the device as a file in a directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{FILE_NAME, Place, Server};
use crate::calibration::FrontendKind;
use crate::clock::Clock;
use crate::frontend::nbd::Export;
use crate::frontend::{ClientLimits, Endpoint, OpenFrontend, Opening, Protocol, ProtocolValue};

/// FUSE in the list of protocols.
pub const PROTOCOL: Protocol = Protocol {
    name: "fuse",
    value_name: "DIR",
    help: "Serve it as a plain file, `disk`, in this directory, through FUSE. Needs no root",
    value: ProtocolValue::Path(|directory| Arc::new(MountPoint(directory))),
};

/// Directory in which the file appears.
#[derive(Debug)]
struct MountPoint(PathBuf);

impl Opening for MountPoint {
    fn option(&self) -> String {
        format!("--{}", PROTOCOL.name)
    }

    fn kind(&self) -> FrontendKind {
        FrontendKind::Fuse
    }

    fn mount_point(&self) -> Option<&Path> {
        Some(&self.0)
    }

    fn open(&self, export: Export, clock: Clock, _: ClientLimits) -> io::Result<OpenFrontend> {
        let server = Server::mount(export, Box::new(move || clock.now()), &Place::At(self.0.clone()))?;
        let file = self.0.join(FILE_NAME).display().to_string();
        let endpoint = Endpoint {
            protocol: PROTOCOL.name,
            trial: format!("fio --name=x --filename={file} --direct=1 --rw=randread"),
            address: file,
        };
        Ok(OpenFrontend { frontend: Box::new(server), endpoint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_directory_is_named_by_the_error_and_not_by_the_option() {
        let ProtocolValue::Path(read) = PROTOCOL.value else { panic!("{:?}", PROTOCOL.value) };
        let opening = read("/no/such/directory".into());
        assert_eq!((opening.option().as_str(), opening.kind()), ("--fuse", FrontendKind::Fuse));
        let export = Export::new("", 1 << 20, 512);
        let Err(error) = opening.open(export, Clock::start(), ClientLimits::default()) else {
            panic!("it is mounted");
        };
        assert!(error.to_string().starts_with("/no/such/directory: "), "{error}");
    }
}
