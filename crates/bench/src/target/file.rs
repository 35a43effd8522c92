//! Block devices and files, opened for measurement.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, pread};
use seeklab_core::ByteSize;
use seeklab_emulator::frontend::fuse::IN_MEMORY_PREFIX;
use seeklab_workloads::AddressSpace;

use super::{TargetError, TargetOptions};
use crate::identity::DeviceIdentity;
use crate::signature::signature_of;

/// An open block device or file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// The descriptor.
    pub(crate) file: File,
    /// Its addresses.
    pub(crate) space: AddressSpace,
}

impl OpenFile {
    /// Opens `path` as the options say: for reading, and for writing if the workload writes.
    ///
    /// # Errors
    /// An error of the operating system, a file that is empty, or what is neither a file nor a block device.
    pub(crate) fn open(path: &str, options: &TargetOptions) -> Result<Self, TargetError> {
        let metadata = std::fs::metadata(path).map_err(|error| TargetError::io(path, "open", error))?;
        let is_block_device = metadata.file_type().is_block_device();
        if metadata.file_type().is_socket() {
            return Err(TargetError::unusable(
                path,
                "is a socket, neither a file nor a block device",
                format!(
                    "an NBD server at it is nbd+unix:///EXPORT?socket={path}, a vhost-user server vhost-user:{path}"
                ),
            ));
        }
        if !is_block_device && !metadata.is_file() {
            return Err(TargetError::unusable(
                path,
                "is neither a file nor a block device",
                "name a block device, a file, an NBD URI, iscsi://HOST/IQN/LUN, vhost-user:PATH, model:DEVICE or null",
            ));
        }
        let access = if options.writes { OFlags::RDWR } else { OFlags::RDONLY };
        let direct = if options.direct { OFlags::DIRECT } else { OFlags::empty() };
        let descriptor: OwnedFd = match open(path, access | direct | OFlags::CLOEXEC, Mode::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::INVAL) if options.direct => {
                let problem = "its file system has no direct access (O_DIRECT)";
                return Err(TargetError::unusable(
                    path,
                    problem,
                    "add --buffered to measure it with the page cache",
                ));
            }
            Err(error @ (Errno::ACCESS | Errno::PERM)) => {
                let problem = format!(
                    "cannot be opened for {}: {error}",
                    if options.writes { "writing" } else { "reading" }
                );
                return Err(TargetError::unusable(path, problem, "run as a user who may, such as root"));
            }
            Err(error) => return Err(TargetError::io(path, "open", error)),
        };
        let mut file = File::from(descriptor);
        let size_bytes =
            file.seek(SeekFrom::End(0)).map_err(|error| TargetError::io(path, "examine", error))?;
        let block_bytes = if is_block_device {
            logical_block_bytes(metadata.rdev()).unwrap_or(512)
        } else if options.direct {
            direct_block_bytes(&file)
        } else {
            512
        };
        let capacity_blocks = size_bytes / block_bytes;
        if capacity_blocks == 0 && size_bytes > 0 {
            let problem = format!("has {size_bytes} B, less than a block of {block_bytes} B");
            return Err(TargetError::unusable(
                path,
                problem,
                "name a larger file, or make one with --create SIZE",
            ));
        }
        if capacity_blocks == 0 {
            let hint = if is_block_device {
                "attach something to it"
            } else {
                "add --create SIZE to make a file for this run"
            };
            return Err(TargetError::unusable(path, "is empty", hint));
        }
        let space = AddressSpace { capacity_blocks, block_size: ByteSize::from_bytes(block_bytes) };
        Ok(Self { file, space })
    }
}

/// The identity of a file or block device; `None` if it is not there yet.
pub(super) fn identify(path: &str, _: &dyn Fn() -> bool) -> Result<Option<DeviceIdentity>, TargetError> {
    Ok(DeviceIdentity::of(Path::new(path)).ok())
}

/// Returns true of a block device of `seeklab serve` or `seeklab run` whose bytes are in memory, without recognised contents.
pub(super) fn is_expendable(path: &str, _: &dyn Fn() -> bool) -> Result<bool, TargetError> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(false) };
    let is_block_device = metadata.file_type().is_block_device();
    let Some(folder) = sysfs_folder(metadata.rdev()).filter(|_| is_block_device) else { return Ok(false) };
    // The file below a loop device has this name only where no path leads.
    let below = std::fs::read_to_string(folder.join("loop/backing_file")).unwrap_or_default();
    let is_in_memory = below.strip_prefix('/').is_some_and(|name| name.starts_with(IN_MEMORY_PREFIX))
        && !Path::new(below.trim_end()).exists();
    Ok(is_in_memory && signature_of(Path::new(path)).is_ok_and(|signature| signature.is_none()))
}

/// Folder of a block device in sysfs; that of the whole device for a partition.
pub(crate) fn sysfs_folder(device: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let folder = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let is_partition = folder.join("partition").exists();
    if is_partition { folder.parent().map(Path::to_owned) } else { Some(folder) }
}

/// Size of the blocks in which a block device takes requests.
fn logical_block_bytes(device: u64) -> Option<u64> {
    let text = std::fs::read_to_string(sysfs_folder(device)?.join("queue/logical_block_size")).ok()?;
    text.trim().parse().ok().filter(|bytes: &u64| bytes.is_power_of_two() && *bytes >= 512)
}

/// Size of the blocks in which a file with direct access takes requests: that of the device below it.
fn direct_block_bytes(file: &File) -> u64 {
    let mut memory = vec![0; 2 * super::buffers::ALIGNMENT_BYTES];
    let at = memory.as_ptr().align_offset(super::buffers::ALIGNMENT_BYTES);
    let refuses_sectors = pread(file, &mut memory[at..at + 512], 512) == Err(Errno::INVAL);
    if refuses_sectors { 4096 } else { 512 }
}
