//! `fault`: faults of the device that it owns.

use seeklab_core::{ByteSize, Capabilities, Device, Positioning, Seed};
use toml::Table;

use crate::error::DescriptionError;
use crate::fault::{self, FaultParameters};
use crate::kind::{Children, DeviceKind};
use crate::layer::Fault;
use crate::service_law::{Demand, WriteBuffer};

/// The kind `fault`.
#[derive(Debug)]
pub(super) struct Definition;

impl DeviceKind for Definition {
    type Parameters = FaultParameters;
    type Blueprint = FaultParameters;

    const NAME: &'static str = "fault";
    const DESCRIPTION: &'static str = "a layer: the device that it owns is late, fails, or goes";
    const CHILDREN: Children = Children::One;

    fn expanded(table: &Table) -> Result<Option<Table>, DescriptionError> {
        fault::expanded(table)
    }

    fn blueprint(parameters: &FaultParameters) -> Result<FaultParameters, DescriptionError> {
        parameters.checked()?;
        Ok(parameters.clone())
    }

    fn build(
        faults: &FaultParameters,
        children: Vec<Box<dyn Device>>,
        seed: Seed,
        name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError> {
        let device = children.into_iter().next().expect("the kind has one child");
        let turn = device.positioning().and_then(Positioning::turn);
        let rules = faults.rules(device.capabilities(), turn, seed, name)?;
        Ok(Box::new(Fault::new(device, rules)))
    }

    fn check_served(faults: &FaultParameters, size: ByteSize) -> Result<(), DescriptionError> {
        faults.check_served(size)
    }

    fn capabilities(_faults: &FaultParameters, children: Vec<Capabilities>) -> Capabilities {
        children.into_iter().next().expect("the kind has one child")
    }

    /// Faults change what the buffer takes and how long it takes.
    fn write_buffer(
        _faults: &FaultParameters,
        _demand: &Demand,
        _children: Vec<Option<WriteBuffer>>,
    ) -> Option<WriteBuffer> {
        None
    }
}
