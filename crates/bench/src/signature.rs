//! File systems, partition tables and other contents, recognised by their first bytes.
//!
//! # Scope and limits
//! The list has the contents that a user most likely has on a disk. Other contents are not recognised: `None` does not mean
//! that a device is empty.
//!
//! # References
//! Linux, `include/uapi/linux/magic.h`; util-linux, `libblkid/src/superblocks` and `libblkid/src/partitions`, for the
//! places of the marks.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Contents of a device that were recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// Name of the contents, with its article.
    pub name: &'static str,
}

impl fmt::Display for Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// Bytes at a place, and their meaning.
struct Mark {
    name: &'static str,
    at: usize,
    bytes: &'static [u8],
}

const fn mark(name: &'static str, at: usize, bytes: &'static [u8]) -> Mark {
    Mark { name, at, bytes }
}

/// The marks, the more certain ones first: a partition table follows its first partition's file system only if that
/// begins with the device.
const MARKS: &[Mark] = &[
    mark("a GPT partition table", 512, b"EFI PART"),
    mark("a GPT partition table", 4096, b"EFI PART"),
    mark("a LUKS volume", 0, b"LUKS\xba\xbe"),
    mark("an LVM physical volume", 512, b"LABELONE"),
    mark("an LVM physical volume", 0, b"LABELONE"),
    mark("an XFS file system", 0, b"XFSB"),
    mark("a btrfs file system", 65_600, b"_BHRfS_M"),
    mark("a swap area", 4_086, b"SWAPSPACE2"),
    mark("a swap area", 65_526, b"SWAPSPACE2"),
    mark("a member of a Linux RAID", 4_096, b"\xfc\x4e\x2b\xa9"),
    mark("a member of a Linux RAID", 0, b"\xfc\x4e\x2b\xa9"),
    mark("an f2fs file system", 1_024, b"\x10\x20\xf5\xf2"),
    mark("an EROFS file system", 1_024, b"\xe2\xe1\xf5\xe0"),
    mark("a squashfs file system", 0, b"hsqs"),
    mark("a bcache device", 4_120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    mark("a ZFS pool", 131_072, b"\x0c\xb1\xba\x00\x00\x00\x00\x00"),
    mark("an ISO 9660 file system", 32_769, b"CD001"),
    mark("an NTFS file system", 3, b"NTFS    "),
    mark("an exFAT file system", 3, b"EXFAT   "),
    mark("a FAT file system", 82, b"FAT32   "),
    mark("a FAT file system", 54, b"FAT1"),
    mark("a qcow2 image", 0, b"QFI\xfb"),
    mark("an ext2, ext3 or ext4 file system", 1_080, b"\x53\xef"),
    mark("an MBR partition table", 510, b"\x55\xaa"),
];

/// Bytes that are read: up to the end of the last mark.
pub(crate) const LENGTH: usize = 132 << 10;

/// Returns what the beginning of a file or device holds, as far as it is recognised.
///
/// # Errors
/// If it cannot be read.
pub fn signature_of(path: &Path) -> io::Result<Option<Signature>> {
    let mut bytes = Vec::with_capacity(LENGTH);
    File::open(path)?.take(LENGTH as u64).read_to_end(&mut bytes)?;
    Ok(signature(&bytes))
}

/// Returns what begins with those bytes, [`LENGTH`] of them, as far as it is recognised.
pub(crate) fn signature(bytes: &[u8]) -> Option<Signature> {
    let holds = |mark: &&Mark| bytes.get(mark.at..).is_some_and(|rest| rest.starts_with(mark.bytes));
    MARKS.iter().find(holds).map(|mark| Signature { name: mark.name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_at_their_places_alone() {
        for mark in MARKS {
            let mut bytes = vec![0; LENGTH];
            assert_eq!(signature(&bytes), None);
            bytes[mark.at..mark.at + mark.bytes.len()].copy_from_slice(mark.bytes);
            assert_eq!(signature(&bytes), Some(Signature { name: mark.name }));
            bytes.rotate_right(1);
            assert_eq!(signature(&bytes), None, "{} one byte later", mark.name);
            assert_eq!(signature(&bytes[..mark.at]), None);
        }
    }
}
