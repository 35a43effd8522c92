//! NBD in the list of protocols: a server at an address.

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use super::{Address, Export, Server, ServerOptions};
use crate::calibration::FrontendKind;
use crate::clock::Clock;
use crate::frontend::{ClientLimits, Endpoint, OpenFrontend, Opening, Protocol, ProtocolValue};

/// NBD in the list of protocols.
pub const PROTOCOL: Protocol = Protocol {
    name: "nbd",
    value_name: "ADDRESS",
    help: "Address for NBD clients: unix:PATH or tcp:ADDR",
    value: ProtocolValue::Text(|text| match text.parse::<Address>() {
        Ok(address) => Ok(Arc::new(address)),
        Err(error) => Err(error.to_string()),
    }),
};

impl Opening for Address {
    fn option(&self) -> String {
        format!("--{} {self}", PROTOCOL.name)
    }

    fn kind(&self) -> FrontendKind {
        match self {
            Self::Unix(_) => FrontendKind::NbdUnix,
            Self::Tcp(_) => FrontendKind::NbdTcp,
        }
    }

    fn created_path(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(path),
            Self::Tcp(_) => None,
        }
    }

    fn open(&self, export: Export, clock: Clock, limits: ClientLimits) -> io::Result<OpenFrontend> {
        let default = ServerOptions::default();
        let connection_count_max =
            limits.connection_count_max.map_or(default.connection_count_max, NonZeroUsize::get);
        let options = ServerOptions { connection_count_max, ..default };
        let server = Server::bind(self, export, options, Box::new(move || clock.now()))?;
        let uri = server.uri();
        let endpoint =
            Endpoint { protocol: PROTOCOL.name, address: uri.to_string(), trial: format!("nbdinfo '{uri}'") };
        Ok(OpenFrontend { frontend: Box::new(server), endpoint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::nbd::Uri;

    fn opening(text: &str) -> Result<Arc<dyn Opening>, String> {
        let ProtocolValue::Text(read) = PROTOCOL.value else { panic!("{:?}", PROTOCOL.value) };
        read(text)
    }

    #[test]
    fn text_of_the_option_opens_a_server_whose_uri_is_the_endpoint() {
        let opening = opening("tcp:127.0.0.1:0").unwrap();
        let export = Export::new("", 1 << 20, 512);
        let open = opening.open(export, Clock::start(), ClientLimits::default()).unwrap();
        let Ok(Uri::Tcp { port, .. }) = open.endpoint.address.parse() else { panic!("{:?}", open.endpoint) };
        assert_ne!(port, 0, "the port that the system chose");
        assert_eq!(open.endpoint.trial, format!("nbdinfo 'nbd://127.0.0.1:{port}/'"));
    }

    #[test]
    fn calibration_and_errors_name_the_transport() {
        assert_eq!(opening("tcp:").unwrap().kind(), FrontendKind::NbdTcp);
        assert_eq!(opening("unix:/a").unwrap().kind(), FrontendKind::NbdUnix);
        assert_eq!(opening("unix:/a").unwrap().option(), "--nbd unix:/a");
        assert_eq!(
            opening("smoke:signals").unwrap_err(),
            "`smoke:signals`: no address; write `unix:PATH` or `tcp:ADDR`"
        );
    }
}
