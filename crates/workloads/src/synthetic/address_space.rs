//! Properties of the addressed device that a workload needs.

use seeklab_core::{ByteSize, Capabilities, DescriptionError, Mistake};

/// The address space that a workload fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressSpace {
    /// Blocks that can be addressed.
    pub capacity_blocks: u64,
    /// Bytes in a block.
    pub block_size: ByteSize,
}

impl From<&Capabilities> for AddressSpace {
    fn from(capabilities: &Capabilities) -> Self {
        Self { capacity_blocks: capabilities.capacity_blocks, block_size: capabilities.block_size }
    }
}

impl AddressSpace {
    /// `size` in blocks, which it must be a positive multiple of.
    pub(crate) fn blocks(self, size: ByteSize, at: &str) -> Result<u64, DescriptionError> {
        let (bytes, block) = (size.as_bytes(), self.block_size.as_bytes());
        if bytes == 0 || !bytes.is_multiple_of(block) {
            return Err(DescriptionError::new(
                Mistake::DoesNotFit,
                at,
                format!("{size} is not a positive multiple of the block size, {}", self.block_size),
            ));
        }
        Ok(bytes / block)
    }
}
