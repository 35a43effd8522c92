//! `exponential`: one server with an exponential service time.

use seeklab_core::{Capabilities, Device, Seed};

use crate::error::DescriptionError;
use crate::kind::{Children, DeviceKind};
use crate::simple::{Server, ServerParameters};

/// The kind `exponential`.
#[derive(Debug)]
pub(super) struct Definition;

impl DeviceKind for Definition {
    type Parameters = ServerParameters;
    type Blueprint = ServerParameters;

    const NAME: &'static str = "exponential";
    const DESCRIPTION: &'static str = "one server with an exponential service time";
    const CHILDREN: Children = Children::None;

    fn blueprint(parameters: &ServerParameters) -> Result<ServerParameters, DescriptionError> {
        parameters.check()?;
        Ok(parameters.clone())
    }

    fn build(
        blueprint: &ServerParameters,
        _children: Vec<Box<dyn Device>>,
        seed: Seed,
        name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError> {
        Ok(Box::new(Server::exponential(blueprint, seed, name)?))
    }

    fn capabilities(blueprint: &ServerParameters, _children: Vec<Capabilities>) -> Capabilities {
        blueprint.capabilities()
    }
}
