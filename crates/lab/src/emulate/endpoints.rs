//! Places where clients reach a served device.

use std::fmt;

use seeklab_emulator::frontend::Endpoint;
use seeklab_emulator::frontend::nbd::{self, Uri};

/// Places where clients reach a served device, from the nearest to the kernel to the farthest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints(pub(super) Vec<Endpoint>);

impl Endpoints {
    /// Returns the endpoints in order.
    pub fn iter(&self) -> impl Iterator<Item = &Endpoint> {
        self.0.iter()
    }

    /// Returns the URI of the NBD export, if there is one.
    pub fn nbd(&self) -> Option<Uri> {
        let endpoint = self.iter().find(|endpoint| endpoint.protocol == nbd::PROTOCOL.name)?;
        Some(endpoint.address.parse().expect("the address of an NBD endpoint is a URI"))
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let addresses: Vec<&str> = self.iter().map(|endpoint| endpoint.address.as_str()).collect();
        f.write_str(&addresses.join(", "))
    }
}
