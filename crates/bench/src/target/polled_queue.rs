//! The queue of a device in which the kernel looks for completions.
//!
//! # References
//! Linux, `Documentation/ABI/stable/sysfs-block`: `queue/io_poll`.

use std::fs::{File, read_to_string};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use super::TargetError;
use super::file::sysfs_folder;

/// Refuses a file or block device whose completions cannot be polled.
///
/// # Errors
/// The reason: the page cache, no device below, or a queue without polling.
pub(super) fn check(path: &str, file: &File, is_direct: bool) -> Result<(), TargetError> {
    if !is_direct {
        let problem = "completions through the page cache cannot be polled";
        return Err(TargetError::unusable(path, problem, "leave out --buffered, or --poll completion"));
    }
    let metadata = file.metadata().map_err(|error| TargetError::io(path, "examine", error))?;
    let device = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    let Some(folder) = sysfs_folder(device) else {
        let problem = "its file system lies on no block device, so its completions cannot be polled";
        return Err(TargetError::unusable(path, problem, "leave out --poll completion"));
    };
    let polls = read_to_string(folder.join("queue/io_poll")).is_ok_and(|text| text.trim() == "1");
    if !polls {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let problem = format!("the device `{name}` has no queue that can be polled (queue/io_poll is not 1)");
        let hint =
            "leave out --poll completion, or give the driver such queues, for NVMe with nvme.poll_queues=N";
        return Err(TargetError::unusable(path, problem, hint));
    }
    Ok(())
}
