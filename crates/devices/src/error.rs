//! Checks of parameters.

use std::fmt;

use seeklab_core::ByteSize;
pub(crate) use seeklab_core::DescriptionError;

/// `Ok` if `condition` holds, else the error.
pub(crate) fn check(
    condition: bool,
    parameter: impl Into<String>,
    problem: impl Into<String>,
    allowed: impl fmt::Display,
) -> Result<(), DescriptionError> {
    if condition { Ok(()) } else { Err(DescriptionError::refused(parameter, problem, allowed)) }
}

/// Checks that a device has blocks, that their size is positive, and that the device ends below 8
/// EiB.
pub(crate) fn check_size(capacity_blocks: u64, block_size: ByteSize) -> Result<(), DescriptionError> {
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
