//! Limits of what a kernel can record. Rows beyond them are damaged.

/// Bytes of a transfer of a system call at most, by `MAX_RW_COUNT` of the kernel.
pub(super) const TRANSFER_MAX: u64 = 1 << 31;

/// Blocks of a request at most: the kernel counts its bytes in 32 bits.
pub(super) const REQUEST_BLOCKS_MAX: u64 = 1 << 20;

/// A number of blocks of a file, which ext4 counts in 32 bits. The error says what is wrong with it.
pub(super) fn number_of(blocks: u64) -> Result<u32, String> {
    u32::try_from(blocks).map_err(|_| "a file is larger than 16 TiB".to_owned())
}
