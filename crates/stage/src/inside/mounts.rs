//! The private mount namespace: a fresh /proc, a tmpfs over an empty directory, the device in it.
//!
//! # References
//! `fsopen(2)`, whose descriptor gives the reason for a refused mount as text; `mount_namespaces(7)`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, AtFlags, CWD, FileType, Gid, Mode, Uid, chownat, fadvise, fsync, mknodat, syncfs};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount,
    mount_change, move_mount, unmount,
};
use seeklab_core::Duration;

use crate::account::Account;
use crate::error::Trouble;
use crate::file_system::FileSystem;
use crate::mount_options::MountOption;
use crate::os::monotonic_ns;
use crate::place;
use crate::wire::Setting;

/// Time that a file system may stay busy after its last process ended. The kernel closes files in the
/// background.
const BUSY_WAIT: Duration = Duration::from_s(5);

/// End of a mount.
pub(super) struct Flushed {
    /// Error of the data, if any were lost.
    pub(super) error: Option<String>,
    /// Time at which the file system was synced.
    pub(super) synced_ns: u64,
}

/// Mounts of the stage.
pub(super) struct Mounts {
    /// As commands are to open it.
    device: PathBuf,
    target: Option<PathBuf>,
    is_mounted: bool,
}

impl Mounts {
    /// Leaves the caller's mount namespace and makes the place.
    pub(super) fn new(setting: &Setting) -> Result<Self, Trouble> {
        unshare(CloneFlags::CLONE_NEWNS).map_err(|error| Trouble::io("leave the mount namespace", error))?;
        // Shared memory of killed databases would stay in the host's. A kernel may be without.
        let _ = unshare(CloneFlags::CLONE_NEWIPC);
        // Slaves: a mount here is invisible outside, and an unmount outside takes effect here.
        let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        mount_change("/", slave).map_err(|error| Trouble::io("make mounts private", error))?;
        let_go_of_emulators();
        let nothing = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", "/proc", "proc", nothing, None)
            .map_err(|error| Trouble::io("mount a /proc of the new pid namespace", error))?;
        let place = &setting.place;
        // No limit on devices here: a private node of the device may be made.
        mount("seeklab", place, "tmpfs", MountFlags::NOSUID | MountFlags::NOEXEC, c"size=64k,mode=0755")
            .map_err(|error| Trouble::io(format!("mount a tmpfs on {}", place.display()), error))?;
        let mut mounts = Self { device: setting.device.clone(), target: None, is_mounted: false };
        if setting.file_system == FileSystem::None {
            if let Some(account) = &setting.account {
                mounts.device = private_node(&setting.device, place, account)?;
            }
        } else {
            let target = place.join(place::NAME);
            fs::create_dir(&target)
                .and_then(|()| fs::set_permissions(&target, fs::Permissions::from_mode(0o755)))
                .map_err(|error| Trouble::io(format!("make {}", target.display()), error))?;
            mounts.target = Some(target);
        }
        Ok(mounts)
    }

    /// Returns the directory where the device is mounted during a phase, or `None` without a file system.
    pub(super) fn target(&self) -> Option<&Path> {
        self.target.as_deref()
    }

    /// The device as commands are to open it.
    pub(super) fn device(&self) -> &Path {
        &self.device
    }

    /// Mounts the device, if it has a file system.
    pub(super) fn mount(&mut self, setting: &Setting) -> Result<(), Trouble> {
        let Some(target) = &self.target else { return Ok(()) };
        let (device, name) = (&setting.device, setting.file_system.name());
        let what = format!("mount {} as {name}", device.display());
        let context = fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC).map_err(|error| Trouble::io(&what, error))?;
        let mounted = create(&context, device, setting).and_then(|attributes| {
            let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
            move_mount(&mount, "", CWD, target.as_path(), MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        });
        if let Err(error) = mounted {
            let messages = messages(&context);
            let trouble = if messages.is_empty() {
                Trouble::io(what, error)
            } else {
                Trouble::new(format!("cannot {what}: {}", messages.join("; ")))
            };
            let options = &setting.mount_options;
            return Err(
                trouble.hint(format!("mount options `{options}`; see also the kernel's log (`dmesg`)"))
            );
        }
        self.is_mounted = true;
        Ok(())
    }

    /// Gives the root directory to a user.
    pub(super) fn give_to(&self, account: &Account) -> Result<(), Trouble> {
        let Some(target) = &self.target else { return Ok(()) };
        let what = || format!("give {} to `{}`", target.display(), account.name);
        let owner = fs::metadata(target).map_err(|error| Trouble::io(what(), error))?;
        if (owner.uid(), owner.gid()) == (account.uid, account.gid) {
            return Ok(());
        }
        chown(target, Some(account.uid), Some(account.gid)).map_err(|error| Trouble::io(what(), error))
    }

