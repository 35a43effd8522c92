//! Space that is free on a file system.

use std::path::Path;

use rustix::fs::statvfs;
use seeklab_core::ByteSize;

/// Returns the bytes that this user may still write on the file system of `path`. `None` of file systems that do not count
/// them, as some over a network do not.
pub(super) fn free_space(path: &Path) -> Option<ByteSize> {
    let disk = statvfs(path).ok().filter(|disk| disk.f_blocks > 0)?;
    Some(ByteSize::from_bytes(disk.f_bavail.saturating_mul(disk.f_frsize)))
}
