//! `constant`: one server with a constant service time.

use seeklab_core::Seed;

use crate::error::DescriptionError;
use crate::simple::{Server, ServerKind, ServerParameters};

/// The kind `constant`.
#[derive(Debug)]
pub(super) struct Definition;

impl ServerKind for Definition {
    const NAME: &'static str = "constant";
    const DESCRIPTION: &'static str = "one server with a constant service time";

    fn server(parameters: &ServerParameters, _seed: Seed, _name: &str) -> Result<Server, DescriptionError> {
        Server::constant(parameters)
    }
}
