//! Place of tracefs, the kernel's file system of tracepoints and trace buffers.
//!
//! Where nobody has mounted it, as in containers and small virtual machines, a process with the right to mount holds a
//! mount of its own, in no folder. The kernel removes it with the process.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::error::CaptureError;
use super::layout::Layout;
use crate::event::block_event::Kind;

/// Mount points of tracefs according to the kernel's documentation: on its own, or within debugfs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The mount of this process, made when it is first needed.
static OWN: OnceLock<io::Result<OwnedFd>> = OnceLock::new();

/// Returns the path of tracefs.
pub(super) fn tracefs() -> Result<PathBuf, CaptureError> {
    if let Some(path) = PLACES.map(Path::new).into_iter().find(|path| path.join("events").is_dir()) {
        return Ok(path.to_owned());
    }
    if let Ok(own) = OWN.get_or_init(mount) {
        return Ok(Path::new("/proc/self/fd").join(own.as_raw_fd().to_string()));
    }
    match fs::read_dir(PLACES[0]) {
        Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            Err(CaptureError::Tracefs { path: PLACES[0].into(), source })
        }
        _ => Err(CaptureError::NoTracefs { searched: PLACES.map(str::to_owned).to_vec() }),
    }
}

/// Mounts tracefs in no folder.
fn mount() -> io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Reads the layout of a tracepoint's records from the running kernel.
pub(super) fn layout(kind: Kind) -> Result<Layout, CaptureError> {
    let path = tracefs()?.join("events/block").join(kind.tracepoint()).join("format");
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(CaptureError::NoTracepoint { path }),
        Err(source) => Err(CaptureError::Tracefs { path, source }),
        Ok(text) => Layout::parse(kind, &text).map_err(|problem| CaptureError::Description { path, problem }),
    }
}
