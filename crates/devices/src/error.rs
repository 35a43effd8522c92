//! Errors in the description of a device.

use std::fmt;

use seeklab_core::ByteSize;

/// A parameter, or a combination of parameters, that no device can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterError {
    /// Path of the parameter, such as `geometry.zones[2].spares`.
    pub parameter: String,
    /// The value found, and the problem with it.
    pub problem: String,
    /// The allowed values.
    pub allowed: String,
}

impl ParameterError {
    /// An error about `parameter`.
    pub fn new(parameter: impl Into<String>, problem: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { parameter: parameter.into(), problem: problem.into(), allowed: allowed.into() }
    }

    /// The same error, its parameter's path beginning with `prefix`.
    pub fn within(self, prefix: &str) -> Self {
        Self { parameter: format!("{prefix}.{}", self.parameter), ..self }
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {} (allowed: {})", self.parameter, self.problem, self.allowed)
    }
}

impl std::error::Error for ParameterError {}

/// `Ok` if `condition` holds, else the error.
pub(crate) fn check(
    condition: bool,
    parameter: impl Into<String>,
    problem: impl Into<String>,
    allowed: impl Into<String>,
) -> Result<(), ParameterError> {
    if condition { Ok(()) } else { Err(ParameterError::new(parameter, problem, allowed)) }
}

/// Checks that a device has blocks, that their size is positive, and that the device ends below 8
/// EiB.
pub(crate) fn check_size(capacity_blocks: u64, block_size: ByteSize) -> Result<(), ParameterError> {
    check(capacity_blocks > 0, "capacity_blocks", "0", "at least 1 block")?;
    let block_bytes = block_size.as_bytes();
    check(block_bytes > 0, "block_size", "0B", "at least 1B")?;
    let blocks_max = (1 << 63) / block_bytes;
    check(
        capacity_blocks <= blocks_max,
        "capacity_blocks",
        capacity_blocks.to_string(),
        format!("1 to {blocks_max} blocks of {block_size}, which is 8EiB"),
    )
}
