//! `exponential`: one server with an exponential service time.

use seeklab_core::Seed;

use crate::error::DescriptionError;
use crate::service_law::ServiceTimes;
use crate::simple::{Server, ServerKind, ServerParameters};

/// The kind `exponential`.
#[derive(Debug)]
pub(super) struct Definition;

impl ServerKind for Definition {
    const NAME: &'static str = "exponential";
    const DESCRIPTION: &'static str = "one server with an exponential service time";

    fn server(parameters: &ServerParameters, seed: Seed, name: &str) -> Result<Server, DescriptionError> {
        Server::exponential(parameters, seed, name)
    }

    fn service_times(parameters: &ServerParameters) -> ServiceTimes {
        ServiceTimes::Exponential { mean_s: parameters.service_time.as_s() }
    }
}
