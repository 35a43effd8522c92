//! The kinds that are one [`Server`]. They differ in name and service time.

use std::fmt;

use seeklab_core::{Capabilities, Device, Seed};

use super::{Server, ServerParameters};
use crate::error::DescriptionError;
use crate::kind::{ChildLaw, Children, DeviceKind};
use crate::service_law::{Demand, LawOrigin, ServiceLaw, ServiceTimes};

/// A kind of device that is one server.
pub(crate) trait ServerKind: fmt::Debug + Send + Sync + 'static {
    /// The name in `kind = "…"`.
    const NAME: &'static str;
    /// Its description in one line.
    const DESCRIPTION: &'static str;

    /// Returns the server; `name` begins the names of its random streams.
    ///
    /// # Errors
    /// Parameters that no device can have.
    fn server(parameters: &ServerParameters, seed: Seed, name: &str) -> Result<Server, DescriptionError>;

    /// Returns the distribution of its service times.
    fn service_times(parameters: &ServerParameters) -> ServiceTimes {
        ServiceTimes::constant(parameters.service_time.as_s())
    }
}

impl<K: ServerKind> DeviceKind for K {
    type Parameters = ServerParameters;
    type Blueprint = ServerParameters;

    const NAME: &'static str = <K as ServerKind>::NAME;
    const DESCRIPTION: &'static str = <K as ServerKind>::DESCRIPTION;
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
        Ok(Box::new(K::server(blueprint, seed, name)?))
    }

    fn capabilities(blueprint: &ServerParameters, _children: Vec<Capabilities>) -> Capabilities {
        blueprint.capabilities()
    }

    /// The server knows neither operations nor addresses, and serves in order of arrival, so every demand without an
    /// order from above has the same law.
    fn service_law(blueprint: &ServerParameters, demand: &Demand, _child: ChildLaw) -> Option<ServiceLaw> {
        demand.order.is_none().then(|| ServiceLaw::of_server(LawOrigin::Exact, K::service_times(blueprint)))
    }
}
