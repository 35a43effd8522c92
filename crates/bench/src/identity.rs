//! The identity of a device: size, serial number and model.
//!
//! # Scope and limits
//! Linux. Everything comes from sysfs, and the serial numbers that only drivers know from the database of udev, so no
//! privilege is needed. Loop devices, RAM disks and some virtual disks have no serial number. A partition has that of its disk.
//!
//! # References
//! Linux, `Documentation/ABI/stable/sysfs-block`; `drivers/scsi/scsi_sysfs.c` for `vpd_pg80`; `drivers/nvme/host/sysfs.c`.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of a sector of sysfs.
const SECTOR_BYTES: u64 = 512;

/// Identity of a file, a block device, or a device behind a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceIdentity {
    /// Its path without links; empty behind a server.
    pub path: PathBuf,
    /// True of a block device.
    pub is_block_device: bool,
    /// Its size.
    pub capacity_bytes: u64,
    /// Serial number of the device.
    pub serial: Option<String>,
    /// Model of the device.
    pub model: Option<String>,
}

impl DeviceIdentity {
    /// Returns the identity of the file or block device at `path`.
    ///
    /// # Errors
    /// If there is none, or the system refuses to look at it.
    pub fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let path = fs::canonicalize(path)?;
        if !metadata.file_type().is_block_device() {
            return Ok(Self { path, capacity_bytes: metadata.len(), ..Self::default() });
        }
        let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        let folder = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))?;
        let udev = fs::read_to_string(format!("/run/udev/data/b{major}:{minor}")).unwrap_or_default();
        Ok(Self { path, is_block_device: true, ..Self::in_sysfs(&folder, &udev) })
    }

    /// The identity of a block device from its folder in sysfs and its entry in the database of udev.
    fn in_sysfs(folder: &Path, udev: &str) -> Self {
        let sectors = text(&folder.join("size")).and_then(|sectors| sectors.parse::<u64>().ok());
        let disk = match folder.parent() {
            Some(disk) if folder.join("partition").exists() => disk,
            _ => folder,
        };
        let of_files = |names: &[&str]| {
            names.iter().find_map(|name| text(&disk.join(name)).filter(|text| !text.is_empty()))
        };
        let of_udev = |key: &str| {
            let mut lines = udev.lines().filter_map(|line| line.strip_prefix("E:")?.split_once('='));
            lines.find_map(|(name, value)| (name == key).then(|| value.trim().to_owned()))
        };
        let serial = of_files(&["serial", "device/serial"])
            .or_else(|| unit_serial(&fs::read(disk.join("device/vpd_pg80")).ok()?))
            .or_else(|| of_udev("ID_SERIAL_SHORT"))
            .or_else(|| of_files(&["dm/uuid", "md/uuid"]));
        Self {
            capacity_bytes: sectors.unwrap_or(0).saturating_mul(SECTOR_BYTES),
            serial,
            model: of_files(&["device/model"]).or_else(|| of_udev("ID_MODEL")),
            ..Self::default()
        }
    }
}

/// Text of a small file without the space around it.
fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim_matches(['\0', ' ', '\n', '\t']).to_owned())
}

/// Serial number in the page 80h of a SCSI device: a header of four bytes, then text.
fn unit_serial(page: &[u8]) -> Option<String> {
    let length = usize::from(u16::from_be_bytes([*page.get(2)?, *page.get(3)?]));
    let serial = String::from_utf8_lossy(page.get(4..4 + length)?);
    let serial = serial.trim_matches(['\0', ' ']);
    (!serial.is_empty()).then(|| serial.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    #[test]
    fn serial_number_and_size_come_from_the_files_of_each_kind_of_disk() {
        let size: (&str, &[u8]) = ("size", b"2048\n");
        let nvme =
            tree(&[size, ("device/serial", b"S4EVNX0R112233  \n"), ("device/model", b"FastDisk 1TB  \n")]);
        let identity = DeviceIdentity::in_sysfs(nvme.path(), "");
        assert_eq!(identity.capacity_bytes, 1 << 20);
        assert_eq!(identity.serial.as_deref(), Some("S4EVNX0R112233"));
        assert_eq!(identity.model.as_deref(), Some("FastDisk 1TB"));
        let virtio = tree(&[size, ("serial", b"vol-0a1b")]);
        assert_eq!(DeviceIdentity::in_sysfs(virtio.path(), "").serial.as_deref(), Some("vol-0a1b"));
        let scsi = tree(&[size, ("device/vpd_pg80", b"\x00\x80\x00\x08  K7ZX41")]);
        assert_eq!(DeviceIdentity::in_sysfs(scsi.path(), "").serial.as_deref(), Some("K7ZX41"));
        let sata = tree(&[size]);
        let udev = "S:disk/by-id/x\nE:ID_SERIAL=Disk_WX31\nE:ID_SERIAL_SHORT=WX31\nE:ID_MODEL=Disk\n";
        let identity = DeviceIdentity::in_sysfs(sata.path(), udev);
        assert_eq!((identity.serial.as_deref(), identity.model.as_deref()), (Some("WX31"), Some("Disk")));
        assert_eq!(DeviceIdentity::in_sysfs(sata.path(), "").serial, None);
    }

    #[test]
    fn partition_has_its_own_size_and_the_serial_number_of_its_disk() {
        let disk =
            tree(&[("size", b"4096"), ("serial", b"D1"), ("vda1/size", b"1024"), ("vda1/partition", b"1\n")]);
        let identity = DeviceIdentity::in_sysfs(&disk.path().join("vda1"), "");
        assert_eq!((identity.capacity_bytes, identity.serial.as_deref()), (512 << 10, Some("D1")));
    }

    #[test]
    fn file_has_a_size_and_no_serial_number() {
        let folder = tree(&[("disk.img", &[0; 3000])]);
        let identity = DeviceIdentity::of(&folder.path().join("disk.img")).unwrap();
        assert_eq!((identity.capacity_bytes, identity.is_block_device, identity.serial), (3000, false, None));
    }
}
