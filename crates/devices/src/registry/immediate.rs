//! `immediate`: answers at once.

use seeklab_core::Seed;

use crate::error::DescriptionError;
use crate::simple::{Server, ServerKind, ServerParameters};

/// The kind `immediate`.
#[derive(Debug)]
pub(super) struct Definition;

impl ServerKind for Definition {
    const NAME: &'static str = "immediate";
    const DESCRIPTION: &'static str = "answers at once";

    fn server(parameters: &ServerParameters, _seed: Seed, _name: &str) -> Result<Server, DescriptionError> {
        Server::constant(parameters)
    }
}
