//! `access`: one server with an access time and a time of each block.

use seeklab_core::{Capabilities, Device, Seed};

use crate::error::DescriptionError;
use crate::kind::{Children, DeviceKind};
use crate::simple::{AccessParameters, Server};

/// The kind `access`.
#[derive(Debug)]
pub(super) struct Definition;

impl DeviceKind for Definition {
    type Parameters = AccessParameters;
    type Blueprint = AccessParameters;

    const NAME: &'static str = "access";
    const DESCRIPTION: &'static str = "one server with an access time and a time of each block; a request that begins where the last ended pays no access";
    const CHILDREN: Children = Children::None;

    fn blueprint(parameters: &AccessParameters) -> Result<AccessParameters, DescriptionError> {
        parameters.check()?;
        Ok(parameters.clone())
    }

    fn build(
        blueprint: &AccessParameters,
        _children: Vec<Box<dyn Device>>,
        _seed: Seed,
        _name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError> {
        Ok(Box::new(Server::access(blueprint)?))
    }

    fn capabilities(blueprint: &AccessParameters, _children: Vec<Capabilities>) -> Capabilities {
        blueprint.capabilities()
    }
}
