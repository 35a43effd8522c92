//! `pair`: two or more devices beside each other, for tests of descriptions with several children.

use schemars::JsonSchema;
use seeklab_core::{Capabilities, Device, Seed};
use serde::{Deserialize, Serialize};

use crate::error::DescriptionError;
use crate::kind::{Children, DeviceKind};
use crate::layer::Bank;

#[derive(Debug)]
pub(super) struct Definition;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {}

impl DeviceKind for Definition {
    type Parameters = Parameters;
    type Blueprint = Parameters;

    const NAME: &'static str = "pair";
    const DESCRIPTION: &'static str = "devices beside each other";
    const CHILDREN: Children = Children::Several;

    fn blueprint(parameters: &Parameters) -> Result<Parameters, DescriptionError> {
        Ok(parameters.clone())
    }

    fn build(
        _blueprint: &Parameters,
        children: Vec<Box<dyn Device>>,
        _seed: Seed,
        _name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError> {
        Ok(Box::new(Bank::new(children)))
    }

    fn capabilities(_blueprint: &Parameters, children: Vec<Capabilities>) -> Capabilities {
        children.into_iter().next().expect("the kind has several children")
    }
}
