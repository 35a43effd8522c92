//! `constant`: one server that always takes as long.

use seeklab_core::{Capabilities, Device, Seed};

use crate::error::DescriptionError;
use crate::kind::{Children, DeviceKind};
use crate::simple::{Server, ServerParameters};

/// The kind `constant`.
#[derive(Debug)]
pub(super) struct Definition;

impl DeviceKind for Definition {
    type Parameters = ServerParameters;
    type Blueprint = ServerParameters;

    const NAME: &'static str = "constant";
    const DESCRIPTION: &'static str = "one server that always takes as long";
    const CHILDREN: Children = Children::None;

    fn blueprint(parameters: &ServerParameters) -> Result<ServerParameters, DescriptionError> {
        parameters.check()?;
        Ok(parameters.clone())
    }

    fn build(
        blueprint: &ServerParameters,
        _children: Vec<Box<dyn Device>>,
        _seed: Seed,
        _name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError> {
        Ok(Box::new(Server::constant(blueprint)?))
    }

    fn capabilities(blueprint: &ServerParameters, _children: Vec<Capabilities>) -> Capabilities {
        blueprint.capabilities()
    }
}
