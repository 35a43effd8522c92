//! `bank`: several devices of a trace, each with its own description.

use schemars::JsonSchema;
use seeklab_core::{Capabilities, Device, Seed};
use serde::{Deserialize, Serialize};

use crate::error::DescriptionError;
use crate::kind::{Children, DeviceKind};
use crate::layer::{Bank, common};

/// The kind `bank`.
#[derive(Debug)]
pub(super) struct Definition;

/// Parameters of a bank.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// Number of each device in the trace, in order of the devices [default: 0, 1, 2 …].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    numbers: Vec<u16>,
}

impl DeviceKind for Definition {
    type Parameters = Parameters;
    type Blueprint = Parameters;

    const NAME: &'static str = "bank";
    const DESCRIPTION: &'static str =
        "several devices beside each other; a request goes to the device whose number it carries";
    const CHILDREN: Children = Children::Several;

    fn blueprint(parameters: &Parameters) -> Result<Parameters, DescriptionError> {
        let mut sorted = parameters.numbers.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(DescriptionError::invalid("numbers", format!("{} stands twice", pair[0]))
                .hint("allowed: a different number for each device"));
        }
        Ok(parameters.clone())
    }

    fn build(
        parameters: &Parameters,
        children: Vec<Box<dyn Device>>,
        _seed: Seed,
        _name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError> {
        let numbers = numbers(parameters, children.len())?;
        let block_sizes: Vec<_> = children.iter().map(|child| child.capabilities().block_size).collect();
        if let Some(index) = block_sizes.iter().position(|size| *size != block_sizes[0]) {
            let (first, other) = (block_sizes[0], block_sizes[index]);
            return Err(DescriptionError::invalid(
                format!("devices[{index}].block_size"),
                format!("`{other}` differs from `{first}` of the first device"),
            )
            .hint("allowed: one block size for all devices of a bank"));
        }
        Ok(Box::new(Bank::numbered(numbers.into_iter().zip(children).collect())))
    }

    /// The capabilities that all devices have.
    fn capabilities(_parameters: &Parameters, children: Vec<Capabilities>) -> Capabilities {
        common(children)
    }

    fn device_numbers(
        parameters: &Parameters,
        children: usize,
    ) -> Result<Option<Vec<u16>>, DescriptionError> {
        numbers(parameters, children).map(Some)
    }
}

/// The number of each child.
fn numbers(parameters: &Parameters, children: usize) -> Result<Vec<u16>, DescriptionError> {
    match parameters.numbers.len() {
        0 if children <= usize::from(u16::MAX) => Ok((0..children as u16).collect()),
        count if count == children => Ok(parameters.numbers.clone()),
        count => {
            Err(DescriptionError::invalid("numbers", format!("has {count} numbers for {children} devices"))
                .hint("allowed: one number for each device, or none"))
        }
    }
}