    /// Syncs, unmounts and lets go of what the kernel keeps of the device, so that the next reader finds
    /// nothing in memory.
    pub(super) fn sync_and_unmount(&mut self) -> Result<Flushed, Trouble> {
        let mut lost = Vec::new();
        let mut synced_ns = monotonic_ns();
        if let Some(target) = self.target.as_ref().filter(|_| self.is_mounted) {
            match File::open(target).map(|root| syncfs(&root)) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => lost.push(format!("sync of the file system: {error}")),
                Err(error) => lost.push(format!("sync of the file system: {error}")),
            }
            synced_ns = monotonic_ns();
            unmount_all(target)?;
            self.is_mounted = false;
        }
        match File::open(&self.device) {
            Ok(device) => {
                if let Err(error) = fsync(&device) {
                    lost.push(format!("flush of the device: {error}"));
                }
                // Advice; otherwise, a file system that reads through this cache kept it
                // for as long as somebody else has the device open.
                let _ = fadvise(&device, 0, None, Advice::DontNeed);
            }
            Err(error) => lost.push(format!("flush of the device: {error}")),
        }
        let error = (!lost.is_empty()).then(|| lost.join("; "));
        Ok(Flushed { error, synced_ns })
    }
}

/// Unmounts, here only, the files that emulators serve. Where mounts are private from the start, as in many
/// containers, an emulator that unmounts its file would else wait for this namespace to end.
fn let_go_of_emulators() {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for line in table.lines().filter(|line| line.contains(" - fuse.seeklab ")) {
        if let Some(point) = line.split(' ').nth(4) {
            // If it fails, it is only held for longer.
            let _ = unmount(unescaped(point), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
    }
}

/// A path of mountinfo, where spaces and the like are octal: `\040`.
fn unescaped(path: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|_| *byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &after[3..];
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Makes the superblock; returns the attributes of its mount.
fn create(context: &OwnedFd, device: &Path, setting: &Setting) -> Result<MountAttrFlags, Errno> {
    fsconfig_set_string(context, "source", device)?;
    let mut attributes = MountAttrFlags::empty();
    for flag in setting.file_system.mount_options() {
        fsconfig_set_flag(context, *flag)?;
    }
    for option in setting.mount_options.sorted() {
        match option {
            MountOption::Attribute(attribute) => attributes |= attribute,
            MountOption::Flag(flag) => fsconfig_set_flag(context, flag)?,
            MountOption::Value(key, value) => fsconfig_set_string(context, key, value)?,
        }
    }
    fsconfig_create(context)?;
    Ok(attributes)
}

/// Returns the kernel's messages about a mount: lines such as `e ext4: Unknown parameter 'x'`.
fn messages(context: &OwnedFd) -> Vec<String> {
    let mut messages = Vec::new();
    let mut line = [0; 1024];
    while let Ok(count) = rustix::io::read(context, &mut line) {
        let line = String::from_utf8_lossy(&line[..count]);
        messages.push(line.trim().trim_start_matches(['e', 'w', 'i']).trim().to_owned());
    }
    messages
}

/// Unmounts what is on and under `target`.
fn unmount_all(target: &Path) -> Result<(), Trouble> {
    let begin_ns = monotonic_ns();
    loop {
        for nested in nested(target) {
            // One that is busy makes the target busy, which is reported below.
            let _ = unmount(nested, UnmountFlags::NOFOLLOW);
        }
        match unmount(target, UnmountFlags::NOFOLLOW) {
            Ok(()) => return Ok(()),
            // The command has unmounted it itself, as it may if it is root.
            Err(Errno::INVAL) => return Ok(()),
            Err(Errno::BUSY) if monotonic_ns().saturating_sub(begin_ns) < BUSY_WAIT.as_ns() => {
                let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
                let _ = rustix::event::poll(&mut [], Some(&pause));
            }
            Err(error) => return Err(Trouble::io(format!("unmount {}", target.display()), error)),
        }
    }
}

/// Mounts under `target`, the last one first.
fn nested(target: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped);
    let mut nested: Vec<_> = points.filter(|point| point != target && point.starts_with(target)).collect();
    nested.reverse();
    nested
}

/// A node of the device that a user may open, where only this namespace sees it.
fn private_node(device: &Path, place: &Path, account: &Account) -> Result<PathBuf, Trouble> {
    let what = format!("make a node of {} for `{}`", device.display(), account.name);
    let number = fs::metadata(device).map_err(|error| Trouble::io(&what, error))?.rdev();
    let node = place.join(device.file_name().unwrap_or(device.as_os_str()));
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, number)
        .and_then(|()| chownat(CWD, &node, Some(uid), Some(gid), AtFlags::empty()))
        .map_err(|error| Trouble::io(&what, error))?;
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_kernels_mount_table_are_unescaped() {
        for (written, path) in [("/mnt", "/mnt"), ("/a\\040b\\134", "/a b\\"), ("/a\\04", "/a\\04"), ("", "")]
        {
            assert_eq!(unescaped(written), PathBuf::from(path));
        }
    }
}
