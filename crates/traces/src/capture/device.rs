//! Identifies the block device, and the processors of this machine.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::error::CaptureError;
use crate::event::pairing::SECTOR_BYTES;

/// The block device to capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    /// The number that the block layer's events call `dev`: the major number above 20 bits of minor, of the
    /// whole device.
    pub(super) number: u32,
    /// First sector of a partition and the one behind its last; `None` for a whole device.
    pub(super) partition: Option<(u64, u64)>,
    /// True if the device is given bios and makes no requests of them.
    pub(super) takes_bios: bool,
    /// Bytes of its logical blocks.
    pub(super) block_bytes: u64,
    /// Bytes that it holds.
    pub(super) size_bytes: u64,
}

impl Target {
    /// The block device at `path`.
    pub(super) fn of(path: &Path) -> Result<Self, CaptureError> {
        let failed = |source| CaptureError::Device { path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(failed)?;
        if !metadata.file_type().is_block_device() {
            return Err(CaptureError::NotABlockDevice { path: path.to_owned() });
        }
        let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        let described = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let described = described.canonicalize().map_err(failed)?;
        let size = number(&described.join("size")).map_err(failed)?;
        let (whole, partition) = if described.join("partition").exists() {
            let start = number(&described.join("start")).map_err(failed)?;
            let whole = described.parent().expect("a partition is within its device");
            (whole.to_owned(), Some((start, start + size)))
        } else {
            (described, None)
        };
        let device = fs::read_to_string(whole.join("dev")).map_err(failed)?;
        let numbers = device.trim().split_once(':');
        let numbers = numbers.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let (major, minor): (u32, u32) = numbers
            .ok_or_else(|| failed(io::Error::other(format!("`{}` is no device number", device.trim()))))?;
        Ok(Self {
            number: (major << 20) | minor,
            partition,
            takes_bios: !whole.join("mq").is_dir(),
            block_bytes: number(&whole.join("queue/logical_block_size")).map_err(failed)?,
            size_bytes: size * SECTOR_BYTES,
        })
    }

    /// The events that matter, as the kernel filters them. A flush has no address, so a partition gets those
    /// of the whole device.
    pub(super) fn filter(&self) -> String {
        match self.partition {
            None => format!("dev == {}", self.number),
            Some((start, end)) => {
                format!("dev == {} && ((sector >= {start} && sector < {end}) || nr_sector == 0)", self.number)
            }
        }
    }
}

/// Returns true if the file system reports that the file or folder at `path` lies on the block device at
/// `device` or on one of its partitions. False for a file system that spans several devices.
pub(super) fn holds(device: &Path, path: &Path) -> bool {
    let whole = |device: u64| -> Option<PathBuf> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let described = PathBuf::from(format!("/sys/dev/block/{major}:{minor}")).canonicalize().ok()?;
        match described.join("partition").exists() {
            true => described.parent().map(Path::to_owned),
            false => Some(described),
        }
    };
    let device = fs::metadata(device).ok().and_then(|metadata| whole(metadata.rdev()));
    let on = fs::metadata(path).ok().and_then(|metadata| whole(metadata.dev()));
    device.is_some() && device == on
}

/// The number that a file of the kernel holds.
fn number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| io::Error::other(format!("`{}` is no number", text.trim())))
}

/// Numbers of the processors that are online.
pub(super) fn processors() -> Result<Vec<u32>, CaptureError> {
    let path = Path::new("/sys/devices/system/cpu/online");
    let failed = |source| CaptureError::Kernel { action: "list the processors", source };
    let text = fs::read_to_string(path).map_err(failed)?;
    parse_list(text.trim()).ok_or_else(|| failed(io::Error::other(format!("`{}` is no list", text.trim()))))
}

/// A list of numbers as the kernel writes it, such as `0-3,7`.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first > 65_536 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_parsed() {
        assert_eq!(parse_list("0"), Some(vec![0]));
        assert_eq!(parse_list("0-2,5,8-9"), Some(vec![0, 1, 2, 5, 8, 9]));
        for wrong in ["", "3-1", "a", "0-", "0-4294967295"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn paths_other_than_block_devices_are_refused() {
        assert!(matches!(Target::of(Path::new("/dev/null")), Err(CaptureError::NotABlockDevice { .. })));
        assert!(matches!(Target::of(Path::new("/no/such")), Err(CaptureError::Device { .. })));
    }
}
