//! Mounting: nowhere or at a directory, with the privilege to mount or through `fusermount3`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, move_mount,
};
use rustix::process::{getegid, geteuid};

use super::connection::{Owner, TRANSFER_BYTES_MAX};
use super::fusermount;
use super::guard::{Guard, Unmounter};

/// Place where the file appears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: it is reached through [`Server::detached_file`](super::Server::detached_file) only.
    Detached,
    /// In this directory.
    At(PathBuf),
}

/// A mount, undone when dropped.
///
/// The descriptor of `/dev/fuse` is closed first: requests still under way fail then, and unmounting waits for
/// nobody.
#[derive(Debug)]
pub(super) struct Mount {
    /// Taken when it is undone.
    device: Option<OwnedFd>,
    held: Held,
}

#[derive(Debug)]
enum Held {
    Detached(Arc<OwnedFd>),
    /// Unmounts when it is dropped.
    At {
        _guard: Guard,
    },
}

impl Mount {
    pub(super) fn new(place: &Place, read_only: bool) -> io::Result<Self> {
        let (device, held) = match place {
            Place::Detached => {
                let (device, mount) = mount_nowhere(read_only).map_err(explain_privilege)?;
                (device, Held::Detached(Arc::new(mount)))
            }
            Place::At(path) => mount_at(path, read_only)?,
        };
        Ok(Self { device: Some(device), held })
    }

    pub(super) fn device(&self) -> &OwnedFd {
        self.device.as_ref().expect("it is taken only when the mount is undone")
    }

    pub(super) fn device_mut(&mut self) -> &mut OwnedFd {
        self.device.as_mut().expect("it is taken only when the mount is undone")
    }

    /// The root directory of a mount without a place.
    pub(super) fn directory(&self) -> Option<Arc<OwnedFd>> {
        match &self.held {
            Held::Detached(mount) => Some(Arc::clone(mount)),
            Held::At { .. } => None,
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // First of all; what is held is let go of next.
        drop(self.device.take());
    }
}

pub(super) fn owner() -> Owner {
    Owner { uid: geteuid().as_raw(), gid: getegid().as_raw() }
}

/// Returns the reason why nothing can be mounted at `place` here, and a remedy; `None` if mounting seems
/// possible. Nothing is mounted for this check.
pub fn unavailability(place: &Place) -> Option<String> {
    let fuse = open_fuse().err().map(|error| error.to_string());
    fuse.or_else(|| match place {
        Place::Detached => fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)
            .err()
            .map(|error| explain_privilege(error.into()).to_string()),
        Place::At(path) => check_mount_point(path).err().map(|error| error.to_string()),
    })
}

fn open_fuse() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    open("/dev/fuse", flags, Mode::empty()).map_err(|errno| {
        let remedy = match errno {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => {
                "load the module (`modprobe fuse`), or give the container the device (`--device /dev/fuse`)"
            }
            _ => "allow this user to read and write it",
        };
        io::Error::new(io::Error::from(errno).kind(), format!("/dev/fuse: {errno}; {remedy}"))
    })
}

fn explain_privilege(error: io::Error) -> io::Error {
    let remedy = match Errno::from_io_error(&error) {
        Some(Errno::PERM) => "mounting needs root (CAP_SYS_ADMIN); in a container, `--cap-add SYS_ADMIN`",
        Some(Errno::NODEV) => "this kernel has no FUSE; `modprobe fuse`",
        Some(Errno::NOSYS) => "this kernel has no fsopen(2), which came with Linux 5.2",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("FUSE cannot be mounted: {error}; {remedy}"))
}

/// A mount and the descriptor of `/dev/fuse` that serves it.
fn mount_nowhere(read_only: bool) -> io::Result<(OwnedFd, OwnedFd)> {
    use std::os::fd::AsRawFd;
    let device = open_fuse()?;
    let Owner { uid, gid } = owner();
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let context = context.as_fd();
    for (key, value) in [
        ("source", "seeklab".to_owned()),
        ("subtype", "seeklab".to_owned()),
        ("fd", device.as_raw_fd().to_string()),
        ("rootmode", "40000".to_owned()),
        ("user_id", uid.to_string()),
        ("group_id", gid.to_string()),
        ("max_read", TRANSFER_BYTES_MAX.to_string()),
    ] {
        fsconfig_set_string(context, key, value.as_str())?;
    }
    // Others may come in; whether they may open the file is for its permissions to say.
    for flag in ["allow_other", "default_permissions"] {
        fsconfig_set_flag(context, flag)?;
    }
    fsconfig_create(context)?;
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOATIME;
    attributes.set(MountAttrFlags::MOUNT_ATTR_RDONLY, read_only);
    let mount = fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    Ok((device, mount))
}

fn mount_at(path: &Path, read_only: bool) -> io::Result<(OwnedFd, Held)> {
    let path = check_mount_point(path)?;
    let (device, unmounter) = match mount_nowhere(read_only) {
        Ok((device, mount)) => {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(&mount, "", rustix::fs::CWD, path.as_path(), flags)?;
            (device, Unmounter::Umount)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            (fusermount::mount(&path, read_only)?, Unmounter::Fusermount)
        }
        Err(error) => return Err(explain_privilege(error)),
    };
    Ok((device, Held::At { _guard: Guard::new(unmounter, &path)? }))
}

/// The place without symbolic links, if it is an empty directory.
fn check_mount_point(path: &Path) -> io::Result<PathBuf> {
    let say = |error: io::Error| {
        let shown = path.display();
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => "; create the directory first",
            io::ErrorKind::NotConnected => {
                "; a dead mount is there: remove it with `umount` or `fusermount3 -u` first"
            }
            _ => "",
        };
        io::Error::new(error.kind(), format!("{shown}: {error}{remedy}"))
    };
    let full = path.canonicalize().map_err(say)?;
    File::open(&full).map_err(say)?;
    match full.read_dir().map_err(say)?.next() {
        None => Ok(full),
        Some(_) => {
            let what = format!("{}: is not empty; the file would hide what is there", path.display());
            Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, what))
        }
    }
}
