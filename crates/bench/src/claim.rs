//! Leave to write to a target: refused if somebody uses it, and given only to who names what is lost.
//!
//! ```text
//! mounted, swap, held by a driver ─▶ refused      name typed again (--destroy) ─▶ opened for us alone ─▶ Claim
//! ```
//! # Scope and limits
//! Linux. A block device stays opened exclusively (`O_EXCL`) as long as its claim lives, so nothing can be mounted on it
//! meanwhile. For a file only its use as a swap file and below a loop device is known.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use crate::error::TargetError;
use crate::signature::signature_of;

/// A request for leave to write.
#[derive(Debug, Clone, Copy)]
pub struct ClaimOptions<'a> {
    /// Address of the target, as the user wrote it.
    pub address: &'a str,
    /// File or block device, if the target is one of this machine.
    pub path: Option<&'a Path>,
    /// Name of the target, typed again.
    pub destroy: Option<&'a str>,
    /// True of a file that this run makes.
    pub is_own: bool,
    /// True of a device whose contents nobody loses ([`TargetKind::is_expendable`](crate::target::TargetKind)).
    pub is_expendable: bool,
}

/// Leave to write to a target. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the leave ends when this is dropped"]
pub struct Claim {
    _exclusive: Option<File>,
}

/// Gives leave to write.
///
/// # Errors
/// If the target is in use, or its name was not typed again. The message names what is on it.
pub fn claim(options: ClaimOptions<'_>) -> Result<Claim, TargetError> {
    let ClaimOptions { address, path, destroy, is_own, is_expendable } = options;
    if let Some(path) = path
        && let Some(user) = user_of(path)
    {
        let hint = "unmount or detach it first; reading it is allowed, read=100%";
        return Err(TargetError::unusable(address, format!("{user}, so nothing is written to it"), hint));
    }
    if is_own {
        return Ok(Claim { _exclusive: None });
    }
    if path.is_some_and(is_read_only) {
        let hint = "read only with read=100%, or name a device that takes writes";
        return Err(TargetError::unusable(address, "is read-only, and the workload writes", hint));
    }
    let contents = path.and_then(|path| signature_of(path).ok().flatten());
    let holds =
        contents.map_or_else(|| "its contents".to_owned(), |contents| format!("{contents} that is on it"));
    match destroy {
        Some(name) if name == address || path.is_some_and(|path| Path::new(name) == path) => {}
        Some(name) => {
            let problem = format!("--destroy names `{name}`, another target");
            return Err(TargetError::unusable(
                address,
                problem,
                format!("write --destroy {address}, which destroys {holds}"),
            ));
        }
        None if is_expendable => {}
        None => {
            let problem = format!("the workload writes, which destroys {holds}");
            let hint = format!("add --destroy {address} to overwrite it, or read only with read=100%");
            return Err(TargetError::unusable(address, problem, hint));
        }
    }
    let is_block_device = path
        .is_some_and(|path| fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device()));
    let Some(path) = path.filter(|_| is_block_device) else { return Ok(Claim { _exclusive: None }) };
    let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    match open(path, flags, Mode::empty()) {
        Ok(descriptor) => Ok(Claim { _exclusive: Some(File::from(descriptor)) }),
        Err(Errno::BUSY) => Err(TargetError::unusable(
            address,
            "is held by another driver or program, so nothing is written to it",
            "detach it first",
        )),
        Err(error) => Err(TargetError::io(address, "claim", error)),
    }
}

/// A user of a file or block device in words, if there is one.
fn user_of(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let mut devices = Vec::new();
    if metadata.file_type().is_block_device() {
        devices.push((path.to_owned(), metadata.rdev()));
        devices.extend(partitions(metadata.rdev()));
    }
    for (name, device) in &devices {
        if let Some(place) = mount_point(*device) {
            return Some(format!("{} is mounted on {place}", name.display()));
        }
        if let Some(holder) = holder(*device) {
            return Some(format!("{} is held by {holder}", name.display()));
        }
    }
    let is_same = |other: &fs::Metadata| match metadata.file_type().is_block_device() {
        true => {
            other.file_type().is_block_device() && devices.iter().any(|(_, device)| *device == other.rdev())
        }
        false => (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()),
    };
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let mut swaps = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    if swaps.any(|swap| fs::metadata(swap).is_ok_and(|swap| is_same(&swap))) {
        return Some("is used as swap".to_owned());
    }
    let loops = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    for entry in loops {
        let Ok(backing) = fs::read_to_string(entry.path().join("loop/backing_file")) else { continue };
        if fs::metadata(backing.trim_end()).is_ok_and(|backing| is_same(&backing)) {
            return Some(format!("is attached to /dev/{}", entry.file_name().to_string_lossy()));
        }
    }
    None
}

/// Returns true of a block device that takes no writes.
fn is_read_only(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else { return false };
    let state = |folder: PathBuf| fs::read_to_string(folder.join("ro")).ok();
    metadata.file_type().is_block_device()
        && folder(metadata.rdev()).and_then(state).is_some_and(|state| state.trim() == "1")
}

/// Folder of a block device in sysfs.
fn folder(device: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}

/// The partitions of a block device.
fn partitions(device: u64) -> Vec<(PathBuf, u64)> {
    let entries = folder(device).and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let partitions = entries.filter(|entry| entry.path().join("partition").exists());
    let number = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        let device = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
        Some((Path::new("/dev").join(entry.file_name()), device))
    };
    partitions.filter_map(number).collect()
}

/// A device that is built on this one, such as a RAID or a mapping.
fn holder(device: u64) -> Option<String> {
    let mut holders = fs::read_dir(folder(device)?.join("holders")).ok()?.flatten();
    holders.next().map(|holder| format!("/dev/{}", holder.file_name().to_string_lossy()))
}

/// A place on which a block device is mounted.
///
/// File systems with several devices have a device number of their own, so the names of sources are compared, too.
fn mount_point(device: u64) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    mounts.lines().find_map(|line| {
        let (place, source) = line.split_once(" - ")?;
        let fields: Vec<&str> = place.split(' ').collect();
        let source = source.split(' ').nth(1)?;
        let is_source = || {
            fs::metadata(source)
                .is_ok_and(|source| source.file_type().is_block_device() && source.rdev() == device)
        };
        (fields.get(2)? == &number || is_source()).then(|| (*fields.get(4).unwrap_or(&"?")).to_owned())
    })
}
