//! `disk`: a rotating disk.

use seeklab_core::{Capabilities, Device, Seed};

use crate::disk::{DiskBlueprint, DiskParameters};
use crate::error::DescriptionError;
use crate::kind::{ChildLaw, Children, DeviceKind, Tracks};
use crate::power_loss::PowerLossParameters;
use crate::service_law::{Demand, ServiceLaw, WriteBuffer};

/// The kind `disk`.
#[derive(Debug)]
pub(super) struct Definition;

impl DeviceKind for Definition {
    type Parameters = DiskParameters;
    type Blueprint = DiskBlueprint;

    const NAME: &'static str = "disk";
    const DESCRIPTION: &'static str = "a rotating disk: zones, skews, seeks, rotation, electronics, buffer";
    const CHILDREN: Children = Children::None;

    fn blueprint(parameters: &DiskParameters) -> Result<DiskBlueprint, DescriptionError> {
        DiskBlueprint::new(parameters)
    }

    fn build(
        blueprint: &DiskBlueprint,
        _children: Vec<Box<dyn Device>>,
        seed: Seed,
        name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError> {
        Ok(Box::new(blueprint.build(seed, name)))
    }

    fn capabilities(blueprint: &DiskBlueprint, _children: Vec<Capabilities>) -> Capabilities {
        blueprint.capabilities().clone()
    }

    fn bare(parameters: &DiskParameters, _children: &[Capabilities]) -> Option<DiskParameters> {
        Some(parameters.clone().bare())
    }

    fn tracks(blueprint: &DiskBlueprint, _children: Vec<Option<Tracks>>) -> Option<Tracks> {
        Some(blueprint.tracks())
    }

    fn power_loss(
        parameters: &DiskParameters,
        _children: Vec<Option<PowerLossParameters>>,
    ) -> Option<PowerLossParameters> {
        Some(parameters.power_loss)
    }

    fn service_law(blueprint: &DiskBlueprint, demand: &Demand, _child: ChildLaw) -> Option<ServiceLaw> {
        blueprint.service_law(demand)
    }

    fn write_buffer(
        blueprint: &DiskBlueprint,
        demand: &Demand,
        _children: Vec<Option<WriteBuffer>>,
    ) -> Option<WriteBuffer> {
        blueprint.write_buffer(demand)
    }
}
