//! `station`: a device cloned from its trace as a service station.

use std::sync::Arc;

use seeklab_core::{Capabilities, Device, Seed};

use crate::error::DescriptionError;
use crate::fitted::FittedModel;
use crate::kind::{Children, DeviceKind};
use crate::station::{Parts, Station, StationParameters, fitted_model};

/// The kind `station`.
#[derive(Debug)]
pub(super) struct Definition;

impl DeviceKind for Definition {
    type Parameters = StationParameters;
    type Blueprint = Arc<Parts>;

    const NAME: &'static str = "station";
    const DESCRIPTION: &'static str =
        "a device cloned from its trace: servers, waiting, and service times drawn from a tree";
    const CHILDREN: Children = Children::None;

    fn blueprint(parameters: &StationParameters) -> Result<Arc<Parts>, DescriptionError> {
        Ok(Arc::new(parameters.read()?))
    }

    fn build(
        blueprint: &Arc<Parts>,
        _children: Vec<Box<dyn Device>>,
        seed: Seed,
        name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError> {
        Ok(Box::new(Station::of(Arc::clone(blueprint), seed, name)))
    }

    fn capabilities(blueprint: &Arc<Parts>, _children: Vec<Capabilities>) -> Capabilities {
        blueprint.capabilities.clone()
    }

    fn fitted_model(
        parameters: &StationParameters,
        _children: Vec<Option<FittedModel>>,
    ) -> Result<Option<FittedModel>, DescriptionError> {
        fitted_model(parameters).map(Some)
    }
}
